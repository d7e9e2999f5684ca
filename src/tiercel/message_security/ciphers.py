"""The ciphers of message bodies, as CryptoAPI uses them.

    AES      CBC, zero IV, PKCS #7; the key has the bits that the algorithm names
    RC2      CBC, zero IV, PKCS #7; 128 bits, or 40 effective bits of a key of 5 bytes and 11 zeros
    RC4      16 bytes of key; a key of 40 bits gets 11 zeros, too

The zeros are CryptoAPI's salt. A session key serves many messages with the same IV, so equal bodies give
equal ciphertexts, and RC4 repeats its key stream. The protocol demands that; it is why only AES is on by
default.
"""

from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from cryptography.hazmat.decrepit.ciphers.algorithms import ARC4, RC2
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC
from cryptography.hazmat.primitives.padding import PKCS7

from tiercel.message_security.refusal import MessageRefusedError, bad_encryption, unsupported_provider
from tiercel.model.codes import EncryptionAlgorithm

_SALT = bytes(11)
_40_BITS = 5  # bytes
_128_BITS = 16
KEY_BYTES: dict[int, tuple[int, ...]] = {
    EncryptionAlgorithm.AES128: (16,),
    EncryptionAlgorithm.AES192: (24,),
    EncryptionAlgorithm.AES256: (32,),
    EncryptionAlgorithm.RC2: (_40_BITS, _128_BITS),
    EncryptionAlgorithm.RC4: (_40_BITS, _128_BITS),
}
AES_ALGORITHMS = frozenset(
    {EncryptionAlgorithm.AES128, EncryptionAlgorithm.AES192, EncryptionAlgorithm.AES256}
)
_AES_PADDING = PKCS7(AES.block_size)
_RC2_PADDING = PKCS7(64)


@dataclass(frozen=True, slots=True)
class SessionKey:
    algorithm: int
    key: bytes = field(repr=False)
    _aes: "Cipher[CBC] | None" = field(
        init=False, repr=False, compare=False, default=None
    )  # one for all bodies

    def __post_init__(self) -> None:
        if len(self.key) not in KEY_BYTES[self.algorithm]:
            raise ValueError(f"{len(self.key)} bytes are not a key of algorithm 0x{self.algorithm:04x}")
        if self.algorithm in AES_ALGORITHMS:
            object.__setattr__(self, "_aes", Cipher(AES(self.key), CBC(bytes(16))))

    def encrypt(self, body: bytes) -> bytes:
        if self._aes is not None:
            padder, encryptor = _AES_PADDING.padder(), self._aes.encryptor()
            return encryptor.update(padder.update(body) + padder.finalize()) + encryptor.finalize()
        if self.algorithm == EncryptionAlgorithm.RC4:
            return self._rc4(body)
        padder = _RC2_PADDING.padder()
        padded = padder.update(body) + padder.finalize()
        if len(self.key) == _40_BITS:
            encrypted: bytes = _rc2_40(self._salted).encrypt(padded)
            return encrypted
        encryptor = Cipher(RC2(self.key), CBC(bytes(8))).encryptor()
        return encryptor.update(padded) + encryptor.finalize()

    def decrypt(self, data: bytes) -> bytes:
        """The clear body; MessageRefusedError if the padding shows that it is not one."""
        if self.algorithm == EncryptionAlgorithm.RC4:
            return self._rc4(data)
        block = 8 if self._aes is None else 16
        if not data or len(data) % block:
            raise bad_encryption(f"{len(data)} bytes are not blocks of {block}")
        if self._aes is not None:
            decryptor = self._aes.decryptor()
            return _unpadded(_AES_PADDING, decryptor.update(data) + decryptor.finalize())
        return self._decrypt_rc2(data)

    def _decrypt_rc2(self, data: bytes) -> bytes:
        if len(self.key) == _40_BITS:
            return _unpadded(_RC2_PADDING, _rc2_40(self._salted).decrypt(data))
        decryptor = Cipher(RC2(self.key), CBC(bytes(8))).decryptor()
        try:
            return _unpadded(_RC2_PADDING, decryptor.update(data) + decryptor.finalize())
        except MessageRefusedError:
            if not HAS_RC2_40:
                raise
        # Windows 2000 used 40 effective bits of a key of 128 (Microsoft KB 841715).
        return _unpadded(_RC2_PADDING, _rc2_40(self.key).decrypt(data))

    def _rc4(self, data: bytes) -> bytes:
        return Cipher(ARC4(self._salted), None).encryptor().update(data)

    @property
    def _salted(self) -> bytes:
        return self.key + _SALT if len(self.key) == _40_BITS else self.key


def _unpadded(padding: PKCS7, data: bytes) -> bytes:
    unpadder = padding.unpadder()
    try:
        return unpadder.update(data) + unpadder.finalize()
    except ValueError:
        raise bad_encryption("its padding is wrong") from None


HAS_RC2_40 = find_spec("Crypto") is not None


def _rc2_40(key: bytes) -> Any:
    """RC2 with 40 effective bits, which `cryptography` refuses; the extra tiercel[rc2] has it."""
    if not HAS_RC2_40:
        raise unsupported_provider("RC2 with 40 bits needs tiercel[rc2]")
    arc2: Any = import_module("Crypto.Cipher.ARC2")
    return arc2.new(key, arc2.MODE_CBC, bytes(8), effective_keylen=40)
