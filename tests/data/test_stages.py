"""Staged sends over HTTP: stage, publish once, discard; and rows that cannot be sent."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest

import tiercel
from data.served import Served, arrow, serving, stream
from tiercel import columns
from tiercel.data import staged_rows

PLAIN, STEPS, STRICT = r".\private$\plain", r".\private$\steps", r".\private$\strict"
WHOLE = r".\private$\whole"
LAST = 2**56 - 1


def prepare(manager: tiercel.EmbeddedQueueManager) -> None:
    manager.create_queue(PLAIN)
    manager.create_queue(STEPS, transactional=True)
    manager.create_queue(WHOLE, transactional=True)
    manager.create_queue(STRICT, transactional=True, authentication=True)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("stages"), prepare) as served:
        yield served


def rows(*labels: str) -> bytes:
    return arrow([{"body": b"x", "label": label} for label in labels])


def labels(served: Served, queue: str, prefix: str) -> list[str]:
    found = served.read(queue=queue, lo=0, hi=LAST, columns="label").column("label").to_pylist()
    return [label for label in found if label.startswith(prefix)]


class TestPublish:
    def test_once_and_in_order(self, served: Served) -> None:
        assert served.put("/stages/spark/7/0/a1", rows("p0", "p1"), chunk=0)["rows"] == 2
        assert served.put("/stages/spark/7/0/a1", rows("p2"), chunk=1)["chunks"] == 2
        assert served.put("/stages/spark/7/1/b1", rows("p3"))["rows"] == 1
        assert served.put("/stages/spark/7/1/loser", rows("lost"))["rows"] == 1
        listed = {each["stage"]: each for each in served.get("/stages")["stages"]}
        assert set(listed) == {"spark/7/0/a1", "spark/7/1/b1", "spark/7/1/loser"}
        assert listed["spark/7/0/a1"]["rows"] == 3
        assert listed["spark/7/0/a1"]["age"] >= 0
        assert labels(served, STEPS, "p") == []

        body = {"app": "spark", "batch": "7", "stages": ["spark/7/0/a1", "spark/7/1/b1"], "queue": STEPS}
        assert served.post("/publish", **body).value == {"published": 4, "already": False}
        assert labels(served, STEPS, "") == ["p0", "p1", "p2", "p3"]
        assert served.post("/publish", **body).value == {"published": 4, "already": True}
        assert labels(served, STEPS, "") == ["p0", "p1", "p2", "p3"]
        assert served.get("/stages")["stages"] == []
        late = served.put("/stages/spark/7/0/a2", rows("late"))
        assert (late.status, late["code"]) == (409, "TIERCEL_ERROR_STAGE_REFUSED")

    def test_rows_become_messages_by_and_by(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Each slice is one turn of the event loop, and a chunk may have very many rows."""
        sizes, decode = [], columns.messages_of

        def messages_of(batch: pa.RecordBatch) -> Iterator[tuple[str | None, tiercel.Message]]:
            sizes.append(batch.num_rows)
            return decode(batch)

        monkeypatch.setattr(columns, "messages_of", messages_of)
        read = list(staged_rows.rows_of(PLAIN)(rows(*map(str, range(1200)))))
        assert [message.label for _, message in read] == [*map(str, range(1200))]
        assert sizes == [500, 500, 200]

    def test_signed_by_the_queue_manager(self, served: Served) -> None:
        """In slices; without `sign` a queue that demands it takes none of them."""
        count = 300
        served.put("/stages/spark/s/0/a", rows(*(f"s{number}" for number in range(count))))
        body = {"app": "spark", "batch": "s", "stages": ["spark/s/0/a"], "queue": STRICT}
        refused = served.post("/publish", **body)
        assert refused["code"] == "MQ_ERROR_MESSAGE_NOT_AUTHENTICATED"
        assert served.post("/publish", **body, sign=True).value == {"published": count, "already": False}
        assert served.post("/publish", **body, sign=True).value == {"published": count, "already": True}
        found = served.read(queue=STRICT, lo=0, hi=LAST, columns="label,authenticated").to_pylist()
        assert [row["label"] for row in found] == [f"s{number}" for number in range(count)]
        assert {row["authenticated"] for row in found} == {True}

    def test_whole_packets(self, served: Served) -> None:
        """A signature stays for the same destination, and is verified again; another one has none."""
        row = {"body": b"\0\1", "label": "whole", "extension": b"e", "ttbr": 9}
        served.put("/stages/raw/0/0/a", stream(pa.Table.from_pylist([row])))
        first = {"app": "raw", "batch": "0", "stages": ["raw/0/0/a"], "queue": STRICT, "sign": True}
        assert served.post("/publish", **first)["published"] == 1

        def last(queue: str) -> dict[str, Any]:
            found = served.read(queue=queue, lo=0, hi=LAST, columns=f"{','.join(columns.names())},raw")
            newest: dict[str, Any] = found.to_pylist()[-1]
            return newest

        original = last(STRICT)
        for batch, queue in enumerate((STRICT, STEPS), 1):
            table = pa.table({"raw": pa.array([original["raw"]], pa.binary())})
            assert served.put(f"/stages/raw/{batch}/0/a", stream(table))["rows"] == 1
            body = {"app": "raw", "batch": str(batch), "stages": [f"raw/{batch}/0/a"], "queue": queue}
            assert served.post("/publish", **body)["published"] == 1
        given_anew = {
            "queue",
            "lookup_id",
            "claim_seq",
            "arrived_time",
            "sent_time",
            "message_id",
            "xact_id",
            "raw",
        }
        again, other = last(STRICT), last(STEPS)
        assert {name for name in original if original[name] != again[name]} <= given_anew
        assert again["message_id"] != original["message_id"]
        assert (again["authenticated"], other["authenticated"]) == (True, False)
        of_the_signature = {"authenticated", "auth_level", "signature", "sender_cert", "dest_queue"}
        assert {name for name in original if original[name] != other[name]} <= given_anew | of_the_signature
        forged = original["raw"].replace(b"\0\1", b"\0\2")
        assert forged != original["raw"]
        served.put("/stages/raw/3/0/a", stream(pa.table({"raw": pa.array([forged], pa.binary())})))
        body = {"app": "raw", "batch": "3", "stages": ["raw/3/0/a"], "queue": STRICT}
        assert served.post("/publish", **body).status >= 400

    def test_rows_may_name_their_queue(self, served: Served) -> None:
        data = arrow(
            [
                {"body": b"1", "label": "n1", "queue": PLAIN},
                {"body": b"2", "label": "n2", "queue": rf"DIRECT=OS:{PLAIN}"},
                {"body": b"3", "label": "n3", "queue": "plain"},
                {"body": b"4", "label": "n4", "queue": rf"FormatName:DIRECT=OS:{PLAIN}"},
            ]
        )
        served.put("/stages/named/1/0/a", data)
        body = {"app": "named", "batch": "1", "stages": ["named/1/0/a"]}
        assert served.post("/publish", **body, transactional=False)["published"] == 4
        assert labels(served, PLAIN, "n") == ["n1", "n2", "n3", "n4"]

    def test_a_reader_meanwhile_sees_all_or_nothing(self, served: Served) -> None:
        count = 8000
        table = pa.table({"body": pa.array([b"y" * 100] * count, pa.binary()), "label": ["whole"] * count})
        assert served.put("/stages/whole/1/0/a", stream(table))["rows"] == count
        body = {"app": "whole", "batch": "1", "stages": ["whole/1/0/a"], "queue": WHOLE}
        seen: set[int] = set()
        with ThreadPoolExecutor(2) as pool:
            published = pool.submit(served.post, "/publish", **body)

            def count_cuts() -> None:
                while not published.done():
                    cuts = served.get("/cuts", queue=WHOLE, lo=0, hi=LAST)["cuts"]
                    seen.add(sum(rows for _, rows, _ in cuts))

            counted = pool.submit(count_cuts)
            while not published.done():
                seen.add(served.read(queue=WHOLE, lo=0, hi=LAST, columns="label").num_rows)
            counted.result()
        assert published.result()["published"] == count
        assert seen <= {0, count}
        assert served.read(queue=WHOLE, lo=0, hi=LAST, columns="label").num_rows == count

    def test_a_large_one_in_slices(self, served: Served) -> None:
        table = pa.table({"body": pa.array([b"y" * 100] * 3000, pa.binary()), "label": ["large"] * 3000})
        for part in range(4):
            assert served.put(f"/stages/large/1/{part}/a", stream(table))["rows"] == 3000
        stages = [f"large/1/{part}/a" for part in range(4)]
        answer = served.post("/publish", app="large", batch="1", stages=stages, queue=STEPS)
        assert answer["published"] == 12_000
        assert len(labels(served, STEPS, "large")) == 12_000

    @pytest.mark.parametrize(
        ("body", "status", "code"),
        [
            ({"stages": ["miss/1/0/b"], "queue": PLAIN}, 404, "TIERCEL_ERROR_STAGE_NOT_FOUND"),
            ({"stages": ["miss/1/0/a"]}, 400, "MQ_ERROR_INVALID_PARAMETER"),
            ({"stages": ["miss/1/0/a"], "queue": r".\private$\none"}, 404, "MQ_ERROR_QUEUE_NOT_FOUND"),
            ({"stages": ["miss/1/0/a"], "queue": PLAIN}, 400, "MQ_ERROR_TRANSACTION_USAGE"),
            ({"stages": ["miss/1"], "queue": PLAIN}, 400, "MQ_ERROR_INVALID_PARAMETER"),
        ],
    )
    def test_that_fails_publishes_nothing(
        self, served: Served, body: dict[str, Any], status: int, code: str
    ) -> None:
        served.put("/stages/miss/1/0/a", rows("miss"))
        answer = served.post("/publish", app="miss", batch="1", **body)
        assert (answer.status, answer["code"]) == (status, code)
        assert labels(served, PLAIN, "miss") == []
        assert served.put("/stages/miss/1/0/a", rows("miss")).status == 200


class TestDiscard:
    def test_drops_and_keeps_late_attempts_out(self, served: Served) -> None:
        served.put("/stages/d/1/0/a", rows("d"))
        assert served.post("/discard", prefix="d/1").value == {"discarded": 1}
        assert served.put("/stages/d/1/0/b", rows("d")).status == 409

    def test_a_stream_tries_the_same_batch_again(self, served: Served) -> None:
        served.put("/stages/d/2/0/a", rows("d"))
        assert served.post("/discard", prefix="d/2", tombstone=False).value == {"discarded": 1}
        assert served.put("/stages/d/2/0/b", rows("d")).status == 200
        assert served.post("/discard", prefix="d").status == 400


class TestBadRows:
    @pytest.mark.parametrize(
        ("payload", "words"),
        [
            (b"nix", "rows"),
            (b"", "rows"),
            (stream(pa.table({"body": [b"x"], "lable": ["y"]})), "label"),
            (stream(pa.table({"label": ["y"]})), "body"),
            (arrow([{"body": b"x", "priority": 8}]), "priority"),
            (arrow([{"body": b"x", "label": "x" * 300}]), "label"),
            (rows("x")[:-30], "rows"),
        ],
        ids=["no stream", "nothing", "column", "no body", "priority", "label", "cut off"],
    )
    def test_are_refused_when_they_are_staged(self, served: Served, payload: bytes, words: str) -> None:
        answer = served.put("/stages/bad/1/0/a", payload)
        assert answer.status == 400, answer
        assert words in answer["detail"]
        assert served.get("/queues").status == 200  # and the daemon lives

    def test_a_chunk_that_is_too_large(self, served: Served) -> None:
        answer = served.put("/stages/bad/1/0/a", bytes((16 << 20) + 1))
        assert answer.status == 413
        assert "16777216 bytes" in answer["detail"]

    def test_a_chunk_that_is_missing(self, served: Served) -> None:
        assert served.put("/stages/bad/2/0/a", rows("x"), chunk=1).status == 400

    @pytest.mark.parametrize("compression", ["lz4", "zstd"])
    def test_a_compressed_stream_is_not_unpacked(self, served: Served, compression: str) -> None:
        data = stream(pa.table({"body": pa.array([bytes(2**20)] * 64, pa.binary())}), compression)
        answer = served.put("/stages/packed/1/0/a", data)
        assert answer.status == 400
        assert "write it without compression" in answer["detail"]
