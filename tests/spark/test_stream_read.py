"""Streams that take messages out of queues."""

import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

from pyspark_msmq import schema
from pyspark_msmq.consumer import Consumer, FencedError
from pyspark_msmq.managers import Managers
from pyspark_msmq.offsets import Offset, OffsetError, Offsets
from pyspark_msmq.options import read_stream_options
from pyspark_msmq.stream_reader import ConsumeReader
from spark.served import Served
from spark.support import MakeQueue, Send, Stream, Table, bodies, end, forget_commit, progress, wait_until


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path)


@pytest.fixture
def consuming(url: str, queue: str) -> Iterator[Callable[..., ConsumeReader]]:
    """A reader as Spark has it, by the name of its consumer; it never hears of its end, so its socket is
    closed here.
    """
    made: list[ConsumeReader] = []

    def make(consumer: str, **more: str) -> ConsumeReader:
        options = read_stream_options({"url": url, "queue": queue, "consumer": consumer, **more})
        made.append(ConsumeReader(options, schema.of_messages(["claim_seq"])))
        return made[-1]

    yield make
    for each in made:
        if each._managers is not None:
            each._managers.close()


def settle(reader: ConsumeReader) -> None:
    """Until what goes on between two batches is done."""
    assert reader._managers is not None
    reader._managers.join()


def sizes(query: Any) -> list[int]:
    return [batch["numInputRows"] for batch in progress(query)]


class TestAvailableNow:
    def test_it_leaves_the_queue_empty(
        self, spark: SparkSession, stream: Stream, table: Table, queue: str, send: Send, daemon: Served
    ) -> None:
        sent = send(10)
        frame = stream(queue=queue, consumer="all").load()
        table.take_all(frame)
        assert table.bodies(spark) == sent
        assert daemon.count(queue) == 0
        assert daemon.claims("all") == []
        assert sizes(table.take_all(frame)) == []

    def test_it_goes_on_where_it_was(
        self, spark: SparkSession, stream: Stream, table: Table, queue: str, send: Send
    ) -> None:
        frame = stream(queue=queue, consumer="goes.on").load()
        sent = send(3)
        table.take_all(frame)
        sent += send(4)
        table.take_all(frame)
        assert table.bodies(spark) == sent

    def test_several_queues_and_partitions(
        self, spark: SparkSession, stream: Stream, table: Table, make_queue: MakeQueue, daemon: Served
    ) -> None:
        one, other = make_queue(), make_queue()
        daemon.send(one, *"abcdefg")
        daemon.send(other, *"hij")
        options = {"maxMessagesPerTrigger": 4, "minPartitions": 2}
        query = table.take_all(stream(queue=f"{one},{other}", consumer="both", **options).load())
        assert table.bodies(spark) == list("abcdefghij")
        assert max(sizes(query)) <= 4
        assert sum(sizes(query)) == 10

    def test_a_journal(
        self, spark: SparkSession, stream: Stream, table: Table, make_queue: MakeQueue, daemon: Served
    ) -> None:
        queue = make_queue(journaling=True)
        daemon.send(queue, "a", "b", "c")
        daemon.receive(queue, 2)
        table.take_all(stream(queue=queue, consumer="auditor", **{"from": "journal"}).load())
        assert table.bodies(spark) == ["a", "b"]
        assert daemon.bodies(queue) == ["c"]
        assert daemon.bodies(f"{queue};journal") == []

    def test_dead_letters(
        self, spark: SparkSession, stream: Stream, table: Table, queue: str, daemon: Served
    ) -> None:
        daemon.send(queue, "dead", time_to_be_received=1, negative_journaling=True)
        daemon.wait_until_empty(queue)
        table.take_all(stream(consumer="undertaker", **{"from": "deadletter"}).load())
        assert "dead" in table.bodies(spark)


class TestLimits:
    def test_messages(self, stream: Stream, table: Table, queue: str, send: Send) -> None:
        send(10)
        query = table.take_all(stream(queue=queue, consumer="rows", maxMessagesPerTrigger=4).load())
        assert sizes(query) == [4, 4, 2]

    def test_bytes(self, stream: Stream, table: Table, queue: str, daemon: Served) -> None:
        daemon.fill(queue, 10, size=10_000)
        query = table.take_all(stream(queue=queue, consumer="bytes", maxBytesPerTrigger="30k").load())
        assert sum(sizes(query)) == 10
        assert max(sizes(query)) <= 3

    @pytest.mark.parametrize(("limit", "tasks"), [("1g", 1), ("64m", 2)])
    def test_strict_order_above_64_mb(
        self, stream: Stream, queue: str, daemon: Served, tmp_path: Path, limit: str, tasks: int
    ) -> None:
        """One task reads the batch in the order of the queue, if its limits allow that."""
        daemon.fill(queue, 70, size=1 << 20)
        found: list[list[int]] = []

        def note(batch: DataFrame, _: int) -> None:
            parts = batch.rdd.mapPartitions(lambda rows: [[row.claim_seq for row in rows]])
            found.extend(parts.collect())

        frame = stream(queue=queue, consumer=f"order{tasks}", minPartitions=1, maxBytesPerPartition=limit)
        writer = frame.schema("claim_seq long, body binary").load().writeStream.foreachBatch(note)
        writer = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
        end(writer.start())
        assert len(found) == tasks
        assert [number for part in found for number in part] == list(range(1, 71))

    def test_a_whole_transaction_goes_beyond(
        self, stream: Stream, table: Table, make_queue: MakeQueue, daemon: Served
    ) -> None:
        queue = make_queue(transactional=True)
        daemon.send(queue, *"abcde", transaction=True)
        daemon.send(queue, *"fg", transaction=True)
        query = table.take_all(stream(queue=queue, consumer="whole", maxMessagesPerTrigger=2).load())
        assert sizes(query) == [5, 2]

    def test_few_messages_wait_for_company(
        self, spark: SparkSession, stream: Stream, table: Table, queue: str, send: Send
    ) -> None:
        options = {"minMessagesPerTrigger": 5, "maxTriggerDelay": "1h", "pollTimeoutMs": 100}
        query = table.writer(stream(queue=queue, consumer="company", **options).load()).start()
        try:
            sent = send(3)
            wait_until(lambda: len(query.recentProgress) > 0 or query.status["isTriggerActive"], query)
            sent += send(2)
            wait_until(lambda: bool(sizes(query)), query)
        finally:
            query.stop()
        assert sizes(query) == [5]
        assert table.bodies(spark) == sent

    def test_but_not_for_ever(self, stream: Stream, table: Table, queue: str, send: Send) -> None:
        send(3)
        options = {"minMessagesPerTrigger": 5, "maxTriggerDelay": "100ms"}
        query = table.writer(stream(queue=queue, consumer="alone", **options).load()).start()
        try:
            wait_until(lambda: sizes(query) == [3], query)
        finally:
            query.stop()


class TestWhileItRuns:
    def test_a_message_that_comes_later(
        self, spark: SparkSession, stream: Stream, table: Table, queue: str, send: Send, daemon: Served
    ) -> None:
        """And the last batch does not stay in the queue manager until the next one comes."""
        query = table.writer(stream(queue=queue, consumer="later").load()).start()
        try:
            sent = send(2)
            wait_until(lambda: sizes(query) != [], query)
            sent += send(1)
            wait_until(lambda: sum(sizes(query)) == 3, query)
            wait_until(lambda: daemon.claims("later") == [], query)
        finally:
            query.stop()
        assert table.bodies(spark) == sent

    def test_a_pattern_finds_new_queues(
        self, spark: SparkSession, stream: Stream, table: Table, daemon: Served
    ) -> None:
        daemon.make_queue("found.1")
        daemon.send("found.1", "a")
        frame = stream(queuePattern=r"private$\found.*", consumer="finder").load()
        query = table.writer(frame).start()
        try:
            wait_until(lambda: sum(sizes(query)) == 1, query)
            daemon.make_queue("found.2")
            daemon.send("found.2", "b")
            wait_until(lambda: sum(sizes(query)) == 2, query)
        finally:
            query.stop()
        assert table.bodies(spark) == ["a", "b"]

    def test_the_lag_is_in_the_progress(self, stream: Stream, table: Table, queue: str, send: Send) -> None:
        send(10)
        query = table.take_all(stream(queue=queue, consumer="lag", maxMessagesPerTrigger=4).load())
        lags = []
        for batch in progress(query):
            source = batch["sources"][0]
            (reached,), (latest,) = source["endOffset"]["q"].values(), source["latestOffset"]["q"].values()
            lags.append(latest["hi"] - reached["hi"])
        assert lags == [6, 2, 0]

    def test_messages_are_hidden_from_others_until_then(
        self, stream: Stream, queue: str, send: Send, daemon: Served, tmp_path: Path
    ) -> None:
        send(3)
        seen: list[list[str]] = []
        frame = stream(queue=queue, consumer="hider").load()
        writer = frame.writeStream.foreachBatch(lambda _, __: seen.append(daemon.bodies(queue)))
        end(writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start())
        assert seen == [[]]

    def test_a_batch_that_is_used_twice(self, stream: Stream, queue: str, send: Send, tmp_path: Path) -> None:
        sent, seen = send(3), []
        frame = stream(queue=queue, consumer="twice").load()
        writer = frame.writeStream.foreachBatch(lambda batch, _: seen.extend([bodies(batch), bodies(batch)]))
        end(writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start())
        assert seen == [sent, sent]


class TestAcknowledgements:
    def test_at_commit(self, stream: Stream, table: Table, queue: str, send: Send, daemon: Served) -> None:
        """Spark commits a batch when the next one has data: so the last one stays until then."""
        send(5)
        options = {"ackTiming": "commit", "maxMessagesPerTrigger": 2}
        frame = stream(queue=queue, consumer="late", **options).load()
        table.take_all(frame)
        assert [claim["count"] for claim in daemon.claims("late")] == [1]
        send(1)
        table.take_all(frame)
        assert [claim["count"] for claim in daemon.claims("late")] == [1]

    @pytest.mark.parametrize("timing", ["eager", "commit"])
    def test_a_batch_is_repeated_from_its_claim(
        self,
        spark: SparkSession,
        stream: Stream,
        table: Table,
        queue: str,
        send: Send,
        daemon: Served,
        timing: str,
    ) -> None:
        """Spark forgets that it has finished a batch: the file sink writes it once all the same."""
        sent = send(4)
        frame = stream(queue=queue, consumer=f"again.{timing}", ackTiming="commit").load()
        table.take_all(frame)
        forget_commit(table.checkpoint)
        sent += send(2)
        table.take_all(stream(queue=queue, consumer=f"again.{timing}", ackTiming=timing).load())
        assert table.bodies(spark) == sent
        assert daemon.count(queue) == 0

    def test_what_a_crash_left_claimed_comes_first(
        self, spark: SparkSession, stream: Stream, table: Table, queue: str, send: Send, daemon: Served
    ) -> None:
        """A driver that dies between its first claim and Spark's log leaves claims in no checkpoint.

        Only an operator knows that no other query is reading them.
        """
        sent = send(3)
        daemon.claim("orphan", queue, 2)
        assert daemon.bodies(queue) == sent[2:]
        options = {"maxMessagesPerTrigger": 1, "resumeConsumer": "true"}
        frame = stream(queue=queue, consumer="orphan", **options).load()
        assert sizes(table.take_all(frame)) == [2, 1]
        assert table.bodies(spark) == sent


class TestAhead:
    """The next batch is claimed while Spark is at this one."""

    @staticmethod
    def held(daemon: Served, consumer: str) -> list[int]:
        return [claim["count"] for claim in daemon.claims(consumer)]

    def test_a_full_batch_has_the_next_one_claimed(
        self, consuming: Callable[[str], ConsumeReader], send: Send, daemon: Served
    ) -> None:
        reader, limit = consuming("ahead"), ReadMaxRows(2)
        send(5)
        first = reader.latestOffset(reader.initialOffset(), limit)
        settle(reader)
        assert self.held(daemon, "ahead") == [4]
        second = reader.latestOffset(first, limit)
        settle(reader)
        assert self.held(daemon, "ahead") == [3]  # two are acknowledged, and the last one is claimed
        third = reader.latestOffset(second, limit)
        assert [_last(each) for each in (first, second, third)] == [2, 4, 5]
        assert reader.latestOffset(third, limit) == third
        assert self.held(daemon, "ahead") == []

    def test_a_batch_that_was_claimed_ahead_does_not_wait_for_a_rest(
        self, consuming: Callable[..., ConsumeReader], daemon: Served, queue: str
    ) -> None:
        """Two messages leave some bytes of the limit; after a rest, nothing would be claimed ahead."""
        reader, limit = consuming("no-rest", maxBytesPerTrigger="3k"), ReadMaxBytes(3 << 10)
        daemon.send(queue, *["x" * 1000] * 8)
        end = reader.initialOffset()
        for batch in range(3):
            end = reader.latestOffset(end, limit)
            settle(reader)
            assert _last(end) == 2 * (batch + 1)
            assert self.held(daemon, "no-rest") == [4]

    def test_a_run_that_ends_waits_for_what_is_being_claimed(
        self, consuming: Callable[..., ConsumeReader], send: Send, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Spark ends a run with availableNow when a batch has no messages."""
        reader, limit, is_asked = consuming("slow"), ReadMaxRows(2), threading.Event()
        claim, meet = Consumer.claim, Managers._meet

        def slow_claim(*arguments: Any) -> Offset:
            assert is_asked.wait(60)  # until Spark asks for a batch
            return claim(*arguments)

        def asked(managers: Managers, checkpoint: Offsets) -> None:
            meet(managers, checkpoint)
            is_asked.set()

        monkeypatch.setattr(Consumer, "claim", slow_claim)
        monkeypatch.setattr(Managers, "_meet", asked)
        send(5)
        reader.prepareForTriggerAvailableNow()
        ends = [reader.initialOffset()]
        while len(ends) < 2 or ends[-1] != ends[-2]:
            ends.append(reader.latestOffset(ends[-1], limit))
            is_asked.clear()
        assert [_last(each) for each in ends[1:]] == [2, 4, 5, 5]

    def test_one_that_is_not_full_has_nothing_claimed(
        self, consuming: Callable[[str], ConsumeReader], send: Send, daemon: Served
    ) -> None:
        reader, limit = consuming("not-full"), ReadMaxRows(3)
        send(2)
        reader.latestOffset(reader.initialOffset(), limit)
        send(2)
        settle(reader)
        assert self.held(daemon, "not-full") == [2]

    def test_the_next_run_begins_with_it(
        self, consuming: Callable[[str], ConsumeReader], send: Send, daemon: Served
    ) -> None:
        """The driver ends when the next batch is claimed, and in no log of Spark."""
        old, new, limit = consuming("reborn"), consuming("reborn"), ReadMaxRows(2)
        send(5)
        first = old.latestOffset(old.initialOffset(), limit)
        settle(old)
        assert _last(new.latestOffset(first, limit)) == 4
        settle(new)
        assert self.held(daemon, "reborn") == [3]

    def test_a_failure_is_told_by_who_needs_it(
        self, consuming: Callable[[str], ConsumeReader], send: Send, daemon: Served
    ) -> None:
        reader, limit = consuming("fails"), ReadMaxRows(2)
        send(5)
        first = reader.latestOffset(reader.initialOffset(), limit)
        settle(reader)
        daemon.release("fails")  # as an operator does, who so fences the consumer
        with pytest.raises(FencedError):
            reader.latestOffset(reader.latestOffset(first, limit), limit)


def _last(offset: dict[str, Any]) -> int:
    (queue,) = offset["q"].values()
    last: int = queue["hi"]
    return last


class TestTwo:
    def test_consumers_share_a_queue(
        self, spark: SparkSession, stream: Stream, queue: str, send: Send, daemon: Served, tmp_path: Path
    ) -> None:
        """Each message is one's; and both have some, if messages come for long enough."""
        tables = [Table(tmp_path / name) for name in ("left", "right")]
        queries = []
        for name, table in zip(("left", "right"), tables, strict=True):
            frame = stream(queue=queue, consumer=name, maxMessagesPerTrigger=20).load()
            queries.append(table.writer(frame).start())
        sent = send(300)
        try:
            while not all(map(progress, queries)):
                wait_until(lambda: daemon.count(queue) < 20)
                sent += send(20)
            wait_until(
                lambda: daemon.count(queue) == 0 and not daemon.claims("left") + daemon.claims("right")
            )
        finally:
            for query in queries:
                query.stop()
        found = [table.bodies(spark) for table in tables]
        assert all(found)
        assert sorted(body for each in found for body in each) == sorted(sent)

    def test_drivers_of_one_consumer_and_the_old_one_is_fenced(
        self, stream: Stream, queue: str, send: Send, tmp_path: Path
    ) -> None:
        old, new = Table(tmp_path / "old"), Table(tmp_path / "new")
        frame = stream(queue=queue, consumer="fenced", resumeConsumer="true").load()
        first = old.writer(frame).start()
        send(1)
        wait_until(lambda: sizes(first) == [1], first)
        new.take_all(frame)
        with pytest.raises(PySparkException, match="another driver has taken over consumer fenced"):
            end(first)


class TestAMistakenSecondQuery:
    """It is refused by its checkpoint, and the running one goes on."""

    @staticmethod
    def goes_on(reader: ConsumeReader, offset: dict[str, Any]) -> bool:
        """Through the batch that it has claimed ahead, and the one after it."""
        limit = ReadMaxRows(2)
        end = reader.latestOffset(reader.latestOffset(offset, limit), limit)
        return _last(end) == _last(offset) + 4

    @pytest.mark.parametrize("available_now", [True, False])
    @pytest.mark.parametrize("acknowledged", [True, False])
    def test_with_a_new_checkpoint(
        self, consuming: Callable[..., ConsumeReader], send: Send, available_now: bool, acknowledged: bool
    ) -> None:
        name, limit = f"prod.{available_now}.{acknowledged}", ReadMaxRows(2)
        running, mistaken = consuming(name), consuming(name)
        send(8)
        offset = running.latestOffset(running.initialOffset(), limit)
        if acknowledged:
            settle(running)
            running.commit(offset)
        if available_now:
            mistaken.prepareForTriggerAvailableNow()
        with pytest.raises(OffsetError, match=r"has (read|claimed) \d messages already.*resumeConsumer=true"):
            mistaken.latestOffset(mistaken.initialOffset(), limit)
        assert self.goes_on(running, offset)

    def test_with_the_checkpoint_of_another_consumer(
        self, consuming: Callable[..., ConsumeReader], send: Send
    ) -> None:
        running, mistaken, limit = consuming("mine"), consuming("mine"), ReadMaxRows(2)
        send(8)
        offset = running.latestOffset(running.initialOffset(), limit)
        with pytest.raises(OffsetError, match="the checkpoint is for consumer wrong"):
            mistaken.latestOffset({**offset, "c": "wrong"}, limit)
        assert self.goes_on(running, offset)

    def test_with_an_old_copy_of_the_checkpoint(
        self, consuming: Callable[..., ConsumeReader], send: Send
    ) -> None:
        running, mistaken, limit = consuming("copied"), consuming("copied"), ReadMaxRows(2)
        send(10)
        first = running.latestOffset(running.initialOffset(), limit)
        second = running.latestOffset(first, limit)
        third = running.latestOffset(second, limit)
        settle(running)
        running.commit(second)
        with pytest.raises(RuntimeError, match="restored from an older copy"):
            mistaken.latestOffset(first, limit)
        assert self.goes_on(running, third)

    def test_what_was_claimed_ahead_is_not_handed_out_after_a_takeover(
        self, consuming: Callable[..., ConsumeReader], send: Send
    ) -> None:
        old, new, limit = consuming("replaced"), consuming("replaced"), ReadMaxRows(2)
        send(5)
        offset = old.latestOffset(old.initialOffset(), limit)
        settle(old)
        new.latestOffset(offset, limit)
        with pytest.raises(FencedError, match="another driver has taken over consumer replaced"):
            old.latestOffset(offset, limit)

    def test_another_source_with_the_same_consumer_is_refused(
        self, consuming: Callable[..., ConsumeReader], make_queue: MakeQueue, send: Send
    ) -> None:
        limit = ReadMaxRows(2)
        one, other = consuming("shared"), consuming("shared", queue=make_queue())
        send(5)
        offset = one.latestOffset(one.initialOffset(), limit)
        with pytest.raises(OffsetError, match=r"has claimed messages of .*a consumer of its own for each"):
            other.latestOffset(other.initialOffset(), limit)
        assert _last(one.latestOffset(offset, limit)) == 4

    def test_two_sources_that_have_claimed_nothing_yet(
        self, consuming: Callable[..., ConsumeReader], make_queue: MakeQueue
    ) -> None:
        quick = {"pollTimeoutMs": "1"}
        one, other = consuming("both.new", **quick), consuming("both.new", queue=make_queue(), **quick)
        for each in (one, other):
            each.latestOffset(each.initialOffset(), ReadMaxRows(2))
        with pytest.raises(FencedError, match=r"attached since for other queues.*a consumer of its own"):
            one.latestOffset(one.initialOffset(), ReadMaxRows(2))


class TestLosses:
    def test_a_purge_in_mid_stream(
        self, stream: Stream, table: Table, queue: str, send: Send, daemon: Served
    ) -> None:
        frame = stream(queue=queue, consumer="purged").load()
        send(2)
        table.take_all(frame)
        send(3)
        daemon.purge(queue)
        send(1)
        with pytest.raises(PySparkException, match=r"was purged.*failOnDataLoss=false"):
            table.take_all(frame)

    def test_a_purge_that_may_be(
        self, spark: SparkSession, stream: Stream, table: Table, queue: str, send: Send, daemon: Served
    ) -> None:
        frame = stream(queue=queue, consumer="purged.too", failOnDataLoss="false").load()
        sent = send(2)
        table.take_all(frame)
        send(3)
        daemon.purge(queue)
        sent += send(1)
        table.take_all(frame)
        assert table.bodies(spark) == sent
        sent += send(1)
        table.take_all(stream(queue=queue, consumer="purged.too").load())
        assert table.bodies(spark) == sent

    def test_a_queue_that_was_made_anew(
        self, spark: SparkSession, stream: Stream, table: Table, daemon: Served
    ) -> None:
        daemon.make_queue("anew")
        daemon.send("anew", "old")
        table.take_all(stream(queue=r".\private$\anew", consumer="anew").load())
        daemon.delete_queue("anew")
        daemon.make_queue("anew")
        daemon.send("anew", "new")
        with pytest.raises(PySparkException, match="of the checkpoint is gone"):
            table.take_all(stream(queue=r".\private$\anew", consumer="anew").load())
        table.take_all(stream(queue=r".\private$\anew", consumer="anew", failOnDataLoss="false").load())
        assert sorted(table.bodies(spark)) == ["new", "old"]

    def test_claims_that_an_operator_released(
        self, stream: Stream, queue: str, send: Send, daemon: Served, tmp_path: Path
    ) -> None:
        """A batch that must be repeated, whose messages have gone back into the queue."""

        def fail(batch: DataFrame, _: int) -> None:
            raise RuntimeError(f"with {batch.count()} messages")

        sent = send(2)
        frame = stream(queue=queue, consumer="released").load()
        writer = frame.writeStream.foreachBatch(fail).option("checkpointLocation", str(tmp_path))
        with pytest.raises(PySparkException, match="with 2 messages"):
            end(writer.trigger(availableNow=True).start())
        daemon.release("released")
        assert daemon.bodies(queue) == sent
        with pytest.raises(PySparkException, match="released by an operator"):
            end(writer.trigger(availableNow=True).start())


class TestALostCheckpoint:
    def test_it_is_noticed(self, stream: Stream, queue: str, send: Send, tmp_path: Path) -> None:
        send(2)
        frame = stream(queue=queue, consumer="lost").load()
        Table(tmp_path / "first").take_all(frame)
        send(1)
        with pytest.raises(PySparkException, match=r"has read 2 messages already.*resumeConsumer=true"):
            Table(tmp_path / "second").take_all(frame)

    def test_the_consumer_is_resumed(
        self, spark: SparkSession, stream: Stream, queue: str, send: Send, tmp_path: Path
    ) -> None:
        send(2)
        Table(tmp_path / "first").take_all(stream(queue=queue, consumer="resumed").load())
        sent, second = send(1), Table(tmp_path / "second")
        frame = stream(queue=queue, consumer="resumed", resumeConsumer="true").load()
        second.take_all(frame)
        sent += send(1)
        second.take_all(frame)
        assert second.bodies(spark) == sent

    def test_an_old_copy_is_refused(self, stream: Stream, queue: str, send: Send, tmp_path: Path) -> None:
        frame, table = stream(queue=queue, consumer="copy").load(), Table(tmp_path / "table")
        send(2)
        table.take_all(frame)
        copy = Table(tmp_path / "copy")
        shutil.copytree(table.checkpoint, copy.checkpoint)
        send(2)
        table.take_all(frame)
        send(2)
        with pytest.raises(PySparkException, match="restored from an older copy"):
            copy.take_all(frame)

    def test_another_consumers_is_refused(self, stream: Stream, table: Table, queue: str, send: Send) -> None:
        send(2)
        table.take_all(stream(queue=queue, consumer="mine-1").load())
        with pytest.raises(PySparkException, match="the checkpoint is for consumer mine-1"):
            table.take_all(stream(queue=queue, consumer="yours-1").load())

    def test_nor_an_unfinished_batch_of_another(
        self, consuming: Callable[[str], ConsumeReader], send: Send
    ) -> None:
        """A restart asks for its partitions, and later for its commit, before it asks for new messages."""
        mine, yours = consuming("mine-2"), consuming("yours-2")
        send(2)
        start = mine.initialOffset()
        end = mine.latestOffset(start, ReadAllAvailable())
        assert len(mine.partitions(start, end)) == 1
        for call in (lambda: yours.partitions(start, end), lambda: yours.commit(end)):
            with pytest.raises(OffsetError, match="the checkpoint is for consumer mine-2"):
                call()

    def test_numbers_that_were_never_claimed_acknowledge_nothing(
        self, consuming: Callable[[str], ConsumeReader], send: Send
    ) -> None:
        send(2)
        first = consuming("unclaimed")
        start = first.initialOffset()
        end = first.latestOffset(start, ReadAllAvailable())
        later = end | {"q": {guid: reached | {"hi": 3000} for guid, reached in end["q"].items()}}
        again = consuming("unclaimed")
        with pytest.raises(OffsetError, match="only at 2"):
            again.latestOffset(later, ReadAllAvailable())
        (piece,) = again.partitions(start, end)
        assert sum(batch.num_rows for batch in again.read(piece)) == 2


class TestTheQueueManagerIsAway:
    def test_it_is_killed_and_comes_back(self, spark: SparkSession, table: Table, tmp_path: Path) -> None:
        """A stream waits for it, and goes on with the same claims."""
        own = Served(tmp_path / "own").start()
        try:
            queue = own.make_queue("orders")
            own.send(queue, "a", "b")
            options = {"url": own.url, "queue": queue, "consumer": "patient"}
            query = table.writer(spark.readStream.format("msmq").options(**options).load()).start()
            wait_until(lambda: sizes(query) == [2], query)
            own.kill()
            own.start()
            own.send(queue, "c")
            wait_until(lambda: sum(sizes(query)) == 3, query)
            query.stop()
            assert table.bodies(spark) == ["a", "b", "c"]
        finally:
            own.stop()
