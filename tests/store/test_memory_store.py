"""The faults that the store in memory has on demand."""

from collections.abc import Callable

import pytest

from tiercel.model.errors import StoreFailedError
from tiercel.store import CommitFails, Crash, MemoryStore, Write

from .helpers import MESSAGES, committed

Faults = Callable[[Write, int], None]


def stop_at(number: int, fault: Exception) -> Faults:
    def faults(_: Write, count: int) -> None:
        if count == number:
            raise fault

    return faults


def two_batches(store: MemoryStore) -> None:
    for name in (b"a", b"b"):
        batch = store.begin()
        batch.put(MESSAGES, name, name)
        batch.delete(MESSAGES, b"a" if name == b"b" else b"none")
        batch.commit()


BEFORE: dict[bytes, bytes] = {}
BETWEEN = {b"a": b"a"}
AFTER = {b"b": b"b"}


@pytest.mark.parametrize("number", range(1, 7))
@pytest.mark.parametrize("kept", [False, True])
def test_a_crash_at_every_write_leads_back_to_a_commit(number: int, kept: bool) -> None:
    store = MemoryStore(faults=stop_at(number, Crash(kept=kept)))
    with pytest.raises(Crash):
        two_batches(store)
    reached = (number + (1 if kept and number % 3 == 0 else 0) - 1) // 3
    again = store.crash()
    assert committed(again)[MESSAGES] == [BEFORE, BETWEEN, AFTER][reached]
    with pytest.raises(StoreFailedError, match="stopped"):
        store.begin()
    two_batches(again)
    assert committed(again)[MESSAGES] == AFTER


@pytest.mark.parametrize(("kept", "left"), [(False, BETWEEN), (True, AFTER)])
def test_a_commit_that_fails_stops_the_store(kept: bool, left: dict[bytes, bytes]) -> None:
    store = MemoryStore(faults=stop_at(6, CommitFails(kept=kept)))
    with pytest.raises(StoreFailedError, match="commit failed"):
        two_batches(store)
    with pytest.raises(StoreFailedError, match="commit failed"):
        store.begin()
    with pytest.raises(StoreFailedError, match="commit failed"), store.snapshot():
        pass
    assert committed(store.crash())[MESSAGES] == left


def test_the_error_of_a_failed_commit_names_its_cause() -> None:
    fault = CommitFails(kept=False)
    with pytest.raises(StoreFailedError) as failed:
        two_batches(MemoryStore(faults=stop_at(3, fault)))
    assert failed.value.__cause__ is fault


def test_the_hook_is_told_what_and_how_many() -> None:
    seen: list[tuple[Write, int]] = []
    store = MemoryStore(faults=lambda write, count: seen.append((write, count)))
    two_batches(store)
    assert seen == list(zip([Write.PUT, Write.DELETE, Write.COMMIT] * 2, range(1, 7), strict=True))


def test_its_size_follows_what_it_holds() -> None:
    store = MemoryStore(max_bytes=100_000)
    two_batches(store)
    batch = store.begin()
    batch.put(MESSAGES, b"c", b"c" * 1000)
    batch.put(MESSAGES, b"c", b"c" * 10)
    batch.abort()
    assert store.size == store.crash().size == 1 + 1 + 16
