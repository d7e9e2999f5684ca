"""A copy of a store that is being written: whole, of one moment, or not there at all."""

import subprocess
from pathlib import Path

import pytest

from tiercel.model.errors import StoreFailedError
from tiercel.store import Keyspace, copy_store, open_snapshot
from tiercel.store.interface import COPIED_KEY
from tiercel.store.lmdb_files import DATA_NAME
from tiercel.store.lmdb_store import LmdbStore

from .helpers import MESSAGES, MIB, contents, fill, program, run

COPY = """
import sys
from pathlib import Path
from tiercel.store import copy_store
copy_store(sys.argv[1], Path(sys.argv[2]))
"""


def copied(directory: Path) -> dict[Keyspace, dict[bytes, bytes]]:
    with open_snapshot(directory) as view:
        found = contents(view)
    assert found[Keyspace.META].pop(COPIED_KEY).isdigit()
    return found


def stored(store: LmdbStore) -> dict[Keyspace, dict[bytes, bytes]]:
    with store.snapshot() as view:
        return contents(view)


def test_copy_of_a_store_that_is_open(lmdb_store: LmdbStore, directory: Path, tmp_path: Path) -> None:
    batch = lmdb_store.begin()
    fill(batch, range(500))
    batch.commit()
    before = stored(lmdb_store)
    batch = lmdb_store.begin()  # under way while it is copied
    fill(batch, range(500, 600))
    run(COPY, directory, tmp_path / "copy")
    batch.commit()
    assert copied(tmp_path / "copy") == before
    assert LmdbStore.verify(tmp_path / "copy") == []


def test_free_pages_are_left_out(lmdb_store: LmdbStore, directory: Path, tmp_path: Path) -> None:
    batch = lmdb_store.begin()
    fill(batch, range(10_000))
    batch.commit()
    batch = lmdb_store.begin()
    for key, _ in list(batch.range(MESSAGES, b"", b"\xff")):
        batch.delete(MESSAGES, key)
    batch.commit()
    lmdb_store.close()
    copy_store(directory, tmp_path / "copy")
    assert (tmp_path / "copy" / DATA_NAME).stat().st_size < MIB < (directory / DATA_NAME).stat().st_size


def test_a_copy_can_be_written(lmdb_store: LmdbStore, directory: Path, tmp_path: Path) -> None:
    lmdb_store.close()
    copy_store(directory, tmp_path / "copy")
    store = LmdbStore.open(tmp_path / "copy")
    batch = store.begin()
    fill(batch, range(10))
    batch.commit()
    store.close()


def test_it_is_its_owners_alone(lmdb_store: LmdbStore, directory: Path, tmp_path: Path) -> None:
    lmdb_store.close()
    copy_store(directory, tmp_path / "copy")
    assert (tmp_path / "copy").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "copy" / DATA_NAME).stat().st_mode & 0o777 == 0o600


def test_it_leaves_no_file_open(lmdb_store: LmdbStore, directory: Path, tmp_path: Path) -> None:
    lmdb_store.close()
    before = len(list(Path("/proc/self/fd").iterdir()))
    copy_store(directory, tmp_path / "copy")
    assert len(list(Path("/proc/self/fd").iterdir())) == before


class TestWhatCannotBe:
    def test_no_store(self, tmp_path: Path) -> None:
        with pytest.raises(StoreFailedError, match="there is no store here"):
            copy_store(tmp_path / "nowhere", tmp_path / "copy")
        assert not list(tmp_path.iterdir())

    def test_a_store_is_there_already(self, lmdb_store: LmdbStore, directory: Path, tmp_path: Path) -> None:
        lmdb_store.close()
        copy_store(directory, tmp_path / "copy")
        before = (tmp_path / "copy" / DATA_NAME).read_bytes()
        with pytest.raises(StoreFailedError, match=r"backup .*copy.*there is a store already"):
            copy_store(directory, tmp_path / "copy")
        assert (tmp_path / "copy" / DATA_NAME).read_bytes() == before

    def test_other_things_are_there(self, lmdb_store: LmdbStore, directory: Path, tmp_path: Path) -> None:
        lmdb_store.close()
        (tmp_path / "copy").mkdir()
        (tmp_path / "copy" / "letter").touch()
        with pytest.raises(StoreFailedError, match=r"holds other things \(letter\)"):
            copy_store(directory, tmp_path / "copy")
        assert [each.name for each in (tmp_path / "copy").iterdir()] == ["letter"]

    def test_a_full_disk_leaves_nothing(self, lmdb_store: LmdbStore, directory: Path, tmp_path: Path) -> None:
        batch = lmdb_store.begin()
        fill(batch, range(1000))
        batch.commit()
        limited = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, 2**20))\n{COPY}"
        with pytest.raises(AssertionError, match="cannot be copied there"):
            run(limited, directory, tmp_path / "copy")
        assert not list((tmp_path / "copy").iterdir())
        run(COPY, directory, tmp_path / "copy")
        assert copied(tmp_path / "copy") == stored(lmdb_store)


def test_a_reader_that_was_killed_does_not_make_the_file_grow(lmdb_store: LmdbStore, directory: Path) -> None:
    batch = lmdb_store.begin()
    fill(batch, range(1000))
    batch.commit()
    killed = """
        import os, signal, sys
        from pathlib import Path
        from tiercel.store import open_snapshot
        with open_snapshot(Path(sys.argv[1])):
            os.kill(os.getpid(), signal.SIGKILL)
    """
    assert subprocess.run(program(killed, directory), check=False).returncode == -9  # noqa: S603  # our own
    for _ in range(60):  # 78 MB through a store that may have 64 MiB, of which 1.3 MB are in use
        batch = lmdb_store.begin()
        for key, value in list(batch.range(MESSAGES, b"", b"\xff")):
            batch.delete(MESSAGES, key)
            batch.put(MESSAGES, key, value)
        batch.commit()
    assert lmdb_store._used() < 24 * MIB
