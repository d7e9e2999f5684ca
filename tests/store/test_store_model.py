"""Both stores against plain dictionaries, step by step."""

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tiercel.store import Batch, Keyspace, MemoryStore, Store
from tiercel.store.lmdb_store import LmdbStore

from .helpers import Contents, committed, contents

SPACES = st.sampled_from([Keyspace.MESSAGES, Keyspace.QUEUES, Keyspace.EXPIRIES])
# Few and short keys, so that they meet; and long ones, so that pages split.
KEYS = st.one_of(
    st.binary(min_size=1, max_size=2),
    st.sampled_from([b"k" * 200 + bytes([n]) for n in range(60)]),
)
BOUNDS = st.one_of(st.just(b""), KEYS, st.just(b"\xff" * 512))
VALUES = st.one_of(st.binary(max_size=3), st.sampled_from([b"v" * 1300, b"w" * 5000, b"x" * 70_000]))


class StoreAgainstDictionaries(RuleBasedStateMachine):
    store: Store
    batch: Batch | None

    def open(self) -> Store:
        raise NotImplementedError

    def reopen(self) -> Store:
        """The store after the process has ended."""
        raise NotImplementedError

    @initialize()
    def start(self) -> None:
        self.store = self.open()
        self.batch = None
        self.kept: Contents = {space: {} for space in Keyspace}
        self.written = {space: dict(records) for space, records in self.kept.items()}

    @precondition(lambda self: self.batch is None)
    @rule()
    def begin(self) -> None:
        self.batch = self.store.begin()

    @precondition(lambda self: self.batch is not None)
    @rule(space=SPACES, key=KEYS, value=VALUES)
    def put(self, space: Keyspace, key: bytes, value: bytes) -> None:
        assert self.batch is not None
        self.batch.reserve(len(value))
        self.batch.put(space, key, value)
        self.written[space][key] = value

    @precondition(lambda self: self.batch is not None)
    @rule(space=SPACES, key=KEYS)
    def delete(self, space: Keyspace, key: bytes) -> None:
        assert self.batch is not None
        assert self.batch.delete(space, key) == (self.written[space].pop(key, None) is not None)

    @precondition(lambda self: self.batch is not None)
    @rule(space=SPACES, keys=st.lists(KEYS, max_size=20))
    def delete_many(self, space: Keyspace, keys: list[bytes]) -> None:
        assert self.batch is not None
        self.batch.delete_many(space, keys)
        for key in keys:
            self.written[space].pop(key, None)

    @precondition(lambda self: self.batch is not None)
    @rule(space=SPACES, at_least=BOUNDS, below=BOUNDS)
    def take_first(self, space: Keyspace, at_least: bytes, below: bytes) -> None:
        assert self.batch is not None
        found = self.batch.first(space, at_least, below)
        names = sorted(name for name in self.written[space] if at_least <= name < below)
        assert found == ((names[0], self.written[space][names[0]]) if names else None)
        if found is not None:
            assert self.batch.delete(space, found[0])
            del self.written[space][found[0]]

    @precondition(lambda self: self.batch is not None)
    @rule(space=SPACES, keys=st.lists(KEYS, max_size=20), value=VALUES)
    def put_many(self, space: Keyspace, keys: list[bytes], value: bytes) -> None:
        assert self.batch is not None
        records = [(key, value) for key in keys]
        self.batch.reserve(sum(len(value) for _, value in records), len(records))
        self.batch.put_many(space, records)
        self.written[space].update(records)

    @precondition(lambda self: self.batch is not None)
    @rule(space=SPACES, at_least=BOUNDS, below=BOUNDS, limit=st.integers(0, 30))
    def take_many(self, space: Keyspace, at_least: bytes, below: bytes, limit: int) -> None:
        assert self.batch is not None
        names = sorted(name for name in self.written[space] if at_least <= name < below)[:limit]
        wanted = [(name, self.written[space].pop(name)) for name in names]
        assert self.batch.take(space, at_least, below, limit) == wanted

    @precondition(lambda self: self.batch is not None)
    @rule(space=SPACES, key=KEYS, at_least=BOUNDS, below=BOUNDS)
    def read(self, space: Keyspace, key: bytes, at_least: bytes, below: bytes) -> None:
        assert self.batch is not None
        records = self.written[space]
        inside = sorted((name, value) for name, value in records.items() if at_least <= name < below)
        assert self.batch.get(space, key) == records.get(key)
        assert list(self.batch.range(space, at_least, below)) == inside
        assert self.batch.last(space, at_least, below) == (inside[-1] if inside else None)
        assert self.batch.count(space) == len(records)

    @precondition(lambda self: self.batch is not None)
    @rule()
    def commit(self) -> None:
        assert self.batch is not None
        self.batch.commit()
        self.batch = None
        self.kept = {space: dict(records) for space, records in self.written.items()}

    @precondition(lambda self: self.batch is not None)
    @rule()
    def abort(self) -> None:
        assert self.batch is not None
        self.batch.abort()
        self.forget()

    @rule()
    def restart(self) -> None:
        self.store = self.reopen()
        self.forget()

    def forget(self) -> None:
        self.batch = None
        self.written = {space: dict(records) for space, records in self.kept.items()}

    @invariant()
    def holds_what_was_committed(self) -> None:
        if hasattr(self, "store"):
            assert committed(self.store) == self.kept
            if self.batch is not None:
                assert contents(self.batch) == self.written


class LmdbMachine(StoreAgainstDictionaries):
    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="tiercel-store-"))

    def open(self) -> Store:
        return LmdbStore.open(self.directory, max_bytes=64 * 2**20)

    def reopen(self) -> Store:
        self.store.close()
        return self.open()

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            assert LmdbStore.verify(self.directory) == []
        shutil.rmtree(self.directory)


class MemoryMachine(StoreAgainstDictionaries):
    def open(self) -> Store:
        return MemoryStore()

    def reopen(self) -> Store:
        assert isinstance(self.store, MemoryStore)
        return self.store.crash()


@pytest.mark.parametrize("machine", [LmdbMachine, MemoryMachine])
def test_against_dictionaries(machine: type[StoreAgainstDictionaries]) -> None:
    run_state_machine_as_test(
        machine, settings=settings(max_examples=60, stateful_step_count=60, deadline=None)
    )
