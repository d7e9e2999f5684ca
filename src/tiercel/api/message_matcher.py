"""Whether a packet matches a regular expression: in its label, its decoded body, or the headers of a bus.

Most bodies are text as they stand: they are searched without parsing their XML or JSON, which takes six
times as long.
"""

import re
from typing import Final

from tiercel.bodies import bus_headers, decode
from tiercel.bodies.nrbf_records import has_header
from tiercel.bodies.text import read_text
from tiercel.bodies.wcf_envelopes import is_wcf
from tiercel.wire.message import read_message
from tiercel.wire.security_header import ENCRYPTED_BODY
from tiercel.wire.user_message import PROPERTIES, UserMessage

_BODY_TYPE: Final = 4  # its index in PROPERTIES
_MASSTRANSIT: Final = (
    b"messageType",
    "messageType".encode("utf-16-le"),
)  # it has headers in the body


class MessageMatcher:
    def __init__(self, pattern: str, *, ignore_case: bool) -> None:
        """Raises re.error for an invalid pattern."""
        self._pattern = re.compile(pattern, re.IGNORECASE if ignore_case else 0)

    def matches(self, packet: bytes) -> bool:
        found = UserMessage(packet)
        if not _is_text_as_it_stands(found):
            return any(map(self._pattern.search, _texts(found)))
        search = self._pattern.search
        return bool(search(found.label) or search(read_text(found.body) or ""))


def _is_text_as_it_stands(found: UserMessage) -> bool:
    """Whether the decoded text is that of the bytes, or there is none."""
    body = found.body
    if found.is_over_http or found.extension or found.security_flags & ENCRYPTED_BODY:
        return False
    if PROPERTIES.unpack_from(found.data, found.properties_at)[_BODY_TYPE]:
        return False
    if b"<" in body and body.count(b"</") <= 1:  # an XML document with one element is shown as its value
        return False
    return not any(mark in body for mark in _MASSTRANSIT) and not has_header(body) and not is_wcf(body, 0)


def _texts(found: UserMessage) -> tuple[str, ...]:
    message = read_message(found)
    if message.symmetric_key:
        return (message.label,)
    decoded = decode(message.body, message.body_type)
    headers = {**decoded.headers, **bus_headers(message.extension, decoded)}
    return message.label, *headers.values(), decoded.text or ""
