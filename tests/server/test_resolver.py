import asyncio
import socket
import threading
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest

from tiercel.server.config import Endpoint
from tiercel.server.resolver import Resolver, TooManyLookupsError

from .scripted import PATIENCE_S


class Dns:
    """Knows every name that begins with "good"; is silent about the others until the end."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.ends = threading.Event()

    def answer(self, host: str, *_arguments: Any, **_options: Any) -> list[Any]:
        self.asked.append(host)
        if not host.startswith("good"):
            self.ends.wait(PATIENCE_S)
            raise socket.gaierror(-2, "unknown")
        return [(0, 0, 0, "", ("192.0.2.1", 0))]


@pytest.fixture
def dns() -> Iterator[Dns]:
    dns = Dns()
    with patch("tiercel.server.resolver.socket.getaddrinfo", dns.answer):
        yield dns
        dns.ends.set()


class TestNamesThatStrangersMakeUsLookUp:
    def test_leave_room_for_others(self, dns: Dns) -> None:
        """Four at a time; what applications, other receipts and binary sessions look up goes on."""

        async def scene() -> None:
            resolver = Resolver({"there": Endpoint("192.0.2.3")})
            assert await resolver.resolve("good receiver", PATIENCE_S, for_receipts=True) == ["192.0.2.1"]
            made_up = [
                asyncio.create_task(resolver.resolve(f"bad {each}", PATIENCE_S, for_receipts=True))
                for each in range(100)
            ]
            assert await resolver.resolve("good host", PATIENCE_S) == ["192.0.2.1"]
            assert await resolver.resolve("192.0.2.2", PATIENCE_S, for_receipts=True) == ["192.0.2.2"]
            assert await resolver.resolve("there", PATIENCE_S, for_receipts=True) == ["192.0.2.3"]
            assert await resolver.resolve("good receiver", PATIENCE_S, for_receipts=True) == ["192.0.2.1"]
            assert sum(host.startswith("bad") for host in dns.asked) == 4
            dns.ends.set()
            assert await asyncio.gather(*made_up) == [[]] * 100

        asyncio.run(scene())

    def test_wait_in_a_row_of_limited_length(self, dns: Dns) -> None:
        async def scene() -> None:
            resolver = Resolver({})
            made_up = [
                asyncio.create_task(resolver.resolve(f"bad {each}", PATIENCE_S, for_receipts=True))
                for each in range(1000)
            ]
            await asyncio.sleep(0)
            with pytest.raises(TooManyLookupsError):
                await resolver.resolve("one more", PATIENCE_S, for_receipts=True)
            made_up[-1].cancel()
            await asyncio.wait(made_up[-1:])
            one_more = asyncio.create_task(resolver.resolve("one more", PATIENCE_S, for_receipts=True))
            dns.ends.set()
            assert await one_more == []
            await asyncio.gather(*made_up[:-1])

        asyncio.run(scene())

    def test_a_name_loses_its_privilege_with_its_address(self, dns: Dns) -> None:
        async def scene() -> None:
            resolver = Resolver({})
            await resolver.resolve("good", PATIENCE_S, for_receipts=True)
            assert "good" in resolver._answered
            with patch("tiercel.server.resolver.socket.getaddrinfo", side_effect=OSError):
                assert await resolver.resolve("good", PATIENCE_S) == []
            assert not resolver._answered

        assert not dns.asked
        asyncio.run(scene())


def test_a_lookup_has_a_time_limit_that_begins_with_its_turn(dns: Dns) -> None:
    async def scene() -> None:
        resolver = Resolver({})
        with pytest.raises(TimeoutError):
            await resolver.resolve("bad", 0.01)
        assert await resolver.resolve("good", PATIENCE_S) == ["192.0.2.1"]
        assert dns.asked == ["bad", "good"]

    asyncio.run(scene())
