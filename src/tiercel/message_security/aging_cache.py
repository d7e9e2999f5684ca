"""The caches of keys and certificates: [MS-MQQB] 3.1.1.3.3, 3.1.1.3.4, 3.1.6.10 to 3.1.6.13.

All of them have a size and a lifetime: a full one drops its older half, and a timer drops what is too old.
"""

from collections.abc import Hashable
from itertools import islice
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

SEND_KEYS = 53
RECEIVED_KEYS = 127
USER_CERTIFICATES = 53
KEY_LIFETIME_S = 600.0
CERTIFICATE_LIFETIME_S = 1200.0
_MARGIN_S = 60.0


class AgingCache(Generic[K, V]):
    """The cleanup is due at `next_deadline`; entries that are too old are not returned before it either."""

    def __init__(self, capacity: int, lifetime_s: float) -> None:
        self.next_deadline: float | None = None
        self._capacity = capacity
        self._lifetime_s = lifetime_s
        self._entries: dict[K, tuple[float, V]] = {}  # oldest first

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K, now: float) -> V | None:
        entry = self._entries.get(key)
        if entry is None or not 0 <= now - entry[0] < self._lifetime_s:
            return None
        return entry[1]

    def put(self, key: K, value: V, now: float) -> None:
        self._entries.pop(key, None)
        if len(self._entries) >= self._capacity:
            for oldest in list(islice(self._entries, self._capacity // 2)):
                del self._entries[oldest]
        self._entries[key] = now, value
        if self.next_deadline is None:
            self.next_deadline = now + self._lifetime_s

    def expire(self, now: float) -> None:
        """The cleanup timer ([MS-MQQB] 3.1.6.10); lifetimes there are in ms, and times in s."""
        if self.next_deadline is None or now < self.next_deadline:
            return
        for key, (since, _) in list(self._entries.items()):
            if now - since >= self._lifetime_s:
                del self._entries[key]
        oldest = next(iter(self._entries.values()), None)
        self.next_deadline = None if oldest is None else oldest[0] + self._lifetime_s + _MARGIN_S

    def clear(self) -> None:
        self._entries.clear()
        self.next_deadline = None
