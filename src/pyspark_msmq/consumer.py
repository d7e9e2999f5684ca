"""The driver's side of a consumer at one queue manager: attaches once, claims messages and acknowledges them.

Attaching gets a new epoch from the queue manager, which then refuses older drivers of the same consumer, so
that two drivers never share a checkpoint unnoticed.
"""

from dataclasses import dataclass
from typing import Any, Final

from pyspark_msmq.admission import Budget
from pyspark_msmq.data_client import DataClient, EndpointError
from pyspark_msmq.endpoints import Endpoint
from pyspark_msmq.offsets import Offset, OffsetError, Offsets, Reached, Span
from pyspark_msmq.options import StreamOptions
from pyspark_msmq.positions import claimed_names
from pyspark_msmq.reading import lose

_CLAIM_ROWS: Final = 50_000  # per request, to keep requests short
_CONFLICT: Final = 409


class FencedError(RuntimeError):
    """Another driver has taken over this consumer."""


@dataclass(slots=True)
class ConsumerQueue:
    """The driver's view of a queue of this consumer."""

    name: str  # as the options have it
    path: str  # with the computer's name
    guid: str
    epoch: int  # accepted by the stream
    floor: int  # everything up to here is acknowledged
    hi: int  # the highest number ever claimed
    is_begun: bool = False


@dataclass(frozen=True, slots=True)
class Waiting:
    """What is left to claim of a queue."""

    path: str
    guid: str
    epoch: int
    hi: int  # the last claimed number
    count: int


class Consumer:
    """Not thread-safe, except for `waiting` and `commit`, which have a connection of their own."""

    def __init__(self, options: StreamOptions, endpoint: Endpoint, *, patience_s: float) -> None:
        assert options.consumer is not None
        self._options = options
        self.endpoint = endpoint
        self._client = DataClient(endpoint, patience_s=patience_s)
        self._looks = DataClient(endpoint, patience_s=patience_s)  # for Spark, while messages are claimed
        self.name = options.consumer
        self.queue_manager = ""
        self.queues: dict[str, ConsumerQueue] = {}  # by guid
        self._epoch: int | None = None
        self._is_new = True  # the checkpoint
        self._attached: set[str] = set()
        self._acknowledged: dict[str, int] = {}
        self._gone: set[str] = set()

    # Attaching.

    def ends(self) -> dict[str, int]:
        """The last number of each queue if all its messages were claimed now; attaches nobody."""
        answer = self._client.look(self.name, claimed_names(self._client, self._options))
        self.queue_manager = answer["qm"]
        return {found["guid"]: found["hi"] + found["count"] for found in answer["queues"].values()}

    @property
    def is_attached(self) -> bool:
        return self._epoch is not None

    def is_leaving(self, checkpoint: Offsets) -> bool:
        """Whether the stream has nothing to do with this queue manager any more."""
        return self.endpoint.drain and self.queue_manager not in checkpoint.parts

    def check(self, checkpoint: Offsets) -> None:
        """Refuse a checkpoint that does not fit; fences nobody."""
        answer = self._client.look(self.name, claimed_names(self._client, self._options))
        self.queue_manager = answer["qm"]
        checkpoint.check_belongs(self.name)
        part = checkpoint.part(self.queue_manager)
        if self.is_leaving(checkpoint):
            return
        queues = _queues(answer)
        if not part.queues and answer["others"] and not self._options.resume_consumer:
            raise OffsetError(
                f"consumer {self.name} has claimed messages of {', '.join(answer['others'])} already, and "
                "this checkpoint is new. Use a consumer of its own for each source and each query"
            )
        if self._options.fail_on_data_loss:
            for guid in sorted(part.queues.keys() - {queue.guid for queue in queues}):
                self._lose_queue(guid)
        for queue in queues:
            self._check_fits(queue, part, is_new=not checkpoint.parts)

    def attach(self, checkpoint: Offsets, *, look_again: bool = False) -> None:
        """Take over the consumer; `look_again` only adds queues that newly match the pattern.

        A checkpoint that does not fit is refused before the running driver is fenced.
        """
        self._is_new = not checkpoint.parts
        if self._epoch is not None and not (look_again and self._options.queue_pattern):
            return
        names = claimed_names(self._client, self._options)
        if self._epoch is not None and self._attached.issuperset(names):
            return
        if self._epoch is None:
            self.check(checkpoint)
            if self.is_leaving(checkpoint):
                return
        answer = self._ours(self._client.attach, self.name, names, self._epoch)
        self._epoch, self.queue_manager = answer["epoch"], answer["qm"]
        self._attached.update(names)
        for queue in _queues(answer):
            self.queues.setdefault(queue.guid, queue)

    def confirm(self) -> None:
        """Check that no other driver has taken over the consumer."""
        self._ours(self._client.attach, self.name, (), self._epoch)

    def begin(self, start: Offset) -> Offset:
        """The position to claim from: that of the checkpoint, after checking it."""
        offset = Offset(self.queue_manager, self.name, start.queues)
        for guid in sorted(start.queues.keys() - self.queues.keys()):
            self._lose_queue(guid)
        for queue in self.queues.values():
            offset = self._begin_queue(offset, queue, start)
        return offset

    def _begin_queue(self, offset: Offset, queue: ConsumerQueue, start: Offset) -> Offset:
        reached = offset.queues.get(queue.guid)
        if not queue.is_begun:
            self._check_fits(queue, start, is_new=self._is_new)
            queue.is_begun = True
            if reached is not None:
                queue.epoch = reached.epoch
        if (reached.hi if reached else 0) >= queue.floor:
            return offset
        size = reached.size_bytes if reached else 0
        return offset.with_queue(queue.guid, Reached(queue.epoch, queue.floor, size, lo=queue.floor))

    def _check_fits(self, queue: ConsumerQueue, checkpoint: Offset, *, is_new: bool) -> None:
        """Check that the checkpoint fits the consumer: what it would replay must still exist."""
        reached = checkpoint.queues.get(queue.guid)
        if reached is None:
            self._check_new(queue, is_new=is_new)
            return
        if reached.hi > queue.hi:
            raise OffsetError(
                f"{queue.path}: the checkpoint is at message {reached.hi} of consumer {self.name}, the "
                f"queue manager only at {queue.hi}: it was restored from an older copy. Use a new "
                "checkpointLocation and set resumeConsumer=true"
            )
        if reached.hi < queue.floor:
            lose(
                f"{queue.path}: the checkpoint is at message {reached.hi} of consumer {self.name}, but "
                f"messages up to {queue.floor} were acknowledged or released: it was restored from an "
                "older copy, or an operator released them",
                fail=self._options.fail_on_data_loss,
            )

    def _check_new(self, queue: ConsumerQueue, *, is_new: bool) -> None:
        """A queue that is not in the checkpoint: another query may be reading what is claimed of it.

        In a checkpoint that is not new, the queue is: claims beyond it are of a run that died before its log.
        """
        if self._options.resume_consumer:
            return
        if queue.floor:
            raise OffsetError(
                f"{queue.path}: consumer {self.name} has read {queue.floor} messages already, and this "
                "checkpoint is new. If the old one is lost, set resumeConsumer=true to continue "
                "after them; for an independent stream, use another consumer"
            )
        if queue.hi and is_new:
            raise OffsetError(
                f"{queue.path}: consumer {self.name} has claimed {queue.hi} messages already, and this "
                "checkpoint is new: another query may be reading them. For an independent stream, use "
                "another consumer; if no other query runs, set resumeConsumer=true to read them"
            )

    def queue_of(self, span: Span) -> str | None:
        """The name of the queue of a batch; None if it is gone and that is allowed."""
        if span.guid in self.queues:
            return self.queues[span.guid].name
        self._lose_queue(span.guid)
        return None

    def _lose_queue(self, guid: str) -> None:
        if guid not in self._gone:
            lose(
                f"the queue {guid} of the checkpoint is gone: it was deleted or recreated, or the options "
                "queue and queuePattern no longer select it; its messages are lost to this stream",
                fail=self._options.fail_on_data_loss,
            )
            self._gone.add(guid)

    # Claiming.

    def claim(self, offset: Offset, budget: Budget, ends: dict[str, int], wait_ms: int = 0) -> Offset:
        """Claim messages until the budget is spent or each queue is at its end.

        `ends` has the last number of each queue for this batch; missing ones are filled in, so that a steady
        sender does not make a batch endless.
        """
        busy = list(self.queues.values())
        while busy and not budget.is_spent:
            share = max(budget.rows // len(busy), 1)
            for queue in list(busy):
                if budget.is_spent:
                    break
                before = offset.queues.get(queue.guid)
                offset, visible = self._claim(offset, queue, budget, share, ends.get(queue.guid), wait_ms)
                after = offset.queues.get(queue.guid)
                hi = after.hi if after else 0
                end = ends.setdefault(queue.guid, hi + visible)
                if after == before or hi >= end:
                    busy.remove(queue)
            wait_ms = 0
        return offset

    def _claim(
        self, offset: Offset, queue: ConsumerQueue, budget: Budget, share: int, end: int | None, wait_ms: int
    ) -> tuple[Offset, int]:
        reached = offset.queues.get(queue.guid) or Reached(queue.epoch, 0)
        limit = min(share, _CLAIM_ROWS, _CLAIM_ROWS if end is None else end - reached.hi)
        if limit <= 0:
            return offset, 0
        answer = self._ours(
            self._client.claim,
            self.name,
            epoch=self._epoch,
            queue=queue.name,
            start=reached.hi,
            limit=limit,
            bytes=budget.size_bytes,
            wait_ms=wait_ms,
        )
        self._check_epoch(queue, answer["e"])
        queue.hi = hi = answer["hi"]
        if hi == reached.hi:
            return offset, 0
        size = answer["weights"][-1][1] if answer["weights"] else 0
        budget.take(hi - reached.hi, size)
        if hi - reached.hi < limit and answer["visible"]:
            budget.close()  # the next message is too large for what is left
        claimed = Reached(answer["e"], hi, reached.size_bytes + size, reached.lo)
        return offset.with_queue(queue.guid, claimed), answer["visible"]

    def _check_epoch(self, queue: ConsumerQueue, epoch: int) -> None:
        if queue.epoch != epoch:
            lose(
                f"{queue.path} was purged: messages that this stream has not seen are gone",
                fail=self._options.fail_on_data_loss,
            )
            queue.epoch = epoch

    # Acknowledging.

    def acknowledge(self, offset: Offset) -> None:
        """Acknowledge everything up to the offset; repeating this has no effect."""
        self._acknowledge(self._client, offset)

    def commit(self, offset: Offset) -> None:
        """The same, while messages are being claimed."""
        self._acknowledge(self._looks, offset)

    def _acknowledge(self, client: DataClient, offset: Offset) -> None:
        for guid, reached in offset.queues.items():
            queue = self.queues.get(guid)
            if queue is None or reached.hi <= self._acknowledged.get(guid, 0):
                continue
            self._ours(client.acknowledge, self.name, self._epoch, queue.name, reached.hi)
            self._acknowledged[guid] = reached.hi

    def is_acknowledged(self, offset: Offset) -> bool:
        return all(
            reached.hi <= self._acknowledged.get(guid, 0)
            for guid, reached in offset.queues.items()
            if guid in self.queues
        )

    def is_drained(self, offset: Offset) -> bool:
        """Whether nothing is claimed but what the offset has, and that is acknowledged."""
        reached = {guid: found.hi for guid, found in offset.queues.items()}
        is_all = all(queue.hi <= reached.get(guid, queue.floor) for guid, queue in self.queues.items())
        return self.is_attached and is_all and self.is_acknowledged(offset)

    # Lag.

    def waiting(self) -> list[Waiting]:
        """For each queue, the last claimed number and the number of messages left to claim."""
        found = []
        for queue in list(self.queues.values()):
            consumer = self._looks.head(queue.name, consumer=self.name)["consumer"]
            found.append(Waiting(queue.path, queue.guid, queue.epoch, consumer["hi"], consumer["visible"]))
        return found

    def close(self) -> None:
        self._client.close()
        self._looks.close()

    def _ours(self, call: Any, *arguments: Any, **more: Any) -> Any:
        try:
            return call(*arguments, **more)
        except EndpointError as problem:
            if problem.status == _CONFLICT and "FENCED" in problem.code:
                raise FencedError(
                    f"another driver has taken over consumer {self.name}, or an operator released its "
                    f"messages; this one stops ({problem})"
                ) from problem
            raise


def _queues(answer: dict[str, Any]) -> list[ConsumerQueue]:
    return [
        ConsumerQueue(name, found["queue"], found["guid"], found["e"], found["floor"], found["hi"])
        for name, found in answer["queues"].items()
    ]
