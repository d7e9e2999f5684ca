"""[MS-MQQB] 3.1.7.13, 3.1.7.14: an outgoing queue that is told to wait."""

import pytest

from engine.harness import Box
from tiercel.binary.settings import Settings
from tiercel.model.codes import OutgoingQueueState

from .nodes import Hand, Net, Qm

ON_HOLD, CONNECTED = OutgoingQueueState.ON_HOLD, OutgoingQueueState.CONNECTED


@pytest.fixture
def box(here: Qm, hand: Hand) -> Box:
    return here.to(hand, "q")


def pause(box: Box) -> None:
    world = box.world
    world.run(lambda: world.engine.outgoing.pause(box.state))


def resume(box: Box) -> None:
    world = box.world
    world.run(lambda: world.engine.outgoing.resume(box.state))


class TestPause:
    @pytest.mark.conformance("MQQB-222")
    def test_the_peer_is_told_at_once_that_its_window_is_small(
        self, net: Net, here: Qm, hand: Hand, box: Box
    ) -> None:
        here.create("q")
        box.send(b"1")
        net.settle()
        hand.send(hand.recoverable(here.name_of("q")))
        (session,) = here.protocol.sessions
        pause(box)
        net.settle()
        (header,) = hand.headers
        assert header.encode()[12:14] == b"\1\0"
        assert (header.ack_sequence_number, header.user_msg_sequence_number) == (1, 1)
        assert (header.recoverable_msg_ack_seq_number, header.recoverable_msg_ack_flags) == (1, 1)
        assert not here.protocol._context.timers.is_set(session.ack_is_due)

    @pytest.mark.conformance("MQQB-223")
    def test_nothing_more_leaves_and_the_session_ends_when_it_is_idle(
        self, net: Net, here: Qm, hand: Hand, box: Box
    ) -> None:
        box.send(b"1")
        net.settle()
        hand.ack()
        (session,) = here.protocol.sessions
        pause(box)
        assert (here.outgoing(box).state, session.is_active, session.receipts.unacked) == (ON_HOLD, False, 0)
        box.send_all(b"2", b"3")
        here.send_together((box, b"4"))
        net.sleep(299)
        assert (hand.bodies, hand.is_connected) == ([b"1"], True)
        net.sleep(1)
        assert (hand.bodies, hand.is_connected) == ([b"1"], False)

    @pytest.mark.conformance("MQQB-223")
    def test_not_even_what_only_waited_for_the_window(self, net: Net, hand: Hand) -> None:
        here = net.qm(settings=Settings(window_size=1))
        box = here.to(hand, "q")
        box.send_all(b"1", b"2")
        net.settle()
        pause(box)
        hand.ack()
        assert hand.bodies == [b"1"]

    @pytest.mark.conformance("MQQB-223")
    def test_what_was_in_flight_is_not_sent_again(self, net: Net, here: Qm, hand: Hand, box: Box) -> None:
        here.send_together((box, b"1"))
        net.settle()
        hand.ack()
        pause(box)
        net.sleep(200)
        assert hand.bodies == [b"1"]


class TestOnHold:
    """3.1.5.2.1, 3.1.5.2.3, 3.1.5.4.2, 3.1.5.9."""

    @pytest.mark.conformance("MQQB-224")
    def test_it_outlasts_the_session_and_nobody_dials(self, net: Net, here: Qm, hand: Hand, box: Box) -> None:
        box.send(b"1")
        net.settle()
        pause(box)
        here.cut()
        box.send(b"2")
        net.sleep(600)
        assert (here.outgoing(box).state, len(hand.calls)) == (ON_HOLD, 1)

    @pytest.mark.conformance("MQQB-224")
    @pytest.mark.parametrize("steps", range(6))
    def test_it_outlasts_every_step_of_connecting(
        self, net: Net, here: Qm, hand: Hand, box: Box, steps: int
    ) -> None:
        box.send(b"1")
        for _ in range(steps):
            if here.actions:
                here.perform(here.actions.popleft())
        pause(box)
        net.settle()
        assert here.outgoing(box).state is ON_HOLD
        here.cut()
        net.sleep(600)
        assert (here.outgoing(box).state, hand.is_connected) == (ON_HOLD, False)

    @pytest.mark.conformance("MQQB-224")
    def test_it_outlasts_a_failure_to_connect(self, net: Net, here: Qm, hand: Hand, box: Box) -> None:
        net.down.add(hand.address)
        box.send(b"1")
        net.settle()
        pause(box)
        net.sleep(600)
        assert here.outgoing(box).state is ON_HOLD
        assert here.protocol.next_deadline is None


class TestResume:
    @pytest.mark.conformance("MQQB-225")
    @pytest.mark.parametrize("is_connected", [True, False])
    def test_everything_goes_in_order(
        self, net: Net, here: Qm, hand: Hand, box: Box, is_connected: bool
    ) -> None:
        box.send(b"1")
        net.settle()
        hand.ack()
        pause(box)
        box.send_all(b"2", b"3", b"4")
        if not is_connected:
            here.cut()
        resume(box)
        net.settle()
        assert (here.outgoing(box).state, len(hand.calls)) == (CONNECTED, 1 if is_connected else 2)
        assert hand.bodies == [b"1", b"2", b"3", b"4"]
        assert here.protocol.sessions[0].is_active

    @pytest.mark.conformance("MQQB-225")
    def test_without_messages_nobody_dials(self, net: Net, here: Qm, hand: Hand, box: Box) -> None:
        box.send(b"1")
        net.settle()
        hand.ack()
        pause(box)
        here.cut()
        resume(box)
        net.sleep(60)
        assert len(hand.calls) == 1
