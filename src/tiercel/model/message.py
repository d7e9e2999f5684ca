"""A message and all its properties: [MS-MQDMPR] 3.1.1.12.

The names are the specification's, shortened where users say less; the comments give the specification's name
where it differs. Times are whole seconds, points in time since 1970-01-01 UTC; `sent_at` and the like are the
same as Python's own types.
"""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from enum import IntEnum, IntFlag
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, Self
from uuid import UUID

from tiercel.model.codes import (
    Acknowledgements,
    AdministrationQueueType,
    AuthenticationLevel,
    BodyType,
    DeliveryGuarantee,
    DestinationQueueType,
    EncryptionAlgorithm,
    HashAlgorithm,
    MessageClass,
    PrivacyLevel,
    ResponseQueueType,
    SenderIdType,
)
from tiercel.model.errors import (
    DecodeError,
    IllegalPropertySizeError,
    IllegalPropertyValueError,
    IllegalPropertyVariantTypeError,
    LabelTooLongError,
    MqError,
    UnsupportedFormatNameOperationError,
)
from tiercel.model.format_name import (
    DirectFormatName,
    FormatName,
    MulticastFormatName,
    PrivateFormatName,
    PublicFormatName,
    UnreadableFormatName,
)
from tiercel.model.identifiers import NO_SEQUENCE, NULL_GUID, MessageId, TxSequenceId
from tiercel.model.limits import (
    DIRECT_NAME_MAX_BYTES,
    INFINITE,
    LABEL_MAX_UTF16_UNITS,
    PRIORITY_DEFAULT,
    PRIORITY_MAX,
    SENDER_CERT_MAX_BYTES,
    TIME_TO_REACH_QUEUE_DEFAULT_S,
    TRANSACTION_ID_MAX,
)
from tiercel.model.path_name import PathName, utf16_length
from tiercel.model.sid import SecurityIdentifier

if TYPE_CHECKING:
    from tiercel.bodies import Decoded

CORRELATION_ID_BYTES = 20
NO_MESSAGE = MessageId()
_RECOVERABLE = int(DeliveryGuarantee.RECOVERABLE)  # as a plain number: enum lookup is slow here


@dataclass(slots=True, kw_only=True, repr=False)
class Message:
    # Set by the sender.
    body: bytes = field(default=b"", kw_only=False)
    label: str = ""
    priority: int = PRIORITY_DEFAULT
    delivery: int = DeliveryGuarantee.EXPRESS  # DeliveryGuarantee
    body_type: int = 0
    extension: bytes = b""
    application_tag: int = 0
    correlation_id: bytes = bytes(CORRELATION_ID_BYTES)
    message_class: int = MessageClass.NORMAL  # Class: a MessageClass or an application-defined number
    time_to_reach_queue: int = TIME_TO_REACH_QUEUE_DEFAULT_S
    time_to_be_received: int = INFINITE
    acknowledgements: int = 0  # AcknowledgementsRequested
    positive_journaling: bool = False  # PositiveJournalingRequested
    negative_journaling: bool = False  # NegativeJournalingRequested
    tracing: bool = False  # TracingRequested
    tracing_queue: UUID = NULL_GUID  # TracingQueueIdentifier
    dead_letter_queue: PathName | None = None  # ApplicationDeadletterQueue

    # Queues.
    destination_queue: FormatName | None = None
    administration_queue: FormatName | None = None
    response_queue: FormatName | None = None
    destination_queues: tuple[FormatName, ...] = ()  # DestinationMultiQueueFormatName
    administration_queues: tuple[FormatName, ...] = ()  # AdministrationMultiQueueFormatName
    response_queues: tuple[FormatName, ...] = ()  # ResponseMultiQueueFormatName
    destination_queue_manager: UUID = NULL_GUID  # of a public queue; private names include it
    transaction_status_queue: FormatName | None = None

    # Set by queue managers.
    id: MessageId = NO_MESSAGE  # Identifier; its lineage is the SourceMachineIdentifier
    lookup_id: int = 0  # LookupIdentifier
    sent_time: int = 0
    arrival_time: int = 0
    abort_count: int = 0  # [MS-MQRR] 2.2.5.3, as the two below
    move_count: int = 0
    last_move_time: int = 0
    allow_peek_when_locked: bool = False

    # Position in a transaction; transaction_id is None outside of one.
    transaction_id: int | None = None
    tx_sequence_id: TxSequenceId = NO_SEQUENCE  # TransactionalMessageSequenceIdentifier
    tx_sequence_number: int = 0
    previous_tx_sequence_number: int = 0
    first_in_transaction: bool = False
    last_in_transaction: bool = False
    final_ack_required: bool = False

    # Sender and protection.
    sender_id: bytes = b""
    sender_id_type: int = SenderIdType.SID  # the queue manager adds the SID; NONE omits it
    sender_certificate: bytes = b""
    authentication_level: int = AuthenticationLevel.NONE
    verified_sender: bytes = b""  # the SID that the trust store has for the certificate; never sent
    verified_name: str = ""  # the name of that entry
    privacy_level: int = PrivacyLevel.NONE
    hash_algorithm: int = HashAlgorithm.SHA1
    encryption_algorithm: int = EncryptionAlgorithm.RC4
    symmetric_key: bytes = b""
    signature: bytes = b""
    multiple_destination_signature: bytes = b""
    authentication_provider_type: int = 0
    authentication_provider_name: str = ""

    # Connectors and SOAP.
    connector_type: UUID = NULL_GUID  # ConnectorTypeIdentifier
    connector_queue_manager: UUID = NULL_GUID  # ConnectorQueueManagerIdentifier
    soap_envelope: str = ""
    soap_compound_message: bytes = b""
    soap_header: str = ""
    soap_body: str = ""

    if TYPE_CHECKING:  # as `__post_init__` takes them: a text for the body, a timedelta or None for the times

        def __init__(
            self,
            body: bytes | str = b"",
            *,
            label: str = ...,
            priority: int = ...,
            delivery: int = ...,
            body_type: int = ...,
            extension: bytes = ...,
            application_tag: int = ...,
            correlation_id: bytes = ...,
            message_class: int = ...,
            time_to_reach_queue: int | timedelta | None = ...,
            time_to_be_received: int | timedelta | None = ...,
            acknowledgements: int = ...,
            positive_journaling: bool = ...,
            negative_journaling: bool = ...,
            tracing: bool = ...,
            tracing_queue: UUID = ...,
            dead_letter_queue: PathName | None = ...,
            destination_queue: FormatName | None = ...,
            administration_queue: FormatName | None = ...,
            response_queue: FormatName | None = ...,
            destination_queues: tuple[FormatName, ...] = ...,
            administration_queues: tuple[FormatName, ...] = ...,
            response_queues: tuple[FormatName, ...] = ...,
            destination_queue_manager: UUID = ...,
            transaction_status_queue: FormatName | None = ...,
            id: MessageId = ...,  # noqa: A002
            lookup_id: int = ...,
            sent_time: int = ...,
            arrival_time: int = ...,
            abort_count: int = ...,
            move_count: int = ...,
            last_move_time: int = ...,
            allow_peek_when_locked: bool = ...,
            transaction_id: int | None = ...,
            tx_sequence_id: TxSequenceId = ...,
            tx_sequence_number: int = ...,
            previous_tx_sequence_number: int = ...,
            first_in_transaction: bool = ...,
            last_in_transaction: bool = ...,
            final_ack_required: bool = ...,
            sender_id: bytes = ...,
            sender_id_type: int = ...,
            sender_certificate: bytes = ...,
            authentication_level: int = ...,
            verified_sender: bytes = ...,
            verified_name: str = ...,
            privacy_level: int = ...,
            hash_algorithm: int = ...,
            encryption_algorithm: int = ...,
            symmetric_key: bytes = ...,
            signature: bytes = ...,
            multiple_destination_signature: bytes = ...,
            authentication_provider_type: int = ...,
            authentication_provider_name: str = ...,
            connector_type: UUID = ...,
            connector_queue_manager: UUID = ...,
            soap_envelope: str = ...,
            soap_compound_message: bytes = ...,
            soap_header: str = ...,
            soap_body: str = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        if isinstance(self.body, str):
            self.body = self.body.encode()
        if self.time_to_be_received.__class__ is not int:
            self.time_to_be_received = _seconds_of(self.time_to_be_received)
        if self.time_to_reach_queue.__class__ is not int:
            self.time_to_reach_queue = _seconds_of(self.time_to_reach_queue)
        # Common mistakes are reported at once, the rest when the message is encoded.
        try:
            if 0 <= self.priority <= PRIORITY_MAX and len(self.label) <= LABEL_MAX_UTF16_UNITS // 2:
                return
        except TypeError:
            pass
        self.check()

    def __repr__(self) -> str:
        """The properties that differ from their default; a long value is cut."""
        shown = []
        for name, default in _DEFAULTS.items():
            value = getattr(self, name)
            if value != default:
                text = _repr(_readable(name, value))
                shown.append(text if name == "body" else f"{name}={text}")
        return f"{type(self).__name__}({', '.join(shown)})"

    @property
    def decoded(self) -> "Decoded":
        """The body as people read it: its kind, text and value; an undecodable one has an `error`."""
        from tiercel import bodies  # noqa: PLC0415  # the one import that points up: messages rarely need it

        if self.symmetric_key:
            return bodies.Decoded(bodies.Kind.BINARY, error="encrypted")
        return bodies.decode(self.body, self.body_type)

    @property
    def text(self) -> str:
        """The decoded body as text; raises `IllegalPropertyValueError`, a `ValueError`, if it is not text."""
        found = self.decoded
        if found.text is None and self.body:
            problem = f"it is not text ({found.error or found.kind})"
            raise IllegalPropertyValueError("message body", problem=problem, fix="use body or decoded")
        return found.text or ""

    def json(self) -> object:
        """The value of a body that is JSON; a `ValueError` if it is not."""
        return json.loads(self.text)

    @property
    def sent_at(self) -> datetime | None:
        """`sent_time` as a time in UTC; None for a message that was not sent."""
        return _time_of(self.sent_time)

    @property
    def arrived_at(self) -> datetime | None:
        """`arrival_time` as a time in UTC."""
        return _time_of(self.arrival_time)

    @property
    def last_moved_at(self) -> datetime | None:
        """`last_move_time` as a time in UTC; None if it was never moved to a subqueue."""
        return _time_of(self.last_move_time)

    @property
    def reaches_queue_within(self) -> timedelta | None:
        """`time_to_reach_queue`; None: without a limit."""
        return _duration_of(self.time_to_reach_queue)

    @property
    def is_received_within(self) -> timedelta | None:
        """`time_to_be_received`; None: without a limit."""
        return _duration_of(self.time_to_be_received)

    @property
    def source_queue_manager(self) -> UUID:
        """SourceMachineIdentifier: the queue manager that first accepted the message."""
        return self.id.lineage

    @property
    def is_transactional(self) -> bool:
        return self.transaction_id is not None

    @property
    def is_recoverable(self) -> bool:
        return self.delivery == _RECOVERABLE or self.transaction_id is not None

    @property
    def destination_host(self) -> UUID:
        """The queue manager of the destination, if its name includes it; direct names do not."""
        queue = self.destination_queue
        if isinstance(queue, PrivateFormatName):
            return queue.queue_manager
        return self.destination_queue_manager if isinstance(queue, PublicFormatName) else NULL_GUID

    @property
    def destination_queue_type(self) -> DestinationQueueType:
        queue = self.destination_queue
        if isinstance(queue, DirectFormatName | UnreadableFormatName) and not queue.is_read_only:
            return DestinationQueueType.DIRECT_QUEUE
        if isinstance(queue, MulticastFormatName):
            return DestinationQueueType.DIRECT_QUEUE  # packets have no kind for it, and are only stored
        if isinstance(queue, PrivateFormatName) and not queue.journal:
            return DestinationQueueType.PRIVATE_QUEUE
        if isinstance(queue, PublicFormatName) and not queue.journal:
            return DestinationQueueType.PUBLIC_QUEUE
        raise _not_in_a_packet("destination_queue", queue)

    @property
    def administration_queue_type(self) -> AdministrationQueueType:
        return AdministrationQueueType(self._type_of("administration_queue", self.administration_queue))

    @property
    def response_queue_type(self) -> ResponseQueueType:
        queue, admin = self.response_queue, self.administration_queue
        if queue is not None and queue == admin:
            return ResponseQueueType.SAME_AS_ADMINISTRATION_QUEUE
        kind = ResponseQueueType(self._type_of("response_queue", queue))
        if kind is not ResponseQueueType.PRIVATE_QUEUE_ON_OTHER or not isinstance(admin, PrivateFormatName):
            return kind
        is_on_admin = isinstance(queue, PrivateFormatName) and queue.queue_manager == admin.queue_manager
        return ResponseQueueType.PRIVATE_QUEUE_ON_ADMIN if is_on_admin else kind

    def _type_of(self, name: str, queue: FormatName | None) -> int:
        if queue is None:
            return AdministrationQueueType.NONE
        if isinstance(queue, DirectFormatName | UnreadableFormatName) and not queue.is_read_only:
            return AdministrationQueueType.DIRECT_QUEUE
        if isinstance(queue, PublicFormatName) and not queue.journal:
            return AdministrationQueueType.PUBLIC_QUEUE
        if not isinstance(queue, PrivateFormatName) or queue.journal:
            raise _not_in_a_packet(name, queue)
        if queue.queue_manager == self.id.lineage:
            return AdministrationQueueType.PRIVATE_QUEUE_ON_SOURCE
        if queue.queue_manager == self.destination_host:
            return AdministrationQueueType.PRIVATE_QUEUE_ON_DESTINATION
        return AdministrationQueueType.PRIVATE_QUEUE_ON_OTHER

    def check(self) -> None:
        """Raise an error for the first invalid property, with its value and limit."""
        # The defaults are valid, and most properties have theirs.
        given = {
            name: value
            for name, default in _DEFAULTS.items()
            if (value := getattr(self, name)) is not default
        }
        for name, value in given.items():
            _check_type(name, value, _TYPES[name])
        for name, value in given.items():
            _check_value(name, value)
        self._check_identifiers()

    def _check_identifiers(self) -> None:
        numbers = (("id", self.id.uniquifier), *(("tx_sequence_id", each) for each in self.tx_sequence_id))
        for name, number in numbers:
            _check_type(name, number, (int,))
            if not 0 <= number <= _U32:
                raise IllegalPropertyValueError(f"message {name}", limit=f"0 to {_U32}", present=number)
        _check_type("id", self.id.lineage, (UUID,))


class ReceivedMessage(Message):
    """A message whose properties are decoded on first use.

    A class of its own: where a class has `__getattr__`, Python reads every attribute in a slower way.
    """

    __slots__ = ("_read",)
    _read: Callable[[str], object]

    @classmethod
    def unread(cls, read: Callable[[str], object]) -> Self:
        """A message whose properties `read` returns by name."""
        message = cls.__new__(cls)
        message._read = read  # noqa: SLF001  # same class
        return message

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Message):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in _DEFAULTS)

    __hash__ = None  # type: ignore[assignment]  # as a Message

    if not TYPE_CHECKING:  # type checkers still report misspelt properties

        def __getattr__(self, name: str) -> object:
            """Called only for an empty slot."""
            if name not in _DEFAULTS:
                problem = f"{type(self).__name__!r} object has no attribute {name!r}"
                raise AttributeError(problem, name=name, obj=self)
            value = member_of(name, self._read(name))
            setattr(self, name, value)
            return value


def member_of(name: str, value: object) -> object:
    """The member of the property's enumeration; the value itself if it has none."""
    kind = ENUMERATIONS.get(name)
    if kind is None or not isinstance(value, int):
        return value
    try:
        return kind(value)
    except ValueError:
        return value


def _readable(name: str, value: object) -> object:
    """An enumeration's member, a time, an account; the value itself if it is none of these."""
    if name in _TIMES and isinstance(value, int):
        return _time_of(value)
    if name == "sender_id" and isinstance(value, bytes):
        try:
            return SecurityIdentifier.decode(value)
        except (DecodeError, ValueError):
            return value
    return member_of(name, value)


def _repr(value: object) -> str:
    if isinstance(value, bytes) and len(value) > _SHOWN:
        return f"<{len(value)} bytes: {value[:_SHOWN]!r}...>"
    if isinstance(value, IntFlag | IntEnum):
        return f"{type(value).__name__}.{value.name}"
    text = repr(value) if isinstance(value, str | int | bytes) else str(value)
    return text if len(text) <= 4 * _SHOWN else f"{text[: 4 * _SHOWN]}..."


def _time_of(seconds: int) -> datetime | None:
    return datetime.fromtimestamp(seconds, UTC) if seconds else None


def _duration_of(seconds: int) -> timedelta | None:
    return None if seconds == INFINITE else timedelta(seconds=seconds)


def _seconds_of(value: object) -> int:
    """Whole seconds, rounded up: a message does not expire early. None: without a limit."""
    if value is None:
        return INFINITE
    if isinstance(value, timedelta):
        return min(math.ceil(value.total_seconds()), INFINITE - 1)
    return value  # type: ignore[return-value]  # `check` refuses it


def _check_direct_name(name: str, queue: object) -> None:
    if isinstance(queue, DirectFormatName | UnreadableFormatName):
        size = 2 * utf16_length(queue.wire_name) + 2
        if size > DIRECT_NAME_MAX_BYTES:
            raise IllegalPropertySizeError(f"message {name}", limit=DIRECT_NAME_MAX_BYTES, present=size)


def _wrong_type(name: str, value: object, expected: str) -> IllegalPropertyVariantTypeError:
    return IllegalPropertyVariantTypeError(
        f"message {name}", present=type(value).__name__, limit=expected, fix=f"pass {expected}"
    )


def _not_in_a_packet(name: str, queue: FormatName | None) -> MqError:
    if queue is not None and not isinstance(queue, FormatName):
        return _wrong_type(name, queue, "a FormatName, as FormatName.parse gives it")
    problem = "no packet can name this queue" if queue else "the message has no destination"
    return UnsupportedFormatNameOperationError(f"message {name} {queue or ''}".rstrip(), problem=problem)


def _check_type(name: str, value: object, kinds: tuple[type, ...]) -> None:
    if not isinstance(value, kinds):
        raise _wrong_type(name, value, " or ".join(kind.__name__ for kind in kinds))


def _check_value(name: str, value: Any) -> None:
    if name in _LARGEST:
        limit = _LARGEST[name]
        if not 0 <= (value or 0) <= limit:
            raise IllegalPropertyValueError(f"message {name}", limit=f"0 to {limit}", present=value or 0)
    elif name in _LONGEST:
        if (size := len(value)) > (limit := _LONGEST[name]):
            raise IllegalPropertySizeError(f"message {name}", limit=limit, present=size)
    elif name in _NAMES:
        _check_direct_name(name, value)
    elif name == "label":
        if (length := utf16_length(value)) > LABEL_MAX_UTF16_UNITS:
            raise LabelTooLongError("message label", limit=LABEL_MAX_UTF16_UNITS, present=length)
    elif name == "correlation_id" and (size := len(value)) != CORRELATION_ID_BYTES:
        raise IllegalPropertySizeError("message correlation_id", limit=CORRELATION_ID_BYTES, present=size)


def _types_of(name: str, default: object) -> tuple[type, ...]:
    """A property has the type of its default; optional ones default to None."""
    if default is None:
        return _OPTIONAL.get(name, FormatName), NoneType
    is_number = isinstance(default, int) and not isinstance(default, bool)
    return (int,) if is_number else (type(default),)


_SHOWN = 60  # bytes
_TIMES = frozenset({"sent_time", "arrival_time", "last_move_time"})
ENUMERATIONS: dict[str, type[IntEnum] | type[IntFlag]] = {
    "delivery": DeliveryGuarantee,
    "body_type": BodyType,
    "message_class": MessageClass,
    "acknowledgements": Acknowledgements,
    "sender_id_type": SenderIdType,
    "authentication_level": AuthenticationLevel,
    "privacy_level": PrivacyLevel,
    "hash_algorithm": HashAlgorithm,
    "encryption_algorithm": EncryptionAlgorithm,
}
_NAMES = ("destination_queue", "administration_queue", "response_queue")
_OPTIONAL: dict[str, type] = {"dead_letter_queue": PathName, "transaction_id": int}
_U16 = 0xFFFF
_U32 = 0xFFFF_FFFF

_DEFAULTS = {item.name: item.default for item in fields(Message)}
_TYPES = {name: _types_of(name, default) for name, default in _DEFAULTS.items()}
# The largest value of each number; the smallest is 0.
_LARGEST = {
    "priority": PRIORITY_MAX,
    "delivery": DeliveryGuarantee.RECOVERABLE,
    "message_class": _U16,
    "acknowledgements": 0xF,
    "body_type": _U32,
    "application_tag": _U32,
    "time_to_reach_queue": _U32,
    "time_to_be_received": _U32,
    "sent_time": _U32,
    "arrival_time": _U32,
    "lookup_id": 0xFFFF_FFFF_FFFF_FFFF,
    "abort_count": _U32,
    "move_count": _U32,
    "last_move_time": _U32,
    "transaction_id": TRANSACTION_ID_MAX,
    "tx_sequence_number": _U32,
    "previous_tx_sequence_number": _U32,
    "sender_id_type": SenderIdType.QM,
    "authentication_level": 0xF,
    "privacy_level": _U32,
    "hash_algorithm": _U32,
    "encryption_algorithm": _U32,
    "authentication_provider_type": _U32,
}
# The most bytes of each field whose size has 16 bits in the packet.
_LONGEST = {
    "sender_id": _U16,
    "verified_sender": _U16,
    "symmetric_key": _U16,
    "signature": _U16,
    "sender_certificate": SENDER_CERT_MAX_BYTES,
}


# What a message gets anew when it is sent again.
SET_BY_QUEUE_MANAGERS: Final = frozenset(
    {
        "destination_queue",
        "destination_queues",
        "destination_queue_manager",
        "transaction_status_queue",
        "id",
        "lookup_id",
        "sent_time",
        "arrival_time",
        "abort_count",
        "move_count",
        "last_move_time",
        "allow_peek_when_locked",
        "transaction_id",
        "tx_sequence_id",
        "tx_sequence_number",
        "previous_tx_sequence_number",
        "first_in_transaction",
        "last_in_transaction",
        "final_ack_required",
        "authentication_level",
        "verified_sender",
        "verified_name",
        "connector_queue_manager",
        "soap_envelope",
        "soap_compound_message",
        "soap_header",
        "soap_body",
    }
)
_SET_BY_SENDERS: Final = tuple(
    each.name for each in fields(Message) if each.name not in SET_BY_QUEUE_MANAGERS
)


def anew(message: Message) -> Message:
    """A new message with every property that a sender may set."""
    kept: dict[str, Any] = {name: getattr(message, name) for name in _SET_BY_SENDERS}
    return Message(**kept)
