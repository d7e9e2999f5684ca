"""The recorded life of a message in sentences."""

from dataclasses import dataclass
from typing import Final

from tiercel.admin.message_json import time_text
from tiercel.admin.sources import name_of
from tiercel.engine.engine import Engine
from tiercel.engine.life import LifeEvent, LifeKind
from tiercel.engine.queue_state import QueueState
from tiercel.model.codes import MessageClass, class_meaning
from tiercel.model.queue_name import short_queue_name

DELETED: Final = "a queue that is deleted"
_DEAD_LETTER_SLOTS: Final = frozenset({1, 2, 3})  # and the journal of the computer
_JOURNAL_SLOT: Final = 0x8000_0000

_TEXTS: Final = {
    LifeKind.MOVED: "was moved to {queue}",
    LifeKind.GIVEN_BACK: "was sent and not acknowledged; it will be sent again",
    LifeKind.HELD: "was taken from {queue}",
    LifeKind.CLAIMED: "was claimed from {queue}",
    LifeKind.RETURNED: "was given back to {queue}",
    LifeKind.DELIVERED: "the next computer on the way to {queue} has it",
    LifeKind.ORDERED: "the computer of {queue} has it, in order",
    LifeKind.COPIED: "a copy came into {queue}",
    LifeKind.RELEASED: "its claim was released; it is in {queue} again",
    LifeKind.RESENT: "was replaced by a new message",
}
_REPEATED: Final = frozenset({LifeKind.GIVEN_BACK, LifeKind.HELD, LifeKind.RETURNED})


@dataclass(slots=True)
class Sentence:
    time: int
    text: str
    topic: str
    actor: str = ""
    addition: str = ""  # who did it
    state: str = ""  # how the message ended, if it did
    is_first: bool = False


def sentences(engine: Engine, events: list[LifeEvent]) -> list[Sentence]:
    """In order; what happened again and again is told once, with the number of times."""
    found: list[Sentence] = []
    again: dict[tuple[LifeKind, int, int], tuple[Sentence, list[int]]] = {}
    for event in events:
        key = event.kind, event.slot, event.actor
        if event.kind in _REPEATED and key in again:
            again[key][1].append(event.time)
            continue
        found.append(_sentence(engine, event))
        again[key] = found[-1], []
    for sentence, times in again.values():
        if times:
            count = "once more" if len(times) == 1 else f"{len(times)} more times"
            sentence.text += f"; {count} until {time_text(times[-1])}"
    return found


def _sentence(engine: Engine, event: LifeEvent) -> Sentence:
    queue, actor = queue_name(engine, event.slot), engine.life.actor_name(event.actor)
    by = f" by {actor}" if actor else ""
    topic = f"{event.kind.name.lower()} {event.slot}"
    text, state, code = "", "", event.message_class
    match event.kind:
        case LifeKind.ENTERED:
            is_outgoing = _is_outgoing(engine, event.slot, queue)
            text = f"waits for {queue}" if is_outgoing else f"arrived in {queue}"
            by = f", from {actor}" if actor and not is_outgoing else ""
        case LifeKind.REFUSED:
            text, state, topic = f"refused: {class_meaning(code)}", "ended", ""
            by = f", from {actor}" if actor else ""
        case LifeKind.ENDED if code == MessageClass.ACK_RECEIVE:
            is_copy = _is_copy(event.slot)
            text = f"the copy in {queue} was received" if is_copy else f"was received from {queue}"
            state, topic = "received", topic if is_copy else "received"
        case LifeKind.ENDED:
            is_copy = _is_copy(event.slot)
            text = f"the copy in {queue} ended: " if is_copy else "ended: "
            text, state, topic = f"{text}{class_meaning(code)}", "ended", ""
        case LifeKind.FINAL:
            text = f"its destination reports: {class_meaning(code)}"
            is_received = code == MessageClass.ACK_RECEIVE
            state, topic = (
                ("received", "received") if is_received else ("ended", f"ended: {class_meaning(code)}")
            )
        case LifeKind.HELD:
            text, by = f"{_TEXTS[event.kind].format(queue=queue)} by {actor or 'a reader'}", ""
        case kind:
            text = _TEXTS[kind].format(queue=queue)
            state = "delivered" if kind in {LifeKind.DELIVERED, LifeKind.ORDERED} else ""
    is_first = event.kind is LifeKind.ENTERED
    return Sentence(event.time, text, topic or text, actor, by, state, is_first)


def queue_name(engine: Engine, slot: int) -> str:
    """The queue as people type it, also if it was deleted."""
    state = engine.queues.by_slot(slot)
    if state is not None:
        return shown_name(engine, state)
    name = engine.life.removed_queue(slot)
    return short_queue_name(name) if name else DELETED


def shown_name(engine: Engine, state: QueueState) -> str:
    """The queue as people type it."""
    if state.is_outgoing:
        return name_of(engine, state)
    short = short_queue_name(str(state.queue.pathname))
    name, mark, part = short.removeprefix(".\\system$").partition(";")
    return f"{name}{mark}{part.lower() if state.keeps_messages else part}"


def _is_outgoing(engine: Engine, slot: int, name: str) -> bool:
    state = engine.queues.by_slot(slot)
    return "=" in name if state is None else state.is_outgoing


def _is_copy(slot: int) -> bool:
    """Whether it is a journal or dead-letter queue of the computer, or the journal of a queue."""
    return slot in _DEAD_LETTER_SLOTS or bool(slot & _JOURNAL_SLOT)
