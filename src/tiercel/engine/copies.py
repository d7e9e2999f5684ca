"""Copies of messages that have ended: journals and dead-letter queues. [MS-MQDMPR] 3.1.7.2.1."""

from tiercel.engine.acknowledgements import ACKNOWLEDGEMENTS
from tiercel.engine.catalog import Catalog
from tiercel.engine.core import Core
from tiercel.engine.life import LifeKind
from tiercel.engine.numbering import Numbering
from tiercel.engine.queue_state import QueueState
from tiercel.engine.quotas import Quotas
from tiercel.engine.records import Record
from tiercel.engine.resolver import Resolver
from tiercel.engine.waiting import Waiting
from tiercel.model.codes import MessageClass, class_meaning, message_class
from tiercel.model.errors import InsufficientResourcesError, StoreFullError
from tiercel.model.path_name import PathName, SystemQueue
from tiercel.wire import user_header
from tiercel.wire.message import decode_destination
from tiercel.wire.user_message import UserMessage

_DEAD_LETTERS_OVER_HTTP = frozenset(
    {
        MessageClass.NACK_DELETED,
        MessageClass.NACK_Q_PURGED,
        MessageClass.NACK_RECEIVE_TIMEOUT,
        MessageClass.NACK_RECEIVE_TIMEOUT_AT_SENDER,
    }
)


class Copies:
    def __init__(
        self,
        core: Core,
        catalog: Catalog,
        resolver: Resolver,
        quotas: Quotas,
        numbering: Numbering,
        waiting: Waiting,
    ) -> None:
        self._core = core
        self._catalog = catalog
        self._resolver = resolver
        self._quotas = quotas
        self._numbering = numbering
        self._waiting = waiting
        self._identifier = catalog.queue_manager.identifier

    def journal(self, queue: QueueState, record: Record, packet: UserMessage) -> None:
        """Keeps a received message in the journal of its queue, if that has journaling on."""
        root = queue.parent or queue
        if root.queue.journaling and root.journal is not None:
            self._file(root.journal, record, packet)

    def journal_at_source(self, packet: UserMessage, record: Record) -> None:
        """Keeps a message that this queue manager sent with positive journaling.

        One that came over HTTP is not kept: if it is ours, the outgoing queue has journaled it.
        """
        is_ours = packet.source_queue_manager == self._identifier and not packet.is_over_http
        if is_ours and packet.message_class not in ACKNOWLEDGEMENTS:
            self._file(self._catalog.system(SystemQueue.JOURNAL), record, packet)

    def dead_letter(
        self, packet: UserMessage, record: Record, reason: MessageClass, queue: QueueState | None
    ) -> None:
        """Keeps a message that failed here, if its sender asked for it and it is ours to keep."""
        if packet.is_over_http:
            if queue is not None and not queue.is_outgoing:
                self._dead_letter_over_http(packet, record, reason, queue)
            return
        is_ours = packet.source_queue_manager == self._identifier
        # A message that a full queue refuses is kept here: its sender considers it delivered (MQQB T39).
        is_kept_here = reason == MessageClass.NACK_Q_EXCEED_QUOTA and not packet.is_transactional
        if not packet.flags & user_header.NEGATIVE_JOURNALING or not (is_ours or is_kept_here):
            return
        if _is_dead_letter(packet, reason):
            self._file_dead_letter(packet, record, reason, queue)

    def _dead_letter_over_http(
        self, packet: UserMessage, record: Record, reason: MessageClass, queue: QueueState
    ) -> None:
        """[MC-MQSRM] 3.1.7.3.2: this computer keeps what failed in its queue; of a stream its sender does."""
        is_asked = packet.flags & user_header.NEGATIVE_JOURNALING and not packet.is_transactional
        if is_asked and reason in _DEAD_LETTERS_OVER_HTTP:
            self._file_dead_letter(packet, record, reason, queue)

    def final(
        self, queue: QueueState, packet: UserMessage, record: Record, code: int, note: str = ""
    ) -> None:
        """Keeps what its sender asked for of a message that ended at its destination, as the code says."""
        if code == MessageClass.ACK_RECEIVE:
            if packet.flags & user_header.POSITIVE_JOURNALING:
                self.journal_at_source(packet, record)
            return
        name = str(decode_destination(packet) or queue)
        self._core.ledger.add(name, packet, message_class(code), f"{class_meaning(code)}{note}")
        if packet.flags & user_header.NEGATIVE_JOURNALING:
            self._file_dead_letter(packet, record, code, queue)

    def _file_dead_letter(
        self, packet: UserMessage, record: Record, code: int, queue: QueueState | None
    ) -> None:
        self._core.ledger.dead_letter_counts[int(code)] += 1
        dead = record._replace(reason=int(code))
        self._file(self._dead_letter_queue(packet, record, queue), dead, packet)

    def _dead_letter_queue(self, packet: UserMessage, record: Record, queue: QueueState | None) -> QueueState:
        """The application's own dead-letter queue if it fits the message, else the system's (DMPR-078)."""
        if record.dead_letter_queue:
            own = self._resolver.dead_letter_queue(PathName.parse(record.dead_letter_queue))
            if own is not None and own is not queue and own.queue.transactional == packet.is_transactional:
                return own
        system = SystemQueue.DEADXACT if packet.is_transactional else SystemQueue.DEADLETTER
        return self._catalog.system(system)

    def _file(self, queue: QueueState, record: Record, packet: UserMessage) -> None:
        """Adds a copy to a journal or dead-letter queue; when that is full, only the ledger tells of it."""
        size = len(record.packet)
        try:
            self._quotas.check(queue, size)
            if packet.is_recoverable:
                self._core.reserve(size)
        except (InsufficientResourcesError, StoreFullError) as problem:
            detail = f"no copy was kept: {problem.problem}"
            self._core.ledger.add(str(queue), packet, MessageClass.NACK_Q_EXCEED_QUOTA, detail)
            return
        kept = record._replace(arrival_time=self._core.seconds, is_copy=True)
        lookup_id = self._numbering.new_lookup_id(packet.priority)
        queue.insert(self._core, lookup_id, kept, recoverable=packet.is_recoverable)
        self._core.life.add_one(LifeKind.COPIED, queue.slot, record.packet, record.reason)
        self._waiting.offer(queue, lookup_id, kept)


def _is_dead_letter(packet: UserMessage, reason: MessageClass) -> bool:
    """Not a message that was delivered and then purged or lost its queue, unless it is transactional."""
    return packet.is_transactional or not reason.is_receive or reason == MessageClass.NACK_RECEIVE_TIMEOUT
