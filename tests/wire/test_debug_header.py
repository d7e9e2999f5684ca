import pytest

from tiercel.model.errors import DecodeError
from tiercel.wire.debug_header import DebugHeader

from .packets import GUID_A, WIRE_A, assert_both_ways


class TestDebugHeader:
    """[MS-MQMQ] 2.2.20.8"""

    def test_without_a_queue(self) -> None:
        assert_both_ways(DebugHeader(), "0000 0000")

    def test_with_a_public_queue(self) -> None:
        assert_both_ways(DebugHeader(1, 0xCDCD, GUID_A), f"0100 cdcd {WIRE_A}")

    def test_unused_bits_are_kept_and_ignored(self) -> None:
        assert_both_ways(DebugHeader(0xFFFD, 0, GUID_A), f"fdff 0000 {WIRE_A}")
        assert_both_ways(DebugHeader(0xFFFC), "fcff 0000")

    @pytest.mark.parametrize("queue_type", [2, 3])
    def test_another_queue_type_is_refused(self, queue_type: int) -> None:
        with pytest.raises(DecodeError, match=f"DebugHeader.flags at byte 0: QT is {queue_type}"):
            DebugHeader.decode(bytes([queue_type, 0, 0, 0]) + bytes(16))

    def test_a_missing_queue_is_refused(self) -> None:
        with pytest.raises(DecodeError, match="queue_identifier at byte 4: needs 16 bytes, 15 are left"):
            DebugHeader.decode(bytes([1, 0, 0, 0]) + bytes(15))
