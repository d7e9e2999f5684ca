# ruff: noqa: PT012  # what a block does before it raises is what is tested

from pathlib import Path

import pytest

import tiercel

from .conftest import ORDERS
from .support import bodies


class MistakeError(Exception):
    """What an application raises."""


def send(qm: tiercel.EmbeddedQueueManager, queue: tiercel.EmbeddedQueue, *texts: bytes) -> None:
    with qm.transaction() as tx:
        for text in texts:
            queue.send(text, transaction=tx)


class TestCommit:
    def test_shows_nothing_before(
        self, qm: tiercel.EmbeddedQueueManager, transactional: tiercel.EmbeddedQueue
    ) -> None:
        with qm.transaction() as tx:
            transactional.send(b"x", transaction=tx)
            assert transactional.count == 0
            with pytest.raises(tiercel.IoTimeoutError):
                transactional.receive(0)
        assert transactional.count == 1

    def test_is_durable(self, directory: Path) -> None:
        with tiercel.open(directory) as qm:
            send(qm, qm.create_queue(ORDERS, transactional=True), b"1", b"2")
        with tiercel.open(directory) as qm:
            assert bodies(qm.queue(ORDERS)) == [b"1", b"2"]

    def test_over_several_queues(
        self, qm: tiercel.EmbeddedQueueManager, transactional: tiercel.EmbeddedQueue
    ) -> None:
        shipping = qm.create_queue(r".\private$\shipping", transactional=True)
        send(qm, transactional, b"order")
        with qm.transaction() as tx:
            order = transactional.receive(0, transaction=tx)
            shipping.send(b"ship " + order.body, transaction=tx)
        assert (transactional.count, bodies(shipping)) == (0, [b"ship order"])

    def test_by_hand(self, qm: tiercel.EmbeddedQueueManager, transactional: tiercel.EmbeddedQueue) -> None:
        tx = qm.begin_transaction()
        transactional.send(b"x", transaction=tx)
        assert tx.is_active
        tx.commit()
        assert not tx.is_active
        assert bodies(transactional) == [b"x"]

    def test_inside_the_block_ends_it(
        self, qm: tiercel.EmbeddedQueueManager, transactional: tiercel.EmbeddedQueue
    ) -> None:
        with qm.transaction() as tx:
            transactional.send(b"x", transaction=tx)
            tx.commit()
            assert transactional.count == 1
        assert transactional.count == 1

    def test_of_nothing(self, qm: tiercel.EmbeddedQueueManager) -> None:
        with qm.transaction() as tx:
            pass
        assert not tx.is_active


class TestAbort:
    @pytest.mark.parametrize("error", [MistakeError, KeyboardInterrupt, SystemExit, GeneratorExit])
    def test_when_the_block_raises(
        self,
        qm: tiercel.EmbeddedQueueManager,
        transactional: tiercel.EmbeddedQueue,
        error: type[BaseException],
    ) -> None:
        send(qm, transactional, b"stays")
        with pytest.raises(error), qm.transaction() as tx:
            transactional.send(b"never", transaction=tx)
            transactional.receive(0, transaction=tx)
            raise error
        assert not tx.is_active
        assert bodies(transactional) == [b"stays"]

    def test_counts_and_keeps_the_place(
        self, qm: tiercel.EmbeddedQueueManager, transactional: tiercel.EmbeddedQueue
    ) -> None:
        send(qm, transactional, b"1", b"2", b"3")
        for _ in range(3):
            tx = qm.begin_transaction()
            assert transactional.receive(0, transaction=tx).body == b"1"
            tx.abort()
        assert bodies(transactional) == [b"1", b"2", b"3"]
        assert [message.abort_count for message in transactional.cursor()] == [3, 0, 0]

    def test_by_hand_inside_the_block(
        self, qm: tiercel.EmbeddedQueueManager, transactional: tiercel.EmbeddedQueue
    ) -> None:
        with qm.transaction() as tx:
            transactional.send(b"x", transaction=tx)
            tx.abort()
        assert transactional.count == 0

    def test_when_the_queue_manager_closes(self, directory: Path) -> None:
        with tiercel.open(directory) as qm:
            queue = qm.create_queue(ORDERS, transactional=True)
            send(qm, queue, b"stays")
            tx = qm.begin_transaction()
            queue.receive(0, transaction=tx)
            queue.send(b"never", transaction=tx)
        with tiercel.open(directory) as qm:
            assert bodies(qm.queue(ORDERS)) == [b"stays"]

    def test_gives_the_quota_back(
        self, qm: tiercel.EmbeddedQueueManager, transactional: tiercel.EmbeddedQueue
    ) -> None:
        transactional.set_properties(quota_kib=2)
        for _ in range(5):
            with pytest.raises(MistakeError), qm.transaction() as tx:
                transactional.send(bytes(1200), transaction=tx)
                raise MistakeError
        send(qm, transactional, bytes(1200))

    def test_does_not_hide_the_error_when_the_queue_manager_was_closed(self, directory: Path) -> None:
        qm = tiercel.open(directory)
        with pytest.raises(MistakeError), qm.transaction():
            qm.close()
            raise MistakeError


class TestIsolation:
    def test_what_one_has_taken_another_does_not_see(
        self, qm: tiercel.EmbeddedQueueManager, transactional: tiercel.EmbeddedQueue
    ) -> None:
        send(qm, transactional, b"1", b"2")
        with qm.transaction() as one, qm.transaction() as two:
            assert transactional.receive(0, transaction=one).body == b"1"
            assert transactional.receive(0, transaction=two).body == b"2"
            with pytest.raises(tiercel.IoTimeoutError):
                transactional.peek(0)

    def test_nested_ones_are_separate(
        self, qm: tiercel.EmbeddedQueueManager, transactional: tiercel.EmbeddedQueue
    ) -> None:
        with qm.transaction() as outer:
            transactional.send(b"outer", transaction=outer)
            with pytest.raises(MistakeError), qm.transaction() as inner:
                transactional.send(b"inner", transaction=inner)
                raise MistakeError
            with qm.transaction() as second:
                transactional.send(b"second", transaction=second)
            assert bodies(transactional) == [b"second"]
        assert bodies(transactional) == [b"second", b"outer"]

    def test_reading_without_a_transaction_from_a_transactional_queue(
        self, qm: tiercel.EmbeddedQueueManager, transactional: tiercel.EmbeddedQueue
    ) -> None:
        send(qm, transactional, b"x")
        assert transactional.receive(0).body == b"x"


class TestMoveAndPurge:
    def test_a_move_happens_at_the_commit(
        self, qm: tiercel.EmbeddedQueueManager, transactional: tiercel.EmbeddedQueue
    ) -> None:
        send(qm, transactional, b"x")
        with qm.transaction() as tx:
            transactional.move(transactional.peek(0), "retry", transaction=tx)
            assert bodies(transactional) == []
        assert bodies(transactional.subqueue("retry")) == [b"x"]
        assert transactional.count == 0

    def test_a_move_that_is_aborted(
        self, qm: tiercel.EmbeddedQueueManager, transactional: tiercel.EmbeddedQueue
    ) -> None:
        send(qm, transactional, b"x")
        with pytest.raises(MistakeError), qm.transaction() as tx:
            transactional.move(transactional.peek(0), "retry", transaction=tx)
            raise MistakeError
        assert bodies(transactional) == [b"x"]
        assert transactional.peek(0).move_count == 0

    def test_purge_leaves_what_a_transaction_holds_to_it(
        self, qm: tiercel.EmbeddedQueueManager, transactional: tiercel.EmbeddedQueue
    ) -> None:
        send(qm, transactional, b"1", b"2")
        with qm.transaction() as tx:
            taken = transactional.receive(0, transaction=tx)
            assert transactional.purge() == 1
        assert taken.body == b"1"
        assert transactional.count == 0


class TestWrongUse:
    def test_after_the_end(
        self, qm: tiercel.EmbeddedQueueManager, transactional: tiercel.EmbeddedQueue
    ) -> None:
        send(qm, transactional, b"x")
        for end in (tiercel.EmbeddedTransaction.commit, tiercel.EmbeddedTransaction.abort):
            tx = qm.begin_transaction()
            end(tx)
            for call in (
                lambda tx=tx: transactional.send(b"y", transaction=tx),
                lambda tx=tx: transactional.receive(0, transaction=tx),
                lambda tx=tx: transactional.move(transactional.peek(0), "retry", transaction=tx),
                tx.commit,
                tx.abort,
            ):
                with pytest.raises(tiercel.TransactionSequenceError, match="ended"):
                    call()
        assert bodies(transactional) == [b"x"]

    def test_of_another_queue_manager(
        self, tmp_path: Path, qm: tiercel.EmbeddedQueueManager, transactional: tiercel.EmbeddedQueue
    ) -> None:
        send(qm, transactional, b"x")
        with tiercel.open(tmp_path / "other") as other:
            tx = other.begin_transaction()
            for call in (
                lambda: transactional.send(b"y", transaction=tx),
                lambda: transactional.receive(0, transaction=tx),
                lambda: transactional.cursor().receive(0, transaction=tx),
                lambda: transactional.receive(lookup_id=1, transaction=tx),
                lambda: transactional.move(transactional.peek(0), "retry", transaction=tx),
            ):
                with pytest.raises(tiercel.InvalidHandleError, match="another queue manager"):
                    call()
            assert tx.is_active
        assert bodies(transactional) == [b"x"]

    def test_on_a_queue_that_is_not_transactional(
        self, qm: tiercel.EmbeddedQueueManager, queue: tiercel.EmbeddedQueue
    ) -> None:
        queue.send(b"x")
        with qm.transaction() as tx:
            for call in (
                lambda: queue.send(b"y", transaction=tx),
                lambda: queue.receive(0, transaction=tx),
                lambda: queue.cursor().receive(0, transaction=tx),
                lambda: queue.receive(lookup_id=queue.peek(0).lookup_id, transaction=tx),
                lambda: queue.move(queue.peek(0), "retry", transaction=tx),
            ):
                with pytest.raises(tiercel.TransactionUsageError, match="transactional"):
                    call()
        assert bodies(queue) == [b"x"]

    def test_sending_without_one_to_a_transactional_queue(self, transactional: tiercel.EmbeddedQueue) -> None:
        with pytest.raises(tiercel.TransactionUsageError, match="in a transaction"):
            transactional.send(b"x")
        assert transactional.count == 0
