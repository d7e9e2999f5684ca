r"""The process that is killed: `load.py DIRECTORY` forks a queue manager under load for every line it reads.

Forking from a process that has imported everything makes a start cheap, and the child is killed for itself.
The child says what it is about to do, does it, and only then says what came of it, each as a line of JSON:

    {"pid": 4711}
    ["send", "plain", "7-1", 1, 20]      about to
    {"result": "..."}                    done, durable, and acknowledged
"""

import json
import os
import random
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

import tiercel
from tiercel.engine.transaction import Transaction
from tiercel.wire.user_message import UserMessage

PLAIN, ORDERS, DONE = "plain", "orders", "done"
RETRY = "plain;retry"
Operation = list[Any]
Result = Any

SIZES = (0, 20, 1300, 5000, 20_000)


def tell(line: object) -> None:
    os.write(1, json.dumps(line).encode() + b"\n")


class Load:
    """Does to a real queue manager what `Oracle` does to lists."""

    def __init__(self, directory: str) -> None:
        self._qm = tiercel.open(directory, computer_name="HOST", max_bytes=256 * 2**20)
        self._queues: dict[str, tiercel.EmbeddedQueue] = {}

    def run(self, operation: Operation) -> Result:
        do: Callable[..., Result] = getattr(self, operation[0])
        return do(*operation[1:])

    def create(self, name: str, transactional: bool) -> Result:
        try:
            self._qm.create_queue(rf".\private$\{name}", transactional=transactional)
        except tiercel.QueueExistsError:
            return "exists"
        return "created"

    def send(self, queue: str, label: str, delivery: int, size: int) -> Result:
        return str(self._queue(queue).send(_message(label, size, delivery)))

    def batch(self, queue: str, labels: list[str]) -> Result:
        with self._qm.batch():
            return [str(self._queue(queue).send(_message(label, 100))) for label in labels]

    def receive(self, queue: str) -> Result:
        try:
            return _seen(self._queue(queue).receive(0))
        except tiercel.IoTimeoutError:
            return None

    def receive_in_two_phases(self, queue: str) -> Result:
        try:
            with self._queue(queue).receiving(0) as message:
                return _seen(message)
        except tiercel.IoTimeoutError:
            return None

    def send_in_transaction(self, queue: str, labels: list[str]) -> Result:
        with self._qm.transaction() as transaction:
            return self._send_all(queue, labels, transaction)

    def forward(self, source: str, target: str, label: str) -> Result:
        try:
            with self._qm.transaction() as transaction:
                message = self._queue(source).receive(0, transaction=transaction)
                self._send_all(target, [label], transaction)
                return _seen(message)
        except tiercel.IoTimeoutError:
            return None

    def receive_and_abort(self, queue: str) -> Result:
        transaction = self._qm.begin_transaction()
        try:
            return _seen(self._queue(queue).receive(0, transaction=transaction))
        except tiercel.IoTimeoutError:
            return None
        finally:
            transaction.abort()

    def move(self, source: str, subqueue: str | None) -> Result:
        try:
            message = self._queue(source).peek(0)
        except tiercel.IoTimeoutError:
            return None
        self._queue(source).move(message, subqueue)
        return message.label

    def purge(self, queue: str) -> Result:
        return self._queue(queue).purge()

    def prepare(self, queue: str, labels: list[str]) -> Result:
        transaction = self._qm.begin_transaction()
        self._send_all(queue, labels, transaction)
        driver = self._qm.driver
        driver.run(lambda: driver.engine.transactions.prepare(transaction.of(driver).id))
        return None

    def decide(self, commit: bool) -> Result:
        """As the coordinator does after a restart: the same for all that is in doubt."""
        transactions = self._qm.driver.engine.transactions
        with self._qm.batch():
            in_doubt = sorted(transactions.in_doubt(), key=_first_label)
            for each in in_doubt:
                (transactions.commit if commit else transactions.abort)(each.id)
        return len(in_doubt)

    def _send_all(self, queue: str, labels: list[str], transaction: tiercel.EmbeddedTransaction) -> list[str]:
        target = self._queue(queue)
        return [str(target.send(_message(label, 500), transaction=transaction)) for label in labels]

    def _queue(self, name: str) -> tiercel.EmbeddedQueue:
        if name not in self._queues:
            path, _, subqueue = name.partition(";")
            queue = self._qm.queue(rf".\private$\{path}")
            self._queues[name] = queue.subqueue(subqueue) if subqueue else queue
        return self._queues[name]


def _message(label: str, size: int, delivery: int = 1) -> tiercel.Message:
    return tiercel.Message(label.encode() + bytes(size), label=label, delivery=delivery)


def _first_label(transaction: Transaction) -> str:
    return UserMessage(transaction.operations[0].record.packet).label


def _seen(message: tiercel.Message) -> Result:
    assert message.body.startswith(message.label.encode())
    return [message.label, message.lookup_id]


def operations(run: int, rand: random.Random) -> Iterator[Operation]:
    yield ["create", PLAIN, False]
    yield ["create", ORDERS, True]
    yield ["create", DONE, True]
    yield ["decide", rand.random() < 0.5]
    number = 0

    def labels(most: int = 1) -> list[str]:
        nonlocal number
        number += most
        return [f"{run}-{number - most + index}" for index in range(rand.randint(1, most))]

    while True:
        yield rand.choice(
            (
                ["send", PLAIN, *labels(), 1, rand.choice(SIZES)],
                ["send", PLAIN, *labels(), 0, rand.choice(SIZES)],
                ["batch", PLAIN, labels(5)],
                ["receive", PLAIN],
                ["receive", PLAIN],
                ["receive", DONE],
                ["receive", RETRY],
                ["receive_in_two_phases", rand.choice((PLAIN, ORDERS))],
                ["send_in_transaction", ORDERS, labels(4)],
                ["forward", ORDERS, DONE, *labels()],
                ["forward", ORDERS, DONE, *labels()],
                ["receive_and_abort", ORDERS],
                ["move", PLAIN, "retry"],
                ["move", RETRY, None],
                ["purge", rand.choice((PLAIN, ORDERS, DONE))] if rand.random() < 0.1 else ["receive", DONE],
                ["prepare", ORDERS, labels(3)] if rand.random() < 0.3 else ["receive", PLAIN],
                ["decide", rand.random() < 0.5] if rand.random() < 0.3 else ["receive", ORDERS],
            )
        )


def work(directory: str, run: int) -> None:
    tell({"pid": os.getpid()})
    load = Load(directory)
    for operation in operations(run, random.Random(run)):
        tell(operation)
        tell({"result": load.run(operation)})


def main() -> None:
    directory = sys.argv[1]
    for line in sys.stdin:
        child = os.fork()
        if not child:
            try:
                work(directory, int(line))
            finally:
                os._exit(1)
        status = os.waitpid(child, 0)[1]
        tell({"killed": os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL})


if __name__ == "__main__":
    main()
