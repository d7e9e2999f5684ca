"""The example: a week of orders becomes bronze, silver and gold, and a picture."""

import json
import shutil
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from matplotlib.image import imread
from pyspark.sql import SparkSession

from spark.served import Served
from tiercel.admin.message_json import from_json
from tiercel.pipeline.config import load
from tiercel.pipeline.quarantine import listed
from tiercel.pipeline.running import run
from tiercel.pipeline.tables import TableOptions, open_table

EXAMPLE = Path(__file__).parents[2] / "examples" / "medallion"


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "medallion"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("lake", ".medallion", "__pycache__"))
    monkeypatch.syspath_prepend(str(folder))
    yield folder
    for name in ("shop", "gold"):
        sys.modules.pop(name, None)


def test_from_a_queue_to_a_picture(example: Path, daemon: Served, spark: SparkSession) -> None:
    import gold  # noqa: PLC0415  # of the example
    import shop  # noqa: PLC0415

    queue = daemon.make_queue("medallion")
    text = (example / "pipeline.toml").read_text()
    text = text.replace("http://127.0.0.1:8802", daemon.url).replace('["orders"]', '["medallion"]')
    (example / "pipeline.toml").write_text(text)
    bodies = list(shop.orders(400))
    wrong = sum("quantiy" in each for each in bodies)
    assert len(bodies) - wrong > 400
    assert wrong
    assert from_json(json.loads(shop.line(bodies[0]))).body == bodies[0].encode()
    daemon.send(queue, *bodies)
    pipeline = load(example / "pipeline.toml")
    summary = run(pipeline, spark, lambda _query, _summary: None)
    assert (summary.messages, summary.quarantined) == (len(bodies), wrong)
    assert summary.rows[f"parquet:{example}/lake/bronze"] == len(bodies) - wrong
    assert summary.rows[f"delta:{example}/lake/silver"] == 400
    assert {row.why for row in listed(pipeline, spark)} == {
        "does not fit the schema: quantity: is missing, and required"
    }
    gold.make(example / "lake")
    tables = gold.make(example / "lake")  # as often as you like
    silver = _rows(spark, example, "silver")
    wanted = sum((row.quantity * row.price for row in silver), Decimal(0))
    for name in ("revenue_by_day", "products"):
        assert sum(tables[name]["revenue"].to_pylist()) == wanted
        assert sum(row.revenue for row in _rows(spark, example, f"gold/{name}")) == wanted
    height, width, _ = imread(example / "lake" / "gold" / "revenue.png").shape
    assert (width, height) == (1100, 440)


def _rows(spark: SparkSession, example: Path, name: str) -> list[Any]:
    return open_table(TableOptions(format="delta", place=str(example / "lake" / name))).read(spark).collect()
