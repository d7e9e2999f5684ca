"""Parquet files that a table's log names, read by the executors: Spark has no Delta or Iceberg without their
jars.
"""

import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from tiercel.pipeline.tables.file_systems import open_parquet


class Fragment(NamedTuple):
    path: str
    partition: Mapping[str, Any]


def read_fragments(spark: SparkSession, fragments: Sequence[Fragment], schema: pa.Schema) -> DataFrame:
    """All rows of the files, in the columns of `schema`: from the file, its partition, or null."""
    shown = from_arrow_schema(schema)
    if not fragments:
        return spark.createDataFrame([], shown)
    texts = [(each.path, json.dumps(dict(each.partition), default=str)) for each in fragments]
    parts = min(len(texts), max(spark.sparkContext.defaultParallelism * 4, len(texts) // 64))
    files = spark.createDataFrame(texts, "path string, partition string").repartition(parts)
    return files.mapInArrow(functools.partial(_read, schema), shown)


def _read(schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for row in batch.to_pylist():
            partition = json.loads(row["partition"])
            with open_parquet(row["path"]) as file:
                for rows in file.iter_batches(batch_size=10_000):
                    yield _shaped(rows, partition, schema)


def _shaped(rows: pa.RecordBatch, partition: Mapping[str, Any], schema: pa.Schema) -> pa.RecordBatch:
    columns = []
    for each in schema:
        if each.name in rows.schema.names:
            column = rows.column(each.name)
        elif partition.get(each.name) is not None:
            column = pa.array([str(partition[each.name])] * rows.num_rows, pa.string())
        else:
            column = pa.nulls(rows.num_rows, each.type)
        columns.append(column.cast(each.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)
