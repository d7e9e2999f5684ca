"""The reader's side of the RemoteRead interface, without connections: [MS-MQRR] 3.2.

A `ReaderHandle` is one open queue. It builds requests, takes their answers, and tracks for each read whether
its message must still be acknowledged:

    read = handle.start(ReceiveAction.RECEIVE, timeout_ms=5000)
    message = handle.answered(read, await call(read.request))
    await call(read.end(RR_ACK)); read.forget()

    sent --error--> ended       sent --message of a peek--> ended
    sent --message--> delivered --end(ack or nack)--> ended

A read is ended once. If the caller and the closing of the queue both try, the second gets an error without a
call.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final
from uuid import UUID

from tiercel.model.codes import LookupAction, MessageClass, ReceiveAction
from tiercel.model.errors import InvalidHandleError
from tiercel.model.identifiers import NULL_GUID, lookup_id
from tiercel.model.limits import INFINITE
from tiercel.remote_read.calls import (
    RR_NACK,
    CancelReceive,
    CloseCursor,
    CloseQueue,
    CreateCursor,
    CursorCreated,
    EndReceive,
    EndTransactionalReceive,
    HandleRequest,
    MoveMessage,
    PurgeQueue,
    Received,
    SetUserAcknowledgementClass,
    StartReceive,
    StartTransactionalReceive,
)
from tiercel.remote_read.failures import check
from tiercel.remote_read.packet import RemoteMessage, rebuild
from tiercel.rpc.ndr import ContextHandle

_IDS: Final = 1 << 32
_RECEIVES: Final = frozenset(
    {
        ReceiveAction.RECEIVE,
        LookupAction.RECEIVE_CURRENT,
        LookupAction.RECEIVE_NEXT,
        LookupAction.RECEIVE_PREV,
    }
)


class RequestIds:
    """Request ids, unique among all pending reads of a client (MQRR-144)."""

    def __init__(self, first: int = 1) -> None:
        self._next = first
        self._live: set[int] = set()

    def __len__(self) -> int:
        return len(self._live)

    def take(self) -> int:
        while True:
            number = self._next
            self._next = (number + 1) % _IDS
            if number and number not in self._live:
                self._live.add(number)
                return number

    def free(self, number: int) -> None:
        self._live.discard(number)


class ReadState(Enum):
    SENT = auto()
    DELIVERED = auto()
    ENDED = auto()


@dataclass(slots=True, eq=False)
class Read:
    """One read of a queue, from its start to its end."""

    handle: "ReaderHandle"
    request: StartReceive
    state: ReadState = ReadState.SENT

    @property
    def is_receive(self) -> bool:
        return self.request.action in _RECEIVES

    @property
    def is_transactional(self) -> bool:
        return isinstance(self.request, StartTransactionalReceive)

    @property
    def is_delivered(self) -> bool:
        """Whether the server waits for the acknowledgement."""
        return self.state is ReadState.DELIVERED

    def cancel(self) -> CancelReceive:
        """R_CancelReceive; the read is still answered, with an error or with a message that arrived first."""
        return CancelReceive(self.request.handle, self.request.request_id)

    def end(self, ack: int) -> EndReceive:
        """R_EndReceive or R_EndTransactionalReceive, with RR_ACK or RR_NACK (MQRR-126)."""
        if not self.is_delivered:
            problem = "the queue was closed or the connection lost; the message is back in the queue"
            raise InvalidHandleError(self.handle.subject, problem=problem, fix="receive it again")
        self.state = ReadState.ENDED
        kind = EndTransactionalReceive if self.is_transactional else EndReceive
        return kind(self.request.handle, ack, self.request.request_id)

    def forget(self) -> None:
        """End it and free its request id."""
        self.state = ReadState.ENDED
        self.handle.forget(self)


@dataclass(slots=True, eq=False)
class ReaderHandle:
    """An open queue: its context handle, its cursors and the reads on it."""

    context: ContextHandle
    ids: RequestIds
    subject: str
    move_context: int = 0
    cursors: set[int] = field(default_factory=set)
    is_open: bool = True
    _reads: dict[int, Read] = field(default_factory=dict)

    # Reading.

    def start(
        self,
        action: int,
        *,
        lookup_id: int = 0,
        cursor: int = 0,
        timeout_ms: int = 0,
        max_body_size: int = INFINITE,
        transaction: UUID = NULL_GUID,
    ) -> Read:
        self._check_open(cursor)
        arguments = (
            self.context,
            lookup_id,
            cursor,
            action,
            timeout_ms,
            self.ids.take(),
            max_body_size,
            max_body_size,
        )
        if transaction is NULL_GUID or transaction == NULL_GUID:  # identity first: comparing is slower
            read = Read(self, StartReceive(*arguments))
        else:
            read = Read(self, StartTransactionalReceive(*arguments, transaction))
        self._reads[read.request.request_id] = read
        return read

    def answered(self, read: Read, answer: Received) -> RemoteMessage:
        """The message of an answer. If `read.is_delivered`, it must be ended: also after a DecodeError, which
        calls for RR_NACK.
        """
        if answer.status:
            try:
                check(answer, self.subject)
            except BaseException:
                read.forget()
                raise
        self.delivered(read)
        return rebuild(answer.sections)

    def delivered(self, read: Read) -> None:
        """Note that a message arrived, readable or not."""
        if read.state is not ReadState.SENT:
            return
        if read.is_receive:
            read.state = ReadState.DELIVERED
        else:
            read.forget()

    def forget(self, read: Read) -> None:
        if self._reads.pop(read.request.request_id, None) is not None:
            self.ids.free(read.request.request_id)

    # Cursors.

    def create_cursor(self) -> CreateCursor:
        self._check_open()
        return CreateCursor(self.context)

    def cursor_created(self, answer: CursorCreated) -> int:
        check(answer, self.subject)
        self.cursors.add(answer.cursor)
        return answer.cursor

    def close_cursor(self, cursor: int) -> Iterator[HandleRequest]:
        """The calls to make, in order: waiting reads at the cursor are cancelled first (MQRR-147)."""
        self._check_open(cursor)
        self.cursors.discard(cursor)
        for read in self._waiting():
            if read.request.cursor == cursor:
                yield read.cancel()
        yield CloseCursor(self.context, cursor)

    # The rest.

    def purge(self) -> PurgeQueue:
        self._check_open()
        return PurgeQueue(self.context)

    def move(self, lookup_id: int, target: "ReaderHandle", transaction: UUID = NULL_GUID) -> MoveMessage:
        self._check_open()
        return MoveMessage(self.context, target.move_context, lookup_id, transaction)

    def reject(self, lookup_id: int) -> SetUserAcknowledgementClass:
        self._check_open()
        return SetUserAcknowledgementClass(self.context, lookup_id, MessageClass.NACK_RECEIVE_REJECTED)

    def close(self) -> Iterator[HandleRequest]:
        """The calls to make, in order; an answer may arrive between two of them.

        Waiting reads are cancelled, delivered messages returned (MQRR trap 5), then cursors and queue closed.
        """
        if not self.is_open:
            return
        self.is_open = False
        for read in self._waiting():
            yield read.cancel()
        for read in [read for read in self._reads.values() if read.is_delivered]:
            if read.is_delivered:  # may have been ended in the meantime
                yield read.end(RR_NACK)
                read.forget()
        cursors = sorted(self.cursors)
        self.cursors.clear()
        for cursor in cursors:
            yield CloseCursor(self.context, cursor)
        yield CloseQueue(self.context)

    def lost(self) -> None:
        """The connection is lost, and the handle with it; the server unlocks delivered messages."""
        self.is_open = False
        self.cursors.clear()
        for read in list(self._reads.values()):
            read.forget()

    def _waiting(self) -> list[Read]:
        return [read for read in self._reads.values() if read.state is ReadState.SENT]

    def _check_open(self, cursor: int = 0) -> None:
        if not self.is_open:
            raise InvalidHandleError(self.subject, problem="the queue was closed")
        if cursor and cursor not in self.cursors:
            raise InvalidHandleError(self.subject, problem="the cursor was closed", fix="create a new one")


def lookup_id_of(message: RemoteMessage, answer: Received) -> int:
    """The whole lookup id: the wire omits its first byte, which is the priority (MQRR trap 15)."""
    return lookup_id(message.packet.priority, answer.sequence_id)
