"""A small world, wholly: two senders, two receivers, three messages, every order of their steps to a depth.

One sender and one receiver use transactions. Every sequence of steps is run, and after each the engine is
held to the reference and to all invariants; at the end of each everything that can be is received, and
nothing may be left or come twice. A state that was reached before with as many steps to go is not run on.
"""

import io
import os
import pickle
import sys
from collections.abc import Callable
from itertools import count
from types import FunctionType
from typing import Any
from weakref import WeakValueDictionary

import pytest

from .reference import Letter
from .side_by_side import SideBySide, TxPair

DEPTH = int(os.environ.get("TIERCEL_MODEL_DEPTH", "6"))
Guard = Callable[["SmallWorld"], bool]
Step = Callable[["SmallWorld"], None]


class SmallWorld(SideBySide):
    """Queue `x` is transactional, `p` is not; both senders send express or recoverable as they come."""

    def __init__(self) -> None:
        super().__init__()
        self.sending: TxPair | None = None
        self.receiving: TxPair | None = None
        self.create("x", transactional=True)
        self.create("p", transactional=False)
        self.reopen()

    def reopen(self) -> None:
        for name in ("x", "p"):
            self.open(name, "send")
            self.open(name, "receive")
        self.to_x, self.from_x, self.to_p, self.from_p = self.handles

    def state(self) -> str:
        """All that the future depends on, in the reference and in the engine."""
        items = [
            (name, item.letter.name, self.owner(item.owner), item.aborts, item.doom, self.left(item.letter))
            for name, queue in self.model.queues.items()
            for item in queue.items
        ]
        waits = [
            (pair.model.tx is not None, self.world.now - (pair.model.deadline or 0)) for pair in self.waiters
        ]
        pending = [
            tx
            and (
                tx.model.state,
                [(op.kind, op.letter.name, self.left(op.letter)) for op in tx.model.operations],
            )
            for tx in (self.sending, self.receiving)
        ]
        hints = [
            (
                state._peekable_locks,
                sum(seen.lookup_id < state._available_from for seen in self.world.look_at(state)),
            )
            for state in self.world.states()
        ]
        return repr((items, waits, pending, hints, self.sent))

    def left(self, letter: Letter) -> float | None:
        return None if letter.deadline is None else letter.deadline - self.world.now

    def owner(self, owner: object) -> str:
        if self.sending is not None and owner is self.sending.model:
            return "sending"
        if self.receiving is not None and owner is self.receiving.model:
            return "receiving"
        return type(owner).__name__

    # The steps of the senders.

    def send_plain(self) -> None:
        self.send(self.to_p, Letter("", 0, recoverable=self.sent % 2 == 0, keep_dead=True))

    def send_in_transaction(self) -> None:
        self.sending = self.sending or self.begin()
        deadline = int(self.world.now) + 5
        self.send(self.to_x, Letter("", 0, deadline=deadline, keep_dead=True), tx=self.sending)

    def end_sending(self, how: str) -> None:
        assert self.sending is not None
        self.end(self.sending, how)
        if how != "prepare":
            self.sending = None

    # Those of the receivers.

    def receive_plain(self) -> None:
        self.receive(self.from_p if self.model.queues["p"].items else self.from_x)

    def receive_in_transaction(self, timeout: int) -> None:
        self.receiving = self.receiving or self.begin()
        self.receive(self.from_x, timeout=timeout, tx=self.receiving)

    def end_receiving(self, how: str) -> None:
        assert self.receiving is not None
        self.end(self.receiving, how)
        if how != "prepare":
            self.receiving = None

    def hold(self) -> None:
        """The first phase of a two-phase read, or its end."""
        held = [each for each in self.held if each[1].owner is each[0].model]
        if held:
            self.end_receive(held[0], "nack")
        else:
            self.receive(self.from_p, two_phase=True)

    # Those of others.

    def purge_both(self) -> None:
        self.purge(self.from_x)
        self.purge(self.from_p)

    def crash_and_reopen(self) -> None:
        in_doubt = (self.sending, self.receiving)
        self.crash()
        self.reopen()
        self.sending, self.receiving = (tx if tx in self.transactions else None for tx in in_doubt)

    def finish(self) -> None:
        """Ends every transaction and receives all there is: then every message has met its end, once."""
        for tx in [self.sending, self.receiving]:
            if tx is not None:
                self.end(tx, "commit")
        for held in [each for each in self.held if each[1].owner is each[0].model]:
            self.end_receive(held, "ack")
        for handle in (self.from_x, self.from_p):
            while handle.model.queue.items:
                self.receive(handle)
        assert not [
            seen for state in self.world.states() for seen in self.world.look_at(state) if not seen.is_copy
        ]


def is_active(tx: TxPair | None) -> bool:
    return tx is None or tx.model.state == "active"


ALPHABET: dict[str, tuple[Guard, Step]] = {
    "send": (lambda w: w.sent < 3, SmallWorld.send_plain),
    "send in tx": (lambda w: w.sent < 3 and is_active(w.sending), SmallWorld.send_in_transaction),
    "commit sends": (lambda w: w.sending is not None, lambda w: w.end_sending("commit")),
    "abort sends": (lambda w: w.sending is not None, lambda w: w.end_sending("abort")),
    "prepare sends": (
        lambda w: w.sending is not None and is_active(w.sending),
        lambda w: w.end_sending("prepare"),
    ),
    "receive": (lambda _: True, SmallWorld.receive_plain),
    "receive in tx": (lambda w: is_active(w.receiving), lambda w: w.receive_in_transaction(0)),
    "wait in tx": (
        lambda w: is_active(w.receiving) and not w.waiters,
        lambda w: w.receive_in_transaction(3),
    ),
    "commit receives": (lambda w: w.receiving is not None, lambda w: w.end_receiving("commit")),
    "abort receives": (lambda w: w.receiving is not None, lambda w: w.end_receiving("abort")),
    "prepare receives": (
        lambda w: w.receiving is not None and is_active(w.receiving),
        lambda w: w.end_receiving("prepare"),
    ),
    "hold": (lambda _: True, SmallWorld.hold),
    "purge": (lambda _: True, SmallWorld.purge_both),
    "time": (lambda _: True, lambda w: w.pass_time(6)),
    "crash": (lambda _: True, SmallWorld.crash_and_reopen),
}


class Copier(pickle.Pickler):
    """As a deep copy, which would take most of the time, but many times as quick: functions are the same."""

    functions: dict[int, FunctionType] = {}  # noqa: RUF012  # of all copies

    @classmethod
    def freeze(cls, world: SmallWorld) -> bytes:
        frozen = io.BytesIO()
        cls(frozen, pickle.HIGHEST_PROTOCOL).dump(world)
        return frozen.getvalue()

    def reducer_override(self, each: Any) -> Any:
        if isinstance(each, WeakValueDictionary):
            return WeakValueDictionary, (dict(each),)
        if isinstance(each, count):  # Python 3.14 cannot pickle it
            return count, (int(repr(each)[len("count(") : -1]),)
        if isinstance(each, FunctionType) and each is not function:
            self.functions[id(each)] = each
            return function, (id(each),)
        return NotImplemented


def function(number: int) -> FunctionType:
    return Copier.functions[number]


class Explorer:
    def __init__(self) -> None:
        self.steps = 0
        self.seen: dict[tuple[str, int], int] = {}

    def explore(self, world: SmallWorld, names: tuple[str, ...], depth: int) -> int:
        """How many interleavings lead on from here; all of them are run, equal states once."""
        key = (world.state(), depth)
        if key not in self.seen:
            if depth:
                possible = [name for name, (can, _) in ALPHABET.items() if can(world)]
                here = Copier.freeze(world)
                self.seen[key] = sum(self.step(here, (*names, name), depth) for name in possible)
            else:
                self.seen[key] = 1
                world.finish()
        return self.seen[key]

    def step(self, here: bytes, names: tuple[str, ...], depth: int) -> int:
        self.steps += 1
        following: SmallWorld = pickle.loads(here)  # noqa: S301  # our own
        try:
            ALPHABET[names[-1]][1](following)
            return self.explore(following, names, depth - 1)
        except AssertionError as error:
            error.add_note(f"after {', '.join(names)}")
            raise


EXPLORER = Explorer()


FIRST = [name for name, (can, _) in ALPHABET.items() if can(SmallWorld())]


@pytest.mark.parametrize("first", FIRST)
def test_every_interleaving(first: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = EXPLORER.steps
    tried = EXPLORER.step(Copier.freeze(SmallWorld()), (first,), DEPTH)
    with capsys.disabled():
        sys.stdout.write(
            f"\n{first}: {tried} interleavings of depth {DEPTH}, {EXPLORER.steps - before} steps run\n"
        )
    assert tried > 1000
