"""`tiercel redirections`: redirections of messages over HTTP."""

from .running_verbs import Run

PATTERN, TO = "http://public/msmq/*", "http://inside/msmq/private$/orders"


def test_add_show_and_remove(run: Run) -> None:
    assert run.fine("redirections", "add", "inbound", PATTERN, TO).lines == [f"inbound {PATTERN}: {TO}"]
    run.fine("redirections", "add", "exception", "http://partner/*")
    head, inbound, exception, settings = run.fine("redirections").lines
    assert head.split() == ["KIND", "PATTERN", "TO"]
    assert inbound.split() == ["inbound", PATTERN, TO]
    assert exception.split() == ["exception", "http://partner/*"]
    assert settings == "Messages for other computers are refused."
    assert len(run.fine("redirections", "--json").record["redirections"]) == 2
    assert "add --yes" in run.refused(1, "redirections", "remove", "inbound", PATTERN)
    run.fine("redirections", "remove", "inbound", PATTERN, "--yes")
    run.fine("redirections", "remove", "exception", "http://partner/*", "--yes")
    assert "no such redirection" in run.refused(5, "redirections", "remove", "inbound", PATTERN, "--yes")
    assert run.fine("redirections").lines == ["Messages for other computers are refused."]


def test_settings(run: Run) -> None:
    url = "https://outside/msmq/private$/order_queue$"
    lines = run.fine("redirections", "set", "--store-and-forward", "--receipts-default", url).lines
    assert lines == ["Messages for other computers are passed on.", f"Receipts come to {url} by default."]
    lines = run.fine("redirections", "set", "--no-store-and-forward", "--receipts-default", "none").lines
    assert lines == ["Messages for other computers are refused."]
    assert "nothing to set" in run.refused(2, "redirections", "set")


def test_a_url_that_is_not_of_a_queue_is_refused(run: Run) -> None:
    assert "is not" in run.refused(1, "redirections", "add", "inbound", PATTERN, "orders")
