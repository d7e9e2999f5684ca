"""The durable state of a queue manager: ordered keyspaces behind one small interface.

Records are opaque bytes here; what they mean, and whether one of them is damaged, is the engine's matter.
The engine imports the interface from this package and is handed a store: `LmdbStore` on disk, `MemoryStore`
in the simulator and in tests.
"""

from tiercel.store.interface import MAX_KEY_SIZE, Batch, Keyspace, Store, View
from tiercel.store.lmdb_store import LmdbStore
from tiercel.store.memory_store import CommitFails, Crash, MemoryStore, Write

__all__ = [
    "MAX_KEY_SIZE",
    "Batch",
    "CommitFails",
    "Crash",
    "Keyspace",
    "LmdbStore",
    "MemoryStore",
    "Store",
    "View",
    "Write",
]
