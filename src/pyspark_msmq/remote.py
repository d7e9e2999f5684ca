"""Queue managers without a data endpoint, such as Windows: `url=msmq-rpc://user@host`.

Everything goes over [MS-MQRR], message by message, in one partition. A batch read looks at each message with
a cursor. A stream claims by moving messages into the subqueue named as the consumer; the offset lists the
lookup ids that they have there, so that a batch can be read again after a crash:

    latestOffset(start)   receives what `start` lists: Spark has finished it
                          moves messages into the subqueue
                          lists what is there now; also what a crash left there before Spark had logged it
    read                  peeks at what the offset lists

What is in the subqueue and in no offset is new; so everything older is received before anything is moved, and
late acknowledgement (ackTiming=commit) is impossible. The driver opens another subqueue exclusively
(`consumer.lock`, always empty): a second driver of the same consumer is refused while the first one lives.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from pyspark_msmq import schema
from pyspark_msmq.admission import Budget
from pyspark_msmq.data_client import read_secret
from pyspark_msmq.offsets import OffsetError
from pyspark_msmq.options import BatchOptions, Connection, ReadOptions, StreamOptions
from pyspark_msmq.reading import lose
from tiercel import columns
from tiercel.client.remote import RemoteQueue, RemoteQueueManager, connect
from tiercel.model.errors import IoTimeoutError, MessageNotFoundError
from tiercel.model.message import Message

_BATCH_ROWS, _BATCH_BYTES = 1000, 8 << 20
_DEFAULT_ROWS: Final = 1000  # of a micro-batch: the offset lists them all
_MOST_ROWS: Final = 10_000


class RpcBatchReader(DataSourceReader):
    def __init__(self, options: BatchOptions, wanted: StructType) -> None:
        self._options = options
        self._names = schema.check(wanted, options)

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        where = columns.RowFilter.of_options(self._options.filters)
        with _connected(self._options) as remote:
            queue = _queue(remote, self._options)
            for messages in _grouped(queue.cursor()):
                yield _batch(messages, self._names, queue.path_name, where)


@dataclass(frozen=True)
class Listed(InputPartition):
    """The messages of one micro-batch, by their lookup ids in the subqueue."""

    ids: tuple[int, ...]
    before: int  # how many messages the stream had read


class RpcConsumeReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: StreamOptions, wanted: StructType) -> None:
        self._options = options
        self._names = schema.check(wanted, options)
        self._remote: RemoteQueueManager | None = None
        self._claims: _Claims | None = None
        self._left: int | None = None  # with availableNow: how many messages are still to be read

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return _offset(self._options, [], 0)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self._options.max_messages_per_trigger or _DEFAULT_ROWS)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._left = self._opened().count()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        self._check(start)
        claims, budget = self._opened(), Budget.of(limit, self._options)
        claims.check_alone()
        budget.rows = min(budget.rows, _MOST_ROWS, _MOST_ROWS if self._left is None else self._left)
        claims.acknowledge(ids_of(start))
        found = claims.listed()
        if not found and budget.rows > 0:
            wait_s = 0 if self._left is not None else self._options.poll_timeout_ms / 1000
            claims.move(budget, wait_s)
            found = claims.listed()
        if not found:
            return start
        if self._left is not None:
            self._left -= len(found)
        return _offset(self._options, found, start["n"] + len(found))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        if start["n"] == end["n"]:
            return []
        ids = tuple(ids_of(end))
        if end["n"] - len(ids) != start["n"]:
            raise OffsetError(
                "this batch spans several offsets, which msmq-rpc does not support. "
                "Do not use asynchronous progress tracking"
            )
        return [Listed(ids, start["n"])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Listed)
        with _connected(self._options) as remote:
            queue = _queue(remote, self._options)
            found = _peeked(queue.subqueue(self._options.consumer or ""), partition.ids)
            number, rows = partition.before, 0
            for messages in _grouped(found):
                seqs = range(number + rows + 1, number + rows + len(messages) + 1)
                rows += len(messages)
                yield _batch(messages, self._names, queue.path_name, None, seqs, self._options.consumer)
        if rows != len(partition.ids):
            lose(
                f"{queue.path_name};{self._options.consumer}: of {len(partition.ids)} messages of this "
                f"batch, {rows} are left; the others have expired or were received by another reader",
                fail=self._options.fail_on_data_loss,
            )

    def _check(self, start: dict[str, Any]) -> None:
        expected = _offset(self._options, [], 0)
        if {**start, "ids": [], "n": 0} != expected:
            raise OffsetError(
                f"the checkpoint is for consumer {start.get('c')!r} of {start.get('q')!r}, but the options "
                f"say {expected['c']!r} of {expected['q']!r}: use a new checkpointLocation"
            )

    def _opened(self) -> "_Claims":
        if self._claims is None:
            self._remote = _connect(self._options)
            queue = _queue(self._remote, self._options)
            self._claims = _Claims(self._remote, queue, self._options.consumer or "")
        return self._claims


class _Claims:
    """A queue and its subqueue, as opened by the driver."""

    def __init__(self, remote: RemoteQueueManager, queue: RemoteQueue, consumer: str) -> None:
        self._queue = queue
        self._name = consumer
        self._subqueue = queue.subqueue(consumer)
        self._lock = remote.queue(queue.subqueue(f"{consumer}.lock").format_name, exclusive=True)

    def check_alone(self) -> None:
        """Open the lock subqueue; the connection may have been lost since the last time."""
        with suppress(IoTimeoutError):
            self._lock.peek(0)

    def acknowledge(self, ids: Iterable[int]) -> None:
        for number in ids:
            with suppress(MessageNotFoundError):  # already done, before a crash
                self._subqueue.receive(lookup_id=number)

    def listed(self) -> list[int]:
        return [message.lookup_id for message in _looked_at(self._subqueue)]

    def count(self) -> int:
        return sum(1 for queue in (self._subqueue, self._queue) for _ in _looked_at(queue))

    def move(self, budget: Budget, wait_s: float) -> None:
        while not budget.is_spent:
            try:
                first = self._queue.peek(wait_s, max_body_size=0)
            except IoTimeoutError:
                return
            with suppress(MessageNotFoundError):  # another reader was faster
                self._queue.move(first, self._name)
                budget.take(1, first.body_size)
            wait_s = 0


def _looked_at(queue: RemoteQueue) -> Iterator[Message]:
    """Every message, without its body."""
    cursor = queue.cursor()
    read = cursor.peek
    with suppress(IoTimeoutError, MessageNotFoundError):
        while True:
            yield read(0, max_body_size=0)
            read = cursor.peek_next
    cursor.close()


def _peeked(queue: RemoteQueue, ids: Iterable[int]) -> Iterator[Message]:
    for number in ids:
        with suppress(MessageNotFoundError):
            yield queue.peek(lookup_id=number)


def _grouped(messages: Iterable[Message]) -> Iterator[list[Message]]:
    held: list[Message] = []
    size = 0
    for message in messages:
        held.append(message)
        size += len(message.body)
        if len(held) == _BATCH_ROWS or size >= _BATCH_BYTES:
            yield held
            held, size = [], 0
    if held:
        yield held


def _batch(
    messages: Sequence[Message],
    names: Sequence[str],
    queue: str,
    where: columns.RowFilter | None,
    seqs: Sequence[int] | None = None,
    subqueue: str | None = None,
) -> pa.RecordBatch:
    needed = dict.fromkeys([*names, *(where.columns if where else ())])
    batch = columns.of_messages(messages, needed, queue=queue, subqueue=subqueue, claim_seqs=seqs)
    return batch if where is None else batch.filter(where.mask(batch)).select(list(names))


# Offsets.


def _offset(options: StreamOptions, ids: Sequence[int], count: int) -> dict[str, Any]:
    queue = options.queue[0] if options.queue else options.source
    return {"c": options.consumer, "ids": runs_of(ids), "n": count, "q": queue, "v": 1}


def runs_of(ids: Sequence[int]) -> list[list[int]]:
    """[[first, how many], ...]: messages that were moved one after another have neighbouring ids."""
    runs: list[list[int]] = []
    for number in ids:
        if runs and number == sum(runs[-1]):
            runs[-1][1] += 1
        else:
            runs.append([number, 1])
    return runs


def ids_of(offset: dict[str, Any]) -> list[int]:
    return [number for first, count in offset["ids"] for number in range(first, first + count)]


# Connections.


def _connect(options: Connection) -> RemoteQueueManager:
    url = options.url
    password = read_secret(options.password_file, "passwordFile") if options.password_file else None
    return connect(url.host, user=url.user, password=password, keytab=options.keytab, port=url.port)


@contextmanager
def _connected(options: Connection) -> Iterator[RemoteQueueManager]:
    with _connect(options) as remote:
        yield remote


def _queue(remote: RemoteQueueManager, options: ReadOptions) -> RemoteQueue:
    match options.source:
        case "deadletter":
            return remote.dead_letters
        case "xactdeadletter":
            return remote.transactional_dead_letters
    assert options.queue is not None
    queue = remote.queue(options.queue[0])
    return queue.journal if options.source == "journal" else queue
