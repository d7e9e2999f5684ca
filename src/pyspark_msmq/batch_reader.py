"""Batch reads: the messages present when the read is planned; nothing is removed."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from pyspark_msmq import schema
from pyspark_msmq.data_client import DataClient
from pyspark_msmq.endpoints import Endpoint
from pyspark_msmq.options import BatchOptions
from pyspark_msmq.partitions import Piece, how_many
from pyspark_msmq.positions import place_of, queue_names
from pyspark_msmq.reading import read_piece

_THREADS: Final = 32  # that ask queue managers at a time


class BatchReader(DataSourceReader):
    # No `pushFilters`: Spark 4.2 and 4.3 keep the filters of one query for the next one.

    def __init__(self, options: BatchOptions, wanted: StructType) -> None:
        self._options = options
        self._names = schema.check(wanted, options)

    def partitions(self) -> list[InputPartition]:
        """Fixed ranges; messages that arrive later are not included."""
        endpoints = self._options.endpoints
        with ThreadPoolExecutor(min(len(endpoints), _THREADS)) as threads:
            pieces = [piece for found in threads.map(self._pieces, endpoints) for piece in found]
        return [*pieces] or [Piece(endpoints[0], None, 0, 0)]

    def _pieces(self, endpoint: Endpoint) -> list[Piece]:
        with DataClient(endpoint) as client:
            queues = queue_names(client, self._options.of(endpoint))
            return [piece for queue in queues for piece in self._cut(client, endpoint, queue)]

    def _cut(self, client: DataClient, endpoint: Endpoint, queue: str | None) -> Iterator[Piece]:
        options = self._options
        head = client.head(queue, options.source)
        lo = place_of(client, queue, options, options.starting_position, head, is_start=True)
        hi = place_of(client, queue, options, options.ending_position, head, is_start=False)
        if hi <= lo or not head["count"]:
            return
        if options.source == "discards":  # a bounded ledger: new entries replace the oldest
            yield Piece(endpoint, queue, lo, hi)
            return
        pieces = how_many(head["count"], head["bytes"], options)
        for end, rows, _ in client.cuts(queue, options.source, lo, hi, rows=-(-head["count"] // pieces)):
            yield Piece(endpoint, queue, lo, end, None if options.filters else rows)
            lo = end

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Piece)
        if partition.hi > partition.lo:
            yield from read_piece(self._options, self._names, partition)
