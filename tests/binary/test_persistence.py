"""[MS-MQQB] 3.1.1.3.1, 3.1.1.3.2: what must survive, at whichever moment the computer stops."""

from collections.abc import Iterator
from contextlib import suppress

import pytest

from crash.world import problems_of
from engine.harness import RECOVERABLE
from tiercel.binary.settings import Settings
from tiercel.model.codes import MessageClass
from tiercel.server.config import parse
from tiercel.store.interface import Keyspace
from tiercel.store.memory_store import Crash

from .nodes import Hand, Net, Qm


class Exchange:
    """Three recoverable and three transactional messages; what their sender and their receiver know after."""

    def __init__(self) -> None:
        self.net = Net()
        self.sender, self.receiver = self.net.qm("SENDER"), self.net.qm("RECEIVER")
        self.receiver.create("q")
        self.receiver.create("tx", transactional=True)
        self.sure: dict[str, list[bytes]] = {"q": [], "tx": []}  # those whose send has returned
        self.received: dict[str, list[bytes]] = {"q": [], "tx": []}

    def run(self) -> "Exchange":
        for number in range(3):
            for queue in ("q", "tx"):
                with suppress(Crash):
                    self.send(queue, b"%d" % number)
                    self.sure[queue].append(b"%d" % number)
            self.net.sleep(1)
        self.net.sleep(700)
        for qm in (self.sender, self.receiver):
            qm.crash_at(0)  # never
        for queue in self.received:
            self.received[queue] = [each.body for each in self.receiver.box(queue).drain()]
        self.net.sleep(100)
        return self

    def send(self, queue: str, body: bytes) -> None:
        box = self.sender.to(self.receiver, queue)
        if queue == "q":
            box.send(body, positive_journaling=True)
        else:
            self.sender.send_together((box, body), positive_journaling=True)

    @property
    def left(self) -> int:
        return sum(state.count for state in self.sender.engine.outgoing.queues())


def crashes(side: str) -> Iterator[Exchange]:
    """The exchange, once for each write of one side, which dies there; commits both ways."""
    clean = Exchange()
    before = getattr(clean, side).writes
    clean.run()
    for write in range(1, getattr(clean, side).writes - before + 1):
        for kept in (False, True):
            exchange = Exchange()
            getattr(exchange, side).crash_at(write, kept=kept)
            yield exchange.run()


@pytest.mark.conformance("MQQB-155", "MQQB-226")
@pytest.mark.parametrize("side", ["sender", "receiver"])
def test_once_and_in_order_wherever_it_stops(side: str) -> None:
    count = 0
    for exchange in crashes(side):
        count += 1
        for queue, bodies in exchange.received.items():
            assert bodies == sorted(set(bodies)), (count, queue)
            assert set(exchange.sure[queue]) <= set(bodies), (count, queue)
        assert exchange.left == 0
        assert problems_of(exchange.sender.store) + problems_of(exchange.receiver.store) == []
        journal = [each.body for each in exchange.sender.journal.messages()]
        assert sorted(journal) == sorted(exchange.received["q"] + exchange.received["tx"])
    assert count > 50


@pytest.mark.conformance("MQQB-226")
def test_what_was_sent_is_on_disk() -> None:
    """Whatever the peer has seen of a message is sent again just so, until it is acknowledged."""
    for write in range(1, 40):
        for kept in (False, True):
            net = Net()
            here, hand = net.qm(), net.hand()
            here.crash_at(write, kept=kept)
            for body in (b"1", b"2"):
                with suppress(Crash):
                    here.send_together((here.to(hand, "tx"), body))
                net.settle()
            seen = {each.data[:64] + each.body: each.sequence for each in hand.messages}
            here.kill()
            hand.clear()
            net.settle()
            again = {each.data[:64] + each.body: each.sequence for each in hand.messages}
            assert seen.items() <= again.items()


@pytest.mark.conformance("MQQB-226")
def test_what_was_acknowledged_is_on_disk() -> None:
    for write in range(1, 40):
        for kept in (False, True):
            net = Net()
            here, hand = net.qm(settings=Settings(window_size=1)), net.hand()  # which acknowledges at once
            box, stream = here.create("q"), here.create("tx", transactional=True)
            plain = hand.recoverable(here.name_of("q"), b"1")
            ordered = hand.transactional(here.name_of("tx"), 1)
            hand.call(here)
            here.crash_at(write, kept=kept)
            with suppress(Crash):
                hand.send(plain)
                hand.send(ordered)
                net.sleep(1)
            here.kill()
            stored = sum(header.recoverable_msg_ack_flags.bit_count() for header in hand.headers)
            assert box.state.count + stream.state.count >= stored
            assert stream.state.count >= len(hand.order_acks)


@pytest.mark.conformance("MQQB-229")
def test_outgoing_messages_keep_their_order_and_their_numbers(net: Net, here: Qm, hand: Hand) -> None:
    box, stream = here.to(hand, "q"), here.to(hand, "tx")
    for body in (b"1", b"2", b"3"):
        box.send(body, delivery=RECOVERABLE)
        here.send_together((stream, body))
    net.settle()
    before = {each.id: each.sequence for each in hand.messages if each.is_transactional}
    plain = [each.id for each in hand.messages if not each.is_transactional]
    hand.clear()
    here.kill()
    net.settle()
    assert {each.id: each.sequence for each in hand.messages if each.is_transactional} == before
    assert [number for _, number in before.values()] == [1, 2, 3]
    assert [each.id for each in hand.messages if not each.is_transactional] == plain


@pytest.mark.conformance("MQQB-230")
@pytest.mark.parametrize("reason", [MessageClass.ACK_RECEIVE, MessageClass.NACK_RECEIVE_TIMEOUT])
def test_a_final_ack_still_finds_its_message(net: Net, here: Qm, hand: Hand, reason: MessageClass) -> None:
    here.send_together((here.to(hand, "tx"), b"1"), positive_journaling=True, negative_journaling=True)
    net.settle()
    (packet,) = hand.messages
    hand.ack()
    hand.order_ack(packet)
    here.kill()
    hand.call(here)
    hand.final_ack(packet, reason)
    kept = here.journal.bodies(), here.transactional_dead_letters.bodies()
    assert kept == (([b"1"], []) if reason is MessageClass.ACK_RECEIVE else ([], [b"1"]))


@pytest.mark.conformance("MQQB-231")
def test_every_outgoing_queue_is_served_after_a_restart(net: Net, here: Qm) -> None:
    hands = [net.hand(), net.hand()]
    net.down |= {hand.address for hand in hands}
    for hand in hands:
        here.to(hand, "q").send(hand.address.encode())
    here.kill()
    net.down.clear()
    here.kill()
    net.settle()
    assert [hand.bodies for hand in hands] == [[hand.address.encode()] for hand in hands]


@pytest.mark.conformance("MQQB-231")
def test_the_times_of_resending_are_configured(net: Net, hand: Hand) -> None:
    here = net.qm(settings=parse("[binary]\nresend_table_s = [1, 2]\n").settings)
    here.send_together((here.to(hand, "tx"), b"1"))
    for _ in range(2):
        here.restart()
        start = net.now
        hand.clear()
        net.sleep(6)
        assert [at - start for at, _ in hand.arrivals] == [0, 1, 3, 5]


@pytest.mark.conformance("MQQB-232")
def test_a_queue_manager_stays_who_it_is(net: Net, here: Qm, hand: Hand) -> None:
    here.to(hand, "q").send(b"1")
    for end in (here.kill, here.restart, here.kill):
        net.settle()
        end()
    net.settle()
    assert hand.calls == [here.guid] * 4


class TestDamage:
    """A row that cannot be read stops nobody but whom it concerns."""

    def test_a_row_of_the_history_is_set_aside(self, here: Qm) -> None:
        store = here.backup()
        store.spaces[Keyspace.HISTORY][b"damaged"] = b"short"
        here.resume_from(store)
        assert not store.spaces[Keyspace.HISTORY]
        assert ["history" in line.queue for line in here.engine.ledger.lines()] == [True]

    def test_a_stream_that_cannot_be_read_takes_nothing(self, here: Qm, hand: Hand) -> None:
        here.create("tx", transactional=True)
        hand.call(here).send(hand.transactional(here.name_of("tx"), 1))
        store = here.backup()
        for key in store.spaces[Keyspace.INCOMING]:
            store.spaces[Keyspace.INCOMING][key] = b"short"
        here.resume_from(store)
        hand.call(here).send(hand.transactional(here.name_of("tx"), 2))
        assert not hand.is_connected
        assert here.box("tx").bodies() == [b"1"]
