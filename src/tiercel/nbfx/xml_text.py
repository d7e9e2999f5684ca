"""Events to XML text and back. Prefixes, their declarations and the order of attributes stay as they are.

Text from outside may not contain a document type or processing instructions: SOAP forbids both, .NET refuses
both, and without them there is nothing to expand and nothing to fetch.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final, NoReturn
from xml.parsers import expat

from tiercel.model.errors import DecodeError
from tiercel.nbfx.events import (
    END,
    XML,
    Attribute,
    Attributes,
    Event,
    declaration,
    declare,
    is_bindable,
    restore,
    without_arrays,
)
from tiercel.nbfx.limits import ATTRIBUTES_MAX, DEPTH_MAX, ELEMENTS_MAX, TEXT_MAX_CHARACTERS
from tiercel.nbfx.values import text_of

_ESCAPED: Final = re.compile("[&<>\r\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_ESCAPED_IN_VALUE: Final = re.compile('[&<>"\r\n\t\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]')
_FEW: Final = 8  # attributes that are put together before their length is known
_ENTITIES: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"}


def to_text(events: Iterable[Event], limit: int = TEXT_MAX_CHARACTERS) -> str:
    """The document as XML text, without a declaration and with at most `limit` characters."""
    parts: list[str] = []
    size = 0
    for part in _parts(events):
        size += len(part)
        if size > limit:
            problem = f"the document has more than {limit} characters as text"
            raise DecodeError("XML", "document", 0, problem)
        parts.append(part)
    return "".join(parts)


def _parts(events: Iterable[Event]) -> Iterator[str]:
    tags: list[str] = []
    for event in without_arrays(events):
        if event[0] == "start":
            _, prefix, name, _, attributes = event
            tags.append(f"{prefix}:{name}" if prefix else name)
            if len(attributes) < _FEW:
                yield f"<{tags[-1]}{''.join(map(_attribute, attributes))}>"
            else:
                yield f"<{tags[-1]}"
                yield from map(_attribute, attributes)
                yield ">"
        elif event[0] == "text":
            yield escaped(text_of(event[1]))
        elif event[0] == "end":
            yield f"</{tags.pop()}>"
        else:
            yield f"<!--{event[1].replace('--', '- -')}{' ' * event[1].endswith('-')}-->"


def _attribute(attribute: Attribute) -> str:
    prefix, name, _, value = attribute
    text = _ESCAPED_IN_VALUE.sub(_reference, text_of(value))
    return f' {prefix}:{name}="{text}"' if prefix else f' {name}="{text}"'


def escaped(text: str) -> str:
    """Characters that XML has no place for become references, as .NET writes them."""
    return _ESCAPED.sub(_reference, text)


def _reference(found: re.Match[str]) -> str:
    return _ENTITIES.get(found[0]) or f"&#x{ord(found[0]):X};"


def from_text(text: str | bytes, encoding: str | None = None) -> list[Event]:
    """The events of an XML document; DecodeError when it is not well-formed, too deep or too large.

    Bytes are UTF-8 or UTF-16; without an `encoding` they say which by their first characters.
    """
    if isinstance(text, bytes):
        text = _decoded(text, encoding or _guessed(text))
    try:
        data = text.removeprefix("\ufeff").encode()
    except UnicodeEncodeError:
        raise DecodeError("XML", "document", 0, "the text has unpaired surrogates") from None
    return _Parser().parse(data)


def _guessed(data: bytes) -> str:
    if data[:2] in {b"\xff\xfe", b"\xfe\xff"}:
        return "utf-16"
    return {b"<\0": "utf-16-le", b"\0<": "utf-16-be"}.get(data[:2], "utf-8")


def _decoded(data: bytes, encoding: str) -> str:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as problem:
        reason = f"not valid {encoding.upper()}: {problem.reason}"
        raise DecodeError("XML", "document", problem.start, reason) from None


class _Parser:
    def __init__(self) -> None:
        parser = self._parser = expat.ParserCreate("utf-8")
        parser.buffer_text = True
        parser.ordered_attributes = True
        parser.XmlDeclHandler = self._declaration
        parser.StartDoctypeDeclHandler = self._refuse
        parser.ProcessingInstructionHandler = self._refuse
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.CommentHandler = self._comment
        self._events: list[Event] = []
        self._scope: dict[str, str] = {"": "", "xml": XML}
        self._open: list[dict[str, str | None]] = []  # of each open element, what its prefixes were before
        self._elements = 0

    def parse(self, data: bytes) -> list[Event]:
        try:
            self._parser.Parse(data, True)
        except expat.ExpatError as problem:
            raise DecodeError("XML", "document", self._parser.ErrorByteIndex, str(problem)) from None
        return self._events

    def _error(self, field: str, problem: str) -> DecodeError:
        return DecodeError("XML", field, self._parser.CurrentByteIndex, problem)

    def _declaration(self, _: str, encoding: str | None, __: int) -> None:
        if encoding is not None and encoding.lower() not in {"utf-8", "utf-16", "utf-16le", "utf-16be"}:
            raise self._error("declaration", f"the encoding must be UTF-8 or UTF-16, not {encoding[:40]!a}")

    def _refuse(self, *_: object) -> NoReturn:
        raise self._error("document", "document types and processing instructions are not allowed in SOAP")

    def _start(self, tag: str, flat: list[str]) -> None:
        self._elements += 1
        if self._elements > ELEMENTS_MAX:
            raise self._error("element", f"the document has more than {ELEMENTS_MAX} elements")
        if len(self._open) == DEPTH_MAX:
            raise self._error("element", f"elements are nested deeper than {DEPTH_MAX} levels")
        if len(flat) > 2 * ATTRIBUTES_MAX:
            raise self._error("element", f"an element has more than {ATTRIBUTES_MAX} attributes")
        pairs = list(zip(flat[::2], flat[1::2], strict=True))
        self._open.append(declare(self._scope, dict(_declarations(pairs))))
        prefix, name = _split(tag)
        attributes = self._attributes(pairs)
        self._events.append(("start", prefix, name, self._namespace(prefix), attributes))

    def _attributes(self, pairs: list[tuple[str, str]]) -> Attributes:
        found: list[Attribute] = []
        for tag, value in pairs:
            prefix, name = _split(tag)
            if prefix == "xmlns" or tag == "xmlns":
                declared = name if prefix else ""
                if (declared and not value) or not is_bindable(declared, value):
                    raise self._error("xmlns", f"the prefix {declared!r} cannot be bound to {value[:60]!a}")
                found.append(declaration(declared, value))
            else:
                found.append((prefix, name, self._namespace(prefix) if prefix else "", value))
        if len({(each[2], each[1]) for each in found}) < len(found):
            raise self._error("element", "an attribute comes twice")
        return tuple(found)

    def _namespace(self, prefix: str) -> str:
        try:
            return self._scope[prefix]
        except KeyError:
            raise self._error("element", f"the prefix {prefix!r} is not declared") from None

    def _end(self, _: str) -> None:
        restore(self._scope, self._open.pop())
        self._events.append(END)

    def _text(self, text: str) -> None:
        if self._open:
            self._events.append(("text", text))

    def _comment(self, text: str) -> None:
        self._events.append(("comment", text))


def _declarations(pairs: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    for name, value in pairs:
        if name == "xmlns":
            yield "", value
        elif name.startswith("xmlns:"):
            yield name[6:], value


def _split(tag: str) -> tuple[str, str]:
    prefix, colon, name = tag.partition(":")
    return (prefix, name) if colon else ("", tag)
