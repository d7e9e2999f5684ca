"""The outermost application of a socket: adds its authorization, and separates the data process's routes."""

from starlette.types import ASGIApp, Receive, Scope, Send

from tiercel.api.authorization import Authorization
from tiercel.api.paths import DATA, INTERNAL
from tiercel.api.routing import AUTHORIZATION


class Dispatcher:
    """`data_routes` answers the data process; only the Unix socket has it."""

    def __init__(
        self, app: ASGIApp, authorization: Authorization, data_routes: ASGIApp | None = None
    ) -> None:
        self._app = app
        self._authorization = authorization
        self._data_routes = data_routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._data_routes is not None and scope["path"].startswith((f"{DATA}/", f"{INTERNAL}/")):
            await self._data_routes(scope, receive, send)
        else:
            await self._app({**scope, AUTHORIZATION: self._authorization}, receive, send)
