"""Batch reads: what is in a queue, without taking it."""

from datetime import UTC, datetime, timedelta

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark.served import Served
from spark.support import MakeQueue, Read, Send, bodies
from tiercel import columns


def test_every_message_once_and_in_order(reader: Read, queue: str, send: Send, daemon: Served) -> None:
    sent = send(10)
    frame = reader(queue=queue).load()
    assert bodies(frame) == sent
    assert frame.columns == list(columns.names())
    assert daemon.bodies(queue) == sent


def test_values(reader: Read, queue: str, daemon: Served) -> None:
    daemon.send(queue, "hello", label="grüße", priority=5)
    row = reader(queue=queue).load().first()
    assert row is not None
    assert (row.label, row.priority, row.body_size) == ("grüße", 5, 5)
    assert row.queue == rf"SRV\private${queue.rpartition('$')[2]}"
    assert row.claim_seq is None
    assert abs(row.arrived_time.replace(tzinfo=UTC) - datetime.now(UTC)) < timedelta(minutes=10)


def test_an_empty_queue(reader: Read, queue: str) -> None:
    assert reader(queue=queue).load().count() == 0


@pytest.mark.parametrize("options", [{"minPartitions": 3}, {"maxMessagesPerPartition": 4}])
def test_partitions(reader: Read, queue: str, send: Send, options: dict[str, int]) -> None:
    sent = send(10)
    frame = reader(queue=queue, **options).schema("body binary").load()
    assert frame.rdd.getNumPartitions() == 3
    assert bodies(frame) == sent


def test_columns_of_ones_own_choice(reader: Read, queue: str, send: Send) -> None:
    send(1)
    frame = reader(queue=queue).schema("label string, body_size long").load()
    assert [tuple(row) for row in frame.collect()] == [("m1", 2)]


def test_columns_on_demand(reader: Read, queue: str, send: Send) -> None:
    send(1)
    frame = reader(queue=queue, includeBody="false", includeRaw="true", badMessageMode="column").load()
    assert set(frame.columns) == {*columns.names(), "raw", "decode_error"} - {"body"}
    row = frame.first()
    assert row is not None
    assert bytes(row.raw).endswith(b"m1")
    assert row.decode_error is None


@pytest.mark.parametrize(
    ("schema", "words"),
    [("lable string", "did you mean label"), ("label binary", "label is string, not binary")],
)
def test_columns_that_do_not_exist(reader: Read, queue: str, schema: str, words: str) -> None:
    with pytest.raises(PySparkException, match=words):
        reader(queue=queue).schema(schema).load().count()


class TestWhichMessages:
    def test_several_queues(self, reader: Read, make_queue: MakeQueue, daemon: Served) -> None:
        one, other = make_queue(), make_queue()
        daemon.send(one, "a", "b")
        daemon.send(other, "c")
        assert sorted(bodies(reader(queue=f"{one}, {other}").load())) == ["a", "b", "c"]

    def test_a_pattern(self, reader: Read, daemon: Served) -> None:
        daemon.make_queue("pattern1")
        daemon.make_queue("pattern2")
        daemon.send("pattern1", "a")
        daemon.send("pattern2", "b")
        frame = reader(queuePattern=r"private$\pattern?").load()
        assert sorted(bodies(frame)) == ["a", "b"]

    def test_labels(self, reader: Read, queue: str, send: Send) -> None:
        send(12)
        assert bodies(reader(queue=queue, labelLike="m1%").load()) == ["m1", "m10", "m11", "m12"]

    def test_classes(self, reader: Read, queue: str, send: Send) -> None:
        sent = send(2)
        assert bodies(reader(queue=queue, **{"class": "NORMAL"}).load()) == sent
        assert bodies(reader(queue=queue, **{"class": "ACK_RECEIVE"}).load()) == []

    def test_times_of_sending(self, reader: Read, queue: str, send: Send) -> None:
        sent = send(2)
        assert bodies(reader(queue=queue, sentAfter="2020-01-01").load()) == sent
        assert bodies(reader(queue=queue, sentBefore="2020-01-01").load()) == []

    def test_positions(self, reader: Read, queue: str, send: Send) -> None:
        sent = send(6)
        ids = [row.lookup_id for row in reader(queue=queue).load().collect()]
        chosen = reader(queue=queue, startingPosition=ids[1], endingPosition=ids[3])
        assert bodies(chosen.load()) == sent[1:4]
        assert bodies(reader(queue=queue, startingPosition="latest").load()) == []
        assert bodies(reader(queue=queue, startingPosition="2020-01-01T00:00:00Z").load()) == sent
        assert bodies(reader(queue=queue, endingPosition="2020-01-01T00:00:00Z").load()) == []

    def test_express_ones_too(self, reader: Read, queue: str, send: Send) -> None:
        sent = send(2)
        sent += send(2, delivery=0)
        assert sorted(bodies(reader(queue=queue).load())) == sent

    def test_priorities(self, reader: Read, queue: str, daemon: Served) -> None:
        daemon.send(queue, "low", priority=1)
        daemon.send(queue, "high", priority=7)
        assert bodies(reader(queue=queue).load()) == ["high", "low"]


class TestOtherTables:
    def test_the_journal(self, reader: Read, make_queue: MakeQueue, daemon: Served) -> None:
        queue = make_queue(journaling=True)
        daemon.send(queue, "a", "b")
        daemon.receive(queue)
        assert bodies(reader(queue=queue, **{"from": "journal"}).load()) == ["a"]

    def test_dead_letters_and_discards(self, reader: Read, queue: str, daemon: Served) -> None:
        daemon.send(queue, "unread", time_to_be_received=1, negative_journaling=True)
        daemon.send(queue, "gone", time_to_be_received=1)
        daemon.wait_until_empty(queue)
        dead = reader(**{"from": "deadletter"}).load().where("body_size = 6")
        assert bodies(dead) == ["unread"]
        lines = reader(**{"from": "discards"}).load().where("label = 'gone'").collect()
        assert [line.queue for line in lines] == [rf"queue SRV\private${queue.rpartition('$')[2]}"]
        assert "time" in lines[0].reason

    def test_outgoing_messages(self, reader: Read, daemon: Served) -> None:
        far = r"DIRECT=TCP:127.0.0.9\private$\far"
        daemon.send(far, "waits")
        assert bodies(reader(queue=far, **{"from": "outgoing"}).load()) == ["waits"]

    def test_transactional_dead_letters(self, reader: Read) -> None:
        assert reader(**{"from": "xactdeadletter"}).load().count() == 0


class TestADataFrameThatIsKept:
    """Spark plans a read once; what comes later is not in it, and what goes is told."""

    def test_new_messages_are_not_seen(self, reader: Read, queue: str, send: Send) -> None:
        send(3)
        frame = reader(queue=queue).load()
        assert frame.count() == 3
        send(2)
        assert frame.count() == 3
        assert reader(queue=queue).load().count() == 5

    def test_messages_that_were_received_are_missed(
        self, reader: Read, queue: str, send: Send, daemon: Served
    ) -> None:
        send(3)
        frame = reader(queue=queue).load()
        assert frame.count() == 3
        daemon.receive(queue)
        with pytest.raises(
            PySparkException, match=r"3 were present when .* 2 are left.*failOnDataLoss=false"
        ):
            frame.count()

    def test_unless_that_may_be(self, reader: Read, queue: str, send: Send, daemon: Served) -> None:
        send(3)
        frame = reader(queue=queue, failOnDataLoss="false").load()
        assert frame.count() == 3
        daemon.receive(queue)
        assert frame.count() == 2


class TestSql:
    def test_a_temporary_view(self, spark: SparkSession, url: str, queue: str, send: Send) -> None:
        send(2)
        options = f"url '{url}', queue '{queue}'".replace("\\", "\\\\")
        spark.sql(f"CREATE TEMPORARY VIEW seen USING msmq OPTIONS ({options})")
        try:
            assert [row.label for row in spark.sql("SELECT label FROM seen").collect()] == ["m1", "m2"]
        finally:
            spark.catalog.dropTempView("seen")

    def test_a_table_has_no_options_and_says_so(
        self, spark: SparkSession, url: str, queue: str, send: Send
    ) -> None:
        """The trap of CREATE TABLE, and the way around it."""
        send(2)
        options = f"url = '{url}', queue = '{queue}'".replace("\\", "\\\\")
        spark.sql(f"CREATE TABLE kept USING msmq OPTIONS ({options})")
        try:
            with pytest.raises(PySparkException, match="does not pass on the"):
                spark.sql("SELECT * FROM kept").count()
            frame = spark.sql(f"SELECT label FROM kept WITH ({options})")  # noqa: S608  # ours
            assert [row.label for row in frame.collect()] == ["m1", "m2"]
        finally:
            spark.sql("DROP TABLE kept")
