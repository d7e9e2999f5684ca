"""What the exit codes of every verb mean: one table, for the program and for its documentation."""

from enum import IntEnum
from typing import Self


class ExitCode(IntEnum):
    meaning: str

    def __new__(cls, value: int, meaning: str) -> Self:
        member = int.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member

    FINE = 0, "it was done"
    FAILED = 1, "it could not be done; one line on the standard error says why"
    WRONG_USAGE = 2, "wrong usage, a file that cannot be read, or a wrong configuration; nothing was done"
    NOTHING = 3, "there was nothing: no message in time, or no match"
    DENIED = 4, "access denied: no token, a token without the role, or a directory of somebody else"
    NOT_FOUND = 5, "no such queue, message, consumer or transaction"
    NO_DAEMON = 69, "no daemon answers there; `serve`: it cannot listen there"
    BROKEN = 70, "`serve`: it failed while it ran; what was acknowledged is safe"
    NO_STORE = 73, "the store cannot be opened: in use, damaged, of a later version, or not writable"
    INTERRUPTED = 130, "Ctrl-C: as a shell reports a program that SIGINT has ended"
    BROKEN_PIPE = 141, "whoever read the output has gone away, as `head` does"
