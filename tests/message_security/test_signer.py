from datetime import UTC, datetime

import pytest

from tiercel.message_security.certificates import load_certificate
from tiercel.message_security.signer import Signer
from tiercel.model.errors import CannotSignDataExError

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
