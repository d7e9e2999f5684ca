"""The base of all wire structures: a fixed layout, a bounded reader, and parts for listings.

A structure is a frozen dataclass whose first fields follow its LAYOUT. Variable fields come after them:
`read` takes them from the reader and `variable` returns their bytes. Decoding, encoding and the listing of
`tiercel decode` use the same two descriptions, so they cannot diverge.
"""

import struct
from codecs import utf_16_le_decode, utf_16_le_encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, Self
from uuid import UUID

from tiercel.model.errors import DecodeError
from tiercel.model.identifiers import TxSequenceId

# Queue manager GUIDs repeat in nearly every packet, and a UUID takes ten times as long as a cache hit.
_GUID_CACHE = 1024


@lru_cache(_GUID_CACHE)
def decode_guid(data: bytes) -> UUID:
    """A GUID in packet form, [MS-DTYP] 2.3.4.2."""
    return UUID(bytes_le=data)


@lru_cache(_GUID_CACHE)
def encode_guid(guid: UUID) -> bytes:
    return guid.bytes_le


# The codec functions themselves, for speed: looking up the codec would take as long as using it.


def decode_text(data: bytes) -> str:
    """UTF-16 as on Windows: unpaired surrogates are valid and preserved."""
    return utf_16_le_decode(data, "surrogatepass", True)[0]


def encode_text(text: str) -> bytes:
    return utf_16_le_encode(text, "surrogatepass")[0]


def encode_text_nul(text: str) -> bytes:
    return utf_16_le_encode(text, "surrogatepass")[0] + b"\0\0"


def align4(size: int) -> int:
    return (size + 3) & ~3


def decode_tx_sequence_id(value: int) -> TxSequenceId:
    return TxSequenceId(value >> 32, value & 0xFFFFFFFF)


def encode_tx_sequence_id(sequence_id: TxSequenceId) -> int:
    return sequence_id.timestamp << 32 | sequence_id.ordinal


# Codes beyond those of the struct module: how they are packed, read and written.
_CODES: dict[str, tuple[str, Any, Any]] = {
    "GUID": ("16s", decode_guid, encode_guid),
    "TXID": ("Q", decode_tx_sequence_id, encode_tx_sequence_id),
}


class Layout:
    """The fixed fields of a structure, little-endian, as struct codes plus GUID and TXID."""

    __slots__ = ("_converters", "size", "sizes", "struct")

    def __init__(self, codes: str) -> None:
        names = codes.split()
        packed = [_CODES[name][0] if name in _CODES else name for name in names]
        self.struct = struct.Struct("<" + "".join(packed))
        self.size = self.struct.size
        self.sizes = [struct.calcsize("<" + code) for code in packed]
        self._converters = [(i, *_CODES[name][1:]) for i, name in enumerate(names) if name in _CODES]

    def unpack(self, data: bytes, at: int) -> list[Any]:
        values = list(self.struct.unpack_from(data, at))
        for i, decode, _ in self._converters:
            values[i] = decode(values[i])
        return values

    def pack(self, values: Sequence[Any]) -> bytes:
        values = list(values)
        for i, _, encode in self._converters:
            values[i] = encode(values[i])
        return self.struct.pack(*values)


class Bits(NamedTuple):
    """A named run of bits in a flag word; bit 0 is the least significant."""

    name: str
    shift: int
    width: int

    def of(self, word: int) -> int:
        return word >> self.shift & (1 << self.width) - 1


FlagWords = Mapping[str, tuple[Bits, ...]]


def flag_words(**fields: str) -> FlagWords:
    """Flag words in the order of the specifications: `PR:3 IN -:2 TR` from bit 0, `-` for reserved bits."""
    return {field: _bits(spelling) for field, spelling in fields.items()}


def _bits(spelling: str) -> tuple[Bits, ...]:
    result = []
    shift = 0
    for item in spelling.split():
        name, _, width = item.partition(":")
        if name != "-":
            result.append(Bits(name, shift, int(width or 1)))
        shift += int(width or 1)
    return tuple(result)


class Part(NamedTuple):
    """One field with its bytes on the wire."""

    name: str
    data: bytes
    value: object


class Reader:
    """Reads structures from `data[at:end]`; a DecodeError if one does not fit."""

    __slots__ = ("at", "data", "end", "structure")

    def __init__(self, data: bytes, at: int = 0, end: int | None = None) -> None:
        self.data = data
        self.at = at
        self.end = len(data) if end is None else end
        self.structure = ""

    def error(self, field: str, problem: str, at: int | None = None) -> DecodeError:
        return DecodeError(self.structure, field, self.at if at is None else at, problem)

    def fixed(self, cls: "type[Structure]") -> list[Any]:
        """The values of the fixed fields of `cls`."""
        self.structure = cls.__name__
        at, layout = self.at, cls.LAYOUT
        if at + layout.size > self.end:
            raise self._cut_short(cls)
        self.at = at + layout.size
        return layout.unpack(self.data, at)

    def _cut_short(self, cls: "type[Structure]") -> DecodeError:
        at = self.at
        for field, size in zip(fields(cls), cls.LAYOUT.sizes, strict=False):
            if at + size > self.end:
                return self.error(field.name, f"needs {size} bytes, {max(self.end - at, 0)} are left", at)
            at += size
        raise AssertionError("the structure is not cut short")

    def take(self, size: int, field: str) -> bytes:
        at = self.at
        if at + size > self.end:
            raise self.error(field, f"needs {size} bytes, {self.end - at} are left")
        self.at = at + size
        return self.data[at : self.at]

    def guid(self, field: str) -> UUID:
        return decode_guid(self.take(16, field))

    def text(self, size: int, field: str) -> str:
        """Text of `size` bytes whose last character is the NUL."""
        at = self.at
        data = self.take(size, field)
        if size < 2 or size % 2 or data[-2:] != b"\0\0":
            raise self.error(field, "is not NUL-terminated UTF-16 text", at)
        return decode_text(data[:-2])

    def padding(self, size: int, field: str = "padding") -> bytes:
        """Alignment bytes after a field of `size` bytes; empty if they are zeros, as they should be."""
        data = self.take(-size % 4, field)
        return data if any(data) else b""


def padding(size: int, kept: bytes) -> bytes:
    """The alignment after a field of `size` bytes: the bytes of a peer, if kept, otherwise zeros."""
    if len(kept) not in {0, -size % 4}:
        raise ValueError(f"{len(kept)} bytes of padding do not align a field of {size} bytes")
    return kept or b"\0" * (-size % 4)


@dataclass(frozen=True, slots=True)
class Structure:
    """A structure of the specifications, under the name used there."""

    LAYOUT: ClassVar[Layout] = Layout("")
    # The flag words among the fields, for listings.
    FLAGS: ClassVar[FlagWords] = {}

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """The structure that fills `data` exactly."""
        reader = Reader(data)
        value = cls.read(reader)
        if reader.at != reader.end:
            reader.structure = cls.__name__
            raise reader.error("end", f"{reader.end - reader.at} bytes follow the structure")
        return value

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(*reader.fixed(cls))

    @classmethod
    def make(cls, fixed: Iterable[Any], *variable: Any) -> Self:
        """The structure with these fields, in order; those of the layout come first."""
        return cls(*fixed, *variable)

    def encode(self) -> bytes:
        return self.fixed() + b"".join(part.data for part in self.variable())

    def fixed(self) -> bytes:
        values = [getattr(self, field.name) for field in fields(self)[: len(self.LAYOUT.sizes)]]
        try:
            return self.LAYOUT.pack(values)
        except struct.error as problem:
            raise ValueError(f"{type(self).__name__} {values}: {problem}") from None

    def variable(self) -> Iterator[Part]:
        """The fields after the fixed ones, in wire order."""
        yield from ()

    def parts(self) -> Iterator[Part]:
        """Every field in wire order with its bytes."""
        data = self.fixed()
        at = 0
        for field, size in zip(fields(self), self.LAYOUT.sizes, strict=False):
            yield Part(field.name, data[at : at + size], getattr(self, field.name))
            at += size
        yield from self.variable()
