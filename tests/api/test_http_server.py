"""Clients that take a place and do not use it."""

import asyncio
import socket

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from data.served import PATIENCE_S
from tiercel.api.http_server import PunctualHttp, Serving


class Impatient(PunctualHttp):
    silence_s = 0.2


async def _echo(request: Request) -> Response:
    return PlainTextResponse(await request.body())


async def _slow(_request: Request) -> Response:
    await asyncio.sleep(2 * Impatient.silence_s)
    return PlainTextResponse("slow")


async def ask(data: bytes) -> bytes:
    """What the server says to these bytes until it hangs up."""
    app = Starlette(routes=[Route("/echo", _echo, methods=["POST"]), Route("/slow", _slow)])
    listener = socket.create_server(("127.0.0.1", 0))
    serving = Serving(app, listener, http=Impatient, timeout_keep_alive=1)
    try:
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        writer.write(data)
        async with asyncio.timeout(PATIENCE_S):
            try:
                said = await reader.read()
            except ConnectionResetError:
                said = b""
        writer.close()
    finally:
        await serving.stop()
        listener.close()
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
