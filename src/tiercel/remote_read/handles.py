"""The queues that remote readers have open: context handles, move contexts and cursors. [MS-MQRR] 2.2.4.

A handle belongs to the association group in which it was made: every connection of the group may use it, and
it goes with the last of them (MQRR traps 27, 28).
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from itertools import count
from uuid import UUID

from tiercel.engine.cursor import Cursor
from tiercel.engine.handles import OpenQueue
from tiercel.model.sid import SecurityIdentifier
from tiercel.rpc.ndr import ContextHandle
from tiercel.rpc.security import AuthenticationLevel
from tiercel.security.access import Token

_GUID_BYTES = 16
_MOVE_CONTEXT_BYTES = 8
_CURSORS = 0xFFFF_FFFF  # a cursor is a DWORD, and never 0

Association = Hashable
"""How the RPC layer knows an association group."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls: the association group, who it proved to be, and how well the call is protected."""

    association: Association
    token: Token
    level: AuthenticationLevel
    is_local: bool = False  # it comes from this computer


@dataclass(slots=True, eq=False)
class QueueHandle:
    context: ContextHandle
    association: Association
    user: SecurityIdentifier
    opened: OpenQueue
    is_workgroup: bool
    move_context: int = 0  # 0 when it was not opened for moving
    cursors: dict[int, Cursor] = field(default_factory=dict)


class Handles:
    def __init__(self, random_bytes: Callable[[int], bytes]) -> None:
        self._random_bytes = random_bytes
        self._by_context: dict[ContextHandle, QueueHandle] = {}
        self._by_association: dict[Association, dict[QueueHandle, None]] = {}
        self._by_move_context: dict[int, QueueHandle] = {}
        self._cursor_numbers = count()

    def __len__(self) -> int:
        return len(self._by_context)

    def add(
        self, caller: Caller, user: SecurityIdentifier, opened: OpenQueue, *, is_workgroup: bool
    ) -> QueueHandle:
        context = ContextHandle(0, UUID(bytes=self._random_bytes(_GUID_BYTES)))
        handle = QueueHandle(context, caller.association, user, opened, is_workgroup)
        self._by_context[context] = handle
        self._by_association.setdefault(caller.association, {})[handle] = None
        return handle

    def open_for_move(self, handle: QueueHandle) -> None:
        """Gives it a number that refers to it and tells nothing (MQRR trap 17)."""
        while not handle.move_context or handle.move_context in self._by_move_context:
            handle.move_context = int.from_bytes(self._random_bytes(_MOVE_CONTEXT_BYTES), "little")
        self._by_move_context[handle.move_context] = handle

    def remove(self, handle: QueueHandle) -> None:
        del self._by_context[handle.context]
        self._by_move_context.pop(handle.move_context, None)
        group = self._by_association[handle.association]
        del group[handle]
        if not group:
            del self._by_association[handle.association]

    def find(self, association: Association, context: ContextHandle) -> QueueHandle | None:
        handle = self._by_context.get(context)
        return handle if handle is not None and handle.association == association else None

    def find_target(self, association: Association, move_context: int) -> QueueHandle | None:
        handle = self._by_move_context.get(move_context)
        return handle if handle is not None and handle.association == association else None

    def of(self, association: Association) -> list[QueueHandle]:
        return list(self._by_association.get(association, ()))

    def add_cursor(self, handle: QueueHandle, cursor: Cursor) -> int:
        """A number of its own among all handles, so that no handle takes another's cursor for its own."""
        number = next(self._cursor_numbers) % _CURSORS + 1
        handle.cursors[number] = cursor
        return number
