from datetime import timedelta

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tiercel.message_security import exchange_keys, rsa_keys
from tiercel.message_security.exchange_keys import ExchangeKeyError, KeyRing
from tiercel.message_security.providers import ADVANCED, BASE, ENHANCED
from tiercel.message_security.rsa_keys import public_key_of
from tiercel.wire.key_blobs import PublicKeyBlob
from tiercel.wire.public_keys import MQDSPublicKeys

from .encrypting import MADE, ring

DAY = timedelta(days=1)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long keys take some tenths of a second."""
    monkeypatch.setattr(exchange_keys, "_BITS", {ADVANCED: 1024, ENHANCED: 1024})


def test_the_text_comes_back() -> None:
    text = ring().text()
    found = KeyRing.parse(text)
    assert found.text() == text
    assert [each.provider for each in found.keys] == [ADVANCED, ENHANCED, BASE]
    assert {each.made for each in found.keys} == {MADE}
    assert found.fingerprint == ring().fingerprint
    assert KeyRing.parse("").keys == ()


@pytest.mark.conformance("DMPR-125")
def test_the_published_list_has_one_key_for_each_provider() -> None:
    """512, 1024 and 1024 bits as on Windows; those that are made here have other lengths."""
    published = MQDSPublicKeys.decode(ring().published().encode())
    assert published.count == 3
    shown = {key.provider_name: public_key_of(PublicKeyBlob.decode(key.key)) for key in published.keys}
    assert {name: key.key_size for name, key in shown.items()} == {
        "Microsoft Base Cryptographic Provider v1.0": 512,
        "Microsoft Enhanced Cryptographic Provider v1.0": 1024,
        "Microsoft Enhanced RSA and AES Cryptographic Provider": 1024,
    }
    assert [key.provider_type for key in published.keys] == [24, 1, 1]


@pytest.mark.conformance("DMPR-278")
def test_keys_are_those_of_cryptography(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def generate(bits: int) -> object:
        sizes.append(bits)
        return ring(ADVANCED).keys[0].key

    monkeypatch.setattr(rsa_keys, "generate", generate)
    made = KeyRing().with_missing(MADE, legacy=False)
    assert ([each.provider for each in made.keys], sizes) == ([ADVANCED], [2048])
    more = made.with_missing(MADE, legacy=True)
    assert {each.provider for each in more.keys} == {ADVANCED, ENHANCED}
    assert sizes == [2048, 1024]
    assert more.with_missing(MADE, legacy=True) is more


@pytest.mark.usefixtures("quick")
def test_an_old_key_is_kept_for_thirty_days() -> None:
    first = ring(ADVANCED, BASE)
    second = first.rotated(MADE + DAY)
    assert len(second.exchange_keys(ADVANCED)) == 2
    assert second.exchange_keys(ADVANCED)[1] is first.keys[0].key
    assert second.published().keys[0].key != first.published().keys[0].key
    assert second.exchange_keys(BASE) == first.exchange_keys(BASE)
    again = KeyRing.parse(second.text())
    assert [(each.provider, each.retired) for each in again.keys] == [
        (ADVANCED, None),
        (ADVANCED, MADE + DAY),
        (BASE, None),
    ]
    assert len(again.rotated(MADE + 30 * DAY).exchange_keys(ADVANCED)) == 3
    assert len(again.rotated(MADE + 32 * DAY).exchange_keys(ADVANCED)) == 2


@pytest.mark.usefixtures("quick")
def test_old_keys_can_be_forgotten_at_once() -> None:
    found = ring(ADVANCED, BASE).rotated(MADE + DAY, keep_old=False)
    assert [(each.provider, each.retired) for each in found.keys] == [(ADVANCED, None), (BASE, None)]


PEM = ring(ADVANCED).text().partition("\n")[2]
NOT_RSA = (
    generate_private_key(SECP256R1())
    .private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    .decode()
)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("noise", "expected private keys"),
        (PEM, "expected private keys"),
        (f"# best 2026-01-01T00:00:00Z\n{PEM}", "'best' is not a provider"),
        (f"# advanced yesterday\n{PEM}", "cannot be read"),
        ("# advanced 2026-01-01T00:00:00Z\n-----BEGIN X\nabc\n-----END X\n", "cannot be read"),
        (f"# advanced 2026-01-01T00:00:00Z\n{NOT_RSA}", "not an RSA key"),
    ],
)
def test_invalid_texts(text: str, problem: str) -> None:
    with pytest.raises(ExchangeKeyError, match=problem) as caught:
        KeyRing.parse(text)
    assert "\n" not in str(caught.value)


def test_a_private_key_is_not_in_the_repr() -> None:
    assert "RSAPrivateKey" not in repr(ring().keys[0])
