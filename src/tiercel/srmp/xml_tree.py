"""XML to elements with their places, by expat: no document types, no entities, and limits on everything.

Only what SRMP needs: names by namespace, attributes, text and children. Comments are skipped.
"""

import re
from typing import NamedTuple, NoReturn
from xml.parsers import expat

from tiercel.model.errors import DecodeError
from tiercel.srmp.limits import (
    ATTRIBUTES_MAX,
    DEPTH_MAX,
    ELEMENTS_MAX,
    ENVELOPE_MAX_BYTES,
    NAMESPACE_MAX_CHARACTERS,
)

# Of XML that expat has accepted. Group 1 is the slash of an empty element.
_START_TAG = re.compile(rb"""<[^\s/>]+(?:\s+[^\s=]+\s*=\s*(?:"[^"]*"|'[^']*'))*\s*(/?)>""")
_ENCODINGS = frozenset({"utf-8", "us-ascii"})


class Document(NamedTuple):
    data: bytes
    base: int  # its place in the request


class Element:
    """An element; `start` and `end_tag` are places in its document."""

    __slots__ = ("attributes", "children", "document", "end_tag", "qualified", "start", "texts")

    def __init__(self, qualified: str, attributes: dict[str, str], document: Document, start: int) -> None:
        self.qualified = qualified  # "namespace name", or the name alone without a namespace
        self.attributes = attributes  # by qualified name
        self.document = document
        self.start = start
        self.end_tag = 0
        self.children: list[Element] = []
        self.texts: list[str] = []

    @property
    def namespace(self) -> str:
        return self.qualified.rpartition(" ")[0]

    @property
    def name(self) -> str:
        return self.qualified.rpartition(" ")[2]

    @property
    def text(self) -> str:
        return self.texts[0] if len(self.texts) == 1 else "".join(self.texts)

    @property
    def at(self) -> int:
        """The place of the element in the request."""
        return self.document.base + self.start

    @property
    def raw(self) -> bytes:
        """The element as it was sent, with its tags."""
        return self.document.data[self.start : self._span[1]]

    @property
    def raw_content(self) -> bytes:
        start, end = self._span
        return self.document.data[start : self.end_tag if start < end else end]

    @property
    def content_at(self) -> int:
        return self.document.base + self._span[0]

    @property
    def _span(self) -> tuple[int, int]:
        """Where the content begins, and where the element ends."""
        tag = _START_TAG.match(self.document.data, self.start)
        assert tag is not None
        if tag[1]:
            return tag.end(), tag.end()
        return tag.end(), self.document.data.index(b">", self.end_tag) + 1

    def error(self, problem: str, child: str = "") -> DecodeError:
        return DecodeError("Envelope", f"{self.name}.{child}" if child else self.name, self.at, problem)


def read_xml(document: bytes, base: int = 0) -> Element:
    """The root of a UTF-8 document that stands at `base` in its request."""
    if len(document) > ENVELOPE_MAX_BYTES:
        problem = f"has {len(document)} bytes, the limit is {ENVELOPE_MAX_BYTES}"
        raise DecodeError("Envelope", "document", base, problem)
    _check_utf8(document, base)
    return _Parser(Document(document, base)).parse()


def _check_utf8(document: bytes, base: int) -> None:
    """Refuse UTF-16, which expat recognizes by itself, with or without a byte order mark."""
    if (at := document.find(b"\0")) < 0:
        try:
            document.decode()
        except UnicodeDecodeError as error:
            at = error.start
        else:
            return
    raise DecodeError("Envelope", "document", base + at, "not valid UTF-8 text")


class _Parser:
    def __init__(self, document: Document) -> None:
        self._document = document
        self._root: Element | None = None
        self._open: list[Element] = []
        self._elements = 0
        parser = self._parser = expat.ParserCreate("utf-8", namespace_separator=" ")
        parser.buffer_text = True
        parser.XmlDeclHandler = self._declaration
        parser.StartDoctypeDeclHandler = self._refuse
        parser.ProcessingInstructionHandler = self._refuse
        parser.StartNamespaceDeclHandler = self._namespace
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text

    def parse(self) -> Element:
        try:
            self._parser.Parse(self._document.data, True)
        except expat.ExpatError as problem:
            at = self._document.base + max(self._parser.ErrorByteIndex, 0)
            reason = expat.ErrorString(problem.code)
            raise DecodeError("Envelope", "document", at, f"not well-formed XML: {reason}") from None
        finally:
            del self._parser  # its handlers refer to this object, and cycles are work for the collector
        assert self._root is not None
        return self._root

    def _error(self, problem: str) -> DecodeError:
        at = self._document.base + self._parser.CurrentByteIndex
        return DecodeError("Envelope", "document", at, problem)

    def _declaration(self, _: str, encoding: str | None, __: int) -> None:
        if encoding is not None and encoding.casefold() not in _ENCODINGS:
            raise self._error(f"the encoding must be UTF-8, not {encoding[:40]!a}")

    def _refuse(self, *_: object) -> NoReturn:
        raise self._error("document types and processing instructions are not allowed in SOAP")

    def _namespace(self, _: str | None, uri: str | None) -> None:
        if uri is not None and len(uri) > NAMESPACE_MAX_CHARACTERS:
            raise self._error(f"the name of a namespace has more than {NAMESPACE_MAX_CHARACTERS} characters")

    def _start(self, qualified: str, attributes: dict[str, str]) -> None:
        self._elements += 1
        if self._elements > ELEMENTS_MAX:
            raise self._error(f"more than {ELEMENTS_MAX} elements")
        if len(attributes) > ATTRIBUTES_MAX:
            raise self._error(f"an element has more than {ATTRIBUTES_MAX} attributes")
        element = Element(qualified, attributes, self._document, self._parser.CurrentByteIndex)
        around = self._open
        if around:
            if len(around) == DEPTH_MAX:
                raise self._error(f"elements are nested deeper than {DEPTH_MAX} levels")
            around[-1].children.append(element)
        else:
            self._root = element
        around.append(element)

    def _end(self, _: str) -> None:
        self._open.pop().end_tag = self._parser.CurrentByteIndex

    def _text(self, text: str) -> None:
        self._open[-1].texts.append(text)
