"""The progress of a run, a bar on a terminal and a line for each batch elsewhere, and its summary."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from pyspark_msmq.data_client import EndpointError
from pyspark_msmq.options import StreamOptions, read_stream_options
from tiercel.pipeline.batch import Batch
from tiercel.pipeline.config import Pipeline
from tiercel.pipeline.running import Summary, Watch
from tiercel.pipeline.waiting import queues
from tiercel.pipeline.words import size_text

# How often to ask the queue manager for the number of waiting messages.
_ASK_S: Final = 5.0


@contextmanager
def progress_bar(pipeline: Pipeline, console: Console) -> Iterator[Watch]:
    """A function to call while the pipeline runs."""
    if not console.is_terminal:
        yield lambda _query, _summary: None
        return
    columns = (
        TextColumn("[bold]{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[speed]:,.0f}/s  batch {task.fields[batch]}"),
        TimeElapsedColumn(),
    )
    lag = _Lag(read_stream_options(pipeline.reader_options))
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(pipeline.pipeline.name, total=None, speed=0.0, batch=0)

        def watch(query: StreamingQuery, summary: Summary) -> None:
            progress = query.lastProgress
            speed = progress["processedRowsPerSecond"] if progress else 0.0
            done = summary.messages
            total = done + lag.waiting() if lag.is_known else None
            bar.update(task, completed=done, total=total, speed=speed or 0.0, batch=summary.batches)

        yield watch


class _Lag:
    """The number of messages still waiting; if the queue manager does not answer, it is asked again later."""

    def __init__(self, options: StreamOptions) -> None:
        self._options = options
        self.is_known = not options.url.is_rpc
        self._asked = 0.0
        self._waiting = 0

    def waiting(self) -> int:
        if time.monotonic() - self._asked > _ASK_S:
            self._asked = time.monotonic()
            try:
                lines = queues(self._options, patience_s=0.5)
                self._waiting = sum(line["waiting"] + line["claimed"] for line in lines)
            except EndpointError:
                self.is_known = False
        return self._waiting


def batch_line(batch: Batch) -> str:
    """`batch 3: 20,000 messages, 4.2 MiB, 1.3 s; 400 waiting`, for logs and pipes."""
    parts = [f"{batch.rows:,} message{'s' * (batch.rows != 1)}"]
    parts += [size_text(batch.bytes)] * bool(batch.bytes)
    parts += [f"{batch.seconds.get('total', 0):.1f} s"]
    parts += [f"{batch.quarantined:,} set apart"] * bool(batch.quarantined)
    waiting = "" if batch.lag is None else f"; {batch.lag:,} waiting"
    return f"batch {batch.batch}: {', '.join(parts)}{waiting}"


def show(pipeline: Pipeline, summary: Summary, console: Console) -> None:
    """Print the result of a run, one line per table."""
    console.print(
        f"{pipeline.pipeline.name}: {summary.messages:,} messages in {summary.batches:,}"
        f" batch{'' if summary.batches == 1 else 'es'}, {summary.seconds:.1f} s"
        + f", {summary.again} of them had been written before"
        * bool(summary.again),
        highlight=False,
    )
    listing = Table(box=None, pad_edge=False, show_header=False)
    listing.add_column(justify="right")
    listing.add_column()
    for name, rows in summary.rows.items():
        listing.add_row(f"{rows:,}", name)
    if pipeline.quarantine is not None:
        listing.add_row(f"{summary.quarantined:,}", f"{pipeline.quarantine.options} (quarantine)")
    console.print(listing)
