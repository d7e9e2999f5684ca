"""`tiercel bench`: current response times of the daemon, through the API on one connection."""

import base64
import json
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median, quantiles
from typing import Annotated, Final, NamedTuple

import typer

from tiercel.cli.connection import Api, queue_path
from tiercel.cli.context import Context, connected
from tiercel.cli.output import Column, note, number

verbs = typer.Typer()

_MANY: Final = 1000  # messages per request


class Measured(NamedTuple):
    what: str
    messages: int
    seconds: float
    latencies_ms: list[float]

    @property
    def rate(self) -> float:
        return self.messages / self.seconds

    def record(self) -> dict[str, object]:
        return {
            "what": self.what,
            "messages": self.messages,
            "messages_per_s": round(self.rate, 1),
            "latency_p50_ms": round(median(self.latencies_ms), 3),
            "latency_p99_ms": round(_p99(self.latencies_ms), 3),
        }


def _p99(values: list[float]) -> float:
    return quantiles(values, n=100)[-1] if len(values) > 1 else values[0]


_COLUMNS: Final = (
    Column("", lambda row: row["what"]),
    Column("MESSAGES/S", lambda row: number(round(row["messages_per_s"])), "right", "bold"),
    Column("MEDIAN", lambda row: f"{row['latency_p50_ms']:.2f} ms", "right"),
    Column("99 %", lambda row: f"{row['latency_p99_ms']:.2f} ms", "right"),
)


@verbs.command(
    "bench",
    epilog="""
It creates a temporary queue. One connection waits for each response; programs that use port 1801 or several
connections are faster. `make bench` in the source tree measures those.

Examples:

    tiercel bench
    tiercel bench --seconds 10 --size 100000
""",
)
@connected
def bench(
    context: Context,
    seconds: Annotated[
        float, typer.Option(metavar="S", min=0.05, help="Duration of each part (default: 1).")
    ] = 1.0,
    size: Annotated[
        int, typer.Option(metavar="BYTES", min=0, max=1_000_000, help="Body size (default: 1000).")
    ] = 1000,
) -> None:
    """Measure the daemon: messages per second and latency."""
    rows = []
    with _queue(context.api) as queue:
        for what, step in _parts(context.api, queue, base64.b64encode(bytes(size)).decode()):
            if not context.out.as_json:
                note(f"{what} ...")
            rows.append(_measure(what, step, seconds).record())
    context.out.table(rows, _COLUMNS, empty="")


@contextmanager
def _queue(api: Api) -> Iterator[str]:
    queue = f"tiercel-bench-{secrets.token_hex(4)}"
    api.post("queues", {"path_name": queue, "label": "temporary queue of tiercel bench"})
    try:
        yield queue
    finally:
        while _receive_many(api, queue):  # messages of a deleted queue would fill the discards
            pass
        api.delete(queue_path(queue))


def _receive_many(api: Api, queue: str) -> int:
    wanted = {"limit": _MANY, "acknowledge": "now", "bodies": False}
    return len(api.post(queue_path(queue, "receive"), wanted)["messages"])


Step = Callable[[], int]


def _parts(api: Api, queue: str, body: str) -> Iterator[tuple[str, Step]]:
    path = queue_path(queue, "messages")
    express, recoverable = {"body": body}, {"body": body, "delivery": "recoverable"}
    many = b"\n".join([json.dumps(recoverable).encode()] * _MANY)

    def send(message: dict[str, str]) -> int:
        api.post(path, message)
        return 1

    def send_many() -> int:
        return int(api.post_lines(path, many)["count"])

    def receive() -> int:
        messages = api.post(queue_path(queue, "receive"), {"limit": 1})["messages"]
        for message in messages:
            api.post(f"leases/{message['lease']}/acknowledge")
        return len(messages)

    def receive_many() -> int:
        return len(api.post(queue_path(queue, "receive"), {"limit": _MANY, "acknowledge": "now"})["messages"])

    yield "send, express", lambda: send(express)
    yield "send, recoverable", lambda: send(recoverable)
    yield f"send {_MANY} at a time, recoverable", send_many
    yield "receive and acknowledge", receive
    yield f"receive {_MANY} at a time", receive_many


def _measure(what: str, step: Step, seconds: float) -> Measured:
    """Repeat for `seconds`, at least once; stop when there is nothing left to receive."""
    messages = 0
    latencies_ms: list[float] = []
    start = now = time.perf_counter()
    while now - start < seconds or not latencies_ms:
        count = step()
        before, now = now, time.perf_counter()
        latencies_ms.append((now - before) * 1000)
        messages += count
        if not count:
            break
    return Measured(what, messages, now - start, latencies_ms)
