import pytest

from tiercel.model.errors import DecodeError
from tiercel.wire.ping import Ping

from .packets import GUID_A, WIRE_A, assert_both_ways, frame, replaced


class TestPing:
    """[MS-MQQB] 2.2.7"""

    def test_fields(self) -> None:
        assert_both_ways(Ping(flags=3, cookie=0x01020304, qm_guid=GUID_A), f"0300 4855 04030201 {WIRE_A}")

    @pytest.mark.parametrize(
        ("flags", "from_client", "refused"),
        [(0x7D01, 1, 0), (0xB295, 1, 0), (0x0000, 0, 0), (0x0002, 0, 1), (0xFFFC, 0, 0), (0xFFFF, 1, 1)],
    )
    def test_only_two_bits_mean_something(self, flags: int, from_client: int, refused: int) -> None:
        ping = Ping(flags)
        assert {bit.name: bit.of(flags) for bit in Ping.FLAGS["flags"]} == {"RC": from_client, "RF": refused}
        assert ping.is_refused == bool(refused)

    def test_a_signature_in_the_wrong_byte_order_is_refused(self) -> None:
        with pytest.raises(DecodeError, match="signature at byte 2: is 0x4855, not 0x5548"):
            Ping.decode(replaced(frame(1), 2, b"\x55\x48"))

    @pytest.mark.parametrize("length", [0, 1, 23, 25])
    def test_only_24_bytes_are_a_ping(self, length: int) -> None:
        with pytest.raises(DecodeError):
            Ping.decode((frame(1) + b"\0")[:length])


class TestPingRequest:
    """[MS-MQQB] 4.1.1, frame 1"""

    @pytest.mark.conformance("MQQB-234")
    def test_frame(self) -> None:
        ping = Ping.decode(frame(1))
        assert (ping.flags, ping.signature, ping.cookie) == (0x7D01, 0x5548, 4)
        assert ping.qm_guid.bytes_le.hex() == "d1587355509195954997b6e611ea26c6"
        assert not ping.is_refused
        assert ping.encode() == frame(1)


class TestPingResponse:
    """[MS-MQQB] 4.1.2, frame 2"""

    @pytest.mark.conformance("MQQB-235")
    def test_frame(self) -> None:
        ping = Ping.decode(frame(2))
        assert (ping.flags, ping.cookie) == (0xB295, 4)
        assert ping.qm_guid.bytes_le.hex() == "0789cd434c39118f44459078909ea0fc"
        assert not ping.is_refused
        assert ping.encode() == frame(2)
