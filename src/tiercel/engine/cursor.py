"""Cursors as their own state machine: [MS-MQDMPR] 3.2.

A cursor holds a sort key, not a place in a list (DMPR T-05): its message may be gone, the next one is still
well defined. START sorts before every message. After a receive that timed out the cursor
stands behind the messages that were there, so that it misses none that arrives later.

    state          peek current            peek next            receive
    UNREAD         seek on: READ           illegal              seek on: UNREAD, there
    READ           that message or gone    seek on: READ        that message: UNREAD, or gone
    WAIT_*         illegal                 illegal              illegal

"seek on" that finds nothing waits: WAIT_PEEK or WAIT_RECEIVE.
"""

from dataclasses import dataclass

from tiercel.engine.core import Core
from tiercel.engine.queue_state import START, QueueState
from tiercel.engine.records import Record
from tiercel.model.codes import CursorState
from tiercel.model.errors import IllegalCursorActionError, MessageAlreadyReceivedError

_WAITING = (CursorState.WAIT_PEEK, CursorState.WAIT_RECEIVE)


@dataclass(slots=True, eq=False, weakref_slot=True)
class Cursor:
    handle: int
    queue: QueueState
    state: CursorState = CursorState.UNREAD
    position: int = START

    def peek(self, core: Core) -> tuple[int, Record] | None:
        """The current message; None says that the caller waits for one."""
        self._refuse_while_waiting()
        if self.state is CursorState.READ:
            return self._current(core, peek=True)
        return self._seek_to_peek(core)

    def peek_next(self, core: Core) -> tuple[int, Record] | None:
        self._refuse_while_waiting()
        if self.state is CursorState.UNREAD:
            problem = "it has no current message"
            raise IllegalCursorActionError("cursor", problem=problem, fix="peek at the current message first")
        return self._seek_to_peek(core)

    def receive(self, core: Core, *, wait: bool) -> tuple[int, Record] | None:
        """The message to take, or None; with `wait` the cursor then waits for one."""
        self._refuse_while_waiting()
        if self.state is CursorState.READ:
            found = self._current(core, peek=False)
            self.state = CursorState.UNREAD
            return found
        sought = self.queue.next_available(core, self.position)
        if sought is not None:
            self.position = sought[0]
        elif wait:
            self.state = CursorState.WAIT_RECEIVE
        return sought

    def message_available(self, lookup_id: int) -> None:
        """The wait is over: the cursor jumps to the new message, wherever in the queue it sits."""
        self.state = CursorState.READ if self.state is CursorState.WAIT_PEEK else CursorState.UNREAD
        self.position = lookup_id

    def wait_expired(self, core: Core) -> None:
        if self.state is CursorState.WAIT_RECEIVE:
            self.position = max(self.position, self.queue.last_lookup_id(core))
        self.state = CursorState.UNREAD

    def _seek_to_peek(self, core: Core) -> tuple[int, Record] | None:
        found = self.queue.next_available(core, self.position, peek=True)
        if found is None:
            self.state = CursorState.WAIT_PEEK
        else:
            self.state, self.position = CursorState.READ, found[0]
        return found

    def _current(self, core: Core, *, peek: bool) -> tuple[int, Record]:
        lock = self.queue.locks.get(self.position)
        is_visible = lock is None or (peek and lock.is_visible)
        record = self.queue.get(core, self.position) if is_visible else None
        if record is None:
            raise MessageAlreadyReceivedError(f"the message under the cursor in {self.queue}")
        return self.position, record

    def _refuse_while_waiting(self) -> None:
        if self.state in _WAITING:
            fix = "wait for the first call to end, or use a cursor of its own for each"
            raise IllegalCursorActionError("cursor", problem="another call waits with this cursor", fix=fix)
