"""Bytes that may be text: which encoding, and whether it reads as text at all."""

import re
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE

_CONTROLS = re.compile("[\0-\x08\x0e-\x1f\x7f\ufffe\uffff]")
_DECLARED = re.compile(rb"""^<\?xml[^>]{0,100}?\bencoding\s*=\s*["']([A-Za-z0-9._-]{1,40})["']""")
# An XML declaration chooses a codec, so it may choose among these only: Python has stranger ones.
_ENCODINGS = re.compile(r"us-ascii|utf-?8|iso-8859-\d\d?|windows-125\d|cp125\d", re.IGNORECASE)


def read_text(body: bytes) -> str | None:
    """The body as text, or None when it does not look like text.

    Without a byte order mark UTF-8 is tried, then UTF-16 that is mostly Latin: every other pair of bytes is a
    Chinese character, so nothing else can be told from numbers.
    """
    marked = _marked(body)
    if marked is not None:
        return marked
    for text in _utf_8(body), _utf_16(body), _declared(body):
        if text is not None and not _CONTROLS.search(text):
            return text
    return None


def _marked(body: bytes) -> str | None:
    for mark, encoding in (BOM_UTF8, "utf-8"), (BOM_UTF16_LE, "utf-16-le"), (BOM_UTF16_BE, "utf-16-be"):
        if body.startswith(mark):
            text = _decode(body[len(mark) :], encoding)
            return None if text is None or _CONTROLS.search(text) else text
    return None


def _utf_8(body: bytes) -> str | None:
    return _decode(body, "utf-8")


def _utf_16(body: bytes) -> str | None:
    if len(body) % 2 or 2 * body[1::2].count(0) * 2 < len(body):
        return None
    return _decode(body, "utf-16-le")


def _declared(body: bytes) -> str | None:
    match = _DECLARED.match(body)
    if match is None or not _ENCODINGS.fullmatch(match[1].decode()):
        return None
    return _decode(body, match[1].decode())


def _decode(body: bytes, encoding: str) -> str | None:
    try:
        return body.decode(encoding)
    except (UnicodeDecodeError, LookupError):  # iso-8859-99 does not exist
        return None
