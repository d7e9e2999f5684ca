"""Claims: a consumer takes messages in numbered rows, works on them, and acknowledges them later.

A claim is a durable two-phase read of many messages: they leave the list of their queue, are invisible to
others, and stay with the consumer over crashes of either side until it acknowledges them (received) or they
are released (back to their places). Each gets a number, claim_seq:
1, 2, 3, without gaps, for each consumer and queue, and never twice. Reading the numbers lo to hi twice
gives the same messages twice, which is what a data pipeline needs to run a batch again.

A consumer has an epoch, which every attach raises: a run that was replaced by another is refused from then
on. Claimed messages count for the quotas; their time to be received stands still; a purge leaves them alone.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple
from uuid import UUID

from tiercel.engine.catalog import Catalog
from tiercel.engine.claim_records import (
    HEAD_SIZE,
    LAST_SEQ,
    ClaimRow,
    check_claimed,
    claimed_at,
    claimed_key,
    encode_claimed,
    split_claimed,
)
from tiercel.engine.consumers import ROW_BYTES, Consumer, Consumers
from tiercel.engine.core import Core
from tiercel.engine.deadlines import Deadlines
from tiercel.engine.delivery import TOLD, Delivery
from tiercel.engine.life import LifeKind
from tiercel.engine.queue_state import QueueState
from tiercel.engine.records import Record, decode_record, glance, message_key, stored_packet_size
from tiercel.engine.selection import Selection, Taken, select
from tiercel.model.codes import MessageClass, ShareMode
from tiercel.model.errors import (
    ClaimLostError,
    IllegalOperationError,
    InvalidParameterError,
    QueueDeletedError,
    SharingViolationError,
    StoreDamagedError,
    StoreFullError,
)
from tiercel.model.limits import INFINITE
from tiercel.store.interface import Keyspace
from tiercel.wire.user_message import UserMessage

SLICE = 1000  # messages that one release gives back
_AT_ONCE = 100  # messages that are in memory, each of them up to 4 MiB
CLAIM_BYTES = 64 * 2**20  # most that one claim takes by default
TRANSACTION_WAIT_S = 60
_REST_S = 50e-6  # pause per message looked at in vain: at most a tenth of the time is spent looking

_CLAIMED = Keyspace.CLAIMED  # cached: enum lookup is slow here
_ACK_RECEIVE = MessageClass.ACK_RECEIVE


class Claim(NamedTuple):
    """The messages with the numbers lo + 1 to hi; none when the two are the same."""

    lo: int
    hi: int
    size_bytes: int = 0  # of the messages taken now
    is_repeat: bool = False  # claimed before and offered again, because the caller has not seen it


class Claimed(NamedTuple):
    """A message that a consumer holds."""

    claim_seq: int
    lookup_id: int
    claimed_at: int
    record: Record


@dataclass(frozen=True, slots=True)
class ClaimStatus:
    """A consumer's claim on one queue, for management."""

    consumer: str
    queue: str
    identifier: UUID  # of the queue
    queue_epoch: int
    epoch: int
    slot: int  # of the claim in the store; 0 before the first message
    lo: int  # everything up to this number has ended
    hi: int
    count: int
    size_bytes: int
    oldest_s: int | None  # how long the oldest message has been held
    last_seen: int


class Claims:
    def __init__(self, core: Core, catalog: Catalog, delivery: Delivery, deadlines: Deadlines) -> None:
        self._core = core
        self._catalog = catalog
        self._delivery = delivery
        self._deadlines = deadlines
        self._consumers = Consumers(core, catalog)
        self.load = self._consumers.load
        # How long a claim waits for the rest of a transaction that has arrived in part.
        self.transaction_wait_s = TRANSACTION_WAIT_S

    # Consumers.

    def attach(
        self,
        name: str,
        queues: Iterable[QueueState] = (),
        *,
        create: bool = True,
        epoch: int | None = None,
    ) -> int:
        """Takes a consumer over, or creates it; the new epoch fences its previous owner.

        With the present epoch, only adds queues, which a later error may name.
        """
        if epoch is None:
            consumer = self._consumers.attach(name, create=create)
        else:
            consumer = self._consumers.current(name, epoch)
        consumer.attached.update(queues)
        return consumer.epoch

    def check(self, name: str, epoch: int) -> None:
        """Raises unless this is the present epoch of the consumer."""
        self._consumers.current(name, epoch)

    def forget(self, name: str) -> None:
        """Ends a consumer that holds nothing; under the same name, its numbers would begin anew."""
        self._consumers.forget(name)

    def status(self, name: str, queue: QueueState) -> ClaimStatus:
        consumer = self._consumers.find(name)
        return self._status(consumer, queue, consumer.claim_on(queue))

    def all(self) -> list[ClaimStatus]:
        """Every claim, also those that hold nothing."""
        pairs = [(each, row) for each in self._consumers for row in each.claims.values()]
        return [self._status(each, self._consumers.queue(row), row) for each, row in pairs]

    def _status(self, consumer: Consumer, queue: QueueState, row: ClaimRow) -> ClaimStatus:
        first = next(self._held(row), None)
        return ClaimStatus(
            consumer.name,
            str(queue.queue.pathname),
            row.queue,
            queue.epoch,
            consumer.epoch,
            row.slot,
            row.floor,
            row.hi,
            row.count,
            row.size_bytes,
            None if first is None else max(self._core.seconds - claimed_at(first[1]), 0),
            consumer.last_seen,
        )

    # Messages.

    def claim(
        self,
        name: str,
        epoch: int,
        queue: QueueState,
        limit: int,
        byte_limit: int | None = None,
        *,
        start: int | None = None,
        acknowledge: int = 0,
    ) -> Claim:
        """Takes up to `limit` messages in the order of the queue, and acknowledges others in the same batch.

        `start` is the last number that the caller knows of: when the consumer holds messages beyond it, these
        are given, and nothing new is taken. The first message, or the first whole transaction, is taken
        however large it is.
        """
        consumer = self._consumers.current(name, epoch, queue)
        self._check_claimable(queue)
        _check_number("limit", limit, 1)
        row = consumer.claim_on(queue)
        _check_numbers(row, acknowledge, start)
        is_repeat = start is not None and start < row.hi
        chosen: Sequence[Taken] = ()
        if not is_repeat:
            # Acknowledging frees room, so a full store does not fail it.
            selection = self._select(queue, limit, CLAIM_BYTES if byte_limit is None else byte_limit)
            chosen = self._choose(selection, or_raise=acknowledge <= row.floor)
        consumer.last_seen = self._core.seconds
        claim = Claim(row.hi if start is None else start, row.hi, is_repeat=is_repeat)
        if chosen:
            claim = self._take(consumer, queue, row, chosen)
        self._end(queue, row, acknowledge, _ACK_RECEIVE)
        return claim

    def acknowledge(self, name: str, epoch: int, queue: QueueState, up_to: int) -> int:
        """Ends the messages up to a number as received; how many there were. A second time ends none."""
        consumer = self._consumers.current(name, epoch, queue)
        row = consumer.claim_on(queue)
        _check_numbers(row, up_to, None)
        consumer.last_seen = self._core.seconds
        return self._end(queue, row, up_to, _ACK_RECEIVE)

    def release(self, name: str, queue: QueueState | None = None, *, limit: int = SLICE) -> int:
        """Gives messages back to their queues, the first first; how many are still to be given back.

        The consumer is fenced: a run that works with these messages must not acknowledge them. Call it again,
        best in a batch of its own, until none are left.
        """
        consumer = self._consumers.find(name)
        _check_number("limit", limit, 1)
        rows = [row for row in consumer.claims.values() if queue is None or row.queue_slot == queue.slot]
        held = list(islice(((row, *each) for row in rows for each in self._held(row)), limit))
        while held and not self._has_room([len(data) for _, _, data in held], or_raise=len(held) == 1):
            del held[len(held) // 2 :]
        self._consumers.fence(consumer)
        for row, key, data in held:
            self._give_back(row, key, data)
        for row in rows:
            if not row.count:
                row.floor = row.hi  # damaged ones too: their numbers are not given again
            self._consumers.save(row)
        return sum(row.count for row in rows)

    def messages(self, name: str, queue: QueueState, lo: int, hi: int) -> Iterator[Claimed]:
        """The messages lo + 1 to hi. A damaged one is set aside and told of: its number is missing then."""
        row = self._consumers.find(name).claim_on(queue)
        for key, data in self._held(row, lo, hi):
            found = self._decode(queue, row, key, data)
            if found is not None:
                yield found

    def queue_deleted(self, queue: QueueState) -> None:
        """Ends the claims on a queue that was deleted."""
        for consumer in self._consumers if queue.consumers else ():
            row = consumer.claims.get(queue.slot)
            if row is not None:
                self._end(queue, row, row.hi, MessageClass.NACK_Q_DELETED)
                self._consumers.drop(consumer.claims.pop(queue.slot), queue)

    # Before anything is changed.

    def _check_claimable(self, queue: QueueState) -> None:
        if queue.is_deleted:
            raise QueueDeletedError(str(queue))
        if queue.is_outgoing or self._catalog.is_internal(queue):
            problem = "only messages that have arrived can be claimed"
            raise IllegalOperationError(str(queue), problem=problem, fix="name a queue of this computer")
        if any(opened.share == ShareMode.DENY_RECEIVE for opened in queue.handles.values()):
            raise SharingViolationError(str(queue), problem="it is open elsewhere for exclusive receiving")

    def _select(self, queue: QueueState, limit: int, byte_limit: int) -> Selection:
        _check_number("byte_limit", byte_limit, 1)
        if self._core.now < queue.not_whole_until:
            return Selection()
        overdue = self._core.seconds - self.transaction_wait_s
        selection = select(self._core, queue, limit, byte_limit, overdue)
        seen = len(selection.taken)
        if seen > SLICE and not selection.cuts:
            queue.not_whole_until = self._core.now + seen * _REST_S
        return selection

    def _choose(self, selection: Selection, *, or_raise: bool) -> Sequence[Taken]:
        """As much as fits into the store, but never a part of a transaction."""
        cuts = selection.cuts
        while cuts:
            chosen = selection.taken[: cuts[-1]]
            added = sum(each.size for each in chosen if each.is_express)
            is_last = or_raise and len(cuts) == 1
            if self._has_room([each.size for each in chosen], added, or_raise=is_last):
                return chosen
            cuts = cuts[: len(cuts) // 2]
        return ()

    def _has_room(self, sizes: list[int], added: int = 0, *, or_raise: bool) -> bool:
        """Whether messages can change their keyspace; `added` bytes of them were in memory only."""
        try:
            if added:
                self._core.reserve(added)
            self._core.reserve_to_move(len(sizes), sum(sizes) + ROW_BYTES)
        except StoreFullError:
            if or_raise:
                raise
            return False
        return True

    # Taking, ending and giving back.

    def _take(self, consumer: Consumer, queue: QueueState, row: ClaimRow, chosen: Sequence[Taken]) -> Claim:
        self._consumers.keep(consumer, queue, row)
        batch, slot, seconds, lo = self._core.batch, row.slot, self._core.seconds, row.hi
        for start in range(0, len(chosen), _AT_ONCE):
            rows, records = [], []
            for seq, taken in enumerate(chosen[start : start + _AT_ONCE], lo + start + 1):
                data = taken.data or batch.get(Keyspace.MESSAGES, message_key(queue.slot, taken.lookup_id))
                assert data is not None
                records.append(data)
                rows.append((claimed_key(slot, seq), encode_claimed(taken.lookup_id, seconds, data)))
            batch.put_many(_CLAIMED, rows)
            with self._core.life.acting(f"consumer {consumer.name}"):
                self._core.life.add_stored(LifeKind.CLAIMED, queue.slot, records, 0)
        self._remove(queue, chosen)
        row.hi = lo + len(chosen)
        size = sum([each.size for each in chosen])
        self._consumers.count(queue, row, len(chosen), size)
        self._consumers.save(row)
        return Claim(lo, row.hi, size)

    def _remove(self, queue: QueueState, chosen: Sequence[Taken]) -> None:
        stored = [each for each in chosen if not each.is_express]
        if stored:
            ids = [each.lookup_id for each in stored]
            queue.remove_stored(self._core, ids, sum([each.size for each in stored]))
        for each in chosen if len(stored) < len(chosen) else ():
            if each.is_express:
                queue.remove(self._core, each.lookup_id, queue.express[each.lookup_id])
        for each in chosen:
            if each.clock is not None:
                self._deadlines.forget(queue, each.lookup_id, each.clock)

    def _end(self, queue: QueueState, row: ClaimRow, up_to: int, reason: MessageClass) -> int:
        if up_to <= row.floor:
            return 0
        ended, first, end = 0, claimed_key(row.slot, 0), claimed_key(row.slot, up_to + 1)
        while row.count and (rows := self._core.batch.take(_CLAIMED, first, end, _AT_ONCE)):
            ended += self._end_rows(queue, row, rows, reason)
        row.floor = up_to
        self._consumers.save(row)
        return ended

    def _end_rows(
        self, queue: QueueState, row: ClaimRow, rows: Iterable[tuple[bytes, bytes]], reason: MessageClass
    ) -> int:
        ended: list[bytes] = []
        size, told = 0, []
        tells_all = self._delivery.tells_all(queue, reason)
        for key, data in rows:
            try:
                check_claimed(data)
                packet_size, flags, _, _ = glance(data, HEAD_SIZE)
            except StoreDamagedError as problem:
                self._set_aside(queue, row, key, data, problem)
                continue
            ended.append(data)
            size += packet_size
            if tells_all or flags & TOLD:  # rare
                told.append(data)
        self._consumers.count(queue, row, -len(ended), -size)
        with self._core.life.acting(f"consumer {row.consumer}"):
            self._core.life.add_stored(LifeKind.ENDED, queue.slot, ended, HEAD_SIZE, reason)
        for data in told:
            self._delivery.conclude(queue, decode_record(data[HEAD_SIZE:]), reason)
        return len(ended)

    def _give_back(self, row: ClaimRow, key: bytes, data: bytes) -> None:
        queue = self._consumers.queue(row)
        found = self._decode(queue, row, key, data)
        row.floor = _seq(key)
        if found is None:
            return
        record, packet = _returned(found, self._core.seconds)
        self._core.batch.delete(_CLAIMED, key)
        self._consumers.count(queue, row, -1, -len(record.packet))
        queue.insert(self._core, found.lookup_id, record, recoverable=packet.is_recoverable)
        self._core.life.add_one(LifeKind.RELEASED, queue.slot, record.packet)
        if not record.is_copy:
            self._deadlines.watch(queue, found.lookup_id, packet)
        self._delivery.waiting.offer(queue, found.lookup_id, record)

    def _held(self, row: ClaimRow, lo: int = 0, hi: int = LAST_SEQ) -> Iterator[tuple[bytes, bytes]]:
        if not row.count:
            return iter(())
        first, end = claimed_key(row.slot, lo + 1), claimed_key(row.slot, min(hi, row.hi) + 1)
        return self._core.batch.range(_CLAIMED, first, end)

    def _decode(self, queue: QueueState, row: ClaimRow, key: bytes, data: bytes) -> Claimed | None:
        try:
            lookup_id, when, stored = split_claimed(data)
            return Claimed(_seq(key), lookup_id, when, decode_record(stored))
        except StoreDamagedError as problem:
            self._set_aside(queue, row, key, data, problem)
            return None

    def _set_aside(
        self, queue: QueueState, row: ClaimRow, key: bytes, data: bytes, problem: StoreDamagedError
    ) -> None:
        """A damaged message is logged in the ledger and never delivered."""
        what = f"message {_seq(key)} that consumer {row.consumer} claimed from {queue}"
        self._core.set_aside_row(_CLAIMED, key, data, what, problem.problem)
        self._consumers.count(queue, row, -1, -stored_packet_size(data[HEAD_SIZE:]))
        self._consumers.save(row)


def _seq(key: bytes) -> int:
    return int.from_bytes(key[4:], "big")


def _returned(found: Claimed, now: int) -> tuple[Record, UserMessage]:
    """The message as it goes back: one more attempt has failed, and the time that it was held is added."""
    record = found.record._replace(abort_count=found.record.abort_count + 1)
    packet = UserMessage(record.packet)
    if packet.time_to_be_received == INFINITE or record.is_copy:
        return record, packet
    held = max(now - found.claimed_at, 0)  # the clock may have been set back
    limit = min(packet.time_to_be_received + held, INFINITE - 1)
    packet = UserMessage(packet.with_time_to_be_received(limit))
    return record._replace(packet=packet.data), packet


def _check_number(what: str, value: object, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InvalidParameterError(what, present=ascii(value)[:80], limit=f"{least} or more")


def _check_numbers(row: ClaimRow, acknowledge: int, start: int | None) -> None:
    """Refuses numbers that the consumer does not hold: they come from another consumer or another time."""
    _check_number("acknowledge", acknowledge, 0)
    _check_number("start", 0 if start is None else start, 0)
    held = f"{row.floor + 1} to {row.hi}"
    if acknowledge > row.hi:
        problem = f"message {acknowledge} cannot be acknowledged: it was never claimed"
        raise ClaimLostError(f"consumer {row.consumer}", problem=problem, limit=held)
    if start is not None and not max(row.floor, acknowledge) <= start <= row.hi:
        gone = start < row.hi
        problem = f"the messages after {start} {'have ended' if gone else 'were never claimed'}"
        raise ClaimLostError(f"consumer {row.consumer}", problem=problem, limit=held)
