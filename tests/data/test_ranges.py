"""`/range`: which rows, in which order, with which columns; and what a reader costs others."""

import json
from collections.abc import Iterator
from pathlib import Path

import lmdb
import pyarrow as pa
import pytest

import tiercel
from data.served import Served, serving, until
from tiercel import columns
from tiercel.data.ranges import PIECE_ROWS
from tiercel.engine.records import encode_stats, message_key, slot_key, split_message_key
from tiercel.model.identifiers import lookup_id_sequence
from tiercel.store import Keyspace
from tiercel.store.interface import View
from tiercel.store.lmdb_store import LmdbStore

MIXED = r".\private$\mixed"
MANY = r".\private$\many"
DAMAGED = r".\private$\damaged"
EXPRESS = r".\private$\express"
LARGE = r".\private$\large"
COUNT = 200_000
PIECES_OF_LARGE = [3 << 20, 1, 4_000_000, 4_000_000, 4_000_000, 2, 3]
LAST = 2**56 - 1


def prepare(manager: tiercel.EmbeddedQueueManager) -> None:
    mixed = manager.create_queue(MIXED, journaling=True)
    for number in range(40):
        mixed.send(
            tiercel.Message(
                f"body {number}".encode(),
                label=f"{number}",
                delivery=1,
                priority=number % 8,
                application_tag=number,
            )
        )
    mixed.receive(0)
    many, damaged = manager.create_queue(MANY), manager.create_queue(DAMAGED)
    many.send(tiercel.Message(b"x" * 400, delivery=1))
    with manager.batch():
        for number in range(PIECE_ROWS + 10):
            damaged.send(tiercel.Message(b"", label=f"{number}", delivery=1))
    manager.create_queue(EXPRESS)
    large = manager.create_queue(LARGE)
    for size in PIECES_OF_LARGE:
        large.send(tiercel.Message(bytes(size), delivery=1))


def change(store: LmdbStore) -> None:
    """Has many messages in one queue, which is quicker than sending them, and a flipped bit in another."""
    batch = store.begin()
    ((many, only),) = _rows(batch, MANY)
    slot, lookup_id = split_message_key(many)
    for number in range(1, COUNT):
        batch.put(Keyspace.MESSAGES, message_key(slot, lookup_id + number), only)
    batch.put(Keyspace.STATS, slot_key(slot), encode_stats(COUNT, COUNT * len(only)))
    last = lookup_id_sequence(lookup_id) + 2 * COUNT
    batch.put(Keyspace.META, b"sequential_id", last.to_bytes(8, "big"))
    key, value = _rows(batch, DAMAGED)[PIECE_ROWS + 5]
    batch.put(Keyspace.MESSAGES, key, value[:-1] + bytes([value[-1] ^ 1]))
    batch.commit()


def _rows(view: View, queue: str) -> list[tuple[bytes, bytes]]:
    name = queue.rpartition("\\")[2].encode()
    (slot,) = [
        int.from_bytes(key, "big") for key, data in view.range(Keyspace.QUEUES, b"", b"\x80") if name in data
    ]
    return list(view.range(Keyspace.MESSAGES, message_key(slot, 0), message_key(slot + 1, 0)))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("ranges")
    with tiercel.open(folder / "data", computer_name="HOST") as manager:
        prepare(manager)
    store = LmdbStore.open(folder / "data")
    change(store)
    store.close()
    with serving(folder) as served:
        yield served


class TestRows:
    def test_by_priority_and_arrival(self, served: Served) -> None:
        rows = served.read(queue=MIXED, lo=0, hi=LAST)
        assert rows.schema == columns.arrow_schema()
        wanted = sorted(range(40), key=lambda number: (-(number % 8), number))[1:]
        assert rows.column("label").to_pylist() == [f"{number}" for number in wanted]
        assert rows.column("body").to_pylist() == [f"body {number}".encode() for number in wanted]
        assert rows.column("app_specific").to_pylist() == wanted
        assert set(rows.column("queue").to_pylist()) == {r"HOST\private$\mixed"}
        assert rows.column("claim_seq").null_count == 39

    def test_of_a_stretch(self, served: Served) -> None:
        lo = served.get("/head", queue=MIXED)["lo"]
        rows = served.read(queue=MIXED, lo=lo + 10, hi=lo + 20, columns="label")
        assert sorted(map(int, rows.column("label").to_pylist())) == list(range(10 + lo, 20 + lo))
        assert served.read(queue=MIXED, lo=20, hi=20).num_rows == 0
        assert served.read(queue=MIXED, lo=21, hi=20).num_rows == 0

    def test_the_columns_that_were_asked_for(self, served: Served) -> None:
        rows = served.read(queue=MIXED, lo=0, hi=LAST, columns="label,lookup_id", includeRaw="true")
        assert rows.schema.names == ["label", "lookup_id", "raw"]
        assert all(raw[4:8] == b"LIOR" for raw in rows.column("raw").to_pylist())
        assert served.read(queue=MIXED, lo=0, hi=LAST, columns="").schema.names == []

    def test_filters(self, served: Served) -> None:
        def found(**query: str) -> list[str]:
            rows = served.read(queue=MIXED, lo=0, hi=LAST, columns="label", **query)
            return sorted(rows.column("label").to_pylist())

        assert found(labelLike="1_") == [f"{number}" for number in range(10, 20)]
        assert found(labelLike="%9", **{"class": "0"}) == ["19", "29", "39", "9"]
        assert found(**{"class": "ACK_RECEIVE"}) == []
        assert found(sentAfter="2100-01-01") == []
        assert len(found(sentBefore="2100-01-01")) == 39

    def test_journal(self, served: Served) -> None:
        rows = served.read(queue=MIXED, lo=0, hi=LAST, **{"from": "journal"})
        assert rows.column("label").to_pylist() == ["7"]

    def test_large_messages(self, served: Served) -> None:
        rows = served.read(queue=LARGE, lo=0, hi=LAST, columns="body_size,body")
        assert rows.column("body_size").to_pylist() == PIECES_OF_LARGE
        assert [len(body.as_py()) for body in rows.column("body")] == PIECES_OF_LARGE

    def test_express_messages_come_last(self, served: Served) -> None:
        sent = [{"body": b"", "label": f"{number}", "delivery": number % 2} for number in range(2500)]
        served.publish(EXPRESS, sent, transactional=False)
        head = served.get("/head", queue=EXPRESS)
        rows = served.read(queue=EXPRESS, lo=head["lo"], hi=head["hi"], columns="label,delivery")
        assert rows.column("delivery").to_pylist() == [1] * 1250 + [0] * 1250
        assert rows.column("label").to_pylist() == [
            row["label"] for kind in (1, 0) for row in sent if row["delivery"] == kind
        ]
        half = served.read(queue=EXPRESS, lo=head["lo"], hi=head["lo"] + 1250, columns="label")
        assert sorted(map(int, half.column("label").to_pylist())) == list(range(1250))
        cuts = served.get("/cuts", queue=EXPRESS, lo=head["lo"], hi=head["hi"], rows=1000)["cuts"]
        assert [count for _, count, _ in cuts] == [1000, 1000, 500]


class TestDamaged:
    def test_fails_after_what_is_sound(self, served: Served) -> None:
        with served.asked("GET", "/range", queue=DAMAGED, lo=0, hi=LAST, columns="label") as response:
            stream = pa.ipc.open_stream(response)
            assert stream.read_next_batch().num_rows == PIECE_ROWS
            with pytest.raises(StopIteration):
                stream.read_next_batch()
            problem = json.loads(response.read())
        assert problem["status"] == 500
        assert "checksum" in problem["detail"]

    def test_becomes_a_row_with_its_error(self, served: Served) -> None:
        rows = served.read(
            queue=DAMAGED, lo=0, hi=LAST, columns="label,decode_error", badMessageMode="column"
        )
        assert rows.num_rows == PIECE_ROWS + 10
        assert rows.column("decode_error").null_count == PIECE_ROWS + 9
        assert rows.column("label")[PIECE_ROWS + 5].as_py() is None

    def test_is_left_out(self, served: Served) -> None:
        rows = served.read(queue=DAMAGED, lo=0, hi=LAST, columns="label", badMessageMode="skip")
        assert rows.num_rows == PIECE_ROWS + 9


class TestCost:
    def test_memory_stays_bounded(self, served: Served) -> None:
        served.read(queue=MIXED, lo=0, hi=LAST)  # what is loaded once is loaded
        pid, before, most, rows = served.data_pid, _own_memory(served.data_pid), 0, 0
        with served.asked("GET", "/range", queue=MANY, lo=0, hi=LAST) as response:
            for batch in pa.ipc.open_stream(response):
                rows += batch.num_rows
                most = max(most, _own_memory(pid))
        assert rows == COUNT
        assert most - before < 100 << 20

    def test_a_slow_client_holds_no_snapshot(self, served: Served) -> None:
        with served.asked("GET", "/range", queue=MANY, lo=0, hi=LAST) as response:
            response.read(100_000)
            until(lambda: not _reads_now(served))  # the stream stands still as soon as the sockets are full

    def test_a_client_that_goes_ends_its_stream(self, served: Served) -> None:
        def comes_and_goes() -> bool:
            with served.asked("GET", "/range", queue=LARGE, lo=0, hi=LAST, columns="body") as response:
                response.read(1000)
                return response.status == 200

        for _ in range(40):  # more than there may be at a time
            until(comes_and_goes)
        assert served.read(queue=MIXED, lo=0, hi=LAST).num_rows == 39


def _own_memory(pid: int) -> int:
    """Bytes that are the process's own: pages of the store, which it maps, belong to everybody."""
    lines = Path(f"/proc/{pid}/status").read_text("ascii").splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("RssAnon"))


def _reads_now(served: Served) -> bool:
    """Whether the data process has a snapshot open, as LMDB's own table of readers tells."""
    with lmdb.open(served.start["data"], readonly=True, create=False, max_readers=254) as environment:
        rows = [line.split() for line in environment.readers().splitlines()[1:]]
    return any(int(row[0]) == served.data_pid and row[-1] != "-" for row in rows)
