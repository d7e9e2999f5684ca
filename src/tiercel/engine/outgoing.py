"""Messages in transit to other queue managers: numbered, taken for sending, acknowledged. [MS-MQQB] 3.1.1.5.

Carriers take messages in runs: one or more of one queue, in order. A message in flight is locked, like one
that an application has received; the carrier ends the flight with one of these methods:

    method       the message                        its copy
    take         is in flight
    give_back    will be sent again
    delivered    left for good                      the journal, if positive journaling was asked for
    refused      left for good                      the dead-letter queue, if asked for
    ordered      waits for its final ack, if one    none yet
                 was asked for, or left for good
    final_acked  left for good                      journal or dead-letter queue

Transactional messages of this queue manager form one stream per outgoing queue. Each gets its number once, in
the commit that makes it durable, and keeps it over every reconnect and restart (MQQB T02).
"""

import struct
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from uuid import UUID

from tiercel.engine import queue_state
from tiercel.engine.belief import Doubt
from tiercel.engine.carriers import Carriers
from tiercel.engine.catalog import Catalog
from tiercel.engine.core import Core
from tiercel.engine.deadlines import Deadlines
from tiercel.engine.delivery import Delivery
from tiercel.engine.life import LifeKind
from tiercel.engine.numbering import Numbering
from tiercel.engine.outgoing_index import OutgoingIndex
from tiercel.engine.queue_state import QueueState
from tiercel.engine.records import Record, slot_key
from tiercel.engine.sequence_ids import SequenceIds
from tiercel.engine.stream import SIZES, UNIDENTIFIED, Stream
from tiercel.engine.taken import Taken
from tiercel.engine.transaction import Operation, give_places
from tiercel.message_security.encryption import Encryption
from tiercel.model.codes import NEGATIVE, MessageClass, OutgoingQueueState
from tiercel.model.errors import IllegalOperationError, SecurityError, StoreDamagedError
from tiercel.model.format_name import DirectFormatName
from tiercel.model.identifiers import NULL_GUID, MessageId, SequenceInfo
from tiercel.model.queue import OutgoingQueue
from tiercel.store.interface import Keyspace
from tiercel.wire import user_header
from tiercel.wire.alike import by_shape
from tiercel.wire.message import decode_destination
from tiercel.wire.order_ack import FinalAckBody
from tiercel.wire.security_header import ENCRYPTED_BODY
from tiercel.wire.structure import decode_tx_sequence_id, encode_guid, encode_tx_sequence_id
from tiercel.wire.user_message import UserMessage, placed

_place = struct.Struct("<II").unpack_from


class Outgoing:
    def __init__(
        self,
        core: Core,
        catalog: Catalog,
        numbering: Numbering,
        delivery: Delivery,
        deadlines: Deadlines,
        index: OutgoingIndex,
        carriers: Carriers,
        encryption: Encryption,
    ) -> None:
        self._core = core
        self._catalog = catalog
        self._delivery = delivery
        self._numbering = numbering
        self._deadlines = deadlines
        self._index = index
        self._carriers = carriers
        self._encryption = encryption
        self._identifier = catalog.queue_manager.identifier
        self._own = encode_guid(self._identifier)
        self._ids = SequenceIds(core)
        self._newly_sent: dict[QueueState, Stream] = {}
        self._streams: dict[QueueState, Stream] = {}
        self._by_sequence: dict[int, QueueState] = {}

    def load(self) -> None:
        """Read the streams: one short record for each outgoing queue that has one."""
        for queue in self.queues():
            data = self._core.batch.get(Keyspace.SEQUENCES, slot_key(queue.slot))
            if data is None:
                continue
            if len(data) not in SIZES:
                raise StoreDamagedError(f"stream of {queue}", present=f"{len(data)} bytes", limit=max(SIZES))
            self._set_stream(queue, Stream.decode(data))

    def queues(self) -> Iterator[QueueState]:
        return (queue for queue in list(self._catalog.all()) if queue.is_outgoing)

    @property
    def seconds(self) -> int:
        return self._core.seconds

    def start(self) -> None:
        """In the first batch, after all carriers have registered: send the stored messages (MQQB-098)."""
        for queue in list(self.queues()):
            self.retire(queue)
        self.wake()

    def wake(self, queue: QueueState | None = None) -> None:
        """Have a queue, or all of them, checked for messages to send."""
        for each in self.queues() if queue is None else (queue,):
            if each.count:
                self._core.ready[each] = None

    def pause(self, queue: QueueState) -> None:
        """Pause Queue ([MS-MQDMPR] 3.1.4.14, 3.1.7.2.3): nothing is sent until it is resumed."""
        _outgoing_queue(queue).state = OutgoingQueueState.ON_HOLD
        self._carriers.paused(queue)

    def resume(self, queue: QueueState) -> None:
        """Resume Queue ([MS-MQDMPR] 3.1.4.15, 3.1.7.2.4)."""
        _outgoing_queue(queue).state = OutgoingQueueState.INACTIVE
        self._carriers.resumed(queue)

    def retire(self, queue: QueueState) -> bool:
        """Remove an outgoing queue that is not needed now; the next message to its name creates a new one.

        Its next stream will have a larger id, so the old one can be forgotten.
        """
        assert isinstance(queue.queue, OutgoingQueue)
        is_held = queue.queue.state is OutgoingQueueState.ON_HOLD
        if queue.count or queue.handles or queue.held_bytes or is_held or self.stream(queue).unread:
            return False
        stream = self._streams.pop(queue, None)
        if stream is not None:
            self._by_sequence.pop(stream.sequence, None)
        self._core.ready.pop(queue, None)
        self._catalog.remove(queue)
        return True

    # In flight.

    def take(self, queue: QueueState, limit: int, receiver: UUID = UNIDENTIFIED) -> list[Taken]:
        """The next messages to send, as one run; fewer than `limit` if there are no more, or they are large.

        They are put on the wire after the commit of this batch, for the queue manager `receiver`: only its
        acknowledgements will count.

        Checking for Message Expiration ([MS-MQQB] 3.1.7.1.2): expired messages end here, and so do those that
        the destination has confirmed.
        """
        run: list[Taken] = []
        while wanted := limit - sum(map(len, run)):
            found = queue.lock_available(self._core, wanted)
            is_stopped = not self._add_sendable(run, self._runs(queue, found))
            if is_stopped or not found or sum(taken.size for taken in run) >= queue_state.RUN_BYTES:
                break
        self._put_on_wire(queue, run, receiver)
        return run

    def _runs(self, queue: QueueState, found: list[tuple[int, bytes | Record]]) -> list[Taken]:
        """Messages that were locked, those of one shape together; damaged ones are set aside."""
        sound = queue.packets_of(self._core, found)
        lookup_ids = [lookup_id for lookup_id, _ in sound]
        runs, start = [], 0
        for alike in by_shape([packet for _, packet in sound]):
            end = start + len(alike)
            place = self._place(alike.first, alike.packets)
            runs.append(Taken(queue, lookup_ids[start:end], alike.packets, alike.first, alike.size, *place))
            start = end
        return runs

    def _add_sendable(self, run: list[Taken], found: list[Taken]) -> bool:
        """Add the messages to the run that are to be sent; False if the rest of the queue must wait."""
        for index, each in enumerate(found):
            taken = self._without_ended(each)
            if taken is None:
                continue
            if taken.numbers and taken.queue.held_by_readers:  # an administrator has locked one of the stream
                for rest in (taken, *found[index + 1 :]):
                    for lookup_id in rest.lookup_ids:
                        rest.queue.unlock(lookup_id)
                return False
            sealed = self._sealed(taken) if taken.packet.security_flags & ENCRYPTED_BODY else taken
            if sealed is not None:
                run.append(sealed)
        return True

    def _without_ended(self, taken: Taken) -> Taken | None:
        """The messages that do not end here, without being sent."""
        if self._deadlines.is_late(taken.packet):
            for lookup_id, record in self._records(taken):
                self._delivery.finish(taken.queue, lookup_id, record, MessageClass.NACK_REACH_QUEUE_TIMEOUT)
            return None
        stream = self._streams.get(taken.queue) if taken.numbers else None
        if stream is None or not (stream.refused or stream.confirms(taken.sequence, taken.number)):
            return taken
        through = [stream.confirms(taken.sequence, number) for number in taken.numbers]
        ended = sum(1 << index for index, is_through in enumerate(through) if is_through)
        if ended:
            for lookup_id, record in self._records(taken.part(ended)):
                self._finish_ordered(taken.queue, lookup_id, record)
        rest = (1 << len(taken)) - 1 & ~ended
        return taken.part(rest) if rest else None

    def _records(self, taken: Taken) -> list[tuple[int, Record]]:
        """As the messages are stored: needed only where they leave a copy, or end."""
        found = [(lookup_id, taken.queue.get(self._core, lookup_id)) for lookup_id in taken.lookup_ids]
        return [(lookup_id, record) for lookup_id, record in found if record is not None]

    def _sealed(self, taken: Taken) -> Taken | None:
        """Encrypting the Message Body: [MS-MQQB] 3.1.7.1.5. The stored record stays clear, for journals.

        A message that cannot be encrypted ends here: it is never sent in clear (3.1.7.1.5.1, MQQB-220). One
        that came from elsewhere, or that its application has encrypted, is left as it is (DMPR-103).
        """
        queue, packet = taken.queue, taken.packet
        if not packet.comes_from(self._own) or not packet.is_to_be_encrypted:
            return taken
        name = _outgoing_queue(queue).destination_format_name
        try:
            sealed = self._encryption.seal(packet, name, self._core.now)
            return replace(taken, packet=sealed, packets=(sealed.data,))
        except SecurityError as problem:
            reason = MessageClass.NACK_COULD_NOT_ENCRYPT
            detail = f"{reason.meaning}: {problem.problem or problem.meaning}"
            for lookup_id, record in self._records(taken):
                self._delivery.finish(queue, lookup_id, record, reason, packet, detail)
            self._carriers.message_failed(queue, reason)
            return None

    def _put_on_wire(self, queue: QueueState, run: list[Taken], receiver: UUID) -> None:
        number = next((taken.numbers[-1] for taken in reversed(run) if taken.numbers), 0)
        if number and self._streams[queue].put_on_wire(number, receiver):
            self._newly_sent[queue] = self._streams[queue]

    def flush(self) -> None:
        """Before the commit: store what was put on the wire, once for each stream."""
        for queue, stream in self._newly_sent.items():
            if not queue.is_deleted:
                self._core.batch.put(Keyspace.SEQUENCES, slot_key(queue.slot), stream.encode())
        self._newly_sent.clear()

    def give_back(self, run: Iterable[Taken]) -> None:
        """The messages will be sent again, unless they have expired in the meantime."""
        for taken in _landed(run):
            for lookup_id, packet in zip(taken.lookup_ids, taken.packets, strict=True):
                self._give_back(taken.queue, lookup_id, packet)

    def _give_back(self, queue: QueueState, lookup_id: int, packet: bytes) -> None:
        doom = queue.locks[lookup_id].doom
        record = None if doom is None else queue.get(self._core, lookup_id)
        if doom is not None and record is not None:
            self._delivery.finish(queue, lookup_id, record, doom)
        else:
            queue.unlock(lookup_id)
            self._core.life.add_one(LifeKind.GIVEN_BACK, queue.slot, packet)
            self._core.ready[queue] = None

    def delivered(self, run: Iterable[Taken]) -> None:
        """The next hop has the messages; those outside our streams are complete."""
        for taken in _landed(run):
            if taken.packet.flags & user_header.POSITIVE_JOURNALING:
                self._journal(taken)
            else:
                self._delivery.detach_run(taken)
                self._tell(LifeKind.DELIVERED, taken)

    def _journal(self, taken: Taken) -> None:
        """One by one: each copy may need the room that its message leaves."""
        for each in taken.singles():
            records = self._records(each)
            self._delivery.detach_run(each)
            self._tell(LifeKind.DELIVERED, each)
            for _, record in records:
                self._delivery.copies.journal_at_source(UserMessage(record.packet), record)

    def refused(self, taken: Taken, reason: MessageClass, detail: str = "") -> None:
        """The next hop will never take the messages."""
        for landed in _landed((taken,)):
            for lookup_id, record in self._records(landed):
                self._delivery.finish(taken.queue, lookup_id, record, reason, detail=detail)

    def ordered(self, run: Iterable[Taken]) -> None:
        """The destination has the messages, in order."""
        for taken in _landed(run):
            records = self._records(taken) if taken.packet.wants_final_ack else []
            self._delivery.detach_run(taken)
            self._tell(LifeKind.ORDERED, taken)
            for _, record in records:
                self._await_or_journal(taken.queue, record, UserMessage(record.packet))

    def _tell(self, kind: LifeKind, taken: Taken) -> None:
        self._core.life.add_alike(kind, taken.queue.slot, taken.packets)

    def finish_confirmed(self, queue: QueueState) -> None:
        """Remove what the destination has confirmed while it was not in flight.

        Otherwise it would wait for a session with a receiver that may accept none, and expire.
        """
        while (found := queue.next_undecoded(self._core)) is not None:
            record = queue.decode(self._core, *found)
            if record is None:
                continue
            sequence, numbers = self._place(UserMessage(record.packet), (record.packet,))
            if not numbers or not self._is_confirmed(queue, sequence, numbers[0]):
                return
            self._finish_ordered(queue, found[0], record)

    def _finish_ordered(self, queue: QueueState, lookup_id: int, record: Record) -> None:
        packet = UserMessage(record.packet)
        self._streams[queue].refused.discard(packet.sequence[1])
        self._delivery.detach(queue, lookup_id, record, packet)
        self._core.life.add_one(LifeKind.ORDERED, queue.slot, record.packet)
        self._await_or_journal(queue, record, packet)

    def _await_or_journal(self, queue: QueueState, record: Record, packet: UserMessage) -> None:
        """What follows when the destination has the message: a final ack, a copy, or nothing."""
        if not _is_http(queue):
            if packet.wants_final_ack:
                self._await_final_ack(queue, record, packet)
        elif packet.flags & user_header.NEGATIVE_JOURNALING:  # the only ones with a final receipt (SRMP-153)
            self._await_final_ack(queue, record, packet)
        elif packet.flags & user_header.POSITIVE_JOURNALING:
            self._delivery.copies.journal_at_source(packet, record)

    # Streams.

    def stream(self, queue: QueueState) -> Stream:
        return self._streams.get(queue) or Stream()

    def queue_of(self, sequence: int) -> QueueState | None:
        """The outgoing queue of the stream with this sequence, if that is current."""
        queue = self._by_sequence.get(sequence)
        return None if queue is None or queue.is_deleted else queue

    def number(self, queue: QueueState, operations: list[Operation]) -> None:
        """Assign the messages of a transaction their positions in the stream."""
        stream = self._streams.get(queue)
        if stream is None or stream.acked >= stream.number:
            stream = self._begin_sequence(queue, stream)
        stream.number = give_places(operations, stream.sequence, stream.number)
        self._save(queue, stream)

    def _begin_sequence(self, queue: QueueState, old: Stream | None) -> Stream:
        """Start a sequence with a larger id than any before it, of any queue (MQQB-133, MQQB-134)."""
        stream = old or Stream()
        self._by_sequence.pop(stream.sequence, None)
        stream.begin(self._ids.next())
        self._set_stream(queue, stream)
        return stream

    def begin_anew(self, queue: QueueState) -> None:
        """Move the messages of a stream to a new sequence, in which the first of them is the first.

        For a transport whose receivers must see the first message of a sequence (SRMP-155). Only while none
        of the messages was on the wire: one that the receiver has would be doubled. Raises StoreFullError.
        """
        old = self._streams[queue]
        self._core.reserve_to_move(queue.count, queue.size_bytes)
        numbered = old.sequence
        stream = self._begin_sequence(queue, old)
        for lookup_id, data in queue.available(self._core):
            record = queue.decode(self._core, lookup_id, data)
            if record is None or self._place(UserMessage(record.packet), (record.packet,))[0] != numbered:
                continue
            packet = placed(record.packet, stream.sequence, stream.number + 1, stream.number, 0)
            stream.number += 1
            queue.replace(self._core, lookup_id, record._replace(packet=packet))
        self._save(queue, stream)

    def doubt_order_ack(self, sequence: int, number: int, speaker: UUID) -> Doubt | None:
        """Why an OrderAck of the queue manager `speaker` is not believed; None if it is."""
        queue = self.queue_of(sequence)
        if queue is None:  # over (MQQB T05), or never given out
            return Doubt.STALE if self._ids.was_given(sequence) else Doubt.UNKNOWN_SEQUENCE
        stream = self._streams[queue]
        if not stream.has_sent(sequence, number):
            return Doubt.NOT_SENT
        return None if speaker == stream.receiver else Doubt.OTHER_QUEUE_MANAGER

    def order_acked(self, queue: QueueState, number: int) -> None:
        """The destination has everything up to `number` of the current sequence; that is believed."""
        stream = self._streams[queue]
        stream.ack_count += 1
        stream.ack_time = self._core.seconds
        if stream.acked < number <= stream.sent:
            stream.acked = number
            stream.forget_refused()
        self._save(queue, stream)

    def _is_confirmed(self, queue: QueueState, sequence: int, number: int) -> bool:
        stream = self._streams.get(queue)
        return stream is not None and stream.confirms(sequence, number)

    def _place(self, first: UserMessage, packets: Sequence[bytes]) -> tuple[int, Sequence[int]]:
        """The sequence of messages of one shape, and their numbers in it."""
        if first.is_transactional and first.comes_from(self._own) and not first.is_over_http:
            at = first.place_at
            return first.sequence[0], [_place(packet, at)[0] for packet in packets]
        return 0, ()  # of another queue manager, or passed on over HTTP with the stream of its sender

    def _set_stream(self, queue: QueueState, stream: Stream) -> None:
        self._streams[queue] = stream
        self._by_sequence[stream.sequence] = queue
        self._publish(queue, stream)

    def _save(self, queue: QueueState, stream: Stream) -> None:
        self._core.batch.put(Keyspace.SEQUENCES, slot_key(queue.slot), stream.encode())
        self._publish(queue, stream)

    def _publish(self, queue: QueueState, stream: Stream) -> None:
        """Update the state that management shows (MQQB-146)."""
        assert isinstance(queue.queue, OutgoingQueue)
        info, identifier = queue.queue.transfer_info, decode_tx_sequence_id(stream.sequence)

        def at(number: int) -> SequenceInfo:
            return SequenceInfo(identifier, number, max(number - 1, 0))

        info.eod_last_ack, info.eod_next_seq = at(stream.acked), at(stream.number + 1)
        info.eod_no_ack_count = stream.number - stream.acked
        is_waiting = info.eod_no_ack_count > 0
        info.eod_first_non_ack = at(stream.acked + 1) if is_waiting else SequenceInfo()
        info.eod_last_non_ack = at(stream.number) if is_waiting else SequenceInfo()
        info.eod_last_ack_count, info.eod_last_ack_time = stream.ack_count, stream.ack_time
        info.eod_no_read_count = stream.unread

    # Final acks. The index maps the number of a message to its location.

    def _await_final_ack(self, queue: QueueState, record: Record, packet: UserMessage) -> None:
        """AwaitingFinalACKTable: its messages keep their space and lose their deadlines (MQQB-144)."""
        waiting = self._catalog.awaiting_final_ack
        lookup_id = self._numbering.new_lookup_id(0)
        waiting.insert(self._core, lookup_id, record._replace(is_copy=True), recoverable=True)
        self._index.place(packet, waiting, lookup_id, self.stream(queue).receiver)
        self._count_unread(queue, 1)

    def final_acked(
        self,
        ack: FinalAckBody,
        code: int,
        speaker: UUID | None,
        sent_time: int = 0,
        *,
        only_by_itself: Collection[UUID] = (),
    ) -> Doubt | None:
        """Receiving a FinalAck Packet ([MS-MQQB] 3.1.5.7); returns why it is not believed (MQQB-149).

        `speaker` is the queue manager that it comes from, None for a router that may speak for anyone, except
        for the queue managers in `only_by_itself`.
        `sent_time` is when the queue manager of the destination says that it was sent.
        """
        note = self._deadlines.ahead_note(sent_time)
        sequence = encode_tx_sequence_id(ack.tx_sequence_id)
        place = self._index.find(ack.message_id) if ack.source_guid == self._identifier else None
        queue = None if place is None else self._catalog.by_slot.get(place.slot)
        record = None if place is None or queue is None else queue.get(self._core, place.lookup_id)
        if place is None or queue is None or record is None:
            if self.queue_of(sequence) is None and not self._ids.was_given(sequence):
                return Doubt.UNKNOWN_MESSAGE
            self._refused_after_all(sequence, ack, code, speaker, note, only_by_itself)
            return Doubt.STALE
        packet = UserMessage(record.packet)
        if packet.sequence != (sequence, ack.tx_sequence_number):
            return Doubt.UNKNOWN_MESSAGE
        name = decode_destination(packet)
        origin = None if name is None else self._catalog.outgoing(name)
        is_ordered = queue is self._catalog.awaiting_final_ack
        stream = Stream() if origin is None else self.stream(origin)
        if not is_ordered and not stream.has_sent(*packet.sequence):
            return Doubt.NOT_SENT
        receiver = stream.receiver if place.receiver == NULL_GUID else place.receiver
        # It is null for a message that a store of format 1 has kept; the rest is evidence enough.
        if not _may_speak(speaker, receiver, only_by_itself) and receiver not in {NULL_GUID, UNIDENTIFIED}:
            return Doubt.OTHER_QUEUE_MANAGER
        self._delivery.detach(queue, place.lookup_id, record, packet)
        self._index.left(packet, (packet.data,))
        if is_ordered and origin is not None:
            self._count_unread(origin, -1)
        self._core.life.add_one(LifeKind.FINAL, 0 if origin is None else origin.slot, record.packet, code)
        self._delivery.copies.final(queue, packet, record, code, note)
        return None

    def _refused_after_all(
        self,
        sequence: int,
        ack: FinalAckBody,
        code: int,
        speaker: UUID | None,
        note: str,
        only_by_itself: Collection[UUID],
    ) -> None:
        """Record that the receiver refused a message that keeps no copy here.

        It was complete with its OrderAck. If none has come, none may come (MQQB T17): the message ends now.
        """
        queue = self.queue_of(sequence)
        if not code & NEGATIVE or ack.source_guid != self._identifier:
            return
        if queue is not None:
            stream, number = self._streams[queue], ack.tx_sequence_number
            is_believed = _may_speak(speaker, stream.receiver, only_by_itself)
            if not is_believed or not stream.has_sent(sequence, number):
                return
            stream.refuse(number)
        message = MessageId(self._identifier, ack.message_id)
        self._core.ledger.add_learned("" if queue is None else str(queue), message, code, note)

    def _count_unread(self, queue: QueueState, change: int) -> None:
        stream = self._streams.get(queue)
        if stream is not None:
            stream.unread = max(stream.unread + change, 0)
            self._save(queue, stream)


def _landed(run: Iterable[Taken]) -> Iterator[Taken]:
    """The messages that still exist at the end of their flight."""
    for taken in run:
        locks = taken.queue.locks
        left = [index for index, lookup_id in enumerate(taken.lookup_ids) if lookup_id in locks]
        if left and not taken.queue.is_deleted:
            yield taken if len(left) == len(taken) else taken.part(sum(1 << index for index in left))


def _may_speak(speaker: UUID | None, receiver: UUID, only_by_itself: Collection[UUID]) -> bool:
    return speaker == receiver or (speaker is None and receiver not in only_by_itself)


def _is_http(queue: QueueState) -> bool:
    name = _outgoing_queue(queue).destination_format_name
    return isinstance(name, DirectFormatName) and name.is_http


def _outgoing_queue(state: QueueState) -> OutgoingQueue:
    if not isinstance(state.queue, OutgoingQueue):
        problem = "only outgoing queues can be paused and resumed"
        raise IllegalOperationError(str(state), problem=problem)
    return state.queue
