"""`tiercel check` on stores on disk: sound, open, damaged in the file, and none."""

import json
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tiercel
from tiercel.cli import main
from tiercel.engine.check import Checker
from tiercel.store import Keyspace, open_snapshot
from tiercel.store.lmdb_files import DATA_NAME, FORMAT_KEY
from tiercel.store.lmdb_store import LmdbStore

BODY = b"the body of a message that is long enough to be found " * 40
PAGE = 4096


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A store with ten messages in a queue and one in its journal."""
    with tiercel.open(tmp_path / "data", computer_name="HOST", max_bytes=2**20) as qm:
        queue = qm.create_queue(r".\private$\orders", journaling=True)
        for number in range(11):
            queue.send(tiercel.Message(BODY + b"%d" % number, label=f"order {number}", delivery=1))
        queue.receive(0)
    return tmp_path / "data"


def change(directory: Path, edit: Callable[[bytearray], None]) -> None:
    data = bytearray((directory / DATA_NAME).read_bytes())
    edit(data)
    (directory / DATA_NAME).write_bytes(data)


def check(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, list[str], str]:
    code = main(["check", *map(str, arguments)])
    out, err = capsys.readouterr()
    return code, out.splitlines(), err


def test_a_sound_store(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (directory / DATA_NAME).read_bytes()
    code, out, err = check(capsys, directory)
    assert code == 0
    assert len(out) == 1
    assert out[0].startswith("sound: 7 queues, 11 messages (")
    assert out[0].endswith("0 prepared transactions, 0 discards, 0 stages, 0 records set aside")
    assert err == ""
    assert (directory / DATA_NAME).read_bytes() == before


def test_json(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change(directory, lambda data: flip(data, data.index(BODY)))
    code, out, _ = check(capsys, directory, "--json")
    problem, summary = map(json.loads, out)
    assert code == 1
    assert problem["keyspace"] == "messages"
    assert problem["lookup_id"] > 0
    assert summary["problems"] == 1
    assert summary["pages_verified"] is True
    assert summary["counts"]["messages"] == 11


def flip(data: bytearray, at: int) -> None:
    data[at] ^= 0x10


def test_a_damaged_byte_in_the_file_is_found_and_named(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One byte in each message's body; LMDB itself does not notice."""
    places: dict[str, int] = {}

    def find(data: bytearray) -> None:
        used = data.rindex(BODY) + len(BODY)
        for number in range(1, 11):
            label = f"order {number}\0".encode("utf-16-le")
            at = data.rfind(label, 0, used)
            if at > 0:
                places[f"order {number}"] = at + len(label) + 100

    change(directory, find)
    assert len(places) == 10
    for label, at in places.items():
        change(directory, lambda data, at=at: flip(data, at))  # type: ignore[misc]
        code, out, _ = check(capsys, directory)
        assert code == 1
        assert len(out) == 2
        assert out[0].startswith(r"messages, queue HOST\private$\orders, lookup id ")
        assert f"label '{label}': the record is damaged (its checksum is wrong)" in out[0]
        assert out[1].startswith("1 problem: 7 queues, 11 messages")
        change(directory, lambda data, at=at: flip(data, at))  # type: ignore[misc]
    assert check(capsys, directory)[0] == 0


def test_a_damaged_message_is_set_aside_by_the_engine_and_told_of(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def damage(data: bytearray) -> None:
        at = data.index(BODY + b"5")
        flip(data, at + 50)

    change(directory, damage)
    with tiercel.open(directory, computer_name="HOST") as qm:
        queue = qm.queue(r".\private$\orders")
        labels = [message.label for message in queue.cursor()]
        assert labels == [f"order {number}" for number in range(1, 11) if number != 5]
        assert "is damaged" in qm.discards()[-1].reason
        assert queue.count == 9
    code, out, _ = check(capsys, directory)
    assert code == 1
    assert "label 'order 5': a damaged record" in out[0]
    assert out[1].endswith("1 discards, 0 stages, 1 records set aside")


def test_a_damaged_page_is_found_before_lmdb_is_asked(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The number of every page that is in use; LMDB may end the process on such a file."""
    found = 0
    for page in range(2, 62):
        change(directory, lambda data, page=page: flip(data, page * PAGE))  # type: ignore[misc]
        code, out, err = check(capsys, directory)
        if code:
            found += 1
            assert out[0].startswith("pages: ")
            assert "the records were not checked" in err
        change(directory, lambda data, page=page: flip(data, page * PAGE))  # type: ignore[misc]
    assert found > 10
    assert check(capsys, directory)[0] == 0


@pytest.mark.parametrize("size", [0, 100, 5 * PAGE])
def test_a_file_that_was_cut(directory: Path, capsys: pytest.CaptureFixture[str], size: int) -> None:
    with (directory / DATA_NAME).open("r+b") as file:
        file.truncate(size)
    code, out, _ = check(capsys, directory)
    assert code == 1
    assert out[0].startswith("pages: ")


def test_a_newer_format(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = LmdbStore.open(directory)
    batch = store.begin()
    batch.put(Keyspace.META, FORMAT_KEY, b"99")
    batch.commit()
    store.close()
    code, out, _ = check(capsys, directory)
    assert code == 1
    assert "does not know (present: 99, limit: 2)" in out[0]


def test_a_store_that_is_open(directory: Path) -> None:
    with tiercel.open(directory, computer_name="HOST") as qm:
        qm.queue(r".\private$\orders").send(b"express, and not in the store")
        command = [sys.executable, "-m", "tiercel", "check", str(directory), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
        assert qm.queue(r".\private$\orders").count == 11
    assert done.returncode == 0, done.stderr
    summary: dict[str, Any] = json.loads(done.stdout)
    assert summary["pages_verified"] is False
    assert summary["counts"]["messages"] == 11
    assert "the last commit was checked, the pages were not" in done.stderr


@pytest.mark.parametrize("make", [lambda _path: None, Path.mkdir, Path.touch])
def test_no_store(tmp_path: Path, capsys: pytest.CaptureFixture[str], make: Callable[[Path], None]) -> None:
    make(tmp_path / "nothing")
    code, out, err = check(capsys, tmp_path / "nothing")
    assert code == 2
    assert out == []
    assert "there is no store here" in err


def test_memory_does_not_grow_with_the_messages(tmp_path: Path) -> None:
    def peak(count: int) -> int:
        with tiercel.open(tmp_path / str(count), computer_name="HOST") as qm, qm.batch():
            queue = qm.create_queue(r".\private$\many")
            for _ in range(count):
                queue.send(tiercel.Message(b"x", delivery=1, time_to_be_received=10**6))
        with open_snapshot(tmp_path / str(count)) as view:
            tracemalloc.start()
            assert list(Checker(view).problems()) == []
            size = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        return size

    peak(3000)  # fills the caches, which are bounded
    assert peak(6000) < peak(300) + 50_000
