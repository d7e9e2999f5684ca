"""`consume` on a queue of another computer: in order, nothing lost, and nothing kept that nobody works on."""

import asyncio
import gc
import random
import subprocess
import sys
import threading
from bisect import insort
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

import tiercel
from client.fake_server import (
    HOST,
    ORDERS,
    Answer,
    Asked,
    FakeServer,
    found,
    in_thread,
    packet_of,
    play,
    play_virtually,
)
from client.support import wait_until
from client.test_remote_daemon import FOR_ALL, both, daemon, fill
from tiercel import aio
from tiercel.client import remote_aio
from tiercel.model.identifiers import lookup_id
from tiercel.remote_read import calls
from tiercel.remote_read.calls import RR_ACK

MANY = 100
AHEAD = 16
INVALID_PARAMETER = 0xC00E0006
NUMBERS = [b"%d" % number for number in range(MANY)]


async def consumed(orders: remote_aio.AsyncRemoteQueue, **how: Any) -> list[bytes]:
    return [message.body async for message in orders.consume(**how)]


def bodies(queue: aio.AsyncEmbeddedQueue) -> list[bytes]:
    """What is free for others."""
    return [message.body for message in queue.cursor()]


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110  # nobody tells us; `play` bounds it
        await asyncio.sleep(0.001)


def hang_up(qm: aio.AsyncEmbeddedQueueManager) -> None:
    """Kills all connections of readers."""
    manager: Any = qm._runtime
    for connection in manager.daemon.remote_reading.connections:
        connection.transport.abort()


class TestTheLoop:
    def test_gets_all_in_the_order_of_the_queue_and_acknowledges_them(self, tmp_path: Path) -> None:
        async def scene() -> None:
            async with both(tmp_path / "data") as (queue, orders):
                for number, body in enumerate(NUMBERS):
                    await queue.send(tiercel.Message(body, priority=number % 8, delivery=number % 2))
                expected = bodies(queue)
                assert expected != NUMBERS
                assert await consumed(orders, timeout=0) == expected
                assert queue.count == 0

        play(scene())

    def test_of_priorities_a_later_one_comes_first(self, tmp_path: Path) -> None:
        """Unless those before it have been read already."""

        async def scene() -> None:
            async with both(tmp_path / "data") as (queue, orders):
                await fill(queue, *NUMBERS)
                taken: list[bytes] = []
                async for message in orders.consume(timeout=0):
                    if not taken:
                        await queue.send(tiercel.Message(b"urgent", priority=7))
                    taken.append(message.body)
                assert taken.index(b"urgent") <= AHEAD
                assert [body for body in taken if body != b"urgent"] == NUMBERS

        play(scene())

    @pytest.mark.parametrize("ahead", [0, 1, 2, 64])
    def test_reads_ahead_as_far_as_it_is_told(self, tmp_path: Path, ahead: int) -> None:
        async def scene() -> None:
            async with both(tmp_path / "data") as (queue, orders):
                await fill(queue, *NUMBERS)
                async for message in orders.consume(timeout=0, ahead=ahead):
                    at = NUMBERS.index(message.body)
                    assert len(bodies(queue)) >= MANY - at - 1 - ahead
                assert queue.count == 0

        play(scene())

    def test_waits_for_the_first_and_for_the_next(self, tmp_path: Path) -> None:
        async def scene() -> None:
            async with both(tmp_path / "data") as (queue, orders):
                taken: list[bytes] = []

                async def consume() -> None:
                    taken.extend([message.body async for message in orders.consume(until=is_last)])

                def is_last(message: tiercel.Message) -> bool:
                    seen.append(message.body)
                    return message.body == b"3"

                seen: list[bytes] = []
                task = asyncio.create_task(consume())
                for body in (b"1", b"2", b"3"):
                    await until(lambda: is_waiting(queue))
                    await fill(queue, body)
                    await until(lambda body=body: body in seen)  # type: ignore[misc]
                await task
                assert (taken, queue.count) == ([b"1", b"2", b"3"], 0)

        play(scene())

    def test_ends_when_nothing_comes(self, tmp_path: Path) -> None:
        async def scene() -> None:
            async with both(tmp_path / "data") as (queue, orders):
                assert await consumed(orders, timeout=0.01) == []
                await fill(queue, b"1")
                assert await consumed(orders, timeout=0.01) == [b"1"]

        play(scene())

    def test_ends_after_the_one_that_is_said_to_be_the_last(self, tmp_path: Path) -> None:
        async def scene() -> None:
            async with both(tmp_path / "data") as (queue, orders):
                await fill(queue, *NUMBERS)
                taken = await consumed(orders, until=lambda message: message.body == b"20")
                assert taken == NUMBERS[:21]
                assert bodies(queue) == NUMBERS[21:]
                assert queue.count == MANY - 21

        play(scene())

    @pytest.mark.parametrize(
        ("how", "error"),
        [
            ({"timeout": -1}, tiercel.InvalidParameterError),
            ({"ahead": -1}, tiercel.InvalidParameterError),
            ({"ahead": 65}, tiercel.InvalidParameterError),
            ({"ahead": "16"}, tiercel.IllegalPropertyVariantTypeError),
        ],
    )
    def test_says_what_is_wrong(self, how: dict[str, Any], error: type[Exception]) -> None:
        async def scene() -> None:
            async with (
                FakeServer() as fake,
                await aio.connect(HOST, port=fake.port) as remote,
            ):
                with pytest.raises(error):
                    await consumed(remote.queue(ORDERS), **how)
                assert fake.transcript() == []

        play(scene())


def is_waiting(queue: aio.AsyncEmbeddedQueue) -> bool:
    driver = queue.driver
    return bool(driver.run(lambda: driver.engine.queues.get(queue.format_name).waiters))


class TestLeaving:
    """What the loop has not asked beyond goes back to its place, as do those that were read ahead."""

    @pytest.mark.parametrize("taken", [1, 2, 3, 30])
    @pytest.mark.parametrize("how", ["break", "error", "cancelled"])
    def test_in_the_middle(self, tmp_path: Path, taken: int, how: str) -> None:
        async def work(orders: remote_aio.AsyncRemoteQueue) -> None:
            async with aclosing(orders.consume()) as messages:
                async for message in messages:
                    if message.body == NUMBERS[taken]:
                        match how:
                            case "break":
                                break
                            case "error":
                                raise ZeroDivisionError
                            case "cancelled":
                                await asyncio.Event().wait()

        async def scene() -> None:
            async with both(tmp_path / "data") as (queue, orders):
                await fill(queue, *NUMBERS)
                task = asyncio.create_task(work(orders))
                if how == "cancelled":
                    await until(lambda: queue.count == MANY - taken)
                    task.cancel()
                await asyncio.wait([task])
                assert task.cancelled() == (how == "cancelled")
                assert task.cancelled() or bool(task.exception()) == (how == "error")
                assert bodies(queue) == NUMBERS[taken:]

        play(scene())

    def test_while_it_waits(self, tmp_path: Path) -> None:
        async def scene() -> None:
            async with both(tmp_path / "data") as (queue, orders):
                await fill(queue, b"1")
                task = asyncio.create_task(consumed(orders))
                await until(lambda: queue.count == 0 and is_waiting(queue))
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert not is_waiting(queue)
                await fill(queue, b"2")
                assert await consumed(orders, timeout=0) == [b"2"]

        play(scene())

    def test_at_any_moment(self, tmp_path: Path) -> None:
        """A loop that is cancelled again and again, with reads under way or not; the journal counts."""

        async def scene() -> None:
            rng = random.Random(3)
            taken: list[bytes] = []

            async def work(**how: Any) -> None:
                async with aclosing(orders.consume(**how)) as messages:
                    async for message in messages:
                        taken.append(message.body)
                        await asyncio.sleep(0)

            async with both(tmp_path / "data", journaling=True) as (queue, orders):
                await fill(queue, *NUMBERS)
                for _ in range(40):
                    task = asyncio.create_task(work())
                    for _ in range(rng.randrange(30)):
                        await asyncio.sleep(0)
                    task.cancel()
                    await asyncio.wait([task])
                assert len(taken) > 40
                await work(timeout=0)
                assert set(taken) == set(NUMBERS)
                assert sorted(bodies(queue.journal)) == sorted(NUMBERS)

        play(scene())

    def test_without_a_word(self, tmp_path: Path) -> None:
        """Python closes a loop that was left; on an event loop, a moment later."""

        async def scene() -> None:
            async with both(tmp_path / "data") as (queue, orders):
                await fill(queue, *NUMBERS)
                async for message in orders.consume():
                    if message.body == b"5":
                        break
                await until(lambda: bodies(queue) == NUMBERS[5:])

        play(scene())


class TestSeveral:
    def test_loops_on_one_queue_share_it(self, tmp_path: Path) -> None:
        async def scene() -> None:
            async with daemon(tmp_path / "data") as (qm, port):
                queue = await qm.create_queue(rf".\{ORDERS}", security=FOR_ALL)
                await fill(queue, *NUMBERS)
                shares: list[list[int]] = []

                async def reader() -> None:
                    async with await aio.connect(HOST, port=port) as remote:
                        orders = remote.queue(ORDERS)
                        both = await asyncio.gather(*(consumed(orders, timeout=0.1) for _ in range(2)))
                        shares.extend([int(body) for body in share] for share in both)

                await asyncio.gather(reader(), reader())
                assert all(share == sorted(share) for share in shares)
                assert sorted(sum(shares, [])) == list(range(MANY))  # noqa: RUF017
                assert queue.count == 0

        play(scene())


class TestLostConnections:
    def test_lose_nothing_and_acknowledge_nothing_twice(self, tmp_path: Path) -> None:
        """The journal has a copy for each time that a message was acknowledged."""

        async def scene() -> None:
            async with daemon(tmp_path / "data") as (qm, port):
                queue = await qm.create_queue(rf".\{ORDERS}", security=FOR_ALL, journaling=True)
                await fill(queue, *NUMBERS)
                rng, taken = random.Random(5), []
                async with await aio.connect(HOST, port=port) as remote:
                    async for message in remote.queue(ORDERS).consume(timeout=0):
                        taken.append(message.body)
                        if rng.random() < 0.1 and len(taken) < 2 * MANY:
                            hang_up(qm)
                        if rng.random() < 0.5:
                            await asyncio.sleep(0)
                assert set(taken) == set(NUMBERS)
                assert queue.count == 0
                assert sorted(bodies(queue.journal)) == sorted(NUMBERS)

        play(scene())

    def test_what_was_read_ahead_is_not_handed_out(self, tmp_path: Path) -> None:
        """The server has given it to somebody else."""

        async def scene() -> None:
            async with daemon(tmp_path / "data") as (qm, port):
                queue = await qm.create_queue(rf".\{ORDERS}", security=FOR_ALL)
                await fill(queue, *NUMBERS)
                other, taken = [], []
                async with await aio.connect(HOST, port=port) as remote:
                    async for message in remote.queue(ORDERS).consume(timeout=0):
                        taken.append(message.body)
                        if message.body == b"50":
                            await until(lambda: queue.count == MANY - 50)  # all before it were acknowledged
                            hang_up(qm)
                            await until(lambda: bodies(queue)[:1] == [b"50"])
                            other += [(await queue.receive(0)).body for _ in range(30)]
                assert other == NUMBERS[50:80]
                assert taken == NUMBERS[:51] + NUMBERS[80:]

        play(scene())


class Shelf:
    """A queue of numbers that answers when it pleases; what was given back stands at its old place."""

    def __init__(self, count: int, most_s: float = 0.0) -> None:
        self.numbers = list(range(count))
        self.held: dict[int, int] = {}
        self.ended: list[int] = []
        self.returned: list[int] = []
        self.most_held = 0
        self._rng = random.Random(1)
        self._most_s = most_s

    async def start(self, asked: Asked) -> Answer:
        assert isinstance(asked.request, calls.StartReceive)
        await self._dawdle()
        if not self.numbers:
            return calls.Received.failed(0xC00E001B)
        number = self.held[asked.request.request_id] = self.numbers.pop(0)
        self.most_held = max(self.most_held, len(self.held))
        await self._dawdle()
        return found(packet_of(b"%d" % number), sequence_id=lookup_id(3, number))

    async def end(self, asked: Asked) -> Answer:
        assert isinstance(asked.request, calls.EndReceive)
        number = self.held.pop(asked.request.request_id)
        if asked.request.ack == RR_ACK:
            self.ended.append(number)
        else:
            self.returned.append(number)
            insort(self.numbers, number)
        return calls.Done()

    async def _dawdle(self) -> None:
        if self._most_s:
            await asyncio.sleep(self._rng.random() * self._most_s)

    @property
    def script(self) -> dict[Any, Any]:
        return {calls.StartReceive: self.start, calls.EndReceive: self.end}


@asynccontextmanager
async def reading(
    script: dict[Any, Any], *, multiplexed: bool = True
) -> AsyncIterator[tuple[FakeServer, remote_aio.AsyncRemoteQueue]]:
    async with (
        FakeServer(script, multiplexed=multiplexed) as fake,
        await aio.connect(HOST, port=fake.port) as remote,
    ):
        yield fake, remote.queue(ORDERS)


class TestOtherServers:
    def test_may_take_calls_in_any_order(self) -> None:
        async def scene() -> None:
            shelf = Shelf(MANY, most_s=0.01)
            async with reading(shelf.script) as (_, orders):
                assert await consumed(orders, timeout=0) == NUMBERS
            assert sorted(shelf.ended) == list(range(MANY))
            assert shelf.most_held > AHEAD // 2

        play_virtually(scene())

    def test_may_take_one_call_at_a_time(self) -> None:
        async def scene() -> None:
            shelf = Shelf(20)
            async with reading(shelf.script, multiplexed=False) as (_, orders):
                assert await consumed(orders, timeout=0) == NUMBERS[:20]
            assert shelf.ended == list(range(20))

        play_virtually(scene())

    def test_may_refuse_an_acknowledgement(self) -> None:
        async def scene() -> None:
            shelf = Shelf(MANY)
            script = shelf.script | {calls.EndReceive: calls.Done(INVALID_PARAMETER)}
            async with reading(script) as (_, orders):
                with pytest.raises(tiercel.InvalidParameterError) as caught:
                    await consumed(orders, timeout=0)
                assert "may come again" in caught.value.__notes__[0]
                with pytest.raises(tiercel.InvalidParameterError):  # the last of them is no exception
                    await consumed(orders, until=lambda _: True)

        play_virtually(scene())


class TestHowFarAhead:
    def test_at_first_not_at_all(self) -> None:
        async def scene() -> None:
            shelf = Shelf(MANY)
            async with reading(shelf.script) as (fake, orders):
                async with aclosing(orders.consume(timeout=0)) as messages:
                    assert (await anext(messages)).body == b"0"
                    await asyncio.sleep(1)
                    assert fake.transcript() == ["OpenQueue", "StartReceive"]
                assert shelf.numbers == list(range(MANY))

        play_virtually(scene())

    def test_one_message_for_who_takes_his_time(self) -> None:
        async def scene() -> None:
            shelf = Shelf(10)
            async with reading(shelf.script) as (_, orders):
                async for _ in orders.consume(timeout=0):
                    await asyncio.sleep(1)
                    assert len(shelf.held) <= 2  # the one in hand, and the next
            assert shelf.ended == list(range(10))

        play_virtually(scene())

    def test_what_lies_too_long_goes_back(self) -> None:
        async def scene() -> None:
            shelf = Shelf(MANY)
            async with reading(shelf.script) as (_, orders):
                taken, others = [], 0
                async for message in orders.consume(timeout=0):
                    taken.append(message.body)
                    if message.body == b"51":  # in the midst of what came together with it
                        await asyncio.sleep(60)
                        others = len(shelf.held) - 1
                assert taken == NUMBERS
                assert shelf.returned == list(range(52, 52 + others))
                assert others > 1

        play_virtually(scene())

    def test_acknowledgements_go_with_the_next_reads(self) -> None:
        async def scene() -> None:
            shelf = Shelf(MANY)
            async with reading(shelf.script) as (fake, orders):
                await consumed(orders, timeout=0)
                kinds = [{type(each.request) for each in piece} for piece in fake.pieces]
                assert {calls.EndReceive, calls.StartReceive} in kinds
                assert {calls.EndReceive} not in kinds

        play_virtually(scene())

    def test_acknowledgements_come_before_a_close(self) -> None:
        """Also when Python has not told the loop yet that it was left."""

        async def scene() -> None:
            shelf = Shelf(55)  # so that no read is under way in the end
            async with reading(shelf.script) as (_, orders):
                async for message in orders.consume():
                    if message.body == b"51":
                        await asyncio.sleep(0.01)  # until all before it are acknowledged
                    if message.body == b"53":
                        break
                await orders.close()
                assert (shelf.ended, shelf.numbers) == (list(range(53)), [53, 54])

        play_virtually(scene())

    def test_acknowledgements_do_not_wait_for_who_takes_his_time(self) -> None:
        async def scene() -> None:
            shelf = Shelf(MANY)
            async with reading(shelf.script) as (_, orders):
                async for message in orders.consume(timeout=0):
                    if message.body == b"51":
                        await asyncio.sleep(0.01)
                        assert shelf.ended == list(range(51))

        play_virtually(scene())


@contextmanager
def threads(shelf: Shelf) -> Iterator[tuple[FakeServer, tiercel.RemoteQueue]]:
    with (
        in_thread(lambda: FakeServer(shelf.script)) as (fake, _),
        tiercel.connect(HOST, port=fake.port) as remote,
    ):
        yield fake, remote.queue(ORDERS)


class TestThreads:
    def test_get_all(self) -> None:
        shelf = Shelf(MANY)
        with threads(shelf) as (_, orders):
            assert [message.body for message in orders.consume(timeout=0)] == NUMBERS
            assert shelf.ended == list(range(MANY))

    def test_stop_where_they_want(self) -> None:
        shelf = Shelf(MANY)
        with threads(shelf) as (_, orders):
            taken = [message.body for message in orders.consume(until=lambda message: message.body == b"20")]
            assert taken == NUMBERS[:21]
            assert (shelf.ended, shelf.numbers) == (list(range(21)), list(range(21, MANY)))

    @pytest.mark.parametrize("how", ["break", "error"])
    def test_give_back_at_once_what_they_leave(self, how: str) -> None:
        def leave() -> None:
            for message in orders.consume():
                if message.body == b"30":
                    if how == "break":
                        break
                    raise ZeroDivisionError

        shelf = Shelf(MANY)
        with threads(shelf) as (_, orders):
            try:
                leave()
            except ZeroDivisionError:
                assert how == "error"
            assert (shelf.ended, shelf.numbers) == (list(range(30)), list(range(30, MANY)))

    def test_may_be_interrupted(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Ctrl-C while the thread waits for more, just after that has come."""
        real, calls_made = asyncio.run_coroutine_threadsafe, 0

        def interrupted(work: Any, loop: asyncio.AbstractEventLoop) -> Any:
            nonlocal calls_made
            calls_made += 1
            future: Any = real(work, loop)
            if calls_made != 4:
                return future
            result = future.result

            def raise_first(timeout: float | None = None) -> Any:
                result(timeout)
                future.result = result
                raise KeyboardInterrupt

            future.result = raise_first
            return future

        shelf = Shelf(MANY)
        with threads(shelf) as (_, orders):
            monkeypatch.setattr(asyncio, "run_coroutine_threadsafe", interrupted)
            taken: list[int] = []
            with pytest.raises(KeyboardInterrupt):
                taken.extend(int(message.body) for message in orders.consume())
            assert taken
            assert (shelf.ended, shelf.numbers) == (taken, list(range(len(taken), MANY)))

    def test_a_loop_may_be_collected_anywhere(self) -> None:
        """In the very thread that would give its messages back."""
        shelf = Shelf(MANY)
        with threads(shelf) as (_, orders):
            loops = [orders.consume()]
            assert next(loops[0]).body == b"0"
            orders._thread.later(loops.clear)
            wait_until(lambda: shelf.numbers == list(range(MANY)))

    def test_a_program_ends_in_the_middle_of_a_loop(self) -> None:
        program = (
            "import sys, tiercel\n"
            "messages = tiercel.connect(sys.argv[1], port=int(sys.argv[2])).queue(sys.argv[3]).consume()\n"
            "for message in messages:\n"
            "    sys.exit(message.body)\n"
        )
        with in_thread(lambda: FakeServer(Shelf(1).script)) as (fake, _):
            arguments = [sys.executable, "-c", program, HOST, str(fake.port), ORDERS]
            ended = subprocess.run(arguments, capture_output=True, timeout=60, check=False)  # noqa: S603  # ours
        assert (ended.returncode, ended.stderr) == (1, b"b'0'\n")

    def test_of_a_connection_that_was_closed(self) -> None:
        with in_thread(lambda: FakeServer(Shelf(MANY).script)) as (fake, _):
            remote = tiercel.connect(HOST, port=fake.port)
            messages = remote.queue(ORDERS).consume()
            next(messages)
            remote.close()
            with pytest.raises(tiercel.ServiceNotAvailableError):
                next(messages)
            messages.close()
            del messages
            gc.collect()
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("tiercel")]
