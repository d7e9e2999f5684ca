"""Whole pipelines against a real queue manager: every message is in every table once."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from spark.served import Served
from tiercel.pipeline.config import Pipeline, parse
from tiercel.pipeline.plan import plan
from tiercel.pipeline.running import Checkpoint, PipelineError, Summary, only_one, run
from tiercel.pipeline.tables import open_table
from tiercel.pipeline.tables.delta import DeltaLakeTable
from tiercel.pipeline.tables.parquet import ParquetTable
from tiercel.server.config import ConfigError

TEXT = """
[pipeline]
name = "shop"
[source]
url = "{url}"
queues = ['{queue}']
consumer = "{consumer}"
max_messages_per_trigger = 20
[decode]
expect = "json"
[[table]]
format = "delta"
path = "orders"
partition_by = ["date"]
sql = "select arrived_time, cast(get_json_object(body_json, '$.id') as int) as id from messages"
[[table]]
format = "parquet"
path = "raw"
[quarantine]
format = "duckdb"
path = "bad.db"
name = "bad"
when = "get_json_object(body_json, '$.id') < 0"
queue = '{back}'
"""


class Shop:
    """A pipeline and its queue, in a folder of its own."""

    def __init__(
        self, folder: Path, daemon: Served, spark: SparkSession, make_queue: Callable[..., str]
    ) -> None:
        self.folder, self.daemon, self.spark = folder, daemon, spark
        self.queue, self.back = make_queue(), make_queue(transactional=True)
        self.text = TEXT.format(
            url=daemon.url, queue=self.queue, back=self.back, consumer=self.queue.rpartition("\\")[2]
        )

    @property
    def pipeline(self) -> Pipeline:
        return parse(self.text, self.folder)

    def send(self, *ids: int) -> None:
        self.daemon.send(self.queue, *[json.dumps({"id": each}) for each in ids])

    def run(self) -> Summary:
        return run(self.pipeline, self.spark, lambda _query, _summary: None)

    def ids(self, place: int = 0) -> list[int]:
        rows = open_table(self.pipeline.tables[place].options).read(self.spark)
        if "id" not in rows.columns:
            rows = rows.selectExpr("cast(get_json_object(body_json, '$.id') as int) as id")
        return sorted(row.id for row in rows.select("id").collect())

    def bad(self) -> list[str]:
        assert self.pipeline.quarantine is not None
        rows = open_table(self.pipeline.quarantine.options).read(self.spark)
        return sorted(bytes(row.body).decode() for row in rows.select("body").collect())


@pytest.fixture
def shop(tmp_path: Path, daemon: Served, spark: SparkSession, make_queue: Callable[..., str]) -> Shop:
    return Shop(tmp_path, daemon, spark, make_queue)


def test_messages_land_once_and_bad_ones_apart(shop: Shop) -> None:
    shop.send(*range(28), -5)
    shop.daemon.send(shop.queue, "{not json")
    summary = shop.run()
    assert (summary.messages, summary.batches, summary.quarantined, summary.again) == (30, 2, 2, 0)
    assert shop.ids(0) == shop.ids(1) == list(range(28))
    assert shop.bad() == ['{"id": -5}', "{not json"]
    assert shop.daemon.count(shop.back) == 2
    assert shop.daemon.count(shop.queue) == 0

    assert shop.run().messages == 0
    shop.send(28)
    assert shop.run().messages == 1
    assert shop.ids(0) == shop.ids(1) == list(range(29))


@pytest.mark.parametrize("dies", [DeltaLakeTable, ParquetTable], ids=["first table", "last table"])
def test_a_death_after_a_table_took_the_batch(shop: Shop, dies: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The batch is in one or two tables, and Spark does not know: all of them have it once in the end."""
    shop.send(*range(25), -1)
    real = dies.write

    def write(*arguments: Any) -> None:
        real(*arguments)
        raise OSError("the power went")

    with monkeypatch.context() as patch:
        patch.setattr(dies, "write", write)
        with pytest.raises(OSError, match="the power went"):
            shop.run()
    checkpoint = Checkpoint.read(shop.pipeline.state)
    assert (checkpoint.planned, checkpoint.finished) == (0, -1)
    assert shop.run().again > 0
    assert shop.ids(0) == shop.ids(1) == list(range(25))
    assert shop.daemon.count(shop.back) == 1
    assert shop.bad() == ['{"id": -1}']


def test_a_rule_for_what_no_table_could_take(shop: Shop) -> None:
    """The batch that failed runs again under the new rule, and leaves nothing out."""
    shop.text = shop.text.replace("< 0", "= '-1'")
    shop.send(1, 2, -1)
    shop.daemon.send(shop.queue, '{"id": "poison"}')
    with pytest.raises(PipelineError, match="poison"):
        shop.run()
    shop.text = shop.text.replace("= '-1'", "in ('-1', 'poison')")
    shop.run()
    assert shop.ids(0) == shop.ids(1) == [1, 2]
    assert shop.bad() == ['{"id": "poison"}', '{"id": -1}']


def test_a_plan_says_all_and_changes_nothing(shop: Shop) -> None:
    shop.send(1, 2, 3)
    lines = "\n".join(plan(shop.pipeline, shop.spark))
    assert f"{shop.queue}: 3 messages waiting" in lines
    assert f"table delta:{shop.folder}/orders, partitioned by date" in lines
    assert "columns: arrived_time timestamp, id int, date date" in lines
    assert "or where get_json_object(body_json, '$.id') < 0" in lines
    assert "first run" in lines
    assert shop.daemon.count(shop.queue) == 3
    assert not list(shop.folder.iterdir())
    shop.run()
    lines = "\n".join(plan(shop.pipeline, shop.spark))
    assert "0 messages waiting" in lines
    assert "last batch: 0" in lines
    assert "batch 0 is done" in lines


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("from messages", "from mesages", "TABLE_OR_VIEW_NOT_FOUND"),
        ("arrived_time, cast", "arived_time, cast", "arived_time"),
        ('["date"]', '["day"]', "partition_by day: unknown column; columns: arrived_time, id"),
        (
            "select arrived_time,",
            "select",
            "partition_by date: requires a column date, arrived_time or sent_time",
        ),
        ("< 0", "<", "PARSE_SYNTAX_ERROR"),
    ],
)
def test_what_cannot_work_is_told_before_a_message_is_taken(
    shop: Shop, old: str, new: str, words: str
) -> None:
    shop.send(1)
    assert old in shop.text
    shop.text = shop.text.replace(old, new)
    with pytest.raises(ConfigError, match=words) as caught:
        shop.run()
    assert "\n" not in str(caught.value)
    assert shop.daemon.count(shop.queue) == 1


def test_a_function_makes_the_rows(shop: Shop) -> None:
    (shop.folder / f"steps_{shop.queue.rpartition('$')[2][1:]}.py").write_text(
        "from pyspark.sql.functions import udf\n\n"
        "@udf('int')\ndef doubled(text):\n    return 2 * int(text)\n\n"
        "def rows(messages):\n"
        "    id = doubled(messages.selectExpr(\"get_json_object(body_json, '$.id') as id\").id)\n"
        "    return messages.selectExpr(\"get_json_object(body_json, '$.id') as text\")"
        ".select(doubled('text').alias('id'))\n"
        "def nothing(messages):\n    return 7\n"
    )
    module = f"steps_{shop.queue.rpartition('$')[2][1:]}"
    before = shop.text[shop.text.index("partition_by") : shop.text.index('[[table]]\nformat = "parquet"')]
    whole = shop.text
    shop.text = whole.replace(before, f'function = "{module}:nothing"\n')
    with pytest.raises(ConfigError, match="must return a DataFrame, not int"):
        shop.run()
    shop.text = whole.replace(before, f'function = "{module}:missing"\n')
    with pytest.raises(ConfigError, match="missing"):
        shop.run()
    shop.text = whole.replace(before, f'function = "{module}:rows"\n')
    shop.send(1, 2, 3)
    shop.run()
    assert shop.ids(0) == [2, 4, 6]


def test_one_pipeline_runs_once_at_a_time(tmp_path: Path) -> None:
    with only_one(tmp_path), pytest.raises(PipelineError, match="already running"), only_one(tmp_path):
        pass


def test_a_queue_for_bad_messages_that_is_not_there(shop: Shop) -> None:
    shop.text = shop.text.replace(shop.back, r".\private$\nowhere")
    with pytest.raises(RuntimeError, match="nowhere"):
        shop.run()


def test_a_table_that_takes_each_key_once(shop: Shop) -> None:
    """The same order, sent twice in one batch, in the next batch, and in the next run."""
    shop.text = shop.text.replace(
        'partition_by = ["date"]', 'partition_by = ["date"]\ndedup = "id"\ncompact_every = 2'
    )
    shop.send(*range(18), 3, 3, *range(10, 20))
    first = shop.run()
    assert (first.batches, first.messages) == (2, 30)
    assert shop.ids(0) == list(range(20))
    assert len(shop.ids(1)) == 30
    shop.send(5, 20)
    assert shop.run().rows[f"delta:{shop.folder}/orders"] == 1
    assert shop.ids(0) == list(range(21))
    files = DeltaTable(str(shop.folder / "orders")).file_uris()
    assert len(files) == 2, "the two batches of the first run were merged"
    shop.text = shop.text.replace('dedup = "id"', 'dedup = "key"')
    with pytest.raises(ConfigError, match="dedup key: unknown column; columns: arrived_time, id"):
        shop.run()


def test_several_sources_with_queues_of_their_own(shop: Shop, tmp_path: Path) -> None:
    """One run reads all of them, and one that is added later begins with its first message."""
    other = Served(tmp_path / "other").start()
    try:
        other.make_queue("bills")
        other.make_queue("notes")
        source = shop.text[shop.text.index("[source]") : shop.text.index("[decode]")]
        more = f'[[source]]\nurl = "{other.url}"\nqueues = ["bills"]\n'
        shop.text = shop.text.replace(f"queue = '{shop.back}'", "")
        one = shop.text
        shop.send(1, 2)
        other.send("bills", '{"id": 11}', '{"id": 12}', '{"id": 13}')
        other.send("notes", '{"id": 21}')
        shop.run()
        assert shop.ids() == [1, 2]
        shop.text = one.replace(source, source.replace("[source]", "[[source]]") + more)
        shop.send(3)
        lines = "\n".join(plan(shop.pipeline, shop.spark))
        assert f"messages from {shop.daemon.url}, {other.url}, claimed by" in lines
        assert "lag 4 messages" in lines
        assert shop.run().messages == 4
        assert shop.ids() == [1, 2, 3, 11, 12, 13]
        assert (other.count("bills"), other.count("notes")) == (0, 1)
    finally:
        other.stop()
