"""What has arrived, as somebody reads it who knows nothing of Spark or of us."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyiceberg.catalog.sql import SqlCatalog

from spark_soak.daemon import number_of
from spark_soak.steps import Sink


def numbers_in(sink: Sink, folder: Path) -> list[int]:
    """The messages in a table."""
    match sink:
        case Sink.PARQUET:
            tables = [pq.read_table(file, columns=["body"]) for file in folder.glob("**/*.parquet")]
        case Sink.DELTA:
            tables = [pq.read_table(uri, columns=["body"]) for uri in DeltaTable(folder).file_uris()]
        case Sink.ICEBERG:
            catalog = SqlCatalog(
                "tiercel", uri=f"sqlite:///{folder / 'catalog.db'}", warehouse=f"file://{folder}"
            )
            tables = [catalog.load_table("default.orders").scan(selected_fields=("body",)).to_arrow()]
            catalog.engine.dispose()
        case _:
            raise AssertionError(sink)
    return [number_of(body) for table in tables for body in table.column("body").to_pylist()]


def check(what: str, sent: int, found: Iterable[int]) -> None:
    """Every message once."""
    times = Counter(found)
    missing = sorted(set(range(sent)) - times.keys())
    doubled = sorted(number for number, count in times.items() if count > 1)
    assert not missing, f"{what}: {len(missing)} of {sent} are missing: {missing[:20]}"
    assert not doubled, f"{what}: {len(doubled)} of {sent} are doubled: {doubled[:20]}"
    assert len(times) == sent, f"{what}: {len(times)} are there, {sent} were sent"
