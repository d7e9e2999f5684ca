"""The steps of a micro-batch, in order, and who may die there."""

from enum import StrEnum


class Step(StrEnum):
    CLAIM = "claim"  # the messages are claimed; nobody on Spark's side knows it yet
    OFFSET_LOG = "offset log"  # offsets/N is written; nothing is read
    READ = "read"  # half of an answer has come
    WRITE = "write"  # one task has its rows, or has staged them
    WRITTEN = "written"  # all rows are where the sink is; it has not committed them
    COMMITTED = "committed"  # the sink has; Spark does not know it
    COMMIT_LOG = "commit log"  # commits/N is written; the messages are still claimed
    ACK = "ack"  # they are gone; nobody on Spark's side knows it yet

    @property
    def is_within_a_batch(self) -> bool | None:
        """Whether the newest batch of Spark is unfinished then; a claim ahead may be anywhere."""
        return None if self is Step.CLAIM else self not in {Step.COMMIT_LOG, Step.ACK}


class Victim(StrEnum):
    DRIVER = "driver"  # its Python and its JVM, with the executor in it
    WORKER = "worker"  # the Python process that is at this step, be it of a task or of the source
    DATA_PROCESS = "data process"
    QUEUE_MANAGER = "queue manager"


class Sink(StrEnum):
    PARQUET = "parquet"
    DELTA = "delta"
    ICEBERG = "iceberg"
    QUEUE = "queue"


TABLES = (Sink.PARQUET, Sink.DELTA, Sink.ICEBERG)
