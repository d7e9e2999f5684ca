"""The store against bare LMDB, with the same keys, records and batches, by turns in the same run."""

import os
import shutil
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import lmdb

from tiercel.store import Keyspace
from tiercel.store.lmdb_store import LmdbStore

BATCH = 100
BATCHES = 100
SINGLES = 200
ROUNDS = 5
LIMIT = 2**30
VALUE = os.urandom(1300)
KEY = struct.Struct(">IQ").pack
LOW, HIGH = KEY(1, 0), KEY(2, 0)
MESSAGES = Keyspace.MESSAGES


class Bare:
    """py-lmdb called directly, as its documentation shows it."""

    def __init__(self, directory: Path) -> None:
        self.environment = lmdb.open(str(directory), map_size=LIMIT, max_dbs=16, lib_version=0)
        self.messages = self.environment.open_db(b"messages")

    def put(self, start: int, count: int) -> None:
        with self.environment.begin(write=True, db=self.messages) as transaction:
            for number in range(start, start + count):
                transaction.put(KEY(1, number), VALUE)

    def take(self, count: int) -> None:
        with self.environment.begin(write=True, db=self.messages) as transaction:
            cursor = transaction.cursor()
            for _ in range(count):
                cursor.set_range(LOW)
                key, value = cursor.item()
                assert key < HIGH
                assert value
                transaction.delete(key)

    def close(self) -> None:
        self.environment.close()


class Ours:
    def __init__(self, directory: Path) -> None:
        self.store = LmdbStore.open(directory, max_bytes=LIMIT)

    def put(self, start: int, count: int) -> None:
        batch = self.store.begin()
        for number in range(start, start + count):
            batch.reserve(len(VALUE))
            batch.put(MESSAGES, KEY(1, number), VALUE)
        batch.commit()

    def take(self, count: int) -> None:
        batch = self.store.begin()
        for _ in range(count):
            found = batch.first(MESSAGES, LOW, HIGH)
            assert found is not None
            batch.delete(MESSAGES, found[0])
        batch.commit()

    def close(self) -> None:
        self.store.close()


Subject = Bare | Ours


def put_batches(subject: Subject) -> int:
    for number in range(BATCHES):
        subject.put(number * BATCH, BATCH)
    return BATCH * BATCHES


def take_batches(subject: Subject) -> int:
    for _ in range(BATCHES):
        subject.take(BATCH)
    return BATCH * BATCHES


def put_singles(subject: Subject) -> int:
    for number in range(SINGLES):
        subject.put(number, 1)
    return SINGLES


def take_singles(subject: Subject) -> int:
    for _ in range(SINGLES):
        subject.take(1)
    return SINGLES


STEPS: dict[str, Callable[[Subject], int]] = {
    "put, batches of 100": put_batches,
    "first + delete, batches of 100": take_batches,
    "put, one a commit": put_singles,
    "first + delete, one a commit": take_singles,
}


def rate(work: Callable[[], int]) -> float:
    start = time.perf_counter()
    count = work()
    return count / (time.perf_counter() - start)


def fsyncs(directory: Path) -> int:
    """Writes a page and syncs it, as often as a commit of LMDB does: twice (pages, then the meta page)."""
    descriptor = os.open(directory / "fsync", os.O_RDWR | os.O_CREAT, 0o600)
    os.pwrite(descriptor, bytes(64 * 4096), 0)
    os.fsync(descriptor)
    for number in range(SINGLES):
        os.pwrite(descriptor, os.urandom(4096), number % 64 * 4096)
        os.fdatasync(descriptor)
    os.close(descriptor)
    return SINGLES


def measure(place: Path) -> dict[tuple[str, str], float]:
    best: dict[tuple[str, str], float] = {}
    for number in range(ROUNDS):
        directories = {"bare": place / f"bare{number}", "ours": place / f"ours{number}"}
        for directory in directories.values():
            directory.mkdir()
        subjects: dict[str, Subject] = {"bare": Bare(directories["bare"]), "ours": Ours(directories["ours"])}
        for step, work in STEPS.items():
            for name, subject in subjects.items():
                found = rate(lambda work=work, subject=subject: work(subject))  # type: ignore[misc]
                best[step, name] = max(best.get((step, name), 0), found)
        best["fsync", ""] = max(best.get(("fsync", ""), 0), rate(lambda: fsyncs(place)))
        for subject in subjects.values():
            subject.close()
    return best


def main() -> None:
    place = Path(tempfile.mkdtemp(prefix="tiercel-bench-", dir=sys.argv[1] if len(sys.argv) > 1 else None))
    try:
        best = measure(place)
    finally:
        shutil.rmtree(place)
    print(f"records of {len(VALUE)} bytes, best of {ROUNDS} rounds by turns, every commit durable")
    print(f"{'records a second':32}{'bare LMDB':>12}{'LmdbStore':>12}{'ratio':>8}")
    for step in STEPS:
        bare, ours = best[step, "bare"], best[step, "ours"]
        print(f"{step:32}{bare:12,.0f}{ours:12,.0f}{ours / bare:8.2f}")
    print(f"{'fdatasync of one page':32}{best['fsync', '']:12,.0f}   a commit needs two")


if __name__ == "__main__":
    main()
