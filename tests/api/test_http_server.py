"""Clients that take a place and do not use it."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Message

from data.served import PATIENCE_S
from data.test_authorization import certificate
from tiercel.api.authorization import ADMITTED, TokenAuthorization
from tiercel.api.http_server import PunctualHttp, Serving
from tiercel.api.listening import tls_context
from tiercel.api.problems import HANDLERS
from tiercel.model.errors import AccessDeniedError
from tiercel.security.tokens import Role
from tiercel.server.config import ApiOptions
from tiercel.server.connection_limits import ConnectionLimits

Address = tuple[str, int]


class Impatient(PunctualHttp):
    headers_s = silence_s = 0.2


async def _echo(request: Request) -> Response:
    return PlainTextResponse(await request.body())


async def _denied(_request: Request) -> Response:
    return PlainTextResponse("no token", 401)


async def _slow(_request: Request) -> Response:
    await asyncio.sleep(2 * Impatient.silence_s)
    return PlainTextResponse("slow")


async def _large(request: Request) -> Response:
    if "authorization" in request.headers:
        request.scope["state"][ADMITTED] = True
    return PlainTextResponse(bytes(12 << 20))


@asynccontextmanager
async def serving(**options: Any) -> AsyncIterator[Address]:
    app = Starlette(
        routes=[
            Route("/echo", _echo, methods=["POST"]),
            Route("/slow", _slow),
            Route("/large", _large),
            Route("/denied", _denied, methods=["POST"]),
        ]
    )
    listener = socket.create_server(("127.0.0.1", 0))
    server = Serving(app, listener, **{"http": Impatient, "timeout_keep_alive": 1, **options})
    try:
        async with asyncio.timeout(PATIENCE_S):
            yield listener.getsockname()
    finally:
        await server.stop()
        listener.close()


async def rest(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read()
    except ConnectionError:
        return b""


async def ask(data: bytes) -> bytes:
    """What the server says to these bytes until it hangs up."""
    async with serving() as address:
        reader, writer = await asyncio.open_connection(*address)
        writer.write(data)
        said = await rest(reader)
        writer.close()
    return said


@pytest.mark.parametrize(
    "data",
    [b"", b"GET /echo HTTP/1.1\r\nHost:", b"POST /echo HTTP/1.1\r\nContent-Length: 10\r\n\r\nhalf"],
    ids=["nothing", "half a head", "half a body"],
)
def test_who_is_silent_is_sent_away(data: bytes) -> None:
    assert asyncio.run(ask(data)) == b""


@pytest.mark.parametrize(
    ("data", "answer"),
    [
        (b"POST /echo HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello", b"hello"),
        (b"GET /slow HTTP/1.1\r\n\r\n", b"slow"),
    ],
    ids=["at once", "an answer that takes its time"],
)
def test_who_asks_is_answered(data: bytes, answer: bytes) -> None:
    assert asyncio.run(ask(data)).endswith(answer)


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"POST /echo HTTP/1.1\r\nHost: x\r\nX-Drip: ",
        b"POST /echo HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n",
        b"POST /denied HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n",
    ],
    ids=["a request line", "headers", "a body", "the body of an answered request"],
)
def test_single_bytes_do_not_extend_the_deadline(head: bytes) -> None:
    async def main() -> None:
        async with serving() as address:
            reader, writer = await asyncio.open_connection(*address)
            writer.write(head)
            ended = asyncio.ensure_future(rest(reader))
            with suppress(ConnectionError):
                while not ended.done():
                    writer.write(b"G")
                    await asyncio.wait([ended], timeout=Impatient.headers_s / 10)
            await ended
            writer.transport.abort()

    asyncio.run(main())


def test_a_client_that_says_nothing_has_the_same_deadline() -> None:
    async def main() -> bytes:
        async with serving() as address:
            reader, writer = await asyncio.open_connection(*address)
            said = await rest(reader)
            writer.transport.abort()
            return said

    assert asyncio.run(main()) == b""


@pytest.mark.parametrize(
    "start",
    [b"\r\n", b"POST /echo HTTP/1.1\r\nHost:", b"POST /echo HTTP/1.1\r\nContent-Length: 10\r\n\r\nhalf"],
    ids=["an empty line", "half a head", "half a body"],
)
def test_a_later_request_has_the_same_deadline(start: bytes) -> None:
    async def main() -> bytes:
        async with serving(timeout_keep_alive=PATIENCE_S) as address:
            reader, writer = await asyncio.open_connection(*address)
            writer.write(b"POST /echo HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello")
            assert (await reader.readuntil(b"hello")).startswith(b"HTTP/1.1 200")
            writer.write(start)
            said = await rest(reader)
            writer.transport.abort()
            return said

    assert asyncio.run(main()) == b""


@pytest.mark.parametrize("path", [b"/echo", b"/denied"])
@pytest.mark.parametrize("trailer", [b"X", b"X: y\r\n"], ids=["one", "many"])
def test_a_trailer_has_a_maximum_size(path: bytes, trailer: bytes) -> None:
    """The parser keeps it, before anybody has looked at the token."""

    async def main() -> None:
        async with serving(http=PunctualHttp) as address:
            reader, writer = await asyncio.open_connection(*address)
            head = b"POST %b HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" % path
            writer.write(head + b"1\r\nx\r\n0\r\n")
            ended = asyncio.ensure_future(rest(reader))
            with suppress(ConnectionError):
                for _ in range(1000):
                    writer.write(trailer * 1000)
                    await writer.drain()
            await ended
            writer.transport.abort()

    asyncio.run(main())


def test_a_client_that_hangs_up_in_its_body_is_no_error() -> None:
    """The server would log each one with a traceback."""
    app = Starlette(routes=[Route("/echo", _echo, methods=["POST"])], exception_handlers=HANDLERS)
    arriving: list[Message] = [
        {"type": "http.request", "body": b"x", "more_body": True},
        {"type": "http.disconnect"},
    ]
    answers: list[Message] = []

    async def receive() -> Message:
        return arriving.pop(0)

    async def send(message: Message) -> None:
        answers.append(message)

    scope = {"type": "http", "method": "POST", "path": "/echo", "headers": [], "query_string": b""}
    asyncio.run(app(scope, receive, send))
    assert answers[0]["status"] == 400


def test_headers_have_a_maximum_size() -> None:
    async def main() -> bytes:
        async with serving(http=PunctualHttp) as address:
            reader, writer = await asyncio.open_connection(*address)
            writer.write(b"GET /slow HTTP/1.1\r\n")
            with suppress(ConnectionError):
                for _ in range(100):
                    writer.write(b"X-More: " + 1000 * b"x" + b"\r\n")
                    await writer.drain()
            said = await rest(reader)
            writer.transport.abort()
            return said

    assert asyncio.run(main())[:12] in {b"HTTP/1.1 400", b""}  # the answer may be lost with unread headers


def test_half_requests_do_not_keep_others_out() -> None:
    async def main() -> bytes:
        async with serving(http=PunctualHttp, limits=ConnectionLimits("test", 4, 4)) as address:
            halves = [await asyncio.open_connection(*address) for _ in range(20)]
            for _, writer in halves:
                writer.write(b"GET /sl")
            reader, writer = await asyncio.open_connection(*address)
            writer.write(b"POST /echo HTTP/1.1\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello")
            said = await rest(reader)
            for _, other in [*halves, (reader, writer)]:
                other.close()
            return said

    assert asyncio.run(main()).endswith(b"hello")


@pytest.mark.parametrize("is_admitted", [False, True])
def test_answers_that_are_not_read_keep_others_out_only_if_a_token_asked(is_admitted: bool) -> None:
    """Some answers are for everybody, as the description of the API."""

    async def main() -> tuple[bytes, list[bytes]]:
        async with serving(http=PunctualHttp, limits=ConnectionLimits("test", 2, 2)) as address:
            header = b"Authorization: Bearer x\r\n" if is_admitted else b""
            unread = [await asyncio.open_connection(*address, limit=1024) for _ in range(2)]
            for reader, writer in unread:
                for kept in (b"keep-alive", b"close"):
                    writer.write(b"GET /large HTTP/1.1\r\nConnection: %b\r\n%b\r\n" % (kept, header))
                assert (await reader.readline()).startswith(b"HTTP/1.1 200")
            reader, writer = await asyncio.open_connection(*address)
            writer.write(b"POST /echo HTTP/1.1\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello")
            said = await rest(reader)
            whole = [await rest(each) for each, _ in unread]
            for _, other in [*unread, (reader, writer)]:
                other.close()
            return said, whole

    said, whole = asyncio.run(main())
    if is_admitted:
        assert b" 503 " in said
        assert [len(each) > 24 << 20 for each in whole] == [True, True]
    else:
        assert said.endswith(b"hello")


def test_requests_with_a_token_are_marked(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text(f"boss admin {sha256(b'secret').hexdigest()}\n", "ascii")
    file.chmod(0o600)
    authorization = TokenAuthorization(str(file), "API", "api")
    for token, is_admitted in ((b"secret", True), (b"other", False)):
        headers = [(b"authorization", b"Bearer " + token)]
        request = Request({"type": "http", "headers": headers, "state": {}})
        with suppress(AccessDeniedError):
            authorization.check(request, Role.READ)
        assert (ADMITTED in request.scope["state"]) == is_admitted


def test_one_address_has_a_limit_of_its_own() -> None:
    """All connections of the address are in use: the next gets 503, and another address an answer."""

    async def main() -> list[bytes]:
        class Slow(PunctualHttp):
            silence_s = 3600

        async with serving(http=Slow, limits=ConnectionLimits("test", 10, 2)) as address:
            busy = [await asyncio.open_connection(*address) for _ in range(2)]
            for reader, writer in busy:
                writer.write(b"POST /echo HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
                assert (await reader.readline()).startswith(b"HTTP/1.1 100")
            said = []
            for own in ("127.0.0.1", "127.0.0.2"):
                reader, writer = await asyncio.open_connection(*address, local_addr=(own, 0))
                said.append(await reader.readline() if own == "127.0.0.1" else b"")
                if own != "127.0.0.1":
                    writer.write(b"POST /echo HTTP/1.1\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi")
                    said[-1] = await rest(reader)
                writer.close()
            for _, writer in busy:
                writer.close()
            return said

    refused, answered = asyncio.run(main())
    assert refused.startswith(b"HTTP/1.1 503")
    assert answered.endswith(b"hi")


class TestTls:
    @staticmethod
    def options(folder: Path) -> dict[str, Any]:
        cert, key = certificate(folder)
        files = ApiOptions(tls_certificate=str(cert), tls_key=str(key))
        return {"tls": tls_context("api", files)}

    def test_half_handshakes_do_not_keep_others_out(self, tmp_path: Path) -> None:
        options, limits = self.options(tmp_path), ConnectionLimits("test", 4, 4)
        context = ssl.create_default_context(cafile=tmp_path / "certificate.pem")
        question = b"POST /echo HTTP/1.1\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello"

        async def main() -> bytes:
            async with serving(http=PunctualHttp, limits=limits, **options) as address:
                silent = [await asyncio.open_connection(*address) for _ in range(6)]
                reader, writer = await asyncio.open_connection(*address, ssl=context)
                writer.write(question)
                said = await rest(reader)
                for other, _ in silent[:2]:
                    assert await rest(other) == b""
                for _, each in [*silent, (reader, writer)]:
                    each.transport.abort()
                return said

        assert asyncio.run(main()).endswith(b"hello")

    @pytest.mark.parametrize("data", [b"", b"\x16\x03\x01", b"GET / HTTP/1.1\r\n\r\n"], ids=str)
    def test_a_handshake_has_a_deadline(self, tmp_path: Path, data: bytes) -> None:
        async def main() -> None:
            limits = ConnectionLimits("test", 4, 4)
            async with serving(limits=limits, **self.options(tmp_path)) as address:
                reader, writer = await asyncio.open_connection(*address)
                writer.write(data)
                await rest(reader)
                while len(limits):  # noqa: ASYNC110  # nobody tells
                    await asyncio.sleep(0.01)
                writer.transport.abort()

        asyncio.run(main())
