"""Metrics of a run for Prometheus: served on a port, or written to a file for node_exporter.

A port suits a run that stays; a run from cron is over before anybody asks, so it leaves a file, and the next
run counts on from it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, start_http_server, write_to_textfile
from prometheus_client.parser import text_string_to_metric_families

from tiercel.model.errors import TiercelError
from tiercel.pipeline.batch import Batch
from tiercel.pipeline.config import Pipeline

_PREFIX: Final = "tiercel_pipeline_"


class MetricsError(TiercelError):
    """The metrics cannot be served or written."""


class Metrics:
    """The counters of one pipeline; every sample has the label `pipeline`."""

    def __init__(self, pipeline: str) -> None:
        self.registry = CollectorRegistry()
        self._pipeline = pipeline
        self._batches = self._counter("batches", "finished batches")
        self._again = self._counter("tables_repeated", "tables that already had a batch when it ran again")
        self._quarantined = self._counter("quarantined", "messages that went to quarantine")
        self._failures = self._counter("failures", "runs that ended with an error")
        self._messages = self._counter("messages", "messages read", "queue")
        self._bytes = self._counter("bytes", "bytes read", "queue")
        self._rows = self._counter("rows", "rows written", "table")
        self._seconds = self._counter("step_seconds", "time spent in each step of a batch", "step")
        self._lag = self._gauge("lag_messages", "messages that wait to be read", "queue")
        self._oldest = self._gauge(
            "oldest_message_timestamp_seconds", "arrival of the oldest message that waits", "queue"
        )
        self._running = self._gauge("running", "1 while the pipeline runs")
        self._last = self._gauge("last_batch_timestamp_seconds", "begin of the last finished batch")
        self._finished = self._gauge("last_success_timestamp_seconds", "end of the last run without error")

    def _counter(self, name: str, what: str, *more: str) -> Counter:
        return Counter(_PREFIX + name, what, ("pipeline", *more), registry=self.registry)

    def _gauge(self, name: str, what: str, *more: str) -> Gauge:
        return Gauge(_PREFIX + name, what, ("pipeline", *more), registry=self.registry)

    def begin(self) -> None:
        own = self._pipeline
        for each in (self._batches, self._again, self._quarantined, self._failures):
            each.labels(own)  # shown as 0 from the start, so that the first increase is seen
        self._running.labels(own).set(1)

    def add(self, batch: Batch) -> None:
        own = self._pipeline
        self._batches.labels(own).inc()
        self._again.labels(own).inc(batch.again)
        self._quarantined.labels(own).inc(batch.quarantined)
        self._last.labels(own).set(batch.moment)
        for queue, share in batch.queues.items():
            self._messages.labels(own, queue).inc(share.rows)
            self._bytes.labels(own, queue).inc(share.bytes)
            if share.lag is not None:
                self._lag.labels(own, queue).set(share.lag)
                oldest = datetime.fromisoformat(share.oldest).timestamp() if share.oldest else 0
                self._oldest.labels(own, queue).set(oldest)
        for table, rows in batch.tables.items():
            self._rows.labels(own, table).inc(rows)
        for step, seconds in batch.seconds.items():
            self._seconds.labels(own, step).inc(seconds)

    def end(self, now: float, *, failed: bool) -> None:
        self._running.labels(self._pipeline).set(0)
        if failed:
            self._failures.labels(self._pipeline).inc()
        else:
            self._finished.labels(self._pipeline).set(now)

    def count_on(self, text: str) -> None:
        """Continue the counters of an earlier run, as Prometheus requires: a counter never starts anew."""
        counters = {
            f"{next(iter(each.describe())).name}_total": each
            for each in vars(self).values()
            if isinstance(each, Counter)
        }
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                counter = counters.get(sample.name)
                if counter is not None and sample.labels.get("pipeline") == self._pipeline:
                    counter.labels(**sample.labels).inc(sample.value)


@contextmanager
def serving(pipeline: Pipeline) -> Iterator[Metrics]:
    """The metrics of a run, visible while it runs, and in a file also afterwards."""
    metrics = Metrics(pipeline.pipeline.name)
    address = pipeline.monitoring.address
    if address is None:
        yield metrics
        return
    try:
        server, thread = start_http_server(address[1], address[0], metrics.registry)
    except OSError as problem:
        raise MetricsError(
            f"[monitoring] metrics = {pipeline.monitoring.metrics}: cannot listen ({problem.strerror})"
        ) from problem
    try:
        yield metrics
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def metrics_file(pipeline: Pipeline) -> Path | None:
    place = pipeline.monitoring.metrics
    return pipeline.folder / place if place.endswith(".prom") else None


def read_file(metrics: Metrics, path: Path) -> None:
    try:
        metrics.count_on(path.read_text("utf-8"))
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as problem:
        raise MetricsError(f"{path}: cannot read the metrics of the last run ({problem})") from problem


def write_file(metrics: Metrics, path: Path) -> None:
    """Replace the file in one step, so that node_exporter never reads half of it."""
    try:
        write_to_textfile(str(path), metrics.registry)
    except OSError as problem:
        raise MetricsError(f"{path}: cannot write the metrics ({problem.strerror})") from problem
