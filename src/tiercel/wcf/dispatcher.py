"""The machine of a service: takes a message, calls the operations and commits, or treats it as poison."""

import logging
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from tiercel.framing.addresses import direct_format_name
from tiercel.framing.receiver import Received, Receiver
from tiercel.framing.requests import (
    Abort,
    CloseQueue,
    Commit,
    CreateTransaction,
    Dequeue,
    Move,
    OpenQueue,
    Peek,
    Reject,
    Steps,
    Subqueue,
    Wait,
)
from tiercel.model.codes import QueueAccess
from tiercel.model.errors import DecodeError, IoTimeoutError, MessageNotFoundError, MqError, PeerError
from tiercel.model.message import Message
from tiercel.wcf.calls import Invoke, Operation
from tiercel.wcf.envelope import Envelope
from tiercel.wcf.poison import POISON, RETRY, PoisonPolicy, ReceiveErrorHandling, ServiceFaultedError

_SCAN_S: Final = 60.0  # other services may put messages into ;retry too
_MESSAGES_RETURNED_MAX: Final = 1_000  # at one time
logger = logging.getLogger(__name__)
Clock = Callable[[], float]


class UnknownActionError(PeerError):
    """A message for an operation that the service does not have."""

    def __init__(self, action: str) -> None:
        super().__init__(action)
        self.action = action

    def __str__(self) -> str:
        return f"the service has no operation for the action {self.action[:200]!a}"


class NotUnderstoodError(PeerError):
    """A message with a header that the service has to understand, and does not."""

    def __init__(self, header: str) -> None:
        super().__init__(header)
        self.header = header

    def __str__(self) -> str:
        return f"the header {self.header[:200]!a} must be understood, and the service does not understand it"


class _OperationError(Exception):
    """An operation has raised; the cause is what it raised."""


class Dispatcher:
    """Serves one endpoint. `now` tells when messages in ;retry have rested long enough."""

    def __init__(
        self,
        receiver: Receiver,
        operations: Mapping[str, Operation],
        policy: PoisonPolicy,
        understood: Collection[str] = (),
    ) -> None:
        self._receiver = receiver
        self._operations = operations
        self._policy = policy
        self._understood = understood
        self._waiting: Any = None
        self._scan_at = 0.0  # when to look into ;retry again

    def open(self) -> Steps[None]:
        """Open the queue to receive, and once more to wait: closing that one gives no message back."""
        yield from self._receiver.open()
        self._waiting = yield OpenQueue(direct_format_name(self._receiver.address), QueueAccess.PEEK)

    def close(self) -> Steps[None]:
        yield from self.wake()
        self._waiting = None
        yield from self._receiver.close()

    def wake(self) -> Steps[None]:
        """End a wait of `serve`, which then raises."""
        if self._waiting is not None:
            yield CloseQueue(self._waiting)

    def serve(self, timeout_s: float | None, now: Clock) -> Steps[bool]:
        """Serve one message; False when none came in time."""
        end = None if timeout_s is None else now() + timeout_s
        while True:
            yield from self._return_rested(now())
            left = None if end is None else max(0.0, end - now())
            rest = max(0.0, self._scan_at - now()) if self._policy.max_retry_cycles else None
            wait = left if rest is None else rest if left is None else min(left, rest)
            try:
                yield Wait(self._waiting, wait)
            except IoTimeoutError:
                if wait == left:
                    return False
                continue
            try:
                received = yield from self._receiver.receive(0)
            except IoTimeoutError:  # another service has it
                continue
            yield from self._handle(received)
            return True

    def _handle(self, received: Received) -> Steps[None]:
        """[MS-NMFMB] 3.3.4.2; every envelope of a session in the one transaction."""
        message, transaction = received.message, received.transaction
        if self._policy.is_exhausted(message, message.abort_count):  # a service was stopped at this point
            yield Abort(transaction)
            yield from self._put_aside(message, "it was tried too often")
            return
        try:
            yield from self._call(message)
        except (DecodeError, NotUnderstoodError, UnknownActionError) as error:  # trying again would not help
            yield Abort(transaction)
            yield from self._end(message, str(error))
        except _OperationError as failed:
            yield Abort(transaction)
            yield from self._count_failure(message, failed.__cause__)
        except Exception as error:  # noqa: BLE001  # of a reader: one message must not end the service
            yield Abort(transaction)
            yield from self._count_failure(message, error)
        except BaseException:  # stopped or cancelled: the message goes back
            yield Abort(transaction)
            raise
        else:
            yield from self._commit(transaction)

    @staticmethod
    def _commit(transaction: Any) -> Steps[None]:
        try:
            yield Commit(transaction)
        except BaseException:
            yield Abort(transaction)
            raise

    def _count_failure(self, message: Message, error: BaseException | None) -> Steps[None]:
        failures, address = message.abort_count + 1, self._receiver.address
        logger.warning("%s: message %s failed, %d times now", address, message.id, failures, exc_info=error)
        if self._policy.is_exhausted(message, failures):
            yield from self._put_aside(message, f"{type(error).__name__}: {error}")

    def _call(self, message: Message) -> Steps[None]:
        self._receiver.check_protection(message)
        for events in self._receiver.envelopes(message.body):
            envelope = Envelope(events, message)
            if (header := envelope.not_understood(self._understood)) is not None:
                raise NotUnderstoodError(header)
            operation = self._operations.get(envelope.action) or self._operations.get("*")
            if operation is None:
                raise UnknownActionError(envelope.action)
            try:
                yield Invoke(operation, envelope)  # type: ignore[misc]  # a request of this layer
            except Exception as error:
                raise _OperationError from error

    # Poison.

    def _put_aside(self, message: Message, reason: str) -> Steps[None]:
        if self._policy.may_rest(message):
            yield from self._move(message, RETRY)
            self._scan_at = 0.0
        else:
            yield from self._end(message, reason)

    def _end(self, message: Message, reason: str) -> Steps[None]:
        handling, address = self._policy.receive_error_handling, self._receiver.address
        logger.error("%s: message %s is poison (%s): %s", address, message.id, handling.value, reason)
        if handling is ReceiveErrorHandling.FAULT:
            raise ServiceFaultedError(message.lookup_id, reason)
        if handling is ReceiveErrorHandling.MOVE:
            yield from self._move(message, POISON)
        elif handling is ReceiveErrorHandling.DROP:
            yield from self._remove(message)
        else:
            yield from self._reject(message)

    def _move(self, message: Message, subqueue: str) -> Steps[None]:
        try:
            yield Move(self._receiver.queue, message.lookup_id, subqueue)
        except MessageNotFoundError:  # another service has it
            logger.info("message %s is no longer in the queue", message.id)

    def _remove(self, message: Message) -> Steps[None]:
        try:
            yield Dequeue(self._receiver.queue, 0, None, message.lookup_id)
        except MessageNotFoundError:
            logger.info("message %s is no longer in the queue", message.id)

    def _reject(self, message: Message) -> Steps[None]:
        queue = self._receiver.queue
        transaction = yield CreateTransaction()
        try:
            yield Dequeue(queue, 0, transaction, message.lookup_id)
            yield Reject(queue, message.lookup_id)
        except MessageNotFoundError:
            yield Abort(transaction)
        except BaseException:
            yield Abort(transaction)
            raise
        else:
            yield from self._commit(transaction)

    def _return_rested(self, now: float) -> Steps[None]:
        """Move the messages of ;retry that have rested back into the queue."""
        if not self._policy.max_retry_cycles or now < self._scan_at:
            return
        retry = yield Subqueue(self._receiver.queue, RETRY)
        next_due = now + _SCAN_S
        try:
            message = yield from _peek(retry, None)
            for _ in range(_MESSAGES_RETURNED_MAX):
                if message is None:
                    break
                due = self._policy.due(message)
                if due <= now:
                    yield Move(retry, message.lookup_id, None)
                else:
                    next_due = min(next_due, due)
                message = yield from _peek(retry, message.lookup_id)
        except MqError as error:
            logger.warning("%s: cannot look into ;retry: %s", self._receiver.address, error)
        self._scan_at = next_due


def _peek(queue: Any, lookup_id: int | None) -> Steps[Message | None]:
    """The first message, or the next one; a subqueue comes and goes with its messages."""
    try:
        message = yield Peek(queue, lookup_id)
    except MqError:
        return None
    assert isinstance(message, Message)
    return message
