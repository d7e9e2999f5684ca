from addresses import own_address

from .running_verbs import Run


def test_a_message_that_waits(run: Run, queue: str) -> None:
    identifier = run.fine("send", queue, "hello", "--label", "order 7", "--json").record["id"]
    first, *events = run.fine("why", identifier).lines
    assert first.startswith("order 7, ")
    assert [line[21:] for line in events[:1]] == [f"sent by this computer to {queue}"]
    assert any("What to do: it waits for a reader" in line for line in events)
    assert run.fine("why", identifier, "--json").record["state"] == "waiting"


def test_nothing_is_known(run: Run) -> None:
    result = run("why", r"{00000000-0000-0000-0000-00000000abcd}\7")
    assert (result.code, result.out) == (3, "")
    assert result.err.startswith("nothing is known about it")
    assert "is not a valid message id" in run.refused(1, "why", "7")


def test_explain(run: Run, queue: str) -> None:
    result = run.fine("explain", queue, "--size", "20k")
    assert result.lines[0].startswith("ok    the queue exists")
    refused = run("explain", queue, "--transactional")
    assert (refused.code, refused.lines[1][:5]) == (1, "fail ")
    assert "MQ_ERROR_TRANSACTION_USAGE" in refused.err
    far = rf"DIRECT=TCP:{own_address()}\private$\far"
    assert run.fine("explain", far, "--no-network").lines[0].startswith("ok    a queue of another computer")
    unreachable = run("explain", far)
    assert unreachable.code == 1
    assert f"cannot connect to {own_address()}:1801: Connection refused" in unreachable.out
    assert run("explain", queue, "--size", "much").code == 2
