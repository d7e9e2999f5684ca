"""A batch as a redo record: replayed on another store, it leaves the same records."""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

import tiercel
from tiercel.model.codes import DeliveryGuarantee
from tiercel.store import Batch, Keyspace, MemoryStore, Space, Store, View

from .helpers import committed

RECOVERABLE = DeliveryGuarantee.RECOVERABLE
Change = tuple[Keyspace, bytes, bytes | None]  # None: deleted


class RecordingBatch:
    """Wraps a batch and notes what changes; reads pass through."""

    def __init__(self, store: "RecordingStore", batch: Batch) -> None:
        self._store = store
        self._batch = batch
        self._changes: list[Change] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batch, name)

    def put(self, space: Keyspace, key: bytes, value: bytes) -> None:
        self._store.verbs.add("put")
        self._batch.put(space, key, value)
        self._changes.append((space, key, value))

    def put_many(self, space: Keyspace, records: Sequence[tuple[bytes, bytes]]) -> None:
        self._store.verbs.add("put_many")
        self._batch.put_many(space, records)
        self._changes += [(space, key, value) for key, value in records]

    def delete(self, space: Keyspace, key: bytes) -> bool:
        self._store.verbs.add("delete")
        self._changes.append((space, key, None))
        return self._batch.delete(space, key)

    def delete_many(self, space: Keyspace, keys: Iterable[bytes]) -> None:
        self._store.verbs.add("delete_many")
        keys = list(keys)
        self._batch.delete_many(space, keys)
        self._changes += [(space, key, None) for key in keys]

    def take(self, space: Keyspace, at_least: bytes, below: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        self._store.verbs.add("take")
        taken = self._batch.take(space, at_least, below, limit)
        self._changes += [(space, key, None) for key, _ in taken]
        return taken

    def commit(self) -> None:
        self._store.shipped.append(self._changes)
        self._batch.commit()


class RecordingStore:
    """Has the record of every batch in `shipped`, before the batch is committed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.refusal, self.refusals = "", 0
        self.shipped: list[list[Change]] = []
        self.verbs: set[str] = set()  # that have changed something

    def begin(self) -> Batch:
        recording: Any = RecordingBatch(self, self._store.begin())
        return recording  # type: ignore[no-any-return]

    def snapshot(self) -> AbstractContextManager[View]:
        return self._store.snapshot()

    def forget_dead_readers(self) -> None:
        self._store.forget_dead_readers()

    def space(self) -> Space:
        return self._store.space()

    def close(self) -> None:
        self._store.close()


def replayed(batches: list[list[Change]]) -> MemoryStore:
    replica = MemoryStore()
    for changes in batches:
        batch = replica.begin()
        for space, key, value in changes:
            if value is None:
                batch.delete(space, key)
            else:
                batch.put(space, key, value)
        batch.commit()
    return replica


def test_a_replica_has_every_record_of_a_queue_manager(store: Store) -> None:
    recording = RecordingStore(store)
    with patch("tiercel.server.driver.open_store", return_value=recording):
        manager = tiercel.open("unused", computer_name="HOST")
    with manager:
        orders = manager.create_queue(r".\private$\orders", transactional=True)
        plain = manager.create_queue(r".\private$\plain")
        for number in range(5):
            with manager.transaction() as transaction:
                orders.send(b"%d" % number, transaction=transaction)
            plain.send(tiercel.Message(b"%d" % number, delivery=RECOVERABLE, time_to_be_received=60))
        orders.receive(timeout=0)
        plain.receive(timeout=0)
        manager.queue(r".\private$\plain").purge()
        for number in range(5):
            plain.send(tiercel.Message(b"%d" % number, delivery=RECOVERABLE))
        manager.consumer("reader").claim(r".\private$\plain")
        assert recording.verbs == {"put", "put_many", "delete", "delete_many", "take"}
        assert committed(replayed(recording.shipped)) == committed(store)
        assert len(recording.shipped) > 10
