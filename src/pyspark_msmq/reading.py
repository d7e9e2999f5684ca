"""Reads a piece in a task: passes Arrow batches to Spark and counts the messages.

Reading has no side effects: a piece may be read twice, concurrently, or again after a crash.
"""

import logging
import math
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

import pyarrow as pa

from pyspark_msmq.data_client import PATIENCE_S, DataClient, EndpointLostError
from pyspark_msmq.options import ReadOptions, StreamOptions
from pyspark_msmq.partitions import Piece
from pyspark_msmq.quick_workers import spare_imports

T = TypeVar("T")
log = logging.getLogger(__name__)
_PAUSE_S: Final = 0.5
_ATTEMPTS: Final = 5
_THREADS: Final = 16
_ERROR: Final = "decode_error"
_NUMBER: Final = "claim_seq"


class DataLossError(RuntimeError):
    """Report missing messages; with `failOnDataLoss=false` only log them."""


def lose(text: str, *, fail: bool) -> None:
    if fail:
        raise DataLossError(f"{text}. To continue without them, set failOnDataLoss=false")
    log.warning("%s; failOnDataLoss=false, so the job continues", text)


def read_piece(
    options: ReadOptions, names: Sequence[str], piece: Piece, consumer: str | None = None
) -> Iterator[pa.RecordBatch]:
    """The messages of a piece; the next batch is fetched while Spark takes this one."""
    spare_imports()
    return _fetched_ahead(_batches(options, names, piece, consumer))


def read_small(
    options: ReadOptions, names: Sequence[str], pieces: Sequence[Piece], consumer: str | None
) -> Iterator[pa.RecordBatch]:
    """The messages of small pieces, which are read side by side and yielded in their order."""
    spare_imports()
    for found in side_by_side(lambda piece: list(_batches(options, names, piece, consumer)), pieces):
        yield from found


def side_by_side(read: Callable[[Piece], T], pieces: Sequence[Piece]) -> Iterator[T]:
    with ThreadPoolExecutor(min(len(pieces), _THREADS)) as threads:
        yield from threads.map(read, pieces)


def _fetched_ahead(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    with ThreadPoolExecutor(1) as thread:
        coming = thread.submit(next, batches, None)
        while (batch := coming.result()) is not None:
            coming = thread.submit(next, batches, None)
            yield batch


def _batches(
    options: ReadOptions, names: Sequence[str], piece: Piece, consumer: str | None
) -> Iterator[pa.RecordBatch]:
    """After a lost connection, continue a claim after the last number read."""
    asked = [*names, *_besides(options, names, consumer)]
    rows, failures, reached, is_done = 0, 0, piece.lo, False
    # A batch that is in Spark's log can only wait for its queue manager.
    waits = isinstance(options, StreamOptions) and options.waits_for_managers
    with DataClient(piece.endpoint, patience_s=math.inf if waits else PATIENCE_S) as client:
        while not is_done:
            try:
                for batch in client.range(_query(options, asked, piece, consumer, reached)):
                    rows, failures = rows + batch.num_rows, 0
                    if consumer is not None and batch.num_rows:
                        reached = batch.column(_NUMBER)[-1].as_py()
                    yield (_readable(batch) if options.bad_message_mode == "skip" else batch).select(names)
                is_done = True
            except EndpointLostError:
                failures += 1
                if (rows and consumer is None) or failures == _ATTEMPTS:
                    raise
                time.sleep(_PAUSE_S * failures)
    if piece.rows is not None and rows != piece.rows:
        lose(_missing(piece, rows, consumer), fail=options.fail_on_data_loss)


def _besides(options: ReadOptions, names: Sequence[str], consumer: str | None) -> list[str]:
    """Internal columns: undecodable messages, and the position to continue from."""
    besides = [_ERROR] if options.bad_message_mode == "skip" else []
    return besides if consumer is None or _NUMBER in names else [*besides, _NUMBER]


def _query(
    options: ReadOptions, asked: Sequence[str], piece: Piece, consumer: str | None, reached: int
) -> dict[str, object]:
    place = {"consumer": consumer} if consumer else {"from": options.source}
    # Skipping is done here, where all messages are counted.
    mode = options.bad_message_mode
    bad = {} if options.source == "discards" else {"badMessageMode": "column" if mode == "skip" else mode}
    return {
        "queue": piece.queue,
        **place,
        "lo": reached,
        "hi": piece.hi,
        "columns": ",".join(asked),
        **bad,
        **options.filters,
    }


def _readable(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Only the decodable messages."""
    errors = batch.column(_ERROR)
    for error in errors.drop_null().to_pylist():
        log.warning("badMessageMode=skip: %s", error)
    return batch.filter(errors.is_null())


def _missing(piece: Piece, rows: int, consumer: str | None) -> str:
    wanted = piece.rows or 0
    if consumer is None:
        return (
            f"{piece}: {wanted} were present when this DataFrame was planned, {rows} are left; others were "
            "received or have expired since. Load the DataFrame again"
        )
    return (
        f"{piece}: of {wanted} messages claimed by consumer {consumer}, {rows} are left. The others were "
        "acknowledged, or released by an operator, so the checkpoint cannot be replayed"
    )
