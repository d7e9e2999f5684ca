"""[MS-MQQB] 3.1.2, 3.1.5.9, 3.1.6.1 to 3.1.6.3: silent peers, ends, and trying again."""

import pytest

from tiercel.binary.actions import Resolve, SessionEvent
from tiercel.binary.transitions import State
from tiercel.model.codes import OutgoingQueueState
from tiercel.wire.user_message import UserMessage

from .loopback import Pair
from .site import ADDRESS, PEER, PRIVATE, THERE, Peer, Site, letter

OTHER = "192.0.2.3"


def ids(peer: Peer) -> list[bytes]:
    """Of the messages that came."""
    found = []
    while peer.has_heard:
        found.append(peer.hears(UserMessage).identity)
    return found


class TestASilentPeer:
    """Session Ack Wait Timer: 3.1.2.4, 3.1.6.3."""

    @pytest.mark.conformance("MQQB-090")
    @pytest.mark.parametrize(("name", "patience_ms"), [(THERE, 40_000), (PRIVATE, 20_000)])
    def test_has_twice_the_time_under_a_direct_name(self, name: str, patience_ms: int) -> None:
        site = Site(machines={PEER: (ADDRESS,)})
        site.sends(b"1", to=name)
        peer = site.reaches()
        peer.hears(UserMessage)
        peer.session._has_received = False  # nothing since the handshake, which counts as well
        site.wait(patience_ms - 1)
        peer.assert_open()
        site.wait(1)
        peer.assert_closed()

    @pytest.mark.conformance("MQQB-091")
    def test_is_given_up_after_a_whole_period(self, site: Site) -> None:
        peer = site.opens()
        site.sends(b"1", to=PRIVATE)
        peer.hears(UserMessage)
        site.wait(39_999)  # the first period had the packets of the set-up
        peer.assert_open()
        site.wait(1)
        peer.assert_closed()

    @pytest.mark.conformance("MQQB-091")
    def test_buys_another_period_with_any_packet(self, site: Site) -> None:
        peer = site.opens()
        site.sends(b"1", to=PRIVATE)
        peer.hears(UserMessage)
        for number in range(1, 6):
            site.wait(19_000)
            peer.sends(letter(number))
            site.wait(1_000)
        site.wait(19_999)
        peer.assert_open()
        site.wait(1)
        assert peer.is_closed

    @pytest.mark.conformance("MQQB-091")
    def test_that_acknowledges_some_has_the_whole_time_again(self, site: Site) -> None:
        peer = site.opens()
        site.sends(b"1", b"2", to=PRIVATE)
        peer.hears_messages()
        site.wait(15_000)
        peer.acks(1)
        peer.session._has_received = False
        site.wait(19_999)
        peer.assert_open()
        site.wait(1)
        peer.assert_closed()

    @pytest.mark.conformance("MQQB-091")
    def test_owes_nothing_when_everything_is_acknowledged(self, site: Site) -> None:
        peer = site.opens()
        site.sends(b"1", to=PRIVATE)
        peer.hears(UserMessage)
        peer.acks(1)
        site.wait(200_000)
        peer.assert_open()

    @pytest.mark.conformance("MQQB-091")
    def test_owes_an_answer_as_long_as_a_message_is_not_stored(self, site: Site) -> None:
        peer = site.opens()
        site.sends(b"1", to=PRIVATE, delivery=1)
        peer.hears(UserMessage)
        peer.acks(1)  # counted, but its bit is missing
        site.wait(40_000)
        peer.assert_closed()


class TestAnIdleSession:
    """Session Cleanup Timer: 3.1.2.2, 3.1.6.2."""

    @pytest.mark.conformance("MQQB-092")
    @pytest.mark.parametrize(
        ("settings", "period_ms"),
        [({}, 300_000), ({"routing_server": True}, 120_000), ({"cleanup_ms": 7_000}, 7_000)],
    )
    def test_is_closed(self, settings: dict[str, bool], period_ms: int) -> None:
        site = Site(None, **settings)
        peer = site.opens()
        site.wait(period_ms - 1)
        peer.assert_open()
        site.wait(1)
        peer.assert_closed()

    @pytest.mark.conformance("MQQB-092")
    @pytest.mark.parametrize("direction", ["in", "out"])
    def test_is_none_for_a_period_after_a_message(self, site: Site, direction: str) -> None:
        peer = site.opens()
        site.wait(1_000)
        if direction == "in":
            peer.sends(letter(1))
        else:
            site.sends(b"1", to=PRIVATE)
            peer.hears(UserMessage)
            peer.acks(1)
        site.wait(598_999)
        peer.assert_open()
        site.wait(1)
        assert peer.is_closed

    @pytest.mark.conformance("MQQB-092")
    def test_is_not_kept_open_by_acknowledgements(self, site: Site) -> None:
        peer = site.opens()
        for _ in range(29):
            site.wait(10_000)
            peer.acks()
        site.wait(9_999)
        peer.assert_open()
        site.wait(1)
        peer.assert_closed()


class TestTheEnd:
    """3.1.5.9."""

    @pytest.mark.conformance("MQQB-093")
    def test_of_an_accepted_session_is_silent_and_final(self, site: Site) -> None:
        peer = site.opens()
        session = peer.session
        peer.says(b"\0" * 16)
        peer.assert_closed()
        assert session.state is State.CLOSED
        assert site.protocol.next_deadline is None
        site.actions.clear()
        site.wait(3_600_000)
        assert site.actions == []

    @pytest.mark.conformance("MQQB-093")
    def test_stops_every_timer_of_the_session(self, site: Site) -> None:
        peer = site.opens()
        session = peer.session
        peer.sends(letter(1))
        site.sends(b"1", to=PRIVATE)
        peer.hears(UserMessage)
        peer.says(b"\0" * 16)
        peer.assert_closed()
        timers = site.protocol._context.timers
        each = (session.give_up, session.clean_up, session.no_ack_came, session.ack_is_due)
        assert not any(timers.is_set(timer) for timer in each)
        site.wait(3_600_000)
        peer.assert_silence()

    @pytest.mark.conformance("MQQB-093")
    def test_of_a_session_it_made_is_seen_in_its_queue(self, site: Site) -> None:
        site.sends(b"1")
        peer = site.reaches()
        peer.hears(UserMessage)
        peer.says(b"\0" * 16)
        peer.assert_closed()
        site.assert_queue_is(OutgoingQueueState.DISCONNECTED)

    @pytest.mark.conformance("MQQB-093", "MQQB-094")
    def test_leaves_a_queue_on_hold(self, site: Site) -> None:
        site.sends(b"1")
        peer = site.reaches()
        site.run(lambda: site.engine.outgoing.pause(site.state()))
        peer.hangs_up()
        site.assert_queue_is(OutgoingQueueState.ON_HOLD)
        site.wait(3_600_000)
        assert len(site.dialled()) == 1

    @pytest.mark.conformance("MQQB-094")
    def test_with_messages_left_is_not_the_end(self, site: Site) -> None:
        site.sends(b"1")
        site.reaches().hangs_up()
        site.wait(4_999)
        assert len(site.dialled()) == 1
        site.wait(1)
        assert site.dialled() == [(0, ADDRESS), (5_000, ADDRESS)]

    @pytest.mark.conformance("MQQB-094")
    def test_with_nothing_left_is_the_end(self, site: Site) -> None:
        site.sends(b"1")
        peer = site.reaches()
        peer.acks(1)
        peer.hangs_up()
        site.wait(1_000_000)
        assert len(site.dialled()) == 1

    def test_with_nothing_left_does_not_delay_the_next_message(self, site: Site) -> None:
        site.sends(b"1")
        peer = site.reaches()
        peer.acks(1)
        peer.hangs_up()
        site.wait(1_000)
        site.sends(b"2")
        assert site.dialled() == [(0, ADDRESS), (1_000, ADDRESS)]

    @pytest.mark.conformance("MQQB-095")
    def test_in_the_middle_of_sending_gives_the_messages_back(self, site: Site) -> None:
        """A write that failed half-way: the shell tells of it, and nothing counts as sent."""
        site.sends(b"1", b"2")
        peer = site.reaches()
        peer.hangs_up()
        assert [event.event for _, event in site.did(SessionEvent)] == ["opened", "closed"]
        assert site.bodies() == [b"1", b"2"]
        assert not site.state().locks
        assert site.protocol.sessions == []


class TestTryingAgain:
    """3.1.2.3, 3.1.6.1."""

    @pytest.mark.conformance("MQQB-096")
    @pytest.mark.parametrize("delay_ms", [0, 500])
    def test_takes_every_address_in_turn(self, delay_ms: int) -> None:
        site = Site(round_trip_delay_ms=delay_ms)
        site.addresses = {"srv": [ADDRESS, OTHER]}
        site.sends(b"1", to=r"DIRECT=OS:srv\private$\q")
        for _ in range(3):
            site.fails_to_connect()
            site.wait(5_000 + delay_ms)
        period = 5_000 + delay_ms
        assert site.dialled()[:3] == [(0, ADDRESS), (period, OTHER), (2 * period, ADDRESS)]
        assert [at for at, _ in site.did(Resolve)] == [0, 2 * period]

    @pytest.mark.conformance("MQQB-096")
    def test_becomes_rarer(self, site: Site) -> None:
        site.sends(b"1")
        for delay_ms in (5_000, 10_000, 20_000, 40_000, 60_000, 60_000):
            site.fails_to_connect()
            site.wait(delay_ms - 1)
            assert not site.dials
            site.wait(1)

    @pytest.mark.conformance("MQQB-097")
    def test_sends_the_same_messages(self, site: Site) -> None:
        site.sends(b"1", b"2", delivery=1)
        site.sends(b"3", b"4")
        peer = site.reaches()
        before = ids(peer)
        peer.acks(3, 1, 0b01)
        peer.hangs_up()
        site.wait(5_000)
        again = site.reaches()
        after = ids(again)
        assert after == [before[1], before[3]]
        assert again.session.flight.sent == 2
        again.acks(2, 1, 0b01)
        assert site.bodies() == []

    @pytest.mark.conformance("MQQB-097")
    def test_does_not_double_what_had_arrived(self) -> None:
        pair = Pair()
        pair.drop = lambda side, _action: side is pair.right and side.state().count == 3
        pair.left.send(b"1", b"2", b"3")
        pair.settle()
        assert (pair.right.state().count, pair.left.outgoing().message_count) == (3, 3)
        pair.cut()
        pair.drop = lambda _side, _action: False
        pair.sleep(5)
        pair.sleep(1)
        pair.sleep(1)
        assert pair.left.protocol.sessions[0].flight.sent == 3
        assert (pair.right.state().count, pair.left.outgoing().message_count) == (3, 0)


class TestStartAndStop:
    """3.1.4.1, 3.1.4.2."""

    @pytest.mark.conformance("MQQB-098")
    def test_what_was_left_is_sent_after_a_start(self, site: Site) -> None:
        site.sends(b"1", delivery=1)
        restarted = Site(site.store.crash())
        restarted.run(restarted.protocol.start)
        assert restarted.dialled() == [(0, ADDRESS)]
        assert restarted.reaches().hears_messages() == [b"1"]

    @pytest.mark.conformance("MQQB-098")
    def test_all_sessions_end_with_it(self, site: Site) -> None:
        site.sends(b"1")
        peers = [site.reaches(), site.opens(), site.accepts()]
        peers[0].hears(UserMessage)
        site.run(site.protocol.stop)
        for peer in peers:
            peer.assert_closed()
        site.wait(3_600_000)
        assert len(site.dialled()) == 1
