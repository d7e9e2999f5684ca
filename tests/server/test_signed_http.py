"""Signed messages over HTTP between two queue managers, on real sockets."""

import asyncio
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from addresses import own_address
from tiercel import aio
from tiercel.binary.settings import Peer
from tiercel.message_security.trust import Trust, TrustedCertificate
from tiercel.model.codes import AuthenticationLevel
from tiercel.model.sid import SecurityIdentifier
from tiercel.server import trust_file
from tiercel.server.config import Config, SecurityOptions, SrmpOptions
from tiercel.server.daemon import Daemon
from tiercel.wcf import Envelope
from tiercel.wcf import aio as wcf

from .scripted import configured

PATIENCE_S = 60.0  # only a test that fails waits that long
HERE, THERE = own_address(4), own_address(5)
PORT = 8080
ALICE = SecurityIdentifier.parse("S-1-5-21-1-2-3-1001")
XML_SIG = AuthenticationLevel.XML_SIG


async def machine(directory: Path, host: str, **sections: Any) -> Any:
    srmp = SrmpOptions(
        enabled=True,
        host=host,
        port=PORT,
        http_url=f"http://{host}:{PORT}",
        xml_signatures=True,
        retry_ms=50,
    )
    config = Config(srmp=srmp, **sections)
    return await aio.open(directory, computer_name="M", listen=f"{host}:1801", config=config)


@pytest.mark.conformance("NMFMB-014", "SRMP-096")
def test_a_queue_that_demands_authentication_takes_them(tmp_path: Path) -> None:
    """From a program, in a stream, and from a WCF client."""
    trust = tmp_path / "trust"
    served: list[tuple[object, int]] = []

    async def main() -> list[tuple[bytes, int]]:
        async with asyncio.timeout(PATIENCE_S), await machine(tmp_path / "a", HERE) as a:
            certificate = a.driver.signing_key.signer().certificate
            entry = TrustedCertificate("shop", ALICE, certificate)
            trust_file.change(trust, lambda _: Trust((entry,)), create=True)
            peer = Peer(name="shop", guid=a.driver.engine.queue_manager.identifier, signers=("shop",))
            security = SecurityOptions(trust=str(trust))
            async with await machine(tmp_path / "b", THERE, peers=(peer,), security=security) as b:
                plain = await b.create_queue(r".\private$\plain", authentication=True)
                stream = await b.create_queue(r".\private$\stream", authentication=True, transactional=True)
                url = f"DIRECT=HTTP://{THERE}:{PORT}/msmq/private$"
                await a.queue(f"{url}/plain").send(b"plain", sign=True)
                async with a.transaction() as transaction:
                    for number in range(3):
                        await a.queue(f"{url}/stream").send(
                            b"%d" % number, transaction=transaction, sign=True
                        )
                messages = [await plain.receive(PATIENCE_S)]
                messages += [await stream.receive(PATIENCE_S) for _ in range(3)]

                address = f"net.msmq://{THERE}:{PORT}/private/stream"
                client = wcf.Endpoint(a, address, authenticated=True, transfer="srmp").client()
                async with client:
                    await client.send("http://example.org/IPayments/Pay", {"amount": 7})
                service = wcf.Service(
                    wcf.Endpoint(b, "net.msmq://localhost/private/stream", authenticated=True)
                )

                @service.operation("http://example.org/IPayments/Pay")
                def pay(message: Envelope) -> None:
                    assert message.message is not None
                    served.append((message.arguments, message.message.authentication_level))

                while not served:
                    await service.run(timeout=0.1)
                return [(each.body, each.authentication_level) for each in messages]

    assert asyncio.run(main()) == [(b, XML_SIG) for b in (b"plain", b"0", b"1", b"2")]
    assert served == [({"amount": 7}, XML_SIG)]


def test_signers_are_reloaded(tmp_path: Path) -> None:
    srmp = {"enabled": True, "host": HERE, "port": 0}

    async def main() -> list[Any]:
        config = configured(tmp_path, srmp=srmp)
        async with Daemon(config) as daemon:
            assert daemon.http is not None
            context = daemon.http.protocol._context
            before = context.settings.signers
            peers = (Peer(name="shop", guid=UUID(int=1), signers=("shop",)),)
            daemon.reload(configured(tmp_path, srmp=srmp, peers=peers))  # type: ignore[arg-type]
            await daemon.call(lambda _: None)
            return [before, context.settings.signers]

    assert asyncio.run(main()) == [{}, {UUID(int=1): ("shop",)}]
