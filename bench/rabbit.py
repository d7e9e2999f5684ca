"""RabbitMQ, beside which the daemon is measured: a broker of our own, and clients in pika and in C."""

import importlib
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mqqb import STAMP, Times

QUEUE = "bench"
IN_FLIGHT = 1000  # unconfirmed, and unacknowledged at the consumer: with more pika gets no faster

_C_SOURCE = Path(__file__).with_name("rabbit_client.c")
_SERVER = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")  # not the wrapper, which changes the user
_START_S = 60.0
_STOP_S = 30.0


def missing() -> str:
    """What keeps us from measuring it; nothing, if it can be measured."""
    if not _SERVER.exists():
        return "it is not installed (apt-get install rabbitmq-server)"
    if importlib.util.find_spec("pika") is None:
        return "pika is not installed (make bench-daemon installs it)"
    return ""


def missing_in_c() -> str:
    """What keeps us from measuring it with a client in C."""
    if not Path("/usr/include/amqp.h").exists():
        return "librabbitmq is not installed (apt-get install librabbitmq-dev)"
    return "" if shutil.which("gcc") else "gcc is not installed"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Broker:
    """A node with its data in a folder of its own, on loopback only."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self._folder = folder
        self._names_port = str(free_port())
        folder.mkdir()
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "RABBITMQ_NODENAME": f"tiercel-bench-{os.getpid()}@localhost",
            "RABBITMQ_MNESIA_BASE": str(folder / "db"),
            "RABBITMQ_LOG_BASE": str(folder / "log"),
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_CONFIG_FILE": str(folder / "none"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": self._names_port,
        }
        self._output = folder / "output"
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(  # noqa: S603  # a program of the system
                [_SERVER], env=environment, stdout=output, stderr=output, start_new_session=True
            )
        self._wait()

    @property
    def pid(self) -> int:
        return self._process.pid

    def _wait(self) -> None:
        deadline = time.monotonic() + _START_S
        while "completed with" not in (text := self._output.read_text("utf-8", "replace")):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise RuntimeError(f"RabbitMQ did not start: {text[-2000:]}")
            time.sleep(0.2)

    def stop(self) -> None:
        os.killpg(self._process.pid, signal.SIGTERM)
        self._process.wait(_STOP_S)
        # The name server of Erlang, which it has started on a port of its own, stays unless told.
        subprocess.run(["epmd", "-port", self._names_port, "-kill"], check=False, capture_output=True)  # noqa: S603, S607
        shutil.rmtree(self._folder, ignore_errors=True)


def declare(port: int, *, purge: bool = False) -> None:
    """A quorum queue, which is on disk before it confirms."""
    pika: Any = importlib.import_module("pika")
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port))
    channel = connection.channel()
    channel.queue_declare(QUEUE, durable=True, arguments={"x-queue-type": "quorum"})
    if purge:
        channel.queue_purge(QUEUE)
    connection.close()


class _End:
    """On the connection that pika has for speed; its blocking one waits for every confirm by itself."""

    def __init__(self, port: int) -> None:
        self.pika: Any = importlib.import_module("pika")
        declare(port)
        self.connection = self.pika.SelectConnection(
            self.pika.ConnectionParameters("127.0.0.1", port),
            on_open_callback=lambda connection: connection.channel(on_open_callback=self.ready),
            on_close_callback=lambda connection, _reason: connection.ioloop.stop(),
        )

    def ready(self, channel: Any) -> None:
        raise NotImplementedError

    def run(self) -> None:
        self.connection.ioloop.start()


class Publisher(_End):
    """Persistent messages with confirms; `rate` a second, or as fast as it goes."""

    def __init__(self, port: int, body_size: int, count: int, rate: int = 0) -> None:
        # The timeouts of epoll are whole milliseconds, as long as what is measured.
        pollers: Any = importlib.import_module("pika.adapters.select_connection")
        pollers.SELECT_TYPE = "select" if rate else None
        super().__init__(port)
        self._body = bytes(body_size)
        self._count = count
        self._rate = rate
        self._sent = self._confirmed = 0
        self._first = self._last = 0.0
        self._persistent = self.pika.BasicProperties(delivery_mode=2)

    def send(self) -> Times:
        self.run()
        return Times(self._first, self._last)

    def ready(self, channel: Any) -> None:
        self._channel = channel
        channel.confirm_delivery(self._take_confirm, callback=self._begin)

    def _begin(self, _frame: Any) -> None:
        self._first = time.monotonic()
        self._publish()

    def _publish(self) -> None:
        while self._sent < self._count and self._sent - self._confirmed < IN_FLIGHT:
            body = self._body
            if self._rate:
                due = self._first + self._sent / self._rate
                if (wait := due - time.monotonic()) > 0:
                    self.connection.ioloop.call_later(wait, self._publish)
                    return
                body = STAMP.pack(due) + body[STAMP.size :]
            self._channel.basic_publish("", QUEUE, body, self._persistent)
            self._sent += 1

    def _take_confirm(self, frame: Any) -> None:
        method = frame.method
        assert isinstance(method, self.pika.spec.Basic.Ack)
        self._confirmed = method.delivery_tag if method.multiple else self._confirmed + 1
        if self._confirmed >= self._count:
            self._last = time.monotonic()
            self.connection.close()
        elif not self._rate:
            self._publish()


class Consumer(_End):
    def __init__(self, port: int, count: int, *, is_stamped: bool = False) -> None:
        super().__init__(port)
        self._count = count
        self._is_stamped = is_stamped
        self._ack_after = 1 if is_stamped else IN_FLIGHT // 4
        self._received = 0
        self._first = self._last = 0.0
        self._latencies: list[float] = []

    def receive(self) -> Times:
        self.run()
        return Times(self._first, self._last, tuple(self._latencies))

    def ready(self, channel: Any) -> None:
        channel.basic_qos(
            prefetch_count=IN_FLIGHT, callback=lambda _frame: channel.basic_consume(QUEUE, self._take)
        )

    def _take(self, channel: Any, method: Any, _properties: Any, body: bytes) -> None:
        now = time.monotonic()
        self._first = self._first or now
        self._received += 1
        if self._is_stamped:
            self._latencies.append(now - STAMP.unpack_from(body)[0])
        if self._received % self._ack_after == 0 or self._received == self._count:
            channel.basic_ack(method.delivery_tag, multiple=True)
        if self._received == self._count:
            self._last = now
            self.connection.close()


class ClientInC:
    """Both ends in C, as processes: what the broker can do when its clients cost next to nothing."""

    def __init__(self, folder: Path) -> None:
        self._program = folder / "rabbit_client"
        compiler = ["gcc", "-O2", "-o", str(self._program), str(_C_SOURCE), "-lrabbitmq"]
        subprocess.run(compiler, check=True)  # noqa: S603  # our own source

    def run(self, ready: Callable[[], None], end: str, port: int, count: int, *options: int) -> Times:
        """`ready` is called when it begins."""
        numbers = (port, QUEUE, count, IN_FLIGHT, *options)
        process = subprocess.Popen(  # noqa: S603  # just compiled
            [str(self._program), end, *map(str, numbers)], stdout=subprocess.PIPE, text=True
        )
        with process:
            assert process.stdout is not None
            if process.stdout.readline() != "ready\n":
                raise RuntimeError("the client in C did not start")
            ready()
            first, last = map(float, process.stdout.readline().split())
            return Times(first, last, tuple(map(float, process.stdout)))
