"""SessionHeader: acknowledgements between two queue managers. [MS-MQMQ] 2.2.20.4."""

from dataclasses import dataclass

from tiercel.model.limits import DEFAULT_WINDOW_SIZE
from tiercel.wire.structure import Layout, Structure


@dataclass(frozen=True, slots=True)
class SessionHeader(Structure):
    """[MS-MQMQ] 2.2.20.4"""

    ack_sequence_number: int = 0
    recoverable_msg_ack_seq_number: int = 0
    recoverable_msg_ack_flags: int = 0
    user_msg_sequence_number: int = 0
    recoverable_msg_seq_number: int = 0
    window_size: int = DEFAULT_WINDOW_SIZE
    reserved: int = 0

    LAYOUT = Layout("H H I H H H H")
