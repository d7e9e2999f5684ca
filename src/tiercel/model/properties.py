"""The property identifiers, each with the type of its value ([MS-MQMQ] 2.3; messages: mq.h).

    MessageProperty.LABEL == 11 and MessageProperty.LABEL.vartype == VarType.LPWSTR

The names are the specification's without their PROPID prefix. Numbers are unique within one class only.
"""

from enum import IntEnum
from typing import Self


class VarType(IntEnum):
    """The types of property values ([MS-MQMQ] 2.2.12); VECTOR is combined with another."""

    EMPTY = 0
    NULL = 1
    I2 = 2
    I4 = 3
    BOOL = 11
    VARIANT = 12
    I1 = 16
    UI1 = 17
    UI2 = 18
    UI4 = 19
    I8 = 20
    UI8 = 21
    LPWSTR = 31
    BLOB = 65
    CLSID = 72
    VECTOR = 0x1000


# Short names for the tables below.
I2, I4, BOOL, UI1, UI2, UI4 = VarType.I2, VarType.I4, VarType.BOOL, VarType.UI1, VarType.UI2, VarType.UI4
I8, UI8, LPWSTR, BLOB, CLSID = VarType.I8, VarType.UI8, VarType.LPWSTR, VarType.BLOB, VarType.CLSID
VECTOR, VARIANT = VarType.VECTOR, VarType.VARIANT


class Property(IntEnum):
    """A property identifier; `vartype` is the type of its value, a `VarType` or VECTOR with one."""

    vartype: int

    def __new__(cls, value: int, vartype: int) -> Self:
        member = int.__new__(cls, value)
        member._value_ = value
        member.vartype = vartype
        return member


class MessageProperty(Property):
    """PROPID_M_*: the properties of a message (mq.h)."""

    CLASS = 1, UI2
    MSGID = 2, VECTOR | UI1
    CORRELATIONID = 3, VECTOR | UI1
    PRIORITY = 4, UI1
    DELIVERY = 5, UI1
    ACKNOWLEDGE = 6, UI1
    JOURNAL = 7, UI1
    APPSPECIFIC = 8, UI4
    BODY = 9, VECTOR | UI1
    BODY_SIZE = 10, UI4
    LABEL = 11, LPWSTR
    LABEL_LEN = 12, UI4
    TIME_TO_REACH_QUEUE = 13, UI4
    TIME_TO_BE_RECEIVED = 14, UI4
    RESP_QUEUE = 15, LPWSTR
    RESP_QUEUE_LEN = 16, UI4
    ADMIN_QUEUE = 17, LPWSTR
    ADMIN_QUEUE_LEN = 18, UI4
    VERSION = 19, UI4
    SENDERID = 20, VECTOR | UI1
    SENDERID_LEN = 21, UI4
    SENDERID_TYPE = 22, UI4
    PRIV_LEVEL = 23, UI4
    AUTH_LEVEL = 24, UI4
    AUTHENTICATED = 25, UI1
    HASH_ALG = 26, UI4
    ENCRYPTION_ALG = 27, UI4
    SENDER_CERT = 28, VECTOR | UI1
    SENDER_CERT_LEN = 29, UI4
    SRC_MACHINE_ID = 30, CLSID
    SENTTIME = 31, UI4
    ARRIVEDTIME = 32, UI4
    DEST_QUEUE = 33, LPWSTR
    DEST_QUEUE_LEN = 34, UI4
    EXTENSION = 35, VECTOR | UI1
    EXTENSION_LEN = 36, UI4
    SECURITY_CONTEXT = 37, UI4
    CONNECTOR_TYPE = 38, CLSID
    XACT_STATUS_QUEUE = 39, LPWSTR
    XACT_STATUS_QUEUE_LEN = 40, UI4
    TRACE = 41, UI1
    BODY_TYPE = 42, UI4
    DEST_SYMM_KEY = 43, VECTOR | UI1
    DEST_SYMM_KEY_LEN = 44, UI4
    SIGNATURE = 45, VECTOR | UI1
    SIGNATURE_LEN = 46, UI4
    PROV_TYPE = 47, UI4
    PROV_NAME = 48, LPWSTR
    PROV_NAME_LEN = 49, UI4
    FIRST_IN_XACT = 50, UI1
    LAST_IN_XACT = 51, UI1
    XACTID = 52, VECTOR | UI1
    AUTHENTICATED_EX = 53, UI1
    RESP_FORMAT_NAME = 54, LPWSTR
    RESP_FORMAT_NAME_LEN = 55, UI4
    DEST_FORMAT_NAME = 58, LPWSTR
    DEST_FORMAT_NAME_LEN = 59, UI4
    LOOKUPID = 60, UI8
    SOAP_ENVELOPE = 61, LPWSTR
    SOAP_ENVELOPE_LEN = 62, UI4
    COMPOUND_MESSAGE = 63, VECTOR | UI1
    COMPOUND_MESSAGE_SIZE = 64, UI4
    SOAP_HEADER = 65, LPWSTR
    SOAP_BODY = 66, LPWSTR
    DEADLETTER_QUEUE = 67, LPWSTR
    DEADLETTER_QUEUE_LEN = 68, UI4
    ABORT_COUNT = 69, UI4
    MOVE_COUNT = 70, UI4
    LAST_MOVE_TIME = 75, UI4


class QueueProperty(Property):
    """PROPID_Q_*: the properties of a queue ([MS-MQMQ] 2.3.1)."""

    INSTANCE = 101, CLSID
    TYPE = 102, CLSID
    PATHNAME = 103, LPWSTR
    JOURNAL = 104, UI1
    QUOTA = 105, UI4
    BASEPRIORITY = 106, I2
    JOURNAL_QUOTA = 107, UI4
    LABEL = 108, LPWSTR
    CREATE_TIME = 109, I4
    MODIFY_TIME = 110, I4
    AUTHENTICATE = 111, UI1
    PRIV_LEVEL = 112, UI4
    TRANSACTION = 113, UI1
    SCOPE = 114, UI1
    QMID = 115, CLSID
    PARTITIONID = 116, CLSID
    SEQNUM = 117, BLOB
    HASHKEY = 118, UI4
    LABEL_HASHKEY = 119, UI4
    FULL_PATH = 121, LPWSTR
    NAME_SUFFIX = 123, LPWSTR
    PATHNAME_DNS = 124, LPWSTR
    MULTICAST_ADDRESS = 125, LPWSTR
    ADS_PATH = 126, LPWSTR
    SECURITY = 1101, BLOB
    OBJ_SECURITY = 1102, BLOB
    SECURITY_INFORMATION = 1103, UI4


class MachineProperty(Property):
    """PROPID_QM_*: the properties of a queue manager ([MS-MQMQ] 2.3.2)."""

    SITE_ID = 201, CLSID
    MACHINE_ID = 202, CLSID
    PATHNAME = 203, LPWSTR
    ENCRYPTION_PK = 205, VECTOR | UI1
    ADDRESS = 206, BLOB
    CNS = 207, VECTOR | CLSID
    OUTFRS = 208, VECTOR | CLSID
    INFRS = 209, VECTOR | CLSID
    SERVICE = 210, UI4
    PARTITIONID = 211, CLSID
    HASHKEY = 212, UI4
    SEQNUM = 213, BLOB
    QUOTA = 214, UI4
    JOURNAL_QUOTA = 215, UI4
    MACHINE_TYPE = 216, LPWSTR
    CREATE_TIME = 217, I4
    MODIFY_TIME = 218, I4
    FOREIGN = 219, UI1
    OS = 220, UI4
    FULL_PATH = 221, LPWSTR
    SITE_IDS = 222, VECTOR | CLSID
    OUTFRS_DN = 223, VECTOR | LPWSTR
    INFRS_DN = 224, VECTOR | LPWSTR
    SERVICE_ROUTING = 227, UI1
    SERVICE_DSSERVER = 228, UI1
    SERVICE_DEPCLIENTS = 229, UI1
    ENCRYPTION_PK_BASE = 231, VECTOR | UI1
    ENCRYPTION_PK_ENHANCED = 232, VECTOR | UI1
    PATHNAME_DNS = 233, LPWSTR
    OBJ_SECURITY = 234, BLOB
    SECURITY_INFORMATION = 237, UI4
    ENCRYPT_PKS = 238, BLOB
    SIGN_PKS = 239, BLOB
    OWNER_SID = 241, BLOB
    GROUP_IN_CLUSTER = 242, UI1
    ENCRYPTION_PK_AES = 244, VECTOR | UI1  # mq.h only
    SECURITY = 1201, BLOB
    SIGN_PK = 1202, BLOB
    ENCRYPT_PK = 1203, BLOB
    UPGRADE_DACL = 1205, BLOB


class ManagementMachineProperty(Property):
    """PROPID_MGMT_MSMQ_*: what management tells of a computer."""

    ACTIVEQUEUES = 1, VECTOR | LPWSTR
    PRIVATEQ = 2, VECTOR | LPWSTR
    DSSERVER = 3, LPWSTR
    CONNECTED = 4, LPWSTR
    TYPE = 5, LPWSTR
    BYTES_IN_ALL_QUEUES = 6, I8  # UI8 in mq.h


class ManagementQueueProperty(Property):
    """PROPID_MGMT_QUEUE_*: what management tells of a queue."""

    PATHNAME = 1, LPWSTR
    FORMATNAME = 2, LPWSTR
    TYPE = 3, LPWSTR
    LOCATION = 4, LPWSTR
    XACT = 5, LPWSTR
    FOREIGN = 6, LPWSTR
    MESSAGE_COUNT = 7, UI4
    BYTES_IN_QUEUE = 8, UI4
    JOURNAL_MESSAGE_COUNT = 9, UI4
    BYTES_IN_JOURNAL = 10, UI4
    STATE = 11, LPWSTR
    NEXTHOPS = 12, VECTOR | LPWSTR
    EOD_LAST_ACK = 13, BLOB
    EOD_LAST_ACK_TIME = 14, I4
    EOD_LAST_ACK_COUNT = 15, UI4
    EOD_FIRST_NON_ACK = 16, BLOB
    EOD_LAST_NON_ACK = 17, BLOB
    EOD_NEXT_SEQ = 18, BLOB
    EOD_NO_READ_COUNT = 19, UI4
    EOD_NO_ACK_COUNT = 20, UI4
    EOD_RESEND_TIME = 21, I4
    EOD_RESEND_INTERVAL = 22, UI4
    EOD_RESEND_COUNT = 23, UI4
    EOD_SOURCE_INFO = 24, VECTOR | VARIANT
    CONNECTION_HISTORY = 25, VECTOR | VARIANT
    SUBQUEUE_COUNT = 26, UI4
    SUBQUEUE_NAMES = 27, VECTOR | LPWSTR


class PrivateComputerProperty(Property):
    """PROPID_PC_*: what a computer tells of itself without a directory."""

    VERSION = 5801, UI4
    DS_ENABLED = 5802, BOOL


class SiteProperty(Property):
    """PROPID_S_*: the properties of a site."""

    PATHNAME = 301, LPWSTR
    SITEID = 302, CLSID
    GATES = 303, VECTOR | CLSID
    PSC = 304, LPWSTR
    INTERVAL1 = 305, UI2
    INTERVAL2 = 306, UI2
    PARTITIONID = 307, CLSID
    SEQNUM = 308, BLOB
    FULL_NAME = 309, LPWSTR
    NT4_STUB = 310, UI2
    FOREIGN = 311, UI1
    DONOTHING = 312, UI1
    SECURITY = 1301, BLOB
    PSC_SIGNPK = 1302, BLOB
    SECURITY_INFORMATION = 1303, UI4


class ConnectedNetworkProperty(Property):
    """PROPID_CN_*: the properties of a connected network."""

    PROTOCOLID = 501, UI1
    NAME = 502, LPWSTR
    GUID = 503, CLSID
    PARTITIONID = 504, CLSID
    SEQNUM = 505, BLOB
    SECURITY = 1501, BLOB


class EnterpriseProperty(Property):
    """PROPID_E_*: the properties of the enterprise."""

    NAME = 601, LPWSTR
    NAMESTYLE = 602, UI1
    CSP_NAME = 603, LPWSTR
    PECNAME = 604, LPWSTR
    S_INTERVAL1 = 605, UI2
    S_INTERVAL2 = 606, UI2
    PARTITIONID = 607, CLSID
    SEQNUM = 608, BLOB
    ID = 609, CLSID
    CRL = 610, BLOB
    CSP_TYPE = 611, UI4
    ENCRYPT_ALG = 612, UI4
    SIGN_ALG = 613, UI4
    HASH_ALG = 614, UI4
    CIPHER_MODE = 615, UI4
    LONG_LIVE = 616, UI4
    VERSION = 617, UI2
    SECURITY = 1601, BLOB


class UserProperty(Property):
    """PROPID_U_*: the properties of a user."""

    SID = 701, BLOB
    SIGN_CERT = 702, BLOB
    PARTITIONID = 703, CLSID
    SEQNUM = 704, BLOB
    DIGEST = 705, VECTOR | CLSID
    ID = 706, CLSID


class RoutingLinkProperty(Property):
    """PROPID_L_*: the properties of a routing link."""

    NEIGHBOR1 = 801, CLSID
    NEIGHBOR2 = 802, CLSID
    COST = 803, UI4
    PARTITIONID = 804, CLSID
    SEQNUM = 805, BLOB
    ID = 806, CLSID
    GATES_DN = 807, VECTOR | LPWSTR
    NEIGHBOR1_DN = 808, LPWSTR
    NEIGHBOR2_DN = 809, LPWSTR
    DESCRIPTION = 810, LPWSTR
    FULL_PATH = 811, LPWSTR
    ACTUAL_COST = 812, UI4
    GATES = 813, VECTOR | CLSID


class SettingsProperty(Property):
    """PROPID_SET_*: the properties of the settings of a queue manager."""

    NAME = 5101, LPWSTR
    SERVICE = 5102, UI4
    QM_ID = 5103, CLSID
    FULL_PATH = 5105, LPWSTR
    NT4 = 5106, UI1
    PARTITIONID = 5107, CLSID
    SITENAME = 5108, LPWSTR
    SERVICE_ROUTING = 5109, UI1
    SERVICE_DSSERVER = 5110, UI1
    SERVICE_DEPCLIENTS = 5111, UI1
    OLDSERVICE = 5112, UI4


class MqUserProperty(Property):
    """PROPID_MQU_*: the properties of a user outside the domain."""

    SID = 5401, BLOB
    SIGN_CERT = 5402, BLOB
    DIGEST = 5405, VECTOR | CLSID
    ID = 5406, CLSID
    SECURITY = 5407, BLOB


class ComputerProperty(Property):
    """PROPID_COM_*: the properties of a computer."""

    FULL_PATH = 5201, LPWSTR
    SAM_ACCOUNT = 5202, LPWSTR
    ACCOUNT_CONTROL = 5204, UI4
    DNS_HOSTNAME = 5205, LPWSTR
    SID = 5206, BLOB
    SIGN_CERT = 5207, BLOB
    DIGEST = 5208, VECTOR | CLSID
    ID = 5209, CLSID


class DeletionNoticeProperty(Property):
    """PROPID_D_*: the properties of a deletion notice."""

    SEQNUM = 1401, BLOB
    PARTITIONID = 1402, CLSID
    SCOPE = 1403, UI1
    OBJTYPE = 1404, UI1
    IDENTIFIER = 1405, CLSID
