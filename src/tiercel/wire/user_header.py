"""UserHeader: source and destination of a message, and the headers that follow. [MS-MQMQ] 2.2.19.2."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self
from uuid import UUID

from tiercel.model.codes import QueueFormatType
from tiercel.model.identifiers import NULL_GUID
from tiercel.model.limits import INFINITE
from tiercel.wire.queue_names import STRUCTURE_OF_KIND, QueueName
from tiercel.wire.structure import Layout, Part, Reader, Structure, encode_guid, flag_words

HOP_COUNT = 0x1F
DELIVERY_SHIFT = 5
DELIVERY = 0x3 << DELIVERY_SHIFT
NEGATIVE_JOURNALING = 1 << 8
POSITIVE_JOURNALING = 1 << 9
DESTINATION_SHIFT = 10
ADMIN_SHIFT = 13
ADMIN_QUEUE = 0x7 << ADMIN_SHIFT  # not 0 if the packet has one
RESPONSE_SHIFT = 16
SECURITY_HEADER = 1 << 19
TRANSACTION_HEADER = 1 << 20
MESSAGE_PROPERTIES_HEADER = 1 << 21
CONNECTOR_TYPE = 1 << 22
MULTI_QUEUE_FORMAT_HEADER = 1 << 23
ARRIVED_OVER_HTTP = 1 << 25
SOAP_HEADER = 1 << 28

_Q = QueueFormatType
DESTINATION_KINDS = frozenset({_Q.NONE, _Q.PRIVATE_ON_DESTINATION, _Q.PUBLIC, _Q.DIRECT})
ADMIN_KINDS = DESTINATION_KINDS | {_Q.PRIVATE_ON_SOURCE, _Q.PRIVATE_ON_OTHER}
RESPONSE_KINDS = frozenset(_Q)

# The three queue names in wire order: field, shift of its kind in the flags, allowed kinds.
_NAMES = (
    ("destination_queue", DESTINATION_SHIFT, DESTINATION_KINDS),
    ("admin_queue", ADMIN_SHIFT, ADMIN_KINDS),
    ("response_queue", RESPONSE_SHIFT, RESPONSE_KINDS),
)


@dataclass(frozen=True, slots=True)
class UserHeader(Structure):
    """[MS-MQMQ] 2.2.19.2"""

    source_queue_manager: UUID = NULL_GUID
    queue_manager_address: UUID = NULL_GUID
    time_to_be_received: int = INFINITE
    sent_time: int = 0
    message_id: int = 0
    flags: int = MESSAGE_PROPERTIES_HEADER
    destination_queue: QueueName | None = None
    admin_queue: QueueName | None = None
    response_queue: QueueName | None = None
    connector_type: UUID | None = None

    LAYOUT = Layout("GUID GUID I I I I")
    FLAGS = flag_words(flags="RC:5 DM:2 - JN JP DQ:3 AQ:3 RQ:3 SH TH MP CQ MQ - AH -:2 HH -:3")

    @classmethod
    def read(cls, reader: Reader) -> Self:
        flags_at = reader.at + 44
        fixed = reader.fixed(cls)
        flags = fixed[5]
        if not flags & MESSAGE_PROPERTIES_HEADER:
            raise reader.error("flags", "MP is 0: every message has a MessagePropertiesHeader", flags_at)
        for field, shift, allowed in _NAMES:
            if flags >> shift & 7 not in allowed:
                raise reader.error("flags", f"{field} cannot be of kind {flags >> shift & 7}", flags_at)
        names = [_read_name(reader, flags >> shift & 7) for _, shift, _ in _NAMES]
        return cls.make(fixed, *names, reader.guid("connector_type") if flags & CONNECTOR_TYPE else None)

    def variable(self) -> Iterator[Part]:
        for field, shift, _ in _NAMES:
            name: QueueName | None = getattr(self, field)
            expected = STRUCTURE_OF_KIND.get(self.flags >> shift & 7)
            if expected is not (None if name is None else type(name)):
                raise ValueError(f"UserHeader.{field} is {name}, its kind in the flags requires {expected}")
            if name is not None:
                yield from (part._replace(name=f"{field}.{part.name}") for part in name.parts())
        if self.connector_type is not None:
            yield Part("connector_type", encode_guid(self.connector_type), self.connector_type)


def _read_name(reader: Reader, kind: int) -> QueueName | None:
    structure = STRUCTURE_OF_KIND.get(kind)
    return None if structure is None else structure.read(reader)
