"""Two daemons that encrypt what they send each other; their keys are files."""

import asyncio
import stat
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from threading import get_ident
from typing import Any

import pytest

import tiercel
from addresses import own_address
from message_security.encrypting import ring
from tiercel import aio
from tiercel.binary.settings import Settings
from tiercel.message_security import exchange_keys, rsa_keys
from tiercel.message_security.body_encryption import BodyOpener
from tiercel.message_security.ciphers import SessionKey
from tiercel.message_security.exchange_keys import ExchangeKeyError
from tiercel.message_security.providers import ADVANCED, BASE, ENHANCED
from tiercel.message_security.trust import Trust, TrustedQueueManager
from tiercel.model.codes import PrivacyLevel, QueuePrivacyLevel
from tiercel.model.errors import PublicKeyNotFoundError
from tiercel.server import exchange_key_file, trust_file
from tiercel.server.config import Config, SecurityOptions
from tiercel.server.daemon import Daemon
from tiercel.server.exchange_key_file import ExchangeKeyFile
from tiercel.wire.user_message import UserMessage

from .scripted import configured

PATIENCE_S = 60.0  # only a test that fails waits that long
HERE, THERE = own_address(0), own_address(1)
PORT = 1801
ORDERS = r".\private$\orders"

Scene = Callable[["World"], Awaitable[None]]


class World:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.trust = directory / "trust"
        self.binary = Settings(port=PORT, retry_ms=20, retry_max_ms=100)

    def open(self, name: str, **security: Any) -> Any:
        options = SecurityOptions(trust=str(self.trust), encrypt_direct_names=True, **security)
        host = {"A": HERE, "B": THERE}[name]
        return aio.open(
            self.directory / name,
            computer_name=name,
            listen=f"{host}:{PORT}",
            config=Config(binary=self.binary, security=options),
        )

    def know(self, manager: Any) -> None:
        """A gets the published keys of B, which are made or read now."""
        driver = manager._runtime.driver
        keys = driver.exchange_keys.ring().published().keys
        entry = TrustedQueueManager("b", driver.engine.queue_manager.identifier, (THERE,), keys)
        trust_file.change(self.trust, lambda _: Trust((entry,)), create=True)

    @property
    def keys(self) -> Path:
        return self.directory / "B" / exchange_key_file.FILE_NAME


@pytest.fixture
def play(tmp_path: Path) -> Callable[[Scene], None]:
    async def main(scene: Scene) -> None:
        async with asyncio.timeout(PATIENCE_S):
            await scene(World(tmp_path))

    return lambda scene: asyncio.run(main(scene))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long keys take some tenths of a second."""
    monkeypatch.setattr(exchange_keys, "_BITS", {ADVANCED: 1024, ENHANCED: 1024})


Play = Callable[[Scene], None]


def remote(manager: Any) -> Any:
    return manager.queue(rf"DIRECT=TCP:{THERE}\private$\orders")


def test_messages_arrive_in_order(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    """Encrypted and clear ones of one stream; the private key is used in another thread."""
    threads: set[int] = set()
    unwrap = BodyOpener.unwrap

    def spy(self: BodyOpener, packet: UserMessage) -> tuple[SessionKey, ...]:
        threads.add(get_ident())
        return unwrap(self, packet)

    monkeypatch.setattr(BodyOpener, "unwrap", spy)

    async def scene(world: World) -> None:
        async with await world.open("A") as a, await world.open("B") as b:
            world.know(b)
            orders = await b.create_queue(ORDERS, transactional=True)
            bodies = [b"%d" % number for number in range(40)]
            for number, body in enumerate(bodies):
                async with a.transaction() as tx:
                    await remote(a).send(body, transaction=tx, encrypt=number % 3 != 0)
                if number % 8 == 0:  # the next one needs a new session key
                    a._runtime.driver.engine.encryption.sealer.cache.clear()
            found = [await orders.receive(timeout=PATIENCE_S) for _ in bodies]
            assert [each.body for each in found] == bodies
            levels = [PrivacyLevel.ADVANCED if number % 3 else PrivacyLevel.NONE for number in range(40)]
            assert [each.privacy_level for each in found] == levels
            assert threads
            assert get_ident() not in threads

    play(scene)


def test_the_old_key_opens_what_was_under_way(play: Play) -> None:
    async def scene(world: World) -> None:
        async with await world.open("A") as a, await world.open("B") as b:
            world.know(b)
            orders = await b.create_queue(ORDERS, privacy_level=QueuePrivacyLevel.BODY)
            await remote(a).send(b"before", encrypt=True)
            assert (await orders.receive(timeout=PATIENCE_S)).body == b"before"
            now = ring().keys[0].made
            exchange_key_file.change(world.keys, lambda keys: keys.rotated(now))
            a._runtime.driver.engine.encryption.sealer.cache.clear()
            await remote(a).send(b"old", encrypt=True)
            assert (await orders.receive(timeout=PATIENCE_S)).body == b"old"
            world.know(b)
            await remote(a).send(b"new", encrypt=True)
            assert (await orders.receive(timeout=PATIENCE_S)).body == b"new"

    play(scene)


def test_without_a_key_nothing_is_sent(play: Play) -> None:
    async def scene(world: World) -> None:
        async with await world.open("A") as a:
            with pytest.raises(PublicKeyNotFoundError, match="tiercel trust fetch"):
                await remote(a).send(b"secret", encrypt=True)
            with pytest.raises(PublicKeyNotFoundError):
                await remote(a).send_many([b"secret"], encrypt=True)

    play(scene)


def test_a_program_without_the_network_leaves_it_to_the_daemon(tmp_path: Path) -> None:
    with tiercel.open(tmp_path / "data") as manager:
        there = manager.queue(r"DIRECT=OS:there\private$\orders")
        there.send(tiercel.Message(b"secret", delivery=tiercel.DeliveryGuarantee.RECOVERABLE), encrypt=True)
        local = manager.create_queue("orders")
        local.send(b"secret", encrypt=True)
        found = local.receive(timeout=0)
        assert (found.body, found.privacy_level) == (b"secret", PrivacyLevel.ADVANCED)


class TestTheFile:
    @pytest.mark.conformance("MQQB-221", "DMPR-125")
    def test_it_is_made_at_first_need_and_private(self, tmp_path: Path) -> None:
        """A key of 512 bits, which nobody should make any more, is published if it is added by hand."""
        path = tmp_path / exchange_key_file.FILE_NAME
        keys = ExchangeKeyFile(lambda: tmp_path, legacy=True)
        keys.check()
        assert keys.exchange_keys(ADVANCED) == ()
        assert not path.exists()
        made = keys.ring()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        exchange_key_file.change(path, lambda found: type(found)((*found.keys, *ring(BASE).keys)))
        published = keys.ring().published()
        names = [key.provider_name for key in published.keys]
        assert sorted(names) == sorted(provider.name for provider in (ADVANCED, ENHANCED, BASE))
        assert [key.key for key in published.keys[:2]] == [each.blob for each in made.keys]
        assert [key.key_size for key in keys.exchange_keys(BASE)] == [512]

    def test_the_keys_stay_while_it_cannot_be_read(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        """What was encrypted with them would be refused for good otherwise."""
        path = tmp_path / exchange_key_file.FILE_NAME
        exchange_key_file.change(path, lambda _: ring(ADVANCED), create=True)
        keys = ExchangeKeyFile(lambda: tmp_path, legacy=False)
        assert len(keys.exchange_keys(ADVANCED)) == 1
        path.chmod(0o644)
        for _ in range(2):
            assert len(keys.exchange_keys(ADVANCED)) == 1
        assert [each.message for each in caplog.records] == ["exchange_keys_unusable"]
        with pytest.raises(ExchangeKeyError, match="chmod 600"):
            keys.check()

    def test_a_daemon_does_not_start_with_keys_that_others_can_read(self, tmp_path: Path) -> None:
        async def main() -> None:
            config = configured(tmp_path)
            async with Daemon(config) as daemon:
                path = daemon.driver.directory / exchange_key_file.FILE_NAME
                exchange_key_file.change(path, lambda _: ring(ADVANCED), create=True)
            path.chmod(0o640)
            with pytest.raises(ExchangeKeyError, match="chmod 600"):
                Daemon(config)
            path.chmod(0o600)
            async with Daemon(config):
                pass

        asyncio.run(main())


def test_old_algorithms_are_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main(*, legacy: bool) -> int:
        caplog.clear()
        security = SecurityOptions(legacy=legacy)
        async with Daemon(replace(configured(tmp_path), security=security)):
            pass
        return sum(each.message == "legacy_security" for each in caplog.records)

    assert asyncio.run(main(legacy=False)) == 0
    assert asyncio.run(main(legacy=True)) == 1


def test_an_unexpected_error_ends_the_connection_and_loses_nothing(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sender keeps the message, and sends it again."""
    failures = [OSError("out of memory")]
    unwrap_key = rsa_keys.unwrap_key

    def fail(*arguments: Any) -> bytes:
        if failures:
            raise failures.pop()
        return unwrap_key(*arguments)

    monkeypatch.setattr("tiercel.message_security.body_encryption.unwrap_key", fail)

    async def scene(world: World) -> None:
        async with await world.open("A") as a, await world.open("B") as b:
            world.know(b)
            orders = await b.create_queue(ORDERS, transactional=True)
            async with a.transaction() as tx:
                await remote(a).send(b"secret", transaction=tx, encrypt=True)
            assert (await orders.receive(timeout=PATIENCE_S)).body == b"secret"

    play(scene)
    assert failures == []
