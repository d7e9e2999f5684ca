"""Untrusted text on a terminal: characters that move the cursor or hide text are escaped."""

import re
from typing import Final

# C0 without tab and line feed, DEL, C1, and bidirectional controls.
_CONTROLS: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def clean(text: str) -> str:
    return _CONTROLS.sub(_code, text)


def one_line(text: str, limit: int) -> str:
    """The start of a text on one line, with whitespace collapsed."""
    line = clean(" ".join(text[: 4 * limit].split()))
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def _code(found: "re.Match[str]") -> str:
    number = ord(found.group())
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}"
