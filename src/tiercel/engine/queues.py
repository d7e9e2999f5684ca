"""Creating, deleting, changing and finding queues: [MS-MQDMPR] 3.1.7.1.3, 3.1.7.1.4."""

from collections.abc import Iterator, Mapping
from typing import Any

from tiercel.engine.access import Access
from tiercel.engine.attributes import SETTABLE, change, check_attributes
from tiercel.engine.catalog import Catalog
from tiercel.engine.claims import Claims
from tiercel.engine.core import Core
from tiercel.engine.incoming_streams import IncomingStreams
from tiercel.engine.purging import Purging
from tiercel.engine.queue_state import QueueState
from tiercel.engine.resolver import Resolver
from tiercel.engine.transactions import Transactions
from tiercel.engine.waiting import Waiting
from tiercel.model.codes import MessageClass, QueueAccessMask, QueueType
from tiercel.model.errors import (
    IllegalOperationError,
    IllegalPropertyValueError,
    IllegalPropertyVariantTypeError,
    IllegalQueuePathNameError,
    QueueDeletedError,
    QueueNotFoundError,
)
from tiercel.model.format_name import DirectFormatName, FormatName
from tiercel.model.path_name import PathKind, PathName
from tiercel.model.queue import Queue
from tiercel.security.access import Token

_TYPE_OF_KIND = {PathKind.PRIVATE: QueueType.PRIVATE, PathKind.PUBLIC: QueueType.PUBLIC}


class Queues:
    def __init__(
        self,
        core: Core,
        catalog: Catalog,
        resolver: Resolver,
        access: Access,
        waiting: Waiting,
        transactions: Transactions,
        claims: Claims,
        purging: Purging,
        streams: IncomingStreams,
    ) -> None:
        self._core = core
        self._catalog = catalog
        self._resolver = resolver
        self._access = access
        self._waiting = waiting
        self._transactions = transactions
        self._claims = claims
        self._purging = purging
        self._streams = streams

    # Creating, changing and deleting.

    def create(
        self, path: PathName, token: Token, *, transactional: bool = False, **attributes: Any
    ) -> QueueState:
        """Create Queue ([MS-MQDMPR] 3.1.7.1.3) with the defaults of Set Queue Defaults (3.1.7.1.33)."""
        kind = _TYPE_OF_KIND.get(path.kind)
        if kind is None or path.subqueue is not None or path.journal:
            problem = "only private and public queues are created; the others come by themselves"
            raise IllegalQueuePathNameError(f"path name {path}", problem=problem)
        if not self._resolver.is_local_name(path.computer):
            problem = "queues are created on this computer only"
            raise IllegalQueuePathNameError(f"path name {path}", problem=problem, fix="use . as the computer")
        check_attributes(path, attributes, SETTABLE)
        if type(transactional) is not bool:
            kind = type(transactional).__name__
            raise IllegalPropertyVariantTypeError(f"transactional of {path}", present=kind, limit="bool")
        _check_multicast(path, attributes, transactional=transactional)
        local = path.with_computer(self._catalog.queue_manager.computer_name)
        security = self._access.default_descriptor(token, attributes.pop("security", None))
        queue = Queue(
            identifier=self._core.new_guid(),
            pathname=local,
            queue_type=kind,
            transactional=transactional,
            security=security,
            **attributes,
        )
        self._core.reserve(len(security) + 4096)
        return self._catalog.create(queue)

    def set_properties(self, state: QueueState, token: Token, **attributes: Any) -> None:
        check_attributes(state, attributes, SETTABLE)
        needed = QueueAccessMask.SET_QUEUE_PROPERTIES
        if "security" in attributes:
            needed |= QueueAccessMask.CHANGE_QUEUE_PERMISSIONS
        self._access.check(state, needed, token)
        queue = state.queue
        _check_multicast(state, attributes, transactional=queue.transactional)
        change(queue, attributes, self._core.seconds)
        if state.journal is not None:
            state.journal.queue.quota_kib = queue.journal_quota_kib
            state.journal.queue.security = queue.security
        for child in state.subqueues.values():
            child.queue.security = queue.security
            self._catalog.save(child)
        self._catalog.save(state)

    def delete(self, state: QueueState, token: Token) -> None:
        """Delete Queue ([MS-MQDMPR] 3.1.7.1.4): its messages and waits end, its handles go stale."""
        self._access.check(state, QueueAccessMask.DELETE_QUEUE, token)
        if state.keeps_messages or self._catalog.is_internal(state):
            fix = "purge it, or delete the queue that it belongs to"
            raise IllegalOperationError(str(state), problem="a system queue cannot be deleted", fix=fix)
        doomed = [*state.subqueues.values(), *([state.journal] if state.journal else []), state]
        if any(self._transactions.is_in_doubt(each) for each in doomed):
            problem = "a prepared transaction still uses it"
            raise IllegalOperationError(str(state), problem=problem, fix="commit or abort it first")
        self._streams.bequeath(state)
        # First, so that no acknowledgement that comes of it goes back there.
        for each in doomed:
            self._catalog.remove(each)
        for each in doomed:
            self._empty(each)

    def _empty(self, state: QueueState) -> None:
        for waiter in list(state.waiters):
            self._waiting.stop(waiter, QueueDeletedError(str(state)))
        self._transactions.drop_stored(state)
        self._purging.end_all(state, MessageClass.NACK_Q_DELETED)
        self._claims.queue_deleted(state)

    # Finding.

    def all(self) -> Iterator[QueueState]:
        """Every queue but journals, which are reached through their queues."""
        return self._catalog.all()

    def find(self, name: FormatName) -> QueueState | None:
        """The queue of this computer, local or outgoing, that a name means."""
        if self._resolver.is_local(name):
            return self._resolver.find(name)
        return self._catalog.any_outgoing(name)

    def get(self, name: FormatName) -> QueueState:
        """`find`, but a missing queue is an error."""
        state = self.find(name)
        if state is None:
            raise QueueNotFoundError(str(name))
        return state

    def by_slot(self, slot: int) -> QueueState | None:
        """The queue with this number in records; None if it was deleted."""
        return self._catalog.by_slot.get(slot)

    def find_local(self, name: FormatName) -> QueueState | None:
        """The queue that takes what peers send to the name, whichever computer the name gives."""
        if name.is_read_only or (isinstance(name, DirectFormatName) and name.subqueue is not None):
            return None
        state = self._resolver.find(name)
        return state if state is not None and self._catalog.is_visible(state) else None

    def destination(self, name: FormatName) -> QueueState:
        """The queue that takes messages to this name: the queue itself, or an outgoing queue to it."""
        return self._resolver.destination(name)

    def is_local(self, name: FormatName) -> bool:
        return self._resolver.is_local(name)

    def is_own_name(self, computer: str) -> bool:
        """Whether a name or address means this computer."""
        return self._resolver.is_local_name(computer)

    def format_name(self, state: QueueState) -> FormatName:
        return self._catalog.format_name(state)

    def path(self, name: FormatName) -> tuple[str, str]:
        """Get Queue Path ([MS-MQDMPR] 3.1.7.1.26): the path name and the computer of a queue."""
        return self._resolver.queue_path(name)

    def ignores_named_senders(self, state: QueueState) -> bool:
        """Whether its access list names senders that it cannot tell apart."""
        return self._access.ignores_named_senders(state)

    def is_visible(self, state: QueueState) -> bool:
        """Whether it is a queue of applications: not one of the system's, nor a part of another queue."""
        return self._catalog.is_visible(state)

    def is_internal(self, state: QueueState) -> bool:
        """Whether only the protocols use the queue; others do not see it."""
        return self._catalog.is_internal(state)


def _check_multicast(subject: object, attributes: Mapping[str, object], *, transactional: bool) -> None:
    """Multicast has no transactions (SRMP-181); stores of older versions may have such queues."""
    address = attributes.get("multicast_address")
    if transactional and address is not None:
        problem = "a transactional queue cannot have one: multicast has no transactions"
        fix = "use a queue that is not transactional"
        raise IllegalPropertyValueError(
            f"the multicast address of {subject}", present=address, problem=problem, fix=fix
        )
