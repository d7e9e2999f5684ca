"""Opening and closing queues, and where a format name leads: [MS-MQDMPR] 3.1.7.1.5, 3.1.7.1.6, 3.1.7.3.8."""

from collections.abc import Iterable
from itertools import count

from tiercel.engine.access import Access
from tiercel.engine.catalog import Catalog
from tiercel.engine.core import Core
from tiercel.engine.cursor import Cursor
from tiercel.engine.delivery import Delivery
from tiercel.engine.handles import OpenQueue
from tiercel.engine.queue_state import QueueState
from tiercel.engine.reading import Reading
from tiercel.model.codes import QueueAccess, ShareMode
from tiercel.model.errors import (
    AccessDeniedError,
    IllegalFormatNameError,
    MqError,
    OperationCancelledError,
    QueueNotFoundError,
    SharingViolationError,
    UnsupportedAccessModeError,
    UnsupportedFormatNameOperationError,
)
from tiercel.model.format_name import (
    ConnectorFormatName,
    DirectFormatName,
    DistributionListFormatName,
    FormatName,
    MachineFormatName,
    MulticastFormatName,
    MultipleElementFormatName,
    PrivateFormatName,
    PublicFormatName,
    UnreadableFormatName,
)
from tiercel.security.access import Token

_RECEIVES = QueueAccess.RECEIVE | QueueAccess.MOVE


class Opening:
    def __init__(
        self,
        core: Core,
        catalog: Catalog,
        delivery: Delivery,
        reading: Reading,
        access: Access,
        local_names: Iterable[str],
    ) -> None:
        self._core = core
        self._catalog = catalog
        self._reading = reading
        self._access = access
        self._handles = count(1)
        # Every name and address that means this computer (DMPR T-32).
        manager = catalog.queue_manager
        stored = (manager.computer_name, manager.qualified_computer_name)  # the computer may have a new name
        self.local_names = {name.casefold() for name in (".", "localhost", *stored, *local_names)}
        delivery.destination = self.destination
        delivery.is_local_name = self.is_local_name

    # Where a name leads.

    def is_local_name(self, computer: str) -> bool:
        return computer.casefold() in self.local_names

    def is_local(self, name: FormatName) -> bool:
        own = self._catalog.queue_manager.identifier
        match name:
            case DirectFormatName():
                return not name.is_http and self.is_local_name(name.host)
            case PrivateFormatName() | MachineFormatName():
                return name.queue_manager == own
            case PublicFormatName():
                return self._catalog.by_identifier(name.queue) is not None
        return False

    def find(self, name: FormatName) -> QueueState | None:
        """The queue of this computer that the name means, if there is one."""
        catalog = self._catalog
        match name:
            case DirectFormatName():
                return catalog.find(name.path)
            case PrivateFormatName():
                state = catalog.by_number(name.number)
                return state.journal if state is not None and name.journal else state
            case PublicFormatName():
                state = catalog.by_identifier(name.queue)
                return state.journal if state is not None and name.journal else state
            case MachineFormatName():
                return catalog.system(name.queue)
        return None

    def destination(self, name: FormatName) -> QueueState:
        """The queue that takes messages to this name: the queue itself, or an outgoing one to it."""
        check_can_send(name)
        if self.is_local(name):
            state = self.find(name)
            if state is None:
                raise QueueNotFoundError(str(name))
            return state
        if isinstance(name, PublicFormatName | DistributionListFormatName):
            problem = "only a directory knows where it leads, and this queue manager uses none"
            raise UnsupportedFormatNameOperationError(str(name), problem=problem)
        is_multicast = isinstance(name, MulticastFormatName)
        return self._catalog.outgoing(name) or self._catalog.create_outgoing(name, is_multicast=is_multicast)

    def queue_path(self, name: FormatName) -> tuple[str, str]:
        """Get Queue Path: the path name and the computer of a queue ([MS-MQDMPR] 3.1.7.1.26)."""
        if isinstance(name, DirectFormatName):
            return name.path_name, name.host
        state = self.find(name) if self.is_local(name) else None
        if state is None or state.queue.pathname is None:
            raise IllegalFormatNameError(str(name), problem="no queue of that name is known here")
        return str(state.queue.pathname), state.queue.pathname.computer

    # Opening.

    def open(
        self,
        name: FormatName,
        access: QueueAccess,
        share: ShareMode = ShareMode.DENY_NONE,
        *,
        token: Token,
        internal: bool = False,
    ) -> OpenQueue:
        elements = _elements(name)
        if len(elements) > 1:
            return self._open_list(name, elements, access, share, token)
        name = elements[0]
        if access == QueueAccess.SEND:
            state = self.destination(name)
        else:
            state = self._find_to_read(name, access, token)
        if self._catalog.is_internal(state) and not internal:
            problem = "only the queue manager itself uses this queue"
            raise AccessDeniedError(str(state), problem=problem, fix="use a queue of your own")
        self._access.check_open(state, access, token)
        _check_sharing(state, access, share)
        opened = OpenQueue(
            next(self._handles),
            name,
            access,
            share,
            state,
            token=token,
            sender_id=token.user.encode(),
            context_value=next(self._handles),
        )
        state.handles[opened.handle] = opened
        state.queue.open_handles.add(opened.handle)
        return opened

    def _open_list(
        self,
        name: FormatName,
        elements: list[FormatName],
        access: QueueAccess,
        share: ShareMode,
        token: Token,
    ) -> OpenQueue:
        if access != QueueAccess.SEND:
            problem = "a list of queues can only be opened to send"
            raise UnsupportedFormatNameOperationError(str(name), problem=problem)
        if share != ShareMode.DENY_NONE:
            raise UnsupportedAccessModeError(str(name), problem="a list of queues cannot be denied to others")
        children: list[OpenQueue] = []
        try:
            for element in elements:
                children.append(self.open(element, access, token=token))  # noqa: PERF401  # closed on failure
        except MqError:
            for child in children:
                self.close(child)
            raise
        return OpenQueue(next(self._handles), name, access, share, children=tuple(children))

    def _find_to_read(self, name: FormatName, access: QueueAccess, token: Token) -> QueueState:
        if isinstance(name, MulticastFormatName) or (isinstance(name, DirectFormatName) and name.is_http):
            problem = "it can only be opened to send"
            raise UnsupportedFormatNameOperationError(str(name), problem=problem)
        if access & QueueAccess.ADMIN:
            state = self._catalog.outgoing(name)
        elif isinstance(name, ConnectorFormatName):
            state = self._catalog.by_identifier(name.network)
        else:
            state = self._find_here(name, access, token)
        if state is None:
            raise QueueNotFoundError(str(name))
        return state

    def _find_here(self, name: FormatName, access: QueueAccess, token: Token) -> QueueState | None:
        if not self.is_local(name):
            problem = "a queue of another computer can only be opened to send"
            raise QueueNotFoundError(str(name), problem=problem, fix="read it on its own computer")
        return self.find(name) or self._new_subqueue(name, access, token)

    def _new_subqueue(self, name: FormatName, access: QueueAccess, token: Token) -> QueueState | None:
        """A subqueue comes into being when somebody opens it to read from it or to move there."""
        if not isinstance(name, DirectFormatName) or name.subqueue is None:
            return None
        parent = self._catalog.find(name.path.without_subqueue())
        if parent is None or not self._catalog.is_visible(parent):
            return None
        self._access.check_open(parent, access, token)
        return self._catalog.create_subqueue(parent, name.subqueue)

    def new_handle(self) -> int:
        return next(self._handles)

    # Closing.

    def close_cursor(self, opened: OpenQueue, cursor: Cursor) -> None:
        """Forgets a cursor and ends the waits that use it (DMPR T-07)."""
        opened.cursors.pop(cursor.handle, None)
        for waiter in [waiter for waiter in cursor.queue.waiters if waiter.cursor is cursor]:
            self._reading.stop_waiting(waiter, OperationCancelledError(str(cursor.queue)))

    def close(self, opened: OpenQueue) -> None:
        """Ends everything that the opening began; closing twice is nothing."""
        if not opened.is_open:
            return
        opened.is_open = False
        for child in opened.children:  # before the queue, which a list does not have (DMPR T-06)
            self.close(child)
        state = opened.state
        if state is None:
            return
        for waiter in [waiter for waiter in state.waiters if waiter.opened is opened]:
            self._reading.stop_waiting(waiter, OperationCancelledError(str(state)))
        self._give_back_reads(state, opened)
        opened.cursors.clear()
        state.handles.pop(opened.handle, None)
        state.queue.open_handles.discard(opened.handle)
        self._catalog.drop_empty_subqueue(state)

    def _give_back_reads(self, state: QueueState, opened: OpenQueue) -> None:
        for lookup_id in sorted(opened.held):
            record = state.get(self._core, lookup_id)
            if record is not None:
                self._reading.give_back(state, lookup_id, record)


def _elements(name: FormatName) -> list[FormatName]:
    """Expand Format Name: the single names, sorted, each once."""
    if not isinstance(name, MultipleElementFormatName):
        return [name]
    return sorted(set(name.elements), key=lambda element: element.key)


def check_can_send(name: FormatName) -> None:
    if isinstance(name, UnreadableFormatName):
        raise IllegalFormatNameError(str(name))
    if name.is_read_only:
        problem = "only the queue manager writes to journals and dead-letter queues"
        fix = "send to the queue itself"
        raise UnsupportedFormatNameOperationError(str(name), problem=problem, fix=fix)
    if isinstance(name, ConnectorFormatName):
        problem = "messages come to a connector by the names of the queues behind it"
        raise UnsupportedFormatNameOperationError(str(name), problem=problem)
    if isinstance(name, DirectFormatName) and name.subqueue is not None:
        problem = "messages come into a subqueue only by being moved there"
        raise UnsupportedFormatNameOperationError(str(name), problem=problem, fix="send to the queue itself")


def _check_sharing(state: QueueState, access: QueueAccess, share: ShareMode) -> None:
    """The three rules of 3.1.7.1.5; admin access counts as what it is an access to (DMPR T-11)."""
    for other in state.handles.values():
        receives, peeks = bool(other.access & _RECEIVES), bool(other.access & QueueAccess.PEEK)
        denies = other.share == ShareMode.DENY_RECEIVE
        wants_alone = share == ShareMode.DENY_RECEIVE
        wants_receive = bool(access & _RECEIVES)
        clash = (
            (receives and denies and (wants_alone or wants_receive))
            or (peeks and denies and wants_receive)
            or (receives and not denies and wants_alone)
        )
        if clash:
            problem = "it is open elsewhere in a way that excludes this"
            raise SharingViolationError(str(state), problem=problem)
