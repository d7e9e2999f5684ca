import pytest

from tiercel.model.errors import DecodeError
from tiercel.wire.message_properties_header import ACKNOWLEDGEMENTS, MessagePropertiesHeader

from .packets import assert_both_ways, replaced

CORRELATION = bytes(range(0xA0, 0xB4))
NUMBERS = "44332211 88776655 02000000 02000000 03000000 0c800000 10660000 01000000"


class TestMessagePropertiesHeader:
    """[MS-MQMQ] 2.2.19.3"""

    def test_fields(self) -> None:
        header = MessagePropertiesHeader(
            flags=0x0F,
            label_length=3,
            message_class=0x8002,
            correlation_id=CORRELATION,
            body_type=0x11223344,
            application_tag=0x55667788,
            message_size=2,
            allocation_body_size=2,
            privacy_level=3,
            hash_algorithm=0x800C,
            encryption_algorithm=0x6610,
            extension_size=1,
            label="ab",
            extension_data=b"\xee",
            message_body=b"\xb0\xb1",
        )
        wire = f"0f 03 0280 {CORRELATION.hex()} {NUMBERS} 6100 6200 0000 ee b0b1 000000"
        assert_both_ways(header, wire)

    def test_flags(self) -> None:
        assert [(bit.name, bit.shift) for bit in MessagePropertiesHeader.FLAGS["flags"]] == [
            ("PA", 0),
            ("PR", 1),
            ("NA", 2),
            ("NR", 3),
        ]
        assert ACKNOWLEDGEMENTS == 0x0F

    def test_label_length_zero_means_no_label_bytes(self) -> None:
        assert MessagePropertiesHeader.decode(bytes(56)).label == ""

    def test_label_length_one_is_a_lone_nul(self) -> None:
        header = MessagePropertiesHeader.decode(replaced(bytes(60), 1, b"\1"))
        assert (header.label_length, header.label) == (1, "")
        assert header.encode() == replaced(bytes(60), 1, b"\1")

    @pytest.mark.parametrize(("size", "padding"), [(0, 0), (1, 3), (2, 2), (3, 1), (4, 0)])
    def test_only_the_end_is_aligned(self, size: int, padding: int) -> None:
        body = bytes(range(1, size + 1))
        sizes = size.to_bytes(4, "little") * 2
        data = bytes(32) + sizes + bytes(16) + body + bytes(padding)
        assert MessagePropertiesHeader.decode(data).message_body == body
        assert MessagePropertiesHeader.decode(data).encode() == data

    def test_an_encrypted_body_may_be_longer_than_the_clear_one(self) -> None:
        """MQQB T59: the body spans AllocationBodySize."""
        data = bytes(32) + b"\3\0\0\0\x08\0\0\0" + bytes(16) + b"cipher!!"
        header = MessagePropertiesHeader.decode(data)
        assert (header.message_size, header.allocation_body_size) == (3, 8)
        assert header.message_body == b"cipher!!"
        assert header.encode() == data

    def test_an_allocation_below_the_message_size_is_overruled(self) -> None:
        data = bytes(32) + b"\4\0\0\0\0\0\0\0" + bytes(16) + b"body"
        assert MessagePropertiesHeader.decode(data).message_body == b"body"
        assert MessagePropertiesHeader.decode(data).encode() == data

    def test_padding_of_a_peer_survives(self) -> None:
        data = bytes(32) + b"\1\0\0\0\1\0\0\0" + bytes(16) + b"B\xcd\xcd\xcd"
        assert MessagePropertiesHeader.decode(data).padding == b"\xcd\xcd\xcd"
        assert MessagePropertiesHeader.decode(data).encode() == data

    @pytest.mark.parametrize(
        ("at", "field"), [(1, "label"), (32, "message_body"), (36, "message_body"), (52, "extension_data")]
    )
    def test_a_size_beyond_the_end_is_refused(self, at: int, field: str) -> None:
        with pytest.raises(DecodeError, match=f"MessagePropertiesHeader.{field} at byte 56"):
            MessagePropertiesHeader.decode(replaced(bytes(56), at, b"\1"))

    def test_a_label_without_nul_is_refused(self) -> None:
        with pytest.raises(DecodeError, match="label at byte 56: is not NUL-terminated"):
            MessagePropertiesHeader.decode(replaced(bytes(56), 1, b"\1") + b"a\0\0\0")
