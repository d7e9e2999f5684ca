import pytest

from tiercel.model.errors import DecodeError
from tiercel.wire.extension_headers import (
    DeadLetterHeader,
    ExtendedAddressHeader,
    ExtensionHeader,
    SubqueueHeader,
    decode_subqueue_name,
    encode_subqueue_name,
    read_extension_headers,
)
from tiercel.wire.structure import Reader, Structure

from .packets import assert_both_ways, utf16

# "Trailer of a plain message" in conformance/MS-MQRR.md: 188 bytes.
PLAIN_TRAILER = bytes.fromhex(
    f"0C000000 B0000000 12 000000 94000000 {bytes(144).hex()} 1C000000 {bytes(24).hex()}"
)


def read(data: bytes) -> tuple[Structure, ...]:
    reader = Reader(data)
    headers = tuple(read_extension_headers(reader))
    assert reader.at == len(data)
    return headers


class TestExtensionHeader:
    """[MS-MQRR] 2.2.5.2"""

    def test_by_default_nothing_follows(self) -> None:
        assert_both_ways(ExtensionHeader(), "0C000000 00000000 12 000000")

    def test_the_trailer_of_a_plain_message(self) -> None:
        assert len(PLAIN_TRAILER) == 188
        headers = read(PLAIN_TRAILER)
        assert headers == (
            ExtensionHeader(12, 176, 0x12),
            SubqueueHeader(),
            ExtendedAddressHeader(),
        )
        assert b"".join(header.encode() for header in headers) == PLAIN_TRAILER

    @pytest.mark.conformance("MQRR-039")
    @pytest.mark.parametrize(
        ("dead_letter", "flags", "remaining"),
        [(b"", 0x12, 176), (DeadLetterHeader.of(r"h\d").encode(), 0x13, 188), (b"\4\0\0\0", 0x1B, 180)],
    )
    def test_flags_and_size_of_what_follows(self, dead_letter: bytes, flags: int, remaining: int) -> None:
        subqueue, address = PLAIN_TRAILER[12:160], PLAIN_TRAILER[160:]
        expected = bytes.fromhex("0c000000") + remaining.to_bytes(4, "little") + bytes([flags, 0, 0, 0])
        assert ExtensionHeader(12, remaining, flags).encode() == expected
        kinds = [type(header) for header in read(expected + subqueue + dead_letter + address)]
        between = [DeadLetterHeader] if dead_letter else []
        assert kinds == [ExtensionHeader, SubqueueHeader, *between, ExtendedAddressHeader]

    @pytest.mark.conformance("MQRR-039")
    def test_unused_bits_and_reserved_bytes_are_ignored(self) -> None:
        data = bytearray(PLAIN_TRAILER)
        data[8:12] = b"\xf6\xcd\xcd\xcd"
        assert [type(header) for header in read(bytes(data))] == [
            ExtensionHeader,
            SubqueueHeader,
            ExtendedAddressHeader,
        ]

    def test_flags_count_from_the_least_significant_bit(self) -> None:
        places = {bit.name: bit.shift for bit in ExtensionHeader.FLAGS["flags"]}
        assert places == {"DL": 0, "SQ": 1, "DI": 3, "EA": 4}

    @pytest.mark.parametrize("remaining", [0, 175, 177, 0xFFFFFFFF])
    def test_a_wrong_size_of_what_follows_is_refused(self, remaining: int) -> None:
        data = bytearray(PLAIN_TRAILER)
        data[4:8] = remaining.to_bytes(4, "little")
        with pytest.raises(
            DecodeError, match=f"ExtensionHeader.remaining_headers_size at byte 4: is {remaining}"
        ):
            read(bytes(data))


class TestSubqueueHeader:
    """[MS-MQRR] 2.2.5.3"""

    @pytest.mark.conformance("MQRR-040")
    def test_fields(self) -> None:
        header = SubqueueHeader(
            word=0xC004 << 1,
            abort_counter=2,
            move_counter=3,
            last_move_time=0x01020304,
            subqueue_name=encode_subqueue_name("poison"),
            target_subqueue_name=encode_subqueue_name("t"),
        )
        names = utf16("poison").ljust(64, b"\0").hex() + utf16("t").ljust(64, b"\0").hex()
        assert_both_ways(header, f"94000000 08800100 02000000 03000000 04030201 {names}")
        assert header.acknowledgement_class == 0xC004
        assert (header.subqueue, header.target_subqueue) == ("poison", "t")

    @pytest.mark.conformance("MQRR-040")
    def test_the_flag_word_is_not_byte_aligned(self) -> None:
        assert [(bit.name, bit.shift, bit.width) for bit in SubqueueHeader.FLAGS["word"]] == [
            ("TM", 0, 1),
            ("AcknowledgementClass", 1, 16),
        ]
        assert SubqueueHeader(word=0xFFFE0001).acknowledgement_class == 0

    def test_a_name_of_32_characters_has_no_room_for_its_nul(self) -> None:
        """MQRR trap 20"""
        assert decode_subqueue_name(encode_subqueue_name("x" * 32)) == "x" * 32
        with pytest.raises(ValueError, match="has 33 characters, the limit is 32"):
            encode_subqueue_name("x" * 33)


class TestDeadLetterHeader:
    """[MS-MQRR] 2.2.5.4"""

    @pytest.mark.conformance("MQRR-043")
    @pytest.mark.parametrize(
        ("path", "wire"),
        [
            (r"h\d", "0c000000 6800 5c00 6400 0000"),
            (r"h\de", "10000000 6800 5c00 6400 6500 0000 0000"),
        ],
        ids=["even with the NUL", "odd with the NUL"],
    )
    def test_a_path_and_zeros_up_to_four(self, path: str, wire: str) -> None:
        header = DeadLetterHeader.of(path)
        assert_both_ways(header, wire)
        assert header.path_name == path
        assert header.header_size == len(bytes.fromhex(wire))

    @pytest.mark.parametrize("size", [0, 1, 3, 5, 6, 7, 0xFFFFFFFF])
    def test_a_size_that_cannot_be_is_refused(self, size: int) -> None:
        with pytest.raises(DecodeError, match="DeadLetterHeader"):
            DeadLetterHeader.decode(size.to_bytes(4, "little") + bytes(4))


class TestExtendedAddressHeader:
    """[MS-MQRR] 2.2.5.5"""

    @pytest.mark.parametrize(
        ("header", "wire"),
        [
            (
                ExtendedAddressHeader(28, 4, 1, 0, bytes([192, 0, 2, 7]) + bytes(12)),
                f"1c000000 0400 0100 00000000 c0000207 {bytes(12).hex()}",
            ),
            (
                ExtendedAddressHeader(28, 16, 6, 3, bytes.fromhex("fe80" + "00" * 13 + "01")),
                "1c000000 1000 0600 03000000 fe80000000000000 0000000000000001",
            ),
            (ExtendedAddressHeader(), f"1c000000 {bytes(24).hex()}"),
        ],
        ids=["IPv4", "IPv6 with a scope", "unknown"],
    )
    def test_round_trip(self, header: ExtendedAddressHeader, wire: str) -> None:
        assert_both_ways(header, wire)
