"""The life of messages: what happened to each of them, where and when.

Messages to which the same thing happens together share one entry, so that a run of 100 costs little more than
a single message. The entries of a commit are stored with it. They are collected in the tail, a record among
the counts of queues, whose page every such commit writes anyway: a row of its own would cost each commit two
more pages, 60 us. A full tail becomes a row, which has the total size of all rows before it, then entries:

    seconds 4, queue slot 4, actor 4, count 4, class 2, kind 1, unused 1, source GUID 16, numbers 4 each

The rows are a ring: the oldest make room for new ones, and `max_bytes` bounds them, whatever strangers send.
Events that change nothing in the store, as those of express messages, wait for the next commit that does;
a crash that loses these messages loses the events, too.

Numbers of queues are those of the catalog. The names of queues that are gone, and of those who acted, are
kept beside the rows. They are bounded, too: an event whose names are gone still tells the rest.
"""

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from tiercel.engine.records import packet_at
from tiercel.store.interface import Keyspace, View
from tiercel.wire.user_message import SOURCE_AT, UNIQUIFIER_AT

if TYPE_CHECKING:
    from tiercel.engine.core import Core
    from tiercel.model.identifiers import MessageId

DEFAULT_MAX_BYTES: Final = 256 << 20
_SHARE: Final = 8  # of the store's limit, at most one part in so many
_ROW_BYTES: Final = 64 << 10  # a larger row is written before the end of its batch
_TAIL_BYTES: Final = 1500  # a larger record would need a page of its own
TAIL_KEY: Final = b"\0\0\0\0life"  # in Keyspace.STATS, before those of queues
_MAX_NAMES: Final = 4096  # of each kind
_MAX_NAME: Final = 200  # characters

_ROWS, _NAMES = Keyspace.LIFE, Keyspace.LIFE_NAMES  # cached: enum lookup is slow here
_TOTAL: Final = struct.Struct("<Q")
_ENTRY: Final = struct.Struct("<IIIIHBx16s")
_NUMBER: Final = 4  # bytes
_LAST: Final = b"\xff" * 9
_ACTOR, _QUEUE = b"a", b"q"
_SOURCE_END, HEAD_BYTES = SOURCE_AT + 16, UNIQUIFIER_AT + _NUMBER


class LifeKind(IntEnum):
    """What happened to a message."""

    ENTERED = 1  # it came into a queue of this computer, or into an outgoing queue
    REFUSED = 2  # it never came into its queue; the class says why
    MOVED = 3  # to the queue
    # That it was put on the wire (4) is not recorded: it costs as much as the arrival, and tells less.
    GIVEN_BACK = 5  # it was sent, not acknowledged, and will be sent again
    HELD = 6  # a reader has it, and has not kept it yet
    CLAIMED = 7  # by a consumer, the actor
    RETURNED = 8  # to its queue, by a reader
    DELIVERED = 9  # the next computer has it
    ORDERED = 10  # its destination has it, in order
    ENDED = 11  # it left its queue for good: received, or the class says why not
    FINAL = 12  # its destination reports its end, with the class
    COPIED = 13  # a copy came into a journal or dead-letter queue
    RESENT = 14  # it was replaced by a new message
    RELEASED = 15  # a consumer has lost its claim: it is in its queue again


class LifeEvent(NamedTuple):
    time: int
    kind: LifeKind
    slot: int
    message_class: int
    actor: int


_Group = tuple[int, int, int, int, int, bytes]  # all of an entry but its numbers


class Life:
    """Part of the core: every part of the engine tells it what it does, one call for each run."""

    def __init__(self, core: "Core", max_bytes: int, limit: int | None) -> None:
        self._core = core
        self.max_bytes = max_bytes if limit is None else min(max_bytes, limit // _SHARE)
        self.actor = 0  # who acts in the present command; 0 is the queue manager, or somebody unknown
        self._groups: list[tuple[_Group, list[bytes]]] = []  # that wait for their row, in order
        self._waiting_bytes = 0
        self._tail = b""  # entries that are stored already, and not in a row yet
        self._tail_bytes = min(_TAIL_BYTES, self.max_bytes // 8)
        self._ring_bytes = self.max_bytes - self._tail_bytes
        self._next = self._total = self._first_total = 0
        self._actors: dict[str, int] = {}
        self._removed: list[int] = []  # slots whose names are kept, the oldest first
        self._load()

    def _load(self) -> None:
        batch = self._core.batch
        self._tail = batch.get(Keyspace.STATS, TAIL_KEY) or b""
        first, last = batch.first(_ROWS, b"\0", _LAST), batch.last(_ROWS, b"\0", _LAST)
        if first is not None and last is not None:
            self._first_total = _total_of(first[1])
            self._next = int.from_bytes(last[0], "big") + 1
            self._total = _total_of(last[1]) + len(last[1])
        for key, name in batch.range(_NAMES, _ACTOR, _LAST):
            number = int.from_bytes(key[1:], "big")
            if key[:1] == _ACTOR:
                self._actors[name.decode()] = number
            else:
                self._removed.append(number)

    # Recording.

    def add(self, kind: LifeKind, slot: int, packets: Sequence[bytes], message_class: int = 0) -> None:
        """Something happened to the messages with these packets, of any source."""
        if not self.max_bytes or not packets:
            return
        sources = [packet[SOURCE_AT:_SOURCE_END] for packet in packets]
        if sources.count(sources[0]) == len(sources):  # nearly always
            self.add_alike(kind, slot, packets, message_class)
            return
        by_source: dict[bytes, list[bytes]] = {}
        for source, packet in zip(sources, packets, strict=True):
            by_source.setdefault(source, []).append(packet)
        for own in by_source.values():
            self.add_alike(kind, slot, own, message_class)

    def add_alike(self, kind: LifeKind, slot: int, packets: Sequence[bytes], message_class: int = 0) -> None:
        """`add` for messages of one source."""
        if not self.max_bytes:
            return
        group = (self._core.seconds, slot, self.actor, message_class, kind, packets[0][SOURCE_AT:_SOURCE_END])
        self._put(group, [packet[UNIQUIFIER_AT:HEAD_BYTES] for packet in packets])

    def add_one(self, kind: LifeKind, slot: int, packet: bytes, message_class: int = 0) -> None:
        if not self.max_bytes:
            return
        group = (self._core.seconds, slot, self.actor, message_class, kind, packet[SOURCE_AT:_SOURCE_END])
        self._put(group, [packet[UNIQUIFIER_AT:HEAD_BYTES]])

    def add_stored(
        self, kind: LifeKind, slot: int, rows: Sequence[bytes], at: int, message_class: int = 0
    ) -> None:
        """`add` for messages whose records begin at `at` in these rows."""
        if not self.max_bytes:
            return
        starts = [packet_at(row, at) or 0 for row in rows]
        heads = [row[start : start + HEAD_BYTES] for row, start in zip(rows, starts, strict=True)]
        self.add(kind, slot, heads, message_class)

    def _put(self, group: _Group, numbers: list[bytes]) -> None:
        groups = self._groups
        if groups and groups[-1][0] == group:
            groups[-1][1].extend(numbers)
        else:
            groups.append((group, numbers))
            self._waiting_bytes += _ENTRY.size
        self._waiting_bytes += len(numbers) * _NUMBER
        if self._waiting_bytes >= _ROW_BYTES:
            self.flush()

    def flush(self) -> None:
        """Writes the events so far as a row of the batch."""
        if not self._groups:
            if self.size_bytes > self._ring_bytes:  # it was switched off, or its limit was lowered
                self._make_room(0, 0)
            if self._tail and not self.max_bytes:
                self._keep_tail(b"")
            return
        parts = [self._tail]
        for (seconds, slot, actor, message_class, kind, source), numbers in self._groups:
            parts.append(_ENTRY.pack(seconds, slot, actor, len(numbers), message_class, kind, source))
            parts += numbers
        self._groups.clear()
        self._waiting_bytes = 0
        found, batch = b"".join(parts), self._core.batch
        if len(found) <= self._tail_bytes:
            self._keep_tail(found)
            return
        self._keep_tail(b"")
        row = _TOTAL.pack(self._total) + found
        if self._make_room(len(row), 0 if batch.has_room(len(row)) else len(row)):
            batch.put(_ROWS, self._next.to_bytes(8, "big"), row)
            self._next += 1
            self._total += len(row)

    def _keep_tail(self, tail: bytes) -> None:
        if tail:
            self._core.batch.put(Keyspace.STATS, TAIL_KEY, tail)
        elif self._tail:
            self._core.batch.delete(Keyspace.STATS, TAIL_KEY)
        self._tail = tail

    def _make_room(self, size: int, missing: int) -> bool:
        """Drops old rows, `missing` bytes at least; whether a row of `size` bytes fits now.

        The work is bounded: a ring that is far above its limit, because that was lowered, shrinks by and by.
        """
        freed = 0
        while freed < missing or self.size_bytes + size > self._ring_bytes:
            dropped = self._drop_oldest()
            freed += dropped
            if not dropped or freed > size + _ROW_BYTES:
                break
        return freed >= missing and (freed >= size or self.size_bytes + size <= self._ring_bytes)

    @property
    def size_bytes(self) -> int:
        """Of all rows."""
        return self._total - self._first_total

    def _drop_oldest(self) -> int:
        """Takes the oldest row out; how many bytes it had."""
        oldest = self._core.batch.first(_ROWS, b"\0", _LAST)
        if oldest is None:
            self._first_total = self._total
            return 0
        key, row = oldest
        self._core.batch.delete(_ROWS, key)
        self._first_total = _total_of(row) + len(row)
        return len(row)

    # Names.

    def act(self, name: str) -> None:
        """From now on `name` acts, an address or an account; "" is the queue manager itself."""
        number = self._actors.get(name)
        if number is None:
            number = self._new_actor(name[:_MAX_NAME]) if name and self.max_bytes else 0
        self.actor = number

    @contextmanager
    def acting(self, name: str) -> Iterator[None]:
        """As long as the block runs, `name` acts."""
        before = self.actor
        self.act(name)
        try:
            yield
        finally:
            self.actor = before

    def _new_actor(self, name: str) -> int:
        known = self._actors.get(name)
        data, batch = name.encode(errors="replace"), self._core.batch
        if known is not None or not batch.has_room(len(data)):
            return known or 0
        number = max(self._actors.values(), default=0) + 1
        if len(self._actors) >= _MAX_NAMES:
            oldest = next(iter(self._actors))
            batch.delete(_NAMES, _name_key(_ACTOR, self._actors.pop(oldest)))
        self._actors[data.decode()] = number
        batch.put(_NAMES, _name_key(_ACTOR, number), data)
        return number

    def queue_removed(self, slot: int, name: str) -> None:
        """Keeps the name of a queue that is removed."""
        data, batch = name[:_MAX_NAME].encode(errors="replace"), self._core.batch
        if not self.max_bytes or not batch.has_room(len(data)):
            return
        if len(self._removed) >= _MAX_NAMES:
            batch.delete(_NAMES, _name_key(_QUEUE, self._removed.pop(0)))
        self._removed.append(slot)
        batch.put(_NAMES, _name_key(_QUEUE, slot), data)

    def actor_name(self, number: int) -> str:
        return self._name(_ACTOR, number)

    def removed_queue(self, slot: int) -> str:
        """The name of a queue that was removed; "" if it is not known."""
        return self._name(_QUEUE, slot)

    def _name(self, kind: bytes, number: int) -> str:
        return (self._core.batch.get(_NAMES, _name_key(kind, number)) or b"").decode()

    # Reading.

    def look(self, wanted: "MessageId", start: bytes, limit: int) -> tuple[list[LifeEvent], bytes | None]:
        """The events of a message in the next rows, and where to go on; None at the end.

        The end has the events that wait for their row, too.
        """
        source, number = wanted.lineage.bytes_le, wanted.uniquifier.to_bytes(_NUMBER, "little")
        found: list[LifeEvent] = []
        for looked, (key, row) in enumerate(self._core.batch.range(_ROWS, start or b"\0", _LAST), 1):
            if number in row and source in row:
                found += _events(row, source, number)
            if looked >= limit:
                return found, key + b"\0"
        found += _events(tail_row(self._core.batch), source, number)
        for (seconds, slot, actor, message_class, kind, of), numbers in self._groups:
            if of == source and number in numbers:
                found.append(LifeEvent(seconds, LifeKind(kind), slot, message_class, actor))
        return found, None

    @property
    def oldest(self) -> int | None:
        """The time from which on everything is recorded; None if nothing is."""
        first = self._core.batch.first(_ROWS, b"\0", _LAST)
        for row in (b"" if first is None else first[1], tail_row(self._core.batch)):
            if len(row) >= _TOTAL.size + _ENTRY.size:
                seconds: int = _ENTRY.unpack_from(row, _TOTAL.size)[0]
                return seconds
        return self._groups[0][0][0] if self._groups else None


def tail_row(view: View) -> bytes:
    """The tail as if it was a row."""
    return bytes(_TOTAL.size) + (view.get(Keyspace.STATS, TAIL_KEY) or b"")


def _events(row: bytes, source: bytes, number: bytes) -> Iterator[LifeEvent]:
    for entry, numbers in entries(row):
        seconds, slot, actor, _, message_class, kind, of = entry
        at = numbers.find(number) if of == source else -1
        while at >= 0 and at % _NUMBER:  # bytes of two numbers
            at = numbers.find(number, at + 1)
        if at >= 0:
            yield LifeEvent(seconds, LifeKind(kind), slot, message_class, actor)


def entries(row: bytes) -> Iterator[tuple[tuple[int, int, int, int, int, int, bytes], bytes]]:
    """The entries of a row, each with its numbers; nothing after a damaged one."""
    at = _TOTAL.size
    while at + _ENTRY.size <= len(row):
        entry = _ENTRY.unpack_from(row, at)
        start = at + _ENTRY.size
        at = start + entry[3] * _NUMBER
        if not entry[3] or at > len(row) or entry[5] not in _KINDS:
            return
        yield entry, row[start:at]


def is_damaged(row: bytes) -> bool:
    """Whether a row is not made of whole entries."""
    used = sum(_ENTRY.size + len(numbers) for _, numbers in entries(row))
    return _TOTAL.size + used != len(row)


_KINDS: Final = frozenset(LifeKind)


def _total_of(row: bytes) -> int:
    total: int = _TOTAL.unpack_from(row)[0] if len(row) >= _TOTAL.size else 0
    return total


def _name_key(kind: bytes, number: int) -> bytes:
    return kind + number.to_bytes(4, "big")
