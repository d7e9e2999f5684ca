"""Reads the last messages of a queue, page by page."""

from typing import Final

from tiercel.cli.connection import queue_path
from tiercel.cli.context import Context
from tiercel.cli.output import Record

LAST_MAX: Final = 1000  # limit of `newest`


def newest(context: Context, queue: str, count: int) -> tuple[list[Record], str]:
    """The last messages in arrival order, and the position after them."""
    found: list[Record] = []
    options: dict[str, object] = {"last": count} if count else {"after": "end"}
    while True:
        page = context.api.get(queue_path(queue, "messages"), order="arrival", limit=LAST_MAX, **options)
        found += page["messages"]
        options = {"after": page["next"]}
        if not page["messages"] or len(found) >= count:
            return found, page["next"]
