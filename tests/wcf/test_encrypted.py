"""Endpoints that encrypt and sign, between two queue managers."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from server.test_encrypted_messages import ORDERS, PATIENCE_S, THERE, World
from tiercel.message_security import exchange_keys
from tiercel.message_security.providers import ADVANCED, ENHANCED
from tiercel.model.codes import QueuePrivacyLevel
from tiercel.model.errors import PublicKeyNotFoundError
from tiercel.wcf import Envelope, aio

from .conftest import ACTION

ADDRESS = f"net.msmq://{THERE}/private/orders"
TEXT = "for your eyes only"


@pytest.mark.conformance("NMFMB-013")
def test_encrypted_on_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The queue takes encrypted messages only. RC4, which the binding asks for, is off: AES is used."""
    monkeypatch.setattr(exchange_keys, "_BITS", {ADVANCED: 1024, ENHANCED: 1024})
    served: list[Any] = []

    async def main() -> None:
        world = World(tmp_path)
        async with (
            asyncio.timeout(PATIENCE_S),
            await world.open("A") as a,
            await world.open("B") as b,
        ):
            await b.create_queue(ORDERS, transactional=True, privacy_level=QueuePrivacyLevel.BODY)
            sender = aio.Endpoint(a, ADDRESS, authenticated=True, protection="encrypt_and_sign")
            async with sender.client() as client:
                with pytest.raises(PublicKeyNotFoundError):
                    await client.send(ACTION, {"text": TEXT})
                world.know(b)
                await client.send(ACTION, {"text": TEXT})
            service = aio.Service(aio.Endpoint(b, "net.msmq://localhost/private/orders"))

            @service.operation(ACTION)
            async def submit(message: Envelope) -> None:
                served.append(message.arguments)

            while not served:
                await service.run(timeout=0.1)

    asyncio.run(main())
    assert served == [{"text": TEXT}]
