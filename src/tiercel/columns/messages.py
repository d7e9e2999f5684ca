"""Messages to columns, one by one.

This is the simple path. It is used for remote messages and captures and for packets too unusual for `stored`,
and tests compare `stored` with it.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import Any, NamedTuple
from uuid import UUID

import pyarrow as pa

from tiercel.columns.schema import BY_NAME, check_names
from tiercel.model.codes import Journal
from tiercel.model.errors import DecodeError
from tiercel.model.format_name import FormatName
from tiercel.model.identifiers import NULL_GUID, MessageId
from tiercel.model.message import Message
from tiercel.model.sid import SecurityIdentifier
from tiercel.wire.base_header import VERSION


class Row(NamedTuple):
    """A message and its record; an error if it cannot be decoded."""

    message: Message | None
    lookup_id: int
    claim_seq: int | None = None
    body_size: int = 0
    dead_letter_queue: str = ""
    raw: bytes | None = None
    error: str | None = None


def of_messages(
    messages: Sequence[Message],
    names: Iterable[str] | None = None,
    *,
    queue: str | None = None,
    subqueue: str | None = None,
    claim_seqs: Sequence[int] | None = None,
    raws: Sequence[bytes] | None = None,
) -> pa.RecordBatch:
    """The columns of these messages; `raws` are their packets, if available."""
    seqs = repeat(None, len(messages)) if claim_seqs is None else claim_seqs
    packets = repeat(None, len(messages)) if raws is None else raws
    rows = [
        Row(message, message.lookup_id, seq, _body_size(message), str(message.dead_letter_queue or ""), raw)
        for message, seq, raw in zip(messages, seqs, packets, strict=True)
    ]
    return of_rows(rows, names, queue=queue, subqueue=subqueue)


def of_rows(
    rows: Sequence[Row],
    names: Iterable[str] | None = None,
    *,
    queue: str | None = None,
    subqueue: str | None = None,
) -> pa.RecordBatch:
    constants = {"queue": queue, "subqueue": subqueue}
    arrays, chosen = [], check_names(names)
    for name in chosen:
        if name in constants:
            values = [constants[name]] * len(rows)
        elif name in _BESIDE:
            values = [_BESIDE[name](row) for row in rows]
        else:
            read = _PROPERTIES[name]
            values = [None if row.message is None else read(row.message) for row in rows]
        arrays.append(pa.array(values, BY_NAME[name].type))
    return pa.RecordBatch.from_arrays(arrays, names=list(chosen))


def _body_size(message: Message) -> int:
    """A remote peek may have only the first bytes of the body, and its full size."""
    size = getattr(message, "body_size", None)
    return len(message.body) if size is None else size


def text(value: str) -> str:
    """The text for Arrow, in UTF-8: lone surrogates become U+FFFD."""
    return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def queue_text(name: FormatName | None, names: tuple[FormatName, ...] = ()) -> str | None:
    """The name of a queue, or of all of them for a multiple-element name."""
    if name is None:
        return text(",".join(map(str, names))) or None
    return text(str(name))


def guid_text(guid: UUID) -> str | None:
    return None if guid == NULL_GUID else str(guid)


def sid_text(sid: bytes) -> str | None:
    try:
        return str(SecurityIdentifier.decode(sid)) if sid else None
    except DecodeError:
        return None


def signed32(value: int) -> int:
    """The same bits as a signed number, for columns without unsigned types."""
    return value - (1 << 32) if value >> 31 else value


def signed64(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def microseconds(seconds: int) -> int | None:
    """A time; None for 0."""
    return seconds * 1_000_000 or None


def _journal(message: Message) -> int:
    return (Journal.JOURNAL if message.positive_journaling else 0) | (
        Journal.DEADLETTER if message.negative_journaling else 0
    )


def _transaction(message: Message) -> str | None:
    """A transaction number is unique only together with its source, like a message number."""
    if message.transaction_id is None:
        return None
    return str(MessageId(message.source_queue_manager, message.transaction_id))


_BESIDE: dict[str, Callable[[Row], Any]] = {
    "lookup_id": lambda row: signed64(row.lookup_id),
    "claim_seq": lambda row: row.claim_seq,
    "body_size": lambda row: None if row.message is None else row.body_size,
    "deadletter_queue": lambda row: text(row.dead_letter_queue) or None,
    "raw": lambda row: row.raw,
    "decode_error": lambda row: row.error,
}
_PROPERTIES: dict[str, Callable[[Message], Any]] = {
    "arrived_time": lambda m: microseconds(m.arrival_time),
    "sent_time": lambda m: microseconds(m.sent_time),
    "message_id": lambda m: str(m.id),
    "correlation_id": lambda m: m.correlation_id,
    "class": lambda m: m.message_class,
    "src_machine_id": lambda m: str(m.source_queue_manager),
    "version": lambda _: VERSION,
    "priority": lambda m: m.priority,
    "delivery": lambda m: m.delivery,
    "acknowledge": lambda m: m.acknowledgements,
    "journal": _journal,
    "trace": lambda m: int(m.tracing),
    "ttrq": lambda m: m.time_to_reach_queue,
    "ttbr": lambda m: m.time_to_be_received,
    "dest_queue": lambda m: queue_text(m.destination_queue, m.destination_queues),
    "resp_queue": lambda m: queue_text(m.response_queue, m.response_queues),
    "admin_queue": lambda m: queue_text(m.administration_queue, m.administration_queues),
    "xact_status_queue": lambda m: queue_text(m.transaction_status_queue),
    "label": lambda m: text(m.label),
    "body": lambda m: m.body,
    "body_type": lambda m: m.body_type,
    "extension": lambda m: m.extension or None,
    "app_specific": lambda m: m.application_tag,
    "soap_envelope": lambda m: text(m.soap_envelope) or None,
    "sender_id": lambda m: m.sender_id or None,
    "sender_id_type": lambda m: m.sender_id_type,
    "authenticated": lambda m: m.authentication_level != 0,
    "auth_level": lambda m: m.authentication_level,
    "verified_sender": lambda m: sid_text(m.verified_sender),
    "verified_name": lambda m: m.verified_name or None,
    "priv_level": lambda m: signed32(m.privacy_level),
    "hash_alg": lambda m: signed32(m.hash_algorithm),
    "encryption_alg": lambda m: signed32(m.encryption_algorithm),
    "signature": lambda m: m.signature or None,
    "sender_cert": lambda m: m.sender_certificate or None,
    "provider_name": lambda m: text(m.authentication_provider_name) or None,
    "provider_type": lambda m: signed32(m.authentication_provider_type),
    "connector_type": lambda m: guid_text(m.connector_type),
    "xact_id": _transaction,
    "first_in_xact": lambda m: m.first_in_transaction,
    "last_in_xact": lambda m: m.last_in_transaction,
    "abort_count": lambda m: signed32(m.abort_count),
    "move_count": lambda m: signed32(m.move_count),
    "last_move_time": lambda m: microseconds(m.last_move_time),
}
