"""Outgoing queues: trying to connect at once."""

from pathlib import Path
from typing import Any

from addresses import own_address
from api.asked import Asked, asked, at
from data.served import until


def row(served: Asked, queue: str) -> dict[str, Any]:
    rows: list[dict[str, Any]] = served.get("/outgoing").json()["outgoing"]
    return next(each for each in rows if each["format_name"] == queue)


def test_resuming_tries_to_connect_at_once(tmp_path: Path) -> None:
    """The next try is an hour away; the computer is there before."""
    host = own_address(6)
    far = rf"DIRECT=TCP:{host}\private$\orders"
    (tmp_path / "far").mkdir()
    (tmp_path / "near").mkdir()
    options = "[binary]\nretry_ms = 3600000\nretry_max_ms = 3600000\nping = false\n"
    with asked(tmp_path / "near", options) as near:
        near.send(far, {"label": "late"})
        until(lambda: row(near, far)["why"] != "")
        with asked(tmp_path / "far", listen=f"{host}:1801") as there:
            there.create("orders")
            assert near.post(f"{at(far)}/resume").status_code == 200
            until(lambda: there.count("orders") == 1)
