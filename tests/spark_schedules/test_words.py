"""What a query says when it refuses, as docs/spark.md has it."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows, ReadMinRows

from pyspark_msmq import consumer, reading, schema
from pyspark_msmq.options import read_stream_options
from pyspark_msmq.stream_reader import ConsumeReader
from spark_schedules.server import ORDERS, Client, Faults, QueueManager

PAGE = Path(__file__).parents[2] / "docs" / "spark.md"
ROW = re.compile(r"^\| (.+?) \| (.*?\*.+\*.*?) \| .+ \|$", re.MULTILINE)
TWO = ReadMaxRows(2)


def words() -> dict[str, list[str]]:
    """The texts in italics of each row."""
    table = PAGE.read_text("utf-8").partition("### Errors and what to do")[2].partition("\n## ")[0]
    return {what: re.findall(r"\*([^*]+)\*", said) for what, said in ROW.findall(table)}


@pytest.fixture
def qm() -> Iterator[QueueManager]:
    """With eight messages, and a clock that nobody needs."""
    faults = Faults(Random(1))
    faults.are_on = False
    manager = QueueManager(faults, transactional=False)
    manager.send(range(8))
    with (
        mock.patch.object(consumer, "DataClient", Client),
        mock.patch.object(reading, "DataClient", Client),
        mock.patch.object(Client, "managers", {"m": manager}),
    ):
        yield manager
    manager.close()


class Query:
    def __init__(self, offsets: list[dict[str, Any]] | None = None, **more: str) -> None:
        options = {"url": "http://m:1", "queue": "orders", "consumer": "lake", "pollTimeoutMs": "1", **more}
        self.reader = ConsumeReader(read_stream_options(options), schema.of_messages(["body"]))
        self.offsets = offsets or [self.reader.initialOffset()]

    def batch(self) -> "Query":
        self.offsets.append(self.reader.latestOffset(self.offsets[-1], TWO))
        assert self.reader._managers is not None
        self.reader._managers.join()
        return self

    def least(self) -> None:
        self.reader.latestOffset(self.offsets[-1], ReadMinRows(5))


def another_checkpoint(_qm: QueueManager) -> list[Callable[[], object]]:
    running = Query().batch()
    running.reader._managers = None  # whatever it has claimed ahead does not matter here
    return [Query().batch]


def the_same_checkpoint(_qm: QueueManager) -> list[Callable[[], object]]:
    first = Query().batch()
    Query(first.offsets[:]).batch()
    return [first.batch]


def a_deleted_checkpoint(_qm: QueueManager) -> list[Callable[[], object]]:
    first = Query().batch()
    first.reader.commit(first.offsets[-1])
    return [Query().batch]


def a_deleted_queue(qm: QueueManager) -> list[Callable[[], object]]:
    first = Query().batch()
    qm.open.delete_queue(ORDERS)
    qm.open.create_queue(ORDERS)
    return [Query(first.offsets).batch]


def a_purged_queue(qm: QueueManager) -> list[Callable[[], object]]:
    first = Query(None, maxMessagesPerTrigger="2").batch().batch()
    qm.open.queue(ORDERS).purge()
    qm.send([9])

    def until_then() -> None:
        again = Query(first.offsets)
        for _ in range(3):
            again.batch()

    return [until_then]


def a_restored_queue_manager(qm: QueueManager) -> list[Callable[[], object]]:
    first = Query().batch()
    copy = qm._store.crash()
    qm._store = copy
    qm._start()
    backup = copy._committed()
    later = Query(first.offsets).batch().batch()
    qm._store = type(copy)(backup)
    qm._start()
    return [Query(later.offsets).batch]


def a_restored_checkpoint(_qm: QueueManager) -> list[Callable[[], object]]:
    first = Query().batch().batch().batch()
    first.reader.commit(first.offsets[2])
    return [Query(first.offsets[:2]).batch]


def released_claims(qm: QueueManager) -> list[Callable[[], object]]:
    first = Query().batch()
    qm.run(qm.claims.release("lake", None))
    return [first.batch, Query(first.offsets).batch]


CASES: dict[str, Callable[[QueueManager], list[Callable[[], object]]]] = {
    "a second query uses the consumer of a running one, with its own checkpoint": another_checkpoint,
    "a second query uses consumer and checkpoint of a running one": the_same_checkpoint,
    "the checkpoint was deleted": a_deleted_checkpoint,
    "the queue was deleted, or recreated": a_deleted_queue,
    "the queue was purged": a_purged_queue,
    "the queue manager was restored from a backup": a_restored_queue_manager,
    "the checkpoint was restored from a backup": a_restored_checkpoint,
    "an operator released the claims": released_claims,
}


def test_every_row_has_a_case() -> None:
    assert list(words()) == list(CASES)


@pytest.mark.parametrize("what", CASES)
def test_the_page_says_what_the_query_says(qm: QueueManager, what: str) -> None:
    for call, said in zip(CASES[what](qm), words()[what], strict=True):
        with pytest.raises(RuntimeError) as refused:
            call()
        assert re.sub(r"\d+", "N", said) in re.sub(r"\d+", "N", str(refused.value))


def test_an_idle_stream_waits_in_the_queue_manager_also_with_a_minimum(qm: QueueManager) -> None:
    """Otherwise Spark would ask a hundred times a second."""
    qm.open.queue(ORDERS).purge()
    waits: list[int] = []
    honest = Client.claim

    def claim(self: Client, name: str, **what: Any) -> dict[str, Any]:
        waits.append(what["wait_ms"])
        return honest(self, name, **what)

    with mock.patch.object(Client, "claim", claim):
        Query(None, minMessagesPerTrigger="5", maxTriggerDelay="0ms").least()
    assert waits == [1]
