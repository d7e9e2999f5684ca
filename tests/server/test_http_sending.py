"""Two queue managers that exchange messages over HTTP and HTTPS, on real sockets."""

import asyncio
import json
import re
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import tiercel
from addresses import own_address
from certificates import Authority, Issued
from tiercel import aio
from tiercel.admin.message_json import Json
from tiercel.admin.outgoing import row as outgoing_row
from tiercel.api.metrics import _connections, _http
from tiercel.api.routes.outgoing import list_connections
from tiercel.server.config import AccessOptions, Config, SrmpOptions

PATIENCE_S = 60.0  # only a test that fails waits that long
BOTH = own_address(4), own_address(5)
HERE, THERE = BOTH
RECOVERABLE = tiercel.DeliveryGuarantee.RECOVERABLE
PORT, TLS_PORT = 8080, 8443  # free, for these addresses are nobody else's
ORDERS = rf"DIRECT=HTTP://{THERE}:{PORT}/msmq/private$/orders"
SAFE_ORDERS = rf"DIRECT=HTTPS://{THERE}:{TLS_PORT}/msmq/private$/orders"


class World:
    """Two machines, A and B, that are opened and closed by name."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.options = SrmpOptions(
            enabled=True,
            port=PORT,
            https_port=TLS_PORT,
            retry_ms=50,
            receipt_delay_ms=10,
            resend_table_s=(1,),
        )

    @asynccontextmanager
    async def machine(
        self, name: str, access: Any = None, **options: Any
    ) -> AsyncIterator[aio.AsyncEmbeddedQueueManager]:
        host = BOTH["AB".index(name)]
        urls = {"http_url": f"http://{host}:{PORT}"}
        srmp = replace(self.options, host=host, **{**urls, **options})
        config = Config(srmp=srmp, access=access or AccessOptions())
        manager = await aio.open(
            self.directory / name, computer_name=name, listen=f"{host}:1801", config=config
        )
        async with manager:
            yield manager


Scene = Callable[[World], Awaitable[None]]
Play = Callable[[Scene], None]


@pytest.fixture
def play(tmp_path: Path) -> Play:
    async def main(scene: Scene) -> None:
        async with asyncio.timeout(PATIENCE_S):
            await scene(World(tmp_path))

    return lambda scene: asyncio.run(main(scene))


async def orders(manager: aio.AsyncEmbeddedQueueManager, **options: Any) -> aio.AsyncEmbeddedQueue:
    return await manager.create_queue(r".\private$\orders", exist_ok=True, **options)


async def received(queue: aio.AsyncEmbeddedQueue, count: int) -> list[bytes]:
    return [(await queue.receive(timeout=PATIENCE_S)).body for _ in range(count)]


def waiting(manager: aio.AsyncEmbeddedQueueManager) -> Json:
    """The only outgoing queue, as `tiercel outgoing` shows it."""
    engine = manager.driver.engine
    (row,) = [outgoing_row(engine, queue) for queue in engine.outgoing.queues()]
    return row


async def until(condition: Callable[[], object]) -> None:
    while not condition():  # noqa: ASYNC110  # it may be about anything
        await asyncio.sleep(0.001)


async def until_failed(manager: aio.AsyncEmbeddedQueueManager, reason: str) -> None:
    """The message waits, and the reason is shown."""
    await until(lambda: re.search(reason, waiting(manager)["reason"]))
    row = waiting(manager)
    assert row["count"] == 1
    assert row["next_try"] is not None


def certified(issued: Issued) -> dict[str, str]:
    return {"tls_certificate": str(issued.certificate), "tls_key": str(issued.key)}


class TestMessages:
    @pytest.mark.conformance("SRMP-195")
    def test_arrive(self, play: Play) -> None:
        async def scene(world: World) -> None:
            async with world.machine("A") as here, world.machine("B") as there:
                queue = await orders(there)
                sent = here.queue(ORDERS)
                for number in range(10):
                    await sent.send(b"%d" % number)
                assert await received(queue, 10) == [b"%d" % number for number in range(10)]

        play(scene)

    def test_wait_for_a_machine_that_is_away(self, play: Play) -> None:
        async def scene(world: World) -> None:
            async with world.machine("A") as here:
                await here.queue(ORDERS).send(tiercel.Message(b"1", delivery=RECOVERABLE))
                await until_failed(here, f"cannot connect to {THERE}: connection refused")
                async with world.machine("B") as there:
                    assert await received(await orders(there), 1) == [b"1"]

        play(scene)

    def test_of_a_stream_arrive_once_and_in_order_across_restarts(self, play: Play) -> None:
        async def scene(world: World) -> None:
            sent = []
            for round_ in range(3):
                async with world.machine("A") as here:
                    async with world.machine("B") as there:
                        await orders(there, transactional=True)
                        for number in range(20):
                            sent.append(b"%d.%d" % (round_, number))
                            async with here.transaction() as transaction:
                                await here.queue(ORDERS).send(sent[-1], transaction=transaction)
                    async with here.transaction() as transaction:  # the other side is away
                        sent.append(b"%d.end" % round_)
                        await here.queue(ORDERS).send(sent[-1], transaction=transaction)
            async with world.machine("A") as here, world.machine("B") as there:
                assert await received(await orders(there, transactional=True), len(sent)) == sent
                await until(lambda: not waiting(here)["count"])

        play(scene)

    def test_tell_the_status_that_keeps_them(self, play: Play) -> None:
        async def scene(world: World) -> None:
            async with world.machine("A") as here, world.machine("B") as there:
                queue = await orders(there, quota_kib=0)
                await here.queue(ORDERS).send(b"1")
                await until_failed(here, "the server answered 500 Internal Server Error")
                await queue.set_properties(quota_kib=100)
                assert await received(queue, 1) == [b"1"]

        play(scene)


class TestTls:
    @pytest.mark.conformance("SRMP-022")
    def test_messages_and_receipts_go_over_it(self, play: Play, tmp_path: Path) -> None:
        authority = Authority(tmp_path)
        options = {
            name: {
                **certified(authority.issue(host, name=name)),
                "ca": str(authority.file),
                "https_url": f"https://{host}:{TLS_PORT}",
                "http_url": "",
                "http": False,
                "tls_client_ca": str(authority.file),
            }
            for name, host in zip("AB", BOTH, strict=True)
        }

        async def scene(world: World) -> None:
            async with (
                world.machine("A", **options["A"]) as here,
                world.machine("B", **options["B"]) as there,
            ):
                queue = await orders(there, transactional=True)
                async with here.transaction() as transaction:
                    await here.queue(SAFE_ORDERS).send(b"1", transaction=transaction)
                assert await received(queue, 1) == [b"1"]
                await until(lambda: not waiting(here)["count"])

        play(scene)

    @pytest.mark.conformance("SRMP-022")
    @pytest.mark.parametrize(
        ("fault", "reason"),
        [
            ("name", "is not valid: IP address mismatch"),
            ("expired", "is not valid: certificate has expired"),
            ("authority", "is not valid: unable to get local issuer certificate"),
        ],
    )
    def test_a_certificate_that_is_not_valid_keeps_the_message(
        self, play: Play, tmp_path: Path, fault: str, reason: str
    ) -> None:
        authority, other = Authority(tmp_path), Authority(tmp_path, "other")
        host = HERE if fault == "name" else THERE
        signer = other if fault == "authority" else authority
        bad = signer.issue(host, name="bad", is_expired=fault == "expired")
        good = authority.issue(THERE, name="good")

        async def scene(world: World) -> None:
            async with world.machine("A", ca=str(authority.file)) as here:
                async with world.machine("B", **certified(bad)) as there:
                    queue = await orders(there)
                    await here.queue(SAFE_ORDERS).send(tiercel.Message(b"1", delivery=RECOVERABLE))
                    await until_failed(here, reason)
                    assert queue._state().count == 0
                async with world.machine("B", **certified(good)) as there:
                    assert await received(await orders(there), 1) == [b"1"]

        play(scene)

    def test_authorities_are_read_again(self, play: Play, tmp_path: Path) -> None:
        authority, other = Authority(tmp_path), Authority(tmp_path, "other")
        issued, known = authority.issue(THERE), tmp_path / "known.pem"
        shutil.copy(other.file, known)

        async def scene(world: World) -> None:
            async with (
                world.machine("A", ca=str(known)) as here,
                world.machine("B", **certified(issued)) as there,
            ):
                queue, daemon = await orders(there), here._runtime.daemon  # type: ignore[attr-defined]
                await here.queue(SAFE_ORDERS).send(tiercel.Message(b"1", delivery=RECOVERABLE))
                await until_failed(here, "unable to get local issuer certificate")
                known.write_text("broken")
                daemon.reload(daemon.config)
                shutil.copy(authority.file, known)
                daemon.reload(daemon.config)
                assert await received(queue, 1) == [b"1"]

        play(scene)

    def test_the_system_vouches_for_no_certificate_of_a_test(self, play: Play, tmp_path: Path) -> None:
        issued = Authority(tmp_path).issue(THERE)

        async def scene(world: World) -> None:
            async with world.machine("A") as here, world.machine("B", **certified(issued)):
                await here.queue(SAFE_ORDERS).send(b"1")
                await until_failed(here, "is not valid: unable to get local issuer certificate")

        play(scene)

    def test_a_server_without_it_is_told_apart(self, play: Play) -> None:
        async def scene(world: World) -> None:
            async with world.machine("A") as here, world.machine("B"):
                await here.queue(SAFE_ORDERS.replace(str(TLS_PORT), str(PORT))).send(b"1")
                await until_failed(here, f"no TLS with {THERE}")

        play(scene)


class Proxy:
    """A forward proxy that notes the request lines; it refuses while `answer` is set."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.answer = b""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        line = head.partition(b"\r\n")[0]
        self.lines.append(line)
        if self.answer:
            writer.write(self.answer)
            writer.close()
            return
        found = re.match(rb"(?:CONNECT |POST http://)([^:/ ]+):(\d+)", line)
        assert found is not None
        to_reader, to_writer = await asyncio.open_connection(found[1].decode(), int(found[2]))
        if line.startswith(b"CONNECT"):
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            to_writer.write(head)
        await asyncio.gather(pump(reader, to_writer), pump(to_reader, writer))


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
    writer.close()


class TestAProxy:
    @asynccontextmanager
    async def running(self) -> AsyncIterator[tuple[Proxy, str]]:
        proxy = Proxy()
        server = await asyncio.start_server(proxy.serve, HERE, 0)
        try:
            yield proxy, f"{HERE}:{server.sockets[0].getsockname()[1]}"
        finally:
            server.close()

    def test_carries_http(self, play: Play) -> None:
        async def scene(world: World) -> None:
            async with self.running() as (proxy, address):
                async with world.machine("A", proxy=address) as here, world.machine("B") as there:
                    await here.queue(ORDERS).send(b"1")
                    assert await received(await orders(there), 1) == [b"1"]
                assert proxy.lines == [b"POST http://%b:8080/msmq/private$/orders HTTP/1.1" % THERE.encode()]

        play(scene)

    def test_carries_https_and_sees_none_of_it(self, play: Play, tmp_path: Path) -> None:
        authority = Authority(tmp_path)
        issued = authority.issue(THERE)

        async def scene(world: World) -> None:
            async with self.running() as (proxy, address):
                proxy.answer = b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n"
                options = {"proxy": address, "ca": str(authority.file)}
                async with (
                    world.machine("A", **options) as here,
                    world.machine("B", **certified(issued)) as there,
                ):
                    await here.queue(SAFE_ORDERS).send(b"1")
                    await until_failed(here, "the proxy opens no tunnel: it answered 'HTTP/1.1 407")
                    proxy.answer = b""
                    assert await received(await orders(there), 1) == [b"1"]
                assert set(proxy.lines) == {b"CONNECT %b:8443 HTTP/1.1" % THERE.encode()}

        play(scene)


@pytest.mark.conformance("SRMP-196", "DMPR-023")
def test_a_hardened_queue_manager_speaks_http_only(play: Play) -> None:
    async def scene(world: World) -> None:
        hardened = AccessOptions(hardened=True)
        async with world.machine("A", access=hardened) as here, world.machine("B") as there:
            with pytest.raises(OSError, match="Connect call failed"):
                await asyncio.open_connection(HERE, 1801)
            binary = here.queue(rf"DIRECT=TCP:{THERE}\private$\orders")
            await binary.send(b"locked")
            assert waiting(here)["state"] == "locked"
            await here.queue(ORDERS).send(b"1")
            assert await received(await orders(there), 1) == [b"1"]
        async with world.machine("A", access=AccessOptions(hardened=False)):
            _, writer = await asyncio.open_connection(HERE, 1801)
            writer.close()

    play(scene)


def samples(manager: aio.AsyncEmbeddedQueueManager) -> dict[tuple[str, ...], float]:
    api: Any = SimpleNamespace(daemon=manager._runtime.daemon)  # type: ignore[attr-defined]
    metrics = [*_http(api), *_connections(api)]
    return {(each.name, *each.labels.values()): each.value for metric in metrics for each in metric.samples}


def test_the_metrics_tell_what_was_answered(play: Play) -> None:
    async def scene(world: World) -> None:
        async with world.machine("A") as here, world.machine("B") as there:
            queue = await orders(there, quota_kib=0)
            await here.queue(ORDERS).send(b"1")
            await until_failed(here, "500")
            await queue.set_properties(quota_kib=100)
            await received(queue, 1)
            await until(lambda: ("tiercel_http_requests_total", "out", "200") in samples(here))
            ours, theirs = samples(here), samples(there)
            assert ours["tiercel_http_requests_total", "out", "500"] >= 1
            assert ours["tiercel_http_requests_total", "out", "200"] == 1
            assert theirs["tiercel_http_requests_total", "in", "200"] == 1
            assert ours["tiercel_http_connections", "out"] == theirs["tiercel_http_connections", "in"] == 1
        async with world.machine("A") as here:
            await here.queue(ORDERS).send(b"1")
            await until_failed(here, "refused")
            assert samples(here)["tiercel_connection_failures_total", "connection_refused"] >= 1

    play(scene)


async def connections(manager: aio.AsyncEmbeddedQueueManager) -> list[Json]:
    api: Any = SimpleNamespace(daemon=manager._runtime.daemon)  # type: ignore[attr-defined]
    rows: list[Json] = json.loads(bytes((await list_connections(api)).body))["connections"]
    return rows


def test_connections_are_listed_at_both_ends(play: Play) -> None:
    async def scene(world: World) -> None:
        async with world.machine("A") as here, world.machine("B") as there:
            assert await connections(here) == await connections(there) == []
            await here.queue(ORDERS).send(b"1")
            await received(await orders(there), 1)
            (ours,), (theirs,) = await connections(here), await connections(there)
            assert (ours["transport"], ours["direction"], ours["address"]) == ("http", "out", THERE)
            assert (theirs["transport"], theirs["direction"], theirs["address"]) == ("http", "in", HERE)
            assert {ours["state"], theirs["state"]} == {"open"}
            assert (ours["peer"], ours["window"], theirs["in_flight"]) == (None, 1, 0)

    play(scene)


def test_a_name_without_an_address_says_so(play: Play) -> None:
    async def scene(world: World) -> None:
        async with world.machine("A") as here:
            await here.queue("DIRECT=HTTP://no-such-host.invalid/msmq/q").send(b"1")
            await until_failed(here, "the name no-such-host.invalid has no address")

    play(scene)


def test_a_queue_manager_off_the_network_keeps_messages_for_the_daemon(play: Play, tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        async with world.machine("A"):
            pass
        with tiercel.open(tmp_path / "A") as embedded:
            embedded.queue(ORDERS).send(tiercel.Message(b"1", delivery=RECOVERABLE))
        async with world.machine("A"), world.machine("B") as there:
            assert await received(await orders(there), 1) == [b"1"]

    play(scene)
