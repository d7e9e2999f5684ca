"""A search by the bytes finds what a search in the decoded message finds."""

import json
import re
import struct

import pytest

from tiercel.admin.message_filter import Query
from tiercel.api.message_matcher import MessageMatcher
from tiercel.api.search_process import Search, question_of
from tiercel.bodies import bus_headers, decode, encode
from tiercel.engine.records import Record
from tiercel.model.format_name import FormatName
from tiercel.model.message import Message
from tiercel.wire.message import encode_message

BUS = (
    "<ArrayOfHeaderInfo><HeaderInfo><Key>a</Key><Value>4711 &amp; x</Value></HeaderInfo></ArrayOfHeaderInfo>"
)
DOTNET = encode("grüße 4711", "binary")
MESSAGES = {
    "nothing": Message(),
    "text": Message("grüße 4711".encode()),
    "label": Message(b"x", label="order 4711 \N{SNOWMAN}"),
    "UTF-16": Message("grüße 4711".encode("utf-16-le")),
    "big-endian": Message("\ufeffgrüße 4711".encode("utf-16-be")),
    "string of COM": Message("grüße 4711".encode("utf-16-le"), body_type=8),
    "letters that match two": Message("\N{KELVIN SIGN}elvin ma\N{LATIN SMALL LETTER LONG S}s".encode()),
    "NULs": Message(b"4711\0\0\0<a>order</a>"),
    "NULs in UTF-16": Message("\ufeff4711\0\0order".encode("utf-16-le")),
    "control characters": Message(b"4711\x01order"),
    "number": Message(struct.pack("<i", 4711), body_type=3),
    "XML": Message(b"<a><b>4711</b><c>&#52;&#55;</c></a>"),
    "value in XML": Message(b'<?xml version="1.0"?>\r\n<string>4&#55;11</string>'),
    "number in XML": Message(b'<?xml version="1.0"?>\r\n<int>04711</int>'),
    "Latin 1": Message('<?xml version="1.0" encoding="iso-8859-1"?><a><b>grüße</b></a>'.encode("latin-1")),
    "JSON": Message(b'{"a": "\\u0034711", "b": [4711]}'),
    "MassTransit": Message(b'{"messageType": ["urn:\\u0034711"], "message": {}}'),
    "NServiceBus": Message(b"x", extension=BUS.encode()),
    ".NET": Message(DOTNET.body, body_type=DOTNET.body_type),
    ".NET by its looks": Message(DOTNET.body),
    "binary": Message(b"\x00\x01\xff4711"),
    "encrypted": Message(b"4711", symmetric_key=b"key", label="4711"),
}
PATTERNS = [
    "4711",
    "GRÜSSE",
    "order",
    "(?i)ORDER 47",
    "kelvin",
    "mass",
    "^4711$",
    "gr..e",
    "(?s)^.*$",
    "4.*1",
    "&",
    "a",
    "^$",
    r"\\u0034",
    "<",
]


def packet(message: Message) -> bytes:
    message.destination_queue = FormatName.parse(r"DIRECT=OS:h\private$\q")
    return encode_message(message)


def texts(message: Message) -> list[str]:
    if message.symmetric_key:
        return [message.label]
    decoded = decode(message.body, message.body_type)
    headers = {**decoded.headers, **bus_headers(message.extension, decoded)}
    return [message.label, *headers.values(), decoded.text or ""]


@pytest.mark.parametrize("name", MESSAGES)
@pytest.mark.parametrize("ignore_case", [False, True])
def test_what_is_decoded_is_found(name: str, ignore_case: bool) -> None:
    message = MESSAGES[name]
    for pattern in PATTERNS:
        wanted = re.compile(pattern, re.IGNORECASE if ignore_case else 0)
        expected = any(map(wanted.search, texts(message)))
        assert MessageMatcher(pattern, ignore_case=ignore_case).matches(packet(message)) is expected, pattern


def test_a_pattern_that_takes_forever_skips_its_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tiercel.api.search_process.MESSAGE_S", 0.02)
    packets = [packet(Message(body)) for body in (b"aaa", b"a" * 40 + b"b", b"aa")]
    rows = [(number, Record(packet, 0)) for number, packet in enumerate(packets)]
    answer = json.loads(Search().answer(question_of(Query(r"^(a|a)+$"), rows, None, 100)))
    assert (answer["found"], answer["skipped"], answer["looked"]) == ([0, 2], [1], 3)


def test_an_invalid_pattern() -> None:
    assert b"missing )" in Search().answer(question_of(Query("("), [], None, 1))
    assert b"error" in Search().answer(question_of(Query("(" * 2000 + ")" * 2000), [], None, 1))
