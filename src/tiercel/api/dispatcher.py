"""Where requests come in: who may, and what is there."""

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from tiercel.api.authorization import Gate
from tiercel.api.paths import INTERNAL, V1
from tiercel.api.routing import GATE
from tiercel.security.tokens import Role


class OwnerGate:
    """Of the Unix socket, which only the owner of the store can open: they may do everything."""

    def who(self, request: Request) -> str:
        return "" if request.client is None else request.client.host

    def check(self, _request: Request, _role: Role) -> None:
        """Nobody else comes this way."""


class Entrance:
    """`inside` has the routes of the data endpoint, where the data process comes in."""

    def __init__(self, app: ASGIApp, gate: Gate | OwnerGate, inside: ASGIApp | None = None) -> None:
        self._app = app
        self._gate = gate
        self._inside = inside

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._inside is not None and scope["path"].startswith((f"{V1}/", f"{INTERNAL}/")):
            await self._inside(scope, receive, send)
        else:
            await self._app({**scope, GATE: self._gate}, receive, send)
