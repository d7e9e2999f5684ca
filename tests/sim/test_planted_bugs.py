"""The simulator is put to the test: bugs are planted, and each must be found within a thousand seeds."""

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from tiercel.binary.flight import Entry
from tiercel.binary.incoming import Incoming
from tiercel.binary.outgoing_stream import OutgoingStream
from tiercel.binary.session import Session
from tiercel.engine.belief import Doubt
from tiercel.engine.core import Effect
from tiercel.engine.engine import Engine
from tiercel.engine.incoming_streams import IncomingStream
from tiercel.engine.outgoing import Outgoing
from tiercel.engine.queue_state import QueueState
from tiercel.engine.sequence_ids import SequenceIds
from tiercel.engine.taken import Taken
from tiercel.model.codes import MessageClass
from tiercel.server.node import Node
from tiercel.sim.machine import Parts
from tiercel.sim.simulation import Result, run
from tiercel.store.interface import Keyspace, Store
from tiercel.wire import order_ack
from tiercel.wire.order_ack import FinalAckBody, OrderAck
from tiercel.wire.structure import decode_tx_sequence_id
from tiercel.wire.user_message import UserMessage, placed

SEEDS = 1000

Plant = Callable[[pytest.MonkeyPatch], Parts]


def first_found(parts: Parts, *, enemies: bool = False) -> Result | None:
    results = (run(seed, parts, enemies=enemies) for seed in range(1, SEEDS + 1))
    return next((result for result in results if result.problems), None)


def acknowledge_before_commit(_patch: pytest.MonkeyPatch) -> Parts:
    class HastyNode(Node):
        def commit(self) -> list[Effect]:
            for machine, perform in self._attached:
                machine.flush()
                perform(machine.take_actions())
            return self.engine.commit()

    return Parts(node=HastyNode)


def forgets(keyspace: Keyspace) -> Plant:
    """A queue manager that has lost a part of its memory whenever it starts."""

    class ForgetfulEngine(Engine):
        def __init__(self, store: Store, *arguments: Any, **options: Any) -> None:
            batch = store.begin()
            for key, _ in list(batch.range(keyspace, b"\0", b"\xff" * 8)):
                batch.delete(keyspace, key)
            batch.commit()
            super().__init__(store, *arguments, **options)

    return lambda _patch: Parts(engine=ForgetfulEngine)


def renumber_on_reconnect(patch: pytest.MonkeyPatch) -> Parts:
    """MQQB T02: a message that is sent again gets a new number."""
    take = Outgoing.take

    def take_and_renumber(self: Outgoing, queue: QueueState, limit: int, receiver: UUID) -> list[Taken]:
        run = [each for taken in take(self, queue, limit, receiver) for each in taken.singles()]
        return [renumber(self, queue, taken) for taken in run]

    def renumber(self: Outgoing, queue: QueueState, taken: Taken) -> Taken:
        sent: set[tuple[QueueState, int]] = self.__dict__.setdefault("sent", set())
        [lookup_id] = taken.lookup_ids
        if not taken.number or (queue, lookup_id) not in sent:
            sent.add((queue, lookup_id))
            return taken
        stream = self._streams[queue]
        record = queue.get(self._core, lookup_id)
        assert record is not None
        data = placed(record.packet, stream.sequence, stream.number + 1, stream.number, 0)
        packet = UserMessage(data)
        stream.number += 1
        self._save(queue, stream)
        queue.rewrite(self._core, lookup_id, record._replace(packet=data))
        return Taken(queue, (lookup_id,), (data,), packet, len(data), stream.sequence, (stream.number,))

    patch.setattr(Outgoing, "take", take_and_renumber)
    return Parts()


def order_acks_go_by_number_alone(patch: pytest.MonkeyPatch) -> Parts:
    """MQQB T05: an OrderAck of one sequence deletes messages of another."""

    def order_acked(self: Incoming, _session: Session, packet: OrderAck) -> None:
        for stream in list(self.outgoing_streams.values()):
            stream.order_acked(packet.body.tx_sequence_number)

    patch.setattr(Incoming, "_order_acked", order_acked)
    return Parts()


def numbers_are_not_stored(patch: pytest.MonkeyPatch) -> Parts:
    patch.setattr(Outgoing, "_save", Outgoing._publish)
    return Parts()


def final_acks_are_express(patch: pytest.MonkeyPatch) -> Parts:
    patch.setattr(order_ack, "_RECOVERABLE", 0)
    return Parts()


def duplicates_are_delivered(patch: pytest.MonkeyPatch) -> Parts:
    patch.setattr("tiercel.engine.history.History.is_duplicate", lambda _self, _identity: False)
    return Parts()


def gone_is_gone(patch: pytest.MonkeyPatch) -> Parts:
    """What was in flight when a session ended is not sent again."""
    patch.setattr(Outgoing, "give_back", lambda _self, _taken: None)
    return Parts()


def received_means_delivered(patch: pytest.MonkeyPatch) -> Parts:
    """A negative final acknowledgement is taken for a positive one."""
    final_acked = Outgoing.final_acked

    def cheer(
        self: Outgoing,
        ack: FinalAckBody,
        _reason: int,
        speaker: UUID | None,
        _sent_time: int = 0,
        *,
        only_by_itself: Collection[UUID] = (),
    ) -> Doubt | None:
        return final_acked(self, ack, MessageClass.ACK_RECEIVE, speaker, only_by_itself=only_by_itself)

    patch.setattr(Outgoing, "final_acked", cheer)
    return Parts()


def gaps_are_accepted(patch: pytest.MonkeyPatch) -> Parts:
    """A receiver that does not look at the previous number (MQQB-150)."""

    def accepts(self: IncomingStream, sequence: int, number: int, _previous: int) -> bool:
        return (sequence, number) > (self.sequence, self.number)

    patch.setattr(IncomingStream, "accepts", accepts)
    return Parts()


def session_acks_free_transactional_messages(patch: pytest.MonkeyPatch) -> Parts:
    """A sender that does not wait for the OrderAck."""

    def session_acked(self: OutgoingStream, entry: Entry, mask: int) -> None:
        entry.ordered |= mask
        self._end([(entry, mask)])

    patch.setattr(OutgoingStream, "session_acked", session_acked)
    return Parts()


def any_acknowledgement_is_believed(patch: pytest.MonkeyPatch) -> Parts:
    """OrderAcks count by the id of the sequence, which is easy to guess; final ones by the message id."""
    final_acked = Outgoing.final_acked

    begin_timestamp = SequenceIds._begin_timestamp

    def begin_at_one(self: SequenceIds) -> None:
        begin_timestamp(self)
        self._first = self._ordinal = 1

    def doubt_order_ack(self: Outgoing, sequence: int, _number: int, _speaker: UUID) -> Doubt | None:
        return Doubt.STALE if self.queue_of(sequence) is None else None

    def believe_final_ack(
        self: Outgoing, ack: FinalAckBody, code: int, _speaker: UUID | None, _sent_time: int = 0
    ) -> Doubt | None:
        place = self._index.find(ack.message_id)
        queue = None if place is None else self._catalog.by_slot.get(place.slot)
        record = None if place is None or queue is None else queue.get(self._core, place.lookup_id)
        if record is None:
            return Doubt.UNKNOWN_MESSAGE
        sequence, number = UserMessage(record.packet).sequence
        true = replace(
            ack,
            tx_sequence_id=decode_tx_sequence_id(sequence),
            tx_sequence_number=number,
            source_guid=self._identifier,
        )
        return final_acked(self, true, code, None)

    patch.setattr(SequenceIds, "_begin_timestamp", begin_at_one)
    patch.setattr(Outgoing, "doubt_order_ack", doubt_order_ack)
    patch.setattr(Outgoing, "final_acked", believe_final_ack)
    return Parts()


PLANTS: list[Plant] = [
    acknowledge_before_commit,
    renumber_on_reconnect,
    order_acks_go_by_number_alone,
    numbers_are_not_stored,
    final_acks_are_express,
    duplicates_are_delivered,
    gone_is_gone,
    received_means_delivered,
    gaps_are_accepted,
    session_acks_free_transactional_messages,
]


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_a_planted_bug_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    found = first_found(plant(monkeypatch))
    assert found is not None


@pytest.mark.parametrize("keyspace", [Keyspace.INCOMING, Keyspace.HISTORY])
def test_what_is_forgotten_at_a_restart_is_found(keyspace: Keyspace, monkeypatch: pytest.MonkeyPatch) -> None:
    found = first_found(forgets(keyspace)(monkeypatch))
    assert found is not None


def test_the_belief_in_any_acknowledgement_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    found = first_found(any_acknowledgement_is_believed(monkeypatch), enemies=True)
    assert found is not None
