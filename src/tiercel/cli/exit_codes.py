"""Exit codes of all commands, for the program and its documentation."""

from enum import IntEnum
from typing import Self


class ExitCode(IntEnum):
    meaning: str

    def __new__(cls, value: int, meaning: str) -> Self:
        member = int.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member

    FINE = 0, "success"
    FAILED = 1, "failure; one line on stderr says why"
    WRONG_USAGE = 2, "invalid usage, unreadable file or invalid configuration; nothing was done"
    NOTHING = 3, "no message in time, or no match"
    DENIED = (
        4,
        "access denied: no token, a token without the required role, or a directory of another account",
    )
    NOT_FOUND = 5, "no such queue, message, consumer or transaction"
    NO_DAEMON = 69, "no daemon is reachable; for `serve`: the address cannot be opened"
    BROKEN = 70, "`serve` failed while running; acknowledged messages are safe"
    NO_STORE = 73, "the store cannot be opened: in use, damaged, of a newer version, or not writable"
    INTERRUPTED = 130, "interrupted with Ctrl-C"
    BROKEN_PIPE = 141, "the reader of the output closed the pipe, as `head` does"
