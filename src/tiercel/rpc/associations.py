"""Association groups and the context handles that they share: [MS-RPCE] 3.3.1.1.1, 3.3.1.4.1, 3.3.1.5.7.

[C706] calls an association group what [MS-RPCE] calls an association: the connections of one client process
to one endpoint. Context handles belong to the group, so a call on one connection can use the handle that
another opened (MQRR trap 27), and they are run down after the last connection of the group (MQRR trap 28).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from tiercel.rpc.ndr import ContextHandle
from tiercel.rpc.status import NCA_S_FAULT_CONTEXT_MISMATCH, NCA_S_FAULT_REMOTE_NO_MEMORY, RpcFault
from tiercel.rpc.syntax import Interface

HANDLES_MAX: Final = 10_000  # per group, so that a leaking client only exhausts its own limit

Draw = Callable[[int], bytes]
"""Returns that many random bytes, like os.urandom."""


@dataclass(frozen=True, slots=True)
class Rundown:
    """A context handle whose client is gone; its value must be released. [MS-RPCE] 3.3.1.4.1."""

    interface: Interface
    value: object


@dataclass(slots=True, eq=False)
class Association:
    """A group; `peer` is the address that all its connections come from."""

    group_id: int
    peer: str
    draw: Draw
    connections: int = 0
    _handles: dict[ContextHandle, Rundown] = field(default_factory=dict)

    def open_handle(self, interface: Interface, value: object) -> ContextHandle:
        """A new, unguessable handle for `value`."""
        if len(self._handles) >= HANDLES_MAX:
            problem = f"{self.peer} already has {len(self._handles)} open context handles"
            raise RpcFault(NCA_S_FAULT_REMOTE_NO_MEMORY, problem)
        handle = ContextHandle(0, UUID(bytes=self.draw(16)))
        while handle.is_null or handle in self._handles:
            handle = ContextHandle(0, UUID(bytes=self.draw(16)))
        self._handles[handle] = Rundown(interface, value)
        return handle

    @property
    def has_handles(self) -> bool:
        return bool(self._handles)

    def find_handle(self, interface: Interface, handle: ContextHandle) -> object:
        """The value of an open handle, which must be of the same interface (strict context handles)."""
        found = self._handles.get(handle)
        if found is None or found.interface is not interface:
            raise RpcFault(
                NCA_S_FAULT_CONTEXT_MISMATCH, f"{interface.name} has no context handle {handle.uuid}"
            )
        return found.value

    def close_handle(self, interface: Interface, handle: ContextHandle) -> object:
        """Close a handle; its value."""
        value = self.find_handle(interface, handle)
        del self._handles[handle]
        return value

    def run_down(self) -> list[Rundown]:
        """Close all handles, in the order of opening."""
        found = list(self._handles.values())
        self._handles.clear()
        return found


class Associations:
    """All association groups of one endpoint: [MS-RPCE] 3.3.1.5.7."""

    def __init__(self, draw: Draw) -> None:
        self._draw = draw
        self._groups: dict[int, Association] = {}

    def __len__(self) -> int:
        return len(self._groups)

    def join(self, group_id: int, peer: str) -> Association | None:
        """The group that a bind names, a new one for 0; None if unknown or of another computer."""
        group = self._groups.get(group_id) if group_id else self._new(peer)
        if group is None or group.peer != peer:
            return None
        group.connections += 1
        return group

    def leave(self, group: Association) -> list[Rundown]:
        """The handles to run down when a connection is lost: none while the group has others."""
        group.connections -= 1
        if group.connections:
            return []
        del self._groups[group.group_id]
        return group.run_down()

    def _new(self, peer: str) -> Association:
        group_id = 0
        while not group_id or group_id in self._groups:
            group_id = int.from_bytes(self._draw(4), "little")
        group = self._groups[group_id] = Association(group_id, peer, self._draw)
        return group
