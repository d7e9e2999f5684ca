"""Queue names in packets: [MS-MQMQ] 2.2.18.1.5 and 2.2.18.1.7."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self
from uuid import UUID

from tiercel.model.codes import QueueFormatType
from tiercel.model.identifiers import NULL_GUID
from tiercel.wire.structure import Layout, Part, Reader, Structure, encode_text_nul, padding


@dataclass(frozen=True, slots=True)
class PrivateQueueFormatNameId(Structure):
    """A private queue on a host that another field names: [MS-MQMQ] 2.2.18.1.5.1."""

    private_queue_identifier: int = 0

    LAYOUT = Layout("I")


@dataclass(frozen=True, slots=True)
class PublicQueueFormatName(Structure):
    """A public queue: [MS-MQMQ] 2.2.18.1.7.1."""

    public_queue_identifier: UUID = NULL_GUID

    LAYOUT = Layout("GUID")


@dataclass(frozen=True, slots=True)
class PrivateQueueFormatName(Structure):
    """A private queue with the queue manager that hosts it: [MS-MQMQ] 2.2.18.1.7.2."""

    source_queue_manager: UUID = NULL_GUID
    private_queue_identifier: int = 0

    LAYOUT = Layout("GUID I")


@dataclass(frozen=True, slots=True)
class DirectQueueFormatName(Structure):
    """A direct format name without its "DIRECT=" (MQQB T53): [MS-MQMQ] 2.2.18.1.5.2."""

    count: int = 2
    direct_format_name: str = ""
    padding: bytes = b""

    LAYOUT = Layout("H")

    @classmethod
    def of(cls, name: str) -> Self:
        return cls(len(encode_text_nul(name)), name)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        (count,) = reader.fixed(cls)
        name = reader.text(count, "direct_format_name")
        return cls(count, name, reader.padding(cls.LAYOUT.size + count))

    def variable(self) -> Iterator[Part]:
        name = encode_text_nul(self.direct_format_name)
        yield Part("direct_format_name", name, self.direct_format_name)
        yield Part("padding", padding(self.LAYOUT.size + len(name), self.padding), self.padding)


QueueName = PrivateQueueFormatNameId | PublicQueueFormatName | PrivateQueueFormatName | DirectQueueFormatName

# The structure of each kind in UserHeader.Flags; kinds that are absent here have no bytes.
STRUCTURE_OF_KIND: dict[int, type[QueueName]] = {
    QueueFormatType.PRIVATE_ON_SOURCE: PrivateQueueFormatNameId,
    QueueFormatType.PRIVATE_ON_DESTINATION: PrivateQueueFormatNameId,
    QueueFormatType.PRIVATE_ON_ADMIN: PrivateQueueFormatNameId,
    QueueFormatType.PUBLIC: PublicQueueFormatName,
    QueueFormatType.PRIVATE_ON_OTHER: PrivateQueueFormatName,
    QueueFormatType.DIRECT: DirectQueueFormatName,
}
