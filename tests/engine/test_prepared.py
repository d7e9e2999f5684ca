"""[MS-MQDMPR] 3.1.4.3 to 3.1.4.10: transactions that an outside coordinator decides.

The tests play the coordinator: they ask to prepare, crash the queue manager, and then tell the outcome.
"""

from uuid import UUID, uuid4

import pytest

from tiercel.engine.core import Answered
from tiercel.engine.engine import Engine
from tiercel.engine.identity import Identity
from tiercel.engine.resource_manager import Outcome
from tiercel.engine.transaction import Transaction, TransactionState
from tiercel.model.codes import CoordinatorAnswer, MessageClass, QueueManagerState
from tiercel.model.errors import QueueDeletedError, StoreFailedError
from tiercel.store.interface import Keyspace
from tiercel.store.memory_store import CommitFails, MemoryStore, Write

from .harness import ALICE, ALL_ACKNOWLEDGEMENTS, NOW, SYSTEM, Box, World, refused

OUTCOMES = pytest.mark.parametrize("outcome", ["commit", "abort"])


@pytest.fixture
def world(durable_world: World) -> World:
    return durable_world


@pytest.fixture
def orders(world: World) -> Box:
    return world.create("orders", transactional=True)


def work_one_of_each(world: World, orders: Box) -> Transaction:
    """A send, a receive and a move."""
    with world.transaction() as sending:
        orders.send_all(b"received", b"moved", b"stays", transaction=sending)
    working = world.begin()
    orders.send(b"sent", transaction=working)
    orders.receive(transaction=working)
    orders.move(orders.peek(), orders.subqueue("s"), working)
    return working


def prepare_one_of_each(world: World, orders: Box) -> Transaction:
    working = work_one_of_each(world, orders)
    world.prepare(working)
    return working


class TestTransactionCollection:
    def test_a_prepared_transaction_knows_when_it_began_after_a_kill(self, world: World, orders: Box) -> None:
        prepare_one_of_each(world, orders)
        world.now += 60
        world.kill()
        (again,) = world.engine.transactions.in_doubt()
        assert again.began == int(NOW)

    def test_of_an_older_version_it_does_not_know(self, world: World, orders: Box) -> None:
        working = prepare_one_of_each(world, orders)
        batch = world.store.begin()
        batch.put(Keyspace.TRANSACTIONS, working.id.bytes + b"\xff" * 4, b"")
        batch.commit()
        world.kill()
        (again,) = world.engine.transactions.in_doubt()
        assert (again.began, len(again.operations)) == (None, 3)

    @pytest.mark.conformance("DMPR-027", "DMPR-107")
    def test_a_prepared_transaction_is_back_after_a_kill_with_its_operations_in_order(
        self, world: World, orders: Box
    ) -> None:
        working = prepare_one_of_each(world, orders)
        before = [(each.kind, each.lookup_id) for each in working.operations]
        for _ in range(2):
            world.kill()
            (again,) = world.engine.transactions.in_doubt()
            assert (again.id, again.single_phase) == (working.id, False)
            assert [(each.kind, each.lookup_id) for each in again.operations] == before

    @pytest.mark.conformance("DMPR-072", "DMPR-071")
    def test_what_it_holds_stays_locked(self, world: World, orders: Box) -> None:
        prepare_one_of_each(world, orders)
        reserved = orders.state.held_bytes
        world.kill()
        assert (orders.bodies(), orders.subqueue("s").bodies()) == ([b"stays"], [])
        assert (orders.state.count, len(orders.state.locks)) == (3, 2)
        assert orders.state.held_bytes == reserved
        assert world.total_bytes >= orders.state.size_bytes + reserved

    def test_a_transaction_of_many_operations_keeps_their_order(self, world: World, orders: Box) -> None:
        working = world.begin()
        orders.send_all(*[n.to_bytes(2, "big") for n in range(300)], transaction=working)
        world.prepare(working)
        world.kill()
        world.commit(working)
        assert orders.bodies() == [n.to_bytes(2, "big") for n in range(300)]

    @OUTCOMES
    def test_even_an_empty_one_is_known(self, world: World, outcome: str) -> None:
        working = world.begin()
        world.prepare(working)
        world.kill()
        assert [each.id for each in world.engine.transactions.in_doubt()] == [working.id]
        getattr(world, outcome)(working)
        world.kill()
        assert list(world.engine.transactions.in_doubt()) == []


class TestRejectingInATransaction:
    """DequeueReason, 3.1.1.14: the commit tells the sender, the abort forgets it."""

    @pytest.fixture
    def admin(self, world: World, orders: Box) -> Box:
        admin = world.create("admin")
        with world.transaction() as sending:
            asks = {"acknowledgements": ALL_ACKNOWLEDGEMENTS, "administration_queue": admin.name}
            orders.send(b"poison", transaction=sending, **asks)
        admin.drain()
        return admin

    @pytest.mark.parametrize("crashes", [0, 1])
    def test_the_commit_rejects(self, world: World, orders: Box, admin: Box, crashes: int) -> None:
        working = self.reject(world, orders)
        world.prepare(working)
        for _ in range(crashes):
            world.kill()
        world.commit(working)
        assert orders.bodies() == []
        assert admin.classes() == [MessageClass.NACK_RECEIVE_REJECTED]

    @pytest.mark.parametrize("crashes", [0, 1])
    def test_the_abort_does_not(self, world: World, orders: Box, admin: Box, crashes: int) -> None:
        working = self.reject(world, orders)
        world.prepare(working)
        for _ in range(crashes):
            world.kill()
        world.abort(working)
        orders.receive()
        assert admin.classes() == [MessageClass.ACK_RECEIVE]

    def test_outside_a_transaction_there_is_no_commit_to_wait_for(
        self, world: World, orders: Box, admin: Box
    ) -> None:
        taken = orders.take()
        with refused(0xC00E0050):
            world.run(lambda: world.engine.reading.reject_at_commit(orders.receiving, taken.lookup_id))
        orders.end(taken, delete=True)
        assert admin.classes() == [MessageClass.ACK_RECEIVE]

    @staticmethod
    def reject(world: World, orders: Box) -> Transaction:
        working = world.begin()
        taken, opened = orders.receive(transaction=working), orders.receiving
        world.run(lambda: world.engine.reading.reject_at_commit(opened, taken.lookup_id))
        return working


class TestReenlistment:
    """3.1.4.9 and 3.1.4.10."""

    @pytest.mark.conformance("DMPR-147")
    @pytest.mark.parametrize("crashes", [0, 1, 2])
    def test_committed(self, world: World, orders: Box, crashes: int) -> None:
        working = prepare_one_of_each(world, orders)
        for _ in range(crashes):
            world.kill()
        world.commit(working)
        for _ in range(2):
            assert sorted(orders.bodies()) == [b"sent", b"stays"]
            assert orders.subqueue("s").bodies() == [b"moved"]
            assert list(world.engine.transactions.in_doubt()) == []
            world.kill()
        with refused(0xC00E0051):
            world.commit(working)

    @pytest.mark.conformance("DMPR-147")
    @pytest.mark.parametrize("crashes", [0, 1, 2])
    def test_aborted(self, world: World, orders: Box, crashes: int) -> None:
        working = prepare_one_of_each(world, orders)
        for _ in range(crashes):
            world.kill()
        world.abort(working)
        for _ in range(2):
            assert orders.bodies() == [b"received", b"moved", b"stays"]
            assert orders.subqueue("s").bodies() == []
            assert (orders.state.locks, orders.state.held_bytes) == ({}, 0)
            assert list(world.engine.transactions.in_doubt()) == []
            world.kill()
        with refused(0xC00E0051):
            world.abort(working)

    @OUTCOMES
    def test_the_outcome_before_its_batch_is_committed_is_not_known(
        self, world: World, orders: Box, outcome: str
    ) -> None:
        working = prepare_one_of_each(world, orders)
        world.engine.begin(world.now)
        getattr(world.engine.transactions, outcome)(working.id)
        world.kill()
        assert [each.id for each in world.engine.transactions.in_doubt()] == [working.id]
        assert orders.bodies() == [b"stays"]

    def test_the_sender_is_told_of_the_receive_at_the_commit(self, world: World, orders: Box) -> None:
        admin = world.create("admin")
        with world.transaction() as sending:
            orders.send(
                b"x",
                transaction=sending,
                acknowledgements=ALL_ACKNOWLEDGEMENTS,
                administration_queue=admin.name,
            )
        admin.drain()
        working = world.begin()
        orders.receive(transaction=working)
        world.prepare(working)
        world.kill()
        assert admin.classes() == []
        world.commit(working)
        assert admin.classes() == [MessageClass.ACK_RECEIVE]


class TestTransactionPrepare:
    """3.1.4.3."""

    @pytest.mark.conformance("DMPR-136")
    def test_the_outside_coordinator_is_recorded_and_the_ends_are_marked(
        self, world: World, orders: Box
    ) -> None:
        working = world.begin()
        assert working.single_phase
        orders.send_all(b"1", b"2", b"3", transaction=working)
        world.prepare(working)
        assert not working.single_phase
        world.kill()
        (again,) = world.engine.transactions.in_doubt()
        assert not again.single_phase
        world.commit(again)
        messages = orders.messages()
        assert [each.first_in_transaction for each in messages] == [True, False, False]
        assert [each.last_in_transaction for each in messages] == [False, False, True]

    def test_preparing_twice_is_once(self, world: World, orders: Box) -> None:
        working = prepare_one_of_each(world, orders)
        world.prepare(working)
        assert working.state is TransactionState.PREPARED
        world.kill()
        (again,) = world.engine.transactions.in_doubt()
        assert len(again.operations) == 3

    def test_before_its_batch_is_committed_nothing_is_prepared(self, world: World, orders: Box) -> None:
        working = world.begin()
        orders.send(b"1", transaction=working)
        world.engine.begin(world.now)
        world.engine.transactions.prepare(working.id)
        world.kill()
        assert list(world.engine.transactions.in_doubt()) == []
        assert (orders.bodies(), orders.state.held_bytes) == ([], 0)


class TestWhatHappensMeanwhile:
    @OUTCOMES
    @pytest.mark.parametrize("crash", [False, True])
    def test_its_queues_cannot_be_deleted_until_it_has_ended(
        self, world: World, orders: Box, crash: bool, outcome: str
    ) -> None:
        working = prepare_one_of_each(world, orders)
        if crash:
            world.kill()
        with refused(0xC00E0064):
            orders.delete()
        assert orders.bodies() == [b"stays"]
        getattr(world, outcome)(working)
        orders.delete()
        world.kill()
        assert world.total_bytes == 0
        assert set(world.discarded()) == {MessageClass.NACK_Q_DELETED}

    @pytest.mark.parametrize("crashes", [0, 1, 2])
    def test_the_queue_was_purged(self, world: World, orders: Box, crashes: int) -> None:
        working = prepare_one_of_each(world, orders)
        orders.purge()
        for _ in range(crashes):
            world.kill()
        world.abort(working)
        assert (orders.bodies(), orders.state.count) == ([], 0)
        assert world.discarded() == [MessageClass.NACK_Q_PURGED] * 3

    @pytest.mark.parametrize("crash", [False, True])
    def test_the_message_ran_out_of_time(self, world: World, orders: Box, crash: bool) -> None:
        with world.transaction() as sending:
            orders.send(b"x", transaction=sending, time_to_be_received=5)
        working = world.begin()
        orders.receive(transaction=working)
        world.prepare(working)
        world.sleep(6)
        if crash:
            world.kill()
        assert orders.bodies() == []
        world.abort(working)
        world.sleep(1)
        assert (orders.bodies(), world.discarded()) == ([], [MessageClass.NACK_RECEIVE_TIMEOUT])


def test_a_transaction_whose_queue_was_deleted_cannot_be_prepared(world: World) -> None:
    """Prepared, its send would be gone without a word after a restart; refused, the coordinator aborts."""
    orders = world.create("orders", transactional=True)
    transaction = world.run(world.engine.transactions.begin)
    orders.send(b"1", transaction=transaction)
    world.run(lambda: world.engine.queues.delete(orders.state, SYSTEM))
    with pytest.raises(QueueDeletedError, match="deleted while the transaction used it"):
        world.run(lambda: world.engine.transactions.prepare(transaction.id))
    world.run(lambda: world.engine.transactions.abort(transaction.id))
    assert list(world.engine.transactions.in_doubt()) == []


SENT = [b"sent", b"stays"]
NOT_SENT = [b"received", b"moved", b"stays"]


def answers(world: World) -> list[CoordinatorAnswer]:
    return [effect.answer for effect in world.effects if isinstance(effect, Answered)]


class TestCoordinatorRequests:
    """3.1.4.6 to 3.1.4.8: the test is the transaction manager."""

    @pytest.fixture
    def working(self, world: World, orders: Box) -> Transaction:
        """A send, a receive and a move that nobody has ended yet."""
        return work_one_of_each(world, orders)

    def ask(self, world: World, request: str, working: Transaction, **how: bool) -> list[CoordinatorAnswer]:
        world.run(lambda: getattr(world.engine.resource_manager, request)(working.id, **how))
        return answers(world)

    @pytest.mark.conformance("DMPR-144")
    def test_prepared_is_answered_when_it_is_on_disk_and_not_before(
        self, world: World, orders: Box, working: Transaction
    ) -> None:
        world.engine.begin(world.now)
        world.engine.resource_manager.prepare(working.id)
        world.kill()
        assert list(world.engine.transactions.in_doubt()) == [], "nothing was answered, nothing is there"
        working = world.begin()
        orders.send(b"sent", transaction=working)
        assert self.ask(world, "prepare", working) == [CoordinatorAnswer.PREPARED]
        assert not working.single_phase
        world.kill()
        assert [each.id for each in world.engine.transactions.in_doubt()] == [working.id]

    @pytest.mark.conformance("DMPR-144")
    def test_no_answer_leaves_when_the_disk_fails(self) -> None:
        world = World()
        working = work_one_of_each(world, world.create("orders", transactional=True))
        assert isinstance(world.store, MemoryStore)

        def fail(write: Write, _number: int) -> None:
            if write is Write.COMMIT:
                raise CommitFails

        world.store.faults = fail
        world.effects = []
        with pytest.raises(StoreFailedError):
            self.ask(world, "prepare", working)
        assert answers(world) == []

    @pytest.mark.conformance("DMPR-145")
    def test_in_one_phase_it_is_committed_at_once(
        self, world: World, orders: Box, working: Transaction
    ) -> None:
        assert self.ask(world, "prepare", working, single_phase=True) == [CoordinatorAnswer.COMMITTED]
        for _ in range(2):
            assert sorted(orders.bodies()) == SENT
            assert list(world.engine.transactions.in_doubt()) == []
            world.kill()

    @pytest.mark.conformance("DMPR-145")
    @pytest.mark.parametrize("single_phase", [False, True])
    def test_what_cannot_be_prepared_is_aborted(self, world: World, orders: Box, single_phase: bool) -> None:
        unknown = Transaction(uuid4(), 1)
        how = {"single_phase": single_phase}
        assert self.ask(world, "prepare", unknown, **how) == [CoordinatorAnswer.ABORTED]
        working = world.begin()
        orders.send(b"1", transaction=working)
        orders.delete()
        assert self.ask(world, "prepare", working, **how) == [CoordinatorAnswer.ABORTED]
        assert working.state is TransactionState.ENDED
        assert world.total_bytes == 0

    @pytest.mark.conformance("DMPR-145")
    def test_a_failed_prepare_gives_everything_back(self, world: World, orders: Box) -> None:
        gone, filling = world.create("gone", transactional=True), world.begin()
        orders.send(b"1", transaction=filling)
        world.commit(filling)
        working = world.begin()
        assert orders.receive(transaction=working).body == b"1"
        orders.send(b"2", transaction=working)
        gone.send(b"3", transaction=working)
        gone.delete()
        assert self.ask(world, "prepare", working) == [CoordinatorAnswer.ABORTED]
        for _ in range(2):
            assert orders.bodies() == [b"1"]
            assert list(world.engine.transactions.in_doubt()) == []
            world.kill()

    @pytest.mark.conformance("DMPR-146")
    @pytest.mark.parametrize("crash", [False, True])
    @pytest.mark.parametrize(
        ("request_", "answer", "bodies"),
        [("commit", CoordinatorAnswer.COMMITTED, SENT), ("abort", CoordinatorAnswer.ABORTED, NOT_SENT)],
    )
    def test_the_outcome_is_applied_and_a_second_request_is_harmless(
        self,
        world: World,
        orders: Box,
        working: Transaction,
        crash: bool,
        request_: str,
        answer: CoordinatorAnswer,
        bodies: list[bytes],
    ) -> None:
        self.ask(world, "prepare", working)
        for _ in range(3):
            if crash:
                world.kill()
            assert self.ask(world, request_, working) == [answer]
            assert sorted(orders.bodies()) == sorted(bodies)
            assert list(world.engine.transactions.in_doubt()) == []


class TestRecovery:
    """3.1.3 and 3.1.4.11: the transaction manager is asked before anybody is served."""

    @pytest.mark.conformance("DMPR-131")
    @pytest.mark.parametrize(("outcome", "bodies"), [(Outcome.COMMITTED, SENT), (Outcome.ABORTED, NOT_SENT)])
    def test_the_outcome_is_applied_before_it_is_ready(self, outcome: Outcome, bodies: list[bytes]) -> None:
        world = World()
        orders = world.create("orders", transactional=True)
        working = prepare_one_of_each(world, orders)
        assert isinstance(world.store, MemoryStore)
        store = world.store = world.store.crash()
        seen: list[QueueManagerState] = []
        asked: list[UUID] = []

        def note(write: Write, _number: int) -> None:
            if write is not Write.PUT:  # of counts, which are written with the commit
                seen.append(engine.queue_manager.queue_manager_state)

        def answer(identifier: UUID) -> Outcome:
            asked.append(identifier)
            assert engine.queue_manager.queue_manager_state is QueueManagerState.INITIALIZING
            store.faults = note
            return outcome

        engine = world.engine = Engine.__new__(Engine)
        engine.__init__(store, Identity("HERE"), now=NOW, owner=ALICE, outcome_of=answer)  # type: ignore[misc]
        assert asked == [working.id]
        *deletes, _commit = seen
        assert set(deletes) == {QueueManagerState.INITIALIZING}
        for _ in range(2):
            assert sorted(orders.bodies()) == sorted(bodies)
            assert list(world.engine.transactions.in_doubt()) == []
            world.kill()

    @pytest.mark.conformance("DMPR-131")
    def test_every_transaction_gets_its_own_outcome(self, world: World, orders: Box) -> None:
        outcomes: dict[UUID, Outcome] = {}
        for number, outcome in enumerate((Outcome.COMMITTED, Outcome.ABORTED, Outcome.COMMITTED)):
            working = world.begin()
            orders.send(bytes([number]), transaction=working)
            world.prepare(working)
            outcomes[working.id] = outcome
        asked: list[UUID] = []

        def answer(identifier: UUID) -> Outcome:
            asked.append(identifier)
            return outcomes[identifier]

        world.options["outcome_of"] = answer
        world.kill()
        assert sorted(asked) == sorted(outcomes)
        assert sorted(orders.bodies()) == [b"\0", b"\2"]
        assert list(world.engine.transactions.in_doubt()) == []

    @pytest.mark.conformance("DMPR-148")
    def test_it_does_not_start_while_the_coordinator_is_silent(self, world: World, orders: Box) -> None:
        working = prepare_one_of_each(world, orders)
        world.options["outcome_of"] = lambda _identifier: Outcome.SILENCE
        before = world.engine
        with refused(0xC00E004C):
            world.kill()
        assert world.engine is before, "there is no other engine that could serve anybody"
        world.options["outcome_of"] = lambda _identifier: Outcome.COMMITTED
        world.kill()
        assert sorted(orders.bodies()) == SENT
        assert working.id not in {each.id for each in world.engine.transactions.in_doubt()}

    def test_without_a_coordinator_it_starts_and_keeps_what_is_in_doubt(
        self, world: World, orders: Box
    ) -> None:
        prepare_one_of_each(world, orders)
        world.kill()
        assert orders.bodies() == [b"stays"]

    def test_a_coordinator_is_not_asked_when_nothing_is_in_doubt(self, world: World) -> None:
        world.options["outcome_of"] = lambda _identifier: Outcome.SILENCE
        world.kill()
