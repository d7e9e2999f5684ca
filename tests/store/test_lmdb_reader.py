"""Reading a store that another process writes: piece by piece, each piece of the latest state."""

import multiprocessing
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from tiercel.store import Keyspace, open_reader
from tiercel.store.lmdb_reader import LmdbReader
from tiercel.store.lmdb_store import LmdbStore

SPACE = Keyspace.MESSAGES


def write(directory: Path, line: "Connection[int, int]") -> None:
    """Another process: writes ten rows whenever it is told to."""
    store = LmdbStore.open(directory)
    while (number := line.recv()) >= 0:
        batch = store.begin()
        for each in range(number, number + 10):
            batch.put(SPACE, b"%04d" % each, bytes([each % 256]) * each)
        batch.commit()
        line.send(0)
    store.close()


class Writer:
    def __init__(self, directory: Path) -> None:
        context = multiprocessing.get_context("spawn")
        self._line, other = context.Pipe()
        self._process = context.Process(target=write, args=(directory, other))
        self._process.start()

    def write(self, number: int) -> None:
        self._line.send(number)
        self._line.recv()

    def end(self) -> None:
        self._line.send(-1)
        self._process.join()


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Writer]:
    writer = Writer(tmp_path)
    writer.write(0)
    yield writer
    writer.end()


def keys(
    reader: LmdbReader, at_least: bytes, below: bytes, rows: int = 100, size: int = 10**6
) -> list[bytes]:
    with reader.piece(SPACE, at_least, below, rows, size) as (found, values):
        assert all(set(value) <= {int(bytes(key)) % 256} for key, value in zip(found, values, strict=True))
        return list(map(bytes, found))


def names(first: int, end: int) -> list[bytes]:
    return [b"%04d" % each for each in range(first, end)]


def test_pieces(tmp_path: Path, writer: Writer) -> None:
    with LmdbReader(tmp_path, alone=False) as reader:
        assert keys(reader, b"", b"\xff") == names(0, 10)
        assert keys(reader, b"0003", b"0007") == names(3, 7)
        assert keys(reader, b"0003", b"\xff", rows=2) == names(3, 5)
        assert keys(reader, b"0003", b"\xff", size=8) == names(3, 6)  # 3 + 4 are too few, 5 more are enough
        assert keys(reader, b"0009", b"\xff", size=1) == names(9, 10)
        assert keys(reader, b"1", b"\xff") == []
        writer.write(10)
        assert keys(reader, b"", b"\xff") == names(0, 20)


def test_a_piece_does_not_change_while_it_is_read(tmp_path: Path, writer: Writer) -> None:
    with open_reader(tmp_path) as reader:
        with reader.piece(SPACE, b"", b"\xff", 100, 10**6) as (found, values):
            for number in range(0, 100, 10):
                writer.write(number)
            assert list(map(bytes, found)) == names(0, 10)
            assert list(map(len, values)) == list(range(10))
        assert not found
        assert not values
        with reader.snapshot() as view:
            assert view.count(SPACE) == 100


def test_a_map_that_grew(tmp_path: Path) -> None:
    LmdbStore.open(tmp_path, max_bytes=2**20).close()
    with LmdbReader(tmp_path, alone=False) as reader:
        assert keys(reader, b"", b"\xff") == []
        writer = Writer(tmp_path)  # with the default of 64 GiB
        for number in range(0, 3000, 10):
            writer.write(number)
        writer.end()
        assert keys(reader, b"", b"\xff", rows=5000, size=10**9) == names(0, 3000)
