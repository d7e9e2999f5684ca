"""Open queues and the reads that wait on them: [MS-MQDMPR] 3.1.1.10 and 3.1.1.16."""

from dataclasses import dataclass, field
from typing import NamedTuple
from weakref import WeakValueDictionary

from tiercel.engine.cursor import Cursor
from tiercel.engine.queue_state import QueueState
from tiercel.engine.records import Record
from tiercel.engine.transaction import Transaction
from tiercel.model.codes import QueueAccess, RemoteReadState, ShareMode
from tiercel.model.errors import AccessDeniedError, InvalidHandleError, MqError, QueueNotAvailableError
from tiercel.model.format_name import FormatName
from tiercel.security.access import Token
from tiercel.wire.user_message import UserMessage


class Found(NamedTuple):
    """A message that a read found; with its packet if that was decoded already."""

    queue: QueueState
    lookup_id: int
    record: Record
    packet: UserMessage | None = None


@dataclass(slots=True, eq=False)
class OpenQueue:
    """OpenQueueDescriptor ([MS-MQDMPR] 3.1.1.16): one opening of a queue, and its access."""

    handle: int
    format_name: FormatName
    access: QueueAccess
    share: ShareMode = ShareMode.DENY_NONE
    state: QueueState | None = None  # None for a list of queues, and after the queue was deleted
    children: tuple["OpenQueue", ...] = ()
    # Weak: an unreferenced cursor is as good as closed.
    cursors: WeakValueDictionary[int, Cursor] = field(default_factory=WeakValueDictionary)
    remote_read_state: RemoteReadState = RemoteReadState.NONE
    token: Token = field(default_factory=Token.anonymous)  # of the account that opened it
    sender_id: bytes = b""  # the same as a packet has it
    context_value: int = 0  # names it to remote readers
    held: set[int] = field(default_factory=set)  # messages of its two-phase reads
    is_open: bool = True

    @property
    def is_multiple(self) -> bool:
        return bool(self.children)

    def queue_for(self, needed: QueueAccess) -> QueueState:
        """The queue, if this opening has the needed access and the queue still exists."""
        if not self.is_open:
            raise InvalidHandleError(
                f"{self.format_name}", problem="the queue was closed", fix="open it again"
            )
        # As plain numbers, and usually not at all: flags of an enum cost more than the read.
        if needed is not self.access and not int(self.access) & int(needed):
            names = f"{needed!r}"
            raise AccessDeniedError(
                f"{self.format_name}",
                problem=f"it was opened with {self.access!r}, the operation needs {names}",
                fix=f"open the queue with {names}",
            )
        if self.state is None or self.state.is_deleted:
            raise QueueNotAvailableError(
                f"{self.format_name}",
                problem="the queue was deleted",
                fix="close the handle, and create the queue again if it is still needed",
            )
        return self.state


@dataclass(slots=True, eq=False)
class Waiter:
    """WaitingMessageReadOperation: a read that has not found its message yet."""

    opened: OpenQueue
    is_receive: bool
    deadline: float | None  # None waits for ever
    cursor: Cursor | None = None
    transaction: Transaction | None = None
    two_phase: bool = False
    allow_peek: bool = False
    tag: int | None = None
    found: Found | None = None
    error: MqError | None = None
    actor: int = 0  # who waits, for the life of the message

    @property
    def is_done(self) -> bool:
        return self.found is not None or self.error is not None

    def result(self) -> Found:
        """The message of a wait that is done; raises the error that ended it."""
        if self.error is not None:
            raise self.error
        assert self.found is not None
        return self.found
