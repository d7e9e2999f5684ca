"""DebugHeader: the queue that gets the trace of a message. [MS-MQMQ] 2.2.20.8."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self
from uuid import UUID

from tiercel.wire.structure import Layout, Part, Reader, Structure, encode_guid, flag_words

QUEUE_TYPE = 0x3
PUBLIC_QUEUE = 0x1


@dataclass(frozen=True, slots=True)
class DebugHeader(Structure):
    """[MS-MQMQ] 2.2.20.8"""

    flags: int = 0
    reserved: int = 0
    queue_identifier: UUID | None = None

    LAYOUT = Layout("H H")
    FLAGS = flag_words(flags="QT:2")

    @classmethod
    def read(cls, reader: Reader) -> Self:
        at = reader.at
        flags, reserved = reader.fixed(cls)
        if flags & QUEUE_TYPE > PUBLIC_QUEUE:
            raise reader.error("flags", f"QT is {flags & QUEUE_TYPE}, allowed are 0 and 1", at)
        return cls(flags, reserved, reader.guid("queue_identifier") if flags & QUEUE_TYPE else None)

    def variable(self) -> Iterator[Part]:
        if self.queue_identifier is not None:
            yield Part("queue_identifier", encode_guid(self.queue_identifier), self.queue_identifier)
