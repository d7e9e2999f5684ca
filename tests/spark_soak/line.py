"""The line between Spark and the queue manager: the harness sits on it, sees every step, and can stop there.

All that a job asks of the queue manager goes through here: claims, ranges, stages, acknowledgements. What
passes tells where a batch is. At the step that was asked for, somebody is killed while everybody else waits;
so a kill falls where it should, on a busy machine too. Jobs ask `/gate/STEP` here about the steps that the
queue manager does not see.
"""

import http.client
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

from spark_soak.steps import Step

_HALF = 2048  # bytes of an answer: less than any that matters
_BROKEN = (OSError, http.client.HTTPException)


@dataclass(slots=True)
class Stop:
    """What is to happen at a step: `act` is called with the port of the process that is there, and says
    whether what was on its way shall arrive. The first `skip` times the step goes by.
    """

    step: Step
    act: Callable[[int], bool]
    skip: int = 0


class Line:
    def __init__(self, target: str) -> None:
        self.target = urlsplit(target).netloc
        self.floor: dict[str, int] = {}  # what is acknowledged, by path of the request
        self.seen: list[str] = []  # every request, for tests of who asked what
        self.hold: Callable[[str], None] = lambda _request: None  # tests may let some wait
        self._stop: Stop | None = None
        self._lock = threading.Lock()
        line = self

        class Handler(_Handler):
            pass

        Handler.line = line
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def arm(self, stop: Stop | None) -> None:
        with self._lock:
            self._stop = stop

    def at(self, step: Step, port: int) -> bool:
        """A job is at this step; whether what is on its way shall arrive."""
        with self._lock:
            stop = self._stop
            if stop is None or stop.step is not step:
                return True
            if stop.skip:
                stop.skip -= 1
                return True
            self._stop = None
            return stop.act(port)  # under the lock: nobody passes another step meanwhile


class LostError(Exception):
    """What was on its way does not arrive."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    line: Line

    def do_GET(self) -> None:
        self._relay()

    do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815

    def log_message(self, format: str, *_: Any) -> None:  # noqa: A002
        pass

    def _relay(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.line.seen.append(f"{self.command} {self.path}")
        self.line.hold(self.path)
        try:
            if self.path.startswith("/gate/"):
                self._at(Step(unquote(self.path.removeprefix("/gate/"))))
                self._send(200, {}, b"{}")
            elif "/range?" in self.path:
                self._relay_range()
            else:
                self._relay_verb(body)
        except (LostError, *_BROKEN):
            self.close_connection = True

    def _relay_verb(self, body: bytes) -> None:
        verb = self.path.partition("?")[0].split("/")
        said = json.loads(body) if verb[-1] in {"ack", "claim"} else {}
        is_new_ack = verb[-1] == "ack" and said["up_to"] > self.line.floor.get(self.path, 0)
        if is_new_ack:
            self._at(Step.COMMIT_LOG)
        if verb[-1] == "publish":
            self._at(Step.WRITTEN)
        with self._ask(body) as answer:
            found = answer.read()
            status, kind = answer.status, answer.getheader("Content-Type", "")
        if status < 300:
            told = json.loads(found or b"{}")
            if is_new_ack:
                self.line.floor[self.path] = said["up_to"]
            step = _step_done(verb, is_new_ack=is_new_ack, told=told)
            if step is not None:
                self._at(step)
        self._send(status, {"Content-Type": kind}, found)

    def _relay_range(self) -> None:
        self._at(Step.OFFSET_LOG)
        with self._ask(b"") as answer:
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.getheader("Content-Type", ""))
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self._chunk(answer.read(_HALF))
            self._at(Step.READ)
            while some := answer.read1(1 << 16):
                self._chunk(some)
            if answer.length or (answer.chunked and not answer.isclosed()):
                raise LostError
        self.wfile.write(b"0\r\n\r\n")

    def _at(self, step: Step) -> None:
        if not self.line.at(step, self.client_address[1]):
            raise LostError

    @contextmanager
    def _ask(self, body: bytes) -> Iterator[http.client.HTTPResponse]:
        connection = http.client.HTTPConnection(self.line.target)
        names = ("Accept", "Content-Type")
        try:
            connection.request(
                self.command, self.path, body or None, {name: self.headers.get(name, "") for name in names}
            )
            yield connection.getresponse()
        finally:
            connection.close()

    def _send(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _chunk(self, data: bytes) -> None:
        if data:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def handle(self) -> None:
        with suppress(ConnectionError):  # whoever is killed closes its connections
            super().handle()


def _step_done(verb: list[str], *, is_new_ack: bool, told: dict[str, Any]) -> Step | None:
    """The step that a batch has come to, now that the queue manager has done this."""
    if verb[-1] == "claim" and told["hi"] > told["lo"]:
        return Step.CLAIM
    if "stages" in verb:
        return Step.WRITE
    if verb[-1] == "publish":
        return Step.COMMITTED
    return Step.ACK if is_new_ack else None
