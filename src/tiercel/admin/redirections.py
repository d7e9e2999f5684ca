"""Redirections of messages over HTTP, and their store and forward: shown and changed."""

from dataclasses import replace
from typing import Any, Final

from tiercel.engine.engine import Engine
from tiercel.model.errors import IllegalPropertyValueError, InvalidParameterError, MessageNotFoundError
from tiercel.srmp.redirections import Redirection, Redirections, StoredRedirections

Json = dict[str, Any]

KINDS: Final = ("inbound", "outbound", "exception", "receipts")
_MOST: Final = 1000  # each is compared with every message
_FIX: Final = "write an http or https URL; a * at the end of a pattern stands for any rest"


def all_redirections(engine: Engine) -> Json:
    return _shown(StoredRedirections(engine).current)


def _shown(redirections: Redirections) -> Json:
    """In the order in which they are tried; the first that matches counts."""
    rows = [
        {"kind": kind, "pattern": each.pattern, "to": each.to or None}
        for kind in KINDS
        for each in _list(redirections, kind)
    ]
    return {
        "store_and_forward": redirections.store_and_forward,
        "receipts_default": redirections.receipts_default or None,
        "redirections": rows,
    }


def change(engine: Engine, changes: Json) -> Json:
    """Sets `store_and_forward` and `receipts_default`, if they are given; None is no default."""
    stored = StoredRedirections(engine)
    given: Json = {name: "" if value is None else value for name, value in changes.items()}
    stored.change(replace(stored.current, **given))
    return _shown(stored.current)


def add(engine: Engine, kind: str, pattern: str, to: str) -> Json:
    """Add a redirection after the others of its kind; one with the same pattern is replaced in its place."""
    _check(kind, pattern, to)
    stored = StoredRedirections(engine)
    rows = list(_list(stored.current, kind))
    new = Redirection(pattern, to)
    at = next((at for at, each in enumerate(rows) if _is_same(each, pattern)), len(rows))
    rows[at : at + 1] = [new]
    if len(rows) > _MOST:
        raise IllegalPropertyValueError(f"{kind} redirections", limit=_MOST, present=len(rows))
    stored.change(_with(stored.current, kind, rows))
    return {"kind": kind, "pattern": pattern, "to": to or None}


def remove(engine: Engine, kind: str, pattern: str) -> Json:
    _check_kind(kind)
    stored = StoredRedirections(engine)
    rows = _list(stored.current, kind)
    left = [each for each in rows if not _is_same(each, pattern)]
    if len(left) == len(rows):
        problem = "there is no such redirection"
        raise MessageNotFoundError(f"{kind} {pattern[:80]}", problem=problem, fix="check the list")
    stored.change(_with(stored.current, kind, left))
    return {"kind": kind, "pattern": pattern}


def _is_same(redirection: Redirection, pattern: str) -> bool:
    return redirection.pattern.casefold() == pattern.casefold()


def _list(redirections: Redirections, kind: str) -> tuple[Redirection, ...]:
    if kind == "exception":
        return tuple(Redirection(pattern, "") for pattern in redirections.outbound_exceptions)
    found: tuple[Redirection, ...] = getattr(redirections, kind)
    return found


def _with(redirections: Redirections, kind: str, rows: list[Redirection]) -> Redirections:
    if kind == "exception":
        return replace(redirections, outbound_exceptions=tuple(each.pattern for each in rows))
    changes: Json = {kind: tuple(rows)}
    return replace(redirections, **changes)


def _check_kind(kind: str) -> None:
    if kind not in KINDS:
        problem = "there is no such kind of redirections"
        raise InvalidParameterError(kind[:80], problem=problem, fix=f"there are {', '.join(KINDS)}")


def _check(kind: str, pattern: str, to: str) -> None:
    _check_kind(kind)
    if not pattern.casefold().startswith(("http://", "https://")):
        problem = f"{pattern[:80]!a} is not a pattern of URLs"
        raise IllegalPropertyValueError("redirection", problem=problem, fix=_FIX)
    if bool(to) is (kind == "exception"):
        problem = "an exception has no URL" if to else "the URL is missing"
        raise IllegalPropertyValueError("redirection", problem=problem, fix=_FIX)
