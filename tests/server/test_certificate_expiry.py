"""Certificates in the trust store that expire soon: a log line a day, and a metric."""

import asyncio
import logging
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from engine.harness import World
from message_security.signing import NOW, trust
from tiercel.api import metrics
from tiercel.message_security.verifier import Verifier
from tiercel.model.sid import SecurityIdentifier
from tiercel.server import certificate_expiry, trust_file
from tiercel.server.certificate_expiry import ExpiryWatch
from tiercel.server.daemon import Daemon

from .scripted import configured

ALICE = SecurityIdentifier.parse("S-1-5-21-1-2-3-1001")
EXPIRES = NOW + timedelta(days=3650)  # of the certificates made here


def lines(caplog: Any) -> list[dict[str, object]]:
    return [each.tiercel_fields for each in caplog.records if each.getMessage() == "certificate_expires"]


@pytest.mark.parametrize(("days_before", "told"), [(31, None), (30, None), (29, 29), (0, 0), (-1, -1)])
def test_a_warning_before_it_expires(caplog: Any, days_before: int, told: int | None) -> None:
    certificate_expiry.warn(trust(alice=ALICE), (EXPIRES - timedelta(days=days_before)).timestamp())
    found = [(each["certificate"], each["days"]) for each in lines(caplog)]
    assert found == ([] if told is None else [("alice", told)])


def test_once_a_day(caplog: Any) -> None:
    async def main() -> None:
        delays: list[float] = []
        thrice = asyncio.Event()
        loop = asyncio.get_running_loop()
        call_later = loop.call_later

        def at_once(delay: float, command: Any) -> asyncio.TimerHandle:
            delays.append(delay)
            if len(delays) < 3:
                return call_later(0, command)
            thrice.set()
            return call_later(delay, command)

        loop.call_later = at_once  # type: ignore[method-assign,assignment]
        watch = ExpiryWatch(lambda: trust(alice=ALICE), EXPIRES.timestamp)
        watch.start()
        await thrice.wait()
        watch.stop()
        assert delays == [86_400] * 3

    asyncio.run(main())
    assert len(lines(caplog)) == 3


def test_a_daemon_warns_when_it_starts(tmp_path: Path, caplog: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(certificate_expiry, "_WARN_BEFORE_S", 100 * 365 * 86_400)
    path = tmp_path / "trust"
    trust_file.change(path, lambda _: trust(alice=ALICE), create=True)

    async def main() -> None:
        async with Daemon(configured(tmp_path / "data", security={"trust": str(path)})):
            pass

    caplog.set_level(logging.WARNING, "tiercel")
    asyncio.run(main())
    assert [each["certificate"] for each in lines(caplog)] == ["alice"]


def test_the_metric() -> None:
    known = trust(alice=ALICE)
    world = World(verifier=Verifier(lambda: known))
    (sample,) = metrics._trust(world.engine).samples
    assert (sample.labels, sample.value) == ({"name": "alice"}, EXPIRES.timestamp())
