"""Decodes any body: by its type if that is specific enough, otherwise by its bytes."""

from collections.abc import Callable
from typing import Literal

from tiercel.bodies.decoded import Decoded, Kind, plain_text, to_json
from tiercel.bodies.json_text import read_json
from tiercel.bodies.nrbf_records import has_header, read_stream
from tiercel.bodies.nrbf_values import value_of
from tiercel.bodies.text import read_text
from tiercel.bodies.variants import TEXTS, is_known, read_variant
from tiercel.bodies.wcf_envelopes import is_wcf, read_wcf
from tiercel.bodies.xml_documents import read_xml
from tiercel.model.codes import BodyType
from tiercel.model.errors import DecodeError

Expected = Literal["text", "xml", "json", "dotnet", "wcf"]


def decode(body: bytes, body_type: int = 0, *, expect: Expected | None = None) -> Decoded:
    """Decode a body; never raises: an undecodable body has an `error`.

    For type 0 (and unknown types), XML, JSON, text and .NET's binary format are recognized by their bytes.
    With `expect`, any other kind is an error.
    """
    if expect is not None:
        return _EXPECTED[expect](body, body_type)
    if not body:
        return Decoded(Kind.EMPTY)
    if is_wcf(body, body_type):
        return _guarded(Kind.WCF, read_wcf, body)
    if body_type in TEXTS:
        return _guarded(Kind.TEXT, _typed_text, body, body_type)
    if body_type == BodyType.BINARY_OBJECT:
        return _guarded(Kind.DOTNET, _dotnet, body)
    if is_known(body_type):
        return _guarded(Kind.BINARY, read_variant, body, body_type)
    return _by_looks(body)


def _guarded(kind: Kind, read: Callable[..., Decoded], *arguments: object) -> Decoded:
    try:
        return read(*arguments)
    except DecodeError as error:
        return Decoded(kind, error=str(error))
    except RecursionError:  # the caller's own stack is too deep for even a few levels
        return Decoded(kind, error="body: too deeply nested for the remaining stack")


def _by_looks(body: bytes) -> Decoded:
    if has_header(body):
        return _guarded(Kind.DOTNET, _dotnet, body)
    text = read_text(body)
    if text is None:
        return Decoded(Kind.BINARY, body)
    found = _document(text)
    if found.kind is Kind.XML and found.error is None and isinstance(found.value, str | bool | int | float):
        # XmlMessageFormatter wraps plain strings too; show its users the string.
        return Decoded(Kind.XML, found.value, plain_text(found.value))
    return found


def _typed_text(body: bytes, body_type: int) -> Decoded:
    return _document(TEXTS[body_type](body))


def _document(text: str) -> Decoded:
    """Text, decoded further if it is XML or JSON. Only malformed XML with a declaration is an error."""
    start = text.lstrip()[:5]
    if start.startswith("<"):
        found = _xml(text)
        return found if found.error is None or start == "<?xml" else Decoded(Kind.TEXT, text, text)
    if start.startswith(("{", "[")):
        found = _json(text)
        return found if found.error is None else Decoded(Kind.TEXT, text, text)
    return Decoded(Kind.TEXT, text, text)


def _xml(text: str) -> Decoded:
    try:
        return Decoded(Kind.XML, read_xml(text), text)
    except DecodeError as error:
        return Decoded(Kind.XML, text=text, error=str(error))


def _json(text: str) -> Decoded:
    try:
        return Decoded(Kind.JSON, read_json(text), text)
    except DecodeError as error:
        return Decoded(Kind.JSON, text=text, error=str(error))


def _dotnet(body: bytes) -> Decoded:
    value = value_of(read_stream(body))
    if isinstance(value, bytes):
        return Decoded(Kind.DOTNET, value)
    return Decoded(Kind.DOTNET, value, value if isinstance(value, str) else to_json(value))


# The expected kind, or an error


def _text_of(body: bytes, body_type: int) -> str:
    if body_type in TEXTS:
        return TEXTS[body_type](body)
    text = read_text(body)
    if text is None:
        raise DecodeError("body", "text", 0, "is neither UTF-8 nor UTF-16 text")
    return text


def _expect_text(body: bytes, body_type: int) -> Decoded:
    def read() -> Decoded:
        text = _text_of(body, body_type)
        return Decoded(Kind.TEXT, text, text)

    return _guarded(Kind.TEXT, read)


def _expect_xml(body: bytes, body_type: int) -> Decoded:
    return _guarded(Kind.XML, lambda: _xml(_text_of(body, body_type)))


def _expect_json(body: bytes, body_type: int) -> Decoded:
    return _guarded(Kind.JSON, lambda: _json(_text_of(body, body_type)))


def _expect_wcf(body: bytes, _: int) -> Decoded:
    return _guarded(Kind.WCF, read_wcf, body)


def _expect_dotnet(body: bytes, _: int) -> Decoded:
    return _guarded(Kind.DOTNET, _dotnet, body)


_EXPECTED: dict[str, Callable[[bytes, int], Decoded]] = {
    "text": _expect_text,
    "xml": _expect_xml,
    "json": _expect_json,
    "dotnet": _expect_dotnet,
    "wcf": _expect_wcf,
}
