"""Connections as management shows them."""

from typing import NamedTuple


class ConnectionInfo(NamedTuple):
    number: int
    address: str
    is_ours: bool  # we connected
    is_open: bool
    in_flight: int  # requests without an answer: 0 or 1
