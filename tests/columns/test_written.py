"""Rows that are to become messages: which are refused, and what becomes of the others."""

import re
from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiercel.columns import (
    WRITER_COLUMNS,
    RowValueError,
    UnknownColumnError,
    WriterSchemaError,
    arrow_schema,
    check_rows,
    check_writer_schema,
    messages_of,
    without_signature,
)
from tiercel.columns.stored import StoredRows, batch_of
from tiercel.engine.records import Record
from tiercel.model.format_name import FormatName
from tiercel.model.message import Message, anew
from tiercel.model.queue_name import parse_queue_name
from tiercel.wire.message import decode_message, encode_message
from tiercel.wire.packet import decode_packet
from wire import strategies as wire


def rows(**columns: Sequence[object]) -> pa.RecordBatch:
    chosen = {"body": [b""] * len(next(iter(columns.values()), [None]))} | columns
    schema = arrow_schema(chosen)
    return pa.RecordBatch.from_pydict(chosen, schema=schema)


class TestSchema:
    def test_all_columns_of_the_writer(self) -> None:
        check_writer_schema(arrow_schema(WRITER_COLUMNS))

    def test_body_alone_with_a_queue_for_all(self) -> None:
        check_writer_schema(arrow_schema(["body"]), queue=r".\private$\orders")

    @pytest.mark.parametrize(
        ("schema", "error", "words"),
        [
            (pa.schema([("body", pa.binary()), ("labl", pa.string())]), UnknownColumnError, "mean label?"),
            (arrow_schema(["body", "lookup_id"]), WriterSchemaError, "lookup_id cannot be set"),
            (arrow_schema(["label"]), WriterSchemaError, "missing column body"),
            (pa.schema([("body", pa.int64())]), WriterSchemaError, "body is int64; it must be binary"),
            (
                pa.schema([("body", pa.binary()), ("priority", pa.string())]),
                WriterSchemaError,
                "it must be tiny",
            ),
            (
                pa.schema([("body", pa.binary()), ("ttrq", pa.float64())]),
                WriterSchemaError,
                "it must be long",
            ),
            (
                pa.schema([("body", pa.binary()), ("label", pa.binary())]),
                WriterSchemaError,
                "it must be string",
            ),
            (
                pa.schema([("body", pa.binary()), ("extension", pa.string())]),
                WriterSchemaError,
                "it must be bin",
            ),
            (pa.schema([("body", pa.binary())] * 2), WriterSchemaError, "duplicate column"),
        ],
    )
    def test_refused(self, schema: pa.Schema, error: type[ValueError], words: str) -> None:
        with pytest.raises(error, match=re.escape(words)):
            check_writer_schema(schema, queue="q")

    def test_nowhere_to_go(self) -> None:
        with pytest.raises(WriterSchemaError, match="option queue"):
            check_writer_schema(arrow_schema(["body"]))

    @pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.large_binary()], ids=str)
    def test_other_forms_of_a_body(self, kind: pa.DataType) -> None:
        batch = pa.RecordBatch.from_pydict({"body": ["Grüße"]}, pa.schema([("body", kind)]))
        ((_, message),) = messages_of(batch)
        assert message.body == "Grüße".encode()

    @pytest.mark.parametrize("kind", [pa.int8(), pa.int32(), pa.int64(), pa.uint64(), pa.null()], ids=str)
    def test_any_integer_does(self, kind: pa.DataType) -> None:
        value = None if kind == pa.null() else 3
        batch = pa.RecordBatch.from_pydict({"body": [b"", b""], "priority": pa.array([None, value], kind)})
        assert [message.priority for _, message in messages_of(batch)] == [3, 3]


class TestValues:
    @pytest.mark.parametrize(
        ("name", "good", "wrong"),
        [
            ("priority", 7, 8),
            ("priority", 0, -1),
            ("delivery", 1, 2),
            ("acknowledge", 15, 16),
            ("journal", 3, 4),
            ("ttrq", 0xFFFF_FFFF, 1 << 32),
            ("ttbr", 0, -1),
            ("body_type", 0xFFFF_FFFF, 1 << 32),
            ("app_specific", 0xFFFF_FFFF, 1 << 32),
            ("correlation_id", bytes(20), bytes(19)),
            ("label", "x" * 249, "x" * 250),
            ("label", "\U0001f600" * 124, "\U0001f600" * 125),
        ],
    )
    def test_limits(self, name: str, good: object, wrong: object) -> None:
        check_rows(rows(**{name: [None, good]}), queue="q")
        with pytest.raises(RowValueError, match=f"column {name} is .* in row 1; allowed are"):
            check_rows(rows(**{name: [good, wrong]}), queue="q")

    @pytest.mark.parametrize("name", ["queue", "resp_queue", "admin_queue"])
    def test_names_of_queues(self, name: str) -> None:
        check_rows(
            rows(**{name: [r".\private$\a", "a", r"FormatName:DIRECT=OS:h\q", None]}), queue=r".\private$\q"
        )
        with pytest.raises(RowValueError, match=f"column {name}: .*nonsense"):
            check_rows(rows(**{name: ["nonsense="]}), queue="q")

    def test_row_without_a_queue(self) -> None:
        with pytest.raises(RowValueError, match="column queue is None in row 1"):
            check_rows(rows(queue=[r".\private$\q", None]))


class TestMessages:
    def test_defaults(self) -> None:
        ((queue, message),) = messages_of(rows(body=[None], label=[None], queue=[None], ttrq=[None]))
        assert queue is None
        assert message == Message(delivery=1)

    def test_all_columns(self) -> None:
        batch = rows(
            queue=[r".\private$\orders"],
            correlation_id=[bytes(range(20))],
            priority=[5],
            delivery=[0],
            acknowledge=[12],
            journal=[1],
            ttrq=[60],
            ttbr=[0xFFFF_FFFF],
            resp_queue=[r"DIRECT=OS:h\private$\r"],
            admin_queue=[r".\private$\a"],
            label=["order"],
            body=[b"<order/>"],
            body_type=[0x1011],
            extension=[b"ext"],
            app_specific=[0xFFFF_FFFF],
        )
        assert set(batch.schema.names) == set(WRITER_COLUMNS)
        ((queue, message),) = messages_of(batch)
        assert queue == r".\private$\orders"
        assert message == Message(
            b"<order/>",
            label="order",
            priority=5,
            delivery=0,
            body_type=0x1011,
            extension=b"ext",
            application_tag=0xFFFF_FFFF,
            correlation_id=bytes(range(20)),
            time_to_reach_queue=60,
            time_to_be_received=0xFFFF_FFFF,
            acknowledgements=12,
            negative_journaling=True,
            response_queue=FormatName.parse(r"DIRECT=OS:h\private$\r"),
            administration_queue=parse_queue_name(r".\private$\a"),
        )

    @given(st.lists(wire.messages(), max_size=6))
    def test_what_was_read_can_be_sent_again(self, messages: list[Message]) -> None:
        """From queue to queue: the columns that a sender may set say the same afterwards."""
        names = [name for name in WRITER_COLUMNS if name not in {"queue", "resp_queue", "admin_queue"}]
        records = [Record(encode_message(message), 1).encode() for message in messages]
        read = batch_of(StoredRows.of(range(len(records)), records), names)
        sent = [message for _, message in messages_of(read)]
        for message in sent:
            message.destination_queue = FormatName.parse(r"DIRECT=OS:h\q")
        again = [Record(encode_message(message), 1).encode() for message in sent]
        assert batch_of(StoredRows.of(range(len(again)), again), names).equals(read)


class TestPackets:
    @given(message=wire.messages())
    def test_all_that_a_sender_may_set(self, message: Message) -> None:
        packet = encode_message(message)
        batch = pa.RecordBatch.from_pydict({"raw": pa.array([packet], pa.binary()), "queue": ["orders"]})
        check_rows(batch)
        ((queue, found),) = messages_of(batch)
        assert queue == "orders"
        read = decode_message(decode_packet(packet))  # type: ignore[arg-type]
        wanted = anew(read)
        wanted.multiple_destination_signature, wanted.destination_queue = b"", read.destination_queue
        assert found == wanted
        assert (found.body, found.label, found.extension) == (read.body, read.label, read.extension)
        assert found.authentication_level == 0
        without_signature(found)
        assert not found.signature

    @pytest.mark.parametrize(
        ("columns", "words"),
        [
            ({"raw": [b"x"]}, "row 0 cannot be read"),
            ({"raw": [None]}, "row 0 cannot be read"),
            ({"raw": [b"x"], "label": ["a"]}, "column raw is a whole message: remove label"),
            ({"raw": ["x"]}, "column raw is string; it must be binary"),
        ],
    )
    def test_what_is_refused(self, columns: dict[str, list[object]], words: str) -> None:
        with pytest.raises((RowValueError, WriterSchemaError), match=words):
            check_rows(pa.RecordBatch.from_pydict(columns), "orders")
        with pytest.raises(WriterSchemaError, match="missing destination"):
            check_writer_schema(pa.schema([("raw", pa.binary())]))
