"""Stored messages to columns: plain ones all at once, others one by one."""

from collections.abc import Iterable, Sequence
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
from tiercel.engine.claim_records import HEAD_SIZE, split_claimed
from tiercel.engine.records import decode_record
from tiercel.message_security.verdict import decode_verdict
from tiercel.model.errors import DecodeError, StoreDamagedError
from tiercel.wire.message import decode_message
from tiercel.wire.user_message import UserMessage

BadMessages = Literal["fail", "column", "skip"]

_KEY = np.dtype([("slot", ">u4"), ("number", ">u8")])  # the number is a lookup id, or that of a claim


class BadMessageError(StoreDamagedError):
    """A stored message that cannot be decoded, with bad messages not allowed."""

    meaning = "cannot be decoded"
    fix = "use badMessageMode=column to get it as a row, or skip to omit it"


class StoredRows:
    """The result of a range read, copied, because the snapshot may end."""

    def __init__(
        self,
        joined: Joined,
        lookup_ids: npt.NDArray[np.uint64],
        claim_seqs: npt.NDArray[np.int64] | None = None,
        head_size: int = 0,
    ) -> None:
        self.joined = joined
        self.lookup_ids = lookup_ids
        self.claim_seqs = claim_seqs
        self.head_size = head_size  # of what stands before each record

    @classmethod
    def of(
        cls, lookup_ids: Iterable[int], records: Sequence[Buffer], claim_seqs: Iterable[int] | None = None
    ) -> "StoredRows":
        """Rows of their encoded records."""
        count = len(records)
        claimed = None if claim_seqs is None else np.fromiter(claim_seqs, np.int64, count)
        return cls(Joined(records), np.fromiter(lookup_ids, np.uint64, count), claimed)

    @classmethod
    def of_messages(cls, keys: Sequence[Buffer], values: Sequence[Buffer]) -> "StoredRows":
        """Rows of the store's keyspace of messages."""
        return cls(Joined(values), _numbers(keys))

    @classmethod
    def of_claimed(cls, keys: Sequence[Buffer], values: Sequence[Buffer]) -> "StoredRows":
        """Rows of the store's keyspace of claimed messages."""
        joined = Joined(values)
        lookup_ids = joined.numbers(">u8", joined.starts).astype(np.uint64)
        return cls(joined, lookup_ids, _numbers(keys).view(np.int64), HEAD_SIZE)

    def __len__(self) -> int:
        return len(self.lookup_ids)

    def row(self, at: int) -> Row:
        """One message, decoded by the simple path."""
        lookup_id = int(self.lookup_ids[at])
        seq = None if self.claim_seqs is None else int(self.claim_seqs[at])
        raw = self.joined.value(at)
        try:
            if self.head_size:
                _, _, raw = split_claimed(raw)
            record = decode_record(raw)
            raw = record.packet
            packet = UserMessage(raw)
            message = decode_message(packet)
            # Whatever the packet claims: what was verified counts.
            verdict = decode_verdict(record.verdict)
            message.authentication_level, message.verified_sender = verdict.level, verdict.sender
            message.verified_name = verdict.name
        except (StoreDamagedError, DecodeError) as problem:
            return Row(None, lookup_id, seq, raw=raw, error=str(problem))
        message.arrival_time, message.last_move_time = record.arrival_time, record.last_move_time
        message.abort_count, message.move_count = record.abort_count, record.move_count
        return Row(message, lookup_id, seq, packet.body_size, record.dead_letter_queue, raw)


def _numbers(keys: Sequence[Buffer]) -> npt.NDArray[np.uint64]:
    return np.frombuffer(b"".join(keys), _KEY)["number"].astype(np.uint64)


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

    `bad` says whether an undecodable message is an error, a row with only `decode_error`, or omitted.
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
    """The same, one message at a time; tests compare `batch_of` with it."""
    found = map(rows.row, range(len(rows)))
    return of_rows([row for row in found if _is_wanted(row, bad)], names, queue=queue, subqueue=subqueue)


def _read(
    rows: StoredRows, names: tuple[str, ...], constants: dict[str, str | None], bad: BadMessages
) -> pa.RecordBatch:
    walk = Walk(rows.joined, rows.head_size)
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
        raise BadMessageError(f"message with lookup id 0x{row.lookup_id:016x}", problem=row.error)
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
