"""What a claimed and an acknowledged message cost, against bare LMDB with the same keys, sizes and batches.

bench_claims.py [SLICE]    messages per batch; the data endpoint takes 1000
"""

import gc
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import lmdb
from bench_engine import RECORD_SIZE, folder, message

import tiercel

MESSAGES = 20_000
ROUNDS = 5
KEY = struct.Struct(">IQ")
HEAD = bytes(16)  # what a claimed record has more
ORDERS = r".\private$\orders"


class Ours:
    def __init__(self, path: Path) -> None:
        self.qm = tiercel.open(path)
        self._orders = self.qm.create_queue(ORDERS)
        self._consumer = self.qm.consumer("bench")

    def send(self) -> None:
        for _ in range(MESSAGES // 1000):
            with self.qm.batch():
                for _ in range(1000):
                    self._orders.send(message())

    def claim(self, size: int) -> None:
        for _ in range(MESSAGES // size):
            assert len(self._consumer.claim(self._orders, size)) == size

    def acknowledge(self, size: int) -> None:
        (status,) = self.qm.claims()
        for number in range(status.lo + size, status.hi + 1, size):
            assert self._consumer.acknowledge(self._orders, number) == size


class Bare:
    """Reads and deletes each record and puts it under another key; then deletes it there."""

    def __init__(self, path: Path) -> None:
        self._environment = lmdb.open(str(path), map_size=1 << 34, max_dbs=3, lib_version=0)
        self._messages, self._claimed, self._rows = map(self._environment.open_db, (b"m", b"c", b"r"))
        self._sent = self._held = 0
        self._record = bytes(RECORD_SIZE)

    def send(self) -> None:
        for _ in range(MESSAGES // 1000):
            with self._environment.begin(write=True, db=self._messages) as transaction:
                for _ in range(1000):
                    self._sent += 1
                    transaction.put(KEY.pack(17, self._sent), self._record)

    def claim(self, size: int) -> None:
        for _ in range(MESSAGES // size):
            with self._environment.begin(write=True) as transaction:
                cursor, goal = transaction.cursor(self._messages), transaction.cursor(self._claimed)
                for _ in range(size):
                    self._held += 1
                    cursor.set_range(KEY.pack(17, 0))
                    goal.put(KEY.pack(18, self._held), HEAD + cursor.value())
                    cursor.delete()
                transaction.put(b"row", bytes(64), db=self._rows)

    def acknowledge(self, size: int) -> None:
        for _ in range(MESSAGES // size):
            with self._environment.begin(write=True) as transaction:
                cursor = transaction.cursor(self._claimed)
                for _ in range(size):
                    cursor.set_range(KEY.pack(18, 0))
                    cursor.value()
                    cursor.delete()
                transaction.put(b"row", bytes(64), db=self._rows)

    def close(self) -> None:
        self._environment.close()


class Cost(NamedTuple):
    """Of one message, in microseconds: of the processor, and with the disk."""

    busy: float
    whole: float


def cost(work: Callable[[int], None], size: int) -> Cost:
    gc.collect()
    start, busy = time.perf_counter(), time.process_time()
    work(size)
    times = time.process_time() - busy, time.perf_counter() - start
    return Cost(*(each / MESSAGES * 1e6 for each in times))


def main(size: int) -> None:
    costs: dict[str, tuple[list[Cost], list[Cost]]] = {"claim": ([], []), "acknowledge": ([], [])}
    with folder() as here, folder() as there:
        ours, bare = Ours(here), Bare(there)
        for _ in range(ROUNDS):
            ours.send()
            bare.send()
            for name, (our_costs, bare_costs) in costs.items():
                our_costs.append(cost(getattr(ours, name), size))
                bare_costs.append(cost(getattr(bare, name), size))
        ours.qm.close()
        bare.close()
    title = f"1 KiB messages, {size} at once"
    print(f"{title:<36}{'Tiercel':>12}{'bare LMDB':>14}{'ratio':>8}")
    for name, (our_costs, bare_costs) in costs.items():
        for what in Cost._fields:
            our, their = (min(getattr(each, what) for each in found) for found in (our_costs, bare_costs))
            words = name if what == "busy" else f"{name}, with the disk"
            print(f"{words:<36}{our:>9.1f} us{their:>11.1f} us{our / their:>8.2f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
