"""Strings that records refer to by number: [MC-NBFS] 2.2, and the string tables of a session, [MC-NBFSE] 2.

Even ids are the static strings of SOAP, odd ids those that a session has sent. A name that was read from a
dictionary says so by its class, and a writer refers to such a name by number and spells out every other str.
That is what .NET's writer does with its XmlDictionaryString.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from tiercel.model.errors import DecodeError
from tiercel.nbfx.int31 import BadRecordError, read_int31, write_int31
from tiercel.nbfx.limits import SESSION_BYTES_MAX, SESSION_STRINGS_MAX
from tiercel.nbfx.static_strings import STATIC_STRINGS


class DictionaryString(str):
    """A string that is written as a number where the static dictionary or the session has it."""

    __slots__ = ()


class SessionString(DictionaryString):
    """A string of a session's table, whose number is written even if the static dictionary has it."""

    __slots__ = ()


Strings = Mapping[int, DictionaryString]
STATIC: Final[Strings] = {2 * index: DictionaryString(string) for index, string in enumerate(STATIC_STRINGS)}
NO_STRINGS: Final[Strings] = {}
_STATIC_IDS: Final[dict[str, int]] = {
    string: number for number, string in sorted(STATIC.items(), reverse=True)
}


class ReaderSession:
    """The strings that the documents of a session may refer to: the static ones, and those of its tables so
    far.
    """

    def __init__(self) -> None:
        self.strings: dict[int, DictionaryString] = dict(STATIC)
        self._count = self._size = 0

    def read_table(self, data: bytes, at: int = 0) -> int:
        """Take in the table in front of a document; the offset at which the document begins.

        [MC-NBFSE] 2.1. A string that comes twice is accepted, as .NET accepts it: it has two ids.
        """
        start = at
        try:
            size, at = read_int31(data, at)
            end = at + size
            _check_size(size, len(data) - at)
            while at < end:
                start = at
                at = self._read_string(data, at, end)
        except BadRecordError as problem:
            raise DecodeError("binary XML", "StringTable", start, str(problem)) from None
        except IndexError:
            raise DecodeError("binary XML", "StringTable", start, "the data ends inside the table") from None
        except UnicodeDecodeError as problem:
            reason = f"not valid UTF-8: {problem.reason}"
            raise DecodeError("binary XML", "StringTable", start, reason) from None
        return end

    def _read_string(self, data: bytes, at: int, end: int) -> int:
        length, at = read_int31(data, at)
        stop = at + length
        if stop > end:
            raise BadRecordError(f"a string of {length} bytes exceeds the table")
        self._size += length
        if self._size > SESSION_BYTES_MAX or self._count == SESSION_STRINGS_MAX:
            limit = f"{SESSION_STRINGS_MAX} strings of together {SESSION_BYTES_MAX} bytes"
            raise BadRecordError(f"the session has more than {limit}")
        self.strings[2 * self._count + 1] = SessionString(data[at:stop].decode())
        self._count += 1
        return stop


class WriterSession:
    """The strings that a session has sent so far."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}
        self._new: list[str] = []
        self._size = 0

    def id_of(self, string: str) -> int | None:
        """The id of a string, which joins the next table if it is new; None when the session is full."""
        found = self._ids.get(string)
        if found is not None:
            return found
        size = self._size + len(string.encode())
        if size > SESSION_BYTES_MAX or len(self._ids) == SESSION_STRINGS_MAX:
            return None
        self._size = size
        self._new.append(string)
        self._ids[string] = number = 2 * len(self._ids) + 1
        return number

    def take_table(self) -> bytes:
        """The table of the strings that are new since the last one."""
        strings, self._new = self._new, []
        return table_of(strings)


def _check_size(size: int, left: int) -> None:
    if size > left:
        raise BadRecordError(f"the table has {size} bytes, but {left} are left")


def table_of(strings: Iterable[str]) -> bytes:
    """A StringTable: [MC-NBFSE] 2.1."""
    content, table = bytearray(), bytearray()
    for string in strings:
        encoded = string.encode()
        write_int31(content, len(encoded))
        content += encoded
    write_int31(table, len(content))
    return bytes(table + content)


def static_id(string: str) -> int | None:
    """The id of a string of the static dictionary: [MC-NBFS] 2.2."""
    return _STATIC_IDS.get(string)


SPELLED_OUT: dict[tuple[str, str], bytes] = {}  # the records of elements whose names are not looked up


class Ids:
    """The numbers of strings for a writer, of the dictionaries that the document's format has."""

    def __init__(self, session: WriterSession | None = None, *, static: bool = True) -> None:
        self._session = session
        self._static = static
        # The records of the others by the class of the name, prefix and name: envelopes use the same few.
        self.starts: dict[type, dict[tuple[str, str], bytes]] = {
            DictionaryString: {},
            SessionString: {},
        }

    def of(self, string: object) -> int | None:
        kind = type(string)
        if kind is DictionaryString:
            found = _STATIC_IDS.get(string) if self._static else None  # type: ignore[call-overload]
            if found is not None:
                return int(found)
        elif kind is not SessionString:
            return None
        return None if self._session is None else self._session.id_of(string)  # type: ignore[arg-type]
