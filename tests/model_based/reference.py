"""A queue manager in plain lists, read off [MS-MQDMPR] and its traps: what the engine is held to.

It has no store, no lookup ids and no batches. A queue is a list sorted by priority and arrival, a transaction
is a list of operations, a lock is a field of the message. Errors have the names of the error classes.
"""

from dataclasses import dataclass, field
from itertools import count
from typing import Final, Literal

ACK_REACH_QUEUE, ACK_RECEIVE, BAD_DST_Q, EXCEED_QUOTA = 0x0002, 0x4000, 0x8000, 0x8003
NOT_TRANSACTIONAL_Q, NOT_TRANSACTIONAL_MSG, Q_DELETED, Q_PURGED = 0x8009, 0x800A, 0xC000, 0xC001
RECEIVE_TIMEOUT, REJECTED = 0xC002, 0xC004
POS_ARRIVAL, POS_RECEIVE, NEG_ARRIVAL, NEG_RECEIVE = 1, 2, 4, 8
JOURNAL, DEADLETTER, DEADXACT = "system;JOURNAL", "system;DEADLETTER", "system;DEADXACT"
START: Final = (-1, 0)  # the place before every message
END: Final = (8, 0)

Place = tuple[int, int]


class Refused(Exception):  # noqa: N818 -- an answer like any other
    """The operation ends with the error of this name and has changed nothing."""

    def __init__(self, error: str) -> None:
        super().__init__(error)
        self.error = error


@dataclass(frozen=True)
class Letter:
    """What the sender wrote."""

    name: str
    size: int
    priority: int = 3
    recoverable: bool = False
    transactional: bool = False
    deadline: float | None = None
    acks: int = 0
    admin: str | None = None
    keep_copy: bool = False  # positive source journaling
    keep_dead: bool = False  # negative source journaling
    dead_letter_queue: str | None = None
    # Of a transactional one: its stream, the transaction, and whether it is its first and its last message.
    stream: int = 0
    tx: int = 0
    is_first: bool = False
    is_last: bool = False


@dataclass(eq=False)
class Item:
    """A letter in a queue."""

    letter: Letter
    place: Place
    is_copy: bool = False
    aborts: int = 0
    moves: int = 0
    owner: "Tx | Handle | None" = None
    reader: "Handle | None" = None  # through which it was taken
    allow_peek: bool = False
    taken: int = -1  # in which order locked ones were locked; the others keep their own
    doom: int | None = None
    arrived: int = 0
    lookup_id: int | None = None  # noted by the test when it first sees the engine's

    def is_visible(self, *, peek: bool = False) -> bool:
        return self.owner is None or (peek and self.allow_peek and self.doom is None)


@dataclass(eq=False)
class Queue:
    name: str
    transactional: bool = False
    journaling: bool = False
    quota: float = float("inf")
    items: list[Item] = field(default_factory=list)
    waiters: "list[Waiter]" = field(default_factory=list)
    handles: "list[Handle]" = field(default_factory=list)
    pending: int = 0  # bytes of sends to here that are not committed
    coming: int = 0  # moves to here that are not committed
    is_deleted: bool = False
    number: int = 0  # queues that were made later have higher ones, and journals the highest
    epoch: int = 0  # raised by every purge that ends something
    claims: "list[Claim]" = field(default_factory=list)

    @property
    def root(self) -> str:
        return self.name.partition(";")[0]

    @property
    def keeps_messages(self) -> bool:
        return self.name.startswith("system;") or self.name.endswith(";JOURNAL")

    @property
    def is_subqueue(self) -> bool:
        return ";" in self.name and not self.keeps_messages

    @property
    def size(self) -> int:
        return sum(item.letter.size for item in self.items)

    @property
    def used(self) -> int:
        """What counts for its quota."""
        claimed = (item for claim in self.claims for item, _ in claim.held.values())
        return self.size + self.pending + sum(item.letter.size for item in claimed)

    def first(self, after: Place = START, *, peek: bool = False) -> Item | None:
        return next((it for it in self.items if it.place > after and it.is_visible(peek=peek)), None)

    def last(self, before: Place = END, *, peek: bool = False) -> Item | None:
        seen = [item for item in self.items if item.place < before and item.is_visible(peek=peek)]
        return seen[-1] if seen else None


@dataclass(eq=False)
class Handle:
    queue: Queue
    access: str  # "receive", "peek", "send" or "move"
    deny: bool = False
    is_open: bool = True


@dataclass(eq=False)
class Cursor:
    handle: Handle
    state: Literal["unread", "read", "wait peek", "wait receive"] = "unread"
    place: Place = START
    is_open: bool = True


@dataclass(eq=False)
class Claim:
    """What a consumer holds of a queue: each message by its number, and when it was claimed."""

    consumer: str
    queue: Queue
    floor: int = 0
    hi: int = 0
    held: dict[int, tuple[Item, int]] = field(default_factory=dict)


@dataclass(eq=False)
class Tx:
    number: int = 0
    state: Literal["active", "prepared", "ended"] = "active"
    operations: "list[Operation]" = field(default_factory=list)


@dataclass(eq=False)
class Operation:
    kind: Literal["send", "receive", "move"]
    queue: Queue
    letter: Letter
    item: Item | None = None
    target: Queue | None = None


@dataclass(eq=False)
class Waiter:
    handle: Handle
    is_receive: bool
    deadline: float | None
    cursor: Cursor | None = None
    tx: Tx | None = None
    two_phase: bool = False
    allow_peek: bool = False
    found: Item | None = None
    error: str | None = None

    @property
    def is_done(self) -> bool:
        return self.found is not None or self.error is not None


class Model:
    """How messages come and go; `ModelOperations` has what an application calls."""

    def __init__(self, now: float) -> None:
        self.now = now
        system = enumerate((JOURNAL, DEADLETTER, DEADXACT))
        self.queues = {name: Queue(name, number=number) for number, name in system}
        self.queues[DEADXACT].transactional = True
        self.transactions: list[Tx] = []
        self.ledger: list[tuple[str, str, int]] = []
        self.insecure_nacks = False  # whether senders are told that a queue does not exist (MQQB-176)
        self._arrivals = count()
        self.numbers = count(10)  # of queues and of transactions
        self.takings = count()

    @property
    def total(self) -> int:
        return sum(queue.used for queue in self.queues.values())

    # Coming.

    def insert(self, queue: Queue, letter: Letter, original: Item | None = None) -> Item:
        item = Item(letter, (7 - letter.priority, next(self._arrivals)), arrived=int(self.now))
        if original is not None:
            item.is_copy, item.aborts, item.moves = original.is_copy, original.aborts, original.moves
        queue.items.append(item)
        queue.items.sort(key=lambda each: each.place)
        return item

    def accept(self, queue: Queue, letter: Letter) -> None:
        item = self.insert(queue, letter)
        if letter.acks & POS_ARRIVAL:
            self.acknowledge(letter, ACK_REACH_QUEUE)
        if letter.keep_copy and not letter.transactional:
            self.file(self.queues[JOURNAL], item)
        if letter.deadline is not None and letter.deadline <= self.now:
            self.finish(queue, item, RECEIVE_TIMEOUT)
        else:
            self.offer(queue, item)

    def file(self, queue: Queue, item: Item) -> None:
        """A copy for a journal or dead-letter queue, unless it is full (T-10)."""
        if queue.used + item.letter.size > queue.quota:
            self.ledger.append((queue.name, item.letter.name, EXCEED_QUOTA))
        else:
            copy = self.insert(queue, item.letter, item)
            copy.is_copy = True
            self.offer(queue, copy)

    def acknowledge(self, letter: Letter, reason: int) -> None:
        if letter.admin is None or (reason == BAD_DST_Q and not self.insecure_nacks):
            return
        ack = Letter(f"{reason:04x} {letter.name}", 0, recoverable=letter.recoverable)
        admin = self.queues.get(letter.admin)
        if admin is None or admin.transactional:
            refusal = BAD_DST_Q if admin is None else NOT_TRANSACTIONAL_MSG
            self.ledger.append((letter.admin, ack.name, refusal))
        else:
            self.accept(admin, ack)

    def offer(self, queue: Queue, item: Item) -> None:
        """Everyone who peeks sees it, then the first who receives gets it (T-07, T-29)."""
        if item.letter.deadline is not None and item.letter.deadline <= self.now and not item.is_copy:
            return  # it ends before anybody can have it
        receiver = next((waiter for waiter in queue.waiters if waiter.is_receive), None)
        served = [waiter for waiter in queue.waiters if not waiter.is_receive or waiter is receiver]
        queue.waiters = [waiter for waiter in queue.waiters if waiter not in served]
        for waiter in served:
            waiter.found = item
            if waiter.cursor is not None:
                waiter.cursor.place = item.place
                waiter.cursor.state = "unread" if waiter.is_receive else "read"
        if receiver is not None:
            by = receiver.tx or (receiver.handle if receiver.two_phase else None)
            self.take(receiver.handle, item, by, allow_peek=receiver.allow_peek)

    # Going.

    def take(self, reader: Handle, item: Item, by: Tx | Handle | None, *, allow_peek: bool = False) -> None:
        queue = reader.queue
        if by is None:
            self.finish(queue, item, ACK_RECEIVE)
            return
        item.owner, item.reader, item.allow_peek, item.taken = by, reader, allow_peek, next(self.takings)
        if isinstance(by, Tx):
            by.operations.append(Operation("receive", queue, item.letter, item))

    def finish(self, queue: Queue, item: Item, reason: int) -> None:
        if item in queue.items:
            queue.items.remove(item)
        item.owner = None
        self.drop_empty_subqueue(queue)
        letter = item.letter
        if reason != ACK_RECEIVE:
            self.ledger.append((queue.name, letter.name, reason))
        if item.is_copy:
            return  # its sender was told when the message itself ended
        if reason != ACK_RECEIVE:
            self.tell_failure(queue, item, reason)
            return
        if letter.acks & POS_RECEIVE:
            self.acknowledge(letter, ACK_RECEIVE)
        if letter.keep_copy and letter.transactional:
            self.file(self.queues[JOURNAL], item)
        root = self.queues.get(queue.root)
        if root is not None and root.journaling:
            self.file(self.queues[f"{root.name};JOURNAL"], item)

    def tell_failure(self, queue: Queue, item: Item, reason: int) -> None:
        letter = item.letter
        if letter.acks & (NEG_RECEIVE if reason & 0x4000 else NEG_ARRIVAL):
            self.acknowledge(letter, reason)
        had_arrived = reason in {Q_DELETED, Q_PURGED, REJECTED}
        if letter.keep_dead and (letter.transactional or not had_arrived):
            own = self.queues.get(letter.dead_letter_queue or "")
            system = self.queues[DEADXACT if letter.transactional else DEADLETTER]
            fits = own is not None and own is not queue and own.transactional == letter.transactional
            self.file(own if own is not None and fits else system, item)

    def give_back(self, queue: Queue, item: Item) -> None:
        item.owner, item.taken = None, -1
        if item.doom is not None:
            self.finish(queue, item, item.doom)
        else:
            item.aborts += 1
            self.offer(queue, item)

    def stop_waiting(self, waiter: Waiter, error: str) -> None:
        queue = waiter.handle.queue
        queue.waiters.remove(waiter)
        waiter.error = error
        if waiter.cursor is not None:
            if waiter.is_receive:  # behind what is there now (T-05)
                waiter.cursor.place = max([waiter.cursor.place, *(item.place for item in queue.items)])
            waiter.cursor.state = "unread"

    # Time and restarts.

    def pass_time(self, now: float) -> None:
        self.now = now
        for queue in self.queues.values():
            for waiter in [w for w in queue.waiters if w.deadline is not None and w.deadline <= now]:
                self.stop_waiting(waiter, "IoTimeoutError")
        due = [
            (item.letter.recoverable, item.letter.deadline, number, item.place, queue, item)
            for number, queue in enumerate(self.queues.values())
            for item in queue.items
            if item.letter.deadline is not None and item.letter.deadline <= now and not item.is_copy
        ]
        # Those of one moment in an order of ours, by which their acknowledgements come: express ones first.
        for *_, queue, item in sorted(due, key=lambda each: each[:4]):
            if item.owner is None:
                self.finish(queue, item, RECEIVE_TIMEOUT)
            else:
                item.doom = item.doom or RECEIVE_TIMEOUT  # when it is given back (T-04)

    def restart(self) -> None:
        """Express messages, handles, waits and unprepared transactions are gone with their locks (T-24)."""
        for tx in [tx for tx in self.transactions if tx.state == "active"]:
            tx.state = "ended"
            for operation in tx.operations:
                self.reserve(operation, -1)
        for queue in list(self.queues.values()):
            queue.items = [item for item in queue.items if item.letter.recoverable]
            queue.waiters, queue.handles = [], []
            for item in queue.items:
                item.reader, item.allow_peek = None, False
                if not isinstance(item.owner, Tx) or item.owner.state == "ended":
                    item.owner, item.taken = None, -1
            self.drop_empty_subqueue(queue)
        for queue in list(self.queues.values()):
            for item in [item for item in queue.items if item.owner is None and item.doom == Q_PURGED]:
                self.finish(queue, item, Q_PURGED)
        self.pass_time(self.now)

    def reserve(self, operation: Operation, sign: int) -> None:
        if operation.kind == "send":
            operation.queue.pending += sign * operation.letter.size
        elif operation.target is not None:
            operation.target.coming += sign

    def drop_empty_subqueue(self, queue: Queue) -> None:
        in_use = queue.items or queue.handles or queue.coming or queue.claims or queue.is_deleted
        if queue.is_subqueue and not in_use:
            queue.is_deleted = True
            del self.queues[queue.name]
