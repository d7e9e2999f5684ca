"""The reference and the engine, step by step: the same call to both, the same answer, the same queues."""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Generic, TypeVar

from tiercel.engine import cursor as engine_cursor
from tiercel.engine.handles import Found, OpenQueue
from tiercel.engine.handles import Waiter as EngineWaiter
from tiercel.engine.transaction import Transaction
from tiercel.model.codes import MessageSeekAction
from tiercel.model.errors import InsufficientResourcesError, MqError

from .checks import check_engine, note_fates
from .engine_world import KIB, EngineWorld, name_of
from .reference import EXCEED_QUOTA, Cursor, Handle, Item, Letter, Place, Refused, Tx, Waiter
from .reference_calls import How
from .reference_claims import ClaimingModel

S = TypeVar("S")
T = TypeVar("T")
INFINITE_KIB = 0xFFFF_FFFF
SEEKS = {
    "first": MessageSeekAction.SEEK_FIRST,
    "last": MessageSeekAction.SEEK_LAST,
    "next": MessageSeekAction.SEEK_NEXT,
    "previous": MessageSeekAction.SEEK_PREVIOUS,
    "current": MessageSeekAction.SEEK_CURRENT,
}


class Pair(Generic[S, T]):
    """One thing in both worlds."""

    def __init__(self, model: S, engine: T) -> None:
        self.model = model
        self.engine = engine


HandlePair = Pair[Handle, OpenQueue]
TxPair = Pair[Tx, Transaction]
CursorPair = Pair[Cursor, engine_cursor.Cursor]
WaiterPair = Pair[Waiter, EngineWaiter]


class SideBySide:
    def __init__(self) -> None:
        self.world = EngineWorld(1000.0)
        self.model = ClaimingModel(1000.0)
        self.epochs: dict[str, list[tuple[int, int]]] = {}  # of each consumer, in both worlds
        self.handles: list[HandlePair] = []
        self.transactions: list[TxPair] = []
        self.cursors: list[CursorPair] = []
        self.waiters: list[WaiterPair] = []
        self.held: list[tuple[HandlePair, Item, int]] = []  # taken, and perhaps not yet kept
        self.places: dict[int, tuple[str, Place]] = {}  # every lookup id that ever was
        self.sent = 0
        self.tag = 0

    def new_tag(self) -> int:
        """Never one that a wait still has."""
        self.tag += 1
        return self.tag

    def call(self, expected: Callable[[], S], actual: Callable[[], T]) -> Pair[S, T] | None:
        """None when both refuse, with the same error."""
        wanted, got = self._ask_model(expected), self._ask_engine(actual)
        if isinstance(wanted, Refused) or isinstance(got, MqError):
            error = wanted.error if isinstance(wanted, Refused) else "no error"
            assert type(got).__name__ == error or (error == "no error" and not isinstance(got, MqError)), (
                f"expected {error}, got {got!r}"
            )
            self.compare()
            return None
        return Pair(wanted, got)

    def _ask_model(self, expected: Callable[[], S]) -> S | Refused:
        self.model.pass_time(self.world.now)
        try:
            return expected()
        except Refused as refused:
            return refused
        finally:
            self.model.pass_time(self.world.now)

    def _ask_engine(self, actual: Callable[[], T]) -> T | MqError:
        try:
            return self.world.run(actual)
        except MqError as error:
            return error

    def both(self, expected: Callable[[], S], actual: Callable[[], T]) -> Pair[S, T] | None:
        pair = self.call(expected, actual)
        if pair is not None:
            self.compare()
        return pair

    # Queues and handles.

    def create(
        self,
        name: str,
        *,
        transactional: bool,
        journaling: bool = False,
        quota: int = 0,
        journal_quota: int = 0,
    ) -> None:
        def limit(kib: int) -> float:
            return kib * KIB if kib else float("inf")

        self.both(
            lambda: self.model.create_queue(
                name,
                transactional=transactional,
                journaling=journaling,
                quota=limit(quota),
                journal_quota=limit(journal_quota),
            ),
            lambda: self.world.create_queue(
                name,
                transactional=transactional,
                journaling=journaling,
                quota_kib=quota or INFINITE_KIB,
                journal_quota_kib=journal_quota or INFINITE_KIB,
            ),
        )

    def delete(self, name: str) -> None:
        self.both(lambda: self.model.delete_queue(name), lambda: self.world.delete_queue(name))

    def open(self, name: str, access: str, *, deny: bool = False) -> None:
        pair = self.both(
            lambda: self.model.open(name, access, deny=deny), lambda: self.world.open(name, access, deny=deny)
        )
        if pair is not None:
            self.handles.append(pair)

    def close(self, handle: HandlePair) -> None:
        self.both(
            lambda: self.model.close(handle.model), lambda: self.world.engine.opening.close(handle.engine)
        )

    # Messages.

    def send(self, handle: HandlePair, letter: Letter, body: bytes = b"", tx: TxPair | None = None) -> None:
        self.sent += 1
        recoverable = letter.recoverable or tx is not None
        priority = 0 if tx is not None else letter.priority
        named = replace(
            letter,
            name=f"m{self.sent}",
            transactional=tx is not None,
            recoverable=recoverable,
            priority=priority,
        )
        may_send = handle.model.access == "send"
        size = self.world.size_of(handle.model.queue.name, named, body) if may_send else 0
        exact = replace(named, size=size)
        self.both(
            lambda: self.model.send(handle.model, exact, None if tx is None else tx.model),
            lambda: self.world.send(handle.engine, named, body, None if tx is None else tx.engine),
        )

    def receive(
        self,
        handle: HandlePair,
        *,
        timeout: float | None = 0,
        cursor: CursorPair | None = None,
        tx: TxPair | None = None,
        two_phase: bool = False,
        allow_peek: bool = False,
    ) -> None:
        how = How(timeout, None if tx is None else tx.model, two_phase and tx is None, allow_peek)
        pair = self.call(
            lambda: self.model.receive(handle.model, how, None if cursor is None else cursor.model),
            lambda: self.world.engine.reading.receive(
                handle.engine,
                timeout,
                cursor=None if cursor is None else cursor.engine,
                transaction=None if tx is None else tx.engine,
                two_phase=how.two_phase,
                allow_peek=allow_peek,
                tag=self.new_tag(),
            ),
        )
        self._was_read(handle, pair, how, peek=False)

    def peek(
        self,
        handle: HandlePair,
        *,
        timeout: float | None = 0,
        cursor: CursorPair | None = None,
        following: bool = False,
    ) -> None:
        reading, tag = self.world.engine.reading, self.new_tag()
        how = How(timeout)

        def peek() -> Found | EngineWaiter:
            if following and cursor is not None:
                return reading.peek_next(handle.engine, timeout, cursor.engine, tag=tag)
            return reading.peek(
                handle.engine, timeout, cursor=None if cursor is None else cursor.engine, tag=tag
            )

        pair = self.call(
            lambda: self.model.peek(
                handle.model, how, None if cursor is None else cursor.model, following=following
            ),
            peek,
        )
        self._was_read(handle, pair, how, peek=True)

    def read_at(
        self,
        handle: HandlePair,
        lookup_id: int,
        seek: str,
        *,
        peek: bool,
        tx: TxPair | None = None,
        two_phase: bool = False,
        allow_peek: bool = False,
    ) -> None:
        how = How(0, None if tx is None else tx.model, two_phase and tx is None, allow_peek)
        place = self.places[lookup_id][1]
        pair = self.call(
            lambda: self.model.read_at(handle.model, place, seek, peek=peek, how=how),
            lambda: self.world.engine.reading.read_by_lookup_id(
                handle.engine,
                lookup_id,
                SEEKS[seek],
                peek=peek,
                transaction=None if tx is None else tx.engine,
                two_phase=how.two_phase,
                allow_peek=allow_peek,
            ),
        )
        self._was_read(handle, pair, how, peek=peek)

    def _was_read(
        self,
        handle: HandlePair,
        pair: Pair[Item, Found] | Pair[Item | Waiter, Found | EngineWaiter] | None,
        how: How,
        *,
        peek: bool,
    ) -> None:
        if pair is None:
            return
        if isinstance(pair.model, Waiter) or isinstance(pair.engine, EngineWaiter):
            assert isinstance(pair.model, Waiter), "the engine waits where there is a message"
            assert isinstance(pair.engine, EngineWaiter), "the engine found what should not be there"
            self.waiters.append(Pair(pair.model, pair.engine))
        else:
            self._same_message(pair.model, pair.engine)
            if not peek:
                self._was_given(handle, pair.model, pair.engine, how)
        self.compare()

    def _same_message(self, item: Item, found: Found) -> None:
        record = found.record
        got = (self.world.name(record), record.abort_count, record.move_count)
        assert got == (item.letter.name, item.aborts, item.moves)
        assert item.lookup_id in {None, found.lookup_id}

    def _was_given(self, handle: HandlePair, item: Item, found: Found, how: How) -> None:
        self.world.fates.given[item.letter.name] += 1
        if how.two_phase or how.tx is not None:
            self.held.append((handle, item, found.lookup_id))

    def end_receive(self, held: tuple[HandlePair, Item, int], ending: str) -> None:
        handle, item, lookup_id = held
        reading = self.world.engine.reading
        self.both(
            lambda: self.model.end_receive(handle.model, item, ending),
            lambda: (
                reading.reject(handle.engine, lookup_id)
                if ending == "reject"
                else reading.end_receive(handle.engine, lookup_id, delete=ending == "ack")
            ),
        )

    def move(self, handle: HandlePair, lookup_id: int, target: HandlePair, tx: TxPair | None) -> None:
        item = next((it for it in handle.model.queue.items if it.lookup_id == lookup_id), None)
        pair = self.both(
            lambda: self.model.move(handle.model, item, target.model, None if tx is None else tx.model),
            lambda: self.world.engine.moving.move(
                handle.engine, lookup_id, target.engine, None if tx is None else tx.engine
            ),
        )
        if pair is not None and item is not None and tx is not None:
            self.held.append((handle, item, lookup_id))

    def purge(self, handle: HandlePair) -> None:
        pair = self.both(
            lambda: self.model.purge(handle.model), lambda: self.world.engine.purging.purge(handle.engine)
        )
        assert pair is None or pair.model == pair.engine

    # Consumers.

    def is_attached(self, consumer: str) -> bool:
        found = self.model.consumers.get(consumer)
        return found is not None and found.epoch == self.epochs[consumer][-1][0]

    def attach(self, consumer: str) -> None:
        pair = self.both(
            lambda: self.model.attach(consumer), lambda: self.world.engine.claims.attach(consumer)
        )
        if pair is not None:
            self.epochs.setdefault(consumer, []).append((pair.model, pair.engine))

    def claim(
        self,
        consumer: str,
        queue: str,
        limit: int,
        *,
        start: int | None = None,
        acknowledge: int = 0,
        epoch: int = -1,
    ) -> None:
        expected, actual = self.epochs[consumer][epoch]
        goal, state = self.model.queues[queue], self.world.state(queue)
        before = {id(item) for item in goal.items}
        pair = self.call(
            lambda: self.model.claim(consumer, expected, goal, limit, start, acknowledge),
            lambda: self.world.engine.claims.claim(
                consumer, actual, state, limit, start=start, acknowledge=acknowledge
            ),
        )
        if pair is not None:
            assert pair.engine[:2] == pair.model
            claim = self.model.consumers[consumer].claims.get(goal)
            held = claim.held.values() if claim is not None else ()
            new = [item.letter.name for item, _ in held if id(item) in before]
            self.world.fates.given.update(new)
            self.compare()

    def acknowledge(self, consumer: str, queue: str, up_to: int, *, epoch: int = -1) -> None:
        expected, actual = self.epochs[consumer][epoch]
        goal, state = self.model.queues[queue], self.world.state(queue)
        pair = self.both(
            lambda: self.model.acknowledge_claim(consumer, expected, goal, up_to),
            lambda: self.world.engine.claims.acknowledge(consumer, actual, state, up_to),
        )
        assert pair is None or pair.model == pair.engine

    def release(self, consumer: str, queue: str | None, limit: int) -> None:
        goal = None if queue is None else self.model.queues[queue]
        state = None if queue is None else self.world.state(queue)
        pair = self.both(
            lambda: self.model.release(consumer, goal, limit),
            lambda: self.world.engine.claims.release(consumer, state, limit=limit),
        )
        assert pair is None or pair.model == pair.engine

    def forget(self, consumer: str) -> None:
        self.both(lambda: self.model.forget(consumer), lambda: self.world.engine.claims.forget(consumer))

    # Cursors and waits.

    def open_cursor(self, handle: HandlePair) -> None:
        pair = self.both(
            lambda: self.model.open_cursor(handle.model),
            lambda: self.world.engine.opening.open_cursor(handle.engine),
        )
        if pair is not None:
            self.cursors.append(pair)

    def close_cursor(self, cursor: CursorPair) -> None:
        handle = next(each for each in self.handles if each.model is cursor.model.handle)
        self.both(
            lambda: self.model.close_cursor(cursor.model),
            lambda: self.world.engine.opening.close_cursor(handle.engine, cursor.engine),
        )

    def cancel(self, waiter: WaiterPair) -> None:
        if not waiter.model.is_done:
            tag = waiter.engine.tag
            assert tag is not None
            cancel, state = self.world.engine.waiting.cancel, waiter.engine.opened.state
            assert state is not None
            pair = self.both(lambda: self.model.cancel(waiter.model), lambda: cancel(state, tag))
            assert pair is None or pair.model == pair.engine

    # Transactions, time, restarts.

    def begin(self) -> TxPair:
        pair = self.both(self.model.begin, self.world.engine.transactions.begin)
        assert pair is not None
        self.transactions.append(pair)
        return pair

    def end(self, tx: TxPair, how: str) -> None:
        """Commit, abort or prepare."""
        pair = self.call(
            lambda: getattr(self.model, how)(tx.model),
            lambda: getattr(self.world.engine.transactions, how)(tx.engine.id),
        )
        if pair is not None:
            if how == "abort":
                self.world.withdrawn(tx.engine)
            self.compare()

    def pass_time(self, seconds: float) -> None:
        self.world.now += seconds
        self.both(lambda: None, lambda: None)

    def crash(self) -> None:
        self.world.crash()
        self._restarted()

    def stop(self) -> None:
        for waiter in self.waiters:  # first: what is given back must not go to one that waits
            self.cancel(waiter)
        for handle, item, lookup_id in [held for held in self.held if held[1].owner is held[0].model]:
            self.end_receive((handle, item, lookup_id), "nack")
        self.world.stop()
        self._restarted()

    def crash_in_the_middle(self, handle: HandlePair | None) -> None:
        """Something was done, and the plug is pulled before its commit: it never happened."""
        express = self.world.express_names()
        self.world.engine.begin(self.world.now)
        if handle is not None and handle.model.is_open and not handle.model.queue.is_deleted:
            with suppress(MqError):
                self.world.engine.reading.receive(handle.engine, 0)
                self.world.engine.purging.purge(handle.engine)
        self.world.crash(express)
        self._restarted()

    def send_to_a_full_computer(self, handle: HandlePair) -> None:
        """The quota of the queue manager refuses what would pass it, by one message."""
        queue = handle.model.queue
        if (
            not handle.model.is_open
            or handle.model.access != "send"
            or queue.is_deleted
            or queue.transactional
        ):
            return
        engine, size = self.world.engine, self.model.total
        engine.queue_manager.queue_manager_quota_kib = size // KIB
        try:
            self.world.run(
                lambda: self.world.send(handle.engine, Letter("refused", 0), b"x" * KIB, None),
            )
        except InsufficientResourcesError:
            self.model.ledger.append((queue.name, "refused", EXCEED_QUOTA))
            self.world.fates.sent.discard("refused")
        else:
            raise AssertionError("the quota of the queue manager was passed")
        finally:
            engine.queue_manager.queue_manager_quota_kib = 0xFFFF_FFFF
        self.compare()

    def _restarted(self) -> None:
        self.model.restart()
        self.handles, self.cursors, self.waiters, self.held = [], [], [], []
        self.transactions = [tx for tx in self.transactions if tx.model.state == "prepared"]
        for tx in self.transactions:
            tx.engine = self.world.engine.transactions.find(tx.engine.id)
        self.compare()

    # After every step.

    def compare(self) -> None:
        self._compare_waiters()
        self._compare_queues()
        self._compare_claims()
        lines, copies = self.world.new_discards()
        told = Counter((queue, _label(name), reason) for queue, name, reason in self.model.ledger)
        got = Counter((line.queue, line.name, line.reason) for line in lines + copies)
        assert got == told, f"the ledger: too many {got - told}, too few {told - got}"
        self.model.ledger.clear()
        note_fates(self.world, lines)
        check_engine(self.world)
        self._compare_deadlines()

    def _compare_waiters(self) -> None:
        completed = self.world.completed
        self.world.completed = []
        assert len(set(map(id, completed))) == len(completed), "a wait was ended twice"
        for pair in self.waiters:
            expected, waiter = pair.model, pair.engine
            error = type(waiter.error).__name__ if waiter.error is not None else None
            assert error == expected.error, f"the wait ended with {waiter.error!r}"
            assert (waiter.found is None) == (expected.found is None), "a forgotten wait"
            if waiter.found is not None and expected.found is not None and waiter in completed:
                assert self.world.name(waiter.found.record) == expected.found.letter.name
                if expected.is_receive:
                    handle = next(each for each in self.handles if each.model is expected.handle)
                    how = How(0, expected.tx, expected.two_phase)
                    self._was_given(handle, expected.found, waiter.found, how)
            assert expected.is_done == (waiter in completed), "a wait ended, and nobody was told"
        self.waiters = [pair for pair in self.waiters if not pair.model.is_done]

    def _compare_queues(self) -> None:
        states = {name_of(state): state for state in self.world.states()}
        assert set(states) == set(self.model.queues)
        for name, queue in self.model.queues.items():
            seen = self.world.look_at(states[name])
            names = [(each.name, each.is_locked) for each in seen]
            assert names == [(each.letter.name, each.owner is not None) for each in queue.items], name
            for item, each in zip(queue.items, seen, strict=True):
                if item.lookup_id is None:
                    assert each.lookup_id not in self.places, "a lookup id comes twice"
                    item.lookup_id = each.lookup_id
                    self.places[each.lookup_id] = (name, item.place)
                    item.letter = replace(item.letter, size=item.letter.size or each.size)
                letter = item.letter
                assert (each.size, each.priority) == (letter.size, letter.priority), letter.name
                assert (each.aborts, each.moves) == (item.aborts, item.moves), f"counters of {letter.name}"
                assert each.lookup_id == item.lookup_id, f"the place of {letter.name}"
                assert (each.is_recoverable, each.is_copy) == (letter.recoverable, item.is_copy), letter.name
            assert states[name].epoch == queue.epoch, f"the epoch of {name}"
            waiting = [pair.engine for pair in self.waiters if pair.model.handle.queue is queue]
            assert states[name].waiters == waiting, "the line of those who wait"

    def _compare_claims(self) -> None:
        expected = {
            (name, queue.name): (
                claim.floor,
                claim.hi,
                {seq: _seen(it) for seq, (it, _) in claim.held.items()},
            )
            for name, consumer in self.model.consumers.items()
            for queue, claim in consumer.claims.items()
        }
        assert self.world.claims() == expected, "what consumers hold"

    def _compare_deadlines(self) -> None:
        deadlines = [
            item.letter.deadline
            for queue in self.model.queues.values()
            for item in queue.items
            if item.owner is None and item.letter.deadline is not None and not item.is_copy
        ]
        due = self.world.engine.next_deadline
        assert not deadlines or (due is not None and due <= min(deadlines)), "a forgotten timer"


def _seen(item: Item) -> tuple[str, int, int]:
    return item.letter.name, item.aborts, item.moves


def _label(name: str) -> str:
    """Acknowledgements have none."""
    return "" if " " in name else name
