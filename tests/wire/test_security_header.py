import pytest

from tiercel.model.errors import DecodeError
from tiercel.wire import security_header
from tiercel.wire.security_header import SecurityHeader, encode_provider_info

from .packets import assert_both_ways


class TestSecurityHeader:
    """[MS-MQMQ] 2.2.20.6"""

    def test_defaults(self) -> None:
        assert_both_ways(SecurityHeader(), "0000 0000 0000 0000 00000000 00000000")

    def test_items_in_their_order_each_aligned(self) -> None:
        header = SecurityHeader.of(
            0x0081,
            security_id=b"\x51",
            encryption_key=b"\x61\x62",
            signature=b"\x71\x72\x73",
            sender_cert=b"\x81\x82\x83\x84",
            provider_info=b"\x91\x92\x93\x94\x95",
        )
        sizes = "8100 0100 0200 0300 04000000 05000000"
        assert_both_ways(header, f"{sizes} 51000000 61620000 71727300 81828384 9192939495000000")

    @pytest.mark.parametrize(
        ("item", "sizes"),
        [
            ("security_id", "0400 0000 0000 00000000 00000000"),
            ("encryption_key", "0000 0400 0000 00000000 00000000"),
            ("signature", "0000 0000 0400 00000000 00000000"),
            ("sender_cert", "0000 0000 0000 04000000 00000000"),
            ("provider_info", "0000 0000 0000 00000000 04000000"),
        ],
    )
    def test_an_item_of_no_size_takes_no_space(self, item: str, sizes: str) -> None:
        header = SecurityHeader.decode(bytes.fromhex(f"0000 {sizes} 0a0b0c0d"))
        assert getattr(header, item) == b"\x0a\x0b\x0c\x0d"
        assert header.encode().hex() == f"0000{sizes.replace(' ', '')}0a0b0c0d"

    def test_sizes_decide_not_the_flag(self) -> None:
        """MQQB T55: frame 7 has a SID and AI = 0."""
        header = SecurityHeader.decode(bytes.fromhex("0100 0400 0000 0000 00000000 00000000 01020304"))
        assert header.flags & security_header.SECURITY_DATA_PRESENT == 0
        assert header.security_id == b"\1\2\3\4"

    def test_what_a_peer_left_in_the_paddings_survives(self) -> None:
        wire = "0000 0100 0000 0100 00000000 00000000 51cdcdcd 71000000"
        header = SecurityHeader.decode(bytes.fromhex(wire))
        assert (header.security_id, header.signature) == (b"\x51", b"\x71")
        assert header.encode() == bytes.fromhex(wire)

    def test_flags(self) -> None:
        places = {bit.name: (bit.shift, bit.width) for bit in SecurityHeader.FLAGS["flags"]}
        assert places == {"ST": (0, 4), "AU": (4, 1), "EB": (5, 1), "DE": (6, 1), "AI": (7, 1), "AS": (8, 4)}
        assert security_header.SENDER_ID_TYPE == 0x000F
        assert security_header.AUTHENTICATED == 0x0010
        assert security_header.ENCRYPTED_BODY == 0x0020
        assert security_header.DEFAULT_PROVIDER == 0x0040
        assert security_header.SECURITY_DATA_PRESENT == 0x0080

    @pytest.mark.parametrize(("flags", "kind"), [(0x0000, 0), (0x0100, 1), (0x0300, 3), (0xF5FF, 5)])
    def test_signature_type_is_as_and_not_au(self, flags: int, kind: int) -> None:
        assert SecurityHeader(flags).signature_type == kind

    @pytest.mark.parametrize("size_at", [2, 4, 6, 8, 12])
    def test_a_size_beyond_the_end_is_refused(self, size_at: int) -> None:
        sizes = bytearray(16)
        sizes[size_at] = 5
        with pytest.raises(DecodeError, match="needs 5 bytes, 4 are left"):
            SecurityHeader.decode(bytes(sizes) + bytes(4))


class TestProviderInfo:
    """[MS-MQMQ] 2.2.20.6, SecurityData.ProviderInfo"""

    def test_bytes(self) -> None:
        info = encode_provider_info(0x18, "CSP")
        assert info.hex(" ", -4) == "18000000 43005300 50000000"
        assert SecurityHeader(provider_info=info).provider == (0x18, "CSP")

    @pytest.mark.parametrize("wire", ["", "01000000", "0100000043", "010000004300", "01000000430000"])
    def test_unreadable_bytes_mean_no_provider(self, wire: str) -> None:
        assert SecurityHeader(provider_info=bytes.fromhex(wire)).provider == (0, "")
