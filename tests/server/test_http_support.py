"""SrmpHttpSupport: [MS-MQDMPR] 3.1.1.1. The configuration decides; the store remembers it."""

import asyncio
from pathlib import Path

import pytest

import tiercel
from addresses import own_address
from tiercel.server.daemon import Daemon

from .scripted import configured

HOST = own_address(5)


def run(directory: Path, *, enabled: bool) -> tuple[bool, bool, bool]:
    """What a daemon has: the flags of HTTP and PGM, and a listener."""

    async def main() -> tuple[bool, bool, bool]:
        config = configured(directory, srmp={"enabled": enabled, "host": HOST, "port": 0})
        async with Daemon(config) as daemon:
            manager = daemon.engine.queue_manager
            if daemon.http is not None:
                _, writer = await asyncio.open_connection(HOST, daemon.http.port)
                writer.close()
            return manager.srmp_http_support, manager.srmp_pgm_support, daemon.http is not None

    return asyncio.run(main())


def carries_http(directory: Path) -> bool:
    """Whether a queue manager on the same store, off the network, takes messages to HTTP names."""
    with tiercel.open(directory) as manager:
        try:
            manager.queue("DIRECT=HTTP://far.invalid/msmq/private$/q").send(tiercel.Message(b"", delivery=1))
        except tiercel.MqError:
            return False
        return True


@pytest.mark.conformance("DMPR-019")
def test_is_kept_by_the_store_and_decided_at_the_start(tmp_path: Path) -> None:
    data = configured(tmp_path).node.data
    assert run(tmp_path, enabled=False) == (False, False, False)
    assert not carries_http(Path(data))
    assert run(tmp_path, enabled=True) == (True, False, True)
    assert carries_http(Path(data))
    assert run(tmp_path, enabled=False) == (False, False, False)


@pytest.mark.conformance("DMPR-019")
def test_pgm_is_kept_by_itself(tmp_path: Path) -> None:
    async def main() -> None:
        async with Daemon(configured(tmp_path)) as daemon:
            await daemon.call(lambda engine: engine.administration.set_properties(srmp_pgm_support=True))

    asyncio.run(main())
    assert run(tmp_path, enabled=False) == (False, True, False)
    assert run(tmp_path, enabled=True) == (True, True, True)
