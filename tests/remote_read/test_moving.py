"""[MS-MQRR] 3.1.4.10: moving messages between a queue and its subqueues."""

from uuid import uuid4

import pytest

from engine.harness import Box
from tiercel.store.interface import Keyspace

from .site import MOVE, Remote, Site, refused

INVALID_HANDLE = 0xC00E0007
TRANSACTION_USAGE = 0xC00E0050
TRANSACTION_SEQUENCE = 0xC00E0051
NOT_FOUND = 0xC00E0088
LOCKED_UNDER_TRANSACTION = 0xC00E009C
STATUS_INVALID_PARAMETER = 0xC000000D


@pytest.fixture
def site() -> Site:
    return Site(has_coordinator=True)


@pytest.fixture
def orders(site: Site) -> Box:
    box = site.create("orders", transactional=True)
    site.put(box, b"1", b"2")
    return box


class TestMoveMessage:
    @pytest.mark.conformance("MQRR-106")
    @pytest.mark.parametrize(("source", "target"), [("q", "q;a"), ("q;a", "q"), ("q;a", "q;b")])
    def test_within_a_family(self, a: Remote, box: Box, source: str, target: str) -> None:
        box.send(b"1")
        lookup_id = a.peek().lookup_id
        if source != "q":
            a.move(lookup_id, a.reader.open(source, MOVE))
        there, goal = a.reader.open(source), a.reader.open(target, MOVE)
        there.move(there.peek().lookup_id, goal)
        assert a.reader.open(target).peek().body == b"1"
        assert box.state.count + sum(each.count for each in box.state.subqueues.values()) == 1

    @pytest.mark.conformance("MQRR-106")
    @pytest.mark.parametrize(
        ("source", "target"),
        [("q", "other"), ("q;a", "other;a"), ("q", "q"), ("q;a", "q;a"), ("q", "other;a"), ("other", "q;a")],
    )
    def test_not_beyond(self, site: Site, a: Remote, box: Box, source: str, target: str) -> None:
        other = site.create("other")
        for each in (box, other):
            each.send(b"1")
            each.send(b"2")
            each.move(each.peek(), each.subqueue("a"))
        reader = a.reader
        there, goal = reader.open(source), reader.open(target, MOVE)
        with refused(STATUS_INVALID_PARAMETER):
            there.move(there.peek().lookup_id, goal)
        assert [each.state.count for each in (box, other)] == [1, 1]

    @pytest.mark.conformance("MQRR-107")
    def test_handles_that_do_not_serve(self, a: Remote, b: Remote, box: Box) -> None:
        box.send(b"1")
        lookup_id = a.peek().lookup_id
        goal = a.reader.open("q;a", MOVE)
        with refused(0xC00E0025):
            a.reader.open("q", 0x20).move(lookup_id, goal)
        for context in (1, b.reader.open("q;a", MOVE).move_context):
            with refused(INVALID_HANDLE):
                a.move(lookup_id, context)
        assert box.bodies() == [b"1"]

    @pytest.mark.conformance("MQRR-108", "MQRR-110")
    def test_a_transaction_is_for_transactional_queues(self, a: Remote, box: Box) -> None:
        box.send(b"1")
        lookup_id, goal = a.peek().lookup_id, a.reader.open("q;a", MOVE)
        with refused(TRANSACTION_USAGE):
            a.move(lookup_id, goal, uuid4())
        a.move(lookup_id, goal)
        assert box.subqueue("a").bodies() == [b"1"]

    @pytest.mark.conformance("MQRR-108", "MQRR-110")
    def test_one_that_nobody_enlisted(self, site: Site, orders: Box) -> None:
        a = site.reader().open("orders")
        lookup_id, goal = a.peek().lookup_id, a.reader.open("orders;a", MOVE)
        with refused(TRANSACTION_SEQUENCE):
            a.move(lookup_id, goal, uuid4())
        a.move(lookup_id, goal)  # a transactional queue does not need one
        assert (orders.bodies(), orders.subqueue("a").bodies()) == ([b"2"], [b"1"])

    @pytest.mark.conformance("MQRR-109")
    def test_messages_that_cannot_be_had(self, site: Site, orders: Box) -> None:
        other = site.create("other")
        other.send(b"x")
        a = site.reader().open("orders")
        goal = a.reader.open("orders;a", MOVE)
        with refused(NOT_FOUND):
            a.move(other.peek().lookup_id, goal)
        first, second = uuid4(), uuid4()
        for transaction in (first, second):
            a.reader.enlist(transaction)
        got = a.receive(transaction=first)
        for transaction in (second, first, uuid4()):
            with refused(LOCKED_UNDER_TRANSACTION):
                a.move(got.lookup_id, goal, transaction)
        held = a.receive()
        with refused(NOT_FOUND):
            a.move(held.lookup_id, goal)
        assert orders.subqueue("a").bodies() == []

    @pytest.mark.conformance("MQRR-111")
    def test_nothing_but_its_place_changes(self, site: Site, a: Remote, box: Box) -> None:
        box.send(b"1", label="kept")
        before = a.peek()
        for crash in (False, True, True):
            goal = a.reader.open("q;a", MOVE)
            a.move(a.peek().lookup_id, goal)
            if crash:
                site.kill()
                a = site.reader().open("q")
            there = a.reader.open("q;a")
            got = there.peek()
            assert got.message.packet.data == before.message.packet.data
            assert box.bodies() == []
            there.move(got.lookup_id, a.reader.open("q", MOVE))
        assert box.bodies() == [b"1"]

    @pytest.mark.conformance("MQRR-041")
    def test_moves_are_counted(self, site: Site, a: Remote, box: Box) -> None:
        box.send(b"1")
        seen = []
        for source, target in (("q", "q;a"), ("q;a", "q;b"), ("q;b", "q")):
            site.sleep(1)
            there = a.reader.open(source)
            got = there.peek()
            seen.append((got.message.subqueue.move_counter, got.message.subqueue.last_move_time))
            there.move(got.lookup_id, a.reader.open(target, MOVE))
        start = int(site.now) - 3
        assert seen == [(0, 0), (1, start + 1), (2, start + 2)]

    def test_the_name_of_the_subqueue(self, a: Remote, box: Box) -> None:
        name = "p" * 32
        box.send_all(b"1", b"2")
        a.move(a.peek().lookup_id, a.reader.open(f"q;{name}", MOVE))
        assert a.reader.open(f"q;{name}").peek().message.subqueue.subqueue == name
        header = a.peek().message.subqueue
        assert header.subqueue_name == header.target_subqueue_name == bytes(64)

    @pytest.mark.conformance("MQRR-112")
    @pytest.mark.parametrize("prepared", [False, True])
    @pytest.mark.parametrize("outcome", ["commit", "abort"])
    def test_in_a_transaction(self, site: Site, orders: Box, outcome: str, prepared: bool) -> None:
        a, transaction = site.reader().open("orders"), uuid4()
        a.reader.enlist(transaction)
        a.move(a.peek().lookup_id, a.reader.open("orders;a", MOVE), transaction)
        assert (orders.bodies(), orders.subqueue("a").bodies()) == ([b"2"], [])
        if prepared:
            site.run(lambda: site.engine.resource_manager.prepare(transaction))
            site.kill()
            assert (orders.bodies(), orders.subqueue("a").bodies()) == ([b"2"], [])
        site.run(lambda: getattr(site.engine.resource_manager, outcome)(transaction))
        expected = ([b"2"], [b"1"]) if outcome == "commit" else ([b"1", b"2"], [])
        assert (orders.bodies(), orders.subqueue("a").bodies()) == expected


class TestSubqueueHeader:
    """[MS-MQRR] 2.2.5.3: what a reader is told of where its message is."""

    ZEROS = bytes(64)

    def names(self, remote: Remote) -> tuple[bytes, bytes]:
        header = remote.peek().message.subqueue
        return header.subqueue_name, header.target_subqueue_name

    @pytest.mark.conformance("MQRR-042")
    def test_names_are_filled_with_zeros(self, a: Remote, box: Box) -> None:
        box.send_all(b"1", b"2")
        a.move(a.peek().lookup_id, a.reader.open("q;poison", MOVE))
        assert self.names(a) == (self.ZEROS, self.ZEROS)
        name = "poison".encode("utf-16-le").ljust(64, b"\0")
        assert self.names(a.reader.open("q;poison")) == (name, self.ZEROS)

    @pytest.mark.conformance("MQRR-042")
    @pytest.mark.parametrize("outcome", ["commit", "abort"])
    def test_where_it_is_going_only_the_undecided_transaction_knows(
        self, site: Site, orders: Box, outcome: str
    ) -> None:
        a, transaction = site.reader().open("orders"), uuid4()
        lookup_id, goal = a.peek().lookup_id, "poison".encode("utf-16-le")
        a.reader.enlist(transaction)
        a.move(lookup_id, a.reader.open("orders;poison", MOVE), transaction)
        site.run(lambda: site.engine.resource_manager.prepare(transaction))
        with site.store.snapshot() as view:
            undecided = list(view.range(Keyspace.TRANSACTIONS, b"", b"\xff"))
            messages = [data for _, data in view.range(Keyspace.MESSAGES, b"", b"\xff")]
        assert undecided
        assert not any(goal in data for data in messages)
        assert a.peek().body == b"2"  # nobody is served the message meanwhile
        site.run(lambda: getattr(site.engine.resource_manager, outcome)(transaction))
        with site.store.snapshot() as view:
            assert not list(view.range(Keyspace.TRANSACTIONS, b"", b"\xff"))
        if outcome == "commit":
            poison = a.reader.open("orders;poison")
            assert poison.peek().body == b"1"
            assert self.names(poison) == (goal.ljust(64, b"\0"), self.ZEROS)
        else:
            assert (a.peek().body, orders.bodies()) == (b"1", [b"1", b"2"])
            assert self.names(a) == (self.ZEROS, self.ZEROS)
