"""Queues opened by remote readers: context handles, move contexts and cursors. [MS-MQRR] 2.2.4.

A handle belongs to the association group that opened it: every connection of the group may use it, and it is
run down with the last of them (MQRR traps 27, 28).
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from itertools import count
from typing import NamedTuple, Self

from tiercel.engine.cursor import Cursor
from tiercel.engine.handles import OpenQueue
from tiercel.model.sid import SecurityIdentifier
from tiercel.remote_read.calls import REMOTE_READ
from tiercel.rpc.associations import Association
from tiercel.rpc.ndr import NULL_HANDLE, ContextHandle
from tiercel.rpc.security import AuthenticationLevel
from tiercel.rpc.server import Call
from tiercel.security.access import ANONYMOUS, Token

_MOVE_CONTEXT_BYTES = 8
_CURSORS = 0xFFFF_FFFF  # a cursor is a DWORD, and never 0


class Caller(NamedTuple):
    """The association group of a call, its authenticated user, and its authentication level."""

    association: Association
    token: Token
    level: AuthenticationLevel

    @classmethod
    def of(cls, call: Call) -> Self:
        identity = call.identity
        if identity is None or identity.sid is None:
            return cls(call.association, ANONYMOUS, call.level)
        return cls(call.association, Token.for_user(identity.sid, identity.groups), call.level)

    @property
    def is_local(self) -> bool:
        """Whether the call comes from this computer."""
        return _is_loopback(self.association.peer)


@lru_cache(1024)
def _is_loopback(peer: str) -> bool:
    address = ip_address(peer)
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


@dataclass(slots=True, eq=False)
class QueueHandle:
    opener: Caller
    user: SecurityIdentifier
    opened: OpenQueue
    is_workgroup: bool
    context: ContextHandle = NULL_HANDLE
    move_context: int = 0  # 0 unless opened for moving
    cursors: dict[int, Cursor] = field(default_factory=dict)

    @property
    def association(self) -> Association:
        return self.opener.association


class Handles:
    def __init__(self, random_bytes: Callable[[int], bytes]) -> None:
        self._random_bytes = random_bytes
        self._open: set[QueueHandle] = set()
        self._workgroup: Counter[Association] = Counter()
        self._by_move_context: dict[int, QueueHandle] = {}
        self._cursor_numbers = count()

    def __len__(self) -> int:
        return len(self._open)

    def add(self, handle: QueueHandle) -> None:
        """Give it a context handle in its group; an RpcFault if the group has too many."""
        handle.context = handle.association.open_handle(REMOTE_READ, handle)
        self._open.add(handle)
        self._workgroup[handle.association] += handle.is_workgroup

    def open_for_move(self, handle: QueueHandle) -> None:
        """Give it a random move context, which reveals nothing (MQRR trap 17)."""
        while not handle.move_context or handle.move_context in self._by_move_context:
            handle.move_context = int.from_bytes(self._random_bytes(_MOVE_CONTEXT_BYTES), "little")
        self._by_move_context[handle.move_context] = handle

    def remove(self, handle: QueueHandle) -> None:
        """Remove a handle; its context handle is closed by the group."""
        self._open.remove(handle)
        self._by_move_context.pop(handle.move_context, None)
        self._workgroup[handle.association] -= handle.is_workgroup
        if not self._workgroup[handle.association]:
            del self._workgroup[handle.association]

    def find_target(self, association: Association, move_context: int) -> QueueHandle | None:
        handle = self._by_move_context.get(move_context)
        return handle if handle is not None and handle.association is association else None

    def has_workgroup(self, association: Association) -> bool:
        """Whether any handle of the group was opened by a member of a workgroup."""
        return association in self._workgroup

    def add_cursor(self, handle: QueueHandle, cursor: Cursor) -> int:
        """The number of a new cursor, unique among all handles so that cursors cannot be mixed up."""
        number = next(self._cursor_numbers) % _CURSORS + 1
        handle.cursors[number] = cursor
        return number
