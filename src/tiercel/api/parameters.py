"""Strict request parameters: unknown names are rejected, with the nearest known one."""

import difflib
import json
from collections.abc import Mapping
from typing import Any, Final, Self

from starlette.requests import Request
from starlette.types import Message, Receive

from tiercel.model.errors import InvalidParameterError, TooLargeError

_MISSING: Final = object()
MAX_JSON_BYTES: Final = 8 << 20  # enough to publish 100,000 partitions


class Parameters:
    """Call one method per parameter, then `finish`."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self._given = dict(given)
        self._known: list[str] = []

    @classmethod
    def of_query(cls, request: Request) -> Self:
        return cls(request.query_params)

    @classmethod
    async def of_json(cls, request: Request) -> Self:
        kind = request.headers.get("content-type", "").partition(";")[0].strip()
        if kind.casefold() != "application/json":  # also, a foreign page in a browser cannot send it
            fix = "send Content-Type: application/json"
            raise InvalidParameterError("body", problem="it must be JSON", present=kind or "no type", fix=fix)
        body = await read_body(request, MAX_JSON_BYTES)
        try:
            given = json.loads(body or b"{}")
        except ValueError as problem:
            raise InvalidParameterError("body", problem=f"it is not valid JSON ({problem})") from problem
        if not isinstance(given, dict):
            raise InvalidParameterError("body", problem="it must be a JSON object")
        return cls(given)

    def _take(self, name: str, default: object) -> Any:
        self._known.append(name)
        value = self._given.pop(name, None)
        if value is not None:
            return value
        if default is _MISSING:
            raise InvalidParameterError(name, problem="it is missing", fix=f"give {name}")
        return default

    def text(self, name: str, default: object = _MISSING) -> Any:
        value = self._take(name, default)
        if value is not default and not isinstance(value, str):
            raise _wrong(name, value, "a string")
        return value

    def number(self, name: str, default: object = _MISSING, *, low: int = 0, high: int = 2**63 - 1) -> Any:
        value = self._take(name, default)
        if value is default:
            return value
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise _wrong(name, value, f"a whole number from {low} to {high}")
        return value

    def seconds(self, name: str) -> float | None:
        value = self._take(name, None)
        try:
            return None if value is None else float(value)
        except (TypeError, ValueError) as problem:
            raise _wrong(name, value, "seconds since 1970") from problem

    def flag(self, name: str, default: bool) -> bool:
        value = self._take(name, default)
        found = {"true": True, "false": False}.get(value) if isinstance(value, str) else value
        if not isinstance(found, bool):
            raise _wrong(name, value, "true or false")
        return found

    def texts(self, name: str, default: object = _MISSING) -> Any:
        value = self._take(name, default)
        if value is not default and not (
            isinstance(value, list) and all(isinstance(each, str) for each in value)
        ):
            raise _wrong(name, value, "a list of strings")
        return value

    def choice(self, name: str, default: str, choices: tuple[str, ...]) -> str:
        value = self.text(name, default)
        if value not in choices:
            raise _wrong(name, value, f"one of {', '.join(choices)}")
        return str(value)

    def finish(self) -> None:
        """Rejects parameters that were not asked for."""
        for name in self._given:
            near = difflib.get_close_matches(name, self._known, 1)
            fix = f"perhaps {near[0]} is meant" if near else f"there are {', '.join(sorted(self._known))}"
            raise InvalidParameterError(name[:80], problem="there is no such parameter", fix=fix)


def _wrong(name: str, value: object, wanted: str) -> InvalidParameterError:
    return InvalidParameterError(name, present=repr(value)[:80], limit=wanted, fix=f"give {wanted}")


async def read_body(request: Request, max_bytes: int) -> bytes:
    """The whole body, unless it is too large."""
    pieces, size = [], 0
    _check_size(declared_size(request) or 0, max_bytes, "")
    async for piece in request.stream():
        size += len(piece)
        _check_size(size, max_bytes, "more than ")
        pieces.append(piece)
    return b"".join(pieces)


def replay(body: bytes, receive: Receive) -> Receive:
    """For a body that was read already."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return messages.pop() if messages else await receive()

    return again


def declared_size(request: Request) -> int | None:
    """The declared size of the body; None if unknown."""
    declared = request.headers.get("content-length", "")
    return int(declared) if declared.isascii() and declared.isdigit() and len(declared) < 20 else None


def _check_size(size: int, max_bytes: int, about: str) -> None:
    if size > max_bytes:
        present = f"{about}{size if not about else max_bytes} bytes"
        raise TooLargeError("body", present=present, limit=f"{max_bytes} bytes", fix="send it in parts")
