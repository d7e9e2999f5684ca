import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1
from cryptography.hazmat.primitives.asymmetric.ec import generate_private_key as elliptic_key
from hypothesis import given
from hypothesis import strategies as st

from tiercel.message_security import rsa_keys
from tiercel.model.codes import HashAlgorithm
from tiercel.model.errors import CannotSignDataExError, CorruptedSecurityDataError
from tiercel.wire.key_blobs import RSA_SIGN, PrivateKeyBlob, PublicKeyBlob

from . import vectors

SIGNATURES = vectors.names("capi/signature_*")
ENHANCED = "capi/key_enh_sign_1024"


class TestKeyBlobs:
    """[MS-MQQB] 2.4.1, with the keys of CryptoAPI."""

    @pytest.mark.conformance("MQQB-207")
    @pytest.mark.parametrize("name", vectors.names("capi/key_*"))
    def test_a_key_of_cryptoapi_is_read_and_written(self, name: str) -> None:
        known = vectors.load(name)
        private = vectors.private_key(name)
        assert private.key_size == known["bits"]
        assert private.public_key().public_numbers().n == int(known["modulus"], 16)
        public = PublicKeyBlob.decode(vectors.octets(name, "public_key_blob"))
        assert rsa_keys.public_key_of(public).public_numbers() == private.public_key().public_numbers()
        assert rsa_keys.public_blob(private.public_key(), public.key_type) == public

    def test_private_numbers_are_not_shown(self) -> None:
        blob = PrivateKeyBlob.decode(vectors.octets(ENHANCED, "private_key_blob"))
        assert "prime" not in repr(blob)
        assert "private_exponent" not in repr(blob)

    def test_a_private_key_with_a_flipped_bit_is_refused(self) -> None:
        data = bytearray(vectors.octets(ENHANCED, "private_key_blob"))
        data[-5] ^= 1
        with pytest.raises(CorruptedSecurityDataError, match="PRIVATEKEYBLOB"):
            rsa_keys.private_key_of(PrivateKeyBlob.decode(bytes(data)))

    @pytest.mark.parametrize("bits", [256, 8192])
    def test_keys_too_short_or_too_long_are_refused(self, bits: int) -> None:
        with pytest.raises(CorruptedSecurityDataError, match="bits"):
            rsa_keys.public_key_of(PublicKeyBlob.of((1 << bits) - 1, 65537))

    @pytest.mark.parametrize("exponent", [0, 1, 2, 65536])
    def test_an_exponent_that_is_none_is_refused(self, exponent: int) -> None:
        modulus = vectors.private_key(ENHANCED).public_key().public_numbers().n
        with pytest.raises(CorruptedSecurityDataError):
            rsa_keys.public_key_of(PublicKeyBlob.of(modulus, exponent))

    def test_a_long_exponent_is_refused(self) -> None:
        """A certificate can have one, and each verification would take as long as a signature."""
        numbers = vectors.private_key(ENHANCED).public_key().public_numbers()
        slow = type(numbers)((1 << 1000) + 1, numbers.n).public_key()
        with pytest.raises(CorruptedSecurityDataError, match="exponent"):
            rsa_keys.check_public_key(slow)

    def test_another_kind_of_key_is_refused(self) -> None:
        with pytest.raises(CorruptedSecurityDataError, match="not an RSA key"):
            rsa_keys.check_public_key(elliptic_key(SECP256R1()).public_key())


class TestSignatures:
    @pytest.mark.conformance("MQQB-202")
    @pytest.mark.parametrize("name", SIGNATURES)
    def test_signatures_of_cryptoapi(self, name: str) -> None:
        """Verified, and made again: PKCS #1 v1.5 always gives the same bytes."""
        private, checked = vectors.private_key(name), set()
        for case in vectors.load(name)["cases"]:
            algorithm, digest = int(case["hash_algorithm"], 16), bytes.fromhex(case["hash"])
            signature = bytes.fromhex(case["signature"])
            if algorithm in {HashAlgorithm.MD2, HashAlgorithm.MD4}:
                assert rsa_keys.signed_hash(private.public_key(), signature, algorithm) is None
                continue
            assert rsa_keys.signed_hash(private.public_key(), signature, algorithm) == digest
            assert rsa_keys.signed_hash(private.public_key(), signature[::-1], algorithm) == digest
            assert rsa_keys.sign_hash(private, digest, algorithm) == signature
            checked.add(algorithm)
        assert HashAlgorithm.SHA1 in checked

    @pytest.mark.parametrize("algorithm", [0, 0x1234, HashAlgorithm.MD2, HashAlgorithm.MD4])
    def test_unknown_hashes(self, algorithm: int) -> None:
        key = vectors.private_key(ENHANCED)
        with pytest.raises(CannotSignDataExError, match="not supported"):
            rsa_keys.sign_hash(key, bytes(20), algorithm)
        assert rsa_keys.signed_hash(key.public_key(), bytes(128), algorithm) is None

    def test_a_key_too_short_for_the_hash_is_refused(self) -> None:
        key = vectors.private_key("capi/key_base_sign_512")
        assert len(rsa_keys.sign_hash(key, bytes(32), HashAlgorithm.SHA_256)) == 64
        with pytest.raises(CannotSignDataExError, match="512 bits is too short for SHA_512"):
            rsa_keys.sign_hash(key, bytes(64), HashAlgorithm.SHA_512)

    def test_a_signature_is_bound_to_its_hash_algorithm(self) -> None:
        key = vectors.private_key(ENHANCED)
        signature = rsa_keys.sign_hash(key, bytes(32), HashAlgorithm.SHA_256)
        for algorithm in (HashAlgorithm.SHA1, HashAlgorithm.SHA_512, HashAlgorithm.MD5):
            assert rsa_keys.signed_hash(key.public_key(), signature, algorithm) is None

    @given(st.integers(0, 127), st.integers(0, 7))
    def test_a_flipped_bit(self, at: int, bit: int) -> None:
        key = vectors.private_key(ENHANCED)
        signature = bytearray(rsa_keys.sign_hash(key, bytes(20), HashAlgorithm.SHA1))
        signature[at] ^= 1 << bit
        assert rsa_keys.signed_hash(key.public_key(), bytes(signature), HashAlgorithm.SHA1) is None

    @given(st.binary(max_size=300))
    def test_noise(self, noise: bytes) -> None:
        key = vectors.private_key(ENHANCED).public_key()
        assert rsa_keys.signed_hash(key, noise, HashAlgorithm.SHA1) is None


def test_a_signing_key_has_its_own_type() -> None:
    blob = rsa_keys.public_blob(vectors.private_key(ENHANCED).public_key(), RSA_SIGN)
    assert blob.encode() == vectors.octets(ENHANCED, "public_key_blob")
