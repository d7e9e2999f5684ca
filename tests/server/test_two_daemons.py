"""Two queue managers that talk over real sockets: on two addresses, or two ports of one address."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tiercel
from addresses import own_address
from tiercel import aio
from tiercel.binary.settings import Settings
from tiercel.model.codes import MessageClass
from tiercel.model.format_name import PrivateFormatName
from tiercel.server.config import AccessOptions, Config, Endpoint
from tiercel.store.lmdb_store import LmdbBatch

PATIENCE_S = 60.0  # only a test that fails waits that long
RECOVERABLE = tiercel.DeliveryGuarantee.RECOVERABLE

ORDERS = r".\private$\orders"
HERE, THERE = BOTH = own_address(0), own_address(1)
PORT, PING_PORT = 1801, 3527  # free, for these addresses are nobody else's


class World:
    """Two machines, A and B, that are opened and closed by name."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.config = Config(binary=Settings(port=PORT, retry_ms=20, retry_max_ms=100))

    @asynccontextmanager
    async def machine(self, name: str, **sections: Any) -> AsyncIterator[aio.AsyncEmbeddedQueueManager]:
        host = BOTH["AB".index(name)]
        config = replace(self.config, **sections)
        manager = await aio.open(
            self.directory / name, computer_name=name, listen=f"{host}:{PORT}", config=config
        )
        async with manager:
            yield manager


Scene = Callable[[World], Awaitable[None]]


@pytest.fixture
def play(tmp_path: Path) -> Callable[[Scene], None]:
    async def main(scene: Scene) -> None:
        async with asyncio.timeout(PATIENCE_S):
            await scene(World(tmp_path))

    return lambda scene: asyncio.run(main(scene))


def remote(manager: aio.AsyncEmbeddedQueueManager, name: str = "orders") -> aio.AsyncEmbeddedQueue:
    return manager.queue(rf"DIRECT=TCP:{THERE}\private$\{name}")


async def received(queue: aio.AsyncEmbeddedQueue, count: int) -> list[bytes]:
    return [(await queue.receive(timeout=PATIENCE_S)).body for _ in range(count)]


Play = Callable[[Scene], None]


class TestMessages:
    @pytest.mark.parametrize("delivery", [tiercel.DeliveryGuarantee.EXPRESS, RECOVERABLE])
    def test_arrive_in_order(self, delivery: tiercel.DeliveryGuarantee, play: Play) -> None:
        async def scene(world: World) -> None:
            async with world.machine("A") as a, world.machine("B") as b:
                orders = await b.create_queue(ORDERS)
                bodies = [b"%d" % number for number in range(300)]  # several windows
                with a.batch():
                    for body in bodies:
                        await remote(a).send(tiercel.Message(body, delivery=delivery))
                assert await received(orders, 300) == bodies

        play(scene)

    def test_of_a_transaction_arrive_together(self, play: Play) -> None:
        async def scene(world: World) -> None:
            async with world.machine("A") as a, world.machine("B") as b:
                orders = await b.create_queue(ORDERS, transactional=True)
                for number in range(5):
                    async with a.transaction() as tx:
                        for part in range(20):
                            await remote(a).send(b"%d %d" % (number, part), transaction=tx)
                expected = [b"%d %d" % (number, part) for number in range(5) for part in range(20)]
                assert await received(orders, 100) == expected

        play(scene)

    def test_go_both_ways_at_once(self, play: Play) -> None:
        async def scene(world: World) -> None:
            async with world.machine("A") as a, world.machine("B") as b:
                mine, theirs = await a.create_queue(ORDERS), await b.create_queue(ORDERS)
                back = b.queue(rf"DIRECT=TCP:{HERE}\private$\orders")
                for number in range(50):
                    await remote(a).send(b"%d" % number)
                    await back.send(b"%d" % number)
                expected = [b"%d" % number for number in range(50)]
                both = await asyncio.gather(received(mine, 50), received(theirs, 50))
                assert list(both) == [expected, expected]

        play(scene)

    def test_as_large_as_they_may_be(self, play: Play) -> None:
        async def scene(world: World) -> None:
            async with world.machine("A") as a, world.machine("B") as b:
                orders = await b.create_queue(ORDERS)
                bodies = [bytes([number]) * 4_000_000 for number in range(8)]
                for body in bodies:
                    await remote(a).send(tiercel.Message(body, delivery=RECOVERABLE))
                assert await received(orders, 8) == bodies

        play(scene)

    @pytest.mark.parametrize("insecure", [True, False])
    def test_to_a_queue_that_is_not_there(self, insecure: bool, play: Play) -> None:
        """Strangers are told only where the configuration says so; the discards have it anyway."""

        async def scene(world: World) -> None:
            access = AccessOptions(insecure_nacks=insecure)
            async with world.machine("A") as a, world.machine("B", access=access) as b:
                told = await a.create_queue(r".\private$\told")
                there = await b.create_queue(ORDERS)
                message = tiercel.Message(b"x", acknowledgements=tiercel.Acknowledgements.FULL_REACH_QUEUE)
                message.administration_queue = tiercel.FormatName.parse(rf"DIRECT=TCP:{HERE}\private$\told")
                await remote(a, "nowhere").send(message)
                await remote(a).send(message)
                classes = [MessageClass.NACK_BAD_DST_Q] if insecure else []
                classes.append(MessageClass.ACK_REACH_QUEUE)
                got = [(await told.receive(timeout=PATIENCE_S)).message_class for _ in classes]
                assert got == classes
                assert there.count == 1
                assert [each.reason for each in b.discards()] == ["the destination queue does not exist"]

        play(scene)


class TestAbsence:
    def test_messages_wait_for_the_other(self, play: Play) -> None:
        async def scene(world: World) -> None:
            async with world.machine("B") as b:
                await b.create_queue(ORDERS)
            async with world.machine("A") as a:
                await remote(a).send(tiercel.Message(b"waits", delivery=RECOVERABLE))
                async with world.machine("B") as b:
                    assert await received(b.queue(ORDERS), 1) == [b"waits"]

        play(scene)

    def test_messages_wait_for_their_own_machine(self, play: Play) -> None:
        """What A could not send before it stopped goes out when it starts again (MQQB-098)."""

        async def scene(world: World) -> None:
            async with world.machine("A") as a:
                await remote(a).send(tiercel.Message(b"stored", delivery=RECOVERABLE))
            async with world.machine("B") as b:
                orders = await b.create_queue(ORDERS)
                async with world.machine("A"):
                    assert await received(orders, 1) == [b"stored"]

        play(scene)

    def test_every_restart_keeps_the_order(self, play: Play) -> None:
        async def scene(world: World) -> None:
            async with world.machine("B") as b:
                await b.create_queue(ORDERS, transactional=True)
            numbers = iter(range(1000))

            async def send(a: aio.AsyncEmbeddedQueueManager, count: int) -> None:
                for _ in range(count):
                    async with a.transaction() as tx:
                        await remote(a).send(b"%d" % next(numbers), transaction=tx)

            got: list[bytes] = []
            async with world.machine("A") as a:
                for _ in range(3):
                    await send(a, 10)
                    async with world.machine("B") as b:
                        await send(a, 10)
                        got += await received(b.queue(ORDERS), 7)
            async with world.machine("A") as a, world.machine("B") as b:
                await send(a, 10)
                got += await received(b.queue(ORDERS), 70 - len(got))
                assert b.queue(ORDERS).count == 0
            assert got == [b"%d" % number for number in range(70)]

        play(scene)


class TestNames:
    def test_two_ports_of_one_address(self, tmp_path: Path) -> None:
        """`[hosts]` says where `DIRECT=OS:b` is, with its own port."""

        async def main() -> None:
            async with (
                asyncio.timeout(PATIENCE_S),
                await aio.open(tmp_path / "b", computer_name="B", listen="127.0.0.1:0") as b,
            ):
                orders = await b.create_queue(ORDERS)
                assert b.address is not None
                config = Config(hosts={"b": Endpoint.parse(b.address)})
                async with await aio.open(
                    tmp_path / "a", computer_name="A", listen="127.0.0.1:0", config=config
                ) as a:
                    await a.queue(r"DIRECT=OS:B\private$\orders").send(b"found")
                    assert await received(orders, 1) == [b"found"]

        asyncio.run(main())

    def test_a_machine_by_its_guid(self, play: Play) -> None:
        async def scene(world: World) -> None:
            async with world.machine("B") as b:
                orders = await b.create_queue(ORDERS)
                engine = b.driver.engine
                guid = engine.queue_manager.identifier
                state = b.driver.run(lambda: engine.queues.get(orders.format_name))
                number = state.queue.private_queue_number
                assert number is not None
                async with world.machine("A", machines={guid: (THERE,)}) as a:
                    await a.queue(PrivateFormatName(guid, number)).send(b"found")
                    assert await received(orders, 1) == [b"found"]

        play(scene)

    def test_with_a_ping_before(self, play: Play) -> None:
        async def scene(world: World) -> None:
            pinging = replace(world.config.binary, ping=True, ping_port=PING_PORT)
            async with world.machine("A", binary=pinging) as a, world.machine("B", binary=pinging) as b:
                orders = await b.create_queue(ORDERS)
                await remote(a).send(b"pinged")
                assert await received(orders, 1) == [b"pinged"]

        play(scene)


class TestWaits:
    def test_a_read_wakes_when_a_message_arrives(self, play: Play) -> None:
        async def scene(world: World) -> None:
            async with world.machine("A") as a, world.machine("B") as b:
                orders = await b.create_queue(ORDERS)
                reading = asyncio.ensure_future(orders.receive(timeout=PATIENCE_S))
                await asyncio.sleep(0)
                await remote(a).send(b"wakes")
                assert (await reading).body == b"wakes"

        play(scene)

    def test_a_read_times_out(self, play: Play) -> None:
        async def scene(world: World) -> None:
            async with world.machine("B") as b:
                orders = await b.create_queue(ORDERS)
                with pytest.raises(tiercel.IoTimeoutError):
                    await orders.receive(timeout=0.01)

        play(scene)

    def test_the_end_of_the_manager_ends_a_read(self, play: Play) -> None:
        async def scene(world: World) -> None:
            async with world.machine("B") as b:
                orders = await b.create_queue(ORDERS)
                reading = asyncio.ensure_future(orders.receive(timeout=PATIENCE_S))
                await asyncio.sleep(0)
            with pytest.raises(tiercel.OperationCancelledError):
                await reading

        play(scene)


def test_a_failure_in_the_program_ends_the_daemon(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever ran the batch that failed: peers must not go on with a queue manager that is none."""

    def fail(_batch: LmdbBatch) -> None:
        raise tiercel.StoreFailedError("store", problem="the disk is gone")

    async def scene(world: World) -> None:
        async with world.machine("A") as a, world.machine("B") as b:
            orders = await b.create_queue(ORDERS)
            await remote(a).send(b"x")
            await received(orders, 1)
            with monkeypatch.context() as patched:
                patched.setattr(LmdbBatch, "commit", fail)
                with pytest.raises(tiercel.StoreFailedError):
                    await orders.send(tiercel.Message(b"y", delivery=RECOVERABLE))
            daemon = b._runtime.daemon  # type: ignore[attr-defined]
            assert isinstance(daemon.failure, tiercel.StoreFailedError)
            while daemon.network.connections:  # noqa: ASYNC110  # nobody tells us
                await asyncio.sleep(0.001)

    play(scene)
