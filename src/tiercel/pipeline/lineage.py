"""OpenLineage events of a run: which queues went into which tables, and how much.

The client of the OpenLineage project sends them; its environment variables (OPENLINEAGE_URL,
OPENLINEAGE__TRANSPORT__TYPE, ...) or its openlineage.yml say where to.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlsplit

from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import (
    error_message_run,
    input_statistics_input_dataset,
    job_type_job,
    output_statistics_output_dataset,
)
from openlineage.client.uuid import generate_new_uuid
from psycopg.conninfo import conninfo_to_dict

from tiercel.pipeline.batch import Batch, QueueShare
from tiercel.pipeline.config import Pipeline
from tiercel.pipeline.tables import TableOptions

_PRODUCER: Final = "https://tiercel.example/"


class Lineage:
    """The events of one run: START, RUNNING for each batch, and how it ended."""

    def __init__(self, pipeline: Pipeline, client: OpenLineageClient | None = None) -> None:
        self._client = client or OpenLineageClient()
        self._run = str(generate_new_uuid())
        own, source = pipeline.pipeline, urlsplit(pipeline.url.split(",")[0])
        self._namespace = f"msmq://{source.netloc or source.path.lstrip('@')}"
        kind = "BATCH" if own.interval_s is None else "STREAMING"
        facet = job_type_job.JobTypeJobFacet(processingType=kind, integration="TIERCEL", jobType="PIPELINE")
        self._job = Job(self._namespace, own.name, facets={"jobType": facet})
        sections = [*pipeline.tables, *([pipeline.quarantine] if pipeline.quarantine else [])]
        self._tables = {str(each.options): _dataset_name(each.options) for each in sections}
        self._quarantine = str(pipeline.quarantine.options) if pipeline.quarantine else ""
        self._read: dict[str, tuple[int, int]] = dict.fromkeys(pipeline.queues, (0, 0))
        self._written = dict.fromkeys(self._tables, 0)

    def begin(self) -> None:
        self._emit(RunState.START)

    def add(self, batch: Batch) -> None:
        for queue, share in batch.queues.items():
            if share.rows or queue in self._read:
                self._read[queue] = _sum(self._read.get(queue, (0, 0)), share)
        for table, rows in batch.tables.items():
            self._written[table] += rows
        if self._quarantine:
            self._written[self._quarantine] += batch.quarantined
        self._emit(RunState.RUNNING)

    def end(self, problem: BaseException | None) -> None:
        if problem is None:
            self._emit(RunState.COMPLETE)
        else:
            self._emit(RunState.FAIL if isinstance(problem, Exception) else RunState.ABORT, problem)
        self._client.close()

    def _emit(self, state: RunState, problem: BaseException | None = None) -> None:
        run = Run(self._run)
        if problem is not None:
            words = str(problem) or type(problem).__name__
            run = Run(self._run, {"errorMessage": error_message_run.ErrorMessageRunFacet(words, "PYTHON")})
        event = RunEvent(
            eventTime=datetime.now(UTC).isoformat(),
            producer=_PRODUCER,
            run=run,
            job=self._job,
            eventType=state,
            inputs=list(self._inputs()),
            outputs=list(self._outputs()),
        )
        self._client.emit(event)

    def _inputs(self) -> Iterator[InputDataset]:
        statistics = input_statistics_input_dataset.InputStatisticsInputDatasetFacet
        for queue, (rows, size) in self._read.items():
            yield InputDataset(
                self._namespace, queue, inputFacets={"inputStatistics": statistics(rowCount=rows, size=size)}
            )

    def _outputs(self) -> Iterator[OutputDataset]:
        statistics = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet
        for table, rows in self._written.items():
            namespace, name = self._tables[table]
            yield OutputDataset(namespace, name, outputFacets={"outputStatistics": statistics(rowCount=rows)})


def _sum(before: tuple[int, int], share: QueueShare) -> tuple[int, int]:
    return before[0] + share.rows, before[1] + share.bytes


def _dataset_name(options: TableOptions) -> tuple[str, str]:
    """Namespace and name of a table, as the naming rules of OpenLineage have them; never with a password."""
    if options.format == "postgresql":
        return _postgres_name(options)
    place = urlsplit(options.place)
    name = f"#{options.name}" * bool(options.name)
    if place.scheme:
        return f"{place.scheme}://{place.netloc}", place.path.lstrip("/") + name
    return "file", options.place + name


def _postgres_name(options: TableOptions) -> tuple[str, str]:
    known = conninfo_to_dict(options.place)
    schema, _, table = options.name.rpartition(".")
    host = f"postgres://{known.get('host') or 'localhost'}:{known.get('port') or 5432}"
    return host, f"{known.get('dbname') or 'postgres'}.{schema or 'public'}.{table}"
