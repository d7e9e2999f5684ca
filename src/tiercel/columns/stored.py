"""Stored messages to columns: the plain ones all at once, the others one by one."""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tiercel.columns.filters import RowFilter
from tiercel.columns.joined import Buffer, Joined
from tiercel.columns.messages import Row, of_rows
from tiercel.columns.plain import PlainPackets
from tiercel.columns.schema import BY_NAME, arrow_schema, check_names
from tiercel.columns.walk import Walk
from tiercel.engine.records import decode_record
from tiercel.model.errors import DecodeError, StoreDamagedError, TiercelError
from tiercel.wire.message import decode_message
from tiercel.wire.user_message import UserMessage

BadMessages = Literal["fail", "column", "skip"]

_KEY = struct.Struct(
    ">IQ"
)  # of messages and of claimed messages: the slot, and the lookup id or claim number
_CLAIMED = struct.Struct(">QI")  # before a claimed record: its lookup id, and when it was claimed


class BadMessageError(TiercelError):
    """A stored message that cannot be read, and nobody said what to do with it."""

    def __init__(self, lookup_id: int, problem: str) -> None:
        super().__init__(lookup_id, problem)
        self.lookup_id = lookup_id
        self.problem = problem

    def __str__(self) -> str:
        return f"the message with lookup id 0x{self.lookup_id:016x} cannot be read: {self.problem}"


@dataclass(frozen=True, slots=True)
class StoredRows:
    """What a range read of the store found; the values may lie in the store's own memory."""

    values: Sequence[Buffer]
    lookup_ids: npt.NDArray[np.uint64]
    claim_seqs: npt.NDArray[np.int64] | None = None
    prefix: int = 0  # what stands in each value before the record

    @classmethod
    def of(
        cls, lookup_ids: Iterable[int], records: Sequence[Buffer], claim_seqs: Iterable[int] | None = None
    ) -> "StoredRows":
        """Rows of their encoded records."""
        count = len(records)
        claimed = None if claim_seqs is None else np.fromiter(claim_seqs, np.int64, count)
        return cls(records, np.fromiter(lookup_ids, np.uint64, count), claimed)

    @classmethod
    def of_messages(cls, keys: Sequence[Buffer], values: Sequence[Buffer]) -> "StoredRows":
        """Rows of the store's keyspace of messages."""
        return cls(values, _numbers(keys).astype(np.uint64))

    @classmethod
    def of_claimed(cls, keys: Sequence[Buffer], values: Sequence[Buffer]) -> "StoredRows":
        """Rows of the store's keyspace of claimed messages."""
        lookup_ids = b"".join([value[:8] for value in values])
        return cls(
            values,
            np.frombuffer(lookup_ids, ">u8").astype(np.uint64),
            _numbers(keys).astype(np.int64),
            _CLAIMED.size,
        )

    def __len__(self) -> int:
        return len(self.values)

    def row(self, at: int) -> Row:
        """One of them, read in the plain way."""
        lookup_id = int(self.lookup_ids[at])
        seq = None if self.claim_seqs is None else int(self.claim_seqs[at])
        raw = bytes(self.values[at][self.prefix :])
        try:
            record = decode_record(raw)
            raw = record.packet
            packet = UserMessage(raw)
            message = decode_message(packet)
        except (StoreDamagedError, DecodeError) as problem:
            return Row(None, lookup_id, seq, raw=raw, error=str(problem))
        message.arrival_time, message.last_move_time = record.arrival_time, record.last_move_time
        message.abort_count, message.move_count = record.abort_count, record.move_count
        return Row(message, lookup_id, seq, packet.body_size, record.dead_letter_queue, raw)


def _numbers(keys: Sequence[Buffer]) -> npt.NDArray[np.uint64]:
    """The second part of each key."""
    return np.frombuffer(b"".join(keys), np.dtype([("slot", ">u4"), ("number", ">u8")]))["number"]


def batch_of(
    rows: StoredRows,
    names: Iterable[str] | None = None,
    *,
    queue: str | None = None,
    subqueue: str | None = None,
    bad: BadMessages = "fail",
    where: RowFilter | None = None,
) -> pa.RecordBatch:
    """The columns of stored messages.

    A message that cannot be read is an error, or a row with nothing but its `decode_error`, or left out:
    `bad` says which.
    """
    chosen = check_names(names)
    read = chosen if where is None else tuple(dict.fromkeys(chosen + where.columns))
    batch = _read(rows, read, {"queue": queue, "subqueue": subqueue}, bad)
    if where is None:
        return batch
    return batch.filter(where.mask(batch)).select(list(chosen))


def slow_batch_of(
    rows: StoredRows,
    names: Iterable[str] | None = None,
    *,
    queue: str | None = None,
    subqueue: str | None = None,
    bad: BadMessages = "fail",
) -> pa.RecordBatch:
    """The same, every message read one by one: what `batch_of` is measured against."""
    found = map(rows.row, range(len(rows)))
    return of_rows([row for row in found if _is_wanted(row, bad)], names, queue=queue, subqueue=subqueue)


def _read(
    rows: StoredRows, names: tuple[str, ...], constants: dict[str, str | None], bad: BadMessages
) -> pa.RecordBatch:
    walk = Walk(Joined(rows.values), rows.prefix)
    plain = np.flatnonzero(walk.is_plain)
    batch = _plain_batch(rows, plain, PlainPackets(walk.plain_rows()), names, constants)
    if len(plain) == len(rows):
        return batch
    odd = np.flatnonzero(~walk.is_plain).tolist()
    others = {at: row for at in odd if _is_wanted(row := rows.row(at), bad)}
    order = np.argsort(np.concatenate([plain, np.array(list(others), np.int64)]))
    both = pa.concat_batches([batch, of_rows(list(others.values()), names, **constants)])
    return both.take(pa.array(order))


def _is_wanted(row: Row, bad: BadMessages) -> bool:
    if row.error is not None and bad == "fail":
        raise BadMessageError(row.lookup_id, row.error)
    return row.error is None or bad == "column"


def _plain_batch(
    rows: StoredRows,
    chosen: npt.NDArray[np.int64],
    packets: PlainPackets,
    names: tuple[str, ...],
    constants: dict[str, str | None],
) -> pa.RecordBatch:
    arrays = []
    for name in names:
        kind = BY_NAME[name].type
        if name in constants:
            arrays.append(pa.repeat(pa.scalar(constants[name], kind), len(chosen)))
        elif name == "lookup_id":
            arrays.append(pa.array(rows.lookup_ids[chosen].view(np.int64)))
        elif name == "claim_seq":
            seqs = rows.claim_seqs
            arrays.append(pa.nulls(len(chosen), kind) if seqs is None else pa.array(seqs[chosen]))
        else:
            arrays.append(packets.column(name))
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(names))
