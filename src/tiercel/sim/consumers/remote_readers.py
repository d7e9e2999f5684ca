"""Remote readers: the reader's machine and the service, with an unreliable connection between them."""

from collections.abc import Callable
from functools import partial
from itertools import count

from tiercel.engine.queue_state import QueueState
from tiercel.model.codes import MessageClass, QueueAccess, ReceiveAction
from tiercel.model.errors import MqError
from tiercel.model.format_name import FormatName
from tiercel.remote_read.actions import Action, CallId, Reply
from tiercel.remote_read.calls import (
    RR_ACK,
    RR_NACK,
    EndReceive,
    OpenQueue,
    QueueOpened,
    Received,
    Request,
    Response,
)
from tiercel.remote_read.handles import Caller, QueueHandle
from tiercel.remote_read.pending_requests import PendingRequest
from tiercel.remote_read.queue_format import QueueFormat
from tiercel.remote_read.reader import Read, ReaderHandle, RequestIds
from tiercel.remote_read.service import RemoteReadService
from tiercel.remote_read.settings import Settings
from tiercel.rpc.associations import Associations
from tiercel.rpc.security import AuthenticationLevel
from tiercel.sim.consumers.client import QUEUES, Held, Surroundings, queue_of
from tiercel.sim.machine import OWNER, Machine
from tiercel.sim.workload import Workload

_CLEANUP_S = 60.0
_LATENCY_S = 0.01

Answer = Callable[[object], None]


class _Service(RemoteReadService):
    """Reports which messages count as received, at the moment when the engine removes them."""

    told: Callable[[QueueState, int], None]

    def _end(self, request: EndReceive, pending: PendingRequest) -> Response:
        state, lookup_id = pending.handle.opened.state, pending.lookup_id
        assert lookup_id is not None
        lock = None if state is None else state.locks.get(lookup_id)
        response = super()._end(request, pending)
        is_received = lock is not None and lock.doom is not MessageClass.NACK_Q_PURGED
        if state is not None and is_received and request.ack == RR_ACK:
            self.told(state, lookup_id)
        return response

    def _received(self, call: CallId, pending: PendingRequest) -> None:
        state, lookup_id = pending.handle.opened.state, pending.lookup_id
        assert state is not None
        assert lookup_id is not None
        super()._received(call, pending)
        self.told(state, lookup_id)


class RemoteReader:
    """One reader with one connection at a time; it reconnects after a failure."""

    def __init__(self, machine: Machine, surroundings: Surroundings, _workload: Workload) -> None:
        self.machine = machine
        self._around = surroundings
        self._queue = surroundings.random.choice(QUEUES)
        self._ids = count(1)
        self._pending: dict[object, Answer] = {}
        self._held: dict[tuple[QueueState, int], Held] = {}
        self._service: _Service
        self._associations: Associations
        self._caller: Caller | None = None
        self._handle: ReaderHandle | None = None
        machine.starting.append(self._started)

    def _started(self) -> None:
        machine, randbytes = self.machine, self._around.random.randbytes
        settings = Settings(cleanup_s=_CLEANUP_S)
        self._service = _Service(machine.engine, settings, random_bytes=randbytes)
        self._service.told = self._ended
        self._associations = Associations(randbytes)
        self._pending.clear()
        self._lost()
        machine.node.attach(self._service, self._perform)

    # The connection.

    def _call(self, request: Request, answer: Answer) -> None:
        assert self._caller is not None
        number = next(self._ids)
        self._pending[number] = answer
        self._service.call(number, self._caller, request)

    def _perform(self, actions: list[Action]) -> None:
        for action in actions:
            answer = self._pending.pop(action.call, None)
            if answer is not None and isinstance(action, Reply):
                self.machine.after_commit(partial(self._deliver, answer, action.response))

    def _deliver(self, answer: Answer, response: object) -> None:
        life = self.machine.life

        def arrive() -> None:
            if self.machine.life == life:
                answer(response)

        if self._around.loses_answer():
            self.machine.post(self._cut)
        else:
            self._around.schedule.after(_LATENCY_S, partial(self.machine.post, arrive))

    def _cut(self) -> None:
        """Tell the service that the connection is lost; it gives back the messages that it had handed out."""
        if self._caller is not None:
            self._around.trace(self.machine.name, "a remote reader loses its connection")
            for rundown in self._associations.leave(self._caller.association):
                assert isinstance(rundown.value, QueueHandle)
                self._service.run_down(rundown.value)
        self._lost()

    def _lost(self) -> None:
        if self._handle is not None:
            self._handle.lost()
        self._handle = self._caller = None

    # The reader.

    def act(self) -> None:
        if self._caller is None:
            self._open()
        elif self._handle is not None:
            self._read(self._handle)

    def _open(self) -> None:
        association = self._associations.join(0, "192.0.2.99")
        assert association is not None
        self._caller = Caller(association, OWNER, AuthenticationLevel.PRIVACY)
        name = FormatName.parse(rf"DIRECT=OS:{self.machine.name}\private$\{self._queue}")
        self._call(OpenQueue(QueueFormat.of(name), int(QueueAccess.RECEIVE)), self._opened)

    def _opened(self, response: object) -> None:
        if isinstance(response, QueueOpened) and self._caller is not None:
            self._handle = ReaderHandle(response.handle, RequestIds(), self._queue)
            self._read(self._handle)

    def _read(self, handle: ReaderHandle) -> None:
        if not handle.is_open:
            return
        read = handle.start(ReceiveAction.RECEIVE, timeout_ms=self._around.random.choice((0, 1000, 30_000)))
        self._call(read.request, partial(self._answered, handle, read))

    def _answered(self, handle: ReaderHandle, read: Read, response: object) -> None:
        assert isinstance(response, Received)
        if not handle.is_open:
            return
        try:
            message = handle.answered(read, response)
        except MqError:  # nothing arrived in time
            return
        packet, state = message.packet, queue_of(self.machine, self._queue)
        if state is None:
            return
        lookup_id = (7 - packet.priority) << 56 | response.sequence_id  # MQRR trap 15
        held = self._around.book.handed(self.machine, state, lookup_id, packet.label)
        self._held[state, lookup_id] = held
        draw = self._around.random.random()
        if draw < 0.85:
            end = partial(self._end, handle, read, held, RR_ACK if draw < 0.7 else RR_NACK)
            self._around.later(self.machine, end)
        elif draw < 0.95:
            self.machine.post(self._cut)  # otherwise it stays silent, until the service gives up

    def _end(self, handle: ReaderHandle, read: Read, held: Held, ack: int) -> None:
        if not handle.is_open or not read.is_delivered or held.life != self.machine.life:
            return
        request = read.end(ack)
        if ack == RR_ACK and self._around.random.random() < 0.5:
            assert self._caller is not None
            self._service.postpone(next(self._ids), self._caller, request)
        else:
            self._call(request, lambda _response: None)
        read.forget()
        self._read(handle)

    def _ended(self, state: QueueState, lookup_id: int) -> None:
        """The service counts a message as received; with a postponed acknowledgement, in a later batch."""
        held = self._held[state, lookup_id]
        self.machine.note(lambda is_durable: self._around.book.acknowledged(held) if is_durable else None)

    def settle(self) -> None:
        self._cut()
        self._queue = "nowhere"
