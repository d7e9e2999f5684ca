"""Where a message is and why: everything that this queue manager knows about one message, in sentences.

It is put together from what is left of the message: in queues, outgoing queues and claims, as a copy in
journals and dead-letter queues, in the ledger of discards, from the acknowledgements that name it, and from
the record of what happened to each message (`engine/life.py`).
"""

import asyncio
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final, NamedTuple

from tiercel.admin import outgoing
from tiercel.admin.browsing import holder_of
from tiercel.admin.dead_letters import QUEUES, fix_of
from tiercel.admin.life_sentences import DELETED, Sentence, sentences, shown_name
from tiercel.admin.message_json import time_text
from tiercel.admin.queues import kind_of
from tiercel.admin.runner import Runner
from tiercel.engine.discards import Discard
from tiercel.engine.engine import Engine
from tiercel.engine.life import LifeEvent, LifeKind
from tiercel.engine.tracing import Place, Trace, TraceKind
from tiercel.model.codes import MessageClass, class_meaning
from tiercel.model.format_name import FormatName
from tiercel.model.identifiers import MessageId
from tiercel.model.queue import OutgoingQueue
from tiercel.model.queue_name import short_queue_name
from tiercel.wire.message import decode_destination, decode_message
from tiercel.wire.user_message import UserMessage

Json = dict[str, Any]

_REST_S: Final = 0.005  # between slices while there are other clients
_MAX_TRACES: Final = 100
_MAX_EVENTS: Final = 1000
_LIFE_SLICE: Final = 10_000  # rows per turn: about 5 ms


class _Event(NamedTuple):
    time: int
    rank: int  # among those of one second
    text: str
    topic: str = ""  # events of one second with the same topic are the same event, told by two records


@dataclass(slots=True)
class _Story:
    """What is known so far; the last state that is set counts."""

    events: list[_Event] = field(default_factory=list)
    places: list[Json] = field(default_factory=list)
    states: set[str] = field(default_factory=set)
    fixes: list[str] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    about: Json = field(default_factory=dict)
    sent_by: str = ""  # who sent it here, if that is recorded

    def add(self, time: int, text: str, rank: int = 1, topic: str = "") -> None:
        self.events.append(_Event(time, rank, text, topic or text))

    def fix(self, text: str, *commands: str) -> None:
        self.fixes += [text] if text and text not in self.fixes else []
        self.commands += [each for each in commands if each not in self.commands]


# The first of these that applies says best where the message is now.
_STATES: Final = (
    "waiting",  # in its queue, for a reader
    "held",  # in its queue, and a reader has it
    "claimed",
    "outgoing",
    "delivered",  # at its destination; it was not received yet
    "dead",
    "trash",
    "received",
    "ended",
    "unknown",
)


class Why:
    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    async def about(self, wanted: MessageId) -> Json:
        traces, life = await self._traces(wanted), await self._life(wanted)
        return await self._runner.call(lambda engine: _told(engine, wanted, traces, life))

    async def _life(self, wanted: MessageId) -> list[LifeEvent]:
        found: list[LifeEvent] = []
        at: bytes | None = b""
        while at is not None and len(found) < _MAX_EVENTS:
            before, start = self._runner.turns, at
            part, at = await self._runner.call(lambda engine: engine.life.look(wanted, start, _LIFE_SLICE))  # noqa: B023
            found += part
            if self._runner.turns - before > 1:  # other clients come first
                await asyncio.sleep(_REST_S)
        return found[:_MAX_EVENTS]

    async def _traces(self, wanted: MessageId) -> list[Trace]:
        found: list[Trace] = []
        place: Place | None = Place()
        while place is not None and len(found) < _MAX_TRACES:
            before, at = self._runner.turns, place
            part, place = await self._runner.call(lambda engine: engine.tracing.look(wanted, at))  # noqa: B023
            found += part
            if self._runner.turns - before > 1:  # other clients come first
                await asyncio.sleep(_REST_S)
        return found


def _told(engine: Engine, wanted: MessageId, traces: list[Trace], life: list[LifeEvent]) -> Json:
    story = _Story()
    told = sentences(engine, life)
    story.sent_by = next((each.actor for each in told if each.is_first), "")
    has_returns = any(each.kind is LifeKind.RETURNED for each in life)
    for trace in traces:
        _tell(engine, story, wanted, trace, has_returns=has_returns)
    for line in engine.tracing.discards(wanted):
        _tell_discard(story, line)
    if any(each.is_first for each in told):  # it is known where
        story.events = [each for each in story.events if each.topic != "arrived"]
    story.events = [_recorded(story.events, each) for each in told] + story.events
    _tell_end(story, told)
    if not story.states and story.events:
        story.states.add("ended")
    story.events.sort(key=lambda each: (each.time, each.rank))
    state = next((each for each in _STATES if each in story.states), "unknown")
    return {
        "id": str(wanted),
        "state": state,
        **story.about,
        "events": [{"time": time_text(each.time), "text": each.text} for each in _merged(story.events)],
        "places": story.places,
        "fix": "; ".join(story.fixes) or None,
        "commands": story.commands,
        "discards_since": time_text(engine.ledger.oldest),
        "life_since": time_text(engine.life.oldest),
    }


def _merged(events: list[_Event]) -> list[_Event]:
    """Without repetitions, as of a line in the ledger for a dead letter: the first text counts."""
    merged: dict[tuple[int, str], _Event] = {}
    for each in events:
        merged.setdefault((each.time, each.topic), each)
    return list(merged.values())


def _recorded(others: list[_Event], sentence: Sentence) -> _Event:
    """A recorded event, in the words of another record that knows it too and is taken out of the others."""
    same = next((each for each in others if (each.time, each.topic) == (sentence.time, sentence.topic)), None)
    text = sentence.text
    if same is not None:
        others.remove(same)
        text = same.text
    return _Event(sentence.time, 1, text + sentence.addition, sentence.topic)


def _tell_end(story: _Story, told: list[Sentence]) -> None:
    """How it ended, where nothing else is left of it."""
    last = next((each for each in reversed(told) if each.state), None)
    if last is not None:
        story.states.add(last.state)
    elif told and not story.states:
        story.add(told[-1].time, "is not here any more: express messages do not outlive a restart", rank=9)


def _tell(
    engine: Engine, story: _Story, wanted: MessageId, trace: Trace, *, has_returns: bool = False
) -> None:
    if trace.kind is TraceKind.ANSWER:
        _tell_answer(engine, story, wanted, trace)
        return
    packet = UserMessage(trace.record.packet)
    _tell_sending(engine, story, packet)
    if trace.kind is TraceKind.CLAIMED:
        _tell_claim(engine, story, trace)
        return
    state = trace.queue
    assert state is not None
    kind, name = kind_of(state), short_name(engine, trace)
    if not engine.queues.is_internal(state):
        story.places.append({"queue": name, "kind": kind, "lookup_id": str(trace.lookup_id)})
    if engine.queues.is_internal(state):
        text = "the queue manager of the destination has it and has not yet reported that it was received"
        story.states.add("delivered")
        story.add(trace.record.arrival_time, text)
    elif isinstance(state.queue, OutgoingQueue):
        _tell_waiting_to_leave(engine, story, trace, state.queue)
    elif trace.record.is_copy:
        _tell_copy(story, trace, name, packet)
    else:
        _tell_queue(story, trace, name, has_returns=has_returns)


def short_name(engine: Engine, trace: Trace) -> str:
    """The queue as people type it."""
    if trace.queue is None or trace.queue.is_deleted:
        return DELETED
    return shown_name(engine, trace.queue)


def _tell_sending(engine: Engine, story: _Story, packet: UserMessage) -> None:
    if story.about:
        return
    message, goal = decode_message(packet), decode_destination(packet)
    is_ours = packet.source_queue_manager == engine.queue_manager.identifier
    sender = "this computer" if is_ours else f"queue manager {packet.source_queue_manager}"
    story.about = {
        "label": message.label,
        "size": packet.packet_size,
        "sent": time_text(packet.sent_time),
        "sender": sender,
        "sent_by": story.sent_by if is_ours else "",
        "destination": None if goal is None else str(goal),
        "recoverable": packet.is_recoverable,
        "transactional": packet.is_transactional,
    }
    goal_text = "" if goal is None else f" to {_goal_name(engine, goal)}"
    story.add(packet.sent_time, f"sent by {sender}{goal_text}", rank=0)


def _goal_name(engine: Engine, goal: FormatName) -> str:
    found = engine.queues.find(goal) if engine.queues.is_local(goal) else None
    return str(goal) if found is None else short_queue_name(str(found.queue.pathname))


def _tell_claim(engine: Engine, story: _Story, trace: Trace) -> None:
    claim = next((each for each in engine.claims.all() if each.slot == trace.claim_slot), None)
    who = "a consumer" if claim is None else f"consumer {claim.consumer}"
    where = "" if claim is None else f" from {claim.queue.removeprefix('queue ')}"
    story.states.add("claimed")
    story.add(trace.claimed_at, f"{who} has claimed it{where} and has not acknowledged it")
    story.fix("let the consumer go on, or give its messages back", "tiercel claims")


def _tell_waiting_to_leave(engine: Engine, story: _Story, trace: Trace, queue: OutgoingQueue) -> None:
    assert trace.queue is not None
    row = outgoing.row(engine, trace.queue)
    story.states.add("outgoing")
    waits = f"waits for {queue.destination_format_name}"
    story.add(trace.record.arrival_time, waits, topic=f"entered {trace.queue.slot}")
    tries = [
        each for each in queue.connection_history if each.connection_history_time >= trace.record.arrival_time
    ]
    for said, same in groupby(tries, outgoing.sentence):
        first, *more = (each.connection_history_time for each in same)
        again = f"; {len(more)} more times until {time_text(more[-1])}" if more else ""
        story.add(first, f"{said}{again}", rank=2)
    if row["why"]:
        now = engine.seconds
        again = f"; next try at {row['next_try']}" if row["next_try"] else ""
        story.add(now, f"still waits: {row['why']}{again}", rank=3)
    story.fix(outgoing.fix_of(queue), "tiercel outgoing")


def _tell_copy(story: _Story, trace: Trace, name: str, packet: UserMessage) -> None:
    record = trace.record
    if name in QUEUES or record.reason:
        story.states.add("dead")
        if record.reason:
            story.add(record.arrival_time, f"ended: {class_meaning(record.reason)}")
        _tell_place(story, trace, name)
        story.fix(fix_of(record.reason), f"tiercel replay '{name}' --lookup-id {trace.lookup_id}")
        return
    story.states.add("received")
    is_sent = name == ";journal"
    what = "delivered" if is_sent and not packet.is_transactional else "received"
    story.add(record.arrival_time, f"was {what}", topic="received")
    _tell_place(story, trace, name)


def _tell_place(story: _Story, trace: Trace, name: str) -> None:
    assert trace.queue is not None
    text = f"a copy is in {name}, lookup id {trace.lookup_id}"
    story.add(trace.record.arrival_time, text, 2, f"copied {trace.queue.slot}")


def _tell_queue(story: _Story, trace: Trace, name: str, *, has_returns: bool) -> None:
    record = trace.record
    if name.casefold().endswith(";trash"):
        story.states.add("trash")
        moved = record.last_move_time or record.arrival_time
        story.add(moved, f"deleted; it is in {name}", 2, f"moved {_slot(trace)}")
        story.fix("undo the deletion", "tiercel operations")
        return
    place = f"lookup id {trace.lookup_id}"
    if not record.move_count:
        story.add(record.arrival_time, f"arrived in {name}, {place}", topic=f"entered {_slot(trace)}")
    else:
        story.add(record.arrival_time, "arrived on this computer", topic="arrived")
        story.add(record.last_move_time, f"was moved to {name}, {place}", 2, f"moved {_slot(trace)}")
    if record.abort_count and not has_returns:  # otherwise the recorded events tell when
        times = "once" if record.abort_count == 1 else f"{record.abort_count} times"
        story.add(record.last_move_time or record.arrival_time, f"was given back {times} by its readers", 3)
    if trace.lock is None:
        story.states.add("waiting")
        story.fix("it waits for a reader: start the program that receives it", f"tiercel peek '{name}'")
        return
    story.states.add("held")
    holder = holder_of(trace.lock)
    who = {"reader": "a reader", "sending": "the sender"}.get(
        holder["kind"], f"transaction {holder.get('id')}"
    )
    story.add(record.arrival_time, f"{who} holds it and has not finished", rank=4)
    story.fix("wait for its reader, or end the lease or transaction", "tiercel transactions")


def _slot(trace: Trace) -> int:
    return 0 if trace.queue is None else trace.queue.slot


def _tell_answer(engine: Engine, story: _Story, wanted: MessageId, trace: Trace) -> None:
    """An acknowledgement or response that somebody else sent: it says what it says."""
    message = decode_message(UserMessage(trace.record.packet))
    correlation = message.correlation_id
    number = int.from_bytes(correlation[16:], "little")
    if number != wanted.uniquifier or correlation[:16] != wanted.lineage.bytes_le:
        return
    name, kind = short_name(engine, trace), message.message_class
    if kind in {MessageClass.ACK_REACH_QUEUE, MessageClass.ACK_RECEIVE} or int(kind) & 0x8000:
        text = f"acknowledged: {class_meaning(kind)} (in {name})"
        story.states.add("received" if kind == MessageClass.ACK_RECEIVE else "ended")
        if kind == MessageClass.ACK_REACH_QUEUE:
            story.states -= {"ended"}
            story.states.add("delivered")
        story.fix(fix_of(int(kind)))
    else:
        text = f"a message that refers to it came into {name}, lookup id {trace.lookup_id}"
    story.add(trace.record.arrival_time, text, rank=3)


def _tell_discard(story: _Story, line: Discard) -> None:
    story.states.add("ended")
    story.add(line.time, f"ended: {line.reason}")
    story.about = story.about or {"label": line.label, "size": line.size}
    story.fix(fix_of(line.message_class))
