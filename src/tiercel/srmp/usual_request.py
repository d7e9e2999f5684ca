"""Requests for messages of one shape: the counterpart of `usual_message`, on the way out.

In one second, the messages of an outgoing queue differ in their id, label, body and place in a stream, and in
the lengths and the boundary that follow from them. The request of the first one is written in full; for the
others, these places are filled in it. A frame is kept only if it gives the very request that it was made of.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from tiercel.model.message import Message
from tiercel.srmp.envelope_writer import escaped
from tiercel.srmp.multipart import BOUNDARY_START
from tiercel.wire.base_header import DEBUG_HEADER
from tiercel.wire.message import decode_message
from tiercel.wire.security_header import ENCRYPTED_BODY
from tiercel.wire.user_message import PROPERTIES, RARE_HEADERS, UNIQUIFIER_AT, UserMessage

_FRAMES_KEPT = 256
_SHAPE_MAX_BYTES = 2048  # two names have 1,000
_SAMPLE_PLACE = 4_000_000_002, 4_000_000_001
_SAMPLE_NUMBER = 4_000_000_003
_MARK = rb"--MSMQ - SOAP boundary, %d" % _SAMPLE_NUMBER
# The request of a sample without label and with the body "x"; the groups are what all messages share.
_REGULAR, _STREAM = (
    re.compile(
        rb'(POST .*boundary="MSMQ - SOAP boundary, )%d("; type=text/xml\r\nContent-Length: )[0-9]+'
        rb"(\r\n.*?\r\n\r\n)"
        rb"%b(\r\nContent-Type: text/xml; charset=UTF-8\r\nContent-Length: )[0-9]+\r\n\r\n"
        rb"(<.*<action>MSMQ:)(</action>.*<id>uuid:)%d(@.*%b</se:Envelope>)"
        rb"%b(\r\nContent-Type: application/octet-stream\r\nContent-Length: )1"
        rb"(\r\nContent-Id: [^\r]*\r\n\r\n)x"
        rb"%b--\r\n" % (_SAMPLE_NUMBER, _MARK, _SAMPLE_NUMBER, place, _MARK, _MARK),
        re.DOTALL,
    )
    for place in (
        rb"()()",
        rb"<current>)%d(</current><previous>)%d(</previous>.*" % _SAMPLE_PLACE,
    )
)

Place = tuple[int, int]  # the number of a message in its stream, and that of the one before


class _Frame(NamedTuple):
    """What the requests of all messages of one shape share, in order."""

    head: bytes
    head_length: bytes
    head_end: bytes
    envelope_length: bytes
    action: bytes
    to: bytes
    after_id: bytes
    between_numbers: bytes
    after_numbers: bytes
    body_length: bytes
    body_id: bytes

    def fill(self, packet: UserMessage, place: Place | None) -> bytes:
        number = b"%d" % int.from_bytes(packet.data[UNIQUIFIER_AT : UNIQUIFIER_AT + 4], "little")
        label, body = escaped(packet.label).encode(), packet.body
        numbers = (b"", b"") if place is None else (b"%d" % place[0], b"%d" % place[1])
        join, mark = b"".join, BOUNDARY_START + number
        document = join(
            (
                *(self.action, label, self.to, number, self.after_id),
                *(numbers[0], self.between_numbers, numbers[1], self.after_numbers),
            )
        )
        content = join(
            (
                *(b"--", mark, self.envelope_length, b"%d\r\n\r\n" % len(document), document),
                *(b"--", mark, self.body_length, b"%d" % len(body), self.body_id, body),
                *(b"--", mark, b"--\r\n"),
            )
        )
        length = b"%d" % len(content)
        return join((self.head, number, self.head_length, length, self.head_end, content))


class UsualRequests:
    def __init__(self, write: Callable[[Message], bytes]) -> None:
        """`write` makes the request of any message."""
        self._write = write
        self._frames: dict[bytes, _Frame] = {}

    def write(self, packet: UserMessage, place: Place | None = None) -> bytes | None:
        """The request of a message; None if it is unusual."""
        shape = _shape(packet, place)
        if shape is None or BOUNDARY_START in packet.body:
            return None
        frame = self._frames.get(shape)
        return frame.fill(packet, place) if frame is not None else self._learn(shape, packet, place)

    def _learn(self, shape: bytes, packet: UserMessage, place: Place | None) -> bytes:
        message = decode_message(packet)
        if place is not None:
            message.tx_sequence_number, message.previous_tx_sequence_number = place
        request = self._write(message)
        frame = self._frame(message, place)
        if frame is not None and frame.fill(packet, place) == request:
            if len(self._frames) >= _FRAMES_KEPT:
                self._frames.clear()
            self._frames[shape] = frame
        return request

    def _frame(self, message: Message, place: Place | None) -> _Frame | None:
        sample = replace(message, label="", id=message.id._replace(uniquifier=_SAMPLE_NUMBER), body=b"x")
        if place is not None:
            sample.tx_sequence_number, sample.previous_tx_sequence_number = _SAMPLE_PLACE
        found = (_REGULAR if place is None else _STREAM).fullmatch(self._write(sample))
        return None if found is None else _Frame(*found.groups())


def _shape(packet: UserMessage, place: Place | None) -> bytes | None:
    """What messages of one shape have in common; None for a message that has no shape."""
    data, at = packet.data, packet.properties_at
    if (
        packet.flags & RARE_HEADERS
        or packet.base_flags & DEBUG_HEADER
        or packet.message_class
        or packet.security_flags & ENCRYPTED_BODY
        or packet.has_signature
        or packet.extension
        or not packet.body_size
        or packet.is_transactional != (place is not None)
        or (place is not None and not 0 < place[1] < place[0])
        or at > _SHAPE_MAX_BYTES
    ):
        return None
    names_end = packet.place_at if place is not None else at
    # All but PacketSize, MessageID, the numbers, and the sizes of label and body.
    return b"".join(
        (
            *(data[:8], data[12:UNIQUIFIER_AT], data[UNIQUIFIER_AT + 4 : names_end]),
            *(data[names_end + 8 : at], data[at : at + 1], data[at + 2 : at + 32]),
            data[at + 40 : at + PROPERTIES.size],
        )
    )
