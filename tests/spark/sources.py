"""Data sources for tests; in a file of their own, because Spark's workers import it."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    EqualTo,
    Filter,
    InputPartition,
)
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from pyspark_msmq import DefaultSource
from pyspark_msmq.options import read_stream_options
from pyspark_msmq.partitions import Piece
from pyspark_msmq.stream_reader import ConsumeReader


class TracedSource(DefaultSource):
    """Writes down what Spark asks, and what stood in Spark's own logs at that moment."""

    @classmethod
    def name(cls) -> str:
        return "msmq_traced"

    def __init__(self, options: Any) -> None:
        self._trace = Trace(options.pop("trace"), options.pop("checkpoint"))
        super().__init__(options)

    def streamReader(self, schema: StructType) -> ConsumeReader:  # noqa: N802
        return TracedReader(self._trace, read_stream_options(self.options), schema)


class Trace:
    def __init__(self, file: str, checkpoint: str) -> None:
        self._file = Path(file)
        self._checkpoint = Path(checkpoint)

    def write(self, what: str) -> None:
        logs = " ".join(f"{log}={self._newest(log)}" for log in ("offsets", "commits"))
        with self._file.open("a", encoding="utf-8") as file:
            file.write(f"{what} [{logs}]\n")

    def _newest(self, log: str) -> str:
        folder = self._checkpoint / log
        names = [file.name for file in folder.iterdir()] if folder.exists() else []
        return str(max((int(name) for name in names if name.isdigit()), default="none"))


class TracedReader(ConsumeReader):
    def __init__(self, trace: Trace, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._trace = trace

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        self._trace.write("initialOffset")
        return super().initialOffset()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        found = super().latestOffset(start, limit)
        if found != start:
            self._trace.write(f"latestOffset {type(limit).__name__} {_hi(start)} -> {_hi(found)}")
        return found

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        self._trace.write(f"partitions {_hi(start)}..{_hi(end)}")
        return super().partitions(start, end)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, Piece)
        self._trace.write(f"read {partition.lo}..{partition.hi}")
        return super().read(partition)

    def commit(self, end: dict[str, Any]) -> None:
        self._trace.write(f"commit {_hi(end)}")
        super().commit(end)

    def stop(self) -> None:
        self._trace.write("stop")


def _hi(offset: dict[str, Any]) -> int:
    return max((queue["hi"] for queue in offset["q"].values()), default=0)


class FilteringSource(DataSource):
    """Ten rows, half of them `a` and half `b`, and a reader that filters them itself."""

    @classmethod
    def name(cls) -> str:
        return "filtering"

    def schema(self) -> str:
        return "label string"

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002
        return FilteringReader()


class FilteringReader(DataSourceReader):
    def __init__(self) -> None:
        self._wanted: set[str] = {"a", "b"}

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        for each in filters:
            if isinstance(each, EqualTo):
                self._wanted &= {each.value}
            else:
                yield each

    def read(self, partition: InputPartition) -> Iterator[tuple[str]]:  # noqa: ARG002
        return iter([(label,) for label in "ababababab" if label in self._wanted])
