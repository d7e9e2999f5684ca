from tiercel.wire.session_header import SessionHeader

from .packets import SESSION, assert_both_ways


class TestSessionHeader:
    """[MS-MQMQ] 2.2.20.4"""

    def test_fields(self) -> None:
        header = SessionHeader(
            ack_sequence_number=5,
            recoverable_msg_ack_seq_number=3,
            recoverable_msg_ack_flags=0b111,
            user_msg_sequence_number=4,
            recoverable_msg_seq_number=2,
            window_size=64,
            reserved=0,
        )
        assert_both_ways(header, SESSION.hex())

    def test_every_byte_has_its_place(self) -> None:
        header = SessionHeader(0x0201, 0x0403, 0x08070605, 0x0A09, 0x0C0B, 0x0E0D, 0x100F)
        assert_both_ways(header, "0102 0304 05060708 090a 0b0c 0d0e 0f10")

    def test_the_window_is_64_by_default(self) -> None:
        assert SessionHeader().window_size == 64
