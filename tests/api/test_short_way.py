"""The short way of a send gives the answers of the routes, whatever is asked."""

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from data.test_authorization import add_token
from tiercel.admin.browsing import BrowseOptions
from tiercel.admin.local import LocalRunner
from tiercel.admin.waits import Waits
from tiercel.api.app import build_routes
from tiercel.api.audit import Audit
from tiercel.api.authorization import Authorization, OwnerAuthorization, TokenAuthorization
from tiercel.api.context import Api
from tiercel.api.dispatcher import Dispatcher
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
    """Asks the short way and the routes the same, and compares the answers and the messages."""

    def __init__(self, api: Api, authorization: Authorization) -> None:
        self.api = api
        self._routes = build_routes(api)
        self._authorization = authorization
        self._routed = 0

    async def _counted(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._routed += 1
        await self._routes(scope, receive, send)

    async def ask(self, method: str, path: str, **options: Any) -> tuple[int, bool]:
        """The status, and whether it came by the short way."""
        self._routed = 0
        short = await self._answer(ShortWay(self._counted, self.api), method, path, **options)
        was_short = not self._routed
        assert short == await self._answer(self._routes, method, path, **options)
        return short[0], was_short

    async def send(self, queue: str, message: Any, **headers: str) -> tuple[int, bool]:
        data = message if isinstance(message, bytes) else json.dumps(message).encode()
        path = f"/api/v1/queues/{quote(queue, safe='')}/messages"
        return await self.ask("POST", path, content=data, headers=_JSON | headers)

    async def _answer(self, app: ASGIApp, method: str, path: str, **options: Any) -> tuple[Any, ...]:
        before = await self.messages()
        transport = httpx.ASGITransport(Dispatcher(app, self._authorization))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
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
        try:
            yield Both(api, authorization or OwnerAuthorization())
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
    (
        "POST",
        "/queues/orders/messages",
        {"content": b"{}", "headers": _JSON | {"content-length": "-1"}},
        201,
    ),
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


def test_a_client_that_hangs_up_sends_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as both:
            answers: list[Message] = []
            messages: list[Message] = [
                {"type": "http.disconnect"},
                {"type": "http.request", "body": b"{}", "more_body": True},
            ]

            async def receive() -> Message:
                return messages.pop() if len(messages) > 1 else messages[0]

            async def send(message: Message) -> None:
                answers.append(message)

            path = "/api/v1/queues/orders/messages"
            headers = [(b"content-type", b"application/json"), (b"content-length", b"10")]
            scope: Scope = {
                "type": "http",
                "method": "POST",
                "path": path,
                "raw_path": path.encode(),
                "query_string": b"",
                "headers": headers,
                "client": None,
            }
            app = Dispatcher(ShortWay(build_routes(both.api), both.api), OwnerAuthorization())
            await app(scope, receive, send)
            assert [each.get("status") for each in answers] == [400, None]
            assert await both.messages() == {}

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
