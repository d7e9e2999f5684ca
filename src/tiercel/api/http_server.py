"""Serves an application on open sockets, on the current event loop, without touching signals."""

import asyncio
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, ClassVar, Final

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_STOP_S: Final = 2  # grace period for requests in progress
_IDLE_S: Final = 75  # longer than clients keep idle connections, so that the client closes first
_CREDENTIALS: Final = struct.Struct("3i")  # struct ucred: process, user, group


class Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:  # the daemon handles them
        yield


def new_server(app: ASGIApp, http: type[asyncio.Protocol] | None = None, **options: Any) -> Server:
    return Server(
        uvicorn.Config(
            app,
            http=http or PunctualHttp,
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            date_header=False,
            timeout_graceful_shutdown=_STOP_S,
            **{"timeout_keep_alive": _IDLE_S, **options},
        )
    )


class Serving:
    """A server in a task of its own."""

    def __init__(self, app: ASGIApp, listener: socket.socket, **options: Any) -> None:
        self._server = new_server(app, **options)
        self._task = asyncio.get_running_loop().create_task(self._server.serve([listener]))

    async def stop(self) -> None:
        self._server.should_exit = True
        with suppress(asyncio.CancelledError):
            await self._task


class PunctualHttp(HttpToolsProtocol):
    """Closes silent connections: uvicorn waits for the rest of a request forever, and idle connections would
    use up the limit.
    """

    silence_s: ClassVar[float] = 60
    _hangs_up: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait_for_more()

    def data_received(self, data: bytes) -> None:
        self._wait_for_more()
        super().data_received(data)

    def on_message_complete(self) -> None:
        self._stop_waiting()  # the request is complete
        super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait_for_more(self) -> None:
        self._stop_waiting()
        self._hangs_up = asyncio.get_running_loop().call_later(self.silence_s, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._hangs_up is not None:
            self._hangs_up.cancel()
            self._hangs_up = None


class LocalHttp(PunctualHttp):
    """HTTP on a Unix socket: the kernel tells which user the client runs as."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        peer = transport.get_extra_info("socket")
        _pid, uid, _gid = _CREDENTIALS.unpack(
            peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        )
        self.client = (f"uid {uid}", 0)
