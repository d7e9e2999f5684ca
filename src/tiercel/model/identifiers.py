"""Identifiers: GUIDs, message ids, lookup ids and transactional sequences."""

from typing import NamedTuple
from uuid import UUID

NULL_GUID = UUID(int=0)

LOOKUP_SEQUENCE_BITS = 56
_SEQUENCE_MASK = (1 << LOOKUP_SEQUENCE_BITS) - 1


class MessageId(NamedTuple):
    r"""Globally unique id of a message: OBJECTID [MS-MQMQ] 2.2.8, written `{guid}\number`."""

    lineage: UUID = NULL_GUID
    uniquifier: int = 0

    def __str__(self) -> str:
        return f"{{{self.lineage}}}\\{self.uniquifier}"

    @classmethod
    def parse(cls, text: str) -> "MessageId":
        lineage, separator, uniquifier = text.partition("\\")
        if not (separator and uniquifier.isascii() and uniquifier.isdigit()) or len(uniquifier) > 10:
            raise ValueError(f"{text[:80]!r} is not a valid message id; write it as {{guid}}\\number")
        if (number := int(uniquifier)) > 0xFFFF_FFFF:
            raise ValueError(f"{number} is too large for a message id; the largest number is {0xFFFF_FFFF}")
        return cls(UUID(lineage), number)


class TxSequenceId(NamedTuple):
    """Identifies a stream of transactional messages: TxSequenceID [MS-MQMQ] 2.2.18.1.2.

    The timestamp is the high half in comparisons (MQQB T62), so it stands first here and last on the wire.
    """

    timestamp: int = 0
    ordinal: int = 0


NO_SEQUENCE = TxSequenceId()


class SequenceInfo(NamedTuple):
    """The position of a message in its stream: SEQUENCE_INFO [MS-MQMQ] 2.2.5."""

    sequence_id: TxSequenceId = NO_SEQUENCE
    number: int = 0
    previous_number: int = 0


def lookup_id(priority: int, sequential_id: int) -> int:
    """The 64-bit id that sorts a queue: higher priority first, then arrival.

    [MS-MQDMPR] 3.1.7.1.9 as corrected by DMPR T-02: every message gets the priority byte, and a transactional
    message, which has no priority, is passed as priority 0.
    """
    return (7 - priority) << LOOKUP_SEQUENCE_BITS | sequential_id & _SEQUENCE_MASK


def lookup_id_sequence(lookup_id: int) -> int:
    """The arrival counter inside a lookup id."""
    return lookup_id & _SEQUENCE_MASK
