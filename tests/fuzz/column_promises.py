"""What must hold for the columns of any stored packet, and for any rows that a client sends."""

from pathlib import Path

import pyarrow as pa
from basics import Target, same

from tiercel.columns import SCHEMA, WRITER_COLUMNS, arrow_schema, messages_of
from tiercel.columns.stored import StoredRows, batch_of, slow_batch_of
from tiercel.engine.records import Record
from tiercel.model.format_name import FormatName
from tiercel.model.message import Message
from tiercel.wire.message import encode_message

VECTORS = Path(__file__).resolve().parent.parent / "vectors"
QUEUE = FormatName.parse(r"DIRECT=OS:host\private$\orders")
PLAIN = encode_message(Message(b"body", label="label", destination_queue=QUEUE))
SENDER = Message(
    b"body",
    destination_queue=QUEUE,
    response_queue=QUEUE,
    sender_id=b"sid!",
    transaction_id=5,
    extension=b"x",
)


def check_columns(data: bytes) -> None:
    """Between others, a packet gives the same columns as alone and in the plain way."""
    records = [Record(packet, 1).encode() for packet in (PLAIN, data, PLAIN)]
    rows = StoredRows.of(range(len(records)), records)
    batch = batch_of(rows, SCHEMA.names, bad="column")
    batch.validate(full=True)
    expected = slow_batch_of(rows, SCHEMA.names, bad="column")
    if not batch.equals(expected):
        raise AssertionError(f"{batch.to_pylist()} is not {expected.to_pylist()}")


def check_rows(data: bytes) -> None:
    """Whatever a client stages is refused, or can be sent."""
    try:
        with pa.ipc.open_stream(data) as stream:
            found = [message for batch in stream for _, message in messages_of(batch)]
    except (ValueError, OSError, pa.ArrowException):
        return
    for message in found:
        message.destination_queue = QUEUE
        same(encode_message(message)[:1], b"\x10")


def staged() -> bytes:
    columns: dict[str, object] = dict.fromkeys(WRITER_COLUMNS) | {
        "body": b"body",
        "label": "label",
        "priority": 5,
    }
    batch = pa.RecordBatch.from_pylist([columns] * 3, schema=arrow_schema(WRITER_COLUMNS))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


TARGETS = {
    "columns": Target(
        check_columns,
        lambda: [PLAIN, encode_message(SENDER), *(path.read_bytes() for path in VECTORS.glob("mqqb/*.bin"))],
    ),
    "written_rows": Target(check_rows, lambda: [staged()]),
}
