"""The remote reader and the daemon, with and without a password."""

# what a block does before it raises is what is tested

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tiercel
from addresses import own_address
from client.fake_server import HOST, ORDERS, play
from client.support import sent_with_properties, sent_with_properties_on_loop
from tiercel import aio
from tiercel.client import dialing, remote_aio
from tiercel.model.codes import MessageSeekAction
from tiercel.security.accounts import Account, Accounts
from tiercel.security.descriptor import SecurityDescriptor
from tiercel.security.nt_hash import nt_hash
from tiercel.server.config import AccountOptions, Config, ListenOptions, RemoteReadOptions

S = MessageSeekAction
FOR_ALL = SecurityDescriptor.parse("O:WDG:WDD:(A;;0xf003f;;;WD)(A;;0xf003f;;;AN)").encode()


@asynccontextmanager
async def daemon(
    folder: Path, port: int = 0, accounts: str = "", host: str = HOST, **options: Any
) -> AsyncIterator[tuple[aio.AsyncEmbeddedQueueManager, int]]:
    config = replace(
        Config(),
        accounts=AccountOptions(file=accounts),
        remote_read=RemoteReadOptions(enabled=True, host=host, port=port, **options),
        listen=ListenOptions(host=host, port=0),
    )
    async with await aio.open(folder, config=config, computer_name="SRV") as qm:
        manager: Any = qm._runtime
        yield qm, manager.daemon.remote_reading.port


@asynccontextmanager
async def both(
    folder: Path, **properties: Any
) -> AsyncIterator[tuple[aio.AsyncEmbeddedQueue, remote_aio.AsyncRemoteQueue]]:
    """A queue, and the same queue over a remote connection."""
    async with daemon(folder) as (qm, port):
        queue = await qm.create_queue(rf".\{ORDERS}", security=FOR_ALL, **properties)
        async with await aio.connect(HOST, port=port) as remote:
            yield queue, remote.queue(ORDERS)


async def fill(queue: aio.AsyncEmbeddedQueue, *bodies: bytes) -> None:
    for body in bodies:
        await queue.send(tiercel.Message(body, delivery=tiercel.DeliveryGuarantee.RECOVERABLE))


class TestReading:
    def test_all_of_it(self, tmp_path: Path) -> None:
        async def scene() -> None:
            async with both(tmp_path / "data") as (queue, orders):
                await fill(queue, b"1", b"2", b"3", b"4")
                first = await orders.peek(0)
                own = await queue.peek(0)
                assert (first.body, first.lookup_id, first.id) == (b"1", own.lookup_id, own.id)
                assert first.arrival_time == own.arrival_time
                assert [message.body async for message in await orders.cursor()] == [b"1", b"2", b"3", b"4"]
                assert (await orders.peek(lookup_id=first.lookup_id, seek=S.SEEK_NEXT)).body == b"2"
                assert (await orders.peek(seek=S.SEEK_LAST)).body == b"4"
                assert (await orders.receive(0)).body == b"1"
                with pytest.raises(ZeroDivisionError):
                    async with orders.receiving(0):
                        raise ZeroDivisionError
                second = await orders.peek(0)
                assert (second.body, second.abort_count) == (b"2", 1)
                await orders.move(second, "retry")
                moved = await orders.subqueue("retry").receive(0)
                assert (moved.body, moved.move_count) == (b"2", 1)
                async with orders.receiving(0) as third:
                    assert third.body == b"3"
                assert queue.count == 1
                await orders.purge()
                assert queue.count == 0
                with pytest.raises(tiercel.IoTimeoutError):
                    await orders.receive(0.01)

        play(scene())

    def test_a_large_body_and_a_part_of_it(self, tmp_path: Path) -> None:
        async def scene() -> None:
            async with both(tmp_path / "data") as (queue, orders):
                body = random.Random(1).randbytes(300_000)
                await queue.send(tiercel.Message(body, label="large"))
                part = await orders.peek(0, max_body_size=1000)
                assert (part.body, part.body_size, part.label) == (body[:1000], len(body), "large")
                assert not part.is_complete
                whole = await orders.receive(0)
                assert whole.is_complete
                assert whole.body == body

        play(scene())

    def test_a_wait_ends_with_a_message(self, tmp_path: Path) -> None:
        async def scene() -> None:
            async with both(tmp_path / "data") as (queue, orders):
                task = asyncio.create_task(orders.receive())
                await asyncio.sleep(0.1)
                await queue.send(b"late")
                assert (await task).body == b"late"

        play(scene())

    def test_a_text_is_sent_with_properties(self, tmp_path: Path) -> None:
        def synchronous(port: int, message_port: int) -> None:
            with tiercel.connect(HOST, port=port, message_port=message_port) as remote:
                sent_with_properties(remote.queue(ORDERS))

        async def scene() -> None:
            async with daemon(tmp_path / "data") as (qm, port):
                await qm.create_queue(rf".\{ORDERS}", security=FOR_ALL)
                message_port = int(str(qm.address).rpartition(":")[2])
                async with aio.connect(HOST, port=port, message_port=message_port) as remote:
                    await sent_with_properties_on_loop(remote.queue(ORDERS))
                await asyncio.to_thread(synchronous, port, message_port)

        play(scene())

    def test_transactions_need_a_coordinator(self, tmp_path: Path) -> None:
        async def scene() -> None:
            async with both(tmp_path / "data", transactional=True) as (_, orders):
                transaction = remote_aio.AsyncRemoteQueueManager.transaction(b"TOKEN")
                with pytest.raises(tiercel.DtcConnectError):
                    await orders.receive(0, transaction=transaction)

        play(scene())

    def test_errors(self, tmp_path: Path) -> None:
        async def scene() -> None:
            async with daemon(tmp_path / "data") as (qm, port):
                await qm.create_queue(rf".\{ORDERS}")  # for its owner only
                async with await aio.connect(HOST, port=port) as remote:
                    with pytest.raises(tiercel.QueueNotFoundError):
                        await remote.queue(r"private$\nowhere").receive(0)
                    with pytest.raises(tiercel.AccessDeniedError):
                        await remote.queue(ORDERS).receive(0)

        play(scene())


class TestEventLoops:
    def test_may_have_transports_of_their_own(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Those of uvloop are no kind of `asyncio.Transport`; as if ours were none either."""

        async def scene() -> None:
            async with daemon(tmp_path / "data") as (qm, port):
                await qm.create_queue(rf".\{ORDERS}", security=FOR_ALL)
                message_port = int(str(qm.address).rpartition(":")[2])
                async with await aio.connect(HOST, port=port, message_port=message_port) as remote:
                    orders = remote.queue(ORDERS)
                    await orders.send(b"1")
                    assert (await orders.receive(60)).body == b"1"

        monkeypatch.setattr(asyncio, "Transport", type("Transport", (), {}))
        play(scene())


class TestLosses:
    def test_cancelled_readers_lose_nothing(self, tmp_path: Path) -> None:
        """Readers that are cancelled at any moment: every message is received once, or still there."""

        async def scene() -> None:
            async with both(tmp_path / "data") as (queue, orders):
                bodies = [b"%d" % number for number in range(150)]
                rng, taken = random.Random(7), []

                async def read() -> None:
                    with suppress(tiercel.IoTimeoutError):
                        taken.append((await orders.receive(1)).body)

                async def send() -> None:
                    for body in bodies:
                        await fill(queue, body)
                        await asyncio.sleep(0)

                sender = asyncio.create_task(send())
                while not sender.done() or queue.count:
                    tasks = [asyncio.create_task(read()) for _ in range(3)]
                    for task in tasks:
                        await asyncio.sleep(rng.random() * 0.004)
                        if rng.random() < 0.5:
                            task.cancel()
                    await asyncio.wait(tasks)
                with suppress(tiercel.IoTimeoutError):
                    while True:
                        taken.append((await orders.receive(0)).body)
                assert sorted(taken) == sorted(bodies)

        play(scene())

    def test_a_daemon_that_restarts_is_found_again(self, tmp_path: Path) -> None:
        async def scene() -> None:
            host = own_address()  # where the port is still free afterwards
            async with daemon(tmp_path / "data", host=host) as (qm, port):
                queue = await qm.create_queue(rf".\{ORDERS}", security=FOR_ALL)
                await fill(queue, b"1", b"2")
                remote = await aio.connect(host, port=port)
                orders = remote.queue(ORDERS)
                assert (await orders.receive(0)).body == b"1"
                held = orders.receiving(0)
                assert (await held.__aenter__()).body == b"2"
            lost = (tiercel.InvalidHandleError, tiercel.RemoteMachineNotAvailableError)
            with pytest.raises(lost, match=r"back in the queue|may come again"):
                await held.__aexit__(None, None, None)
            async with remote, daemon(tmp_path / "data", port, host=host) as (_, again):
                assert again == port
                assert (await orders.receive(60)).body == b"2"

        play(scene())


class TestLoggingOn:
    @pytest.fixture
    def accounts(self, tmp_path: Path) -> str:
        path = tmp_path / "accounts"
        account = Account("reader", "EXAMPLE", None, nt_hash("geheim"))
        path.write_text(Accounts([account]).text(), "utf-8")
        path.chmod(0o600)
        return str(path)

    @pytest.mark.parametrize("level", [None, "privacy", "integrity", "packet", "connect"])
    def test_with_a_password(self, tmp_path: Path, accounts: str, level: str | None) -> None:
        """The queue is open to that user alone; the level is by default the highest."""
        sid = Account("reader", "EXAMPLE", None, nt_hash("geheim")).sid
        only_reader = SecurityDescriptor.parse(f"O:{sid}G:WDD:(A;;0xf003f;;;{sid})").encode()

        async def scene() -> None:
            limits: dict[str, Any] = {"least_level_local": level or "privacy", "accounts": accounts}
            async with daemon(tmp_path / "data", **limits) as (qm, port):
                await qm.create_queue(rf".\{ORDERS}", security=only_reader)
                user: dict[str, Any] = {"user": r"EXAMPLE\reader", "password": "geheim", "level": level}
                async with await aio.connect(HOST, port=port, **user) as remote:
                    with pytest.raises(tiercel.IoTimeoutError):
                        await remote.queue(ORDERS).receive(0)
                async with await aio.connect(HOST, port=port) as stranger:
                    with pytest.raises(tiercel.AccessDeniedError):
                        await stranger.queue(ORDERS).receive(0)

        play(scene())

    @pytest.mark.parametrize("rebind", [False, True], ids=["at once", "after asking for the port"])
    def test_with_a_wrong_one(self, tmp_path: Path, accounts: str, rebind: bool) -> None:
        async def scene() -> None:
            async with daemon(tmp_path / "data", accounts=accounts) as (qm, port):
                await qm.create_queue(rf".\{ORDERS}", security=FOR_ALL)
                user: dict[str, Any] = {"user": r"EXAMPLE\reader", "password": "falsch"}
                async with await aio.connect(HOST, port=port, rebind=rebind, **user) as remote:
                    await remote.queue(ORDERS).receive(0)

        with pytest.raises(tiercel.AccessDeniedError, match="rejected the user, the password"):
            play(scene())

    def test_without_any_it_is_told(self) -> None:
        with pytest.raises(tiercel.InvalidParameterError, match="password"):
            play(aio.connect(HOST, user="reader"))


class TestPort:
    def test_of_the_mapper(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        host, mapper_port = own_address(), 11135
        monkeypatch.setattr(dialing, "MAPPER_PORT", mapper_port)

        async def scene() -> None:
            options: dict[str, Any] = {"endpoint_mapper": True, "endpoint_mapper_port": mapper_port}
            async with daemon(tmp_path / "data", host=host, **options) as (qm, _):
                queue = await qm.create_queue(rf".\{ORDERS}", security=FOR_ALL)
                await fill(queue, b"1")
                for rebind in (False, True):
                    async with await aio.connect(host, rebind=rebind) as remote:
                        assert (await remote.queue(ORDERS).peek(0)).body == b"1"

        play(scene())
