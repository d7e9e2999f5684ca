"""Opening and closing queues and cursors: [MS-MQDMPR] 3.1.7.1.1, 3.1.7.1.2, 3.1.7.1.5, 3.1.7.1.6."""

from itertools import count

from tiercel.engine.access import Access
from tiercel.engine.catalog import Catalog
from tiercel.engine.core import Core
from tiercel.engine.cursor import Cursor
from tiercel.engine.handles import OpenQueue
from tiercel.engine.queue_state import QueueState
from tiercel.engine.resolver import Resolver
from tiercel.engine.waiting import Waiting
from tiercel.model.codes import QueueAccess, ShareMode
from tiercel.model.errors import (
    AccessDeniedError,
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
    FormatName,
    MulticastFormatName,
    MultipleElementFormatName,
)
from tiercel.security.access import Token

_RECEIVES = QueueAccess.RECEIVE | QueueAccess.MOVE


class Opening:
    def __init__(
        self,
        core: Core,
        catalog: Catalog,
        resolver: Resolver,
        waiting: Waiting,
        access: Access,
    ) -> None:
        self._core = core
        self._catalog = catalog
        self._resolver = resolver
        self._waiting = waiting
        self._access = access
        self._handles = count(1)

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
        """Open Queue ([MS-MQDMPR] 3.1.7.1.5); only protocols open `internal` queues."""
        elements = _elements(name)
        if len(elements) > 1:
            return self._open_list(name, elements, access, share, token)
        name = elements[0]
        if access == QueueAccess.SEND:
            state = self._resolver.destination(name)
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
        is_http = isinstance(name, DirectFormatName) and name.is_http
        if access & QueueAccess.ADMIN:
            state = self._catalog.any_outgoing(name)
        elif is_http or isinstance(name, MulticastFormatName):
            problem = "it can only be opened to send"
            raise UnsupportedFormatNameOperationError(str(name), problem=problem)
        elif isinstance(name, ConnectorFormatName):
            state = self._catalog.by_identifier(name.network)
        else:
            state = self._find_here(name, access, token)
        if state is None:
            raise QueueNotFoundError(str(name))
        return state

    def _find_here(self, name: FormatName, access: QueueAccess, token: Token) -> QueueState | None:
        if not self._resolver.is_local(name):
            problem = "a queue of another computer can only be opened to send"
            raise QueueNotFoundError(str(name), problem=problem, fix="read it on its own computer")
        return self._resolver.find(name) or self._new_subqueue(name, access, token)

    def _new_subqueue(self, name: FormatName, access: QueueAccess, token: Token) -> QueueState | None:
        """A subqueue is created when it is opened to read from it or to move messages there."""
        if not isinstance(name, DirectFormatName) or name.subqueue is None:
            return None
        parent = self._catalog.find(name.path.without_subqueue())
        if parent is None or not self._catalog.is_visible(parent):
            return None
        self._access.check_open(parent, access, token)
        return self._catalog.create_subqueue(parent, name.subqueue)

    def open_cursor(self, opened: OpenQueue) -> Cursor:
        """Open Cursor ([MS-MQDMPR] 3.1.7.1.1)."""
        state = opened.queue_for(QueueAccess.RECEIVE | QueueAccess.PEEK)
        cursor = Cursor(next(self._handles), state)
        opened.cursors[cursor.handle] = cursor
        return cursor

    # Closing.

    def close_cursor(self, opened: OpenQueue, cursor: Cursor) -> None:
        """Close Cursor ([MS-MQDMPR] 3.1.7.1.2): ends the waits that use it, too (DMPR T-07)."""
        opened.cursors.pop(cursor.handle, None)
        for waiter in [waiter for waiter in cursor.queue.waiters if waiter.cursor is cursor]:
            self._waiting.stop(waiter, OperationCancelledError(str(cursor.queue)))

    def close(self, opened: OpenQueue) -> None:
        """Close Queue ([MS-MQDMPR] 3.1.7.1.6): ends its waits and reads; closing twice does nothing."""
        if not opened.is_open:
            return
        opened.is_open = False
        for child in opened.children:  # before the queue, which a list does not have (DMPR T-06)
            self.close(child)
        state = opened.state
        if state is None:
            return
        for waiter in [waiter for waiter in state.waiters if waiter.opened is opened]:
            self._waiting.stop(waiter, OperationCancelledError(str(state)))
        self._give_back_reads(state, opened)
        opened.cursors.clear()
        state.handles.pop(opened.handle, None)
        state.queue.open_handles.discard(opened.handle)
        self._catalog.drop_empty_subqueue(state)

    def _give_back_reads(self, state: QueueState, opened: OpenQueue) -> None:
        for lookup_id in sorted(opened.held):
            record = state.get(self._core, lookup_id)
            if record is not None:
                self._waiting.give_back(state, lookup_id, record)


def _elements(name: FormatName) -> list[FormatName]:
    """Expand Format Name ([MS-MQDMPR] 3.1.7.3.8): the single names, sorted, each once."""
    if not isinstance(name, MultipleElementFormatName):
        return [name]
    return sorted(set(name.elements), key=lambda element: element.key)


def _check_sharing(state: QueueState, access: QueueAccess, share: ShareMode) -> None:
    """The three sharing rules of [MS-MQDMPR] 3.1.7.1.5; admin access counts as well (DMPR T-11)."""
    for other in state.handles.values():
        if share == other.share == ShareMode.DENY_NONE:  # no rule speaks of these, and masks are slow
            continue
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
