"""send_many and receive_many, as programs use them; what they leave behind is tests/engine's matter."""

import threading
from typing import Any

import pytest

import tiercel

from .support import RECOVERABLE, Running, bodies, waiting

BODIES = [b"%d" % number for number in range(250)]


def test_there_and_back(queue: tiercel.EmbeddedQueue) -> None:
    ids = queue.send_many(tiercel.Message(body, delivery=RECOVERABLE) for body in BODIES)
    received = queue.receive_many(100, 0)
    assert [message.body for message in received] == BODIES[:100]
    assert [message.id for message in received] == ids[:100]
    assert [message.lookup_id for message in received] == sorted({each.lookup_id for each in received})
    assert [message.body for message in queue.receive_many(1000, 0)] == BODIES[100:]
    assert queue.receive_many(1, 0) == []


def test_bytes_are_messages_too(queue: tiercel.EmbeddedQueue) -> None:
    queue.send_many([b"a", tiercel.Message(b"b")])
    assert bodies(queue) == [b"a", b"b"]


def test_all_or_none(queue: tiercel.EmbeddedQueue) -> None:
    wrong: Any = 7
    for messages in ([b"a", wrong], [b"a", bytes(5 * 2**20)]):
        with pytest.raises(tiercel.MqError):
            queue.send_many(messages)
    assert queue.count == 0


def test_in_transactions(qm: tiercel.EmbeddedQueueManager, transactional: tiercel.EmbeddedQueue) -> None:
    transaction = qm.begin_transaction()
    transactional.send_many([b"never"], transaction=transaction)
    transaction.abort()
    with qm.transaction() as transaction:
        transactional.send_many([b"a", b"b", b"c"], transaction=transaction)
    transaction = qm.begin_transaction()
    assert len(transactional.receive_many(2, 0, transaction=transaction)) == 2
    transaction.abort()
    with qm.transaction() as transaction:
        assert len(transactional.receive_many(2, 0, transaction=transaction)) == 2
    assert bodies(transactional) == [b"c"]


def test_in_a_batch(qm: tiercel.EmbeddedQueueManager, queue: tiercel.EmbeddedQueue) -> None:
    with qm.batch():
        queue.send_many([b"a", b"b"])
        assert [message.body for message in queue.receive_many(1, 0)] == [b"a"]
        queue.receive(0)
        with pytest.raises(tiercel.IllegalOperationError, match="inside a batch"):
            queue.receive_many(1)


class TestWaiting:
    def test_for_the_first_that_comes(self, queue: tiercel.EmbeddedQueue) -> None:
        reader = waiting(queue, lambda: queue.receive_many(10))
        queue.send_many([b"a", b"b", b"c"])
        assert [message.body for message in reader.result()] == [b"a", b"b", b"c"]

    def test_until_the_time_is_over(self, queue: tiercel.EmbeddedQueue) -> None:
        assert queue.receive_many(10, 0.01) == []

    def test_again_when_another_was_quicker(self, queue: tiercel.EmbeddedQueue) -> None:
        readers = [waiting(queue, lambda: queue.receive_many(2), readers=number) for number in (1, 2)]
        queue.send_many([b"a", b"b"])
        queue.send_many([b"c"])
        seen = [message.body for reader in readers for message in reader.result()]
        assert sorted(seen + [message.body for message in queue.receive_many(3, 0)]) == [b"a", b"b", b"c"]

    def test_many_readers_lose_nothing(self, queue: tiercel.EmbeddedQueue) -> None:
        readers = [Running(lambda: take_until_end(queue)) for _ in range(4)]
        for start in range(0, len(BODIES), 10):
            queue.send_many(
                [tiercel.Message(body, delivery=RECOVERABLE) for body in BODIES[start : start + 10]]
            )
        queue.send(b"end")
        assert sorted(body for reader in readers for body in reader.result()) == sorted(BODIES)

    def test_a_queue_that_is_closed_meanwhile(self, queue: tiercel.EmbeddedQueue) -> None:
        reader = waiting(queue, lambda: queue.receive_many(10))
        threading.Timer(0, queue.close).start()
        with pytest.raises(tiercel.OperationCancelledError):
            reader.result()


def take_until_end(queue: tiercel.EmbeddedQueue) -> list[bytes]:
    taken: list[bytes] = []
    while b"end" not in taken:
        taken += [message.body for message in queue.receive_many(1 + len(taken) % 7)]
    queue.send(b"end")  # for the next reader
    taken.remove(b"end")
    return taken


@pytest.mark.parametrize("limit", [0, -1, 1.5, "1", None, True])
def test_wrong_limits(queue: tiercel.EmbeddedQueue, limit: Any) -> None:
    queue.send(b"a")
    with pytest.raises(tiercel.MqError, match="limit"):
        queue.receive_many(limit, 0)
    assert queue.count == 1


@pytest.mark.parametrize("timeout", [-1, "1", True])
def test_wrong_time_outs(queue: tiercel.EmbeddedQueue, timeout: Any) -> None:
    with pytest.raises(tiercel.MqError, match="timeout"):
        queue.receive_many(1, timeout)
