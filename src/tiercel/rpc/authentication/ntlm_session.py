"""Session security of NTLM, with extended session security: [MS-NLMP] 3.3.2, 3.4."""

import hashlib
import hmac
import struct
from typing import Final

from cryptography.hazmat.decrepit.ciphers.algorithms import ARC4
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext

from tiercel.rpc.authentication import ntlm_messages as ntlm
from tiercel.rpc.security import AuthenticationError
from tiercel.wire.structure import encode_text

SIGNATURE_SIZE: Final = 16
KEY_SIZE: Final = 16

_TO_SERVER, _TO_CLIENT = b"client-to-server", b"server-to-client"
_SIGNATURE = struct.Struct("<I8sI")
_SEQUENCE = struct.Struct("<I")


def hmac_md5(key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, "md5")


def rc4(key: bytes) -> CipherContext:
    return Cipher(ARC4(key), mode=None).encryptor()


def ntowf_v2(nt_hash: bytes, user: str, domain: str) -> bytes:
    """NTOWFv2, 3.3.2: the names as the client sends them, with the user's in upper case."""
    return hmac_md5(nt_hash, encode_text(_capitals(user) + domain))


def _capitals(text: str) -> str:
    # As on Windows: one character becomes one character, so the German sharp s stays.
    return "".join(capital if len(capital := each.upper()) == 1 else each for each in text)


class _Mac:
    """The first half of HMAC-MD5 with one key; the part that depends only on the key is computed once."""

    __slots__ = ("_inner", "_outer")

    def __init__(self, key: bytes) -> None:
        block = key.ljust(64, b"\0")
        self._inner, self._outer = (
            hashlib.md5(bytes(byte ^ pad for byte in block), usedforsecurity=False) for pad in (0x36, 0x5C)
        )

    def __call__(self, number: bytes, data: bytes) -> bytes:
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(number)
        inner.update(data)
        outer.update(inner.digest())
        return outer.digest()[:8]


class NtlmSession:
    """A `Protector`: keys, key streams and sequence numbers of both directions."""

    signs_headers_always = True
    signature_size = SIGNATURE_SIZE

    def __init__(self, session_key: bytes, flags: int, *, is_server: bool) -> None:
        outgoing, incoming = (_TO_CLIENT, _TO_SERVER) if is_server else (_TO_SERVER, _TO_CLIENT)
        self._seals_checksum = bool(flags & ntlm.KEY_EXCHANGE)
        self._mac_out, self._mac_in = (_Mac(sign_key(session_key, way)) for way in (outgoing, incoming))
        self._seal_key_out, self._seal_key_in = (
            seal_key(session_key, flags, way) for way in (outgoing, incoming)
        )
        self._out, self._in = rc4(self._seal_key_out), rc4(self._seal_key_in)
        self._number_out = self._number_in = 0

    def sign(self, data: bytes) -> bytes:
        """MAC, 3.4.4.2."""
        checksum = self._mac_out(_SEQUENCE.pack(self._number_out), data)
        if self._seals_checksum:
            checksum = self._out.update(checksum)
        signature = _SIGNATURE.pack(1, checksum, self._number_out)
        self._number_out = self._number_out + 1 & 0xFFFF_FFFF
        return signature

    def verify(self, data: bytes, signature: bytes) -> None:
        checksum = self._mac_in(_SEQUENCE.pack(self._number_in), data)
        if self._seals_checksum:
            checksum = self._in.update(checksum)
        if not hmac.compare_digest(_SIGNATURE.pack(1, checksum, self._number_in), signature):
            raise AuthenticationError("a signature is wrong: a fragment was changed, repeated or left out")
        self._number_in = self._number_in + 1 & 0xFFFF_FFFF

    def wrap(self, header: bytes, stub: bytes, trailer: bytes) -> tuple[bytes, bytes]:
        """SEAL, 3.4.3: the key stream encrypts the message first, then its checksum."""
        sealed = self._out.update(stub)
        return sealed, self.sign(header + stub + trailer)

    def unwrap(self, header: bytes, sealed: bytes, trailer: bytes, signature: bytes) -> bytes:
        stub = self._in.update(sealed)
        self.verify(header + stub + trailer, signature)
        return stub

    def sign_mechanisms(self, data: bytes) -> bytes:
        """The mechListMIC of SPNEGO: after it the key stream restarts, and the sequence numbers continue.

        [MS-SPNG] 3.3.5.1 specifies this for the key stream; the numbers follow Windows and Samba.
        """
        signature = self.sign(data)
        self._out = rc4(self._seal_key_out)
        return signature

    def verify_mechanisms(self, data: bytes, signature: bytes) -> None:
        self.verify(data, signature)
        self._in = rc4(self._seal_key_in)

    def skip_mechanisms(self, *, sent: bool, received: bool) -> None:
        """Count the signatures of the mechanisms that pyspnego has made and checked."""
        self._number_out += sent
        self._number_in += received


def sign_key(session_key: bytes, direction: bytes) -> bytes:
    """SIGNKEY, 3.4.5.2"""
    return _md5(session_key + b"session key to %b signing key magic constant\0" % direction)


def seal_key(session_key: bytes, flags: int, direction: bytes) -> bytes:
    """SEALKEY, 3.4.5.3"""
    size = 16 if flags & ntlm.KEY_128 else 7 if flags & ntlm.KEY_56 else 5
    return _md5(session_key[:size] + b"session key to %b sealing key magic constant\0" % direction)


def _md5(data: bytes) -> bytes:
    return hashlib.md5(data, usedforsecurity=False).digest()
