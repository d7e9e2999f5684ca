"""Keys exchanged by queue managers: [MS-MQQB] 2.4. RSA numbers are little-endian (MQQB T57)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

from tiercel.model.codes import EncryptionAlgorithm
from tiercel.wire.structure import Layout, Part, Reader, Structure

RSA_KEY_EXCHANGE = 0x0000A400
RSA_SIGN = 0x00002400
_PUBLIC_KEY_HEADER = 0x00000206
_SIMPLE_HEADER = 0x00000201
_RSA1 = 0x31415352


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
