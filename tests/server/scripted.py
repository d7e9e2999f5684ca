"""A protocol whose answers a test writes, to see what the sockets and the batches do."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tiercel.binary.actions import Action, SessionEvent
from tiercel.binary.certificate import Certificate
from tiercel.binary.settings import Settings
from tiercel.engine.core import Effect
from tiercel.engine.engine import Engine
from tiercel.engine.machine import Close, Write
from tiercel.model.codes import ConnectionStatus
from tiercel.server.config import Config
from tiercel.server.daemon import Daemon

PATIENCE_S = 60.0  # only a test that fails waits that long


class Scripted:
    """Notes its inputs batch by batch, and does what `answer` gives for an input."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self.engine = engine
        self.settings = settings
        self.batches: list[list[tuple[Any, ...]]] = []
        self.answer: Callable[..., list[Action]] = lambda *_input: []
        self.next_deadline: float | None = None
        self._numbers = 0
        self._now = 0.0
        self._actions: list[Action] = []

    @property
    def inputs(self) -> list[tuple[Any, ...]]:
        return [each for batch in self.batches for each in batch]

    def received_bytes(self, connection: int) -> bytes:
        return b"".join(each[2] for each in self.inputs if each[:2] == ("received", connection))

    async def until(self, condition: Callable[[], object]) -> None:
        """Waits until what was fed makes the condition true."""
        async with asyncio.timeout(PATIENCE_S):
            while not condition():  # noqa: ASYNC110  # it may be about anything
                await asyncio.sleep(0.001)

    async def until_input(self, *start: Any) -> tuple[Any, ...]:
        def found() -> list[tuple[Any, ...]]:
            return [each for each in self.inputs if each[: len(start)] == start]

        await self.until(found)
        return found()[0]

    def do(self, *actions: Action) -> None:
        """For a command in a batch: have these done after the commit."""
        self._actions += actions

    def _note(self, *event: Any) -> None:
        self.batches[-1].append(event)
        self._actions += self.answer(*event)

    def begin(self, now: float) -> None:
        self.batches.append([])
        self._now = now

    def flush(self) -> None:
        if self.next_deadline is not None and self.next_deadline <= self._now:
            self.next_deadline = None

    def finish(self, effects: list[Effect]) -> list[Effect]:
        return effects

    def take_actions(self) -> list[Action]:
        actions, self._actions = self._actions, []
        return actions

    def has_carried(self, connection: int) -> bool:
        return bool(self.received_bytes(connection))

    def start(self) -> None:
        self._note("start")

    def stop(self) -> None:
        self._note("stop")

    def change_settings(self, settings: Settings) -> None:
        self.settings = settings

    def accepted(self, address: str, _certificate: Certificate | None = None) -> int:
        self._numbers += 1
        self._note("accepted", self._numbers, address)
        return self._numbers

    def connected(self, connection: int, _certificate: Certificate | None = None) -> None:
        self._note("connected", connection)

    def connect_failed(
        self, connection: int, status: ConnectionStatus, error: int = 0, _reason: str = ""
    ) -> None:
        self._note("connect_failed", connection, status, error)

    def received(self, connection: int, data: bytes) -> None:
        self._note("received", connection, data)

    def writable(self, connection: int, *, is_writable: bool) -> None:
        self._note("writable", connection, is_writable)

    def disconnected(self, connection: int, error: int = 0) -> None:
        del error
        self._note("disconnected", connection)

    def resolved(self, host: str, addresses: list[str]) -> None:
        self._note("resolved", host, addresses)

    def datagram(self, address: str, port: int, data: bytes, *, is_reply: bool) -> None:
        self._note("datagram", address, port, data, is_reply)


def echo(*event: Any) -> list[Action]:
    """Opens a session at once, and sends back what comes."""
    match event:
        case ("accepted", number, address):
            return [SessionEvent(number, "opened", address)]
        case ("received", number, b"bye"):
            return [Write(number, b"good"), Write(number, b"bye"), Close(number)]
        case ("received", number, data):
            return [Write(number, data)]
    return []


def configured(directory: Path, **sections: dict[str, Any]) -> Config:
    config = Config()
    sections.setdefault("listen", {}).setdefault("port", 0)
    sections.setdefault("node", {}).update(data=str(directory / "data"), max_bytes=2**20)
    changed: dict[str, Any] = {}
    for name, options in sections.items():
        section = getattr(config, name)
        changed[name] = options if isinstance(section, dict | tuple) else replace(section, **options)
    return replace(config, **changed)


@asynccontextmanager
async def scripted(config: Config) -> AsyncIterator[tuple[Daemon, Any]]:
    """A daemon that runs on a scripted protocol."""
    with patch("tiercel.server.transports.BinaryProtocol", Scripted):
        daemon = Daemon(config)
    async with asyncio.timeout(PATIENCE_S), daemon:
        yield daemon, daemon.protocol


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def connect(daemon: Daemon, source: str | None = None) -> Streams:
    endpoint = daemon.endpoints[0]
    local = None if source is None else (source, 0)
    return await asyncio.open_connection(endpoint.host, endpoint.port, local_addr=local)


async def ended(reader: asyncio.StreamReader) -> bytes:
    """What comes until the other side closes, politely or not."""
    data = b""
    with suppress(ConnectionError):
        while piece := await reader.read(65536):
            data += piece
    return data
