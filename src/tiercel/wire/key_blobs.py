"""RSA keys and session keys as CryptoAPI writes them: [MS-MQQB] 2.4. Numbers are little-endian (MQQB T57)."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Self

from tiercel.model.codes import EncryptionAlgorithm
from tiercel.wire.structure import Layout, Part, Reader, Structure

RSA_KEY_EXCHANGE = 0x0000A400
RSA_SIGN = 0x00002400
_PUBLIC_KEY_HEADER = 0x00000206
_PRIVATE_KEY_HEADER = 0x00000207
_SIMPLE_HEADER = 0x00000201
_RSA1 = 0x31415352
_RSA2 = 0x32415352


@dataclass(frozen=True, slots=True)
class PublicKeyBlob(Structure):
    """PUBLICKEYBLOB, [MS-MQQB] 2.4.1; the key type may also be that of a signing key ([MS-MQMQ] 2.2.20.6)."""

    header: int = _PUBLIC_KEY_HEADER
    key_type: int = RSA_KEY_EXCHANGE
    magic: int = _RSA1
    bit_length: int = 0
    public_exponent: int = 65537
    modulus: bytes = b""

    LAYOUT = Layout("I I I I I")

    @classmethod
    def of(cls, modulus: int, public_exponent: int, *, key_type: int = RSA_KEY_EXCHANGE) -> Self:
        size = (modulus.bit_length() + 7) // 8
        number = modulus.to_bytes(size, "little")
        return cls(_PUBLIC_KEY_HEADER, key_type, _RSA1, size * 8, public_exponent, number)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        at = reader.at
        fixed = reader.fixed(cls)
        header, key_type, magic, bit_length, _ = fixed
        if (header, magic) != (_PUBLIC_KEY_HEADER, _RSA1) or key_type not in {RSA_KEY_EXCHANGE, RSA_SIGN}:
            raise reader.error("header", "is not that of an RSA public key", at)
        if bit_length % 8:
            raise reader.error("bit_length", f"is {bit_length}, not a multiple of 8", at + 12)
        return cls.make(fixed, reader.take(bit_length // 8, "modulus"))

    def variable(self) -> Iterator[Part]:
        yield Part("modulus", self.modulus, self.modulus)

    @property
    def modulus_number(self) -> int:
        return int.from_bytes(self.modulus, "little")


@dataclass(frozen=True, slots=True)
class PrivateKeyBlob(Structure):
    """PRIVATEKEYBLOB of CryptoAPI. No packet carries one; keys exported from Windows have this form."""

    header: int = _PRIVATE_KEY_HEADER
    key_type: int = RSA_KEY_EXCHANGE
    magic: int = _RSA2
    bit_length: int = 0
    public_exponent: int = 65537
    modulus: bytes = b""
    # Secret, so not in the repr: it may be logged.
    prime_1: bytes = field(default=b"", repr=False)
    prime_2: bytes = field(default=b"", repr=False)
    exponent_1: bytes = field(default=b"", repr=False)
    exponent_2: bytes = field(default=b"", repr=False)
    coefficient: bytes = field(default=b"", repr=False)
    private_exponent: bytes = field(default=b"", repr=False)

    LAYOUT = Layout("I I I I I")

    @classmethod
    def read(cls, reader: Reader) -> Self:
        at = reader.at
        fixed = reader.fixed(cls)
        header, key_type, magic, bit_length, _ = fixed
        if (header, magic) != (_PRIVATE_KEY_HEADER, _RSA2) or key_type not in {RSA_KEY_EXCHANGE, RSA_SIGN}:
            raise reader.error("header", "is not that of an RSA private key", at)
        if bit_length % 16:
            raise reader.error("bit_length", f"is {bit_length}, not a multiple of 16", at + 12)
        half = bit_length // 16
        sizes = (2 * half, half, half, half, half, half, 2 * half)
        return cls.make(fixed, *map(reader.take, sizes, _PRIVATE_NUMBERS))

    def variable(self) -> Iterator[Part]:
        for name in _PRIVATE_NUMBERS:
            number: bytes = getattr(self, name)
            yield Part(name, number, number)


_PRIVATE_NUMBERS = (
    "modulus",
    "prime_1",
    "prime_2",
    "exponent_1",
    "exponent_2",
    "coefficient",
    "private_exponent",
)


@dataclass(frozen=True, slots=True)
class SimpleBlob(Structure):
    """SIMPLEBLOB, [MS-MQQB] 2.4.2: a session key under an RSA key, as long as the modulus (MQQB T56)."""

    header: int = _SIMPLE_HEADER
    session_key_algorithm: int = EncryptionAlgorithm.AES256
    key_type: int = RSA_KEY_EXCHANGE
    encrypted_key: bytes = b""

    LAYOUT = Layout("I I I")

    @classmethod
    def read(cls, reader: Reader) -> Self:
        at = reader.at
        fixed = reader.fixed(cls)
        header, algorithm, key_type = fixed
        if (header, key_type) != (_SIMPLE_HEADER, RSA_KEY_EXCHANGE):
            raise reader.error("header", "is not that of an RSA-encrypted session key", at)
        if algorithm not in SESSION_KEY_ALGORITHMS:
            raise reader.error("session_key_algorithm", f"0x{algorithm:08x} is unknown", at + 4)
        return cls.make(fixed, reader.take(reader.end - reader.at, "encrypted_key"))

    def variable(self) -> Iterator[Part]:
        yield Part("encrypted_key", self.encrypted_key, self.encrypted_key)


SESSION_KEY_ALGORITHMS = frozenset(
    {
        EncryptionAlgorithm.AES128,
        EncryptionAlgorithm.AES192,
        EncryptionAlgorithm.AES256,
        EncryptionAlgorithm.RC2,
        EncryptionAlgorithm.RC4,
    }
)
