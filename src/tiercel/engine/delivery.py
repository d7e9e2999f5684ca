"""How a message comes into a queue and how it ends: checks, quotas, acknowledgements, journals, dead letters.

What a sender is told and what is kept of a message is decided here and nowhere else. [MS-MQDMPR] 3.1.7.1.9,
3.1.7.2.1; [MS-MQQB] 3.1.7.15.

    verb       the message                  checks  in a queue  its sender is told, its copies are kept
    accept     passed the checks            no      comes in    that it arrived
    arrive     came from another computer   all     comes in    as accept, or as refuse
    refuse     never came into its queue    no      no          why not
    finish     is received, or is no more   no      leaves      that it was received, or why not
    conclude   the same; a consumer held it no      no          that it was received, or why not
    transfer   moves to another queue       no      both        nothing
    file       is a copy for a journal      quota   comes in    nothing
    detach     leaves; the caller knows why no      leaves      nothing
"""

import collections
from collections.abc import Callable, Iterable, Sequence

from tiercel.engine.catalog import Catalog
from tiercel.engine.core import Core, Counter, Removed
from tiercel.engine.expiry import Expiry
from tiercel.engine.queue_state import QueueState
from tiercel.engine.records import Record
from tiercel.model.codes import (
    Acknowledgements,
    MessageClass,
    PrivacyLevel,
    QueuePrivacyLevel,
    message_class,
)
from tiercel.model.errors import (
    ComputerDoesNotSupportEncryptionError,
    InsufficientResourcesError,
    MessageNotAuthenticatedError,
    MqError,
    QueueNotFoundError,
    StoreFullError,
    TransactionUsageError,
)
from tiercel.model.format_name import FormatName
from tiercel.model.identifiers import MessageId
from tiercel.model.identifiers import lookup_id as make_lookup_id
from tiercel.model.limits import INFINITE, MAX_PACKET_SIZE
from tiercel.model.message import Message
from tiercel.model.path_name import PathName, SystemQueue
from tiercel.wire import user_header
from tiercel.wire.message import decode_message, encode_message
from tiercel.wire.security_header import ENCRYPTED_BODY
from tiercel.wire.structure import encode_guid
from tiercel.wire.user_message import SUMMARY_AT, UserMessage, packet_priority, packet_summary

# Acknowledgements that would tell a stranger what there is on this computer ([MS-MQQB] 3.1.7.15).
INSECURE_NACKS = frozenset(
    {
        MessageClass.NACK_BAD_DST_Q,
        MessageClass.NACK_BAD_ENCRYPTION,
        MessageClass.NACK_BAD_SIGNATURE,
        MessageClass.NACK_ACCESS_DENIED,
        MessageClass.NACK_UNSUPPORTED_CRYPTO_PROVIDER,
    }
)
# Of these nobody is told, and no copy is kept: else each would bring forth the next (MQQB-131).
_ACKNOWLEDGEMENTS = frozenset(MessageClass) - {MessageClass.NORMAL, MessageClass.REPORT}
# As plain numbers: the flags of an enum cost more than the rest of the decision.
_POS_ARRIVAL = int(Acknowledgements.POS_ARRIVAL)
_POS_RECEIVE = int(Acknowledgements.POS_RECEIVE)
_NEG_ARRIVAL = int(Acknowledgements.NEG_ARRIVAL)
_NEG_RECEIVE = int(Acknowledgements.NEG_RECEIVE)
# By a name of their own: naming a member of an enum costs a call.
_ACK_RECEIVE = MessageClass.ACK_RECEIVE
# Of a packet: whatever makes its end known to somebody. Without an admin queue nothing is acknowledged.
TOLD = user_header.ADMIN_QUEUE | user_header.POSITIVE_JOURNALING | user_header.TRANSACTION_HEADER
_TOLD_AT_ARRIVAL = user_header.ADMIN_QUEUE | user_header.POSITIVE_JOURNALING
_RECOVERABLE = user_header.DELIVERY | user_header.TRANSACTION_HEADER
_NO_PRIVACY = QueuePrivacyLevel.NONE
_BODY_PRIVACY = QueuePrivacyLevel.BODY
_OPTIONAL_PRIVACY = QueuePrivacyLevel.OPTIONAL
NEW_QUEUE_BYTES = 16384  # rows in four keyspaces, each perhaps on a page of its own
_LARGEST_RETURNED = MAX_PACKET_SIZE - 1024


class Delivery:
    def __init__(self, core: Core, catalog: Catalog, expiry: Expiry) -> None:
        self._core = core
        self._catalog = catalog
        self._expiry = expiry
        self._identifier = catalog.queue_manager.identifier
        self._sequential_id = Counter(core, "sequential_id")
        self._message_ordinal = Counter(core, "message_ordinal")
        self.dead_letters: collections.Counter[int] = collections.Counter()  # by class, since the start
        # Set by the reading part: it serves whoever waits for a message of the queue.
        self.offer: Callable[[QueueState, int, Record], None] = lambda _queue, _lookup_id, _record: None
        # Set by the opening part: the queue, local or outgoing, that a format name leads to; who we are.
        self.destination: Callable[[FormatName], QueueState]
        self.is_local_name: Callable[[str], bool]
        # Set by the engine: whether the sender of a message may write to the queue.
        self.may_write: Callable[[QueueState, UserMessage], bool] = lambda _queue, _packet: True
        # Set by the part for outgoing messages: one came into an outgoing queue, or left it.
        self.entered_outgoing: Callable[[QueueState, int, Record, UserMessage], None]
        self.left_outgoing: Callable[[UserMessage], None]
        # Set by the part for final acks: a transactional message left its queue.
        self.final_ack: Callable[[UserMessage, MessageClass], None]

    # Coming in.

    def new_message_id(self) -> MessageId:
        # 32 bits in the packet, and never 0; after four billion messages the first number is free again.
        ordinal = (self._message_ordinal.next() - 1) % 0xFFFF_FFFF + 1
        return MessageId(self._identifier, ordinal)

    def new_message_ids(self, count: int) -> list[MessageId]:
        numbers, identifier = self._message_ordinal.next_many(count), self._identifier
        return [MessageId(identifier, (number - 1) % 0xFFFF_FFFF + 1) for number in numbers]

    @property
    def newest_sequence(self) -> int:
        """The arrival number of the last message that came into any queue."""
        return self._sequential_id.last

    def new_lookup_id(self, priority: int) -> int:
        return make_lookup_id(priority, self._sequential_id.next())

    def check_transaction(self, queue: QueueState, *, is_transactional: bool) -> MessageClass | None:
        """A transactional queue takes transactional messages only, and another queue none (DMPR-038)."""
        if queue.is_outgoing or queue.queue.transactional == is_transactional:
            return None
        if is_transactional:
            return MessageClass.NACK_NOT_TRANSACTIONAL_Q
        return MessageClass.NACK_NOT_TRANSACTIONAL_MSG

    def takes_all(self, queue: QueueState, *, is_transactional: bool) -> bool:
        """Whether no message of this kind can be a misfit, so that none needs to be looked at."""
        wanted = queue.queue
        is_undemanding = not wanted.authentication and wanted.privacy_level == _OPTIONAL_PRIVACY
        return queue.is_outgoing or (wanted.transactional == is_transactional and is_undemanding)

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

    def check_goal(self, queue: QueueState, packet: UserMessage) -> None:
        """Whether a queue takes a message of another queue of this computer: what it demands, its quota."""
        is_encrypted = bool(packet.security_flags & ENCRYPTED_BODY)
        reason = self.check_protection(queue, is_signed=False, is_encrypted=is_encrypted)
        if reason is not None:
            raise refusal_error(queue, reason)
        self._check_queue_quota(queue, packet.packet_size)

    def check_quota(self, queue: QueueState, size: int) -> None:
        """The queue manager's own limits come first ([MS-MQDMPR] 3.1.7.1.9)."""
        self.check_manager_quota(size)
        self._check_queue_quota(queue, size)

    def check_manager_quota(self, size: int) -> None:
        manager = self._catalog.queue_manager
        if manager.throttled:
            problem = "it takes no messages while flow control is on"
            raise InsufficientResourcesError(str(manager), problem=problem, fix="wait until it has recovered")
        _check_quota(manager, self._core.total_bytes, size, manager.queue_manager_quota_kib)

    def _check_queue_quota(self, queue: QueueState, size: int) -> None:
        manager = self._catalog.queue_manager
        quota_kib = queue.queue.quota_kib
        if queue.keeps_messages and queue is self._catalog.system(SystemQueue.JOURNAL):
            quota_kib = manager.journal_quota_kib
        _check_quota(queue, queue.used_bytes, size, quota_kib)

    def accept(self, queue: QueueState, record: Record, packet: UserMessage | None = None) -> None:
        """Puts a message that passed the checks into a queue and tells whoever must know."""
        packet = packet or UserMessage(record.packet)
        lookup_id = self._insert(queue, record, packet)
        if queue.is_outgoing:
            self.entered_outgoing(queue, lookup_id, record, packet)
            self._core.ready[queue] = None
            return
        if packet.acknowledgements & _POS_ARRIVAL:
            self._acknowledge(packet, MessageClass.ACK_REACH_QUEUE)
        if packet.flags & user_header.POSITIVE_JOURNALING and not packet.is_transactional:
            self.journal_at_source(packet, record)
        if self._expiry.is_over(packet):
            self.finish(queue, lookup_id, record, MessageClass.NACK_RECEIVE_TIMEOUT, packet)
        else:
            self.offer(queue, lookup_id, record)

    def accept_plain(self, queue: QueueState, record: Record, priority: int, *, recoverable: bool) -> None:
        """`accept` into a local queue for a message that never expires and tells its sender nothing."""
        lookup_id = self.new_lookup_id(priority)
        queue.insert(self._core, lookup_id, record, recoverable=recoverable)
        if queue.waiters:
            self.offer(queue, lookup_id, record)

    def accept_many(self, queue: QueueState, arrivals: Iterable[Record]) -> None:
        """`accept` for one after the other; those of which nothing comes are put into the store together."""
        plain: list[bytes] = []
        for record in arrivals:
            if not queue.is_outgoing and not queue.waiters and _is_plain(record):
                plain.append(record.packet)
                continue
            self.accept_all_plain(queue, plain, map(packet_priority, plain))
            plain.clear()
            record = record._replace(arrival_time=self._core.seconds)  # noqa: PLW2901
            self.accept(queue, record, UserMessage(record.packet))
        self.accept_all_plain(queue, plain, map(packet_priority, plain))

    def accept_all_plain(
        self, queue: QueueState, packets: Sequence[bytes], priorities: Iterable[int]
    ) -> None:
        """`accept_plain` for many recoverable messages to a queue that nobody waits at."""
        if not packets:
            return
        numbers = self._sequential_id.next_many(len(packets))
        queue.insert_arrivals(self._core, list(map(make_lookup_id, priorities, numbers)), packets)

    def _insert(self, queue: QueueState, record: Record, packet: UserMessage) -> int:
        lookup_id = self.new_lookup_id(packet.priority)
        queue.insert(self._core, lookup_id, record, recoverable=packet.is_recoverable)
        if not record.is_copy:  # a dead letter has no time to lose
            self._expiry.watch(queue, lookup_id, packet)
        return lookup_id

    def arrive(self, queue: QueueState | None, packet: UserMessage, name: str = "") -> MessageClass | None:
        """Takes a message from another queue manager; gives the class that refuses it, if any does.

        When this queue manager itself has no room, that is an error and no refusal: the message stays with
        its sender, who will try again.
        """
        reason = self._refusal(queue, packet)
        if reason is not None or queue is None:
            reason = reason or MessageClass.NACK_BAD_DST_Q
            self.refuse(str(queue or name), packet, reason, Record(packet.data, self._core.seconds))
            return reason
        self.accept(queue, Record(packet.data, self._core.seconds), packet)
        return None

    def _refusal(self, queue: QueueState | None, packet: UserMessage) -> MessageClass | None:
        if queue is None or queue.is_deleted:
            return MessageClass.NACK_BAD_DST_Q
        if (reason := self.check_transaction(queue, is_transactional=packet.is_transactional)) is not None:
            return reason
        if self._expiry.is_late(packet):
            return MessageClass.NACK_REACH_QUEUE_TIMEOUT
        if not queue.is_outgoing and (reason := self._unprotected(queue, packet)) is not None:
            return reason
        self.check_manager_quota(packet.packet_size)
        try:
            self._check_queue_quota(queue, packet.packet_size)
        except InsufficientResourcesError:
            return MessageClass.NACK_Q_EXCEED_QUOTA
        if packet.is_recoverable:
            self._core.reserve(packet.packet_size)
        return None

    def _unprotected(self, queue: QueueState, packet: UserMessage) -> MessageClass | None:
        is_encrypted = bool(packet.security_flags & ENCRYPTED_BODY)
        # No signature is verified yet, so none counts: a queue that demands one refuses (see the README).
        reason = self.check_protection(queue, is_signed=False, is_encrypted=is_encrypted)
        if reason is None and not self.may_write(queue, packet):
            return MessageClass.NACK_ACCESS_DENIED
        return reason

    # Ending.

    def refuse(self, queue: str, packet: UserMessage, reason: MessageClass, record: Record) -> None:
        """A message that never came into its queue."""
        self._core.ledger.add(queue, packet, reason)
        self._tell_failure(packet, record, reason)

    def finish(
        self,
        queue: QueueState,
        lookup_id: int,
        record: Record,
        reason: MessageClass,
        packet: UserMessage | None = None,
    ) -> None:
        """Takes a message out of its queue for good: received, or the negative class that says why not."""
        packet = packet or UserMessage(record.packet)
        self.detach(queue, lookup_id, record, packet)
        self._conclude(queue, record, reason, packet)

    def conclude(self, queue: QueueState, record: Record, reason: MessageClass) -> None:
        """`finish` for a message that is out of the list already, as those are that a consumer holds."""
        self._conclude(queue, record, reason, UserMessage(record.packet))

    def tells_all(self, queue: QueueState, reason: MessageClass) -> bool:
        """Whether the end of every message has to be concluded; else only of those with a flag of TOLD."""
        is_journaled = (queue.parent or queue).queue.journaling
        return reason != _ACK_RECEIVE or is_journaled or self._core.tells_removed

    def receive_first(self, queue: QueueState, limit: int) -> list[tuple[int, Record, UserMessage]]:
        """`finish` for the first messages of a simple queue: they are received."""
        received, tells_all = [], self.tells_all(queue, _ACK_RECEIVE)
        for lookup_id, record in queue.take_stored(self._core, limit):
            packet = UserMessage(record.packet)
            self._expiry.forget(queue, lookup_id, packet)
            if tells_all or packet.flags & TOLD:  # few: mostly nobody is to know of it
                self._conclude(queue, record, _ACK_RECEIVE, packet)
            received.append((lookup_id, record, packet))
        self._catalog.drop_empty_subqueue(queue)
        return received

    def _conclude(self, queue: QueueState, record: Record, reason: MessageClass, packet: UserMessage) -> None:
        if reason != _ACK_RECEIVE:
            self._core.ledger.add(str(queue), packet, reason)
        if record.is_copy:  # what its sender is to know was told when the message itself ended
            return
        if self._core.tells_removed:
            self._core.effects.append(Removed(queue, record, reason))
        if packet.is_transactional and not queue.is_outgoing:
            self.final_ack(packet, reason)
        if reason != _ACK_RECEIVE:
            self._tell_failure(packet, record, reason, queue)
            return
        if packet.acknowledgements & _POS_RECEIVE:
            self._acknowledge(packet, reason)
        if packet.flags & user_header.POSITIVE_JOURNALING and packet.is_transactional:
            self.journal_at_source(packet, record)
        root = queue.parent or queue
        if root.queue.journaling and root.journal is not None:
            self.file(root.journal, record, packet)

    def detach(
        self, queue: QueueState, lookup_id: int, record: Record, packet: UserMessage | None = None
    ) -> None:
        """Takes a message out of the list and stops its clock; what it means, the caller knows."""
        lock = queue.locks.get(lookup_id) if queue.locks else None
        if lock is not None and lock.doom is not None:
            self._expiry.forget_purge(queue, lookup_id)
        packet = packet or UserMessage(record.packet)
        queue.remove(self._core, lookup_id, record)
        self._expiry.forget(queue, lookup_id, packet)
        if queue.is_outgoing:
            self.left_outgoing(packet)
            if lock is not None and lock.owner is not None:  # what follows it in the stream has waited
                self._core.ready[queue] = None
        self._catalog.drop_empty_subqueue(queue)

    def _tell_failure(
        self, packet: UserMessage, record: Record, reason: MessageClass, queue: QueueState | None = None
    ) -> None:
        wanted = _NEG_RECEIVE if reason.is_receive else _NEG_ARRIVAL
        if packet.acknowledgements & wanted:
            self._acknowledge(packet, reason)
        is_ours = packet.source_queue_manager == self._identifier
        # What a full queue refuses is kept where it is, for its sender takes it for delivered (MQQB T39).
        is_kept_here = reason == MessageClass.NACK_Q_EXCEED_QUOTA and not packet.is_transactional
        if not packet.flags & user_header.NEGATIVE_JOURNALING or not (is_ours or is_kept_here):
            return
        if _is_dead_letter(packet, reason):
            self.dead_letters[int(reason)] += 1
            self.file(self._dead_letter_queue(packet, record, queue), record, packet)

    def file_final(self, queue: QueueState, packet: UserMessage, record: Record, code: int) -> None:
        """A message of ours ended at its destination: received, or the class that says why not."""
        if code == MessageClass.ACK_RECEIVE:
            if packet.flags & user_header.POSITIVE_JOURNALING:
                self.journal_at_source(packet, record)
            return
        self._core.ledger.add(str(queue), packet, message_class(code))
        if packet.flags & user_header.NEGATIVE_JOURNALING:
            self.dead_letters[code] += 1
            self.file(self._dead_letter_queue(packet, record, queue), record, packet)

    def _dead_letter_queue(self, packet: UserMessage, record: Record, queue: QueueState | None) -> QueueState:
        """The application's own dead-letter queue if it fits the message, else the system's (DMPR-078)."""
        if record.dead_letter_queue:
            own = self.own_dead_letter_queue(PathName.parse(record.dead_letter_queue))
            if own is not None and own is not queue and own.queue.transactional == packet.is_transactional:
                return own
        system = SystemQueue.DEADXACT if packet.is_transactional else SystemQueue.DEADLETTER
        return self._catalog.system(system)

    def own_dead_letter_queue(self, path: PathName) -> QueueState | None:
        """The queue of an application that a message names for its dead letters."""
        own = self._catalog.find(path) if self.is_local_name(path.computer) else None
        return own if own is not None and self._catalog.is_visible(own) else None

    def journal_at_source(self, packet: UserMessage, record: Record) -> None:
        if packet.source_queue_manager == self._identifier and packet.message_class not in _ACKNOWLEDGEMENTS:
            self.file(self._catalog.system(SystemQueue.JOURNAL), record, packet)

    def file(self, queue: QueueState, record: Record, packet: UserMessage) -> None:
        """Keeps a copy in a journal or dead-letter queue; a full one takes none, and the ledger says so."""
        size = len(record.packet)
        try:
            self.check_quota(queue, size)
            if packet.is_recoverable:
                self._core.reserve(size)
        except (InsufficientResourcesError, StoreFullError) as problem:
            detail = f"no copy was kept: {problem.problem}"
            self._core.ledger.add(str(queue), packet, MessageClass.NACK_Q_EXCEED_QUOTA, detail)
            return
        kept = record._replace(arrival_time=self._core.seconds, is_copy=True)
        lookup_id = self.new_lookup_id(packet.priority)
        queue.insert(self._core, lookup_id, kept, recoverable=packet.is_recoverable)
        self.offer(queue, lookup_id, kept)

    def transfer(
        self, queue: QueueState, lookup_id: int, record: Record, packet: UserMessage, target: QueueState
    ) -> None:
        """Takes a message out of one queue and puts it into another; its sender hears nothing of it."""
        self.detach(queue, lookup_id, record, packet)
        new_lookup_id = self._insert(target, record, packet)
        if record.is_copy or not self._expiry.is_over(packet):
            self.offer(target, new_lookup_id, record)

    # Telling the sender.

    def _acknowledge(self, packet: UserMessage, reason: MessageClass) -> None:
        """Send Administration Acknowledgment: a message of its own to the administration queue."""
        if packet.admin_queue is None or packet.message_class in _ACKNOWLEDGEMENTS:
            return
        if reason in INSECURE_NACKS and not self._catalog.queue_manager.send_insecure_nacks:
            return
        original = decode_message(packet)
        name = original.administration_queue
        assert name is not None
        acknowledgement = _acknowledgement(original, reason)
        acknowledgement.destination_queue = name
        acknowledgement.id = self.new_message_id()
        acknowledgement.sent_time = self._core.seconds
        if packet.packet_size > _LARGEST_RETURNED:  # with its names it might become too large
            acknowledgement.body = b""
        sent = UserMessage(encode_message(acknowledgement))
        try:
            self._core.reserve(NEW_QUEUE_BYTES)
            queue = self.destination(name)
        except MqError as problem:  # what cannot be delivered gets no acknowledgement of its own
            detail = f"the acknowledgement has no queue: {problem.problem}"
            self._core.ledger.add(str(name), sent, MessageClass.NACK_BAD_DST_Q, detail)
            return
        try:
            self.arrive(None if self._catalog.is_internal(queue) else queue, sent, str(name))
        except (InsufficientResourcesError, StoreFullError) as problem:
            detail = f"there is no room for the acknowledgement: {problem.problem}"
            self._core.ledger.add(str(name), sent, MessageClass.NACK_Q_EXCEED_QUOTA, detail)


def _acknowledgement(original: Message, reason: MessageClass) -> Message:
    lineage, uniquifier = original.id
    is_negative_and_clear = reason.is_negative and original.privacy_level == PrivacyLevel.NONE
    return Message(
        original.body if is_negative_and_clear else b"",
        message_class=reason,
        correlation_id=encode_guid(lineage) + uniquifier.to_bytes(4, "little"),
        response_queue=original.destination_queue,
        delivery=original.delivery,
        time_to_reach_queue=INFINITE,
    )


def _is_plain(record: Record) -> bool:
    """Whether nothing comes of a message but that it lies in the store."""
    limit, _, flags = packet_summary(record.packet, SUMMARY_AT)
    is_plain = flags & _RECOVERABLE and not flags & _TOLD_AT_ARRIVAL
    return bool(is_plain and limit == INFINITE and not record.dead_letter_queue)


def _is_dead_letter(packet: UserMessage, reason: MessageClass) -> bool:
    """Not a message that was delivered and then purged or lost its queue, unless it is transactional."""
    return packet.is_transactional or not reason.is_receive or reason == MessageClass.NACK_RECEIVE_TIMEOUT


def _check_quota(subject: object, used: int, size: int, quota_kib: int) -> None:
    if used + size <= quota_kib * 1024 or quota_kib == INFINITE:
        return
    is_hopeless = size > quota_kib * 1024
    raise InsufficientResourcesError(
        str(subject),
        problem="the message alone is larger than the quota" if is_hopeless else None,
        present=f"{used} bytes used, {size} more wanted",
        limit=f"{quota_kib} KiB",
        fix="raise the quota" if is_hopeless else "receive or purge messages, or raise the quota",
    )


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
