"""Whether a packet matches a regular expression: in its label, its decoded body, or the headers of a bus.

Most bodies are text as they stand: they are searched without parsing their XML or JSON, which takes six
times as long.
"""

import re

from tiercel.admin.message_filter import body_texts
from tiercel.wire.user_message import UserMessage


class MessageMatcher:
    def __init__(self, pattern: str, *, ignore_case: bool) -> None:
        """Raises re.error for an invalid pattern."""
        self._pattern = re.compile(pattern, re.IGNORECASE if ignore_case else 0)

    def matches(self, packet: bytes) -> bool:
        found = UserMessage(packet)
        search = self._pattern.search
        return bool(search(found.label)) or any(map(search, body_texts(found)))
