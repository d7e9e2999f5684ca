import pytest

from tiercel.model.errors import DecodeError
from tiercel.model.identifiers import NULL_GUID
from tiercel.wire.internal_packets import (
    RESPONSE_PADDING,
    RESPONSE_RESERVED,
    ConnectionParameters,
    ConnectionParametersHeader,
    EstablishConnection,
    EstablishConnectionHeader,
    InternalHeader,
    SessionAck,
)
from tiercel.wire.packet import Packet, decode_packet
from tiercel.wire.session_header import SessionHeader

from .packets import GUID_A, GUID_B, WIRE_A, WIRE_B, assert_both_ways, frame, replaced


def establish_connection(data: bytes) -> EstablishConnection:
    packet = decode_packet(data)
    assert isinstance(packet, EstablishConnection)
    return packet


def encoded(packet: Packet) -> bytes:
    assert isinstance(packet, EstablishConnection | ConnectionParameters | SessionAck)
    return packet.encode()


class TestInternalHeader:
    """[MS-MQQB] 2.2.1"""

    def test_fields(self) -> None:
        assert_both_ways(InternalHeader(0x0201, 0x0403), "0102 0304")
        assert [(bit.name, bit.shift, bit.width) for bit in InternalHeader.FLAGS["flags"]] == [
            ("PT", 0, 4),
            ("CS", 4, 1),
        ]

    @pytest.mark.conformance("MQQB-014")
    def test_reserved_bits_are_ignored_and_never_sent(self) -> None:
        packet = establish_connection(replaced(frame(3), 16, bytes.fromhex("ffff e2ff")))
        assert packet.internal.packet_type == 2
        assert not packet.internal.is_refused
        ours = (
            EstablishConnection.of(EstablishConnectionHeader()),
            ConnectionParameters.of(ConnectionParametersHeader()),
            SessionAck.of(SessionHeader()),
        )
        assert [packet.encode()[16:20].hex() for packet in ours] == ["00000200", "00000300", "00000100"]

    @pytest.mark.parametrize("packet_type", [0, *range(4, 16)])
    @pytest.mark.parametrize("number", [3, 5, 8])
    def test_unknown_types_are_refused(self, number: int, packet_type: int) -> None:
        with pytest.raises(DecodeError, match=f"PT {packet_type} "):
            decode_packet(replaced(frame(number), 18, bytes([packet_type])))

    @pytest.mark.conformance("MQQB-016")
    def test_a_session_ack_never_has_cs(self) -> None:
        with pytest.raises(ValueError, match="a SessionAck cannot refuse"):
            SessionAck.of(SessionHeader(), refused=True)

    @pytest.mark.conformance("MQQB-016")
    def test_a_refusal_has_cs(self) -> None:
        establish = EstablishConnection.of(EstablishConnectionHeader(), refused=True)
        parameters = ConnectionParameters.of(ConnectionParametersHeader(), refused=True)
        assert establish.encode()[18:20].hex() == "1200"
        assert parameters.encode()[18:20].hex() == "1300"
        assert establish_connection(establish.encode()).internal.is_refused


class TestBaseHeaderOfInternalPackets:
    """[MS-MQQB] 4.1.3 to 4.1.8, [MS-MQMQ] 2.2.19.1"""

    @pytest.mark.conformance("MQQB-012")
    @pytest.mark.parametrize("reserved", range(256))
    def test_reserved_byte_holds_anything(self, reserved: int) -> None:
        data = replaced(frame(3), 1, bytes([reserved]))
        assert encoded(decode_packet(data)) == data

    @pytest.mark.conformance("MQQB-012")
    @pytest.mark.parametrize(
        ("packet", "flags"),
        [
            (EstablishConnection.of(EstablishConnectionHeader()), "0b00"),
            (ConnectionParameters.of(ConnectionParametersHeader()), "0b00"),
            (SessionAck.of(SessionHeader()), "1b00"),
        ],
    )
    def test_ours_have_priority_3_and_never_expire(self, packet: Packet, flags: str) -> None:
        data = encoded(packet)
        assert data[2:4].hex() == flags
        assert data[12:16].hex() == "ffffffff"

    def test_a_response_has_the_bytes_of_windows(self) -> None:
        header = EstablishConnectionHeader(GUID_A, GUID_B, padding=RESPONSE_PADDING)
        data = EstablishConnection.of(header, reserved=RESPONSE_RESERVED).encode()
        assert data[:16].hex() == "105a0b004c494f523c020000ffffffff"
        assert data[60:] == b"\x5a" * 512


class TestEstablishConnection:
    """[MS-MQQB] 2.2.3"""

    @pytest.mark.conformance("MQQB-038")
    def test_layout(self) -> None:
        header = EstablishConnectionHeader(
            client_guid=GUID_A,
            server_guid=GUID_B,
            time_stamp=0x01020304,
            operating_system=0x0310,
            reserved=0x0506,
            padding=bytes(range(256)) * 2,
        )
        data = EstablishConnection.of(header).encode()
        assert len(data) == 572
        assert data[8:12].hex() == "3c020000"
        assert data[20:36] == bytes.fromhex(WIRE_A)
        assert data[36:52] == bytes.fromhex(WIRE_B)
        assert data[52:60].hex(" ", 2) == "0403 0201 1003 0605"
        assert data[60:] == bytes(range(256)) * 2
        assert establish_connection(data).header == header
        assert establish_connection(frame(3)).header.time_stamp == int.from_bytes(frame(3)[52:56], "little")

    @pytest.mark.conformance("MQQB-041")
    def test_re_is_0x10_and_other_values_are_tolerated(self) -> None:
        assert frame(3)[56] == frame(4)[56] == 0x10
        assert EstablishConnection.of(EstablishConnectionHeader()).encode()[56] == 0x10
        for value in range(256):
            packet = establish_connection(replaced(frame(3), 56, bytes([value])))
            assert packet.header.operating_system & 0xFF == value

    def test_informational_bits_and_reserved_are_read_past(self) -> None:
        data = replaced(frame(3), 56, bytes.fromhex("10ff ffff"))
        header = establish_connection(data).header
        assert (header.operating_system, header.reserved) == (0xFF10, 0xFFFF)
        assert {bit.name: bit.of(0x0310) for bit in EstablishConnectionHeader.FLAGS["operating_system"]} == {
            "RE": 0x10,
            "SE": 1,
            "OS": 1,
            "QS": 0,
        }

    def test_defaults_leak_nothing(self) -> None:
        data = EstablishConnection.of(EstablishConnectionHeader()).encode()
        assert data[20:56] == bytes(36)
        assert data[58:] == bytes(514)
        assert establish_connection(data).header.server_guid == NULL_GUID

    @pytest.mark.parametrize("size", [571, 573])
    def test_another_size_is_refused(self, size: int) -> None:
        data = replaced((frame(3) + b"\0")[:size], 8, size.to_bytes(4, "little"))
        with pytest.raises(DecodeError):
            decode_packet(data)
        with pytest.raises(DecodeError, match="packet_size at byte 8"):
            decode_packet((frame(3) + b"\0")[:size])


class TestEstablishConnectionRequestFrame:
    """[MS-MQQB] 4.1.3, frame 3: the bytes of OperatingSystem are 0x0310, the prose calls them Reserved."""

    @pytest.mark.conformance("MQQB-236")
    def test_frame(self) -> None:
        packet = establish_connection(frame(3))
        assert (packet.base.reserved, packet.base.flags, packet.base.packet_size) == (0xC0, 0x000B, 572)
        assert packet.base.time_to_reach_queue == 0xFFFFFFFF
        assert (packet.internal.packet_type, packet.internal.is_refused) == (2, False)
        assert packet.header.client_guid.bytes_le.hex() == "d1587355509195954997b6e611ea26c6"
        assert packet.header.server_guid.bytes_le.hex() == "0789cd434c39118f44459078909ea0fc"
        assert packet.header.time_stamp == 0x1DDECA4E
        assert (packet.header.operating_system, packet.header.reserved) == (0x0310, 0)
        assert packet.header.padding == b"\x5a" * 512
        assert packet.encode() == frame(3)


class TestEstablishConnectionResponseFrame:
    """[MS-MQQB] 4.1.4, frame 4: from another capture than frame 3."""

    @pytest.mark.conformance("MQQB-237")
    def test_frame(self) -> None:
        packet = establish_connection(frame(4))
        assert (packet.base.reserved, packet.base.flags) == (0x5A, 0x000B)
        assert (packet.internal.packet_type, packet.internal.is_refused) == (2, False)
        assert str(packet.header.client_guid) == "1f742305-be5e-4177-bc77-c4dd7719e474"
        assert str(packet.header.server_guid) == "3c3a6aeb-f567-4143-87d3-85cf4d68ceb4"
        assert packet.header.time_stamp == 0x1DDECA4E
        assert (packet.header.operating_system, packet.header.reserved) == (0x0310, 0)
        assert packet.header.padding == b"\x5a" * 512
        assert packet.encode() == frame(4)


class TestConnectionParameters:
    """[MS-MQQB] 2.2.2, 4.1.5 and 4.1.6: frames 5 and 6; the prose of frame 6 says window 32, its bytes 64."""

    @pytest.mark.conformance("MQQB-053")
    @pytest.mark.parametrize(
        "number",
        [
            pytest.param(5, marks=pytest.mark.conformance("MQQB-238")),
            pytest.param(6, marks=pytest.mark.conformance("MQQB-239")),
        ],
    )
    def test_frames(self, number: int) -> None:
        packet = decode_packet(frame(number))
        assert isinstance(packet, ConnectionParameters)
        assert len(frame(number)) == packet.base.packet_size == 32
        assert (packet.base.reserved, packet.base.flags) == (0xC0, 0x000B)
        assert (packet.internal.packet_type, packet.internal.is_refused) == (3, False)
        assert packet.header == ConnectionParametersHeader(1496, 120_000, 0, 64)
        assert packet.encode() == frame(number)

    def test_every_byte_has_its_place(self) -> None:
        header = ConnectionParametersHeader(0x04030201, 0x08070605, 0x0A09, 0x0C0B)
        assert_both_ways(header, "01020304 05060708 090a 0b0c")
        assert ConnectionParameters.of(header).encode()[8:12].hex() == "20000000"


class TestSessionAck:
    """[MS-MQQB] 2.2.6 and 4.1.8: frame 8"""

    @pytest.mark.conformance("MQQB-069", "MQQB-241")
    def test_frame(self) -> None:
        packet = decode_packet(frame(8))
        assert isinstance(packet, SessionAck)
        assert (packet.base.reserved, packet.base.flags, packet.base.packet_size) == (0xCD, 0x001B, 36)
        assert packet.internal.packet_type == 1
        assert packet.header == SessionHeader(ack_sequence_number=1, window_size=64)
        assert frame(8)[20:36].hex() == "01000000000000000000000040000000"
        assert packet.encode() == frame(8)

    def test_ours_has_36_bytes_and_counts_them_all(self) -> None:
        data = SessionAck.of(SessionHeader(1)).encode()
        assert data[8:12].hex() == "24000000"
        assert len(data) == 36

    def test_without_its_session_header_flag_is_refused(self) -> None:
        with pytest.raises(DecodeError, match="PT 1 with flags 0x000b"):
            decode_packet(replaced(frame(8), 2, b"\x0b"))
