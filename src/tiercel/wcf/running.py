"""Carries out what the machines ask for, on a queue manager of this program or a remote one.

A remote queue manager has no transactions that a client can commit: a message that is received there is held,
and is acknowledged or given back when the transaction would end. Exactly-once messages need a queue manager
of one's own to be sent.
"""

import inspect
from collections.abc import Callable
from typing import Any, TypeVar
from uuid import UUID

from tiercel.framing.requests import (
    Abort,
    CloseQueue,
    Commit,
    CreateTransaction,
    Dequeue,
    Enqueue,
    Hold,
    Move,
    OpenQueue,
    Peek,
    ReadDirectory,
    Reject,
    Steps,
    Subqueue,
    Wait,
)
from tiercel.message_security.signer import Signer, Signing
from tiercel.model.codes import AuthenticationLevel, MessageSeekAction, PrivacyLevel, SenderIdType
from tiercel.model.errors import UnsupportedFormatNameOperationError
from tiercel.model.path_name import PathName
from tiercel.wcf.calls import Invoke

T = TypeVar("T")
Directory = Callable[[PathName], UUID]


class Held:
    """A message that was read in two phases; `receiving` of a queue does that."""

    def __init__(self) -> None:
        self.block: Any = None  # the context manager, once a message was taken

    def begin(self, block: Any) -> Any:
        """Take a message; an awaitable for asyncio."""
        if hasattr(block, "__aenter__"):
            return self._abegin(block)
        message = block.__enter__()
        self.block = block
        return message

    async def _abegin(self, block: Any) -> Any:
        message = await block.__aenter__()
        self.block = block
        return message

    def end(self, error: BaseException | None) -> Any:
        """Acknowledge the message, or with an error give it back; an awaitable for asyncio."""
        block, self.block = self.block, None
        if block is None:
            return None
        leave = getattr(block, "__aexit__", None) or block.__exit__
        return leave(type(error) if error else None, error, None)


class GivenBackError(Exception):
    """Ends a hold without an acknowledgement."""


class Runner:
    """Runs the steps of a machine; `run` in a thread, `arun` on an event loop."""

    def __init__(
        self, manager: Any, directory: Directory | None = None, signer: Signer | None = None
    ) -> None:
        """Without a `signer`, the queue manager signs with its own key."""
        self._manager = manager
        self._directory = directory
        self._signer = signer
        self.has_transactions = hasattr(manager, "begin_transaction")

    def run(self, steps: Steps[T]) -> T:
        send, value = steps.send, None
        while True:
            try:
                request = send(value)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            try:
                value, send = self._perform(request), steps.send
            except BaseException as error:  # noqa: BLE001 - the machine decides, and raises it again
                value, send = error, steps.throw

    async def arun(self, steps: Steps[T]) -> T:
        send, value = steps.send, None
        while True:
            try:
                request = send(value)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            try:
                value, send = self._perform(request), steps.send
                if inspect.isawaitable(value):
                    value = await value
            except BaseException as error:  # noqa: BLE001 - the same, a cancellation too
                value, send = error, steps.throw

    def _perform(self, request: Any) -> Any:  # noqa: C901, PLR0911, PLR0912 - one line for each request
        match request:
            case OpenQueue(name=name):
                return self._manager.queue(name)
            case ReadDirectory(path=path):
                return self._read_directory(path)
            case CreateTransaction():
                return self._manager.begin_transaction() if self.has_transactions else Held()
            case Hold():
                return Held()
            case Commit(transaction=Held() as held):
                return held.end(None)
            case Commit(transaction=transaction):
                return transaction.commit()
            case Abort(transaction=Held() as held):
                return held.end(GivenBackError())
            case Abort(transaction=transaction):
                return transaction.abort() if transaction.is_active else None
            case Enqueue():
                return self._send(request)
            case Dequeue(transaction=Held() as held, lookup_id=None):
                return held.begin(request.queue.receiving(request.timeout_s))
            case Dequeue(lookup_id=None):
                return request.queue.receive(request.timeout_s, transaction=request.transaction)
            case Dequeue():
                return request.queue.receive(lookup_id=request.lookup_id, transaction=request.transaction)
            case Wait():
                return request.queue.peek(request.timeout_s)
            case Peek(lookup_id=None):
                return request.queue.peek(0)
            case Peek():
                return request.queue.peek(lookup_id=request.lookup_id, seek=MessageSeekAction.SEEK_NEXT)
            case Subqueue():
                return request.queue.subqueue(request.name)
            case Move():
                return request.queue.move(request.lookup_id, request.subqueue)
            case Reject():
                return request.queue.reject(request.lookup_id)
            case CloseQueue():
                return request.queue.close()
            case Invoke():
                return request.operation(request.envelope)
        raise AssertionError(f"unknown request {request!r}")

    def _send(self, request: Enqueue) -> Any:
        message = request.message
        if message.authentication_level == AuthenticationLevel.NONE:
            return request.queue.send(message, transaction=request.transaction)
        signing = Signing(
            self._signer, message.hash_algorithm, names_sender=message.sender_id_type == SenderIdType.SID
        )
        encrypt = message.privacy_level != PrivacyLevel.NONE
        return request.queue.send(message, transaction=request.transaction, sign=signing, encrypt=encrypt)

    def _read_directory(self, path: PathName) -> UUID:
        if self._directory is None:
            fix = "pass directory=, or turn use_active_directory off"
            raise UnsupportedFormatNameOperationError(str(path), problem="there is no directory", fix=fix)
        return self._directory(path)
