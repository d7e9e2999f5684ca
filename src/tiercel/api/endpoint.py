"""The HTTP API of the daemon: always on the Unix socket beside the store, on TCP if enabled.

The framework is loaded at the first connection, in a thread, while the event loop goes on: a daemon whose API
is never used does not pay for it.
"""

import asyncio
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tiercel.admin.samples import STEP_S
from tiercel.admin.waits import Waits
from tiercel.api.listening import connection_limits, listen, tls_context, warn_without_tls
from tiercel.api.unix_socket import UnixSocket
from tiercel.server import log
from tiercel.server.config import ApiOptions, Config, ConfigError, Endpoint
from tiercel.server.daemon import Daemon
from tiercel.server.tls import RenewableContext

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from tiercel.admin.runner import Runner
    from tiercel.api.context import Api
    from tiercel.api.http_server import Serving, Shortcut

    DataRoutes = Callable[[Runner, Waits], ASGIApp]

_LOCAL_CONNECTIONS: Final = 1000
_TENDED: Final = 12  # every minute


class ApiEndpoint:
    """`data_routes` makes the application that answers the data process, on the Unix socket only."""

    def __init__(self, config: Config, data_routes: "DataRoutes | None" = None) -> None:
        self._options: ApiOptions = config.api
        self._endpoint = Endpoint(config.api.host, config.api.port)
        self._data_routes = data_routes
        self._server: ApiServer | None = None
        self._tls = tls_context("api", config.api)
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
        directory = daemon.driver.directory
        try:
            self._server = ApiServer(daemon, directory, self._options, listener, self._data_routes, self._tls)
        except BaseException:
            if listener is not None:
                listener.close()
            raise

    def reload(self) -> None:
        if self._tls is not None:
            self._tls.renew()

    async def stop(self) -> None:
        assert self._server is not None
        await self._server.close()


class ApiServer:
    """The sockets of the API; the application is loaded at the first connection to any of them."""

    def __init__(
        self,
        runner: "Runner",
        directory: Path,
        options: ApiOptions,
        listener: socket.socket | None = None,
        data_routes: "DataRoutes | None" = None,
        tls: RenewableContext | None = None,
    ) -> None:
        self._runner = runner
        self._tls = tls
        self._options = options
        self.limits = connection_limits("api", options)
        self._data_routes = data_routes
        self._waits = Waits()
        self._started = time.time()
        self._api: Api | None = None
        self._loading: asyncio.Task[None] | None = None
        self._sampling: asyncio.Task[None] | None = None
        self._resuming: asyncio.Task[None] | None = None
        self._servings: list[Serving] = []
        self._loop = asyncio.get_running_loop()
        self._unix_socket = UnixSocket(directory)
        try:
            self._local = self._unix_socket.listen()
        except BaseException:
            self._unix_socket.close()
            raise
        self._listeners = [self._local] if listener is None else [self._local, listener]
        for each in self._listeners:
            self._loop.add_reader(each.fileno(), self._first_connection)
        if isinstance(runner, Daemon):  # somebody has to empty the trash
            self._resuming = self._loop.create_task(self._resume())

    async def _resume(self) -> None:
        if await self._runner.call(lambda engine: engine.operations.has_open) and self._loading is None:
            self._first_connection()

    def _first_connection(self) -> None:
        for each in self._listeners:
            self._loop.remove_reader(each.fileno())
        self._loading = self._loop.create_task(self._load())

    async def _load(self) -> None:
        try:
            api, *applications = await asyncio.to_thread(self._build)
        except Exception as problem:  # noqa: BLE001  # port 1801 goes on, whatever it is
            log.LOGGER.critical("api_failed", exc_info=problem, extra=log.fields(reason=problem))
            for each in self._listeners:
                each.close()
            return
        from tiercel.api.http_server import LocalHttp, Serving  # noqa: PLC0415  # loaded by now

        self._api = api
        api.receiver.attach()
        if api.daemon is not None:
            self._sampling = self._loop.create_task(_sample(api))
        of_local: dict[str, Any] = {"http": LocalHttp, "limit_concurrency": _LOCAL_CONNECTIONS}
        of_public = {
            "tls": self._tls,
            "limits": self.limits,
            "trusted_proxies": self._options.trusted_proxies,
        }
        of_all = zip(self._listeners, applications, (of_local, of_public), strict=False)
        for listener, (app, shortcut), options in of_all:  # without TCP there is only the first
            self._servings.append(Serving(app, listener, shortcut=shortcut, **options))

    def _is_alone(self) -> bool:
        """Whether no more than one client is connected."""
        return sum(each.connections for each in self._servings) <= 1

    def _build(self) -> "tuple[Api, tuple[ASGIApp, Shortcut], tuple[ASGIApp, Shortcut]]":
        """The applications of the Unix socket and of TCP; runs in a thread, because loading is slow."""
        from tiercel.api.app import build  # noqa: PLC0415  # not before the first connection
        from tiercel.api.audit import Audit  # noqa: PLC0415
        from tiercel.api.authorization import (  # noqa: PLC0415
            BrowserLogins,
            OwnerAuthorization,
            TokenAuthorization,
        )
        from tiercel.api.context import Api  # noqa: PLC0415
        from tiercel.api.dispatcher import Dispatcher  # noqa: PLC0415
        from tiercel.api.short_way import ShortWay  # noqa: PLC0415

        audit = Audit(self._options.audit, messages=self._options.audit_messages)
        logins = BrowserLogins(self._options.trusted_origins)
        tokens = TokenAuthorization(self._options.tokens, "HTTP API", "api", logins)
        api = Api(self._runner, self._waits, audit, self._started, self.limits, tokens)
        app = build(api)
        data_routes = None if self._data_routes is None else self._data_routes(self._runner, self._waits)
        owner = OwnerAuthorization()
        return (
            api,
            (Dispatcher(app, owner, data_routes), ShortWay(api, owner, self._is_alone)),
            (Dispatcher(app, tokens), ShortWay(api, tokens, self._is_alone)),
        )

    async def close(self) -> None:
        if self._resuming is not None:
            self._resuming.cancel()
        self._waits.stop()
        if self._loading is None:
            for each in self._listeners:
                self._loop.remove_reader(each.fileno())
        else:
            with suppress(asyncio.CancelledError):
                await self._loading
        if self._sampling is not None:
            self._sampling.cancel()
        for serving in self._servings:
            await serving.stop()
        for each in self._listeners:
            each.close()
        if self._api is not None:
            await self._api.bulk.close()
            self._api.audit.close()
            await self._api.decoder.close()
            await self._api.searcher.close()
        self._unix_socket.remove()
        self._unix_socket.close()


async def _sample(api: "Api") -> None:
    """Goes on with bulk work, and takes the samples of the charts; now and then, empties the trash."""
    await api.bulk.resume_all()
    for turn in count():
        await api.queues.sample()
        if turn % _TENDED == 0:
            await api.operations.tend()
        await asyncio.sleep(STEP_S)


def _check_writable(file: str) -> None:
    try:
        with Path(file).open("a", encoding="utf-8"):
            pass
    except OSError as problem:
        raise ConfigError(f"[api] audit = {file!r}: {problem.strerror}") from problem
