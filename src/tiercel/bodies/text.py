"""Detects text and its encoding."""

import re
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE

# Control characters that text does not contain; tab, line and page breaks are allowed.
_CONTROLS = bytes({*range(32), 127} - set(b"\t\n\v\f\r"))
_DECLARED = re.compile(rb"""^<\?xml[^>]{0,100}?\bencoding\s*=\s*["']([A-Za-z0-9._-]{1,40})["']""")
# The codecs that an XML declaration may choose: Python has others that are not safe for this.
_ENCODINGS = re.compile(r"us-ascii|utf-?8|iso-8859-\d\d?|windows-125\d|cp125\d", re.IGNORECASE)


def is_ascii_text(body: bytes) -> bool:
    """Whether it is text in ASCII: most bodies, which need no other test."""
    return body.isascii() and b"\0" not in body and len(body.translate(None, _CONTROLS)) == len(body)


def is_binary(body: bytes) -> bool:
    """Whether it has a NUL in every encoding that `read_text` tries, which text does not contain."""
    return b"\0\0\0" in body


def read_text(body: bytes) -> str | None:
    """The body as text, or None if it does not look like text.

    Without a byte order mark, UTF-8 is tried, then UTF-16 of mostly Latin text: arbitrary pairs of bytes are
    often valid Chinese characters, so other UTF-16 cannot be told from binary data.
    """
    if is_ascii_text(body):
        return body.decode("ascii")
    if is_binary(body):
        return None
    for mark, encoding in (BOM_UTF8, "utf-8"), (BOM_UTF16_LE, "utf-16-le"), (BOM_UTF16_BE, "utf-16-be"):
        if body.startswith(mark):
            return _plain(body[len(mark) :], encoding)
    text = _plain(body, "utf-8")
    if text is None:
        text = _utf_16(body)
    return _declared(body) if text is None else text


def _utf_16(body: bytes) -> str | None:
    if len(body) % 2 or 2 * body[1::2].count(0) * 2 < len(body):
        return None
    return _plain(body, "utf-16-le")


def _declared(body: bytes) -> str | None:
    match = _DECLARED.match(body)
    if match is None or not _ENCODINGS.fullmatch(match[1].decode()):
        return None
    return _plain(body, match[1].decode())


def _plain(body: bytes, encoding: str) -> str | None:
    """The decoded text; None if it cannot be decoded, or has control characters."""
    try:
        text = body.decode(encoding)
    except (UnicodeDecodeError, LookupError):  # the encoding may not exist, such as iso-8859-99
        return None
    utf_8 = body if encoding == "utf-8" else text.encode()
    return text if len(utf_8.translate(None, _CONTROLS)) == len(utf_8) else None
