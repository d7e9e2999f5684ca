"""The embedded queue manager for asyncio.

`embedded_sync` is generated from this file by `make synchronous`: change this one only. Nothing here suspends
except in `AsyncRuntime.wait`.
"""

import time
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self, Unpack

from tiercel.client.consumer import AsyncConsumer, release
from tiercel.client.embedded_core import (
    AsyncRuntime,
    EmbeddedCursor,
    EmbeddedTransaction,
    QueueCore,
    QueueManagerCore,
    transaction_block,
    within,
)
from tiercel.client.interfaces import QueueName, Transaction, Until
from tiercel.client.translate import check_message, check_number, check_text, check_timeout, message_of, seeks
from tiercel.engine import transaction as engine_transaction
from tiercel.engine.handles import Found, OpenQueue, Waiter
from tiercel.message_security.signer import DEFAULT_SIGNING, Signing
from tiercel.model.codes import MessageSeekAction, QueueAccess
from tiercel.model.errors import (
    InvalidParameterError,
    IoTimeoutError,
    MqError,
    QueueExistsError,
)
from tiercel.model.format_name import DirectFormatName, DirectProtocol, FormatName
from tiercel.model.identifiers import MessageId
from tiercel.model.message import Message
from tiercel.model.path_name import PathName
from tiercel.model.properties import Properties
from tiercel.model.queue_name import parse_new_queue_name
from tiercel.server import signing_key

# Module constants: looking up a member of an enum is slow, and these are needed for every message.
_SEND, _RECEIVE, _PEEK = QueueAccess.SEND, QueueAccess.RECEIVE, QueueAccess.PEEK
_CURRENT = MessageSeekAction.SEEK_CURRENT


class AsyncEmbeddedQueue(QueueCore):
    """A queue, opened when it is first used; `close` ends what was opened."""

    _runtime: AsyncRuntime

    def __init__(self, runtime: AsyncRuntime, name: FormatName) -> None:
        super().__init__(runtime, name)
        self._opened: dict[QueueAccess, OpenQueue] = {}
        # A queue that is forgotten without being closed must not keep its handles.
        weakref.finalize(self, self.driver.close_later, self._opened).atexit = False

    async def set_properties(self, /, **properties: Any) -> None:
        """Changes the label, quotas, journaling and the like; the change is durable."""
        engine, owner = self.driver.engine, self.driver.token
        self.driver.run(lambda: engine.queues.set_properties(self._state(), owner, **properties))

    async def delete(self) -> None:
        engine, token = self.driver.engine, self.driver.token
        self.driver.run(lambda: engine.queues.delete(self._state(), token))

    async def close(self) -> None:
        """Closes the handles of this object: its waits end with an error, and its messages go back."""
        self._release()

    async def send(
        self,
        message: Message | bytes | str,
        *,
        transaction: Transaction | None = None,
        sign: bool | str | Path | Signing = False,
        encrypt: bool = False,
        **properties: Unpack[Properties],
    ) -> MessageId:
        """Sends a message; on return it has its id and time, and is on disk if it is recoverable.

        A text or bytes is the body of one with these properties, which are named as those of `Message`:
        `send("tea", label="order 7")`. A `Message` has its own.

        With `sign`, it is signed: `True` takes the key of this queue manager, which is made at first need,
        and a path the private key and certificate in a PEM file. `Signing` chooses algorithms, too. With
        `encrypt`, its body is encrypted on the way to another computer, for which the daemon that sends it
        needs the key of that computer.
        """
        sent, engine = check_message(message, properties), self.driver.engine
        inside = None if transaction is None else within(self.driver, transaction)
        if encrypt:
            self.driver.run(lambda: engine.sending.to_encrypt(self.opened(_SEND), [sent]))
        if sign:
            await self._sign([sent], inside, sign)
        return self.driver.run(lambda: engine.sending.send(self.opened(_SEND), sent, inside))

    async def send_many(
        self,
        messages: Iterable[Message | bytes | str],
        *,
        transaction: Transaction | None = None,
        sign: bool | str | Path | Signing = False,
        encrypt: bool = False,
        **properties: Unpack[Properties],
    ) -> list[MessageId]:
        """Sends messages in their order, all of them or none, with one write to the disk.

        Each text or bytes gets the properties.
        """
        sent = [check_message(each, properties) for each in messages]
        engine, inside = self.driver.engine, within(self.driver, transaction)
        if encrypt:
            self.driver.run(lambda: engine.sending.to_encrypt(self.opened(_SEND), sent))
        if sign:
            await self._sign(sent, inside, sign)
        return self.driver.run(lambda: engine.sending.send_many(self.opened(_SEND), sent, inside))

    async def _sign(
        self,
        messages: list[Message],
        inside: engine_transaction.Transaction | None,
        sign: bool | str | Path | Signing,
    ) -> None:
        signing = sign if isinstance(sign, Signing) else DEFAULT_SIGNING
        signer = signing.signer
        if isinstance(sign, str | Path):
            signer = await self._runtime.apart(partial(signing_key.read, Path(sign)))
        elif signer is None:
            signer = await self._runtime.apart(self.driver.signing_key.signer)
        is_transactional = inside is not None and inside.number is not None
        certificate, engine = signer.certificate.der, self.driver.engine
        for message in messages:
            packet, level = self.driver.run(
                partial(
                    engine.sending.to_sign,
                    self.opened(_SEND),
                    message,
                    certificate,
                    is_transactional=is_transactional,
                    signing=signing,
                )
            )
            await self._runtime.apart(partial(signer.sign, message, packet, level))

    async def receive(
        self,
        timeout: float | None = None,  # noqa: ASYNC109  # ends the wait in the engine
        *,
        lookup_id: int | None = None,
        seek: MessageSeekAction = _CURRENT,
        transaction: Transaction | None = None,
    ) -> Message:
        """Takes the first message, and waits up to `timeout` seconds for one (None: for ever).

        With a lookup id it takes that message, or with `seek` the one before or after it, and never waits.
        """
        inside = None if transaction is None else within(self.driver, transaction)
        if seeks(lookup_id, seek):
            return self._read_at(lookup_id, seek, peek=False, transaction=inside)
        seconds, opened, reading = check_timeout(timeout), self._to_receive(), self.driver.engine.reading
        try:
            found = self.driver.run(lambda: reading.receive(opened, 0, transaction=inside))
        except IoTimeoutError:
            if seconds == 0:
                raise
        else:
            assert isinstance(found, Found)
            return message_of(found)
        # In two phases, so that a read which is interrupted loses no message.
        two_phase = inside is None
        message = await self.read(
            lambda: reading.receive(opened, seconds, transaction=inside, two_phase=two_phase)
        )
        if two_phase:
            self.driver.run(lambda: reading.keep(opened, message.lookup_id))
        return message

    async def receive_many(
        self,
        limit: int,
        timeout: float | None = None,  # noqa: ASYNC109
        *,
        transaction: Transaction | None = None,
    ) -> list[Message]:
        """Takes the first messages, at most `limit`, with one write to the disk.

        When there is none it waits up to `timeout` seconds for the first (None: for ever); an empty list says
        that none came.
        """
        seconds, opened, reading = check_timeout(timeout), self._to_receive(), self.driver.engine.reading
        end = None if seconds is None else time.monotonic() + seconds
        while not (messages := self._receive_first(limit, transaction)):
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                break
            with suppress(IoTimeoutError):  # by peeking: a caller that is interrupted has taken nothing
                await self.read(partial(reading.peek, opened, left))
        return messages

    def _receive_first(self, limit: int, transaction: Transaction | None) -> list[Message]:
        if (count := check_number("limit", limit)) < 1:
            raise InvalidParameterError("limit", present=limit, limit="1 or more", fix="pass a number")
        inside, opened, engine = within(self.driver, transaction), self._to_receive(), self.driver.engine
        found = self.driver.run(lambda: engine.reading.receive_many(opened, count, inside))
        return [message_of(each) for each in found]

    async def peek(
        self,
        timeout: float | None = None,  # noqa: ASYNC109
        *,
        lookup_id: int | None = None,
        seek: MessageSeekAction = _CURRENT,
    ) -> Message:
        """Reads the first message, or that of a lookup id, and leaves it in the queue."""
        if seeks(lookup_id, seek):
            return self._read_at(lookup_id, seek, peek=True)
        reading, seconds = self.driver.engine.reading, check_timeout(timeout)
        return await self.read(lambda: reading.peek(self.opened(_PEEK), seconds))

    @asynccontextmanager
    async def receiving(self, timeout: float | None = None) -> AsyncIterator[Message]:  # noqa: ASYNC109
        """A message to work on: received when the block ends, given back when the block raises."""
        reading, seconds = self.driver.engine.reading, check_timeout(timeout)
        opened = self._to_receive()
        message = await self.read(lambda: reading.receive(opened, seconds, two_phase=True))
        try:
            yield message
        except BaseException:
            with suppress(MqError):  # a queue that was closed or deleted has given it back already
                self.driver.run(lambda: reading.end_receive(opened, message.lookup_id, delete=False))
            raise
        self.driver.run(lambda: reading.keep(opened, message.lookup_id))

    async def consume(
        self,
        timeout: float | None = None,  # noqa: ASYNC109
        *,
        until: Until | None = None,
    ) -> AsyncGenerator[Message, None]:
        """The messages one after the other; each counts as received when the next one is asked for.

        The loop ends when none comes for `timeout` seconds, or when `until` is true of a message. A loop that
        is left otherwise, by `break` or an error, gives its current message back.
        """
        while True:
            try:
                async with self.receiving(timeout) as message:
                    yield message
            except IoTimeoutError:
                return
            if until is not None and until(message):
                return

    def cursor(self) -> EmbeddedCursor:
        """A cursor; on an event loop it cannot wait."""
        return EmbeddedCursor(self, self._runtime, self._to_receive())

    async def move(
        self, message: Message | int, subqueue: str | None, *, transaction: Transaction | None = None
    ) -> None:
        """Moves a message, or that of a lookup id, to a subqueue; None is the queue itself."""
        number = check_number("message", message.lookup_id if isinstance(message, Message) else message)
        path = PathName.parse(self.path_name).without_subqueue()
        queue = AsyncEmbeddedQueue(self._runtime, DirectFormatName(DirectProtocol.OS, path))
        target = queue if subqueue is None else queue.subqueue(subqueue)
        inside, engine = within(self.driver, transaction), self.driver.engine

        def move() -> None:
            try:
                engine.moving.move(self.opened(_RECEIVE), number, target.opened(QueueAccess.MOVE), inside)
            finally:
                target._release()  # noqa: SLF001  # of the same class

        self.driver.run(move)

    async def reject(self, message: Message | int) -> None:
        """Marks a message that was received in an open transaction: when that commits, the sender is told."""
        number = check_number("message", message.lookup_id if isinstance(message, Message) else message)
        reading = self.driver.engine.reading
        self.driver.run(lambda: reading.reject_at_commit(self.opened(_RECEIVE), number))

    async def purge(self) -> int:
        """Removes every message, each with a line in the discards; returns how many there were."""
        return self.driver.run(lambda: self.driver.engine.purging.purge(self.opened(_RECEIVE)))

    # For the library itself.

    def opened(self, access: QueueAccess) -> OpenQueue:
        """The handle for an access; runs inside a command."""
        opened = self._opened.get(access)
        if opened is None or not opened.is_open:
            engine, token = self.driver.engine, self.driver.token
            opened = self._opened[access] = engine.opening.open(self.format_name, access, token=token)
        return opened

    def _release(self) -> None:
        self.driver.close_later(self._opened)
        if self.driver.is_open:
            self.driver.run(lambda: None)

    def _to_receive(self) -> OpenQueue:
        opened = self._opened.get(_RECEIVE)
        if opened is None or not opened.is_open:
            opened = self.driver.run(lambda: self.opened(_RECEIVE))
        return opened

    async def read(self, command: Callable[[], Found | Waiter]) -> Message:
        result = self.driver.run(command)
        return message_of(await self._runtime.wait(result) if isinstance(result, Waiter) else result)

    def _read_at(
        self,
        lookup_id: int | None,
        seek: MessageSeekAction,
        *,
        peek: bool,
        transaction: engine_transaction.Transaction | None = None,
    ) -> Message:
        access = _PEEK if peek else _RECEIVE
        read = self.driver.engine.reading.read_by_lookup_id
        number = check_number("lookup_id", 0 if lookup_id is None else lookup_id)
        return message_of(
            self.driver.run(
                lambda: read(self.opened(access), number, seek, peek=peek, transaction=transaction)
            )
        )


class AsyncEmbeddedQueueManager(QueueManagerCore[AsyncEmbeddedQueue]):
    _runtime: AsyncRuntime

    def __init__(self, runtime: AsyncRuntime) -> None:
        super().__init__(runtime)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends every wait and closes the store; express messages are lost with it."""
        await self._runtime.close()

    def _queue(self, name: FormatName) -> AsyncEmbeddedQueue:
        return AsyncEmbeddedQueue(self._runtime, name)

    async def create_queue(
        self, path_name: str, *, transactional: bool = False, exist_ok: bool = False, **properties: Any
    ) -> AsyncEmbeddedQueue:
        r"""Creates a queue, such as `orders`, which is short for `.\private$\orders`.

        The properties are those that `set_properties` takes. With `exist_ok`, an existing queue of that name
        is returned as it is.
        """
        path = parse_new_queue_name(check_text("path name", path_name))
        engine, owner = self.driver.engine, self.driver.owner
        try:
            state = self.driver.run(
                lambda: engine.queues.create(path, owner, transactional=transactional, **properties)
            )
        except QueueExistsError:
            if not exist_ok:
                raise
            return self.queue(path_name)
        return self._queue(engine.queues.format_name(state))

    async def delete_queue(self, path_name: str) -> None:
        await self.queue(path_name).delete()

    async def set_properties(self, /, **properties: Any) -> None:
        """Changes attributes of the whole queue manager, such as quotas; the change is durable."""
        self.driver.run(lambda: self.driver.engine.administration.set_properties(**properties))

    async def consumer(self, name: str) -> AsyncConsumer:
        """Attaches a consumer, and creates it on first use; a client that had it attached is refused."""
        return AsyncConsumer(self.driver, name)

    async def release_claims(self, consumer: str, queue: QueueName | None = None) -> None:
        """Gives back the messages of a consumer that no longer runs; one that still does is refused then."""
        release(self.driver, consumer, queue)

    async def forget_consumer(self, name: str) -> None:
        """Deletes a consumer that holds nothing; under the same name, numbers would start again."""
        self.driver.run(lambda: self.driver.engine.claims.forget(name))

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[EmbeddedTransaction]:
        """Commits when the block ends, aborts when it raises."""
        with transaction_block(self.driver) as transaction:
            yield transaction

    async def begin_transaction(self) -> EmbeddedTransaction:
        return EmbeddedTransaction(self.driver)

    # Asyncio only.

    @property
    def address(self) -> str | None:
        """Where other queue managers reach this one, as HOST:PORT; None when it is off the network."""
        return self._runtime.address

    @property
    def data_endpoint(self) -> str | None:
        """The address of the data endpoint, as http://HOST:PORT; None when `config` does not enable it."""
        return self._runtime.data_endpoint
