"""[MS-MQQB] 3.1.5.8.7, 3.1.6.4: acknowledging what came, on a session."""

import pytest

from tiercel.engine.machine import Write
from tiercel.model.codes import MessageClass
from tiercel.model.errors import StoreFailedError
from tiercel.model.identifiers import MessageId
from tiercel.store.memory_store import CommitFails, MemoryStore
from tiercel.store.memory_store import Write as StoreWrite
from tiercel.wire.internal_packets import SessionAck
from tiercel.wire.order_ack import OrderAck, build_final_ack
from tiercel.wire.session_header import SessionHeader
from tiercel.wire.user_message import UserMessage

from .site import HERE, NOW, PEER, PRIVATE, Peer, Site, in_stream, letter, letters


def next_ack(site: Site, peer: Peer) -> SessionHeader:
    """What it says at the latest when half of the time has run out that a peer waits."""
    site.wait(10_000)
    return peer.hears(SessionAck).header


def final_ack(site: Site, number: int) -> bytes:
    about = UserMessage(letter(number, source=site.guid, transaction_id=1))
    return build_final_ack(MessageId(PEER, number), NOW, MessageClass.ACK_RECEIVE, about).data


class TestCounting:
    """3.1.1.4."""

    @pytest.mark.conformance("MQQB-065")
    def test_goes_its_own_way_in_each_direction(self, site: Site) -> None:
        peer = site.opens()
        peer.sends(*letters(1, 2))
        site.sends(b"1", b"2", b"3", to=PRIVATE)
        assert peer.hears_messages() == [b"1", b"2", b"3"]
        ack = next_ack(site, peer)
        assert (ack.ack_sequence_number, ack.user_msg_sequence_number) == (2, 3)
        peer.acks(3)
        assert site.bodies(PRIVATE) == []
        peer.assert_open()

    @pytest.mark.conformance("MQQB-066")
    def test_of_recoverable_messages_is_a_second_one(self, site: Site) -> None:
        peer = site.opens()
        sent = []
        for recoverable, transactional in ((0, 0), (1, 0), (0, 0), (0, 1), (1, 0)):
            name = PRIVATE.replace("0a", "0b") if transactional else PRIVATE
            site.sends(b"x", to=name, delivery=recoverable, transactional=bool(transactional))
            sent.append((peer.session.flight.sent, peer.session.flight.recoverable_sent))
            assert [len(each) for each in peer.session.flight._unstored] == [1] * sent[-1][1]
        numbers = [each.first_number for each in peer.session.flight._unstored]
        assert sent == [(1, 0), (2, 1), (3, 1), (4, 2), (5, 3)]
        assert numbers == [1, 2, 3]

    @pytest.mark.conformance("MQQB-066")
    def test_of_recoverable_messages_received(self, site: Site) -> None:
        peer = site.opens(recoverable_ack_timeout=500)
        peer.sends(
            letter(1), letter(2, recoverable=True), letter(3), in_stream(1), letter(5, recoverable=True)
        )
        site.wait(499)
        peer.assert_silence()
        site.wait(1)
        assert peer.hears(SessionAck).header == SessionHeader(5, 1, 0b111, 0, 0)
        peer.hears(OrderAck)

    @pytest.mark.conformance("MQQB-067")
    def test_includes_acknowledgements_that_travel_as_messages(self, site: Site) -> None:
        peer = site.opens(recoverable_ack_timeout=500)
        for _ in range(10):
            peer.acks()
        peer.sends(final_ack(site, 1), final_ack(site, 2))
        assert next_ack(site, peer).ack_sequence_number == 2
        for _ in range(10):
            peer.acks()
        site.wait(60_000)
        peer.assert_silence()
        peer.assert_open()


class TestTheHeader:
    """3.1.6.4."""

    @pytest.mark.conformance("MQQB-070")
    def test_says_everything_that_is_known(self, site: Site) -> None:
        peer = site.opens()
        peer.sends(*letters(1, 5))
        site.sends(b"1", b"2", to=PRIVATE)
        site.sends(b"3", b"4", to=PRIVATE, delivery=1)
        assert len(peer.hears_messages()) == 4
        assert next_ack(site, peer).encode().hex(" ", 2) == "0500 0000 0000 0000 0400 0200 4000 0000"

    @pytest.mark.conformance("MQQB-071", "MQQB-072")
    def test_names_the_first_that_is_stored_and_not_yet_acknowledged(self, site: Site) -> None:
        peer = site.opens()
        peer.sends(*letters(1, 3, recoverable=True))
        ack = next_ack(site, peer)
        assert ack.encode()[2:8] == bytes.fromhex("0100 07000000")
        peer.sends(letter(4, recoverable=True))
        ack = next_ack(site, peer)
        assert (ack.recoverable_msg_ack_seq_number, ack.recoverable_msg_ack_flags) == (4, 1)
        peer.sends(letter(5))
        ack = next_ack(site, peer)
        assert (ack.recoverable_msg_ack_seq_number, ack.recoverable_msg_ack_flags) == (0, 0)

    @pytest.mark.conformance("MQQB-073")
    @pytest.mark.parametrize("window", [2, 3, 64])
    def test_speaks_only_of_what_is_durable(self, window: int) -> None:
        """After every acknowledgement the plug is pulled: what it spoke of is still there."""
        site = Site(window_size=window)
        site.creates("q")
        peer = site.opens(recoverable_ack_timeout=500)
        acked = 0
        for number in range(1, 10):
            peer.sends(letter(number, recoverable=True))
            site.wait(200)
            if peer.has_heard:
                ack = peer.hears(SessionAck).header
                assert ack.recoverable_msg_ack_flags == (1 << number - acked) - 1
                acked = ack.ack_sequence_number
                after_crash = Site(MemoryStore(site.store._committed()))
                assert len(after_crash.bodies(HERE)) == number == acked
        assert acked

    @pytest.mark.conformance("MQQB-073")
    def test_does_not_leave_when_the_commit_fails(self, site: Site) -> None:
        peer = site.opens(window=2)

        def fail(write: StoreWrite, _number: int) -> None:
            if write is StoreWrite.COMMIT:
                raise CommitFails

        site.store.faults = fail
        with pytest.raises(StoreFailedError):
            peer.sends(*letters(1, 2, recoverable=True))
        peer.assert_silence()


class TestWhen:
    """3.1.5.8.2, 3.1.5.8.7, 3.1.6.4."""

    @pytest.mark.conformance("MQQB-074")
    @pytest.mark.parametrize("timeout", [120_000, 20_000])
    def test_an_express_message_has_half_the_time_of_the_peer(self, site: Site, timeout: int) -> None:
        peer = site.opens(ack_timeout=timeout)
        peer.sends(letter(1))
        site.wait(timeout / 2 - 1)
        peer.assert_silence()
        site.wait(1)
        assert peer.hears(SessionAck).header.ack_sequence_number == 1

    @pytest.mark.conformance("MQQB-075")
    def test_the_first_recoverable_message_sets_the_time(self, site: Site) -> None:
        peer = site.opens(recoverable_ack_timeout=1_496)
        peer.sends(letter(1))
        site.wait(400)
        peer.sends(letter(2, recoverable=True))
        site.wait(1_000)
        peer.sends(letter(3, recoverable=True))
        site.wait(495)
        peer.assert_silence()
        site.wait(1)
        assert peer.hears(SessionAck).header.ack_sequence_number == 3
        site.wait(60_000)
        peer.assert_silence()

    @pytest.mark.conformance("MQQB-076")
    def test_only_if_there_is_something_to_say(self, site: Site) -> None:
        peer = site.opens(recoverable_ack_timeout=500)
        site.wait(60_000)
        peer.assert_silence()
        for period in range(3):
            peer.sends(letter(2 * period + 1, recoverable=True), letter(2 * period + 2, recoverable=True))
            site.wait(500)
            ack = peer.hears(SessionAck).header
            assert ack == SessionHeader(2 * period + 2, 2 * period + 1, 0b11, 0, 0)
            peer.assert_silence()
        site.wait(60_000)
        peer.assert_silence()

    @pytest.mark.conformance("MQQB-076")
    def test_the_time_begins_anew_after_each(self, site: Site) -> None:
        peer = site.opens(window=4, ack_timeout=20_000)
        peer.sends(*letters(1, 2))
        peer.hears(SessionAck)
        site.wait(5_000)
        peer.sends(letter(3))
        site.wait(9_999)
        peer.assert_silence()
        site.wait(1)
        peer.hears(SessionAck)

    @pytest.mark.conformance("MQQB-077")
    @pytest.mark.parametrize("window", [64, 0xFFFF])
    def test_at_once_when_the_bits_are_used_up(self, window: int) -> None:
        site = Site(window_size=window)
        site.creates("q")
        peer = site.opens(window=window)
        peer.sends(*letters(1, 33, recoverable=True))
        assert peer.hears(SessionAck).header == SessionHeader(32, 1, 0xFFFF_FFFF, 0, 0, window)
        peer.assert_silence()
        ack = next_ack(site, peer)
        assert (ack.ack_sequence_number, ack.recoverable_msg_ack_seq_number) == (33, 33)
        assert ack.recoverable_msg_ack_flags == 1

    @pytest.mark.parametrize("window", [64, 256])
    def test_with_the_last_bit(self, window: int) -> None:
        """Otherwise the last 32 messages of a burst would wait for the timer, in a large window."""
        site = Site(window_size=window)
        site.creates("q")
        peer = site.opens(window=window)
        peer.sends(*letters(1, 64, recoverable=True))
        assert [peer.hears(SessionAck).header.ack_sequence_number for _ in range(2)] == [32, 64]

    @pytest.mark.conformance("MQQB-078")
    @pytest.mark.parametrize(("own", "its", "every"), [(64, 64, 32), (64, 10, 5), (6, 64, 3), (64, 1, 1)])
    def test_before_the_window_is_full(self, own: int, its: int, every: int) -> None:
        site = Site(window_size=own)
        site.creates("q")
        peer = site.opens(window=its)
        peer.sends(*letters(1, 64))
        acks = [peer.hears(SessionAck).header.ack_sequence_number for _ in range(64 // every)]
        assert acks == list(range(every, 65, every))
        peer.assert_silence()


class TestPiggyback:
    """3.1.7.11."""

    @pytest.mark.conformance("MQQB-081")
    @pytest.mark.parametrize(("at_ms", "is_on_board"), [(7_400, False), (7_600, True)])
    def test_when_most_of_the_time_is_gone(self, site: Site, at_ms: int, is_on_board: bool) -> None:
        peer = site.opens(ack_timeout=20_000)
        site.sends(*(b"%d" % number for number in range(4)), to=PRIVATE)
        peer.hears_messages()
        peer.sends(letter(1))
        peer.acks(4)
        site.wait(at_ms)
        site.sends(b"5", to=PRIVATE)
        message = peer.hears(UserMessage)
        if is_on_board:
            assert message.base_flags & 0x10
            assert message.session == SessionHeader(1, 0, 0, 5, 0)
            peer.acks(5)
            site.wait(60_000)
            peer.assert_silence()
        else:
            assert message.session is None
            assert next_ack(site, peer).ack_sequence_number == 1

    @pytest.mark.conformance("MQQB-081")
    def test_not_when_there_is_nothing_to_say(self, site: Site) -> None:
        peer = site.opens(ack_timeout=20_000)
        site.wait(9_000)
        site.sends(b"1", to=PRIVATE)
        assert peer.hears(UserMessage).session is None

    @pytest.mark.conformance("MQQB-081")
    def test_ends_the_timer(self, site: Site) -> None:
        peer = site.opens(ack_timeout=20_000)
        peer.sends(letter(1, recoverable=True))
        site.wait(1_400)
        site.sends(b"1", to=PRIVATE)
        assert peer.hears(UserMessage).session == SessionHeader(1, 1, 1, 1, 0)
        peer.sends(letter(2, recoverable=True))
        site.wait(1_495)
        peer.assert_silence()
        site.wait(1)
        assert peer.hears(SessionAck).header == SessionHeader(2, 2, 1, 1, 0)


class TestThePeersCounts:
    """3.1.5.5.5."""

    @pytest.mark.conformance("MQQB-088")
    @pytest.mark.parametrize(("sent", "recoverable"), [(7, 2), (5, 2), (6, 1), (6, 3)])
    def test_that_differ_end_the_session(self, site: Site, sent: int, recoverable: int) -> None:
        site.sends(b"pending")
        peer = site.reaches()
        peer.hears(UserMessage)
        peer.sends(*letters(1, 4), *letters(5, 6, recoverable=True))
        peer.says(SessionAck.of(SessionHeader(0, 0, 0, sent, recoverable)))
        peer.assert_closed()
        site.wait(5_000)
        again = site.reaches()
        assert again.hears_messages() == [b"pending"]

    @pytest.mark.conformance("MQQB-088")
    def test_are_looked_at_last(self, site: Site) -> None:
        """What the same header acknowledges is not sent again, and its message is kept (MQQB T45)."""
        site.sends(b"1")
        peer = site.reaches()
        peer.hears(UserMessage)
        peer.says(letter(1, session=SessionHeader(1, 0, 0, 9, 0)))
        peer.assert_closed()
        assert site.bodies() == []
        assert site.bodies(HERE) == [b"1"]

    def test_may_be_left_alone(self) -> None:
        site = Site(check_counts=False)
        peer = site.opens()
        peer.says(SessionAck.of(SessionHeader(0, 0, 0, 7, 7)))
        peer.assert_open()


def test_nothing_is_written_for_a_message_but_its_acknowledgement(site: Site) -> None:
    peer = site.opens()
    site.actions.clear()
    peer.sends(letter(1))
    site.wait(60_000)
    assert len(site.did(Write)) == 1
