"""Reads JSON text, with limits that the standard parser does not have."""

import json
from typing import Any, NoReturn

from tiercel.bodies.decoded import Value, valid_text
from tiercel.bodies.limits import DEPTH_MAX, ITEMS_MAX
from tiercel.model.errors import DecodeError


def read_json(text: str) -> Value:
    """The value of one JSON document; DecodeError for anything else."""
    opened = text.count("[") + text.count("{")
    if opened + text.count(",") > ITEMS_MAX:  # also counts those in strings, which is harmless at this size
        raise _error(f"may have more than {ITEMS_MAX} items")
    try:
        value: Value = json.loads(text, parse_constant=_refuse)
    except json.JSONDecodeError as problem:
        raise _error(problem.msg, problem.pos) from None
    except ValueError as problem:  # a number with more than 4300 digits
        raise _error(str(problem)) from None
    except RecursionError:
        raise _too_deep() from None
    if opened > DEPTH_MAX:
        _check_depth(value)
    return _valid(value) if "\\u" in text else value


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(DEPTH_MAX + 1):
        inner = (item.values() if isinstance(item, dict) else item for item in level)
        level = [item for items in inner if not isinstance(items, _PLAIN) for item in items]
        if not level:
            return
    raise _too_deep()


_PLAIN = str | int | float | None


def _refuse(name: str) -> NoReturn:
    raise _error(f"{name} is not valid JSON")


def _valid(value: Value) -> Value:
    """Replace unpaired surrogates, which escapes can write but UTF-8 cannot encode."""
    match value:
        case str():
            return valid_text(value)
        case list():
            return [_valid(item) for item in value]
        case dict():
            return {valid_text(name): _valid(item) for name, item in value.items()}
    return value


def _too_deep() -> DecodeError:
    return _error(f"is nested deeper than {DEPTH_MAX} levels")


def _error(problem: str, at: int = 0) -> DecodeError:
    return DecodeError("JSON", "document", at, problem)
