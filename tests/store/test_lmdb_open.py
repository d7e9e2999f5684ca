"""Opening a store: what is made, who may, and what is refused before anything is touched."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import lmdb
import pytest

from tiercel.model.errors import (
    StoreDamagedError,
    StoreFailedError,
    StoreInUseError,
    StoreVersionError,
)
from tiercel.store import Keyspace, open_snapshot
from tiercel.store.lmdb_files import DATA_NAME, FORMAT_KEY
from tiercel.store.lmdb_store import LmdbStore

from .helpers import MESSAGES, MIB, committed, contents, fill, key, program, record, run


@pytest.fixture
def closed(directory: Path) -> Path:
    """A store with ten records that nobody has open."""
    store = LmdbStore.open(directory, max_bytes=16 * MIB)
    batch = store.begin()
    fill(batch, range(10))
    batch.commit()
    store.close()
    return directory


def files(directory: Path) -> dict[str, tuple[bytes, int]]:
    """Everything but the lock file: what it holds and when it was changed."""
    found = sorted(path for path in directory.iterdir() if path.name != "tiercel.lock")
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in found}


class TestMaking:
    def test_is_for_the_owner_only(self, tmp_path: Path) -> None:
        directory = tmp_path / "a" / "b"
        LmdbStore.open(directory).close()
        assert directory.stat().st_mode & 0o777 == 0o700
        assert {path.name: path.stat().st_mode & 0o777 for path in directory.iterdir()} == {
            "data.mdb": 0o600,
            "lock.mdb": 0o600,
            "tiercel.lock": 0o600,
        }

    @pytest.mark.parametrize("mode", [0o777, 0o770, 0o702, 0o1777], ids=oct)
    def test_a_directory_that_others_can_write_is_refused(self, tmp_path: Path, mode: int) -> None:
        directory = tmp_path / "shared"
        directory.mkdir()
        directory.chmod(mode)
        with pytest.raises(StoreFailedError, match=f"other users can write it.*{mode:04o}.*chmod go-w"):
            LmdbStore.open(directory)
        assert list(directory.iterdir()) == []
        directory.chmod(0o755)
        LmdbStore.open(directory).close()

    def test_a_data_file_that_others_can_write_is_refused(self, tmp_path: Path) -> None:
        LmdbStore.open(tmp_path / "store").close()
        (tmp_path / "store" / "data.mdb").chmod(0o620)
        with pytest.raises(StoreFailedError, match="other users can write it"):
            LmdbStore.open(tmp_path / "store")

    def test_syncs_every_commit(self, lmdb_store: LmdbStore) -> None:
        flags = lmdb_store._environment.flags()
        assert (flags["sync"], flags["metasync"], flags["writemap"], flags["lock"]) == (
            True,
            True,
            False,
            True,
        )
        assert lmdb_store._environment.lib_version()[:2] == (0, 9)

    def test_takes_a_directory_as_text(self, tmp_path: Path) -> None:
        LmdbStore.open(str(tmp_path / "data")).close()  # type: ignore[arg-type]

    def test_goes_on_after_it_was_interrupted(self, directory: Path) -> None:
        directory.mkdir()
        (directory / "data.mdb.new").write_bytes(b"half a store")
        (directory / "data.mdb.new-lock").write_bytes(b"")
        LmdbStore.open(directory).close()
        assert sorted(path.name for path in directory.iterdir()) == ["data.mdb", "lock.mdb", "tiercel.lock"]

    def test_only_when_asked(self, directory: Path) -> None:
        with pytest.raises(StoreFailedError, match="there is no store here"):
            LmdbStore.open(directory, create=False)
        assert not directory.exists()

    def test_not_among_other_things(self, tmp_path: Path) -> None:
        (tmp_path / "letter.txt").write_text("dear")
        with pytest.raises(StoreFailedError, match=r"letter\.txt"):
            LmdbStore.open(tmp_path)
        assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]

    def test_not_in_a_file(self, tmp_path: Path) -> None:
        path = tmp_path / "file"
        path.write_text("text")
        with pytest.raises(StoreFailedError, match="a store is a directory"):
            LmdbStore.open(path)

    def test_after_a_failure_half_way_it_can_be_opened_again(self, directory: Path) -> None:
        failing = patch("tiercel.store.lmdb_store.DataFile", side_effect=OSError("no such luck"))
        with failing, pytest.raises(StoreFailedError, match="no such luck"):
            LmdbStore.open(directory)
        LmdbStore.open(directory).close()

    def test_refuses_a_tiny_limit(self, directory: Path) -> None:
        with pytest.raises(ValueError, match="max_bytes"):
            LmdbStore.open(directory, max_bytes=4096)

    @pytest.mark.parametrize("mode", [0o500, 0o000])
    @pytest.mark.parametrize("what", ["", "data.mdb", "tiercel.lock"])
    def test_where_the_rights_are_missing(self, mode: int, what: str) -> None:
        """In a process without the rights of root, which nothing is denied to."""
        found = run(
            """
            import os, sys, tempfile
            from pathlib import Path
            from tiercel.model.errors import StoreFailedError
            from tiercel.store.lmdb_store import LmdbStore
            if os.getuid() == 0:
                os.setgid(65534), os.setuid(65534)
            with tempfile.TemporaryDirectory() as place:
                directory = Path(place) / "data"
                LmdbStore.open(directory).close()
                target = directory / sys.argv[1]
                if not sys.argv[1]:
                    (directory / "tiercel.lock").unlink()
                usual = target.stat().st_mode
                target.chmod(int(sys.argv[2]))
                try:
                    LmdbStore.open(directory)
                except StoreFailedError as error:
                    print(error)
                finally:
                    target.chmod(usual)
            """,
            what,
            mode & 0o444,
        )
        assert "it cannot be opened" in found
        assert "Permission denied" in found


class TestWhatIsThere:
    def test_comes_back(self, closed: Path) -> None:
        store = LmdbStore.open(closed, create=False)
        assert committed(store)[MESSAGES] == {key(1, number): record(number) for number in range(10)}
        store.close()

    @pytest.mark.parametrize("version", [b"3", b"999"])
    def test_of_a_newer_format_is_refused_and_not_touched(self, closed: Path, version: bytes) -> None:
        write_meta(closed, version)
        before = files(closed)
        with pytest.raises(StoreVersionError) as raised:
            LmdbStore.open(closed)
        assert (raised.value.present, raised.value.limit) == (int(version), 2)
        with pytest.raises(StoreVersionError), open_snapshot(closed):
            pass
        assert files(closed).keys() == before.keys()
        assert files(closed)[DATA_NAME] == before[DATA_NAME]

    @pytest.mark.parametrize("version", [None, b"", b"new"])
    def test_of_another_program_is_refused(self, closed: Path, version: bytes | None) -> None:
        write_meta(closed, version)
        with pytest.raises(StoreDamagedError, match="not a Tiercel store"):
            LmdbStore.open(closed)

    def test_without_our_keyspaces_is_refused(self, directory: Path) -> None:
        lmdb.open(str(directory)).close()
        with pytest.raises(StoreDamagedError, match="not a Tiercel store"):
            LmdbStore.open(directory)

    @pytest.mark.parametrize("junk", [b"", b"\0" * 8192, b"hello " * 3000, b"x"])
    def test_that_is_no_lmdb_file_is_refused_and_not_touched(self, closed: Path, junk: bytes) -> None:
        (closed / DATA_NAME).write_bytes(junk)
        before = files(closed)
        with pytest.raises(StoreDamagedError, match="data file"):
            LmdbStore.open(closed)
        assert files(closed) == before
        assert LmdbStore.verify(closed) != []

    def test_that_was_cut_off_is_refused(self, closed: Path) -> None:
        used = LmdbStore.open(closed)
        pages = used._used()
        used.close()
        os.truncate(closed / DATA_NAME, pages - 4096)
        with pytest.raises(StoreDamagedError, match="cut off") as raised:
            LmdbStore.open(closed)
        assert raised.value.limit == f"{pages} bytes"
        with pytest.raises(StoreDamagedError, match="cut off"), open_snapshot(closed):
            pass

    def test_but_lacks_a_keyspace_gets_it(self, closed: Path) -> None:
        drop(closed, Keyspace.DISCARDS)
        with open_snapshot(closed) as view:
            assert contents(view)[Keyspace.DISCARDS] == {}
            assert view.get(Keyspace.DISCARDS, b"a") is None
            assert view.first(Keyspace.DISCARDS, b"", b"z") is None
            assert view.last(Keyspace.DISCARDS, b"", b"z") is None
            assert (view.count(Keyspace.DISCARDS), view.count(MESSAGES)) == (0, 10)
        store = LmdbStore.open(closed)
        batch = store.begin()
        batch.put(Keyspace.DISCARDS, b"a", b"1")
        batch.commit()
        store.close()

    def test_with_damaged_pages_is_found_by_verify(self, closed: Path) -> None:
        assert LmdbStore.verify(closed) == []
        with (closed / DATA_NAME).open("r+b") as data:
            for page in range(2, 9):
                data.seek(page * 4096 + 16)
                data.write(b"\xee" * 64)
        assert LmdbStore.verify(closed) != []

    def test_with_a_limit_below_its_size_can_still_be_emptied(self, directory: Path) -> None:
        store = LmdbStore.open(directory, max_bytes=64 * MIB)
        batch = store.begin()
        fill(batch, range(5000))
        batch.commit()
        store.close()
        store = LmdbStore.open(directory, max_bytes=MIB)
        for start in range(0, 5000, 50):
            batch = store.begin()
            assert all(batch.delete(MESSAGES, key(1, number)) for number in range(start, start + 50))
            batch.commit()
        store.close()


class TestOneWriter:
    def test_in_this_process(self, lmdb_store: LmdbStore, directory: Path) -> None:
        for path in (directory, directory.parent / "." / "data" / ".." / "data"):
            with pytest.raises(StoreInUseError, match=f"data: .*process {os.getpid()}"):
                LmdbStore.open(path)
            with pytest.raises(StoreInUseError, match=f"process {os.getpid()}"):
                LmdbStore.verify(path)
        assert run(TRY_TO_OPEN, directory).startswith("in use")  # the attempts above gave nothing up
        lmdb_store.close()
        assert run(TRY_TO_OPEN, directory) == "opened\n"

    def test_among_processes_until_it_is_killed(
        self, directory: Path, holder: "subprocess.Popen[str]"
    ) -> None:
        with pytest.raises(StoreInUseError, match=f"process {holder.pid}\\b"):
            LmdbStore.open(directory)
        assert (directory / "tiercel.lock").read_text() == f"{holder.pid}\n"
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        LmdbStore.open(directory).close()

    def test_a_child_of_the_writer_does_not_hold_the_lock(self, directory: Path) -> None:
        """A worker that outlives a killed daemon must not keep the next one from starting."""
        child = run(
            """
            import os, signal, sys, time
            from pathlib import Path
            from tiercel.store.lmdb_store import LmdbStore
            store = LmdbStore.open(Path(sys.argv[1]))
            child = os.fork()
            if child == 0:
                os.close(1), os.close(2)
                time.sleep(600)
                os._exit(0)
            print(child, flush=True)
            os._exit(0)
            """,
            directory,
        )
        try:
            LmdbStore.open(directory).close()
        finally:
            os.kill(int(child), signal.SIGKILL)

    @pytest.fixture
    def holder(self, directory: Path) -> "Iterator[subprocess.Popen[str]]":
        text = """
            import sys, time
            from pathlib import Path
            from tiercel.store.lmdb_store import LmdbStore
            store = LmdbStore.open(Path(sys.argv[1]))
            print("open", flush=True)
            time.sleep(600)
        """
        command = program(text, directory)
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603
            assert process.stdout is not None
            assert process.stdout.readline() == "open\n"
            yield process
            process.kill()


class TestReadersInOtherProcesses:
    def test_see_the_last_commit_and_keep_it(self, lmdb_store: LmdbStore, directory: Path) -> None:
        batch = lmdb_store.begin()
        fill(batch, range(10))
        batch.commit()
        batch = lmdb_store.begin()
        fill(batch, range(10, 20))
        assert run(COUNT, directory) == "10\n"
        batch.commit()
        assert run(COUNT, directory) == "20\n"

    def test_not_in_the_same_process(self, lmdb_store: LmdbStore, directory: Path) -> None:
        with pytest.raises(StoreInUseError, match=r"snapshot\(\)"), open_snapshot(directory):
            pass
        lmdb_store.begin().commit()

    def test_need_a_store(self, directory: Path) -> None:
        missing = pytest.raises(StoreFailedError, match="there is no store here")
        with missing, open_snapshot(directory):
            pass
        assert not directory.exists()

    def test_refuse_junk(self, closed: Path) -> None:
        (closed / DATA_NAME).write_bytes(b"junk" * 4096)
        with pytest.raises(StoreDamagedError, match="cannot be read"), open_snapshot(closed):
            pass


TRY_TO_OPEN = """
    import sys
    from pathlib import Path
    from tiercel.model.errors import StoreInUseError
    from tiercel.store.lmdb_store import LmdbStore
    try:
        LmdbStore.open(Path(sys.argv[1])).close()
        print("opened")
    except StoreInUseError as error:
        print("in use:", error)
"""

COUNT = """
    import sys
    from pathlib import Path
    from tiercel.store import Keyspace
    from tiercel.store import open_snapshot
    with open_snapshot(Path(sys.argv[1])) as view:
        print(len(list(view.range(Keyspace.MESSAGES, b"", b"\\xff" * 20))))
"""


def write_meta(directory: Path, version: bytes | None) -> None:
    with lmdb.open(str(directory), max_dbs=20, map_size=16 * MIB) as environment:
        meta = environment.open_db(b"meta")
        with environment.begin(write=True, db=meta) as transaction:
            if version is None:
                transaction.delete(FORMAT_KEY)
            else:
                transaction.put(FORMAT_KEY, version)


def drop(directory: Path, space: Keyspace) -> None:
    with lmdb.open(str(directory), max_dbs=20, map_size=16 * MIB) as environment:
        database = environment.open_db(space.value.encode())
        with environment.begin(write=True) as transaction:
            transaction.drop(database)


def test_pages_that_a_shorter_record_keeps_are_no_damage(directory: Path) -> None:
    """LMDB leaves them with a record that was written twice in one batch; `tiercel check` must not alarm."""
    store = LmdbStore.open(directory)
    batch = store.begin()
    for value in (bytes(9000), b""):
        batch.put(Keyspace.MESSAGES, b"key", value)
    batch.commit()
    store.close()
    assert LmdbStore.verify(directory) == []
