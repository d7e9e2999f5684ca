"""What waits in the queues of a pipeline, asked of the queue manager."""

from collections.abc import Iterator
from typing import Any, Final, TypedDict

from pyspark_msmq.data_client import DataClient, EndpointError
from pyspark_msmq.options import StreamOptions

# Short, so that a plan reports an unreachable queue manager at once.
_PATIENCE_S: Final = 5.0


class Waiting(TypedDict):
    """The messages of a queue, and those claimed and unfinished."""

    queue: str
    guid: str
    bytes: int
    waiting: int
    claimed: int
    oldest: str | None  # arrival of the oldest that is not claimed


def queues(options: StreamOptions, patience_s: float = _PATIENCE_S) -> Iterator[Waiting]:
    """The queues of a source; raises `EndpointError` if a queue manager does not answer."""
    for endpoint in options.endpoints:
        with DataClient(endpoint, patience_s=patience_s) as client:
            for name in _names(client, options.of(endpoint)):
                head = _head(client, name, options)
                yield _waiting(head, name if len(options.endpoints) == 1 else head["queue"])


def _names(client: DataClient, options: StreamOptions) -> tuple[str, ...]:
    if options.queue is not None:
        return options.queue
    found = client.queues(options.queue_pattern, options.source)["queues"]
    return tuple(each["queue"] for each in found)


def _waiting(head: dict[str, Any], name: str) -> Waiting:
    consumer = head.get("consumer", {})
    return {
        "queue": name,
        "guid": head["guid"],
        "bytes": head["bytes"],
        "waiting": consumer.get("visible", head["count"]),
        "claimed": consumer.get("hi", 0) - consumer.get("floor", 0),
        "oldest": head.get("oldest"),
    }


def _head(client: DataClient, queue: str, options: StreamOptions) -> dict[str, Any]:
    """The state of a queue, including the consumer's claims if it has ever connected."""
    try:
        return client.head(queue, options.source, consumer=options.consumer)
    except EndpointError as problem:
        if problem.code != "TIERCEL_ERROR_CONSUMER_NOT_FOUND":
            raise
        return client.head(queue, options.source)
