"""Messages of one shape, one after the other: what is decided about the first holds for all of them.

A busy sender repeats itself: the same queue, the same properties, other bodies. Such packets are recognised
by comparing their headers with those of the first one, in a fraction of the time that decoding takes. Only
these fields may differ:

    UserHeader          MessageID
    TransactionHeader   TxSequenceNumber, PreviousTxSequenceNumber; ID, first and last of a transaction
    properties          CorrelationID, body type, application tag, size of the body; label of the same length
    label, extension and body

Messages with a SessionHeader, with a signature or an encrypted body, with rare headers, and acknowledgements
have no shape: each of them is by itself.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, pairwise
from typing import Self
from zlib import crc32

from tiercel.model.limits import MAX_PACKET_SIZE
from tiercel.wire.base_header import DEBUG_HEADER, SESSION_HEADER
from tiercel.wire.security_header import ENCRYPTED_BODY
from tiercel.wire.session_header import SessionHeader
from tiercel.wire.transaction_header import CONNECTOR_GUID, FINAL_ACK_REQUIRED
from tiercel.wire.user_message import PROPERTIES, RARE_HEADERS, UserMessage

_place = struct.Struct("<II").unpack_from
_COMPARED_FLAGS = CONNECTOR_GUID | FINAL_ACK_REQUIRED


class Alike:
    """One or more messages of one shape, without SessionHeader."""

    __slots__ = ("_identities", "first", "packets", "session")

    first: UserMessage
    packets: Sequence[bytes]  # of all messages, the first one's too
    session: SessionHeader | None  # that came with a single message

    def __init__(
        self, first: UserMessage, packets: Sequence[bytes] = (), identities: Sequence[bytes] = ()
    ) -> None:
        """`identities`, if they are known."""
        self.session = first.session
        self.first = first.without_session()
        self.packets = packets or (self.first.data,)
        self._identities = list(identities)

    def __len__(self) -> int:
        return len(self.packets)

    @property
    def size(self) -> int:
        """Of all packets, in bytes."""
        return sum(map(len, self.packets))

    def messages(self) -> Iterator[UserMessage]:
        return chain((self.first,), map(UserMessage, self.packets[1:]))

    def singles(self) -> "Iterator[Alike]":
        """Each message by itself."""
        return iter((self,)) if len(self.packets) == 1 else map(Alike, self.messages())

    def count_hop(self) -> None:
        """`UserMessage.count_hop` of each."""
        self.first.count_hop()
        flags, join = self.first.data[60:64], b"".join
        self.packets = [join((packet[:60], flags, packet[64:])) for packet in self.packets]

    @property
    def identities(self) -> list[bytes]:
        """`UserMessage.identity` of each."""
        if not self._identities:
            self._identities = self._identify()
        return self._identities

    def _identify(self) -> list[bytes]:
        first = self.first
        if len(self.packets) == 1:
            return [first.identity]
        source, at, sent, join = first.data[16:28], first.properties_at, first.sent_time, b"".join
        return [
            join((source, packet[56:60], crc32(packet[at:], sent).to_bytes(4, "little")))
            for packet in self.packets
        ]

    @property
    def are_in_order(self) -> bool:
        """Of transactional messages: whether each of them may follow the one before it (MQQB-150)."""
        at = self.first.place_at
        places = [_place(packet, at) for packet in self.packets]
        return all(previous <= before < number for (before, _), (number, previous) in pairwise(places))

    @property
    def last_number(self) -> int:
        """Of transactional messages: the TxSequenceNumber of the last."""
        number: int = _place(self.packets[-1], self.first.place_at)[0]
        return number


class Shape:
    """What the packets of one shape have in common."""

    __slots__ = (
        "_body_at",
        "_compared",
        "_equal",
        "_expected",
        "_first",
        "_flags",
        "_flags_at",
        "_label_end",
        "_size",
        "_sizes",
    )

    def __init__(self, first: UserMessage) -> None:
        place_at = first.place_at if first.is_transactional else 0
        self._compared, self._sizes, self._equal = _fields(first.properties_at, place_at)
        self._expected = self._compared.unpack_from(first.data)
        self._size, self._first = len(first.data), self._equal.unpack_from(first.data)
        self._flags_at = place_at - 12 if place_at else 0  # of TransactionHeader
        self._flags = first.data[self._flags_at] & _COMPARED_FLAGS
        self._label_end, self._body_at = first.label_end, first.body_at

    @classmethod
    def of(cls, first: UserMessage) -> Self | None:
        """None for a message that is always by itself."""
        return cls(first) if _has_shape(first) else None

    def size_at(self, data: bytes, at: int) -> int:
        """The size of the packet of this shape that is at `at`; 0 if there is none, or it is not whole."""
        if len(data) - at >= self._size and self._equal.unpack_from(data, at) == self._first:
            size = self._size  # of the same size, too: the usual case
        elif not (size := self._other_size_at(data, at)):
            return 0
        if self._flags_at and data[at + self._flags_at] & _COMPARED_FLAGS != self._flags:
            return 0
        label_end = self._label_end
        if label_end and data[at + label_end - 2 : at + label_end] != b"\0\0":
            return 0
        return size

    def _other_size_at(self, data: bytes, at: int) -> int:
        """The size of a packet that differs from the first in its size, as far as its headers show."""
        compared = self._compared
        if len(data) - at < compared.size or compared.unpack_from(data, at) != self._expected:
            return 0
        size, body, allocated = self._sizes.unpack_from(data, at)
        body = max(allocated, body)
        if self._body_at + body + 3 & ~3 != size or at + size > len(data) or size > MAX_PACKET_SIZE:
            return 0
        return int(size)


def take_alike(first: UserMessage, data: bytes, at: int) -> Alike:
    """A message, and all whole ones of its shape that follow it at `at`."""
    if data[at + 12 : at + 56] != first.data[12:56]:  # the usual difference, if any
        return Alike(first)
    shape = Shape.of(first)
    packets = [first.data]
    while shape is not None and (size := shape.size_at(data, at)):
        packets.append(data[at : at + size])
        at += size
    return Alike(first, packets)


def by_shape(packets: Iterable[bytes]) -> Iterator[Alike]:
    """Packets one after the other, those of one shape together."""
    together: list[bytes] = []
    first: UserMessage | None = None
    shape: Shape | None = None
    for packet in packets:
        if shape is not None and shape.size_at(packet, 0) == len(packet):
            together.append(packet)
            continue
        if first is not None:
            yield Alike(first, together)
        first = UserMessage(packet)
        shape, together = Shape.of(first), [packet]
    if first is not None:
        yield Alike(first, together)


def with_previous_numbers(
    packets: Sequence[bytes], place_at: int, numbers: Sequence[int], previous: int
) -> list[bytes]:
    """Transactional packets of one shape, each with the number before its own; the first with `previous`."""
    at, join = place_at + 4, b"".join
    befores = [before.to_bytes(4, "little") for before in (previous, *numbers[:-1])]
    return [
        packet if packet[at : at + 4] == before else join((packet[:at], before, packet[at + 4 :]))
        for packet, before in zip(packets, befores, strict=True)
    ]


def _has_shape(message: UserMessage) -> bool:
    return not (
        message.base_flags & (SESSION_HEADER | DEBUG_HEADER)
        or message.flags & RARE_HEADERS
        or message.message_class
        or message.security_flags & ENCRYPTED_BODY
        or message.has_signature
        or message.trailer
    )


@lru_cache(256)
def _fields(properties_at: int, place_at: int) -> tuple[struct.Struct, struct.Struct, struct.Struct]:
    """Where the headers of two packets must be equal, the sizes of packet and body, and both of them."""
    # PacketSize, MessageID and, in a transaction, its flags and the place are skipped.
    headers = f"{properties_at - 60}s"
    if place_at:
        headers = f"{place_at - 72}s4x8s8x{properties_at - place_at - 8}s"
    # In the properties, the first word and everything after the sizes.
    compared = struct.Struct(f"<8s4x44s4x{headers}4s36x16s")
    sizes = struct.Struct(f"<8xI{properties_at + 20}xII")
    equal = struct.Struct(f"<56s4x{headers}4s28x24s")
    assert compared.size == equal.size == properties_at + PROPERTIES.size
    return compared, sizes, equal
