"""Redirections over the API: their own calls, the roles and the audit log."""

from itertools import count
from typing import Any

from api.asked import Asked

ROW = {"kind": "inbound", "pattern": "http://public/msmq/*", "to": "http://inside/msmq/private$/orders"}


def test_add_list_and_remove(served: Asked) -> None:
    assert served.get("/redirections").json() == {
        "store_and_forward": False,
        "receipts_default": None,
        "redirections": [],
    }
    assert served.post("/redirections", ROW).json() == ROW
    assert served.get("/redirections").json()["redirections"] == [ROW]
    chosen = {"kind": ROW["kind"], "pattern": ROW["pattern"]}
    assert served.ask("DELETE", "/redirections", params=chosen).json() == chosen
    assert served.ask("DELETE", "/redirections", params=chosen).status_code == 404
    assert served.get("/redirections").json()["redirections"] == []


def test_settings(served: Asked) -> None:
    changed = served.ask("PATCH", "/redirections", json={"store_and_forward": True})
    assert changed.json()["store_and_forward"] is True
    changed = served.ask("PATCH", "/redirections", json={"store_and_forward": False})
    assert changed.json()["store_and_forward"] is False
    assert served.ask("PATCH", "/redirections", json={"receipts_default": "here"}).status_code == 400
    assert served.post("/redirections", {**ROW, "kind": "sideways"}).status_code == 400


def audited(served: Asked, what: str, changes: str | None) -> dict[str, Any]:
    lines = (served.event("audit", number) for number in count())
    return next(each for each in lines if (each["what"], each.get("changes")) == (what, changes))


def test_changes_are_audited(served: Asked) -> None:
    pattern = "http://audited/msmq/*"
    served.post("/redirections", {**ROW, "pattern": pattern, "to": "http://audited/msmq/q"})
    served.ask("DELETE", "/redirections", params={"kind": "inbound", "pattern": pattern})
    served.ask("PATCH", "/redirections", json={"store_and_forward": False, "receipts_default": None})
    added = audited(served, "add redirection", "http://audited/msmq/q")
    assert (added["subject"], added["result"]) == (f"inbound {pattern}", "200")
    audited(served, "change redirections", "store_and_forward=False, receipts_default=None")
    removed = [each for each in served.events if each.get("what") == "remove redirection"]
    assert removed[-1]["subject"] == f"inbound {pattern}"
