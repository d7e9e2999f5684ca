"""Multicast between daemons: real sockets on the loopback interface, encapsulated in UDP."""

import asyncio
import errno
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import tiercel
from addresses import own_address
from tiercel import aio
from tiercel.server.config import Config, ConfigError, MulticastOptions, parse
from tiercel.server.daemon import Daemon
from tiercel.server.multicast_network import MulticastNetwork, why_unavailable

from .scripted import configured

PATIENCE_S = 60.0
HERE, THERE = own_address(6), own_address(7)
GROUP = "239" + HERE.removeprefix("127")  # of this process alone
ADDRESS = f"{GROUP}:8001"
QUICK = MulticastOptions(enabled=True, transport="udp", rate_bytes_s=5_000_000)


@asynccontextmanager
async def machine(
    directory: Path, host: str, multicast: MulticastOptions = QUICK
) -> AsyncIterator[aio.AsyncEmbeddedQueueManager]:
    config = Config(multicast=_on(multicast, host))
    async with await aio.open(directory / host, listen=f"{host}:1801", config=config) as manager:
        yield manager


def _on(options: MulticastOptions, host: str) -> MulticastOptions:
    values = {name: getattr(options, name) for name in options.__dataclass_fields__}
    return MulticastOptions(**{**values, "interface": host})


async def bodies(queue: Any, count: int) -> list[bytes]:
    return [(await queue.receive(timeout=PATIENCE_S)).body for _ in range(count)]


@pytest.mark.parametrize("size", [1, 60_000])
def test_a_message_reaches_every_subscribed_queue(tmp_path: Path, size: int) -> None:
    async def main() -> None:
        async with machine(tmp_path, HERE) as here, machine(tmp_path, THERE) as there:
            own = await here.create_queue("own", multicast_address=ADDRESS)
            queues = [await there.create_queue(n, multicast_address=ADDRESS) for n in ("a", "b")]
            await here.queue(f"MULTICAST={ADDRESS}").send(tiercel.Message(b"x" * size))
            for queue in (own, *queues):
                assert await bodies(queue, 1) == [b"x" * size]

    asyncio.run(main())


def test_a_late_subscriber_hears_what_comes_then(tmp_path: Path) -> None:
    async def main() -> None:
        async with machine(tmp_path, HERE) as here:
            group = here.queue(f"MULTICAST={ADDRESS}")
            await group.send(tiercel.Message(b"before"))
            queue = await here.create_queue("own")
            await queue.set_properties(multicast_address=ADDRESS)
            heard = tiercel.Message(b"before")
            for number in range(1000):
                await group.send(tiercel.Message(b"%d" % number))
                await asyncio.sleep(0.01)
                with suppress(tiercel.IoTimeoutError):
                    heard = await queue.receive(timeout=0)
                    break
            assert heard.body != b"before"

    asyncio.run(main())


@pytest.mark.conformance("SRMP-194")
def test_without_the_right_everything_else_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(_self: MulticastNetwork) -> socket.socket:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(MulticastNetwork, "_open", refuse)

    async def main() -> None:
        config = configured(tmp_path, multicast={"enabled": True, "interface": HERE})
        with caplog.at_level(logging.WARNING, "tiercel"):
            async with Daemon(config) as daemon:
                assert daemon.multicast is None
                assert not daemon.engine.queue_manager.srmp_pgm_support

    asyncio.run(main())
    assert [record.getMessage() for record in caplog.records] == ["multicast_off"]


def test_it_is_off_by_default(tmp_path: Path) -> None:
    async def main() -> None:
        async with Daemon(configured(tmp_path)) as daemon:
            assert daemon.multicast is None

    asyncio.run(main())


def test_the_reason_names_the_fix() -> None:
    problem = PermissionError(errno.EPERM, "")
    assert 'transport = "udp"' in why_unavailable(problem, MulticastOptions())
    missing = OSError(errno.EADDRNOTAVAIL, "")
    assert "interface, 192.0.2.9" in why_unavailable(missing, MulticastOptions(interface="192.0.2.9"))


@pytest.mark.parametrize("value", ["eth0", "::1", "300.1.1.1"])
def test_an_interface_is_an_address(value: str) -> None:
    with pytest.raises(ConfigError, match=r"\[multicast\] interface"):
        parse(f'[multicast]\ninterface = "{value}"')
