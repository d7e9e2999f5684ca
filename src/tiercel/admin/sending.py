"""Sending messages: one, or many of which all are sent or none."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from tiercel.admin import queue_lookup
from tiercel.admin.message_json import from_json
from tiercel.admin.runner import Runner
from tiercel.engine.engine import Engine
from tiercel.engine.handles import OpenQueue
from tiercel.engine.transaction import Transaction
from tiercel.message_security.signer import sign_all
from tiercel.model.codes import AuthenticationLevel, QueueAccess
from tiercel.model.errors import InvalidParameterError, MqError, QueueNotFoundError
from tiercel.model.format_name import FormatName
from tiercel.model.identifiers import MessageId
from tiercel.model.message import Message
from tiercel.model.queue_name import parse_queue_name
from tiercel.wire.user_message import UserMessage

MAX_MESSAGES: Final = 10_000  # per request: they are committed in one turn
_SLICE: Final = 100  # messages parsed or encoded per turn
_SLICE_BYTES: Final = 1 << 20
_LINE: Final = "it"  # the subject of an error in a line that is not JSON


class Sender:
    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    async def send(
        self,
        queue: str,
        messages: list[Message],
        transactional: bool | None,
        *,
        sign: bool = False,
        encrypt: bool = False,
    ) -> list[MessageId]:
        """Sends all or none; `transactional` counts only for queues of other computers."""
        name = parse_queue_name(queue)
        if encrypt:
            await self._runner.call(lambda engine: self._to_encrypt(engine, name, messages))
        if sign:
            await self._sign(name, messages, transactional)
        if len(messages) <= _SLICE:
            return await self._runner.call(
                lambda engine: self._send_at_once(engine, name, messages, transactional)
            )
        return await self._send_in_slices(name, messages, transactional)

    def start(
        self, queue: str, message: Message, *, is_last: bool = False
    ) -> "asyncio.Future[list[MessageId]]":
        """`send` for one message; `is_last` as in `Runner.call`."""
        name = parse_queue_name(queue)
        return self._runner.call(
            lambda engine: self._send_at_once(engine, name, [message], None), is_last=is_last
        )

    async def _sign(self, name: FormatName, messages: list[Message], transactional: bool | None) -> None:
        """Signs with the key of this queue manager, in a thread: it takes a millisecond for each message."""
        signer = await asyncio.to_thread(self._runner.driver.signing_key.signer)
        certificate = signer.certificate.der

        def prepare(
            part: list[Message], engine: Engine
        ) -> list[tuple[Message, UserMessage, AuthenticationLevel]]:
            with self._opened(engine, name) as opened:
                is_transactional = _is_transactional(opened, transactional)
                to_sign = partial(engine.sending.to_sign, opened, is_transactional=is_transactional)
                return [(message, *to_sign(message, certificate)) for message in part]

        for part in _parts(messages):
            prepared = await self._runner.call(partial(prepare, part))
            await asyncio.to_thread(sign_all, signer, prepared)

    def _to_encrypt(self, engine: Engine, name: FormatName, messages: list[Message]) -> None:
        with self._opened(engine, name) as opened:
            engine.sending.to_encrypt(opened, messages)

    def _send_at_once(
        self, engine: Engine, name: FormatName, messages: list[Message], transactional: bool | None
    ) -> list[MessageId]:
        with self._opened(engine, name) as opened:
            if not _is_transactional(opened, transactional):
                if len(messages) == 1:  # quicker
                    return [engine.sending.send(opened, messages[0])]
                return engine.sending.send_many(opened, messages)
            transaction = engine.transactions.begin()
            try:
                ids = engine.sending.send_many(opened, messages, transaction)
                engine.transactions.commit(transaction.id)
            except MqError:
                engine.transactions.abort_if_active(transaction)
                raise
            return ids

    async def _send_in_slices(
        self, name: FormatName, messages: list[Message], transactional: bool | None
    ) -> list[MessageId]:
        def begin(engine: Engine) -> tuple[OpenQueue, Transaction]:
            opened = self._open(engine, name)
            is_transactional = _is_transactional(opened, transactional)
            begun = engine.transactions.begin if is_transactional else engine.transactions.begin_group
            return opened, begun()

        opened, transaction = await self._runner.call(begin)
        ids: list[MessageId] = []
        try:
            for part in _parts(messages):
                ids += await self._runner.call(partial(_send, opened, part, transaction))
            await self._runner.call(lambda engine: engine.transactions.commit(transaction.id))
        finally:  # also when cancelled: nothing may stay half done
            self._runner.driver.abort_later(transaction)
            self._runner.driver.close_later({QueueAccess.SEND: opened})
            _forget(self._runner.call(lambda _: None))
        return ids

    @contextmanager
    def _opened(self, engine: Engine, name: FormatName) -> Iterator[OpenQueue]:
        opened = self._open(engine, name)
        try:
            yield opened
        finally:
            engine.opening.close(opened)

    def _open(self, engine: Engine, name: FormatName) -> OpenQueue:
        try:
            return engine.opening.open(name, QueueAccess.SEND, token=self._runner.driver.token)
        except QueueNotFoundError:
            raise queue_lookup.not_found(engine, name) from None


def _send(
    opened: OpenQueue, messages: list[Message], transaction: Transaction, engine: Engine
) -> list[MessageId]:
    return engine.sending.send_many(opened, messages, transaction)


def _is_transactional(opened: OpenQueue, asked: bool | None) -> bool:
    """For queues of this computer the queue itself decides."""
    if asked is not None:
        return asked
    each = opened.children or (opened,)
    return all(child.state is not None and child.state.queue.transactional for child in each)


def _forget(future: Any) -> None:
    """Failures of the queue manager are reported elsewhere."""
    if isinstance(future, asyncio.Future):
        future.add_done_callback(lambda done: done.cancelled() or done.exception())


def _parts(messages: list[Message]) -> Iterator[list[Message]]:
    part: list[Message] = []
    size = 0
    for message in messages:
        part.append(message)
        size += len(message.body)
        if len(part) >= _SLICE or size >= _SLICE_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part


# Request bodies.


def message_of_json(data: bytes) -> Message:
    return from_json(parsed(data, "body"))


async def messages_of_lines(data: bytes) -> list[Message]:
    """One message per line; errors name the line."""
    messages: list[Message] = []
    size = 0
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        if len(messages) >= MAX_MESSAGES:
            fix = "send them in several requests"
            raise InvalidParameterError(
                "body", problem="it has too many messages", limit=MAX_MESSAGES, fix=fix
            )
        messages.append(_message_of_line(number, line))
        size += len(line)
        if size >= _SLICE_BYTES or len(messages) % _SLICE == 0:
            size = 0
            await asyncio.sleep(0)  # others have a turn
    return messages


def _message_of_line(number: int, line: bytes) -> Message:
    try:
        return from_json(parsed(line, _LINE))
    except MqError as problem:
        problem.subject = (
            f"line {number}" if problem.subject == _LINE else f"line {number}: {problem.subject}"
        )
        raise


def parsed(data: bytes, subject: str) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as problem:
        fix = "send one JSON object"
        raise InvalidParameterError(
            subject, problem=f"it is not valid JSON ({problem})", fix=fix
        ) from problem
