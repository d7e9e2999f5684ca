"""receiving(), consume(), cursors, lookup ids, subqueues, purge."""

# ruff: noqa: PT012  # what a block does before it raises is what is tested

import gc
from contextlib import nullcontext

import pytest

import tiercel

from .support import bodies, fill

Seek = tiercel.MessageSeekAction


class MistakeError(Exception):
    """What an application raises."""


class TestReceiving:
    def test_takes_the_message_when_the_block_ends_well(self, queue: tiercel.EmbeddedQueue) -> None:
        fill(queue, b"1", b"2")
        with queue.receiving(0) as message:
            assert message.body == b"1"
            assert bodies(queue) == [b"2"]
        assert bodies(queue) == [b"2"]

    @pytest.mark.parametrize("error", [MistakeError, KeyboardInterrupt])
    def test_gives_it_back_when_the_block_raises(
        self, queue: tiercel.EmbeddedQueue, error: type[BaseException]
    ) -> None:
        fill(queue, b"1", b"2")
        with pytest.raises(error), queue.receiving(0):
            raise error
        assert bodies(queue) == [b"1", b"2"]
        assert queue.peek(0).abort_count == 1

    def test_nothing_there(self, queue: tiercel.EmbeddedQueue) -> None:
        with pytest.raises(tiercel.IoTimeoutError), queue.receiving(0):
            pass

    def test_several_at_once_ended_in_any_order(self, queue: tiercel.EmbeddedQueue) -> None:
        fill(queue, b"1", b"2", b"3")
        with queue.receiving(0) as one:
            with pytest.raises(MistakeError), queue.receiving(0) as two:
                assert (one.body, two.body) == (b"1", b"2")
                raise MistakeError
            assert bodies(queue) == [b"2", b"3"]
        assert bodies(queue) == [b"2", b"3"]

    def test_the_queue_is_closed_inside(self, queue: tiercel.EmbeddedQueue) -> None:
        fill(queue, b"1")
        with pytest.raises(tiercel.InvalidHandleError, match="closed"), queue.receiving(0):
            queue.close()
        assert bodies(queue) == [b"1"]

    def test_the_queue_is_closed_and_used_again_inside(self, queue: tiercel.EmbeddedQueue) -> None:
        fill(queue, b"1", b"2")
        with pytest.raises(tiercel.InvalidHandleError), queue.receiving(0):
            queue.close()
            assert queue.receive(0).body == b"1"
        assert bodies(queue) == [b"2"]

    def test_an_error_in_the_block_is_not_hidden_when_the_queue_was_deleted(
        self, queue: tiercel.EmbeddedQueue
    ) -> None:
        fill(queue, b"1")
        with pytest.raises(MistakeError), queue.receiving(0):
            queue.delete()
            raise MistakeError

    def test_from_a_transactional_queue(
        self, qm: tiercel.EmbeddedQueueManager, transactional: tiercel.EmbeddedQueue
    ) -> None:
        with qm.transaction() as tx:
            transactional.send(b"x", transaction=tx)
        with transactional.receiving(0) as message:
            assert message.body == b"x"
        assert transactional.count == 0


class TestConsuming:
    def test_takes_each_message_when_the_next_is_asked_for(self, queue: tiercel.EmbeddedQueue) -> None:
        fill(queue, b"1", b"2", b"3")
        messages = queue.consume(timeout=0)
        assert next(messages).body == b"1"
        assert queue.count == 3
        assert next(messages).body == b"2"
        assert (queue.count, bodies(queue)) == (2, [b"3"])
        assert [message.body for message in messages] == [b"3"]
        assert queue.count == 0

    @pytest.mark.parametrize("error", [None, MistakeError])
    def test_gives_back_what_is_in_hand_when_it_is_left(
        self, queue: tiercel.EmbeddedQueue, error: type[Exception] | None
    ) -> None:
        def leave() -> None:
            for message in queue.consume():
                if message.body == b"2":
                    if error is not None:
                        raise error
                    break

        fill(queue, b"1", b"2", b"3")
        with nullcontext() if error is None else pytest.raises(error):
            leave()
        assert bodies(queue) == [b"2", b"3"]

    def test_ends_after_the_one_that_is_said_to_be_the_last(self, queue: tiercel.EmbeddedQueue) -> None:
        fill(queue, b"1", b"2", b"3")
        taken = [message.body for message in queue.consume(until=lambda message: message.body == b"2")]
        assert (taken, bodies(queue)) == ([b"1", b"2"], [b"3"])


class TestCursors:
    def test_see_every_message_once(self, queue: tiercel.EmbeddedQueue) -> None:
        fill(queue, b"1", b"2", b"3")
        cursor = queue.cursor()
        assert [message.body for message in cursor] == [b"1", b"2", b"3"]
        assert queue.count == 3

    def test_of_an_empty_queue(self, queue: tiercel.EmbeddedQueue) -> None:
        assert list(queue.cursor()) == []

    def test_step_by_step(self, queue: tiercel.EmbeddedQueue) -> None:
        fill(queue, b"1", b"2")
        cursor = queue.cursor()
        assert cursor.peek().body == cursor.peek().body == b"1"
        assert cursor.peek_next().body == b"2"
        with pytest.raises(tiercel.IoTimeoutError):
            cursor.peek_next()

    def test_receive_takes_the_one_under_it_and_goes_on(self, queue: tiercel.EmbeddedQueue) -> None:
        fill(queue, b"1", b"2", b"3")
        cursor = queue.cursor()
        cursor.peek()
        cursor.peek_next()
        assert cursor.receive().body == b"2"
        assert cursor.peek().body == b"3"
        assert bodies(queue) == [b"1", b"3"]

    def test_see_what_arrives_behind_them(self, queue: tiercel.EmbeddedQueue) -> None:
        fill(queue, b"1")
        cursor = queue.cursor()
        cursor.peek()
        queue.send(b"2")
        assert cursor.peek_next().body == b"2"

    def test_the_message_under_it_is_taken_by_another(self, queue: tiercel.EmbeddedQueue) -> None:
        fill(queue, b"1", b"2")
        cursor = queue.cursor()
        cursor.peek()
        queue.receive(0)
        with pytest.raises(tiercel.MessageAlreadyReceivedError):
            cursor.peek()
        assert cursor.peek_next().body == b"2"

    def test_taking_while_iterating(self, queue: tiercel.EmbeddedQueue) -> None:
        fill(queue, b"1", b"2", b"3", b"4")
        for message in queue.cursor():
            if message.body in {b"2", b"4"}:
                queue.receive(lookup_id=message.lookup_id)
        assert bodies(queue) == [b"1", b"3"]

    def test_two_do_not_disturb_each_other(self, queue: tiercel.EmbeddedQueue) -> None:
        fill(queue, b"1", b"2")
        one, two = queue.cursor(), queue.cursor()
        assert [one.peek().body, two.peek().body, one.peek_next().body] == [b"1", b"1", b"2"]
        assert two.peek().body == b"1"

    def test_in_a_transaction(
        self, qm: tiercel.EmbeddedQueueManager, transactional: tiercel.EmbeddedQueue
    ) -> None:
        with qm.transaction() as tx:
            for body in (b"1", b"2"):
                transactional.send(body, transaction=tx)
        with qm.transaction() as tx:
            cursor = transactional.cursor()
            cursor.peek()
            cursor.peek_next()
            assert cursor.receive(transaction=tx).body == b"2"
        assert bodies(transactional) == [b"1"]

    def test_nothing_there(self, queue: tiercel.EmbeddedQueue) -> None:
        with pytest.raises(tiercel.IoTimeoutError):
            queue.cursor().peek()
        with pytest.raises(tiercel.MessageNotFoundError, match="where the cursor stands"):
            queue.cursor().receive()

    def test_closed_ones(self, queue: tiercel.EmbeddedQueue) -> None:
        cursor = queue.cursor()
        cursor.close()
        cursor.close()
        for call in (cursor.peek, cursor.peek_next, cursor.receive, lambda: list(cursor)):
            with pytest.raises(tiercel.InvalidHandleError, match="closed"):
                call()


class TestLookupIds:
    @pytest.mark.parametrize("peek", [True, False])
    @pytest.mark.parametrize(
        ("seek", "found"),
        [
            (Seek.SEEK_FIRST, b"1"),
            (Seek.SEEK_PREVIOUS, b"2"),
            (Seek.SEEK_CURRENT, b"3"),
            (Seek.SEEK_NEXT, b"4"),
            (Seek.SEEK_LAST, b"5"),
        ],
    )
    def test_every_seek(self, queue: tiercel.EmbeddedQueue, seek: Seek, found: bytes, peek: bool) -> None:
        third = fill(queue, b"1", b"2", b"3", b"4", b"5")[2].lookup_id
        read = queue.peek if peek else queue.receive
        assert read(lookup_id=third, seek=seek).body == found
        assert queue.count == (5 if peek else 4)
        assert (found in bodies(queue)) is peek

    @pytest.mark.parametrize(
        ("index", "seek"), [(0, Seek.SEEK_PREVIOUS), (-1, Seek.SEEK_NEXT)], ids=["first", "last"]
    )
    def test_beyond_the_ends(self, queue: tiercel.EmbeddedQueue, index: int, seek: Seek) -> None:
        lookup_id = fill(queue, b"1", b"2")[index].lookup_id
        with pytest.raises(tiercel.MessageNotFoundError):
            queue.peek(lookup_id=lookup_id, seek=seek)

    def test_a_message_that_is_gone(self, queue: tiercel.EmbeddedQueue) -> None:
        second = fill(queue, b"1", b"2", b"3")[1].lookup_id
        queue.receive(lookup_id=second)
        for seek in (Seek.SEEK_CURRENT, Seek.SEEK_NEXT, Seek.SEEK_PREVIOUS):
            with pytest.raises(tiercel.MessageNotFoundError, match=str(second)):
                queue.receive(lookup_id=second, seek=seek)
        assert bodies(queue) == [b"1", b"3"]

    @pytest.mark.parametrize("peek", [True, False])
    def test_the_ends_need_none(self, queue: tiercel.EmbeddedQueue, peek: bool) -> None:
        fill(queue, b"1", b"2", b"3")
        read = queue.peek if peek else queue.receive
        assert read(0, seek=Seek.SEEK_LAST).body == b"3"
        assert read(0, seek=Seek.SEEK_FIRST).body == b"1"

    @pytest.mark.parametrize("seek", [Seek.SEEK_NEXT, Seek.SEEK_PREVIOUS])
    def test_the_others_do(self, queue: tiercel.EmbeddedQueue, seek: Seek) -> None:
        fill(queue, b"1")
        with pytest.raises(tiercel.InvalidParameterError, match="lookup_id"):
            queue.receive(0, seek=seek)
        assert bodies(queue) == [b"1"]

    def test_follow_priorities(self, queue: tiercel.EmbeddedQueue) -> None:
        for priority in (1, 5):
            queue.send(tiercel.Message(b"%d" % priority, priority=priority))
        first = queue.peek(0)
        assert first.body == b"5"
        assert queue.peek(lookup_id=first.lookup_id, seek=Seek.SEEK_NEXT).body == b"1"


class TestSubqueues:
    def test_there_and_back(self, queue: tiercel.EmbeddedQueue) -> None:
        message, _ = fill(queue, b"1", b"2")
        queue.move(message, "retry")
        retry = queue.subqueue("retry")
        moved = retry.peek(0)
        assert (moved.body, moved.move_count, moved.id) == (b"1", 1, message.id)
        assert (retry.count, bodies(queue)) == (1, [b"2"])
        retry.move(moved, None)
        assert sorted(bodies(queue)) == [b"1", b"2"]
        assert bodies(retry) == []

    def test_from_one_to_another_by_lookup_id(self, queue: tiercel.EmbeddedQueue) -> None:
        [message] = fill(queue, b"1")
        queue.move(message.lookup_id, "a")
        queue.subqueue("a").move(queue.subqueue("a").peek(0).lookup_id, "b")
        assert queue.subqueue("b").receive(0).body == b"1"

    def test_of_a_queue_that_was_opened_by_its_number(
        self, qm: tiercel.EmbeddedQueueManager, queue: tiercel.EmbeddedQueue
    ) -> None:
        engine = qm.driver.engine
        number = engine.queues.get(queue.format_name).queue.private_queue_number
        by_number = qm.queue(f"PRIVATE={engine.queue_manager.identifier}\\{number:08x}")
        [message] = fill(by_number, b"1")
        by_number.move(message, "retry")
        assert by_number.subqueue("retry").receive(0).body == b"1"
        assert by_number.journal.count == 0

    def test_are_no_queues_of_their_own_in_the_list(
        self, qm: tiercel.EmbeddedQueueManager, queue: tiercel.EmbeddedQueue
    ) -> None:
        queue.move(fill(queue, b"1")[0], "retry")
        assert [each.path_name for each in qm.queues()] == [queue.path_name]

    def test_go_with_their_queue(
        self, qm: tiercel.EmbeddedQueueManager, queue: tiercel.EmbeddedQueue
    ) -> None:
        queue.move(fill(queue, b"1")[0], "retry")
        queue.delete()
        assert len(qm.discards()) == 1

    def test_a_move_that_fails_makes_none(self, queue: tiercel.EmbeddedQueue) -> None:
        with pytest.raises(tiercel.MessageNotFoundError):
            queue.move(12345, "retry")
        state = queue.driver.engine.queues.get(queue.format_name)
        assert not state.subqueues

    def test_to_where_it_is_already(self, queue: tiercel.EmbeddedQueue) -> None:
        [message] = fill(queue, b"1")
        with pytest.raises(tiercel.UnsupportedOperationError):
            queue.move(message, None)
        assert bodies(queue) == [b"1"]

    def test_what_somebody_holds_does_not_move(self, queue: tiercel.EmbeddedQueue) -> None:
        fill(queue, b"1")
        with queue.receiving(0) as message, pytest.raises(tiercel.MessageNotFoundError):
            queue.move(message, "retry")

    @pytest.mark.parametrize("name", ["JOURNAL", "journal", "Journal"])
    def test_the_journal_is_none(self, queue: tiercel.EmbeddedQueue, name: str) -> None:
        [message] = fill(queue, b"1")
        with pytest.raises(tiercel.IllegalQueuePathNameError):
            queue.move(message, name)
        with pytest.raises(tiercel.IllegalQueuePathNameError):
            queue.subqueue(name)
        assert bodies(queue) == [b"1"]


class TestPurge:
    def test_ends_every_message(self, qm: tiercel.EmbeddedQueueManager, queue: tiercel.EmbeddedQueue) -> None:
        fill(queue, *[b"%d" % number for number in range(20)])
        assert queue.purge() == 20
        assert (queue.count, queue.size_bytes, queue.purge()) == (0, 0, 0)
        assert len(qm.discards()) == 20

    def test_inside_receiving_counts_a_message_once(
        self, qm: tiercel.EmbeddedQueueManager, queue: tiercel.EmbeddedQueue
    ) -> None:
        fill(queue, b"1", b"2")
        with queue.receiving(0):
            assert queue.purge() == 1
        assert queue.count == 0
        assert len(qm.discards()) == 1  # "1" was received, only "2" was purged


class TestForgottenHandles:
    """Who asks for the queue again for every message must not pay more and more for it."""

    def test_of_queues(self, qm: tiercel.EmbeddedQueueManager, queue: tiercel.EmbeddedQueue) -> None:
        for _ in range(200):
            qm.queue(queue.path_name).send(b"x")
            qm.queue(queue.path_name).receive(0)
            with pytest.raises(tiercel.IoTimeoutError):
                queue.subqueue("retry").receive(0)
        gc.collect()
        queue.send(b"x")
        state = queue.driver.engine.queues.get(queue.format_name)
        assert len(state.handles) < 20
        assert sum(len(each.handles) for each in state.subqueues.values()) < 20

    def test_of_cursors(self, queue: tiercel.EmbeddedQueue) -> None:
        queue.send(b"x")
        for _ in range(200):
            assert len(list(queue.cursor())) == 1
        gc.collect()
        queue.send(b"x")
        state = queue.driver.engine.queues.get(queue.format_name)
        assert sum(len(opened.cursors) for opened in state.handles.values()) < 20
