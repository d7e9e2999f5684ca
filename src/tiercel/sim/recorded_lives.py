"""Compares the record of what happened to each message with what there is: they must agree.

The record is replayed into places: which messages it says to be in which queue. Only messages of the store
can be compared, and only while the ring has not dropped its first rows.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator

from tiercel.engine.catalog import FIRST_SLOT
from tiercel.engine.life import LifeKind, entries, tail_row
from tiercel.engine.records import decode_record, split_message_key
from tiercel.store.interface import Keyspace, View
from tiercel.wire.user_message import SOURCE_AT, UNIQUIFIER_AT

_FIRST, _END = b"\0", b"\xff" * 13
_SYSTEM = frozenset({1, 2, 3})
_LEAVES = frozenset({LifeKind.ENDED, LifeKind.DELIVERED, LifeKind.ORDERED, LifeKind.RESENT})

Places = Counter[int]  # by slot


class _Life:
    """One message: where it is, and from where consumers have claimed it."""

    def __init__(self) -> None:
        self.places: Places = Counter()
        self.claimed: Places = Counter()
        self.is_clear = True  # False once it is not known which of its places it has left

    def happen(self, kind: LifeKind, slot: int) -> None:
        if kind in {LifeKind.ENTERED, LifeKind.COPIED}:
            self.places[slot] += 1
        elif kind is LifeKind.MOVED:
            self.is_clear = self.is_clear and self.places.total() == 1
            self.places = Counter({slot: 1})
        elif kind is LifeKind.CLAIMED:
            self.places[slot] -= 1
            self.claimed[slot] += 1
        elif kind is LifeKind.RELEASED:
            self.claimed[slot] -= 1
            self.places[slot] += 1
        elif kind in _LEAVES and self.claimed[slot]:
            self.is_clear = self.is_clear and not self.places[slot]  # else it may be the other copy
            self.claimed[slot] -= 1
        elif kind in _LEAVES or (kind is LifeKind.FINAL and self.places[slot]):  # the order ack was lost
            self.places[slot] -= 1


def disagreements(view: View, is_recoverable: Callable[[bytes], bool]) -> Iterator[str]:
    """In sentences; `is_recoverable` knows a message by its id of 20 bytes. Others may be gone in a crash."""
    lives = _replayed(view)
    stored: defaultdict[bytes, Places] = defaultdict(Counter)
    for key, data in view.range(Keyspace.MESSAGES, _FIRST, _END):
        slot, _ = split_message_key(key)
        if _is_told(slot):
            stored[_id_of(decode_record(data).packet)][slot] += 1
    for identity in stored.keys() | {each for each in lives if is_recoverable(each)}:
        life, there = lives.get(identity, _Life()), stored[identity]
        if life.is_clear and +life.places != there:
            yield f"message {identity.hex()} is in {dict(there)}, its life says {dict(+life.places)}"
        if life.is_clear and min(life.places.values(), default=0) < 0:
            yield f"message {identity.hex()} has left a queue in which it never was: {dict(life.places)}"


def _replayed(view: View) -> dict[bytes, _Life]:
    lives: defaultdict[bytes, _Life] = defaultdict(_Life)
    rows = [row for _, row in view.range(Keyspace.LIFE, _FIRST, _END)]
    for row in (*rows, tail_row(view)):
        for (_, slot, _, _, _, kind, source), numbers in entries(row):
            for at in range(0, len(numbers), 4) if _is_told(slot) else ():
                lives[source + numbers[at : at + 4]].happen(LifeKind(kind), slot)
    return dict(lives)


def _is_told(slot: int) -> bool:
    """Whether it is not one of the queues that only the protocols use."""
    return slot >= FIRST_SLOT or slot in _SYSTEM


def _id_of(packet: bytes) -> bytes:
    return packet[SOURCE_AT : SOURCE_AT + 16] + packet[UNIQUIFIER_AT : UNIQUIFIER_AT + 4]
