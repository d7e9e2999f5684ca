"""Envelopes to events and back, in the encoding that the preamble names: [MC-NMF] 2.2.3.4."""

from collections.abc import Iterable
from typing import Final

from tiercel.framing.mtom import read_mtom, write_mtom
from tiercel.framing.records import Encoding, Preamble
from tiercel.nbfx import Event, ReaderSession, WriterSession, decode, encode, from_text, to_text

_UTF8: Final = {Encoding.SOAP11_UTF8, Encoding.SOAP12_UTF8}
SOAP11: Final = {Encoding.SOAP11_UTF8, Encoding.SOAP11_UTF16, Encoding.SOAP11_UNICODE}
_DECLARATION: Final = '<?xml version="1.0" encoding="utf-16"?>'


class EnvelopeReader:
    """Reads the envelopes of one body in their order; a session's strings run on from one to the next."""

    def __init__(self, preamble: Preamble) -> None:
        self._preamble = preamble
        self._session = ReaderSession() if preamble.encoding is Encoding.BINARY_SESSION else None

    def read(self, envelope: bytes) -> list[Event]:
        encoding = self._preamble.encoding
        if encoding in {Encoding.BINARY, Encoding.BINARY_SESSION}:
            return list(decode(envelope, self._session))
        if encoding is Encoding.MTOM:
            return read_mtom(envelope, self._preamble.content_type)
        # UTF-16 comes in either order: the byte order mark or the first "<" tells.
        extensible = bool(self._preamble.content_type)
        return from_text(envelope, "utf-8" if encoding in _UTF8 and not extensible else None)


class EnvelopeWriter:
    """Writes the envelopes of one body in their order."""

    def __init__(self, encoding: Encoding) -> None:
        self._encoding = encoding
        self._session = WriterSession() if encoding is Encoding.BINARY_SESSION else None

    def write(self, events: Iterable[Event]) -> bytes:
        encoding = self._encoding
        if encoding in {Encoding.BINARY, Encoding.BINARY_SESSION}:
            return encode(events, self._session)
        if encoding is Encoding.MTOM:
            return write_mtom(events)
        if encoding in _UTF8:
            return to_text(events).encode()
        return b"\xff\xfe" + (_DECLARATION + to_text(events)).encode("utf-16-le")
