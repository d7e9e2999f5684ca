"""The short way of a receive, and of an acknowledgement, does and answers what the routes do."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from api.test_short_way import _JSON, _NUMBERS, _OF_THE_MOMENT, _WITH_CHARSET, Both, Row, opened
from data.test_authorization import add_token
from tiercel.admin.leases import SLICE
from tiercel.admin.message_json import from_json
from tiercel.api.authorization import OwnerAuthorization, TokenAuthorization
from tiercel.api.short_way import ShortWay
from tiercel.engine.engine import Engine
from tiercel.model.errors import IoTimeoutError
from tiercel.model.identifiers import MessageId
from tiercel.security.tokens import Role

_MESSAGES: list[Row] = [
    {"text": "a", "label": "first", "delivery": "recoverable"},
    {"json": [1], "label": "express", "priority": 6},
    {"label": "\ud800", "delivery": "recoverable"},
]
_V1 = "/api/v1"


class Told(NamedTuple):
    """What a client is told, and what its request leaves behind, without what is of the moment."""

    status: int
    headers: list[tuple[str, str]]
    content: Any
    left: list[tuple[str, Row]]
    leases: list[tuple[Any, ...]]
    lives: list[list[tuple[Any, ...]]]


class Reader:
    """Asks two servers for the same: one with the short way, and one without."""

    def __init__(self, both: Both) -> None:
        self.both = both
        self.api = both.api
        self.who = "127.0.0.1"  # takes the leases
        self.lease = ""  # the last one

    async def receive(
        self, wanted: Any, queue: str = "orders", *, there: int = 3, **headers: str
    ) -> tuple[int, bool]:
        """The status, and whether it came by the short way."""
        data = wanted if isinstance(wanted, bytes) else json.dumps(wanted).encode()
        path = f"{_V1}/queues/{quote(queue, safe='')}/receive"
        return await self._compared(
            lambda client: client.post(path, content=data, headers=_JSON | headers), there
        )

    async def acknowledge(self, lease: str = "", **options: Any) -> tuple[int, bool]:
        """Of the first message, or of another lease; `options` of the request."""

        async def ask(client: httpx.AsyncClient) -> httpx.Response:
            await self._take()
            self.both._routed = 0
            return await client.post(f"{_V1}/leases/{lease or self.lease}/acknowledge", **options)

        return await self._compared(ask, 3)

    async def _take(self) -> None:
        def take(_engine: Engine) -> str:
            receipt = self.api.receiver.leases.open("orders")
            self.api.receiver.leases.take(receipt, 1)
            return self.api.receiver.leases.lease(receipt, 30, self.who)[0]

        self.lease = await self.api.runner.call(take)

    async def _compared(
        self, ask: Callable[[httpx.AsyncClient], Awaitable[httpx.Response]], there: int
    ) -> tuple[int, bool]:
        told, ways = [], []
        for client in self.both._clients:
            sent = [await self._send(message) for message in _MESSAGES[:there]]
            self.both._routed = 0
            answer = await ask(client)
            ways.append(self.both.is_short_only)
            told.append(await self._told(answer, sent))
            for lease in self.api.receiver.leases.all():
                await self.api.receiver.give_back(lease.id, None)
            await self.api.queues.purge("orders", dry_run=False)
        assert told[0] == told[1]
        assert not ways[1]
        return told[0].status, ways[0]

    async def _send(self, message: Row) -> MessageId:
        [sent] = await self.api.sender.send("orders", [from_json(message)], None)
        return sent

    async def _told(self, answer: httpx.Response, sent: list[MessageId]) -> Told:
        def lives(engine: Engine) -> list[list[tuple[Any, ...]]]:
            events = [engine.life.look(each, b"", 100)[0] for each in sent]
            return [
                [(e.kind, e.slot, e.message_class, engine.life.actor_name(e.actor)) for e in each]
                for each in events
            ]

        return Told(
            answer.status_code,
            [pair for pair in answer.headers.multi_items() if pair[0] != "content-length"],
            self._steady(json.loads(answer.content)),
            [(queue, row) for (queue, _), row in (await self.both.messages()).items()],
            [(each.queue, each.who, each.seconds) for each in self.api.receiver.leases.all()],
            await self.api.runner.call(lives),
        )

    def _steady(self, content: Any) -> Any:
        """The rows of a response, whose leases must be those that are there."""
        if isinstance(content, dict) and "messages" in content:
            leases = [row["lease"] for row in content["messages"] if "lease" in row]
            assert leases == [each.id for each in self.api.receiver.leases.all()]
            return [[pair for pair in row.items() if pair[0] not in _PASSING] for row in content["messages"]]
        return json.loads(json.dumps(content).replace(self.lease or "no lease", "LEASE"))


_PASSING = _OF_THE_MOMENT | {"lease"}

_USUAL: list[tuple[Any, dict[str, Any]]] = [
    ({}, {}),
    (b"", {}),
    ({"limit": 2}, {}),
    ({"limit": SLICE}, {}),
    ({"lease_s": 600.5}, {}),
    ({"lease_s": 2}, {"queue": r"private$\orders"}),
    ({"acknowledge": "now"}, {}),
    ({"acknowledge": "now", "limit": 9}, {}),
    ({"bodies": False, "limit": 9}, {}),
    ({"wait_ms": 1000}, {}),
    ({}, {"there": 0}),
    ({"acknowledge": "now"}, {"there": 0}),
    ({"acknowledge": "now"}, {"queue": "strict"}),
]
_UNUSUAL: list[tuple[Any, dict[str, Any], int]] = [
    ({"wait_ms": 1}, {"there": 0}, 200),
    ({"wait_ms": 1, "acknowledge": "now"}, {"there": 0}, 200),
    ({"decode": True}, {}, 200),
    ({"limit": SLICE + 1}, {}, 200),
    ({}, _WITH_CHARSET, 200),
    (b"null", {}, 200),
    ({"lookup_id": "1"}, {}, 404),
    ({}, {"queue": "unknown"}, 404),
    ({}, {"queue": r"DIRECT=TCP:127.0.0.1\private$\far"}, 404),
    ({"limit": 0}, {}, 400),
    ({"limit": True}, {}, 400),
    ({"limit": "1"}, {}, 400),
    ({"lease_s": 0}, {}, 400),
    (b'{"lease_s": NaN}', {}, 400),
    ({"acknowledge": "later"}, {}, 400),
    ({"limt": 1}, {}, 400),
    ([], {}, 400),
    (b"{", {}, 400),
    (b"\xff", {}, 400),
]


def test_the_same_receives(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as both:
            reader = Reader(both)
            for wanted, options in _USUAL:
                assert await reader.receive(wanted, **options) == (200, True), (wanted, options)

    asyncio.run(story())


def test_unusual_receives_go_to_the_routes(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as both:
            reader = Reader(both)
            for wanted, options, status in _UNUSUAL:
                assert await reader.receive(wanted, **options) == (status, False), (wanted, options)

    asyncio.run(story())


def test_acknowledgements(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as both:
            reader = Reader(both)
            assert await reader.acknowledge() == (200, True)
            assert await reader.acknowledge(reader.lease) == (200, True)  # once more
            assert await reader.acknowledge(headers={"content-type": "text/plain"}) == (200, True)
            assert await reader.acknowledge("0" * 24) == (404, False)
            assert await reader.acknowledge("none") == (404, False)
            assert await reader.acknowledge(json={}) == (200, False)
            assert await reader.acknowledge(content=_pieces()) == (200, False)
            assert await reader.acknowledge(params={"x": "1"}) == (400, False)
            await reader._send(_MESSAGES[0])
            await reader._take()
            await both.api.receiver.give_back(reader.lease, None)
            await both.api.queues.purge("orders", dry_run=False)
            assert await reader.acknowledge(reader.lease) == (410, False)

    asyncio.run(story())


async def _pieces() -> Any:
    yield b"{}"


def test_authorization_of_receives(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "tokens"
    tokens = {role: add_token(file, f"only-{role}", role, capsys) for role in Role}

    async def story() -> None:
        async with opened(tmp_path / "data", TokenAuthorization(str(file), "HTTP API", "api")) as both:
            reader = Reader(both)
            assert await reader.receive({}) == (401, False)
            for role, token in tokens.items():
                bearer = f"Bearer {token}"
                may_receive = role in {Role.RECEIVE, Role.ADMIN}
                expected = (200, True) if may_receive else (403, False)
                assert await reader.receive({}, authorization=bearer) == expected
                reader.who = "only-receive"
                assert await reader.acknowledge(headers={"authorization": bearer}) == expected
                reader.who = "another"
                is_admin = role is Role.ADMIN
                assert await reader.acknowledge(headers={"authorization": bearer}) == (
                    (200, True) if is_admin else (403, False)
                )

    asyncio.run(story())


def test_audited_receives_go_to_the_routes(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path, audits=True) as both:
            reader = Reader(both)
            assert await reader.receive({}) == (200, False)
            assert await reader.acknowledge() == (200, False)
            lines = (tmp_path / "audit").read_text("utf-8").splitlines()
            assert [json.loads(line)["what"] for line in lines] == ["receive"] * 2 + ["acknowledge"] * 2

    asyncio.run(story())


def test_a_client_that_is_gone_receives_nothing_for_good(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as both:
            await both.api.sender.send("orders", [from_json({"label": "kept"})], None)
            path = f"{_V1}/queues/orders/receive"
            scope = {
                "type": "http",
                "method": "POST",
                "path": path,
                "raw_path": path.encode(),
                "query_string": b"",
                "headers": [(b"content-type", b"application/json"), (b"content-length", b"22")],
                "client": None,
            }
            short = ShortWay(both.api, OwnerAuthorization(), lambda: True).begin(scope)
            assert short is not None
            done = short.start(b'{"acknowledge": "now"}', lambda: True)
            assert done is not None
            with pytest.raises(IoTimeoutError):
                await done
            short.end()
            [row] = (await both.messages()).values()
            assert (row["label"], "locked" in row) == ("kept", False)

    asyncio.run(story())


def test_any_receive(tmp_path: Path) -> None:
    async def story(asked: list[Any]) -> None:
        async with opened(tmp_path / str(next(_NUMBERS))) as both:
            for wanted in asked:
                await Reader(both).receive(wanted)

    names = st.sampled_from(
        ["limit", "wait_ms", "lease_s", "acknowledge", "lookup_id", "bodies", "decode", "x"]
    )
    values = (
        st.none()
        | st.booleans()
        | st.integers(-1, 60)
        | st.floats(0, 2)
        | st.sampled_from(["now", "lease", "1"])
    )
    requests = st.dictionaries(names, values, max_size=3) | st.binary(max_size=9)

    @settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(requests, min_size=5, max_size=10))
    def ask(asked: list[Any]) -> None:
        asyncio.run(story(asked))

    ask()
