"""Rows to messages: the columns that senders may set, checked before anything is sent."""

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from tiercel.columns.schema import BY_NAME, COLUMNS, unknown_column
from tiercel.model.codes import DeliveryGuarantee, Journal
from tiercel.model.errors import DecodeError, MqError
from tiercel.model.limits import (
    INFINITE,
    LABEL_MAX_UTF16_UNITS,
    PRIORITY_DEFAULT,
    PRIORITY_MAX,
    TIME_TO_REACH_QUEUE_DEFAULT_S,
)
from tiercel.model.message import CORRELATION_ID_BYTES, Message, anew
from tiercel.model.path_name import utf16_length
from tiercel.model.queue_name import parse_queue_name
from tiercel.wire.message import decode_message
from tiercel.wire.packet import decode_packet
from tiercel.wire.user_message import UserMessage

WRITER_COLUMNS = tuple(column.name for column in COLUMNS if column.written)

RAW = "raw"  # instead of all columns but queue: a packet, as an archive has it

_U32 = 0xFFFF_FFFF
_POSITIVE, _NEGATIVE = int(Journal.JOURNAL), int(Journal.DEADLETTER)  # plain numbers are ten times as fast
# Defaults for null; messages from Spark are recoverable unless they say otherwise.
_DEFAULTS: dict[str, object] = {
    "queue": None,
    "correlation_id": bytes(CORRELATION_ID_BYTES),
    "priority": PRIORITY_DEFAULT,
    "delivery": int(DeliveryGuarantee.RECOVERABLE),
    "acknowledge": 0,
    "journal": 0,
    "ttrq": TIME_TO_REACH_QUEUE_DEFAULT_S,
    "ttbr": INFINITE,
    "resp_queue": None,
    "admin_queue": None,
    "label": "",
    "body": b"",
    "body_type": 0,
    "extension": b"",
    "app_specific": 0,
}
_LARGEST = {
    "priority": PRIORITY_MAX,
    "delivery": 1,
    "acknowledge": 0xF,
    "journal": int(Journal.JOURNAL | Journal.DEADLETTER),
    "ttrq": _U32,
    "ttbr": _U32,
    "body_type": _U32,
    "app_specific": _U32,
}
_QUEUES = ("queue", "resp_queue", "admin_queue")


class WriterSchemaError(ValueError):
    """Rows whose columns cannot be messages."""


class RowValueError(ValueError):
    """A row with an invalid value."""


def check_writer_schema(schema: pa.Schema, queue: str | None = None) -> None:
    """Refuses columns that no sender may set and types that cannot hold one; `queue` is where all rows go."""
    if RAW in schema.names:
        _check_packets_schema(schema, queue)
        return
    for field in schema:
        if field.name not in WRITER_COLUMNS:
            raise _not_written(field.name)
        if not _fits(field.name, field.type):
            wanted = BY_NAME[field.name].kind
            raise WriterSchemaError(f"column {field.name} is {field.type}; it must be {wanted}")
    if len(set(schema.names)) < len(schema.names):
        raise WriterSchemaError(f"duplicate column; the columns are {', '.join(schema.names)}")
    if "body" not in schema.names:
        raise WriterSchemaError("missing column body; it is required, but may be empty")
    if queue is None and "queue" not in schema.names:
        raise WriterSchemaError("missing destination: set the option queue, or add a column queue")


def _check_packets_schema(schema: pa.Schema, queue: str | None) -> None:
    """A packet has all properties of its message, so only its queue may stand beside it."""
    others = sorted(set(schema.names) - {RAW, "queue"})
    if others or len(schema.names) > 2:
        raise WriterSchemaError(
            f"column {RAW} is a whole message: remove {', '.join(others) or 'duplicates'}"
        )
    if not _fits("extension", schema.field(RAW).type):
        raise WriterSchemaError(f"column {RAW} is {schema.field(RAW).type}; it must be binary")
    if queue is None and "queue" not in schema.names:
        raise WriterSchemaError("missing destination: set the option queue, or add a column queue")


def _not_written(name: str) -> ValueError:
    if name in BY_NAME:
        columns = ", ".join(WRITER_COLUMNS)
        return WriterSchemaError(f"column {name} cannot be set by senders; use only {columns}")
    return unknown_column(name, WRITER_COLUMNS)


def _fits(name: str, kind: pa.DataType) -> bool:
    if pa.types.is_null(kind):
        return True
    is_text: bool = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    is_bytes: bool = pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
    match BY_NAME[name].kind:
        case "string":
            return is_text
        case "binary":
            return is_bytes or (is_text and name == "body")  # a text as its UTF-8, as other sinks do it
    return bool(pa.types.is_integer(kind))


def check_rows(batch: pa.RecordBatch, queue: str | None = None) -> None:
    """Refuse the first invalid value; `queue` is the destination of rows without one."""
    check_writer_schema(batch.schema, queue)
    batch.validate(full=True)  # it may come from outside, with offsets that lead anywhere
    if RAW in batch.schema.names:
        for _ in _of_packets(batch):
            pass  # each must be a message
    for name, limit in _LARGEST.items():
        if name in batch.schema.names:
            _check_range(batch, name, limit)
    if "correlation_id" in batch.schema.names:
        sizes = pc.binary_length(batch["correlation_id"].cast(pa.binary()))
        _check(
            batch, "correlation_id", pc.equal(sizes, CORRELATION_ID_BYTES), f"{CORRELATION_ID_BYTES} bytes"
        )
    if "label" in batch.schema.names:
        _check_labels(batch)
    if queue is None:
        _check(batch, "queue", pc.is_valid(batch["queue"]), "the name of a queue, or the option queue")
    for name in _QUEUES:
        if name in batch.schema.names:
            _check_queues(batch, name)


def _check_range(batch: pa.RecordBatch, name: str, limit: int) -> None:
    numbers = batch[name].cast(pa.int64(), safe=False)  # one that does not fit turns negative
    fits = pc.and_(pc.greater_equal(numbers, 0), pc.less_equal(numbers, limit))
    _check(batch, name, fits, f"0 to {limit}")


def _check_labels(batch: pa.RecordBatch) -> None:
    """Mostly the length alone says that a label fits: no character takes more than two units."""
    labels = batch["label"].cast(pa.string())
    fits = pc.less_equal(pc.utf8_length(labels), LABEL_MAX_UTF16_UNITS // 2)
    if pc.all(fits).as_py() is False:
        lengths = [None if label is None else utf16_length(label) for label in labels.to_pylist()]
        fits = pc.less_equal(pa.array(lengths, pa.int64()), LABEL_MAX_UTF16_UNITS)
    _check(batch, "label", fits, f"at most {LABEL_MAX_UTF16_UNITS} characters")


def _check_queues(batch: pa.RecordBatch, name: str) -> None:
    for text in pc.unique(batch[name]).to_pylist():
        if text is not None:
            try:
                parse_queue_name(text)
            except MqError as problem:
                raise RowValueError(f"column {name}: {problem}") from problem


def _check(batch: pa.RecordBatch, name: str, fits: pa.BooleanArray, limit: str) -> None:
    wrong = pc.index(fits, False).as_py()
    if wrong >= 0:
        present = batch[name][wrong].as_py()
        raise RowValueError(f"column {name} is {present!r} in row {wrong}; allowed are {limit}")


def messages_of(batch: pa.RecordBatch) -> Iterator[tuple[str | None, Message]]:
    """The messages of the rows, each with the queue that its row names."""
    if RAW in batch.schema.names:
        check_writer_schema(batch.schema, queue="")
        yield from _of_packets(batch)
        return
    check_rows(batch, queue="")  # whether a row without a queue has one is known where it is sent
    columns = [_values(batch, name) for name in _DEFAULTS]
    for (
        queue,
        correlation_id,
        priority,
        delivery,
        acknowledge,
        journal,
        ttrq,
        ttbr,
        resp_queue,
        admin_queue,
        label,
        body,
        body_type,
        extension,
        app_specific,
    ) in zip(*columns, strict=True):
        yield (
            queue,
            Message(
                body,
                label=label,
                priority=priority,
                delivery=delivery,
                body_type=body_type,
                extension=extension,
                application_tag=app_specific,
                correlation_id=correlation_id,
                time_to_reach_queue=ttrq,
                time_to_be_received=ttbr,
                acknowledgements=acknowledge,
                positive_journaling=bool(journal & _POSITIVE),
                negative_journaling=bool(journal & _NEGATIVE),
                response_queue=None if resp_queue is None else parse_queue_name(resp_queue),
                administration_queue=None if admin_queue is None else parse_queue_name(admin_queue),
            ),
        )


def _of_packets(batch: pa.RecordBatch) -> Iterator[tuple[str | None, Message]]:
    """Messages with every property that a sender may set; `destination_queue` is where they once went.

    What a packet claims to be verified is not believed: a signature that is kept is verified again.
    """
    has_queues = "queue" in batch.schema.names
    queues = batch["queue"].to_pylist() if has_queues else [None] * len(batch)
    for row, (data, queue) in enumerate(zip(batch[RAW].to_pylist(), queues, strict=True)):
        try:
            packet = decode_packet(data or b"")
            if not isinstance(packet, UserMessage):
                raise RowValueError(f"column {RAW}: row {row} is not a message")
            original = decode_message(packet)
        except DecodeError as problem:
            raise RowValueError(f"column {RAW}: row {row} cannot be read ({problem})") from problem
        message = anew(original)
        message.multiple_destination_signature = b""  # it covers a list of queues
        message.destination_queue = original.destination_queue
        yield queue, message


def without_signature(message: Message) -> None:
    """For another destination, which a signature covers."""
    message.signature = message.sender_certificate = b""
    message.authentication_provider_type, message.authentication_provider_name = 0, ""


def _values(batch: pa.RecordBatch, name: str) -> Iterable[object]:
    default = _DEFAULTS[name]
    if name not in batch.schema.names:
        return [default] * len(batch)
    values = batch[name]
    if name == "body":
        values = values.cast(pa.large_binary())
    return [default if value is None else value for value in values.to_pylist()]
