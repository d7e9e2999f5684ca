"""Lookup ids as requests write them: in digits, because many JSON parsers round large numbers."""

from collections.abc import Iterable

from tiercel.engine.records import LAST_LOOKUP_ID
from tiercel.model.errors import InvalidParameterError


def lookup_ids_of(texts: Iterable[str]) -> tuple[int, ...]:
    return tuple(map(_number, texts))


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 20 and int(text) <= LAST_LOOKUP_ID):
        raise InvalidParameterError("lookup_ids", present=repr(text[:60]), fix="give lookup ids in digits")
    return int(text)
