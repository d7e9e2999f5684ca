"""Messages over HTTP of one shape: what was read and decided for the first of them holds for all.

A busy sender repeats itself: in one second, its requests to one queue differ in their id, label, correlation,
body and place in a stream, and in the lengths and the boundary that follow from them. `UsualMessages` cuts a
request at these places. If the rest is, byte for byte, that of an earlier message, the packet is made from
the earlier one's (its `Shape`): 12 us for 1 KiB, where reading the envelope and writing a packet takes 70.

Only requests as queue managers write them are cut, and a shape is learned only if it gives the very packet
that the general way gave. The general way is `read_srmp`, `read_message` and `encode_message`; it takes
everything else, and everything that is not valid.
"""

import re
from binascii import Error, a2b_base64
from struct import Struct
from typing import NamedTuple
from uuid import UUID
from zlib import crc32

from tiercel.model.identifiers import NULL_GUID
from tiercel.model.limits import LABEL_MAX_UTF16_UNITS, MAX_PACKET_SIZE
from tiercel.srmp.envelope import MSMQ, RP, Envelope
from tiercel.srmp.envelope_writer import END, START
from tiercel.srmp.request import SrmpRequest
from tiercel.srmp.values import U32_MAX
from tiercel.wire.soap_header import (
    BODY_SECTION,
    COMPOUND_MESSAGE_ID,
    ENVELOPE_ID,
    HEADER_SECTION,
    CompoundMessageHeader,
    encode_section,
)
from tiercel.wire.transaction_header import TransactionHeader
from tiercel.wire.user_message import FIXED, PROPERTIES, UserMessage

_SHAPES_KEPT = 256
_ENVELOPE_MAX_BYTES = 4096  # of a shape; usually there are 1,300
_HEADERS_MAX_BYTES = 4 * _ENVELOPE_MAX_BYTES + 4096  # of a packet in addition to the request

_BOUNDARY = rb"--(MSMQ - SOAP boundary, [0-9]{1,20})\r\n"
_ENVELOPE_PART = re.compile(
    _BOUNDARY + rb"Content-Type: text/xml; charset=UTF-8\r\nContent-Length: ([0-9]{1,4})\r\n\r\n"
)
_BODY_PART = re.compile(
    _BOUNDARY + rb"Content-Type: application/octet-stream\r\nContent-Length: ([0-9]{1,8})\r\n"
    rb"Content-Id: body@[0-9A-Za-z-]{0,64}\r\n\r\n"
)
_MULTICAST_HEAD = re.compile(
    rb"POST [0-9.:]+ HTTP/1\.1\r\nHost: [0-9.:]+\r\n"
    rb'Content-Type: multipart/related; boundary="(MSMQ - SOAP boundary, [0-9]{1,20})"; type=text/xml\r\n'
    rb'Content-Length: ([0-9]{1,8})\r\nSOAPAction: "MSMQMessage"\r\n'
    rb"Proxy-Accept: NonInteractiveClient\r\n\r\n"
)
_TEXT = "[^<>&]*"
_ASCII_LABEL = f"[ -%'-;=?-~]{{0,{LABEL_MAX_UTF16_UNITS}}}"
_NUMBER = "[0-9]{1,10}"
# Groups by turns: what all messages of a shape share, and what differs. The general way checks the shared.
_CUT = re.compile(
    (
        f'{re.escape(START)}<path xmlns="{re.escape(RP)}" se:mustUnderstand="1"><action>MSMQ:({_ASCII_LABEL})'
        f"(</action><to>{_TEXT}</to><id>uuid:)({_NUMBER})(@{_TEXT}</id></path>"
        f'<properties se:mustUnderstand="1"><expiresAt>{_TEXT}</expiresAt>'
        f"<sentAt>{_TEXT}</sentAt></properties>"
        '(?:<services se:mustUnderstand="1"><durable/></services>)?)'
        f'(?:(<[Ss]tream se:mustUnderstand="1"><streamId>{_TEXT}</streamId><current>)({_NUMBER})'
        f"(</current><previous>)({_NUMBER})(</previous></[Ss]tream>))?"
        f'(<Msmq xmlns="{re.escape(MSMQ)}"><Class>{_TEXT}</Class><Priority>{_TEXT}</Priority>'
        "(?:<Journal/>)?(?:<DeadLetter/>)?<Correlation>)([A-Za-z0-9+/=]{28})(</Correlation>.*)"
    ).encode(),
    re.DOTALL,
)

_COMPOUND = CompoundMessageHeader.LAYOUT.struct
_SECTION = Struct("<HHI")
_PLACE = TransactionHeader.LAYOUT.struct
_NUMBERS = Struct("<II")  # of a message in its stream, and of the one before
_NUMBERS_AT = _PLACE.size - _NUMBERS.size
_PADDING = (b"", b"\0\0\0", b"\0\0", b"\0")
_HEADER_AT = 2 * START.index("<se:Header>")
_HEADER_END = 2 * (END.index("<se:Body>") - len(END))  # from the end
_SOAP_BODY = encode_section(BODY_SECTION, END[END.index("<se:Body>") : END.index("</se:Envelope>")])


class Cut(NamedTuple):
    """A request, cut at the places where messages of one shape differ."""

    shared: tuple[bytes | None, ...]
    raw: bytes  # the whole request
    document: bytes
    body_at: int  # in the request
    body_size: int
    label: bytes
    number: int  # of the message
    correlation: bytes
    place: tuple[int, int] | None  # in a stream, and that of the message before


def cut(raw: bytes, at: int, content_type: bytes) -> Cut | None:
    """Cuts a request whose body begins at `at`; None if it is unusual or not valid."""
    part = _ENVELOPE_PART.match(raw, at)
    if part is None:
        return None
    mark = part[1]
    envelope_end = part.end() + int(part[2])
    body = _BODY_PART.match(raw, envelope_end)
    if body is None or body[1] != mark:
        return None
    body_at, body_size = body.end(), int(body[2])
    if (
        raw[body_at + body_size :] != b"--%b--\r\n" % mark
        or content_type != b'multipart/related; boundary="%b"; type=text/xml' % mark
        or not body_size
    ):
        return None
    document = raw[part.end() : envelope_end]
    is_short = len(document) <= _ENVELOPE_MAX_BYTES and len(raw) + _HEADERS_MAX_BYTES <= MAX_PACKET_SIZE
    found = _CUT.fullmatch(document) if is_short else None
    if found is None:
        return None
    label, to, digits, properties, stream, current, _, previous, _, msmq, base64, rest = found.groups()
    number, place = int(digits), None
    if current is not None:
        place = int(current), int(previous)
        if not place[1] < place[0] <= U32_MAX:
            return None
    try:
        correlation = a2b_base64(base64, strict_mode=True)
    except Error:
        return None
    if number > U32_MAX or len(correlation) != 20:
        return None
    shared = to, properties, stream, msmq, rest
    return Cut(shared, raw, document, body_at, body_size, label, number, correlation, place)


def cut_multicast(raw: bytes) -> Cut | None:
    """`cut` for a multicast message."""
    head = _MULTICAST_HEAD.match(raw)
    if head is None or len(raw) - head.end() != int(head[2]):
        return None
    return cut(raw, head.end(), b'multipart/related; boundary="%b"; type=text/xml' % head[1])


class Shape:
    """What all messages of one shape share, taken from the packet of the first."""

    def __init__(self, envelope: Envelope, first: UserMessage) -> None:
        self.envelope = envelope  # of the first message
        self.senders = senders_of(envelope)
        self._sent_time = first.sent_time
        data, at = first.data, first.properties_at
        self._fixed = list(FIXED.unpack_from(data))
        self._names = data[FIXED.size : at]
        if envelope.stream is not None:
            self._names = self._names[: -_NUMBERS.size]
        self._properties = data[at : at + PROPERTIES.size]
        self._source = data[16:28]

    def packet(self, message: Cut) -> bytes:
        """The packet of a message of this shape."""
        label, raw, properties = message.label, message.raw, self._properties
        text = (label + b"\0").decode("ascii").encode("utf-16-le") if label else b""
        envelope = message.document.decode().encode("utf-16-le")
        header = envelope[_HEADER_AT:_HEADER_END]
        rest = b"".join(
            (
                self._names,
                b"" if message.place is None else _NUMBERS.pack(*message.place),
                properties[:1],
                bytes((len(text) >> 1,)),
                properties[2:4],
                message.correlation,
                properties[24:],
                text,
                _PADDING[len(text) & 3],
                _SECTION.pack(ENVELOPE_ID, 0, (len(envelope) >> 1) + 1),
                envelope,
                b"\0\0" if len(envelope) & 2 else b"\0\0\0\0",
                _COMPOUND.pack(COMPOUND_MESSAGE_ID, 0, len(raw), message.body_size, message.body_at),
                raw,
                _PADDING[len(raw) & 3],
                _SECTION.pack(HEADER_SECTION, 0, (len(header) >> 1) + 1),
                header,
                b"\0\0" if len(header) & 2 else b"\0\0\0\0",
                _SOAP_BODY,
            )
        )
        fixed = self._fixed.copy()
        fixed[4], fixed[10] = FIXED.size + len(rest), message.number
        return FIXED.pack(*fixed) + rest

    def identity(self, message: Cut, packet: bytes) -> bytes:
        """`UserMessage.identity` of the packet."""
        start = FIXED.size + len(self._names) + (0 if message.place is None else _NUMBERS.size)
        size = PROPERTIES.size + (2 * len(message.label) + 2 if message.label else 0)
        body = message.raw[message.body_at : message.body_at + message.body_size]
        checksum = crc32(body, crc32(packet[start : start + size], self._sent_time))
        return b"".join((self._source, packet[56:60], checksum.to_bytes(4, "little")))


def senders_of(envelope: Envelope) -> set[UUID]:
    """The queue managers that the message says it is of."""
    stream, msmq = envelope.stream, envelope.msmq
    claimed = {
        envelope.path.id.lineage,
        NULL_GUID if stream is None else stream.stream_id.sender,
        NULL_GUID if msmq is None else msmq.source_qm_guid,
    }
    return claimed - {NULL_GUID}


class UsualMessages:
    """The shapes of messages that came lately."""

    def __init__(self) -> None:
        self._shapes: dict[tuple[bytes | None, ...], Shape] = {}

    def shape_of(self, message: Cut) -> Shape | None:
        return self._shapes.get(message.shared)

    def learn(self, message: Cut, request: SrmpRequest, packet: UserMessage) -> None:
        """Remember the shape of a message that went the general way, if it has one."""
        if not _may_have_shape(request.envelope):
            return
        shape = Shape(request.envelope, packet)
        if shape.packet(message) != packet.data or shape.identity(message, packet.data) != packet.identity:
            return
        if len(self._shapes) >= _SHAPES_KEPT:
            self._shapes.clear()
        self._shapes[message.shared] = shape


def _may_have_shape(envelope: Envelope) -> bool:
    """Messages that only those of their own sender can follow, and that need nothing but to be stored.

    The final receipt of a message in a stream goes to an address that is kept with it (SRMP-167).
    """
    msmq, path = envelope.msmq, envelope.path
    return (
        msmq is not None
        and NULL_GUID not in {msmq.source_qm_guid, path.id.lineage}
        and not (envelope.stream is not None and msmq.dead_letter)
    )
