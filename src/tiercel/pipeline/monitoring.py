"""Tells the world outside what a run does: a log of batches, metrics, lineage.

Whatever cannot be told at the start is an error: somebody asked for it. Later, it is a warning, and the
messages go on.
"""

import importlib.util
import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tiercel.model.errors import TiercelError
from tiercel.pipeline.batch import Batch
from tiercel.pipeline.config import Pipeline
from tiercel.pipeline.metrics import Metrics, metrics_file, read_file, serving, write_file
from tiercel.server.config import ConfigError

if TYPE_CHECKING:
    from tiercel.pipeline.lineage import Lineage

log = logging.getLogger(__name__)


class MonitoringError(TiercelError):
    """A log that cannot be written."""


@contextmanager
def monitoring(pipeline: Pipeline) -> Iterator[Callable[[Batch], None]]:
    """A function to call with each batch; the end of the block is the end of the run."""
    with serving(pipeline) as metrics:
        monitor = _Monitor(pipeline, metrics)
        monitor.begin()
        try:
            yield monitor.add
        except BaseException as problem:
            monitor.end(problem)
            raise
        monitor.end(None)


class _Monitor:
    def __init__(self, pipeline: Pipeline, metrics: Metrics) -> None:
        self._metrics = metrics
        self._metrics_file = metrics_file(pipeline)
        place = pipeline.monitoring.log
        self._log = pipeline.folder / place if place not in {"", "-"} else None
        self._to_stdout = place == "-"
        self._lineage = _lineage(pipeline)

    def begin(self) -> None:
        if self._log is not None:
            _append(self._log, "")
        if self._metrics_file is not None:
            read_file(self._metrics, self._metrics_file)
        self._metrics.begin()
        self._write_metrics()
        if self._lineage is not None:
            self._lineage.begin()

    def add(self, batch: Batch) -> None:
        self._metrics.add(batch)
        if self._to_stdout:
            print(batch.line(), file=sys.stdout, flush=True)  # noqa: T201  # asked for with log = "-"
        self._try(lambda: None if self._log is None else _append(self._log, f"{batch.line()}\n"))
        self._try(self._write_metrics)
        self._try(lambda: None if self._lineage is None else self._lineage.add(batch))

    def end(self, problem: BaseException | None) -> None:
        self._metrics.end(time.time(), failed=isinstance(problem, Exception))
        self._try(self._write_metrics)
        self._try(lambda: None if self._lineage is None else self._lineage.end(problem))

    def _write_metrics(self) -> None:
        if self._metrics_file is not None:
            write_file(self._metrics, self._metrics_file)

    @staticmethod
    def _try(step: Callable[[], None]) -> None:
        try:
            step()
        except Exception as problem:  # noqa: BLE001  # a server that is down raises what its library likes
            log.warning("monitoring: %s", problem)


def _lineage(pipeline: Pipeline) -> "Lineage | None":
    if not pipeline.monitoring.openlineage:
        return None
    if importlib.util.find_spec("openlineage") is None:
        raise ConfigError(
            "[monitoring] openlineage = true: package openlineage-python is missing;"
            " run pip install 'tiercel[lineage]'"
        )
    from tiercel.pipeline.lineage import Lineage  # noqa: PLC0415  # an extra

    return Lineage(pipeline)


def _append(path: Path, text: str) -> None:
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(text)
    except OSError as problem:
        raise MonitoringError(f"{path}: cannot write the log ({problem.strerror})") from problem
