"""Consumers, as a program uses them."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest

import tiercel

ORDERS = r".\private$\orders"


@pytest.fixture
def orders(qm: tiercel.EmbeddedQueueManager) -> tiercel.EmbeddedQueue:
    return filled(qm, 5)


def filled(qm: tiercel.EmbeddedQueueManager, count: int) -> tiercel.EmbeddedQueue:
    queue = qm.create_queue(ORDERS, exist_ok=True)
    with qm.batch():
        for number in range(1, count + 1):
            queue.send(tiercel.Message(b"%d" % number, label=f"order {number}", delivery=1))
    return queue


def bodies(claim: tiercel.Claim) -> dict[int, bytes]:
    return {message.claim_seq: message.body for message in claim}


class TestClaiming:
    def test_messages_have_their_numbers_and_all_their_properties(
        self, qm: tiercel.EmbeddedQueueManager, orders: tiercel.EmbeddedQueue
    ) -> None:
        first = orders.peek(0)
        claim = qm.consumer("spark").claim(orders, 2)
        assert (claim.lo, claim.hi, len(claim)) == (0, 2, 2)
        message = next(iter(claim))
        assert isinstance(message, tiercel.ClaimedMessage)
        assert (message.claim_seq, message.label, message.body) == (1, "order 1", b"1")
        assert (message.lookup_id, message.arrival_time) == (first.lookup_id, first.arrival_time)
        assert message == first
        assert repr(claim) == f"<Claim 1 to 2 of spark on {orders.format_name}>"

    def test_a_claim_can_be_read_again(
        self, qm: tiercel.EmbeddedQueueManager, orders: tiercel.EmbeddedQueue
    ) -> None:
        claim = qm.consumer("spark").claim(orders)
        assert [bodies(claim), bodies(claim)] == [{n: b"%d" % n for n in range(1, 6)}] * 2

    def test_nothing_is_an_empty_claim(self, qm: tiercel.EmbeddedQueueManager) -> None:
        qm.create_queue(ORDERS)
        claim = qm.consumer("spark").claim(ORDERS)
        assert (len(claim), list(claim), bool(claim)) == (0, [], False)

    def test_any_name_of_the_queue_means_the_same(
        self, qm: tiercel.EmbeddedQueueManager, orders: tiercel.EmbeddedQueue
    ) -> None:
        spark = qm.consumer("spark")
        names: list[str | tiercel.FormatName | tiercel.EmbeddedQueue] = [ORDERS, orders, orders.format_name]
        assert [spark.claim(name, 1).hi for name in names] == [1, 2, 3]
        assert [spark.claim(str(orders.format_name), 1).hi, spark.claim(orders.path_name, 1).hi] == [4, 5]

    def test_more_than_is_read_or_acknowledged_at_once(self, qm: tiercel.EmbeddedQueueManager) -> None:
        queue = filled(qm, 2345)
        spark = qm.consumer("spark")
        claim = spark.claim(queue, 5000)
        assert bodies(claim) == {number: b"%d" % number for number in range(1, 2346)}
        assert spark.acknowledge(queue, claim.hi) == 2345
        assert (list(claim), qm.claims()[0].count) == ([], 0)

    def test_and_released(self, qm: tiercel.EmbeddedQueueManager) -> None:
        queue = filled(qm, 2345)
        spark = qm.consumer("spark")
        spark.claim(queue, 5000)
        spark.release()
        assert queue.count == 2345
        assert spark.claim(queue, 1).hi == 2346

    def test_bad_arguments(self, qm: tiercel.EmbeddedQueueManager, orders: tiercel.EmbeddedQueue) -> None:
        spark = qm.consumer("spark")
        calls: list[Callable[[], object]] = [
            lambda: qm.consumer("no such name!"),
            lambda: spark.claim(orders, 0),
            lambda: spark.claim(orders, "ten"),  # type: ignore[arg-type]
            lambda: spark.claim(7),  # type: ignore[arg-type]
            lambda: spark.claim(r".\private$\nowhere"),
            lambda: spark.acknowledge(orders, "all"),  # type: ignore[arg-type]
            lambda: spark.acknowledge(orders, 1),
            lambda: spark.acknowledge(orders, -1),
            lambda: qm.release_claims("nobody"),
            lambda: qm.forget_consumer("nobody"),
        ]
        for call in calls:
            with pytest.raises(tiercel.MqError):
                call()
        assert orders.count == 5


class TestRuns:
    def test_what_was_not_acknowledged_comes_first(self, directory: Path) -> None:
        with tiercel.open(directory) as qm:
            queue = filled(qm, 5)
            spark = qm.consumer("spark")
            spark.claim(queue, 2)
            spark.claim(queue, 2)
            spark.acknowledge(queue, 1)
        with tiercel.open(directory) as qm:
            spark = qm.consumer("spark")
            assert bodies(spark.claim(ORDERS, 1)) == {2: b"2", 3: b"3", 4: b"4"}
            assert bodies(spark.claim(ORDERS)) == {5: b"5"}
            assert bodies(spark.claim(ORDERS)) == {}

    def test_a_second_run_replaces_the_first(
        self, qm: tiercel.EmbeddedQueueManager, orders: tiercel.EmbeddedQueue
    ) -> None:
        first = qm.consumer("spark")
        claim = first.claim(orders, 2)
        second = qm.consumer("spark")
        with pytest.raises(
            tiercel.ConsumerFencedError, match=r"consumer spark: .* Use the name in one run at a time"
        ):
            first.acknowledge(orders, claim.hi)
        assert bodies(second.claim(orders)) == {1: b"1", 2: b"2"}

    def test_an_operator_releases_what_nobody_works_on(
        self, qm: tiercel.EmbeddedQueueManager, orders: tiercel.EmbeddedQueue
    ) -> None:
        spark = qm.consumer("spark")
        spark.claim(orders, 3)
        qm.release_claims("spark", orders)
        with pytest.raises(tiercel.ConsumerFencedError):
            spark.claim(orders)
        assert [message.abort_count for message in orders.cursor()] == [1, 1, 1, 0, 0]
        (status,) = qm.claims()
        assert (status.consumer, status.queue, status.count) == ("spark", orders.path_name, 0)
        qm.forget_consumer("spark")
        assert qm.claims() == []

    def test_acknowledging_in_the_same_step(
        self, qm: tiercel.EmbeddedQueueManager, orders: tiercel.EmbeddedQueue
    ) -> None:
        spark, seen = qm.consumer("spark"), []
        claim = spark.claim(orders, 2)
        while claim:
            seen += [message.body for message in claim]
            claim = spark.claim(orders, 2, acknowledge=claim.hi)
        assert seen == [b"1", b"2", b"3", b"4", b"5"]
        assert (qm.claims()[0].lo, qm.claims()[0].count) == (5, 0)

    def test_within_a_batch(self, qm: tiercel.EmbeddedQueueManager, orders: tiercel.EmbeddedQueue) -> None:
        spark = qm.consumer("spark")
        with qm.batch():
            claim = spark.claim(orders, 2)
            spark.acknowledge(orders, 1)
        assert bodies(claim) == {2: b"2"}

    def test_readers_and_consumers_share_a_queue(self, qm: tiercel.EmbeddedQueueManager) -> None:
        """Two consumers, two readers, and one who releases: each message is had by one of them, once."""
        queue = filled(qm, 600)
        had: list[bytes] = []

        def consume(name: str) -> None:
            consumer = qm.consumer(name)
            while claim := consumer.claim(queue, 7):
                found = [message.body for message in claim]
                if claim.hi % 5 == 0:
                    consumer.release()
                else:
                    consumer.acknowledge(queue, claim.hi)
                    had.extend(found)

        def receive() -> None:
            for _ in range(100):
                try:
                    had.append(queue.receive(0).body)
                except tiercel.IoTimeoutError:
                    return

        threads = [Thread(target=consume, args=(name,)) for name in ("one", "two")]
        threads += [Thread(target=receive) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        left = [message.body for message in queue.cursor()]
        assert Counter(had + left) == Counter(b"%d" % number for number in range(1, 601))
