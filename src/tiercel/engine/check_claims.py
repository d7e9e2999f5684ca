"""The part of `tiercel check` for consumers and their claims."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from tiercel.engine.catalog import FIRST_SLOT
from tiercel.engine.claim_records import (
    ClaimRow,
    decode_claim,
    decode_consumer,
    is_claim_key,
    split_claimed,
)
from tiercel.engine.problem import UNREADABLE, Problem, amount, named, why
from tiercel.engine.records import decode_record, message_key, split_message_key
from tiercel.model.identifiers import lookup_id_sequence
from tiercel.store.interface import MAX_KEY_SIZE, Keyspace, View
from tiercel.wire.message import decode_message
from tiercel.wire.user_message import UserMessage

_LOWEST, _HIGHEST = b"", b"\xff" * (MAX_KEY_SIZE + 1)


@dataclass(slots=True)
class _Claim:
    row: ClaimRow
    last: int  # the number of the last message that was found, or set aside
    count: int = 0
    size_bytes: int = 0
    has_damaged: bool = False

    def __str__(self) -> str:
        return f"claim of consumer {self.row.consumer}"


@dataclass(slots=True)
class ClaimChecker:
    view: View
    queues: Mapping[int, str]  # the names of the queues that there are
    identifier: UUID | None  # of the queue manager
    check_counter: Callable[[str, int, Problem], Iterator[Problem]]
    count: int = 0  # of claimed messages
    _claims: dict[int, _Claim] = field(default_factory=dict)  # by their slots

    def problems(self) -> Iterator[Problem]:
        yield from self._check_consumers()
        yield from self._check_claimed()

    def _name(self, slot: int) -> str:
        return self.queues.get(slot, f"number {slot}")

    def _check_consumers(self) -> Iterator[Problem]:
        for key, data in self.view.range(Keyspace.CONSUMERS, _LOWEST, _HIGHEST):
            try:
                if is_claim_key(key):
                    yield from self._check_claim(decode_claim(key, data))
                else:
                    epoch, _ = decode_consumer(key, data)
                    yield from self.check_counter("consumer_epoch", epoch, Problem("consumers", ""))
            except UNREADABLE as error:
                yield Problem("consumers", f"the record {key!r} cannot be read ({why(error)})")

    def _check_claim(self, row: ClaimRow) -> Iterator[Problem]:
        claim = _Claim(row, row.floor)
        problem = Problem("consumers", "", self._name(row.queue_slot))
        if row.queue_slot not in self.queues:
            yield problem._replace(text=f"the {claim} is on no queue")
        if self.view.get(Keyspace.CONSUMERS, row.consumer.encode()) is None:
            yield problem._replace(text=f"the {claim} has no consumer")
        if row.slot in self._claims:
            yield problem._replace(text=f"the {claim} has the slot of another")
        self._claims[row.slot] = claim
        yield from self.check_counter("slot", row.slot - FIRST_SLOT, problem)

    def _check_claimed(self) -> Iterator[Problem]:
        for key, data in self.view.range(Keyspace.CLAIMED, _LOWEST, _HIGHEST):
            self.count += 1
            slot, seq = split_message_key(key) if len(key) == 12 else (0, 0)
            claim = self._claims.get(slot)
            if claim is None or not claim.row.floor < seq <= claim.row.hi:
                yield Problem("claimed", f"the message under {key.hex()} is in no claim")
                continue
            yield from self._check_numbers(claim, seq - 1)
            claim.last, claim.count = seq, claim.count + 1
            yield from self._check_held(claim, seq, data)
        for claim in self._claims.values():
            yield from self._check_numbers(claim, claim.row.hi)
            stored, there = (claim.row.count, claim.row.size_bytes), (claim.count, claim.size_bytes)
            if stored[0] != there[0] or (stored != there and not claim.has_damaged):
                text = f"the {claim} counts {amount(*stored)}, {amount(*there)} are there"
                yield Problem("consumers", text, self._name(claim.row.queue_slot))

    def _check_numbers(self, claim: _Claim, up_to: int) -> Iterator[Problem]:
        """A number that is missing between two others is a loss, unless its message was set aside."""
        prefix, row = Keyspace.CLAIMED.encode(), claim.row
        first, end = prefix + message_key(row.slot, claim.last + 1), prefix + message_key(row.slot, up_to + 1)
        missing = up_to - claim.last
        if missing > 0:
            set_aside = sum(1 for _ in self.view.range(Keyspace.DAMAGED, first, end))
            claim.has_damaged = claim.has_damaged or bool(set_aside)
            if set_aside < missing:
                text = f"the {claim} lacks {missing - set_aside} of the messages {claim.last + 1} to {up_to}"
                yield Problem("claimed", text, self._name(row.queue_slot))
        claim.last = max(claim.last, up_to)

    def _check_held(self, claim: _Claim, seq: int, data: bytes) -> Iterator[Problem]:
        slot = claim.row.queue_slot
        problem = Problem("claimed", "", self._name(slot))
        try:
            lookup_id, _, stored = split_claimed(data)
            record = decode_record(stored)
            message = decode_message(UserMessage(record.packet))
        except UNREADABLE as error:
            claim.has_damaged = True
            text = f"message {seq} of the {claim} is damaged ({why(error)})"
            yield named(problem, data)._replace(text=text)
            return
        claim.size_bytes += len(record.packet)
        problem = problem._replace(lookup_id=lookup_id, message_id=str(message.id), label=message.label)
        if self.view.get(Keyspace.MESSAGES, message_key(slot, lookup_id)) is not None:
            yield problem._replace(text=f"it is in its queue, and message {seq} of the {claim}")
        yield from self.check_counter("sequential_id", lookup_id_sequence(lookup_id), problem)
        if message.id.lineage == self.identifier:
            yield from self.check_counter("message_ordinal", message.id.uniquifier, problem)
