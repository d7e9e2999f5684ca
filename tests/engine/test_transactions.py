"""[MS-MQDMPR] 3.1.4.3 to 3.1.4.5, 3.1.7.1.8 and 3.1.3: internal transactions."""

from uuid import UUID

import pytest

from tiercel.model.codes import MessageClass, QueueAccess, TransactionalOperationType
from tiercel.model.errors import MqError, StoreFullError
from tiercel.model.identifiers import NO_SEQUENCE, TxSequenceId
from tiercel.model.path_name import PathName
from tiercel.store.memory_store import MemoryStore

from .harness import ALL_ACKNOWLEDGEMENTS, Box, World, refused

TRANSACTION_SEQUENCE = 0xC00E0051
TRANSACTION_USAGE = 0xC00E0050
UNKNOWN = UUID(int=1)


@pytest.fixture
def orders(durable_world: World) -> Box:
    return durable_world.create("orders", transactional=True)


@pytest.fixture
def world(durable_world: World) -> World:
    return durable_world


def fill(world: World, box: Box, *bodies: bytes) -> None:
    with world.transaction() as sending:
        box.send_all(*bodies, transaction=sending)


class TestCreateTransaction:
    """3.1.7.1.8."""

    @pytest.mark.conformance("DMPR-187")
    def test_it_is_found_by_its_identifier_until_it_ends(self, world: World) -> None:
        identifier = UUID("11111111-2222-3333-4444-555555555555")
        begun = world.run(lambda: world.engine.transactions.begin(identifier))
        assert world.engine.transactions.find(identifier) is begun
        with refused(TRANSACTION_SEQUENCE):
            world.run(lambda: world.engine.transactions.begin(identifier))
        world.prepare(begun)
        world.kill()
        assert world.engine.transactions.find(identifier).id == identifier
        world.commit(begun)
        with refused(TRANSACTION_SEQUENCE):
            world.engine.transactions.find(identifier)

    def test_identifiers_and_numbers_differ(self, world: World) -> None:
        begun = [world.begin() for _ in range(50)]
        assert len({each.id for each in begun}) == len({each.number for each in begun}) == 50


class TestTransactionCommit:
    """3.1.4.4."""

    @pytest.mark.conformance("DMPR-137", "DMPR-192", "DMPR-071")
    def test_a_send_is_invisible_until_the_commit(self, world: World, orders: Box) -> None:
        sending = world.begin()
        orders.send(b"1", transaction=sending)
        assert (orders.bodies(), orders.state.count) == ([], 0)
        with refused(0xC00E001B):
            orders.receive()
        assert [each.kind for each in sending.operations] == [TransactionalOperationType.ENQUEUE]
        world.commit(sending)
        assert orders.bodies() == [b"1"]
        world.kill()
        assert orders.bodies() == [b"1"]

    @pytest.mark.conformance("DMPR-138", "DMPR-202")
    def test_a_receive_deletes_at_the_commit_and_only_then_acknowledges(
        self, world: World, orders: Box
    ) -> None:
        admin = world.create("admin")
        with world.transaction() as sending:
            orders.send(
                b"1",
                transaction=sending,
                acknowledgements=ALL_ACKNOWLEDGEMENTS,
                administration_queue=admin.name,
            )
        assert admin.classes() == [MessageClass.ACK_REACH_QUEUE]
        reading = world.begin()
        orders.receive(transaction=reading)
        assert (orders.state.count, orders.bodies(), admin.classes()) == (1, [], [])
        world.commit(reading)
        assert world.removed() == [MessageClass.ACK_RECEIVE]
        assert (orders.state.count, admin.classes()) == (0, [MessageClass.ACK_RECEIVE])

    @pytest.mark.conformance("DMPR-139", "DMPR-196")
    def test_a_move_happens_at_the_commit(self, world: World, orders: Box) -> None:
        fill(world, orders, b"1", b"2")
        retry, moving = orders.subqueue("retry"), world.begin()
        orders.move(orders.peek(), retry, moving)
        assert (orders.bodies(), retry.bodies(), orders.state.count) == ([b"2"], [], 2)
        world.commit(moving)
        assert (orders.bodies(), retry.bodies(), orders.state.count) == ([b"2"], [b"1"], 1)
        world.kill()
        assert (orders.bodies(), retry.bodies()) == ([b"2"], [b"1"])

    def test_a_move_keeps_its_target_though_nobody_has_it_open(self, world: World, orders: Box) -> None:
        fill(world, orders, b"1")
        retry, moving = orders.subqueue("retry"), world.begin()
        orders.move(orders.peek(), retry, moving)
        retry.close()
        world.commit(moving)
        assert (retry.bodies(), world.removed()) == ([b"1"], [])

    @pytest.mark.conformance("DMPR-140", "DMPR-107")
    def test_operations_happen_in_their_order_over_several_queues(self, world: World, orders: Box) -> None:
        other = world.create("other", transactional=True)
        fill(world, other, b"in")
        working = world.begin()
        orders.send_all(b"A", b"B", transaction=working)
        other.receive(transaction=working)
        other.send(b"out", transaction=working)
        orders.send(b"C", transaction=working)
        assert (orders.bodies(), other.bodies()) == ([], [])
        world.commit(working)
        assert (orders.bodies(), other.bodies()) == ([b"A", b"B", b"C"], [b"out"])
        assert not list(world.engine.transactions.in_doubt())

    @pytest.mark.conformance("DMPR-140", "DMPR-143", "DMPR-135")
    def test_an_unknown_transaction_is_a_sequence_error(self, world: World, orders: Box) -> None:
        ended = world.begin()
        orders.send(b"1", transaction=ended)
        world.commit(ended)
        transactions = world.engine.transactions
        for call in (transactions.prepare, transactions.commit, transactions.abort):
            for identifier in (UNKNOWN, ended.id):
                with refused(TRANSACTION_SEQUENCE):
                    world.run(lambda call=call, identifier=identifier: call(identifier))  # type: ignore[misc]
        assert orders.bodies() == [b"1"]

    def test_a_commit_after_the_queue_was_deleted_is_told_and_not_lost(self, world: World) -> None:
        orders = world.create("q", transactional=True)
        letters = world.create("letters", transactional=True)
        sending = world.begin()
        orders.send(b"1", transaction=sending, negative_journaling=True)
        own = PathName.parse(r".\private$\letters")
        orders.send(b"2", transaction=sending, negative_journaling=True, dead_letter_queue=own)
        orders.delete()
        world.commit(sending)
        assert world.discarded() == [MessageClass.NACK_BAD_DST_Q] * 2
        assert (world.transactional_dead_letters.bodies(), letters.bodies()) == ([b"1"], [b"2"])
        assert world.total_bytes == sum(
            box.state.size_bytes for box in (world.transactional_dead_letters, letters)
        )


class TestTransactionAbort:
    """3.1.4.5."""

    @pytest.mark.conformance("DMPR-141")
    def test_received_messages_return_to_their_places(self, world: World, orders: Box) -> None:
        fill(world, orders, b"1", b"2", b"3")
        ids = [message.lookup_id for message in orders.messages()]
        reading = world.begin()
        orders.receive(transaction=reading)
        orders.lookup(ids[2], peek=False, transaction=reading)
        world.abort(reading)
        assert [message.lookup_id for message in orders.messages()] == ids
        assert [message.abort_count for message in orders.messages()] == [1, 0, 1]
        assert orders.receive().body == b"1"
        world.kill()
        assert [message.abort_count for message in orders.messages()] == [0, 1]

    @pytest.mark.conformance("DMPR-141", "DMPR-196")
    def test_moved_messages_stay_where_they_were(self, world: World, orders: Box) -> None:
        fill(world, orders, b"1", b"2")
        retry, moving = orders.subqueue("retry"), world.begin()
        orders.move(orders.peek(), retry, moving)
        world.abort(moving)
        assert (orders.bodies(), retry.bodies()) == ([b"1", b"2"], [])

    @pytest.mark.conformance("DMPR-142", "DMPR-186", "DMPR-070")
    def test_what_was_purged_meanwhile_does_not_come_back(self, world: World, orders: Box) -> None:
        admin = world.create("admin")
        with world.transaction() as sending:
            for body in (b"1", b"2", b"3"):
                orders.send(
                    body,
                    transaction=sending,
                    acknowledgements=ALL_ACKNOWLEDGEMENTS,
                    administration_queue=admin.name,
                )
        admin.drain()
        reading, moving = world.begin(), world.begin()
        orders.receive(transaction=reading)
        orders.move(orders.peek(), orders.subqueue("retry"), moving)
        assert orders.purge() == 1
        assert admin.classes() == [MessageClass.NACK_Q_PURGED]
        world.abort(reading)
        world.abort(moving)
        assert (orders.state.count, orders.state.size_bytes, orders.state.locks) == (0, 0, {})
        assert admin.classes() == [MessageClass.NACK_Q_PURGED] * 2
        assert world.discarded() == [MessageClass.NACK_Q_PURGED] * 3

    def test_what_was_purged_is_received_all_the_same_if_the_reader_commits(
        self, world: World, orders: Box
    ) -> None:
        fill(world, orders, b"1")
        reading = world.begin()
        orders.receive(transaction=reading)
        orders.purge()
        world.commit(reading)
        assert (world.removed(), world.discarded()) == ([MessageClass.ACK_RECEIVE], [])

    @pytest.mark.conformance("DMPR-143")
    def test_an_aborted_send_was_never_there(self, world: World, orders: Box) -> None:
        admin, sending = world.create("admin"), world.begin()
        orders.send(
            b"1", transaction=sending, acknowledgements=ALL_ACKNOWLEDGEMENTS, administration_queue=admin.name
        )
        world.abort(sending)
        assert (orders.bodies(), orders.state.size_bytes, orders.state.held_bytes) == ([], 0, 0)
        assert (admin.classes(), world.total_bytes, world.discarded()) == ([], 0, [])


class TestEndedTransactions:
    def test_nothing_can_be_added_to_one(self, world: World, orders: Box) -> None:
        fill(world, orders, b"1")
        away = world.box(r"DIRECT=OS:there\private$\q")
        ended, prepared = world.begin(), world.begin()
        world.commit(ended)
        world.prepare(prepared)
        before = world.total_bytes
        for each in (ended, prepared):
            for call in (
                lambda each=each: orders.send(b"2", transaction=each),
                lambda each=each: away.send(b"2", transaction=each),
                lambda each=each: orders.receive(transaction=each),
                lambda each=each: orders.move(orders.peek(), orders.subqueue("s"), each),
            ):
                with refused(TRANSACTION_SEQUENCE):
                    call()
        assert world.total_bytes == before
        assert orders.bodies() == [b"1"]


class TestMessagesOfATransaction:
    """3.1.1.12: TransactionalMessageSequenceIdentifier and what follows."""

    @pytest.mark.conformance("DMPR-104", "DMPR-105", "DMPR-136")
    def test_they_are_numbered_and_the_ends_are_marked(self, world: World, orders: Box) -> None:
        fill(world, orders, b"1", b"2", b"3")
        fill(world, orders, b"4")
        messages = orders.messages()
        first = messages[0].tx_sequence_number
        assert [each.tx_sequence_number for each in messages] == [first + n for n in range(4)]
        assert [each.previous_tx_sequence_number for each in messages] == [first + n - 1 for n in range(4)]
        assert len({each.tx_sequence_id for each in messages}) == 1
        created = world.engine.queue_manager.create_time
        assert messages[0].tx_sequence_id == TxSequenceId(created, orders.state.slot)
        assert [each.first_in_transaction for each in messages] == [True, False, False, True]
        assert [each.last_in_transaction for each in messages] == [False, False, True, True]
        numbers = [each.transaction_id for each in messages]
        assert (len(set(numbers[:3])), numbers[3] != numbers[0]) == (1, True)

    @pytest.mark.conformance("DMPR-104")
    def test_the_numbers_go_on_after_a_restart(self, world: World, orders: Box) -> None:
        fill(world, orders, b"1")
        world.kill()
        fill(world, orders, b"2")
        one, two = orders.messages()
        assert two.tx_sequence_id == one.tx_sequence_id
        assert two.previous_tx_sequence_number == one.tx_sequence_number
        assert two.tx_sequence_number > one.tx_sequence_number

    @pytest.mark.conformance("DMPR-104")
    def test_a_message_outside_of_transactions_has_none_of_it(self, world: World) -> None:
        plain = world.create("plain")
        plain.send(b"1", delivery=0)
        message = plain.receive()
        assert (message.transaction_id, message.tx_sequence_id) == (None, NO_SEQUENCE)
        assert (message.tx_sequence_number, message.first_in_transaction) == (0, False)

    @pytest.mark.conformance("DMPR-105")
    def test_the_ends_are_those_of_each_stream(self, world: World, orders: Box) -> None:
        """T-23: a receive in between is no end, and every destination has its own stream."""
        other = world.create("other", transactional=True)
        fill(world, other, b"in")
        with world.transaction() as working:
            other.receive(transaction=working)
            orders.send(b"1", transaction=working)
            other.send(b"2", transaction=working)
            orders.send(b"3", transaction=working)
        ends = [
            (each.body, each.first_in_transaction, each.last_in_transaction)
            for each in orders.messages() + other.messages()
        ]
        assert ends == [(b"1", True, False), (b"3", False, True), (b"2", True, True)]

    def test_transactional_and_other_queues_do_not_mix(self, world: World, orders: Box) -> None:
        plain, working = world.create("plain"), world.begin()
        plain.send(b"1")
        for call in (
            lambda: orders.send(b"x"),
            lambda: plain.send(b"x", transaction=working),
            lambda: plain.receive(transaction=working),
        ):
            with refused(TRANSACTION_USAGE):
                call()
        assert (orders.bodies(), plain.bodies(), working.operations) == ([], [b"1"], [])


class TestInitialization:
    """3.1.3: what a crash leaves of an internal transaction."""

    @pytest.mark.conformance("DMPR-132")
    def test_open_transactions_are_aborted_at_start(self, world: World, orders: Box) -> None:
        fill(world, orders, b"1", b"2")
        working = world.begin()
        orders.send(b"3", transaction=working)
        orders.receive(transaction=working)
        orders.move(orders.peek(), orders.subqueue("s"), working)
        world.kill()
        assert orders.bodies() == [b"1", b"2"]
        with refused(TRANSACTION_SEQUENCE):
            world.commit(working)
        assert (orders.state.held_bytes, world.total_bytes) == (0, orders.state.size_bytes)

    def test_what_was_purged_while_taken_is_gone_after_the_crash_too(self, world: World, orders: Box) -> None:
        fill(world, orders, b"1")
        orders.receive(transaction=world.begin())
        orders.purge()
        world.kill()
        assert orders.bodies() == []
        assert world.discarded() == [MessageClass.NACK_Q_PURGED]


class TestDeletingAQueueThatATransactionUses:
    """T-21: the message ends with its queue; commit and abort tolerate that it is gone."""

    @pytest.mark.parametrize("journaling", [False, True])
    @pytest.mark.parametrize("ending", ["commit", "abort", "kill"])
    def test_it_ends_once_and_leaves_a_line(self, world: World, ending: str, journaling: bool) -> None:
        box = world.create("q", transactional=True, journaling=journaling)
        fill(world, box, b"1", b"2")
        working = world.begin()
        box.receive(transaction=working)
        box.move(box.peek(), box.subqueue("s"), working)
        box.delete()
        assert world.removed() == [MessageClass.NACK_Q_DELETED] * 2
        if ending == "kill":
            world.kill()
        else:
            getattr(world, ending)(working)
            assert world.removed() == []
        assert world.discarded() == [MessageClass.NACK_Q_DELETED] * 2
        assert world.total_bytes == 0


class TestTransactionalOperation:
    """3.1.1.13."""

    @pytest.mark.conformance("DMPR-106")
    def test_every_kind_is_the_same_after_a_restart(self, world: World, orders: Box) -> None:
        fill(world, orders, b"0", b"1", b"2")
        retry, working = orders.subqueue("retry"), world.begin()
        orders.send(b"3", transaction=working)
        rejected, received = orders.receive(transaction=working), orders.receive(transaction=working)
        opened = orders.receiving
        world.run(lambda: world.engine.reading.reject_at_commit(opened, rejected.lookup_id))
        moved = orders.peek()
        orders.move(moved, retry, working)
        target = retry.state
        world.prepare(working)
        world.kill()
        (again,) = world.engine.transactions.in_doubt()
        kept = [
            (each.kind.name, each.queue.slot, each.lookup_id, each.target and each.target.slot, each.reason)
            for each in again.operations
        ]
        accepted, refusal = MessageClass.ACK_RECEIVE, MessageClass.NACK_RECEIVE_REJECTED
        slot = orders.state.slot
        assert kept == [
            ("ENQUEUE", slot, 0, None, accepted),
            ("DEQUEUE", slot, rejected.lookup_id, None, refusal),
            ("DEQUEUE", slot, received.lookup_id, None, accepted),
            ("MOVE", slot, moved.lookup_id, target.slot, accepted),
        ]
        world.commit(again)
        assert (orders.bodies(), retry.bodies()) == ([b"3"], [b"2"])
        assert world.discarded() == [refusal]

    @pytest.mark.conformance("DMPR-106")
    def test_a_move_needs_a_target(self, world: World, orders: Box) -> None:
        fill(world, orders, b"1")
        message, source, working = orders.peek(), orders.receiving, world.begin()
        goal = orders.subqueue("retry").open(QueueAccess.MOVE)
        world.run(lambda: world.engine.opening.close(goal))  # and with it the subqueue is gone
        with pytest.raises(MqError):
            world.run(lambda: world.engine.moving.move(source, message.lookup_id, goal, working))
        assert working.operations == []
        assert orders.bodies() == [b"1"], "nothing holds the message"


def test_an_open_transaction_keeps_the_room_for_its_messages() -> None:
    """Its commit must not find the store full with messages that were sent after its own."""
    world = World(store=MemoryStore(max_bytes=300_000))
    orders, plain = world.create("orders", transactional=True), world.create("plain")
    sending = world.begin()
    orders.send(bytes(100_000), transaction=sending)
    with pytest.raises(StoreFullError):
        plain.send(bytes(160_000))
    world.commit(sending)
    assert orders.state.count == 1
