"""`tiercel receive` and `tiercel peek`: receive messages, or look at them."""

import math
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from types import TracebackType
from typing import Annotated, Final, Self

import typer

from tiercel.cli.completion import QueueName
from tiercel.cli.connection import Refused, queue_path
from tiercel.cli.context import Context, connected
from tiercel.cli.durations import seconds_of
from tiercel.cli.exit_codes import ExitCode
from tiercel.cli.failures import Failure
from tiercel.cli.message_text import COLUMNS, body_of, whole
from tiercel.cli.output import Record, note

verbs = typer.Typer()

_LEASED_AT_ONCE: Final = 50
_LEASE_S: Final = 60  # after a kill, messages return to the queue after this time
_EXTENDED_EVERY_S: Final = 15.0
_LONGEST_WAIT_MS: Final = 30_000  # per request; longer waits take several requests

Count = Annotated[
    int, typer.Option("-n", "--count", metavar="N", min=1, help="Maximum number of messages (default: 1).")
]
Wait = Annotated[
    float,
    typer.Option(
        "--wait",
        "-w",
        metavar="TIME",
        parser=seconds_of,
        help="How long to wait for the first message: 30, 5m (default: 0).",
    ),
]
Body = Annotated[bool, typer.Option("--body", help="Print only the bytes of the body.")]
Full = Annotated[bool, typer.Option("--full", help="Show long bodies in full.")]


def lookup_id_of(text: str) -> str:
    if not (text.isascii() and text.isdigit() and len(text) <= 20):
        raise typer.BadParameter(f"{text!a} is not a valid lookup id; `tiercel peek QUEUE -n 20` shows them")
    return text


LookupId = Annotated[
    str | None,
    typer.Option("--lookup-id", metavar="ID", parser=lookup_id_of, help="The message with this lookup id."),
]


@verbs.command(
    "receive",
    epilog=r"""
A message is leased, printed, and only then acknowledged. If the output cannot be written or the program is
killed, the message returns to its place. A message may be printed twice; it is never lost.

Examples:

    tiercel receive orders
    tiercel receive orders --wait 30
    tiercel receive orders --all --json > orders.jsonl
    tiercel receive orders --body > picture.png
    tiercel receive orders --follow

exit codes: 0 message received, 3 no message in time
""",
)
@connected
def receive(
    context: Context,
    queue: QueueName,
    count: Count = 1,
    everything: Annotated[
        bool, typer.Option("--all", "-a", help="Receive until the queue is empty.")
    ] = False,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep receiving until Ctrl-C.")] = False,
    wait: Wait = 0.0,
    lookup_id: LookupId = None,
    body: Body = False,
    full: Full = False,
) -> ExitCode | None:
    """Receive messages from a queue and print them."""
    show = _printer(context, body=body, full=full or not sys.stdout.isatty())
    limit = 1 if lookup_id else None if everything or follow else count
    taken = 0
    with ended_politely(), Leased(context, queue, lookup_id) as leased:
        while limit is None or taken < limit:
            wait_s = math.inf if follow else 0 if taken else wait
            message = leased.next(None if limit is None else limit - taken, wait_s)
            if message is None:
                break
            show(message)
            sys.stdout.flush()
            leased.acknowledge()
            taken += 1
    return None if taken else _nothing(context, queue, wait)


@contextmanager
def ended_politely() -> Iterator[None]:
    """Treat SIGTERM like Ctrl-C, so that leased messages return at once."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class Leased:
    """Leased messages, in queue order.

    A thread extends the leases, because the reader of the output may be slow.
    """

    def __init__(self, context: Context, queue: str, lookup_id: str | None) -> None:
        self._api = context.api
        self._queue = queue
        self._lookup_id = lookup_id
        self._messages: deque[Record] = deque()
        self._ended = Event()
        self._keeper = Thread(target=self._keep, daemon=True)

    def __enter__(self) -> Self:
        self._keeper.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._keeper.join()
        self._give_back()

    def next(self, limit: int | None, wait_s: float) -> Record | None:
        """The next message, or None if none arrived in time."""
        deadline = time.monotonic() + wait_s
        while not self._messages:
            left_ms = max(0.0, deadline - time.monotonic()) * 1000
            request: Record = {
                "limit": min(limit or _LEASED_AT_ONCE, _LEASED_AT_ONCE),
                "wait_ms": int(min(left_ms, _LONGEST_WAIT_MS)),
                "lease_s": _LEASE_S,
            }
            if self._lookup_id is not None:
                request["lookup_id"] = self._lookup_id
            self._messages.extend(self._api.post(queue_path(self._queue, "receive"), request)["messages"])
            if not self._messages and left_ms <= _LONGEST_WAIT_MS:
                return None
        return self._messages[0]

    def acknowledge(self) -> None:
        """Acknowledge the first message, after it was written."""
        message = self._messages.popleft()
        try:
            self._api.post(f"leases/{message['lease']}/acknowledge")
        except Refused as refused:
            line = f"message {message['lookup_id']} was printed but may be delivered again: {refused}"
            raise Failure(line, refused.code) from refused

    def _keep(self) -> None:
        while not self._ended.wait(_EXTENDED_EVERY_S):
            for message in list(self._messages):
                with suppress(Failure):  # `acknowledge` reports it
                    self._api.post(f"leases/{message['lease']}/extend", {"lease_s": _LEASE_S})

    def _give_back(self) -> None:
        """Return messages that were not printed; on failure they return when their leases expire."""
        while self._messages:
            message = self._messages.popleft()
            try:
                self._api.post(f"leases/{message['lease']}/return")
            except Failure:
                return


@verbs.command(
    "peek",
    epilog=r"""
Examples:

    tiercel peek orders                  the next message in full
    tiercel peek orders -n 20            the next twenty, one line each
    tiercel peek orders --lookup-id 72057594037927937
    tiercel peek orders --json | jq -r .label

exit codes: 0 message found, 3 no message in time
""",
)
@connected
def peek(
    context: Context,
    queue: QueueName,
    count: Count = 1,
    wait: Wait = 0.0,
    lookup_id: LookupId = None,
    body: Body = False,
    full: Full = False,
) -> ExitCode | None:
    """Show the next messages of a queue without receiving them."""
    if lookup_id is not None:
        messages = [context.api.get(queue_path(queue, "messages", lookup_id))]
    else:
        messages = _first(context, queue, count, wait)
    if not messages:
        return _nothing(context, queue, wait)
    if count == 1 or context.out.as_json or body or full:
        show = _printer(context, body=body, full=full)
        for message in messages:
            show(message)
    else:
        context.out.table(messages, COLUMNS, empty="")
    return None


def _first(context: Context, queue: str, count: int, wait_s: float) -> list[Record]:
    found: list[Record] = []
    after: str | None = None
    deadline = time.monotonic() + wait_s
    while len(found) < count:
        left_ms = 0 if found else max(0.0, deadline - time.monotonic()) * 1000
        page = context.api.get(
            queue_path(queue, "messages"),
            after=after,
            limit=min(count - len(found), 1000),
            wait_ms=int(min(left_ms, _LONGEST_WAIT_MS)),
            available_only=True,
        )
        found += page["messages"]
        after = page["next"]
        if after is None and (found or left_ms <= _LONGEST_WAIT_MS):
            break
    return found


def _printer(context: Context, *, body: bool, full: bool) -> Callable[[Record], None]:
    if body:
        return lambda message: void(sys.stdout.buffer.write(body_of(message)))
    if context.out.as_json:
        return context.out.record
    return lambda message: context.out.show(whole(message, is_full=full))


def void(_result: object) -> None:
    """Discard a result, for use in a lambda."""


def _nothing(context: Context, queue: str, wait_s: float) -> ExitCode:
    if not context.out.as_json:
        note(f"{queue}: no message{f' in {wait_s:g} s' if wait_s else ''}")
    return ExitCode.NOTHING
