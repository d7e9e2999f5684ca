"""How a message comes into a queue and how it ends.

This file decides what a sender is told and which copies are kept. [MS-MQDMPR] 3.1.7.1.9, 3.1.7.2.1.

    verb       the message                  checks  in a queue  its sender is told, its copies are kept
    accept     passed the checks            no      comes in    that it arrived
    arrive     came from another computer   all     comes in    as accept, or as refuse
    refuse     never came into its queue    no      no          why not
    finish     was received, or failed      no      leaves      that it was received, or why not
    conclude   the same; a consumer held it no      no          that it was received, or why not
    transfer   moves to another queue       no      both        nothing
    detach     leaves; the caller knows why no      leaves      nothing

An end may cause an acknowledgement, which comes into a queue, where a reader may wait for it: that ends it at
once. The parts that lead back here (readers that wait, acknowledgements) are therefore made here.

Most messages are plain: they have no time limit, and nothing is told or copied at their arrival. Their
packets need not be decoded, and a run of recoverable ones goes into the store at once. Measured in CPU time
for a message of 1 KiB: 10 us in a run of 100, 20 us one by one; as a run of one, 33 us, hence `accept_one`.
"""

from collections.abc import Iterable, Sequence
from uuid import UUID

from tiercel.engine.acknowledgements import ACKNOWLEDGEMENTS, AdministrationAcks
from tiercel.engine.admission import Admission
from tiercel.engine.browsing import LAST_SEQUENCE, lookup_ids
from tiercel.engine.catalog import Catalog
from tiercel.engine.copies import Copies
from tiercel.engine.core import Core, Refused, Removed
from tiercel.engine.deadlines import Deadlines
from tiercel.engine.final_acks import FinalAcks
from tiercel.engine.incoming_streams import IncomingStreams
from tiercel.engine.life import LifeKind
from tiercel.engine.numbering import Numbering
from tiercel.engine.origins import Origins
from tiercel.engine.outgoing_index import OutgoingIndex
from tiercel.engine.peers import Peers
from tiercel.engine.queue_state import QueueState
from tiercel.engine.quotas import Quotas
from tiercel.engine.receipts import Receipts
from tiercel.engine.records import Record
from tiercel.engine.resolver import Resolver
from tiercel.engine.taken import Taken
from tiercel.engine.waiting import Waiting
from tiercel.message_security.verdict import Verdict
from tiercel.model.codes import Acknowledgements, MessageClass
from tiercel.model.format_name import FormatName
from tiercel.model.identifiers import MessageId
from tiercel.model.limits import INFINITE
from tiercel.wire import user_header
from tiercel.wire.alike import Alike, by_shape
from tiercel.wire.base_header import PRIORITY
from tiercel.wire.message import decode_message
from tiercel.wire.user_message import SUMMARY_AT, UserMessage, packet_summary

# As plain numbers: flags of an enum cost more than the rest of the decision.
_POS_ARRIVAL = int(Acknowledgements.POS_ARRIVAL)
_POS_RECEIVE = int(Acknowledgements.POS_RECEIVE)
_NEG_ARRIVAL = int(Acknowledgements.NEG_ARRIVAL)
_NEG_RECEIVE = int(Acknowledgements.NEG_RECEIVE)
_ACK_RECEIVE = MessageClass.ACK_RECEIVE  # cached: enum lookup is slow here
_ENTERED, _ENDED, _MOVED = LifeKind.ENTERED, LifeKind.ENDED, LifeKind.MOVED
# The flags of packets whose end has to be concluded. Without an admin queue nothing is acknowledged.
TOLD = user_header.ADMIN_QUEUE | user_header.POSITIVE_JOURNALING | user_header.TRANSACTION_HEADER
TOLD_AT_ARRIVAL = user_header.ADMIN_QUEUE | user_header.POSITIVE_JOURNALING
_TRANSACTIONAL = user_header.TRANSACTION_HEADER
_RECOVERABLE = user_header.DELIVERY | _TRANSACTIONAL


class Delivery:
    def __init__(
        self,
        core: Core,
        catalog: Catalog,
        resolver: Resolver,
        quotas: Quotas,
        admission: Admission,
        numbering: Numbering,
        deadlines: Deadlines,
        outgoing_index: OutgoingIndex,
        peers: Peers,
        streams: IncomingStreams,
    ) -> None:
        self._core = core
        self._catalog = catalog
        self._admission = admission
        self._numbering = numbering
        self._deadlines = deadlines
        self._outgoing_index = outgoing_index
        self.waiting = Waiting(core, self)
        self.copies = Copies(core, catalog, resolver, quotas, numbering, self.waiting)
        self.origins = origins = Origins(resolver, streams, peers)
        self._acknowledgements = AdministrationAcks(
            core, catalog, resolver, admission, numbering, self, origins
        )
        self.final_acks = FinalAcks(core, catalog, resolver, numbering, self, peers, origins)

    def tell_by(self, receipts: Receipts) -> None:
        """From now on, the senders of messages that came over HTTP are told by these receipts."""
        self._acknowledgements.receipts = self.final_acks.receipts = receipts

    def post(self, sent: UserMessage, name: FormatName, about: UserMessage | None = None) -> None:
        """Puts what the queue manager itself has made on its way: a receipt, or a report about a message."""
        self._acknowledgements.post(sent, name, about)

    # Coming in.

    def accept(self, queue: QueueState, run: Iterable[tuple[bytes, str, bytes]]) -> None:
        """Puts messages that passed the checks into a queue, in their order; acknowledges and copies.

        The run has the packet of each message, the name of its own dead-letter queue, "" without one, and the
        verdict on its signature, empty without one.
        """
        together: list[bytes] = []  # plain recoverable messages
        priorities: list[int] = []
        for packet, dead_letter_queue, verdict in run:
            is_special = dead_letter_queue or verdict or (queue.waiters and not queue.is_outgoing)
            plain = None if is_special else priority_of_plain(packet, queue)
            if plain is not None and plain[1]:
                together.append(packet)
                priorities.append(plain[0])
                continue
            if together:
                self._accept_together(queue, together, priorities)
                self._core.life.add(_ENTERED, queue.slot, together)
                together, priorities = [], []
            record = Record(packet, self._core.seconds, 0, 0, 0, dead_letter_queue, verdict=verdict)
            self.accept_one(queue, record)
        if together:
            self._accept_together(queue, together, priorities)
            self._core.life.add(_ENTERED, queue.slot, together)

    def accept_alike(self, queue: QueueState, messages: Alike) -> None:
        """`accept` for messages of one shape from another queue manager: one decision serves all of them."""
        is_special = queue.waiters and not queue.is_outgoing
        plain = None if is_special else priority_of_plain(messages.first.data, queue)
        if plain is not None and plain[1]:
            self._accept_together(queue, messages.packets, [plain[0]] * len(messages), (messages,))
            self._core.life.add_alike(_ENTERED, queue.slot, messages.packets)
            return
        for packet in messages.packets:
            self.accept_one(queue, Record(packet, self._core.seconds))

    def _accept_together(
        self,
        queue: QueueState,
        packets: Sequence[bytes],
        priorities: list[int],
        shapes: Iterable[Alike] | None = None,
    ) -> None:
        """`shapes` are the packets once more, those of one shape together; found here if not given."""
        lookup_ids = self._numbering.new_lookup_ids(priorities)
        queue.insert_arrivals(self._core, lookup_ids, packets)
        if not queue.is_outgoing:
            return
        start = 0
        for messages in by_shape(packets) if shapes is None else shapes:
            end = start + len(messages)
            self._deadlines.watch_run(queue, lookup_ids[start:end], messages.first)
            self._outgoing_index.entered(queue, lookup_ids[start:end], messages)
            start = end
        self._core.ready[queue] = None

    def accept_one(self, queue: QueueState, record: Record, packet: UserMessage | None = None) -> None:
        """`accept` for a run of one; callers that have the packet decoded pass it in."""
        if packet is None:
            plain = None if queue.is_outgoing else priority_of_plain(record.packet, queue)
            if plain is not None:
                priority, recoverable = plain
                lookup_id = self._numbering.new_lookup_id(priority)
                queue.insert(self._core, lookup_id, record, recoverable=recoverable)
                self._core.life.add_one(_ENTERED, queue.slot, record.packet)
                if queue.waiters:
                    self.waiting.offer(queue, lookup_id, record)
                return
            packet = UserMessage(record.packet)
        lookup_id = self._insert(queue, record, packet)
        self._core.life.add_one(_ENTERED, queue.slot, record.packet)
        if queue.is_outgoing:
            self._outgoing_index.entered(queue, (lookup_id,), Alike(packet))
            self._core.ready[queue] = None
            return
        if packet.acknowledgements & _POS_ARRIVAL:
            self._acknowledgements.send(packet, MessageClass.ACK_REACH_QUEUE, record.verdict)
        if packet.flags & user_header.POSITIVE_JOURNALING and not packet.is_transactional:
            self.copies.journal_at_source(packet, record)
        if self._deadlines.is_over(packet):
            self.finish(queue, lookup_id, record, MessageClass.NACK_RECEIVE_TIMEOUT, packet)
        else:
            self.waiting.offer(queue, lookup_id, record)

    def _insert(self, queue: QueueState, record: Record, packet: UserMessage) -> int:
        lookup_id = self._numbering.new_lookup_id(packet.priority)
        queue.insert(self._core, lookup_id, record, recoverable=packet.is_recoverable)
        if not record.is_copy:  # a dead letter never expires
            self._deadlines.watch(queue, lookup_id, packet)
        return lookup_id

    def arrive(self, packet: UserMessage, queue: QueueState | None, name: str = "") -> MessageClass | None:
        """Enqueue Message ([MS-MQDMPR] 3.1.7.1.9) for a message from another queue manager.

        Returns the class that refuses it, or None when the queue took it. Raises when this queue manager has
        no room: the message then stays with its sender, who will retry.
        """
        reason = self._admission.refusal(queue, packet)
        if reason is not None or queue is None:
            reason = reason or MessageClass.NACK_BAD_DST_Q
            self.refuse(packet, reason, str(queue or name))
            return reason
        self.accept_arrived(queue, packet)
        return None

    def accept_arrived(self, queue: QueueState, packet: UserMessage) -> None:
        """`accept_one` for a message from another queue manager that its queue has not refused.

        It is stored with its clear body; a message that is passed on stays as it is.
        """
        if queue.is_outgoing:
            self.accept_one(queue, Record(packet.data, self._core.seconds), packet)
            return
        clear, verdict = self._admission.judged(packet)
        record = Record(clear.data, self._core.seconds, verdict=verdict.encode())
        self.accept_one(queue, record, clear)

    def settle(self, packet: UserMessage, verdict: Verdict) -> None:
        """What is proved about the message that arrives next; otherwise its packet says it."""
        self._admission.settle(packet, verdict)

    def refusal(self, packet: UserMessage, queue: QueueState | None) -> MessageClass | None:
        """The class with which `arrive` would refuse the message; nothing is changed."""
        return self._admission.refusal(queue, packet)

    def appeared(self, queue: QueueState, heads: Sequence[bytes], since: int) -> None:
        """Messages that were hidden have appeared, and others with them: all from the sequence `since` on.

        The record of their life needs only the heads of their packets. This queue manager has sent them all.
        """
        self._core.life.add_alike(_ENTERED, queue.slot, heads)
        self._core.touch(queue)  # or the record would wait for the next change
        for lowest, highest in lookup_ids(since - 1, LAST_SEQUENCE) if queue.waiters else ():
            at = lowest - 1
            while queue.waiters and (found := queue.next_available(self._core, at)) is not None:
                at, record = found
                if at > highest:
                    break
                self.waiting.offer(queue, at, record)

    # Ending.

    def refuse(
        self, packet: UserMessage, reason: MessageClass, name: str, record: Record | None = None
    ) -> None:
        """A message that never came into its queue; its sender is told as it has asked for."""
        detail = self._admission.detail(packet, reason)
        why = f"{reason.meaning}{detail}{self._deadlines.clock_note(packet)}"
        self._core.ledger.add(name, packet, reason, why)
        self._core.life.add_one(LifeKind.REFUSED, 0, packet.data, reason)
        self._core.effects.append(Refused(name, packet.id, why))
        if record is None:
            verdict = self._admission.known_verdict(packet).encode()
            record = Record(packet.data, self._core.seconds, verdict=verdict)
        self._tell_failure(packet, record, reason)

    def refused_elsewhere(self, acknowledgement: UserMessage) -> None:
        """A negative acknowledgement for a message of ours, of which nothing else may be left to see."""
        told = decode_message(acknowledgement)
        lineage, number = UUID(bytes_le=told.correlation_id[:16]), told.correlation_id[16:]
        if lineage == self._catalog.queue_manager.identifier and told.message_class in ACKNOWLEDGEMENTS:
            message = MessageId(lineage, int.from_bytes(number, "little"))
            note = self._deadlines.difference_note(acknowledgement.sent_time)
            self._core.ledger.add_learned(str(told.response_queue or ""), message, told.message_class, note)

    def finish(
        self,
        queue: QueueState,
        lookup_id: int,
        record: Record,
        reason: MessageClass,
        packet: UserMessage | None = None,
        detail: str = "",
    ) -> None:
        """Message Position Deleted ([MS-MQDMPR] 3.1.7.2.1): takes a message out of its queue for good.

        The reason is ACK_RECEIVE, or the negative class that says why it was not received; the ledger has the
        detail, if there is one.
        """
        packet = packet or UserMessage(record.packet)
        self.detach(queue, lookup_id, record, packet)
        self._core.life.add_one(_ENDED, queue.slot, record.packet, reason)
        self._conclude(queue, record, reason, packet, detail)

    def conclude(self, queue: QueueState, record: Record, reason: MessageClass) -> None:
        """`finish` for a message that is out of the list already because a consumer holds it."""
        self._conclude(queue, record, reason, UserMessage(record.packet))

    def tells_all(self, queue: QueueState, reason: MessageClass) -> bool:
        """Whether the end of every message has to be concluded; else only of those with a flag of TOLD."""
        is_journaled = (queue.parent or queue).queue.journaling
        return reason != _ACK_RECEIVE or is_journaled or self._core.tells_removed

    def receive_first(self, queue: QueueState, limit: int) -> list[tuple[int, Record, UserMessage]]:
        """`finish` for the first messages of a simple queue: they are received."""
        taken = queue.take_stored(self._core, limit)
        received = [(lookup_id, record, UserMessage(record.packet)) for lookup_id, record in taken]
        self._received(queue, received)
        return received

    def finish_received(self, queue: QueueState, run: list[tuple[int, Record, UserMessage]]) -> None:
        """`finish` for stored messages that readers of the queue hold: they are received."""
        size = sum([len(record.packet) for _, record, _ in run])
        queue.remove_held(self._core, [lookup_id for lookup_id, _, _ in run], size)
        self._received(queue, run)

    def _received(self, queue: QueueState, run: list[tuple[int, Record, UserMessage]]) -> None:
        """What `finish` does besides taking the messages out of the list."""
        tells_all = self.tells_all(queue, _ACK_RECEIVE)
        self._core.life.add(_ENDED, queue.slot, [record.packet for _, record, _ in run], _ACK_RECEIVE)
        for lookup_id, record, packet in run:
            self._deadlines.forget(queue, lookup_id, packet)
            if tells_all or packet.flags & TOLD:  # rare
                self._conclude(queue, record, _ACK_RECEIVE, packet)
        self._catalog.drop_empty_subqueue(queue)

    def _conclude(
        self, queue: QueueState, record: Record, reason: MessageClass, packet: UserMessage, detail: str = ""
    ) -> None:
        if reason != _ACK_RECEIVE:
            self._core.ledger.add(str(queue), packet, reason, detail)
        if record.is_copy:  # its sender was told when the message itself ended
            return
        if self._core.tells_removed:
            self._core.effects.append(Removed(queue, record, reason))
        if packet.is_transactional and not queue.is_outgoing:
            self.final_acks.removed(packet, reason)
        if reason != _ACK_RECEIVE:
            self._tell_failure(packet, record, reason, queue)
            return
        if packet.acknowledgements & _POS_RECEIVE:
            self._acknowledgements.send(packet, reason, record.verdict)
        if packet.flags & user_header.POSITIVE_JOURNALING and packet.is_transactional:
            self.copies.journal_at_source(packet, record)
        self.copies.journal(queue, record, packet)

    def _tell_failure(
        self, packet: UserMessage, record: Record, reason: MessageClass, queue: QueueState | None = None
    ) -> None:
        asked = _NEG_RECEIVE if reason.is_receive else _NEG_ARRIVAL
        if packet.acknowledgements & asked:
            self._acknowledgements.send(packet, reason, record.verdict)
        self.copies.dead_letter(packet, record, reason, queue)

    def detach(
        self, queue: QueueState, lookup_id: int, record: Record, packet: UserMessage | None = None
    ) -> None:
        """Takes a message out of the list and forgets its deadline; nothing is told."""
        lock = queue.locks.get(lookup_id) if queue.locks else None
        if lock is not None and lock.doom is not None:
            self._deadlines.forget_purge(queue, lookup_id)
        packet = packet or UserMessage(record.packet)
        queue.remove(self._core, lookup_id, record)
        self._deadlines.forget(queue, lookup_id, packet)
        if queue.is_outgoing:
            self._outgoing_index.left(packet, (packet.data,))
            if lock is not None and lock.owner is not None:  # what follows it in the stream has waited
                self._core.ready[queue] = None
        self._catalog.drop_empty_subqueue(queue)

    def detach_run(self, taken: Taken) -> None:
        """`detach` for messages that were in flight together."""
        queue, lookup_ids, packet = taken.queue, taken.lookup_ids, taken.packet
        for lookup_id in lookup_ids:
            if queue.locks[lookup_id].doom is not None:
                self._deadlines.forget_purge(queue, lookup_id)
        self._outgoing_index.left(packet, taken.packets)
        queue.remove_run(self._core, lookup_ids, taken.size, recoverable=packet.is_recoverable)
        self._deadlines.forget_run(queue, lookup_ids, packet)

    def transfer(
        self, queue: QueueState, lookup_id: int, record: Record, packet: UserMessage, target: QueueState
    ) -> int:
        """Takes a message out of one queue and puts it into another; its sender is not told.

        When a copy becomes a message again, or the other way round, `packet` is the message's: copies have no
        deadline. Returns the new lookup id.
        """
        self.detach(queue, lookup_id, record, packet)
        new_lookup_id = self._insert(target, record, packet)
        self._core.life.add_one(_MOVED, target.slot, record.packet)
        if record.is_copy or not self._deadlines.is_over(packet):
            self.waiting.offer(target, new_lookup_id, record)
        return new_lookup_id

    def relocate(
        self,
        queue: QueueState,
        lookup_id: int,
        record: Record,
        packet: UserMessage,
        target: QueueState,
        place: int,
    ) -> None:
        """`transfer` to a place: a lookup id that is free, because this message had it or has it."""
        self.detach(queue, lookup_id, record, packet)
        target.insert(self._core, place, record, recoverable=packet.is_recoverable)
        self._core.life.add_one(_MOVED, target.slot, record.packet)
        if not record.is_copy:
            self._deadlines.watch(target, place, packet)
        if record.is_copy or not self._deadlines.is_over(packet):
            self.waiting.offer(target, place, record)


def priority_of_plain(packet: bytes, queue: QueueState) -> tuple[int, bool] | None:
    """The priority of a plain message, and whether it is recoverable; None for any other message.

    On its way to another queue manager every message is plain: nobody is told of it yet.
    """
    limit, _, flags = packet_summary(packet, SUMMARY_AT)
    if not queue.is_outgoing and (flags & TOLD_AT_ARRIVAL or limit != INFINITE):
        return None
    return 0 if flags & _TRANSACTIONAL else packet[2] & PRIORITY, flags & _RECOVERABLE != 0
