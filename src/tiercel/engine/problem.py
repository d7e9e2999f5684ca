"""A finding of `tiercel check`, and helpers to word one."""

import struct
from typing import NamedTuple

from tiercel.model.errors import MqError, TiercelError
from tiercel.wire.user_message import UserMessage

_SIGNATURE = b"LIOR"  # of every packet, at its byte 4 ([MS-MQMQ] 2.2.19.1)
# Decoding a damaged record may raise these; each is a finding, and the check goes on.
UNREADABLE = (TiercelError, ValueError, TypeError, KeyError, AttributeError, struct.error)


class Problem(NamedTuple):
    """One damaged or missing thing, named as far as it still can be read."""

    keyspace: str
    text: str
    queue: str = ""
    lookup_id: int | None = None
    message_id: str = ""
    label: str = ""

    def __str__(self) -> str:
        words = [self.keyspace]
        if self.queue:
            words.append(f"queue {self.queue}")
        if self.lookup_id is not None:
            words.append(f"lookup id {self.lookup_id}")
        if self.message_id:
            words.append(f"message {self.message_id}")
        if self.label:
            words.append(f"label {self.label!r}")
        return f"{', '.join(words)}: {self.text}"


def named(problem: Problem, data: bytes) -> Problem:
    """The problem with the id and label of the message, if its record still shows them."""
    start = data.find(_SIGNATURE) - 4
    if start < 0:
        return problem
    try:
        packet = UserMessage(data[start:])
        return problem._replace(message_id=str(packet.id), label=packet.label)
    except UNREADABLE:
        return problem


def why(error: Exception) -> str:
    return error.problem if isinstance(error, MqError) else f"{error}" or type(error).__name__


def amount(count: int, size: int) -> str:
    return f"{count} messages with {size} bytes"
