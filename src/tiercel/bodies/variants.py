"""Bodies whose type is a VARTYPE: COM programs and .NET's ActiveXMessageFormatter. [MS-MQMQ] 2.2.12

All are little-endian and have no length: the size of the body is the size of the value.
"""

import struct
from collections.abc import Callable
from decimal import Decimal
from uuid import UUID

from tiercel.bodies.decoded import Decoded, Kind, plain_text, to_json, valid_text
from tiercel.bodies.limits import ITEMS_MAX
from tiercel.bodies.numbers import nearest_short
from tiercel.bodies.times import filetime_text, ole_date_text
from tiercel.model.codes import BodyType
from tiercel.model.errors import DecodeError

VECTOR, ARRAY = 0x1000, 0x2000
_OLE_STORAGE = bytes.fromhex("D0CF11E0A1B11AE1")

_NUMBERS = {
    BodyType.I1: "b",
    BodyType.UI1: "B",
    BodyType.I2: "h",
    BodyType.UI2: "H",
    BodyType.I4: "i",
    BodyType.INT: "i",
    BodyType.UI4: "I",
    BodyType.UINT: "I",
    BodyType.ERROR: "I",
    BodyType.I8: "q",
    BodyType.UI8: "Q",
    BodyType.R4: "f",
    BodyType.R8: "d",
}


def _bstr(body: bytes) -> str:
    if len(body) % 2:
        raise _error("text", f"UTF-16 has an even number of bytes, not {len(body)}")
    return valid_text(body.decode("utf-16-le", "surrogatepass")).removesuffix("\0")


def _lpstr(body: bytes) -> str:
    """Text in the sender's code page, which is not transmitted: UTF-8 if valid, else the western one."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        text = body.decode("cp1252", "replace")
    return text.removesuffix("\0")


TEXTS: dict[int, Callable[[bytes], str]] = {
    BodyType.BSTR: _bstr,
    BodyType.LPWSTR: _bstr,
    BodyType.LPSTR: _lpstr,
}


def _bool(body: bytes) -> bool:
    return any(body)


def _currency(body: bytes) -> str:
    return str(Decimal(int.from_bytes(body, "little", signed=True)).scaleb(-4))


def _date(body: bytes) -> str:
    return ole_date_text(struct.unpack("<d", body)[0])


def _filetime(body: bytes) -> str:
    return filetime_text(int.from_bytes(body, "little"))


def _decimal(body: bytes) -> str:
    """DECIMAL: reserved, scale, sign, the high 32 bits, the low 64."""
    _, scale, sign, high, low = struct.unpack("<HBBIQ", body)
    if scale > 28 or sign & 0x7F:
        raise ValueError(f"scale {scale} and sign 0x{sign:02x} are not those of a DECIMAL")
    return str(Decimal((sign >> 7, tuple(map(int, str(high << 64 | low))), -scale)))


def _clsid(body: bytes) -> str:
    return str(UUID(bytes_le=body))


# Values of a fixed size: the kind, the valid sizes, and the reader.
_SCALARS: dict[int, tuple[Kind, tuple[int, ...], Callable[[bytes], str | bool]]] = {
    # COM writes a VARIANT_BOOL of two bytes, .NET one byte, and C programs may write a BOOL of four.
    BodyType.BOOL: (Kind.BOOLEAN, (2, 1, 4), _bool),
    BodyType.CY: (Kind.NUMBER, (8,), _currency),
    BodyType.DATE: (Kind.DATE, (8,), _date),
    BodyType.FILETIME: (Kind.DATE, (8,), _filetime),
    BodyType.DECIMAL: (Kind.NUMBER, (16,), _decimal),
    BodyType.CLSID: (Kind.GUID, (16,), _clsid),
}


def is_known(body_type: int) -> bool:
    return body_type in _READERS or _is_array(body_type)


def read_variant(body: bytes, body_type: int) -> Decoded:
    """Decode the body by its type, which must be one that `is_known`; DecodeError if it does not fit."""
    if _is_array(body_type):
        return _array(body, body_type & ~(VECTOR | ARRAY))
    return _READERS[body_type](body, body_type)


def _number(body: bytes, body_type: int) -> Decoded:
    code = _NUMBERS[BodyType(body_type)]
    _check_size(body, body_type, struct.calcsize(code))
    number = struct.unpack("<" + code, body)[0]
    if code == "f":
        number = nearest_short(number)
    return Decoded(Kind.NUMBER, number, plain_text(number))


def _scalar(body: bytes, body_type: int) -> Decoded:
    kind, sizes, read = _SCALARS[body_type]
    _check_size(body, body_type, *sizes)
    try:
        value = read(body)
    except ValueError as problem:
        raise _error(_name(body_type), str(problem)) from None
    return Decoded(kind, value, plain_text(value))


def _null(body: bytes, body_type: int) -> Decoded:
    _check_size(body, body_type, 0)
    return Decoded(Kind.EMPTY)


def _bytes(body: bytes, _: int) -> Decoded:
    return Decoded(Kind.BYTES, body)


def _saved_object(body: bytes, body_type: int) -> Decoded:
    """The output of a COM object's IPersistStream or IPersistStorage; only its own class can read more."""
    if body.startswith(_OLE_STORAGE) or body_type == BodyType.STORED_OBJECT:
        return Decoded(Kind.OBJECT, {"$storage": body})
    if len(body) < 16:
        raise _error(_name(body_type), f"a saved object begins with its CLSID, 16 bytes, not {len(body)}")
    return Decoded(Kind.OBJECT, {"$clsid": _clsid(body[:16]), "$stream": body[16:]})


_READERS: dict[int, Callable[[bytes, int], Decoded]] = {
    BodyType.NULL: _null,
    BodyType.BLOB: _bytes,
    **dict.fromkeys(_NUMBERS, _number),
    **dict.fromkeys(_SCALARS, _scalar),
    **dict.fromkeys((BodyType.STREAM, BodyType.STORAGE), _saved_object),
    **dict.fromkeys((BodyType.STREAMED_OBJECT, BodyType.STORED_OBJECT), _saved_object),
}


def _is_array(body_type: int) -> bool:
    base = body_type & ~(VECTOR | ARRAY)
    return base != body_type and (base in _NUMBERS or base in _SCALARS)


def _array(body: bytes, base: int) -> Decoded:
    if base in {BodyType.UI1, BodyType.I1}:
        return Decoded(Kind.BYTES, body)
    size = struct.calcsize(_NUMBERS[BodyType(base)]) if base in _NUMBERS else _SCALARS[base][1][0]
    count, rest = divmod(len(body), size)
    if rest:
        raise _error(_name(base), f"{len(body)} bytes are no array of {size}-byte elements")
    if count > ITEMS_MAX:
        raise _error(_name(base), f"{count} elements are more than {ITEMS_MAX}")
    value = [read_variant(body[at : at + size], base).value for at in range(0, len(body), size)]
    return Decoded(Kind.ARRAY, value, to_json(value))


def _check_size(body: bytes, body_type: int, *sizes: int) -> None:
    if len(body) not in sizes:
        wanted = " or ".join(map(str, sorted(sizes)))
        raise _error(_name(body_type), f"has {wanted} bytes, not {len(body)}")


def _name(body_type: int) -> str:
    return f"VT_{BodyType(body_type).name}"


def _error(field: str, problem: str) -> DecodeError:
    return DecodeError("body", field, 0, problem)
