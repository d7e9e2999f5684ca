import pytest

from tiercel.model.errors import DecodeError
from tiercel.wire.soap_header import CompoundMessageHeader, SoapHeader, SRMPEnvelopeHeader, TextSection

from .packets import assert_both_ways


class TestSoapHeader:
    """[MS-MQMQ] 2.2.20.7"""

    def test_two_sections_each_aligned(self) -> None:
        header = SoapHeader(TextSection.of(0x0320, "ab"), TextSection.of(0x0384, "c"))
        assert_both_ways(header, "2003 0000 03000000 610062000000 0000  8403 0000 02000000 63000000")

    def test_length_counts_characters_with_the_nul(self) -> None:
        assert TextSection.of(0x0320, "a\N{BAR CHART}").data_length == 4

    def test_length_zero_means_no_text_bytes(self) -> None:
        assert_both_ways(SoapHeader(), "2003 0000 00000000  8403 0000 00000000")

    def test_reserved_and_padding_of_a_peer_survive(self) -> None:
        wire = "2003 cdcd 01000000 0000 abcd  8403 0000 00000000"
        header = SoapHeader.decode(bytes.fromhex(wire))
        assert (header.header.reserved, header.header.padding) == (0xCDCD, b"\xab\xcd")
        assert header.encode() == bytes.fromhex(wire)

    @pytest.mark.parametrize(
        "wire",
        [
            "2003 0000 03000000 610062000000  8403 0000 02000000 63000000 0000",
            "2003 0000 03000000 610062000000  8403 0000 02000000 63000000 abcd",
            "2003 0000 03000000 610062000000  8403 0000 02000000 63000000",
            "2003 0000 03000000 610062000000 8403  8403 0000 03000000 630064000000",
            "2003 0000 03000000 610062000000  8403 0000 03000000 630064000000",
        ],
    )
    def test_a_peer_may_leave_out_alignment(self, wire: str) -> None:
        """The text does not mention it."""
        header = SoapHeader.decode(bytes.fromhex(wire))
        assert (header.header.data, header.body.data[:1]) == ("ab", "c")
        assert header.encode() == bytes.fromhex(wire)

    @pytest.mark.parametrize(
        ("wire", "field", "at"),
        [
            ("2103 0000 00000000  8403 0000 00000000", "header_section_id", 0),
            ("2003 0000 00000000  2003 0000 00000000", "body_section_id", 8),
        ],
    )
    def test_another_section_id_is_refused(self, wire: str, field: str, at: int) -> None:
        with pytest.raises(DecodeError, match=f"SoapHeader.{field} at byte {at}"):
            SoapHeader.decode(bytes.fromhex(wire))


class TestSRMPEnvelopeHeader:
    """[MS-MQRR] 2.2.5.1.2.1"""

    def test_round_trip(self) -> None:
        header = SRMPEnvelopeHeader(0x0190, 0, 4, "<e>")
        assert_both_ways(header, "9001 0000 04000000 3c0065003e000000")

    def test_reserved_is_ignored_and_kept(self) -> None:
        assert_both_ways(SRMPEnvelopeHeader(0, 0xFFFF, 2, "x"), "0000 ffff 02000000 78000000")

    @pytest.mark.parametrize("length", [1, 3, 0x80000000, 0xFFFFFFFF])
    def test_a_length_that_is_not_the_text_s_is_refused(self, length: int) -> None:
        data = bytes(4) + length.to_bytes(4, "little") + b"x\0\0\0"
        with pytest.raises(DecodeError, match="data at byte 8"):
            SRMPEnvelopeHeader.decode(data)


class TestCompoundMessageHeader:
    """[MS-MQRR] 2.2.5.1.2.2"""

    @pytest.mark.conformance("MQRR-038")
    def test_round_trip(self) -> None:
        header = CompoundMessageHeader(0x01F4, 0, 7, 3, 2, b"POSTED!")
        assert_both_ways(header, "f401 0000 07000000 03000000 02000000 504f5354454421 00")
        assert header.message_body == b"STE"

    @pytest.mark.conformance("MQRR-038")
    def test_reserved_is_ignored_and_kept(self) -> None:
        assert_both_ways(CompoundMessageHeader(0, 0xABCD), "0000 cdab 00000000 00000000 00000000")

    @pytest.mark.conformance("MQRR-038")
    @pytest.mark.parametrize(("size", "offset"), [(8, 0), (1, 7), (0, 8), (0xFFFFFFFF, 0), (1, 0xFFFFFFFF)])
    def test_a_body_beyond_the_request_is_refused(self, size: int, offset: int) -> None:
        sizes = (7).to_bytes(4, "little") + size.to_bytes(4, "little") + offset.to_bytes(4, "little")
        with pytest.raises(DecodeError, match="msg_body_offset at byte 12"):
            CompoundMessageHeader.decode(bytes(4) + sizes + b"POSTED!\0")

    @pytest.mark.parametrize(("size", "offset"), [(7, 0), (0, 7), (3, 4)])
    def test_a_body_that_just_fits(self, size: int, offset: int) -> None:
        sizes = (7).to_bytes(4, "little") + size.to_bytes(4, "little") + offset.to_bytes(4, "little")
        header = CompoundMessageHeader.decode(bytes(4) + sizes + b"POSTED!\0")
        assert header.message_body == b"POSTED!"[offset : offset + size]
