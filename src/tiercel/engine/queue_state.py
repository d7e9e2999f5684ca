"""A queue at work: its messages in order, its locks and waiters. [MS-MQDMPR] 3.1.1.2, 3.1.1.11.

Recoverable messages are in the store under (queue, lookup id), express messages in memory under the lookup
id; reading merges the two. Locks live in memory only: those of a crash are gone after it, as they must be
(DMPR T-24), and those of prepared transactions are set again from the transactions.
"""

import heapq
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING

from sortedcontainers import SortedDict

from tiercel.engine.core import Core
from tiercel.engine.records import (
    LAST_LOOKUP_ID,
    Record,
    decode_record,
    encode_arrivals,
    lookup_id_of,
    message_key,
    packet_of,
    packets_of,
)
from tiercel.model.codes import MessageClass, QueueType
from tiercel.model.errors import StoreDamagedError, StoreFullError
from tiercel.model.identifiers import LOOKUP_SEQUENCE_BITS, lookup_id_sequence
from tiercel.model.queue import OutgoingQueue, Queue
from tiercel.store.interface import Keyspace
from tiercel.wire.user_message import UserMessage

if TYPE_CHECKING:
    from tiercel.engine.handles import OpenQueue, Waiter
    from tiercel.engine.transaction import Transaction

_MESSAGES = Keyspace.MESSAGES  # cached: enum lookup is slow here
RUN_BYTES = 16 << 20  # of messages that are taken together, but for the last
START = -1  # before every message: where a cursor begins


@dataclass(slots=True)
class Lock:
    """A message that a reader has taken and not yet kept or given back."""

    owner: "Transaction | OpenQueue | None"  # None: the protocol, which is sending it
    opened: "OpenQueue | None" = None  # the handle that took it; none after a restart
    allow_peek: bool = False
    # How the message ends when it is given back: it was purged, or expired meanwhile.
    doom: MessageClass | None = None
    # The message of a two-phase read, which ends soon: it need not be looked for and read once more.
    record: Record | None = None
    packet: UserMessage | None = None

    @property
    def is_visible(self) -> bool:
        """Whether others may peek at the message all the same."""
        return self.allow_peek and self.doom is None


IN_FLIGHT = Lock(None)  # of every message that a protocol is sending, until it is doomed


class QueueState:
    def __init__(self, slot: int, queue: Queue, parent: "QueueState | None" = None) -> None:
        self.slot = slot
        self.queue = queue
        self.is_outgoing = isinstance(queue, OutgoingQueue)
        # Whether it was made for an acknowledgement, and no application of this computer has used it.
        self.is_for_acknowledgements = False
        self.answers_to = ""  # the only address that its acknowledgements are for; empty for any
        # Whether it is a journal or dead-letter queue, where messages never expire.
        self.keeps_messages = queue.queue_type is QueueType.SYSTEM and not self.is_outgoing
        self.parent = parent  # of a subqueue or of a queue journal
        self.journal: QueueState | None = None
        self.subqueues: dict[str, QueueState] = {}
        self.stored_count = 0
        self.stored_bytes = 0
        self.express: SortedDict[int, Record] = SortedDict()
        self.express_bytes = 0
        self.held_bytes = 0  # of sends whose transaction has not ended
        self.pending_moves = 0  # into it, of transactions that have not ended
        self.entered = 0  # messages that came in since the start, and that left: for rates
        self.left = 0
        self.claimed_count = 0  # of its messages that consumers hold: out of the list, but still the queue's
        self.claimed_bytes = 0
        self.consumers = 0  # that have claimed from it
        self.not_whole_until = 0.0  # a claim that found only parts of transactions looks again then
        self.epoch = 0  # raised by every purge that ended something, for readers that keep a position
        self.locks: dict[int, Lock] = {}
        self.waiters: list[Waiter] = []
        self.handles: dict[int, OpenQueue] = {}
        self.is_deleted = False
        # Messages from this sequence on are hidden: some of them wait for the commit of their transaction.
        self.hidden_from: int | None = None
        self._hidden: dict[int, None] = {}  # the first sequence of each such transaction
        self._hidden_count = self._hidden_bytes = 0
        self._end = message_key(slot + 1, 0)
        # No available message has a smaller lookup id: locked messages are skipped only once.
        self._available_from = 0
        self._peekable_locks = 0
        self.held_by_readers = 0  # locks that are not those of a protocol that is sending

    def __str__(self) -> str:
        return str(self.queue)

    @property
    def count(self) -> int:
        return self.stored_count - self._hidden_count + len(self.express)

    @property
    def size_bytes(self) -> int:
        return self.stored_bytes - self._hidden_bytes + self.express_bytes

    @property
    def is_subqueue(self) -> bool:
        return self.parent is not None and not self.keeps_messages

    @property
    def is_simple(self) -> bool:
        """Whether all its messages are in the store and available: most queues, most of the time."""
        return not (self.locks or self.express or self.is_outgoing or self._hidden)

    def can_move_to(self, goal: "QueueState") -> bool:
        """Messages move between a queue and its subqueues only."""
        is_family = (self.parent or self) is (goal.parent or goal)
        return is_family and self is not goal and not self.keeps_messages and not goal.keeps_messages

    @property
    def used_bytes(self) -> int:
        """The bytes that count for its quota."""
        return self.stored_bytes + self.express_bytes + self.held_bytes + self.claimed_bytes

    def hold(self, core: Core, size: int) -> None:
        """Counts a send of a transaction that has not ended: its commit must not pass a quota (DMPR T-08)."""
        self.held_bytes += size
        core.total_bytes += size
        core.pending_bytes += size

    def release(self, core: Core, size: int) -> None:
        """Undoes `hold`: the send is in the queue now, where it counts by itself, or was aborted."""
        self.hold(core, -size)

    # The list of messages.

    def insert(self, core: Core, lookup_id: int, record: Record, *, recoverable: bool) -> None:
        size = len(record.packet)
        if recoverable:
            core.batch.put(_MESSAGES, message_key(self.slot, lookup_id), record.encode())
            self.stored_count += 1
            self.stored_bytes += size
            core.touch(self)
        else:
            self.express[lookup_id] = record
            self.express_bytes += size
        self.entered += 1
        core.total_bytes += size
        self.publish()
        if lookup_id < self._available_from:  # noqa: PLR1730  # min() is slow here
            self._available_from = lookup_id

    def insert_arrivals(self, core: Core, lookup_ids: Sequence[int], packets: Sequence[bytes]) -> None:
        """`insert` for many recoverable messages that have just come."""
        slot, size = self.slot, sum(map(len, packets))
        keys = [message_key(slot, lookup_id) for lookup_id in lookup_ids]
        records = encode_arrivals(packets, core.seconds)
        core.batch.put_many(_MESSAGES, list(zip(keys, records, strict=True)))
        self.stored_count += len(packets)
        self.entered += len(packets)
        self.stored_bytes += size
        core.total_bytes += size
        core.touch(self)
        self.publish()
        self._available_from = min((self._available_from, *lookup_ids))

    # Messages that are stored before the commit of their transaction.

    def hide(self, first: int) -> None:
        """From now on messages with this sequence or a later one are there for nobody."""
        self._hidden[first] = None
        self.hidden_from = min(self._hidden)

    def is_hidden(self, lookup_id: int) -> bool:
        return self.hidden_from is not None and lookup_id_sequence(lookup_id) >= self.hidden_from

    def insert_hidden(self, core: Core, lookup_ids: Sequence[int], packets: Sequence[bytes]) -> None:
        self._hidden_count += len(packets)
        self._hidden_bytes += sum(map(len, packets))
        self.insert_arrivals(core, lookup_ids, packets)

    def show(self, first: int, count: int, size: int) -> None:
        """Undoes `hide` for messages that are published, or gone."""
        del self._hidden[first]
        self.hidden_from = min(self._hidden, default=None)
        self._hidden_count -= count
        self._hidden_bytes -= size
        self._available_from = 0
        self.publish()

    def remove_hidden(self, core: Core, first: int, count: int, size: int) -> None:
        """Messages that were hidden are out of the store."""
        self._count_out(core, count, size)
        self.show(first, count, size)

    def take_stored(self, core: Core, limit: int) -> list[tuple[int, Record]]:
        """Takes the first messages out of a simple queue."""
        first = message_key(self.slot, 0)
        rows = core.batch.take(_MESSAGES, first, self._end, min(limit, self.stored_count))
        taken, size = [], 0
        for key, data in rows:
            lookup_id = lookup_id_of(key)
            record = self._decode(core, lookup_id, data)
            if record is not None:
                size += len(record.packet)
                taken.append((lookup_id, record))
        self._count_out(core, len(taken), size)
        return taken

    def remove(self, core: Core, lookup_id: int, record: Record) -> None:
        if self.locks:
            self._drop_lock(lookup_id)
        size = len(record.packet)
        if self.express and self.express.pop(lookup_id, None) is not None:
            self.express_bytes -= size
        elif core.batch.delete(_MESSAGES, message_key(self.slot, lookup_id)):
            self.stored_count -= 1
            # A damaged record that was set aside may have left the sum off; an empty queue has no bytes.
            if not self.stored_count or size > self.stored_bytes:
                size = self.stored_bytes
            self.stored_bytes -= size
            core.touch(self)
        else:
            return
        self.left += 1
        core.total_bytes -= size
        self.publish()

    def remove_run(self, core: Core, lookup_ids: Sequence[int], size: int, *, recoverable: bool) -> None:
        """`remove` for messages that were in flight together; `size` is their sum."""
        for lookup_id in lookup_ids:
            del self.locks[lookup_id]  # of a protocol: nothing else knows it
        if recoverable:
            self.remove_stored(core, lookup_ids, size)
            return
        for lookup_id in lookup_ids:
            del self.express[lookup_id]
        self.express_bytes -= size
        self.left += len(lookup_ids)
        core.total_bytes -= size
        self.publish()

    def remove_held(self, core: Core, lookup_ids: Sequence[int], size: int) -> None:
        """`remove` for stored messages that readers hold; `size` is their sum."""
        for lookup_id in lookup_ids:
            self._drop_lock(lookup_id)
        self.remove_stored(core, lookup_ids, size)

    def remove_stored(self, core: Core, lookup_ids: Sequence[int], size: int) -> None:
        """Takes many stored messages, none of them locked, out of the list; `size` is their sum."""
        slot = self.slot
        core.batch.delete_many(_MESSAGES, [message_key(slot, lookup_id) for lookup_id in lookup_ids])
        self._count_out(core, len(lookup_ids), size)

    def _count_out(self, core: Core, count: int, size: int) -> None:
        self.stored_count -= count
        self.left += count
        if not self.stored_count or size > self.stored_bytes:
            size = self.stored_bytes
        self.stored_bytes -= size
        core.total_bytes -= size
        core.touch(self)
        self.publish()

    def claim(self, core: Core, count: int, size: int) -> None:
        """Counts messages that a consumer holds; less than nothing when it lets them go."""
        self.claimed_count += count
        self.claimed_bytes += size
        core.total_bytes += size

    def publish(self) -> None:
        queue = self.queue
        queue.message_count = self.stored_count - self._hidden_count + len(self.express)
        queue.total_bytes = self.stored_bytes - self._hidden_bytes + self.express_bytes

    def rewrite(self, core: Core, lookup_id: int, record: Record) -> None:
        """Stores a message again whose counters have changed; without room it keeps the old ones."""
        if lookup_id in self.express:
            self.express[lookup_id] = record
            return
        with suppress(StoreFullError):
            core.reserve(len(record.packet))
            core.batch.put(_MESSAGES, message_key(self.slot, lookup_id), record.encode())

    def replace(self, core: Core, lookup_id: int, record: Record) -> None:
        """Stores a message of the store again, with a packet of the same size; there is room for it."""
        core.batch.put(_MESSAGES, message_key(self.slot, lookup_id), record.encode())

    def get(self, core: Core, lookup_id: int) -> Record | None:
        express: Record | None = self.express.get(lookup_id)
        if express is not None or not self.stored_count or not 0 <= lookup_id <= LAST_LOOKUP_ID:
            return express
        data = core.batch.get(_MESSAGES, message_key(self.slot, lookup_id))
        return None if data is None else self._decode(core, lookup_id, data)

    def lock(self, lookup_id: int, lock: Lock) -> None:
        self.locks[lookup_id] = lock
        if lookup_id == self._available_from:  # sequential readers find the next one at once
            self._available_from = lookup_id + 1
        self._peekable_locks += lock.allow_peek
        self.held_by_readers += lock.owner is not None
        if lock.opened is not None and lock.owner is lock.opened:
            lock.opened.held.add(lookup_id)

    def doom(self, lookup_id: int, reason: MessageClass) -> None:
        """A locked message ends when it is given back."""
        if self.locks[lookup_id] is IN_FLIGHT:
            self.locks[lookup_id] = Lock(None)
        self.locks[lookup_id].doom = reason

    def unlock(self, lookup_id: int) -> Lock | None:
        self._available_from = min(self._available_from, lookup_id)
        return self._drop_lock(lookup_id)

    def _drop_lock(self, lookup_id: int) -> Lock | None:
        lock = self.locks.pop(lookup_id, None)
        if lock is not None:
            self._peekable_locks -= lock.allow_peek
            self.held_by_readers -= lock.owner is not None
            if lock.opened is not None:
                lock.opened.held.discard(lookup_id)
        return lock

    # Seek Available Message Position ([MS-MQDMPR] 3.1.7.3.2); nothing found is None either way (DMPR T-03).

    def next_available(self, core: Core, after: int, *, peek: bool = False) -> tuple[int, Record] | None:
        if after >= self._available_from or (peek and self._peekable_locks):
            return self._seek(core, after + 1, peek=peek)
        while (found := self.next_undecoded(core)) is not None:
            record = self.decode(core, *found)
            if record is not None:
                return found[0], record
        return None

    def next_undecoded(self, core: Core) -> tuple[int, bytes | Record] | None:
        """The first available message as it is stored; callers that know it need not decode it."""
        at = self._available_from
        while (found := self.at_or_after(core, at)) is not None and found[0] in self.locks:
            at = found[0] + 1
        self._available_from = LAST_LOOKUP_ID if found is None else found[0]
        return found

    def lock_available(self, core: Core, limit: int) -> list[tuple[int, bytes | Record]]:
        """Locks the first available messages for the protocol that sends them, at most `limit`.

        Returns them as they are stored. They are read in one scan, which ends after RUN_BYTES.
        """
        found = self._first_stored(core, limit)
        if found is None:
            found, size = [], 0
            for each in self.available(core):
                found.append(each)
                size += _size(each[1])
                if len(found) == limit or size >= RUN_BYTES:
                    break
        is_all = len(found) < limit and sum([_size(data) for _, data in found]) < RUN_BYTES
        self._available_from = LAST_LOOKUP_ID if is_all else found[-1][0] + 1
        self.locks.update(dict.fromkeys([lookup_id for lookup_id, _ in found], IN_FLIGHT))
        return found

    def _first_stored(self, core: Core, limit: int) -> list[tuple[int, bytes | Record]] | None:
        """The first available messages, read at once, if no other lies between them: the usual case."""
        if self.express or self._hidden or not self.stored_count:
            return None
        first = message_key(self.slot, self._available_from)
        rows = core.batch.first_many(_MESSAGES, first, self._end, limit, RUN_BYTES)
        lookup_ids = [int.from_bytes(key[4:], "big") for key, _ in rows]  # lookup_id_of, without the call
        if not self.locks.keys().isdisjoint(lookup_ids):
            return None
        return [(lookup_id, data) for lookup_id, (_, data) in zip(lookup_ids, rows, strict=True)]

    def decode(self, core: Core, lookup_id: int, data: bytes | Record) -> Record | None:
        return data if isinstance(data, Record) else self._decode(core, lookup_id, data)

    def packet_of(self, core: Core, lookup_id: int, data: bytes | Record) -> bytes | None:
        """`decode` for callers that need only the packet."""
        if isinstance(data, Record):
            return data.packet
        try:
            return packet_of(data)
        except StoreDamagedError as problem:
            core.set_aside(self, lookup_id, data, problem)
            return None

    def packets_of(self, core: Core, found: Sequence[tuple[int, bytes | Record]]) -> list[tuple[int, bytes]]:
        """`packet_of` for messages that were locked; damaged ones are set aside, and unlocked."""
        stored = [data for _, data in found if not isinstance(data, Record)]
        if len(stored) == len(found):
            with suppress(StoreDamagedError):
                packets = packets_of(stored)
                return [(lookup_id, packet) for (lookup_id, _), packet in zip(found, packets, strict=True)]
        sound: list[tuple[int, bytes]] = []
        for lookup_id, data in found:
            packet = self.packet_of(core, lookup_id, data)
            if packet is None:
                self.unlock(lookup_id)
            else:
                sound.append((lookup_id, packet))
        return sound

    def available(self, core: Core) -> Iterator[tuple[int, bytes | Record]]:
        """Every available message, in order and as it is stored; remove none while iterating."""
        if self._hidden:
            return self._available_before_hidden(core)
        locks, messages = self.locks, self._stored_from(core, self._available_from)
        if self.express and self.stored_count:
            messages = heapq.merge(messages, self.express.items(), key=itemgetter(0))
        elif self.express:
            messages = iter(self.express.items())
        return (found for found in messages if found[0] not in locks) if locks else messages

    def _available_before_hidden(self, core: Core) -> Iterator[tuple[int, bytes | Record]]:
        at = self._available_from
        while (found := self.at_or_after(core, at)) is not None:
            at = found[0] + 1
            if found[0] not in self.locks:
                yield found

    def _stored_from(self, core: Core, at: int) -> Iterator[tuple[int, bytes | Record]]:
        if self.stored_count:
            for key, data in core.batch.range(_MESSAGES, message_key(self.slot, at), self._end):
                yield int.from_bytes(key[4:], "big"), data  # lookup_id_of, without the call

    def _seek(self, core: Core, at: int, *, peek: bool) -> tuple[int, Record] | None:
        while (found := self.at_or_after(core, at)) is not None:
            lookup_id, data = found
            at = lookup_id + 1
            if self.locks and self._is_taken(lookup_id, peek=peek):
                continue
            record = data if isinstance(data, Record) else self._decode(core, lookup_id, data)
            if record is not None:
                return lookup_id, record
        return None

    def previous_available(self, core: Core, before: int, *, peek: bool = False) -> tuple[int, Record] | None:
        while (found := self.before(core, before)) is not None:
            lookup_id, data = found
            before = lookup_id
            if self._is_taken(lookup_id, peek=peek):
                continue
            record = data if isinstance(data, Record) else self._decode(core, lookup_id, data)
            if record is not None:
                return lookup_id, record
        return None

    def last_lookup_id(self, core: Core) -> int:
        """Where the tail stands, whether available or not; START when the queue is empty."""
        found = self.before(core, LAST_LOOKUP_ID + 1)
        return START if found is None else found[0]

    def _is_taken(self, lookup_id: int, *, peek: bool) -> bool:
        lock = self.locks.get(lookup_id)
        return lock is not None and not (peek and lock.is_visible)

    def at_or_after(self, core: Core, at: int) -> tuple[int, bytes | Record] | None:
        found = self._at_or_after(core, at)
        while found is not None and self.hidden_from is not None and self.is_hidden(found[0]):
            next_priority = (found[0] >> LOOKUP_SEQUENCE_BITS) + 1
            found = self._at_or_after(core, next_priority << LOOKUP_SEQUENCE_BITS)
        return found

    def _at_or_after(self, core: Core, at: int) -> tuple[int, bytes | Record] | None:
        stored = None
        if self.stored_count and at <= LAST_LOOKUP_ID:
            stored = core.batch.first(_MESSAGES, message_key(self.slot, at), self._end)
        if not self.express:
            return None if stored is None else (lookup_id_of(stored[0]), stored[1])
        index = self.express.bisect_left(at)
        express = self.express.peekitem(index) if index < len(self.express) else None
        if stored is None:
            return express
        lookup_id = lookup_id_of(stored[0])
        return express if express is not None and express[0] < lookup_id else (lookup_id, stored[1])

    def before(self, core: Core, before: int) -> tuple[int, bytes | Record] | None:
        found = self._before(core, before)
        if self.hidden_from is not None and found is not None and self.is_hidden(found[0]):
            of_priority = found[0] >> LOOKUP_SEQUENCE_BITS << LOOKUP_SEQUENCE_BITS
            return self.before(core, of_priority | self.hidden_from)
        return found

    def _before(self, core: Core, before: int) -> tuple[int, bytes | Record] | None:
        stored = None
        if self.stored_count and before > 0:
            end = self._end if before > LAST_LOOKUP_ID else message_key(self.slot, before)
            stored = core.batch.last(_MESSAGES, message_key(self.slot, 0), end)
        index = self.express.bisect_left(before) if self.express else 0
        express = self.express.peekitem(index - 1) if index else None
        if stored is None:
            return express
        lookup_id = lookup_id_of(stored[0])
        return express if express is not None and express[0] > lookup_id else (lookup_id, stored[1])

    def _decode(self, core: Core, lookup_id: int, data: bytes) -> Record | None:
        """The record; a damaged one is set aside, told of, and never delivered."""
        try:
            return decode_record(data)
        except StoreDamagedError as problem:
            core.set_aside(self, lookup_id, data, problem)
            return None


def _size(data: bytes | Record) -> int:
    """Of a message as it is stored, about."""
    return len(data.packet if isinstance(data, Record) else data)
