"""Small rows of META that transports keep and read often.

Reads come from memory: one from the store would begin a transaction for each batch of express messages,
which need none.
"""

from tiercel.engine.core import Core
from tiercel.store.interface import Keyspace

_META = Keyspace.META


class Notes:
    def __init__(self, core: Core) -> None:
        self._core = core
        self._known: dict[bytes, bytes | None] = {}

    def get(self, key: bytes) -> bytes | None:
        if key not in self._known:
            self._known[key] = self._core.batch.get(_META, key)
        return self._known[key]

    def put(self, key: bytes, data: bytes) -> None:
        self._core.batch.put(_META, key, data)
        self._known[key] = data

    def set_aside(self, key: bytes, what: str, problem: object) -> None:
        """Move a damaged row out of the way and log it in the ledger."""
        self._core.set_aside_row(_META, key, self.get(key) or b"", what, problem)
        self._known[key] = None
