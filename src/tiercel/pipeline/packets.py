"""Packets, from captures and archives, as rows of messages."""

from tiercel.columns.messages import Row
from tiercel.model.errors import DecodeError
from tiercel.wire.message import decode_message
from tiercel.wire.packet import decode_packet
from tiercel.wire.user_message import UserMessage


def packet_row(data: bytes) -> Row | None:
    """The row of a message; None for internal packets."""
    try:
        packet = decode_packet(data)
        if not isinstance(packet, UserMessage):
            return None
        message = decode_message(packet)
        message.authentication_level = 0  # whatever the packet claims: no signature was verified
    except DecodeError as problem:
        return Row(None, 0, error=str(problem))
    return Row(message, 0, None, packet.body_size, str(message.dead_letter_queue or ""))
