"""What a search asks of the process that searches, and its answer."""

from collections.abc import Sequence
from typing import NamedTuple


class Stretch(NamedTuple):
    """Stored messages of a queue, by lookup id."""

    directory: str  # of the store
    slot: int
    first: int
    last: int


class Searched(NamedTuple):
    """Lookup ids of the messages that match, and of those that took too long."""

    found: Sequence[int]
    skipped: Sequence[int]
    looked: int = 0  # messages that were compared
    looked_bytes: int = 0
    reached: int | None = None  # where to continue; None: all were compared
