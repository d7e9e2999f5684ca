"""Packets of usual messages over HTTP, from what all messages of one sender to one queue share.

`encode_message(read_message(...), over_http=True)` makes a message of sixty properties only to write most of
them as their defaults. Here it does so once for each sender, kind and destination; names, flags and
properties of its packet are kept as a frame, to which each message adds its id, times, numbers, label and
request. Measured for a message of 1 KiB: 10 us instead of 27. Everything unusual is left to `encode_message`,
and tests compare the two.
"""

from dataclasses import replace
from typing import NamedTuple

from tiercel.model.limits import MAX_PACKET_SIZE
from tiercel.srmp.envelope import Envelope, Msmq
from tiercel.srmp.message import label_of, message_of, time_to_reach_queue
from tiercel.srmp.request import SrmpRequest
from tiercel.wire.message import encode_message
from tiercel.wire.soap_header import (
    BODY_SECTION,
    COMPOUND_MESSAGE_ID,
    ENVELOPE_ID,
    HEADER_SECTION,
    CompoundMessageHeader,
    encode_section,
)
from tiercel.wire.structure import encode_text_nul, encode_tx_sequence_id
from tiercel.wire.transaction_header import TransactionHeader
from tiercel.wire.user_message import FIXED, PROPERTIES, UserMessage

_COMPOUND = CompoundMessageHeader.LAYOUT.struct
_PLACE = TransactionHeader.LAYOUT.struct
_PADDING = (b"", b"\0\0\0", b"\0\0", b"\0")
_FRAMES_KEPT = 256


class _Frame(NamedTuple):
    msmq: Msmq  # that it was made of, the very object: cached by its reader, so messages of a sender share it
    before_size: tuple[int, ...]  # the fields of FIXED
    before_times: tuple[bytes, bytes, int]
    flags: int
    names: bytes
    place_flags: int | None  # of the transaction header; None without one
    properties: bytes


class UsualPackets:
    def __init__(self) -> None:
        self._frames: dict[tuple[int, str, bool], _Frame] = {}

    def encode(self, request: SrmpRequest, arrival_time: int) -> bytes | None:
        """The packet of a message that arrived in a request; None if it is unusual."""
        envelope, body = request.envelope, request.body
        path, msmq, stream = envelope.path, envelope.msmq, envelope.stream
        if msmq is None or msmq.trace or body is None or not body.content or not _is_usual(request):
            return None
        frame = self._frame(envelope, msmq)
        place = b""
        if stream is not None:
            sequence = encode_tx_sequence_id(stream.stream_id.sequence)
            previous = stream.current - 1 if stream.previous is None else stream.previous
            place = _PLACE.pack(frame.place_flags, sequence, stream.current, previous)
        label, properties = label_of(path), frame.properties
        text = encode_text_nul(label) if label else b""
        raw = request.raw
        rest = b"".join(
            (
                frame.names,
                place,
                properties[:1],
                bytes((len(text) >> 1,)),
                properties[2:],
                text,
                _PADDING[len(text) & 3],
                encode_section(ENVELOPE_ID, request.envelope_part.content.decode()),
                _COMPOUND.pack(COMPOUND_MESSAGE_ID, 0, len(raw), len(body.content), body.at),
                raw,
                _PADDING[len(raw) & 3],
                encode_section(HEADER_SECTION, request.soap_header.decode()),
                encode_section(BODY_SECTION, request.soap_body.decode()),
            )
        )
        size = FIXED.size + len(rest)
        if size > MAX_PACKET_SIZE:
            return None
        sent_at = envelope.properties.sent_at
        sent_time = arrival_time if sent_at is None else sent_at
        limit, number = time_to_reach_queue(envelope, sent_time), path.id.uniquifier
        fixed = FIXED.pack(
            *frame.before_size, size, limit, *frame.before_times, sent_time, number, frame.flags
        )
        return fixed + rest

    def _frame(self, envelope: Envelope, msmq: Msmq) -> _Frame:
        key = id(msmq), envelope.path.to, envelope.services is None
        frame = self._frames.get(key)
        if (
            frame is None
            or frame.msmq is not msmq
            or (frame.place_flags is None) != (envelope.stream is None)
        ):
            if len(self._frames) >= _FRAMES_KEPT:
                self._frames.clear()
            frame = self._frames[key] = _new_frame(envelope, msmq)
        return frame


def _is_usual(request: SrmpRequest) -> bool:
    envelope, services = request.envelope, request.envelope.services
    return (
        request.is_usual
        and request.extension is None
        and not envelope.path.via
        and (
            services is None
            or (services.delivery_receipt_request is None and services.commitment_receipt_request is None)
        )
    )


def _new_frame(envelope: Envelope, msmq: Msmq) -> _Frame:
    message = message_of(replace(envelope, path=replace(envelope.path, action="")), 0)
    packet = UserMessage(encode_message(message, over_http=True))
    data, at = packet.data, packet.properties_at
    version, reserved, flags, signature, _, _, source, address, limit, _, _, user_flags = FIXED.unpack_from(
        data
    )
    names_end = at if envelope.stream is None else at - _PLACE.size
    place_flags = None if envelope.stream is None else _PLACE.unpack_from(data, names_end)[0]
    return _Frame(
        msmq,
        (version, reserved, flags, signature),
        (source, address, limit),
        user_flags,
        data[FIXED.size : names_end],
        place_flags,
        data[at : at + PROPERTIES.size],
    )
