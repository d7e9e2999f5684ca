"""Text records: [MC-NBFX] 2.2.3. Bytes to values and back.

A decoder takes the data and the offset behind the record type, and gives the value and the offset behind it.
A value that exceeds the data raises IndexError or struct.error; the reader turns those into its one error.
"""

from collections.abc import Callable
from decimal import Decimal
from struct import Struct
from typing import Final
from uuid import UUID

from tiercel.nbfx import records
from tiercel.nbfx.dictionary import DictionaryString, SessionString
from tiercel.nbfx.int31 import BadRecordError, write_int31
from tiercel.nbfx.values import (
    TICKS_MAX,
    DateTime,
    QName,
    Single,
    TimeSpan,
    UniqueId,
    Value,
    Zone,
)

_BYTE, _UINT16, _INT32_LENGTH = Struct("<B"), Struct("<H"), Struct("<i")
_INT8, _INT16, _INT32, _INT64, _UINT64 = (Struct("<" + code) for code in "bhiqQ")
_FLOAT, _DOUBLE, _DECIMAL = Struct("<f"), Struct("<d"), Struct("<HBBIQ")
_SCALE_MAX: Final = 28
_DECIMAL_MAX: Final = 2**96 - 1
_TICKS_BITS: Final = 62
_TICKS_MASK: Final = (1 << _TICKS_BITS) - 1
_ZONES: Final = (Zone.UNSPECIFIED, Zone.UTC, Zone.LOCAL, Zone.LOCAL)  # 3: local, in the hour that comes twice
_NEGATIVE: Final = 0x80

Decoder = Callable[[bytes, int], tuple[Value, int]]


def constant(value: Value) -> Decoder:
    def decode(_: bytes, at: int) -> tuple[Value, int]:
        return value, at

    return decode


def number(layout: Struct, kind: Callable[[float], Value] | None = None) -> Decoder:
    unpack, size = layout.unpack_from, layout.size

    def decode(data: bytes, at: int) -> tuple[Value, int]:
        (value,) = unpack(data, at)
        return value, at + size

    def decode_as(data: bytes, at: int) -> tuple[Value, int]:
        assert kind is not None
        return kind(unpack(data, at)[0]), at + size

    return decode if kind is None else decode_as


def octets(length: Struct) -> Decoder:
    unpack, size = length.unpack_from, length.size

    def decode(data: bytes, at: int) -> tuple[bytes, int]:
        (count,) = unpack(data, at)
        start = at + size
        end = start + count
        if count < 0:
            raise BadRecordError(f"the length {count} is negative")
        if end > len(data):
            raise BadRecordError(f"{count} bytes are announced, but {len(data) - start} are left")
        return data[start:end], end

    return decode


def characters(length: Struct, encoding: str) -> Decoder:
    read = octets(length)

    def decode(data: bytes, at: int) -> tuple[Value, int]:
        raw, end = read(data, at)
        assert isinstance(raw, bytes)
        try:
            return raw.decode(encoding), end
        except UnicodeDecodeError as problem:
            raise BadRecordError(f"not valid {encoding.upper()}: {problem.reason}") from None

    return decode


def _decimal(data: bytes, at: int) -> tuple[Value, int]:
    """[MC-NBFX] 2.2.3.11, a DECIMAL of OLE Automation."""
    reserved, scale, sign, high, low = _DECIMAL.unpack_from(data, at)
    if reserved:
        raise BadRecordError(f"the reserved bits of a decimal must be 0, not 0x{reserved:04X}")
    if scale > _SCALE_MAX:
        raise BadRecordError(f"the scale of a decimal must be 0 to {_SCALE_MAX}, not {scale}")
    if sign not in {0, _NEGATIVE}:
        raise BadRecordError(f"the sign of a decimal must be 0x00 or 0x80, not 0x{sign:02X}")
    digits = tuple(map(int, str(high << 64 | low)))
    return Decimal((int(sign == _NEGATIVE), digits, -scale)), at + _DECIMAL.size


def _date_time(data: bytes, at: int) -> tuple[Value, int]:
    """[MC-NBFX] 2.2.3.12."""
    (packed,) = _UINT64.unpack_from(data, at)
    ticks = packed & _TICKS_MASK
    if ticks > TICKS_MAX:
        raise BadRecordError(f"{ticks} ticks are beyond the year 9999")
    return DateTime(ticks, _ZONES[packed >> _TICKS_BITS]), at + 8


def _uuid(data: bytes, at: int) -> tuple[UUID, int]:
    end = at + 16
    if end > len(data):
        raise BadRecordError(f"a GUID has 16 bytes, but {len(data) - at} are left")
    return UUID(bytes_le=data[at:end]), end


def _unique_id(data: bytes, at: int) -> tuple[Value, int]:
    uuid, end = _uuid(data, at)
    return UniqueId(uuid), end


def _time_span(data: bytes, at: int) -> tuple[Value, int]:
    return TimeSpan(_INT64.unpack_from(data, at)[0]), at + 8


def _bool(data: bytes, at: int) -> tuple[Value, int]:
    return data[at] != 0, at + 1


DECODERS: Final[dict[int, Decoder]] = {
    records.ZERO: constant(0),
    records.ONE: constant(1),
    records.FALSE: constant(False),
    records.TRUE: constant(True),
    records.INT8: number(_INT8),
    records.INT16: number(_INT16),
    records.INT32: number(_INT32),
    records.INT64: number(_INT64),
    records.FLOAT: number(_FLOAT, Single),
    records.DOUBLE: number(_DOUBLE),
    records.DECIMAL: _decimal,
    records.DATE_TIME: _date_time,
    records.CHARS8: characters(_BYTE, "utf-8"),
    records.CHARS16: characters(_UINT16, "utf-8"),
    records.CHARS32: characters(_INT32_LENGTH, "utf-8"),
    records.BYTES8: octets(_BYTE),
    records.BYTES16: octets(_UINT16),
    records.BYTES32: octets(_INT32_LENGTH),
    records.EMPTY: constant(""),
    records.UNIQUE_ID: _unique_id,
    records.TIME_SPAN: _time_span,
    records.UUID_TEXT: _uuid,
    records.UINT64: number(_UINT64),
    records.BOOL: _bool,
    records.UNICODE_CHARS8: characters(_BYTE, "utf-16-le"),
    records.UNICODE_CHARS16: characters(_UINT16, "utf-16-le"),
    records.UNICODE_CHARS32: characters(_INT32_LENGTH, "utf-16-le"),
}
# The types that an array may have: [MC-NBFX] 2.3.3.
ARRAY_TYPES: Final = frozenset(
    {
        records.BOOL | 1,
        records.INT16 | 1,
        records.INT32 | 1,
        records.INT64 | 1,
        records.FLOAT | 1,
        records.DOUBLE | 1,
        records.DECIMAL | 1,
        records.DATE_TIME | 1,
        records.TIME_SPAN | 1,
        records.UUID_TEXT | 1,
    }
)


# Values to records, in the forms that .NET's writer chooses.


def write_value(out: bytearray, value: Value) -> None:
    """Append the text record of a value; a DictionaryString and a QName are the writer's."""
    _ENCODERS[type(value)](out, value)


def write_text(out: bytearray, text: str) -> None:
    """[MC-NBFX] 2.2.3.13 to 15 and 27 to 29: UTF-16 where UTF-8 takes more than two bytes a character."""
    if not text:
        out.append(records.EMPTY)
        return
    if len(text) == 1 and text in "01":
        out.append(records.ZERO if text == "0" else records.ONE)
        return
    encoded = text.encode()
    if len(encoded) == len(text):
        _write_octets(out, records.CHARS8, encoded)
        return
    wide = text.encode("utf-16-le")
    if len(encoded) // 2 <= len(wide) // 2:
        _write_octets(out, records.CHARS8, encoded)
    else:
        _write_octets(out, records.UNICODE_CHARS8, wide)


def _write_octets(out: bytearray, record: int, content: bytes) -> None:
    """The 8, 16 or 32 bit form of a record, whichever holds the length."""
    size = len(content)
    if size <= 0xFF:
        out += bytes((record, size))
    elif size <= 0xFFFF:
        out.append(record + 2)
        out += _UINT16.pack(size)
    else:
        out.append(record + 4)
        out += _INT32_LENGTH.pack(size)
    out += content


def _write_int(out: bytearray, value: int) -> None:
    if value in {0, 1}:
        out.append(records.ONE if value else records.ZERO)
        return
    for record, layout, bits in _INTEGERS:
        if -(1 << bits) <= value < 1 << bits:
            out.append(record)
            out += layout.pack(value)
            return
    if 0 <= value < 1 << 64:
        out.append(records.UINT64)
        out += _UINT64.pack(value)
    else:
        write_text(out, str(value))


_INTEGERS: Final = (
    (records.INT8, _INT8, 7),
    (records.INT16, _INT16, 15),
    (records.INT32, _INT32, 31),
    (records.INT64, _INT64, 63),
)


def _write_bool(out: bytearray, value: bool) -> None:
    out.append(records.TRUE if value else records.FALSE)


def _write_double(out: bytearray, value: float) -> None:
    if _single(value) == value:
        _write_single(out, value)
    else:
        out.append(records.DOUBLE)
        out += _DOUBLE.pack(value)


def _single(value: float) -> float | None:
    try:
        return float(_FLOAT.unpack(_FLOAT.pack(value))[0])
    except OverflowError:
        return None


def _write_single(out: bytearray, value: float) -> None:
    """.NET writes whole numbers as integers, and would lose the sign of -0: that stays a float here."""
    if value.is_integer() and -(2.0**63) <= value < 2.0**63 and (value or str(value)[0] != "-"):
        _write_int(out, int(value))
    else:
        out.append(records.FLOAT)
        out += _FLOAT.pack(value)


def _write_decimal(out: bytearray, value: Decimal) -> None:
    out.append(records.DECIMAL)
    out += pack_decimal(value)


def pack_decimal(value: Decimal) -> bytes:
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise ValueError(f"{value} is not a number that a decimal can hold")  # noqa: TRY004 - NaN is a Decimal
    number_ = int("".join(map(str, digits)) or "0")
    if exponent > 0:
        number_, exponent = number_ * 10 ** min(exponent, 40), 0
    if -exponent > _SCALE_MAX or number_ > _DECIMAL_MAX:
        raise ValueError(f"{value} does not fit a decimal: 96 bits with up to {_SCALE_MAX} decimal places")
    return _DECIMAL.pack(0, -exponent, _NEGATIVE if sign else 0, number_ >> 64, number_ & 2**64 - 1)


def pack_date_time(value: DateTime) -> bytes:
    return _UINT64.pack(value.zone << _TICKS_BITS | value.ticks)


def _write_date_time(out: bytearray, value: DateTime) -> None:
    out.append(records.DATE_TIME)
    out += pack_date_time(value)


def _write_time_span(out: bytearray, value: TimeSpan) -> None:
    out.append(records.TIME_SPAN)
    out += _INT64.pack(value.ticks)


def _write_uuid(out: bytearray, value: UUID) -> None:
    out.append(records.UUID_TEXT)
    out += value.bytes_le


def _write_unique_id(out: bytearray, value: UniqueId) -> None:
    out.append(records.UNIQUE_ID)
    out += value.uuid.bytes_le


def _write_bytes(out: bytearray, value: bytes) -> None:
    _write_octets(out, records.BYTES8, value)


def _write_list(out: bytearray, values: tuple[Value, ...]) -> None:
    """[MC-NBFX] 2.2.3.19."""
    out.append(records.START_LIST)
    for value in values:
        write_value(out, value)
    out.append(records.END_LIST)


def _write_qname(out: bytearray, value: QName) -> None:
    write_text(out, str(value))


_ENCODERS: Final[dict[type, Callable[..., None]]] = {
    str: write_text,
    DictionaryString: write_text,
    SessionString: write_text,
    bool: _write_bool,
    int: _write_int,
    float: _write_double,
    Single: _write_single,
    Decimal: _write_decimal,
    DateTime: _write_date_time,
    TimeSpan: _write_time_span,
    UUID: _write_uuid,
    UniqueId: _write_unique_id,
    QName: _write_qname,
    bytes: _write_bytes,
    tuple: _write_list,
}

_ITEMS: Final[dict[int, Callable[..., bytes]]] = {
    records.BOOL | 1: _BYTE.pack,
    records.INT16 | 1: _INT16.pack,
    records.INT32 | 1: _INT32.pack,
    records.INT64 | 1: _INT64.pack,
    records.FLOAT | 1: _FLOAT.pack,
    records.DOUBLE | 1: _DOUBLE.pack,
    records.DECIMAL | 1: pack_decimal,
    records.DATE_TIME | 1: pack_date_time,
    records.TIME_SPAN | 1: lambda span: _INT64.pack(span.ticks),
    records.UUID_TEXT | 1: lambda uuid: uuid.bytes_le,
}


def write_items(out: bytearray, record: int, values: tuple[Value, ...]) -> None:
    """The type, count and values of an Array record: [MC-NBFX] 2.3.3."""
    pack = _ITEMS[record]
    out.append(record)
    write_int31(out, len(values))
    for value in values:
        out += pack(value)
