"""How fast packets are decoded and encoded, against bare `struct` calls in the same run."""

import struct
from uuid import UUID

from measure import rates

from tiercel.model.format_name import FormatName
from tiercel.model.identifiers import MessageId, TxSequenceId
from tiercel.model.message import Message
from tiercel.wire.framer import Framer
from tiercel.wire.message import decode_message, encode_message
from tiercel.wire.user_message import UserMessage

QUEUE = FormatName.parse(r"DIRECT=OS:server01\private$\orders")
SOURCE = UUID("11ea26c6-b6e6-4997-9595-9150557358d1")
MESSAGE = Message(
    b"x" * 1024,
    label="order 7",
    delivery=1,
    destination_queue=QUEUE,
    id=MessageId(SOURCE, 77),
    sent_time=1_700_000_000,
)
TRANSACTIONAL = Message(
    b"x" * 1024,
    label="order 7",
    destination_queue=QUEUE,
    id=MessageId(SOURCE, 78),
    sent_time=1_700_000_000,
    transaction_id=5,
    tx_sequence_id=TxSequenceId(1_700_000_000, 1),
    tx_sequence_number=2,
    previous_tx_sequence_number=1,
    sender_id=bytes.fromhex("010500000000000515000000ad4a9ebd36d9fa3d63a656dae8030000"),
    sender_id_type=1,
)

# The thirty fields of base header, user header and properties header that every message has.
THIRTY_FIELDS = struct.Struct("<BBHIII16s16sIIIIH50sBBH20sIIIIIIII16s2s2s2s2s2s")


def route(data: bytes) -> object:
    """What a queue manager reads of a message to place it: where to, how, and until when."""
    message = UserMessage(data)
    return (
        message.destination_queue,
        message.priority,
        message.is_recoverable,
        message.is_transactional,
        message.time_to_reach_queue,
        message.sent_time,
        message.message_class,
        message.packet_size,
    )


def main() -> None:
    packet = encode_message(MESSAGE)
    transactional = encode_message(TRANSACTIONAL)
    values = THIRTY_FIELDS.unpack_from(packet)
    stream = packet * 100
    framer = Framer()

    def frame() -> None:
        framer.receive(stream)
        for _ in framer.packets():
            pass

    measured = rates(
        {
            "struct unpack of 30 fields": lambda: THIRTY_FIELDS.unpack_from(packet),
            "struct pack of 30 fields + body": lambda: THIRTY_FIELDS.pack(*values) + MESSAGE.body,
            "decode for routing and storing": lambda: route(packet),
            "decode, transactional with sender SID": lambda: route(transactional),
            "decode all properties": lambda: decode_message(UserMessage(packet)),
            "encode": lambda: encode_message(MESSAGE),
            "encode, transactional with sender SID": lambda: encode_message(TRANSACTIONAL),
            "make a message": lambda: Message(b"x", label="order 7"),
        }
    )
    measured["framer, packets of 1 KiB"] = 100 * rates({"frame": frame})["frame"]
    bare = measured["struct unpack of 30 fields"]
    print(f"{'1 KiB recoverable message, direct name':<42}{'per second':>14}{'of bare struct':>18}")
    for name, rate in measured.items():
        print(f"{name:<42}{rate:>14,.0f}{rate / bare:>18.3f}")


if __name__ == "__main__":
    main()
