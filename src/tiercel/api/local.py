"""The API on a store that no daemon has open: the same requests, on the same Unix socket.

with local.serving(Path("data")):
    ...  # DATA/tiercel.sock answers, as with a daemon
"""

import asyncio
import logging
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path

from tiercel.admin.local import LocalRunner
from tiercel.api.endpoint import ApiServer
from tiercel.server.config import ApiOptions
from tiercel.store import SOCKET_NAME

_NOBODY = logging.NullHandler()


@contextmanager
def serving(directory: Path, *, create: bool = False) -> Iterator[Path]:
    """Serves the store from a thread; yields the path of the socket.

    Answers carry the errors; without a handler, Python would print the name of each event beside them.
    """
    logging.getLogger("tiercel").addHandler(_NOBODY)
    ready: Future[asyncio.Event] = Future()
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_until_complete, args=[_serve(directory, create, ready)])
    thread.start()
    try:
        end = ready.result()
        try:
            yield directory / SOCKET_NAME
        finally:
            loop.call_soon_threadsafe(end.set)
    finally:
        thread.join()
        loop.close()


async def _serve(directory: Path, create: bool, ready: "Future[asyncio.Event]") -> None:
    try:
        runner = LocalRunner(directory, create=create)
        try:
            server = ApiServer(runner, directory, ApiOptions())
        except BaseException:
            runner.close()
            raise
    except BaseException as problem:  # noqa: BLE001  # raised again in the caller's thread
        ready.set_exception(problem)
        return
    end = asyncio.Event()
    ready.set_result(end)
    try:
        await end.wait()
        await server.close()
    finally:
        runner.close()
        await asyncio.get_running_loop().shutdown_default_executor()
