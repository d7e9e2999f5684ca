"""The data types of SRMP as text: [MC-MQSRM] 2.2.1, message and stream identifiers.

`parse_...` raises a ValueError that says what is wrong with the text.
"""

import base64
import binascii
import re
from calendar import timegm
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple
from uuid import UUID

from tiercel.model.identifiers import MessageId, TxSequenceId

U16_MAX = 0xFFFF
U32_MAX = 0xFFFF_FFFF
U64_MAX = 0xFFFF_FFFF_FFFF_FFFF
# The last second of a signed 32-bit time: Windows writes it for "no limit" (SRMP-026).
NO_LIMIT = 0x7FFF_FFFF

_DATE = re.compile(r"([0-9]{4})([0-9]{2})([0-9]{2})T([0-9]{2})([0-9]{2})([0-9]{2})")
_GUID = re.compile(r"[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}")
_DIGITS_MAX = 20  # of 64 bits


class StreamId(NamedTuple):
    """A stream: its number is unique at one sender only, so the sender is a part of it (SRMP-064)."""

    sender: UUID
    sequence: TxSequenceId

    def __str__(self) -> str:
        return f"uid:{self.sender}\\{self.sequence.timestamp << 32 | self.sequence.ordinal}"


@lru_cache(1024)  # senders repeat theirs
def parse_guid(text: str) -> UUID:
    """[MC-MQSRM] 2.2.1.1: without braces, in either case."""
    if not _GUID.fullmatch(text):
        raise ValueError(f"{text[:80]!a} is not a GUID without braces")
    return UUID(text)


@lru_cache(1024)  # senders are few
def format_guid(guid: UUID) -> str:
    return str(guid)


def parse_number(text: str, limit: int = U64_MAX) -> int:
    """[MC-MQSRM] 2.2.1.3; numbers above `limit` are refused, never truncated."""
    if not (text.isascii() and text.isdigit()) or len(text) > _DIGITS_MAX:
        raise ValueError(f"{text[:80]!a} is not a decimal number")
    if (number := int(text)) > limit:
        raise ValueError(f"is {number}, the limit is {limit}")
    return number


@lru_cache(256)  # many messages have the same second
def parse_date(text: str) -> int:
    """[MC-MQSRM] 2.2.1.2: seconds since 1970, UTC."""
    found = _DATE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text[:80]!a} is not a date of the form YYYYMMDDThhmmss")
    try:
        moment = datetime(*map(int, found.groups()), tzinfo=UTC)  # type: ignore[misc,arg-type]  # six numbers
    except ValueError as problem:
        raise ValueError(f"{text} is not a date: {problem}") from None
    if (seconds := timegm(moment.utctimetuple())) < 0:
        raise ValueError(f"{text} is before 1970")
    return seconds


@lru_cache(256)  # many messages have the same second
def format_date(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y%m%dT%H%M%S}"


def format_expiry(seconds: int) -> str:
    """A date up to the one that means "no limit"."""
    return format_date(min(seconds, NO_LIMIT))


def parse_message_id(text: str) -> MessageId:
    """[MC-MQSRM] 2.2.4.3: uuid:index@guid."""
    index, at, guid = text.removeprefix("uuid:").partition("@")
    if not text.startswith("uuid:") or not at:
        raise ValueError(f"{text[:80]!a} is not an id of the form uuid:index@guid")
    return MessageId(parse_guid(guid), parse_number(index, U32_MAX))


def format_message_id(identifier: MessageId) -> str:
    return f"uuid:{identifier.uniquifier}@{format_guid(identifier.lineage)}"


def parse_stream_id(text: str) -> StreamId:
    r"""[MC-MQSRM] 2.2.5.3.1: uid:guid\number; the high half of the number is the timestamp."""
    guid, separator, digits = text.removeprefix("uid:").partition("\\")
    if not text.startswith("uid:") or not separator:
        raise ValueError(f"{text[:80]!a} is not a stream id of the form uid:guid\\number")
    number = parse_number(digits)
    return StreamId(parse_guid(guid), TxSequenceId(number >> 32, number & U32_MAX))


def parse_base64(text: str, size: int) -> bytes:
    try:
        data = base64.b64decode("".join(text.split()), validate=True)
    except binascii.Error as problem:
        raise ValueError(f"not valid base64: {problem}") from None
    except ValueError:
        raise ValueError("not valid base64: it has characters outside ASCII") from None
    if len(data) != size:
        raise ValueError(f"has {len(data)} bytes instead of {size}")
    return data
