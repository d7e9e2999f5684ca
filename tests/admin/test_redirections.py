"""Redirections of messages over HTTP are listed and changed; the next message follows them."""

from typing import Any

import pytest

from srmp.vectors import load
from srmp.world import Side
from tiercel.admin import redirections
from tiercel.model.errors import IllegalPropertyValueError, InvalidParameterError, MessageNotFoundError

URL = "http://machine2/msmq/private$/simpleQ"  # of the vector
NOTHING: dict[str, Any] = {"store_and_forward": False, "receipts_default": None, "redirections": []}


@pytest.fixture
def here() -> Side:
    side = Side(name="HERE")
    side.create("orders")
    return side


def post(here: Side) -> int:
    return here.post(load("02_msmq_element").replace(b">2007", b">2030"))


def listed(here: Side) -> dict[str, Any]:
    return here.run(lambda: redirections.all_redirections(here.engine))


def add(here: Side, kind: str, pattern: str, to: str = "") -> dict[str, Any]:
    return here.run(lambda: redirections.add(here.engine, kind, pattern, to))


def test_there_are_none_at_first(here: Side) -> None:
    assert listed(here) == NOTHING


@pytest.mark.conformance("SRMP-171")
def test_the_next_message_follows_a_new_one_and_not_a_removed_one(here: Side) -> None:
    assert post(here) == 400
    row = {"kind": "inbound", "pattern": "http://machine2/*", "to": "http://here/msmq/private$/orders"}
    assert add(here, *row.values()) == row
    assert listed(here)["redirections"] == [row]
    assert post(here) == 200
    assert here.box("orders").state.count == 1
    here.run(lambda: redirections.remove(here.engine, "inbound", "HTTP://machine2/*"))
    assert post(here) == 400


@pytest.mark.conformance("SRMP-169")
def test_store_and_forward_is_switched_on_and_off(here: Side) -> None:
    shown = here.run(lambda: redirections.change(here.engine, {"store_and_forward": True}))
    assert shown == {**NOTHING, "store_and_forward": True}
    assert post(here) == 200
    here.run(lambda: redirections.change(here.engine, {"store_and_forward": False}))
    assert post(here) == 400


def test_what_is_not_given_stays(here: Side) -> None:
    default = "https://outside/msmq/private$/order_queue$"
    here.run(lambda: redirections.change(here.engine, {"receipts_default": default}))
    here.run(lambda: redirections.change(here.engine, {"store_and_forward": True}))
    assert listed(here) == {**NOTHING, "store_and_forward": True, "receipts_default": default}
    here.run(lambda: redirections.change(here.engine, {"receipts_default": None}))
    assert listed(here)["receipts_default"] is None


@pytest.mark.conformance("SRMP-174")
def test_all_kinds_are_kept_in_their_order_across_a_restart(here: Side) -> None:
    rows = [
        ("inbound", "http://a/*", "http://here/msmq/private$/orders"),
        ("inbound", "http://b/msmq/q", "http://c/msmq/q"),
        ("outbound", "https://*", "http://proxy:8080/"),
        ("exception", "https://partner/*", None),
        ("receipts", "http://d/*", "http://outside/msmq/private$/order_queue$"),
    ]
    for kind, pattern, to in rows:
        add(here, kind, pattern, to or "")
    here.restart()
    assert [tuple(each.values()) for each in listed(here)["redirections"]] == rows


def test_a_pattern_is_there_once_and_keeps_its_place(here: Side) -> None:
    for pattern in ("http://a/*", "http://b/*", "http://A/*"):
        add(here, "outbound", pattern, f"{pattern[:-1]}x")
    assert [each["to"] for each in listed(here)["redirections"]] == ["http://A/x", "http://b/x"]


@pytest.mark.parametrize(
    ("kind", "pattern", "to"),
    [
        ("inbound", "http://a/*", "DIRECT=OS:b\\q"),
        ("inbound", "http://a/*", ""),
        ("inbound", "*", "http://b/msmq/q"),
        ("outbound", "http://a/*", "b"),
        ("exception", "http://a/*", "http://b/"),
        ("receipts", "http://a/*", "ftp://b/msmq/q"),
    ],
)
def test_what_cannot_be_used_is_refused(here: Side, kind: str, pattern: str, to: str) -> None:
    with pytest.raises(IllegalPropertyValueError):
        add(here, kind, pattern, to)
    assert listed(here) == NOTHING


def test_an_unknown_one_or_kind_is_an_error(here: Side) -> None:
    with pytest.raises(MessageNotFoundError):
        here.run(lambda: redirections.remove(here.engine, "inbound", "http://a/*"))
    with pytest.raises(InvalidParameterError, match="inbound, outbound"):
        add(here, "both", "http://a/*", "http://b/")
