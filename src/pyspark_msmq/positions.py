"""Resolves the queues of a read, and positions in a queue."""

from typing import Any

from pyspark_msmq.data_client import DataClient
from pyspark_msmq.options import Position, ReadOptions

_SEQUENCE = (1 << 56) - 1  # a lookup id has the priority above its sequence

_SYSTEM_QUEUES = {"deadletter": r".\system$;deadletter", "xactdeadletter": r".\system$;deadxact"}


def queue_names(client: DataClient, options: ReadOptions) -> list[str | None]:
    """The queue names; [None] for sources of the whole queue manager."""
    if not options.needs_queue:
        return [None]
    if options.queue:
        return list(options.queue)
    return [found["queue"] for found in client.queues(options.queue_pattern, options.source)["queues"]]


def claimed_names(client: DataClient, options: ReadOptions) -> list[str]:
    """The same for a consumer, with the names of journals and dead-letter queues."""
    if options.source in _SYSTEM_QUEUES:
        return [_SYSTEM_QUEUES[options.source]]
    suffix = ";journal" if options.source == "journal" else ""
    return [f"{name}{suffix}" for name in queue_names(client, options) if name is not None]


def place_of(
    client: DataClient,
    queue: str | None,
    options: ReadOptions,
    position: Position,
    head: dict[str, Any],
    *,
    is_start: bool,
) -> int:
    """The sequence after which to start, or with which to end; a message given by id is included."""
    match position.kind:
        case "earliest":
            return int(head["lo"])
        case "latest":
            return int(head["hi"])
        case "lookup_id":
            return (int(position.value) & _SEQUENCE) - is_start
        case _:  # a start time is inclusive, an end time exclusive
            return int(client.head(queue, options.source, time=position.value)["at"])
