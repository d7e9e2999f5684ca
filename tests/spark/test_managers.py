"""One stream over several queue managers, which are real processes; the calls are those that Spark makes."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from addresses import own_address
from pyspark_msmq import managers, schema
from pyspark_msmq.batch_reader import BatchReader
from pyspark_msmq.data_client import EndpointLostError
from pyspark_msmq.offsets import OffsetError
from pyspark_msmq.options import read_batch_options, read_stream_options
from pyspark_msmq.reading import DataLossError
from pyspark_msmq.stream_reader import ConsumeReader
from spark.served import Served
from spark.support import PATIENCE_S, Table, progress, wait_until
from spark_soak.line import Line
from tiercel.pipeline import waiting

ALL = ReadAllAvailable()
QUICK = {"pollTimeoutMs": "50"}


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Served]]:
    servers = [Served(tmp_path_factory.mktemp(name)) for name in "abc"]
    starting = [threading.Thread(target=server.start) for server in servers]
    for thread in starting:
        thread.start()
    for thread in starting:
        thread.join()
    yield servers
    for server in servers:
        server.stop()


@pytest.fixture
def queue(three: list[Served], request: pytest.FixtureRequest) -> str:
    """The same queue at each of them, for this test alone."""
    name = request.node.name.removeprefix("test_")[:40]
    for server in three:
        server.make_queue(name)
    return str(name)


Make = Callable[..., ConsumeReader]


@pytest.fixture
def consuming(queue: str) -> Iterator[Make]:
    made: list[ConsumeReader] = []

    def make(*servers: Served, **more: str) -> ConsumeReader:
        url = more.pop("url", ",".join(server.url for server in servers))
        options = read_stream_options({"url": url, "queue": queue, "consumer": queue, **QUICK, **more})
        made.append(ConsumeReader(options, schema.of_messages(["body"])))
        return made[-1]

    yield make
    for each in made:
        if each._managers is not None:
            each._managers.close()


class Query:
    """Spark's part: a log of offsets, and a sink that has each batch once."""

    def __init__(self, reader: ConsumeReader, offset: dict[str, Any] | None = None) -> None:
        self.reader = reader
        self.offset = reader.initialOffset() if offset is None else offset
        self.seen: list[str] = []
        self.sizes: list[int] = []

    def batch(self, limit: Any = ALL) -> int:
        end = self.reader.latestOffset(self.offset, limit)
        if end == self.offset:
            return 0
        found = self.bodies(end)
        self.seen += found
        self.sizes.append(len(found))
        self.offset = end
        return len(found)

    def bodies(self, end: dict[str, Any]) -> list[str]:
        pieces = self.reader.partitions(self.offset, end)
        batches = [batch for piece in pieces for batch in self.reader.read(piece)]
        return [body.decode() for batch in batches for body in batch.column("body").to_pylist()]

    def run_until(self, condition: Callable[[], bool], limit: Any = ALL) -> None:
        def step() -> bool:
            self.batch(limit)
            return condition()

        wait_until(step)


def held(servers: list[Served], consumer: str) -> int:
    return sum(claim["count"] for server in servers for claim in server.claims(consumer))


def restarted(query: Query, reader: ConsumeReader) -> Query:
    """Another driver, with the same checkpoint."""
    again = Query(reader, query.offset)
    again.seen = query.seen
    return again


class TestReading:
    def test_all_of_them_once(self, three: list[Served], queue: str, consuming: Make) -> None:
        for number, server in enumerate(three):
            server.send(queue, *(f"{number}{letter}" for letter in "xyz"))
        query = Query(consuming(*three))
        query.run_until(lambda: len(query.seen) == 9)
        assert sorted(query.seen) == sorted(f"{number}{letter}" for number in range(3) for letter in "xyz")
        assert len(query.offset["m"]) == 3
        query.run_until(lambda: held(three, queue) == 0)
        assert [server.count(queue) for server in three] == [0, 0, 0]

    def test_a_limit_is_for_all_together(self, three: list[Served], queue: str, consuming: Make) -> None:
        for server in three:
            server.send(queue, *map(str, range(10)))
        query = Query(consuming(*three))
        query.run_until(lambda: len(query.seen) == 30, ReadMaxRows(4))
        assert max(query.sizes) <= 4

    def test_one_that_has_all_the_messages_has_the_whole_batch(
        self, three: list[Served], queue: str, consuming: Make
    ) -> None:
        reader = consuming(*three)
        three[1].send(queue, *map(str, range(20)))
        reader.prepareForTriggerAvailableNow()
        query = Query(reader)
        query.batch(ReadMaxRows(12))
        assert query.sizes == [12]

    def test_a_batch_read(self, three: list[Served], queue: str) -> None:
        for number, server in enumerate(three):
            server.send(queue, str(number))
        options = read_batch_options({"url": ",".join(server.url for server in three), "queue": queue})
        reader = BatchReader(options, schema.of_messages(["body"]))
        rows = [batch for piece in reader.partitions() for batch in reader.read(piece)]
        assert [body for batch in rows for body in batch.column("body").to_pylist()] == [b"0", b"1", b"2"]

    def test_the_plan_of_a_pipeline(self, three: list[Served], queue: str) -> None:
        three[1].send(queue, "x", "y")
        url = ",".join(server.url for server in three)
        options = read_stream_options({"url": url, "queue": queue, "consumer": queue})
        lines = list(waiting.queues(options))
        assert [line["waiting"] for line in lines] == [0, 2, 0]
        assert {line["queue"] for line in lines} == {rf"SRV\private$\{queue}"}

    def test_the_lag_by_queue(self, three: list[Served], queue: str, consuming: Make) -> None:
        reader = consuming(*three[:2])
        three[0].send(queue, *"abcde")
        query = Query(reader)
        query.run_until(lambda: bool(query.seen), ReadMaxRows(2))
        reader._managers.join()  # type: ignore[union-attr]
        said = reader.reportLatestOffset()
        assert said is not None
        left = three[0].count(queue)
        assert said["lag"] == {rf"SRV\private$\{queue}": left}
        assert "unreachable" not in said


class TestTheSetChanges:
    def test_one_is_added(self, three: list[Served], queue: str, consuming: Make) -> None:
        """The checkpoint of one queue manager, in the text that it had before there could be several."""
        a, b, _ = three
        a.send(queue, "a1")
        query = Query(consuming(a))
        query.run_until(lambda: query.seen == ["a1"])
        assert query.offset["v"] == 1
        a.send(queue, "a2")
        b.send(queue, "b1")
        query = restarted(query, consuming(a, b))
        query.run_until(lambda: sorted(query.seen) == ["a1", "a2", "b1"])
        assert query.offset["v"] == 2

    def test_one_that_the_consumer_has_read_before(
        self, three: list[Served], queue: str, consuming: Make
    ) -> None:
        a, b, _ = three
        queries = [Query(consuming(server)) for server in (a, b)]
        for server, query in zip((a, b), queries, strict=True):
            server.send(queue, "old")
            query.run_until(lambda query=query: bool(query.seen))  # type: ignore[misc]
            query.run_until(lambda server=server: not held([server], queue))  # type: ignore[misc]
        with pytest.raises(OffsetError, match=r"has read 1 messages already.*resumeConsumer=true"):
            restarted(queries[0], consuming(a, b)).batch()

    def test_one_is_removed_when_nothing_of_it_is_claimed(
        self, three: list[Served], queue: str, consuming: Make, tmp_path: Path
    ) -> None:
        a, b, _ = three
        for server in (a, b):
            server.send(queue, "old")
        query = Query(consuming(a, b))
        query.run_until(lambda: len(query.seen) == 2)
        held_at_b = held([b], queue)
        b.send(queue, "stays")
        file = tmp_path / "managers.toml"
        file.write_text(f'[[manager]]\nurl = "{a.url}"\n[[manager]]\nurl = "{b.url}"\ndrain = true\n')
        query = restarted(query, consuming(url=f"@{file}"))
        query.run_until(lambda: query.offset["v"] == 1)
        assert held_at_b <= 1
        assert held([b], queue) == 0
        assert b.bodies(queue) == ["stays"]
        assert restarted(query, consuming(url=f"@{file}")).batch() == 0  # it may stay in the file
        a.send(queue, "new")
        query = restarted(query, consuming(a))
        query.run_until(lambda: query.seen[2:] == ["new"])

    def test_one_that_is_still_in_the_checkpoint(
        self, three: list[Served], queue: str, consuming: Make
    ) -> None:
        a, b, c = three
        for server in (a, b, c):
            server.send(queue, "x")
        query = Query(consuming(a, b, c))
        query.run_until(lambda: len(query.seen) == 3)
        with pytest.raises(DataLossError, match=r"which url no longer names: add it again.*drain = true"):
            restarted(query, consuming(a, b)).batch()
        lost = restarted(query, consuming(a, b, failOnDataLoss="false"))
        lost.run_until(lambda: len(lost.offset["m"]) == 2)
        with pytest.raises(OffsetError, match="the checkpoint is for queue manager"):
            restarted(lost, consuming(c)).batch()

    def test_the_same_one_twice(self, three: list[Served], consuming: Make) -> None:
        line = Line(three[0].url)
        try:
            with pytest.raises(OffsetError, match="lead to the same queue manager"):
                Query(consuming(url=f"{three[0].url},{line.url}")).run_until(lambda: False)
        finally:
            line.close()

    def test_a_second_query_is_refused_before_it_fences_the_first(
        self, three: list[Served], queue: str, consuming: Make
    ) -> None:
        a, b, _ = three
        b.send(queue, "b1")
        running = Query(consuming(a, b))
        running.run_until(lambda: running.seen == ["b1"])
        with pytest.raises(OffsetError, match="this checkpoint is new"):
            Query(consuming(a, b)).batch()
        a.send(queue, "a1")
        running.run_until(lambda: running.seen == ["b1", "a1"])


class TestUnreachable:
    @pytest.fixture
    def pair(self, tmp_path: Path, queue: str, three: list[Served]) -> Iterator[list[Served]]:
        """The first of the others, and one that may be killed."""
        own = Served(tmp_path / "own", host=own_address(3)).start()  # where its port stays free
        own.make_queue(queue)
        yield [three[0], own]
        own.stop()

    def test_the_others_go_on(self, pair: list[Served], queue: str, consuming: Make) -> None:
        a, b = pair
        reader = consuming(a, b)
        query = Query(reader)
        b.send(queue, "b1")
        query.run_until(lambda: query.seen == ["b1"])
        b.send(queue, "b2")
        b.kill()
        a.send(queue, "a1")
        query.run_until(lambda: "a1" in query.seen)
        query.run_until(lambda: b.url in (reader.reportLatestOffset() or {}).get("unreachable", {}))
        b.start()
        query.run_until(lambda: sorted(query.seen) == ["a1", "b1", "b2"])
        query.run_until(lambda: held(pair, queue) == 0)
        assert "unreachable" not in (reader.reportLatestOffset() or {})

    def test_one_that_is_away_from_the_start(self, pair: list[Served], queue: str, consuming: Make) -> None:
        a, b = pair
        b.send(queue, "b1")
        b.kill()
        a.send(queue, "a1")
        query = Query(consuming(a, b))
        query.run_until(lambda: query.seen == ["a1"])
        b.start()
        query.run_until(lambda: query.seen == ["a1", "b1"])

    def test_a_batch_that_must_be_repeated_waits_for_it(
        self, pair: list[Served], queue: str, consuming: Make
    ) -> None:
        a, b = pair
        b.send(queue, "b1")
        first = Query(consuming(a, b))
        start, end = first.offset, first.offset
        while end == start:
            end = first.reader.latestOffset(start, ALL)
        b.kill()
        found: list[str] = []
        again = Query(consuming(a, b), start)
        waiting = threading.Thread(target=lambda: found.extend(again.bodies(end)), daemon=True)
        waiting.start()
        b.start()
        waiting.join(PATIENCE_S)
        assert found == ["b1"]

    def test_it_may_also_fail(
        self, pair: list[Served], consuming: Make, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(managers, "PATIENCE_S", 0.2)
        a, b = pair
        query = Query(consuming(a, b, onUnreachable="fail"))
        query.batch()
        b.kill()
        with pytest.raises(EndpointLostError, match="cannot reach the queue manager"):
            query.run_until(lambda: False)

    def test_a_run_to_the_end_leaves_it_out(
        self, pair: list[Served], queue: str, consuming: Make, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(managers, "PATIENCE_S", 0.2)
        a, b = pair
        a.send(queue, "a1")
        b.send(queue, "b1")
        b.kill()
        reader = consuming(a, b)
        reader.prepareForTriggerAvailableNow()
        query = Query(reader)
        query.run_until(lambda: query.offset != reader.initialOffset() and not query.batch())
        assert query.seen == ["a1"]
        b.start()
        reader = consuming(a, b)
        reader.prepareForTriggerAvailableNow()
        query = restarted(query, reader)
        query.run_until(lambda: not query.batch())
        assert query.seen == ["a1", "b1"]


class TestInSpark:
    def test_a_stream_over_three(
        self, spark: SparkSession, three: list[Served], queue: str, tmp_path: Path
    ) -> None:
        for number, server in enumerate(three):
            server.send(queue, *(f"{number}{letter}" for letter in "xy"))
        url = ",".join(server.url for server in three)
        table = Table(tmp_path)
        frame = spark.readStream.format("msmq").options(url=url, queue=queue, consumer="in.spark").load()
        query = table.take_all(frame)
        assert sorted(table.bodies(spark)) == ["0x", "0y", "1x", "1y", "2x", "2y"]
        assert held(three, "in.spark") == 0
        source = progress(query)[-1]["sources"][0]
        assert source["latestOffset"]["lag"] == {rf"SRV\private$\{queue}": 0}
