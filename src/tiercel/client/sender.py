"""Sends to queues of another computer; connects on first use, and reconnects after a loss."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Final, cast
from uuid import UUID, uuid4

from tiercel.client.channel import LinkLostError, keep_alive, unreachable
from tiercel.client.dialing import Options
from tiercel.client.outbox import Outbox
from tiercel.engine.resolver import check_can_send
from tiercel.model.codes import SenderIdType
from tiercel.model.errors import (
    ComputerDoesNotSupportEncryptionError,
    PropertyNotAllowedError,
    RemoteMachineNotAvailableError,
    ResolveAddressError,
    ServiceNotAvailableError,
    TransactionUsageError,
    UnsupportedFormatNameOperationError,
)
from tiercel.model.format_name import DirectFormatName, FormatName, PrivateFormatName, PublicFormatName
from tiercel.model.identifiers import MessageId
from tiercel.model.limits import INFINITE, LONG_LIVED, TIME_TO_REACH_QUEUE_DEFAULT_S
from tiercel.model.message import Message
from tiercel.security.unix import token_of_process
from tiercel.wire.message import encode_message
from tiercel.wire.user_message import UserMessage

_CLOSE_S: Final = 1.0

Retrying = Callable[[Callable[[], Awaitable[None]]], Awaitable[None]]

# Properties that need a queue manager on the sender's side, for copies or keys.
_NEEDS_A_QUEUE_MANAGER: Final = (
    "positive_journaling",
    "negative_journaling",
    "dead_letter_queue",
    "destination_queues",
    "signature",
    "symmetric_key",
    "soap_envelope",
    "soap_body",
    "transaction_status_queue",
)
_EMBED: Final = "send it with a queue manager of your own: tiercel.open, or tiercel.aio.open with a Config"


class Sender:
    """When `retrying` gives up, the caller gets the error; the message may or may not have arrived."""

    def __init__(self, options: Options, retrying: Retrying) -> None:
        self._options = options
        self._retrying = retrying
        # A new one for each connection: message ids must be unique, and nothing is stored on this side.
        self._identifier = uuid4()
        self._numbers = count(1)
        self._line: _Line | None = None
        self._dialing = asyncio.Lock()
        self._is_closed = False

    async def send(self, name: FormatName, message: Message) -> MessageId:
        """On return the other queue manager has the message, and the message has its id and time."""
        packet = self._packet(name, message)

        async def attempt() -> None:
            line = await self._connected()
            await line.deliver(packet)

        try:
            await self._retrying(attempt)
        except LinkLostError as error:
            problem = f"{error.problem}: the message may or may not have arrived"
            raise LinkLostError(str(name), problem=problem) from error
        return message.id

    async def close(self) -> None:
        self._is_closed = True
        if self._line is not None:
            await self._line.close()

    def _packet(self, name: FormatName, message: Message) -> UserMessage:
        _check_name(name, self._options.host)
        _check_message(message)
        message.destination_queue = name
        message.id = MessageId(self._identifier, next(self._numbers))
        message.sent_time = int(time.time())
        if not message.sender_id and message.sender_id_type == SenderIdType.SID:
            message.sender_id = token_of_process().user.encode()
        if message.time_to_reach_queue in {LONG_LIVED, INFINITE}:
            message.time_to_reach_queue = TIME_TO_REACH_QUEUE_DEFAULT_S
        return UserMessage(encode_message(message))

    async def _connected(self) -> "_Line":
        async with self._dialing:
            if self._is_closed:
                problem = "the connection was closed"
                raise ServiceNotAvailableError(self._options.host, problem=problem, fix="connect again")
            if self._line is None:
                self._line = await self._dial()
            elif not self._line.is_open:
                try:
                    self._line = await self._dial()
                except (RemoteMachineNotAvailableError, ResolveAddressError) as error:
                    raise LinkLostError(self._options.host, problem=error.problem) from error
            return self._line

    async def _dial(self) -> "_Line":
        options, loop = self._options, asyncio.get_running_loop()
        host, port, limit = options.host, options.message_port, options.connect_timeout_s
        where = f"{host} port {port}"
        line = _Line(self._identifier, where)
        try:
            async with asyncio.timeout(limit):
                await loop.create_connection(lambda: line, host, port)
                await line.opened
        except BaseException as error:
            line.abort()
            if isinstance(error, OSError):
                raise unreachable(error, host, where, limit) from error
            raise
        return line


class _Line(asyncio.Protocol):
    """One connection with its session, and the messages that wait for an acknowledgement."""

    def __init__(self, identifier: UUID, where: str) -> None:
        self._identifier = identifier
        self._where = where
        self._loop = asyncio.get_running_loop()
        self.opened: asyncio.Future[None] = self._loop.create_future()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._senders: dict[UserMessage, asyncio.Future[None]] = {}
        self._outbox: Outbox | None = None
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_open(self) -> bool:
        return self._outbox is not None and self._outbox.is_open and not self._outbox.is_closed

    async def deliver(self, packet: UserMessage) -> None:
        """Returns when the peer has acknowledged it; raises a LinkLostError when that cannot come."""
        if self._outbox is None or not self.is_open:
            raise LinkLostError(self._where)
        future = self._senders[packet] = self._loop.create_future()
        self._outbox.send(packet, self._loop.time())
        self._flush()
        try:
            await future
        except BaseException:
            self._outbox.withdraw(packet)
            raise
        finally:
            del self._senders[packet]

    async def close(self) -> None:
        self._end("closed by its user")
        if self._transport is not None:
            await asyncio.wait([self._ended], timeout=_CLOSE_S)
        self.abort()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # Called by asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop has classes of its own
        keep_alive(transport.get_extra_info("socket"))
        address = transport.get_extra_info("peername")[0]
        self._outbox = Outbox(self._identifier, address, self._loop.time())
        self._flush()

    def data_received(self, data: bytes) -> None:
        if self._outbox is not None:
            self._outbox.receive(data, self._loop.time())
            self._flush()

    def pause_writing(self) -> None:
        if self._outbox is not None:
            self._outbox.writable(is_writable=False)

    def resume_writing(self) -> None:
        if self._outbox is not None:
            self._outbox.writable(is_writable=True)
            self._flush()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc  # the caller learns that the connection is lost; the cause does not matter
        self._end("the peer closed the connection")
        if not self._ended.done():
            self._ended.set_result(None)

    # After every input.

    def _flush(self) -> None:
        outbox, transport = self._outbox, self._transport
        assert outbox is not None
        assert transport is not None
        transport.write(outbox.take_data())
        for packet in outbox.take_acknowledged():
            _resolve(self._senders.get(packet))
        if outbox.is_open:
            _resolve(self.opened)
        if outbox.is_closed:
            self._fail(outbox.reason)
            transport.close()
        self._arm()

    def _end(self, reason: str) -> None:
        if self._outbox is not None and not self._outbox.is_closed:
            self._outbox.close(reason)
            self._flush()

    def _fail(self, reason: str) -> None:
        if not self.opened.done():
            problem = f"the service there does not open a session ({reason})"
            self.opened.set_exception(RemoteMachineNotAvailableError(self._where, problem=problem))
            self.opened.exception()  # there may be no waiter
        for future in self._senders.values():
            if not future.done():
                future.set_exception(LinkLostError(self._where, problem=f"the session has ended ({reason})"))

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline = None if self._outbox is None or self._outbox.is_closed else self._outbox.next_deadline
        if deadline is not None:
            self._timer = self._loop.call_at(deadline, self._tick)

    def _tick(self) -> None:
        assert self._outbox is not None
        self._outbox.tick(self._loop.time())
        self._flush()


def _resolve(future: "asyncio.Future[None] | None") -> None:
    if future is not None and not future.done():
        future.set_result(None)


# Checks of what can be sent from here.


def _check_name(name: FormatName, host: str) -> None:
    check_can_send(name)
    if isinstance(name, PrivateFormatName | PublicFormatName):
        return
    if not isinstance(name, DirectFormatName) or name.is_http:
        problem = "this connection can send only to queues of its own computer"
        raise UnsupportedFormatNameOperationError(str(name), problem=problem, fix=_EMBED)
    if name.host.casefold() != host.casefold():
        problem = f"it is a queue of {name.host}, and we are connected to {host}"
        raise UnsupportedFormatNameOperationError(str(name), problem=problem, fix=f"connect to {name.host}")


def check_no_transaction(transaction: object) -> None:
    if transaction is not None:
        problem = (
            "a transaction needs a queue manager on this side, which keeps the messages until they are sent"
        )
        raise TransactionUsageError("send", problem=problem, fix=_EMBED)


def _check_message(message: Message) -> None:
    message.check()
    if message.transaction_id is not None:
        check_no_transaction(message.transaction_id)
    if message.privacy_level:
        raise ComputerDoesNotSupportEncryptionError("message privacy_level", present=message.privacy_level)
    for name in _NEEDS_A_QUEUE_MANAGER:
        if getattr(message, name):
            problem = "it needs a queue manager on the sender's side"
            raise PropertyNotAllowedError(f"message {name}", problem=problem, fix=_EMBED)
