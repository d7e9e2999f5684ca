import pytest

from tiercel.model.errors import DecodeError
from tiercel.wire import base_header
from tiercel.wire.base_header import BaseHeader

from .packets import assert_both_ways, frame, replaced

HEADER = "10 c0 2701 4c494f52 b0080000 00460500"


class TestBaseHeader:
    """[MS-MQMQ] 2.2.19.1"""

    def test_fields(self) -> None:
        expected = BaseHeader(
            version_number=0x10,
            reserved=0xC0,
            flags=0x0127,
            signature=0x524F494C,
            packet_size=2224,
            time_to_reach_queue=345_600,
        )
        assert_both_ways(expected, HEADER)

    def test_defaults(self) -> None:
        assert BaseHeader().encode() == bytes.fromhex("10 00 0000 4c494f52 00000000 ffffffff")

    @pytest.mark.parametrize(
        ("name", "mask"),
        [
            ("PRIORITY", 0x0007),
            ("INTERNAL", 0x0008),
            ("SESSION_HEADER", 0x0010),
            ("DEBUG_HEADER", 0x0020),
            ("TRACING", 0x0100),
        ],
    )
    def test_flags(self, name: str, mask: int) -> None:
        assert getattr(base_header, name) == mask

    def test_flags_have_the_names_of_the_diagram(self) -> None:
        bits = BaseHeader.FLAGS["flags"]
        assert [(bit.name, bit.of(0x0137)) for bit in bits] == [
            ("PR", 7),
            ("IN", 0),
            ("SH", 1),
            ("DH", 1),
            ("TR", 1),
        ]

    @pytest.mark.parametrize("bit", range(16))
    def test_every_flag_bit_survives(self, bit: int) -> None:
        header = BaseHeader(flags=1 << bit, packet_size=16)
        assert BaseHeader.decode(header.encode()) == header
        assert header.is_internal == (bit == 3)
        assert header.has_session_header == (bit == 4)

    @pytest.mark.parametrize("version", [0x00, 0x0F, 0x11, 0x20, 0xFF])
    def test_another_version_is_refused(self, version: int) -> None:
        with pytest.raises(DecodeError, match=f"BaseHeader.version_number at byte 0: is 0x{version:02x}"):
            BaseHeader.decode(replaced(bytes.fromhex(HEADER), 0, bytes([version])))

    def test_the_signature_is_lior_and_not_roil(self) -> None:
        wrong = replaced(frame(3)[:16], 4, bytes.fromhex("524f494c"))
        with pytest.raises(DecodeError, match=r"BaseHeader.signature at byte 4"):
            BaseHeader.decode(wrong)
        assert BaseHeader.decode(frame(3)[:16]).packet_size == 572

    @pytest.mark.parametrize("size", [16, 17, 0x00400000])
    def test_sizes_within_the_limits(self, size: int) -> None:
        data = replaced(bytes.fromhex(HEADER), 8, size.to_bytes(4, "little"))
        assert BaseHeader.decode(data).packet_size == size

    @pytest.mark.parametrize("size", [0, 15, 0x00400001, 0xFFFFFFFF])
    def test_sizes_beyond_the_limits(self, size: int) -> None:
        data = replaced(bytes.fromhex(HEADER), 8, size.to_bytes(4, "little"))
        with pytest.raises(DecodeError, match=f"packet_size at byte 8: is {size}, allowed are 16 to 4194304"):
            BaseHeader.decode(data)
