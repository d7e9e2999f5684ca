"""Which queues a read means, and which place in a queue a position means."""

from typing import Any

from pyspark_msmq.data_client import DataClient
from pyspark_msmq.options import Position, ReadOptions

_SEQUENCE = (1 << 56) - 1  # a lookup id has the priority above its sequence

_SYSTEM_QUEUES = {"deadletter": r".\system$;deadletter", "xactdeadletter": r".\system$;deadxact"}


def queue_names(client: DataClient, options: ReadOptions) -> list[str | None]:
    """The queues by name; [None] for what belongs to the whole queue manager."""
    if not options.needs_queue:
        return [None]
    if options.queue:
        return list(options.queue)
    return [found["queue"] for found in client.queues(options.queue_pattern, options.source)["queues"]]


def claimed_names(client: DataClient, options: ReadOptions) -> list[str]:
    """The same for a consumer, which claims from a journal or from dead letters by their own names."""
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
    """The sequence after which to start, or with which to end; a message that is named is read."""
    match position.kind:
        case "earliest":
            return int(head["lo"])
        case "latest":
            return int(head["hi"])
        case "lookup_id":
            return (int(position.value) & _SEQUENCE) - is_start
        case _:  # what arrives at that very time is read by who starts there, not by who ends there
            return int(client.head(queue, options.source, time=position.value)["at"])
