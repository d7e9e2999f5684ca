from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from tiercel.message_security.certificates import load_certificate, make_certificate, pem_to_der
from tiercel.message_security.rsa_keys import public_blob
from tiercel.model.errors import InvalidCertificateError

from . import vectors

KEY = "capi/key_enh_sign_1024"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("name", vectors.names("capi/signature_*"))
def test_certificates_of_cryptoapi(name: str) -> None:
    """They are signed with MD5, SHA-1 or SHA-256, and their algorithm has no parameters."""
    for known in vectors.load(name)["certificates"].values():
        found = load_certificate(bytes.fromhex(known["der"]))
        assert found.key.public_numbers() == vectors.private_key(name).public_key().public_numbers()
        assert public_blob(found.key).encode().hex() == known["key_blob_from_certificate"]
        assert found.subject == known["subject"]


def test_an_internal_certificate() -> None:
    key = vectors.private_key(KEY)
    found = load_certificate(make_certificate(key, "orders" * 20, NOW, days=365))
    assert found.key.public_numbers() == key.public_key().public_numbers()
    assert found.subject == f"CN={('orders' * 20)[:64]}"
    assert found.not_before < NOW
    assert found.not_after == NOW + timedelta(days=365)
    assert len(found.fingerprint) == 32 * 3 - 1


def test_pem_and_der() -> None:
    der = make_certificate(vectors.private_key(KEY), "orders", NOW, days=1)
    pem = x509.load_der_x509_certificate(der).public_bytes(Encoding.PEM)
    assert pem_to_der(pem) == pem_to_der(der) == der
    with pytest.raises(InvalidCertificateError):
        pem_to_der(pem.replace(b"M", b"!"))


def test_a_certificate_without_an_rsa_key_is_refused() -> None:
    key = Ed25519PrivateKey.generate()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "x")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, NOW, NOW)
    with pytest.raises(InvalidCertificateError, match="not an RSA key"):
        load_certificate(builder.sign(key, None).public_bytes(Encoding.DER))


@pytest.mark.parametrize("data", [b"", b"\x30", b"\x30\x80", bytes(65536)])
def test_what_is_not_a_certificate_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidCertificateError):
        load_certificate(data)


def test_an_unexpected_error_is_a_refusal_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library reads a stranger's bytes, and an unknown error would end the engine."""

    def fail(_der: bytes) -> None:
        raise RuntimeError("unexpected")

    monkeypatch.setattr(x509, "load_der_x509_certificate", fail)
    with pytest.raises(InvalidCertificateError, match="unexpected"):
        load_certificate(b"\x30\x01")


@given(st.data())
def test_any_change_gives_a_certificate_or_the_one_error(data: st.DataObject) -> None:
    name = vectors.names("capi/signature_enh*")[0]
    der = bytearray.fromhex(vectors.load(name)["certificates"]["sha1"]["der"])
    for _ in range(data.draw(st.integers(1, 4))):
        der[data.draw(st.integers(0, len(der) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = load_certificate(bytes(der))
    except InvalidCertificateError:
        return
    assert found.key.key_size <= 4096
