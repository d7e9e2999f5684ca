import pytest

from tiercel.model.errors import DecodeError
from tiercel.wire.queue_names import (
    STRUCTURE_OF_KIND,
    DirectQueueFormatName,
    PrivateQueueFormatName,
    PrivateQueueFormatNameId,
    PublicQueueFormatName,
)

from .packets import GUID_A, WIRE_A, assert_both_ways


class TestPrivateQueueFormatNameId:
    """[MS-MQMQ] 2.2.18.1.5.1"""

    def test_bytes(self) -> None:
        assert_both_ways(PrivateQueueFormatNameId(0x0A0B0C0D), "0d0c0b0a")


class TestPublicQueueFormatName:
    """[MS-MQMQ] 2.2.18.1.7.1"""

    def test_bytes(self) -> None:
        assert_both_ways(PublicQueueFormatName(GUID_A), WIRE_A)


class TestPrivateQueueFormatName:
    """[MS-MQMQ] 2.2.18.1.7.2"""

    def test_bytes(self) -> None:
        assert_both_ways(PrivateQueueFormatName(GUID_A, 0x0A0B0C0D), f"{WIRE_A} 0d0c0b0a")


class TestDirectQueueFormatName:
    """[MS-MQMQ] 2.2.18.1.5.2"""

    def test_an_even_number_of_characters_needs_no_padding(self) -> None:
        assert_both_ways(DirectQueueFormatName(14, r"OS:h\q"), "0e00 4f0053003a0068005c0071000000")

    def test_an_odd_number_of_characters_is_padded_to_four(self) -> None:
        assert_both_ways(DirectQueueFormatName(12, r"OS:\q"), "0c00 4f0053003a005c0071000000 0000")

    def test_what_a_peer_left_in_the_padding_survives(self) -> None:
        name = DirectQueueFormatName(4, "q", b"\xcd\xab")
        assert_both_ways(name, "0400 71000000 cdab")

    def test_count_is_bytes_with_the_nul(self) -> None:
        assert DirectQueueFormatName.of("OS:a\N{BAR CHART}").count == 2 * (4 + 2 + 1)

    def test_the_longest_name(self) -> None:
        name = DirectQueueFormatName.of("x" * 32766)
        assert name.count == 65534
        assert DirectQueueFormatName.decode(name.encode()) == name

    @pytest.mark.parametrize(
        "wire", ["0000 0000", "0100 0000", "0300 000000", "0200 7100", "0400 7100 7100 0000"]
    )
    def test_no_text_with_nul_is_refused(self, wire: str) -> None:
        with pytest.raises(DecodeError, match="direct_format_name at byte 2"):
            DirectQueueFormatName.decode(bytes.fromhex(wire))

    def test_a_count_beyond_the_end_is_refused(self) -> None:
        with pytest.raises(DecodeError, match="needs 65535 bytes, 2 are left"):
            DirectQueueFormatName.decode(bytes.fromhex("ffff 0000"))


def test_structure_of_each_kind() -> None:
    """The table of [MS-MQMQ] 2.2.19.2: kinds 0 and 1 carry no bytes."""
    expected = {
        2: PrivateQueueFormatNameId,
        3: PrivateQueueFormatNameId,
        4: PrivateQueueFormatNameId,
        5: PublicQueueFormatName,
        6: PrivateQueueFormatName,
        7: DirectQueueFormatName,
    }
    assert expected == STRUCTURE_OF_KIND
