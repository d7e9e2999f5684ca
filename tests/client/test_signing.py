"""`send(sign=True)`: signed with the key of the queue manager, and verified before it is sent."""

import asyncio
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import tiercel
import tiercel.aio
from message_security.signing import trust
from tiercel.message_security.certificates import load_certificate
from tiercel.message_security.signatures import hash_algorithm
from tiercel.message_security.signer import Signer
from tiercel.message_security.trust import Trust, TrustedCertificate
from tiercel.message_security.verdict import NOTHING
from tiercel.message_security.verifier import Verifier
from tiercel.model.codes import AuthenticationLevel, HashAlgorithm, QueueAccess, SenderIdType
from tiercel.model.errors import (
    CannotSignDataExError,
    FailVerifySignatureExError,
    MessageNotAuthenticatedError,
)
from tiercel.model.sid import SecurityIdentifier
from tiercel.wire.user_message import UserMessage

ALICE = SecurityIdentifier.parse("S-1-5-21-1-2-3-1001")
SIG20 = AuthenticationLevel.SIG20


@pytest.fixture
def manager(tmp_path: Path) -> Any:
    with tiercel.open(tmp_path / "data") as found:
        yield found


def packets(manager: Any) -> list[UserMessage]:
    """Those that wait to be sent to other computers."""
    engine = manager._runtime.driver.engine
    queues = [queue for queue in engine.queues.all() if queue.is_outgoing]
    return [
        UserMessage(seen.record.packet) for queue in queues for seen in engine.browsing.in_order(queue, 0)
    ]


def knowing(manager: Any) -> Verifier:
    """A receiver that knows the certificate of the queue manager."""
    own = load_certificate(manager._runtime.driver.signing_key.signer().certificate.der)
    known = Trust((TrustedCertificate("here", ALICE, own),))
    return Verifier(lambda: known)


@pytest.mark.parametrize("kind", [str, Path])
def test_a_program_signs_with_a_certificate_of_its_own(manager: Any, tmp_path: Path, kind: Any) -> None:
    """Named by its file; local queues verify it by the trust store, which has nobody here."""
    signer, path = Signer.new("shop", datetime.now(UTC)), tmp_path / "shop.pem"
    path.write_text(signer.pem())
    path.chmod(0o600)
    manager.queue(r"DIRECT=OS:there\private$\q").send(b"signed", sign=kind(path))
    (packet,) = packets(manager)
    known = Trust((TrustedCertificate("shop", ALICE, signer.certificate),))
    assert Verifier(lambda: known).verify(packet, 1).sender == ALICE.encode()
    assert not (tmp_path / "data" / "signing.pem").exists()
    path.chmod(0o644)
    with pytest.raises(CannotSignDataExError, match="chmod 600"):
        manager.queue(r"DIRECT=OS:there\private$\q").send(b"signed", sign=kind(path))


def test_a_queue_that_demands_authentication_takes_it(manager: Any, tmp_path: Path) -> None:
    orders = manager.create_queue("orders", authentication=True)
    with pytest.raises(MessageNotAuthenticatedError):
        orders.send(b"unsigned")
    orders.send(b"signed", sign=True)
    orders.send_many([b"1", b"2"], sign=True)
    assert stat.S_IMODE((tmp_path / "data" / "signing.pem").stat().st_mode) == 0o600
    found = [orders.receive(timeout=0) for _ in range(3)]
    assert [each.body for each in found] == [b"signed", b"1", b"2"]
    assert [each.authentication_level for each in found] == [SIG20] * 3


@pytest.mark.parametrize("ends", ["commit", "restart"])
def test_in_a_transaction(manager: Any, tmp_path: Path, ends: str) -> None:
    """The verdict is kept with the message until the commit, and after a restart."""
    orders = manager.create_queue("orders", transactional=True, authentication=True)
    with manager.transaction() as transaction:
        orders.send(b"1", transaction=transaction, sign=True)
        orders.send_many([b"2"], transaction=transaction, sign=True)
    if ends == "restart":
        manager.close()
        with tiercel.open(tmp_path / "data") as again:
            found = [again.queue("orders").receive(timeout=0) for _ in range(2)]
    else:
        found = [orders.receive(timeout=0) for _ in range(2)]
    assert [(each.body, each.authentication_level) for each in found] == [(b"1", SIG20), (b"2", SIG20)]


@pytest.mark.conformance("MQQB-213")
@pytest.mark.parametrize("is_transactional", [False, True])
def test_the_receiver_verifies_it(manager: Any, *, is_transactional: bool) -> None:
    there = manager.queue(r"DIRECT=OS:there\private$\orders")
    manager.create_queue("answers")
    answers = tiercel.FormatName.parse(r"DIRECT=OS:.\private$\answers")
    message = tiercel.Message(b"body", label="label", priority=7, response_queue=answers)
    if is_transactional:
        with manager.transaction() as transaction:
            there.send(message, transaction=transaction, sign=True)
    else:
        there.send(message, sign=True)
    (packet,) = packets(manager)
    found = knowing(manager).verify(packet, 1)
    assert (found.level, found.sender) == (SIG20, ALICE.encode())
    assert packet.sender == (SenderIdType.NONE, b"")
    assert hash_algorithm(packet) == HashAlgorithm.SHA_512
    stranger = trust(bob=ALICE)
    assert Verifier(lambda: stranger).verify(packet, 1) is NOTHING


@pytest.mark.conformance("MQQB-213", "DMPR-089")
def test_a_list_of_queues_has_one_signature(manager: Any) -> None:
    both = manager.queue(r"DIRECT=OS:there\private$\a,DIRECT=OS:elsewhere\private$\b")
    both.send(b"body", sign=True)
    found = packets(manager)
    assert len(found) == 2
    for packet in found:
        assert not packet.has_signature
        assert knowing(manager).verify(packet, 1).level == AuthenticationLevel.SIG30


def test_a_signature_of_another_message_is_not_sent(manager: Any) -> None:
    orders = manager.create_queue("orders")
    message = tiercel.Message(b"body")
    orders.send(message, sign=True)
    message.body = b"other"
    with pytest.raises(FailVerifySignatureExError, match="another message"):
        orders.send(message)
    assert orders.receive(timeout=0).body == b"body"


def test_a_certificate_of_the_programs_own_counts_only_if_it_is_known(manager: Any, tmp_path: Path) -> None:
    """The message is sent, but nobody is authenticated by it."""
    with tiercel.open(tmp_path / "other") as other:
        open_queue, strict = manager.create_queue("open"), manager.create_queue("strict", authentication=True)
        signer = other._runtime.driver.signing_key.signer()
    driver = manager._runtime.driver
    for queue, is_taken in ((open_queue, True), (strict, False)):
        message = tiercel.Message(b"body")
        packet, level = driver.run(
            lambda queue=queue, message=message: driver.engine.sending.to_sign(
                queue.opened(QueueAccess.SEND),
                message,
                signer.certificate.der,
                is_transactional=False,
            )
        )
        signer.sign(message, packet, level)
        if is_taken:
            queue.send(message)
            assert queue.receive(timeout=0).authentication_level == 0
        else:
            with pytest.raises(MessageNotAuthenticatedError):
                queue.send(message)


def test_with_asyncio(tmp_path: Path) -> None:
    async def main() -> list[tuple[bytes, int]]:
        async with await tiercel.aio.open(tmp_path / "data") as manager:
            orders = await manager.create_queue("orders", authentication=True)
            for i in range(3):
                await orders.send(b"%d" % i, sign=True)
            found = [await orders.receive(timeout=0) for _ in range(3)]
            return [(each.body, each.authentication_level) for each in found]

    assert asyncio.run(main()) == [(b"0", 3), (b"1", 3), (b"2", 3)]
