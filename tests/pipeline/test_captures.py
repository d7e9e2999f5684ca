"""Captures into a table of messages, with nothing left out in silence, and each of them once."""

from datetime import datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tiercel import columns
from tiercel.pipeline.captures import CaptureError, land, read
from tiercel.pipeline.tables import TableOptions, open_table

VECTORS = Path(__file__).parents[1] / "vectors" / "captures"
SESSION = VECTORS / "session.pcap"


def test_captures_land_once(spark: SparkSession, tmp_path: Path) -> None:
    table = open_table(TableOptions(format="parquet", place=str(tmp_path / "table")))
    files = sorted(each for each in VECTORS.iterdir() if each.suffix in {".pcap", ".pcapng"})
    assert land(spark, files[:2], table) == (2, 0, 2)
    assert land(spark, files, table) == (len(files) - 2, 2, len(files) - 2)
    assert land(spark, files, table).messages == 0
    found = table.read(spark).collect()
    assert sorted(row["capture"] for row in found) == sorted(map(str, files))
    assert {row["label"] for row in found} == {"mqsender label"}


def test_the_columns_are_those_of_a_message(spark: SparkSession) -> None:
    rows = read(spark, [SESSION])
    assert rows.columns == [*columns.names(), "decode_error", "capture", "stream"]
    (row,) = rows.collect()
    assert row["queue"] == "a04bm02\\q"
    assert row["dest_queue"] == "DIRECT=OS:a04bm02\\q"
    assert row["sent_time"] == datetime(2013, 10, 4, 23, 3, 40)  # noqa: DTZ001  # as Spark gives it
    assert row["body_size"] == len(row["body"]) == 2000
    assert row["stream"] == "127.0.0.1:40002 -> 127.0.0.1:1801"
    assert row["lookup_id"] is None
    assert row["decode_error"] is None
    assert row["arrived_time"].year > 2013  # when it was captured


def test_what_is_missing_is_a_row_with_an_error(spark: SparkSession, tmp_path: Path) -> None:
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(SESSION.read_bytes()[:-700])  # the file breaks off inside a frame
    hole = tmp_path / "hole.pcap"
    data = SESSION.read_bytes()
    hole.write_bytes(
        data[:24] + data[24:].replace(b"\x4c\x49\x4f\x52", b"\0\0\0\0")
    )  # no packet can be known
    rows = read(spark, [cut, hole]).where("decode_error is not null").collect()
    assert {Path(row["capture"]).name for row in rows} == {"cut.pcap", "hole.pcap"}
    assert any("is truncated" in row["decode_error"] for row in rows)


def test_a_file_that_is_no_capture(spark: SparkSession, tmp_path: Path) -> None:
    table = open_table(TableOptions(format="parquet", place=str(tmp_path / "table")))
    (tmp_path / "text").write_text("hello")
    with pytest.raises(CaptureError, match="neither pcap nor pcapng"):
        land(spark, [tmp_path / "text"], table)
    with pytest.raises(CaptureError, match="cannot read the file"):
        land(spark, [tmp_path / "none"], table)
