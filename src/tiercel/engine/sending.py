"""Sending to an open queue: [MS-MQDMPR] 3.1.7.1.27.

The messages of one `send_many` are a run: they are checked together and come into their queue together or not
at all. `send` is a run of one, with the same steps; without the lists it takes a third less CPU time.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tiercel.engine.access import Access
from tiercel.engine.admission import Admission, refusal_error
from tiercel.engine.core import Core
from tiercel.engine.delivery import Delivery
from tiercel.engine.handles import OpenQueue
from tiercel.engine.numbering import Numbering
from tiercel.engine.queue_state import QueueState
from tiercel.engine.quotas import Quotas
from tiercel.engine.records import Record
from tiercel.engine.resolver import Resolver
from tiercel.engine.transaction import Transaction
from tiercel.engine.transactions import Transactions
from tiercel.message_security.encryption import Encryption
from tiercel.message_security.refusal import MessageRefusedError
from tiercel.message_security.signer import DEFAULT_SIGNING, Signing
from tiercel.message_security.verdict import decode_verdict
from tiercel.model.codes import (
    AuthenticationLevel,
    HashAlgorithm,
    MessageClass,
    PrivacyLevel,
    QueueAccess,
    QueueAccessMask,
    SenderIdType,
)
from tiercel.model.errors import (
    CannotSignDataExError,
    FailVerifySignatureExError,
    InsufficientResourcesError,
    MissingConnectorTypeError,
    MqError,
    PropertyNotAllowedError,
)
from tiercel.model.format_name import DirectFormatName, FormatName, MulticastFormatName
from tiercel.model.identifiers import NULL_GUID, MessageId
from tiercel.model.limits import LONG_LIVED
from tiercel.model.message import Message
from tiercel.model.path_name import PathName
from tiercel.wire.message import encode_message
from tiercel.wire.user_message import UserMessage

_SEND = QueueAccess.SEND  # cached: enum lookup is slow here
_WRITE = QueueAccessMask.WRITE_MESSAGE
_SID = int(SenderIdType.SID)


class Sending:
    def __init__(
        self,
        core: Core,
        resolver: Resolver,
        access: Access,
        quotas: Quotas,
        admission: Admission,
        numbering: Numbering,
        delivery: Delivery,
        transactions: Transactions,
        encryption: Encryption,
        long_lived_s: int,
    ) -> None:
        """`long_lived_s` bounds the time that a message may take to reach its queue."""
        self._core = core
        self._resolver = resolver
        self._access = access
        self._quotas = quotas
        self._admission = admission
        self._numbering = numbering
        self._delivery = delivery
        self._transactions = transactions
        self._encryption = encryption
        self._long_lived_s = long_lived_s

    def send(self, opened: OpenQueue, message: Message, transaction: Transaction | None = None) -> MessageId:
        """Enqueue Message To An Open Queue ([MS-MQDMPR] 3.1.7.1.27): gives the message its id and time."""
        if opened.children:
            return self._send_to_each(opened, message, transaction)
        queue = opened.queue_for(_SEND)
        if transaction is not None:
            transaction.check_active()
        self._address(opened, message, self._numbering.new_message_id(), transaction)
        if queue.is_outgoing:
            self._resolver.check_carried(queue, message)
        packet = encode_message(message)
        verdict = self._verdict(message, packet) if _is_signed(message) else b""
        if message.privacy_level and not queue.is_outgoing:
            packet, verdict = _in_clear(packet, verdict)
        self._refuse_misfits(queue, transaction, (message,), (packet,), (verdict,))
        size = len(packet)
        self._check_room(queue, size, (packet,), size if message.is_recoverable else 0)
        name = _name_of_dead_letter_queue(message)
        record = Record(packet, self._core.seconds, 0, 0, 0, name, verdict=verdict)
        if transaction is None:
            self._delivery.accept_one(queue, record)
        else:
            transaction.send(self._core, queue, record)
        return message.id

    def send_many(
        self, opened: OpenQueue, messages: Sequence[Message], transaction: Transaction | None = None
    ) -> list[MessageId]:
        """Sends all the messages, in their order, or none of them."""
        if not messages:
            return []
        if opened.children:
            return self._send_many_to_each(opened, messages, transaction)
        queue = opened.queue_for(_SEND)
        if transaction is not None:
            transaction.check_active()
        ids = self._numbering.new_message_ids(len(messages))
        packets: list[bytes] = []
        verdicts: list[bytes] = []
        for message, identifier in zip(messages, ids, strict=True):
            self._address(opened, message, identifier, transaction)
            if queue.is_outgoing:
                self._resolver.check_carried(queue, message)
            packet = encode_message(message)  # at once: one object may stand for several messages
            verdict = self._verdict(message, packet) if _is_signed(message) else b""
            if message.privacy_level and not queue.is_outgoing:
                packet, verdict = _in_clear(packet, verdict)
            packets.append(packet)
            verdicts.append(verdict)
        self._refuse_misfits(queue, transaction, messages, packets, verdicts)
        pairs = zip(messages, packets, strict=True)
        stored = sum([len(packet) for message, packet in pairs if message.is_recoverable])
        self._check_room(queue, sum(map(len, packets)), packets, stored)
        run = zip(packets, map(_name_of_dead_letter_queue, messages), verdicts, strict=True)
        if transaction is None:
            self._delivery.accept(queue, run)
        else:
            for packet, dead_letter_queue, verdict in run:
                record = Record(packet, self._core.seconds, 0, 0, 0, dead_letter_queue, verdict=verdict)
                transaction.send(self._core, queue, record)
        return ids

    def to_sign(
        self,
        opened: OpenQueue,
        message: Message,
        certificate: bytes,
        *,
        is_transactional: bool,
        signing: Signing = DEFAULT_SIGNING,
    ) -> tuple[UserMessage, AuthenticationLevel]:
        """The packet that a signature of the message covers: [MS-MQQB] 3.1.7.1.4, [MC-MQSRM] 3.1.7.2.4.

        The message gets the certificate; the caller adds the signature and sends it. Signing takes a
        millisecond, so it is not done here. A list of queues has one signature for all of them (DMPR-089).
        By default the packet names no sender: the receiver knows whom the certificate stands for, and Windows
        refuses one with a sender unless both are in its directory.
        """
        _check_signable(opened)
        message.signature = message.multiple_destination_signature = b""
        message.sender_certificate = certificate
        message.hash_algorithm = signing.hash_algorithm
        message.sender_id, message.sender_id_type = b"", _SID if signing.names_sender else SenderIdType.NONE
        level = AuthenticationLevel.SIG20
        if _is_http(opened.format_name):
            level, message.hash_algorithm = AuthenticationLevel.XML_SIG, HashAlgorithm.SHA1
        if opened.children:
            message.destination_queues = tuple(child.format_name for child in opened.children)
            opened, level = opened.children[0], AuthenticationLevel.SIG30
        copy = replace(message)
        self._address(opened, copy, self._numbering.unassigned, None)
        copy.transaction_id = 0 if is_transactional else None
        return UserMessage(encode_message(copy)), level

    def to_encrypt(self, opened: OpenQueue, messages: Iterable[Message]) -> None:
        """Have the bodies encrypted on their way; SecurityError if there is no key for the destination.

        They keep a privacy level that they have, and get the strongest otherwise.
        """
        for child in opened.children or (opened,):
            if child.queue_for(_SEND).is_outgoing:
                self._encryption.check(child.format_name)
        for message in messages:
            message.privacy_level = message.privacy_level or PrivacyLevel.ADVANCED

    def post(self, packet: UserMessage, name: FormatName) -> None:
        """Sends a packet that the queue manager itself has made."""
        queue = self._resolver.destination(name, for_acknowledgements=True)
        self._delivery.accept_one(queue, Record(packet.data, self._core.seconds), packet)

    def _send_to_each(
        self, opened: OpenQueue, message: Message, transaction: Transaction | None
    ) -> MessageId:
        """One copy for each queue of the list; the first that fails ends it (DMPR-194)."""
        message.destination_queues = tuple(child.format_name for child in opened.children)
        for child in opened.children:
            copy = replace(message)
            self.send(child, copy, transaction)
            message.id, message.sent_time = copy.id, copy.sent_time
        return message.id

    def _send_many_to_each(
        self, opened: OpenQueue, messages: Sequence[Message], transaction: Transaction | None
    ) -> list[MessageId]:
        within = transaction or self._transactions.begin_group()
        before = len(within.operations)
        try:
            ids = [self._send_to_each(opened, message, within) for message in messages]
        except MqError:
            self._transactions.take_back(within, before)
            if transaction is None:
                self._transactions.abort(within.id)
            raise
        if transaction is None:
            self._transactions.commit(within.id)
        return ids

    # Before anything is changed.

    def _address(
        self, opened: OpenQueue, message: Message, identifier: MessageId, transaction: Transaction | None
    ) -> None:
        """Checks the properties of a message and adds those that the queue manager sets."""
        self._check_properties(opened, message)
        self._name_own_queues(message)
        message.destination_queue = opened.format_name
        message.transaction_id = None if transaction is None else transaction.number
        message.id = identifier
        message.sent_time = self._core.seconds
        if not message.sender_id and message.sender_id_type == _SID:
            message.sender_id = opened.sender_id
        if message.time_to_reach_queue > self._long_lived_s or message.time_to_reach_queue == LONG_LIVED:
            message.time_to_reach_queue = self._long_lived_s

    def _name_own_queues(self, message: Message) -> None:
        """Replies and acknowledgements come to this computer, wherever the message is read."""
        public = self._resolver.name_for_others
        if message.administration_queue is not None:
            message.administration_queue = public(message.administration_queue)
        if message.response_queue is not None:
            message.response_queue = public(message.response_queue)
        if message.administration_queues or message.response_queues:  # rare
            message.check()
            message.administration_queues = tuple(map(public, message.administration_queues))
            message.response_queues = tuple(map(public, message.response_queues))

    def _check_properties(self, opened: OpenQueue, message: Message) -> None:
        """Refuses properties that only the queue manager sets, and a dead-letter queue without access."""
        if message.soap_envelope or message.soap_compound_message or message.soap_header or message.soap_body:
            raise PropertyNotAllowedError(
                "message soap properties", problem="SRMP sets them", fix="leave them empty"
            )
        if message.transaction_status_queue is not None or message.allow_peek_when_locked:
            problem = "the queue manager sets transaction_status_queue and allow_peek_when_locked"
            raise PropertyNotAllowedError("message", problem=problem, fix="leave them unset")
        # A signature that comes with its certificate is verified before the message is sent.
        is_protected = message.symmetric_key or (_is_signed(message) and not message.sender_certificate)
        names_provider = message.authentication_provider_type or message.authentication_provider_name
        if (is_protected or names_provider) and message.connector_type == NULL_GUID:
            message.check()
            problem = "only a connector signs, encrypts and names a provider by itself"
            fix = "clear its signature, symmetric_key and provider, or set connector_type"
            raise MissingConnectorTypeError("message", problem=problem, fix=fix)
        if type(message.time_to_reach_queue) is not int or message.time_to_reach_queue >> 32:
            message.check()
        if message.dead_letter_queue is None:
            return
        if type(message.dead_letter_queue) is not PathName:
            message.check()
        own = self._resolver.dead_letter_queue(message.dead_letter_queue)
        if own is not None:
            self._access.check(own, _WRITE, opened.token)

    def _refuse_misfits(
        self,
        queue: QueueState,
        transaction: Transaction | None,
        messages: Sequence[Message],
        packets: Sequence[bytes],
        verdicts: Sequence[bytes],
    ) -> None:
        """Raises when the queue does not take one of the messages; the ledger names it."""
        is_transactional = transaction is not None and transaction.number is not None
        if self._admission.takes_all(queue, is_transactional=is_transactional):
            return
        for message, packet, verdict in zip(messages, packets, verdicts, strict=True):
            reason = self._admission.check_transaction(queue, is_transactional=is_transactional)
            if reason is None:
                is_connector = message.connector_type != NULL_GUID
                is_proved = decode_verdict(verdict).is_authenticated
                is_signed = bool(message.signature) if is_connector else is_proved
                is_encrypted = bool(message.privacy_level)
                reason = self._admission.check_protection(
                    queue, is_signed=is_signed, is_encrypted=is_encrypted
                )
            if reason is not None:
                self._core.ledger.add(str(queue), UserMessage(packet), reason)
                raise refusal_error(queue, reason)

    def _verdict(self, message: Message, packet: bytes) -> bytes:
        """What its signature proves; that of a connector is passed on as it is (DMPR-103)."""
        if message.connector_type != NULL_GUID:
            return b""
        try:
            over_http = _is_http(message.destination_queue)
            return self._admission.own_verdict(UserMessage(packet), over_http=over_http).encode()
        except MessageRefusedError as refusal:
            fix = "let the queue manager sign it"
            raise FailVerifySignatureExError("message", problem=refusal.why, fix=fix) from None

    def _check_room(self, queue: QueueState, size: int, packets: Sequence[bytes], stored: int) -> None:
        """Raises when a quota or the store has no room; the ledger names messages that a quota refuses.

        `stored` is the size of the recoverable messages.
        """
        try:
            self._quotas.check(queue, size)
        except InsufficientResourcesError:
            for packet in packets:
                self._core.ledger.add(str(queue), UserMessage(packet), MessageClass.NACK_Q_EXCEED_QUOTA)
            raise
        if stored:
            self._core.reserve(stored, len(packets))


def _is_signed(message: Message) -> bool:
    return bool(message.signature or message.multiple_destination_signature)


def _check_signable(opened: OpenQueue) -> None:
    """Messages over HTTP have a signature of another kind, and there is room for one only."""
    for name in [child.format_name for child in opened.children or (opened,)]:
        if isinstance(name, MulticastFormatName):
            problem, fix = "messages to a multicast address cannot be signed", "send it unsigned"
            raise CannotSignDataExError(str(name), problem=problem, fix=fix)
        if opened.children and _is_http(name):
            problem, fix = "a list with an HTTP name cannot be signed", "send the message to each queue"
            raise CannotSignDataExError(str(name), problem=problem, fix=fix)


def _is_http(name: FormatName | None) -> bool:
    return isinstance(name, DirectFormatName) and name.is_http


def _in_clear(packet: bytes, verdict: bytes) -> tuple[bytes, bytes]:
    """A message that is to be encrypted, for a queue of this computer: it counts as encrypted (DMPR-037).

    One that its application has encrypted stays as it is (DMPR-103).
    """
    user_message = UserMessage(packet)
    if not user_message.is_to_be_encrypted:
        return packet, verdict
    return user_message.with_clear_body(), decode_verdict(verdict)._replace(was_encrypted=True).encode()


def _name_of_dead_letter_queue(message: Message) -> str:
    return "" if message.dead_letter_queue is None else str(message.dead_letter_queue)
