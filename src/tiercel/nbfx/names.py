"""Names that XML allows, without colons."""

import re
from typing import Final
from xml.parsers import expat

_ASCII_ALLOWED: Final = re.compile(r"[A-Za-z_\x80-\U0010ffff][A-Za-z0-9_.\-\x80-\U0010ffff]*")


def is_name(text: str) -> bool:
    """Whether a text is an NCName.

    expat knows the letters of all scripts and the marks that belong to them. It allows what .NET allows, the
    fourth edition of XML 1.0, so that text and binary documents have the same names.
    """
    if _ASCII_ALLOWED.fullmatch(text) is None:
        return False
    if text.isascii():
        return True
    try:
        expat.ParserCreate("utf-8").Parse(f"<{text}/>".encode(), True)
    except (expat.ExpatError, UnicodeEncodeError):  # the latter: surrogates
        return False
    return True
