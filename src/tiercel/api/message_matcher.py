"""Whether a packet matches a regular expression: in its label, its decoded body, or the headers of a bus.

Most bodies are text as they stand: they are searched without parsing their XML or JSON, which takes six
times as long. Most patterns are plain text: it is compared without the regular expression, which takes ten
times as long when it ignores case.
"""

import re
from collections.abc import Callable
from typing import Final

from tiercel.admin.message_filter import body_texts
from tiercel.wire.user_message import UserMessage

_PLAIN: Final = re.compile(r"[\w \-:;,/@#%&=\"'<>~!]+", re.ASCII)  # nothing of it has a meaning in a pattern
_IGNORES_CASE: Final = "(?i)"


class MessageMatcher:
    def __init__(self, pattern: str, *, ignore_case: bool) -> None:
        """Raises re.error for an invalid pattern."""
        self._search = _search_of(pattern, ignore_case=ignore_case)

    def matches(self, packet: bytes) -> bool:
        found = UserMessage(packet)
        return self._search(found.label) or any(map(self._search, body_texts(found)))


def _search_of(pattern: str, *, ignore_case: bool) -> Callable[[str], bool]:
    expression = re.compile(pattern, re.IGNORECASE if ignore_case else 0)
    ignores_case = ignore_case or pattern.startswith(_IGNORES_CASE)
    plain = pattern.removeprefix(_IGNORES_CASE)
    if not _PLAIN.fullmatch(plain):
        return lambda text: expression.search(text) is not None
    if not ignores_case:
        return lambda text: plain in text
    lower = plain.lower()

    def search(text: str) -> bool:
        """Outside ASCII there are letters that match two others."""
        return lower in text.lower() if text.isascii() else expression.search(text) is not None

    return search
