"""The messages received on a session, and how many of them are acknowledged: [MS-MQQB] 3.1.5.8.7, 3.1.6.4.

Every batch is durable before its acknowledgements leave, so a counted message is a stored message, and its
bit may be set at once (MQQB T12).
"""

from tiercel.wire.session_header import SessionHeader

FLAGS = 32
_WRAP = 0xFFFF


class Receipts:
    __slots__ = ("_acked", "_flags", "received", "recoverable_received", "unacked")

    def __init__(self) -> None:
        self.received = 0
        self.recoverable_received = 0
        self.unacked = 0  # UnackedReceivedMsgCount
        self._flags = 0  # RecoverableMsgAckFlags
        self._acked = 0  # LastAckedRecoverableMsgSeqNumber

    @property
    def room(self) -> int:
        """How many more recoverable messages have a bit left (MQQB-077)."""
        bits = FLAGS - 1 if self._starts_at_wrap else FLAGS
        return bits - (self.recoverable_received - self._acked)

    @property
    def has_recoverable(self) -> bool:
        return self._flags != 0

    def count(self, count: int, *, recoverable: bool) -> None:
        self.received += count
        self.unacked += count
        if recoverable:
            self._flags |= ((1 << count) - 1) << (self.recoverable_received - self._acked)
            self.recoverable_received += count

    def agree(self, header: SessionHeader) -> bool:
        """Whether the peer has sent as many messages as we have received (MQQB-088)."""
        return (
            header.user_msg_sequence_number == self.received & _WRAP
            and header.recoverable_msg_seq_number == self.recoverable_received & _WRAP
        )

    def acknowledge(self, sent: int, recoverable_sent: int, window: int) -> SessionHeader:
        """A header that acknowledges everything so far, and resets the flags (MQQB T11)."""
        first, flags = (self._acked + 1) & _WRAP, self._flags
        if not flags:
            first = 0
        elif self._starts_at_wrap:  # 0 would mean "nothing": start one lower, acknowledged already (MQQB T60)
            first, flags = _WRAP, flags << 1 | 1
        self._flags = self.unacked = 0
        self._acked = self.recoverable_received
        return SessionHeader(
            self.received & _WRAP, first, flags, sent & _WRAP, recoverable_sent & _WRAP, window
        )

    @property
    def _starts_at_wrap(self) -> bool:
        return (self._acked + 1) & _WRAP == 0
