"""Messages as text for people: a table row, or all properties of one message."""

import base64
import json
import sys
from collections.abc import Callable, Iterable
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from tiercel.bodies import Decoded, Kind, bus_headers, decode
from tiercel.cli.clean_text import clean, clean_line, one_line
from tiercel.cli.output import Column, Record, Styled, moment, number, seconds, size, when
from tiercel.model.codes import BodyType, MessageClass
from tiercel.model.errors import DecodeError
from tiercel.model.sid import SecurityIdentifier

_HEX_BYTES: Final = 16  # per line
_HEX_SHOWN: Final = 256  # bytes of a body without --full
_TEXT_SHOWN: Final = 4000  # characters of a body without --full
_PREVIEW: Final = 200  # characters of a body in a table, before truncation
_BODY_TYPES: Final = {member.name.lower(): member.value for member in BodyType}
_DEFAULTS: Final[Record] = {
    "label": "",
    "priority": 3,
    "message_class": "normal",
    "delivery": "express",
    "hash_algorithm": "sha1",
}


def property_of(message: Record, name: str) -> Any:
    """The API omits properties at their default."""
    return message.get(name, _DEFAULTS.get(name))


def body_of(message: Record) -> bytes:
    return base64.b64decode(message.get("body", ""))


def decoded_body(message: Record) -> Decoded:
    if "symmetric_key" in message:
        return Decoded(Kind.BINARY, error="encrypted")
    body_type = message.get("body_type", 0)
    number_of_type = _BODY_TYPES.get(body_type, 0) if isinstance(body_type, str) else body_type
    return decode(body_of(message), number_of_type)


def headers_of(message: Record, found: Decoded) -> dict[str, str]:
    """What WCF, NServiceBus or MassTransit say about the message, in its body or its extension."""
    extension = base64.b64decode(message.get("extension", ""))
    return {**found.headers, **bus_headers(extension, found)}


def preview(message: Record) -> Styled:
    """The body on one line."""
    found = decoded_body(message)
    if action := found.headers.get("action"):
        return Styled(one_line(f"{action} {found.text}", _PREVIEW))
    if found.text:
        return Styled(one_line(found.text, _PREVIEW))
    if found.kind is Kind.EMPTY:
        return Styled("empty", "dim")
    return Styled(f"{found.kind} {body_of(message)[:24].hex(' ')}", "dim")


# Table rows


def _label(message: Record) -> Styled:
    return Styled(one_line(property_of(message, "label"), _PREVIEW), "bold")


def _class(message: Record) -> Styled:
    name = str(property_of(message, "message_class"))
    return Styled("" if name == "normal" else name, "red" if name.startswith("nack") else "green")


def marks(message: Record) -> str:
    """R recoverable, T transactional, J journal copy, D dead letter, L leased or claimed."""
    found = {
        "R": property_of(message, "delivery") == "recoverable",
        "T": "transaction_id" in message,
        "J": "positive_journaling" in message,
        "D": "negative_journaling" in message,
        "L": "locked" in message,
    }
    return "".join(mark for mark, is_on in found.items() if is_on)


ARRIVED: Final = Column("ARRIVED", lambda message: moment(message.get("arrival_time")), style="dim")
LABEL: Final = Column("LABEL", _label, folds=True)
BODY: Final = Column("BODY", preview, folds=True)
COLUMNS: Final = (
    ARRIVED,
    Column("LOOKUP ID", lambda message: message["lookup_id"], "right"),
    Column("PRI", lambda message: str(property_of(message, "priority")), "right"),
    Column("", marks),
    Column("SIZE", lambda message: size(message["body_size"]), "right"),
    Column("CLASS", _class),
    LABEL,
    BODY,
)


# All properties of a message


def whole(message: Record, *, is_full: bool = False) -> RenderableType:
    """All properties that are not at their default, and the decoded body."""
    found = decoded_body(message)
    headers = headers_of(message, found).items()
    grid = _grid([*_facts(message, is_full=is_full), *headers, ("body", _body_facts(message, found))])
    heading = Text(clean_line(property_of(message, "label")) or "(no label)", style="bold")
    # Indented deeper than the properties, so that a body cannot pass for the next message.
    body = Padding(_body(message, found, is_full=is_full), (0, 0, 0, 4))
    return Group(heading, Padding(grid, (0, 0, 0, 2)), body)


def _grid(pairs: Iterable[tuple[str, str]]) -> Table:
    """Names and values, one per line; long values wrap."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in pairs:
        grid.add_row(clean_line(name), Text(clean_line(value)))
    return grid


def _body_facts(message: Record, found: Decoded) -> str:
    words = [str(found.kind), f"{message['body_size']:,} bytes"]
    if "body_type" in message:
        words.append(f"type {message['body_type']}")
    return ", ".join(words) + (f"; {found.error}" if found.error else "")


def _body(message: Record, found: Decoded, *, is_full: bool) -> RenderableType:
    if not message["body_size"]:
        return Text()
    if found.text is None:
        return _hex(body_of(message), is_full=is_full)
    text, language = found.text, "text"
    if found.kind is Kind.JSON:
        text, language = _indented(text), "json"
    elif found.kind in {Kind.XML, Kind.WCF}:
        language = "xml"
    return _cut(clean(text), language, is_full=is_full)  # cleaned last: indenting JSON unescapes


def _indented(text: str) -> str:
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text


def _cut(text: str, language: str, *, is_full: bool) -> RenderableType:
    more = 0 if is_full else len(text) - _TEXT_SHOWN
    shown = text if more <= 0 else text[:_TEXT_SHOWN]
    body: RenderableType = Text(shown)
    if language != "text" and sys.stdout.isatty():
        body = Syntax(shown, language, theme="ansi_dark", background_color="default", word_wrap=True)
    return body if more <= 0 else Group(body, _more(f"{number(more)} more characters"))


def _more(what: str) -> Text:
    return Text(f"... and {what}; --full shows them", style="dim")


def _hex(body: bytes, *, is_full: bool) -> RenderableType:
    """A hex dump like `hexdump -C`."""
    shown = body if is_full else body[:_HEX_SHOWN]
    lines = [_hex_line(at, shown[at : at + _HEX_BYTES]) for at in range(0, len(shown), _HEX_BYTES)]
    if len(shown) < len(body):
        return Group(*lines, _more(f"{number(len(body) - len(shown))} more bytes"))
    return Group(*lines)


def _hex_line(at: int, data: bytes) -> Text:
    letters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in data)
    return Text.assemble((f"{at:08x}  ", "dim"), f"{data.hex(' '):{3 * _HEX_BYTES}} ", (letters, "green"))


_SHOWN_ELSEWHERE: Final = frozenset({"label", "body", "body_type", "body_size", "decoded", "lease"})
_TIMES: Final = frozenset({"sent_time", "arrival_time", "last_move_time"})
_LIFETIMES: Final = frozenset({"time_to_reach_queue", "time_to_be_received"})
_FIRST: Final = ("id", "lookup_id", "message_class", "priority", "delivery", "sent_time", "arrival_time")
_BYTES: Final = frozenset(
    {"extension", "sender_certificate", "signature", "symmetric_key", "soap_compound_message"}
)


def _is_plumbing(name: str) -> bool:
    """Properties that people rarely need: stream positions, algorithms."""
    return "tx_" in name or name.endswith(("_in_transaction", "_ack_required", "_algorithm"))


def _facts(message: Record, *, is_full: bool) -> Iterable[tuple[str, str]]:
    for name in (*_FIRST, *(each for each in message if each not in _FIRST)):
        value = property_of(message, name)
        is_hidden = name in _SHOWN_ELSEWHERE or (not is_full and _is_plumbing(name))
        if name == "authentication_level":  # the algorithm that a packet names counts if it was verified
            value = f"{value}, {property_of(message, 'hash_algorithm')}"
        if value is not None and not is_hidden:
            yield name.replace("_", " "), _fact(name, value)


def _fact(name: str, value: Any) -> str:
    for names, words in _WORDS.items():
        if name in names:
            return words(value)
    if value is True:
        return "yes"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _class_words(name: Any) -> str:
    known = MessageClass.__members__.get(str(name).upper())
    return f"{name} ({known.meaning})" if known and known is not MessageClass.NORMAL else str(name)


def _base64_words(value: str) -> str:
    data = base64.b64decode(value)
    return f"{len(data)} bytes: {data[:32].hex(' ')}{' ...' if len(data) > 32 else ''}"


def _sender_words(value: str) -> str:
    try:
        return str(SecurityIdentifier.decode(base64.b64decode(value)))
    except DecodeError:
        return _base64_words(value)


_WORDS: Final[dict[frozenset[str], Callable[[Any], str]]] = {
    _TIMES: when,
    _LIFETIMES: lambda value: value if isinstance(value, str) else f"{value} s ({seconds(value)})",
    _BYTES: _base64_words,
    frozenset({"message_class"}): _class_words,
    frozenset({"sender_id", "verified_sender"}): _sender_words,
    frozenset({"acknowledgements"}): ", ".join,
}
