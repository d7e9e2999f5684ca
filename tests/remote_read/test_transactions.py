"""[MS-MQRR] 3.1.4.12 to 3.1.4.15: receiving in a transaction that somebody else decides.

The tests play the coordinator: `enlist` answers for it, and `decide` tells the outcome.
"""

from typing import Any
from uuid import UUID, uuid4

import pytest

from engine.harness import ALL_ACKNOWLEDGEMENTS, Box
from tiercel.model.codes import LookupAction, MessageClass
from tiercel.model.errors import TransactionEnlistError
from tiercel.remote_read import calls
from tiercel.remote_read.calls import RR_ACK, RR_NACK
from tiercel.remote_read.queue_format import QueueFormat

from .site import LOOKUP, MOVE, PEEK, PEEKING, PEEKING_NEXT, RECEIVING, Remote, Site, refused

INVALID_PARAMETER = 0xC00E0006
CANCELLED = 0xC00E0008
TRANSACTION_USAGE = 0xC00E0050
TRANSACTION_SEQUENCE = 0xC00E0051
NOT_FOUND = 0xC00E0088
REJECTED = 0xC004
OUTCOMES = pytest.mark.parametrize("outcome", ["commit", "abort"])


@pytest.fixture
def site() -> Site:
    return Site(has_coordinator=True)


@pytest.fixture
def orders(site: Site) -> Box:
    return site.create("orders", transactional=True)


@pytest.fixture
def a(site: Site, orders: Box) -> Remote:  # noqa: ARG001  # the queue must be there
    return site.reader().open("orders")


@pytest.fixture
def b(site: Site, orders: Box) -> Remote:  # noqa: ARG001
    return site.reader().open("orders")


@pytest.fixture
def tx(a: Remote) -> UUID:
    """A transaction that the reader of `a` is in."""
    transaction = uuid4()
    a.reader.enlist(transaction)
    return transaction


def decide(site: Site, transaction: UUID, outcome: str) -> None:
    site.run(lambda: getattr(site.engine.resource_manager, outcome)(transaction))


class TestEnlistRemoteTransaction:
    @pytest.mark.conformance("MQRR-114")
    def test_the_coordinator_is_asked_and_then_it_is_known(self, site: Site, a: Remote) -> None:
        transaction = uuid4()
        wait = a.reader.start(calls.EnlistRemoteTransaction(transaction, b"propagation"))
        assert not wait.is_answered
        (asked,) = site.enlisting
        assert (asked.transaction, asked.token) == (transaction, b"propagation")
        with refused(TRANSACTION_SEQUENCE):
            a.receive(transaction=transaction)
        site.run(lambda: site.service.enlisted(asked.call, transaction))
        assert wait.response == calls.Done()
        assert site.engine.transactions.find(transaction).single_phase is False
        with refused(0xC00E001B):
            a.receive(transaction=transaction)
        decide(site, transaction, "prepare")
        decide(site, transaction, "commit")
        with refused(TRANSACTION_SEQUENCE):
            a.receive(transaction=transaction)
        assert not site.service._enlisted

    @pytest.mark.conformance("MQRR-113")
    def test_the_queue_means_nothing(self, site: Site, a: Remote) -> None:
        wait = a.reader.start(calls.EnlistRemoteTransaction(uuid4(), b"", QueueFormat(7)))
        asked = site.enlisting.pop()
        site.run(lambda: site.service.enlisted(asked.call, asked.transaction))
        wait.check()

    @pytest.mark.conformance("MQRR-115")
    @pytest.mark.parametrize("has_coordinator", [False, True])
    def test_when_it_fails_nothing_runs_outside_a_transaction(self, has_coordinator: bool) -> None:
        site = Site(has_coordinator=has_coordinator)
        orders = site.create("orders", transactional=True)
        site.put(orders, b"1")
        a = site.reader().open("orders")
        for transaction in (uuid4(), site.begin().id):  # one of an application, which must not lend itself
            with refused(0xC00E0058 if has_coordinator else 0xC00E004C):
                a.reader.enlist(transaction, TransactionEnlistError("transaction"))
            for how in ({}, {"timeout_ms": 1000}):
                with refused(TRANSACTION_SEQUENCE):
                    a.receive(transaction=transaction, **how)
        assert orders.bodies() == [b"1"]

    def test_one_without_an_identifier(self, a: Remote) -> None:
        with refused(TransactionEnlistError.code):
            a.reader.enlist(UUID(int=0))

    def test_several_readers_may_be_in_one(self, site: Site, a: Remote, b: Remote, tx: UUID) -> None:
        assert b.reader.call(calls.EnlistRemoteTransaction(tx)) == calls.Done()
        assert not site.enlisting  # the coordinator knows us already
        site.put(site.box("orders"), b"1", b"2")
        for each in (a, b):
            each.end(each.receive(transaction=tx), transactional=True)
        decide(site, tx, "abort")
        assert site.box("orders").bodies() == [b"1", b"2"]

    def test_two_that_ask_at_the_same_time(self, site: Site, a: Remote, b: Remote) -> None:
        transaction = uuid4()
        waits = [each.reader.start(calls.EnlistRemoteTransaction(transaction)) for each in (a, b)]
        for asked in site.enlisting:
            site.run(lambda asked=asked: site.service.enlisted(asked.call, transaction))  # type: ignore[misc]
        assert [wait.response for wait in waits] == [calls.Done()] * 2

    def test_a_transaction_of_an_application_is_not_theirs(self, site: Site, a: Remote) -> None:
        own = site.begin()
        with refused(TRANSACTION_SEQUENCE):
            a.receive(transaction=own.id)
        with refused(TRANSACTION_SEQUENCE):
            a.reader.enlist(own.id)

    @pytest.mark.conformance("MQRR-116")
    @OUTCOMES
    def test_everything_in_it_has_one_outcome(self, site: Site, a: Remote, tx: UUID, outcome: str) -> None:
        boxes = [site.create(name, transactional=True) for name in ("q1", "q2", "q3")]
        for box in boxes:
            site.put(box, b"1")
        first, second, third = (a.reader.open(name) for name in ("q1", "q2", "q3"))
        for remote in (first, second):
            remote.end(remote.receive(transaction=tx), transactional=True)
        third.move(third.peek().lookup_id, a.reader.open("q3;a", MOVE), tx)
        assert [box.bodies() for box in boxes] == [[], [], []]
        decide(site, tx, outcome)
        bodies = [box.bodies() for box in boxes] + [boxes[2].subqueue("a").bodies()]
        assert bodies == ([[], [], [], [b"1"]] if outcome == "commit" else [[b"1"], [b"1"], [b"1"], []])


class TestStartTransactionalReceive:
    @pytest.mark.conformance("MQRR-119")
    def test_it_needs_a_handle_to_receive(self, site: Site, a: Remote, tx: UUID) -> None:
        site.put(site.box("orders"), b"1")
        with refused(0xC00E0025):
            a.reader.open("orders", PEEK).receive(transaction=tx)
        assert site.box("orders").bodies() == [b"1"]

    @pytest.mark.conformance("MQRR-120")
    def test_a_queue_that_is_not_transactional(self, site: Site, a: Remote, tx: UUID) -> None:
        site.create("q").send(b"1")
        for transaction in (tx, uuid4()):  # before it is looked for
            with refused(TRANSACTION_USAGE):
                a.reader.open("q").receive(transaction=transaction)

    @pytest.mark.conformance("MQRR-120")
    @pytest.mark.parametrize("action", [PEEKING, PEEKING_NEXT, *list(LookupAction)[:3]])
    def test_a_peek(self, site: Site, a: Remote, tx: UUID, action: int) -> None:
        site.put(site.box("orders"), b"1", b"2")
        how: dict[int, dict[str, Any]] = {PEEKING: {}, PEEKING_NEXT: {"cursor": a.cursor()}}
        by_lookup_id = {"lookup_id": a.peek().lookup_id}
        for transaction in (tx, uuid4()):
            with refused(TRANSACTION_USAGE):
                a.start(action, transaction=transaction, **how.get(action, by_lookup_id)).check()

    @pytest.mark.conformance("MQRR-121")
    @pytest.mark.parametrize("way", ["first", "cursor", "current", "next", "previous", "waiting"])
    @OUTCOMES
    def test_the_transaction_has_it(
        self, site: Site, a: Remote, b: Remote, tx: UUID, way: str, outcome: str
    ) -> None:
        orders, expected = site.box("orders"), {"cursor": b"2", "current": b"2", "next": b"3"}.get(way, b"1")
        if way == "waiting":
            wait = a.wait(transaction=tx)
            site.put(orders, b"1", b"2", b"3")
            got = wait.got
        else:
            site.put(orders, b"1", b"2", b"3")
            second = orders.messages()[1].lookup_id
            how: dict[str, Any] = {
                "current": {"action": LOOKUP.RECEIVE_CURRENT, "lookup_id": second},
                "next": {"action": LOOKUP.RECEIVE_NEXT, "lookup_id": second},
                "previous": {"action": LOOKUP.RECEIVE_PREV, "lookup_id": second},
            }.get(way, {})
            if way == "cursor":
                how = {"cursor": a.cursor()}
                a.peek(**how)
                a.start(PEEKING_NEXT, **how)
            got = a.receive(transaction=tx, **how)
        assert got.body == expected
        a.end(got, transactional=True)
        assert len(orders.bodies()) == 2
        decide(site, tx, outcome)
        if outcome == "commit":
            assert expected not in orders.bodies()
            return
        again = b.lookup(LOOKUP.PEEK_CURRENT, got.lookup_id)
        assert (again.body, again.abort_count) == (expected, 1)

    @pytest.mark.conformance("MQRR-122")
    def test_silence_gives_it_back(self, site: Site, a: Remote, b: Remote, tx: UUID) -> None:
        site.put(site.box("orders"), b"1")
        got = a.receive(transaction=tx)
        site.sleep(300)
        assert (b.peek().lookup_id, b.peek().abort_count) == (got.lookup_id, 1)
        with refused(0xC00E0007):
            a.end(got, transactional=True)
        decide(site, tx, "commit")
        assert site.box("orders").bodies() == [b"1"]

    @pytest.mark.conformance("MQRR-123")
    @pytest.mark.parametrize("action", [RECEIVING, *list(LookupAction)[5:8]])
    def test_one_that_nobody_knows_is_refused(self, site: Site, a: Remote, action: int) -> None:
        """MQRR trap 11: with a transaction of no name the message would be delivered and stay."""
        site.put(site.box("orders"), b"1", b"2", b"3")
        lookup_id = site.box("orders").messages()[1].lookup_id if action else 0
        with refused(TRANSACTION_SEQUENCE):
            a.start(action, lookup_id=lookup_id, transaction=uuid4()).check()
        assert site.box("orders").bodies() == [b"1", b"2", b"3"]

    @pytest.mark.conformance("MQRR-094")
    def test_waiting_it_can_be_cancelled(self, site: Site, a: Remote, tx: UUID) -> None:
        wait = a.wait(transaction=tx, request_id=3)
        a.cancel(3)
        with refused(CANCELLED):
            wait.check()
        site.put(site.box("orders"), b"1")
        assert site.box("orders").bodies() == [b"1"]

    def test_the_outcome_ends_its_waits(self, site: Site, a: Remote, tx: UUID) -> None:
        wait = a.wait(transaction=tx)
        decide(site, tx, "abort")
        with refused(TRANSACTION_SEQUENCE):
            wait.check()
        assert site.service.pending_count == 0


class TestEndTransactionalReceive:
    @pytest.mark.conformance("MQRR-124")
    def test_acknowledged_it_waits_for_the_commit(self, site: Site, a: Remote, tx: UUID) -> None:
        orders = site.box("orders")
        site.put(orders, b"1")
        a.end(a.receive(transaction=tx), transactional=True)
        a.reader.vanish()
        assert (orders.bodies(), orders.state.count) == ([], 1)
        decide(site, tx, "abort")
        assert orders.bodies() == [b"1"]

    @pytest.mark.conformance("MQRR-125")
    def test_otherwise_it_leaves_the_transaction(self, site: Site, a: Remote, b: Remote, tx: UUID) -> None:
        """MQRR trap 12"""
        orders = site.box("orders")
        site.put(orders, b"1", b"2")
        first, second = a.receive(transaction=tx), a.receive(transaction=tx)
        a.give_back(first, transactional=True)
        a.end(second, transactional=True)
        got = b.receive()
        assert (got.body, got.abort_count) == (b"1", 1)
        decide(site, tx, "commit")
        b.give_back(got)
        assert orders.bodies() == [b"1"]

    @pytest.mark.conformance("MQRR-126")
    @pytest.mark.parametrize("ack", [RR_ACK, RR_NACK])
    def test_the_other_method_does_not_end_it(self, site: Site, a: Remote, tx: UUID, ack: int) -> None:
        site.put(site.box("orders"), b"1", b"2")
        within, without = a.receive(transaction=tx), a.receive()
        with refused(INVALID_PARAMETER):
            a.end(within, ack)
        with refused(INVALID_PARAMETER):
            a.end(without, ack, transactional=True)
        a.end(within, transactional=True)
        a.end(without)

    @pytest.mark.conformance("MQRR-126")
    def test_its_errors(self, site: Site, a: Remote, tx: UUID) -> None:
        with refused(0xC00E0007):
            a.end(1, transactional=True)
        site.put(site.box("orders"), b"1")
        got = a.receive(transaction=tx)
        with refused(INVALID_PARAMETER):
            a.end(got.request_id + 1, transactional=True)
        decide(site, tx, "commit")
        with refused(NOT_FOUND):
            a.end(got, transactional=True)

    def test_what_is_prepared_cannot_be_given_back(self, site: Site, a: Remote, tx: UUID) -> None:
        site.put(site.box("orders"), b"1")
        got = a.receive(transaction=tx)
        decide(site, tx, "prepare")
        with refused(TRANSACTION_SEQUENCE):
            a.give_back(got, transactional=True)
        a.reader.vanish()
        decide(site, tx, "commit")
        assert site.box("orders").bodies() == []


class TestSetUserAcknowledgementClass:
    @pytest.fixture
    def admin(self, site: Site, orders: Box) -> Box:
        admin = site.create("admin")
        asks = {"acknowledgements": ALL_ACKNOWLEDGEMENTS, "administration_queue": admin.name}
        site.put(orders, b"1", **asks)
        admin.drain()
        return admin

    @pytest.mark.conformance("MQRR-127")
    @pytest.mark.parametrize(
        ("classes", "told"),
        [([0], MessageClass.ACK_RECEIVE), ([REJECTED], REJECTED), ([REJECTED, 0], REJECTED)],
    )
    def test_the_commit_tells_the_sender(
        self, site: Site, a: Remote, tx: UUID, admin: Box, classes: list[int], told: int
    ) -> None:
        got = a.receive(transaction=tx)
        a.end(got, transactional=True)
        for each in classes:
            a.set_class(got.lookup_id, each)
        assert admin.classes() == []
        decide(site, tx, "commit")
        assert admin.classes() == [told]
        assert site.box("orders").bodies() == []

    def test_the_abort_forgets_it(self, site: Site, a: Remote, tx: UUID, admin: Box) -> None:
        got = a.receive(transaction=tx)
        a.end(got, transactional=True)
        a.set_class(got.lookup_id, REJECTED)
        decide(site, tx, "abort")
        assert a.take() == b"1"
        assert admin.classes() == [MessageClass.ACK_RECEIVE]

    @pytest.mark.conformance("MQRR-128")
    def test_only_between_the_end_and_the_outcome(
        self, site: Site, a: Remote, b: Remote, tx: UUID, admin: Box
    ) -> None:
        peeked = a.peek().lookup_id
        with refused(TRANSACTION_USAGE):
            a.set_class(peeked, REJECTED)
        held = a.receive()
        with refused(TRANSACTION_USAGE):
            a.set_class(held.lookup_id, REJECTED)
        a.give_back(held)
        got = a.receive(transaction=tx)
        with refused(TRANSACTION_USAGE):
            a.set_class(got.lookup_id, REJECTED)
        a.end(got, transactional=True)
        with refused(TRANSACTION_USAGE):
            b.set_class(got.lookup_id, REJECTED)
        decide(site, tx, "commit")
        with refused(NOT_FOUND):
            a.set_class(got.lookup_id, REJECTED)
        assert admin.classes() == [MessageClass.ACK_RECEIVE]

    @pytest.mark.conformance("MQRR-129")
    @pytest.mark.usefixtures("admin")
    def test_a_message_that_is_not_there_and_a_handle_that_only_peeks(self, a: Remote, tx: UUID) -> None:
        with refused(NOT_FOUND):
            a.set_class(4711, REJECTED)
        got = a.receive(transaction=tx)
        a.end(got, transactional=True)
        with refused(0xC00E0025):
            a.reader.open("orders", PEEK).set_class(got.lookup_id, REJECTED)

    @pytest.mark.usefixtures("admin")
    def test_another_class(self, a: Remote, tx: UUID) -> None:
        got = a.receive(transaction=tx)
        a.end(got, transactional=True)
        with refused(INVALID_PARAMETER):
            a.set_class(got.lookup_id, 0xC003)
