"""Remote sending to a real daemon: the promise of `send`, over connections that get lost."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import tiercel
from addresses import own_address
from client.fake_server import HOST, ORDERS, play
from client.test_remote_daemon import FOR_ALL, daemon
from tiercel import aio
from tiercel.client import remote_aio
from tiercel.client.remote_message import queue_name
from tiercel.model.identifiers import NULL_GUID

RECOVERABLE = tiercel.DeliveryGuarantee.RECOVERABLE
EVERY_KIND = pytest.mark.parametrize("delivery", list(tiercel.DeliveryGuarantee))


class Wire:
    """Lies between a sender and a daemon; counts connections, and fails as it is told."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._streams: set[asyncio.StreamWriter] = set()
        self.port = 0
        self.connections = 0
        self.swallow: Callable[[bytes], bool] = lambda _data: False  # what the daemon says, and nobody hears

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, HOST, self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        self._server.close()
        self.cut()
        await self._server.wait_closed()

    def cut(self) -> None:
        for stream in self._streams:
            stream.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            to_reader, to_writer = await asyncio.open_connection(HOST, self._target)
        except OSError:
            writer.close()
            return
        self._streams |= {writer, to_writer}
        copies = self._copy(reader, to_writer, lambda _: False), self._copy(to_reader, writer, self._lost)
        await asyncio.gather(*copies)
        self._streams -= {writer, to_writer}

    def _lost(self, data: bytes) -> bool:
        return self.swallow(data)

    async def _copy(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_lost: Callable[[bytes], bool]
    ) -> None:
        try:
            while data := await reader.read(65536):
                if is_lost(data):
                    break
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        self.cut()


@asynccontextmanager
async def sending(
    folder: Path, **options: Any
) -> AsyncIterator[tuple[aio.AsyncEmbeddedQueue, remote_aio.AsyncRemoteQueue, Wire]]:
    """A queue, the same queue over a remote connection, and the wire between them."""
    async with daemon(folder) as (qm, port):
        manager: Any = qm._runtime
        wire = Wire(manager.daemon.endpoints[0].port)
        await wire.start()
        queue = await qm.create_queue(rf".\{ORDERS}", security=FOR_ALL)
        try:
            async with await aio.connect(HOST, port=port, message_port=wire.port, **options) as remote:
                yield queue, remote.queue(ORDERS), wire
        finally:
            await wire.stop()


async def bodies(queue: aio.AsyncEmbeddedQueue) -> list[bytes]:
    """Everything that is in the queue; it is empty afterwards."""
    return [(await queue.receive(0)).body for _ in range(queue.count)]


class TestSending:
    @EVERY_KIND
    def test_a_message_is_there_on_return(self, tmp_path: Path, delivery: tiercel.DeliveryGuarantee) -> None:
        async def scene() -> None:
            async with sending(tmp_path / "data") as (queue, orders, _):
                message = tiercel.Message(b"body", label="label", delivery=delivery, body_type=8, priority=5)
                identifier = await orders.send(message)
                found = await queue.receive(0)
                assert (found.body, found.label, found.body_type, found.priority) == (b"body", "label", 8, 5)
                assert (found.id, found.delivery) == (identifier, delivery)
                assert identifier == message.id
                assert identifier.lineage != NULL_GUID
                assert found.sent_time == message.sent_time > 0

        play(scene())

    def test_it_comes_back_over_remote_read(self, tmp_path: Path) -> None:
        async def scene() -> None:
            async with sending(tmp_path / "data") as (_, orders, _wire):
                await orders.send(b"there and back")
                assert (await orders.receive(0)).body == b"there and back"

        play(scene())

    def test_many_at_a_time_stay_in_order(self, tmp_path: Path) -> None:
        async def scene() -> None:
            async with sending(tmp_path / "data") as (queue, orders, wire):
                texts = [b"%d" % number for number in range(300)]
                await asyncio.gather(*(orders.send(text) for text in texts))
                assert await bodies(queue) == texts
                assert wire.connections == 1

        play(scene())

    def test_a_body_of_megabytes(self, tmp_path: Path) -> None:
        async def scene() -> None:
            async with sending(tmp_path / "data") as (queue, orders, _):
                await asyncio.gather(*(orders.send(bytes(3 << 20)) for _ in range(3)))
                assert queue.count == 3

        play(scene())

    def test_a_sender_that_is_cancelled_takes_nothing_with_it(self, tmp_path: Path) -> None:
        async def scene() -> None:
            async with sending(tmp_path / "data") as (queue, orders, _):
                await orders.send(b"first")
                tasks = [asyncio.create_task(orders.send(b"%d" % number)) for number in range(10)]
                await asyncio.sleep(0)
                tasks[9].cancel()
                done = await asyncio.gather(*tasks, return_exceptions=True)
                assert isinstance(done[9], asyncio.CancelledError)
                assert await bodies(queue) == [b"first", *(b"%d" % number for number in range(9))]

        play(scene())

    def test_in_a_thread(self, tmp_path: Path) -> None:
        """What `send` has acknowledged is there after a kill -9, if it is recoverable."""
        host, port, message_port = own_address(), 2103, 1801
        config = tmp_path / "tiercel.toml"
        config.write_text(
            f'[node]\ndata = "{tmp_path / "data"}"\n[listen]\nhost = "{host}"\nport = {message_port}\n'
            f'[remote_read]\nenabled = true\nhost = "{host}"\nport = {port}\n'
        )
        with tiercel.open(tmp_path / "data") as qm:
            qm.create_queue(rf".\{ORDERS}", security=FOR_ALL)
        command = [sys.executable, "-m", "tiercel", "serve", "--config", str(config)]
        served = subprocess.Popen(command, stderr=subprocess.PIPE)  # noqa: S603  # ours
        try:
            assert served.stderr is not None
            assert b"start" in served.stderr.readline()
            with tiercel.connect(host, port=port, message_port=message_port) as remote:
                orders = remote.queue(ORDERS)
                for number in range(20):
                    orders.send(tiercel.Message(b"%d" % number, delivery=RECOVERABLE))
                served.send_signal(signal.SIGKILL)
                served.wait()
        finally:
            served.kill()
            served.communicate()
        with tiercel.open(tmp_path / "data") as qm:
            assert [message.body for message in qm.queue(rf".\{ORDERS}").cursor()] == [
                b"%d" % number for number in range(20)
            ]


class TestLosses:
    @EVERY_KIND
    def test_an_acknowledgement_that_is_lost(
        self, tmp_path: Path, delivery: tiercel.DeliveryGuarantee
    ) -> None:
        """The message goes once more, and its receiver knows it by its id."""

        async def scene() -> None:
            async with sending(tmp_path / "data") as (queue, orders, wire):
                await orders.send(b"first")
                wire.swallow = lambda _data: wire.connections == 1
                await orders.send(tiercel.Message(b"second", delivery=delivery))
                assert wire.connections == 2
                assert await bodies(queue) == [b"first", b"second"]

        play(scene())

    def test_a_line_that_was_cut_while_nothing_was_sent(self, tmp_path: Path) -> None:
        async def scene() -> None:
            async with sending(tmp_path / "data") as (queue, orders, wire):
                await orders.send(b"first")
                wire.cut()
                await asyncio.sleep(0.05)
                await orders.send(b"second")
                assert await bodies(queue) == [b"first", b"second"]

        play(scene())

    def test_a_computer_that_comes_back(self, tmp_path: Path) -> None:
        async def scene() -> None:
            async with sending(tmp_path / "data") as (queue, orders, wire):
                await orders.send(b"first")
                await wire.stop()
                task = asyncio.create_task(orders.send(b"second"))
                await asyncio.sleep(0.2)
                await wire.start()
                await task
                assert await bodies(queue) == [b"first", b"second"]

        play(scene())

    def test_one_that_does_not(self, tmp_path: Path) -> None:
        async def scene() -> None:
            async with sending(tmp_path / "data", reconnect_s=0.1) as (_, orders, wire):
                await orders.send(b"first")
                await wire.stop()
                with pytest.raises(tiercel.RemoteMachineNotAvailableError) as caught:
                    await orders.send(b"second")
                assert "the message may or may not have arrived" in str(caught.value)
                await wire.start()
                await orders.send(b"third")

        play(scene())

    def test_nobody_is_there(self, tmp_path: Path) -> None:
        async def scene() -> None:
            async with sending(tmp_path / "data") as (_, orders, wire):
                await wire.stop()
                with pytest.raises(tiercel.RemoteMachineNotAvailableError) as caught:
                    await orders.send(b"first")
                assert f"{HOST} port {wire.port}: cannot connect" in str(caught.value)
                await wire.start()

        play(scene())

    def test_what_answers_is_no_queue_manager(self, tmp_path: Path) -> None:
        async def scene() -> None:
            async with sending(tmp_path / "data") as (_, orders, wire):
                wire.swallow = lambda _data: True
                with pytest.raises(tiercel.RemoteMachineNotAvailableError) as caught:
                    await orders.send(b"first")
                assert "does not open a session (the peer closed the connection)" in str(caught.value)

        play(scene())

    def test_after_the_end(self, tmp_path: Path) -> None:
        async def scene() -> None:
            async with sending(tmp_path / "data") as (queue, orders, _):
                await orders.send(b"first")
                await orders.session.close()
                with pytest.raises(tiercel.ServiceNotAvailableError):
                    await orders.send(b"second")
                assert await bodies(queue) == [b"first"]

        play(scene())


class TestWhatCannotBeSent:
    @pytest.mark.parametrize(
        ("message", "words"),
        [
            (tiercel.Message(b"", positive_journaling=True), "message positive_journaling"),
            (tiercel.Message(b"", negative_journaling=True), "tiercel.aio.open with a Config"),
            (tiercel.Message(b"", privacy_level=1), "MQ_ERROR_COMPUTER_DOES_NOT_SUPPORT_ENCRYPTION"),
            (tiercel.Message(b"", transaction_id=1), "MQ_ERROR_TRANSACTION_USAGE"),
            (tiercel.Message(bytes(4 << 20)), "split the body"),
            (7, "Message, bytes or str"),
        ],
        ids=["journal", "dead_letter", "encrypted", "transaction", "too_large", "no_message"],
    )
    def test_messages(self, tmp_path: Path, message: Any, words: str) -> None:
        async def scene() -> None:
            async with sending(tmp_path / "data") as (queue, orders, wire):
                with pytest.raises(tiercel.TiercelError) as caught:
                    await orders.send(message)
                assert words.casefold() in str(caught.value).casefold()
                assert (queue.count, wire.connections) == (0, 0)

        play(scene())

    def test_in_a_transaction(self, tmp_path: Path) -> None:
        async def scene() -> None:
            async with sending(tmp_path / "data") as (_, orders, _wire):
                transaction = remote_aio.AsyncRemoteQueueManager.transaction(b"TOKEN")
                with pytest.raises(tiercel.TransactionUsageError) as caught:
                    await orders.send(b"body", transaction=transaction)
                assert "Send it with a queue manager of your own: tiercel.open" in str(caught.value)

        play(scene())

    @pytest.mark.parametrize(
        ("name", "words"),
        [
            (r"OTHER\private$\orders", "Connect to OTHER"),
            (r"private$\orders;journal", "only the queue manager can write to journals"),
            (r"private$\orders;retry", "only by being moved there"),
            ("system$;deadletter", "only the queue manager can write to journals"),
            ("MULTICAST=234.1.1.1:8001", "this connection can send only to queues of its own computer"),
        ],
    )
    def test_names(self, tmp_path: Path, name: str, words: str) -> None:
        async def scene() -> None:
            async with sending(tmp_path / "data") as (_, orders, wire):
                queue = remote_aio.AsyncRemoteQueue(orders.session, queue_name(HOST, name))
                with pytest.raises(tiercel.UnsupportedFormatNameOperationError) as caught:
                    await queue.send(b"body")
                assert words in str(caught.value)
                assert wire.connections == 0

        play(scene())

    def test_a_property_that_was_made_wrong_later(self, tmp_path: Path) -> None:
        async def scene() -> None:
            async with sending(tmp_path / "data") as (_, orders, _wire):
                message = tiercel.Message(b"")
                message.label = "x" * 250
                with pytest.raises(tiercel.LabelTooLongError):
                    await orders.send(message)

        play(scene())

    def test_a_port_that_is_none(self) -> None:
        with pytest.raises(tiercel.InvalidParameterError, match="message_port"):
            tiercel.connect(HOST, message_port=70_000)
