"""Hexadecimal text to bytes: plain digits in any spacing, and the dumps of xxd, hexdump -C, od and tshark -x.

A dump is known by its first row, which has the offset 0. Its offsets are checked, so that rows that were lost
when the text was copied do not go unnoticed.
"""

import re
from collections.abc import Iterator

from tiercel.model.errors import DecodeError

# Limit for repetitions (`*` in a hexdump): three lines of text could fill the memory.
MAX_BYTES = 64 * 1024 * 1024

_SEPARATORS = re.compile(rb"0[xX]|[\s,:;{}]+")
_DIGITS = re.compile(rb"[0-9a-fA-F]*")
_PRINTABLE = re.compile(rb"[\t\n\r\x20-\x7e]*")
_ROW = re.compile(
    r"\s*(?:0[xX])?([0-9a-fA-F]{4,16})(?::\s*|\s{2,}|\s(?=[0-9a-fA-F]{2}(?:\s|$))|$)(.*)", re.DOTALL
)
_PAIRS = re.compile(r"((?:[0-9a-fA-F]{2})+)(\s*)")


def decode_hex_text(data: bytes) -> bytes | None:
    """The bytes of a hexadecimal text; None if it is not one, an error if rows are missing."""
    if not data.strip() or not _PRINTABLE.fullmatch(data):
        return None
    lines = [line for line in data.decode("ascii").splitlines() if line.strip()]
    first = _ROW.fullmatch(lines[0])
    if first is not None and int(first[1], 16) == 0 and _PAIRS.match(first[2]):
        return b"".join(_read_dump(lines))
    digits = _SEPARATORS.sub(b"", data)
    if not _DIGITS.fullmatch(digits):
        return None
    if len(digits) % 2:
        raise DecodeError("HexText", "digits", len(data), f"{len(digits)} digits are half a byte too many")
    return bytes.fromhex(digits.decode("ascii"))


def _read_dump(lines: list[str]) -> Iterator[bytes]:
    at = 0
    row = b""
    is_repeated = False
    second = _ROW.fullmatch(lines[1]) if len(lines) > 1 else None
    width = MAX_BYTES if second is None else int(second[1], 16)
    for number, line in enumerate(lines, 1):
        if line.strip() == "*":
            is_repeated = True
            continue
        match = _ROW.fullmatch(line)
        if match is None:
            raise DecodeError("HexText", "offset", at, f"row {number} begins with no offset: {line[:40]!a}")
        offset = int(match[1], 16)
        if is_repeated and row and at < offset <= MAX_BYTES:
            repeated = (row * ((offset - at) // len(row) + 1))[: offset - at]
            at += len(repeated)
            yield repeated
        if offset != at:
            raise DecodeError(
                "HexText", "offset", at, f"row {number} begins at 0x{offset:x}, expected is 0x{at:x}"
            )
        is_repeated = False
        row = _read_row(match[2], width)
        at += len(row)
        yield row


def _read_row(text: str, width: int) -> bytes:
    """The bytes before the character column, which follows a wider gap."""
    digits = ""
    at = 0
    while len(digits) < 2 * width and (match := _PAIRS.match(text, at)):
        digits += match[1]
        at = match.end()
        # hexdump puts two spaces in the middle of a row; they do not end the bytes.
        if len(match[2]) != 1 and not (len(match[2]) == 2 and len(digits) == 16):
            break
    return bytes.fromhex(digits)
