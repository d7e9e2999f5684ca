"""The end of the map and the end of the disk: senders hear of it, and nobody else does."""

import json
import signal
import subprocess
from pathlib import Path

import lmdb
import pytest

from tiercel.model.errors import StoreFullError
from tiercel.store.data_file import STEP, DataFile
from tiercel.store.lmdb_store import LmdbStore

from .helpers import HIGHEST, LOWEST, MESSAGES, MIB, committed, fill, key, program, record, run


class TestWhatLmdbDoes:
    """The facts that the store is built on, asked of the binding itself."""

    def test_a_full_map_spoils_the_transaction(self, tmp_path: Path) -> None:
        with lmdb.open(str(tmp_path), map_size=MIB, lib_version=0) as environment:
            transaction = environment.begin(write=True)
            with pytest.raises(lmdb.MapFullError):
                fill_up(transaction)
            with pytest.raises(lmdb.BadTxnError):
                transaction.delete(b"\0" * 8)
            transaction.abort()

    def test_but_in_a_nested_one_the_parent_is_as_it_was(self, tmp_path: Path) -> None:
        with lmdb.open(str(tmp_path), map_size=MIB, lib_version=0) as environment:
            transaction = environment.begin(write=True)
            for number in range(100):
                transaction.put(key(1, number), record(number))
            cursor = transaction.cursor()
            assert cursor.set_key(key(1, 50))
            for _ in range(10):
                trial = environment.begin(write=True, parent=transaction)
                with pytest.raises(lmdb.MapFullError):
                    fill_up(trial)
                trial.abort()
                assert cursor.item() == (key(1, 50), record(50))
            transaction.delete(key(1, 0))
            transaction.commit()
            with environment.begin() as view:
                assert list(view.cursor()) == [(key(1, number), record(number)) for number in range(1, 100)]

    def test_a_file_that_is_longer_than_needed_is_no_matter(self, tmp_path: Path) -> None:
        with (
            lmdb.open(str(tmp_path), map_size=MIB, lib_version=0) as environment,
            environment.begin(write=True) as transaction,
        ):
            transaction.put(b"a", b"1")
        with (tmp_path / "data.mdb").open("r+b") as data:
            data.truncate(8 * MIB)
        with lmdb.open(str(tmp_path), map_size=MIB, lib_version=0) as environment:
            with environment.begin(write=True) as transaction:
                assert transaction.get(b"a") == b"1"
                transaction.put(b"b", b"2")
            assert environment.info()["map_size"] == MIB
        assert (tmp_path / "data.mdb").stat().st_size == 8 * MIB


class TestAFullMap:
    def test_large_messages_among_small_ones(self, directory: Path) -> None:
        """Free pages lie scattered then; a large record needs them side by side."""
        store = LmdbStore.open(directory, max_bytes=16 * MIB)
        kept: dict[bytes, bytes] = {}
        refused = 0
        for number in range(900):
            batch = store.begin()
            size = (1300, 300_000, 5000, 60_000)[number % 4]
            try:
                batch.reserve(size)
                batch.put(MESSAGES, key(number % 7, number), record(number, size))
                kept[key(number % 7, number)] = record(number, size)
            except StoreFullError:
                refused += 1
                for name in sorted(kept)[::5]:  # from here and there
                    assert batch.delete(MESSAGES, name)
                    del kept[name]
            batch.commit()
        assert refused > 5
        assert committed(store)[MESSAGES] == kept
        store.close()
        assert LmdbStore.verify(directory) == []

    def test_after_it_was_full_once_sends_are_not_slow_for_ever(self, directory: Path) -> None:
        """LMDB does not shrink: without credit from a trial, every send would need one of its own."""
        store, _ = filled(directory)
        batch = store.begin()
        for name, _ in batch.range(MESSAGES, LOWEST, HIGHEST):
            batch.delete(MESSAGES, name)
        batch.commit()
        trials = count_trials(store)
        for start in range(0, 1000, 100):
            batch = store.begin()
            for number in range(start, start + 100):
                batch.reserve(1300)
                fill(batch, range(number, number + 1))
            batch.commit()
        assert 0 < len(trials) < 60
        store.close()

    def test_after_it_was_full_once_a_large_move_finds_the_freed_pages(self, directory: Path) -> None:
        """The room that it needs is much larger than the reserve that has to be left."""
        store, count = filled(directory)
        for start in range(0, count, 1000):
            batch = store.begin()
            batch.delete_many(MESSAGES, (key(1, number) for number in range(start, start + 1000)))
            batch.commit()
        batch = store.begin()
        batch.reserve_to_move(1, 4 * store.reserve_bytes)
        batch.put(MESSAGES, key(2, 0), bytes(4 * store.reserve_bytes))
        batch.commit()
        store.close()

    def test_refusals_alone_commit_nothing(self, directory: Path) -> None:
        """A commit of the store itself makes freed pages available; without new ones it is not repeated."""
        store, _ = filled(directory)
        commits = []
        for _ in range(5):
            batch = store.begin()
            with pytest.raises(StoreFullError):
                batch.reserve(12 * MIB)
            batch.commit()
            commits.append(store._environment.info()["last_txnid"])
        assert len(set(commits[1:])) == 1
        store.close()

    def test_without_a_reservation_the_batch_is_lost_but_not_the_store(self, directory: Path) -> None:
        store = LmdbStore.open(directory, max_bytes=MIB)
        batch = store.begin()
        with pytest.raises(StoreFullError):
            fill(batch, range(2000))
        with pytest.raises(StoreFullError):
            batch.delete(MESSAGES, key(1, 0))
        batch.abort()
        assert committed(store)[MESSAGES] == {}
        store.begin().commit()
        store.close()

    def test_a_reader_does_not_stop_receiving(self, directory: Path) -> None:
        """A snapshot keeps the pages that receiving would set free; the reserve is for that."""
        store, count = filled(directory)
        with store.snapshot() as view:
            for number in range(0, 300, 10):
                batch = store.begin()
                for each in range(number, number + 10):
                    assert batch.delete(MESSAGES, key(1, each))
                batch.commit()
            assert view.count(MESSAGES) == count
        store.close()

    def test_a_killed_reader_keeps_no_pages(self, directory: Path) -> None:
        store, count = filled(directory)
        text = """
            import sys, time
            from pathlib import Path
            from tiercel.store import open_snapshot
            with open_snapshot(Path(sys.argv[1])):
                print("reading", flush=True)
                time.sleep(600)
        """
        with subprocess.Popen(program(text, directory), stdout=subprocess.PIPE, text=True) as reader:  # noqa: S603
            assert reader.stdout is not None
            assert reader.stdout.readline() == "reading\n"
            reader.send_signal(signal.SIGKILL)
        for start in range(0, count, 100):
            batch = store.begin()
            for number in range(start, min(start + 100, count)):
                batch.delete(MESSAGES, key(1, number))
            batch.commit()
            batch = store.begin()
            batch.reserve(1300)
            batch.abort()
        batch = store.begin()
        batch.reserve(10 * MIB)  # nearly all of it: the dead reader's pages are among them
        batch.commit()
        store.close()


class TestAFullDisk:
    """RLIMIT_FSIZE stands for the disk: the kernel refuses to allocate or write beyond it (EFBIG)."""

    def test_refuses_sends_only_and_goes_on_when_there_is_space(self, directory: Path) -> None:
        found = json.loads(run(FILL_THE_DISK, directory))
        assert "the disk has no more space (File too large)" in found["error"]
        assert found["sent"] > 15_000
        assert found["received"] == list(range(found["sent"]))
        assert found["sent again"] > 0.9 * found["sent"]
        assert found["sent with more disk"] > found["sent"]
        assert found["size"] <= found["limit"]
        assert LmdbStore.verify(directory) == []

    def test_met_when_opening_does_not_hinder_receiving(self, directory: Path) -> None:
        run(FILL_THE_DISK, directory, "only fill")
        left = run(
            """
            import resource, signal, sys
            from pathlib import Path
            from store.helpers import *
            from tiercel.model.errors import StoreFullError
            from tiercel.store.lmdb_store import LmdbStore
            resource.setrlimit(resource.RLIMIT_FSIZE, (40 * MIB, resource.RLIM_INFINITY))
            store = LmdbStore.open(Path(sys.argv[1]), max_bytes=128 * MIB)
            batch = store.begin()
            try:
                batch.reserve(20 * MIB)
            except StoreFullError:
                print("full")
            batch.commit()
            while True:
                batch = store.begin()
                found = [name for name, _ in zip(batch.range(MESSAGES, LOWEST, HIGHEST), range(500))]
                for name, _ in found:
                    batch.delete(MESSAGES, name)
                batch.commit()
                if not found:
                    break
            print("empty")
            """,
            directory,
        )
        assert left == "full\nempty\n"

    @pytest.mark.parametrize("size", [2, 8, 24])
    def test_a_store_fits_on_a_small_disk(self, tmp_path: Path, size: int) -> None:
        """What is kept free for receiving depends on the disk, so most of a small one is for messages."""
        disk = tmp_path / "disk"
        disk.mkdir()
        mount = f"mount -t tmpfs -o size={size}m tmpfs {disk}"
        found = json.loads(in_own_mounts(mount, *program(SEND_AND_RECEIVE, disk / "data")))
        assert found["sent"] * 2048 > size * MIB // 2
        assert found["received"] == found["sent"]

    def test_the_file_is_allocated_in_steps_and_to_the_limit(self, tmp_path: Path) -> None:
        path = tmp_path / "data"
        path.write_bytes(b"x" * 8192)
        file = DataFile(path, 8192, 3 * STEP + 4096, 4096)
        assert file.allocated == path.stat().st_size == STEP
        assert path.stat().st_blocks * 512 >= STEP
        assert file.grow(STEP + 1)
        assert file.allocated == 2 * STEP
        assert file.grow(100 * STEP)
        assert file.allocated == path.stat().st_size == 3 * STEP + 4096
        file.close()
        again = DataFile(path, 8192, 100 * STEP, 4096)
        assert again.allocated == 3 * STEP + 4096
        again.close()


FILL_THE_DISK = """
    import json, resource, sys
    from pathlib import Path
    from store.helpers import *
    from tiercel.model.errors import StoreFullError
    from tiercel.store.lmdb_store import LmdbStore

    def limit_disk(size):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    def send_until_full(number):
        refused = 0
        while True:
            batch = store.begin()
            try:
                for _ in range(200):
                    batch.reserve(1300)
                    fill(batch, range(number, number + 1))
                    number += 1
            except StoreFullError as error:
                refused += 1
                if refused == 3:  # the first may be the disk's word, the next are the exact one
                    return number, str(error)
            finally:
                batch.commit()

    def drain():
        numbers = []
        while True:
            batch = store.begin()
            found = [item for item, _ in zip(batch.range(MESSAGES, LOWEST, HIGHEST), range(200))]
            for name, value in found:
                batch.delete(MESSAGES, name)
                numbers.append(int.from_bytes(value[:8], "big"))
                assert value == record(numbers[-1])
            batch.commit()
            if not found:
                return numbers

    directory = Path(sys.argv[1])
    limit_disk(40 * MIB)
    store = LmdbStore.open(directory, max_bytes=128 * MIB)
    sent, error = send_until_full(0)
    if len(sys.argv) > 2:
        sys.exit()
    received = drain()
    again, _ = send_until_full(sent)
    limit_disk(90 * MIB)
    more, _ = send_until_full(again)
    store.close()
    print(json.dumps({
        "sent": sent, "error": error, "received": received, "sent again": again - sent,
        "sent with more disk": more - again, "limit": 90 * MIB,
        "size": (directory / "data.mdb").stat().st_size,
    }))
"""


def filled(directory: Path) -> tuple[LmdbStore, int]:
    """A store of 16 MiB that takes no more, and how many messages it holds."""
    store = LmdbStore.open(directory, max_bytes=16 * MIB)
    number = 0
    while True:
        batch = store.begin()
        try:
            for _ in range(500):
                batch.reserve(1300)
                fill(batch, range(number, number + 1))
                number += 1
        except StoreFullError:
            return store, number
        finally:
            batch.commit()


def fill_up(transaction: "lmdb.Transaction[bytes]") -> None:
    for number in range(10_000):
        transaction.put(number.to_bytes(8, "big"), b"x" * 4000)


def count_trials(store: LmdbStore) -> list[object]:
    trials: list[object] = []
    begin = store.begin_trial

    def counted(batch: "lmdb.Transaction[bytes]") -> "lmdb.Transaction[bytes]":
        trials.append(batch)
        return begin(batch)

    store.begin_trial = counted  # type: ignore[method-assign]
    return trials


SEND_AND_RECEIVE = """
    import json, sys
    from pathlib import Path
    from store.helpers import *
    from tiercel.model.errors import StoreFullError
    from tiercel.store.lmdb_store import LmdbStore
    store = LmdbStore.open(Path(sys.argv[1]))
    sent = received = 0
    try:
        while True:
            batch = store.begin()
            batch.reserve(2000)
            batch.put(MESSAGES, key(1, sent), record(sent))
            batch.commit()
            sent += 1
    except StoreFullError:
        batch.abort()
    for number in range(sent):
        batch = store.begin()
        received += batch.delete(MESSAGES, key(1, number))
        batch.commit()
    print(json.dumps({"sent": sent, "received": received}))
"""


def in_own_mounts(mount: str, *command: str) -> str:
    """What a program prints that runs with a mount of its own."""
    script = f'{mount} || exit 99; exec "$@"'
    arguments = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh", *command]
    try:
        done = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=60)  # noqa: S603
    except FileNotFoundError:
        pytest.skip("unshare is not installed")
    if "unshare:" in done.stderr or done.returncode == 99:
        pytest.skip(f"no mounts of its own: {done.stderr}")
    assert done.returncode == 0, done.stderr
    return done.stdout
