"""Which messages a queue takes: [MS-MQDMPR] 3.1.7.1.9, [MS-MQQB] 3.1.5.8.3.

The class that a check returns is the negative acknowledgement that a peer gets; an application gets the error
that `refusal_error` makes of it.
"""

from typing import NamedTuple

from tiercel.engine.access import Access
from tiercel.engine.core import Core
from tiercel.engine.deadlines import Deadlines
from tiercel.engine.queue_state import QueueState
from tiercel.engine.quotas import Quotas
from tiercel.engine.records import Record
from tiercel.message_security.body_encryption import BodyOpener
from tiercel.message_security.ciphers import SessionKey
from tiercel.message_security.refusal import MessageRefusedError
from tiercel.message_security.verdict import NOTHING, Verdict, decode_verdict
from tiercel.message_security.verifier import Verifier
from tiercel.model.codes import MessageClass, QueuePrivacyLevel
from tiercel.model.errors import (
    ComputerDoesNotSupportEncryptionError,
    InsufficientResourcesError,
    MessageNotAuthenticatedError,
    MqError,
    QueueNotFoundError,
    TransactionUsageError,
)
from tiercel.wire.security_header import ENCRYPTED_BODY
from tiercel.wire.user_header import SECURITY_HEADER
from tiercel.wire.user_message import UserMessage

_NO_PRIVACY = QueuePrivacyLevel.NONE
_BODY_PRIVACY = QueuePrivacyLevel.BODY
_OPTIONAL_PRIVACY = QueuePrivacyLevel.OPTIONAL


class Judged(NamedTuple):
    """A message that was not refused."""

    clear: UserMessage  # with its body decrypted
    verdict: Verdict


class Admission:
    def __init__(
        self,
        core: Core,
        access: Access,
        quotas: Quotas,
        deadlines: Deadlines,
        verifier: Verifier,
        opener: BodyOpener,
    ) -> None:
        self._core = core
        self._access = access
        self._quotas = quotas
        self._deadlines = deadlines
        self._verifier = verifier
        self._opener = opener
        self._judged: tuple[UserMessage, Judged | MessageRefusedError] | None = None

    def takes_all(self, queue: QueueState, *, is_transactional: bool) -> bool:
        """Whether the queue takes every such message, so that none needs to be looked at."""
        wanted = queue.queue
        is_undemanding = not wanted.authentication and wanted.privacy_level == _OPTIONAL_PRIVACY
        return queue.is_outgoing or (wanted.transactional == is_transactional and is_undemanding)

    def check_transaction(self, queue: QueueState, *, is_transactional: bool) -> MessageClass | None:
        """A transactional queue takes only transactional messages, any other queue none (DMPR-038)."""
        if queue.is_outgoing or queue.queue.transactional == is_transactional:
            return None
        if is_transactional:
            return MessageClass.NACK_NOT_TRANSACTIONAL_Q
        return MessageClass.NACK_NOT_TRANSACTIONAL_MSG

    def check_protection(
        self, queue: QueueState, *, is_signed: bool, is_encrypted: bool
    ) -> MessageClass | None:
        """What the queue demands of signatures and encryption (DMPR-036, DMPR-037)."""
        if queue.is_outgoing:
            return None
        if queue.queue.authentication and not is_signed:
            return MessageClass.NACK_BAD_SIGNATURE
        if queue.queue.privacy_level == (_NO_PRIVACY if is_encrypted else _BODY_PRIVACY):
            return MessageClass.NACK_BAD_ENCRYPTION
        return None

    def check_goal(self, queue: QueueState, packet: UserMessage, record: Record) -> None:
        """Raises unless the queue takes a message of another queue of this computer."""
        verdict = decode_verdict(record.verdict)
        is_encrypted = verdict.was_encrypted or bool(packet.security_flags & ENCRYPTED_BODY)
        reason = self.check_protection(queue, is_signed=verdict.is_authenticated, is_encrypted=is_encrypted)
        if reason is not None:
            raise refusal_error(queue, reason)
        self._quotas.check_queue(queue, packet.packet_size)

    def refusal(
        self, queue: QueueState | None, packet: UserMessage, size: int = 0, count: int = 1
    ) -> MessageClass | None:
        """The class that refuses a message from another queue manager, or None when the queue takes it.

        Raises when this queue manager has no room: the message then stays with its sender, who will retry.
        For several messages like this one, `size` is what they take together.
        """
        size = size or packet.packet_size
        if queue is None or queue.is_deleted:
            return MessageClass.NACK_BAD_DST_Q
        if (reason := self.check_transaction(queue, is_transactional=packet.is_transactional)) is not None:
            return reason
        # One that arrived over HTTP is taken late, too (SRMP-053).
        if self._deadlines.is_late(packet) and (queue.is_outgoing or not packet.is_over_http):
            return MessageClass.NACK_REACH_QUEUE_TIMEOUT
        if not queue.is_outgoing and (reason := self._unprotected(queue, packet)) is not None:
            return reason
        self._quotas.check_manager(size)
        try:
            self._quotas.check_queue(queue, size)
        except InsufficientResourcesError:
            return MessageClass.NACK_Q_EXCEED_QUOTA
        if packet.is_recoverable:
            self._core.reserve(size, count)
        return None

    def _unprotected(self, queue: QueueState, packet: UserMessage) -> MessageClass | None:
        found = self._judge(packet)
        if isinstance(found, MessageRefusedError):
            return found.reason
        verdict = found.verdict
        reason = self.check_protection(
            queue, is_signed=verdict.is_authenticated, is_encrypted=verdict.was_encrypted
        )
        if reason is None and not self._access.may_write(queue, packet, verdict.sender):
            return MessageClass.NACK_ACCESS_DENIED
        return reason

    def may_write(self, queue: QueueState, packet: UserMessage, verdict: bytes) -> bool:
        """Whether the sender of a message, with its stored verdict, may write to a queue."""
        return self._access.may_write(queue, packet, decode_verdict(verdict).sender)

    # Encryption and signatures.

    def needs_private_key(self, packet: UserMessage) -> bool:
        """Whether `refusal` would take an RSA operation, which `unwrap` does in another thread instead."""
        return self._opener.needs_private_key(packet, self._core.now)

    def unwrap(self, packet: UserMessage) -> tuple[SessionKey, ...]:
        return self._opener.unwrap(packet)

    def remember_key(self, packet: UserMessage, keys: tuple[SessionKey, ...]) -> None:
        self._opener.remember(packet, keys, self._core.now)

    def judged(self, packet: UserMessage) -> Judged:
        """A message that was not refused: in clear, and what is proved about it."""
        found = self._judge(packet)
        return Judged(packet, NOTHING) if isinstance(found, MessageRefusedError) else found

    def known_verdict(self, packet: UserMessage) -> Verdict:
        """What is known about a refused message; nothing if it was refused before anybody looked."""
        found = self._judged[1] if self._judged is not None and self._judged[0] is packet else None
        return found.verdict if isinstance(found, Judged) else NOTHING

    def settle(self, packet: UserMessage, verdict: Verdict) -> None:
        """Its transport has verified the message that comes next by other means."""
        self._judged = packet, Judged(packet, verdict)

    def own_verdict(self, packet: UserMessage, *, over_http: bool) -> Verdict:
        """What the signature of a message of this computer proves; MessageRefusedError for a bad one."""
        return self._verifier.verify_own(packet, self._core.now, over_http=over_http)

    def detail(self, packet: UserMessage, reason: MessageClass) -> str:
        """What is wrong with the signature or encryption of a refused message, for the log."""
        found = self._judged[1] if self._judged is not None and self._judged[0] is packet else None
        return f": {found.why}" if isinstance(found, MessageRefusedError) and found.reason is reason else ""

    def _judge(self, packet: UserMessage) -> Judged | MessageRefusedError:
        """Remembered for one message, because it is asked for when checking and when storing it."""
        if self._judged is None or self._judged[0] is not packet:
            self._judged = packet, self._verified(packet)
        return self._judged[1]

    def _verified(self, packet: UserMessage) -> Judged | MessageRefusedError:
        """Security processing: [MS-MQQB] 3.1.5.8.3. A sender signs and then encrypts (MQQB T13)."""
        if not packet.flags & SECURITY_HEADER:
            return Judged(packet, NOTHING)
        now = self._core.now
        try:
            if not packet.security_flags & ENCRYPTED_BODY:
                return Judged(packet, self._verifier.verify(packet, now))
            clear = self._opener.open(packet, now)
            return Judged(clear, self._verifier.verify(clear, now)._replace(was_encrypted=True))
        except MessageRefusedError as refusal:
            return refusal


# The error that an application gets where a peer would get the negative class.
_ERRORS: dict[MessageClass, type[MqError]] = {
    MessageClass.NACK_BAD_DST_Q: QueueNotFoundError,
    MessageClass.NACK_NOT_TRANSACTIONAL_Q: TransactionUsageError,
    MessageClass.NACK_NOT_TRANSACTIONAL_MSG: TransactionUsageError,
    MessageClass.NACK_BAD_SIGNATURE: MessageNotAuthenticatedError,
    MessageClass.NACK_BAD_ENCRYPTION: ComputerDoesNotSupportEncryptionError,
}


def refusal_error(queue: QueueState, reason: MessageClass) -> MqError:
    return _ERRORS[reason](str(queue), problem=reason.meaning)
