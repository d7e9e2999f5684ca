"""Identifies the packets of a session: [MS-MQQB] 3.1.5.1.1."""

from tiercel.wire.base_header import INTERNAL, BaseHeader
from tiercel.wire.internal_packets import (
    CONNECTION_PARAMETERS,
    ESTABLISH_CONNECTION,
    SESSION_ACK,
    ConnectionParameters,
    EstablishConnection,
    InternalHeader,
    SessionAck,
)
from tiercel.wire.order_ack import FinalAck, OrderAck, recognise
from tiercel.wire.structure import Reader
from tiercel.wire.user_message import UserMessage

Packet = EstablishConnection | ConnectionParameters | SessionAck | UserMessage | OrderAck | FinalAck


def decode_packet(data: bytes) -> Packet:
    """The packet that fills `data`, as the framer returns it; otherwise a DecodeError."""
    if len(data) > 2 and data[2] & INTERNAL:
        return _decode_internal(data)
    return recognise(UserMessage(data))


def _decode_internal(data: bytes) -> EstablishConnection | ConnectionParameters | SessionAck:
    reader = Reader(data)
    base = BaseHeader.read(reader)
    if base.packet_size != len(data):
        raise reader.error("packet_size", f"is {base.packet_size}, the packet has {len(data)} bytes", 8)
    internal = InternalHeader.read(reader)
    match internal.packet_type:
        case packet_type if packet_type == ESTABLISH_CONNECTION:
            return EstablishConnection.read(base, internal, reader)
        case packet_type if packet_type == CONNECTION_PARAMETERS:
            return ConnectionParameters.read(base, internal, reader)
        case packet_type if packet_type == SESSION_ACK and base.has_session_header:
            return SessionAck.read(base, internal, reader)
    raise reader.error(
        "flags", f"PT {internal.packet_type} with flags 0x{base.flags:04x} is not a known packet", 18
    )
