"""Drives a node, on or off the network: one batch per call, and results only after their commit."""

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from tiercel.engine.core import Completed, Refused
from tiercel.engine.engine import Engine
from tiercel.engine.handles import OpenQueue, Waiter
from tiercel.engine.identity import Identity
from tiercel.engine.life import DEFAULT_MAX_BYTES as LIFE_MAX_BYTES
from tiercel.engine.transaction import Transaction
from tiercel.message_security.body_encryption import ExchangeKeys
from tiercel.message_security.encryption import Encryption
from tiercel.message_security.verifier import Verifier
from tiercel.model.codes import QueueAccess
from tiercel.model.errors import (
    IllegalOperationError,
    IllegalPropertyVariantTypeError,
    InvalidParameterError,
    MqError,
    OperationCancelledError,
    ServiceNotAvailableError,
    StoreDamagedError,
    StoreFailedError,
)
from tiercel.model.format_name import FormatName
from tiercel.model.path_name import PathKind, PathName
from tiercel.security.unix import token_of_process
from tiercel.server import log
from tiercel.server.exchange_key_file import ExchangeKeyFile
from tiercel.server.node import Clock, Node
from tiercel.server.signing_key import SigningKey
from tiercel.server.transports import expect_transports
from tiercel.store import DEFAULT_MAX_BYTES, MAX_MAX_BYTES, MIN_MAX_BYTES, Store, directory_of, open_store

_FATAL = (StoreFailedError, StoreDamagedError)
_LONGEST_SLEEP_S = 3600.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class NetworkSettings:
    """The network settings of a queue manager."""

    attach: Callable[[Node], None]  # adds the protocol machines
    failed: Callable[[BaseException], None] = lambda _problem: None  # called once, whichever batch failed
    names: tuple[str, ...] = ()  # names and addresses of this computer
    everyone_may_send: bool = True
    believe_unsigned_senders: bool = False
    hardened: bool | None = None  # None keeps what is stored
    verifier: Verifier | None = None
    encryption: Callable[[ExchangeKeys], Encryption] | None = None  # gets the keys of this queue manager
    legacy: bool = False  # old algorithms are allowed
    monotonic_clock: Clock = time.monotonic


class Driver:
    """A node on a store; without `network` settings it is off the network.

    After a commit, `completed` is called for every wait that has ended, and `deadline_changed` when the
    node's next deadline has changed.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        clock: Clock,
        completed: Callable[[Waiter], None],
        deadline_changed: Callable[[], None],
        computer_name: str | None = None,
        max_bytes: int = DEFAULT_MAX_BYTES,
        create: bool = True,
        life_bytes: int = LIFE_MAX_BYTES,
        network: NetworkSettings | None = None,
    ) -> None:
        _check_arguments(directory, computer_name, max_bytes, clock)
        name = computer_name or socket.gethostname()
        self._url = directory
        self._store = open_store(directory, max_bytes=max_bytes, create=create)
        self._network = network
        self._clock = clock
        self._completed = completed
        self._deadline_changed = deadline_changed
        self._deadlines: tuple[float | None, float | None] = (None, None)
        self._batches = 0
        self._refusals = 0  # of the store, as far as reported
        self._report_refused = log.Repeated("message_refused")
        self._report_full = log.Repeated("store_full", level=logging.ERROR)
        self._abandoned: list[OpenQueue] = []
        self._forgotten: list[Transaction] = []
        self.lock = threading.RLock()
        self.owner = token_of_process()
        # A program that embeds the queue manager has every permission, under its own name.
        self.token = replace(self.owner, unrestricted=True)
        self.is_open = True
        self._process = os.getpid()
        self.signing_key = SigningKey(lambda: self.directory, name)
        self.exchange_keys = ExchangeKeyFile(
            lambda: self.directory, legacy=network is not None and network.legacy
        )
        verifier = (None if network is None else network.verifier) or Verifier()
        verifier.own_certificate = self.signing_key.certificate
        identity = Identity(name.partition(".")[0], name, () if network is None else network.names)
        try:
            if network is not None and network.encryption is not None:
                self.exchange_keys.check()
                encryption = network.encryption(self.exchange_keys)
            else:
                encryption = None
            self.engine = Engine(
                self._store,
                identity,
                now=clock(),
                owner=self.owner,
                everyone_may_send=network is not None and network.everyone_may_send,
                believe_unsigned_senders=network is not None and network.believe_unsigned_senders,
                hardened=None if network is None else network.hardened,
                verifier=verifier,
                encryption=encryption,
                life_bytes=life_bytes,
            )
            self.node = self._new_node()
        except BaseException:
            self._store.close()
            raise

    @property
    def directory(self) -> Path:
        """The directory of the store. Raises `StoreFailedError` for a store in memory."""
        return directory_of(self._url)

    def _new_node(self) -> Node:
        if self._network is None:
            expect_transports(self.engine)
            return Node(self.engine, wall_clock=self._clock)
        node = Node(self.engine, wall_clock=self._clock, monotonic_clock=self._network.monotonic_clock)
        self._network.attach(node)
        return node

    def run(self, command: Callable[[], T]) -> T:
        """Run one command; its changes are durable when this returns, unless a batch is open.

        An MqError means that the command did nothing. Any other exception may have left it half done: the
        whole batch is discarded, and the engine accepts no more commands.
        """
        with self.lock:
            depth = self._batches
            try:
                self._enter()
                try:
                    result = command()
                except MqError as error:
                    if not isinstance(error, _FATAL):
                        self._leave(depth)  # expirations at the start of the batch stay
                    raise
                if not depth:
                    self._leave(depth)
            except BaseException as problem:
                self._fail_unless_harmless(problem)
                raise
            finally:
                self._batches = depth
            return result

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Commit once, at the end of the outermost batch; work done before an error is kept."""
        with self.lock:
            depth = self._batches
            try:
                self._enter()
                yield
            except BaseException:
                if not self.engine.has_failed:
                    self._finish_batch(depth)
                raise
            else:
                self._finish_batch(depth)
            finally:
                self._batches = depth

    def _finish_batch(self, depth: int) -> None:
        try:
            self._leave(depth)
        except BaseException as problem:
            self._fail_unless_harmless(problem)
            raise

    def _fail_unless_harmless(self, problem: BaseException) -> None:
        if isinstance(problem, MqError) and not isinstance(problem, _FATAL):
            return
        if not self.engine.has_failed:
            self.engine.fail(f"a command ended half-way ({problem!r})")
        for waiter in self.engine.end_waits():
            self._completed(waiter)
        if self._network is not None:
            self._network.failed(problem)

    def _enter(self) -> None:
        if not self.is_open:
            raise ServiceNotAvailableError("queue manager", problem="it was closed", fix="open it again")
        if os.getpid() != self._process:
            problem = "another process opened it, before a fork"
            raise ServiceNotAvailableError("queue manager", problem=problem, fix="open it where it is used")
        if not self._batches or self.engine.has_failed:
            self.node.begin()
        self._batches += 1
        while self._abandoned:
            self.engine.opening.close(self._abandoned.pop())
        while self._forgotten:
            self.engine.transactions.abort_if_active(self._forgotten.pop())

    def _leave(self, depth: int) -> None:
        self._batches = depth
        if depth:
            return
        if self.engine.failure is not None:
            raise self.engine.failure
        self._release()

    def _release(self) -> None:
        for effect in self.node.commit():
            if isinstance(effect, Completed):
                self._completed(effect.waiter)
            elif isinstance(effect, Refused):
                self._report_refused(effect.reason, queue=effect.queue, message=effect.message)
        if self._store.refusals != self._refusals:
            self._refusals = self._store.refusals
            self._report_full(self._store.refusal)
        if (deadlines := self.node.deadlines) != self._deadlines:  # a sleeper must adjust its timer
            self._deadlines = deadlines
            self._deadline_changed()

    def close_later(self, opened: "dict[QueueAccess, OpenQueue]") -> None:
        """Close handles in the next batch; takes no lock, because the garbage collector may call this."""
        self._abandoned.extend(opened.values())
        opened.clear()

    def abort_later(self, transaction: Transaction) -> None:
        """Abort an orphaned transaction in the next batch."""
        self._forgotten.append(transaction)

    def withdraw(self, waiter: Waiter) -> None:
        """Cancel an abandoned wait; a message that it already received goes back to the queue."""
        reading, found, transaction = self.engine.reading, waiter.found, waiter.transaction
        with suppress(MqError):  # closing or deleting the queue has ended it already
            if found is None:
                error = OperationCancelledError(str(waiter.opened.format_name))
                self.run(lambda: self.engine.waiting.stop(waiter, error))
            elif transaction is not None:
                self.run(lambda: reading.leave_transaction(found.queue, found.lookup_id, transaction))
            elif waiter.two_phase:
                self.run(lambda: reading.end_receive(waiter.opened, found.lookup_id, delete=False))

    def forget_dead_readers(self) -> None:
        """Release the snapshots of readers that were killed."""
        self._store.forget_dead_readers()

    @property
    def store(self) -> Store:
        return self._store

    @property
    def is_in_batch(self) -> bool:
        return self._batches > 0

    def refuse_to_wait_in_batch(self, waiter: Waiter) -> None:
        """Refuse to wait inside a batch, where nothing can arrive."""
        if self._batches:
            problem = "a read cannot wait inside a batch: nothing can arrive before the batch ends"
            error = IllegalOperationError("queue manager", problem=problem, fix="pass timeout=0")
            self.engine.waiting.stop(waiter, error)
            raise error

    def seconds_to_deadline(self) -> float | None:
        """The time to sleep, or None; capped, because users may configure timeouts too long for a timer."""
        seconds = self.node.seconds_to_deadline()
        return None if seconds is None else min(seconds, _LONGEST_SLEEP_S)

    def open_queue(self, name: FormatName, access: QueueAccess) -> OpenQueue:
        return self.run(lambda: self.engine.opening.open(name, access, token=self.token))

    def close(self) -> None:
        with self.lock:
            if not self.is_open:
                return
            self.is_open = False
            if os.getpid() != self._process:  # after a fork: the store belongs to the parent
                return
            try:
                for effect in self.engine.stop():
                    if isinstance(effect, Completed):
                        self._completed(effect.waiter)
            finally:
                self._store.close()


def _check_arguments(directory: object, computer_name: object, max_bytes: object, clock: object) -> None:
    kinds = (("directory", directory, (str, os.PathLike)), ("max_bytes", max_bytes, (int,)))
    for name, value, allowed in (*kinds, ("computer_name", computer_name, (str, type(None)))):
        if not isinstance(value, allowed) or isinstance(value, bool):
            expected = " or ".join(kind.__name__ for kind in allowed)
            raise IllegalPropertyVariantTypeError(name, present=type(value).__name__, limit=expected)
    text = str(directory)
    if "\0" in text or not text.isprintable():
        raise InvalidParameterError("directory", present=ascii(text), fix="pass the name of a folder")
    if isinstance(max_bytes, int) and not MIN_MAX_BYTES <= max_bytes <= MAX_MAX_BYTES:
        limit = f"{MIN_MAX_BYTES} to {MAX_MAX_BYTES}"
        raise InvalidParameterError("max_bytes", present=max_bytes, limit=limit, fix="pass a size in bytes")
    if not callable(clock):
        raise IllegalPropertyVariantTypeError("clock", present=type(clock).__name__, limit="a function")
    if isinstance(computer_name, str):
        PathName(computer_name, PathKind.PUBLIC, "q")  # raises an error if the name is invalid
