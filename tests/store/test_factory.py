"""A store by its URL: on disk, in memory, and what is not valid."""

from pathlib import Path

import pytest

import tiercel
from tiercel.model.errors import InvalidParameterError, StoreFailedError
from tiercel.store import (
    MemoryStore,
    copy_store,
    directory_of,
    open_reader,
    open_snapshot,
    open_store,
    verify_store,
)
from tiercel.store.lmdb_files import DATA_NAME

from .helpers import MESSAGES, fill


def test_a_plain_path_is_a_store_on_disk(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(directory.parent)
    for url in ("data", "./data", directory, f"lmdb:{directory}", "lmdb:data"):
        open_store(url).close()
        assert directory_of(url).resolve() == directory
    assert (directory / DATA_NAME).exists()
    assert [each.name for each in directory.parent.iterdir()] == ["data"]


def test_a_directory_may_have_the_name_of_a_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    open_store(Path("memory:")).close()
    open_store("./lmdb:x").close()
    open_store("c:x").close()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["c:x", "lmdb:x", "memory:"]


@pytest.mark.parametrize("url", ["postgres://host/data", "lmdb:", "memory:data"])
def test_an_invalid_url_creates_nothing(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for use in (open_store, open_reader, verify_store, directory_of):
        with pytest.raises(
            InvalidParameterError, match=r"not a valid store URL .*\. Use lmdb:DIR or memory:"
        ):
            use(url)
    assert not list(tmp_path.iterdir())


def test_without_create_there_must_be_a_store(directory: Path) -> None:
    with pytest.raises(StoreFailedError, match="there is no store here"):
        open_store(directory, create=False)
    assert not directory.exists()


class TestMemory:
    def test_is_empty_every_time(self) -> None:
        for _ in range(2):
            store = open_store("memory:", max_bytes=2**20)
            assert isinstance(store, MemoryStore)
            with store.snapshot() as view:
                assert view.count(MESSAGES) == 0
            batch = store.begin()
            fill(batch, range(3))
            batch.commit()
            store.forget_dead_readers()
            store.close()

    def test_cannot_be_read_by_another_process(self, tmp_path: Path) -> None:
        for use in (open_reader, verify_store, directory_of, lambda url: copy_store(url, tmp_path / "copy")):
            with pytest.raises(StoreFailedError, match="a store in memory has no directory"):
                use("memory:")

    def test_a_queue_manager(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        with tiercel.open("memory:", computer_name="HOST") as manager:
            queue = manager.create_queue(r".\private$\orders")
            queue.send(b"one")
            assert queue.receive(timeout=0).body == b"one"
        assert not list(tmp_path.iterdir())


def test_a_reader_that_is_alone_leaves_no_trace(directory: Path) -> None:
    store = open_store(directory)
    batch = store.begin()
    fill(batch, range(3))
    batch.commit()
    store.close()
    for name in ("lock.mdb", "tiercel.lock"):
        (directory / name).unlink()
    with open_snapshot(directory, alone=True) as view:
        assert view.count(MESSAGES) == 3
    assert [each.name for each in directory.iterdir()] == [DATA_NAME]
