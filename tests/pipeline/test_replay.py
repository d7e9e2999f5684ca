"""Messages once more, from journals, archives and tables, without doubles; and those set apart."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark.served import Served
from tiercel.columns import names
from tiercel.pipeline.config import Pipeline, parse
from tiercel.pipeline.quarantine import drop, listed, retry
from tiercel.pipeline.replay import Replayed, Selection, replay, resend
from tiercel.pipeline.running import PipelineError, only_one, run
from tiercel.pipeline.tables import Table, TableOptions, open_table
from tiercel.server.config import ConfigError

TEXT = """
[pipeline]
name = "shop"
[source]
url = "{url}"
queues = ['{queue}']
consumer = "{consumer}"
raw = true
[[table]]
format = "delta"
path = "orders"
sql = "select message_id, cast(get_json_object(body_json, '$.id') as int) as id from messages"
[[table]]
format = "parquet"
path = "archive"
sql = "select message_id, queue, arrived_time, raw from messages"
[[table]]
format = "parquet"
path = "messages"
sql = "select * except (raw) from messages"
[quarantine]
format = "parquet"
path = "bad"
when = "get_json_object(body_json, '$.id') < 0"
"""


class Shop:
    def __init__(self, folder: Path, daemon: Served, spark: SparkSession, queues: tuple[str, str]) -> None:
        self.folder, self.daemon, self.spark = folder, daemon, spark
        self.queue, self.other = queues
        consumer = self.queue.rpartition("\\")[2]
        self.text = TEXT.format(url=daemon.url, queue=self.queue, consumer=consumer)

    @property
    def pipeline(self) -> Pipeline:
        return parse(self.text, self.folder)

    def table(self, name: str) -> Table:
        kind = "delta" if name == "orders" else "parquet"
        return open_table(TableOptions(format=kind, place=str(self.folder / name)))

    def ids(self) -> dict[int, str]:
        rows = self.table("orders").read(self.spark).collect()
        found = {row.id: row.message_id for row in rows}
        assert len(found) == len(rows), "a message is there twice"
        return found

    def lose(self, *ids: int) -> None:
        """As if the table had never had them."""
        known = self.ids()
        assert self.table("orders").remove([known[each] for each in ids]) == len(ids)

    def replay(self, source: str, **more: object) -> Replayed:
        place = {"archive": "archive", "table": "messages"}.get(source)
        options = self.table(place).options if place else None
        return replay(self.pipeline, self.spark, Selection(source=source, table=options, **more))  # type: ignore[arg-type]

    def new_orders(self, done: Replayed) -> int:
        counts = dict(done.rows)
        orders = counts.pop(f"delta:{self.folder}/orders")
        assert set(counts.values()) == {0}
        assert done.quarantined == 0
        return orders


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, daemon: Served, spark: SparkSession) -> Shop:
    """After a run of ten good messages and a bad one; the tests go on from each other."""
    queues = daemon.make_queue("replayed", journaling=True), daemon.make_queue("again", transactional=True)
    made = Shop(tmp_path_factory.mktemp("replay"), daemon, spark, queues)
    daemon.send(made.queue, *[json.dumps({"id": each}) for each in (*range(10), -1)])
    run(made.pipeline, spark, lambda _query, _summary: None)
    return made


def test_a_replay_adds_what_is_missing_and_nothing_else(shop: Shop) -> None:
    first = shop.ids()
    assert sorted(first) == list(range(10))
    shop.lose(2, 5, 7)
    done = shop.replay("journal")
    assert done.messages == 11
    assert shop.new_orders(done) == 3
    assert shop.ids() == first
    assert shop.new_orders(shop.replay("journal")) == 0

    shop.lose(2, 5)
    assert shop.new_orders(shop.replay("archive", match="get_json_object(body_json, '$.id') in (5, 6)")) == 1
    assert shop.replay("table", until=datetime(2020, 1, 1, tzinfo=UTC)).messages == 0
    assert shop.new_orders(shop.replay("table", since=datetime(2020, 1, 1, tzinfo=UTC))) == 1
    assert shop.ids() == first


def test_to_a_queue_once(shop: Shop) -> None:
    chosen = Selection(
        source="archive",
        table=shop.table("archive").options,
        match="cast(get_json_object(body_json, '$.id') as int) in (3, 4)",
    )
    assert resend(shop.pipeline, shop.spark, chosen, shop.other) == 2
    resend(shop.pipeline, shop.spark, chosen, shop.other)
    assert shop.daemon.count(shop.other) == 2
    resend(shop.pipeline, shop.spark, chosen, shop.other, "once-more")
    assert sorted(shop.daemon.receive(shop.other, 4)) == ['{"id": 3}', '{"id": 3}', '{"id": 4}', '{"id": 4}']


def test_whole_messages_from_an_archive(shop: Shop, tmp_path: Path) -> None:
    """Every property that a sender sets, those too that no column of the writer has."""
    from_, to = shop.daemon.make_queue("kept"), shop.daemon.make_queue("sent-again")
    shop.daemon.send(
        from_,
        "one",
        message_class=0x7001,
        tracing=True,
        time_to_be_received=77,
    )
    columns = [
        each
        for each in names()
        if each
        not in {"queue", "lookup_id", "claim_seq", "arrived_time", "sent_time", "message_id", "dest_queue"}
    ]

    def messages(queue: str) -> DataFrame:
        options = {"url": shop.daemon.url, "queue": queue, "includeRaw": "true"}
        return shop.spark.read.format("msmq").options(**options).load()

    archive = TableOptions(format="parquet", place=str(tmp_path / "archive"))
    open_table(archive).write(messages(from_).select("raw", "arrived_time"), {"a": 0})
    chosen = Selection(source="archive", table=archive)
    plain = parse(shop.text.replace("raw = true", ""), shop.folder)
    assert resend(plain, shop.spark, chosen, to) == 1
    (old,), (new,) = (messages(each).select(*columns).collect() for each in (from_, to))
    assert old == new
    assert (new["class"], new.ttbr, new.trace) == (0x7001, 77, 1)


def test_what_cannot_be_replayed(shop: Shop) -> None:
    with pytest.raises(ConfigError, match="--table is required"):
        replay(shop.pipeline, shop.spark, Selection(source="archive"))
    orders = shop.table("orders").options
    with pytest.raises(PipelineError, match="has no column raw"):
        replay(shop.pipeline, shop.spark, Selection(source="archive", table=orders))
    with pytest.raises(PipelineError, match="not a table of messages: it has no column arrived_time"):
        replay(shop.pipeline, shop.spark, Selection(source="table", table=orders))
    with pytest.raises(ConfigError, match=r"--match = 'nothing = 1'.*nothing"):
        shop.replay("journal", match="nothing = 1")
    with only_one(shop.pipeline.state), pytest.raises(PipelineError, match="already running"):
        shop.replay("journal")
    narrow = parse(shop.text.replace("raw = true", 'columns = ["label"]'), shop.folder)
    with pytest.raises(ConfigError, match=r"\[source\] columns: add message_id"):
        replay(narrow, shop.spark, Selection(source="journal"))
    unkeyed = parse(shop.text.replace("select message_id, cast", "select cast"), shop.folder)
    with pytest.raises(ConfigError, match="cannot tell which messages it has; add message_id"):
        replay(unkeyed, shop.spark, Selection(source="journal"))


def test_what_was_set_apart(shop: Shop) -> None:
    row = next(listed(shop.pipeline, shop.spark))
    assert row.queue.endswith(shop.queue[1:])
    assert row.why == "matched the rule get_json_object(body_json, '$.id') < 0"
    assert retry(shop.pipeline, shop.spark).left == 1
    shop.text = shop.text.replace("< 0", "< -5")
    done = retry(shop.pipeline, shop.spark)
    assert (done.left, done.landed.messages) == (0, 1)
    assert sorted(shop.ids()) == list(range(-1, 10))
    assert list(listed(shop.pipeline, shop.spark)) == []


def test_what_is_dropped(shop: Shop) -> None:
    shop.daemon.send(shop.queue, '{"id": -7}', '{"id": -8}')
    run(shop.pipeline, shop.spark, lambda _query, _summary: None)
    assert drop(shop.pipeline, shop.spark, "get_json_object(body_json, '$.id') = -7") == 1
    assert len(list(listed(shop.pipeline, shop.spark))) == 1
