"""RSA as CryptoAPI does it: PKCS #1 v1.5, every number little-endian (MQQB T57).

`cryptography` does the mathematics. What is added here is the byte order, the key blobs and the limits: a
certificate is a stranger's, and a key with huge numbers would stop the queue manager for seconds.
"""

from cryptography.exceptions import InternalError, InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import (
    RSAPrivateKey,
    RSAPrivateNumbers,
    RSAPublicKey,
    RSAPublicNumbers,
    generate_private_key,
)
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed

from tiercel.model.codes import HashAlgorithm
from tiercel.model.errors import CannotSignDataExError, CorruptedSecurityDataError
from tiercel.wire.key_blobs import RSA_KEY_EXCHANGE, PrivateKeyBlob, PublicKeyBlob

LEAST_BITS = 512
MOST_BITS = 4096
_EXPONENT = 65537
_MOST_EXPONENT = 0xFFFFFFFF  # a PUBLICKEYBLOB has 32 bits for it
_PADDING = PKCS1v15()

# MD2 and MD4 are missing on purpose: no implementation that is kept up offers them.
_HASHES: dict[int, hashes.HashAlgorithm] = {
    HashAlgorithm.MD5: hashes.MD5(),  # noqa: S303  # for old senders, only where the configuration allows it
    HashAlgorithm.SHA1: hashes.SHA1(),  # noqa: S303  # the same
    HashAlgorithm.SHA_256: hashes.SHA256(),
    HashAlgorithm.SHA_512: hashes.SHA512(),
}
_DIGEST_INFO_BYTES = {
    HashAlgorithm.MD5: 34,
    HashAlgorithm.SHA1: 35,
    HashAlgorithm.SHA_256: 51,
    HashAlgorithm.SHA_512: 83,
}
_LEAST_PADDING_BYTES = 11


def generate(bits: int) -> RSAPrivateKey:
    return generate_private_key(_EXPONENT, bits)


def check_public_key(key: object) -> RSAPublicKey:
    """The key, if it is an RSA key that verifies in bounded time."""
    if not isinstance(key, RSAPublicKey):
        raise CorruptedSecurityDataError("public key", problem="it is not an RSA key")
    if not LEAST_BITS <= key.key_size <= MOST_BITS:
        limit = f"{LEAST_BITS} to {MOST_BITS} bits"
        raise CorruptedSecurityDataError("RSA key", limit=limit, present=f"{key.key_size} bits")
    if key.public_numbers().e > _MOST_EXPONENT:
        raise CorruptedSecurityDataError("RSA key", problem="its public exponent has more than 32 bits")
    return key


# Blobs


def public_key_of(blob: PublicKeyBlob) -> RSAPublicKey:
    numbers = RSAPublicNumbers(blob.public_exponent, blob.modulus_number)
    if not LEAST_BITS <= blob.bit_length <= MOST_BITS:
        limit = f"{LEAST_BITS} to {MOST_BITS} bits"
        raise CorruptedSecurityDataError("RSA key", limit=limit, present=f"{blob.bit_length} bits")
    try:
        return check_public_key(numbers.public_key())
    except (ValueError, UnsupportedAlgorithm) as problem:
        raise CorruptedSecurityDataError("PUBLICKEYBLOB", problem=f"{problem}") from None


def private_key_of(blob: PrivateKeyBlob) -> RSAPrivateKey:
    p, q, dp, dq, iq, d = (
        int.from_bytes(number, "little")
        for number in (
            blob.prime_1,
            blob.prime_2,
            blob.exponent_1,
            blob.exponent_2,
            blob.coefficient,
            blob.private_exponent,
        )
    )
    public = RSAPublicNumbers(blob.public_exponent, int.from_bytes(blob.modulus, "little"))
    try:
        return RSAPrivateNumbers(p, q, d, dp, dq, iq, public).private_key()
    except ValueError as problem:
        raise CorruptedSecurityDataError("PRIVATEKEYBLOB", problem=f"{problem}") from None


def public_blob(key: RSAPublicKey, key_type: int = RSA_KEY_EXCHANGE) -> PublicKeyBlob:
    """[MS-MQQB] 2.4.1"""
    numbers = key.public_numbers()
    return PublicKeyBlob.of(numbers.n, numbers.e, key_type=key_type)


# Signatures


def sign_hash(key: RSAPrivateKey, digest: bytes, algorithm: int) -> bytes:
    """The signature of a hash, little-endian as CryptSignHash returns it."""
    known = _HASHES.get(algorithm)
    if known is None:
        raise CannotSignDataExError("message", problem=f"hash algorithm 0x{algorithm:04x} is not supported")
    if key.key_size // 8 < _DIGEST_INFO_BYTES[HashAlgorithm(algorithm)] + _LEAST_PADDING_BYTES:
        problem = f"a key of {key.key_size} bits is too short for {HashAlgorithm(algorithm).name}"
        raise CannotSignDataExError("message", problem=problem, fix="use a longer key")
    return key.sign(digest, _PADDING, Prehashed(known))[::-1]


def signed_hash(key: RSAPublicKey, signature: bytes, algorithm: int) -> bytes | None:
    """The hash that a signature is of, or None if the key did not make it with that algorithm.

    The order of its bytes is not specified. CryptoAPI's is little-endian; the other is accepted as well.
    """
    known = _HASHES.get(algorithm)
    if known is None or len(signature) != (key.key_size + 7) // 8:
        return None
    for octets in (signature[::-1], signature):
        try:
            return key.recover_data_from_signature(octets, _PADDING, known)
        except (InvalidSignature, UnsupportedAlgorithm, InternalError, ValueError):
            continue
    return None


# Session keys


def wrap_key(key: RSAPublicKey, session_key: bytes) -> bytes:
    """SIMPLEBLOB.encryptedKey, [MS-MQQB] 2.4.2."""
    return key.encrypt(session_key, _PADDING)[::-1]


def unwrap_key(key: RSAPrivateKey, encrypted_key: bytes) -> bytes:
    """The session key, or noise of any length if it was encrypted for another key.

    A wrong key is deliberately not an error (implicit rejection): the caller checks the length, and
    everything else that can be checked.
    """
    try:
        return key.decrypt(encrypted_key[::-1], _PADDING)
    except ValueError:  # not as long as the modulus, or a larger number
        return b""
