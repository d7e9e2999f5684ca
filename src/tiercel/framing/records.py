"""The records in front of the envelopes: [MC-NMF] 2.2.3 and 2.2.6."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from tiercel.model.errors import DecodeError
from tiercel.nbfx.int31 import BadRecordError, read_int31, write_int31

VIA_MAX_BYTES: Final = 2048  # of Windows: [MC-NMF] 3.1.4.5
CONTENT_TYPE_MAX_BYTES: Final = 256  # the same: [MC-NMF] 3.1.4.6
_VERSION: Final = b"\x01\x00"
STRUCTURE: Final = "framing"


class RecordType(IntEnum):
    """[MC-NMF] 2.2.1."""

    VERSION = 0x00
    MODE = 0x01
    VIA = 0x02
    KNOWN_ENCODING = 0x03
    EXTENSIBLE_ENCODING = 0x04
    UNSIZED_ENVELOPE = 0x05
    SIZED_ENVELOPE = 0x06
    END = 0x07
    FAULT = 0x08
    UPGRADE_REQUEST = 0x09
    UPGRADE_RESPONSE = 0x0A
    PREAMBLE_ACK = 0x0B
    PREAMBLE_END = 0x0C


class Mode(IntEnum):
    """[MC-NMF] 2.2.3.2, of which MSMQ has two."""

    SIMPLEX = 3  # a session: several envelopes in one message
    SINGLETON_SIZED = 4  # a datagram: one envelope


class Encoding(IntEnum):
    """[MC-NMF] 2.2.3.4.1."""

    SOAP11_UTF8 = 0
    SOAP11_UTF16 = 1
    SOAP11_UNICODE = 2
    SOAP12_UTF8 = 3
    SOAP12_UTF16 = 4
    SOAP12_UNICODE = 5
    MTOM = 6
    BINARY = 7
    BINARY_SESSION = 8


# The content types of an extensible encoding that name a known one.
_CONTENT_TYPES: Final = {
    "application/soap+msbin1": Encoding.BINARY,
    "application/soap+msbinsession1": Encoding.BINARY_SESSION,
    "application/soap+xml": Encoding.SOAP12_UTF8,
    "text/xml": Encoding.SOAP11_UTF8,
    "multipart/related": Encoding.MTOM,
}


@dataclass(frozen=True, slots=True)
class Preamble:
    """Mode, address and encoding of what follows: [MC-NMF] 2.2.6."""

    mode: Mode
    via: str
    encoding: Encoding
    content_type: str = ""  # of an extensible encoding record, which then stands for the known one

    def encode(self) -> bytes:
        out = bytearray((RecordType.VERSION, *_VERSION, RecordType.MODE, self.mode, RecordType.VIA))
        write_counted(out, self.via.encode())
        if self.content_type:
            out.append(RecordType.EXTENSIBLE_ENCODING)
            write_counted(out, self.content_type.encode())
        else:
            out += bytes((RecordType.KNOWN_ENCODING, self.encoding))
        if self.mode is Mode.SIMPLEX:
            out.append(RecordType.PREAMBLE_END)  # NMFMB trap 2
        return bytes(out)


class Cursor:
    """A place in a body; every problem is a DecodeError with the record and its offset."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    @property
    def is_at_end(self) -> bool:
        return self.at >= len(self.data)

    def error(self, record: RecordType, problem: str, at: int | None = None) -> DecodeError:
        name = record.name.title().replace("_", " ")
        return DecodeError(STRUCTURE, name, self.at if at is None else at, problem)

    def octet(self, record: RecordType) -> int:
        if self.is_at_end:
            raise self.error(record, "the body ends before this record is complete")
        self.at += 1
        return self.data[self.at - 1]

    def octets(self, record: RecordType, count: int) -> bytes:
        left = len(self.data) - self.at
        if count > left:
            raise self.error(record, f"{count} octets are announced, but {left} are left")
        self.at += count
        return self.data[self.at - count : self.at]

    def expect(self, record: RecordType) -> None:
        """Take the type of the one record that may stand here."""
        found = self.octet(record)
        if found != record:
            problem = f"{record_name(found)} stands where {record_name(record)} must"
            raise self.error(record, problem, self.at - 1)

    def counted(self, record: RecordType, limit: int | None = None) -> bytes:
        """The bytes that follow a size: [MC-NMF] 2.2.2."""
        start = self.at
        try:
            size, self.at = read_int31(self.data, self.at)
        except BadRecordError as problem:
            raise self.error(record, str(problem)) from None
        except IndexError:
            raise self.error(record, "the body ends inside a size") from None
        if size == 0:
            raise self.error(record, "the size must not be 0", start)
        if limit is not None and size > limit:
            raise self.error(record, f"{size} octets exceed the limit of {limit}", start)
        return self.octets(record, size)

    def text(self, record: RecordType, limit: int) -> str:
        start = self.at
        try:
            return self.counted(record, limit).decode()
        except UnicodeDecodeError as problem:
            raise self.error(record, f"not valid UTF-8: {problem.reason}", start) from None


def write_counted(out: bytearray, content: bytes) -> None:
    write_int31(out, len(content))
    out += content


def record_name(record: int) -> str:
    try:
        name = RecordType(record).name.replace("_", " ").lower()
    except ValueError:
        return f"an unknown record 0x{record:02X}"
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name} record"


def read_preamble(cursor: Cursor) -> Preamble:
    """Version, mode, via and encoding, in this order: [MC-NMF] 2.2.6 and 3.3.4.2."""
    cursor.expect(RecordType.VERSION)
    version = cursor.octets(RecordType.VERSION, 2)
    if version != _VERSION:
        problem = f"the version must be 1.0, not {version[0]}.{version[1]}"
        raise cursor.error(RecordType.VERSION, problem, cursor.at - 2)
    cursor.expect(RecordType.MODE)
    mode = _mode(cursor)
    cursor.expect(RecordType.VIA)
    via = cursor.text(RecordType.VIA, VIA_MAX_BYTES)
    encoding, content_type = _encoding(cursor)
    if mode is Mode.SIMPLEX:
        cursor.expect(RecordType.PREAMBLE_END)
    return Preamble(mode, via, encoding, content_type)


def _mode(cursor: Cursor) -> Mode:
    number = cursor.octet(RecordType.MODE)
    try:
        return Mode(number)
    except ValueError:
        problem = f"the mode must be 3 (simplex) or 4 (singleton sized), not {number}"
        raise cursor.error(RecordType.MODE, problem, cursor.at - 1) from None


def _encoding(cursor: Cursor) -> tuple[Encoding, str]:
    record = cursor.octet(RecordType.KNOWN_ENCODING)
    if record == RecordType.KNOWN_ENCODING:
        number = cursor.octet(RecordType.KNOWN_ENCODING)
        try:
            return Encoding(number), ""
        except ValueError:
            problem = f"the encoding must be 0 to 8, not {number}"
            raise cursor.error(RecordType.KNOWN_ENCODING, problem, cursor.at - 1) from None
    if record != RecordType.EXTENSIBLE_ENCODING:
        problem = f"{record_name(record)} stands where an encoding must"
        raise cursor.error(RecordType.KNOWN_ENCODING, problem, cursor.at - 1)
    start = cursor.at
    content_type = cursor.text(RecordType.EXTENSIBLE_ENCODING, CONTENT_TYPE_MAX_BYTES)
    encoding = _CONTENT_TYPES.get(content_type.partition(";")[0].strip().lower())
    if encoding is None:
        problem = f"unknown content type {content_type[:80]!a}"
        raise cursor.error(RecordType.EXTENSIBLE_ENCODING, problem, start)
    return encoding, content_type
