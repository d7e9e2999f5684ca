"""The enumerations of the specifications, with the numbers that go over the wire and into the store.

A codec stores the plain number, because looking an enum member up costs as much as decoding a header, and
code that shows it to a person asks the enum. A member of an `IntEnum` equals its number, so comparing works
with both. Enumerations that never leave the process have the specification's own word as value.
"""

from enum import Enum, IntEnum, IntFlag
from typing import Self

NEGATIVE = 0x8000  # the bit that all negative acknowledgements have


class MessageClass(IntEnum):
    """Normal, a report, or a kind of acknowledgement ([MS-MQMQ] 2.2.18.1.6, [MS-MQDMPR] 3.1.1.12).

    Bit 15 says negative, bit 14 that the message had reached its queue. Applications may use other values, so
    a field of this kind is an integer; see `message_class`.
    """

    meaning: str

    def __new__(cls, value: int, meaning: str) -> Self:
        member = int.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member

    NORMAL = 0x0000, "a message from an application"
    REPORT = 0x0001, "a report of a traced message on its way"
    ACK_REACH_QUEUE = 0x0002, "the message reached its queue"
    ORDER_ACK = 0x00FF, "the transactional message reached its queue in order"
    ACK_RECEIVE = 0x4000, "the message was received from its queue"
    NACK_BAD_DST_Q = 0x8000, "the destination queue does not exist"
    # The name on the wire; mq.h has NACK_PURGED, easily confused with NACK_Q_PURGED (DMPR T-17).
    NACK_DELETED = 0x8001, "the message was deleted before it reached its queue"
    NACK_REACH_QUEUE_TIMEOUT = 0x8002, "the message did not reach its queue in time"
    NACK_Q_EXCEED_QUOTA = 0x8003, "the queue was full"
    NACK_ACCESS_DENIED = 0x8004, "the sender may not write to the queue"
    NACK_HOP_COUNT_EXCEEDED = 0x8005, "the message passed too many computers on its way"
    NACK_BAD_SIGNATURE = 0x8006, "the signature of the message is missing or wrong"
    NACK_BAD_ENCRYPTION = 0x8007, "the message could not be decrypted"
    NACK_COULD_NOT_ENCRYPT = 0x8008, "the message could not be encrypted"
    NACK_NOT_TRANSACTIONAL_Q = 0x8009, "the message is transactional and the queue is not"
    NACK_NOT_TRANSACTIONAL_MSG = 0x800A, "the queue is transactional and the message is not"
    NACK_UNSUPPORTED_CRYPTO_PROVIDER = 0x800B, "the cryptographic provider of the message is not supported"
    NACK_SOURCE_COMPUTER_GUID_CHANGED = 0x800C, "the sending computer has a new identity"
    NACK_MESSAGE_TOO_LARGE = 0x800D, "the message is too large"
    NACK_Q_DELETED = 0xC000, "the queue was deleted before the message was received"
    NACK_Q_PURGED = 0xC001, "the queue was purged before the message was received"
    NACK_RECEIVE_TIMEOUT = 0xC002, "the message was not received in time"
    NACK_RECEIVE_TIMEOUT_AT_SENDER = 0xC003, "the time to receive the message ran out before it was sent"
    NACK_RECEIVE_REJECTED = 0xC004, "the receiver rejected the message"

    @property
    def is_negative(self) -> bool:
        return bool(self & NEGATIVE)

    @property
    def is_receive(self) -> bool:
        """Whether it reports the outcome of a message that had reached its queue."""
        return bool(self & 0x4000)


_MESSAGE_CLASSES = {member.value: member for member in MessageClass}


def message_class(value: int) -> int:
    """The `MessageClass` of a value, or the value itself if it is application-defined."""
    return _MESSAGE_CLASSES.get(value, value)


def class_meaning(value: int) -> str:
    """What a class says, as a phrase."""
    known = _MESSAGE_CLASSES.get(value)
    return f"class 0x{value:04x}" if known is None else known.meaning


# Message properties ([MS-MQDMPR] 3.1.1.12; numbers of [MS-MQMQ] 2.2.18 to 2.2.20)


class DeliveryGuarantee(IntEnum):
    """Whether a message survives a restart: UserHeader.DM."""

    EXPRESS = 0
    RECOVERABLE = 1


class Acknowledgements(IntFlag):
    """The acknowledgements requested by the sender: Flags of the MessagePropertiesHeader."""

    NONE = 0
    POS_ARRIVAL = 1
    POS_RECEIVE = 2
    NEG_ARRIVAL = 4
    NEG_RECEIVE = 8
    NACK_REACH_QUEUE = NEG_ARRIVAL
    FULL_REACH_QUEUE = NEG_ARRIVAL | POS_ARRIVAL
    NACK_RECEIVE = NEG_RECEIVE | NEG_ARRIVAL
    FULL_RECEIVE = NACK_RECEIVE | POS_RECEIVE


class Journal(IntFlag):
    """The copies kept by the sending computer: UserHeader.JN and .JP, numbered as PROPID_M_JOURNAL."""

    NONE = 0
    DEADLETTER = 1  # NegativeJournalingRequested
    JOURNAL = 2  # PositiveJournalingRequested


class Trace(IntEnum):
    """Whether the route is reported: PROPID_M_TRACE."""

    NONE = 0
    SEND_ROUTE_TO_REPORT_QUEUE = 1


class PrivacyLevel(IntEnum):
    """The encryption of the body in transit; [MS-MQMP] has 2 for ENHANCED by mistake."""

    NONE = 0
    BASE = 1  # 40 bits
    ENHANCED = 3  # 128 bits
    ADVANCED = 5  # AES


class AuthenticationLevel(IntEnum):
    """The verified signature: SecurityHeader.AS, set by the receiver and never sent (DMPR T-15)."""

    NONE = 0
    SIG10 = 1
    SIG20 = 3
    SIG30 = 5
    XML_SIG = 9  # mq.h; no packet has it


class HashAlgorithm(IntEnum):
    """ALG_ID of the signed hash. 0x8003 is MD5: MD4 in one table is a misprint (DMPR T-14)."""

    MD2 = 0x8001
    MD4 = 0x8002
    MD5 = 0x8003
    SHA1 = 0x8004
    SHA = SHA1
    SHA_256 = 0x800C
    SHA_512 = 0x800E


class EncryptionAlgorithm(IntEnum):
    """ALG_ID of the cipher of the body.

    The model also names DES, SEAL, RSA, DSS and RSA_KEYS, but no packet has a code for them (DMPR T-36).
    """

    RC2 = 0x6602
    RC4 = 0x6801
    AES128 = 0x660E
    AES192 = 0x660F
    AES256 = 0x6610


class SenderIdType(IntEnum):
    """The kind of the sender identifier: SecurityHeader.ST."""

    NONE = 0
    SID = 1
    QM = 2


class BodyType(IntEnum):
    """The type of the body, for applications; queue managers accept any number ([MS-MQMQ] 2.2.19.3)."""

    EMPTY = 0
    NULL = 1
    I2 = 2
    I4 = 3
    R4 = 4
    R8 = 5
    CY = 6
    DATE = 7
    BSTR = 8
    ERROR = 10
    BOOL = 11
    DECIMAL = 14
    I1 = 16
    UI1 = 17
    UI2 = 18
    UI4 = 19
    I8 = 20
    UI8 = 21
    INT = 22
    UINT = 23
    LPSTR = 30
    LPWSTR = 31
    FILETIME = 64
    BLOB = 65
    STREAM = 66
    STORAGE = 67
    STREAMED_OBJECT = 68
    STORED_OBJECT = 69
    CLSID = 72
    BINARY_OBJECT = 0x300  # .NET's BinaryMessageFormatter
    VECTOR_UI1 = 0x1011
    ARRAY_UI1 = 0x2011


# Names of queues in packets and RPC


class QueueFormatType(IntEnum):
    """Kinds of queue names in a UserHeader: all values of DQ, AQ and RQ ([MS-MQMQ] 2.2.19.2)."""

    NONE = 0
    SAME_AS_ADMINISTRATION_QUEUE = 1
    PRIVATE_ON_SOURCE = 2
    PRIVATE_ON_DESTINATION = 3
    PRIVATE_ON_ADMIN = 4
    PUBLIC = 5
    PRIVATE_ON_OTHER = 6
    DIRECT = 7


class DestinationQueueType(IntEnum):
    """The model's view of UserHeader.DQ ([MS-MQDMPR] 3.1.1.12)."""

    PRIVATE_QUEUE = 3
    PUBLIC_QUEUE = 5
    DIRECT_QUEUE = 7


class AdministrationQueueType(IntEnum):
    """The model's view of UserHeader.AQ ([MS-MQDMPR] 3.1.1.12)."""

    NONE = 0
    PRIVATE_QUEUE_ON_SOURCE = 2
    PRIVATE_QUEUE_ON_DESTINATION = 3
    PUBLIC_QUEUE = 5
    PRIVATE_QUEUE_ON_OTHER = 6
    DIRECT_QUEUE = 7


class ResponseQueueType(IntEnum):
    """The model's view of UserHeader.RQ ([MS-MQDMPR] 3.1.1.12)."""

    NONE = 0
    SAME_AS_ADMINISTRATION_QUEUE = 1
    PRIVATE_QUEUE_ON_SOURCE = 2
    PRIVATE_QUEUE_ON_DESTINATION = 3
    PRIVATE_QUEUE_ON_ADMIN = 4
    PUBLIC_QUEUE = 5
    PRIVATE_QUEUE_ON_OTHER = 6
    DIRECT_QUEUE = 7


class QueueFormatKind(IntEnum):
    """m_qft of a QUEUE_FORMAT ([MS-MQMQ] 2.2.7)."""

    UNKNOWN = 0
    PUBLIC = 1
    PRIVATE = 2
    DIRECT = 3
    MACHINE = 4
    CONNECTOR = 5
    DL = 6
    MULTICAST = 7
    SUBQUEUE = 8


class QueueFormatSuffix(IntEnum):
    """Low nibble of m_SuffixAndFlags of a QUEUE_FORMAT ([MS-MQMQ] 2.2.7)."""

    NONE = 0
    JOURNAL = 1
    DEADLETTER = 2
    DEADXACT = 3
    XACTONLY = 4
    SUBQUEUE = 5


class QueueFormatFlag(IntFlag):
    """High nibble of m_SuffixAndFlags: SYSTEM is set for the three system suffixes ([MS-MQMQ] 2.2.7)."""

    NONE = 0
    SYSTEM = 0x80


# Opening, receiving and moving ([MS-MQDMPR] 3.1.1.16, 3.1.1.17; numbers of mq.h)


class QueueAccess(IntFlag):
    """The operations that a handle allows; ADMIN opens an outgoing queue: QueueAccessType."""

    RECEIVE = 0x01
    SEND = 0x02
    MOVE = 0x04
    PEEK = 0x20
    ADMIN = 0x80
    RECEIVE_ADMIN = RECEIVE | ADMIN
    PEEK_ADMIN = PEEK | ADMIN


class ShareMode(IntEnum):
    """Whether others may receive while a handle is open: QueueShareMode."""

    DENY_NONE = 0
    DENY_RECEIVE = 1


class ReceiveAction(IntEnum):
    RECEIVE = 0
    PEEK_CURRENT = 0x8000_0000
    PEEK_NEXT = 0x8000_0001


class LookupAction(IntEnum):
    """Actions relative to a lookup identifier."""

    PEEK_CURRENT = 0x4000_0010
    PEEK_NEXT = 0x4000_0011
    PEEK_PREV = 0x4000_0012
    PEEK_FIRST = 0x4000_0014
    PEEK_LAST = 0x4000_0018
    RECEIVE_CURRENT = 0x4000_0020
    RECEIVE_NEXT = 0x4000_0021
    RECEIVE_PREV = 0x4000_0022
    RECEIVE_FIRST = 0x4000_0024
    RECEIVE_LAST = 0x4000_0028
    RECEIVE_ALLOW_PEEK = 0x4000_0120


class MessageSeekAction(Enum):
    SEEK_FIRST = "SeekFirst"
    SEEK_PREVIOUS = "SeekPrevious"
    SEEK_CURRENT = "SeekCurrent"
    SEEK_NEXT = "SeekNext"
    SEEK_LAST = "SeekLast"


class RemoteReadState(Enum):
    """The state of a descriptor that serves a remote reader ([MS-MQDMPR] 3.1.1.16)."""

    NONE = "None"
    OPENED = "Opened"
    READY_FOR_READ = "ReadyForRead"


class CursorState(Enum):
    """[MS-MQDMPR] 3.2.1.2."""

    UNREAD = "Unread"
    WAIT_RECEIVE = "WaitReceive"
    WAIT_PEEK = "WaitPeek"
    READ = "Read"


class SectionType(IntEnum):
    """The part of a message in a SectionBuffer ([MS-MQRR] 2.2.7)."""

    FULL_PACKET = 0
    BINARY_FIRST_SECTION = 1
    BINARY_SECOND_SECTION = 2
    SRMP_FIRST_SECTION = 3
    SRMP_SECOND_SECTION = 4


# The queue manager and its queues ([MS-MQDMPR] 3.1.1)


class Durability(Enum):
    """How an attribute is kept across restarts ([MS-MQDMPR] 3.1.1)."""

    PERSISTENT = "persistent"  # kept
    DIRECTORY = "directory"  # kept, and may be published in a directory
    VOLATILE = "volatile"  # reset to its default
    COMPUTED = "computed"  # never stored


class QueueType(Enum):
    """[MS-MQDMPR] 3.1.1.2."""

    PRIVATE = "Private"
    PUBLIC = "Public"
    SYSTEM = "System"
    CONNECTOR = "Connector"


class QueuePrivacyLevel(IntEnum):
    """The messages that a queue accepts: PROPID_Q_PRIV_LEVEL."""

    NONE = 0  # only unencrypted ones
    OPTIONAL = 1  # all
    BODY = 2  # only encrypted ones


class QueueScope(Enum):
    """[MS-MQDMPR] 3.1.1.2."""

    SITE = "Site"
    ENTERPRISE = "Enterprise"


class OutgoingQueueState(Enum):
    """[MS-MQDMPR] 3.1.1.3, in the words of PROPID_MGMT_QUEUE_STATE."""

    CONNECTED = "CONNECTED"
    DISCONNECTED = "DISCONNECTED"
    DISCONNECTING = "DISCONNECTING"
    INACTIVE = "INACTIVE"
    LOCKED = "LOCKED"
    NEED_VALIDATION = "NEED VALIDATION"
    WAITING = "WAITING"
    ON_HOLD = "ONHOLD"


class ConnectionStatus(IntEnum):
    """The result of a connection attempt; bit 31 means failure ([MS-MQDMPR] 3.1.1.3)."""

    IN_PROCESS = 0
    ESTABLISH_PACKET_RECEIVED = 1
    ESTABLISHED = 2
    UNKNOWN_FAILURE = 0x8000_0000
    PING_FAILURE = 0x8000_0001
    SOCKET_CREATE_FAILURE = 0x8000_0002
    SOCKET_BIND_FAILURE = 0x8000_0003
    SOCKET_CONNECT_FAILURE = 0x8000_0004
    TCP_NOT_ENABLED = 0x8000_0005
    SOCKET_SEND_FAILURE = 0x8000_0006
    CONNECTION_NOT_READY = 0x8000_0007
    DNS_FAILURE = 0x8000_0008
    CERTIFICATE_VALIDATION_FAILURE = 0x8000_0009
    CONNECTION_LIMIT_REACHED = 0x8000_000A
    CONNECTION_REFUSED = 0x8000_000B
    ROUTING_DATA_NOT_AVAILABLE = 0x8000_000C
    LOW_RESOURCE = 0x8000_000D


class TransactionalOperationType(IntEnum):
    """[MS-MQDMPR] 3.1.1.13; the numbers are ours, for the store."""

    ENQUEUE = 0
    DEQUEUE = 1
    MOVE = 2


class CoordinatorAnswer(Enum):
    """Answers of a resource manager to its coordinator: TXUSER_ENLISTMENT_MTAG_* ([MS-MQDMPR] 3.1.4.6-8)."""

    PREPARED = "PREPAREREQDONE"
    COMMITTED = "COMMITREQDONE"
    ABORTED = "ABORTREQDONE"


class QueueManagerState(Enum):
    """[MS-MQDMPR] 3.1.1.1."""

    STOPPED = "Stopped"
    INITIALIZING = "Initializing"
    READY = "Ready"
    STOPPING = "Stopping"


class OperatingSystemType(IntEnum):
    """[MS-MQDMPR] 3.1.1.1, numbers of PROPID_QM_OS."""

    OTHER = 0
    FOREIGN = 0x100
    WIN95 = 0x200
    WIN_CLIENT = 0x300
    WIN_SERVER = 0x400
    WIN_ENT = 0x500


class DirectoryServerType(Enum):
    """[MS-MQDMPR] 3.1.1.1."""

    STANDALONE = "Standalone"
    BACKUP_SITE_CONTROLLER = "BackupSiteController"
    PRIMARY_SITE_CONTROLLER = "PrimarySiteController"
    PRIMARY_ENTERPRISE_CONTROLLER = "PrimaryEnterpriseController"


# Access masks ([MS-MQMQ] 2.2.23 to 2.2.27), the names without MQSEC_


class QueueAccessMask(IntFlag):
    """Rights in a queue's access control list: MQQUEUEACCESSMASK."""

    DELETE_MESSAGE = 0x1
    PEEK_MESSAGE = 0x2
    WRITE_MESSAGE = 0x4
    DELETE_JOURNAL_MESSAGE = 0x8
    SET_QUEUE_PROPERTIES = 0x10
    GET_QUEUE_PROPERTIES = 0x20
    DELETE_QUEUE = 0x10000
    GET_QUEUE_PERMISSIONS = 0x20000
    CHANGE_QUEUE_PERMISSIONS = 0x40000
    TAKE_QUEUE_OWNERSHIP = 0x80000
    RECEIVE_MESSAGE = DELETE_MESSAGE | PEEK_MESSAGE
    RECEIVE_JOURNAL_MESSAGE = DELETE_JOURNAL_MESSAGE | PEEK_MESSAGE
    QUEUE_GENERIC_READ = (
        GET_QUEUE_PROPERTIES | GET_QUEUE_PERMISSIONS | RECEIVE_MESSAGE | RECEIVE_JOURNAL_MESSAGE
    )
    QUEUE_GENERIC_WRITE = GET_QUEUE_PROPERTIES | GET_QUEUE_PERMISSIONS | WRITE_MESSAGE
    QUEUE_GENERIC_ALL = 0xF003F


class QueueManagerAccessMask(IntFlag):
    """Rights in the computer's access control list: MQQMACCESSMASK."""

    DELETE_DEADLETTER_MESSAGE = 0x1
    PEEK_DEADLETTER_MESSAGE = 0x2
    CREATE_QUEUE = 0x4
    SET_MACHINE_PROPERTIES = 0x10
    GET_MACHINE_PROPERTIES = 0x20
    DELETE_JOURNAL_QUEUE_MESSAGE = 0x40
    PEEK_JOURNAL_QUEUE_MESSAGE = 0x80
    DELETE_MACHINE = 0x10000
    GET_MACHINE_PERMISSIONS = 0x20000
    CHANGE_MACHINE_PERMISSIONS = 0x40000
    TAKE_MACHINE_OWNERSHIP = 0x80000
    RECEIVE_DEADLETTER_MESSAGE = DELETE_DEADLETTER_MESSAGE | PEEK_DEADLETTER_MESSAGE
    RECEIVE_JOURNAL_QUEUE_MESSAGE = DELETE_JOURNAL_QUEUE_MESSAGE | PEEK_JOURNAL_QUEUE_MESSAGE
    MACHINE_WORLD_RIGHTS = GET_MACHINE_PROPERTIES | GET_MACHINE_PERMISSIONS
    MACHINE_GENERIC_READ = MACHINE_WORLD_RIGHTS | RECEIVE_DEADLETTER_MESSAGE | RECEIVE_JOURNAL_QUEUE_MESSAGE
    MACHINE_GENERIC_WRITE = MACHINE_WORLD_RIGHTS | CREATE_QUEUE
    MACHINE_GENERIC_ALL = 0xF00F7


class SiteAccessMask(IntFlag):
    """MQSITEACCESSMASK."""

    CREATE_FRS = 0x1
    CREATE_BSC = 0x2
    CREATE_MACHINE = 0x4
    SET_SITE_PROPERTIES = 0x10
    GET_SITE_PROPERTIES = 0x20
    DELETE_SITE = 0x10000
    GET_SITE_PERMISSIONS = 0x20000
    CHANGE_SITE_PERMISSIONS = 0x40000
    TAKE_SITE_OWNERSHIP = 0x80000
    SITE_GENERIC_READ = GET_SITE_PROPERTIES | GET_SITE_PERMISSIONS
    SITE_GENERIC_WRITE = SITE_GENERIC_READ | CREATE_MACHINE
    SITE_GENERIC_ALL = 0xF0037


class EnterpriseAccessMask(IntFlag):
    """MQENTACCESSMASK."""

    CREATE_USER = 0x1
    CREATE_SITE = 0x2
    CREATE_CN = 0x4
    SET_ENTERPRISE_PROPERTIES = 0x10
    GET_ENTERPRISE_PROPERTIES = 0x20
    DELETE_ENTERPRISE = 0x10000
    GET_ENTERPRISE_PERMISSIONS = 0x20000
    CHANGE_ENTERPRISE_PERMISSIONS = 0x40000
    TAKE_ENTERPRISE_OWNERSHIP = 0x80000
    ENTERPRISE_GENERIC_READ = CREATE_USER | GET_ENTERPRISE_PROPERTIES | GET_ENTERPRISE_PERMISSIONS
    ENTERPRISE_GENERIC_WRITE = ENTERPRISE_GENERIC_READ | CREATE_SITE | CREATE_CN
    ENTERPRISE_GENERIC_ALL = 0xF0037


class ConnectedNetworkAccessMask(IntFlag):
    """MQCNACCESSMASK."""

    CN_OPEN_CONNECTOR = 0x1
    SET_CN_PROPERTIES = 0x10
    GET_CN_PROPERTIES = 0x20
    DELETE_CN = 0x10000
    GET_CN_PERMISSIONS = 0x20000
    CHANGE_CN_PERMISSIONS = 0x40000
    TAKE_CN_OWNERSHIP = 0x80000
    CN_GENERIC_READ = GET_CN_PROPERTIES | GET_CN_PERMISSIONS
    CN_GENERIC_ALL = 0xF0031


# Return codes that are no `errors.MqError`


class Information(IntEnum):
    """HRESULTs of success with a remark ([MS-MQMQ] 2.4), without the prefix MQ_INFORMATION_."""

    PROPERTY = 0x400E_0001
    ILLEGAL_PROPERTY = 0x400E_0002
    PROPERTY_IGNORED = 0x400E_0003
    UNSUPPORTED_PROPERTY = 0x400E_0004
    DUPLICATE_PROPERTY = 0x400E_0005
    OPERATION_PENDING = 0x400E_0006
    FORMATNAME_BUFFER_TOO_SMALL = 0x400E_0009
    INTERNAL_USER_CERT_EXIST = 0x400E_000A
    OWNER_IGNORED = 0x400E_000B


class Status(IntEnum):
    """NTSTATUS codes that [MS-MQDMPR] and [MS-MQRR] use in place of an MQ_ERROR_ code."""

    INVALID_HANDLE = 0xC000_0008
    INVALID_PARAMETER = 0xC000_000D
    ACCESS_DENIED = 0xC000_0022
    NOT_FOUND = 0xC000_0225
