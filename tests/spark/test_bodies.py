"""Bodies as columns, in a real session."""

import json
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import from_json, from_xml

from nbfx.vectors import load
from pyspark_msmq import bodies
from pyspark_msmq.bodies import from_msmq_body, json_of_body, register, text_of_body
from tiercel.bodies import decode, encode

SCHEMA = "n int, body binary, body_type long"
ORDER = {"Id": 7, "Customer": "Müller", "Line": ["a", "b"]}
BODIES: list[tuple[bytes | None, int | None]] = [
    encode("hi", "xml"),
    encode("hé", "bstr"),
    (b'{"a": 1.10}', 0),
    encode(ORDER, "xml", name="Order"),
    encode(["x", "y"], "binary"),
    (b"\x00\x01", 0),
    (b"\x01", 3),
    (b"", 0),
    (b"<?xml version='1.0'?><broken", 0),
    (None, 0),
    (b"no type", None),
]


@pytest.fixture
def frame(spark: SparkSession) -> DataFrame:
    rows = [(number, body, kind) for number, (body, kind) in enumerate(BODIES)]
    return spark.createDataFrame(rows, SCHEMA)


def test_every_body_is_a_row(frame: DataFrame) -> None:
    found = frame.select("n", from_msmq_body("body", "body_type").alias("b")).orderBy("n").collect()
    assert [row.b and tuple(row.b) for row in found] == [expected(*body) for body in BODIES]
    assert [row.n for row in found if row.b and row.b.error] == [6, 8]


def expected(body: bytes | None, body_type: int | None) -> tuple[str | None, ...] | None:
    if body is None:
        return None
    decoded = decode(body, body_type or 0)
    headers = decoded.headers
    names = ("action", "to", "message_id")
    return str(decoded.kind), decoded.text, decoded.json, decoded.error, *map(headers.get, names)


def test_wcf(spark: SparkSession) -> None:
    vector = next(each for each in load("nmfmb") if each["name"] == "02_datagram_order")
    rows = spark.createDataFrame([(0, bytes.fromhex(vector["hex"]), 0x1011)], SCHEMA)
    (row,) = rows.select(from_msmq_body("body", "body_type").alias("b")).select("b.*").collect()
    assert (row.kind, row.error) == ("wcf", None)
    assert row.action == "http://example.org/orders/IOrder/Submit"
    assert row.to == "net.msmq://localhost/private/orders"
    assert row.message_id == "urn:uuid:d1c2b3a4-0011-2233-4455-66778899aabb"
    assert row.text.startswith('<Submit xmlns="http://example.org/orders">')
    assert json.loads(row.json)["order"]["Id"] == 1


def test_text_and_json(frame: DataFrame) -> None:
    columns = (
        text_of_body("body", "body_type").alias("t"),
        json_of_body(frame.body, frame.body_type).alias("j"),
    )
    found = frame.select(*columns).where("n < 5").collect()
    assert [row.t for row in found[:3]] == ["hi", "hé", '{"a": 1.10}']
    assert [json.loads(row.j) for row in found[3:]] == [
        {"Id": "7", "Customer": "Müller", "Line": ["a", "b"]},
        ["x", "y"],
    ]


def test_one_call_of_python_for_all_columns_of_a_body(
    frame: DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    frame.select(text_of_body("body", "body_type"), json_of_body("body", "body_type")).explain()
    plan = capsys.readouterr().out
    assert plan.count("ArrowEvalPython") == 1
    assert "pythonUDF0" in plan
    assert "pythonUDF1" not in plan


def test_documents_go_on_to_types(frame: DataFrame) -> None:
    schema = "Id int, Customer string, Line array<string>"
    order = from_xml(text_of_body("body", "body_type"), schema)
    assert frame.where("n = 3").select(order.alias("o")).select("o.*").collect() == [
        (7, "Müller", ["a", "b"])
    ]
    lines = from_json(json_of_body("body", "body_type"), "array<string>")
    assert frame.where("n = 4").select(lines).collect() == [(["x", "y"],)]


def test_what_is_not_as_expected_is_an_error(frame: DataFrame) -> None:
    found = frame.select(from_msmq_body("body", "body_type", expect="json").alias("b")).orderBy("n").collect()
    assert [row.b.kind for row in found if row.b] == ["json"] * 10
    assert [row.b and row.b.error is None for row in found].count(True) == 1


def test_sql(spark: SparkSession, frame: DataFrame) -> None:
    register(spark)
    frame.createOrReplaceTempView("messages")
    query = """
        select from_msmq_body(body, body_type).kind,
               text_of_body(body, body_type), json_of_body(body, body_type)
        from messages where n in (0, 2) order by n"""
    assert spark.sql(query).collect() == [("xml", "hi", '"hi"'), ("json", '{"a": 1.10}', '{"a": 1.10}')]
    assert spark.sql("select text_of_body('a text', 0)").collect() == [("a text",)]


def test_no_rows(spark: SparkSession) -> None:
    assert spark.createDataFrame([], SCHEMA).select(from_msmq_body("body", "body_type")).collect() == []


def test_a_batch_too_long_for_arrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """The texts of one batch share a column of 2 GiB: what is beyond is an error and not a failed job."""
    monkeypatch.setattr(bodies, "_CHARACTERS_OF_A_BATCH_MAX", 100)
    columns: list[Any] = [pa.array([b"x" * 40] * 3, pa.binary()), pa.array([0] * 3, pa.int64())]
    rows = list(bodies._rows(*columns))
    assert [row and row[3] for row in rows] == [
        None,
        "body: the bodies of this batch exceed the size of a column",
        "body: the bodies of this batch exceed the size of a column",
    ]
