import re
from collections.abc import Callable
from pathlib import Path

import pytest

from addresses import own_address

from .running_verbs import Run


@pytest.fixture
def filled(run: Run, new_queue: Callable[..., str], tmp_path: Path) -> str:
    """A queue with 25 messages."""
    queue = new_queue()
    lines = (
        f'{{"label": "message {number}", "text": "body {number}", "priority": 5}}\n' for number in range(25)
    )
    (tmp_path / "messages").write_text("".join(lines), "utf-8")
    run.fine("import", queue, tmp_path / "messages")
    return queue


def labels(run: Run, queue: str) -> list[str]:
    return [record["label"] for record in run.fine("peek", queue, "-n", "999", "--json").records]


@pytest.fixture(autouse=True)
def in_small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tiercel.cli.copy_move._AT_ONCE", 10)


def test_move_all(run: Run, filled: str, queue: str) -> None:
    before = labels(run, filled)
    moved = run.fine("mv", filled, queue).out
    assert moved.startswith(f"25 messages of {filled} moved to {queue}; `tiercel undo ")
    assert labels(run, queue) == before
    assert run.fine("count", filled).out == "0\n"
    assert run.fine("mv", filled, queue).out == f"0 messages of {filled} moved to {queue}\n"


def test_copy_some(run: Run, filled: str, queue: str) -> None:
    assert run.fine("cp", filled, queue, "--limit", "12", "--json").record["count"] == 12
    assert labels(run, queue) == labels(run, filled)[:12]
    assert run.fine("count", filled).out == "25\n"


def test_those_that_match(run: Run, filled: str, queue: str) -> None:
    run.fine("mv", filled, queue, "--match", "body 1.")
    assert labels(run, queue) == [f"message {number}" for number in range(10, 20)]
    identifier = run.fine("peek", filled, "--json").record["lookup_id"]
    run.fine("cp", filled, queue, "--lookup-id", identifier)
    assert labels(run, queue)[-1] == "message 0"
    assert run("mv", filled, queue, "--match", "nothing").code == 3
    assert run("mv", filled, queue, "--match", "priority>7").code == 3
    assert run.fine("mv", "--dry-run", filled, queue, "--match", "body:2 age<1d").out.startswith("6 messages")


def test_a_dry_run(run: Run, filled: str, queue: str) -> None:
    assert run.fine("mv", "-n", filled, queue).out == f"25 messages of {filled} would be moved to {queue}\n"
    assert run.fine("cp", "-n", filled, queue).out == f"25 messages of {filled} would be copied to {queue}\n"
    assert run.fine("count", filled).out == "25\n"
    assert run.fine("count", queue).out == "0\n"


def test_a_move_is_undone(run: Run, filled: str, queue: str) -> None:
    before = labels(run, filled)
    moved = run.fine("mv", filled, queue)
    (number,) = re.findall(r"`tiercel undo (\d+)` puts them back", moved.out)
    undone = run.fine("undo", number)
    assert undone.out == f"25 of 25 messages put back into {filled}\n"
    assert (labels(run, filled), run.fine("count", queue).out) == (before, "0\n")


def test_refused(run: Run, filled: str) -> None:
    assert "MQ_ERROR_QUEUE_NOT_FOUND" in run.refused(5, "mv", filled, f"{filled}x")
    assert "MQ_ERROR_QUEUE_NOT_FOUND" in run.refused(5, "mv", f"{filled}x", filled)
    assert "name another queue" in run.refused(1, "cp", filled, filled).casefold()
    assert run.fine("count", filled).out == "25\n"


def test_into_a_transactional_queue(run: Run, filled: str, new_queue: Callable[..., str]) -> None:
    target = new_queue("--transactional")
    run.fine("mv", filled, target)
    messages = run.fine("peek", target, "-n", "999", "--json").records
    assert len(messages) == 25
    assert all("transaction_id" in each for each in messages)


def test_replay(run: Run, filled: str) -> None:
    run.fine("mv", filled, f"{filled};poison")
    poison = f"{filled};poison"
    said = run.fine("replay", "-n", poison, "--limit", "5").out
    assert said == f"5 messages of {poison} would be replayed to their destinations\n"
    assert run.fine("replay", poison, "--match", "body 1.").out.startswith("10 messages of")
    assert labels(run, filled) == [f"message {number}" for number in range(10, 20)]
    assert run.fine("replay", poison, "--keep", "--limit", "1", "--json").record["count"] == 1
    assert run.fine("count", poison).out == "15\n"
    said = run.fine("replay", poison, "--to", filled).out
    assert said.startswith(f"15 messages of {poison} replayed to {filled}; `tiercel undo ")
    assert run("replay", filled, "--match", "nothing").code == 3


def test_replay_with_the_same_id_only(run: Run, filled: str) -> None:
    poison = f"{filled};poison"
    run.fine("mv", filled, poison)
    far = rf"DIRECT=TCP:{own_address(6)}\private$\far"
    for how in (("-n",), (), ("--since", "1h")):
        assert "a new id" in run.refused(1, "replay", poison, "--same-id", "--to", far, *how)
    assert run.fine("replay", poison, "--same-id").out.startswith(f"25 messages of {poison} replayed")


class TestInTheQueueManager:
    def test_by_time_and_rate(self, run: Run, filled: str, queue: str) -> None:
        moved = run.fine("mv", filled, queue, "--since", "1h", "--rate", "1000/s", "--match", "body:2")
        assert moved.out.startswith(f"7 messages of {filled} moved; `tiercel undo ")
        assert run.fine("count", queue).out == "7\n"
        assert run("mv", filled, queue, "--until", "2020-01-01").code == 3
        assert (
            run.fine("cp", filled, queue, "--since", "1h", "-n").out
            == f"18 messages of {filled} would be copied\n"
        )

    def test_in_the_background(self, run: Run, filled: str, queue: str) -> None:
        begun = run.fine("cp", filled, queue, "--background", "--rate", "1/h", "--json").record
        shown = run.fine("operations", "--json").records[0]
        assert (shown["id"], shown["kind"], shown["state"], shown["total"]) == (
            begun["id"],
            "copy",
            "running",
            25,
        )
        assert run.fine("operations", "--cancel", begun["id"], "--json").records[0]["state"] == "cancelled"
        assert run("operations", "--pause", begun["id"]).code == 1

    def test_what_goes_wrong_is_told(self, run: Run, filled: str) -> None:
        assert "nowhere" in run.refused(1, "replay", filled, "--to", "nowhere", "--since", "1h")
        for wrong in (["--rate", "fast"], ["--since", "yore"], ["--rate", "1", "--lookup-id", "1"]):
            assert run("replay", filled, *wrong).code == 2


class TestOfAFile:
    def test_each_message_goes_to_its_own_destination(
        self, run: Run, filled: str, queue: str, tmp_path: Path
    ) -> None:
        file = tmp_path / "some.jsonl"
        run.fine("send", queue, "other", "--label", "other")
        lines = [run.fine("export", each).out for each in (queue, filled)]
        file.write_text("".join(lines), "utf-8")
        for each in (filled, queue):
            run.fine("purge", each, "--yes")
        assert (
            run.fine("replay", file, "-n").out
            == f"26 messages of {file} would be replayed to their destinations\n"
        )
        assert run.fine("count", queue).out == "0\n"
        assert run.fine("replay", file).out == f"26 messages of {file} replayed to their destinations\n"
        assert labels(run, queue) == ["other"]
        assert labels(run, filled) == [f"message {number}" for number in range(25)]

    def test_to_another_queue_with_a_limit(self, run: Run, filled: str, queue: str, tmp_path: Path) -> None:
        (tmp_path / "some.jsonl").write_text(run.fine("export", filled).out, "utf-8")
        assert (
            run.fine("replay", tmp_path / "some.jsonl", "--to", queue, "--limit", "3", "--json").record[
                "count"
            ]
            == 3
        )
        assert labels(run, queue) == ["message 0", "message 1", "message 2"]

    def test_to_another_computer_as_each_message_was(self, run: Run, queue: str, tmp_path: Path) -> None:
        far, file = r"DIRECT=TCP:192.0.2.9\private$\far", tmp_path / "some.jsonl"
        run.fine("send", far, "a", "--transactional", "--label", "of a transaction")
        run.fine("send", far, "b", "--recoverable", "--label", "of none")
        file.write_text(run.fine("export", far).out, "utf-8")
        run.fine("purge", far, "--yes")
        run.fine("replay", file)
        found = run.fine("peek", far, "-n", "9", "--json").records
        assert {each["label"]: "transaction_id" in each for each in found} == {
            "of a transaction": True,
            "of none": False,
        }
        del queue

    def test_what_is_wrong_sends_nothing(self, run: Run, filled: str, tmp_path: Path) -> None:
        file = tmp_path / "some.jsonl"
        file.write_text(run.fine("export", filled).out + "{", "utf-8")
        assert "line 26: not a JSON object" in run.refused(1, "replay", file)
        file.write_text('{"label": "of nowhere"}\n', "utf-8")
        assert "it does not name the queue" in run.refused(1, "replay", file)
        wrong = run("replay", file, "--match", "x")
        assert (wrong.code, "takes --to, --limit" in " ".join(wrong.err.split())) == (2, True)
        assert run.fine("count", filled).out == "25\n"

    def test_a_queue_is_no_file(
        self, run: Run, queue: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        (tmp_path / queue).write_text("not a file of export")
        assert run.fine("replay", queue).out == f"0 messages of {queue} replayed to their destinations\n"
