"""Untrusted text on a terminal: characters that move the cursor, break lines or hide text are escaped."""

import re
from typing import Final

# C0 without tab and line feed, DEL, C1, the separators of lines and paragraphs, and bidirectional controls.
_CONTROLS: Final = "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
_IN_TEXT: Final = re.compile(f"[{_CONTROLS}]")
_IN_LINE: Final = re.compile(f"[{_CONTROLS}\t\n]")
_SHORT: Final = {"\t": r"\t", "\n": r"\n", "\r": r"\r"}


def clean(text: str) -> str:
    """Text of several lines, such as a body."""
    return _IN_TEXT.sub(_code, text)


def clean_line(text: str) -> str:
    """Text of one line, such as a label: a line break in it must not look like a line of ours."""
    return _IN_LINE.sub(lambda found: _SHORT.get(found.group()) or _code(found), text)


def clean_json(text: str) -> str:
    """A JSON text on one line, with the same value."""
    return _IN_LINE.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


def one_line(text: str, limit: int) -> str:
    """The start of a text on one line, with whitespace collapsed."""
    line = clean_line(" ".join(text[: 4 * limit].split()))
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def _code(found: "re.Match[str]") -> str:
    number = ord(found.group())
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}"
