"""Threads that send, receive, give back, abort and move at random: every message is accounted for, once."""

import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import tiercel

from .support import Running, bodies

CALLS = 150  # of each thread


class MistakeError(Exception):
    """What an application raises."""


class Clerk:
    """One thread's work and what it knows to have happened."""

    def __init__(self, number: int, qm: tiercel.EmbeddedQueueManager, queue: tiercel.EmbeddedQueue) -> None:
        self.random = random.Random(number)
        self.number, self.qm, self.queue = number, qm, queue
        self.sent: list[bytes] = []
        self.received: list[bytes] = []

    def work(self) -> None:
        calls: list[Callable[[], None]] = [self.send, self.send, self.receive, self.give_back, self.move]
        for _ in range(CALLS):
            with suppress(tiercel.IoTimeoutError, tiercel.MessageNotFoundError, MistakeError):
                self.random.choice(calls)()

    def next_body(self) -> bytes:
        return b"%d %d" % (self.number, self.random.getrandbits(60))

    def send(self) -> None:
        body = self.next_body()
        if self.queue.transactional:
            with self.qm.transaction() as tx:
                self.queue.send(body, transaction=tx)
                self.perhaps_fail()
        else:
            self.queue.send(tiercel.Message(body, label=body.decode()))
        self.sent.append(body)

    def receive(self) -> None:
        source = self.random.choice([self.queue, self.queue.subqueue("retry")])
        if self.queue.transactional:
            with self.qm.transaction() as tx:
                body = source.receive(0, transaction=tx).body
                self.perhaps_fail()
        else:
            body = source.receive(self.random.choice([0, 0.005])).body
        self.received.append(body)

    def give_back(self) -> None:
        with self.queue.receiving(0) as message:
            self.perhaps_fail()
        self.received.append(message.body)

    def move(self) -> None:
        self.queue.move(self.queue.peek(0), "retry")

    def perhaps_fail(self) -> None:
        if self.random.random() < 0.4:
            raise MistakeError


@pytest.mark.parametrize("transactional", [False, True])
def test_nothing_is_lost_or_doubled(directory: Path, transactional: bool) -> None:
    with tiercel.open(directory) as qm:
        queue = qm.create_queue(r".\private$\q", transactional=transactional)
        clerks = [Clerk(number, qm, queue) for number in range(6)]
        for running in [Running(clerk.work) for clerk in clerks]:
            running.result()
        sent = Counter(body for clerk in clerks for body in clerk.sent)
        received = Counter(body for clerk in clerks for body in clerk.received)
        left = Counter(bodies(queue) + bodies(queue.subqueue("retry")))
        assert len(sent) > 100  # of 216 or 360, most likely
        assert received.total() > 10
        assert received + left == sent
        assert qm.discards() == []
        assert queue.count + queue.subqueue("retry").count == left.total()
    with tiercel.open(directory) as qm:
        queue = qm.queue(r".\private$\q")
        after = Counter(bodies(queue) + bodies(queue.subqueue("retry")))
        assert after == (left if transactional else Counter())
