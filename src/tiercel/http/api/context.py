"""What the routes share."""

import time
from typing import Annotated, Any

from fastapi import Depends, Request
from fastapi.responses import Response

from tiercel.http.audit import Audit
from tiercel.http.browsing import Messages
from tiercel.http.commands import Commands
from tiercel.http.host import Host
from tiercel.http.leases import Leases
from tiercel.http.message_json import dumps
from tiercel.http.queues import Queues
from tiercel.http.sending import Sender
from tiercel.http.waits import Waits
from tiercel.server.daemon import Daemon


class Api:
    def __init__(self, host: Host, commands: Commands, waits: Waits, audit: Audit) -> None:
        self.host = host
        self.daemon = host if isinstance(host, Daemon) else None  # None: a store that nobody runs
        self.commands = commands
        self.waits = waits
        self.audit = audit
        self.queues = Queues(host)
        self.messages = Messages(host, waits)
        self.sender = Sender(host)
        self.leases = Leases(host, waits)
        self.started = time.time()
        self.streams = 0


def _api(request: Request) -> Api:
    api: Api = request.app.state.api
    return api


Context = Annotated[Api, Depends(_api)]


class Client:
    """Who has sent a request, and may be gone."""

    def __init__(self, request: Request) -> None:
        self._request = request

    async def gone(self) -> None:
        while (await self._request.receive())["type"] != "http.disconnect":
            pass  # the end of a body

    async def is_gone(self) -> bool:
        return await self._request.is_disconnected()


def answer(content: Any, status: int = 200) -> Response:
    """JSON, whatever characters it has."""
    return Response(dumps(content), status, media_type="application/json")


def about(request: Request, **more: object) -> None:
    """Says for the audit log what a request was about."""
    request.state.audited.update(more)
