"""How fast the queue manager stores and gives messages, against bare LMDB in the same run; and how it grows.

bench_engine.py                 speed, against bare LMDB with the same keys, sizes and batches
bench_engine.py growth [N ...]  a backlog of N messages: start, memory, receive; queues and cursors
"""

import os
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median

import lmdb

import tiercel

BODY = b"x" * 1024
BATCH = 100
MESSAGES = 2_000
SINGLES = 50
ROUNDS = 15
ORDERS = r".\private$\orders"
TRANSACTIONAL = r".\private$\transactional"
KEY = struct.Struct(">IQ")
RECORD_SIZE = 1264  # what the engine stores of such a message
NO_LIMIT = 0xFFFF_FFFF


@contextmanager
def folder() -> Iterator[Path]:
    """Beside the code, not in a temporary file system that may be memory."""
    path = Path(tempfile.mkdtemp(prefix="bench-", dir=Path(__file__).parent))
    try:
        yield path
    finally:
        shutil.rmtree(path)


def rate(count: int, work: Callable[[], None]) -> float:
    start = time.perf_counter()
    work()
    return count / (time.perf_counter() - start)


def message() -> tiercel.Message:
    return tiercel.Message(BODY, label="order 7", delivery=tiercel.DeliveryGuarantee.RECOVERABLE)


# Ours.


def send(queue: tiercel.EmbeddedQueue, count: int, batch: int = BATCH) -> None:
    for _ in range(count // batch):
        queue.send_many([message() for _ in range(batch)])


def receive(queue: tiercel.EmbeddedQueue, count: int) -> None:
    for _ in range(count // BATCH):
        for received in queue.receive_many(BATCH, 0):
            _ = received.body  # what every program asks for


def send_each(qm: tiercel.EmbeddedQueueManager, queue: tiercel.EmbeddedQueue, count: int) -> None:
    for _ in range(count // BATCH):
        with qm.batch():
            for _ in range(BATCH):
                queue.send(message())


def receive_each(qm: tiercel.EmbeddedQueueManager, queue: tiercel.EmbeddedQueue, count: int) -> None:
    for _ in range(count // BATCH):
        with qm.batch():
            for _ in range(BATCH):
                _ = queue.receive(0).body


def one_by_one(qm: tiercel.EmbeddedQueueManager, queue: tiercel.EmbeddedQueue, count: int) -> None:
    for _ in range(count):
        with qm.transaction() as transaction:
            queue.send(tiercel.Message(BODY), transaction=transaction)
        with qm.transaction() as transaction:
            queue.receive(0, transaction=transaction)


# Bare LMDB: records of the same size under the same keys, the counts of the queue in each batch, no more.


class Bare:
    def __init__(self, path: Path) -> None:
        self._environment = lmdb.open(str(path), map_size=1 << 34, max_dbs=2, lib_version=0)
        self._messages = self._environment.open_db(b"messages")
        self._stats = self._environment.open_db(b"stats")
        self._number = 0
        self._record = bytes(RECORD_SIZE)

    def put(self, count: int, batch: int = BATCH) -> None:
        for _ in range(count // batch):
            with self._environment.begin(write=True, db=self._messages) as transaction:
                for _ in range(batch):
                    self._number += 1
                    transaction.put(KEY.pack(17, self._number), self._record)
                transaction.put(bytes(4), bytes(16), db=self._stats)

    def take(self, count: int, batch: int = BATCH) -> None:
        for _ in range(count // batch):
            with self._environment.begin(write=True, db=self._messages) as transaction:
                cursor = transaction.cursor()
                for _ in range(batch):
                    cursor.set_range(KEY.pack(17, 0))
                    cursor.value()
                    cursor.delete()
                transaction.put(bytes(4), bytes(16), db=self._stats)

    def put_and_take(self, count: int) -> None:
        for _ in range(count):
            self.put(1, 1)
            self.take(1, 1)

    def close(self) -> None:
        self._environment.close()


def syncs(path: Path, count: int) -> None:
    """What the disk can do at the best: one page written and synced at a time."""
    with (path / "page").open("wb") as file:
        for _ in range(count):
            file.seek(0)
            file.write(bytes(4096))
            file.flush()
            os.fdatasync(file.fileno())


Work = Callable[[int], None]


def pair(first: Work, second: Work) -> Work:
    def both(count: int) -> None:
        first(count)
        second(count)

    return both


def comparisons(qm: tiercel.EmbeddedQueueManager, bare: Bare) -> dict[str, tuple[int, Work, Work]]:
    """How many messages, what we do with them, and what bare LMDB does."""
    orders = qm.create_queue(ORDERS)
    transactional = qm.create_queue(TRANSACTIONAL, transactional=True)
    enqueue, dequeue = partial(send, orders), partial(receive, orders)
    enqueue_each, dequeue_each = partial(send_each, qm, orders), partial(receive_each, qm, orders)
    put_and_take = pair(bare.put, bare.take)
    return {
        "send_many of 100": (MESSAGES, enqueue, bare.put),
        "receive_many of 100": (MESSAGES, dequeue, bare.take),
        "both": (MESSAGES, pair(enqueue, dequeue), put_and_take),
        "100 sends in a batch()": (MESSAGES, enqueue_each, bare.put),
        "100 receives in a batch()": (MESSAGES, dequeue_each, bare.take),
        "both of these": (MESSAGES, pair(enqueue_each, dequeue_each), put_and_take),
        "transactional send + receive, one each": (
            SINGLES,
            partial(one_by_one, qm, transactional),
            bare.put_and_take,
        ),
    }


def speed() -> None:
    """By turns, in short rounds, and the medians of these: other programs may use the disk meanwhile."""
    measured: dict[str, list[tuple[float, float]]] = {}
    with folder() as ours, folder() as theirs, tiercel.open(ours) as qm:
        bare = Bare(theirs)
        compared = comparisons(qm, bare)
        for _ in range(ROUNDS):
            for name, (count, work, bare_work) in compared.items():
                rates = rate(count, partial(work, count)), rate(count, partial(bare_work, count))
                measured.setdefault(name, []).append(rates)
        sync_rate = rate(200, lambda: syncs(theirs, 200))
        bare.close()
    print(f"{'1 KiB recoverable messages, durable':<42}{'Tiercel/s':>12}{'bare LMDB/s':>14}{'ratio':>8}")
    for name, pairs in measured.items():
        tiercel_rate, bare_rate = (median(column) for column in zip(*pairs, strict=True))
        ratio = median(one / other for one, other in pairs)
        print(f"{name:<42}{tiercel_rate:>12,.0f}{bare_rate:>14,.0f}{ratio:>8.2f}")
    print(f"{'fdatasync of one page':<42}{sync_rate:>12,.0f}")


# Growth.


def resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])  # with the pages of the mapped file
    return pages * resource.getpagesize() / 2**20


def look(path: str) -> None:
    """Run in a process of its own: how long a start takes, what it weighs, how fast it gives."""
    start = time.perf_counter()
    with tiercel.open(path) as qm:
        ready = time.perf_counter() - start
        orders = qm.queue(ORDERS)
        backlog = orders.count
        count = min(1000, backlog)

        def peek() -> None:
            for _ in range(2000):
                orders.peek(0)

        peek_rate = rate(2000, peek)

        def take() -> None:
            with qm.batch():  # one commit: what is measured is the reading, not the disk
                for _ in range(count):
                    orders.receive(0)

        receive_rate = rate(count, take)
        print(f"{backlog:>12,}{ready:>10.3f} s{resident_mib():>10.0f} MiB", end="")
        print(f"{peek_rate:>12,.0f}{receive_rate:>14,.0f}")


def growth(sizes: list[int]) -> None:
    print(f"{'backlog':>12}{'ready in':>12}{'memory':>14}{'peeks/s':>12}{'receives/s':>14}")
    with folder() as path:
        for size in sizes:
            with tiercel.open(path) as qm:
                qm.set_properties(queue_manager_quota_kib=NO_LIMIT)
                orders = qm.create_queue(ORDERS, exist_ok=True)
                send(orders, max(size - orders.count, 0), batch=min(1000, size))
            subprocess.run([sys.executable, __file__, "look", str(path)], check=True)  # noqa: S603  # this file
    with folder() as path, tiercel.open(path) as qm:
        crowd(qm)


def crowd(qm: tiercel.EmbeddedQueueManager) -> None:
    """What other queues and open cursors cost one receive."""
    orders = qm.create_queue(ORDERS)
    send(orders, 10_000, batch=1000)
    print(f"\n{'':<32}{'receives/s':>14}")

    def take() -> None:
        for _ in range(1000):
            orders.receive(0)

    def show(name: str) -> None:
        with qm.batch():
            print(f"{name:<32}{rate(1000, take):>14,.0f}")

    show("one queue")
    with qm.batch():
        for number in range(10_000):
            qm.create_queue(rf".\private$\other{number}")
    show("10,000 other queues")
    cursors = [orders.cursor() for _ in range(1000)]
    for cursor in cursors:
        cursor.peek()
    show("and 1,000 open cursors")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["look", path]:
            look(path)
        case ["growth", *sizes]:
            growth([int(size) for size in sizes] or [1_000, 10_000, 100_000])
        case _:
            speed()
