"""tiercel.aio: the same names as the library for threads, and nothing is lost when a task is cancelled."""

# ruff: noqa: PT012  # what a block does before it raises is what is tested

import asyncio
import inspect
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import tiercel
from tiercel import aio

RECOVERABLE = tiercel.DeliveryGuarantee.RECOVERABLE
PATIENCE_S = 60.0  # only a test that fails waits that long

Scene = Callable[[aio.AsyncEmbeddedQueueManager, aio.AsyncEmbeddedQueue], Awaitable[None]]


@asynccontextmanager
async def opened(
    directory: Path, **options: Any
) -> AsyncIterator[tuple[aio.AsyncEmbeddedQueueManager, aio.AsyncEmbeddedQueue]]:
    async with await aio.open(directory, **options) as qm:
        yield qm, await qm.create_queue(r".\private$\orders")


@pytest.fixture
def play(tmp_path: Path) -> Callable[[Scene], None]:
    """Runs a scene on an event loop, with a queue manager and a queue."""

    async def main(scene: Scene) -> None:
        async with (
            asyncio.timeout(PATIENCE_S),
            opened(tmp_path / "data", computer_name="TEST") as (qm, queue),
        ):
            await scene(qm, queue)

    return lambda scene: asyncio.run(main(scene))


async def started(call: Coroutine[Any, Any, tiercel.Message]) -> "asyncio.Task[tiercel.Message]":
    """A task that has come as far as it can: it waits."""
    task = asyncio.create_task(call)
    for _ in range(5):
        await asyncio.sleep(0)
    assert not task.done()
    return task


class TestQueueNames:
    @pytest.mark.parametrize(
        "name", ["orders", r"private$\orders", r"FormatName:DIRECT=OS:test\private$\orders"]
    )
    def test_every_spelling(self, play: Callable[[Scene], None], name: str) -> None:
        async def scene(qm: aio.AsyncEmbeddedQueueManager, queue: aio.AsyncEmbeddedQueue) -> None:
            await queue.send(b"x")
            assert (await qm.queue(name).receive(0)).body == b"x"
            assert (await qm.create_queue(name, exist_ok=True)).count == 0
            await qm.delete_queue(name)

        play(scene)


def bodies(queue: aio.AsyncEmbeddedQueue) -> list[bytes]:
    return [message.body for message in queue.cursor()]


class TestNames:
    @pytest.mark.parametrize(
        ("sync", "asynchronous"),
        [
            (tiercel.EmbeddedQueueManager, aio.AsyncEmbeddedQueueManager),
            (tiercel.EmbeddedQueue, aio.AsyncEmbeddedQueue),
        ],
    )
    def test_are_the_same(self, sync: type, asynchronous: type) -> None:
        inner = {"opened", "take", "read"}  # for the library itself

        def public(kind: type) -> set[str]:
            return {name for name in dir(kind) if not name.startswith("_")}

        # Only on an event loop can a queue manager be on the network.
        assert public(sync) - inner == public(asynchronous) - inner - {"address", "data_endpoint"}

    @pytest.mark.parametrize(
        "name",
        [
            "receive",
            "receive_many",
            "peek",
            "send",
            "send_many",
            "move",
            "purge",
            "receiving",
            "consume",
            "set_properties",
        ],
    )
    def test_take_the_same_arguments(self, name: str) -> None:
        assert (
            str(inspect.signature(getattr(aio.AsyncEmbeddedQueue, name))).partition("->")[0]
            == (str(inspect.signature(getattr(tiercel.EmbeddedQueue, name))).partition("->")[0])
        )

    def test_open_takes_the_same_arguments(self) -> None:
        own = dict(inspect.signature(aio.open).parameters)
        assert own.pop("listen").default is None
        assert own.pop("config").default is None
        assert own == inspect.signature(tiercel.open).parameters


class TestWithoutWaiting:
    def test_the_code_of_the_issue(self, play: Callable[[Scene], None]) -> None:
        async def scene(qm: aio.AsyncEmbeddedQueueManager, _queue: aio.AsyncEmbeddedQueue) -> None:
            orders = await qm.create_queue(r".\private$\transactional", transactional=True)
            async with qm.transaction() as tx:
                for body in (b"1", b"2", b"3"):
                    await orders.send(tiercel.Message(body, label="order 7"), transaction=tx)
            message = await orders.receive(timeout=0)
            assert (message.body, message.label) == (b"1", "order 7")
            first = await orders.peek()
            assert (await orders.receive(lookup_id=first.lookup_id)).body == b"2"
            await orders.move(await orders.peek(), "retry")
            assert await orders.purge() == 0
            assert (await orders.subqueue("retry").receive(0)).body == b"3"
            with pytest.raises(tiercel.IoTimeoutError):
                await orders.receive(timeout=0)
            assert [queue.count for queue in qm.queues()] == [0, 0]
            assert (await qm.begin_transaction()).is_active

        play(scene)

    def test_a_transaction_is_aborted_when_the_block_raises(self, play: Callable[[Scene], None]) -> None:
        async def scene(qm: aio.AsyncEmbeddedQueueManager, _queue: aio.AsyncEmbeddedQueue) -> None:
            queue = await qm.create_queue(r".\private$\transactional", transactional=True)
            with pytest.raises(ZeroDivisionError):
                async with qm.transaction() as tx:
                    await queue.send(b"x", transaction=tx)
                    raise ZeroDivisionError
            assert queue.count == 0

        play(scene)

    def test_properties_and_journal(self, play: Callable[[Scene], None]) -> None:
        async def scene(qm: aio.AsyncEmbeddedQueueManager, queue: aio.AsyncEmbeddedQueue) -> None:
            await queue.set_properties(label="new", journaling=True)
            await queue.send(b"x")
            await queue.receive(0)
            assert (queue.label, queue.journal.count, queue.size_bytes) == ("new", 1, 0)
            assert queue.path_name == r"TEST\private$\orders"
            await qm.delete_queue(queue.path_name)
            assert qm.queues() == []

        play(scene)

    def test_receiving(self, play: Callable[[Scene], None]) -> None:
        async def scene(_qm: aio.AsyncEmbeddedQueueManager, queue: aio.AsyncEmbeddedQueue) -> None:
            await queue.send(b"x")
            with pytest.raises(ZeroDivisionError):
                async with queue.receiving(0):
                    assert bodies(queue) == []
                    raise ZeroDivisionError
            async with queue.receiving(0) as message:
                assert (message.body, message.abort_count) == (b"x", 1)
            assert queue.count == 0

        play(scene)

    def test_consuming(self, play: Callable[[Scene], None]) -> None:
        async def scene(_qm: aio.AsyncEmbeddedQueueManager, queue: aio.AsyncEmbeddedQueue) -> None:
            for body in (b"1", b"2", b"3", b"4"):
                await queue.send(body)
            async with aclosing(queue.consume()) as messages:
                async for message in messages:
                    if message.body == b"2":
                        break
            assert bodies(queue) == [b"2", b"3", b"4"]
            assert [each.body async for each in queue.consume(until=lambda each: each.body == b"3")] == [
                b"2",
                b"3",
            ]
            assert [each.body async for each in queue.consume(timeout=0)] == [b"4"]
            assert queue.count == 0

        play(scene)

    def test_a_batch(self, play: Callable[[Scene], None]) -> None:
        async def scene(qm: aio.AsyncEmbeddedQueueManager, queue: aio.AsyncEmbeddedQueue) -> None:
            with qm.batch():
                for _ in range(50):
                    await queue.send(tiercel.Message(b"x", delivery=RECOVERABLE))
            assert queue.count == 50
            await queue.purge()
            with qm.batch(), pytest.raises(tiercel.IllegalOperationError):
                await queue.receive(1)
            await queue.send(b"y")
            assert (await queue.receive(0)).body == b"y"

        play(scene)

    @pytest.mark.parametrize("timeout", ["x", True, -1, float("nan"), b"x"])
    def test_wrong_time_outs(self, play: Callable[[Scene], None], timeout: Any) -> None:
        async def scene(_qm: aio.AsyncEmbeddedQueueManager, queue: aio.AsyncEmbeddedQueue) -> None:
            for call in (queue.receive, queue.peek):
                with pytest.raises(tiercel.MqError, match="timeout"):
                    await call(timeout)
            with pytest.raises(tiercel.InvalidParameterError):
                await queue.receive(1, transaction=timeout)
            with pytest.raises(tiercel.MqError, match="timeout"):
                async with queue.receiving(timeout):
                    pass

        play(scene)


class TestWaiting:
    @pytest.mark.parametrize("timeout", [None, PATIENCE_S, float("inf"), 1e308, 2**40])
    @pytest.mark.parametrize("method", ["receive", "peek"])
    def test_a_message_ends_the_wait(
        self, play: Callable[[Scene], None], method: str, timeout: float | None
    ) -> None:
        async def scene(_qm: aio.AsyncEmbeddedQueueManager, queue: aio.AsyncEmbeddedQueue) -> None:
            task = await started(getattr(queue, method)(timeout))
            await queue.send(b"x")
            assert (await task).body == b"x"
            assert queue.count == (method == "peek")

        play(scene)

    def test_for_many(self, play: Callable[[Scene], None]) -> None:
        async def scene(_qm: aio.AsyncEmbeddedQueueManager, queue: aio.AsyncEmbeddedQueue) -> None:
            task = asyncio.create_task(queue.receive_many(2))
            await asyncio.sleep(0)
            assert len(await queue.send_many([b"a", b"b", b"c"])) == 3
            assert [message.body for message in await task] == [b"a", b"b"]
            assert [message.body for message in await queue.receive_many(2, PATIENCE_S)] == [b"c"]
            assert await queue.receive_many(2, 0) == []
            assert await queue.receive_many(2, 0.01) == []

        play(scene)

    def test_a_time_out(self, play: Callable[[Scene], None]) -> None:
        async def scene(_qm: aio.AsyncEmbeddedQueueManager, queue: aio.AsyncEmbeddedQueue) -> None:
            loop = asyncio.get_running_loop()
            start = loop.time()
            late = await started(queue.receive(PATIENCE_S))
            with pytest.raises(tiercel.IoTimeoutError):
                await queue.receive(0.05)
            assert loop.time() - start > 0.04
            assert not late.done()
            await queue.send(b"x")
            assert (await late).body == b"x"

        play(scene)

    def test_an_expiry_after_the_wait_began(self, play: Callable[[Scene], None]) -> None:
        async def scene(qm: aio.AsyncEmbeddedQueueManager, queue: aio.AsyncEmbeddedQueue) -> None:
            task = await started(qm.dead_letters.receive(PATIENCE_S))
            await queue.send(tiercel.Message(b"late", time_to_be_received=1, negative_journaling=True))
            assert (await task).body == b"late"

        play(scene)

    def test_a_message_that_comes_between_the_look_and_the_wait(self, tmp_path: Path) -> None:
        now = 1000.0

        def clock() -> float:
            nonlocal now
            now += 0.6
            return now

        async def main() -> None:
            async with opened(tmp_path / "data", clock=clock) as (qm, queue):
                for seconds in range(1, 6):
                    await queue.send(
                        tiercel.Message(b"x", time_to_be_received=seconds, negative_journaling=True)
                    )
                    while True:
                        try:
                            assert (await qm.dead_letters.receive(0.5)).body == b"x"
                            break
                        except tiercel.IoTimeoutError:
                            continue
                assert qm.dead_letters.count == queue.count == 0

        asyncio.run(main())

    def test_many_tasks_each_message_once(self, play: Callable[[Scene], None]) -> None:
        async def scene(_qm: aio.AsyncEmbeddedQueueManager, queue: aio.AsyncEmbeddedQueue) -> None:
            async def receive() -> list[bytes]:
                mine = []
                while (body := (await queue.receive()).body) != b"end":
                    mine.append(body)
                return mine

            async def send(sender: int) -> None:
                for number in range(50):
                    await queue.send(b"%d %d" % (sender, number))
                    await asyncio.sleep(0)

            readers = [asyncio.create_task(receive()) for _ in range(20)]
            await asyncio.gather(*(send(sender) for sender in range(10)))
            for _ in readers:
                await queue.send(tiercel.Message(b"end", priority=0))
            taken = [body for mine in await asyncio.gather(*readers) for body in mine]
            assert len(Counter(taken)) == len(taken) == 500

        play(scene)


class TestCancellation:
    """What a cancelled task was about to get goes back, and the task ends with CancelledError."""

    @pytest.mark.parametrize("steps_before_sending", range(4))
    @pytest.mark.parametrize("steps_before_cancel", range(4))
    @pytest.mark.parametrize("method", ["receive", "peek"])
    def test_at_every_step(
        self, play: Callable[[Scene], None], method: str, steps_before_sending: int, steps_before_cancel: int
    ) -> None:
        async def scene(_qm: aio.AsyncEmbeddedQueueManager, queue: aio.AsyncEmbeddedQueue) -> None:
            task: asyncio.Task[tiercel.Message] = asyncio.create_task(getattr(queue, method)())
            for _ in range(steps_before_sending):
                await asyncio.sleep(0)
            await queue.send(b"x")
            for _ in range(steps_before_cancel):
                await asyncio.sleep(0)
            task.cancel()
            [outcome] = await asyncio.gather(task, return_exceptions=True)
            if isinstance(outcome, tiercel.Message) and method == "receive":
                assert queue.count == 0
            else:
                assert isinstance(outcome, asyncio.CancelledError | tiercel.Message)
                assert bodies(queue) == [b"x"]
                assert (await queue.receive(0)).body == b"x"

        play(scene)

    @pytest.mark.parametrize("steps_before_cancel", range(4))
    def test_of_many(self, play: Callable[[Scene], None], steps_before_cancel: int) -> None:
        async def scene(_qm: aio.AsyncEmbeddedQueueManager, queue: aio.AsyncEmbeddedQueue) -> None:
            task = asyncio.create_task(queue.receive_many(2))
            await asyncio.sleep(0)
            await queue.send_many([b"a", b"b", b"c"])
            for _ in range(steps_before_cancel):
                await asyncio.sleep(0)
            task.cancel()
            [outcome] = await asyncio.gather(task, return_exceptions=True)
            taken = len(outcome) if isinstance(outcome, list) else 0
            assert bodies(queue) == [b"a", b"b", b"c"][taken:]

        play(scene)

    def test_the_next_in_line_gets_it(self, play: Callable[[Scene], None]) -> None:
        async def scene(_qm: aio.AsyncEmbeddedQueueManager, queue: aio.AsyncEmbeddedQueue) -> None:
            first, second = await started(queue.receive()), await started(queue.receive())
            await queue.send(b"x")
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
            assert (await second).body == b"x"

        play(scene)

    @pytest.mark.parametrize("arrives", [False, True])
    @pytest.mark.parametrize("end", ["queue manager closed", "queue closed", "queue deleted", "queue purged"])
    def test_while_something_else_ends_too(
        self, play: Callable[[Scene], None], end: str, arrives: bool
    ) -> None:
        async def scene(qm: aio.AsyncEmbeddedQueueManager, queue: aio.AsyncEmbeddedQueue) -> None:
            task = await started(queue.receive())
            if arrives:
                await queue.send(b"x")
            task.cancel()
            match end:
                case "queue manager closed":
                    await qm.close()
                case "queue closed":
                    await queue.close()
                case "queue deleted":
                    await queue.delete()
                case _:
                    await queue.purge()
            with pytest.raises(asyncio.CancelledError):
                await task

        play(scene)

    @pytest.mark.parametrize("commit", [True, False])
    def test_in_a_transaction(self, play: Callable[[Scene], None], commit: bool) -> None:
        async def scene(qm: aio.AsyncEmbeddedQueueManager, _queue: aio.AsyncEmbeddedQueue) -> None:
            queue = await qm.create_queue(r".\private$\transactional", transactional=True)
            tx = await qm.begin_transaction()
            task = await started(queue.receive(transaction=tx))
            async with qm.transaction() as sending:
                await queue.send(b"x", transaction=sending)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            (tx.commit if commit else tx.abort)()
            assert bodies(queue) == [b"x"]

        play(scene)

    def test_by_a_time_out_of_asyncio(self, play: Callable[[Scene], None]) -> None:
        async def scene(_qm: aio.AsyncEmbeddedQueueManager, queue: aio.AsyncEmbeddedQueue) -> None:
            for _ in range(3):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(queue.receive(), 0.01)
            await queue.send(b"x")
            assert (await queue.receive(0)).body == b"x"

        play(scene)

    def test_a_storm_loses_and_doubles_nothing(self, play: Callable[[Scene], None]) -> None:
        async def scene(_qm: aio.AsyncEmbeddedQueueManager, queue: aio.AsyncEmbeddedQueue) -> None:
            taken: list[bytes] = []

            async def receive() -> None:
                taken.append((await queue.receive()).body)

            tasks: list[asyncio.Task[None]] = []
            for number in range(300):
                tasks.append(asyncio.create_task(receive()))
                if number % 2:
                    await asyncio.sleep(0)
                await queue.send(b"%d" % number)
                tasks[number * 7 % len(tasks)].cancel()
            await asyncio.sleep(0.01)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            left = [(await queue.receive(0)).body for _ in range(queue.count)]
            assert sorted(taken + left, key=int) == [b"%d" % number for number in range(300)]

        play(scene)

    def test_inside_receiving_gives_the_message_back(self, play: Callable[[Scene], None]) -> None:
        async def scene(_qm: aio.AsyncEmbeddedQueueManager, queue: aio.AsyncEmbeddedQueue) -> None:
            async def work() -> None:
                async with queue.receiving():
                    await asyncio.sleep(PATIENCE_S)

            task = asyncio.create_task(work())
            await asyncio.sleep(0)
            await queue.send(b"x")
            await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert bodies(queue) == [b"x"]

        play(scene)


class TestEnd:
    def test_close_wakes_every_task(self, play: Callable[[Scene], None]) -> None:
        async def scene(qm: aio.AsyncEmbeddedQueueManager, queue: aio.AsyncEmbeddedQueue) -> None:
            tasks = [await started(call()) for call in (queue.receive, queue.peek, queue.receive)]
            await qm.close()
            for outcome in await asyncio.gather(*tasks, return_exceptions=True):
                assert isinstance(outcome, tiercel.OperationCancelledError | tiercel.ServiceNotAvailableError)

        play(scene)

    def test_a_recoverable_message_on_its_way_to_a_task_survives_the_close(self, tmp_path: Path) -> None:
        async def first() -> None:
            async with opened(tmp_path / "data") as (qm, queue):
                task = await started(queue.receive())
                await queue.send(tiercel.Message(b"x", delivery=RECOVERABLE))
                await qm.close()
                with pytest.raises(tiercel.MqError):
                    await task

        asyncio.run(first())
        with tiercel.open(tmp_path / "data") as qm:
            assert qm.queues()[0].receive(0).body == b"x"

    def test_use_after_close(self, play: Callable[[Scene], None]) -> None:
        async def scene(qm: aio.AsyncEmbeddedQueueManager, queue: aio.AsyncEmbeddedQueue) -> None:
            await qm.close()
            await qm.close()
            for call in (
                lambda: queue.receive(1),
                lambda: queue.peek(1),
                lambda: queue.receiving(1).__aenter__(),
                lambda: queue.send(b"x"),
                lambda: qm.create_queue(r".\private$\new"),
                qm.begin_transaction,
                queue.purge,
            ):
                with pytest.raises(tiercel.ServiceNotAvailableError, match="closed"):
                    await call()

        play(scene)

    def test_a_queue_deleted_under_a_waiting_task(self, play: Callable[[Scene], None]) -> None:
        async def scene(_qm: aio.AsyncEmbeddedQueueManager, queue: aio.AsyncEmbeddedQueue) -> None:
            task = await started(queue.receive())
            await queue.delete()
            with pytest.raises(tiercel.QueueDeletedError):
                await task

        play(scene)

    def test_a_purge_counts_a_message_on_its_way_once(self, play: Callable[[Scene], None]) -> None:
        async def scene(qm: aio.AsyncEmbeddedQueueManager, queue: aio.AsyncEmbeddedQueue) -> None:
            task = await started(queue.receive())
            await queue.send(b"x")
            await queue.purge()
            [outcome] = await asyncio.gather(task, return_exceptions=True)
            assert len(qm.discards()) == (not isinstance(outcome, tiercel.Message))

        play(scene)


class TestConsumers:
    def test_claiming_acknowledging_and_releasing(self, play: Callable[[Scene], None]) -> None:
        async def scene(qm: aio.AsyncEmbeddedQueueManager, queue: aio.AsyncEmbeddedQueue) -> None:
            for number in range(5):
                await queue.send(b"%d" % number)
            spark = await qm.consumer("spark")
            claim = await spark.claim(queue, 3)
            assert [message.claim_seq for message in claim] == [1, 2, 3]
            assert await spark.acknowledge(queue, 1) == 1
            assert [message.body for message in spark.messages(queue, 0, 9)] == [b"1", b"2"]
            (status,) = qm.claims()
            assert (status.consumer, status.epoch, status.lo, status.hi) == (spark.name, spark.epoch, 1, 3)
            await spark.release(queue)
            await spark.claim(queue.path_name, acknowledge=3)
            await qm.release_claims("spark")
            assert queue.count == 4
            with pytest.raises(tiercel.ConsumerFencedError):
                await spark.claim(queue)
            await qm.forget_consumer("spark")
            assert qm.claims() == []

        play(scene)
