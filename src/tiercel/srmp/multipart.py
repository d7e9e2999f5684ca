"""The MIME multipart body of a request (2.2.2, RFC 2046, RFC 2387).

Queue managers write no line break between a part and the delimiter after it, and one after the last
delimiter (trap 19):

    --boundary CRLF headers CRLF CRLF content --boundary CRLF headers CRLF CRLF content --boundary-- CRLF

MIME writers put a CRLF before each delimiter. Both are read. The Content-Length of a part decides where it
ends, so that a content may contain the delimiter; only a part without it is searched for the next delimiter.
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from tiercel.model.errors import DecodeError
from tiercel.srmp.http_request import find_header
from tiercel.srmp.limits import BOUNDARY_MAX_CHARACTERS, PART_HEAD_MAX_BYTES, PARTS_MAX

_CRLF = b"\r\n"
_WHITE = " \t"
_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"  # noqa: S105  # of RFC 2045
_MEDIA_TYPE = re.compile(rf"({_TOKEN}/{_TOKEN})[ \t]*(?=;|$)")
_PARAMETER = re.compile(rf';[ \t]*({_TOKEN})[ \t]*=[ \t]*(?:"([^"\\\r\n]*)"|([^;"\\ \t\r\n]+))[ \t]*(?=;|$)')
# As queue managers write it; each message has a boundary of its own.
_USUAL = re.compile(r'multipart/related; boundary="([^"\\\r\n]*)"; type=text/xml')
BOUNDARY_START = b"MSMQ - SOAP boundary, "
_BOUNDARY = re.compile(BOUNDARY_START + rb"([0-9]{1,20})")
# After a delimiter: "--" closes; before the line break, RFC 2046 allows white space.
_TAIL = re.compile(rb"--|[ \t]*\r\n")
_NAME = re.compile(_TOKEN)
_IDENTITY = frozenset({"7bit", "8bit", "binary"})


class ContentType(NamedTuple):
    media_type: str
    parameters: dict[str, str]

    @classmethod
    def parse(cls, text: str) -> "ContentType":
        """A Content-Type; its type and the names of its parameters in lower case."""
        if (usual := _USUAL.fullmatch(text)) is not None:
            return cls("multipart/related", {"boundary": usual[1], "type": "text/xml"})
        text = text.strip(_WHITE)
        found = _MEDIA_TYPE.match(text)
        if found is None:
            raise _error("Content-Type", 0, f"{text[:80]!a} is not a media type")
        parameters: dict[str, str] = {}
        at = found.end()
        while at < len(text) and text[at:].strip("; \t"):
            parameter = _PARAMETER.match(text, at)
            if parameter is None:
                raise _error("Content-Type", 0, f"{text[at : at + 80]!a} is not a parameter")
            name = parameter[1].casefold()
            if name in parameters:
                raise _error("Content-Type", 0, f"{name} appears twice")
            parameters[name] = parameter[3] if parameter[2] is None else parameter[2]
            at = parameter.end()
        return cls(found[1].casefold(), parameters)


class Part(NamedTuple):
    """One part; `at` is the place of its content in the request."""

    headers: tuple[tuple[str, str], ...]
    content: bytes
    at: int = 0

    def header(self, name: str) -> str | None:
        return find_header(self.headers, name)

    @property
    def content_id(self) -> str:
        """Without the angle brackets that RFC 2045 has and queue managers leave out."""
        text = self.header("Content-Id") or ""
        return text[1:-1] if text[:1] + text[-1:] == "<>" else text


def read_multipart(body: bytes, boundary: str, at: int = 0) -> list[Part]:
    """The parts of a body that stands at `at` in its request."""
    if not 0 < len(boundary) <= BOUNDARY_MAX_CHARACTERS or not boundary.isascii():
        raise _error("boundary", at, f"must have 1 to {BOUNDARY_MAX_CHARACTERS} ASCII characters")
    return _Reader(body, b"--" + boundary.encode(), at).read()


class _Delimiter(NamedTuple):
    start: int  # with the line break before it, if there is one
    end: int
    closes: bool


class _Headers(NamedTuple):
    all: tuple[tuple[str, str], ...]
    length: str | None
    encoding: str | None


_NO_HEADERS = _Headers((), None, None)


@lru_cache(256)  # a sender repeats the headers of its parts, but for their lengths
def _read_headers(data: bytes) -> _Headers:
    headers = tuple(map(_read_header, re.sub(rb"\r\n[ \t]+", b" ", data).split(_CRLF)))
    part = Part(headers, b"")
    return _Headers(headers, part.header("Content-Length"), part.header("Content-Transfer-Encoding"))


def _read_header(line: bytes) -> tuple[str, str]:
    name, colon, value = line.decode("latin-1").partition(":")
    if not colon or not _NAME.fullmatch(name):
        raise ValueError(f"{line[:80]!r} is not a header")
    return name, value.strip(_WHITE)


class _Reader:
    def __init__(self, body: bytes, delimiter: bytes, base: int) -> None:
        self._body = body
        self._delimiter = delimiter
        self._base = base

    def read(self) -> list[Part]:
        found = self._match(0) or self._find(0, _CRLF)
        if found is None:
            raise self._error("delimiter", 0, "the first delimiter is missing")
        parts: list[Part] = []
        while not found.closes:
            if len(parts) == PARTS_MAX:
                raise self._error("part", found.start, f"more than {PARTS_MAX} parts")
            part, found = self._part(found.end)
            parts.append(part)
        if not parts:
            raise self._error("part", found.start, "the body has no parts")
        return parts

    def _match(self, at: int, before: bytes = b"") -> _Delimiter | None:
        """The delimiter that stands at `at`, after the bytes `before`."""
        if not self._body.startswith(before + self._delimiter, at):
            return None
        tail = _TAIL.match(self._body, at + len(before) + len(self._delimiter))
        return None if tail is None else _Delimiter(at, tail.end(), tail[0] == b"--")

    def _find(self, at: int, before: bytes = b"") -> _Delimiter | None:
        """The first delimiter from `at` on that stands after the bytes `before`."""
        wanted = before + self._delimiter
        while (at := self._body.find(wanted, at)) >= 0:
            if (found := self._match(at, before)) is not None:
                return found
            at += 1
        return None

    def _part(self, at: int) -> tuple[Part, _Delimiter]:
        """The part whose headers begin at `at`, and the delimiter after it."""
        end = self._body.find(b"\r\n\r\n", at - 2, at + PART_HEAD_MAX_BYTES)
        if end < 0:
            raise self._error("headers", at, f"do not end within {PART_HEAD_MAX_BYTES} bytes")
        try:
            headers = _read_headers(self._body[at:end]) if end > at else _NO_HEADERS
        except ValueError as problem:
            raise self._error("headers", at, str(problem)) from None
        start = end + 4
        found = self._search(start) if headers.length is None else self._at(start, headers.length)
        self._check_encoding(headers.encoding, at)
        return Part(headers.all, self._body[start : found.start], self._base + start), found

    def _at(self, start: int, length: str) -> _Delimiter:
        """The delimiter that Content-Length promises."""
        if not (length.isascii() and length.isdigit()) or len(length) > 10:
            raise self._error("Content-Length", start, f"{length[:40]!a} is not a length")
        end = start + int(length)
        found = self._match(end) or self._match(end, _CRLF)
        if found is None:
            problem = f"is {length}, and no delimiter follows the content there"
            raise self._error("Content-Length", start, problem)
        return found

    def _search(self, start: int) -> _Delimiter:
        """The next delimiter: at the start of a line if there is such a one, as MIME demands."""
        found = self._match(start) or self._find(start, _CRLF) or self._find(start)
        if found is None:
            raise self._error("delimiter", start, "the closing delimiter is missing")
        return found

    def _check_encoding(self, encoding: str | None, at: int) -> None:
        if encoding is not None and encoding.casefold() not in _IDENTITY:
            problem = f"{encoding[:40]!a} is not supported; use binary"
            raise self._error("Content-Transfer-Encoding", at, problem)

    def _error(self, field: str, at: int, problem: str) -> DecodeError:
        return _error(field, self._base + at, problem)


def _error(field: str, at: int, problem: str) -> DecodeError:
    return DecodeError("Multipart", field, at, problem)


def write_multipart(parts: Sequence[Part], boundary: str) -> bytes:
    """The parts as queue managers frame them (trap 19)."""
    pieces: list[bytes] = []
    for part in parts:
        headers = "".join(f"{name}: {value}\r\n" for name, value in part.headers)
        pieces += [f"--{boundary}\r\n{headers}\r\n".encode("latin-1"), part.content]
    return b"".join([*pieces, f"--{boundary}--\r\n".encode("latin-1")])


def choose_boundary(contents: Iterable[bytes], number: int) -> str:
    """The boundary with the first number from `number` that no content contains, for readers that search."""
    used = {
        int(digits)
        for content in contents
        if BOUNDARY_START in content  # a fast search: bodies may be large
        for digits in _BOUNDARY.findall(content)
    }
    while number in used:
        number += 1
    return f"MSMQ - SOAP boundary, {number}"
