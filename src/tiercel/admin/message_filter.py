r"""Filters: which messages somebody wants, in a line of text.

    label:"order 7" priority>=5 age>1h size>10k body:Smith json.total>100 class:nack* id:{...}\7

Terms are separated by spaces, and all of them must hold; `-` before a term negates it. A word without a field
is looked for in labels and bodies. Text is compared without regard to case.

    label:TEXT  body:TEXT    it contains the text
    priority  size  age      : = != > >= < <=; size with k, m or g, age with s, m, h, d or w
    json.NAME.0.NAME         a value of a JSON body: the same, or `:` for text that it contains
    class:NAME               the class of the message, or why it is a dead letter; * stands for anything
    reason:NAME              only why it is a dead letter; reason:none if that is not known
    destination              the queue that it was sent to: = != or `:` for text that it contains
    id:{GUID}\NUMBER

What the headers of a packet tell is compared first; bodies are decoded only for messages that pass.
"""

import json
import operator
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple

from tiercel.bodies import bus_headers, decode
from tiercel.bodies.nrbf_records import has_header
from tiercel.bodies.text import is_ascii_text, is_binary, read_text
from tiercel.bodies.wcf_envelopes import is_wcf
from tiercel.model.codes import MessageClass, message_class
from tiercel.model.identifiers import MessageId
from tiercel.wire.message import decode_destination, read_message
from tiercel.wire.security_header import ENCRYPTED_BODY
from tiercel.wire.user_message import UserMessage, packet_has_id, packet_priority

MAX_FILTER: Final = 1000  # characters
MAX_TERMS: Final = 32
_MAX_DEPTH: Final = 32  # names in a json. term
_MAX_NUMBER: Final = 40  # characters
_BODY_TYPE: Final = struct.Struct("<24xI")  # in the properties
_MASSTRANSIT: Final = b"messageType"  # it has headers in the body
_MASSTRANSIT_UTF_16: Final = "messageType".encode("utf-16-le")

_TERM: Final = re.compile(
    r"(?P<minus>-?)(?:(?P<field>label|body|priority|size|age|class|reason|destination|id|json(?:\.[\w-]+)+)"
    r"(?P<op>>=|<=|!=|:|=|>|<))?"
    r'(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<plain>[^\s"]+))(?=\s|$)',
    re.DOTALL,
)
_OPERATORS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    ":": operator.eq,
    "=": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
_SIZES: Final = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}
_AGES: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_TEXT_ONLY: Final = frozenset({":"})


class Query(NamedTuple):
    """A regular expression, or a filter."""

    text: str
    is_filter: bool = False
    ignore_case: bool = False  # of a regular expression
    now: int = 0


class FilterError(ValueError):
    """The text is not a valid filter; `str` says why and what to write."""


class Candidate:
    """A message that is compared; what takes time is done once, and only if a term asks for it."""

    def __init__(self, packet: bytes, arrival_time: int, reason: int, now: int) -> None:
        self.data = packet
        self._packet: UserMessage | None = None
        self.age = max(now - arrival_time, 0)
        self.reason = reason
        self._text: str | None = None
        self._json_text: str | None = None
        self._json: Any = _MISSING

    @property
    def packet(self) -> UserMessage:
        if self._packet is None:
            self._packet = UserMessage(self.data)
        return self._packet

    @property
    def label(self) -> str:
        return self.packet.label.casefold()

    @property
    def text(self) -> str:
        """The body and the headers of service buses as text, without regard to case."""
        if self._text is None:
            self._text = "\n".join(body_texts(self.packet)).casefold()
        return self._text

    def value(self, names: tuple[str, ...]) -> Any:
        """The value in a JSON body, or _MISSING."""
        if self._json_text is None:
            self._json_text = _shown_text(self.packet)
        if not _may_have(self._json_text, names):
            return _MISSING
        if self._json is _MISSING:
            self._json = _parsed(self._json_text)
        found = self._json
        for name in names:
            if isinstance(found, dict):
                found = found.get(name, _MISSING)
            elif isinstance(found, list) and name.isdecimal() and int(name) < len(found):
                found = found[int(name)]
            else:
                return _MISSING
        return found


_MISSING: Final[Any] = object()


class Term(NamedTuple):
    cost: int  # terms with a low cost are compared first
    holds: Callable[[Candidate], bool]
    is_negated: bool
    has_field: bool


@dataclass(frozen=True, slots=True)
class MessageFilter:
    terms: tuple[Term, ...]

    @property
    def has_fields(self) -> bool:
        """Whether it is more than words, which may as well be a regular expression."""
        return any(term.has_field for term in self.terms)

    def matches(self, candidate: Candidate) -> bool:
        for term in self.terms:  # noqa: SIM110  # all() is slow here
            if term.holds(candidate) is term.is_negated:
                return False
        return True


def parse_filter(text: str) -> MessageFilter:
    """Raises FilterError."""
    if len(text) > MAX_FILTER:
        raise FilterError(f"it has {len(text)} characters; the limit is {MAX_FILTER}")
    terms: list[Term] = []
    at = 0
    while (at := _skip_blanks(text, at)) < len(text):
        found = _TERM.match(text, at)
        if found is None:
            raise FilterError(f"{text[at : at + 40]!r} is not a valid term; close its quotes")
        terms.append(_term(found))
        at = found.end()
        if len(terms) > MAX_TERMS:
            raise FilterError(f"it has more than {MAX_TERMS} terms")
    if not terms:
        raise FilterError('it is empty; write a word, or label:"order 7"')
    return MessageFilter(tuple(sorted(terms, key=lambda term: term.cost)))


def _skip_blanks(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _term(found: "re.Match[str]") -> Term:
    field, sign = found["field"], found["op"]
    quoted = found["quoted"]
    value = found["plain"] if quoted is None else re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL)
    is_negated = bool(found["minus"])
    cost, holds = _condition(field, sign, value)
    return Term(cost, holds, is_negated, field is not None)


def _condition(field: str | None, sign: str, value: str) -> tuple[int, Callable[[Candidate], bool]]:
    text = value.casefold()
    if field is None:
        return 2, lambda each: text in each.label or text in each.text
    if field in {"label", "body", "class", "reason", "id"} and sign not in _TEXT_ONLY:
        raise FilterError(f"{field}{sign} is not possible; write {field}:{value[:40]}")
    match field:
        case "label":
            return 1, lambda each: text in each.label
        case "body":
            return 2, lambda each: text in each.text
        case "class" | "reason":
            return 0, _class_condition(field, text)
        case "destination":
            return 1, _destination_condition(sign, text)
        case "id":
            wanted = _message_id(value)
            return 0, lambda each: packet_has_id(each.data, wanted)
    if field in _NUMBERS:
        return 0, _number_condition(field, sign, value, *_NUMBERS[field])
    return 3, _json_condition(field, sign, value)


_NUMBERS: Final[dict[str, tuple[dict[str, int], Callable[[Candidate], int]]]] = {
    "priority": ({"": 1}, lambda each: packet_priority(each.data)),
    "size": (_SIZES, lambda each: each.packet.sent_body_size),
    "age": (_AGES, lambda each: each.age),
}


def _class_condition(field: str, text: str) -> Callable[[Candidate], bool]:
    if field == "reason":
        return lambda each: fnmatchcase(reason_name(each.reason), text)
    return lambda each: any(fnmatchcase(name, text) for name in _class_names(each))


def _destination_condition(sign: str, text: str) -> Callable[[Candidate], bool]:
    if sign == ":":
        return lambda each: text in destination_name(each.packet).casefold()
    if sign not in {"=", "!="}:
        raise FilterError(f"destination{sign} is not possible; write destination:{text[:40]}")
    return lambda each: (destination_name(each.packet).casefold() == text) is (sign == "=")


def _number_condition(
    field: str, sign: str, value: str, units: dict[str, int], read: Callable[[Candidate], int]
) -> Callable[[Candidate], bool]:
    found = re.fullmatch(r"([0-9]{1,15}(?:\.[0-9]{1,6})?)([a-z]?)", value.casefold())
    if found is None or found[2] not in units:
        known = ", ".join(filter(None, units))
        fix = f" with one of the units {known}" if known else ""
        raise FilterError(f"{field}{sign}{value[:40]} is not valid; write a number{fix}")
    wanted, compare = float(found[1]) * units[found[2]], _OPERATORS[sign]
    return lambda each: compare(read(each), wanted)


def _json_condition(field: str, sign: str, value: str) -> Callable[[Candidate], bool]:
    names = tuple(field.split(".")[1:])
    if len(names) > _MAX_DEPTH:
        raise FilterError(f"{field[:40]} has more than {_MAX_DEPTH} names")
    number, compare, text = _number(value), _OPERATORS[sign], value.casefold()

    def holds(each: Candidate) -> bool:
        there = each.value(names)
        if there is _MISSING:
            return False
        if isinstance(there, int | float) and not isinstance(there, bool) and number is not None:
            return compare(there, number)
        shown = (there if isinstance(there, str) else json.dumps(there)).casefold()
        return text in shown if sign == ":" else compare(shown, text)

    return holds


def _number(text: str) -> float | None:
    is_number = len(text) <= _MAX_NUMBER and re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", text)
    return float(text) if is_number else None


def _message_id(text: str) -> MessageId:
    try:
        return MessageId.parse(text)
    except ValueError as problem:
        raise FilterError(str(problem)) from problem


def reason_name(code: int) -> str:
    """The name of a dead letter's reason, as filters compare it."""
    known = message_class(code)
    if not code:
        return "none"
    return known.name.casefold() if isinstance(known, MessageClass) else f"{code:#06x}"


def destination_name(packet: UserMessage) -> str:
    """The queue that a message was sent to; "" if it does not say."""
    name = decode_destination(packet)
    return "" if name is None else str(name)


def filter_of(reason: int | None, destination: str | None) -> str | None:
    """The filter that finds dead letters with exactly this reason and destination; None if it is too long."""
    terms = [] if reason is None else [f"reason:{reason_name(reason)}"]
    if destination is not None:
        quoted = re.sub(r'(["\\])', r"\\\1", destination)
        is_plain = re.fullmatch(r'[^\s"]+', destination)
        terms.append(f"destination={destination}" if is_plain else f'destination="{quoted}"')
    text = " ".join(terms)
    return text if len(text) <= MAX_FILTER else None


def _class_names(each: Candidate) -> tuple[str, ...]:
    codes = (each.packet.message_class, each.reason) if each.reason else (each.packet.message_class,)
    known = map(message_class, codes)
    return tuple(code.name.casefold() for code in known if isinstance(code, MessageClass))


# Bodies.


def _plain_text(found: UserMessage) -> str | None:
    """The decoded text if it is that of the bytes, "" if there is none; None: only decoding tells."""
    if found.security_flags & ENCRYPTED_BODY or found.is_over_http or found.extension:
        return None
    if _BODY_TYPE.unpack_from(found.data, found.properties_at)[0]:
        return None
    body = found.body
    if is_ascii_text(body):
        return None if _has_parts(body) else body.decode("ascii")
    if has_header(body) or is_wcf(body, 0):
        return None
    if is_binary(body):
        return ""
    return None if _has_parts(body) or _MASSTRANSIT_UTF_16 in body else read_text(body) or ""


def _has_parts(body: bytes) -> bool:
    """An XML document with one element is shown as its value, and MassTransit has headers in the body."""
    return (b"<" in body and body.count(b"</") <= 1) or _MASSTRANSIT in body


def body_texts(found: UserMessage) -> tuple[str, ...]:
    """The body as people see it, and the headers of service buses; nothing of an encrypted one."""
    text = _plain_text(found)
    if text is not None:
        return (text,)
    message = read_message(found)
    if message.symmetric_key:
        return ()
    decoded = decode(message.body, message.body_type)
    headers = {**decoded.headers, **bus_headers(message.extension, decoded)}
    return *headers.values(), decoded.text or ""


def _shown_text(found: UserMessage) -> str:
    """The decoded body; "" if it is not text, or encrypted."""
    text = _plain_text(found)
    if text is None:
        message = read_message(found)
        text = None if message.symmetric_key else decode(message.body, message.body_type).text
    return text or ""


def _may_have(text: str, names: tuple[str, ...]) -> bool:
    """Whether the names are in the text; with a backslash they may be escaped."""
    return "\\" in text or all(name in text for name in names if not name.isdecimal())


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
