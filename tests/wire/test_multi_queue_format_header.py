import struct

import pytest

from tiercel.model.errors import DecodeError
from tiercel.wire.multi_queue_format_header import (
    MQFAddressHeader,
    MQFDirectQueueFormatName,
    MQFDistributionQueueFormatName,
    MQFFormatNameElement,
    MQFSignatureHeader,
    MultiQueueFormatHeader,
)
from tiercel.wire.queue_names import PrivateQueueFormatName, PublicQueueFormatName

from .packets import GUID_A, GUID_B, GUID_C, WIRE_A, WIRE_B, WIRE_C, assert_both_ways

PUBLIC = MQFFormatNameElement(1, b"", PublicQueueFormatName(GUID_A))
PRIVATE = MQFFormatNameElement(2, b"", PrivateQueueFormatName(GUID_B, 0x0A))
DIRECT = MQFFormatNameElement(3, b"", MQFDirectQueueFormatName("ab"))
GROUP = MQFFormatNameElement(6, b"", MQFDistributionQueueFormatName(GUID_C))

# Types and names; a GUID starts on a multiple of 4 of the packet, a direct name right after its type.
WIRE_PUBLIC = f"0100 0000 {WIRE_A}"
WIRE_PRIVATE = f"0200 0000 {WIRE_B} 0a000000"
WIRE_DIRECT = "0300 6100 6200 0000"
WIRE_GROUP = f"0600 0000 {WIRE_C}"

EMPTY = "0c000000 6400 0000 00000000  0c000000 c800 0000 00000000  0c000000 2c01 0000 00000000"
NO_SIGNATURE = "5e01 0000 00000000"


class TestMQFFormatNameElement:
    """[MS-MQMQ] 2.2.18.1.4"""

    @pytest.mark.parametrize(
        ("element", "wire"),
        [(PUBLIC, WIRE_PUBLIC), (PRIVATE, WIRE_PRIVATE), (DIRECT, WIRE_DIRECT), (GROUP, WIRE_GROUP)],
        ids=["public", "private", "direct", "distribution list"],
    )
    def test_one_element_of_each_kind(self, element: MQFFormatNameElement, wire: str) -> None:
        data = bytes.fromhex(wire)
        header = MQFAddressHeader(12 + len(data), 0x0064, 0, 1, (element,))
        assert MQFAddressHeader.of(0x0064, (element,)) == header
        assert_both_ways(header, f"{(12 + len(data)).to_bytes(4, 'little').hex()} 6400 0000 01000000 {wire}")

    @pytest.mark.parametrize("format_type", [0, 4, 5, 7, 8, 0xFFFF])
    def test_another_type_is_refused(self, format_type: int) -> None:
        data = struct.pack("<IHHIH", 16, 0x64, 0, 1, format_type) + bytes(2)
        with pytest.raises(
            DecodeError, match=rf"format_type at byte 12: is {format_type}, not one of \[1, 2, 3, 6\]"
        ):
            MQFAddressHeader.decode(data)


class TestAlignment:
    """A direct name of odd length shifts what follows it, so the gap before a GUID is 0 or 2 bytes."""

    @pytest.mark.parametrize(
        ("element", "shifted"),
        [
            (PUBLIC, f"0100 {WIRE_A}"),
            (PRIVATE, f"0200 {WIRE_B} 0a000000"),
            (GROUP, f"0600 {WIRE_C}"),
            (DIRECT, f"{WIRE_DIRECT} 0000"),
        ],
        ids=["public", "private", "distribution list", "direct"],
    )
    def test_after_a_name_that_ends_off_a_boundary(self, element: MQFFormatNameElement, shifted: str) -> None:
        odd = MQFFormatNameElement(3, b"", MQFDirectQueueFormatName("a"))
        tail = bytes.fromhex(f"0300 6100 0000 {shifted}")
        expected = struct.pack("<IHHI", 12 + len(tail), 0xC8, 0, 2) + tail
        header = MQFAddressHeader.of(0x00C8, (odd, element))
        assert header.encode().hex(" ", -4) == expected.hex(" ", -4)
        assert MQFAddressHeader.decode(expected) == header

    def test_a_size_without_the_last_alignment_is_read_too(self) -> None:
        data = bytes.fromhex("12000000 6400 0000 01000000 0300 6100 0000 0000")
        header = MQFAddressHeader.decode(data)
        assert header.elements == (MQFFormatNameElement(3, b"", MQFDirectQueueFormatName("a")),)
        assert header.encode() == data

    def test_what_a_peer_left_in_gaps_survives(self) -> None:
        data = bytes.fromhex(f"28000000 6400 cdcd 01000000 0100 abcd {WIRE_A} 0000 cdcd cdcd cdcd")
        header = MQFAddressHeader.decode(data)
        assert header.elements[0].padding == b"\xab\xcd"
        assert header.rest == bytes.fromhex("0000cdcdcdcdcdcd")
        assert header.encode() == data

    def test_padding_that_does_not_fill_the_gap_cannot_be_written(self) -> None:
        element = MQFFormatNameElement(1, b"\xab\xcd\xef", PublicQueueFormatName(GUID_A))
        with pytest.raises(ValueError, match="3 bytes of padding do not fill a gap of 2"):
            MQFAddressHeader.of(0x0064, (element,))


class TestMQFAddressHeader:
    """[MS-MQMQ] 2.2.20.2"""

    def test_all_kinds_in_one_list(self) -> None:
        header = MQFAddressHeader.of(0x012C, (DIRECT, PUBLIC, PRIVATE, GROUP))
        tail = f"{WIRE_DIRECT} {WIRE_PUBLIC} {WIRE_PRIVATE} {WIRE_GROUP}"
        size = 12 + len(bytes.fromhex(tail))
        assert_both_ways(header, f"{size.to_bytes(4, 'little').hex()} 2c01 0000 04000000 {tail}")

    @pytest.mark.parametrize("size", [0, 11, 17, 0xFFFFFFFF])
    def test_a_size_that_cannot_be_is_refused(self, size: int) -> None:
        with pytest.raises(DecodeError, match=f"header_size at byte 0: is {size}, allowed are 12 to 16"):
            MQFAddressHeader.decode(struct.pack("<IHHI", size, 0x64, 0, 0) + bytes(4))

    def test_more_elements_than_fit_are_refused(self) -> None:
        with pytest.raises(DecodeError, match="format_type at byte 20"):
            MQFAddressHeader.decode(bytes.fromhex(f"14000000 6400 0000 02000000 {WIRE_DIRECT}"))

    def test_a_list_that_is_no_address_is_refused(self) -> None:
        """1024 is ours: a million empty names in one packet would cost seconds and hundreds of megabytes."""
        one = bytes.fromhex("0300 0000")
        largest = struct.pack("<IHHI", 12 + 4 * 1024, 0x64, 0, 1024) + one * 1024
        assert len(MQFAddressHeader.decode(largest).elements) == 1024
        larger = struct.pack("<IHHI", 12 + 4 * 1025, 0x64, 0, 1025) + one * 1025
        with pytest.raises(DecodeError, match="element_count at byte 8: is 1025, at most 1024"):
            MQFAddressHeader.decode(larger)

    def test_an_element_may_not_pass_its_header(self) -> None:
        inside = f"10000000 6400 0000 01000000 0300 6100 {NO_SIGNATURE}"
        with pytest.raises(DecodeError, match="direct_format_name at byte 14: has no NUL"):
            MQFAddressHeader.decode(bytes.fromhex(inside))

    def test_a_nul_is_looked_for_character_by_character(self) -> None:
        """U+0100 U+0001 holds two zero bytes in a row that are no NUL."""
        name = MQFDirectQueueFormatName("\u6100\u0061")
        assert_both_ways(name, "0061 6100 0000")

    def test_a_size_that_its_elements_do_not_fit_cannot_be_written(self) -> None:
        with pytest.raises(ValueError, match="header_size 12 does not fit"):
            MQFAddressHeader(12, 0x64, 0, 1, (DIRECT,)).encode()


class TestMQFSignatureHeader:
    """[MS-MQMQ] 2.2.20.3"""

    def test_bytes(self) -> None:
        assert_both_ways(MQFSignatureHeader.of(b"\1\2\3\4\5"), "5e01 0000 05000000 0102030405 000000")
        assert_both_ways(MQFSignatureHeader(), NO_SIGNATURE)

    def test_another_id_is_refused(self) -> None:
        with pytest.raises(DecodeError, match="id at byte 0: is 0x015f, not 0x015e"):
            MQFSignatureHeader.decode(bytes.fromhex("5f01 0000 00000000"))


class TestMultiQueueFormatHeader:
    """[MS-MQMQ] 2.2.20.1"""

    def test_empty(self) -> None:
        assert_both_ways(MultiQueueFormatHeader(), f"{EMPTY} {NO_SIGNATURE}")

    def test_four_parts_in_their_order(self) -> None:
        header = MultiQueueFormatHeader(
            MQFAddressHeader.of(0x0064, (DIRECT,)),
            MQFAddressHeader.of(0x00C8, (PUBLIC,)),
            MQFAddressHeader.of(0x012C, (PRIVATE,)),
            MQFSignatureHeader.of(b"sign"),
        )
        expected = (
            f"14000000 6400 0000 01000000 {WIRE_DIRECT}"
            f"20000000 c800 0000 01000000 {WIRE_PUBLIC}"
            f"24000000 2c01 0000 01000000 {WIRE_PRIVATE}"
            f"5e01 0000 04000000 {b'sign'.hex()}"
        )
        assert_both_ways(header, expected)

    @pytest.mark.parametrize("at", [4, 16, 28, 36])
    def test_an_id_in_the_wrong_place_is_refused(self, at: int) -> None:
        data = bytearray.fromhex(f"{EMPTY} {NO_SIGNATURE}")
        data[at] ^= 0xFF
        with pytest.raises(DecodeError, match=f"id at byte {at}: is"):
            MultiQueueFormatHeader.decode(bytes(data))

    def test_bytes_after_it_are_its_own_error(self) -> None:
        data = bytes.fromhex(EMPTY + NO_SIGNATURE)
        with pytest.raises(DecodeError, match=r"MultiQueueFormatHeader\.end at byte 44: 1 bytes follow"):
            MultiQueueFormatHeader.decode(data + b"x")
