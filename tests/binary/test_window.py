"""[MS-MQQB] 3.1.5.5, 3.1.7.1.3: what was sent, what of it arrived, and how much may be on its way."""

from random import Random

import pytest

from tiercel.model.identifiers import MessageId
from tiercel.store.interface import Keyspace
from tiercel.wire.internal_packets import RESPONSE_PADDING, ConnectionParameters, EstablishConnection
from tiercel.wire.kinship import with_mark
from tiercel.wire.order_ack import build_order_ack
from tiercel.wire.user_message import UserMessage

from .site import NOW, PEER, PRIVATE, Peer, Site, establish, letter

SIX = [b"1", b"2", b"3", b"4", b"5", b"6"]


def with_window(window: int) -> Site:
    site = Site(window_size=window)
    site.creates("q")
    return site


class TestSending:
    """3.1.7.1.3."""

    @pytest.mark.conformance("MQQB-068")
    def test_counts_and_begins_to_wait(self, site: Site) -> None:
        peer = site.opens()
        session = peer.session
        timers = site.protocol._context.timers

        def snapshot() -> tuple[int, int, int, bool, bool]:
            flight = session.flight
            is_waiting = timers.is_set(session.no_ack_came)
            return flight.sent, flight.recoverable_sent, flight.size, session.is_active, is_waiting

        assert snapshot() == (0, 0, 0, False, False)
        site.sends(b"1", to=PRIVATE)
        assert snapshot() == (1, 0, 1, True, True)
        due = timers.at(session.no_ack_came)
        site.wait(1_000)
        site.sends(b"2", to=PRIVATE, delivery=1)
        assert snapshot() == (2, 1, 2, True, True)
        assert timers.at(session.no_ack_came) == due  # only a timer that stands still is started
        flight = session.flight
        for entries, number in ((flight._express, 1), (flight._unstored, 1)):
            [entry] = entries
            assert (entry.first_number, len(entry), entry.taken is None) == (number, 1, False)


class TestTheWindow:
    """3.1.7.1, 3.1.5.5.1."""

    @pytest.mark.conformance("MQQB-079")
    def test_holds_messages_back(self) -> None:
        site = with_window(4)
        site.sends(*SIX)
        peer = site.reaches()
        assert peer.hears_messages() == SIX[:4]
        site.wait(1_000)
        peer.assert_silence()
        peer.acks(2)
        assert peer.hears_messages() == SIX[4:]

    @pytest.mark.conformance("MQQB-079")
    def test_does_not_count_what_only_waits(self, site: Site) -> None:
        many = [b"%d" % number for number in range(200)]
        site.sends(*many)
        assert site.reaches().hears_messages() == many[:64]

    @pytest.mark.conformance("MQQB-080")
    def test_is_the_smaller_of_two(self, site: Site) -> None:
        site.sends(*SIX)
        peer = site.reaches(window=2)
        assert peer.hears_messages() == SIX[:2]
        peer.acks(2, window=1)
        assert peer.hears_messages() == SIX[2:3]
        peer.acks(3, window=1)
        assert peer.hears_messages() == SIX[3:4]
        peer.acks(3, window=64)
        assert peer.hears_messages() == SIX[4:]


class TestAcknowledged:
    """3.1.5.5.1 to 3.1.5.5.3."""

    @pytest.mark.conformance("MQQB-082")
    @pytest.mark.parametrize("is_on_board", [False, True])
    def test_alone_or_inside_a_message(self, site: Site, is_on_board: bool) -> None:
        site.sends(b"1", b"2", delivery=1)
        site.sends(b"3", b"4")
        peer = site.reaches()
        peer.hears_messages()
        if is_on_board:
            peer.sent = 1
            peer.says(letter(1, session=peer.header(3, 1, 0b01, window=9)))
        else:
            peer.acks(3, 1, 0b01, window=9)
        assert site.bodies() == [b"2", b"4"]
        assert (peer.session.flight.size, peer.session.peer_window) == (1, 9)
        peer.assert_open()

    @pytest.mark.conformance("MQQB-083")
    def test_only_once(self, site: Site) -> None:
        site.sends(*SIX[:5])
        peer = site.reaches()
        peer.hears_messages()
        for _ in range(3):
            peer.acks(3)
            assert peer.session.flight.size == 2
            assert site.bodies() == SIX[3:5]
            peer.assert_silence()

    @pytest.mark.conformance("MQQB-083")
    @pytest.mark.parametrize("number", [6, 0x7FFF, 0xFFFF])
    def test_more_than_was_sent_is_nothing(self, site: Site, number: int) -> None:
        site.sends(*SIX[:5])
        peer = site.reaches()
        peer.hears_messages()
        peer.acks(number)
        assert site.bodies() == SIX[:5]

    @pytest.mark.conformance("MQQB-084")
    def test_express_messages_are_done(self, site: Site) -> None:
        site.sends(b"1", b"2", b"3")
        peer = site.reaches()
        peer.acks(2)
        assert site.bodies() == [b"3"]

    @pytest.mark.conformance("MQQB-085")
    def test_recoverable_messages_when_they_are_stored(self, site: Site) -> None:
        site.sends(*SIX[:5], delivery=1)
        peer = site.reaches()
        peer.acks(5)
        assert site.bodies() == SIX[:5]
        peer.acks(5, first=2, flags=0b101)
        assert site.bodies() == [b"3", b"5"]
        peer.acks(5, first=3, flags=0b101)
        assert site.bodies() == []

    @pytest.mark.conformance("MQQB-086")
    def test_transactional_messages_are_not_done_yet(self, site: Site) -> None:
        site.sends(b"1", transactional=True)
        peer = site.reaches()
        peer.acks(1, first=1, flags=1)
        assert site.bodies() == [b"1"]
        self.order_ack(site, peer)
        assert site.bodies() == []

    @pytest.mark.conformance("MQQB-087")
    def test_transactional_messages_that_were_in_order_before(self, site: Site) -> None:
        site.sends(b"1", transactional=True)
        peer = site.reaches()
        self.order_ack(site, peer)
        assert site.bodies() == [b"1"]
        peer.acks(1)
        assert site.bodies() == [b"1"]  # not yet: the bit is what counts
        peer.acks(1, first=1, flags=1)
        assert site.bodies() == []

    @pytest.mark.conformance("MQQB-087")
    def test_transactional_messages_that_wait_for_their_end(self, site: Site) -> None:
        site.sends(b"1", transactional=True, positive_journaling=True)
        peer = site.reaches()
        self.order_ack(site, peer)
        peer.acks(1, first=1, flags=1)
        assert site.bodies() == []
        assert site.engine._catalog.awaiting_final_ack.count == 1

    def order_ack(self, site: Site, peer: Peer) -> None:
        sequence, number = UserMessage(peer.hears(UserMessage).data).sequence
        peer.sends(build_order_ack(MessageId(PEER, 99), NOW, site.guid, sequence, number).data)


class TestTwoTiercels:
    """They recognise each other, and use a larger window than Windows (decision 0023)."""

    MANY = tuple(b"%d" % number for number in range(300))

    def answered(self, site: Site, padding: bytes | None = None) -> Peer:
        """The peer has answered to the first packet, as a Tiercel if no padding is given."""
        peer = site.connects()
        request = peer.hears(EstablishConnection)
        marked = with_mark(RESPONSE_PADDING, PEER, request.header.time_stamp)
        peer.answers(request, padding=marked if padding is None else padding)
        return peer

    def asked(self, site: Site, padding: bytes) -> tuple[bytes, int]:
        """The padding of its answer to a peer that asks with this one, and its window."""
        peer = site.accepts()
        peer.says(establish(padding=padding, time_stamp=7), peer.parameters(window=1000))
        answer = peer.hears(EstablishConnection).header.padding
        return answer, peer.hears(ConnectionParameters).header.window_size

    def test_as_initiator(self, site: Site) -> None:
        site.sends(*self.MANY)
        peer = self.answered(site)
        assert peer.hears(ConnectionParameters).header.window_size == 256
        peer.says(peer.parameters(window=256))
        assert peer.hears_messages() == list(self.MANY[:256])

    def test_as_acceptor(self, site: Site) -> None:
        answer, window = self.asked(site, with_mark(bytes(512), PEER, 7))
        assert answer == with_mark(RESPONSE_PADDING, site.guid, 7)
        assert window == 256

    def test_the_smaller_window_counts(self, site: Site) -> None:
        site.sends(*self.MANY)
        peer = self.answered(site)
        peer.hears(ConnectionParameters)
        peer.says(peer.parameters(window=100))
        assert peer.hears_messages() == list(self.MANY[:100])

    @pytest.mark.parametrize(("configured", "expected"), [(1, 1), (63, 63), (64, 256), (1000, 1000)])
    def test_another_window_that_is_configured_stays(self, configured: int, expected: int) -> None:
        site = with_window(configured)
        assert self.asked(site, with_mark(bytes(512), PEER, 7))[1] == expected

    @pytest.mark.conformance("MQQB-062", "MQQB-044")
    @pytest.mark.parametrize("seed", range(5))
    def test_garbage_from_windows_is_not_a_mark(self, site: Site, seed: int) -> None:
        answer, window = self.asked(site, Random(seed).randbytes(512))
        assert (answer, window) == (RESPONSE_PADDING, 64)

    @pytest.mark.conformance("MQQB-062", "MQQB-044")
    def test_old_memory_of_windows_with_a_packet_of_ours_is_not_a_mark(self, site: Site) -> None:
        """The same bytes at the same place, even the same time stamp: the GUID is not that of the sender."""
        for padding in (with_mark(bytes(512), site.guid, 7), with_mark(RESPONSE_PADDING, site.guid, 7)):
            assert self.asked(site, padding) == (RESPONSE_PADDING, 64)

    @pytest.mark.conformance("MQQB-062")
    @pytest.mark.parametrize("padding", [RESPONSE_PADDING, bytes(512), bytes(range(256)) * 2])
    def test_an_answer_without_the_mark(self, site: Site, padding: bytes) -> None:
        site.sends(*self.MANY)
        peer = self.answered(site, padding)
        assert peer.hears(ConnectionParameters).header.window_size == 64
        peer.says(peer.parameters(window=256))
        assert peer.hears_messages() == list(self.MANY[:64])

    def test_an_answer_that_repeats_our_padding(self, site: Site) -> None:
        site.sends(b"1")
        peer = site.connects()
        request = peer.hears(EstablishConnection)
        peer.answers(request, padding=request.header.padding)
        assert peer.hears(ConnectionParameters).header.window_size == 64


class TestBytesInFlight:
    """A window counts messages, which may have four megabytes."""

    @pytest.mark.parametrize("delivery", [0, 1])
    def test_are_limited(self, site: Site, monkeypatch: pytest.MonkeyPatch, delivery: int) -> None:
        monkeypatch.setattr("tiercel.engine.queue_state.RUN_BYTES", 2_000)
        monkeypatch.setattr("tiercel.binary.flight.FLIGHT_BYTES", 5_000)
        bodies = [bytes([number]) * 900 for number in range(20)]
        site.sends(*bodies, delivery=delivery)
        peer, sent = site.reaches(), 0
        while sent < len(bodies):
            heard = peer.hears_messages()
            assert heard == bodies[sent : sent + len(heard)]
            assert 0 < len(heard) <= 7
            sent += len(heard)
            peer.acks(sent, *((sent, 0) if delivery else ()))
        assert site.bodies() == []

    def test_damaged_records_do_not_count(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("tiercel.engine.queue_state.RUN_BYTES", 2_000)
        site.sends(*[bytes(900)] * 10, b"sound", delivery=1)
        records = site.store.spaces[Keyspace.MESSAGES]
        for key in sorted(records)[:10]:
            records[key] = records[key][:-1] + b"?"
        assert site.reaches().hears_messages() == [b"sound"]
