"""Finding what is left of a message by its id: in queues, in claims and in the ledger of discards.

Records are compared as bytes, so that a pass over 100,000 of them takes a fraction of a second. It goes in
slices: each call looks at a bounded number of records and returns where the next one begins.
"""

from collections.abc import Iterator
from enum import StrEnum
from itertools import islice
from typing import Final, NamedTuple

from tiercel.engine.catalog import Catalog
from tiercel.engine.claim_records import HEAD_SIZE, split_claimed
from tiercel.engine.core import Core
from tiercel.engine.discards import Discard
from tiercel.engine.queue_state import Lock, QueueState
from tiercel.engine.records import (
    LAST_LOOKUP_ID,
    Record,
    decode_record,
    message_key,
    packet_at,
    split_message_key,
)
from tiercel.model.errors import StoreDamagedError
from tiercel.model.identifiers import MessageId
from tiercel.store.interface import Keyspace
from tiercel.wire.structure import encode_guid
from tiercel.wire.user_message import SOURCE_AT, UNIQUIFIER_AT

_SLICE: Final = 2000  # records per call: about 5 ms
_SLICE_BYTES: Final = 4 << 20
_LAST_KEY: Final = b"\xff" * 13


class TraceKind(StrEnum):
    MESSAGE = "message"  # the message itself, or a copy of it
    CLAIMED = "claimed"  # a consumer holds it
    ANSWER = "answer"  # another message that names it: an acknowledgement, a response


class Trace(NamedTuple):
    kind: TraceKind
    queue: QueueState | None
    lookup_id: int
    record: Record
    lock: Lock | None = None
    claim_slot: int = 0
    claimed_at: int = 0


class Place(NamedTuple):
    """Where a pass goes on: express messages of memory first, then the store."""

    space: Keyspace | None = None
    key: bytes = b"\0"


class Tracing:
    def __init__(self, core: Core, catalog: Catalog) -> None:
        self._core = core
        self._catalog = catalog

    def look(self, wanted: MessageId, place: Place) -> tuple[list[Trace], Place | None]:
        """The traces in the next slice of a pass, and where to go on; None at its end."""
        needle = _Needle(wanted)
        if place.space is None:
            return self._look_at_express(needle, place)
        claims = place.space is Keyspace.CLAIMED
        found: list[Trace] = []
        size = 0
        rows = self._core.batch.range(place.space, place.key, _LAST_KEY)
        for looked, (key, data) in enumerate(rows, 1):
            if needle.is_in(data, HEAD_SIZE if claims else 0):
                found += self._claimed(key, data) if claims else self._stored(needle, key, data)
            size += len(data)
            if looked >= _SLICE or size >= _SLICE_BYTES:
                return found, Place(place.space, key + b"\0")
        return found, None if claims else Place(Keyspace.CLAIMED)

    def _look_at_express(self, needle: "_Needle", place: Place) -> tuple[list[Trace], Place]:
        slot, at = split_message_key(place.key) if len(place.key) > 1 else (0, 0)
        found: list[Trace] = []
        looked = 0
        for state in sorted(self._catalog.by_slot.values(), key=lambda each: each.slot):
            if state.slot < slot or not state.express:
                continue
            rest = state.express.irange(at if state.slot == slot else 0)
            for lookup_id in islice(rest, _SLICE - looked):
                looked += 1
                record = state.express[lookup_id]
                if needle.is_in_packet(record.packet, 0):
                    found.append(self._trace(needle, state, lookup_id, record))
                if looked >= _SLICE and lookup_id < LAST_LOOKUP_ID:
                    return found, Place(None, message_key(state.slot, lookup_id + 1))
        return found, Place(Keyspace.MESSAGES)

    def _stored(self, needle: "_Needle", key: bytes, data: bytes) -> Iterator[Trace]:
        slot, lookup_id = split_message_key(key)
        state = self._catalog.by_slot.get(slot)
        record = _decoded(data)
        if state is not None and record is not None:
            yield self._trace(needle, state, lookup_id, record)

    def _trace(self, needle: "_Needle", state: QueueState, lookup_id: int, record: Record) -> Trace:
        kind = TraceKind.MESSAGE if needle.is_id_of(record.packet, 0) else TraceKind.ANSWER
        return Trace(kind, state, lookup_id, record, state.locks.get(lookup_id))

    def _claimed(self, key: bytes, data: bytes) -> Iterator[Trace]:
        try:
            lookup_id, when, stored = split_claimed(data)
        except StoreDamagedError:
            return
        record = _decoded(stored)
        if record is not None:
            slot, _ = split_message_key(key)
            yield Trace(TraceKind.CLAIMED, None, lookup_id, record, None, slot, when)

    def discards(self, wanted: MessageId) -> list[Discard]:
        """The lines of the ledger about the message, oldest first."""
        return [line for line in self._core.ledger.about(str(wanted)) if line.message_id == str(wanted)]


class _Needle:
    """What the packet of a message, or of one that names it, must contain."""

    def __init__(self, wanted: MessageId) -> None:
        self._source = encode_guid(wanted.lineage)
        self._number = wanted.uniquifier.to_bytes(4, "little")
        self._correlation = self._source + self._number

    def is_in(self, data: bytes, at: int) -> bool:
        """Whether it is in the record that begins at `at`."""
        start = packet_at(data, at)
        return start is not None and self.is_in_packet(data, start)

    def is_in_packet(self, data: bytes, start: int) -> bool:
        return self.is_id_of(data, start) or data.find(self._correlation, start) >= 0

    def is_id_of(self, data: bytes, start: int) -> bool:
        number_at = start + UNIQUIFIER_AT
        if data[number_at : number_at + 4] != self._number:
            return False
        source_at = start + SOURCE_AT
        return data[source_at : source_at + 16] == self._source


def _decoded(data: bytes) -> Record | None:
    try:
        return decode_record(data)
    except StoreDamagedError:  # `tiercel check` tells of it, and the next reader sets it aside
        return None
