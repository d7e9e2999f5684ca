"""What an application may call, on the reference model: the same names as on `EngineWorld`."""

from dataclasses import dataclass, replace

from .reference import (
    ACK_RECEIVE,
    BAD_DST_Q,
    EXCEED_QUOTA,
    NOT_TRANSACTIONAL_MSG,
    NOT_TRANSACTIONAL_Q,
    Q_DELETED,
    Q_PURGED,
    REJECTED,
    START,
    Cursor,
    Handle,
    Item,
    Letter,
    Model,
    Operation,
    Place,
    Queue,
    Refused,
    Tx,
    Waiter,
)

# Which access of a handle allows what.
JOURNALS = 1 << 31
_ALLOWED = {"receive": {"receive", "peek"}, "peek": {"peek"}, "send": {"send"}, "move": {"move"}}


@dataclass(frozen=True)
class How:
    """How a read takes its message, and how long it waits for one."""

    timeout: float | None = 0
    tx: Tx | None = None
    two_phase: bool = False
    allow_peek: bool = False

    def owner(self, handle: Handle) -> Tx | Handle | None:
        return self.tx or (handle if self.two_phase else None)


class ReferenceModel(Model):
    # Queues and handles.

    def create_queue(
        self,
        name: str,
        *,
        transactional: bool,
        journaling: bool,
        quota: float = float("inf"),
        journal_quota: float = float("inf"),
    ) -> None:
        if name in self.queues:
            raise Refused("QueueExistsError")
        number = next(self.numbers)
        self.queues[name] = Queue(name, transactional, journaling, quota, number=number)
        self.queues[f"{name};JOURNAL"] = Queue(
            f"{name};JOURNAL", transactional, quota=journal_quota, number=JOURNALS + number
        )

    def delete_queue(self, name: str) -> None:
        if name not in self.queues:
            raise Refused("QueueNotFoundError")
        in_doubt = [op for tx in self.transactions if tx.state == "prepared" for op in tx.operations]
        if any(operation.queue.root == name and not operation.queue.is_deleted for operation in in_doubt):
            raise Refused("IllegalOperationError")
        parts = [queue for queue in self.queues.values() if queue.root == name]
        for queue in parts:  # first, so that nothing that comes of it goes back there
            queue.is_deleted = True
            del self.queues[queue.name]
        for queue in sorted(parts, key=lambda queue: queue.name == name):  # the queue itself is last
            for waiter in list(queue.waiters):
                self.stop_waiting(waiter, "QueueDeletedError")
            items, queue.items = queue.items, []
            for item in sorted(items, key=lambda item: (item.owner is None, item.taken)):
                self.finish(queue, item, Q_DELETED)
            self.end_claims(queue)

    def open(self, name: str, access: str, *, deny: bool = False) -> Handle:
        queue = self.queues.get(name)
        if access == "send" and ";" in name:
            raise Refused("UnsupportedFormatNameOperationError")
        if queue is None and ";" in name and name.partition(";")[0] in self.queues:
            root = self.queues[name.partition(";")[0]]
            queue = self.queues[name] = Queue(name, root.transactional, number=next(self.numbers))
        if queue is None:
            raise Refused("QueueNotFoundError")
        for other in queue.handles:
            receives, wants = other.access in {"receive", "move"}, access in {"receive", "move"}
            if (other.deny and (wants or (receives and deny))) or (receives and not other.deny and deny):
                raise Refused("SharingViolationError")
        handle = Handle(queue, access, deny)
        queue.handles.append(handle)
        return handle

    def close(self, handle: Handle) -> None:
        if not handle.is_open:
            return
        handle.is_open = False
        queue = handle.queue
        for waiter in [waiter for waiter in queue.waiters if waiter.handle is handle]:
            self.stop_waiting(waiter, "OperationCancelledError")
        for item in [item for item in queue.items if item.owner is handle]:
            self.give_back(queue, item)
        queue.handles.remove(handle)
        self.drop_empty_subqueue(queue)

    def queue_for(self, handle: Handle, needed: str) -> Queue:
        if not handle.is_open:
            raise Refused("InvalidHandleError")
        if needed not in _ALLOWED[handle.access]:
            raise Refused("AccessDeniedError")
        if handle.queue.is_deleted:
            raise Refused("QueueNotAvailableError")
        return handle.queue

    # Sending, moving, purging.

    def send(self, handle: Handle, letter: Letter, tx: Tx | None) -> None:
        queue = self.queue_for(handle, "send")
        if tx is not None and tx.state != "active":
            raise Refused("TransactionSequenceError")
        if queue.transactional != (tx is not None):
            misfit = NOT_TRANSACTIONAL_MSG if queue.transactional else NOT_TRANSACTIONAL_Q
            self.ledger.append((queue.name, letter.name, misfit))
            raise Refused("TransactionUsageError")
        if queue.used + letter.size > queue.quota:
            self.ledger.append((queue.name, letter.name, EXCEED_QUOTA))
            raise Refused("InsufficientResourcesError")
        if tx is None:
            self.accept(queue, letter)
        else:
            tx.operations.append(Operation("send", queue, letter))
            self.reserve(tx.operations[-1], 1)

    def move(self, handle: Handle, item: Item | None, target: Handle, tx: Tx | None) -> None:
        queue, goal = self.queue_for(handle, "receive"), self.queue_for(target, "move")
        if queue is goal or queue.root != goal.root or queue.keeps_messages or goal.keeps_messages:
            raise Refused("UnsupportedOperationError")
        check_transaction(queue, tx)
        if item is None or item not in queue.items or item.owner is not None:
            raise Refused("MessageNotFoundError")
        if tx is None:
            self._move(queue, item, goal)
            return
        item.owner, item.reader, item.allow_peek, item.taken = tx, handle, False, next(self.takings)
        tx.operations.append(Operation("move", queue, item.letter, item, goal))
        self.reserve(tx.operations[-1], 1)

    def _move(self, queue: Queue, item: Item, goal: Queue) -> None:
        """A new place in the target; neither acknowledgement nor journal copy (T-09)."""
        if item in queue.items:
            queue.items.remove(item)
            self.drop_empty_subqueue(queue)
        moved = self.insert(goal, item.letter, item)
        moved.moves += 1
        moved.arrived = item.arrived
        self.offer(goal, moved)

    def purge(self, handle: Handle) -> int:
        queue = self.queue_for(handle, "receive")
        items = list(queue.items)
        if any(item.owner is None or item.doom is None for item in items):
            queue.epoch += 1
        for item in items:
            if item.owner is None:
                self.finish(queue, item, Q_PURGED)
            else:
                item.doom = item.doom or Q_PURGED  # when it is given back (T-22)
        return len(items) - len([item for item in items if item.owner is not None])

    # Reading.

    def receive(self, handle: Handle, how: How, cursor: Cursor | None = None) -> Item | Waiter:
        queue = self.queue_for(handle, "receive")
        _check_cursor(handle, cursor)
        check_transaction(queue, how.tx)
        _check_not_waiting(cursor)
        must_wait = how.timeout is None or how.timeout > 0
        if cursor is not None and cursor.state == "read":
            found: Item | None = _current(cursor, peek=False)
            cursor.state = "unread"
        else:
            found = queue.first(cursor.place if cursor is not None else START)
        if found is not None:
            if cursor is not None:
                cursor.place = found.place
            self.take(handle, found, how.owner(handle), allow_peek=how.allow_peek)
            return found
        if not must_wait:
            raise Refused("IoTimeoutError" if cursor is None else "MessageNotFoundError")  # T-28
        if cursor is not None:
            cursor.state = "wait receive"
        return self._wait(
            handle, Waiter(handle, True, None, cursor, how.tx, how.two_phase, how.allow_peek), how
        )

    def peek(
        self, handle: Handle, how: How, cursor: Cursor | None = None, *, following: bool = False
    ) -> Item | Waiter:
        queue = self.queue_for(handle, "peek")
        _check_cursor(handle, cursor)
        _check_not_waiting(cursor)
        if following and cursor is not None and cursor.state == "unread":
            raise Refused("IllegalCursorActionError")
        if cursor is not None and cursor.state == "read" and not following:
            return _current(cursor, peek=True)
        found = queue.first(cursor.place if cursor is not None else START, peek=True)
        if cursor is not None:
            cursor.state = "read" if found is not None else "unread"
            cursor.place = found.place if found is not None else cursor.place
        if found is not None:
            return found
        if how.timeout is not None and how.timeout <= 0:
            raise Refused("IoTimeoutError")
        if cursor is not None:
            cursor.state = "wait peek"
        return self._wait(handle, Waiter(handle, False, None, cursor), how)

    def _wait(self, handle: Handle, waiter: Waiter, how: How) -> Waiter:
        waiter.deadline = None if how.timeout is None else self.now + how.timeout
        handle.queue.waiters.append(waiter)
        return waiter

    def read_at(self, handle: Handle, place: Place, seek: str, *, peek: bool, how: How) -> Item:
        queue = self.queue_for(handle, "peek" if peek else "receive")
        if peek and how.tx is not None:
            raise Refused("InvalidParameterError")
        check_transaction(queue, how.tx)
        found = _seek(queue, place, seek, peek=peek)
        if found is None:
            raise Refused("MessageNotFoundError")
        if not peek:
            self.take(handle, found, how.owner(handle), allow_peek=how.allow_peek)
        return found

    def end_receive(self, handle: Handle, item: Item, ending: str) -> None:
        """The second phase: "ack" keeps the message, "nack" gives it back, "reject" ends it."""
        queue = self.queue_for(handle, "receive")
        if item not in queue.items or item.owner is None or item.reader is not handle:
            raise Refused("TransactionSequenceError")
        if isinstance(item.owner, Tx):
            self._leave_transaction(queue, item, item.owner, ending)
        elif ending == "reject":
            self.finish(queue, item, REJECTED)
        elif ending == "ack" and item.doom != Q_PURGED:
            self.finish(queue, item, ACK_RECEIVE)
        else:
            self.give_back(queue, item)

    def _leave_transaction(self, queue: Queue, item: Item, tx: Tx, ending: str) -> None:
        """The transaction decides of what stays in it (DMPR-209); what is not kept leaves it (T-13)."""
        if ending == "ack":
            return
        if tx.state != "active":
            raise Refused("TransactionSequenceError")
        operation = next(each for each in tx.operations if each.item is item)
        if operation.kind == "move":
            raise Refused("TransactionSequenceError")
        tx.operations.remove(operation)
        if ending == "reject":
            self.finish(queue, item, REJECTED)
        else:
            self.give_back(queue, item)

    def cancel(self, waiter: Waiter) -> bool:
        if not waiter.is_done:
            self.queue_for(waiter.handle, "peek")
            self.stop_waiting(waiter, "OperationCancelledError")
            return True
        return False

    def open_cursor(self, handle: Handle) -> Cursor:
        self.queue_for(handle, "peek")
        return Cursor(handle)

    def close_cursor(self, cursor: Cursor) -> None:
        cursor.is_open = False
        for waiter in [waiter for waiter in cursor.handle.queue.waiters if waiter.cursor is cursor]:
            self.stop_waiting(waiter, "OperationCancelledError")

    # Transactions.

    def begin(self) -> Tx:
        self.transactions.append(Tx(next(self.numbers)))
        return self.transactions[-1]

    def prepare(self, tx: Tx) -> None:
        if tx.state == "ended":
            raise Refused("TransactionSequenceError")
        queues = [queue for each in tx.operations for queue in (each.queue, each.target) if queue is not None]
        if tx.state == "active" and any(queue.is_deleted for queue in queues):
            raise Refused("QueueDeletedError")  # both outcomes could no longer be promised
        tx.state = "prepared"
        self._end_waits(tx)

    def commit(self, tx: Tx) -> None:
        self._give_places(tx)
        for operation in self._end(tx):
            self.reserve(operation, -1)
            queue, item = operation.queue, operation.item
            if item is None:
                if queue.is_deleted:
                    self.ledger.append((queue.name, operation.letter.name, BAD_DST_Q))
                    self.tell_failure(queue, Item(operation.letter, START), BAD_DST_Q)
                else:
                    self.accept(queue, operation.letter)
            elif not queue.is_deleted and operation.target is None:
                self.finish(queue, item, ACK_RECEIVE)
            elif not queue.is_deleted and operation.target is not None:
                self._move(queue, item, operation.target)

    def _give_places(self, tx: Tx) -> None:
        """All messages to one queue are one stream, and those of a transaction stand together in it."""
        sends = [each for each in tx.operations if each.kind == "send"]
        for operation in sends:
            queue = operation.queue
            same = [each for each in sends if each.queue is queue]
            operation.letter = replace(
                operation.letter,
                tx=tx.number,
                stream=0 if queue.is_deleted else queue.number,
                is_first=not queue.is_deleted and operation is same[0],
                is_last=not queue.is_deleted and operation is same[-1],
            )

    def end_claims(self, queue: Queue) -> None:
        """`ClaimingModel` has them."""

    def abort(self, tx: Tx) -> None:
        for operation in self._end(tx):
            self.reserve(operation, -1)
            if operation.item is not None and not operation.queue.is_deleted:
                self.give_back(operation.queue, operation.item)
            if operation.target is not None:
                self.drop_empty_subqueue(operation.target)

    def _end(self, tx: Tx) -> list[Operation]:
        if tx.state == "ended":
            raise Refused("TransactionSequenceError")
        tx.state = "ended"
        self._end_waits(tx)
        return tx.operations

    def _end_waits(self, tx: Tx) -> None:
        for queue in self.queues.values():
            for waiter in [waiter for waiter in queue.waiters if waiter.tx is tx]:
                self.stop_waiting(waiter, "TransactionSequenceError")


def check_transaction(queue: Queue, tx: Tx | None) -> None:
    if tx is None:
        return
    if tx.state != "active":
        raise Refused("TransactionSequenceError")
    if not queue.transactional:
        raise Refused("TransactionUsageError")


def _check_cursor(handle: Handle, cursor: Cursor | None) -> None:
    if cursor is not None and (not cursor.is_open or cursor.handle is not handle):
        raise Refused("InvalidHandleError")


def _check_not_waiting(cursor: Cursor | None) -> None:
    if cursor is not None and cursor.state.startswith("wait"):
        raise Refused("IllegalCursorActionError")


def _current(cursor: Cursor, *, peek: bool) -> Item:
    for item in cursor.handle.queue.items:
        if item.place == cursor.place and item.is_visible(peek=peek):
            return item
    raise Refused("MessageAlreadyReceivedError")


def _seek(queue: Queue, place: Place, seek: str, *, peek: bool) -> Item | None:
    """Seek Available Message Position With Id; first and last need no id (T-03)."""
    if seek in {"first", "last"}:
        return queue.first(peek=peek) if seek == "first" else queue.last(peek=peek)
    item = next((item for item in queue.items if item.place == place), None)
    if item is None:
        return None
    if seek in {"next", "previous"}:
        return queue.first(place, peek=peek) if seek == "next" else queue.last(place, peek=peek)
    if item.is_visible(peek=peek):
        return item
    if peek and item.doom is None:
        raise Refused("TransactionUsageError")
    return None
