"""Tokens of SPNEGO: [RFC4178] 4.2, [MS-SPNG] 2.2, in DER.

Unknown reqFlags and hints are skipped; lengths must be definite, and nested values must fit exactly.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Self

from tiercel.model.errors import DecodeError

SPNEGO_OID: Final = bytes.fromhex("2b0601050502")  # 1.3.6.1.5.5.2
NTLM_OID: Final = bytes.fromhex("2b06010401823702020a")  # 1.3.6.1.4.1.311.2.2.10
KERBEROS_OID: Final = bytes.fromhex("2a864886f712010202")  # 1.2.840.113554.1.2.2
MS_KERBEROS_OID: Final = bytes.fromhex(
    "2a864882f712010202"
)  # 1.2.840.48018.1.2.2: a historical mistake of Windows
MAX_MECHANISMS: Final = 32

_OCTETS, _OID, _ENUM, _SEQUENCE, _APPLICATION = 0x04, 0x06, 0x0A, 0x30, 0x60
_TAG_0, _TAG_1, _TAG_2, _TAG_3 = 0xA0, 0xA1, 0xA2, 0xA3


class NegState(IntEnum):
    ACCEPT_COMPLETED = 0
    ACCEPT_INCOMPLETE = 1
    REJECT = 2
    REQUEST_MIC = 3


@dataclass(frozen=True, slots=True)
class NegTokenInit:
    """The client's first message. `mechanism_list` is the encoded list, which mechListMIC signs."""

    mechanisms: tuple[bytes, ...]
    mechanism_list: bytes
    mech_token: bytes | None = None
    mech_list_mic: bytes | None = None


@dataclass(frozen=True, slots=True)
class NegTokenResp:
    """All further messages, in both directions."""

    state: int | None = None
    supported_mechanism: bytes | None = None
    response_token: bytes | None = None
    mech_list_mic: bytes | None = None

    def encode(self) -> bytes:
        parts = (
            (_TAG_0, _ENUM, None if self.state is None else bytes([self.state])),
            (_TAG_1, _OID, self.supported_mechanism),
            (_TAG_2, _OCTETS, self.response_token),
            (_TAG_3, _OCTETS, self.mech_list_mic),
        )
        body = b"".join(_tlv(tag, _tlv(kind, value)) for tag, kind, value in parts if value is not None)
        return _tlv(_TAG_1, _tlv(_SEQUENCE, body))


def decode_token(data: bytes) -> NegTokenInit | NegTokenResp:
    reader = _Der(data, 0, len(data))
    tag, inside = reader.only()
    if tag == _APPLICATION:
        oid = inside.expect(_OID)
        if oid.bytes != SPNEGO_OID:
            raise inside.error("thisMech", "is not SPNEGO")
        tag, inside = inside.only()
    if tag == _TAG_0:
        return _read_init(inside.only_as(_SEQUENCE))
    if tag == _TAG_1:
        return _read_resp(inside.only_as(_SEQUENCE))
    raise reader.error("NegotiationToken", f"begins with {tag:#04x}")


def _read_init(sequence: "_Der") -> NegTokenInit:
    parts = sequence.tagged()
    if _TAG_0 not in parts:
        raise sequence.error("mechTypes", "is missing")
    whole = parts[_TAG_0].bytes
    mechanisms: list[bytes] = []
    for tag, value in parts[_TAG_0].only_as(_SEQUENCE):
        if tag != _OID or len(mechanisms) == MAX_MECHANISMS:
            raise value.error("mechTypes", "is no list of OIDs, or too long a one")
        mechanisms.append(value.bytes)
    mic = parts.get(_TAG_3)
    return NegTokenInit(
        tuple(mechanisms),
        whole,
        _octets(parts.get(_TAG_2)),
        # In the NegTokenInit2 of [MS-SPNG], the hints have this tag, and are a sequence.
        _octets(mic) if mic is not None and mic.bytes[:1] == bytes([_OCTETS]) else None,
    )


def _read_resp(sequence: "_Der") -> NegTokenResp:
    parts = sequence.tagged()
    state = parts[_TAG_0].only_as(_ENUM).bytes if _TAG_0 in parts else None
    if state is not None and (len(state) != 1 or state[0] not in NegState.__members__.values()):
        raise sequence.error("negState", f"is {state.hex()}")
    return NegTokenResp(
        None if state is None else state[0],
        parts[_TAG_1].only_as(_OID).bytes if _TAG_1 in parts else None,
        _octets(parts.get(_TAG_2)),
        _octets(parts.get(_TAG_3)),
    )


def _octets(value: "_Der | None") -> bytes | None:
    return None if value is None else value.only_as(_OCTETS).bytes


def _tlv(tag: int, value: bytes) -> bytes:
    size = len(value)
    if size < 0x80:
        return bytes([tag, size]) + value
    octets = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(octets)]) + octets + value


class _Der:
    """The DER values in a range of bytes."""

    def __init__(self, data: bytes, at: int, end: int) -> None:
        self._data, self._at, self._end = data, at, end

    @classmethod
    def _part(cls, data: bytes, at: int, end: int) -> Self:
        return cls(data, at, end)

    @property
    def bytes(self) -> bytes:
        return self._data[self._at : self._end]

    def error(self, field: str, problem: str) -> DecodeError:
        return DecodeError("SPNEGO", field, self._at, problem)

    def __iter__(self) -> Iterator[tuple[int, "_Der"]]:
        while self._at < self._end:
            yield self._next()

    def only(self) -> tuple[int, "_Der"]:
        """The only remaining value."""
        tag, value = self._next()
        if self._at != self._end:
            raise self.error("length", f"{self._end - self._at} bytes are left over")
        return tag, value

    def only_as(self, wanted: int) -> "_Der":
        tag, value = self.only()
        if tag != wanted:
            raise value.error("tag", f"must be {wanted:#04x}, not {tag:#04x}")
        return value

    def expect(self, wanted: int) -> "_Der":
        tag, value = self._next()
        if tag != wanted:
            raise value.error("tag", f"must be {wanted:#04x}, not {tag:#04x}")
        return value

    def tagged(self) -> "dict[int, _Der]":
        """The parts of a sequence by tag; tags must be in ascending order."""
        parts: dict[int, _Der] = {}
        last = 0
        for tag, value in self:
            if tag <= last:
                raise value.error("tag", f"{tag:#04x} comes after {last:#04x}")
            parts[tag] = value
            last = tag
        return parts

    def _next(self) -> tuple[int, "_Der"]:
        data, at, end = self._data, self._at, self._end
        if end - at < 2:
            raise self.error("tag", "something is missing here")
        tag, size = data[at], data[at + 1]
        at += 2
        if size >= 0x80:
            octets = size & 0x7F
            if not 1 <= octets <= 4 or end - at < octets:
                raise self.error("length", f"has {octets} bytes")
            size = int.from_bytes(data[at : at + octets], "big")
            at += octets
        if size > end - at:
            raise self.error("length", f"is {size}, and {end - at} bytes are left")
        self._at = at + size
        return tag, self._part(data, at, at + size)
