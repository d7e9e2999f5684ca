"""Carriers: the protocols that take messages to other computers, each for the format names that it carries.

A carrier registers with the engine and gets its `CarrierQueues`: the outgoing queues whose names it carries,
the part of them that has become ready, and the history of its connections. The first carrier that takes a
name has it. A name that none takes cannot be opened for sending. An outgoing queue that a store holds for
such a name keeps its messages, as if its host could not be reached, and says why: a slip in the
configuration loses nothing, and what waits too long becomes a dead letter with a line in the ledger.
"""

from collections.abc import Callable, Iterator
from typing import Protocol

from tiercel.engine.core import Core
from tiercel.engine.queue_state import QueueState
from tiercel.model.codes import ConnectionStatus, MessageClass, OutgoingQueueState
from tiercel.model.errors import UnsupportedFormatNameOperationError
from tiercel.model.format_name import DirectFormatName, DirectProtocol, FormatName, MulticastFormatName
from tiercel.model.message import Message
from tiercel.model.queue import ConnectionHistoryEntry, OutgoingQueue

_HISTORY_KEPT = 100
_HELD = {OutgoingQueueState.ON_HOLD, OutgoingQueueState.LOCKED}
_NETWARE = {DirectProtocol.SPX, DirectProtocol.IPX}


class Carrier(Protocol):
    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of names that it carries, for people: DIRECT=OS, PRIVATE."""

    def carries(self, name: FormatName) -> bool: ...

    def check(self, message: Message) -> None:
        """Raises when the protocol cannot carry a message that an application sends to such a name."""

    def paused(self, queue: QueueState) -> None:
        """An administrator paused the queue: nothing more of it may leave ([MS-MQDMPR] 3.1.7.2.3)."""

    def resumed(self, queue: QueueState) -> None:
        """The queue may send again ([MS-MQDMPR] 3.1.7.2.4)."""

    def message_failed(self, queue: QueueState, reason: MessageClass) -> None:
        """A message of the queue ended because it may not leave as it is."""


class AbsentCarrier:
    """Stands for a carrier that another process will run on this store: its names are accepted, and wait."""

    def __init__(self, carries: Callable[[FormatName], bool], kinds: tuple[str, ...]) -> None:
        self.carries = carries
        self.kinds = kinds

    def check(self, message: Message) -> None: ...

    def paused(self, queue: QueueState) -> None: ...

    def resumed(self, queue: QueueState) -> None: ...

    def message_failed(self, queue: QueueState, reason: MessageClass) -> None: ...


class CarrierQueues:
    """The outgoing queues of one carrier."""

    def __init__(self, carriers: "Carriers", carrier: Carrier) -> None:
        self.carrier = carrier
        self.ready: dict[QueueState, None] = {}
        self._carriers = carriers

    @property
    def has_ready(self) -> bool:
        self._carriers.assign()
        return bool(self.ready)

    def take_ready(self) -> list[QueueState]:
        """The queues that may send and got messages since the last call."""
        self._carriers.assign()
        ready, self.ready = self.ready, {}
        return [queue for queue in ready if not queue.is_deleted and not is_held(queue)]

    def note(self, queue: OutgoingQueue, status: ConnectionStatus, error: int = 0, address: str = "") -> None:
        """Adds a line to the connection history of a queue."""
        self._carriers.note(queue, status, error, address)


class Carriers:
    def __init__(self, core: Core) -> None:
        self._core = core
        self._registered: list[CarrierQueues] = []

    def register(self, carrier: Carrier) -> CarrierQueues:
        """Before the first batch."""
        queues = CarrierQueues(self, carrier)
        self._registered.append(queues)
        return queues

    def __iter__(self) -> Iterator[Carrier]:
        return (each.carrier for each in self._registered)

    def check(self, name: FormatName) -> None:
        """Raises when no carrier takes the name; an engine without carriers keeps whatever it is given."""
        if self._registered and self._find(name) is None:
            off = _off(name)
            problem = f"cannot send: this queue manager has no transport for {_kind(name)} names{off}"
            kinds = [kind for carrier in self for kind in carrier.kinds]
            fix = f"use a name of another kind ({', '.join(kinds)})"
            raise UnsupportedFormatNameOperationError(str(name), problem=problem, fix=fix)

    def check_message(self, queue: QueueState, message: Message) -> None:
        """Raises when the carrier of an outgoing queue cannot carry the message."""
        if (found := self._of(queue)) is not None:
            found.carrier.check(message)

    def check_acknowledgement(self, name: FormatName, message: Message) -> None:
        """`check_message` for an acknowledgement to a name, which may have no outgoing queue yet."""
        if (found := self._find(name)) is not None:
            found.carrier.check(message)

    def assign(self) -> None:
        """Gives the outgoing queues that got messages to their carriers."""
        if not self._core.ready or not self._registered:
            return
        ready, self._core.ready = self._core.ready, {}
        for queue in ready:
            found = self._of(queue)
            if found is not None:
                found.ready[queue] = None
            elif not queue.is_deleted:
                self._wait_for_a_carrier(queue)

    def paused(self, queue: QueueState) -> None:
        if (found := self._of(queue)) is not None:
            found.ready.pop(queue, None)
            found.carrier.paused(queue)

    def resumed(self, queue: QueueState) -> None:
        if (found := self._of(queue)) is not None:
            found.carrier.resumed(queue)
        if queue.count:
            self._core.ready[queue] = None

    def message_failed(self, queue: QueueState, reason: MessageClass) -> None:
        if (found := self._of(queue)) is not None:
            found.carrier.message_failed(queue, reason)

    def note(self, queue: OutgoingQueue, status: ConnectionStatus, error: int, address: str) -> None:
        entry = ConnectionHistoryEntry(
            status=status,
            connection_history_time=self._core.seconds,
            error=error,
            address_list=(address,) if address else (),
        )
        queue.connection_history.append(entry)
        del queue.connection_history[:-_HISTORY_KEPT]

    def _of(self, queue: QueueState) -> CarrierQueues | None:
        assert isinstance(queue.queue, OutgoingQueue)
        return self._find(queue.queue.destination_format_name)

    def _find(self, name: FormatName) -> CarrierQueues | None:
        for each in self._registered:
            if each.carrier.carries(name):
                return each
        return None

    def _wait_for_a_carrier(self, queue: QueueState) -> None:
        """The store holds messages to a name that no carrier takes (MQQB-003)."""
        outgoing = queue.queue
        assert isinstance(outgoing, OutgoingQueue)
        if outgoing.state not in _HELD:
            outgoing.state = OutgoingQueueState.NEED_VALIDATION
        if outgoing.reason:
            return
        name = outgoing.destination_format_name
        outgoing.reason = (
            f"this queue manager has no transport for {_kind(name)} names; "
            "configure one and restart, or purge the queue"
        )
        is_netware = isinstance(name, DirectFormatName) and name.protocol in _NETWARE
        no_way = ConnectionStatus.ROUTING_DATA_NOT_AVAILABLE
        self.note(outgoing, ConnectionStatus.TCP_NOT_ENABLED if is_netware else no_way, 0, "")


def is_held(queue: QueueState) -> bool:
    """Whether the queue must not send: paused, or locked because the computer is hardened."""
    return isinstance(queue.queue, OutgoingQueue) and queue.queue.state in _HELD


def _off(name: FormatName) -> str:
    """The section of the configuration that would have carried the name."""
    if isinstance(name, DirectFormatName) and name.is_http:
        return " ([srmp] is off)"
    return " ([multicast] is off or not available)" if isinstance(name, MulticastFormatName) else ""


def _kind(name: FormatName) -> str:
    """DIRECT=HTTP, MULTICAST: what a name begins with."""
    return str(name).partition(":" if isinstance(name, DirectFormatName) else "=")[0]
