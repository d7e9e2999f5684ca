"""The HTTP API as the daemon has it: always on the Unix socket beside the store, on TCP if it is told to.

Nobody pays for what nobody uses: the framework is loaded when the first client knocks, in a thread, and
meanwhile the event loop goes on.
"""

import asyncio
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tiercel.admin.waits import Waits
from tiercel.api.listening import check_certificate, listen, warn_without_tls
from tiercel.api.unix_socket import Door
from tiercel.server import log
from tiercel.server.config import ApiOptions, Config, ConfigError, Endpoint
from tiercel.server.daemon import Daemon

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from tiercel.admin.commands import Commands
    from tiercel.api.audit import Audit

    Inside = Callable[[Commands], ASGIApp]
    from tiercel.admin.runner import Host
    from tiercel.api.http_server import Serving

_LOCAL_CONNECTIONS: Final = 1000


class ApiEndpoint:
    def __init__(self, config: Config, inside: "Inside | None" = None) -> None:
        self._options: ApiOptions = config.api
        self._endpoint = Endpoint(config.api.host, config.api.port)
        self._inside = inside
        self._doors: Doors | None = None
        check_certificate("api", config.api)
        if config.api.audit:
            _check_writable(config.api.audit)

    @property
    def addresses(self) -> dict[str, str]:
        return {"api": f"{self._options.scheme}://{self._endpoint}"} if self._options.enabled else {}

    async def start(self, daemon: Daemon) -> None:
        listener = None
        if self._options.enabled:
            listener = await listen(self._options.host, self._options.port)
            self._endpoint = Endpoint(self._options.host, listener.getsockname()[1])
            warn_without_tls("api_without_tls", self._options, self._endpoint)
        try:
            self._doors = Doors(daemon, Path(daemon.config.node.data), self._options, listener, self._inside)
        except BaseException:
            if listener is not None:
                listener.close()
            raise

    async def stop(self) -> None:
        assert self._doors is not None
        await self._doors.close()


class Doors:
    """The sockets where a queue manager is asked; each is served from the first knock on."""

    def __init__(
        self,
        host: "Host",
        directory: Path,
        options: ApiOptions,
        listener: socket.socket | None = None,
        inside: "Inside | None" = None,
    ) -> None:
        self._host = host
        self._options = options
        self._inside = inside
        self._waits = Waits()
        self._started = time.time()
        self._audit: Audit | None = None
        self._loading: asyncio.Task[None] | None = None
        self._servings: list[Serving] = []
        self._loop = asyncio.get_running_loop()
        self._door = Door(directory)
        try:
            self._local = self._door.listen()
        except BaseException:
            self._door.close()
            raise
        self._listeners = [self._local] if listener is None else [self._local, listener]
        for each in self._listeners:
            self._loop.add_reader(each.fileno(), self._knocked)

    def _knocked(self) -> None:
        for each in self._listeners:
            self._loop.remove_reader(each.fileno())
        self._loading = self._loop.create_task(self._load())

    async def _load(self) -> None:
        try:
            local, public = await asyncio.to_thread(self._applications)
        except Exception as problem:  # noqa: BLE001  # whatever it is, port 1801 goes on
            log.LOGGER.critical("api_failed", exc_info=problem, extra=log.fields(reason=problem))
            for each in self._listeners:
                each.close()
            return
        from tiercel.api.http_server import LocalHttp, Serving  # noqa: PLC0415  # loaded by now

        for each in self._listeners:
            options: dict[str, Any] = {"http": LocalHttp, "limit_concurrency": _LOCAL_CONNECTIONS}
            if each is not self._local:
                options = {
                    "ssl_certfile": self._options.tls_certificate or None,
                    "ssl_keyfile": self._options.tls_key or None,
                    "limit_concurrency": self._options.connections,
                }
            self._servings.append(Serving(local if each is self._local else public, each, **options))

    def _applications(self) -> "tuple[ASGIApp, ASGIApp]":
        """For the Unix socket, and for TCP; runs in a thread, for loading takes a while."""
        from tiercel.admin.commands import Commands  # noqa: PLC0415
        from tiercel.api.app import build  # noqa: PLC0415  # not before somebody asks
        from tiercel.api.audit import Audit  # noqa: PLC0415
        from tiercel.api.authorization import Gate  # noqa: PLC0415
        from tiercel.api.context import Api  # noqa: PLC0415
        from tiercel.api.dispatcher import Entrance, OwnerGate  # noqa: PLC0415

        commands = Commands(self._host, self._waits)
        self._audit = Audit(self._options.audit, messages=self._options.audit_messages)
        app = build(Api(self._host, commands, self._waits, self._audit, self._started))
        gate = Gate(self._options.tokens, "HTTP API", "api")
        inside = None if self._inside is None else self._inside(commands)
        return Entrance(app, OwnerGate(), inside), Entrance(app, gate)

    async def close(self) -> None:
        self._waits.stop()
        if self._loading is None:
            for each in self._listeners:
                self._loop.remove_reader(each.fileno())
        else:
            with suppress(asyncio.CancelledError):
                await self._loading
        for serving in self._servings:
            await serving.stop()
        for each in self._listeners:
            each.close()
        if self._audit is not None:
            self._audit.close()
        self._door.remove()
        self._door.close()


def _check_writable(file: str) -> None:
    try:
        with Path(file).open("a", encoding="utf-8"):
            pass
    except OSError as problem:
        raise ConfigError(f"[api] audit = {file!r}: {problem.strerror}") from problem
