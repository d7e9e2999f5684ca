"""Bodies as typed values: what fits is exact, and what does not says where and why."""

import json
import math
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from nbfx.vectors import load
from spark.served import Served
from tiercel import bodies
from tiercel.pipeline.config import Pipeline, parse
from tiercel.pipeline.json_schema import shape_of_json_schema
from tiercel.pipeline.plan import plan
from tiercel.pipeline.quarantine import listed, retry
from tiercel.pipeline.replay import Selection, replay
from tiercel.pipeline.running import run
from tiercel.pipeline.tables import TableError, TableOptions, open_table
from tiercel.pipeline.typed import MisfitError, Shape, _body, fit, shape_of
from tiercel.server.config import ConfigError

VECTORS = Path(__file__).parents[1] / "vectors"
DDL = """id bigint not null, small tinyint, price decimal(6, 2), rate double, on boolean, day date,
    at timestamp, local timestamp_ntz, code binary, tags array<string>,
    lines array<struct<sku string, many int>>, more map<string, int>, inner struct<a int>"""


def read(body: bytes, shape: Shape, body_type: int = 0) -> tuple[Any, str | None]:
    """What the function in Spark does with one body."""
    found = bodies.decode(body, body_type)
    return _body(shape, str(found.kind), found.text, found.json, found.error)


@pytest.fixture(scope="module")
def shape(spark: SparkSession) -> Shape:  # noqa: ARG001  # reads DDL
    return shape_of(DDL)


def of(name: str, value: object) -> Any:
    return {"id": 1, name: value}


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("id", 9223372036854775807, 9223372036854775807),
        ("id", "7", 7),
        ("ID", 7.0, 7),
        ("id", "1E+2", 100),
        ("price", "1234.50", Decimal("1234.5")),
        ("price", 0.1, Decimal("0.1")),
        ("price", "0E+999", Decimal(0)),
        ("rate", "-INF", -math.inf),
        ("rate", "1e300", 1e300),
        ("on", "true", True),
        ("on", False, False),
        ("day", "2026-11-18", date(2026, 11, 18)),
        ("day", "2026-11-18T00:00:00.0000000", date(2026, 11, 18)),
        ("at", "2026-11-18T08:00:00.1234567+01:00", datetime(2026, 11, 18, 7, 0, 0, 123456, UTC)),
        ("at", "2026-11-18T08:00:00", datetime(2026, 11, 18, 8, tzinfo=UTC)),
        ("local", "2026-11-18T08:00:00", datetime(2026, 11, 18, 8)),  # noqa: DTZ001  # that is the type
        ("code", "AAE=", b"\0\1"),
        ("tags", [], []),
        ("tags", {"$id": 1, "$values": ["a"]}, ["a"]),
        ("more", {"a": 1, "$type": "x"}, [("a", 1)]),
        ("inner", {"A": 1, "unknown": 2}, {"a": 1}),
        ("day", None, None),
    ],
)
def test_values_that_fit(shape: Shape, name: str, value: object, wanted: object) -> None:
    found = fit(of(name, value) if name != "ID" else {"ID": value}, shape)[name.lower()]
    assert found == wanted
    assert type(found) is type(wanted)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("id", None, ".id: is missing, and required"),
        ("id", 9223372036854775808, "is not a whole number of 64 bits"),
        ("id", "1e999999999", "is not a whole number"),
        ("id", 1.5, "'1.5' is not a whole number"),
        ("id", True, "'true' is not a number"),
        ("small", 128, "not a whole number of 8 bits"),
        ("price", "12345.00", r"does not fit into decimal\(6,2\)"),
        ("price", 0.001, r"'0.001' does not fit into decimal\(6,2\)"),
        ("price", "1e-999999999", "does not fit"),
        ("price", "NaN", "does not fit"),
        ("price", "cheap", ".price: 'cheap' is not a number"),
        ("rate", "1e400", "is beyond the range of double"),
        ("on", "yes", "is not true or false"),
        ("on", 1, "is not true or false"),
        ("day", "18.11.2026", "is not a date"),
        ("day", "2026-11-18T10:00:00", "is not a date"),
        ("at", "soon", "is not a time"),
        ("at", "0001-01-01T00:00:00+02:00", "is not a time of years"),
        ("local", "2026-11-18T08:00:00Z", "has a time zone"),
        ("code", "A", "is not base64"),
        ("tags", "a", "'a' is not a list"),
        ("tags", ["a", 1], r".tags\[1\]: '1' is not a text"),
        ("lines", [{"many": 1}, {"many": "x"}], r"^.lines\[1\].many: 'x' is not a number$"),
        ("more", {"a": "x"}, ".more.a: "),
        ("more", 7, "is not an object"),
        ("inner", 7, "is not an object"),
        ("inner", {"$ref": 3}, "is a reference"),
    ],
)
def test_values_that_do_not_fit(shape: Shape, name: str, value: object, words: str) -> None:
    with pytest.raises(MisfitError, match=words):
        fit(of(name, value), shape)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=10,
)


@given(value=json_values, name=st.sampled_from(["id", "price", "at", "day", "code", "lines", "more", "rate"]))
def test_any_value_fits_or_does_not(shape: Shape, value: object, name: str) -> None:
    for kind in ("json", "xml"):
        try:
            found = fit({"id": 1, name: value}, shape, kind)
        except MisfitError:
            continue  # any other error fails the test
        assert name in found


class TestBodies:
    @pytest.mark.usefixtures("spark")
    def test_json_keeps_the_digits_of_numbers(self) -> None:
        body = b'{"price": 12345678901234567890.12, "rate": 1.5, "name": "\\ud800"}'
        found, error = read(body, shape_of("price decimal(38, 2), rate double, name string"))
        assert error is None
        assert found["price"] == Decimal("12345678901234567890.12")
        assert found["name"].encode()

    def test_xml(self, shape: Shape) -> None:
        body = (
            b'<Order code="AAE="><id>7</id><price>1.50</price><on>true</on><tags>a</tags>'
            b"<lines><Line><sku>x</sku><many>2</many></Line></lines></Order>"
        )
        found, error = read(body, shape)
        assert error is None
        assert (found["id"], found["price"], found["on"]) == (7, Decimal("1.5"), True)
        assert (found["tags"], found["code"]) == (["a"], b"\0\1")
        assert found["lines"] == [{"sku": "x", "many": 2}]
        two = body.replace(b"</Line>", b"</Line><Line><many>3</many></Line>").replace(
            b"<tags>", b"<tags>b</tags><tags>"
        )
        found, _ = read(two, shape)
        assert (found["tags"], [each["many"] for each in found["lines"]]) == (["b", "a"], [2, 3])
        none, _ = read(b"<Order><id>1</id><lines/></Order>", shape)
        assert none["lines"] == []

    @pytest.mark.usefixtures("spark")
    def test_dotnet(self) -> None:
        body = (VECTORS / "nrbf" / "send_address.bin").read_bytes()
        found, error = read(body, shape_of("args array<struct<city string, zip int>>"), 0x300)
        assert error is None
        assert found["args"] == [{"city": "Redmond", "zip": 98054}]

    @pytest.mark.usefixtures("spark")
    def test_wcf(self) -> None:
        (body,) = (each["hex"] for each in load("nmfmb") if each["name"] == "02_datagram_order")
        columns = "id int, name string, prices array<double>, paid boolean, total decimal(9,2), blob binary"
        found, error = read(bytes.fromhex(body), shape_of(f"order struct<{columns}>"))
        assert error is None
        assert found["order"] == {
            "id": 1,
            "name": "würfel 1",
            "prices": [1.5, 2.25, -1e300],
            "paid": False,
            "total": Decimal("12.3"),
            "blob": bytes(range(1, 6)),
        }

    def test_what_is_no_object(self, shape: Shape) -> None:
        assert read(b"hello", shape) == (None, "does not fit the schema: 'hello' is not an object")
        assert read(b"", shape) == (None, "does not fit the schema: the body is empty")
        assert read(b"\xff\xfe\xfd\0\1", shape)[0] is None
        assert read(b"<?xml version='1.0'?><a", shape) == (None, None)  # it has an error of its own


SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "required": ["id", "lines"],
    "properties": {
        "id": {"type": "integer", "minimum": 1},
        "small": {"type": "integer", "format": "int32"},
        "price": {"type": "number", "format": "decimal(9,2)", "exclusiveMaximum": 1000},
        "rate": {"type": "number"},
        "state": {"type": ["string", "null"], "enum": ["new", "paid"]},
        "sku": {"type": "string", "pattern": "^[A-Z]+$", "maxLength": 3},
        "at": {"type": "string", "format": "date-time"},
        "day": {"type": "string", "format": "date"},
        "code": {"type": "string", "contentEncoding": "base64"},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}, "minItems": 1},
        "more": {"type": "object", "additionalProperties": {"type": "boolean"}},
    },
    "$defs": {
        "line": {
            "type": "object",
            "properties": {"many": {"type": "integer"}},
            "required": ["many"],
            "additionalProperties": False,
        }
    },
}
GOOD: dict[str, Any] = {"id": 1, "lines": [{"many": 2}], "state": "new", "sku": "AB", "more": {"a": True}}


class TestJsonSchema:
    def test_types(self) -> None:
        shape = shape_of_json_schema(json.dumps(SCHEMA))
        assert shape.kind.simpleString() == (
            "struct<id:bigint,small:int,price:decimal(9,2),rate:double,state:string,sku:string,at:timestamp,"
            "day:date,code:binary,lines:array<struct<many:bigint>>,more:map<string,boolean>>"
        )
        found = fit(GOOD | {"state": None}, shape)
        assert (found["state"], found["lines"], found["rate"]) == (None, [{"many": 2}], None)

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"id": 0}, ".id: '0' does not fulfil minimum '1'"),
            ({"id": None}, ".id: is missing"),
            ({"price": 1000}, "does not fulfil exclusiveMaximum '1000'"),
            ({"state": "lost"}, "does not fulfil enum"),
            ({"sku": "ab"}, "does not fulfil pattern"),
            ({"sku": "ABCD"}, "does not fulfil maxLength"),
            ({"lines": []}, "does not fulfil minItems"),
            ({"lines": [{"many": 1, "x": 2}]}, r".lines\[0\]: has the unknown member x"),
            ({"lines": [None]}, r".lines\[0\]: is missing"),
        ],
    )
    def test_rules(self, change: dict[str, Any], words: str) -> None:
        with pytest.raises(MisfitError, match=words):
            fit(GOOD | change, shape_of_json_schema(json.dumps(SCHEMA)))

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"type": ["string", "integer"]}, "#/properties/id: needs one .type., beside null"),
            ({"type": "date"}, "type 'date' is not one of object, array"),
            ({"oneOf": []}, "#/properties/id: oneOf is not supported"),
            ({"minLength": 3}, "minLength is not for bigint"),
            ({"minimum": "1"}, "minimum must be a number"),
            ({"type": "string", "minimum": 1}, "minimum is not for string"),
            ({"type": "string", "pattern": "("}, "pattern"),
            ({"type": "object"}, "an object needs properties"),
            ({"$ref": "other.json"}, "only references into the same document"),
            ({"$ref": "#/properties/id"}, "refers to itself"),
            ({"$ref": "#/$defs/none"}, "#/.defs/none: must be an object"),
        ],
    )
    def test_what_is_refused(self, change: dict[str, Any], words: str) -> None:
        schema = {"type": "object", "properties": {"id": {"type": "integer"} | change}}
        with pytest.raises(ConfigError, match=words):
            shape_of_json_schema(json.dumps(schema))


TEXT = """
[pipeline]
name = "typed"
[source]
url = "{url}"
queues = ['{queue}']
consumer = "{consumer}"
[decode]
schema = "{schema}"
[[table]]
format = "iceberg"
path = "orders"
name = "orders"
sql = "select message_id, value.* from messages"
[quarantine]
format = "parquet"
path = "bad"
when = "value.id < 0"
"""


class Shop:
    def __init__(self, folder: Path, daemon: Served, spark: SparkSession, queue: str) -> None:
        self.folder, self.daemon, self.spark, self.queue = folder, daemon, spark, queue
        self.schema = "id int not null, price decimal(9,2)"

    @property
    def pipeline(self) -> Pipeline:
        consumer = self.queue.rpartition("\\")[2]
        text = TEXT.format(url=self.daemon.url, queue=self.queue, consumer=consumer, schema=self.schema)
        return parse(text, self.folder)

    def run(self) -> int:
        return run(self.pipeline, self.spark, lambda _query, _summary: None).quarantined

    def ids(self) -> list[int]:
        options = TableOptions(format="iceberg", place=str(self.folder / "orders"), name="orders")
        return sorted(row.id for row in open_table(options).read(self.spark).collect())


def test_a_pipeline_with_a_schema_that_grows(
    tmp_path: Path, daemon: Served, spark: SparkSession, make_queue: Callable[..., str]
) -> None:
    """New columns and wider types are taken over; narrower ones are refused before a message is taken."""
    shop = Shop(tmp_path, daemon, spark, make_queue(journaling=True))
    daemon.send(
        shop.queue, '{"id": 1, "price": 2.50}', "<o><id>2</id></o>", '{"id": 5000000000}', '{"id": -1}', "x"
    )
    assert "value: struct<id:int,price:decimal(9,2)>" in "\n".join(plan(shop.pipeline, spark))
    assert shop.run() == 3
    assert shop.ids() == [1, 2]
    why = {row.why for row in listed(shop.pipeline, spark)}
    assert "does not fit the schema: id: '5000000000' is not a whole number of 32 bits" in why
    assert "does not fit the schema: 'x' is not an object" in why
    assert "matched the rule value.id < 0" in why

    shop.schema = "id bigint not null, price decimal(9,2), colour string"
    assert "new columns colour; wider id (bigint)" in "\n".join(plan(shop.pipeline, spark))
    assert retry(shop.pipeline, spark).landed.messages == 1
    daemon.send(shop.queue, '{"id": 3, "colour": "red"}')
    shop.run()
    assert shop.ids() == [1, 2, 3, 5000000000]
    replay(shop.pipeline, spark, Selection(source="journal"))
    assert shop.ids() == [1, 2, 3, 5000000000]

    shop.schema = "id int not null"
    daemon.send(shop.queue, '{"id": 4}')
    for narrow in (lambda: list(plan(shop.pipeline, spark)), shop.run):
        with pytest.raises(TableError, match="column id is bigint in the table, and int is narrower"):
            narrow()
    assert daemon.count(shop.queue) == 1


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ("id integre", r"\[decode\] schema = 'id integre': .*"),
        ("id interval day", "interval day is not a type that bodies have"),
        ("@none.json", r"\[decode\] schema = '@none.json': cannot read"),
    ],
)
def test_a_schema_that_is_wrong(
    tmp_path: Path,
    daemon: Served,
    spark: SparkSession,
    make_queue: Callable[..., str],
    schema: str,
    words: str,
) -> None:
    shop = Shop(tmp_path, daemon, spark, make_queue())
    shop.schema = schema
    with pytest.raises(ConfigError, match=words):
        list(plan(shop.pipeline, spark))
