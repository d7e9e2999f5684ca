"""The engine against the reference: long runs of every operation, compared after every step."""

import os
from dataclasses import replace

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from .reference import Letter
from .side_by_side import SEEKS, HandlePair, SideBySide, TxPair

EXAMPLES = int(os.environ.get("TIERCEL_MODEL_EXAMPLES", "20"))
STEPS = int(os.environ.get("TIERCEL_MODEL_STEPS", "500"))
# Making a failure short takes minutes, which the suite has not: `make model` does it.
PHASES = tuple(Phase) if "TIERCEL_MODEL_EXAMPLES" in os.environ else (Phase.reuse, Phase.generate)
# name: transactional, journaling, quota in KiB, quota of the journal in KiB; 0 is no quota
QUEUES = {
    "a": (True, False, 0, 0),
    "b": (True, True, 4, 2),
    "c": (False, False, 0, 0),
    "d": (False, True, 4, 2),
    "dead": (False, False, 0, 0),
    "deadx": (True, False, 2, 0),
    "admin": (False, False, 0, 0),
}
SUBQUEUES = ("a;one", "b;one", "c;one", "d;one", "d;two")
JOURNALS = ("system;JOURNAL", "system;DEADLETTER", "system;DEADXACT", "b;JOURNAL", "d;JOURNAL")
SMALL = st.integers(0, 255)
OPENABLE = st.sampled_from([*QUEUES, *SUBQUEUES, *JOURNALS])
# 0 to 3 mean no transaction, so that most calls with one are in one of the newest
MAYBE_TX = st.integers(0, 7)
CONSUMER_STEPS = st.tuples(SMALL, OPENABLE, st.integers(0, 15), st.integers(1, 5))
TIMEOUTS = st.sampled_from([0, 0, 0, 2, 7, None])
LETTERS = st.builds(
    Letter,
    st.just(""),
    st.just(0),
    priority=st.sampled_from([3, 3, 0, 5, 7]),
    recoverable=st.booleans(),
    acks=st.sampled_from([0, 0, 15, 1, 2, 4, 8]),
    admin=st.sampled_from([None, "admin", "admin", "nowhere", "a"]),
    keep_copy=st.booleans(),
    keep_dead=st.booleans(),
    dead_letter_queue=st.sampled_from([None, "dead", "deadx", "a", "nowhere"]),
)


class EngineAgainstReference(RuleBasedStateMachine):
    @initialize()
    def start(self) -> None:
        self.both = SideBySide()
        for name in QUEUES:
            self.create(name)
        self.open_all()

    def create(self, name: str) -> None:
        transactional, journaling, quota, journal_quota = QUEUES[name]
        self.both.create(
            name,
            transactional=transactional,
            journaling=journaling,
            quota=quota,
            journal_quota=journal_quota,
        )

    def open_all(self) -> None:
        for name in QUEUES:
            if name in self.both.model.queues:
                self.both.open(name, "receive")
                self.open_to_send(name)

    def open_to_send(self, name: str) -> None:
        if not name.startswith("dead"):  # what is in there is a copy of something
            self.both.open(name, "send")

    def handle(self, n: int, access: str) -> HandlePair | None:
        """One that fits, mostly; now and then any, open or closed."""
        handles = self.both.handles
        fitting = [each for each in handles if each.model.is_open and each.model.access == access]
        among = handles if n % 16 == 15 else fitting
        return among[n % len(among)] if among else None

    def tx(self, n: int) -> TxPair | None:
        """One that lives, mostly, or none."""
        living = [tx for tx in self.both.transactions if tx.model.state == "active"]
        among = self.both.transactions if n == 7 else living
        return among[n % len(among)] if n > 3 and among else None

    # Queues and handles. Few rules with several operations each: a run leaves some rules out altogether.

    @rule(name=OPENABLE, access=st.sampled_from(["receive", "peek", "send", "move"]), n=SMALL)
    def change_queues(self, name: str, access: str, n: int) -> None:
        what = n % 8
        if what == 0 and name in QUEUES and name != "admin":
            self.both.delete(name)
        elif what < 3 and name in QUEUES:
            self.create(name)
            self.open_to_send(name)
        elif what == 3 and self.both.handles:
            self.both.close(self.both.handles[n % len(self.both.handles)])
        elif access == "send":
            self.open_to_send(name)
        else:
            self.both.open(name, access, deny=what == 4)

    # Messages.

    def feed(self, n: int) -> None:
        """Sees to it that there is something to read: a run may have left out the rule that sends."""
        queues = self.both.model.queues
        if sum(len(queue.items) for name, queue in queues.items() if name[0] in "abcd") < 5:
            letter = Letter("", 0, 3 + n % 2, bool(n & 2), acks=n & 15, admin="admin", keep_dead=bool(n & 32))
            handle = self.handle(n, "send")
            if handle is None or not handle.model.queue.transactional:
                self.send(n, letter, 9 if n & 64 else None, 0)
            else:
                tx = self.both.begin()
                self.both.send(handle, replace(letter, keep_copy=bool(n & 64)), b"", tx)
                self.both.end(tx, "commit")

    @rule(n=SMALL, letter=LETTERS, ttbr=st.sampled_from([None, None, 0, 3, 9]), t=MAYBE_TX)
    def send(self, n: int, letter: Letter, ttbr: int | None, t: int) -> None:
        handle, tx = self.handle(n, "send"), self.tx(t)
        if handle is None:
            return
        if ttbr is not None:
            letter = replace(letter, deadline=int(self.both.world.now) + ttbr)
        if tx is None and t and handle.model.queue.transactional:
            tx = self.both.begin()
        if tx is not None and t < 7 and not handle.model.queue.transactional:
            tx = None
        self.both.send(handle, letter, b"x" * 150 * (n % 7), tx)

    @rule(n=SMALL, t=MAYBE_TX, timeout=TIMEOUTS, how=st.integers(0, 7))
    def receive(self, n: int, t: int, timeout: int | None, how: int) -> None:
        self.feed(n)
        handle = self.handle(n, "receive")
        if handle is not None and how < 6:
            tx = self.tx(t) if handle.model.queue.transactional or t == 7 else None
            self.both.receive(handle, timeout=timeout, tx=tx, two_phase=how in {1, 2}, allow_peek=how > 1)
        elif (handle := self.handle(n, "peek") or handle) is not None:
            self.both.peek(handle, timeout=timeout)

    @rule(n=SMALL, which=SMALL, seek=st.sampled_from(list(SEEKS)), t=MAYBE_TX, how=st.integers(0, 7))
    def read_by_lookup_id(self, n: int, which: int, seek: str, t: int, how: int) -> None:
        self.feed(n)
        handle = self.handle(n, "receive")
        lookup_id = self.lookup_id(handle, which)
        if handle is not None and lookup_id is not None:
            tx = self.tx(t) if handle.model.queue.transactional or t == 7 else None
            two_phase, allow_peek = how in {1, 2}, how in {2, 3}
            self.both.read_at(
                handle, lookup_id, seek, peek=how > 4, tx=tx, two_phase=two_phase, allow_peek=allow_peek
            )

    def lookup_id(self, handle: HandlePair | None, n: int) -> int | None:
        """Of a message in the queue, or one that was somewhere once."""
        if handle is None or not self.both.places:
            return None
        here = [item.lookup_id for item in handle.model.queue.items if item.lookup_id is not None]
        ever = [key for key, (name, _) in self.both.places.items() if name == handle.model.queue.name]
        among = here if here and n % 4 else (ever or list(self.both.places))
        return among[n % len(among)]

    @rule(n=SMALL, ending=st.sampled_from(["ack", "nack", "nack", "reject"]))
    def end_receive(self, n: int, ending: str) -> None:
        self.feed(n)
        held = [each for each in self.both.held if each[1].owner is not None] or self.both.held
        if held and n & 3:
            self.both.end_receive(held[-1 - n % min(len(held), 6)], ending)
        elif (handle := self.handle(n, "receive")) is not None:
            self.both.receive(handle, two_phase=True)

    @rule(n=SMALL, which=SMALL, t=MAYBE_TX, how=SMALL)
    def move_or_purge(self, n: int, which: int, t: int, how: int) -> None:
        self.feed(n)
        handle = self.handle(n, "receive")
        lookup_id = self.lookup_id(handle, which)
        if handle is None or lookup_id is None:
            return
        root = handle.model.queue.root
        if how % 4 == 0:
            busy = [each for each, item, _ in self.both.held if item.owner is not None]
            self.both.purge(busy[n % len(busy)] if busy and how & 4 else handle)
        elif root != "system":
            before = len(self.both.handles)
            self.both.open(root if how & 8 else f"{root};one", "move")
            self.both.open(f"{root};one", "receive")
            if len(self.both.handles) > before:
                target = self.both.handles[before]
                tx = self.tx(t) if handle.model.queue.transactional else None
                self.both.move(handle, lookup_id, target, tx)
                if how & 16:
                    self.both.close(target)

    # Consumers.

    @rule(steps=st.lists(CONSUMER_STEPS, min_size=1, max_size=5))
    def use_consumers(self, steps: list[tuple[int, str, int, int]]) -> None:
        """Several steps at a time: one alone finds little to do."""
        for n, some, what, limit in steps:
            self.feed(n)
            name = "st"[n & 1]
            if n % 32 != 31 and not self.both.is_attached(name):
                self.both.attach(name)
            busy = [each for each, found in self.both.model.queues.items() if found.items]
            queue = busy[n % len(busy)] if busy and n & 6 else some
            if name in self.both.epochs and queue in self.both.model.queues:
                self.use_consumer(name, queue, n, what, limit)

    def use_consumer(self, name: str, queue: str, n: int, what: int, limit: int) -> None:
        floor, hi = self.numbers(name, queue)
        known = -min(len(self.both.epochs[name]), 2) if n % 32 == 31 else -1
        if what < 9:
            start = [None, hi, hi, None, floor, hi + 1, max(hi - 1, 0), floor + 1, hi][what]
            acknowledge = [0, 0, 0, floor, hi, max(hi - 1, 0), hi + 1][(n >> 3) % 7]
            self.both.claim(name, queue, limit, start=start, acknowledge=acknowledge, epoch=known)
        elif what < 12:
            self.both.acknowledge(name, queue, [hi, floor + 1, hi + 1][what - 9], epoch=known)
        elif what < 14:
            self.both.release(name, queue if n & 8 else None, limit if n & 16 else 1000)
        elif what == 14:
            self.both.forget(name)
        else:
            self.both.attach(name)

    def numbers(self, consumer: str, queue: str) -> tuple[int, int]:
        found = self.both.model.consumers.get(consumer)
        claim = None if found is None else found.claims.get(self.both.model.queues[queue])
        return (0, 0) if claim is None else (claim.floor, claim.hi)

    # Cursors and waits.

    @rule(n=SMALL, what=st.integers(0, 9), timeout=TIMEOUTS, t=MAYBE_TX)
    def use_cursor(self, n: int, what: int, timeout: int | None, t: int) -> None:
        self.feed(n)
        cursors = self.both.cursors
        if not cursors or what == 0:
            if (handle := self.handle(n, "receive")) is not None:
                self.both.open_cursor(handle)
            return
        cursor = cursors[-1 - n % min(len(cursors), 5)]
        if what == 1:
            self.both.close_cursor(cursor)
            return
        handle = next(each for each in self.both.handles if each.model is cursor.model.handle)
        if n % 32 == 31:
            handle = self.handle(n, "receive") or handle
        if what < 5:
            tx = self.tx(t) if handle.model.queue.transactional or t == 7 else None
            self.both.receive(handle, timeout=timeout, cursor=cursor, tx=tx, two_phase=what == 4)
        else:
            self.both.peek(handle, timeout=timeout, cursor=cursor, following=what > 6)

    # Transactions, time, restarts.

    @rule(n=SMALL, how=st.sampled_from(["commit", "commit", "abort", "prepare"]))
    def end_transaction(self, n: int, how: str) -> None:
        living = [tx for tx in self.both.transactions if tx.model.state != "ended"]
        among = self.both.transactions if n % 16 == 15 else living
        if not among or n % 16 == 14:
            self.both.begin()
        else:
            self.both.end(among[n % len(among)], how)

    @rule(seconds=st.sampled_from([0, 0, 0.25, 1, 1, 3, 10]), n=SMALL)
    def pass_time_or_cancel(self, seconds: float, n: int) -> None:
        if not seconds and self.both.waiters:
            self.both.cancel(self.both.waiters[n % len(self.both.waiters)])
        else:
            self.both.pass_time(seconds)

    @rule(how=SMALL, n=SMALL)
    def restart(self, how: int, n: int) -> None:
        what = how % 8
        handle = self.handle(n, "send")
        if what == 0:
            self.both.crash()
        elif what == 1:
            self.both.stop()
        elif what == 2:
            self.both.crash_in_the_middle(self.handle(n, "receive"))
        elif what == 3 and handle is not None:
            self.both.send_to_a_full_computer(handle)
            return
        else:
            self.both.pass_time(0)
            return
        self.open_all()


def test_engine_does_what_the_reference_does() -> None:
    run_state_machine_as_test(
        EngineAgainstReference,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            phases=PHASES,
            suppress_health_check=list(HealthCheck),
        ),
    )
