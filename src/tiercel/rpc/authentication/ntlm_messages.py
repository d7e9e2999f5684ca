"""The three messages of NTLM: [MS-NLMP] 2.2.1 and 2.2.2.

Only the fields that a logon needs are decoded; the bytes are kept, because proofs and checksums cover them.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from tiercel.model.errors import DecodeError
from tiercel.wire.structure import decode_text, encode_text

SIGNATURE: Final = b"NTLMSSP\0"
NEGOTIATE, CHALLENGE, AUTHENTICATE = 1, 2, 3
MIC_SIZE: Final = 16
# The sizes of NTLMv1 and LM responses; an NTLMv2 response is longer.
V1_RESPONSE_SIZE: Final = 24

# NegotiateFlags, 2.2.2.5
UNICODE: Final = 0x0000_0001
REQUEST_TARGET: Final = 0x0000_0004
SIGN: Final = 0x0000_0010
SEAL: Final = 0x0000_0020
NTLM: Final = 0x0000_0200
ANONYMOUS: Final = 0x0000_0800
ALWAYS_SIGN: Final = 0x0000_8000
TARGET_TYPE_SERVER: Final = 0x0002_0000
EXTENDED_SESSION_SECURITY: Final = 0x0008_0000
TARGET_INFO: Final = 0x0080_0000
VERSION: Final = 0x0200_0000
KEY_128: Final = 0x2000_0000
KEY_EXCHANGE: Final = 0x4000_0000
KEY_56: Final = 0x8000_0000

# AvId, 2.2.2.1
AV_END: Final = 0
AV_COMPUTER: Final = 1
AV_DOMAIN: Final = 2
AV_DNS_COMPUTER: Final = 3
AV_DNS_DOMAIN: Final = 4
AV_FLAGS: Final = 6
AV_TIMESTAMP: Final = 7
AV_FLAG_MIC: Final = 0x2

_HEAD = struct.Struct("<8sI")
_FIELD = struct.Struct("<HHI")
_AV = struct.Struct("<HH")
_FIELDS_OF_AUTHENTICATE = ("LmChallengeResponse", "NtChallengeResponse", "DomainName", "UserName",
                           "Workstation", "EncryptedRandomSessionKey")  # fmt: skip
_AUTHENTICATE_SIZE = 64
_PROOF_SIZE = 16
_BLOB_SIZE = 28  # of NTLMv2_CLIENT_CHALLENGE, before its AvPairs
_OUR_VERSION = struct.pack("<BBH3xB", 6, 1, 7601, 15)  # 2.2.2.10: for debugging, but some require it


def message_type(data: bytes) -> int:
    if len(data) < _HEAD.size:
        raise DecodeError("NTLM", "Signature", 0, f"needs {_HEAD.size} bytes, {len(data)} are left")
    signature, kind = _HEAD.unpack_from(data)
    if signature != SIGNATURE:
        raise DecodeError("NTLM", "Signature", 0, f"is {signature!r}")
    return int(kind)


def read_negotiate(data: bytes) -> int:
    """The flags of a NEGOTIATE_MESSAGE; nothing else in it matters."""
    _check_type(data, NEGOTIATE, 16)
    return int.from_bytes(data[12:16], "little")


def read_flags_of_authenticate(data: bytes) -> int:
    _check_type(data, AUTHENTICATE, _AUTHENTICATE_SIZE)
    return int.from_bytes(data[60:64], "little")


def _check_type(data: bytes, wanted: int, size: int) -> None:
    if (kind := message_type(data)) != wanted:
        raise DecodeError("NTLM", "MessageType", 8, f"must be {wanted}, not {kind}")
    if len(data) < size:
        raise DecodeError("NTLM", "NegotiateFlags", 12, f"needs {size} bytes, {len(data)} are left")


@dataclass(frozen=True, slots=True)
class Challenge:
    """CHALLENGE_MESSAGE, 2.2.1.2"""

    flags: int
    server_challenge: bytes
    target_name: str
    target_info: Mapping[int, bytes]

    def encode(self) -> bytes:
        name, info = encode_text(self.target_name), encode_av_pairs(self.target_info)
        fixed = 56
        return b"".join(
            (
                _HEAD.pack(SIGNATURE, CHALLENGE),
                _FIELD.pack(len(name), len(name), fixed),
                struct.pack("<I8s8x", self.flags, self.server_challenge),
                _FIELD.pack(len(info), len(info), fixed + len(name)),
                _OUR_VERSION if self.flags & VERSION else bytes(8),
                name,
                info,
            )
        )


@dataclass(frozen=True, slots=True)
class Authenticate:
    """AUTHENTICATE_MESSAGE, 2.2.1.3, with the answer of NTLMv2: 2.2.2.8"""

    data: bytes
    flags: int
    user: str
    domain: str
    proof: bytes
    blob: bytes  # everything after the proof, as received
    av_pairs: Mapping[int, bytes]
    session_key: bytes
    mic_at: int  # 0 if there is no room for one

    @classmethod
    def decode(cls, data: bytes) -> Self:
        flags = read_flags_of_authenticate(data)
        fields = {}
        payload_at = len(data)
        for index, name in enumerate(_FIELDS_OF_AUTHENTICATE):
            at = 12 + 8 * index
            size, _, offset = _FIELD.unpack_from(data, at)
            if size:
                if offset < _AUTHENTICATE_SIZE or offset + size > len(data):
                    raise DecodeError(
                        "NTLM", name, at, f"{size} bytes at {offset} are outside of the message"
                    )
                payload_at = min(payload_at, offset)
            fields[name] = data[offset : offset + size]
        answer = fields["NtChallengeResponse"]
        if len(answer) < _PROOF_SIZE + _BLOB_SIZE:
            problem = "not an NTLMv2 response; older ones and anonymous logons are refused"
            raise DecodeError("NTLM", "NtChallengeResponse", 20, problem)
        if not flags & UNICODE:
            raise DecodeError("NTLM", "NegotiateFlags", 60, "names in UTF-16 are wanted")
        blob = answer[_PROOF_SIZE:]
        return cls(
            data=data,
            flags=flags,
            user=_text(fields["UserName"], "UserName", 36),
            domain=_text(fields["DomainName"], "DomainName", 28),
            proof=answer[:_PROOF_SIZE],
            blob=blob,
            av_pairs=decode_av_pairs(blob[_BLOB_SIZE:]),
            session_key=fields["EncryptedRandomSessionKey"],
            # Version may be missing: the oldest clients omit it, and then the MIC moves up.
            mic_at=72 if payload_at >= 72 + MIC_SIZE else 64 if payload_at >= 64 + MIC_SIZE else 0,
        )

    @property
    def has_mic(self) -> bool:
        """Whether the client announces a MIC; the proof covers this flag, so it cannot be removed."""
        return bool(int.from_bytes(self.av_pairs.get(AV_FLAGS, b""), "little") & AV_FLAG_MIC)

    @property
    def mic(self) -> bytes:
        return self.data[self.mic_at : self.mic_at + MIC_SIZE] if self.mic_at else b""

    @property
    def without_mic(self) -> bytes:
        """The message that the MIC covers: 3.1.5.1.2."""
        at = self.mic_at
        return self.data[:at] + bytes(MIC_SIZE) + self.data[at + MIC_SIZE :] if at else self.data


def _text(data: bytes, field: str, at: int) -> str:
    if len(data) % 2:
        raise DecodeError("NTLM", field, at, f"{len(data)} bytes are no UTF-16")
    return decode_text(data)


def encode_av_pairs(pairs: Mapping[int, bytes]) -> bytes:
    return b"".join(_AV.pack(key, len(value)) + value for key, value in pairs.items()) + bytes(_AV.size)


def decode_av_pairs(data: bytes) -> dict[int, bytes]:
    """The pairs up to MsvAvEOL; clients pad arbitrarily after it."""
    pairs: dict[int, bytes] = {}
    at = 0
    while at + _AV.size <= len(data):
        key, size = _AV.unpack_from(data, at)
        at += _AV.size
        if key == AV_END:
            return pairs
        if at + size > len(data):
            break
        pairs[key] = data[at : at + size]
        at += size
    raise DecodeError("NTLM", "AvPairs", at, "the list has no end")
