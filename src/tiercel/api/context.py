"""Shared by all routes: the operations, limits and helpers."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final

from fastapi import Depends, Request
from fastapi.responses import Response

from tiercel.admin.browsing import Messages
from tiercel.admin.bulk import Bulk
from tiercel.admin.claims import Claims
from tiercel.admin.dead_letters import DeadLetters
from tiercel.admin.editing import Editing
from tiercel.admin.errors import BusyError
from tiercel.admin.message_json import dumps
from tiercel.admin.operations import Operations
from tiercel.admin.queues import Queues
from tiercel.admin.runner import Runner
from tiercel.admin.searching import Searching
from tiercel.admin.sending import Sender
from tiercel.admin.stages import Stages
from tiercel.admin.transfers import Transfers
from tiercel.admin.waits import Waits
from tiercel.admin.why import Why
from tiercel.api.audit import Audit
from tiercel.api.audited_runner import AuditedRunner
from tiercel.api.authorization import TokenAuthorization
from tiercel.api.body_decoder import BodyDecoder
from tiercel.api.events import Events
from tiercel.api.message_searcher import MessageSearcher
from tiercel.api.receiving import Receiver
from tiercel.security.accounts import Accounts
from tiercel.server.account_file import AccountFile
from tiercel.server.config import ApiOptions
from tiercel.server.connection_limits import ConnectionLimits
from tiercel.server.daemon import Daemon

_MAX_INTAKE_BYTES: Final = 128 << 20  # two requests of the largest size; each exists in several forms


class Api:
    def __init__(
        self,
        runner: Runner,
        waits: Waits,
        audit: Audit,
        started: float,
        limits: ConnectionLimits,
        tokens: TokenAuthorization,
    ) -> None:
        self.daemon = runner if isinstance(runner, Daemon) else None  # None: no daemon runs
        runner = self.runner = AuditedRunner(runner)
        self.limits = limits  # of the connections by TCP
        self.tokens = tokens
        self.claims = Claims(runner, waits)
        self.stages = Stages(runner)
        self.waits = waits
        self.audit = audit
        self.queues = Queues(runner)
        self.events = Events(runner, waits, self.queues)
        self.dead_letters = DeadLetters(runner)
        self.decoder = BodyDecoder()
        self.messages = Messages(runner, waits, self.decoder)
        self.searcher = MessageSearcher()
        self.searching = Searching(runner, self.searcher)
        self.sender = Sender(runner)
        self.receiver = Receiver(runner, waits, self.decoder)
        self.started = started
        self.streams = 0
        self.intake = Intake()
        self.transfers = Transfers(runner)
        options = ApiOptions() if self.daemon is None else self.daemon.config.api
        self.operations = Operations(runner, options.trash_s, options.trash_bytes)
        self.bulk = Bulk(runner, self.searcher, self.operations)
        self.editing = Editing(runner)
        self.why = Why(runner)
        self._account_file: AccountFile | None = None

    @property
    def accounts(self) -> Accounts:
        """Those of `[accounts]` now; the daemon reports a file that it cannot use."""
        file = "" if self.daemon is None else self.daemon.config.accounts.file
        if not file:
            return Accounts()
        if self._account_file is None or self._account_file.path != Path(file):
            self._account_file = AccountFile(Path(file))
        return self._account_file.all


class Intake:
    """Limits the total size of the request bodies in progress."""

    def __init__(self) -> None:
        self.bytes = 0

    @contextmanager
    def hold(self, size: int) -> Iterator[None]:
        self.take(size)
        try:
            yield
        finally:
            self.give_back(size)

    def take(self, size: int) -> None:
        if self.bytes and self.bytes + size > _MAX_INTAKE_BYTES:
            present, limit = f"{self.bytes} bytes", f"{_MAX_INTAKE_BYTES} bytes"
            problem = "too many large requests at once"
            raise BusyError("HTTP API", problem=problem, present=present, limit=limit)
        self.bytes += size

    def give_back(self, size: int) -> None:
        self.bytes -= size


async def _api(request: Request) -> Api:  # a plain function would be run in a thread
    api: Api = request.app.state.api
    return api


Context = Annotated[Api, Depends(_api)]


class Client:
    """The client of a request, which may disconnect."""

    def __init__(self, request: Request) -> None:
        self._request = request

    async def gone(self) -> None:
        while (await self._request.receive())["type"] != "http.disconnect":
            pass  # the end of a body

    async def is_gone(self) -> bool:
        return await self._request.is_disconnected()


def answer(content: Any, status: int = 200) -> Response:
    """A JSON response, whatever characters it contains."""
    return Response(dumps(content), status, media_type="application/json")


def about(request: Request, **more: object) -> None:
    """Adds details of a request to its audit line."""
    request.state.audited.update(more)
