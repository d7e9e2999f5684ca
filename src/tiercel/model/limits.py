"""Limits and defaults of the model and of packets, each with its reason.

A maximum is itself still allowed. Names end in their unit; only MAX_PACKET_SIZE (bytes) and
DEFAULT_WINDOW_SIZE (messages) keep the names of their fields.
"""

INFINITE = 0xFFFF_FFFF  # "no limit" in every 32-bit time-out and quota

# Packets ([MS-MQMQ] 2.2.18 to 2.2.20)

MAX_PACKET_SIZE = 0x0040_0000  # 4 MiB, the limit of the protocol; a larger PacketSize ends the session
ROUTING_HOPS_MAX = 29  # UserHeader.RC has five bits, of which 0x1E and 0x1F are not allowed
TRANSACTION_ID_BITS = 20  # TransactionHeader.ID; unique for one sender only
TRANSACTION_ID_MAX = (1 << TRANSACTION_ID_BITS) - 1
SENDER_CERT_MAX_BYTES = 0xFFFF  # SecurityHeader.SenderCertSize has 32 bits, but is limited to 16
DIRECT_NAME_MAX_BYTES = 0xFFFF  # the count before a direct name has 16 bits and includes the NUL

# Messages ([MS-MQDMPR] 3.1.1.12)

LABEL_MAX_UTF16_UNITS = 249  # LabelLength includes the NUL and goes up to 250 (DMPR T-16)
PRIORITY_MIN = 0
PRIORITY_MAX = 7
PRIORITY_DEFAULT = 3
TIME_TO_REACH_QUEUE_DEFAULT_S = 345_600  # four days, as Windows since Vista; ninety before
TIME_TO_BE_RECEIVED_DEFAULT_S = INFINITE
LONG_LIVED = 0xFFFF_FFFE  # an API value for the enterprise's default; never in a packet
PROPERTIES_PER_CALL_MAX = 128  # limit of the API (mq.h)

# Names ([MS-MQMQ] 2.1)

COMPUTER_NAME_MAX_CHARACTERS = 256
NETBIOS_NAME_MAX_CHARACTERS = 15  # ComputerName is a NetBIOS name
QUEUE_NAME_MAX_CHARACTERS = 124
SUBQUEUE_NAME_MAX_CHARACTERS = 32  # SubqueueHeader has 64 bytes for it
DOMAIN_NAME_MAX_CHARACTERS = 255  # after the "@" of a DL= name

# Queues and their quotas; INFINITE is unlimited ([MS-MQDMPR] 3.1.1.1, 3.1.7.1.33)

QUEUE_LABEL_MAX_UTF16_UNITS = 124
QUOTA_DEFAULT_KIB = INFINITE
JOURNAL_QUOTA_DEFAULT_KIB = INFINITE
# The specification says bytes, which would be 1 MiB for a whole computer; in KiB it is 1 GiB (DMPR T-12).
QUEUE_MANAGER_QUOTA_DEFAULT_KIB = 0x0010_0000

# Sessions ([MS-MQQB] 2.2.2.1, 3.1.3.2)

DEFAULT_WINDOW_SIZE = 64  # unacknowledged messages in flight, as Windows
TIERCEL_WINDOW_SIZE = 256  # the same between two Tiercels
WINDOW_SIZE_MAX = 0xFFFF  # WindowSize has 16 bits
ACK_TIMEOUT_MIN_MS = 20_000
ACK_TIMEOUT_MAX_MS = 120_000
RECOVERABLE_ACK_TIMEOUT_MIN_MS = 500
RECOVERABLE_ACK_TIMEOUT_MAX_MS = 120_000

# The rest of the model ([MS-MQDMPR] 3.1.1.1, 3.1.1.8, 3.1.1.15)

ROUTING_LINK_COST_MIN = 1
ROUTING_LINK_COST_MAX = 999_999
CERTIFICATE_DIGEST_BYTES = 16  # an MD5
INITIALIZATION_RETRY_DEFAULT_S = 120

# Staged sends (Tiercel's own)

STAGE_CHUNK_MAX_BYTES = 16 * 2**20  # bounds the time of one write in the queue manager
STAGE_KEPT_DEFAULT_S = 86_400  # abandoned jobs are removed after a day
PUBLISH_MAX_BYTES = 256 * 2**20  # staged bytes in one transaction, which is held in memory
PUBLISHED_KEPT_S = 30 * 86_400  # a repeated publish is recognised for 30 days
