"""TLS between queue managers: two daemons over real sockets, and those who try to get in."""

import asyncio
import hashlib
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

import tiercel
from addresses import own_address
from certificates import Authority, Issued
from tiercel import aio
from tiercel.admin.message_json import Json
from tiercel.admin.outgoing import row as outgoing_row
from tiercel.binary.settings import Peer, Settings
from tiercel.model.identifiers import NULL_GUID
from tiercel.server.config import Config, ConfigError, Endpoint, LimitOptions, TlsOptions
from tiercel.wire.internal_packets import EstablishConnection, EstablishConnectionHeader
from tiercel.wire.packet import decode_packet

PATIENCE_S = 60.0  # only a test that fails waits that long
BOTH = HERE, THERE = own_address(10), own_address(11)
PORT, TLS_PORT = 1801, 1812  # free, for these addresses are nobody else's
RECOVERABLE = tiercel.DeliveryGuarantee.RECOVERABLE
ORDERS = r".\private$\orders"
TO_ORDERS = rf"DIRECT=TCP:{THERE}\private$\orders"

Manager = aio.AsyncEmbeddedQueueManager


class World:
    """Two machines, A and B, with certificates of one authority."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.authority = Authority(directory)
        self.guids = {name: self._guid(name) for name in "AB"}
        self.issued = {name: self.authority.issue(guid, name=name) for name, guid in self.guids.items()}

    def _guid(self, name: str) -> UUID:
        with tiercel.open(self.directory / name, computer_name=name) as qm:
            return qm.driver.engine.queue_manager.identifier

    def peer(self, name: str, **options: Any) -> Peer:
        host = BOTH["AB".index(name)]
        given: dict[str, Any] = {"name": name, "guid": self.guids[name], "tls": (host, TLS_PORT)}
        return Peer(**given | options)

    def tls(self, name: str, issued: Issued | None = None, **options: Any) -> TlsOptions:
        found = issued or self.issued[name]
        given = {
            "listen": f"{BOTH['AB'.index(name)]}:{TLS_PORT}",
            "tls_certificate": str(found.certificate),
            "tls_key": str(found.key),
            "tls_ca": str(self.authority.file),
        }
        return TlsOptions(**given | options)

    @asynccontextmanager
    async def machine(self, name: str, **sections: Any) -> AsyncIterator[Manager]:
        other = "AB"[name == "A"]
        given: dict[str, Any] = {"tls": self.tls(name), "peers": (self.peer(other),)}
        config = Config(binary=Settings(port=PORT, retry_ms=20, retry_max_ms=100), **given | sections)
        host = BOTH["AB".index(name)]
        manager = await aio.open(self.directory / name, listen=f"{host}:{PORT}", config=config)
        async with manager:
            yield manager


Scene = Callable[[World], Awaitable[None]]
Play = Callable[[Scene], None]


@pytest.fixture
def play(tmp_path: Path) -> Play:
    world = World(tmp_path)

    async def main(scene: Scene) -> None:
        async with asyncio.timeout(PATIENCE_S):
            await scene(world)

    return lambda scene: asyncio.run(main(scene))


async def orders(manager: Manager, **options: Any) -> aio.AsyncEmbeddedQueue:
    return await manager.create_queue(ORDERS, exist_ok=True, **options)


async def received(queue: aio.AsyncEmbeddedQueue, count: int = 1) -> list[bytes]:
    return [(await queue.receive(timeout=PATIENCE_S)).body for _ in range(count)]


async def send(manager: Manager, body: bytes = b"1", name: str = TO_ORDERS) -> None:
    await manager.queue(name).send(tiercel.Message(body, delivery=RECOVERABLE))


def waiting(manager: Manager) -> list[Json]:
    """The outgoing queues, as `tiercel outgoing` shows them."""
    engine = manager.driver.engine
    return [outgoing_row(engine, queue) for queue in engine.outgoing.queues()]


async def until(condition: Callable[[], object]) -> None:
    while not condition():  # noqa: ASYNC110  # it may be about anything
        await asyncio.sleep(0.001)


async def until_failed(manager: Manager, reason: str) -> None:
    """The message waits, and the reason is shown."""
    await until(lambda: any(re.search(reason, row["reason"]) for row in waiting(manager)))
    (row,) = waiting(manager)
    assert row["count"] == 1
    assert row["history"][-1]["status"] != "established"


def network(manager: Manager) -> Any:
    return manager._runtime.daemon.network  # type: ignore[attr-defined]


class TestMessages:
    def test_go_over_it_both_ways(self, play: Play) -> None:
        async def scene(world: World) -> None:
            async with world.machine("A") as a, world.machine("B") as b:
                theirs, mine = await orders(b, transactional=True), await orders(a)
                for number in range(3):
                    async with a.transaction() as transaction:
                        await a.queue(TO_ORDERS).send(b"%d" % number, transaction=transaction)
                await send(b, b"back", rf"PRIVATE={world.guids['A']}\{_number(a):08x}")
                assert await received(theirs, 3) == [b"0", b"1", b"2"]
                assert await received(mine) == [b"back"]
                await until(lambda: not any(row["count"] for row in waiting(a)))
                assert all(each.is_tls for each in (*network(a).connections, *network(b).connections))
                sessions = a._runtime.daemon.protocol.sessions  # type: ignore[attr-defined]
                assert {each.remote_guid for each in sessions if each.is_open} == {world.guids["B"]}

        play(scene)

    def test_as_large_as_they_may_be(self, play: Play) -> None:
        async def scene(world: World) -> None:
            async with world.machine("A") as a, world.machine("B") as b:
                queue = await orders(b)
                bodies = [bytes([number]) * 4_000_000 for number in range(3)]
                for body in bodies:
                    await send(a, body)
                assert await received(queue, 3) == bodies

        play(scene)

    @pytest.mark.parametrize(
        "name", ["B", "localhost-of-b", THERE, "alias"], ids=["name", "host", "address", "alias"]
    )
    def test_names_of_the_peer_lead_to_it(self, play: Play, name: str) -> None:
        """Its name in [[peers]], one of its addresses there, and whatever has its address."""

        async def scene(world: World) -> None:
            peer = world.peer("B", addresses=("localhost-of-b",))
            hosts = {"alias": Endpoint(THERE)}
            async with world.machine("A", peers=(peer,), hosts=hosts) as a, world.machine("B") as b:
                queue = await orders(b)
                await send(a, name=rf"DIRECT=OS:{name}\private$\orders")
                assert await received(queue) == [b"1"]
                assert all(each.is_tls for each in network(b).connections)

        play(scene)

    def test_a_fingerprint_takes_the_place_of_the_name(self, play: Play) -> None:
        async def scene(world: World) -> None:
            nameless = world.authority.issue("b.example", name="nameless")
            good, bad = fingerprint(nameless), fingerprint(world.issued["B"])
            async with world.machine("B", tls=world.tls("B", nameless)) as b:
                queue = await orders(b)
                async with world.machine("A", peers=(world.peer("B", fingerprint=bad),)) as a:
                    await send(a)
                    await until_failed(a, f"its fingerprint is {good}")
                async with world.machine("A", peers=(world.peer("B", fingerprint=good),)) as a:
                    assert await received(queue) == [b"1"]

        play(scene)


class TestRefusals:
    @pytest.mark.parametrize(
        ("fault", "reason"),
        [
            ("name", "does not name urn:uuid:"),
            ("expired", "certificate has expired"),
            ("authority", "unable to get local issuer certificate"),
        ],
    )
    def test_a_certificate_of_the_receiver_that_is_not_valid_keeps_the_message(
        self, play: Play, fault: str, reason: str
    ) -> None:
        async def scene(world: World) -> None:
            async with world.machine("A") as a:
                async with world.machine("B", tls=world.tls("B", faulty(world, "B", fault))) as b:
                    queue = await orders(b)
                    await send(a)
                    await until_failed(a, reason)
                    assert queue._state().count == 0
                async with world.machine("B") as b:
                    assert await received(await orders(b)) == [b"1"]

        play(scene)

    @pytest.mark.parametrize(
        ("fault", "reason"),
        [
            ("name", "does not name urn:uuid:"),
            ("expired", "certificate has expired"),
            ("authority", "unable to get local issuer certificate"),
        ],
    )
    def test_a_certificate_of_the_sender_that_is_not_valid_keeps_the_message(
        self, play: Play, caplog: pytest.LogCaptureFixture, fault: str, reason: str
    ) -> None:
        caplog.set_level("INFO", "tiercel")

        async def scene(world: World) -> None:
            async with world.machine("B") as b:
                queue = await orders(b)
                async with world.machine("A", tls=world.tls("A", faulty(world, "A", fault))) as a:
                    await send(a)
                    await until(lambda: any(re.search(reason, text) for text in reasons(caplog)))
                    await until(lambda: waiting(a)[0]["history"])
                    if fault != "name":  # then its session is refused, which is no secret
                        await until_failed(
                            a, "ended the connection after the TLS handshake: its log says why"
                        )
                    assert queue._state().count == 0
                async with world.machine("A"):
                    assert await received(queue) == [b"1"]

        play(scene)

    def test_a_port_without_tls_keeps_the_message(self, play: Play) -> None:
        async def scene(world: World) -> None:
            plain = (world.peer("B", tls=(THERE, PORT)),)
            async with world.machine("A", peers=plain) as a, world.machine("B"):
                await send(a)
                await until_failed(a, f"no TLS with {THERE} port {PORT}")

        play(scene)

    def test_there_is_no_fallback(self, play: Play) -> None:
        """The port without TLS would answer."""

        async def scene(world: World) -> None:
            async with world.machine("A") as a:
                async with world.machine("B", tls=TlsOptions(), peers=()) as b:
                    queue = await orders(b)
                    await send(a)
                    await until(lambda: len(waiting(a)[0]["history"]) > 3)
                    assert {each["status"] for each in waiting(a)[0]["history"]} == {"connection_refused"}
                    assert queue._state().count == 0
                    assert not b._runtime.daemon.network.connections  # type: ignore[attr-defined]
                async with world.machine("B") as b:
                    assert await received(await orders(b)) == [b"1"]

        play(scene)

    def test_a_peer_that_comes_without_it_is_refused(
        self, play: Play, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level("INFO", "tiercel")

        async def scene(world: World) -> None:
            async with world.machine("B") as b:
                queue = await orders(b)
                async with world.machine("A", tls=TlsOptions(), peers=()) as a:
                    await send(a)
                    expected = f"refused: {world.guids['A']} must use TLS"
                    await until(lambda: any(expected in text for text in reasons(caplog)))
                    assert (queue._state().count, waiting(a)[0]["count"]) == (0, 1)

        play(scene)

    def test_sessions_without_it_end_when_it_becomes_mandatory(self, play: Play) -> None:
        async def scene(world: World) -> None:
            plain = {"peers": ()}
            async with world.machine("A", **plain) as a, world.machine("B", **plain) as b:
                queue = await orders(b)
                await send(a, b"plain")
                assert await received(queue) == [b"plain"]
                for manager, other in ((a, "B"), (b, "A")):
                    daemon = manager._runtime.daemon  # type: ignore[attr-defined]
                    daemon.reload(replace(daemon.config, peers=(world.peer(other),)))
                await until(lambda: not network(b).connections)
                await send(a, b"safe")
                assert await received(queue) == [b"safe"]
                assert all(each.is_tls for each in network(b).connections)

        play(scene)

    def test_certificates_are_read_again(self, play: Play) -> None:
        async def scene(world: World) -> None:
            expired = faulty(world, "B", "expired")
            async with world.machine("A") as a, world.machine("B", tls=world.tls("B", expired)) as b:
                queue = await orders(b)
                await send(a)
                await until_failed(a, "certificate has expired")
                for old, new in zip(files(expired), files(world.issued["B"]), strict=True):
                    old.write_bytes(new.read_bytes())
                daemon = b._runtime.daemon  # type: ignore[attr-defined]
                daemon.reload(daemon.config)
                assert await received(queue) == [b"1"]

        play(scene)

    def test_a_key_that_others_can_read_is_refused(self, play: Play) -> None:
        async def scene(world: World) -> None:
            world.issued["A"].key.chmod(0o640)
            with pytest.raises(ConfigError, match=r"\[tls\] tls_key: .*A.key: other users may access it"):
                async with world.machine("A"):
                    pass

        play(scene)


class TestStrangers:
    """They reach the TLS port of B, which accepts A only."""

    @pytest.mark.parametrize(
        ("fault", "reason"),
        [
            ("none", "PEER_DID_NOT_RETURN_A_CERTIFICATE"),
            ("authority", "unable to get local issuer certificate"),
            ("expired", "certificate has expired"),
            ("old", "UNSUPPORTED_PROTOCOL"),
        ],
    )
    def test_a_handshake_that_proves_nothing_fails(
        self, play: Play, caplog: pytest.LogCaptureFixture, fault: str, reason: str
    ) -> None:
        async def scene(world: World) -> None:
            async with world.machine("B") as b:
                context = client(world, None if fault == "none" else faulty(world, "A", fault))
                if fault == "old":
                    context.maximum_version = ssl.TLSVersion.TLSv1_2
                with suppress(OSError):
                    reader, writer = await asyncio.open_connection(THERE, TLS_PORT, ssl=context)
                    writer.write(establish(world.guids["A"]))
                    assert await reader.read() == b""
                    writer.transport.abort()
                await until(lambda: any(reason in text for text in reasons(caplog)))
                await until(lambda: not len(network(b)._tls_guests))
                assert network(b).failures["tls_handshake"] == 1

        play(scene)

    @pytest.mark.parametrize("data", [b"", b"GET / HTTP/1.1\r\n\r\n"], ids=str)
    def test_plain_text_gets_no_answer(
        self, play: Play, caplog: pytest.LogCaptureFixture, data: bytes
    ) -> None:
        async def scene(world: World) -> None:
            async with world.machine("B") as b:
                reader, writer = await asyncio.open_connection(THERE, TLS_PORT)
                writer.write(data + establish(world.guids["A"]))
                with suppress(ConnectionError):
                    assert await reader.read() == b""
                writer.transport.abort()
                await until(lambda: any("no TLS handshake" in text for text in reasons(caplog)))
                assert not b._runtime.daemon.protocol.sessions  # type: ignore[attr-defined]

        play(scene)

    def test_the_certificate_of_one_peer_does_not_prove_another(self, play: Play) -> None:
        async def scene(world: World) -> None:
            other = uuid4()
            issued = world.authority.issue(other, name="other")
            async with world.machine("B") as b:
                assert await refuses(world, issued, world.guids["A"])
                assert not await refuses(world, issued, other), "whom the authority names is who it is"
                assert await refuses(world, world.issued["A"], other)
                assert not await refuses(world, world.issued["A"], world.guids["A"])
                only = replace(b._runtime.daemon.config.access, only_peers=True)  # type: ignore[attr-defined]
                daemon = b._runtime.daemon  # type: ignore[attr-defined]
                daemon.reload(replace(daemon.config, access=only))
                assert await refuses(world, issued, other)
                assert not await refuses(world, world.issued["A"], world.guids["A"])

        play(scene)

    def test_handshakes_that_never_end_keep_nobody_out(self, play: Play) -> None:
        async def scene(world: World) -> None:
            limits = LimitOptions(connections=4, connections_per_address=4)
            async with world.machine("B", limits=limits) as b:
                silent = [await asyncio.open_connection(THERE, TLS_PORT) for _ in range(8)]
                assert not await refuses(world, world.issued["A"], world.guids["A"])
                assert len(network(b)._tls_guests) <= 4
                async with world.machine("A") as a:
                    queue = await orders(b)
                    await send(a)
                    assert await received(queue) == [b"1"]
                for _, writer in silent:
                    writer.transport.abort()

        play(scene)

    def test_a_handshake_has_a_deadline(self, play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("tiercel.server.network._TLS_HANDSHAKE_S", 0.05)

        async def scene(world: World) -> None:
            async with world.machine("B") as b:
                reader, writer = await asyncio.open_connection(THERE, TLS_PORT)
                writer.write(b"\x16\x03\x01")
                with suppress(ConnectionError):
                    assert await reader.read() == b""
                await until(lambda: not len(network(b)._tls_guests))
                writer.transport.abort()

        play(scene)


def faulty(world: World, name: str, fault: str) -> Issued:
    """A certificate that does not prove that its owner is the machine."""
    other = Authority(world.directory, "other")
    signer = other if fault == "authority" else world.authority
    guid = uuid4() if fault == "name" else world.guids[name]
    return signer.issue(guid, name=f"{fault}-{name}", is_expired=fault == "expired")


def files(issued: Issued) -> tuple[Path, Path]:
    return issued.certificate, issued.key


def reasons(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        str(record.tiercel_fields.get("reason", ""))
        for record in caplog.records
        if hasattr(record, "tiercel_fields")
    ]


def client(world: World, issued: Issued | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(world.authority.file))
    context.check_hostname = False
    if issued is not None:
        context.load_cert_chain(issued.certificate, issued.key)
    return context


def establish(guid: UUID) -> bytes:
    return EstablishConnection.of(EstablishConnectionHeader(guid, NULL_GUID, 0, 0x0110)).encode()


async def refuses(world: World, issued: Issued, guid: UUID) -> bool:
    """Whether B refuses a session of a peer with this certificate that claims the GUID."""
    reader, writer = await asyncio.open_connection(THERE, TLS_PORT, ssl=client(world, issued))
    writer.write(establish(guid))
    answer = decode_packet(await reader.readexactly(len(establish(guid))))
    assert isinstance(answer, EstablishConnection)
    writer.transport.abort()
    return answer.internal.is_refused


def _number(manager: Manager) -> int:
    engine = manager.driver.engine
    (queue,) = [each.queue for each in engine.queues.all() if each.queue.pathname and "orders" in str(each)]
    assert queue.private_queue_number is not None
    return queue.private_queue_number


def fingerprint(issued: Issued) -> str:
    data = ssl.PEM_cert_to_DER_cert(issued.certificate.read_text("ascii"))
    return hashlib.sha256(data).digest().hex(":").upper()
