import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiercel.model.errors import DecodeError
from tiercel.model.identifiers import TxSequenceId
from tiercel.wire.internal_packets import ConnectionParametersHeader, EstablishConnectionHeader
from tiercel.wire.security_header import SecurityHeader
from tiercel.wire.session_header import SessionHeader
from tiercel.wire.structure import (
    Bits,
    Layout,
    Reader,
    align4,
    decode_guid,
    decode_text,
    encode_guid,
    encode_text,
    encode_text_nul,
    flag_words,
    padding,
)

from .packets import GUID_A, WIRE_A, frame


class TestByteOrder:
    """[MS-MQQB] 2.2"""

    @pytest.mark.conformance("MQQB-005")
    def test_integers_are_little_endian(self) -> None:
        data = frame(5)
        assert data[20:24].hex() == "d8050000"
        parameters = ConnectionParametersHeader.decode(data[20:])
        assert parameters.recoverable_ack_timeout == 1496
        assert parameters.encode() == data[20:]

    @pytest.mark.conformance("MQQB-006")
    def test_guids_have_the_packet_form(self) -> None:
        header = EstablishConnectionHeader.decode(frame(4)[20:])
        assert str(header.client_guid).upper() == "1F742305-BE5E-4177-BC77-C4DD7719E474"
        assert str(header.server_guid).upper() == "3C3A6AEB-F567-4143-87D3-85CF4D68CEB4"
        assert header.client_guid.version == header.server_guid.version == 4
        assert header.encode() == frame(4)[20:]

    def test_guid_fields_are_swapped_one_by_one(self) -> None:
        assert decode_guid(bytes.fromhex(WIRE_A)) == GUID_A
        assert encode_guid(GUID_A) == bytes.fromhex(WIRE_A)

    def test_sequence_ids_have_their_ordinal_first(self) -> None:
        layout = Layout("TXID")
        data = bytes.fromhex("04030201 08070605")
        assert layout.unpack(data, 0) == [TxSequenceId(timestamp=0x05060708, ordinal=0x01020304)]
        assert layout.pack([TxSequenceId(0x05060708, 0x01020304)]) == data


class TestText:
    @pytest.mark.parametrize("text", ["", "a", "\N{EURO SIGN}", "\N{BAR CHART}", "a\0b", "\ud800", "\udc00x"])
    def test_survives(self, text: str) -> None:
        assert decode_text(encode_text(text)) == text

    @given(st.binary(max_size=64).filter(lambda data: len(data) % 2 == 0))
    def test_any_pairs_of_bytes_are_text(self, data: bytes) -> None:
        assert encode_text(decode_text(data)) == data

    def test_is_utf16_and_ends_with_nul(self) -> None:
        assert encode_text_nul("Aé").hex(" ", 2) == "4100 e900 0000"

    @pytest.mark.parametrize("data", [b"", b"\0", b"a\0", b"\0\0\0", b"a\0\0"], ids=lambda data: data.hex())
    def test_without_its_nul_is_an_error(self, data: bytes) -> None:
        with pytest.raises(DecodeError, match="NUL-terminated"):
            Reader(data).text(len(data), "label")


class TestAlignment:
    @pytest.mark.parametrize(("size", "expected"), [(0, 0), (1, 4), (2, 4), (3, 4), (4, 4), (5, 8)])
    def test_align4(self, size: int, expected: int) -> None:
        assert align4(size) == expected

    def test_zeros_are_forgotten_and_made_again(self) -> None:
        reader = Reader(b"\0\0\0")
        assert reader.padding(5) == b""
        assert reader.at == 3
        assert padding(5, b"") == b"\0\0\0"

    def test_what_a_peer_left_in_it_is_kept(self) -> None:
        assert Reader(b"\0\xcd\0").padding(5) == b"\0\xcd\0"
        assert padding(5, b"\0\xcd\0") == b"\0\xcd\0"

    def test_padding_of_the_wrong_size_cannot_be_written(self) -> None:
        with pytest.raises(ValueError, match="2 bytes of padding do not align a field of 5 bytes"):
            padding(5, b"xx")


class TestReader:
    @pytest.mark.parametrize(
        ("length", "field", "offset"),
        [(0, "ack_sequence_number", 0), (3, "recoverable_msg_ack_seq_number", 2), (15, "reserved", 14)],
    )
    def test_says_which_field_is_cut(self, length: int, field: str, offset: int) -> None:
        with pytest.raises(DecodeError) as caught:
            SessionHeader.decode(bytes(length))
        assert (caught.value.structure, caught.value.field) == ("SessionHeader", field)
        assert caught.value.offset == offset

    def test_says_which_variable_field_is_cut(self) -> None:
        sizes = struct.pack("<HHHHII", 0, 4, 0, 9, 0, 0)
        with pytest.raises(DecodeError, match="signature at byte 20: needs 9 bytes, 8 are left"):
            SecurityHeader.decode(sizes + bytes(12))

    def test_bytes_after_the_structure_are_an_error(self) -> None:
        with pytest.raises(DecodeError, match=r"SessionHeader.end at byte 16: 1 bytes follow"):
            SessionHeader.decode(bytes(17))

    def test_never_passes_its_end(self) -> None:
        reader = Reader(bytes(100), 90, 99)
        with pytest.raises(DecodeError, match="needs 10 bytes, 9 are left"):
            reader.take(10, "body")
        assert reader.take(9, "body") == bytes(9)


class TestFlagWords:
    def test_count_from_the_least_significant_bit(self) -> None:
        words = flag_words(flags="PR:3 IN -:2 TR")
        assert words["flags"] == (Bits("PR", 0, 3), Bits("IN", 3, 1), Bits("TR", 6, 1))
        assert [bits.of(0b1001101) for bits in words["flags"]] == [5, 1, 1]


class TestEncoding:
    def test_a_number_too_large_for_its_field_says_where(self) -> None:
        with pytest.raises(ValueError, match="SessionHeader"):
            SessionHeader(window_size=0x10000).encode()

    def test_parts_name_every_field_with_its_bytes(self) -> None:
        parts = list(SessionHeader(1, 2, 3, 4, 5, 6, 7).parts())
        assert [(part.name, part.data.hex(), part.value) for part in parts] == [
            ("ack_sequence_number", "0100", 1),
            ("recoverable_msg_ack_seq_number", "0200", 2),
            ("recoverable_msg_ack_flags", "03000000", 3),
            ("user_msg_sequence_number", "0400", 4),
            ("recoverable_msg_seq_number", "0500", 5),
            ("window_size", "0600", 6),
            ("reserved", "0700", 7),
        ]
