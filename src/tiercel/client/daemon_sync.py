"""The queues of a running daemon. Generated from daemon_aio.py by `make synchronous`: do not edit."""

import json
import time
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from types import TracebackType
from typing import Any, Final, Self, Unpack
from urllib.parse import quote

from tiercel.admin.message_json import from_json, to_json
from tiercel.client.api_client import LEASE_S, ApiClient, Json, Lease
from tiercel.client.interfaces import Transaction, Until
from tiercel.client.translate import (
    check_message,
    check_number,
    check_text,
    check_timeout,
    format_name_of,
    seeks,
)
from tiercel.model.codes import MessageSeekAction
from tiercel.model.errors import (
    IllegalOperationError,
    InvalidParameterError,
    IoTimeoutError,
    LeaseEndedError,
    MessageNotFoundError,
    ServiceNotAvailableError,
    TiercelError,
    TransactionUsageError,
)
from tiercel.model.format_name import DirectFormatName, DirectProtocol, FormatName
from tiercel.model.identifiers import MessageId
from tiercel.model.message import ENUMERATIONS, Message, member_of
from tiercel.model.path_name import PathName
from tiercel.model.properties import Properties
from tiercel.model.queue_name import parse_queue_name

_MAX_WAIT_S: Final = 30.0  # per request; longer waits take several
_PAGE: Final = 100  # messages that a cursor reads at once
_MANY: Final = 1000  # messages of one receive request
_CURRENT: Final = MessageSeekAction.SEEK_CURRENT


class DaemonQueue:
    """A queue of a daemon. Messages are received with leases: one that is not acknowledged returns."""

    def __init__(self, api: ApiClient, name: FormatName) -> None:
        self._api = api
        self.format_name = name
        self._path = f"queues/{quote(str(name), safe='')}"

    def __repr__(self) -> str:
        return f"<Queue {self.format_name} of {self._api.address}>"

    @property
    def path_name(self) -> str:
        """Where the queue is; a format name that only the daemon can resolve stays as it is."""
        name = self.format_name
        return str(name.path) if isinstance(name, DirectFormatName) else str(name)

    @property
    def journal(self) -> "DaemonQueue":
        """Copies of the messages that were received from this queue while `journaling` was on."""
        return DaemonQueue(self._api, parse_queue_name(f"{self.path_name};JOURNAL"))

    def subqueue(self, name: str) -> "DaemonQueue":
        """A subqueue, which messages are moved to; it exists while it holds any."""
        path = replace(PathName.parse(self.path_name), subqueue=check_text("name of the subqueue", name))
        return DaemonQueue(self._api, DirectFormatName(DirectProtocol.OS, path))

    def details(self) -> Json:
        """What `GET /queues/{queue}` returns: `count`, `bytes`, `label`, `transactional` and more."""
        found: Json = self._api.get(self._path)
        return found

    def set_properties(self, /, **properties: Any) -> None:
        """Changes the label, quotas, journaling and the like, in the form of the HTTP API."""
        self._api.patch(self._path, properties)

    def delete(self) -> None:
        self._api.delete(self._path)

    def close(self) -> None:
        """Nothing stays open between calls."""

    def send(
        self,
        message: Message | bytes | str,
        *,
        transaction: Transaction | None = None,
        sign: bool = False,
        encrypt: bool = False,
        transactional: bool | None = None,
        **properties: Unpack[Properties],
    ) -> MessageId:
        """Sends a message; on return it has its id, and is on disk if it is recoverable.

        A text or bytes is the body of one with these properties, which are named as those of `Message`:
        `send("tea", label="order 7")`. A `Message` has its own.

        To a transactional queue of the daemon, it is sent in a transaction of its own; for one of another
        computer, pass `transactional=True`. With `sign`, the daemon signs it with its key, and with `encrypt`
        it encrypts the body for the computer of the destination.
        """
        _refuse(transaction)
        sent = check_message(message, properties)
        sent.check()
        answer = self._api.post(
            f"{self._path}/messages", to_json(sent), **_options(sign, encrypt, transactional)
        )
        sent.id = MessageId.parse(answer["id"])
        return sent.id

    def send_many(
        self,
        messages: Iterable[Message | bytes | str],
        *,
        transaction: Transaction | None = None,
        sign: bool = False,
        encrypt: bool = False,
        transactional: bool | None = None,
        **properties: Unpack[Properties],
    ) -> list[MessageId]:
        """Sends messages in their order, all of them or none, in one request.

        Each text or bytes gets the properties.
        """
        _refuse(transaction)
        sent = [check_message(each, properties) for each in messages]
        for each in sent:
            each.check()
        if not sent:
            return []
        lines = b"\n".join(json.dumps(to_json(each)).encode() for each in sent)
        answer = self._api.post_lines(
            f"{self._path}/messages", lines, **_options(sign, encrypt, transactional)
        )
        for each, text in zip(sent, answer["ids"], strict=True):
            each.id = MessageId.parse(text)
        return [each.id for each in sent]

    def receive(
        self,
        timeout: float | None = None,
        *,
        lookup_id: int | None = None,
        seek: MessageSeekAction = _CURRENT,
        transaction: Transaction | None = None,
    ) -> Message:
        """Takes the first message, and waits up to `timeout` seconds for one (None: for ever).

        With a lookup id it takes that message, or with `seek` the one after it, and never waits. The message
        is acknowledged before this returns. If the connection is lost just then, it may be delivered again.
        """
        _refuse(transaction)
        number = self._found(lookup_id, seek) if seeks(lookup_id, seek) else None
        seconds = check_timeout(timeout) if number is None else 0.0
        if number is None and self._left:
            return _message(self._left.popleft())
        (taken,) = self._leased(1, seconds, number)
        self._acknowledge(taken)
        return _message(taken)

    def receive_many(
        self,
        limit: int,
        timeout: float | None = None,
        *,
        transaction: Transaction | None = None,
    ) -> list[Message]:
        """Takes the first messages, at most `limit`; an empty list says that none came in time."""
        _refuse(transaction)
        if (count := check_number("limit", limit)) < 1:
            raise InvalidParameterError("limit", present=limit, limit="1 or more", fix="pass a number")
        seconds = check_timeout(timeout)
        taken = [self._left.popleft() for _ in range(min(count, len(self._left)))]
        try:
            leased = self._leased(min(count, _MANY), seconds, None) if not taken else []
        except IoTimeoutError:
            leased = []
        try:
            for each in leased:
                with suppress(LeaseEndedError):  # it is back in the queue
                    self._acknowledge(each)
                    taken.append(each)
        except BaseException:
            self._left.extendleft(reversed(taken))
            raise
        return [_message(each) for each in taken]

    def _acknowledge(self, taken: Json) -> None:
        """Twice rather than never: a message counts as received if its acknowledgement is only lost."""
        try:
            Lease(self._api, taken["lease"]).acknowledge()
        except ServiceNotAvailableError:
            pass
        except TiercelError:
            raise
        except BaseException:  # interrupted: the next receive gets it
            self._left.append(taken)
            raise

    @property
    def _left(self) -> deque[Json]:
        return self._api.left[self._path]

    def peek(
        self,
        timeout: float | None = None,
        *,
        lookup_id: int | None = None,
        seek: MessageSeekAction = _CURRENT,
    ) -> Message:
        """Reads the first message, or that of a lookup id, and leaves it in the queue."""
        if seeks(lookup_id, seek):
            number = self._found(lookup_id, seek)
            return _message(self._api.get(f"{self._path}/messages/{number}"))
        return _message((self.after(None, check_timeout(timeout), limit=1))[0])

    @contextmanager
    def receiving(self, timeout: float | None = None) -> Iterator[Message]:
        """A message to work on: acknowledged when the block ends, returned when it raises.

        When the acknowledgement fails, the message may be delivered again, and the error says so.
        """
        (taken,) = self._leased(1, check_timeout(timeout), None)
        with Lease(self._api, taken["lease"]) as lease:
            try:
                yield _message(taken)
            except BaseException:
                with suppress(TiercelError):  # its lease ends by itself
                    lease.give_back()
                raise
            lease.acknowledge()

    def consume(
        self,
        timeout: float | None = None,
        *,
        until: Until | None = None,
    ) -> Generator[Message, None, None]:
        """The messages one after the other; each is acknowledged when the next one is asked for.

        The loop ends when none comes for `timeout` seconds, or when `until` is true of a message. A loop that
        is left otherwise, by `break` or an error, returns its current message.
        """
        while True:
            try:
                with self.receiving(timeout) as message:
                    yield message
            except IoTimeoutError:
                return
            if until is not None and until(message):
                return

    def cursor(self) -> "DaemonCursor":
        """A position in the queue that moves on by reading."""
        return DaemonCursor(self)

    def move(
        self, message: Message | int, subqueue: str | None, *, transaction: Transaction | None = None
    ) -> None:
        """Moves a message, or that of a lookup id, to a subqueue; None is the queue itself."""
        _refuse(transaction)
        number = check_number("message", message.lookup_id if isinstance(message, Message) else message)
        path = PathName.parse(self.path_name).without_subqueue()
        queue = DaemonQueue(self._api, DirectFormatName(DirectProtocol.OS, path))
        target = queue if subqueue is None else queue.subqueue(subqueue)
        wanted = {"to": str(target.format_name), "lookup_ids": [str(number)]}
        done = self._api.post(f"{self._path}/move", wanted)
        if not done["count"]:
            raise MessageNotFoundError(f"lookup_id {number}")

    def reject(self, message: Message | int) -> None:  # noqa: ARG002
        """Not possible: it needs a transaction."""
        raise TransactionUsageError(str(self), problem=_NO_TRANSACTIONS, fix=_INSTEAD)

    def purge(self) -> int:
        """Removes every message, each with a line in the discards; returns how many there were."""
        done = self._api.post(f"{self._path}/purge")
        return int(done["count"])

    # For the library itself.

    def after(self, lookup_id: int | None, seconds: float | None, *, limit: int) -> list[Json]:
        """The next messages behind a lookup id, at least one; waits for it."""
        end = None if seconds is None else time.monotonic() + seconds
        while True:
            left = _MAX_WAIT_S if end is None else min(max(end - time.monotonic(), 0), _MAX_WAIT_S)
            page = self._api.get(
                f"{self._path}/messages",
                after=None if lookup_id is None else str(lookup_id),
                limit=limit,
                wait_ms=int(left * 1000),
                available_only=True,
            )
            if page["messages"]:
                found: list[Json] = page["messages"]
                return found
            if end is not None and time.monotonic() >= end:
                raise IoTimeoutError(str(self))

    def take(self, lookup_id: int) -> Message:
        """Receives one message."""
        return self.receive(0, lookup_id=lookup_id)

    def _leased(self, limit: int, seconds: float | None, lookup_id: int | None) -> list[Json]:
        end = None if seconds is None else time.monotonic() + seconds
        while True:
            left = _MAX_WAIT_S if end is None else min(max(end - time.monotonic(), 0), _MAX_WAIT_S)
            wanted: Json = {"limit": limit, "wait_ms": int(left * 1000), "lease_s": LEASE_S}
            if lookup_id is not None:
                wanted["lookup_id"] = str(lookup_id)
            answer = self._api.post(f"{self._path}/receive", wanted)
            if answer["messages"]:
                found: list[Json] = answer["messages"]
                return found
            if lookup_id is not None:
                raise MessageNotFoundError(f"lookup_id {lookup_id}")
            if end is not None and time.monotonic() >= end:
                raise IoTimeoutError(str(self))

    def _found(self, lookup_id: int | None, seek: MessageSeekAction) -> int:
        """The lookup id that a read by lookup id means."""
        number = check_number("lookup_id", 0 if lookup_id is None else lookup_id)
        if seek is _CURRENT:
            return number
        if seek not in {MessageSeekAction.SEEK_NEXT, MessageSeekAction.SEEK_FIRST}:
            problem = "the HTTP API reads forwards only"
            raise IllegalOperationError(str(self), problem=problem, fix="use SEEK_NEXT or SEEK_FIRST")
        behind = None if seek is MessageSeekAction.SEEK_FIRST else number
        try:
            return int((self.after(behind, 0, limit=1))[0]["lookup_id"])
        except IoTimeoutError:
            raise MessageNotFoundError(f"lookup_id {number}") from None


class DaemonCursor:
    """A position in a queue of a daemon; iterating peeks at every message once."""

    def __init__(self, queue: DaemonQueue) -> None:
        self._queue = queue
        self._at: int | None = None  # the lookup id of the current message

    def peek(self, timeout: float | None = 0) -> Message:
        """The message at the cursor; at first, the first one."""
        if self._at is None:
            return self.peek_next(timeout)
        return self._queue.peek(lookup_id=self._at)

    def peek_next(self, timeout: float | None = 0) -> Message:
        found = self._queue.after(self._at, check_timeout(timeout), limit=1)
        message = _message(found[0])
        self._at = message.lookup_id
        return message

    def receive(
        self,
        timeout: float | None = 0,
        *,
        transaction: Transaction | None = None,
    ) -> Message:
        """Takes the message at the cursor, or the next one that is there."""
        _refuse(transaction)
        if self._at is not None:
            with suppress(MessageNotFoundError):
                return self._queue.take(self._at)
        return self._queue.take((self.peek_next(timeout)).lookup_id)

    def __iter__(self) -> Iterator[Message]:
        while True:
            try:
                found = self._queue.after(self._at, 0, limit=_PAGE)
            except IoTimeoutError:
                return
            for each in found:
                message = _message(each)
                self._at = message.lookup_id
                yield message

    def close(self) -> None:
        """Nothing stays open between calls."""


class DaemonQueueManager:
    """The queues of a daemon that runs, on this computer or another one."""

    def __init__(self, api: ApiClient) -> None:
        self._api = api

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<QueueManager {self._api.address}>"

    def start(self) -> None:
        """Raises if no daemon answers."""
        self._api.start()

    def close(self) -> None:
        """Closes the connections; messages that were not acknowledged return when their leases end."""
        self._api.close()

    def queue(self, name: str | FormatName) -> DaemonQueue:
        r"""The queue of a name: `orders`, `.\private$\orders`, `DIRECT=OS:host\private$\orders`."""
        return DaemonQueue(self._api, format_name_of(name))

    def queues(self) -> list[DaemonQueue]:
        """The queues that applications have created, and those of messages that wait to be sent."""
        found = self._api.get("queues")
        return [DaemonQueue(self._api, FormatName.parse(each["format_name"])) for each in found["queues"]]

    @property
    def journal(self) -> DaemonQueue:
        """Copies of messages that were sent with positive journaling and have arrived."""
        return self.queue(";journal")

    @property
    def dead_letters(self) -> DaemonQueue:
        return self.queue(";deadletter")

    @property
    def transactional_dead_letters(self) -> DaemonQueue:
        return self.queue(";deadxact")

    def create_queue(
        self, path_name: str, *, transactional: bool = False, exist_ok: bool = False, **properties: Any
    ) -> DaemonQueue:
        r"""Creates a queue, such as `orders`, which is short for `.\private$\orders`.

        The properties are those of the HTTP API. With `exist_ok`, an existing queue of that name is returned
        as it is.
        """
        name = check_text("path name", path_name)
        wanted = {"path_name": name, "transactional": transactional, "exist_ok": exist_ok, **properties}
        self._api.post("queues", wanted)
        return self.queue(name)

    def delete_queue(self, path_name: str) -> None:
        self.queue(path_name).delete()


_NO_TRANSACTIONS: Final = "the HTTP API has no transactions of its clients"
_INSTEAD: Final = "use send_many for several sends, move, or an embedded queue manager"


def _refuse(transaction: Transaction | None) -> None:
    if transaction is not None:
        raise TransactionUsageError("transaction", problem=_NO_TRANSACTIONS, fix=_INSTEAD)


def _options(sign: bool, encrypt: bool, transactional: bool | None) -> Json:
    return {"sign": sign or None, "encrypt": encrypt or None, "transactional": transactional}


def _message(found: Json) -> Message:
    message = from_json(found, whole=True)
    for name in ENUMERATIONS:
        setattr(message, name, member_of(name, getattr(message, name)))
    return message
