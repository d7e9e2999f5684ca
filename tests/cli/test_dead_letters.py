import re
import shlex
from collections.abc import Callable

import pytest

from addresses import own_address

from .running_verbs import Run


def test_the_journal_of_a_queue(run: Run, new_queue: Callable[..., str]) -> None:
    queue = new_queue("--journal")
    assert run("journal", queue).err == "The journal is empty.\n"
    run.fine("send", queue, "hello", "--label", "kept", "--recoverable")
    run.fine("receive", queue)
    head, row = run.fine("journal", queue).lines
    assert head.split()[0] == "ARRIVED"
    assert row.endswith("kept   hello")
    assert run.fine("journal", queue, "--full").lines[0] == "kept"
    assert "no such queue" in run.refused(5, "journal", f"{queue}x")


def test_the_journal_of_the_computer(run: Run, queue: str) -> None:
    run.fine("send", queue, "hello", "--label", f"label of {queue}", "--journal", "--recoverable")
    assert f"label of {queue}" in {each.get("label") for each in run.fine("journal", "--json").records}


def test_dead_letters_and_why(run: Run, queue: str) -> None:
    label = f"label of {queue}"
    run.fine("send", queue, "hello", "--label", label, "--dead-letter", "--recoverable", "--ttl", "0")
    run.fine("peek", ";deadletter", "--wait", "60")
    letter = next(each for each in run.fine("dead", "--json").records if each["label"] == label)
    assert (letter["queue"], letter["reason"]) == (";deadletter", "the message was not received in time")
    line = next(line for line in run.fine("dead").lines if label in line)
    assert "the message was not received in time" in line
    assert run.fine("dead", "--full", "-n", "1").lines[0] == label
    group = next(
        each for each in run.fine("dead", "--group", "--json").records if queue in each["destination"]
    )
    assert (group["count"], group["reason"]) == (1, letter["reason"])
    assert "start the receiver" in run.fine("dead", "--group").out


def test_a_group_is_replayed_by_the_command_that_it_prints(
    run: Run, queue: str, new_queue: Callable[..., str]
) -> None:
    for name in (queue, f"{queue}-other"):
        far = rf"DIRECT=TCP:{own_address(6)}\private$\{name}"
        run.fine("send", far, "hello", "--label", name, "--dead-letter", "--recoverable")
        run.fine("purge", "--yes", far)
    lines = [line.strip() for line in run.fine("dead", "--group").lines]
    (line,) = [each for each in lines if "tiercel replay" in each and each.endswith(rf"\{queue}'")]
    command = shlex.split(line[line.index("tiercel replay") :])[1:]
    assert run.fine(*command, "--dry-run", "--to", queue).out.startswith(
        "1 message of ;deadletter would be replayed"
    )
    moved = run.fine(*command, "--to", new_queue(), "--json").record
    assert moved["count"] == 1
    assert run.fine("undo", moved["operation"]).out == "1 of 1 message put back into ;deadletter\n"
    said = run.fine(*command, "--to", new_queue(), "--since", "1h").out
    (number,) = re.findall(r"`tiercel undo (\d+)` puts them back", said)
    assert run.fine("undo", number).out.startswith("1 of 1")


def test_the_reason_stays_however_many_discards_follow(
    run: Run, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tiercel.cli.dead_letters._LOOKED_AT", 1)
    label = f"label of {queue}"
    run.fine("send", queue, "hello", "--label", label, "--dead-letter", "--recoverable", "--ttl", "0")
    while label not in run.fine("dead").out:
        run.fine("peek", ";deadletter", "--wait", "1")
    run.fine("send", queue, "later")
    run.fine("purge", "--yes", queue)
    letter = next(each for each in run.fine("dead", "--json").records if each["label"] == label)
    assert letter["reason"] == "the message was not received in time"


def test_discards(run: Run, queue: str) -> None:
    run.fine("send", queue, "hello", "--label", f"label of {queue}")
    run.fine("purge", "--yes", queue)
    last = run.fine("discards", "-n", "1", "--json").record
    assert last["label"] == f"label of {queue}"
    head, row = run.fine("discards", "-n", "1").lines
    assert head.split() == ["TIME", "QUEUE", "LABEL", "SIZE", "REASON"]
    assert "purged" in row
