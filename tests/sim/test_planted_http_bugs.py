"""Bugs in SRMP are planted, and the worlds with HTTP must show each within a thousand seeds."""

from collections.abc import Callable
from typing import Any

import pytest

from tiercel.engine.arrivals import Arrivals, Fate, Posted
from tiercel.engine.core import Effect
from tiercel.engine.history import History
from tiercel.engine.incoming_streams import IncomingStream
from tiercel.engine.machine import Write
from tiercel.engine.queue_state import QueueState
from tiercel.engine.taken import Taken
from tiercel.server.node import Node
from tiercel.sim.machine import Parts
from tiercel.sim.simulation import Result, run
from tiercel.srmp.outgoing_stream import OutgoingStream
from tiercel.srmp.protocol import SrmpProtocol
from tiercel.srmp.queue_sender import QueueSender
from tiercel.srmp.receipt_tokens import ReceiptTokens
from tiercel.srmp.stream_receipts import StreamReceipts
from tiercel.wire.user_message import UserMessage

SEEDS = 1000

Plant = Callable[[pytest.MonkeyPatch], Parts]


def first_found(parts: Parts, first: int, *, enemies: bool = False) -> Result | None:
    """Begins with the world that is known to find the bug: the ones before it take minutes."""
    seeds = range(first, first + SEEDS)
    results = (run(seed, parts, enemies=enemies, http=True) for seed in seeds)
    return next((result for result in results if result.problems), None)


def answers_leave_before_the_commit(_patch: pytest.MonkeyPatch) -> Parts:
    class HastyNode(Node):
        def commit(self) -> list[Effect]:
            for machine, perform in self._attached:
                machine.flush()
                if isinstance(machine, SrmpProtocol):
                    actions = machine.take_actions()
                    hasty = [each for each in actions if isinstance(each, Write) and is_answer(each)]
                    perform(hasty)
                    for action in actions:
                        if action not in hasty:
                            machine._context.do(action)
            return super().commit()

    def is_answer(write: Write) -> bool:
        return write.data.startswith(b"HTTP/1.1 200")

    return Parts(node=HastyNode)


def the_id_is_recorded_before_the_message_is_stored(patch: pytest.MonkeyPatch) -> Parts:
    def take_once(self: Arrivals, packet: UserMessage, queue: QueueState, *, has_id: bool) -> Posted:
        if has_id and self.history.is_duplicate(packet.identity):
            return Posted(Fate.DUPLICATE)
        self.history.remember([packet.identity], recoverable=packet.is_recoverable)
        return self._take_posted(packet, queue)

    patch.setattr(Arrivals, "_take_posted_once", take_once)
    return Parts()


def the_last_number_is_forgotten_at_a_restart(patch: pytest.MonkeyPatch) -> Parts:
    decode = IncomingStream.decode.__func__  # type: ignore[attr-defined]

    def forget(cls: type[IncomingStream], key: bytes, data: bytes) -> IncomingStream:
        stream: IncomingStream = decode(cls, key, data)
        if stream.answers_to.startswith("http"):
            stream.number = 0
        return stream

    patch.setattr(IncomingStream, "decode", classmethod(forget))
    return Parts()


def the_receipts_url_is_not_kept(patch: pytest.MonkeyPatch) -> Parts:
    decode = IncomingStream.decode.__func__  # type: ignore[attr-defined]

    def forget(cls: type[IncomingStream], key: bytes, data: bytes) -> IncomingStream:
        stream: IncomingStream = decode(cls, key, data)
        if stream.answers_to.startswith("http"):
            stream.answers_to = ""
        return stream

    patch.setattr(IncomingStream, "decode", classmethod(forget))
    return Parts()


def previous_is_the_number_before(patch: pytest.MonkeyPatch) -> Parts:
    """Wrong after a message that expired or was refused."""
    patch.setattr(OutgoingStream, "previous", lambda _self, taken: taken.number - 1)
    return Parts()


def a_stream_begins_anew_though_messages_were_on_the_wire(patch: pytest.MonkeyPatch) -> Parts:
    def has_lost_its_first(self: OutgoingStream, taken: Taken, _sent_before: int) -> bool:
        return taken.number > 1 and not self._waiting and not self._outgoing.stream(self._queue).acked

    patch.setattr(OutgoingStream, "_has_lost_its_first", has_lost_its_first)
    return Parts()


def a_stream_never_begins_anew(patch: pytest.MonkeyPatch) -> Parts:
    patch.setattr(OutgoingStream, "_has_lost_its_first", lambda *_arguments: False)
    return Parts()


def a_request_under_way_is_overtaken(patch: pytest.MonkeyPatch) -> Parts:
    def give_back(self: OutgoingStream) -> None:
        self._outgoing.give_back(self._waiting)
        self._waiting.clear()

    patch.setattr(OutgoingStream, "give_back", give_back)
    return Parts()


def silence_is_an_answer(patch: pytest.MonkeyPatch) -> Parts:
    def believe(self: QueueSender) -> None:
        taken, self._request = self._request, None
        if taken is not None:
            self._settle(taken, 200)

    patch.setattr(QueueSender, "_give_back", believe)
    return Parts()


def an_answer_is_a_receipt(patch: pytest.MonkeyPatch) -> Parts:
    """A sender that does not wait for the stream receipt: a router has the message, not its receiver."""

    def accepted(self: OutgoingStream, taken: Taken) -> None:
        self._outgoing.ordered((taken,))

    patch.setattr(OutgoingStream, "accepted", accepted)
    return Parts()


def no_room_is_answered_with_200(patch: pytest.MonkeyPatch) -> Parts:
    arrive = Arrivals.arrive_over_http

    def drop(self: Arrivals, *arguments: Any, **options: Any) -> Posted:
        posted = arrive(self, *arguments, **options)
        return posted._replace(fate=Fate.DUPLICATE) if posted.fate is Fate.NO_ROOM else posted

    patch.setattr(Arrivals, "arrive_over_http", drop)
    return Parts()


def duplicates_are_taken(patch: pytest.MonkeyPatch) -> Parts:
    patch.setattr(History, "is_duplicate", lambda *_arguments: False)
    return Parts()


def gaps_are_taken(patch: pytest.MonkeyPatch) -> Parts:
    original = IncomingStream.accepts

    def accepts(
        self: IncomingStream, sequence: int, number: int, previous: int, *, begins: bool | None = None
    ) -> bool:
        if begins is None:  # not over HTTP
            return original(self, sequence, number, previous)
        return (sequence, number) > (self.sequence, self.number)

    patch.setattr(IncomingStream, "accepts", accepts)
    return Parts()


def a_message_that_comes_again_is_not_confirmed_again(patch: pytest.MonkeyPatch) -> Parts:
    """A receipt that was lost is never repeated (trap 7)."""
    arrived = StreamReceipts.arrived

    def only_once(self: StreamReceipts, stream: IncomingStream) -> None:
        confirmed: set[tuple[bytes, int, int]] = self.__dict__.setdefault("confirmed", set())
        place = stream.key, stream.sequence, stream.number
        if place not in confirmed:
            confirmed.add(place)
            arrived(self, stream)

    patch.setattr(StreamReceipts, "arrived", only_once)
    return Parts()


PLANTS: list[tuple[Plant, int]] = [  # with the first seed of 1 to 1,000 that finds it
    (answers_leave_before_the_commit, 35),
    (the_id_is_recorded_before_the_message_is_stored, 61),
    (the_last_number_is_forgotten_at_a_restart, 13),
    (the_receipts_url_is_not_kept, 13),
    (previous_is_the_number_before, 16),
    (a_stream_begins_anew_though_messages_were_on_the_wire, 35),
    (a_stream_never_begins_anew, 3),
    (a_request_under_way_is_overtaken, 44),
    (silence_is_an_answer, 3),
    (an_answer_is_a_receipt, 65),
    (no_room_is_answered_with_200, 61),
    (duplicates_are_taken, 7),
    (gaps_are_taken, 65),
    (a_message_that_comes_again_is_not_confirmed_again, 40),
]


@pytest.mark.parametrize(("plant", "first"), PLANTS, ids=[plant.__name__ for plant, _ in PLANTS])
def test_a_planted_bug_is_found(plant: Plant, first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert first_found(plant(monkeypatch), first) is not None


def test_the_belief_in_receipts_without_a_token_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReceiptTokens, "fits", lambda *_arguments: True)
    assert first_found(Parts(), 14, enemies=True) is not None
