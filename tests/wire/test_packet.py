import pytest

from tiercel.model.errors import DecodeError
from tiercel.wire.internal_packets import ConnectionParameters, EstablishConnection, SessionAck
from tiercel.wire.order_ack import FinalAck, OrderAck
from tiercel.wire.packet import decode_packet
from tiercel.wire.user_message import UserMessage

from .packets import PLAIN, direct, dq, frame, packet, properties, replaced, user
from .test_order_ack import FINAL_ACK_BODY, LABEL, ORDER_ACK_BODY, TO_ORDER_QUEUE

ORDER_ACK = packet(
    TO_ORDER_QUEUE, properties(label=LABEL, body=ORDER_ACK_BODY, message_class=0x00FF), flags=0
)
FINAL_ACK = packet(
    TO_ORDER_QUEUE, properties(label=LABEL, body=FINAL_ACK_BODY, message_class=0x4000), flags=0
)
SIX_KINDS = [
    pytest.param(frame(3), EstablishConnection, id="EstablishConnection request"),
    pytest.param(frame(4), EstablishConnection, id="EstablishConnection response"),
    pytest.param(frame(5), ConnectionParameters, id="ConnectionParameters request"),
    pytest.param(frame(6), ConnectionParameters, id="ConnectionParameters response"),
    pytest.param(frame(7), UserMessage, id="UserMessage"),
    pytest.param(frame(8), SessionAck, id="SessionAck"),
    pytest.param(ORDER_ACK, OrderAck, id="OrderAck"),
    pytest.param(FINAL_ACK, FinalAck, id="FinalAck"),
]


class TestIdentifyingPacketType:
    """[MS-MQQB] 3.1.5.1.1"""

    @pytest.mark.conformance("MQQB-004", "MQQB-017")
    @pytest.mark.parametrize(("data", "kind"), SIX_KINDS)
    def test_six_kinds(self, data: bytes, kind: type) -> None:
        assert type(decode_packet(data)) is kind

    @pytest.mark.conformance("MQQB-017")
    def test_a_session_ack_without_sh_is_no_packet(self) -> None:
        with pytest.raises(DecodeError):
            decode_packet(replaced(frame(8), 2, b"\x0b"))

    @pytest.mark.parametrize("message_class", [0x0001, 0x0002, 0x00FF, 0x1234, 0x4000, 0x8002, 0xC004])
    def test_any_class_to_an_ordinary_queue_is_a_user_message(self, message_class: int) -> None:
        data = packet(user(dq(7), direct(r"OS:h\private$\admin")), properties(message_class=message_class))
        message = decode_packet(data)
        assert isinstance(message, UserMessage)
        assert message.message_class == message_class

    def test_an_ordering_ack_of_another_label_is_a_user_message(self) -> None:
        data = packet(TO_ORDER_QUEUE, properties(label="x", body=ORDER_ACK_BODY, message_class=0xFF), flags=0)
        assert isinstance(decode_packet(data), UserMessage)


class TestMalformedPackets:
    """[MS-MQQB] 3.1.5.1.2 and 3.1.5.1.3"""

    @pytest.mark.parametrize("number", [3, 5, 7, 8])
    @pytest.mark.parametrize(
        ("at", "new", "field"),
        [
            (0, b"\x11", "version_number"),
            (4, b"ROIL", "signature"),
            (8, b"\x0f\0\0\0", "packet_size"),
            (8, b"\x01\0\x40\0", "packet_size"),
            (8, b"\xff\xff\xff\xff", "packet_size"),
        ],
    )
    def test_a_broken_base_header_says_where(self, number: int, at: int, new: bytes, field: str) -> None:
        with pytest.raises(DecodeError) as caught:
            decode_packet(replaced(frame(number), at, new))
        assert (caught.value.structure, caught.value.field) == ("BaseHeader", field)
        assert caught.value.offset == at

    @pytest.mark.parametrize("data", [frame(3), frame(5), frame(8), PLAIN, ORDER_ACK])
    def test_every_truncation_is_refused(self, data: bytes) -> None:
        for length in range(len(data)):
            with pytest.raises(DecodeError):
                decode_packet(data[:length])

    @pytest.mark.parametrize("data", [frame(3), frame(5), frame(8), PLAIN, ORDER_ACK])
    def test_every_truncation_with_a_size_that_agrees_is_refused(self, data: bytes) -> None:
        for length in range(16, len(data)):
            with pytest.raises(DecodeError):
                decode_packet(replaced(data[:length], 8, length.to_bytes(4, "little")))

    @pytest.mark.parametrize(
        ("at", "size", "field"),
        [
            (0x40, 2, "direct_format_name"),
            (0x5E, 2, "security_id"),
            (0x60, 2, "encryption_key"),
            (0x62, 2, "signature"),
            (0x64, 4, "sender_cert"),
            (0x68, 4, "provider_info"),
            (0x89, 1, "label_length"),
            (0xA8, 4, "message_body"),
            (0xAC, 4, "message_body"),
            (0xBC, 4, "extension_data"),
        ],
    )
    def test_every_size_field_of_frame_7_beyond_the_packet(self, at: int, size: int, field: str) -> None:
        with pytest.raises(DecodeError) as caught:
            decode_packet(replaced(frame(7), at, b"\xff" * size))
        assert caught.value.field == field
