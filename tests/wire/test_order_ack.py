import struct

import pytest

from tiercel.model.identifiers import TxSequenceId
from tiercel.wire.order_ack import FinalAck, FinalAckBody, OrderAck, OrderAckBody, recognise
from tiercel.wire.user_message import UserMessage

from .packets import GUID_A, SESSION, WIRE_A, WIRE_B, assert_both_ways, direct, dq, packet, properties, user

LABEL = "QM Ordering Ack"
SEQUENCE = "04030201 08070605 09000000 08000000"
ORDER_ACK_BODY = bytes.fromhex(f"{SEQUENCE} {bytes(20).hex()}")
FINAL_ACK_BODY = bytes.fromhex(f"{SEQUENCE} {WIRE_A} 2a000000")

TO_ORDER_QUEUE = user(dq(3), struct.pack("<I", 4), address=bytes.fromhex(WIRE_B))


def acknowledgement(
    destination: bytes = TO_ORDER_QUEUE,
    *,
    flags: int = 0,
    label: str = LABEL,
    body: bytes = ORDER_ACK_BODY,
    message_class: int = 0x00FF,
) -> UserMessage:
    """The built vector: an OrderAck by all five criteria unless one is changed."""
    return UserMessage(
        packet(destination, properties(label=label, body=body, message_class=message_class), flags=flags)
    )


class TestOrderAck:
    """[MS-MQQB] 2.2.4 and 3.1.5.1.1"""

    def test_body(self) -> None:
        body = OrderAckBody(TxSequenceId(timestamp=0x05060708, ordinal=0x01020304), 9, 8)
        assert_both_ways(body, ORDER_ACK_BODY.hex())

    def test_reserved_bytes_of_a_peer_are_ignored(self) -> None:
        body = OrderAckBody.decode(ORDER_ACK_BODY[:16] + b"\xcd" * 20)
        assert (body.tx_sequence_number, body.tx_previous_sequence_number) == (9, 8)

    @pytest.mark.conformance("MQQB-018")
    def test_is_recognised(self) -> None:
        message = acknowledgement()
        assert recognise(message) == OrderAck(message, OrderAckBody.decode(ORDER_ACK_BODY))

    @pytest.mark.conformance("MQQB-018")
    @pytest.mark.parametrize(
        "message",
        [
            acknowledgement(flags=3),
            acknowledgement(flags=0x40),
            acknowledgement(user(dq(3), struct.pack("<I", 5))),
            acknowledgement(user(dq(5), struct.pack("<I", 4) + bytes(12))),
            acknowledgement(user(dq(7), direct(r"OS:h\private$\orders"))),
            acknowledgement(user(dq(7), direct(r"OS:h\order_queue$"))),
            acknowledgement(user()),
            acknowledgement(label="QM Ordering ack"),
            acknowledgement(label=""),
            acknowledgement(body=ORDER_ACK_BODY[:-1]),
            acknowledgement(body=ORDER_ACK_BODY + b"\0"),
            acknowledgement(message_class=0x00FE),
            acknowledgement(message_class=0),
            acknowledgement(message_class=0x3FFF),
        ],
        ids=[
            "priority 3",
            "a reserved flag",
            "private queue 5",
            "a public queue",
            "another direct queue",
            "a public queue of that name",
            "no queue",
            "another label",
            "no label",
            "35 bytes",
            "37 bytes",
            "another class",
            "no class",
            "a class below 0x4000",
        ],
    )
    def test_changing_any_one_criterion_makes_it_a_message(self, message: UserMessage) -> None:
        assert recognise(message) is message

    @pytest.mark.parametrize(
        "name",
        [
            r"OS:host\private$\order_queue$",
            r"TCP:10.0.0.1\PRIVATE$\Order_Queue$",
            r"OS:h\Private$\order_queue$",
        ],
    )
    def test_the_queue_may_be_named_directly_in_any_case(self, name: str) -> None:
        assert isinstance(recognise(acknowledgement(user(dq(7), direct(name)))), OrderAck)

    def test_a_session_header_may_ride_along(self) -> None:
        data = packet(
            TO_ORDER_QUEUE,
            properties(label=LABEL, body=ORDER_ACK_BODY, message_class=0xFF),
            flags=0x10,
            session=SESSION,
        )
        assert isinstance(recognise(UserMessage(data)), OrderAck)


class TestFinalAck:
    """[MS-MQQB] 2.2.5 and 3.1.5.1.1"""

    def test_body(self) -> None:
        body = FinalAckBody(TxSequenceId(0x05060708, 0x01020304), 9, 8, GUID_A, 42)
        assert_both_ways(body, FINAL_ACK_BODY.hex())

    @pytest.mark.conformance("MQQB-019")
    @pytest.mark.parametrize("message_class", [0x4000, 0x8000, 0x8002, 0xC000, 0xC004, 0xFFFF])
    def test_is_recognised_by_its_class(self, message_class: int) -> None:
        message = acknowledgement(body=FINAL_ACK_BODY, message_class=message_class)
        found = recognise(message)
        assert found == FinalAck(message, FinalAckBody.decode(FINAL_ACK_BODY))
        assert isinstance(found, FinalAck)
        assert found.message_class == message_class

    @pytest.mark.conformance("MQQB-019")
    @pytest.mark.parametrize(
        "message",
        [
            acknowledgement(body=FINAL_ACK_BODY, message_class=0x3FFF),
            acknowledgement(body=FINAL_ACK_BODY, message_class=0x4000, flags=1),
            acknowledgement(body=FINAL_ACK_BODY, message_class=0x4000, label="an application's"),
            acknowledgement(user(dq(7), direct(r"OS:h\private$\admin")), message_class=0x8000),
        ],
        ids=["class below 0x4000", "a priority", "another label", "an ordinary queue"],
    )
    def test_otherwise_it_is_a_message(self, message: UserMessage) -> None:
        assert recognise(message) is message
