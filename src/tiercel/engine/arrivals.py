"""What makes the arrival of messages exactly-once, for every transport. [MS-MQQB] 3.1.5.8.

A transport hands over what came on one connection as a run, one or more messages in their order. Messages of
one shape (`wire/alike.py`) are checked, remembered and stored together if all of them are taken, else one by
one. What becomes of a message:

    seen before            dropped: by its id, or, if transactional, by its place in its stream
    not believed           dropped, and not acknowledged: its sender keeps it, if it has sent it
    refused by its queue   its sender is told as it has asked for; its stream moves on all the same
    taken                  in its queue, and remembered, in one commit
    no room for it         it and the rest of the run stay with their sender, who sends them again

How far a stream has come is a fact of the engine, an `IncomingStream`. Each transport tells it to the sender
in its own words, which here are order acknowledgements.
"""

from collections.abc import Collection, Iterable, Sequence
from enum import Enum
from typing import NamedTuple
from uuid import UUID

from tiercel.engine.admission import Admission
from tiercel.engine.belief import Doubt
from tiercel.engine.core import Core
from tiercel.engine.delivery import TOLD_AT_ARRIVAL, Delivery
from tiercel.engine.final_acks import FinalAcks
from tiercel.engine.history import History
from tiercel.engine.incoming_streams import DamagedStreamError, IncomingStream, IncomingStreams
from tiercel.engine.peers import Peers
from tiercel.engine.queue_state import QueueState
from tiercel.engine.queues import Queues
from tiercel.engine.quotas import Quotas
from tiercel.message_security.ciphers import SessionKey
from tiercel.message_security.verdict import NOTHING, Verdict
from tiercel.model.codes import NEGATIVE, MessageClass
from tiercel.model.errors import InsufficientResourcesError, StoreFullError
from tiercel.wire.alike import Alike
from tiercel.wire.message import decode_destination
from tiercel.wire.queue_names import DirectQueueFormatName, QueueName
from tiercel.wire.security_header import ENCRYPTED_BODY
from tiercel.wire.user_message import UserMessage

ROOM_FOR_AN_ANSWER = 8192  # bytes: a final ack, and an outgoing queue for it
_KEY_AND_HEAD = 64  # bytes of a record in the store in addition to the packet, at most
_NAMES_KEPT = 10_000


class Source(NamedTuple):
    """The peer that a run came from."""

    queue_manager: UUID
    address: str
    is_direct: bool  # it reaches us by direct names, so that acknowledgements take that form
    is_router: bool = False  # it may pass on the messages of other queue managers
    only_by_themselves: Collection[UUID] = ()  # but not of these

    def address_of(self, sender: UUID) -> str:
        """Where the sender of a message is; empty if it came through others."""
        return self.address if self.queue_manager == sender else ""

    def may_speak_for(self, sender: UUID) -> bool:
        if self.queue_manager == sender:
            return True
        return self.is_router and sender not in self.only_by_themselves


class Arrival(NamedTuple):
    """What became of one message, or of several: taken, unless it is a duplicate or was refused."""

    messages: Alike
    is_taken: bool
    stream: IncomingStream | None = None  # of a transactional message, as far as it has come
    doubt: Doubt | None = None  # why it was not believed


class ArrivedRun(NamedTuple):
    """The fates of the first messages of a run, in their order, and why the next one could not be kept."""

    arrivals: list[Arrival]
    problem: str = ""


class Place(NamedTuple):
    """The place of a message that came over HTTP: its stream, and whether it may begin a sequence there."""

    stream: IncomingStream
    begins: bool
    receipts_to: str = ""


class Fate(Enum):
    """What became of a message that came in an HTTP request."""

    TAKEN = "taken"
    DUPLICATE = "duplicate"
    OUT_OF_ORDER = "out of order"
    DOUBTED = "doubted"
    REFUSED = "refused"
    NO_ROOM = "no room"  # now; its sender shall try again


class Posted(NamedTuple):
    fate: Fate
    reason: str = ""


class Arrivals:
    def __init__(
        self,
        core: Core,
        admission: Admission,
        delivery: Delivery,
        final_acks: FinalAcks,
        peers: Peers,
        queues: Queues,
        quotas: Quotas,
        streams: IncomingStreams,
    ) -> None:
        self._core = core
        self.history = History(core)
        self.streams = streams
        self._origins = delivery.origins
        self._admission = admission
        self._delivery = delivery
        self._final_acks = final_acks
        self._peers = peers
        self._queues = queues
        self._quotas = quotas
        self._by_name: dict[QueueName | str, QueueState] = {}

    def flush(self) -> None:
        """Before the commit of the messages that came."""
        self.history.flush()
        self.streams.flush()

    def arrive(self, run: Sequence[Alike], source: Source) -> ArrivedRun:
        """Receiving a UserMessage Packet ([MS-MQQB] 3.1.5.8), for one message or many."""
        arrivals: list[Arrival] = []
        self._core.life.act(source.address)
        try:
            for alike in run:
                queue = self._find(alike.first)
                for messages in self._with_one_fate(alike, queue, source):
                    if messages.first.is_transactional:
                        arrivals.append(self._take_in_order(messages, queue, source))
                    else:
                        arrivals.append(self._take(messages, queue, source))
        except (InsufficientResourcesError, StoreFullError) as problem:  # its sender shall keep it (MQQB-127)
            return ArrivedRun(arrivals, f"there is no room for the message: {problem}")
        except DamagedStreamError as problem:
            return ArrivedRun(arrivals, str(problem))
        finally:
            self._core.life.actor = 0
        return ArrivedRun(arrivals)

    def needs_key(self, packet: UserMessage) -> bool:
        """Whether a private key has to open the session key of its body first, which takes a millisecond.

        The transport then lets `unwrap` run in another thread, calls `remember_key` with the result, and only
        then `arrive`, with the message and all that came after it.
        """
        if not packet.security_flags & ENCRYPTED_BODY or not self._admission.needs_private_key(packet):
            return False
        queue = self._find(packet)
        return queue is not None and not queue.is_outgoing

    def unwrap(self, packet: UserMessage) -> tuple[SessionKey, ...]:
        """Changes nothing, so it may run beside the engine."""
        return self._admission.unwrap(packet)

    def remember_key(self, packet: UserMessage, keys: tuple[SessionKey, ...]) -> None:
        self._admission.remember_key(packet, keys)

    def _with_one_fate(self, alike: Alike, queue: QueueState | None, source: Source) -> Iterable[Alike]:
        """All together, if all of them will be taken and nothing else happens meanwhile; else each by itself.

        A reader that waits, and an acknowledgement of the arrival, could change what is left of a quota.
        """
        if len(alike) == 1:
            return (alike,)
        if queue is None or not _is_quiet(alike, queue):
            return alike.singles()
        are_new = self._are_next if alike.first.is_transactional else self._are_unknown
        return (alike,) if are_new(alike, queue, source) and self.takes(alike, queue) else alike.singles()

    def _are_unknown(self, alike: Alike, _queue: QueueState, _source: Source) -> bool:
        return self.history.are_new(alike.identities)

    def _are_next(self, alike: Alike, queue: QueueState, source: Source) -> bool:
        """Whether the messages continue their stream, one after the other."""
        packet = alike.first
        if not alike.are_in_order or not source.may_speak_for(packet.source_queue_manager):
            return False
        stream, (sequence, number) = self.streams.of(packet, queue), packet.sequence
        is_next = stream.accepts(sequence, number, packet.previous_number)
        return is_next and not self.streams.is_early(stream, sequence)

    def takes(self, alike: Alike, queue: QueueState, copies: int = 1) -> bool:
        """Whether the queue takes all of the messages, with some room to spare."""
        spare = ROOM_FOR_AN_ANSWER + len(alike) * _KEY_AND_HEAD
        size, count = copies * (alike.size + spare), copies * len(alike)
        try:
            return self._admission.refusal(queue, alike.first, size, count) is None
        except (InsufficientResourcesError, StoreFullError):
            return False

    def _take(self, messages: Alike, queue: QueueState | None, source: Source) -> Arrival:
        """Duplicate Detection ([MS-MQQB] 3.1.5.8.1) and General Processing (3.1.5.8.2)."""
        identities = self._identities(messages, queue)
        if self._is_duplicate(messages, identities):
            return Arrival(messages, False)
        packet = messages.first
        self._origins.remember(packet, identities[0], source.address_of(packet.source_queue_manager))
        reason = self._put(messages, queue)
        self.history.remember(identities, recoverable=packet.is_recoverable, is_taken=reason is None)
        if packet.message_class & NEGATIVE:  # rare
            self._delivery.refused_elsewhere(packet)
        return Arrival(messages, reason is None)

    def _is_duplicate(self, messages: Alike, identities: list[bytes]) -> bool:
        if len(messages) > 1:  # known to be new
            return False
        return self.history.is_duplicate(identities[0]) or self.history.is_known_from_format_1(messages.first)

    def _identities(self, messages: Alike, queue: QueueState | None) -> list[bytes]:
        """A message that is sent again may be encrypted with another key, so its clear body counts."""
        if not messages.first.security_flags & ENCRYPTED_BODY or queue is None:
            return messages.identities
        return [self._admission.judged(messages.first).clear.identity_without_encryption]

    def _take_in_order(self, messages: Alike, queue: QueueState | None, source: Source) -> Arrival:
        """Transactional Message Processing ([MS-MQQB] 3.1.5.8.6)."""
        packet = messages.first
        if not source.may_speak_for(packet.source_queue_manager):
            return Arrival(messages, False, None, Doubt.FOREIGN_SENDER)
        self._quotas.check_room(ROOM_FOR_AN_ANSWER)
        sequence, number = packet.sequence
        stream = self.streams.of(packet, queue)
        is_new = stream.accepts(sequence, number, packet.previous_number)
        is_known = self._peers.knows(packet.source_queue_manager)
        is_refused = not is_known and self._delivery.refusal(packet, queue) is not None
        may_answer = self.meet(packet, source, is_refused=is_refused, is_new=is_new)
        is_orphan = queue is None and not stream.sequence
        if not may_answer or (is_orphan and self.streams.are_too_many_orphans):
            self.streams.forget_old_orphans()
            return Arrival(messages, False, None, Doubt.REFUSED_STRANGER)
        address = source.address_of(packet.source_queue_manager)
        if sequence == stream.sequence and stream.answers_to != address:
            # Ids of sequences are random: whoever knows the current one is the sender, at another address.
            self._peers.has_moved(packet.source_queue_manager, stream.answers_to, address)
            self.streams.moved(stream, address)
        if not is_new:
            self.streams.reject(stream)
            return Arrival(messages, False, stream)
        if self.streams.is_early(stream, sequence):
            self.streams.refuse(stream, sequence)
            return Arrival(messages, False, stream, Doubt.EARLY_TIMESTAMP)
        with self.streams.answering(stream, address):  # a reader may wait for it: then it ends at once
            reason = self._put(messages, queue)
        # Refused or not: its stream must move on (MQQB T17).
        self.streams.accept(stream, sequence, messages.last_number, address)
        if reason is not None:
            self._final_acks.rejected(packet, reason, address)
        return Arrival(messages, reason is None, stream)

    def arrive_over_http(
        self,
        packet: UserMessage,
        queue: QueueState,
        *,
        has_id: bool,
        stream: Place | None = None,
        verdict: Verdict = NOTHING,
    ) -> Posted:
        """Receiving a user message: [MC-MQSRM] 3.1.5.1.6, 3.1.5.1.11, 3.1.5.1.12.

        The caller has checked that the queue takes messages of streams, or others. What is refused is neither
        remembered nor moves its stream: the answer to the request says all that its sender gets to know.
        `verdict` is what its XML signature has proved.
        """
        self._delivery.settle(packet, verdict)
        try:
            if stream is not None:
                return self._take_posted_in_order(packet, queue, stream)
            return self._take_posted_once(packet, queue, has_id=has_id)
        except (InsufficientResourcesError, StoreFullError) as problem:
            return Posted(Fate.NO_ROOM, f"there is no room for the message: {problem}")

    def take_together(self, messages: Alike, queues: Sequence[QueueState]) -> bool:
        """Messages of one shape over HTTP or by multicast, outside of streams and with ids of their own.

        Each queue gets all of them. Returns False, having done nothing, unless all of them are new and taken.
        """
        if not self.history.are_new(messages.identities):
            return False
        if not all(_is_quiet(messages, each) and self.takes(messages, each, len(queues)) for each in queues):
            return False
        for queue in queues:
            self._delivery.accept_alike(queue, messages)
        self.history.remember(messages.identities, recoverable=messages.first.is_recoverable)
        return True

    def arrive_by_multicast(self, packet: UserMessage, queues: Sequence[QueueState]) -> list[Posted]:
        """A message to a multicast address: one copy for each subscribed queue (SRMP-179, SRMP-193).

        Its sender will not repeat it: a queue without room has lost its copy, and the ledger says so.
        """
        if self.history.is_duplicate(packet.identity):
            return [Posted(Fate.DUPLICATE)]
        fates = [self._copy_to(packet, queue) for queue in queues]
        if any(posted.fate is Fate.TAKEN for posted in fates):
            self.history.remember([packet.identity], recoverable=packet.is_recoverable)
        return fates

    def _copy_to(self, packet: UserMessage, queue: QueueState) -> Posted:
        try:
            posted = self._take_posted(packet, queue)
        except (InsufficientResourcesError, StoreFullError) as problem:
            posted = Posted(Fate.NO_ROOM, f"there is no room for the message: {problem}")
        if posted.fate is Fate.NO_ROOM:
            self._core.ledger.add_sentence(str(queue), len(packet.data), f"dropped: {posted.reason}")
        return posted

    def _take_posted_once(self, packet: UserMessage, queue: QueueState, *, has_id: bool) -> Posted:
        """[MC-MQSRM] 3.1.5.1.11; the id is remembered in the commit of the message (SRMP-120)."""
        identity = packet.identity if has_id else b""
        if has_id and self.history.is_duplicate(identity):
            return Posted(Fate.DUPLICATE)
        posted = self._take_posted(packet, queue)
        if has_id and posted.fate is Fate.TAKEN:
            self.history.remember([identity], recoverable=packet.is_recoverable)
        return posted

    def _take_posted_in_order(self, packet: UserMessage, queue: QueueState, place: Place) -> Posted:
        """[MC-MQSRM] 3.1.5.1.6.3"""
        stream, (sequence, number) = place.stream, packet.sequence
        if not stream.accepts(sequence, number, packet.previous_number, begins=place.begins):
            self.streams.reject(stream)
            return Posted(Fate.OUT_OF_ORDER)
        if self.streams.is_early(stream, sequence):
            self.streams.refuse(stream, sequence)
            return Posted(Fate.DOUBTED, Doubt.EARLY_TIMESTAMP.meaning)
        posted = self._take_posted(packet, queue)
        if posted.fate is Fate.TAKEN:
            # It comes with the first message of a sequence and holds for all of it.
            receipts_to = place.receipts_to or stream.answers_to
            self.streams.accept(stream, sequence, number, receipts_to)
        return posted

    def _take_posted(self, packet: UserMessage, queue: QueueState) -> Posted:
        reason = self._delivery.refusal(packet, queue)
        if reason is None:
            self._delivery.accept_arrived(queue, packet)
            return Posted(Fate.TAKEN)
        if reason == MessageClass.NACK_Q_EXCEED_QUOTA:  # 200 would lose it (SRMP-016)
            return Posted(Fate.NO_ROOM, f"{queue}: {reason.meaning}")
        self._delivery.refuse(packet, reason, str(queue))
        return Posted(Fate.REFUSED, reason.meaning)

    def _put(self, messages: Alike, queue: QueueState | None) -> MessageClass | None:
        """Inserting a Message into a Local Queue ([MS-MQQB] 3.1.5.8.8)."""
        if len(messages) > 1 and queue is not None:  # not refused, as was checked
            self._delivery.accept_alike(queue, messages)
            return None
        packet = messages.first
        unknown = str(decode_destination(packet)) if queue is None else ""
        return self._delivery.arrive(packet, queue, unknown)

    def meet(self, packet: UserMessage, source: Source, *, is_refused: bool, is_new: bool = False) -> bool:
        """Remember where the sender of a transactional message is, but not a stranger that is refused.

        Returns whether the message may be answered, because all that is kept of strangers has a limit.
        """
        sender = packet.source_queue_manager
        address = source.address_of(sender)
        is_known = self._peers.knows(sender)
        if is_known or (is_new and not is_refused) or (is_refused and not address):
            self._peers.learn(sender, address, is_direct=source.is_direct, is_new=is_new)
        if is_known or not is_refused:
            return True
        return not self._final_acks.are_too_many if address else self._peers.knows(sender)

    def _find(self, packet: UserMessage) -> QueueState | None:
        """Determining Message Destination ([MS-MQQB] 3.1.5.8.5)."""
        name = packet.destination_queue
        if name is None:
            return None
        key = name.direct_format_name if isinstance(name, DirectQueueFormatName) else name
        queue = self._by_name.get(key)
        if queue is None or queue.is_deleted:
            destination = decode_destination(packet)
            queue = None if destination is None else self._queues.find_local(destination)
            if queue is not None:
                if len(self._by_name) >= _NAMES_KEPT:  # strangers can invent names, and must not fill memory
                    self._by_name.clear()
                self._by_name[key] = queue
        return queue


def _is_quiet(messages: Alike, queue: QueueState) -> bool:
    """Whether nothing happens when the messages come in: nobody waits for them, and nobody is told."""
    return not (queue.is_outgoing or queue.waiters or messages.first.flags & TOLD_AT_ARRIVAL)
