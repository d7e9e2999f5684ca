"""Messages over HTTP, in and out of a daemon, beside something bare in the same run.

bench_srmp.py [--messages N] [--rounds N] [--only in|out] [--kinds KIND ...]
bench_srmp.py --idle [--messages N] [--pairs N] [--slices N]

1 KiB messages over one keep-alive connection and over sixteen, each with one request at a time. "in": clients
post ready-made requests, and a message is done with its 200. The bare server reads them with the same parsers
and keeps as many bytes, in memory or in LMDB, with one commit for what arrives together. "out": messages that
wait in one outgoing queue, or in sixteen, go to a server that only says 200. The bare client takes as many
bytes from LMDB, writes the same requests, reads the answers with the same parser, and deletes what was
answered, one commit for what is answered together. The cost is processor time of the daemon or of the bare
program. --idle: what an idle listener costs port 1801.
"""

import argparse
import asyncio
import json
import os
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial
from multiprocessing.connection import Connection
from pathlib import Path
from uuid import UUID, uuid4

import httptools
import httpx
import lmdb
from bench_daemon import Daemon, Meter, Speed, Tiercel, Worker, folder
from bench_pairs import Pair, Round, take_turns
from rabbit import free_port

from tiercel.model.format_name import FormatName
from tiercel.model.identifiers import MessageId, TxSequenceId
from tiercel.model.message import Message
from tiercel.server.process_tuning import collect_garbage_rarely
from tiercel.srmp.http_request import RequestParser, read_http_request
from tiercel.srmp.http_response import ResponseParser
from tiercel.srmp.message import envelope_of, read_message
from tiercel.srmp.request import read_srmp, write_srmp
from tiercel.wire.message import encode_message

HOST = "127.0.0.1"
BODY = b"x" * 1024
KINDS = ("regular", "durable", "stream")
CONNECTIONS = (1, 16)
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
QUEUES = {"regular": "plain", "durable": "plain", "stream": "ordered"}


# Requests.


def message(kind: str, url: str, sender: UUID, number: int, sequence: int) -> Message:
    made = Message(
        BODY,
        label=f"order {number}",
        destination_queue=FormatName.parse(f"DIRECT={url}"),
        id=MessageId(sender, number),
        sent_time=int(time.time()),
        delivery=0 if kind == "regular" else 1,
    )
    if kind == "stream":
        made.transaction_id, made.tx_sequence_id = 0, TxSequenceId(sequence, 1)
        made.tx_sequence_number, made.previous_tx_sequence_number = number, number - 1
        made.first_in_transaction = made.last_in_transaction = True
    return made


def request(made: Message, receipts: str = "") -> bytes:
    sender = made.id.lineage
    envelope = envelope_of(made, stream_sender=sender, receipts_url=receipts)
    return write_srmp(envelope, made.body, content_guid=sender, boundary=made.id.uniquifier).encode()


def requests(kind: str, url: str, count: int, receipts: str) -> list[bytes]:
    sender, sequence = uuid4(), int(time.time())
    return [request(message(kind, url, sender, each, sequence), receipts) for each in range(1, count + 1)]


def stored_bytes(data: bytes) -> int:
    """The size of the packet that a queue manager keeps of a request."""
    return len(encode_message(read_message(read_srmp(read_http_request(data)), 0), over_http=True))


# The other end, in a process of its own.


@cache
def other_end() -> Worker:
    return Worker()


def post(pipe: Connection, port: int, piles: list[list[bytes]]) -> float:
    """Post each pile over a connection of its own, one request at a time; returns seconds."""
    waiting = selectors.DefaultSelector()
    for pile in piles:
        connection = socket.create_connection((HOST, port))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        waiting.register(connection, selectors.EVENT_READ, pile[::-1])
    pipe.send("connected")
    pipe.recv()
    started = time.perf_counter()
    for key in waiting.get_map().values():
        key.fileobj.sendall(key.data.pop())  # type: ignore[union-attr]
    open_connections = len(piles)
    while open_connections:
        for key, _ in waiting.select():
            connection = key.fileobj  # type: ignore[assignment]
            answer = connection.recv(65536)
            assert answer.startswith(b"HTTP/1.1 200"), answer
            if key.data:
                connection.sendall(key.data.pop())
            else:
                waiting.unregister(connection)
                open_connections -= 1
    return time.perf_counter() - started


class Sink(asyncio.Protocol):
    """A server that says 200 to everything."""

    seen = 0
    times: list[float]
    enough: asyncio.Event
    count: int

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._parser = httptools.HttpRequestParser(self)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_complete(self) -> None:
        Sink.seen += 1
        Sink.times.append(time.perf_counter())
        self._transport.write(OK)  # type: ignore[attr-defined]
        if Sink.seen == Sink.count:
            Sink.enough.set()


def sink(pipe: Connection, port: int, count: int) -> float:
    """Seconds from the first request to the last."""

    async def main() -> float:
        Sink.seen, Sink.times, Sink.enough, Sink.count = 0, [], asyncio.Event(), count
        server = await asyncio.get_running_loop().create_server(Sink, HOST, port)
        pipe.send("listens")
        await Sink.enough.wait()
        server.close()
        return Sink.times[-1] - Sink.times[0]

    return asyncio.run(main())


# The bare programs.


class BareServer(asyncio.Protocol):
    """Reads requests as the daemon does, and stores them; nothing else."""

    store: "BareStore"

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._parser = RequestParser()

    def data_received(self, data: bytes) -> None:
        for each in self._parser.receive(data):
            found = read_srmp(each)
            self.store.put(found.http.encode(), self._transport)


class BareStore:
    def __init__(self, place: Path, size: int, *, keeps: bool) -> None:
        self._environment = lmdb.open(str(place), map_size=8 << 30)
        self._filler = bytes(size)
        self._keeps = keeps
        self._number = 0
        self._memory: list[bytes] = []
        self._batch: list[tuple[bytes, asyncio.BaseTransport]] = []

    def put(self, data: bytes, transport: asyncio.BaseTransport) -> None:
        if not self._batch:
            asyncio.get_running_loop().call_soon(self._commit)
        self._batch.append((data, transport))

    def _commit(self) -> None:
        batch, self._batch = self._batch, []
        values = [(data + self._filler)[: len(self._filler)] for data, _ in batch]
        if self._keeps:
            with self._environment.begin(write=True) as transaction:
                for value in values:
                    self._number += 1
                    transaction.put(self._number.to_bytes(8, "big"), value, append=True)
        else:
            self._memory += values
        for _, transport in batch:
            transport.write(OK)  # type: ignore[attr-defined]


def serve_bare(place: str, port: int, size: int, keeps: str) -> None:
    async def main() -> None:
        collect_garbage_rarely()
        BareServer.store = BareStore(Path(place), size, keeps=keeps == "True")
        await asyncio.get_running_loop().create_server(BareServer, HOST, port)
        await asyncio.Event().wait()

    asyncio.run(main())


class BareClient(asyncio.Protocol):
    """Sends the messages of one queue, one request at a time."""

    def __init__(self, queue: "BareQueue") -> None:
        self.queue = queue

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._parser = ResponseParser()
        self.send()

    def send(self) -> None:
        data = self.queue.next()
        if data is not None:
            self._transport.write(data)  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        for answer in self._parser.receive(data):
            assert answer.status == 200
            self.queue.sender.answered(self)


class BareSender:
    """What all queues of a bare client share: the store, and what was answered since the last commit."""

    def __init__(self, environment: lmdb.Environment | None, left: int) -> None:
        self.environment = environment
        self.end = asyncio.Event()
        self._left = left
        self._answered: list[BareClient] = []

    def answered(self, client: BareClient) -> None:
        if not self._answered:
            asyncio.get_running_loop().call_soon(self._commit)
        self._answered.append(client)

    def _commit(self) -> None:
        clients, self._answered = self._answered, []
        if self.environment is not None:
            with self.environment.begin(write=True) as transaction:
                for client in clients:
                    transaction.delete(client.queue.key)
        self._left -= len(clients)
        if not self._left:
            self.end.set()
        for client in clients:
            client.send()


class BareQueue:
    def __init__(self, sender: BareSender, kind: str, url: str, name: int, count: int) -> None:
        self.sender = sender
        self._kind, self._url, self._name, self._count = kind, url, name, count
        self._guid, self._sequence, self._number = uuid4(), int(time.time()), 0

    @property
    def key(self) -> bytes:
        return self._name.to_bytes(2, "big") + self._number.to_bytes(8, "big")

    def fill(self, size: int) -> None:
        if self.sender.environment is not None:
            with self.sender.environment.begin(write=True) as transaction:
                while self._number < self._count:
                    self._number += 1
                    transaction.put(self.key, bytes(size))
        self._number = 0

    def next(self) -> bytes | None:
        if self._number == self._count:
            return None
        self._number += 1
        if self.sender.environment is not None:
            with self.sender.environment.begin() as view:
                assert view.get(self.key) is not None
        return request(message(self._kind, self._url, self._guid, self._number, self._sequence))


def send_bare(place: str, port: int, kind: str, connections: int, count: int, size: int) -> None:
    async def main() -> None:
        collect_garbage_rarely()
        sender = BareSender(None if kind == "regular" else lmdb.open(place, map_size=8 << 30), count)
        queues = [
            BareQueue(sender, kind, f"HTTP://{HOST}:{port}/msmq/private$/q{each}", each, count // connections)
            for each in range(connections)
        ]
        for queue in queues:
            queue.fill(size)
        print("ready", flush=True)
        sys.stdin.readline()
        for queue in queues:
            await asyncio.get_running_loop().create_connection(lambda q=queue: BareClient(q), HOST, port)  # type: ignore[misc]
        await sender.end.wait()

    asyncio.run(main())


@contextmanager
def bare(function: str, *arguments: object) -> Iterator["subprocess.Popen[str]"]:
    code = f"import sys, bench_srmp as b; b.{function}(*eval(sys.argv[1]))"
    process = subprocess.Popen(  # noqa: S603  # our own
        [sys.executable, "-c", code, repr(arguments)],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parent)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def wait_for(port: int) -> None:
    deadline = time.monotonic() + 300  # a busy computer starts programs slowly
    while True:
        with suppress(OSError):
            socket.create_connection((HOST, port)).close()
            return
        assert time.monotonic() < deadline
        time.sleep(0.02)


# The daemon.


class Served:
    """A daemon with a listener for HTTP."""

    def __init__(self, place: Path) -> None:
        self.data = place / "data"
        self.port, binary = free_port(), free_port()
        for name, transactional in (("plain", False), ("ordered", True)):
            path = rf".\private$\{name}"
            Tiercel.create_queue(None, self.data, f"{HOST}:{binary}", path, transactional=transactional)
        more = f'srmp = {{ enabled = true, host = "{HOST}", port = {self.port}, retry_ms = 100 }}'
        self.daemon = Daemon(HOST, binary, self.data, 64, more)
        transport = httpx.HTTPTransport(uds=str(self.data / "tiercel.sock"))
        self._api = httpx.Client(transport=transport, base_url="http://local/api/v1/", timeout=600)
        wait_for(self.port)

    def ask(self, path: str, content: bytes = b"{}", kind: str = "application/json") -> None:
        self._api.post(path, content=content, headers={"Content-Type": kind}).raise_for_status()

    def stop(self) -> None:
        self._api.close()
        self.daemon.stop()


def measure_in(served: Served, kind: str, connections: int, count: int) -> Speed:
    url = f"HTTP://{HOST}:{served.port}/msmq/private$/{QUEUES[kind]}"
    speed = posted(served.port, served.daemon.pid, kind, url, connections, count)
    served.ask(f"queues/{QUEUES[kind]}/purge")
    return speed


def posted(port: int, pid: int, kind: str, url: str, connections: int, count: int) -> Speed:
    # Receipts wait: nobody listens there.
    receipts = f"http://{HOST}:9/msmq/private$/order_queue$"
    piles = [requests(kind, url, count // connections, receipts) for _ in range(connections)]
    worker = other_end().start(post, port, piles)
    worker.wait()
    meter = Meter(pid)
    worker.tell("go")
    return meter.speed(count, worker.wait())


def measure_bare_in(place: Path, kind: str, connections: int, count: int) -> Speed:
    port = free_port()
    url = f"HTTP://{HOST}:{port}/msmq/private$/{QUEUES[kind]}"
    size = stored_bytes(requests(kind, url, 1, url)[0])
    store = place / f"bare-{uuid4()}"
    store.mkdir()
    with bare("serve_bare", str(store), port, size, str(kind != "regular")) as process:
        wait_for(port)
        return posted(port, process.pid, kind, url, connections, count)


def measure_out(served: Served, kind: str, connections: int, count: int) -> Speed:
    port = free_port()
    names = [f"DIRECT=HTTP://{HOST}:{port}/msmq/private$/q{each}" for each in range(connections)]
    paths = [f"queues/{name.replace('/', '%2F')}" for name in names]
    body = {"body": "eHh4" * 341, "delivery": "express" if kind == "regular" else "recoverable"}
    line = (json.dumps(body) + "\n").encode()
    suffix = "?transactional=true" if kind == "stream" else ""
    for path in paths:
        served.ask(f"{path}/messages{suffix}", line, "application/x-ndjson")  # makes the outgoing queue
        served.ask(f"{path}/pause")
        left = count // connections - 1
        while left:
            step = min(left, 1000)
            served.ask(f"{path}/messages{suffix}", line * step, "application/x-ndjson")
            left -= step
    worker = other_end().start(sink, port, count)
    worker.wait()
    meter = Meter(served.daemon.pid)
    for path in paths:
        served.ask(f"{path}/resume")
    return meter.speed(count, worker.wait())


def measure_bare_out(place: Path, kind: str, connections: int, count: int) -> Speed:
    port = free_port()
    url = f"HTTP://{HOST}:{port}/msmq/private$/q0"
    size = len(encode_message(message(kind, url, uuid4(), 1, 1)))
    worker = other_end().start(sink, port, count)
    worker.wait()
    store = place / f"bare-{uuid4()}"
    store.mkdir()
    with bare("send_bare", str(store), port, kind, connections, count, size) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        meter = Meter(process.pid)
        process.stdin.write("go\n")
        process.stdin.flush()
        return meter.speed(count, worker.wait())


# The idle listener.


def measure_idle(pairs: int, slices: int, count: int) -> None:
    """Port 1801 with the listener of HTTP off and on: pairs of new daemons, which take turns in slices."""
    round_ = Round([_idle_pair(slices, count) for _ in range(pairs)])
    print(
        f"port 1801, in: us a message without the listener and with it idle, change, spread of {pairs} pairs"
    )
    print(round_)


def _idle_pair(slices: int, count: int) -> Pair:
    with folder() as place:
        sides = [
            _Idle(place / "off", ""),
            _Idle(place / "on", f'srmp = {{ enabled = true, host = "{HOST}", port = 0 }}'),
        ]
        try:
            measures = [partial(_cost, side) for side in sides]
            for measure in measures:
                measure(count)  # warm up
            return Pair(*take_turns(measures, slices, count))
        finally:
            for side in sides:
                side.stop()


def _cost(side: "_Idle", count: int) -> float:
    return side.into(count).cost


class _Idle(Tiercel):
    def __init__(self, place: Path, more: str) -> None:
        place.mkdir()
        super().__init__(place, 64)
        self._daemon.stop()  # both are started in the same way
        self._daemon = Daemon("127.0.0.2", self._port, self._data, 64, more)


# All of it.

MEASURES = {"in": (measure_in, measure_bare_in), "out": (measure_out, measure_bare_out)}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--messages", type=int, default=8000)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--only", choices=("in", "out"))
    arguments.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    arguments.add_argument("--idle", action="store_true")
    arguments.add_argument("--pairs", type=int, default=9, help="of --idle (default: 9)")
    arguments.add_argument("--slices", type=int, default=8, help="of a pair, by turns (default: 8)")
    options = arguments.parse_args()
    if options.idle:
        measure_idle(options.pairs, options.slices, options.messages // options.slices)
        return
    print("way  kind     conn  daemon/s   us each  bare/s    us each  rate ratio  cost ratio")
    for way in (options.only,) if options.only else MEASURES:
        for kind in options.kinds:
            for connections in CONNECTIONS:
                _row(way, kind, connections, options.rounds, options.messages)


def _row(way: str, kind: str, connections: int, rounds: int, messages: int) -> None:
    """The best of the rounds, taken by turns."""
    of_daemon, of_bare = MEASURES[way]
    count = messages if connections > 1 else messages // 4
    ours, theirs = [], []
    with folder() as place:
        served = Served(place)
        try:
            for _ in range(rounds):
                ours.append(of_daemon(served, kind, connections, count))
                theirs.append(of_bare(place, kind, connections, count))
        finally:
            served.stop()
    our, their = max(ours, key=lambda each: each.rate), max(theirs, key=lambda each: each.rate)
    print(
        f"{way:4} {kind:8} {connections:4} {our.rate:9,.0f} {our.cost:9.0f}"
        f" {their.rate:9,.0f} {their.cost:8.0f}"
        f" {our.rate / their.rate:10.2f} {their.cost / our.cost:10.2f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
