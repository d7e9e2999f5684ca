"""Where a format name leads: to a queue of this computer, or to an outgoing queue."""

from typing import Final

from tiercel.engine.carriers import Carriers
from tiercel.engine.catalog import Catalog
from tiercel.engine.identity import Identity
from tiercel.engine.queue_state import QueueState
from tiercel.model.errors import (
    IllegalFormatNameError,
    QueueNotFoundError,
    UnsupportedFormatNameOperationError,
)
from tiercel.model.format_name import (
    ConnectorFormatName,
    DirectFormatName,
    DirectProtocol,
    DistributionListFormatName,
    FormatName,
    MachineFormatName,
    MulticastFormatName,
    PrivateFormatName,
    PublicFormatName,
    UnreadableFormatName,
)
from tiercel.model.message import Message
from tiercel.model.path_name import PathName

_HERE: Final = (".", "localhost")  # every computer takes these names for its own


class Resolver:
    def __init__(self, catalog: Catalog, carriers: Carriers, identity: Identity) -> None:
        self._catalog = catalog
        self._carriers = carriers
        self._own_name = identity.qualified_computer_name or identity.computer_name
        # Every name and address that means this computer (DMPR T-32).
        manager = catalog.queue_manager
        stored = (manager.computer_name, manager.qualified_computer_name)  # the computer may have a new name
        self._local_names = {name.casefold() for name in (*_HERE, *stored, *identity.names)}

    def is_local_name(self, computer: str) -> bool:
        return computer.casefold() in self._local_names

    def is_local(self, name: FormatName) -> bool:
        """Whether the name means a queue of this computer, existing or not."""
        own = self._catalog.queue_manager.identifier
        match name:
            case DirectFormatName():
                return not name.is_http and self.is_local_name(name.host)
            case PrivateFormatName() | MachineFormatName():
                return name.queue_manager == own
            case PublicFormatName():
                return self._catalog.by_identifier(name.queue) is not None
        return False

    def name_for_others(self, name: FormatName) -> FormatName:
        """The name by which other computers reach a queue: with the name of this computer instead of `.`."""
        if not isinstance(name, DirectFormatName) or name.host.casefold() not in _HERE or name.is_http:
            return name
        return DirectFormatName(DirectProtocol.OS, name.path.with_computer(self._own_name))

    def find(self, name: FormatName) -> QueueState | None:
        """The queue of this computer with that name; the computer that the name gives is not checked."""
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

    def destination(
        self,
        name: FormatName,
        *,
        for_acknowledgements: bool = False,
        answers_to: str = "",
        is_receipt: bool = False,
    ) -> QueueState:
        """The queue that takes messages to this name: the queue itself, or an outgoing queue to it.

        `for_acknowledgements`: the queue manager itself has something to say, because somebody asked for it.
        `answers_to` is the address that it is meant for, besides the name: each has an outgoing queue.
        A receipt for a message that came over HTTP waits if SRMP is off now.
        """
        state = self.route(name, answers_to, is_receipt=is_receipt)
        if state is None:
            return self._catalog.create_outgoing(
                name,
                is_multicast=isinstance(name, MulticastFormatName),
                for_acknowledgements=for_acknowledgements,
                answers_to=answers_to,
            )
        if state.is_outgoing and not for_acknowledgements:
            self._catalog.use_outgoing(state)
        return state

    def route(self, name: FormatName, answers_to: str = "", *, is_receipt: bool = False) -> QueueState | None:
        """`destination` without effect: None where an outgoing queue would be created."""
        check_can_send(name)
        if self.is_local(name):
            state = self.find(name)
            if state is None:
                raise QueueNotFoundError(str(name))
            return state
        if isinstance(name, PublicFormatName | DistributionListFormatName):
            problem = "only a directory knows where it leads, and this queue manager uses none"
            raise UnsupportedFormatNameOperationError(str(name), problem=problem)
        if not is_receipt:
            self._carriers.check(name)
        return self._catalog.outgoing(name, answers_to)

    def check_carried(self, queue: QueueState, message: Message) -> None:
        """Raises when the message cannot leave this computer by an outgoing queue."""
        self._carriers.check_message(queue, message)

    def check_acknowledgement(self, message: Message) -> None:
        """`check_carried`, before there is an outgoing queue."""
        name = message.destination_queue
        if name is not None and not self.is_local(name):
            self._carriers.check_acknowledgement(name, message)

    def queue_path(self, name: FormatName) -> tuple[str, str]:
        """Get Queue Path: the path name and the computer of a queue ([MS-MQDMPR] 3.1.7.1.26)."""
        if isinstance(name, DirectFormatName):
            return name.path_name, name.host
        state = self.find(name) if self.is_local(name) else None
        if state is None or state.queue.pathname is None:
            raise IllegalFormatNameError(str(name), problem="no queue of that name is known here")
        return str(state.queue.pathname), state.queue.pathname.computer

    def dead_letter_queue(self, path: PathName) -> QueueState | None:
        """The application queue of this computer that a message names for its dead letters, if it exists."""
        own = self._catalog.find(path) if self.is_local_name(path.computer) else None
        return own if own is not None and self._catalog.is_visible(own) else None


def check_can_send(name: FormatName) -> None:
    if isinstance(name, UnreadableFormatName):
        raise IllegalFormatNameError(str(name))
    if name.is_read_only:
        problem = "only the queue manager can write to journals and dead-letter queues"
        fix = "send to the queue itself"
        raise UnsupportedFormatNameOperationError(str(name), problem=problem, fix=fix)
    if isinstance(name, ConnectorFormatName):
        problem = "messages come to a connector by the names of the queues behind it"
        raise UnsupportedFormatNameOperationError(str(name), problem=problem)
    if isinstance(name, DirectFormatName) and name.subqueue is not None:
        problem = "messages come into a subqueue only by being moved there"
        raise UnsupportedFormatNameOperationError(str(name), problem=problem, fix="send to the queue itself")
