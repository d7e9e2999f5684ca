"""A queue manager that others read from, and its readers: typed calls, one clock, and no network.

    alice = site.reader(); orders = alice.open("orders")
    got = orders.receive(); assert got.body == b"1"; orders.end(got)

Every call is a batch of its own and goes through its stub data in both directions. A call that waits gives a
`Waiting`, whose `answer` is there when it has come. A failed call raises `Refused` with its status, a fault
raises `RpcFault`.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from os import urandom
from typing import Any, TypeVar
from uuid import UUID

import pytest

from engine.harness import SYSTEM, Box, World
from tiercel.model.codes import LookupAction, ReceiveAction
from tiercel.model.errors import MqError
from tiercel.model.format_name import FormatName
from tiercel.model.identifiers import NULL_GUID
from tiercel.remote_read import calls
from tiercel.remote_read.actions import Action, Enlist, Fault, Reply
from tiercel.remote_read.calls import RR_ACK, RR_NACK, Received, Request, Response, decode_request
from tiercel.remote_read.handles import Caller, QueueHandle
from tiercel.remote_read.packet import RemoteMessage, rebuild
from tiercel.remote_read.queue_format import QueueFormat
from tiercel.remote_read.server_stub import ServerStub
from tiercel.remote_read.service import RemoteReadService
from tiercel.remote_read.settings import Settings
from tiercel.rpc.associations import Associations
from tiercel.rpc.ndr import ContextHandle
from tiercel.rpc.security import AuthenticationLevel
from tiercel.rpc.status import RpcFault
from tiercel.security.access import Token

T = TypeVar("T")
RECEIVE, PEEK, MOVE = 0x1, 0x20, 0x4
RECEIVING = ReceiveAction.RECEIVE
PEEKING, PEEKING_NEXT = ReceiveAction.PEEK_CURRENT, ReceiveAction.PEEK_NEXT
LOOKUP = LookupAction


class Refused(Exception):  # noqa: N818
    def __init__(self, status: int) -> None:
        super().__init__(f"{status:#010x}")
        self.status = status


class Site(World):
    """A `World` whose queues can be read from afar."""

    def __init__(self, **settings: Any) -> None:
        self.settings = Settings(**settings)
        self.associations = Associations(urandom)
        self.calls = count(1)
        self.waiting: dict[object, Waiting] = {}
        self.enlisting: list[Enlist] = []
        super().__init__()

    def start(self) -> None:
        super().start()
        self.service = RemoteReadService(self.engine, self.settings)

    def kill(self) -> None:
        self.waiting.clear()
        super().kill()

    def run(self, command: Callable[[], T]) -> T:
        self.engine.begin(self.now)
        self.service.begin(self.now)
        try:
            return command()
        finally:
            self.commits: list[list[Action]] = []
            self.effects = []
            deadline: float | None = self.now
            while deadline is not None and deadline <= self.now:
                self.service.flush()
                self.effects = self.service.finish(self.effects + self.engine.commit())
                self.commits.append(self.service.take_actions())
                for action in self.commits[-1]:
                    self._perform(action)
                deadline = self.service.next_deadline

    def _perform(self, action: Action) -> None:
        if isinstance(action.call, tuple):  # it came over a connection
            ServerStub.perform(action)
            return
        match action:
            case Reply():
                waiting = self.waiting.pop(action.call, None)
                if waiting is not None:
                    # As the other side reads it.
                    waiting.answer = type(action.response).decode(action.response.encode())
                    waiting.answered_at = self.now
            case Fault():
                self.waiting.pop(action.call).answer = RpcFault(action.status)
            case Enlist():
                self.enlisting.append(action)

    def reader(
        self,
        token: Token = SYSTEM,
        level: AuthenticationLevel = AuthenticationLevel.PRIVACY,
        *,
        group_id: int = 0,
        peer: str = "192.0.2.99",
    ) -> "Reader":
        association = self.associations.join(group_id, peer)
        assert association is not None
        return Reader(self, Caller(association, token, level))

    def put(self, box: Box, *bodies: bytes, **properties: Any) -> None:
        """Into any kind of queue."""
        if box.state.queue.transactional:
            with self.transaction() as sending:
                box.send_all(*bodies, transaction=sending, **properties)
        else:
            box.send_all(*bodies, **properties)


class Waiting:
    """A call that has not been answered."""

    def __init__(self, site: Site, request: Request) -> None:
        self.site = site
        self.request = request
        self.id = next(site.calls)
        self.answer: Response | RpcFault | None = None
        self.answered_at = 0.0

    @property
    def is_answered(self) -> bool:
        return self.answer is not None

    @property
    def response(self) -> Response:
        assert self.answer is not None, f"{self.request} waits"
        if isinstance(self.answer, RpcFault):
            raise self.answer
        status = getattr(self.answer, "status", 0)
        if status:
            raise Refused(status)
        return self.answer

    def check(self) -> None:
        """Raises what the call failed with."""
        assert self.response is not None

    @property
    def got(self) -> "Got":
        assert isinstance(self.request, calls.StartReceive)
        assert isinstance(self.response, Received)
        return Got(self.request.request_id, self.response)


class Got:
    """A message that a reader has been handed."""

    def __init__(self, request_id: int, received: Received) -> None:
        self.request_id = request_id
        self.received = received
        self.message: RemoteMessage = rebuild(received.sections)

    @property
    def body(self) -> bytes:
        return self.message.packet.body

    @property
    def lookup_id(self) -> int:
        """With the byte put back that the sequence lacks (MQRR trap 15)."""
        return (7 - self.message.packet.priority) << 56 | self.received.sequence_id

    @property
    def abort_count(self) -> int:
        return self.message.subqueue.abort_counter


class Reader:
    """A client with one connection; others may belong to the same group."""

    def __init__(self, site: Site, caller: Caller) -> None:
        self.site = site
        self.caller = caller

    def start(self, request: Request) -> Waiting:
        return self.site.run(lambda: self.submit(request))

    def submit(self, request: Request) -> Waiting:
        """The same inside a batch that others share."""
        waiting = Waiting(self.site, request)
        self.site.waiting[waiting.id] = waiting
        self.site.service.call(waiting.id, self.caller, decode_request(request.OPNUM, request.encode()))
        return waiting

    def call(self, request: Request) -> Any:
        return self.start(request).response

    def open(self, name: str, access: int = RECEIVE, share: int = 0, **how: Any) -> "Remote":
        kind = calls.OpenQueueForMove if access == MOVE else calls.OpenQueue
        opened = self.call(kind(queue_format(name), access, share, **how))
        return Remote(self, opened.handle, getattr(opened, "move_context", 0))

    def enlist(self, transaction: UUID, error: MqError | None = None) -> None:
        """Enlists in a transaction; the coordinator agrees unless there is an error."""
        wait = self.start(calls.EnlistRemoteTransaction(transaction, b"token"))
        while self.site.enlisting:
            asked = self.site.enlisting.pop()
            self.site.run(partial(self.site.service.enlisted, asked.call, asked.transaction, error))
        wait.check()

    @property
    def group_id(self) -> int:
        return self.caller.association.group_id

    def vanish(self) -> None:
        """Its connection is gone."""
        self.site.run(self.leave)

    def leave(self) -> None:
        """The same inside a batch that others share."""
        for rundown in self.site.associations.leave(self.caller.association):
            assert isinstance(rundown.value, QueueHandle)
            self.site.service.run_down(rundown.value)


class Remote:
    """An open queue, seen from afar."""

    def __init__(self, reader: Reader, handle: ContextHandle, move_context: int = 0) -> None:
        self.reader = reader
        self.handle = handle
        self.move_context = move_context
        self._ids = count(1)

    def start(self, action: int = RECEIVING, *, transaction: Any = None, **how: Any) -> Waiting:
        how.setdefault("request_id", next(self._ids))
        if transaction is None:
            return self.reader.start(calls.StartReceive(self.handle, action=action, **how))
        request = calls.StartTransactionalReceive(
            self.handle, action=action, transaction=transaction or NULL_GUID, **how
        )
        return self.reader.start(request)

    def receive(self, **how: Any) -> Got:
        return self.start(**how).got

    def peek(self, **how: Any) -> Got:
        return self.start(PEEKING, **how).got

    def lookup(self, action: int, lookup_id: int, **how: Any) -> Got:
        return self.start(action, lookup_id=lookup_id, **how).got

    def wait(self, action: int = RECEIVING, *, timeout_ms: int = 10_000, **how: Any) -> Waiting:
        waiting = self.start(action, timeout_ms=timeout_ms, **how)
        assert not waiting.is_answered
        return waiting

    def end(self, got: "Got | int", ack: int = RR_ACK, *, transactional: bool = False) -> None:
        kind = calls.EndTransactionalReceive if transactional else calls.EndReceive
        self.reader.call(kind(self.handle, ack, got if isinstance(got, int) else got.request_id))

    def give_back(self, got: "Got | int", **how: Any) -> None:
        self.end(got, RR_NACK, **how)

    def take(self, **how: Any) -> bytes:
        """Receives and keeps a message."""
        got = self.receive(**how)
        self.end(got)
        return got.body

    def cancel(self, request_id: int) -> None:
        self.reader.call(calls.CancelReceive(self.handle, request_id))

    def cursor(self) -> int:
        number: int = self.reader.call(calls.CreateCursor(self.handle)).cursor
        return number

    def close_cursor(self, cursor: int) -> None:
        self.reader.call(calls.CloseCursor(self.handle, cursor))

    def purge(self) -> None:
        self.reader.call(calls.PurgeQueue(self.handle))

    def move(self, lookup_id: int, target: "Remote | int", transaction: Any = NULL_GUID) -> None:
        context = target if isinstance(target, int) else target.move_context
        self.reader.call(calls.MoveMessage(self.handle, context, lookup_id, transaction))

    def set_class(self, lookup_id: int, message_class: int) -> None:
        self.reader.call(calls.SetUserAcknowledgementClass(self.handle, lookup_id, message_class))

    def close(self) -> None:
        self.reader.call(calls.CloseQueue(self.handle))


def queue_format(name: str) -> QueueFormat:
    return QueueFormat.of(FormatName.parse(name if "=" in name else rf"DIRECT=OS:HERE\private$\{name}"))


@contextmanager
def refused(status: int) -> Iterator[None]:
    """The block fails with this status as a result."""
    with pytest.raises(Refused) as caught:
        yield
    assert f"{caught.value.status:#010x}" == f"{status:#010x}"


@contextmanager
def faults(status: int) -> Iterator[None]:
    """The block fails with a fault of this status."""
    with pytest.raises(RpcFault) as caught:
        yield
    assert f"{caught.value.status:#010x}" == f"{status:#010x}"
