"""The short way of a send gives the answers of the routes, whatever is asked."""

import asyncio
import json
import re
import socket
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.types import Receive, Scope, Send

from data.served import PATIENCE_S
from data.test_authorization import add_token
from tiercel.admin.browsing import BrowseOptions
from tiercel.admin.local import LocalRunner
from tiercel.admin.waits import Waits
from tiercel.api.app import build
from tiercel.api.audit import Audit
from tiercel.api.authorization import Authorization, OwnerAuthorization, TokenAuthorization
from tiercel.api.context import Api
from tiercel.api.dispatcher import Dispatcher
from tiercel.api.http_server import PunctualHttp, Serving
from tiercel.api.listening import connection_limits
from tiercel.api.short_way import ShortWay
from tiercel.engine.engine import Engine
from tiercel.model.path_name import PathName
from tiercel.security.access import Token
from tiercel.security.tokens import Role
from tiercel.server.config import ApiOptions

Row = dict[str, Any]

_JSON = {"content-type": "application/json"}
_WITH_CHARSET = {"content-type": "application/json; charset=utf-8"}
_LINES = {"content-type": "application/x-ndjson"}
_ID = re.compile(rb"\{[0-9a-f-]{36}\}(\\\\)?[0-9]*")
_OF_THE_MOMENT = {"id", "lookup_id", "sent_time", "arrival_time", "transaction_id"}
_OF_A_STREAM = {"tx_sequence_id", "tx_sequence_number", "previous_tx_sequence_number"}
_QUEUES: dict[str, dict[str, Any]] = {
    "orders": {},
    "strict": {"transactional": True},
    "full": {"quota_kib": 0},
}
_NUMBERS = count()


class Both:
    """Asks a server with the short way and one without, and compares the answers and the messages.

    It is their application, too.
    """

    def __init__(self, api: Api, authorization: Authorization) -> None:
        self.api = api
        self.is_alone = True
        self.addresses: list[tuple[str, int]] = []
        self._app = Dispatcher(build(api), authorization)
        self._authorization = authorization
        self._clients: list[httpx.AsyncClient] = []
        self._routed = 0

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        short = ShortWay(self.api, self._authorization, lambda: self.is_alone)
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(asyncio.timeout(PATIENCE_S))
            for shortcut in (short, None):
                listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
                server = Serving(self, listener, http=PunctualHttp, shortcut=shortcut)
                stack.push_async_callback(server.stop)
                self.addresses.append(listener.getsockname())
                client = httpx.AsyncClient(base_url=f"http://localhost:{listener.getsockname()[1]}")
                self._clients.append(await stack.enter_async_context(client))
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._routed += 1
        await self._app(scope, receive, send)

    @property
    def is_short_only(self) -> bool:
        """Whether no request came to the routes so far."""
        return not self._routed

    async def ask(self, method: str, path: str, **options: Any) -> tuple[int, bool]:
        """The status, and whether it came by the short way."""
        self._routed = 0
        short = await self._answer(self._clients[0], method, path, **options)
        was_short = not self._routed
        assert short == await self._answer(self._clients[1], method, path, **options)
        return short[0], was_short

    async def send(self, queue: str, message: Any, **headers: str) -> tuple[int, bool]:
        data = message if isinstance(message, bytes) else json.dumps(message).encode()
        path = f"/api/v1/queues/{quote(queue, safe='')}/messages"
        return await self.ask("POST", path, content=data, headers=_JSON | headers)

    async def _answer(
        self, client: httpx.AsyncClient, method: str, path: str, **options: Any
    ) -> tuple[Any, ...]:
        before = await self.messages()
        answer = await client.request(method, path, **options)
        headers = [pair for pair in answer.headers.multi_items() if pair[0] != "content-length"]
        new = {key: row for key, row in (await self.messages()).items() if key not in before}
        added = [(queue, row) for (queue, _), row in new.items()]
        return answer.status_code, headers, _ID.sub(b"ID", answer.content), added

    async def messages(self) -> dict[tuple[str, str], Row]:
        def rows(engine: Engine) -> dict[tuple[str, str], Row]:
            found = {}
            for state in list(engine.queues.all()):
                for seen in BrowseOptions().seen(engine, state, 0):
                    row = BrowseOptions().row(seen).json
                    steady = {
                        name: value
                        for name, value in row.items()
                        if name not in _OF_THE_MOMENT | _OF_A_STREAM
                    }
                    found[str(state), row["lookup_id"]] = steady
            return found

        return await self.api.runner.call(rows)


@asynccontextmanager
async def opened(
    folder: Path, authorization: Authorization | None = None, *, audits: bool = False
) -> AsyncIterator[Both]:
    runner = LocalRunner(folder, create=True)
    try:
        options = ApiOptions()
        audit = Audit(str(folder / "audit"), messages=audits)
        tokens = TokenAuthorization("", "HTTP API", "api")
        api = Api(runner, Waits(), audit, time.time(), connection_limits("api", options), tokens)
        for name, properties in _QUEUES.items():
            path = PathName.parse(rf".\private$\{name}")
            await runner.call(partial(_create, path, runner.driver.owner, properties))
        both = Both(api, authorization or OwnerAuthorization())
        try:
            async with both.serving():
                yield both
        finally:
            audit.close()
    finally:
        runner.close()


def _create(path: PathName, owner: Token, properties: dict[str, Any], engine: Engine) -> None:
    engine.queues.create(path, owner, **properties)


_USUAL = {"body": "eHh4", "label": "order 1", "priority": 5, "delivery": "recoverable"}


_SENDS: list[tuple[str, Any, int, bool]] = [
    ("orders", _USUAL, 201, True),
    ("orders", {}, 201, True),
    ("orders", {"text": "\ud800"}, 400, False),
    ("orders", {"label": "\ud800"}, 201, True),
    ("orders", {"json": [1, {"a": None}]}, 201, True),
    ("strict", _USUAL, 201, True),
    (r"private$\orders", _USUAL, 201, True),
    (r"DIRECT=TCP:127.0.0.1\private$\far", _USUAL, 201, True),
    ("orders;retry", _USUAL, 400, False),
    ("orders;journal", _USUAL, 400, False),
    ("full", _USUAL, 507, False),
    ("unknown", _USUAL, 404, False),
    ("a/b", _USUAL, 404, False),
    ("q" * 5000, _USUAL, 400, False),
    ("\x00", _USUAL, 400, False),
    (r"DIRECT=TCP:300.1.1.1\private$\far", _USUAL, 400, False),
    ("orders", {"bdy": "eHh4"}, 400, False),
    ("orders", {"priority": 8}, 400, False),
    ("orders", {"label": "x" * 251}, 400, False),
    ("orders", {"text": "x" * 70_000}, 201, False),
    ("orders", [], 400, False),
    ("orders", b"", 400, False),
    ("orders", b"{", 400, False),
    ("orders", b"\xff", 400, False),
    ("orders", b"[" * 50_000, 400, False),
]
_UNUSUAL: list[tuple[str, str, dict[str, Any], int]] = [
    ("PUT", "/queues/orders/messages", {"json": {}}, 405),
    ("POST", "/queues/orders/messages/", {"json": {}}, 404),
    ("POST", "/queues//messages", {"json": {}}, 404),
    ("POST", "/queues/orders/messages?sign=no", {"json": {}}, 201),
    ("POST", "/queues/orders/messages?transactional=true", {"json": {}}, 400),
    ("POST", "/queues/orders/messages?sing=no", {"json": {}}, 400),
    ("POST", "/queues/orders/messages", {"content": b"{}"}, 400),
    (
        "POST",
        "/queues/orders/messages",
        {"content": b"{}", "headers": {"content-type": "text/plain"}},
        400,
    ),
    ("POST", "/queues/orders/messages", {"content": b"{}\n{}", "headers": _LINES}, 201),
    ("POST", "/queues/orders/messages", {"content": b"{}", "headers": _WITH_CHARSET}, 201),
]


def test_the_same_answers(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as both:
            for queue, message, status, is_short in _SENDS:
                found = await both.send(queue, message)
                assert found == (status, is_short), (queue[:80], str(message)[:80])

    asyncio.run(story())


def test_unusual_requests_go_to_the_routes(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as both:
            for method, path, options, status in _UNUSUAL:
                found = await both.ask(method, f"/api/v1{path}", **options)
                assert found == (status, False), (method, path, options)

    asyncio.run(story())


def test_authorization(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "tokens"
    tokens = {role: add_token(file, f"only-{role}", role, capsys) for role in Role}

    async def story() -> None:
        async with opened(tmp_path / "data", TokenAuthorization(str(file), "HTTP API", "api")) as both:
            assert await both.send("orders", _USUAL) == (401, False)
            assert await both.send("orders", _USUAL, authorization="Bearer wrong") == (401, False)
            for role, token in tokens.items():
                may_send = role in {Role.SEND, Role.ADMIN}
                expected = (201, True) if may_send else (403, False)
                assert await both.send("orders", _USUAL, authorization=f"Bearer {token}") == expected

    asyncio.run(story())


def test_a_foreign_page_without_tokens(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path, TokenAuthorization("", "HTTP API", "api")) as both:
            assert await both.send("orders", _USUAL) == (201, True)
            assert await both.send("orders", _USUAL, host="evil.example") == (403, False)
            assert await both.send("orders", _USUAL, origin="http://evil.example") == (403, False)

    asyncio.run(story())


def test_audited_sends_go_to_the_routes(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path, audits=True) as both:
            assert await both.send("orders", _USUAL) == (201, False)
            lines = (tmp_path / "audit").read_text("utf-8").splitlines()
            assert [json.loads(line)["what"] for line in lines] == ["send", "send"]

    asyncio.run(story())


_HEAD = (
    b"POST /api/v1/queues/orders/messages HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
)


async def _said(both: Both, *pieces: bytes) -> bytes:
    """What the server with the short way says to these bytes, which come in pieces, until it hangs up."""
    reader, writer = await asyncio.open_connection(*both.addresses[0])
    for piece in pieces:
        writer.write(piece)
        await writer.drain()
        await _turns()
    writer.write_eof()
    said = await reader.read()
    writer.close()
    return said


async def _turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.mark.parametrize("declared", [b"-1", b"+2", b"2_0", b"\xb2", b"", b"0", b"9" * 30])
def test_a_strange_size_is_not_usual(tmp_path: Path, declared: bytes) -> None:
    async def story() -> None:
        async with opened(tmp_path) as both:
            path = b"/api/v1/queues/orders/messages"
            scope: Scope = {
                "type": "http",
                "method": "POST",
                "path": path.decode(),
                "raw_path": path,
                "query_string": b"",
                "headers": [(b"content-type", b"application/json"), (b"content-length", b"2")],
                "client": None,
            }
            short = ShortWay(both.api, OwnerAuthorization(), lambda: True)
            usual = short.begin(scope)
            assert usual is not None
            usual.end()
            scope["headers"][1] = (b"content-length", declared)
            assert short.begin(scope) is None

    asyncio.run(story())


def test_a_body_in_pieces(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as both:
            said = await _said(both, _HEAD, b"Content-Length: 13\r\n", b"\r\n", b'{"text"', b': "a"', b"}")
            assert said.startswith(b"HTTP/1.1 201 Created\r\n")
            assert len(await both.messages()) == 1
            assert both.is_short_only

    asyncio.run(story())


def test_requests_in_one_piece_are_answered_in_their_order(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as both:
            requests = [_HEAD + b'Content-Length: 14\r\n\r\n{"label": "%d"}' % number for number in range(3)]
            unknown = _HEAD.replace(b"orders", b"unknown") + b"Content-Length: 2\r\n\r\n{}"
            said = await _said(both, b"".join([*requests[:2], unknown, requests[2]]))
            assert re.findall(rb"HTTP/1.1 (\d+)", said) == [b"201", b"201", b"404", b"201"]
            labels = [row["label"] for row in (await both.messages()).values()]
            assert labels == ["0", "1", "2"]

    asyncio.run(story())


@pytest.mark.parametrize(
    ("head", "is_short"),
    [
        (_HEAD, True),
        (_HEAD + b"Connection: close\r\n", False),
        (_HEAD.replace(b"1.1", b"1.0"), False),
        (_HEAD + b"Expect: 100-continue\r\n", False),
    ],
    ids=["usual", "close", "HTTP/1.0", "expect"],
)
def test_what_the_connection_asks_for(tmp_path: Path, head: bytes, is_short: bool) -> None:
    async def story() -> None:
        async with opened(tmp_path) as both:
            said = await _said(both, head + b"Content-Length: 2\r\n\r\n{}")
            assert said.count(b"HTTP/1.1 201 Created") == 1
            assert (b"100 Continue" in said) == (b"Expect" in head)
            assert (b"connection: close" in said) == (b"close" in head or b"1.0" in head)
            assert both.is_short_only == is_short

    asyncio.run(story())


def test_a_client_that_hangs_up_sends_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as both:
            reader, writer = await asyncio.open_connection(*both.addresses[0])
            writer.write(_HEAD + b"Content-Length: 10\r\n\r\n{}")
            while not both.api.intake.bytes:  # noqa: ASYNC110  # nothing tells
                await asyncio.sleep(0)
            writer.write_eof()
            assert await reader.read() == b""
            writer.close()
            assert both.api.intake.bytes == 0
            assert await both.messages() == {}

    asyncio.run(story())


def test_all_bodies_count_for_the_limit(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as both:
            both.api.intake.take(128 << 20)
            assert await both.send("orders", _USUAL) == (503, False)
            both.api.intake.give_back(128 << 20)
            assert await both.send("orders", _USUAL) == (201, True)
            assert both.api.intake.bytes == 0
            assert await both.send("unknown", _USUAL) == (404, False)
            assert both.api.intake.bytes == 0

    asyncio.run(story())


_PROPERTIES = st.dictionaries(
    st.sampled_from(
        ["body", "text", "json", "label", "priority", "delivery", "body_type", "id", "tracing", "x"]
    ),
    st.none()
    | st.booleans()
    | st.integers(-1, 9)
    | st.text(max_size=9)
    | st.just("recoverable")
    | st.just("eHh4"),
    max_size=4,
)


def test_any_message(tmp_path: Path) -> None:
    async def story(messages: list[Any]) -> None:
        async with opened(tmp_path / str(next(_NUMBERS))) as both:
            for each in messages:
                await both.send("orders", each)

    @settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(_PROPERTIES | st.binary(max_size=20), min_size=10, max_size=20))
    def ask(messages: list[Any]) -> None:
        asyncio.run(story(messages))

    ask()
