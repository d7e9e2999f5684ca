"""The data process's client of the daemon, over the Unix socket."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx
from starlette.requests import Request
from starlette.responses import Response

from tiercel.api.parameters import MAX_JSON_BYTES, read_body
from tiercel.api.paths import INTERNAL
from tiercel.api.unix_socket import UnixSocket
from tiercel.data.daemon_app import express_rows
from tiercel.model.errors import ServiceNotAvailableError

_PASSED_ON = ("allow", "retry-after")


class DaemonRefusedError(Exception):
    """The daemon refused; `answer` says why."""

    def __init__(self, answer: Response) -> None:
        super().__init__(answer.status_code)
        self.answer = answer


class DaemonClient:
    def __init__(self, unix_socket: UnixSocket) -> None:
        transport = httpx.AsyncHTTPTransport(uds=unix_socket.name, limits=httpx.Limits(max_connections=None))
        # Claims may wait and publishing may be slow; this process ends with the daemon anyway.
        never = httpx.Timeout(None)
        self._client = httpx.AsyncClient(transport=transport, base_url="http://daemon", timeout=never)

    async def forward(self, request: Request) -> Response:
        """Forwards a request and returns the response unchanged."""
        body = await read_body(request, MAX_JSON_BYTES)
        return _passed_on(await self._ask(request, str(request.url.query), body))

    async def stage(self, request: Request, chunk: int, rows: int, payload: bytes) -> Response:
        return _passed_on(await self._ask(request, f"chunk={chunk}&rows={rows}", payload))

    async def _ask(self, request: Request, query: str, body: bytes) -> httpx.Response:
        kind = request.headers.get("content-type")
        headers = {} if kind is None else {"content-type": kind}
        url = httpx.URL(path=request.url.path, query=query.encode())
        return await self._send(
            self._client.build_request(request.method, url, content=body, headers=headers)
        )

    async def place(self, parameters: Mapping[str, str]) -> dict[str, Any]:
        answer = await self._get("place", parameters)
        place: dict[str, Any] = answer.json()
        return place

    async def express(
        self, parameters: Mapping[str, str], lo: int, hi: int
    ) -> AsyncIterator[list[tuple[int, bytes]]]:
        """Express messages, which exist only in the daemon's memory, slice by slice."""
        after = 0
        while True:
            answer = await self._get("express", {**parameters, "lo": lo, "hi": hi, "after": after})
            rows = express_rows(answer.content)
            if not rows:
                return
            yield rows
            after = rows[-1][0]

    async def _get(self, name: str, parameters: Mapping[str, Any]) -> httpx.Response:
        answer = await self._send(
            self._client.build_request("GET", f"{INTERNAL}/{name}", params=dict(parameters))
        )
        if answer.status_code != httpx.codes.OK:
            raise DaemonRefusedError(_passed_on(answer))
        return answer

    async def _send(self, request: httpx.Request) -> httpx.Response:
        try:
            return await self._client.send(request)
        except httpx.TransportError as problem:
            sentence = f"it does not answer ({problem!r})"
            raise ServiceNotAvailableError("queue manager", problem=sentence, fix="try again") from problem


def _passed_on(answer: httpx.Response) -> Response:
    headers = {name: answer.headers[name] for name in _PASSED_ON if name in answer.headers}
    return Response(answer.content, answer.status_code, headers, answer.headers.get("content-type"))
