"""Drives an engine from a program: one batch per call, and results only after their commit."""

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from tiercel.engine.core import Completed
from tiercel.engine.engine import Engine, Identity
from tiercel.engine.handles import Found, OpenQueue, Waiter
from tiercel.model.codes import QueueAccess
from tiercel.model.errors import IllegalOperationError, QueueNotFoundError, ServiceNotAvailableError
from tiercel.model.format_name import DirectFormatName, DirectProtocol, FormatName
from tiercel.model.message import Message
from tiercel.model.path_name import PathName
from tiercel.security.access import Token
from tiercel.security.unix import token_of_process
from tiercel.store.lmdb_store import DEFAULT_MAX_BYTES, LmdbStore
from tiercel.wire.message import decode_message
from tiercel.wire.user_message import UserMessage

T = TypeVar("T")
Clock = Callable[[], float]


class Driver:
    """An engine on a store; `completed` is called after the commit for every wait that has ended."""

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        clock: Clock,
        completed: Callable[[Waiter], None],
        computer_name: str | None = None,
        max_bytes: int = DEFAULT_MAX_BYTES,
    ) -> None:
        self._store = LmdbStore.open(Path(directory), max_bytes=max_bytes)
        self._clock = clock
        self._completed = completed
        self._batches = 0
        self.lock = threading.RLock()
        self.token = Token.local_system()
        self.owner = token_of_process()
        self.is_open = True
        name = computer_name or socket.gethostname()
        identity = Identity(name.partition(".")[0], name)
        try:
            self.engine = Engine(self._store, identity, now=clock(), owner=self.owner)
        except BaseException:
            self._store.close()
            raise

    def run(self, command: Callable[[], T]) -> T:
        """Runs one command; what it did is durable when this returns, unless a batch is open."""
        with self.batch():
            return command()

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Commits once, at the end of the outermost batch; what was done before an error stays done."""
        with self.lock:
            if not self.is_open:
                raise ServiceNotAvailableError("queue manager", problem="it was closed", fix="open it again")
            self.engine.begin(self._clock())
            self._batches += 1
            try:
                yield
            finally:
                self._batches -= 1
                if not self._batches:
                    self._release()

    def _release(self) -> None:
        for effect in self.engine.commit():
            if isinstance(effect, Completed):
                self._completed(effect.waiter)

    def refuse_to_wait_in_batch(self, waiter: Waiter) -> None:
        if self._batches:
            problem = "a read cannot wait inside a batch: nothing can arrive before the batch ends"
            error = IllegalOperationError("queue manager", problem=problem, fix="pass timeout=0")
            self.engine.reading.stop_waiting(waiter, error)
            raise error

    def seconds_to_deadline(self) -> float | None:
        deadline = self.engine.next_deadline
        return None if deadline is None else max(deadline - self._clock(), 0.0)

    def open_queue(self, name: FormatName, access: QueueAccess) -> OpenQueue:
        return self.run(lambda: self.engine.open_queue(name, access, token=self.token))

    def close(self) -> None:
        with self.lock:
            if not self.is_open:
                return
            self.is_open = False
            try:
                for effect in self.engine.stop():
                    if isinstance(effect, Completed):
                        self._completed(effect.waiter)
            finally:
                self._store.close()


def format_name(name: str) -> FormatName:
    """The format name of what users write: a format name, or a path name."""
    if "=" in name.partition("\\")[0]:
        return FormatName.parse(name)
    return DirectFormatName(DirectProtocol.OS, PathName.parse(name))


def check_exists(driver: Driver, name: FormatName) -> None:
    """A queue of this computer must be there when it is asked for; what others have, only sending tells."""
    if driver.engine.is_local(name) and driver.engine.find(name) is None:
        raise QueueNotFoundError(str(name))


def message_of(found: Found) -> Message:
    """All properties of a message that a read found."""
    record = found.record
    message = decode_message(UserMessage(record.packet))
    message.lookup_id = found.lookup_id
    message.arrival_time = record.arrival_time
    message.abort_count = record.abort_count
    message.move_count = record.move_count
    message.last_move_time = record.last_move_time
    if record.dead_letter_queue:
        message.dead_letter_queue = PathName.parse(record.dead_letter_queue)
    return message
