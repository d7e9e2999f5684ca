"""NT hashes: NTOWFv1 of [MS-NLMP] 3.3.1, which is MD4 ([RFC1320]) of the password.

OpenSSL hides MD4 among its legacy algorithms, so it is here. Only a new password needs it, never a logon.
"""

import struct
from typing import Final

NT_HASH_SIZE: Final = 16

_START: Final = (0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476)
# Per round: the constant, the shifts, and the order in which the sixteen words are taken.
_ROUNDS: Final = (
    (0, (3, 7, 11, 19), tuple(range(16))),
    (0x5A827999, (3, 5, 9, 13), (0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15)),
    (0x6ED9EBA1, (3, 9, 11, 15), (0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15)),
)
_MASK: Final = 0xFFFF_FFFF


def nt_hash(password: str) -> bytes:
    return md4(password.encode("utf-16-le", "surrogatepass"))


def md4(data: bytes) -> bytes:
    padded = data + b"\x80" + bytes((55 - len(data)) % 64) + struct.pack("<Q", len(data) * 8 & (1 << 64) - 1)
    state: tuple[int, ...] = _START
    for at in range(0, len(padded), 64):
        state = _add_block(state, struct.unpack_from("<16I", padded, at))
    return struct.pack("<4I", *state)


def _add_block(state: tuple[int, ...], words: tuple[int, ...]) -> tuple[int, ...]:
    a, b, c, d = state
    for number, (constant, shifts, order) in enumerate(_ROUNDS):
        for step, index in enumerate(order):
            if number == 0:
                mixed = b & c | ~b & d
            elif number == 1:
                mixed = b & c | b & d | c & d
            else:
                mixed = b ^ c ^ d
            total = a + mixed + words[index] + constant & _MASK
            shift = shifts[step % 4]
            a, b, c, d = d, (total << shift | total >> 32 - shift) & _MASK, b, c
    return tuple(old + new & _MASK for old, new in zip(state, (a, b, c, d), strict=True))
