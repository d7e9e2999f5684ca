"""Cancelled readers and lost connections: nothing is lost, and what cannot be done is told."""

# ruff: noqa: PT012  # what a block does before it raises is what is tested

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

import tiercel
from client.fake_server import (
    HOST,
    ORDERS,
    PATIENCE_S,
    Answer,
    Asked,
    FakeServer,
    found,
    in_thread,
    never,
    packet_of,
    play,
    play_virtually,
)
from client.support import Running
from tiercel import aio
from tiercel.client import remote_aio, remote_session
from tiercel.remote_read import calls
from tiercel.remote_read.calls import RR_ACK, RR_NACK
from tiercel.rpc.client import ClientConnection
from tiercel.rpc.ndr import ContextHandle
from tiercel.rpc.status import NCA_S_FAULT_CONTEXT_MISMATCH, RpcFault


class Waiting:
    """A server whose reads wait until they are cancelled, or until a message comes to them."""

    def __init__(self) -> None:
        self._reads: dict[int, asyncio.Future[calls.Received]] = {}

    async def start(self, asked: Asked) -> Answer:
        assert isinstance(asked.request, calls.StartReceive)
        future: asyncio.Future[calls.Received] = asyncio.get_running_loop().create_future()
        self._reads[asked.request.request_id] = future
        return await future

    async def cancel(self, asked: Asked) -> Answer:
        assert isinstance(asked.request, calls.CancelReceive)
        future = self._reads.pop(asked.request.request_id, None)
        if future is None or future.done():
            return calls.Done(0xC0000225)
        future.set_result(calls.Received.failed(0xC00E0008))
        return calls.Done()

    def deliver(self, answer: calls.Received) -> None:
        for future in self._reads.values():
            if not future.done():
                future.set_result(answer)
                return

    @property
    def script(self) -> dict[Any, Any]:
        return {calls.StartReceive: self.start, calls.CancelReceive: self.cancel}


@asynccontextmanager
async def reading(
    script: dict[Any, Any], *, multiplexed: bool = True, **options: Any
) -> AsyncIterator[tuple[FakeServer, remote_aio.AsyncRemoteQueue]]:
    async with (
        FakeServer(script, multiplexed=multiplexed) as fake,
        await aio.connect(HOST, port=fake.port, **options) as remote,
    ):
        yield fake, remote.queue(ORDERS)


async def until_lost(orders: remote_aio.AsyncRemoteQueue) -> None:
    """Until the reader knows that its connection is no more."""
    link = orders.session._link
    assert link is not None
    async with asyncio.timeout(PATIENCE_S):
        while link.is_open:  # noqa: ASYNC110  # nobody tells us
            await asyncio.sleep(0.001)


def acks(fake: FakeServer) -> list[int]:
    return [end.ack for end in fake.requests(calls.EndReceive) if isinstance(end, calls.EndReceive)]


class TestCancelling:
    @pytest.mark.conformance("MQRR-146")
    @pytest.mark.parametrize("multiplexed", [True, False])
    @pytest.mark.parametrize("kind", ["receive", "peek"])
    def test_reaches_the_server_while_the_read_waits(self, kind: str, multiplexed: bool) -> None:
        """Over the same connection, or over another one of the group."""

        async def scene() -> None:
            async with reading(Waiting().script, multiplexed=multiplexed) as (fake, orders):
                task = asyncio.create_task(getattr(orders, kind)(60))
                start = await fake.until(calls.StartReceive)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                (cancel,) = fake.requests(calls.CancelReceive)
                assert isinstance(start, calls.StartReceive)
                assert cancel == calls.CancelReceive(start.handle, start.request_id)
                assert not acks(fake)
                assert fake.connections == (1 if multiplexed else 2)
                await orders.purge()

        play(scene())

    def test_a_message_that_comes_just_then_goes_back(self) -> None:
        async def scene() -> None:
            waiting = Waiting()

            async def too_late(asked: Asked) -> Answer:
                waiting.deliver(found())
                return await waiting.cancel(asked)

            async with reading(waiting.script | {calls.CancelReceive: too_late}) as (fake, orders):
                task = asyncio.create_task(orders.receive(60))
                await fake.until(calls.StartReceive)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert acks(fake) == [RR_NACK]

        play(scene())

    def test_while_it_is_acknowledged_the_next_reader_gets_it(self) -> None:
        async def scene() -> None:
            ended = asyncio.Event()

            async def slowly(_asked: Asked) -> Answer:
                await ended.wait()
                return calls.Done()

            script = {calls.StartReceive: found(packet_of(b"tea")), calls.EndReceive: slowly}
            async with reading(script, multiplexed=False) as (fake, orders):  # else nobody waits for it
                task = asyncio.create_task(orders.receive(60))
                await fake.until(calls.EndReceive)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                ended.set()
                assert (await orders.receive(0)).body == b"tea"
                assert acks(fake) == [RR_ACK]
                assert len(fake.requests(calls.StartReceive)) == 1

        play(scene())

    def test_in_a_block_it_goes_back(self) -> None:
        async def scene() -> None:
            async with reading({calls.StartReceive: found()}) as (fake, orders):
                is_inside = asyncio.Event()

                async def work() -> None:
                    async with orders.receiving(5):
                        is_inside.set()
                        await asyncio.sleep(60)

                task = asyncio.create_task(work())
                await is_inside.wait()
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert acks(fake) == [RR_NACK]

        play(scene())

    def test_an_opening_that_nobody_wants_is_closed(self) -> None:
        async def scene() -> None:
            go = asyncio.Event()

            async def slowly(_asked: Asked) -> Answer:
                await go.wait()
                return calls.QueueOpened(ContextHandle(0, packet_of().id.lineage))

            async with reading({calls.OpenQueue: slowly}) as (fake, orders):
                task = asyncio.create_task(orders.purge())
                await fake.until(calls.OpenQueue)
                task.cancel()
                await asyncio.sleep(0)
                go.set()
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert fake.transcript() == ["OpenQueue", "CloseQueue"]

        play(scene())

    def test_a_server_that_does_not_listen_is_left(self) -> None:
        async def scene() -> None:
            async with reading({calls.StartReceive: never, calls.CancelReceive: never}) as (fake, orders):
                task = asyncio.create_task(orders.receive())
                await fake.until(calls.StartReceive)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                await orders.purge()
                assert fake.connections == 2

        play_virtually(scene())

    @pytest.mark.conformance("MQRR-147")
    def test_closing_cancels_what_waits_and_gives_back_what_is_held(self) -> None:
        async def scene() -> None:
            waiting = Waiting()
            async with reading(waiting.script) as (fake, orders):
                holding, closed = asyncio.Event(), asyncio.Event()

                async def hold() -> None:
                    async with orders.receiving(60):
                        holding.set()
                        await closed.wait()

                holder = asyncio.create_task(hold())
                await fake.until(calls.StartReceive)
                waiting.deliver(found())
                await holding.wait()
                waiter = asyncio.create_task(orders.receive(60))
                await fake.until(calls.StartReceive, count=2)
                await orders.close()
                closed.set()
                assert fake.transcript()[-3:] == ["CancelReceive", "EndReceive", "CloseQueue"]
                assert acks(fake) == [RR_NACK]
                with pytest.raises(tiercel.OperationCancelledError):
                    await waiter
                with pytest.raises(tiercel.InvalidHandleError, match="back in the queue"):
                    await holder

        play(scene())


class TestAcknowledging:
    """Of what `receive` has handed over: nobody waits for the answer (MQRR-142)."""

    def test_it_leaves_together_with_the_next_read(self) -> None:
        async def scene() -> None:
            async with reading({calls.StartReceive: found()}) as (fake, orders):
                for _ in range(3):
                    await orders.receive(0)
                await fake.until(calls.EndReceive, count=3)
                pieces = [[type(each.request) for each in piece] for piece in fake.pieces]
                both = [calls.EndReceive, calls.StartReceive]
                assert pieces[1:] == [[calls.StartReceive], both, both, [calls.EndReceive]]

        play(scene())

    def test_reads_of_one_turn_leave_together(self, monkeypatch: pytest.MonkeyPatch) -> None:
        written: list[int] = []
        data_to_send = ClientConnection.data_to_send

        def recorded(connection: ClientConnection) -> bytes:
            data = data_to_send(connection)
            written.extend([len(data)] if data else [])
            return data

        async def scene() -> None:
            async with reading({calls.StartReceive: found()}) as (fake, orders):
                await orders.receive(0)
                await fake.until(calls.EndReceive)
                written.clear()
                await asyncio.gather(*(orders.receive(0) for _ in range(8)))
                assert written[1] == 7 * written[0]  # the first one as if it were alone

        monkeypatch.setattr(ClientConnection, "data_to_send", recorded)
        play(scene())

    def test_a_server_that_never_answers_is_left_in_the_end(self) -> None:
        async def scene() -> None:
            script = {calls.StartReceive: found(), calls.EndReceive: never}
            async with reading(script, rpc_cancel_minutes=1) as (fake, orders):
                for _ in range(remote_session._UNANSWERED_MAX):
                    await orders.receive(0)
                assert fake.connections == 1
                began = asyncio.get_running_loop().time()
                await orders.receive(0)  # so many are unanswered that this one is waited for
                assert asyncio.get_running_loop().time() - began > 55
                await orders.receive(0)
                assert fake.connections == 2

        play_virtually(scene())

    def test_each_read_has_its_own_time(self) -> None:
        async def scene() -> None:
            async with reading({calls.StartReceive: never}, rpc_cancel_minutes=1) as (fake, orders):
                await orders.purge()
                await asyncio.sleep(61)  # nothing is looked at any more
                patient = asyncio.create_task(orders.receive(3600))
                await fake.until(calls.StartReceive)
                began = asyncio.get_running_loop().time()
                with pytest.raises(tiercel.QueueNotAvailableError, match="not answered within 70 s"):
                    await orders.receive(10)
                assert 70 <= asyncio.get_running_loop().time() - began < 71
                with pytest.raises(tiercel.QueueNotAvailableError, match="not answered within"):
                    await patient
                assert 3660 <= asyncio.get_running_loop().time() - began < 3662

        play_virtually(scene())

    def test_one_that_nobody_waits_for_is_missed_as_well(self) -> None:
        async def scene() -> None:
            script = {calls.StartReceive: found(), calls.EndReceive: never}
            async with reading(script, rpc_cancel_minutes=1) as (fake, orders):
                await orders.receive(0)
                await asyncio.sleep(61)
                await orders.receive(0)
                assert fake.connections == 2

        play_virtually(scene())

    def test_the_queue_is_closed_after_it(self) -> None:
        async def scene() -> None:
            ended = asyncio.Event()

            async def slowly(_asked: Asked) -> Answer:
                await ended.wait()
                return calls.Done()

            async with reading({calls.StartReceive: found(), calls.EndReceive: slowly}) as (fake, orders):
                await orders.receive(0)
                closing = asyncio.create_task(orders.close())
                await fake.until(calls.EndReceive)
                await asyncio.sleep(0.05)
                assert fake.transcript()[-1] == "EndReceive"
                ended.set()
                await closing
                assert fake.transcript()[-2:] == ["EndReceive", "CloseQueue"]

        play(scene())

    def test_a_server_that_has_forgotten_the_handle_is_asked_anew(self) -> None:
        async def scene() -> None:
            script: dict[Any, Any] = {
                calls.StartReceive: found(),
                calls.EndReceive: RpcFault(NCA_S_FAULT_CONTEXT_MISMATCH),
            }
            async with reading(script) as (fake, orders):
                await orders.receive(0)
                await until_lost(orders)
                await orders.receive(0)
                assert fake.connections == 2

        play(scene())

    def test_another_failure_is_no_reason_to_keep_the_message(self) -> None:
        async def scene() -> None:
            async with reading({calls.StartReceive: found(), calls.EndReceive: calls.Done(0xC00E0007)}) as (
                fake,
                orders,
            ):
                for _ in range(2):
                    assert (await orders.receive(0)).body == b"body"
                assert fake.connections == 1

        play(scene())


class TestLostConnections:
    @pytest.mark.parametrize("kind", ["receive", "peek"])
    def test_a_wait_goes_on_over_a_new_one(self, kind: str) -> None:
        async def scene() -> None:
            waiting = Waiting()
            async with reading(waiting.script) as (fake, orders):
                task = asyncio.create_task(getattr(orders, kind)())
                first = await fake.until(calls.StartReceive)
                fake.hang_up()
                second = await fake.until(calls.StartReceive, count=2)
                waiting.deliver(found(packet_of(b"tea")))
                waiting.deliver(found(packet_of(b"tea")))
                assert (await task).body == b"tea"
                assert isinstance(first, calls.StartReceive)
                assert isinstance(second, calls.StartReceive)
                assert first.handle != second.handle
                assert fake.connections == 2
                if kind == "receive":
                    await fake.until(calls.EndReceive)
                assert acks(fake) == ([RR_ACK] if kind == "receive" else [])

        play(scene())

    def test_between_two_calls_it_is_not_noticed(self) -> None:
        async def scene() -> None:
            async with reading({}) as (fake, orders):
                for _ in range(3):
                    await orders.purge()
                    fake.hang_up()
                    await until_lost(orders)
                assert fake.transcript() == ["OpenQueue", "PurgeQueue"] * 3

        play(scene())

    def test_a_server_that_forgot_the_handle_is_asked_again(self) -> None:
        async def scene() -> None:
            faults = [RpcFault(NCA_S_FAULT_CONTEXT_MISMATCH)]

            async def forget(_asked: Asked) -> Answer:
                return faults.pop() if faults else calls.Done()

            async with reading({calls.PurgeQueue: forget}) as (fake, orders):
                await orders.purge()
                assert fake.transcript() == ["OpenQueue", "PurgeQueue"] * 2

        play(scene())

    def test_a_server_that_comes_back_is_found_again(self) -> None:
        async def scene() -> None:
            async with reading({}) as (fake, orders):
                await orders.purge()
                fake.stop()
                task = asyncio.create_task(orders.purge())
                await asyncio.sleep(0.3)
                assert not task.done()
                await fake.listen()
                await task

        play(scene())

    @pytest.mark.parametrize(("timeout", "longest"), [(None, 31), (0, 6), (10, 12)])
    def test_one_that_does_not_is_given_up(self, timeout: float | None, longest: float) -> None:
        async def scene() -> None:
            async with reading({}) as (fake, orders):
                await orders.purge()
                fake.stop()
                loop = asyncio.get_running_loop()
                began = loop.time()
                with pytest.raises(tiercel.RemoteMachineNotAvailableError, match="cannot be restored"):
                    await orders.receive(timeout)
                assert longest - 6 < loop.time() - began < longest

        play_virtually(scene())

    def test_not_at_all_when_told_so(self) -> None:
        async def scene() -> None:
            async with reading(Waiting().script, reconnect_s=0) as (fake, orders):
                task = asyncio.create_task(orders.receive())
                await fake.until(calls.StartReceive)
                fake.hang_up()
                with pytest.raises(tiercel.RemoteMachineNotAvailableError, match="lost"):
                    await task

        play(scene())

    def test_a_cursor_is_lost_with_it(self) -> None:
        async def scene() -> None:
            async with reading({calls.StartReceive: found()}) as (fake, orders):
                cursor = await orders.cursor()
                await cursor.peek()
                fake.hang_up()
                await until_lost(orders)
                for _ in range(2):
                    with pytest.raises(tiercel.StaleHandleError, match="new cursor"):
                        await cursor.peek()
                await cursor.close()
                await (await orders.cursor()).peek()

        play(scene())

    def test_in_a_block_it_is_told(self) -> None:
        async def scene() -> None:
            async with reading({calls.StartReceive: found()}) as (fake, orders):
                with pytest.raises(tiercel.InvalidHandleError, match="back in the queue"):
                    async with orders.receiving(5):
                        fake.hang_up()
                        await until_lost(orders)
                assert not acks(fake)

        play(scene())

    def test_before_the_answer_to_the_acknowledgement(self) -> None:
        """MQRR trap 30: whether it arrived nobody knows; the message is here, so it is handed over, once."""

        async def scene() -> None:
            async def hang_up(_asked: Asked) -> Answer:
                fake.hang_up()
                return calls.Done()

            script = {calls.StartReceive: found(packet_of(b"tea")), calls.EndReceive: hang_up}
            async with reading(script) as (fake, orders):
                assert (await orders.receive(5)).body == b"tea"
                assert len(fake.requests(calls.StartReceive)) == 1
                with pytest.raises(tiercel.RemoteMachineNotAvailableError, match="may come again"):
                    async with orders.receiving(5):
                        pass

        play(scene())

    def test_a_move_is_not_repeated(self) -> None:
        async def scene() -> None:
            async def hang_up(_asked: Asked) -> Answer:
                fake.hang_up()
                return calls.Done()

            async with reading({calls.MoveMessage: hang_up}) as (fake, orders):
                with pytest.raises(tiercel.RemoteMachineNotAvailableError):
                    await orders.move(7, "retry")
                assert len(fake.requests(calls.MoveMessage)) == 1

        play(scene())


class TestThreads:
    def test_read_at_the_same_time(self) -> None:
        waiting = Waiting()
        with (
            in_thread(lambda: FakeServer(waiting.script)) as (fake, loop),
            tiercel.connect(HOST, port=fake.port) as remote,
        ):
            orders = remote.queue(ORDERS)
            readers = [Running(lambda: orders.receive(60)) for _ in range(4)]
            work = asyncio.run_coroutine_threadsafe(fake.until(calls.StartReceive, count=4), loop)
            work.result(PATIENCE_S)
            orders.purge()  # is not kept waiting by them
            for _ in readers:
                loop.call_soon_threadsafe(waiting.deliver, found(packet_of(b"tea")))
            assert [reader.result().body for reader in readers] == [b"tea"] * 4
            # `receive` does not wait until its message is acknowledged.
            work = asyncio.run_coroutine_threadsafe(fake.until(calls.EndReceive, count=4), loop)
            work.result(PATIENCE_S)
            assert acks(fake) == [RR_ACK] * 4

    def test_closing_ends_what_waits(self) -> None:
        with in_thread(lambda: FakeServer(Waiting().script)) as (fake, loop):
            remote = tiercel.connect(HOST, port=fake.port)
            orders = remote.queue(ORDERS)
            reader = Running(lambda: orders.receive(60))
            asyncio.run_coroutine_threadsafe(fake.until(calls.StartReceive), loop).result(PATIENCE_S)
            remote.close()
            remote.close()
            with pytest.raises(tiercel.OperationCancelledError):
                reader.result()
            with pytest.raises(tiercel.ServiceNotAvailableError):
                orders.receive(0)
            assert fake.transcript() == ["OpenQueue", "StartReceive", "CancelReceive", "CloseQueue"]
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("tiercel")]

    def test_everything_else(self) -> None:
        with (
            in_thread(lambda: FakeServer({calls.StartReceive: found(packet_of(b"tea"))})) as (fake, _),
            tiercel.connect(HOST, port=fake.port) as remote,
        ):
            orders = remote.queue(ORDERS)
            assert orders.peek(0).body == b"tea"
            with orders.receiving(timeout=5) as message:
                assert message.body == b"tea"
            with pytest.raises(ZeroDivisionError), orders.receiving(timeout=5):
                raise ZeroDivisionError
            assert acks(fake) == [RR_ACK, RR_NACK]
            cursor = orders.cursor()
            assert cursor.peek().body == cursor.peek_next().body == cursor.receive().body == b"tea"
            assert next(iter(cursor)).body == b"tea"
            cursor.close()
            orders.move(message, "retry")
            orders.reject(7)
            orders.purge()
            orders.receive(0, transaction=remote.transaction(b"TOKEN"))
            assert str(orders.subqueue("retry").format_name).endswith(r"\private$\orders;retry")
            assert orders.journal.path_name.endswith(r"\private$\orders;JOURNAL")
            assert str(remote.dead_letters.format_name).endswith("system$;DEADLETTER")
            assert str(remote.journal.format_name).endswith("system$;JOURNAL")
            assert str(remote.transactional_dead_letters.format_name).endswith("system$;DEADXACT")
            orders.close()
            assert repr(orders).startswith("<RemoteQueue DIRECT=")
            assert (repr(remote), remote.host) == (f"<RemoteQueueManager {HOST}>", HOST)

    @pytest.mark.parametrize("moment", ["waiting", "delivered"])
    def test_who_is_interrupted_loses_nothing(self, moment: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """Ctrl-C while the thread waits for the loop: before the message has come, or just after."""
        delivers = {calls.StartReceive: found(packet_of(b"tea"))}
        script: dict[Any, Any] = delivers if moment == "delivered" else Waiting().script

        with (
            in_thread(lambda: FakeServer(script)) as (fake, loop),
            tiercel.connect(HOST, port=fake.port) as remote,
        ):
            orders = remote.queue(ORDERS)
            real = asyncio.run_coroutine_threadsafe

            def interrupted(work: Any, on: asyncio.AbstractEventLoop) -> Any:
                future: Any = real(work, on)
                monkeypatch.undo()
                result = future.result

                def raise_first(timeout: float | None = None) -> Any:
                    del timeout
                    if moment == "delivered":
                        with suppress(tiercel.MqError):
                            result(PATIENCE_S)
                    else:
                        real(fake.until(calls.StartReceive), loop).result(PATIENCE_S)
                    future.result = result
                    raise KeyboardInterrupt

                future.result = raise_first
                return future

            monkeypatch.setattr(asyncio, "run_coroutine_threadsafe", interrupted)
            with pytest.raises(KeyboardInterrupt):
                orders.receive(60)
            if moment == "delivered":
                assert orders.receive(0).body == b"tea"
                real(fake.until(calls.EndReceive), loop).result(PATIENCE_S)
                assert acks(fake) == [RR_ACK]
            else:
                real(fake.until(calls.CancelReceive), loop).result(PATIENCE_S)
