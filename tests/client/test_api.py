"""The library as issue 3 shows it, and what surrounds those lines."""

from pathlib import Path

import pytest

import tiercel

from .conftest import ORDERS
from .support import RECOVERABLE, bodies, fill


def test_the_code_of_the_issue(directory: Path) -> None:
    with tiercel.open(directory) as qm:
        orders = qm.create_queue(r".\private$\orders", transactional=True)
        with qm.transaction() as tx:
            orders.send(tiercel.Message(b"...", label="order 7", priority=3), transaction=tx)
        message = orders.receive(timeout=0)
        assert (message.body, message.label) == (b"...", "order 7")
        with pytest.raises(tiercel.IoTimeoutError):
            orders.receive(timeout=0)
        with qm.transaction() as tx:
            for body in (b"1", b"2", b"3"):
                orders.send(tiercel.Message(body), transaction=tx)
        first = orders.peek()
        assert orders.receive(lookup_id=first.lookup_id).body == b"1"
        assert [each.body for each in orders.cursor()] == [b"2", b"3"]
        orders.move(orders.peek(), "retry")
        assert orders.purge() == 1
        seen = [(queue.path_name, queue.count, queue.size_bytes) for queue in qm.queues()]
        assert [(path.partition("\\")[2], count) for path, count, _ in seen] == [(r"private$\orders", 0)]
        assert orders.subqueue("retry").receive(0).body == b"2"


class TestQueues:
    def test_a_hundred_are_listed_with_what_is_in_them(self, qm: tiercel.EmbeddedQueueManager) -> None:
        with qm.batch():
            for number in range(100):
                queue = qm.create_queue(rf".\private$\queue {number:02}", label=f"number {number}")
                for _ in range(number % 3):
                    queue.send(b"x")
        listed = qm.queues()
        assert [queue.path_name for queue in listed] == [rf"TEST\private$\queue {n:02}" for n in range(100)]
        assert [queue.count for queue in listed] == [number % 3 for number in range(100)]
        assert [bool(queue.size_bytes) for queue in listed] == [bool(number % 3) for number in range(100)]
        assert listed[42].label == "number 42"

    @pytest.mark.parametrize(
        "name",
        [
            r".\private$\orders",
            r"TEST\private$\orders",
            r"test\PRIVATE$\Orders",
            r"DIRECT=OS:.\private$\orders",
            r"direct=os:test\private$\orders",
            "orders",
            "ORDERS",
            r"private$\orders",
            r"FormatName:DIRECT=OS:.\private$\orders",
            r"formatname:direct=os:test\private$\orders",
        ],
    )
    def test_is_found_by_every_name_it_has(
        self, qm: tiercel.EmbeddedQueueManager, queue: tiercel.EmbeddedQueue, name: str
    ) -> None:
        queue.send(b"x")
        assert qm.queue(name).count == 1

    def test_short_names_make_and_find_queues(self, qm: tiercel.EmbeddedQueueManager) -> None:
        queue = qm.create_queue("invoices", journaling=True)
        assert qm.create_queue(r"FormatName:DIRECT=OS:.\private$\invoices", exist_ok=True).count == 0
        assert queue.path_name == r"TEST\private$\invoices"
        queue.send(b"1")
        queue.send(b"2")
        queue.move(queue.peek(0), "retry")
        assert qm.queue("invoices;retry").receive(0).body == b"1"
        qm.queue("invoices").receive(0)
        assert qm.queue("invoices;journal").count == 2
        assert qm.queue(";deadletter").format_name == qm.dead_letters.format_name
        consumer = qm.consumer("c")
        assert len(consumer.claim("invoices")) == 0
        qm.delete_queue("invoices")
        with pytest.raises(tiercel.QueueNotFoundError):
            qm.queue("invoices")

    def test_public_queues_too(self, qm: tiercel.EmbeddedQueueManager) -> None:
        qm.create_queue(r".\orders").send(b"x")
        assert qm.queue(r"TEST\orders").receive(0).body == b"x"

    def test_properties_are_set_and_kept(self, directory: Path) -> None:
        with tiercel.open(directory) as qm:
            queue = qm.create_queue(ORDERS, label="first", quota_kib=1)
            queue.set_properties(label="second \N{GRINNING FACE}", journaling=True)
            assert queue.label == "second \N{GRINNING FACE}"
        with tiercel.open(directory) as qm:
            queue = qm.queue(ORDERS)
            assert queue.label == "second \N{GRINNING FACE}"
            assert not queue.transactional
            with pytest.raises(tiercel.InsufficientResourcesError, match="1 KiB"):
                queue.send(bytes(2000))
            queue.send(b"x")
            queue.receive(0)
            assert queue.journal.count == 1

    def test_deleted_ones_are_gone_after_a_restart(self, directory: Path) -> None:
        with tiercel.open(directory) as qm:
            qm.create_queue(ORDERS).send(tiercel.Message(b"x", delivery=RECOVERABLE))
            qm.create_queue(r".\private$\other")
            qm.delete_queue(ORDERS)
            assert [discard.reason for discard in qm.discards()] == [
                "the queue was deleted before the message was received"
            ]
        with tiercel.open(directory) as qm:
            assert [queue.path_name.rpartition("\\")[2] for queue in qm.queues()] == ["other"]

    def test_a_new_queue_of_the_same_name_is_empty(
        self, qm: tiercel.EmbeddedQueueManager, queue: tiercel.EmbeddedQueue
    ) -> None:
        queue.send(b"x")
        queue.delete()
        assert qm.create_queue(ORDERS).count == 0

    def test_quota_counts_exactly(self, queue: tiercel.EmbeddedQueue) -> None:
        queue.send(b"x")
        size = queue.size_bytes
        queue.set_properties(quota_kib=1)
        for _ in range(1024 // size - 1):
            queue.send(b"x")
        with pytest.raises(tiercel.InsufficientResourcesError):
            queue.send(b"x")
        queue.receive(0)
        queue.send(b"x")


class TestPriorities:
    def test_higher_first_and_equal_ones_in_the_order_of_arrival(self, queue: tiercel.EmbeddedQueue) -> None:
        for number, priority in enumerate([3, 0, 7, 3, 7, 0]):
            queue.send(tiercel.Message(b"%d" % number, priority=priority))
        assert bodies(queue) == [b"2", b"4", b"0", b"3", b"1", b"5"]


class TestJournals:
    def test_of_a_queue_copies_what_was_received(self, queue: tiercel.EmbeddedQueue) -> None:
        queue.set_properties(journaling=True)
        queue.send(tiercel.Message(b"x", label="kept"))
        taken = queue.receive(0)
        copy = queue.journal.receive(0)
        assert (copy.id, copy.body, copy.label) == (taken.id, b"x", "kept")

    def test_of_the_computer_copies_what_was_sent_so(
        self, qm: tiercel.EmbeddedQueueManager, queue: tiercel.EmbeddedQueue
    ) -> None:
        queue.send(tiercel.Message(b"x", positive_journaling=True))
        queue.send(b"y")
        assert bodies(qm.journal) == [b"x"]
        assert bodies(queue) == [b"x", b"y"]

    def test_dead_letters_take_what_expired(self, directory: Path) -> None:
        now = 1_000_000.0
        with tiercel.open(directory, clock=lambda: now) as qm:
            queue = qm.create_queue(ORDERS)
            queue.send(tiercel.Message(b"x", label="x", time_to_be_received=5, negative_journaling=True))
            queue.send(tiercel.Message(b"y", label="y", time_to_be_received=5))
            assert queue.count == 2
            now += 6
            assert queue.count == 0
            assert bodies(qm.dead_letters) == [b"x"]
            reason = "the message was not received in time"
            assert [(line.label, line.reason) for line in qm.discards()] == [("x", reason), ("y", reason)]

    def test_transactional_dead_letters(self, directory: Path) -> None:
        now = 1_000_000.0
        with tiercel.open(directory, clock=lambda: now) as qm:
            queue = qm.create_queue(ORDERS, transactional=True)
            message = tiercel.Message(b"x", time_to_be_received=5, negative_journaling=True)
            with qm.transaction() as tx:
                queue.send(message, transaction=tx)
            now += 6
            assert bodies(qm.transactional_dead_letters) == [b"x"]
            assert qm.dead_letters.count == 0


class TestDiscards:
    def test_tell_everything_about_a_purged_message(
        self, qm: tiercel.EmbeddedQueueManager, queue: tiercel.EmbeddedQueue
    ) -> None:
        sent = queue.send(tiercel.Message(b"abc", label="gone"))
        size = queue.size_bytes
        queue.purge()
        [line] = qm.discards()
        assert (line.message_id, line.label, line.size) == (str(sent), "gone", size)
        assert line.message_class == tiercel.MessageClass.NACK_Q_PURGED
        assert "purged" in line.reason
        assert line.queue.endswith(r"TEST\private$\orders")

    def test_survive_a_restart(self, directory: Path) -> None:
        with tiercel.open(directory) as qm:
            queue = qm.create_queue(ORDERS)
            queue.send(b"x")
            queue.purge()
            before = qm.discards()
        with tiercel.open(directory) as qm:
            assert qm.discards()[: len(before)] == before

    def test_receiving_is_no_discard(
        self, qm: tiercel.EmbeddedQueueManager, queue: tiercel.EmbeddedQueue
    ) -> None:
        fill(queue, b"x")
        queue.receive(0)
        assert qm.discards() == []


class TestAcknowledgements:
    def test_come_to_the_administration_queue(
        self, qm: tiercel.EmbeddedQueueManager, queue: tiercel.EmbeddedQueue
    ) -> None:
        admin = qm.create_queue(r".\private$\admin")
        asked = tiercel.Acknowledgements.FULL_REACH_QUEUE | tiercel.Acknowledgements.FULL_RECEIVE
        message = tiercel.Message(b"x", acknowledgements=asked, administration_queue=admin.format_name)
        queue.send(message)
        assert admin.receive(0).message_class == tiercel.MessageClass.ACK_REACH_QUEUE
        queue.receive(0)
        assert admin.receive(0).message_class == tiercel.MessageClass.ACK_RECEIVE


class TestAnotherComputer:
    def test_can_be_sent_to_and_shows_as_outgoing(self, qm: tiercel.EmbeddedQueueManager) -> None:
        remote = qm.queue(r"DIRECT=OS:elsewhere\private$\orders")
        remote.send(b"x")
        assert remote.count == 1
        assert [queue.path_name for queue in qm.queues()] == [r"elsewhere\private$\orders"]

    def test_nothing_waits_for_it_before_the_first_send(self, qm: tiercel.EmbeddedQueueManager) -> None:
        """A program that starts again asks what is left of its last run: nothing, not an error."""
        remote = qm.queue(r"DIRECT=OS:elsewhere\private$\orders")
        assert (remote.count, remote.size_bytes) == (0, 0)
