"""Reads that wait, with real threads."""

# what a block does before it raises is what is tested

import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import FrameType

import pytest

import tiercel

from .support import PATIENCE_S, RECOVERABLE, Running, bodies, fill, wait_until, waiting, waiting_on

FAR = [float("inf"), 1e308, 2**40, 2**64]


class TestTimeouts:
    def test_a_time_out_passes_and_no_more(self, queue: tiercel.EmbeddedQueue) -> None:
        start = time.monotonic()
        with pytest.raises(tiercel.IoTimeoutError):
            queue.receive(0.1)
        assert time.monotonic() - start > 0.09
        assert waiting_on(queue) == 0

    @pytest.mark.parametrize("method", ["receive", "peek"])
    def test_a_message_ends_the_wait(self, queue: tiercel.EmbeddedQueue, method: str) -> None:
        running = waiting(queue, lambda: getattr(queue, method)(PATIENCE_S))
        queue.send(b"x")
        assert running.result().body == b"x"
        assert queue.count == (method == "peek")

    @pytest.mark.parametrize("timeout", [None, *FAR])
    def test_waits_for_ever(self, queue: tiercel.EmbeddedQueue, timeout: float | None) -> None:
        running = waiting(queue, lambda: queue.receive(timeout))
        assert running.is_waiting
        queue.send(b"x")
        assert running.result().body == b"x"

    def test_the_first_to_end_is_the_first_to_time_out(self, queue: tiercel.EmbeddedQueue) -> None:
        slow = waiting(queue, lambda: queue.receive(PATIENCE_S))
        quick = waiting(queue, lambda: queue.receive(0.05), readers=2)
        with pytest.raises(tiercel.IoTimeoutError):
            quick.result()
        queue.send(b"x")
        assert slow.result().body == b"x"

    def test_an_expiry_is_noticed_by_who_waits_for_dead_letters(
        self, qm: tiercel.EmbeddedQueueManager, queue: tiercel.EmbeddedQueue
    ) -> None:
        dead = qm.dead_letters
        running = waiting(dead, lambda: dead.receive(PATIENCE_S))
        queue.send(tiercel.Message(b"late", time_to_be_received=1, negative_journaling=True))
        assert running.result().body == b"late"


class TestHandOff:
    def test_receivers_are_served_in_the_order_of_their_coming(self, queue: tiercel.EmbeddedQueue) -> None:
        readers = [
            waiting(queue, lambda: queue.receive(PATIENCE_S).body, readers=count) for count in range(1, 6)
        ]
        for number in range(5):
            queue.send(b"%d" % number)
        assert [reader.result() for reader in readers] == [b"0", b"1", b"2", b"3", b"4"]

    def test_a_peek_and_a_receive_get_the_same_message(self, queue: tiercel.EmbeddedQueue) -> None:
        peeking = waiting(queue, lambda: queue.peek(PATIENCE_S))
        receiving = waiting(queue, lambda: queue.receive(PATIENCE_S), readers=2)
        queue.send(b"x")
        assert peeking.result().id == receiving.result().id
        assert queue.count == 0

    def test_a_commit_wakes_and_an_uncommitted_send_does_not(
        self, qm: tiercel.EmbeddedQueueManager, transactional: tiercel.EmbeddedQueue
    ) -> None:
        running = waiting(transactional, lambda: transactional.receive(PATIENCE_S))
        with qm.transaction() as tx:
            transactional.send(b"x", transaction=tx)
            assert running.is_waiting
        assert running.result().body == b"x"

    def test_an_abort_wakes_who_waits_for_what_it_gives_back(
        self, qm: tiercel.EmbeddedQueueManager, transactional: tiercel.EmbeddedQueue
    ) -> None:
        with qm.transaction() as tx:
            transactional.send(b"x", transaction=tx)
        tx = qm.begin_transaction()
        transactional.receive(0, transaction=tx)
        running = waiting(transactional, lambda: transactional.receive(PATIENCE_S))
        tx.abort()
        assert running.result().body == b"x"

    def test_waiting_in_a_transaction(
        self, qm: tiercel.EmbeddedQueueManager, transactional: tiercel.EmbeddedQueue
    ) -> None:
        tx = qm.begin_transaction()
        running = waiting(transactional, lambda: transactional.receive(PATIENCE_S, transaction=tx))
        with qm.transaction() as sending:
            transactional.send(b"x", transaction=sending)
        assert running.result().body == b"x"
        tx.abort()
        assert bodies(transactional) == [b"x"]

    def test_a_message_moved_into_a_subqueue_wakes_its_reader(self, queue: tiercel.EmbeddedQueue) -> None:
        retry = queue.subqueue("retry")
        running = waiting(retry, lambda: retry.receive(PATIENCE_S))
        [message] = fill(queue, b"x")
        queue.move(message, "retry")
        assert running.result().body == b"x"

    @pytest.mark.parametrize("delivery", [0, RECOVERABLE])
    def test_many_senders_and_receivers_each_message_once(
        self, queue: tiercel.EmbeddedQueue, delivery: int
    ) -> None:
        senders, receivers, each = 4, 6, 60 if delivery else 300
        total = senders * each
        taken: list[bytes] = []

        def receive() -> list[bytes]:
            mine = []
            while (body := queue.receive(PATIENCE_S).body) != b"end":
                mine.append(body)
            return mine

        def send(sender: int) -> None:
            for number in range(each):
                body = b"%d %d" % (sender, number)
                queue.send(tiercel.Message(body, delivery=delivery))

        readers = [Running(receive) for _ in range(receivers)]
        writers = [Running(partial(send, sender)) for sender in range(senders)]
        for writer in writers:
            writer.result()
        for _ in readers:
            queue.send(tiercel.Message(b"end", priority=0))
        for reader in readers:
            mine = reader.result()
            for sender in range(senders):  # one sender's messages come in order to each reader
                numbers = [int(body.split()[1]) for body in mine if body.startswith(b"%d " % sender)]
                assert numbers == sorted(numbers)
            taken += mine
        counted = Counter(taken)
        assert len(counted) == len(taken) == total
        assert queue.count == 0


class TestEndOfAWait:
    def test_closing_the_queue_manager(
        self, qm: tiercel.EmbeddedQueueManager, queue: tiercel.EmbeddedQueue
    ) -> None:
        readers = [waiting(queue, lambda: queue.receive(None), readers=count) for count in (1, 2, 3)]
        readers.append(waiting(queue, lambda: queue.peek(None), readers=4))
        qm.close()
        for reader in readers:
            with pytest.raises((tiercel.OperationCancelledError, tiercel.ServiceNotAvailableError)):
                reader.result()

    def test_closing_the_queue(self, queue: tiercel.EmbeddedQueue) -> None:
        running = waiting(queue, lambda: queue.receive(None))
        queue.close()
        with pytest.raises(tiercel.OperationCancelledError):
            running.result()
        queue.send(b"x")
        assert queue.receive(0).body == b"x"

    def test_closing_one_handle_leaves_the_waits_of_another(
        self, qm: tiercel.EmbeddedQueueManager, queue: tiercel.EmbeddedQueue
    ) -> None:
        other = qm.queue(queue.path_name)
        running = waiting(queue, lambda: queue.receive(PATIENCE_S))
        with pytest.raises(tiercel.IoTimeoutError):
            other.receive(0)
        other.close()
        assert running.is_waiting
        queue.send(b"x")
        assert running.result().body == b"x"

    def test_deleting_the_queue(self, queue: tiercel.EmbeddedQueue) -> None:
        running = waiting(queue, lambda: queue.receive(None))
        queue.delete()
        with pytest.raises(tiercel.QueueDeletedError):
            running.result()

    def test_closing_a_cursor(self, queue: tiercel.EmbeddedQueue) -> None:
        cursor = queue.cursor()
        running = waiting(queue, lambda: cursor.peek(None))
        cursor.close()
        with pytest.raises(tiercel.OperationCancelledError):
            running.result()

    def test_using_a_cursor_with_which_another_call_waits(self, queue: tiercel.EmbeddedQueue) -> None:
        cursor = queue.cursor()
        running = waiting(queue, lambda: cursor.peek(PATIENCE_S))
        with pytest.raises(tiercel.IllegalCursorActionError, match="another call waits"):
            cursor.peek(0)
        queue.send(b"x")
        assert running.result().body == b"x"

    @pytest.mark.parametrize("method", ["receive", "peek"])
    def test_an_interrupt_loses_no_message(self, queue: tiercel.EmbeddedQueue, method: str) -> None:
        class InterruptedByUser(BaseException):
            pass

        main, came = threading.get_ident(), threading.Event()

        def interrupt(_number: int, _frame: FrameType | None) -> None:
            came.set()
            raise InterruptedByUser

        def interrupt_the_wait() -> None:
            wait_until(lambda: waiting_on(queue) == 1 and is_asleep(main, queue))
            while not came.is_set():  # Python may overlook a signal that comes just before it falls asleep
                signal.pthread_kill(main, signal.SIGALRM)
                came.wait(1)

        before = signal.signal(signal.SIGALRM, interrupt)
        try:
            with pytest.raises(InterruptedByUser):
                read_meanwhile(getattr(queue, method), interrupt_the_wait)
        finally:
            signal.signal(signal.SIGALRM, before)
        assert waiting_on(queue) == 0
        queue.send(b"x")
        assert queue.receive(0).body == b"x"


def is_asleep(thread: int, queue: tiercel.EmbeddedQueue) -> bool:
    """Whether it waits for a message, and has let go of the queue manager."""
    if sys._current_frames()[thread].f_code is not threading.Condition.wait.__code__:
        return False
    if is_free := queue.driver.lock.acquire(blocking=False):
        queue.driver.lock.release()
    return is_free


def read_meanwhile(read: Callable[[float], tiercel.Message], act: Callable[[], None]) -> None:
    acting = Running(act)
    try:
        read(PATIENCE_S)
    finally:
        acting.result()


class TestBatch:
    def test_a_wait_inside_is_refused_and_leaves_nothing(
        self, qm: tiercel.EmbeddedQueueManager, queue: tiercel.EmbeddedQueue
    ) -> None:
        with qm.batch(), pytest.raises(tiercel.IllegalOperationError, match="timeout=0"):
            queue.receive(5)
        assert waiting_on(queue) == 0
        queue.send(b"x")
        assert queue.receive(0).body == b"x"

    def test_those_who_wait_are_served_when_it_ends(
        self, qm: tiercel.EmbeddedQueueManager, queue: tiercel.EmbeddedQueue
    ) -> None:
        running = waiting(queue, lambda: queue.receive(PATIENCE_S))
        with qm.batch():
            queue.send(b"x")
            assert running.is_waiting
        assert running.result().body == b"x"

    def test_another_thread_works_when_it_ends(
        self, qm: tiercel.EmbeddedQueueManager, queue: tiercel.EmbeddedQueue
    ) -> None:
        began, go_on = threading.Event(), threading.Event()

        def batch() -> None:
            with qm.batch():
                queue.send(b"1")
                began.set()
                go_on.wait(PATIENCE_S)
                queue.send(b"2")

        batching = Running(batch)
        assert began.wait(PATIENCE_S)
        sending = Running(lambda: queue.send(b"3"))
        go_on.set()
        batching.result()
        sending.result()
        assert bodies(queue) == [b"1", b"2", b"3"]


def test_two_queue_managers_in_one_process(tmp_path: Path) -> None:
    with tiercel.open(tmp_path / "one") as one, tiercel.open(tmp_path / "two") as two:
        mine, yours = one.create_queue(r".\private$\q"), two.create_queue(r".\private$\q")
        running = waiting(yours, lambda: yours.receive(PATIENCE_S))
        mine.send(b"mine")
        assert running.is_waiting
        yours.send(b"yours")
        assert running.result().body == b"yours"
        wait_until(lambda: mine.count == 1)


def test_closing_while_many_threads_work(directory: Path) -> None:
    qm = tiercel.open(directory)
    queue = qm.create_queue(r".\private$\q")
    transactional = qm.create_queue(r".\private$\t", transactional=True)

    def in_transaction() -> None:
        with qm.transaction() as tx:
            transactional.send(b"x", transaction=tx)

    def in_two_steps() -> None:
        with queue.receiving(0.001):
            pass

    calls: list[Callable[[], object]] = [
        lambda: queue.send(b"x"),
        lambda: queue.receive(0.001),
        lambda: queue.peek(0.001),
        lambda: bodies(queue),
        lambda: [each.count for each in qm.queues()],
        in_transaction,
        in_two_steps,
    ]

    def work(call: Callable[[], object]) -> None:
        while True:
            with suppress(tiercel.IoTimeoutError):
                call()

    workers = [Running(partial(work, call)) for call in calls]
    time.sleep(0.2)
    qm.close()
    for worker in workers:
        with pytest.raises(
            (tiercel.ServiceNotAvailableError, tiercel.OperationCancelledError, tiercel.InvalidHandleError)
        ):
            worker.result()
