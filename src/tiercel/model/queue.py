"""Queues, and their state of incoming and outgoing messages ([MS-MQDMPR] 3.1.1.2 to 3.1.1.5).

Only attributes, their defaults and the rules that the model itself sets; the engine acts on them. It also
keeps the messages and the open descriptors; here stand only their number and their handles.

Every field carries its `Durability`. A DIRECTORY attribute of a queue is published for public queues only,
and is merely persistent for the others (DMPR-029). References to other objects are VOLATILE: they are tied
again at every start.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from types import MappingProxyType, MemberDescriptorType
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from tiercel.model.codes import (
    ConnectionStatus,
    Durability,
    OutgoingQueueState,
    QueuePrivacyLevel,
    QueueScope,
    QueueType,
)
from tiercel.model.errors import (
    IllegalFormatNameError,
    IllegalPropertyValueError,
    LabelTooLongError,
    PropertyNotAllowedError,
)
from tiercel.model.format_name import FormatName, MulticastFormatName
from tiercel.model.identifiers import NULL_GUID, SequenceInfo, TxSequenceId
from tiercel.model.limits import (
    INFINITE,
    JOURNAL_QUOTA_DEFAULT_KIB,
    QUEUE_LABEL_MAX_UTF16_UNITS,
    QUOTA_DEFAULT_KIB,
)
from tiercel.model.path_name import PathName, utf16_length

if TYPE_CHECKING:
    from tiercel.model.queue_manager import QueueManager

PERSISTENT: Final[Mapping[str, Durability]] = MappingProxyType({"durability": Durability.PERSISTENT})
DIRECTORY: Final[Mapping[str, Durability]] = MappingProxyType({"durability": Durability.DIRECTORY})
VOLATILE: Final[Mapping[str, Durability]] = MappingProxyType({"durability": Durability.VOLATILE})


def durability(entity: type, attribute: str) -> Durability:
    """How an attribute is kept across restarts; properties are computed and never stored."""
    if isinstance(getattr(entity, attribute, None), property):
        return Durability.COMPUTED
    return _durabilities(entity)[attribute]


@cache  # called for every attribute of every stored queue
def _durabilities(entity: Any) -> dict[str, Durability]:
    return {each.name: each.metadata["durability"] for each in fields(entity)}


def check_range(subject: str, present: int, low: int, high: int) -> None:
    if not low <= present <= high:
        raise IllegalPropertyValueError(subject, present=present, limit=f"{low} to {high}")


@dataclass(slots=True, kw_only=True, eq=False)
class DirectoryObject:
    """An object that can be published in a directory; compared by identity."""

    identifier: UUID = field(metadata=DIRECTORY)


class _SetOnce:
    """An attribute that is set at construction and never changes ([MS-MQDMPR] 3.1.1, DMPR-002)."""

    def __init__(self, slot: MemberDescriptorType) -> None:
        self.slot = slot

    def __get__(self, instance: object, owner: type) -> object:
        return self.slot.__get__(instance, owner)

    def __set__(self, instance: object, value: object) -> None:
        if hasattr(instance, self.slot.__name__):
            subject = f"the {self.slot.__name__} of {instance}"
            raise PropertyNotAllowedError(subject, problem="it cannot change", fix="make a new object")
        self.slot.__set__(instance, value)


def _set_once(entity: type, attribute: str) -> None:
    setattr(entity, attribute, _SetOnce(vars(entity)[attribute]))


# Not a frozen dataclass, since other attributes may change, nor __setattr__, which slows every assignment.
_set_once(DirectoryObject, "identifier")


@dataclass(slots=True, kw_only=True, eq=False)
class Queue(DirectoryObject):
    """A queue ([MS-MQDMPR] 3.1.1.2) with the values of Set Queue Defaults (3.1.7.1.33)."""

    pathname: PathName | None = field(default=None, metadata=DIRECTORY)  # an outgoing queue has none
    qualified_pathname: PathName | None = field(default=None, metadata=DIRECTORY)
    label: str = field(default="", metadata=DIRECTORY)
    create_time: int = field(default=0, metadata=DIRECTORY)  # seconds since 1970, like every time here
    modify_time: int = field(default=0, metadata=DIRECTORY)
    type: UUID = field(default=NULL_GUID, metadata=DIRECTORY)  # for applications; never interpreted
    private_queue_number: int | None = field(default=None, metadata=DIRECTORY)
    journaling: bool = field(default=False, metadata=DIRECTORY)
    quota_kib: int = field(default=QUOTA_DEFAULT_KIB, metadata=DIRECTORY)
    journal_quota_kib: int = field(default=JOURNAL_QUOTA_DEFAULT_KIB, metadata=DIRECTORY)
    authentication: bool = field(default=False, metadata=DIRECTORY)
    privacy_level: QueuePrivacyLevel = field(default=QueuePrivacyLevel.OPTIONAL, metadata=DIRECTORY)
    transactional: bool = field(default=False, metadata=DIRECTORY)
    multicast_address: str | None = field(default=None, metadata=DIRECTORY)
    # A self-relative security descriptor; None until the engine makes the default one (3.1.7.1.3.1).
    security: bytes | None = field(default=None, metadata=DIRECTORY)
    base_priority: int = field(default=0, metadata=DIRECTORY)
    full_path: str = field(default="", metadata=DIRECTORY)  # set by the directory, like the next
    directory_path: str = field(default="", metadata=DIRECTORY)
    scope: QueueScope = field(default=QueueScope.ENTERPRISE, metadata=PERSISTENT)
    queue_type: QueueType = field(default=QueueType.PRIVATE, metadata=PERSISTENT)
    incoming_transactional_transfer_infos: list["IncomingTransactionalTransferInfo"] = field(
        default_factory=list, repr=False, metadata=PERSISTENT
    )

    queue_manager: "QueueManager | None" = field(default=None, repr=False, metadata=VOLATILE)
    journal_queue: "Queue | None" = field(default=None, repr=False, metadata=VOLATILE)  # a subqueue has none
    subqueues: dict[str, "Queue"] = field(default_factory=dict, repr=False, metadata=VOLATILE)
    total_bytes: int = field(default=0, metadata=VOLATILE)
    message_count: int = field(default=0, metadata=VOLATILE)
    open_handles: set[int] = field(default_factory=set, repr=False, metadata=VOLATILE)

    def __post_init__(self) -> None:
        self.validate()

    def __str__(self) -> str:
        return f"queue {self.pathname or self.identifier}"

    @property
    def active(self) -> bool:
        return bool(self.open_handles)

    def validate(self) -> None:
        """Raise an `MqError` if an attribute has an invalid value."""
        check_range(f"the quota of {self}, in KiB,", self.quota_kib, 0, INFINITE)
        check_range(f"the journal quota of {self}, in KiB,", self.journal_quota_kib, 0, INFINITE)
        check_range(f"the base priority of {self}", self.base_priority, -0x8000, 0x7FFF)
        if self.multicast_address is not None:
            self._validate_multicast_address(self.multicast_address)
        self._validate_label()
        self._validate_private_queue_number()

    def _validate_label(self) -> None:
        length = utf16_length(self.label)
        if length > QUEUE_LABEL_MAX_UTF16_UNITS:
            limit = f"{QUEUE_LABEL_MAX_UTF16_UNITS} UTF-16 units"
            raise LabelTooLongError(f"the label of {self}", present=length, limit=limit)

    def _validate_multicast_address(self, address: str) -> None:
        try:
            MulticastFormatName.from_value(address)
        except IllegalFormatNameError as error:
            subject = f"the multicast address of {self}"
            fix = "write it as 234.1.1.1:8001, or None"
            raise IllegalPropertyValueError(subject, present=ascii(address), fix=fix) from error

    def _validate_private_queue_number(self) -> None:
        number = self.private_queue_number
        if number is None:
            return
        subject = f"the private queue number of {self}"
        if self.queue_type is not QueueType.PRIVATE:
            problem = f"a {self.queue_type.value.lower()} queue has none"
            raise PropertyNotAllowedError(subject, problem=problem, present=number)
        check_range(subject, number, 0, 0xFFFF_FFFF)


@dataclass(slots=True, kw_only=True, eq=False)
class OutgoingQueue(Queue):
    """Messages on their way to a queue of another computer ([MS-MQDMPR] 3.1.1.3)."""

    destination_format_name: FormatName = field(metadata=PERSISTENT)
    multicast: bool = field(default=False, metadata=PERSISTENT)
    # Not in the specification's list of types; like a system queue, local and never published.
    queue_type: QueueType = field(default=QueueType.SYSTEM, metadata=PERSISTENT)
    next_hops: list[str] | None = field(default=None, metadata=VOLATILE)  # None until resolved
    state: OutgoingQueueState = field(default=OutgoingQueueState.INACTIVE, metadata=VOLATILE)
    reason: str = field(default="", metadata=VOLATILE)  # why it cannot send; not in the specification
    next_try: int = field(default=0, metadata=VOLATILE)  # when it connects again, 0 if unknown; likewise
    connection_history: list["ConnectionHistoryEntry"] = field(
        default_factory=list, repr=False, metadata=VOLATILE
    )
    transfer_info: "OutgoingTransferInfo" = field(init=False, repr=False, metadata=PERSISTENT)

    def __post_init__(self) -> None:
        Queue.__post_init__(self)  # super() does not work here: slots=True creates the class twice
        self.transfer_info = OutgoingTransferInfo(outgoing_queue=self)

    def __str__(self) -> str:
        return f"outgoing queue {self.destination_format_name}"

    @property
    def active(self) -> bool:
        return bool(self.open_handles) or self.message_count > 0

    def _validate_label(self) -> None:
        """Its label is its format name ([MS-MQDMPR] 3.1.7.1.5), which may exceed the limit of labels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionHistoryEntry:
    """The result of one connection attempt ([MS-MQDMPR] 3.1.1.3)."""

    status: ConnectionStatus = field(metadata=VOLATILE)
    connection_history_time: int = field(metadata=VOLATILE)
    error: int = field(default=0, metadata=VOLATILE)  # an HRESULT; 0 is none
    address_list: tuple[str, ...] = field(default=(), metadata=VOLATILE)


@dataclass(slots=True, kw_only=True, eq=False)
class OutgoingTransferInfo:
    """Progress of the transactional messages of an outgoing queue ([MS-MQDMPR] 3.1.1.4).

    The text calls none of it persistent, but exactly once, in order, over a restart, needs it (DMPR T-38).
    """

    outgoing_queue: OutgoingQueue = field(repr=False, metadata=VOLATILE)
    eod_first_non_ack: SequenceInfo = field(default=SequenceInfo(), metadata=PERSISTENT)
    eod_last_non_ack: SequenceInfo = field(default=SequenceInfo(), metadata=PERSISTENT)
    eod_last_ack: SequenceInfo = field(default=SequenceInfo(), metadata=PERSISTENT)
    eod_next_seq: SequenceInfo = field(default=SequenceInfo(), metadata=PERSISTENT)
    eod_last_ack_count: int = field(default=0, metadata=PERSISTENT)
    eod_last_ack_time: int = field(default=0, metadata=PERSISTENT)
    eod_no_ack_count: int = field(default=0, metadata=PERSISTENT)
    eod_no_read_count: int = field(default=0, metadata=PERSISTENT)
    eod_resend_count: int = field(default=0, metadata=PERSISTENT)
    eod_resend_interval_s: int = field(default=0, metadata=PERSISTENT)
    eod_resend_time: int = field(default=0, metadata=PERSISTENT)


@dataclass(slots=True, kw_only=True, eq=False)
class IncomingTransactionalTransferInfo:
    """The last message accepted from one stream of a sender ([MS-MQDMPR] 3.1.1.5); durable by DMPR T-38."""

    queue: Queue = field(repr=False, metadata=VOLATILE)
    format_name: FormatName = field(metadata=PERSISTENT)  # the queue name used by the sender
    sender_identifier: UUID = field(metadata=PERSISTENT)
    sequence_identifier: TxSequenceId = field(default=TxSequenceId(), metadata=PERSISTENT)
    sequence_number: int = field(default=0, metadata=PERSISTENT)
    last_access_time: int = field(default=0, metadata=PERSISTENT)
    reject_count: int = field(default=0, metadata=PERSISTENT)
