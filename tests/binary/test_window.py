"""[MS-MQQB] 3.1.5.5, 3.1.7.1.3: what was sent, what of it arrived, and how much may be on its way."""

import pytest

from tiercel.model.identifiers import MessageId
from tiercel.wire.order_ack import build_order_ack
from tiercel.wire.user_message import UserMessage

from .site import NOW, PEER, PRIVATE, Peer, Site, letter

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
