from collections.abc import Callable

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
    run.fine("send", queue, "hello", "--label", f"label of {queue}", "--dead-letter", "--recoverable")
    run.fine("purge", "--yes", queue)
    letter = next(each for each in run.fine("dead", "--json").records if each["label"] == f"label of {queue}")
    assert (letter["queue"], letter["message_class"]) == (";deadletter", "nack_q_purged")
    line = next(line for line in run.fine("dead").lines if f"label of {queue}" in line)
    assert "the queue was purged before the message was received" in line
    run.fine("mv", ";deadletter", queue, "--match", f"^label of {queue}$")
    assert run.fine("count", queue).out == "1\n"


def test_discards(run: Run, queue: str) -> None:
    run.fine("send", queue, "hello", "--label", f"label of {queue}")
    run.fine("purge", "--yes", queue)
    last = run.fine("discards", "-n", "1", "--json").record
    assert last["label"] == f"label of {queue}"
    head, row = run.fine("discards", "-n", "1").lines
    assert head.split() == ["TIME", "QUEUE", "LABEL", "SIZE", "REASON"]
    assert "purged" in row
