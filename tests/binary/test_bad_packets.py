"""[MS-MQQB] 3.1.5.1: which packet it is, and what becomes of one that is none."""

import struct

import pytest

from tiercel.binary.transitions import State
from tiercel.model.errors import IllegalPropertySizeError
from tiercel.model.format_name import FormatName
from tiercel.model.limits import MAX_PACKET_SIZE
from tiercel.wire.internal_packets import ConnectionParameters, EstablishConnection, SessionAck
from tiercel.wire.message import decode_message, encode_message
from tiercel.wire.user_message import UserMessage
from wire.packets import TRANSACTIONAL, frame, replaced

from .site import HERE, NOW, PEER, Site, establish, in_stream, letter
from .test_session_setup import to_anybody


def frame_7(queue: str = "q", message_class: int = 0) -> bytes:
    """Frame 7 as it would be for a queue that there is."""
    message = decode_message(UserMessage(frame(7)))
    message.destination_queue = FormatName.parse(rf"DIRECT=OS:SITE\private$\{queue}")
    message.message_class, message.sent_time = message_class, NOW
    return encode_message(message)


def sizes(packet: bytes) -> dict[str, tuple[int, int]]:
    """Where sizes and counts stand in a message with a sender, and of how many bytes each is."""
    message = UserMessage(packet)
    security = 16 + len(message.user.encode())
    assert message.security is not None
    properties = security + len(message.security.encode())
    return {
        "Count": (16 + 48, 2),
        "SenderIdSize": (security + 2, 2),
        "EncryptionKeySize": (security + 4, 2),
        "SignatureSize": (security + 6, 2),
        "SenderCertSize": (security + 8, 4),
        "ProviderInfoSize": (security + 12, 4),
        "LabelLength": (properties + 1, 1),
        "MessageSize": (properties + 32, 4),
        "AllocationBodySize": (properties + 36, 4),
        "ExtensionSize": (properties + 52, 4),
    }


def test_a_packet_that_claims_to_have_come_over_http_ends_the_session(site: Site) -> None:
    message = decode_message(UserMessage(letter(1)))
    message.soap_envelope, message.soap_compound_message = "<x/>", b"POST / HTTP/1.1\r\n\r\n" + message.body
    peer = site.opens()
    peer.says(encode_message(message, over_http=True))
    peer.assert_closed()
    assert site.bodies(HERE) == []


class TestTheFirstBytes:
    @pytest.mark.conformance("MQQB-010")
    @pytest.mark.parametrize("version", [0x00, 0x0F, 0x11, 0xFF])
    def test_of_another_version(self, site: Site, version: int) -> None:
        peer = site.accepts()
        peer.says(replaced(to_anybody(), 0, bytes([version])))
        peer.assert_closed()

    @pytest.mark.conformance("MQQB-011")
    def test_are_lior_and_not_roil(self, site: Site) -> None:
        peer, other = site.accepts(), site.accepts()
        peer.says(replaced(to_anybody(), 4, b"\x52\x4f\x49\x4c"))
        peer.assert_closed()
        other.says(to_anybody())
        other.hears(EstablishConnection)
        assert other.session.state is State.WAITING_CP

    @pytest.mark.conformance("MQQB-012")
    def test_have_one_that_means_nothing(self, site: Site) -> None:
        for reserved in range(256):
            peer = site.accepts()
            peer.says(replaced(to_anybody(), 1, bytes([reserved])))
            peer.hears(EstablishConnection)

    @pytest.mark.conformance("MQQB-012")
    def test_of_what_it_sends_itself(self, site: Site) -> None:
        site.sends(b"1")
        peer = site.reaches()
        peer.hears(UserMessage)
        size = len(peer.raw)
        peer.sends(letter(1))
        site.wait(60_000)
        peer.hears(SessionAck)
        assert [peer.raw[at + 2 : at + 4].hex() for at in (0, 572, size)] == ["0b00", "0b00", "1b00"]
        assert [peer.raw[at + 12 : at + 16].hex() for at in (0, 572, size)] == ["ffffffff"] * 3

    @pytest.mark.conformance("MQQB-009")
    def test_of_a_packet_that_is_too_large(self, site: Site) -> None:
        peer = site.opens()
        session = peer.session
        peer.says(replaced(letter(1), 8, struct.pack("<I", MAX_PACKET_SIZE + 1))[:16])
        peer.assert_closed()
        assert session.state is State.CLOSED
        peer.says(letter(1))  # what comes late is not kept
        assert site.bodies(HERE) == []

    @pytest.mark.conformance("MQQB-009")
    def test_of_the_largest_packet_are_waited_for(self, site: Site) -> None:
        peer = site.opens()
        peer.says(replaced(letter(1), 8, struct.pack("<I", MAX_PACKET_SIZE))[:16])
        peer.assert_open()

    @pytest.mark.conformance("MQQB-009")
    def test_of_a_packet_that_is_too_large_are_never_sent(self, site: Site) -> None:
        with pytest.raises(IllegalPropertySizeError):
            site.sends(bytes(MAX_PACKET_SIZE))
        site.node.commit()
        assert site.dialled() == []

    def test_of_a_stranger_may_not_ask_for_much_memory(self, site: Site) -> None:
        peer = site.accepts()
        peer.says(replaced(letter(1), 8, struct.pack("<I", MAX_PACKET_SIZE))[:16])
        peer.assert_closed()


class TestWhichPacketItIs:
    @pytest.mark.conformance("MQQB-015")
    @pytest.mark.parametrize("kind", [0, *range(4, 16)])
    def test_is_told_by_a_number_that_there_must_be(self, site: Site, kind: int) -> None:
        for peer, packet in ((site.accepts(), to_anybody()), (site.opens(), frame(8))):
            peer.says(replaced(packet, 18, bytes([kind])))
            peer.assert_closed()

    @pytest.mark.conformance("MQQB-015")
    def test_of_the_three_that_there_are(self, site: Site) -> None:
        peer = site.accepts()
        peer.says(to_anybody())
        peer.hears(EstablishConnection)
        peer.says(frame(5))
        peer.hears(ConnectionParameters)
        peer.says(replaced(frame(8), 20, b"\0"))  # nothing was sent that it could acknowledge
        peer.assert_open()

    @pytest.mark.conformance("MQQB-016")
    def test_never_is_a_refusal_of_messages(self, site: Site) -> None:
        peer = site.opens()
        peer.sends(letter(1, recoverable=True))
        at = len(peer.raw)
        site.wait(60_000)
        peer.hears(SessionAck)
        assert peer.raw[at + 18 : at + 20] == b"\x01\0"

    @pytest.mark.conformance("MQQB-017")
    def test_needs_a_session_header_to_be_a_session_ack(self, site: Site) -> None:
        peer = site.opens()
        peer.says(replaced(frame(8), 2, b"\x0b"))
        peer.assert_closed()

    @pytest.mark.conformance("MQQB-020")
    @pytest.mark.parametrize("message_class", [0x0000, 0x0001, 0x0002, 0x1234, 0x4000, 0x8002, 0xC004])
    def test_is_a_message_whatever_its_class(self, site: Site, message_class: int) -> None:
        site.creates("admin")
        peer = site.opens(ack_timeout=20_000)
        peer.sends(frame_7("admin", message_class))
        assert len(site.bodies(r"DIRECT=OS:.\private$\admin")) == 1
        site.wait(10_000)
        assert peer.hears(SessionAck).header.ack_sequence_number == 1


class TestMalformed:
    @pytest.mark.conformance("MQQB-013")
    @pytest.mark.parametrize("packet", [frame(7), frame_7()], ids=["as published", "for our queue"])
    @pytest.mark.parametrize("beyond", [1, 0xFFFF_FFFF])
    @pytest.mark.parametrize("field", sizes(frame(7)))
    def test_sizes_end_the_session(self, site: Site, field: str, beyond: int, packet: bytes) -> None:
        peer = site.opens()
        at, width = sizes(packet)[field]
        size = min(len(packet) + beyond, (1 << 8 * width) - 1)
        peer.says(replaced(packet, at, size.to_bytes(width, "little")))
        peer.assert_closed()
        assert site.bodies(HERE) == []

    @pytest.mark.conformance("MQQB-013")
    @pytest.mark.parametrize("size", [0, 15, 16, 100, 2000])
    def test_a_packet_cut_short_ends_the_session(self, site: Site, size: int) -> None:
        peer = site.opens()
        peer.says(replaced(frame_7(), 8, struct.pack("<I", size)))
        peer.assert_closed()
        assert site.bodies(HERE) == []

    @pytest.mark.conformance("MQQB-013")
    def test_bytes_after_a_good_message_do_not_undo_it(self, site: Site) -> None:
        peer = site.opens()
        peer.says(letter(1) + b"nonsense of 16 b" + letter(2))
        peer.assert_closed()
        assert site.bodies(HERE) == [b"1"]

    def test_a_size_that_leaves_bytes_over_ends_the_session(self, site: Site) -> None:
        peer = site.accepts()
        peer.says(replaced(to_anybody(), 8, struct.pack("<I", 573)) + b"\0")
        peer.assert_closed()

    def test_a_transactional_message_without_its_number_is_a_message_all_the_same(self, site: Site) -> None:
        peer = site.opens()
        peer.sends(TRANSACTIONAL)
        peer.assert_open()


class TestAnyPacket:
    @pytest.mark.conformance("MQQB-021")
    def test_shows_that_the_peer_is_alive(self, site: Site) -> None:
        peer = site.opens(ack_timeout=20_000)
        site.sends(b"1", to=rf"PRIVATE={PEER}\0000000a")
        peer.hears(UserMessage)
        peer.session._has_received = False
        peer.sends(letter(1))
        assert peer.session._has_received
        site.wait(20_000)
        peer.hears(SessionAck)
        peer.assert_open()
        site.wait(20_000)
        peer.assert_closed()


def test_two_peers_do_not_disturb_each_other(site: Site) -> None:
    good, bad = site.opens(), site.accepts()
    bad.says(establish(PEER), b"garbage and more garbage")
    assert bad.is_closed
    good.sends(letter(1), in_stream(2))
    good.assert_open()
