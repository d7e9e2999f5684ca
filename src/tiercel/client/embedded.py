r"""The embedded queue manager: the whole engine inside one program, and the fixture that tests use.

    with tiercel.open("data") as qm:
        orders = qm.create_queue(r".\private$\orders", transactional=True)
        with qm.transaction() as tx:
            orders.send(tiercel.Message(b"..."), transaction=tx)
        message = orders.receive(timeout=0)

Threads may share it; a read that waits lets the others work.
"""

import os
import time
import weakref
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from threading import Condition
from types import TracebackType
from typing import Any, Self
from uuid import UUID

from tiercel.client.consumer import Consumer, Place, release
from tiercel.client.translate import check_exists, check_number, check_text, format_name_of, message_of
from tiercel.engine import cursor as engine_cursor
from tiercel.engine import transaction as engine_transaction
from tiercel.engine.attributes import SETTABLE, SETTABLE_OF_MANAGER
from tiercel.engine.claims import ClaimStatus
from tiercel.engine.discards import Discard
from tiercel.engine.handles import Found, OpenQueue, Waiter
from tiercel.engine.queue_state import QueueState
from tiercel.model.codes import MessageSeekAction, QueueAccess
from tiercel.model.errors import (
    IllegalPropertyVariantTypeError,
    InvalidHandleError,
    InvalidParameterError,
    IoTimeoutError,
    MessageNotFoundError,
    MqError,
    QueueExistsError,
)
from tiercel.model.format_name import DirectFormatName, DirectProtocol, FormatName
from tiercel.model.identifiers import MessageId
from tiercel.model.message import Message
from tiercel.model.path_name import PathName, SystemQueue
from tiercel.model.queue_name import parse_new_queue_name
from tiercel.server.driver import Driver
from tiercel.server.node import Clock
from tiercel.store import DEFAULT_MAX_BYTES

# By names of their own: naming a member of an enum costs a call, and these come with every message.
_SEND, _RECEIVE, _PEEK = QueueAccess.SEND, QueueAccess.RECEIVE, QueueAccess.PEEK
_CURRENT = MessageSeekAction.SEEK_CURRENT
_NUMBER = (int, float)
_LIFETIME_S = 1e10  # beyond three hundred years nobody waits

Until = Callable[[Message], object]


def open(  # noqa: A001  # tiercel.open is what users will look for, as with gzip.open and shelve.open
    directory: str | os.PathLike[str],
    *,
    computer_name: str | None = None,
    max_bytes: int = DEFAULT_MAX_BYTES,
    clock: Clock = time.time,
) -> "QueueManager":
    """Opens the queue manager whose data is in `directory`, and makes it on first use."""
    return QueueManager(directory, computer_name=computer_name, max_bytes=max_bytes, clock=clock)


class QueueManager:
    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        computer_name: str | None = None,
        max_bytes: int = DEFAULT_MAX_BYTES,
        clock: Clock = time.time,
    ) -> None:
        self._driver = self._open(directory, computer_name=computer_name, max_bytes=max_bytes, clock=clock)
        self._woken = Condition(self._driver.lock)

    def _open(self, directory: str | os.PathLike[str], **options: Any) -> Driver:
        return Driver(
            directory, completed=self._completed, deadline_changed=self._deadline_changed, **options
        )

    def __repr__(self) -> str:
        return f"<QueueManager {self._driver.engine.queue_manager.computer_name}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends every wait and lets go of the store; express messages are gone with it."""
        with self._driver.lock:
            self._driver.close()
            self._woken.notify_all()

    # Queues.

    def create_queue(
        self, path_name: str, *, transactional: bool = False, exist_ok: bool = False, **properties: Any
    ) -> "Queue":
        r"""Creates a queue, such as `orders`, which is short for `.\private$\orders`.

        The properties are those that `set_properties` takes. With `exist_ok`, an existing queue of that name
        is returned as it is.
        """
        path = parse_new_queue_name(check_text("path name", path_name))
        engine, owner = self._driver.engine, self._driver.owner
        try:
            state = self._driver.run(
                lambda: engine.queues.create(path, owner, transactional=transactional, **properties)
            )
        except QueueExistsError:
            if not exist_ok:
                raise
            return self.queue(path_name)
        return Queue(self, engine.queues.format_name(state))

    def delete_queue(self, path_name: str) -> None:
        self.queue(path_name).delete()

    def queue(self, name: str | FormatName) -> "Queue":
        r"""The queue of a name: `orders`, `.\private$\orders`, `DIRECT=OS:host\private$\orders`.

        A queue of another computer can be sent to.
        """
        parsed = format_name_of(name)
        self._driver.run(lambda: check_exists(self._driver, parsed))
        return Queue(self, parsed)

    def queues(self) -> "list[Queue]":
        """The queues that applications have made, and those that messages wait in to be sent."""
        engine = self._driver.engine
        states = self._driver.run(
            lambda: [state for state in engine.queues.all() if engine.queues.is_visible(state)]
        )
        return [Queue(self, engine.queues.format_name(state)) for state in states]

    @property
    def journal(self) -> "Queue":
        """Copies of messages that were sent with positive journaling and have arrived."""
        return self._system(SystemQueue.JOURNAL)

    @property
    def dead_letters(self) -> "Queue":
        return self._system(SystemQueue.DEADLETTER)

    @property
    def transactional_dead_letters(self) -> "Queue":
        return self._system(SystemQueue.DEADXACT)

    def _system(self, queue: SystemQueue) -> "Queue":
        return self.queue(rf".\system$;{queue}")

    @property
    def properties(self) -> dict[str, object]:
        """The attributes of the queue manager that `set_properties` can change, as they are now."""
        manager = self._driver.engine.queue_manager
        return {name: getattr(manager, name) for name in SETTABLE_OF_MANAGER}

    def set_properties(self, **properties: Any) -> None:
        """Changes the quotas of the whole queue manager and the like, for good."""
        self._driver.run(lambda: self._driver.engine.administration.set_properties(**properties))

    def discards(self) -> list[Discard]:
        """Every message that ended without being received, oldest first: nothing is dropped silently."""
        return self._driver.run(lambda: list(self._driver.engine.ledger.lines()))

    # Consumers.

    def consumer(self, name: str) -> Consumer:
        """Attaches a consumer, and makes it on first use; whoever had it before is refused from now on."""
        return Consumer(self._driver, name)

    def claims(self) -> list[ClaimStatus]:
        """What each consumer holds of each queue."""
        return self._driver.run(self._driver.engine.claims.all)

    def release_claims(self, consumer: str, queue: "Place | None" = None) -> None:
        """Gives back what a consumer holds that nobody runs any more; if somebody does, it is refused."""
        release(self._driver, consumer, queue)

    def forget_consumer(self, name: str) -> None:
        """Ends a consumer that holds nothing; under the same name, numbers would begin anew."""
        self._driver.run(lambda: self._driver.engine.claims.forget(name))

    # Transactions and batches.

    @contextmanager
    def transaction(self) -> "Iterator[Transaction]":
        """Commits when the block ends, aborts when it raises."""
        transaction = self.begin_transaction()
        try:
            yield transaction
        except BaseException:
            with suppress(MqError):  # the queue manager may be closed already, which aborts as well
                if transaction.is_active:
                    transaction.abort()
            raise
        if not transaction.is_active:
            return
        try:
            transaction.commit()
        except MqError:  # refused, for want of room say: what it holds must be free again
            with suppress(MqError):
                transaction.abort()
            raise

    def begin_transaction(self) -> "Transaction":
        begun = self._driver.run(self._driver.engine.transactions.begin)
        return Transaction(self, begun)

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Makes everything in the block durable with one write: many sends for the price of one.

        What was done before an error in the block stays done; for all or nothing there is `transaction`.
        """
        with self._driver.batch():
            yield

    # For queues, cursors and transactions.

    def _completed(self, _waiter: Waiter) -> None:
        self._woken.notify_all()

    def _deadline_changed(self) -> None:
        self._woken.notify_all()

    @property
    def driver(self) -> Driver:
        return self._driver

    def wait(self, waiter: Waiter) -> Found:
        """Blocks until a wait has ended."""
        with self._driver.lock:
            self._driver.refuse_to_wait_in_batch(waiter)
            try:
                while not waiter.is_done:
                    self._woken.wait(self._driver.seconds_to_deadline())
                    if self._driver.is_open:
                        self._driver.run(lambda: None)  # lets the time pass
            except BaseException:  # Ctrl-C, or a signal handler that raises
                self._driver.withdraw(waiter)
                raise
            return waiter.result()


class Transaction:
    """Sends, receives and moves that happen all together or not at all."""

    def __init__(self, manager: QueueManager, transaction: engine_transaction.Transaction) -> None:
        self._manager = manager
        self._transaction = transaction
        # A transaction that is forgotten must not hold its messages for ever.
        weakref.finalize(self, manager.driver.abort_later, transaction).atexit = False

    def __repr__(self) -> str:
        return f"<Transaction {self.id}, {self._transaction.state.value}>"

    @property
    def id(self) -> UUID:
        return self._transaction.id

    @property
    def is_active(self) -> bool:
        return self._transaction.state is engine_transaction.TransactionState.ACTIVE

    def commit(self) -> None:
        driver = self._manager.driver
        driver.run(lambda: driver.engine.transactions.commit(self._transaction.id))

    def abort(self) -> None:
        driver = self._manager.driver
        driver.run(lambda: driver.engine.transactions.abort(self._transaction.id))

    def of(self, manager: QueueManager) -> engine_transaction.Transaction:
        if self._manager is not manager:
            problem = "it belongs to another queue manager"
            raise InvalidHandleError("transaction", problem=problem, fix="begin one where the queue is")
        return self._transaction


class Queue:
    """A queue, opened when it is first used; `close` ends what was opened."""

    def __init__(self, manager: QueueManager, name: FormatName) -> None:
        self._manager = manager
        self.driver = manager.driver
        self.format_name = name
        self._opened: dict[QueueAccess, OpenQueue] = {}
        # A queue that is forgotten without being closed must not keep its handles.
        weakref.finalize(self, self.driver.close_later, self._opened).atexit = False

    def __repr__(self) -> str:
        return f"<Queue {self.format_name}>"

    # What it is.

    @property
    def path_name(self) -> str:
        """Where the queue is; a name that only another computer can read stays as it is."""
        name, engine = self.format_name, self.driver.engine
        if isinstance(name, DirectFormatName):
            return str(name.path)
        state = engine.queues.find(name)
        return str(name) if state is None or state.queue.pathname is None else str(state.queue.pathname)

    @property
    def count(self) -> int:
        return self.driver.run(self._counts)[0]

    @property
    def size_bytes(self) -> int:
        return self.driver.run(self._counts)[1]

    @property
    def label(self) -> str:
        return self._state().queue.label

    @property
    def transactional(self) -> bool:
        return self._state().queue.transactional

    @property
    def properties(self) -> dict[str, object]:
        """The attributes that `set_properties` can change, as they are now."""
        queue = self._state().queue
        return {name: getattr(queue, name) for name in SETTABLE}

    def set_properties(self, **properties: Any) -> None:
        """Changes the label, quotas, journaling and the like, for good."""
        engine, owner = self.driver.engine, self.driver.token
        self.driver.run(lambda: engine.queues.set_properties(self._state(), owner, **properties))

    @property
    def journal(self) -> "Queue":
        """Copies of the messages that were received from this queue while `journaling` was on."""
        return self._manager.queue(f"{self.path_name};JOURNAL")

    def subqueue(self, name: str) -> "Queue":
        """A part of the queue that messages are moved to; it comes and goes with them."""
        path = replace(PathName.parse(self.path_name), subqueue=check_text("name of the subqueue", name))
        return Queue(self._manager, DirectFormatName(DirectProtocol.OS, path))

    def delete(self) -> None:
        engine, token = self.driver.engine, self.driver.token
        self.driver.run(lambda: engine.queues.delete(self._state(), token))

    def close(self) -> None:
        """Ends what this object has opened: waits are told, messages that it holds go back."""
        self.driver.close_later(self._opened)
        if self.driver.is_open:
            self.driver.run(lambda: None)

    # Messages.

    def send(self, message: Message | bytes, *, transaction: Transaction | None = None) -> MessageId:
        """Sends a message; on return it is safe if it is recoverable, and has its id and time."""
        sent, engine = _message(message), self.driver.engine
        within = None if transaction is None else self.within(transaction)
        return self.driver.run(lambda: engine.sending.send(self.opened(_SEND), sent, within))

    def send_many(
        self, messages: Iterable[Message | bytes], *, transaction: Transaction | None = None
    ) -> list[MessageId]:
        """Sends messages in their order, all of them or none, and with one write to the disk."""
        sent = [_message(each) for each in messages]
        engine, within = self.driver.engine, self.within(transaction)
        return self.driver.run(lambda: engine.sending.send_many(self.opened(_SEND), sent, within))

    def receive(
        self,
        timeout: float | None = None,
        *,
        lookup_id: int | None = None,
        seek: MessageSeekAction = _CURRENT,
        transaction: Transaction | None = None,
    ) -> Message:
        """Takes the first message, and waits `timeout` seconds for one (None: for ever).

        With a lookup id it takes that message, or with `seek` the one before or after it, and never waits.
        """
        within = None if transaction is None else self.within(transaction)
        if seeks(lookup_id, seek):
            return self._read_at(lookup_id, seek, peek=False, transaction=within)
        seconds = check_timeout(timeout)
        return self.take(self._to_receive(), seconds, within=within)

    def receive_many(
        self, limit: int, timeout: float | None = None, *, transaction: Transaction | None = None
    ) -> list[Message]:
        """Takes the first messages, `limit` at the most, and with one write to the disk.

        When there is none it waits `timeout` seconds for the first (None: for ever); an empty list says that
        none came.
        """
        seconds, opened, reading = check_timeout(timeout), self._to_receive(), self.driver.engine.reading
        end = None if seconds is None else time.monotonic() + seconds
        while not (messages := self.receive_first(limit, transaction)):
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                break
            with suppress(IoTimeoutError):  # by peeking: who is interrupted meanwhile has taken nothing
                self.read(partial(reading.peek, opened, left))
        return messages

    def receive_first(self, limit: int, transaction: Transaction | None) -> list[Message]:
        """What `receive_many` finds at once."""
        if (count := check_number("limit", limit)) < 1:
            raise InvalidParameterError("limit", present=limit, limit="1 or more", fix="pass a number")
        within, opened, engine = self.within(transaction), self._to_receive(), self.driver.engine
        found = self.driver.run(lambda: engine.reading.receive_many(opened, count, within))
        return [message_of(each) for each in found]

    def peek(
        self,
        timeout: float | None = None,
        *,
        lookup_id: int | None = None,
        seek: MessageSeekAction = _CURRENT,
    ) -> Message:
        """Looks at the first message, or that of a lookup id, and leaves it where it is."""
        if seeks(lookup_id, seek):
            return self._read_at(lookup_id, seek, peek=True)
        reading, seconds = self.driver.engine.reading, check_timeout(timeout)
        return self.read(lambda: reading.peek(self.opened(_PEEK), seconds))

    @contextmanager
    def receiving(self, timeout: float | None = None) -> Iterator[Message]:
        """A message to work on: received when the block ends well, given back when it raises."""
        reading, seconds = self.driver.engine.reading, check_timeout(timeout)
        opened = self._to_receive()
        message = self.read(lambda: reading.receive(opened, seconds, two_phase=True))
        try:
            yield message
        except BaseException:
            with suppress(MqError):  # a queue that was closed or deleted has given it back already
                self.driver.run(lambda: reading.end_receive(opened, message.lookup_id, delete=False))
            raise
        self.driver.run(lambda: reading.keep(opened, message.lookup_id))

    def consume(
        self, timeout: float | None = None, *, until: Until | None = None
    ) -> Generator[Message, None, None]:
        """The messages one after the other, each received when the next one is asked for.

        When none comes for `timeout` seconds, or `until` says of one that it was the last, the loop ends.
        Who leaves it otherwise, by `break` or an error, has not received the message in hand: it goes back.
        """
        while True:
            try:
                with self.receiving(timeout) as message:
                    yield message
            except IoTimeoutError:
                return
            if until is not None and until(message):
                return

    def cursor(self) -> "Cursor":
        opened = self.driver.run(lambda: self.opened(QueueAccess.RECEIVE))
        return Cursor(self, opened, self.driver.run(lambda: self.driver.engine.opening.open_cursor(opened)))

    def move(
        self, message: Message | int, subqueue: str | None, *, transaction: Transaction | None = None
    ) -> None:
        """Moves a message, named by itself or by its lookup id, into a subqueue; None is the queue itself."""
        number = check_number("message", message.lookup_id if isinstance(message, Message) else message)
        path = PathName.parse(self.path_name).without_subqueue()
        whole = Queue(self._manager, DirectFormatName(DirectProtocol.OS, path))
        target = whole if subqueue is None else whole.subqueue(subqueue)
        within, engine = self.within(transaction), self.driver.engine

        def move() -> None:
            try:
                engine.moving.move(
                    self.opened(QueueAccess.RECEIVE), number, target.opened(QueueAccess.MOVE), within
                )
            finally:
                target.close()

        self.driver.run(move)

    def purge(self) -> int:
        """Ends every message in the queue, each with a line in the discards; how many there were."""
        return self.driver.run(lambda: self.driver.engine.purging.purge(self.opened(QueueAccess.RECEIVE)))

    # For cursors and for asyncio.

    def opened(self, access: QueueAccess) -> OpenQueue:
        opened = self._opened.get(access)
        if opened is None or not opened.is_open:
            engine, token = self.driver.engine, self.driver.token
            opened = self._opened[access] = engine.opening.open(self.format_name, access, token=token)
        return opened

    def _to_receive(self) -> OpenQueue:
        opened = self._opened.get(_RECEIVE)
        if opened is None or not opened.is_open:
            opened = self.driver.run(lambda: self.opened(_RECEIVE))
        return opened

    def _state(self) -> QueueState:
        return self.driver.run(lambda: self.driver.engine.queues.get(self.format_name))

    def _counts(self) -> tuple[int, int]:
        name, engine = self.format_name, self.driver.engine
        is_subqueue = isinstance(name, DirectFormatName) and name.subqueue is not None
        if engine.queues.find(name) is None and (is_subqueue or not engine.queues.is_local(name)):
            return 0, 0  # nothing was moved there yet, or nothing waits for the way there
        state = self._state()
        return state.count, state.size_bytes

    def within(self, transaction: Transaction | None) -> engine_transaction.Transaction | None:
        if transaction is None:
            return None
        if not isinstance(transaction, Transaction):
            present = type(transaction).__name__
            raise InvalidParameterError("transaction", present=present, fix="pass what qm.transaction() gave")
        return transaction.of(self._manager)

    def read(self, command: Callable[[], Found | Waiter]) -> Message:
        result = self.driver.run(command)
        return message_of(self._manager.wait(result) if isinstance(result, Waiter) else result)

    def take(
        self,
        opened: OpenQueue,
        seconds: float | None,
        *,
        cursor: engine_cursor.Cursor | None = None,
        within: engine_transaction.Transaction | None = None,
    ) -> Message:
        """Receives; a read that may wait is ended in a second step: who is interrupted loses no message."""
        reading, two_phase = self.driver.engine.reading, within is None and seconds != 0
        message = self.read(
            lambda: reading.receive(opened, seconds, cursor=cursor, transaction=within, two_phase=two_phase)
        )
        if two_phase:
            self.driver.run(lambda: reading.keep(opened, message.lookup_id))
        return message

    def _read_at(
        self,
        lookup_id: int | None,
        seek: MessageSeekAction,
        *,
        peek: bool,
        transaction: engine_transaction.Transaction | None = None,
    ) -> Message:
        access = QueueAccess.PEEK if peek else QueueAccess.RECEIVE
        read = self.driver.engine.reading.read_by_lookup_id
        number = check_number("lookup_id", 0 if lookup_id is None else lookup_id)
        return message_of(
            self.driver.run(
                lambda: read(self.opened(access), number, seek, peek=peek, transaction=transaction)
            )
        )


class Cursor:
    """A place in a queue that moves on by reading; iterating peeks at every message once."""

    def __init__(self, queue: Queue, opened: OpenQueue, cursor: engine_cursor.Cursor) -> None:
        self._queue = queue
        self._opened = opened
        self._cursor = cursor
        self._reading = queue.driver.engine.reading

    def peek(self, timeout: float | None = 0) -> Message:
        """The message under the cursor; at first, the first one."""
        seconds = check_timeout(timeout)
        return self._queue.read(lambda: self._reading.peek(self._opened, seconds, cursor=self._cursor))

    def peek_next(self, timeout: float | None = 0) -> Message:
        seconds = check_timeout(timeout)
        return self._queue.read(lambda: self._reading.peek_next(self._opened, seconds, self._cursor))

    def receive(self, timeout: float | None = 0, *, transaction: Transaction | None = None) -> Message:
        """Takes the message under the cursor, or the next one that is there."""
        seconds, within = check_timeout(timeout), self._queue.within(transaction)
        return self._queue.take(self._opened, seconds, cursor=self._cursor, within=within)

    def __iter__(self) -> Iterator[Message]:
        read = self.peek
        while True:
            try:
                message = read(0)
            except (IoTimeoutError, MessageNotFoundError):
                return
            yield message
            read = self.peek_next

    def close(self) -> None:
        driver = self._queue.driver
        if driver.is_open:
            driver.run(lambda: driver.engine.opening.close_cursor(self._opened, self._cursor))


def _message(message: object) -> Message:
    if isinstance(message, bytes):
        return Message(message)
    if not isinstance(message, Message):
        kind = type(message).__name__
        raise IllegalPropertyVariantTypeError("message", present=kind, limit="Message or bytes")
    return message


def seeks(lookup_id: int | None, seek: MessageSeekAction) -> bool:
    """Whether a read goes by lookup id; first and last need none."""
    if lookup_id is None and seek is _CURRENT:
        return False
    if not isinstance(seek, MessageSeekAction):
        kind = type(seek).__name__
        raise IllegalPropertyVariantTypeError("seek", present=kind, limit="MessageSeekAction")
    if lookup_id is not None or seek in {MessageSeekAction.SEEK_FIRST, MessageSeekAction.SEEK_LAST}:
        return True
    raise InvalidParameterError("seek", problem="it starts from a message", fix="pass its lookup_id")


def check_timeout(timeout: object) -> float | None:
    """The seconds to wait; None, and more than a lifetime, mean for ever."""
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, _NUMBER):
        kind = type(timeout).__name__
        raise IllegalPropertyVariantTypeError("timeout", present=kind, limit="seconds or None")
    if not timeout >= 0:
        raise InvalidParameterError(
            "timeout", present=timeout, limit="0 or more", fix="pass seconds, or None"
        )
    return float(timeout) if timeout < _LIFETIME_S else None
