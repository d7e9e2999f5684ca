"""MultiByteInt31: [MC-NBFX] 2.1.2. Seven bits a byte, the least significant first."""

from tiercel.nbfx.limits import INT31_MAX

_BITS_MAX = 35


class BadRecordError(ValueError):
    """A record whose content is invalid; the reader adds its name and offset."""


def read_int31(data: bytes, at: int) -> tuple[int, int]:
    """The number and the offset behind it; IndexError when the data ends inside it.

    More bytes than needed are accepted, as .NET accepts them.
    """
    value = shift = 0
    while shift < _BITS_MAX:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    if shift == _BITS_MAX or value > INT31_MAX:
        raise BadRecordError(f"a size exceeds {INT31_MAX}")
    return value, at


def write_int31(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
