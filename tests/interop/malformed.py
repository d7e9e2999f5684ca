"""Binary XML that is mostly malformed, from a seed: mutations of good documents, and random records."""

import struct
from random import Random

from tiercel.nbfx import records
from tiercel.nbfx.int31 import write_int31

_NAMES = (
    b"a",
    b"b",
    b"xml",
    b"xmlns",
    b"type",
    b"x.y-z",
    b"A_1",
    b"\xc3\xa9",
    b"a:b",
    b"",
    b"-a",
    b"1a",
    b"a b",
)
_NAMESPACES = (
    b"urn:a",
    b"urn:b",
    b"",
    b" ",
    b"\xff",
    b"http://www.w3.org/2000/xmlns/",
    b"http://www.w3.org/XML/1998/namespace",
)
_TEXTS = (
    b"",
    b"x",
    b"ab",
    b"\xff",
    b"\x00",
    b"\xed\xa0\x80",  # half of a surrogate pair
    b"\x00\xd8",  # the same in UTF-16
    b"\xef\xbf\xbf",
    b"\r\n",
    b"\xf0\x9f\x98\x80",
    b"<&>\"'",
)
_IDS = (0, 1, 2, 3, 4, 10, 0xA2, 972, 974, 976)
_TEXT_RECORDS = range(records.ZERO, records.LAST_TEXT, 2)
_SIZES = {
    records.INT8: 1,
    records.BOOL: 1,
    records.INT16: 2,
    records.INT32: 4,
    records.FLOAT: 4,
    records.INT64: 8,
    records.DOUBLE: 8,
    records.DATE_TIME: 8,
    records.TIME_SPAN: 8,
    records.UINT64: 8,
    records.DECIMAL: 16,
    records.UUID_TEXT: 16,
    records.UNIQUE_ID: 16,
}
_LENGTHS = {
    **dict.fromkeys((records.CHARS8, records.BYTES8, records.UNICODE_CHARS8), "<B"),
    **dict.fromkeys((records.CHARS16, records.BYTES16, records.UNICODE_CHARS16), "<H"),
    **dict.fromkeys((records.CHARS32, records.BYTES32, records.UNICODE_CHARS32), "<i"),
}


def int31(number: int) -> bytes:
    out = bytearray()
    write_int31(out, number)
    return bytes(out)


class Malformed:
    """Writes documents that readers should agree about."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def mutated(self, document: bytes) -> bytes:
        """A document with one to three changes."""
        random, data = self._random, bytearray(document)
        for _ in range(random.choice((1, 1, 1, 2, 3))):
            at = random.randrange(len(data) + 1)
            match random.randrange(5):
                case 0:
                    data[at : at + 1] = bytes((random.randrange(256),))
                case 1:
                    del data[at : at + random.randrange(1, 4)]
                case 2:
                    data[at:at] = bytes(random.randrange(0xC0) for _ in range(random.randrange(1, 4)))
                case 3:
                    start = random.randrange(len(data) + 1)
                    data[at:at] = data[start : start + random.randrange(1, 12)]
                case _:
                    data[at : at + 1] = bytes(octet ^ 1 << random.randrange(8) for octet in data[at : at + 1])
        return bytes(data)

    def document(self) -> bytes:
        """Records that follow each other as they may, with contents that may be wrong."""
        return b"\x40\x01r\x09\x01b\x05urn:b" + self._element(1) + b"\x01"

    def _is(self, probability: float) -> bool:
        return self._random.random() < probability

    def _string(self, *choices: bytes) -> bytes:
        chosen = self._random.choice(choices)
        return int31(len(chosen)) + chosen

    def _name(self) -> bytes:
        return self._string(*(_NAMES[:7] if self._is(0.9) else _NAMES))

    def _id(self) -> bytes:
        return int31(self._random.choice(_IDS) if self._is(0.6) else 10)

    def _element(self, depth: int) -> bytes:
        content = b"".join(self._content(depth) for _ in range(self._random.randrange(4)))
        return self._start() + content + (b"\x01" if self._is(0.7) else self._text(1))

    def _start(self) -> bytes:
        match self._random.randrange(7):
            case 0:
                start = bytes((records.ELEMENT,)) + self._name() + self._name()
            case 1:
                start = bytes((records.SHORT_DICTIONARY_ELEMENT,)) + self._id()
            case 2:
                start = bytes((records.DICTIONARY_ELEMENT,)) + self._name() + self._id()
            case 3:
                start = bytes((records.PREFIX_DICTIONARY_ELEMENT_A + self._random.randrange(2),)) + self._id()
            case 4:
                start = bytes((records.PREFIX_ELEMENT_A + self._random.randrange(2),)) + self._name()
            case _:
                start = bytes((records.SHORT_ELEMENT,)) + self._name()
        if self._is(0.5):
            start += b"\x09\x01a\x05urn:a"
        attributes = self._random.choice((0, 0, 0, 1, 2, 3))
        return start + b"".join(self._attribute() for _ in range(attributes))

    def _attribute(self) -> bytes:
        record = self._random.randrange(records.SHORT_ATTRIBUTE, records.PREFIX_DICTIONARY_ATTRIBUTE_A + 2)
        head, name = bytes((record,)), self._name() if record & 2 == 0 else self._id()
        has_prefix = record & 1 and record < records.PREFIX_DICTIONARY_ATTRIBUTE_A
        if records.SHORT_XMLNS <= record <= records.DICTIONARY_XMLNS:
            name = self._string(*_NAMESPACES) if record & 2 == 0 else self._id()
            return head + (self._name() if has_prefix else b"") + name
        if record >= records.PREFIX_DICTIONARY_ATTRIBUTE_A:
            name = self._id()
        return head + (self._name() if has_prefix else b"") + name + self._text(0)

    def _content(self, depth: int) -> bytes:
        kind = self._random.random()
        if kind < 0.4:
            return self._text(0)
        if kind < 0.5:
            return bytes((records.COMMENT,)) + self._string(b"", b"x", b"--", b"\xff")
        if kind < 0.65:
            record = self._random.choice(_TEXT_RECORDS) | self._is(0.9)
            count = self._random.randrange(4)
            items = b"".join(self._payload(record & 0xFE) for _ in range(count))
            return bytes((records.ARRAY,)) + self._start() + b"\x01" + bytes((record, count)) + items
        return self._element(depth + 1) if depth < 5 else b""

    def _text(self, end: int) -> bytes:
        record = self._random.choice((*_TEXT_RECORDS, *[records.CHARS8] * 8))
        return bytes((record | end,)) + self._payload(record)

    def _payload(self, record: int) -> bytes:
        random = self._random
        if record == records.DECIMAL and self._is(0.7):
            scale, sign = random.choice((0, 5, 28, 29)), random.choice((0, 0x80, 1))
            return bytes((0, 0, scale, sign)) + random.randbytes(12)
        if record in _SIZES:
            octets = (0, 1, 0x7F, 0x80, 0xFF, random.randrange(256))
            return bytes(random.choice(octets) for _ in range(_SIZES[record]))
        if record in _LENGTHS:
            content = random.choice(_TEXTS)
            return struct.pack(_LENGTHS[record], len(content)) + content
        if record == records.START_LIST:
            return b"".join(self._text(0) for _ in range(random.randrange(4))) + bytes((records.END_LIST,))
        if record == records.DICTIONARY:
            return self._id()
        if record == records.QNAME_DICTIONARY:
            return bytes((random.choice((0, 1, 25, 26)),)) + self._id()
        return b""
