"""The part of the embedded queue manager that is the same with and without `await`."""

import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Generic, Protocol, Self, TypeVar
from uuid import UUID

from tiercel.client.interfaces import Transaction
from tiercel.client.translate import (
    check_exists,
    check_text,
    check_timeout,
    format_name_of,
    message_of,
    peek_each,
)
from tiercel.engine import transaction as engine_transaction
from tiercel.engine.attributes import SETTABLE, SETTABLE_OF_MANAGER
from tiercel.engine.claims import ClaimStatus
from tiercel.engine.discards import Discard
from tiercel.engine.handles import Found, OpenQueue, Waiter
from tiercel.engine.queue_state import QueueState
from tiercel.model.errors import (
    InvalidHandleError,
    InvalidParameterError,
    MqError,
)
from tiercel.model.format_name import DirectFormatName, DirectProtocol, FormatName
from tiercel.model.message import Message
from tiercel.model.path_name import PathName, SystemQueue
from tiercel.server.driver import Driver

T = TypeVar("T")


class BaseRuntime(Protocol):
    """A queue manager in this program, and how its reads wait."""

    @property
    def driver(self) -> Driver: ...

    def block(self, waiter: Waiter) -> Found:
        """The end of a wait that blocks the thread; refused on an event loop."""
        ...


class Runtime(BaseRuntime, Protocol):
    """Reads wait in their threads."""

    def wait(self, waiter: Waiter) -> Found:
        """The end of a wait. When interrupted, a message that had come goes back."""
        ...

    def apart(self, work: Callable[[], T]) -> T:
        """The result of work that takes milliseconds and does not touch the engine."""
        ...

    def close(self) -> None: ...


class AsyncRuntime(BaseRuntime, Protocol):
    """Reads wait on an event loop."""

    @property
    def address(self) -> str | None:
        """Where other queue managers reach this one, as HOST:PORT."""

    @property
    def data_endpoint(self) -> str | None:
        """The address of the data endpoint, as http://HOST:PORT."""

    async def wait(self, waiter: Waiter) -> Found:
        """The end of a wait. When cancelled, a message that had come goes back."""
        ...

    async def apart(self, work: Callable[[], T]) -> T:
        """The result of work that takes milliseconds and does not touch the engine."""
        ...

    async def close(self) -> None: ...


class EmbeddedTransaction:
    """Sends, receives and moves that happen all together or not at all."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._transaction = driver.run(driver.engine.transactions.begin)
        # A transaction that is forgotten must not hold its messages for ever.
        weakref.finalize(self, driver.abort_later, self._transaction).atexit = False

    def __repr__(self) -> str:
        return f"<Transaction {self.id}, {self._transaction.state.value}>"

    @property
    def id(self) -> UUID:
        return self._transaction.id

    @property
    def is_active(self) -> bool:
        return self._transaction.state is engine_transaction.TransactionState.ACTIVE

    def commit(self) -> None:
        self._driver.run(lambda: self._driver.engine.transactions.commit(self.id))

    def abort(self) -> None:
        self._driver.run(lambda: self._driver.engine.transactions.abort(self.id))

    def of(self, driver: Driver) -> engine_transaction.Transaction:
        """The engine's transaction; refused when it belongs to another queue manager."""
        if self._driver is not driver:
            problem = "it belongs to another queue manager"
            raise InvalidHandleError("transaction", problem=problem, fix="begin one where the queue is")
        return self._transaction


def within(driver: Driver, transaction: object) -> engine_transaction.Transaction | None:
    """The engine's transaction of what a user has passed as `transaction`."""
    if transaction is None:
        return None
    if not isinstance(transaction, EmbeddedTransaction):
        present = type(transaction).__name__
        raise InvalidParameterError("transaction", present=present, fix="pass what qm.transaction() gave")
    return transaction.of(driver)


@contextmanager
def transaction_block(driver: Driver) -> Iterator[EmbeddedTransaction]:
    transaction = EmbeddedTransaction(driver)
    try:
        yield transaction
    except BaseException:
        with suppress(MqError):  # a queue manager that was closed meanwhile has aborted it
            if transaction.is_active:
                transaction.abort()
        raise
    if not transaction.is_active:
        return
    try:
        transaction.commit()
    except MqError:  # such as a full store: the messages that it holds must be free again
        with suppress(MqError):
            transaction.abort()
        raise


class QueueCore:
    def __init__(self, runtime: BaseRuntime, name: FormatName) -> None:
        self._runtime: BaseRuntime = runtime
        self.driver = runtime.driver
        self.format_name = name

    def __repr__(self) -> str:
        return f"<Queue {self.format_name}>"

    @property
    def path_name(self) -> str:
        """Where the queue is; a format name that only another computer can resolve stays as it is."""
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
        """The current values of the attributes that `set_properties` can change."""
        queue = self._state().queue
        return {name: getattr(queue, name) for name in SETTABLE}

    @property
    def journal(self) -> Self:
        """Copies of the messages that were received from this queue while `journaling` was on."""
        name = format_name_of(f"{self.path_name};JOURNAL")
        self.driver.run(lambda: check_exists(self.driver, name))
        return type(self)(self._runtime, name)

    def subqueue(self, name: str) -> Self:
        """A subqueue, which messages are moved to; it exists while it holds any."""
        path = replace(PathName.parse(self.path_name), subqueue=check_text("name of the subqueue", name))
        return type(self)(self._runtime, DirectFormatName(DirectProtocol.OS, path))

    def _state(self) -> QueueState:
        return self.driver.run(lambda: self.driver.engine.queues.get(self.format_name))

    def _counts(self) -> tuple[int, int]:
        name, engine = self.format_name, self.driver.engine
        is_subqueue = isinstance(name, DirectFormatName) and name.subqueue is not None
        if engine.queues.find(name) is None and (is_subqueue or not engine.queues.is_local(name)):
            return 0, 0  # nothing was moved there yet, or nothing waits to be sent there
        state = self._state()
        return state.count, state.size_bytes


class EmbeddedCursor:
    """A position in a queue that moves on by reading; iterating peeks at every message once."""

    def __init__(self, queue: QueueCore, runtime: BaseRuntime, opened: OpenQueue) -> None:
        self._queue = queue  # held, because a queue that is collected closes its handles
        self._runtime = runtime
        self._driver = runtime.driver
        self._reading = self._driver.engine.reading
        self._opened = opened
        self._cursor = self._driver.run(lambda: self._driver.engine.opening.open_cursor(opened))

    def peek(self, timeout: float | None = 0) -> Message:
        """The message at the cursor; at first, the first one."""
        seconds = check_timeout(timeout)
        return self._read(lambda: self._reading.peek(self._opened, seconds, cursor=self._cursor))

    def peek_next(self, timeout: float | None = 0) -> Message:
        seconds = check_timeout(timeout)
        return self._read(lambda: self._reading.peek_next(self._opened, seconds, self._cursor))

    def receive(self, timeout: float | None = 0, *, transaction: Transaction | None = None) -> Message:
        """Takes the message at the cursor, or the next one that is there."""
        seconds, inside = check_timeout(timeout), within(self._driver, transaction)
        two_phase = inside is None and seconds != 0  # so that a read which is interrupted loses no message
        message = self._read(
            lambda: self._reading.receive(
                self._opened, seconds, cursor=self._cursor, transaction=inside, two_phase=two_phase
            )
        )
        if two_phase:
            self._driver.run(lambda: self._reading.keep(self._opened, message.lookup_id))
        return message

    def _read(self, command: Callable[[], Found | Waiter]) -> Message:
        result = self._driver.run(command)
        return message_of(self._runtime.block(result) if isinstance(result, Waiter) else result)

    def __iter__(self) -> Iterator[Message]:
        return peek_each(self.peek, self.peek_next)

    def close(self) -> None:
        if self._driver.is_open:
            self._driver.run(lambda: self._driver.engine.opening.close_cursor(self._opened, self._cursor))


Q = TypeVar("Q", bound=QueueCore)


class QueueManagerCore(ABC, Generic[Q]):
    def __init__(self, runtime: BaseRuntime) -> None:
        self._runtime: BaseRuntime = runtime
        self.driver = runtime.driver

    def __repr__(self) -> str:
        return f"<QueueManager {self.driver.engine.queue_manager.computer_name}>"

    @abstractmethod
    def _queue(self, name: FormatName) -> Q:
        """A queue with the face of this queue manager."""

    def queue(self, name: str | FormatName) -> Q:
        r"""The queue of a name: `orders`, `.\private$\orders`, `DIRECT=OS:host\private$\orders`.

        A queue of another computer can be sent to.
        """
        parsed = format_name_of(name)
        self.driver.run(lambda: check_exists(self.driver, parsed))
        return self._queue(parsed)

    def queues(self) -> list[Q]:
        """The queues that applications have created, and those of messages that wait to be sent."""
        queues = self.driver.engine.queues
        states = self.driver.run(lambda: [state for state in queues.all() if queues.is_visible(state)])
        return [self._queue(queues.format_name(state)) for state in states]

    @property
    def journal(self) -> Q:
        """Copies of messages that were sent with positive journaling and have arrived."""
        return self._system_queue(SystemQueue.JOURNAL)

    @property
    def dead_letters(self) -> Q:
        return self._system_queue(SystemQueue.DEADLETTER)

    @property
    def transactional_dead_letters(self) -> Q:
        return self._system_queue(SystemQueue.DEADXACT)

    def _system_queue(self, queue: SystemQueue) -> Q:
        return self.queue(rf".\system$;{queue}")

    @property
    def properties(self) -> dict[str, object]:
        """The current values of the attributes of the queue manager that `set_properties` can change."""
        manager = self.driver.engine.queue_manager
        return {name: getattr(manager, name) for name in SETTABLE_OF_MANAGER}

    def discards(self) -> list[Discard]:
        """Every message that ended without being received, oldest first: nothing is dropped silently."""
        return self.driver.run(lambda: list(self.driver.engine.ledger.lines()))

    def claims(self) -> list[ClaimStatus]:
        """The messages that each consumer holds of each queue."""
        return self.driver.run(self.driver.engine.claims.all)

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Makes everything in the block durable with one write: many sends for the price of one.

        Whatever was done before an error in the block stays done; for all or nothing use `transaction`. A
        read in the block cannot wait.
        """
        with self.driver.batch():
            yield
