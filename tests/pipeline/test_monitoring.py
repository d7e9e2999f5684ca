"""What a run tells: a line of JSON for each batch, metrics that count on, lineage, progress in a pipe."""

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families
from pyspark.sql import SparkSession

from addresses import own_address
from pipeline.test_running import Shop
from spark.served import Served
from tiercel.pipeline.batch import Batch, Outcome, QueueShare, batch_of
from tiercel.pipeline.config import parse
from tiercel.pipeline.lineage import _dataset_name
from tiercel.pipeline.metrics import MetricsError
from tiercel.pipeline.monitoring import MonitoringError, monitoring
from tiercel.pipeline.progress import batch_line
from tiercel.pipeline.running import PipelineError, Summary, run
from tiercel.pipeline.tables import TableOptions
from tiercel.pipeline.waiting import Waiting
from tiercel.server.config import ConfigError


@pytest.fixture
def shop(tmp_path: Path, daemon: Served, spark: SparkSession, make_queue: Callable[..., str]) -> Shop:
    return Shop(tmp_path, daemon, spark, make_queue)


def told(shop: Shop) -> tuple[Summary, list[Batch]]:
    """A run as the command line makes it, and what it reported."""
    batches: list[Batch] = []
    with monitoring(shop.pipeline) as tell:

        def report(batch: Batch) -> None:
            batches.append(batch)
            tell(batch)

        summary = run(shop.pipeline, shop.spark, lambda _query, _summary: None, report)
    return summary, batches


def samples(text: str) -> dict[tuple[str, ...], float]:
    """Each sample by its name and the values of its labels but the pipeline's."""
    return {
        (each.name, *(value for name, value in sorted(each.labels.items()) if name != "pipeline")): each.value
        for family in text_string_to_metric_families(text)
        for each in family.samples
    }


@pytest.fixture
def events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the client of OpenLineage writes its events."""
    path = tmp_path / "events.json"
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__TYPE", "file")
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__LOG_FILE_PATH", str(path))
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__APPEND", "true")
    return path


def test_two_runs_and_one_that_fails(shop: Shop, events: Path) -> None:
    shop.text += '[monitoring]\nlog = "batches.jsonl"\nmetrics = "shop.prom"\nopenlineage = true\n'
    shop.send(*range(24), -1)
    summary, batches = told(shop)
    assert summary.messages == 25
    shop.send(30, 31)
    told(shop)
    shop.daemon.send(shop.queue, '{"id": "poison"}')
    with pytest.raises(PipelineError, match="poison"):
        told(shop)
    lines = [json.loads(line) for line in (shop.folder / "batches.jsonl").read_text("utf-8").splitlines()]
    assert lines[0] == json.loads(batches[0].line())
    check_lines(shop, lines)
    check_metrics(shop, samples((shop.folder / "shop.prom").read_text("utf-8")))
    check_events(shop, [json.loads(line) for line in events.read_text("utf-8").splitlines()])


def check_lines(shop: Shop, lines: list[dict[str, Any]]) -> None:
    assert [line["batch"] for line in lines] == [0, 1, 2]
    assert [line["rows"] for line in lines] == [20, 5, 2]
    assert len({line["run"] for line in lines}) == 2
    first, last = lines[0], lines[1]
    assert (first["pipeline"], first["source"]) == ("shop", shop.daemon.url)
    assert [line["queues"][shop.queue]["rows"] for line in lines] == [20, 5, 2]
    assert all(line["bytes"] == line["queues"][shop.queue]["bytes"] > 0 for line in lines)
    assert last["lag"] == last["queues"][shop.queue]["lag"] == 0
    assert last["oldest"] is None
    assert last["quarantined"] == 1
    raw = f"parquet:{shop.folder}/raw"
    assert (first["tables"][raw], last["tables"][raw]) == (20, 4)
    assert {"claim", "log", "write", "finish", "total", "quarantine", raw} <= set(first["seconds"])


def check_metrics(shop: Shop, found: dict[tuple[str, ...], float]) -> None:
    """The counters of the second and the third run continue those of the one before."""
    prefix = "tiercel_pipeline_"
    assert found[f"{prefix}batches_total",] == 3
    assert found[f"{prefix}messages_total", shop.queue] == 27
    assert found[f"{prefix}rows_total", f"parquet:{shop.folder}/raw"] == 26
    assert found[f"{prefix}quarantined_total",] == 1
    assert found[f"{prefix}running",] == 0
    assert found[f"{prefix}failures_total",] == 1


def check_events(shop: Shop, found: list[dict[str, Any]]) -> None:
    assert [each["eventType"] for each in found] == [
        *("START", "RUNNING", "RUNNING", "COMPLETE"),
        *("START", "RUNNING", "COMPLETE"),
        *("START", "FAIL"),
    ]
    assert len({each["run"]["runId"] for each in found}) == 3
    complete, failed = found[3], found[-1]
    assert complete["job"]["name"] == "shop"
    queue = (f"msmq://{shop.daemon.url.partition('//')[2]}", shop.queue)
    assert [(each["namespace"], each["name"]) for each in complete["inputs"]] == [queue]
    assert complete["inputs"][0]["inputFacets"]["inputStatistics"]["rowCount"] == 25
    rows = {
        each["name"]: each["outputFacets"]["outputStatistics"]["rowCount"] for each in complete["outputs"]
    }
    assert rows == {f"{shop.folder}/orders": 24, f"{shop.folder}/raw": 24, f"{shop.folder}/bad.db#bad": 1}
    assert "poison" in failed["run"]["facets"]["errorMessage"]["message"]


def test_what_waits_behind_a_batch(shop: Shop) -> None:
    """A batch of 20 of 45 that is seen while the others wait, with the time of the oldest."""
    shop.text = shop.text.replace('name = "shop"', 'name = "shop"\ntrigger = "1h"')
    shop.send(*range(45))

    class Seen(Exception):  # noqa: N818  # an end, not an error
        pass

    def stop(batch: Batch) -> None:
        assert batch.lag == batch.queues[shop.queue].lag
        # The next batch may have been claimed ahead.
        assert batch.lag in {25, 5}
        assert batch.oldest is not None
        assert batch_line(batch).startswith("batch 0: 20 messages, ")
        assert batch_line(batch).endswith(f" s; {batch.lag} waiting")
        raise Seen

    with pytest.raises(Seen):
        run(shop.pipeline, shop.spark, lambda _query, _summary: None, stop)


BATCH = Batch(
    pipeline="shop",
    run="1",
    batch=0,
    time="2026-11-18T08:00:00Z",
    source="http://127.0.0.1:8802",
    rows=3,
    bytes=30,
    lag=7,
    oldest="2026-11-18T07:59:00+00:00",
    quarantined=0,
    again=1,
    queues={"orders": QueueShare(rows=3, bytes=30, lag=7, oldest="2026-11-18T07:59:00+00:00")},
    tables={"delta:lake": 3},
    seconds={"total": 1.5},
)
TABLE = '[pipeline]\nname = "a"\n[[table]]\nformat = "parquet"\npath = "p"\n[monitoring]\n'


def test_metrics_on_a_port(tmp_path: Path) -> None:
    address = f"{own_address()}:9108"
    pipeline = parse(f'{TABLE}metrics = "{address}"\n', tmp_path)
    with monitoring(pipeline) as tell:
        tell(BATCH)
        with urlopen(f"http://{address}/metrics") as response:  # our own
            found = samples(response.read().decode())
        with pytest.raises(MetricsError, match=r"9108: cannot listen"), monitoring(pipeline):
            pass
    assert found["tiercel_pipeline_running",] == 1
    assert found["tiercel_pipeline_messages_total", "orders"] == 3
    assert found["tiercel_pipeline_tables_repeated_total",] == 1
    assert found["tiercel_pipeline_lag_messages", "orders"] == 7
    assert found["tiercel_pipeline_oldest_message_timestamp_seconds", "orders"] == 1794988740
    with pytest.raises(OSError, match="refused"):
        urlopen(f"http://{address}/metrics")  # our own


def test_a_log_that_cannot_be_written_is_an_error_only_at_the_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pipeline = parse(f'{TABLE}log = "logs/batches.jsonl"\n', tmp_path)
    with pytest.raises(MonitoringError, match=r"batches.jsonl: cannot write the log"), monitoring(pipeline):
        pass
    log = tmp_path / "logs" / "batches.jsonl"
    log.parent.mkdir()
    with caplog.at_level(logging.WARNING), monitoring(pipeline) as tell:
        log.unlink()
        log.parent.rmdir()
        tell(BATCH)
    assert "cannot write the log" in caplog.text


def test_the_queues_of_two_managers_and_one_that_is_gone() -> None:
    reached = {"b": 100, "e": 1, "hi": 10}
    progress = {
        "runId": "1",
        "batchId": 4,
        "timestamp": "2026-11-18T08:00:00Z",
        "numInputRows": 9,
        "durationMs": {"triggerExecution": 1500, "latestOffset": 20},
        "sources": [
            {
                "startOffset": json.dumps({"c": "x", "q": {"q1": reached}, "qm": "m1", "v": 1}),
                "endOffset": json.dumps(
                    {
                        "c": "x",
                        "m": {
                            "m1": {"q1": {"b": 150, "e": 1, "hi": 15}, "q2": {"b": 7, "e": 1, "hi": 1}},
                            "m2": {"q3": {"b": 9, "e": 1, "hi": 3}},
                        },
                        "v": 2,
                    }
                ),
            }
        ],
    }
    waiting: list[Waiting] = [
        {
            "queue": "orders",
            "guid": "q1",
            "bytes": 0,
            "waiting": 5,
            "claimed": 0,
            "oldest": "2026-11-18T07:00Z",
        },
        {"queue": "idle", "guid": "q4", "bytes": 0, "waiting": 0, "claimed": 0, "oldest": None},
    ]
    found = batch_of("shop", "http://a,http://b", progress, Outcome(seconds={"delta:x": 1.0}), waiting)
    assert found.queues == {
        "orders": QueueShare(rows=5, bytes=50, lag=5, oldest="2026-11-18T07:00Z"),
        "q2": QueueShare(rows=1, bytes=7),
        "q3": QueueShare(rows=3, bytes=9),
        "idle": QueueShare(rows=0, bytes=0, lag=0),
    }
    assert (found.bytes, found.lag, found.oldest) == (66, 5, "2026-11-18T07:00Z")
    assert found.seconds == {"total": 1.5, "claim": 0.02, "delta:x": 1.0}
    none = progress | {"sources": [{"startOffset": None, "endOffset": '{"ids": [], "q": "q", "v": 1}'}]}
    assert batch_of("shop", "msmq-rpc://a", none, Outcome(), []).lag is None


def test_progress_in_words() -> None:
    assert batch_line(BATCH) == "batch 0: 3 messages, 30 bytes, 1.5 s; 7 waiting"


@pytest.mark.parametrize(
    ("place", "shown", "dataset"),
    [
        ("postgresql://ann:secret@db:5433/shop", "postgresql://ann:***@db:5433/shop#o", "postgres://db:5433"),
        ("postgresql://db:5432/shop", "postgresql://db:5432/shop#o", "postgres://db:5432"),
        ("host=db password=secret user=a", "postgresql:host=db password=*** user=a#o", None),
    ],
)  # fmt: skip
def test_no_password_is_told(place: str, shown: str, dataset: str | None) -> None:
    options = TableOptions(format="postgresql", place=place, name="o")
    assert str(options) == shown
    assert "secret" not in "".join(_dataset_name(options))
    if dataset:
        assert _dataset_name(options) == (dataset, "shop.public.o")


@pytest.mark.parametrize("place", ["9108", "localhost:70000", "metrics.txt", ":9108"])
def test_a_place_for_metrics_that_is_none(place: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"must be HOST:PORT, or a file whose name ends in \.prom"):
        parse(f'{TABLE}metrics = "{place}"', tmp_path)
