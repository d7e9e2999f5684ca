"""The binary XML of .NET: records [MC-NBFX], SOAP's dictionary [MC-NBFS], the string tables of sessions
[MC-NBFSE].

`decode` gives the events of a document and `encode` writes them; `to_text` and `from_text` are the same for
XML text, `to_elements` and `from_elements` for ElementTree. Standard library only.
"""

from collections.abc import Iterable, Iterator

from tiercel.nbfx.dictionary import (
    NO_STRINGS,
    STATIC,
    DictionaryString,
    Ids,
    ReaderSession,
    SessionString,
    WriterSession,
)
from tiercel.nbfx.elements import Document, from_elements, to_elements
from tiercel.nbfx.events import END, Event, declaration
from tiercel.nbfx.reader import read_events
from tiercel.nbfx.values import DateTime, QName, Single, TimeSpan, UniqueId, Value, Zone, text_of
from tiercel.nbfx.writer import write_events
from tiercel.nbfx.xml_text import from_text, to_text

__all__ = [
    "END",
    "DateTime",
    "DictionaryString",
    "Document",
    "Event",
    "QName",
    "ReaderSession",
    "SessionString",
    "Single",
    "TimeSpan",
    "UniqueId",
    "Value",
    "WriterSession",
    "Zone",
    "declaration",
    "decode",
    "encode",
    "from_elements",
    "from_text",
    "text_of",
    "to_elements",
    "to_text",
]

_STATIC_IDS, _NO_IDS = Ids(), Ids(static=False)


def decode(data: bytes, session: ReaderSession | None = None, *, static: bool = True) -> Iterator[Event]:
    """The events of a document: of [MC-NBFSE] with a session, else of [MC-NBFS], or of [MC-NBFX] alone."""
    if session is not None:
        at = session.read_table(data)
        return read_events(data, session.strings, at=at)
    return read_events(data, STATIC if static else NO_STRINGS)


def encode(events: Iterable[Event], session: WriterSession | None = None, *, static: bool = True) -> bytes:
    """The document of the events in the same three formats."""
    if session is None:
        return write_events(events, _STATIC_IDS if static else _NO_IDS)
    document = write_events(events, Ids(session))
    return session.take_table() + document
