from datetime import UTC, datetime
from uuid import UUID

import pytest

from tiercel.message_security.certificates import load_certificate
from tiercel.message_security.refusal import MessageRefusedError
from tiercel.message_security.signer import Signer
from tiercel.message_security.verifier import Verifier
from tiercel.model.codes import AuthenticationLevel, HashAlgorithm
from tiercel.model.errors import CannotSignDataExError
from tiercel.model.format_name import FormatName
from tiercel.model.identifiers import MessageId
from tiercel.model.message import Message
from tiercel.wire.message import encode_message
from tiercel.wire.user_message import UserMessage

from . import vectors
from .signing import KEY, certificate

OTHER = "capi/key_aes_sign_2048"


@pytest.fixture(scope="module")
def signer() -> Signer:
    return Signer.new("HERE", datetime(2026, 1, 1, tzinfo=UTC))


def test_a_new_key(signer: Signer) -> None:
    assert signer.key.key_size == 2048
    assert signer.certificate.subject == "CN=HERE"
    assert "key" not in repr(signer).replace("key=<", "")


def test_it_comes_back_from_pem(signer: Signer) -> None:
    again = Signer.parse(signer.pem())
    assert again.certificate == signer.certificate
    assert again.key.private_numbers() == signer.key.private_numbers()
    assert "PRIVATE" not in signer.certificate_pem()


@pytest.mark.parametrize(
    "text", ["", "noise", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"]
)
def test_what_cannot_be_read(text: str) -> None:
    with pytest.raises(CannotSignDataExError):
        Signer.parse(text)


def test_a_certificate_of_another_key() -> None:
    found = Signer(vectors.private_key(OTHER), load_certificate(certificate()))
    with pytest.raises(CannotSignDataExError, match="another key"):
        Signer.parse(found.pem())
    matching = Signer(vectors.private_key(KEY), load_certificate(certificate()))
    assert Signer.parse(matching.pem()).certificate == matching.certificate


def test_a_key_without_a_certificate(signer: Signer) -> None:
    with pytest.raises(CannotSignDataExError, match="certificate"):
        Signer.parse(signer.pem().replace(signer.certificate_pem(), ""))


LEVELS = [
    (AuthenticationLevel.SIG10, r"DIRECT=OS:there\private$\q"),
    (AuthenticationLevel.SIG20, r"DIRECT=OS:there\private$\q"),
    (AuthenticationLevel.SIG30, r"DIRECT=OS:a\q,DIRECT=OS:b\q"),
    (AuthenticationLevel.XML_SIG, "DIRECT=HTTP://there/msmq/private$/q"),
]


def signed(signer: Signer, level: AuthenticationLevel, name: str, body: bytes) -> UserMessage:
    first, *others = map(FormatName.parse, name.split(","))
    message = Message(body, destination_queue=first, extension=b"extension")
    message.destination_queues = (first, *others) if others else ()
    message.id = MessageId(UUID(int=1), 7)
    message.sender_certificate = signer.certificate.der
    message.hash_algorithm = (
        HashAlgorithm.SHA1 if level == AuthenticationLevel.XML_SIG else HashAlgorithm.SHA_512
    )
    signer.sign(message, UserMessage(encode_message(message)), level)
    return UserMessage(encode_message(message))


@pytest.mark.conformance("DMPR-082")
@pytest.mark.parametrize(("level", "name"), LEVELS, ids=[level.name for level, _ in LEVELS])
def test_every_level_is_verified_and_protects_the_body(
    signer: Signer, level: AuthenticationLevel, name: str
) -> None:
    """[MS-MQDMPR] 3.1.1.12; the generation that was verified is the one that was asked for."""
    verifier = Verifier()
    verifier.own_certificate = lambda: signer.certificate.der
    over_http = level == AuthenticationLevel.XML_SIG
    packet = signed(signer, level, name, b"a body")
    assert verifier.verify_own(packet, 1.0, over_http=over_http).level == level
    with pytest.raises(MessageRefusedError):
        verifier.verify_own(UserMessage(packet.data.replace(b"a body", b"A body")), 1.0, over_http=over_http)


@pytest.mark.conformance("DMPR-082")
def test_messages_are_not_signed_by_default() -> None:
    assert Message(b"").authentication_level is AuthenticationLevel.NONE
