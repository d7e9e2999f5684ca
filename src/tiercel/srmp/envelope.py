"""The SOAP envelope of an SRMP message: [MC-MQSRM] 2.2.2 to 2.2.7.

Classes and fields have the names of the elements. Dates are seconds since 1970. Queues are texts as sent;
`queue_urls` turns them into format names.
"""

from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from tiercel.message_security.xml_signature import XmlSignature
from tiercel.model.codes import HashAlgorithm, MessageClass
from tiercel.model.identifiers import NULL_GUID, MessageId
from tiercel.model.limits import PRIORITY_DEFAULT
from tiercel.model.message import CORRELATION_ID_BYTES
from tiercel.srmp.values import NO_LIMIT, StreamId

SE = "http://schemas.xmlsoap.org/soap/envelope/"
RP = "http://schemas.xmlsoap.org/rp/"
SRMP = "http://schemas.xmlsoap.org/srmp/"
MSMQ = "msmq.namespace.xml"

LABEL_PREFIX = "MSMQ:"
STREAM_RECEIPT_ACTION = "MSMQ:QM Ordering Ack"
# The id of a message without an Msmq element, whatever its id element says (2.2.4.3).
FOREIGN_ID = MessageId(NULL_GUID, 1)


@dataclass(frozen=True, slots=True)
class Path:
    """2.2.4"""

    action: str
    to: str
    id: MessageId = FOREIGN_ID
    via: str = ""  # of rev: the response queue


@dataclass(frozen=True, slots=True)
class Properties:
    """2.2.5.1"""

    expires_at: int = NO_LIMIT
    sent_at: int | None = None


@dataclass(frozen=True, slots=True)
class CommitmentReceiptRequest:
    """2.2.5.2.3; without a flag, no receipt is sent."""

    send_to: str
    positive_only: bool = False
    negative_only: bool = False


@dataclass(frozen=True, slots=True)
class Services:
    """2.2.5.2"""

    durable: bool = False
    delivery_receipt_request: str | None = None  # its sendTo
    commitment_receipt_request: CommitmentReceiptRequest | None = None


@dataclass(frozen=True, slots=True)
class Stream:
    """2.2.5.3. The text spells the element `stream`, every example `Stream` (trap 18)."""

    stream_id: StreamId
    current: int
    previous: int | None = None  # absent means current - 1
    start: str | None = None  # its sendReceiptsTo
    tag: str = "Stream"


@dataclass(frozen=True, slots=True)
class DeliveryReceipt:
    """2.2.5.4"""

    received_at: int
    id: MessageId


class Decision(StrEnum):
    POSITIVE = "positive"
    NEGATIVE = "negative"


@dataclass(frozen=True, slots=True)
class CommitmentReceipt:
    """2.2.5.5"""

    decided_at: int
    decision: Decision
    id: MessageId


@dataclass(frozen=True, slots=True)
class StreamReceipt:
    """2.2.5.6"""

    stream_id: StreamId
    last_ordinal: int


@dataclass(frozen=True, slots=True)
class Eod:
    """2.2.6.11"""

    first: bool = False
    last: bool = False
    connector_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class Provider:
    """2.2.6.12"""

    type: int
    name: str


@dataclass(frozen=True, slots=True)
class Msmq:
    """2.2.6"""

    source_qm_guid: UUID
    ttrq: int
    message_class: int = MessageClass.NORMAL
    priority: int = PRIORITY_DEFAULT
    journal: bool = False
    dead_letter: bool = False
    correlation: bytes = bytes(CORRELATION_ID_BYTES)
    trace: bool = False
    connector_type: UUID | None = None
    app: int = 0
    body_type: int = 0
    hash_algorithm: int = HashAlgorithm.SHA1
    eod: Eod | None = None
    provider: Provider | None = None
    destination_mqf: tuple[str, ...] = ()
    admin_mqf: tuple[str, ...] = ()
    response_mqf: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Envelope:
    """2.2.2; the SOAP body is always empty."""

    path: Path
    properties: Properties = Properties()
    services: Services | None = None
    stream: Stream | None = None
    delivery_receipt: DeliveryReceipt | None = None
    stream_receipt: StreamReceipt | None = None
    commitment_receipt: CommitmentReceipt | None = None
    msmq: Msmq | None = None
    signature: XmlSignature | None = None
