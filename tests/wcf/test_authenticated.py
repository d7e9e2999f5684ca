"""Endpoints whose messages are signed: [MS-NMFMB] 2.2.3.4, 2.2.3.5, 3.2.5.1."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tiercel import wcf
from tiercel.message_security.signatures import hash_algorithm
from tiercel.message_security.signer import Signer
from tiercel.message_security.trust import Trust, TrustedCertificate
from tiercel.message_security.verifier import Verifier
from tiercel.model.codes import (
    AuthenticationLevel,
    EncryptionAlgorithm,
    HashAlgorithm,
    PrivacyLevel,
    SenderIdType,
)
from tiercel.model.errors import (
    CannotSignDataExError,
    InvalidParameterError,
    UnsupportedOperationError,
)
from tiercel.model.sid import SecurityIdentifier
from tiercel.wire.user_message import UserMessage

from .conftest import ADDRESS, number_of, send

ALICE = SecurityIdentifier.parse("S-1-5-21-1-2-3-1001")
ELSEWHERE = "net.msmq://there/private/orders"


@pytest.fixture(scope="module")
def signer() -> Signer:
    return Signer.new("alice", datetime.now(UTC))


@pytest.fixture
def pem(signer: Signer, tmp_path: Path) -> Path:
    path = tmp_path / "alice.pem"
    path.touch(0o600)
    path.write_text(signer.pem())
    return path


def outgoing(qm: Any) -> UserMessage:
    """The packet that waits to be sent to another computer."""
    engine = qm._runtime.driver.engine
    (queue,) = [each for each in engine.queues.all() if each.is_outgoing]
    (seen,) = engine.browsing.in_order(queue, 0)
    return UserMessage(seen.record.packet)


def knows(signer: Signer) -> Verifier:
    """A receiver that knows the certificate."""
    trust = Trust((TrustedCertificate("alice", ALICE, signer.certificate),))
    return Verifier(lambda: trust)


@pytest.mark.conformance("NMFMB-013", "NMFMB-019")
def test_a_client_signs_and_the_service_takes_it(qm: Any, queue: Any) -> None:
    orders = wcf.Endpoint(qm, ADDRESS, authenticated=True)
    send(orders, 1, 2)
    found = queue.peek(timeout=0)
    assert found.authentication_level == AuthenticationLevel.SIG20  # verified
    assert found.hash_algorithm == HashAlgorithm.SHA_256
    assert found.privacy_level == PrivacyLevel.NONE
    seen: list[int] = []
    service = wcf.Service(orders)
    service.operation("*")(lambda message: seen.append(number_of(message)))
    assert service.run(timeout=0) == 2
    assert seen == [1, 2]


def test_a_session_is_signed_as_one_message(qm: Any, queue: Any) -> None:
    with wcf.Endpoint(qm, ADDRESS, authenticated=True).client() as client, client.session() as session:
        session.send("a")
        session.send("b")
    assert queue.count == 1
    assert queue.peek(timeout=0).authentication_level == AuthenticationLevel.SIG20


@pytest.mark.conformance("NMFMB-013")
@pytest.mark.parametrize(
    ("cipher", "level", "algorithm"),
    [
        ("rc4", PrivacyLevel.ENHANCED, EncryptionAlgorithm.RC4),
        ("aes", PrivacyLevel.ADVANCED, EncryptionAlgorithm.AES256),
    ],
)
def test_encrypted_messages_ask_the_queue_manager_for_it(
    qm: Any, queue: Any, cipher: str, level: int, algorithm: int
) -> None:
    """To a queue of this computer nothing is encrypted, and the properties stay to be seen."""
    send(
        wcf.Endpoint(
            qm, ADDRESS, authenticated=True, protection="encrypt_and_sign", encryption_algorithm=cipher
        ),
        1,
    )
    found = queue.peek(timeout=0)
    assert (found.privacy_level, found.encryption_algorithm) == (level, algorithm)
    assert found.authentication_level == AuthenticationLevel.SIG20


@pytest.mark.conformance("NMFMB-013")
@pytest.mark.parametrize("name", ["sha1", "sha256", "sha512"])
def test_the_hash_algorithm_can_be_chosen(qm: Any, signer: Signer, pem: Path, name: str) -> None:
    send(wcf.Endpoint(qm, ELSEWHERE, authenticated=True, hash_algorithm=name, certificate=pem), 1)
    packet = outgoing(qm)
    assert knows(signer).verify(packet, 1).is_authenticated
    expected = {"sha1": HashAlgorithm.SHA1, "sha256": HashAlgorithm.SHA_256, "sha512": HashAlgorithm.SHA_512}
    assert hash_algorithm(packet) == expected[name]


@pytest.mark.conformance("NMFMB-016")
def test_with_a_certificate_the_message_carries_it_and_names_no_sender(
    qm: Any, signer: Signer, pem: Path
) -> None:
    send(wcf.Endpoint(qm, ELSEWHERE, authenticated=True, certificate=pem), 1)
    packet = outgoing(qm)
    assert packet.sender == (SenderIdType.NONE, b"")
    assert packet.security_data()[3] == signer.certificate.der
    found = knows(signer).verify(packet, 1)
    assert (found.is_authenticated, found.sender) == (True, ALICE.encode())


@pytest.mark.conformance("NMFMB-016")
def test_without_its_certificate_nothing_is_sent(qm: Any, signer: Signer, pem: Path) -> None:
    with pytest.raises(CannotSignDataExError, match=r"missing\.pem: cannot be read"):
        wcf.Endpoint(qm, ELSEWHERE, authenticated=True, certificate=pem.with_name("missing.pem"))
    pem.write_text(signer.certificate_pem())
    with pytest.raises(CannotSignDataExError, match="signing key"):
        wcf.Endpoint(qm, ELSEWHERE, authenticated=True, certificate=pem)
    pem.write_text(signer.pem())
    pem.chmod(0o644)
    with pytest.raises(CannotSignDataExError, match="other users may access it"):
        wcf.Endpoint(qm, ELSEWHERE, authenticated=True, certificate=pem)


@pytest.mark.conformance("NMFMB-015")
def test_with_windows_domain_the_message_names_the_account_of_its_sender(qm: Any) -> None:
    send(wcf.Endpoint(qm, ELSEWHERE, authenticated=True, windows_domain=True), 1)
    packet = outgoing(qm)
    driver = qm._runtime.driver
    sid = driver.token.user.encode()
    assert packet.sender == (SenderIdType.SID, sid)
    own = driver.signing_key.signer()
    known = Trust((TrustedCertificate("own", driver.token.user, own.certificate),))
    assert Verifier(lambda: known).verify(packet, 1).sender == sid


@pytest.mark.conformance("NMFMB-020")
def test_signing_needs_no_directory(qm: Any, caplog: Any) -> None:
    """As in .NET, and unlike the text (trap 13)."""
    send(wcf.Endpoint(qm, ELSEWHERE, authenticated=True), 1)
    assert outgoing(qm).has_signature
    assert not caplog.records


@pytest.mark.conformance("NMFMB-020")
@pytest.mark.parametrize("settings", [{"windows_domain": True}, {"protection": "encrypt_and_sign"}])
def test_what_windows_does_by_its_directory_is_warned_of_without_one(
    qm: Any, caplog: Any, settings: dict[str, Any]
) -> None:
    wcf.Endpoint(qm, ELSEWHERE, authenticated=True, **settings).client()
    assert "without a directory" in caplog.text


def test_a_remote_connection_cannot_sign() -> None:
    endpoint = wcf.Endpoint(object(), ELSEWHERE, exactly_once=False, authenticated=True)
    with pytest.raises(UnsupportedOperationError, match="a remote connection cannot sign messages"):
        endpoint.client()


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"protection": "encrypt_and_sign", "authenticated": False}, "encrypted messages are signed, too"),
        ({"protection": "encrypt_and_sign", "transfer": "srmp"}, "SRMP cannot encrypt messages"),
        ({"hash_algorithm": "crc"}, "md5, sha1, sha256, sha512"),
        ({"protection": "none"}, "sign, encrypt_and_sign"),
    ],
)
def test_settings_that_cannot_be(qm: Any, settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidParameterError, match=problem):
        wcf.Endpoint(qm, ADDRESS, **{"authenticated": True, **settings})


def test_a_message_names_its_account_or_its_certificate(qm: Any, pem: Path) -> None:
    with pytest.raises(InvalidParameterError, match="either an account"):
        wcf.Endpoint(qm, ADDRESS, authenticated=True, windows_domain=True, certificate=pem)
