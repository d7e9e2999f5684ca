"""Messages of one shape, one after the other: what is decided about the first holds for all of them.

A busy sender repeats itself: the same queue, the same properties, other bodies. Such packets are recognised
by comparing their headers with those of the first one, in a fraction of the time that decoding takes. Only
these fields may differ:

    UserHeader          MessageID
    TransactionHeader   TxSequenceNumber, PreviousTxSequenceNumber
    properties          CorrelationID, body type, application tag, size of the body; label of the same length
    label, extension and body

Messages with a SessionHeader, with a signature or an encrypted body, with rare headers, and acknowledgements
have no shape: each of them is by itself.
"""

import struct
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain, pairwise
from zlib import crc32

from tiercel.model.limits import MAX_PACKET_SIZE
from tiercel.wire.base_header import DEBUG_HEADER, SESSION_HEADER
from tiercel.wire.security_header import ENCRYPTED_BODY
from tiercel.wire.session_header import SessionHeader
from tiercel.wire.user_message import PROPERTIES, RARE_HEADERS, UserMessage

_place = struct.Struct("<II").unpack_from


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


def take_alike(first: UserMessage, data: bytes, at: int) -> Alike:
    """A message, and all whole ones of its shape that follow it at `at`."""
    start = first.data
    if data[at + 12 : at + 56] != start[12:56] or not _has_shape(first):  # the usual difference, if any
        return Alike(first)
    compared, sizes = _fields(first.properties_at, first.place_at if first.is_transactional else 0)
    expected, label_end, body_at = compared.unpack_from(start), first.label_end, first.body_at
    packets, last = [start], len(data) - compared.size
    while at <= last and compared.unpack_from(data, at) == expected:
        size, body, allocated = sizes.unpack_from(data, at)
        end = at + size
        if body_at + max(body, allocated) + 3 & ~3 != size or end > len(data) or size > MAX_PACKET_SIZE:
            break
        if label_end and data[at + label_end - 2 : at + label_end] != b"\0\0":
            break
        packets.append(data[at:end])
        at = end
    return Alike(first, packets)


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
def _fields(properties_at: int, place_at: int) -> tuple[struct.Struct, struct.Struct]:
    """Where the headers of two packets must be equal, and the sizes of packet and body."""
    # PacketSize, MessageID and, in a transaction, the place are skipped.
    headers = f"{place_at - 60}s8x{properties_at - place_at - 8}s" if place_at else f"{properties_at - 60}s"
    # In the properties, the first word and everything after the sizes.
    compared = struct.Struct(f"<8s4x44s4x{headers}4s36x16s")
    sizes = struct.Struct(f"<8xI{properties_at + 20}xII")
    assert compared.size == properties_at + PROPERTIES.size
    return compared, sizes
