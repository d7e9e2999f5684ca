import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiercel.message_security import ciphers
from tiercel.message_security.ciphers import HAS_RC2_40, KEY_BYTES, SessionKey
from tiercel.message_security.refusal import MessageRefusedError
from tiercel.message_security.rsa_keys import unwrap_key, wrap_key
from tiercel.model.codes import EncryptionAlgorithm, MessageClass
from tiercel.wire.key_blobs import SimpleBlob

from . import vectors

needs_rc2_40 = pytest.mark.skipif(not HAS_RC2_40, reason="RC2 with 40 bits needs tiercel[rc2]")
SESSIONS = [
    pytest.param(name, marks=needs_rc2_40) if "rc2_40" in name or "effective40" in name else name
    for name in vectors.names("capi/session_*")
]
SIZES = [(algorithm, size) for algorithm, sizes in KEY_BYTES.items() for size in sizes]


@pytest.mark.parametrize("name", SESSIONS)
def test_bodies_of_cryptoapi(name: str) -> None:
    """The session key is unwrapped, every body decrypted, and encrypted to the same bytes again."""
    known = vectors.load(name)
    blob = SimpleBlob.decode(vectors.octets(name, "simple_blob"))
    key = unwrap_key(vectors.private_key(name), blob.encrypted_key)
    assert key == vectors.octets(name, "session_key")
    session = SessionKey(blob.session_key_algorithm, key)
    for case in known["cases"]:
        body, encrypted = bytes.fromhex(case["body"]), bytes.fromhex(case["encrypted"])
        if "effective40" not in name:
            assert session.encrypt(body) == encrypted
        assert session.decrypt(encrypted) == body


@pytest.mark.parametrize(("algorithm", "size"), SIZES)
@given(body=st.binary(max_size=100))
def test_round_trips(algorithm: int, size: int, body: bytes) -> None:
    session = SessionKey(algorithm, bytes(range(size)))
    if algorithm == EncryptionAlgorithm.RC2 and size == 5 and not HAS_RC2_40:
        return
    assert session.decrypt(session.encrypt(body)) == body


@pytest.mark.parametrize("case", vectors.load("capi/refused_bodies")["cases"], ids=lambda case: case["what"])
def test_bodies_that_cryptoapi_refuses(case: dict[str, str]) -> None:
    private = vectors.private_key_of_hex(case["private_key_blob"])
    blob = SimpleBlob.decode(bytes.fromhex(case["simple_blob"]))
    key = unwrap_key(private, blob.encrypted_key)
    if len(key) not in KEY_BYTES[blob.session_key_algorithm]:
        assert case["what"] == "blob for another key"
        return
    with pytest.raises(MessageRefusedError) as caught:
        SessionKey(blob.session_key_algorithm, key).decrypt(bytes.fromhex(case["encrypted"]))
    assert caught.value.reason is MessageClass.NACK_BAD_ENCRYPTION


@pytest.mark.parametrize("data", [b"", b"x" * 15, b"x" * 17])
def test_what_is_not_whole_blocks_is_refused(data: bytes) -> None:
    with pytest.raises(MessageRefusedError, match="blocks of 16"):
        SessionKey(EncryptionAlgorithm.AES256, bytes(32)).decrypt(data)


def test_a_key_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="16 bytes are not a key"):
        SessionKey(EncryptionAlgorithm.AES256, bytes(16))


def test_keys_are_not_shown() -> None:
    assert "key=" not in repr(SessionKey(EncryptionAlgorithm.RC4, b"secretsecretsecr"))


def test_a_wrong_private_key_gives_noise_and_no_error() -> None:
    """The lengths vary, and few of them are those of a key: the caller has to check."""
    other = vectors.private_key("capi/key_enh_keyx_1024")
    public = vectors.private_key("capi/key_aes_keyx_1024").public_key()
    found = [unwrap_key(other, wrap_key(public, bytes(16))) for _ in range(50)]
    assert len({len(key) for key in found}) > 10
    assert unwrap_key(other, bytes(64)) == b""
    assert unwrap_key(other, b"\xff" * 128) == b""


def test_rc2_with_40_bits_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ciphers, "HAS_RC2_40", False)
    key = SessionKey(EncryptionAlgorithm.RC2, bytes(5))
    with pytest.raises(MessageRefusedError, match=r"tiercel\[rc2\]") as caught:
        key.decrypt(bytes(8))
    assert caught.value.reason is MessageClass.NACK_UNSUPPORTED_CRYPTO_PROVIDER
    with pytest.raises(MessageRefusedError, match="padding"):
        SessionKey(EncryptionAlgorithm.RC2, bytes(16)).decrypt(bytes(8))
