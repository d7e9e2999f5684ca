"""A transport for tests: it carries HTTP names in posts, one post at a time for each queue.

A post is a run of messages. Its answer says how many of them were dealt with and how far their stream has
come; a post that fails is sent again later. Everything that makes this exactly-once is the engine's.
"""

from dataclasses import dataclass, field

from tiercel.engine.arrivals import Source
from tiercel.engine.core import Effect
from tiercel.engine.engine import Engine
from tiercel.engine.queue_state import QueueState
from tiercel.engine.taken import Taken
from tiercel.model.codes import ConnectionStatus, MessageClass, OutgoingQueueState
from tiercel.model.format_name import DirectFormatName, FormatName
from tiercel.model.message import Message
from tiercel.model.queue import OutgoingQueue
from tiercel.wire.alike import Alike
from tiercel.wire.user_message import UserMessage

RETRY_S = 5.0
_RUN = 16


@dataclass(frozen=True)
class Post:
    number: int
    host: str
    packets: tuple[bytes, ...]


@dataclass(frozen=True)
class Answer:
    """To a post that came in: for `post` of the connection that it came on."""

    post: object
    count: int
    streams: frozenset[tuple[int, int]]  # (sequence, number): taken up to here


@dataclass
class HttpCarrier:
    engine: Engine
    now: float = 0.0
    actions: list[Post | Answer] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._queues = self.engine.carriers.register(self)
        self._posts: dict[int, list[Taken]] = {}  # under way
        self._waiting: dict[QueueState, float] = {}  # until when, after a failure
        self._number = 0

    # A carrier.

    kinds = ("DIRECT=HTTP", "DIRECT=HTTPS")

    @staticmethod
    def carries(name: FormatName) -> bool:
        return isinstance(name, DirectFormatName) and name.is_http

    def check(self, message: Message) -> None: ...

    def paused(self, queue: QueueState) -> None:
        """A post that is under way ends as it may."""

    def resumed(self, queue: QueueState) -> None:
        """The engine has it ready again."""

    def message_failed(self, queue: QueueState, reason: MessageClass) -> None:
        assert reason is MessageClass.NACK_COULD_NOT_ENCRYPT
        self._note(queue, ConnectionStatus.CERTIFICATE_VALIDATION_FAILURE)

    # A machine.

    def begin(self, now: float) -> None:
        self.now = now

    def flush(self) -> None:
        for queue in [queue for queue, at in self._waiting.items() if at <= self.now]:
            del self._waiting[queue]
            self.engine.outgoing.wake(queue)
        for queue in self._queues.take_ready():
            busy = {run[0].queue for run in self._posts.values()}
            if queue not in busy and queue not in self._waiting:
                self._post(queue)

    def finish(self, effects: list[Effect]) -> list[Effect]:
        return effects

    def take_actions(self) -> list[Post | Answer]:
        actions, self.actions = self.actions, []
        return actions

    @property
    def next_deadline(self) -> float | None:
        return self.now if self._queues.has_ready else min(self._waiting.values(), default=None)

    # Sending.

    def _post(self, queue: QueueState) -> None:
        run = [each for taken in self.engine.outgoing.take(queue, _RUN) for each in taken.singles()]
        if not run:
            return
        self._number += 1
        self._posts[self._number] = run
        packets, previous = [], 0
        for taken in run:
            packets.append(taken.packet.with_previous(previous) if taken.number else taken.packet.data)
            previous = taken.number or previous
        outgoing = queue.queue
        assert isinstance(outgoing, OutgoingQueue)
        assert isinstance(outgoing.destination_format_name, DirectFormatName)
        outgoing.state = OutgoingQueueState.CONNECTED
        self.actions.append(Post(self._number, outgoing.destination_format_name.host, tuple(packets)))

    def answered(self, number: int, count: int, streams: frozenset[tuple[int, int]]) -> None:
        """A post has its answer."""
        run, outgoing = self._posts.pop(number, []), self.engine.outgoing
        for sequence, up_to in streams:
            queue = outgoing.queue_of(sequence)
            if queue is not None:
                outgoing.order_acked(queue, up_to)
        done = [each for each in run[:count] if not each.number]
        ordered = [
            each
            for each in run
            if outgoing.stream(each.queue).confirms(each.sequence, each.number) and each.number
        ]
        outgoing.delivered(done)
        outgoing.ordered(ordered)
        outgoing.give_back(each for each in run if each not in done and each not in ordered)
        for queue in {each.queue for each in run}:
            outgoing.wake(queue)

    def failed(self, number: int) -> None:
        """A post got no answer: whether it arrived is not known."""
        run = self._posts.pop(number, [])
        self.engine.outgoing.give_back(run)
        for queue in {each.queue for each in run if not each.queue.is_deleted}:
            self._waiting[queue] = self.now + RETRY_S
            self._note(queue, ConnectionStatus.SOCKET_CONNECT_FAILURE)

    def _note(self, queue: QueueState, status: ConnectionStatus) -> None:
        assert isinstance(queue.queue, OutgoingQueue)
        if queue.queue.state is OutgoingQueueState.CONNECTED:
            queue.queue.state = OutgoingQueueState.WAITING
        self._queues.note(queue.queue, status)

    # Receiving.

    def received(self, post: object, source: Source, packets: tuple[bytes, ...]) -> None:
        """A post came in; its answer leaves after the commit."""
        arrivals, _ = self.engine.arrivals.arrive([Alike(UserMessage(data)) for data in packets], source)
        streams = {each.stream for each in arrivals if each.stream is not None and each.stream.sequence}
        facts = frozenset((each.sequence, each.number) for each in streams)
        self.actions.append(Answer(post, len(arrivals), facts))
