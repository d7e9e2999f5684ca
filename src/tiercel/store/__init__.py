"""The durable state of a queue manager: ordered keyspaces behind one small interface.

Records are opaque bytes here; their meaning, and whether one is damaged, is the engine's concern. A store is
opened by its URL (`open_store`), and read by other processes while it is being written (`open_reader`).
Code outside this package imports nothing that is specific to LMDB.
"""

from tiercel.store.factory import (
    copy_store,
    directory_of,
    open_reader,
    open_snapshot,
    open_store,
    verify_store,
)
from tiercel.store.interface import (
    DEFAULT_MAX_BYTES,
    MAX_KEY_SIZE,
    MAX_MAX_BYTES,
    MIN_MAX_BYTES,
    SOCKET_NAME,
    Batch,
    Keyspace,
    Reader,
    Space,
    Store,
    View,
)
from tiercel.store.memory_store import CommitFails, Crash, MemoryStore, Write

__all__ = [
    "DEFAULT_MAX_BYTES",
    "MAX_KEY_SIZE",
    "MAX_MAX_BYTES",
    "MIN_MAX_BYTES",
    "SOCKET_NAME",
    "Batch",
    "CommitFails",
    "Crash",
    "Keyspace",
    "MemoryStore",
    "Reader",
    "Space",
    "Store",
    "View",
    "Write",
    "copy_store",
    "directory_of",
    "open_reader",
    "open_snapshot",
    "open_store",
    "verify_store",
]
