"""An application on sockets that are open already, on the event loop that runs; signals are left alone."""

import asyncio
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import uvicorn
from starlette.applications import Starlette

from tiercel.store.lmdb_files import SOCKET_NAME

_STOP_S: Final = 2  # for requests that have begun


class Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:  # they are the daemon's
        yield


def new_server(app: Starlette, **options: Any) -> Server:
    return Server(
        uvicorn.Config(
            app,
            http="httptools",
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            date_header=False,
            timeout_graceful_shutdown=_STOP_S,
            **options,
        )
    )


class Serving:
    """A server that runs beside other things."""

    def __init__(self, app: Starlette, listener: socket.socket) -> None:
        self._server = new_server(app)
        self._task = asyncio.get_running_loop().create_task(self._server.serve([listener]))

    async def stop(self) -> None:
        self._server.should_exit = True
        with suppress(asyncio.CancelledError):
            await self._task


class Door:
    """The Unix socket beside the store, for its owner alone.

    Named through an open directory: the name of a socket may have 107 bytes only, and a path more.
    """

    def __init__(self, directory: Path) -> None:
        self._descriptor = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self.name = f"/proc/self/fd/{self._descriptor}/{SOCKET_NAME}"

    def listen(self) -> socket.socket:
        self.remove()  # what a daemon left that was killed; ours is the store now
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        before = os.umask(0o177)
        try:
            listener.bind(self.name)
        except BaseException:
            listener.close()
            raise
        finally:
            os.umask(before)
        listener.listen(128)
        return listener

    def remove(self) -> None:
        Path(self.name).unlink(missing_ok=True)

    def close(self) -> None:
        os.close(self._descriptor)
