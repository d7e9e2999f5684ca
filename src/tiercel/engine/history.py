"""MessageIDHistoryTable: the messages that came, so that none comes twice. [MS-MQQB] 3.1.1.3, 3.1.5.8.1.

Only for messages outside of transactions; the others have their streams. Each batch of arrivals is one record
of the store, written in the commit of the messages themselves: a copy that comes after a crash is recognised.
Express messages are remembered in memory alone; they end with the process anyway.
"""

import struct
from collections import OrderedDict, deque

from tiercel.engine.core import Core
from tiercel.model.errors import StoreFullError
from tiercel.store.interface import Keyspace
from tiercel.wire.user_message import UserMessage

_KEY = struct.Struct(">Q")
_TIME = struct.Struct("<Q")
_IDENTITY_SIZE = 20
_HAS_CHECKSUMS = 1 << 63  # set in the time of a row; those of format 1 have identities without them
DEFAULT_SIZE = 10_000


class History:
    def __init__(self, core: Core) -> None:
        self._core = core
        self._size = DEFAULT_SIZE
        self._seen: OrderedDict[bytes, int] = OrderedDict()  # the oldest first, with the time in seconds
        self._format_1: dict[bytes, int] = {}  # the same from rows of format 1; they end with their lifetime
        self._rows: deque[tuple[int, int, int]] = deque()  # key in the store, time, how many
        self._stored = 0
        self._next_row = 0
        # Not stored yet:
        self._taken: list[bytes] = []
        self._refused: list[bytes] = []
        self._refreshed: list[bytes] = []  # came again; an older row has them already
        self._load()

    def limit(self, size: int) -> None:
        """Keeps at most this many messages (RemoveDuplicateSize)."""
        self._size = size
        while len(self._seen) > size:
            self._seen.popitem(last=False)

    def __len__(self) -> int:
        return len(self._seen) + len(self._format_1)

    def __contains__(self, identity: bytes) -> bool:
        return identity in self._seen

    def time_of(self, identity: bytes) -> int | None:
        return self._seen.get(identity)

    def is_duplicate(self, identity: bytes) -> bool:
        """Whether the message came already; the memory of it is refreshed then."""
        if identity not in self._seen:
            return False
        self._seen[identity] = self._core.seconds
        self._seen.move_to_end(identity)
        self._refreshed.append(identity)
        return True

    def is_known_from_format_1(self, packet: UserMessage) -> bool:
        """Whether the message came before the store was taken over; it is remembered like others then."""
        if not self._format_1 or packet.identity_without_checksum not in self._format_1:
            return False
        self._remember([packet.identity], self._refreshed)
        return True

    def are_new(self, identities: list[bytes]) -> bool:
        """Whether none of the messages has come already, nor twice among these; changes nothing."""
        if self._format_1 or len(set(identities)) < len(identities):
            return False
        return self._seen.keys().isdisjoint(identities)

    def remember(self, identities: list[bytes], *, recoverable: bool, is_taken: bool = True) -> None:
        if recoverable:
            self._remember(identities, self._taken if is_taken else self._refused)
        else:
            self._remember(identities, [])

    def _remember(self, identities: list[bytes], to_store: list[bytes]) -> None:
        self._seen.update(dict.fromkeys(identities, self._core.seconds))
        to_store += identities
        while len(self._seen) > self._size:
            self._seen.popitem(last=False)

    def flush(self) -> None:
        """Stores what came with this batch, and lets go of what no longer counts."""
        if self._refused or self._refreshed:
            self._make_room()
        identities = [*self._taken, *self._refused, *self._refreshed]
        if not identities:
            return
        self._taken.clear()
        self._refused.clear()
        self._refreshed.clear()
        self._add_row(identities)

    def _make_room(self) -> None:
        """In a full store, what is refused takes the place of what came long ago: else strangers could use up
        what the store keeps for the commits that empty it. What came again takes no place: the row that it
        would displace may be the one that knows it. What was taken needs none: it found room for itself.
        """
        count = len(self._taken) + len(self._refused) + len(self._refreshed)
        try:
            self._core.batch.reserve(_TIME.size + _IDENTITY_SIZE * count)
        except StoreFullError:
            self._refreshed.clear()
            dropped = 0
            while self._rows and dropped < len(self._refused):
                dropped += self._rows[0][2]
                self._drop_row()

    def _add_row(self, identities: list[bytes]) -> None:
        now = self._core.seconds
        row = _TIME.pack(now | _HAS_CHECKSUMS) + b"".join(identities)
        self._core.batch.put(Keyspace.HISTORY, _KEY.pack(self._next_row), row)
        self._rows.append((self._next_row, now, len(identities)))
        self._next_row += 1
        self._stored += len(identities)
        while self._stored - self._rows[0][2] >= self._size:
            self._drop_row()

    def clean_up(self, lifetime_s: float) -> None:
        """Forgets what is older than the lifetime; in seconds, as the entries are (MQQB T70)."""
        oldest = self._core.seconds - lifetime_s
        while self._seen and next(iter(self._seen.values())) < oldest:
            self._seen.popitem(last=False)
        while self._format_1 and next(iter(self._format_1.values())) < oldest:
            del self._format_1[next(iter(self._format_1))]
        while self._rows and self._rows[0][1] < oldest:
            self._drop_row()

    def _drop_row(self) -> None:
        row, _, count = self._rows.popleft()
        self._core.batch.delete(Keyspace.HISTORY, _KEY.pack(row))
        self._stored -= count

    def _load(self) -> None:
        for key, data in list(self._core.batch.range(Keyspace.HISTORY, b"\0", b"\xff" * 9)):
            try:
                (row,), (time,) = _KEY.unpack(key), _TIME.unpack_from(data)
            except struct.error as problem:
                self._core.set_aside_row(Keyspace.HISTORY, key, data, "a row of the message history", problem)
                continue
            self._load_row(row, time, data)

    def _load_row(self, row: int, time: int, data: bytes) -> None:
        identities = [data[at : at + _IDENTITY_SIZE] for at in range(_TIME.size, len(data), _IDENTITY_SIZE)]
        seen = self._seen if time & _HAS_CHECKSUMS else self._format_1
        time &= ~_HAS_CHECKSUMS
        self._rows.append((row, time, len(identities)))
        self._stored += len(identities)
        self._next_row = row + 1
        for identity in identities:
            seen.pop(identity, None)
            seen[identity] = time
