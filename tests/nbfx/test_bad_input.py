"""Bytes that are not a document: one error with record and offset, whatever they are."""

import tracemalloc
from collections import deque
from contextlib import suppress

import pytest

from tiercel import nbfx
from tiercel.model.errors import DecodeError
from tiercel.nbfx import names
from tiercel.nbfx.dictionary import table_of
from tiercel.nbfx.int31 import write_int31
from tiercel.nbfx.limits import DEPTH_MAX, SESSION_BYTES_MAX, SESSION_STRINGS_MAX
from tiercel.nbfx.reader import read_events

from .vectors import load, read

ROOT = "400172"  # <r>
XML = b"http://www.w3.org/XML/1998/namespace".hex()
XMLNS = b"http://www.w3.org/2000/xmlns/".hex()
DOCUMENTS = [
    (vector["format"], bytes.fromhex(vector["hex"]), vector["name"])
    for vector in load("nbfx")
    if not vector.get("error")
]


def problem(document: str, form: str = "nbfs") -> str:
    with pytest.raises(DecodeError) as caught:
        read(form, bytes.fromhex(document))
    return str(caught.value)


@pytest.mark.parametrize(("form", "data", "name"), DOCUMENTS, ids=lambda each: str(each)[:24])
def test_truncated_at_every_byte(form: str, data: bytes, name: str) -> None:
    for size in range(len(data)):
        with pytest.raises(DecodeError) as caught:
            read(form, data[:size])
        assert caught.value.offset <= size, name


@pytest.mark.parametrize("record", [0x00, 0x78, 0x7F, 0xA5, 0xA7, 0xBE, 0xFF])
def test_unknown_records(record: int) -> None:
    assert problem(f"{ROOT}{record:02x}01").endswith("at byte 3: unknown record type")


@pytest.mark.parametrize(
    ("rest", "said"),
    [
        ("42d00701", "ShortDictionaryElement at byte 3: the dictionary has no string 976"),
        ("ab01", "the dictionary has no string 1"),
        ("9d00000080", "Chars32TextWithEndElement at byte 3: the length -2147483648 is negative"),
        ("9dffffff7f41", "2147483647 bytes are announced, but 1 are left"),
        ("a3ffffff7f41", "2147483647 bytes are announced, but 1 are left"),
        ("40ffffffff07", "a string of 2147483647 bytes is announced"),
        ("40ffffffff0f", "a size exceeds 2147483647"),
        ("40ffffffffff01", "a size exceeds 2147483647"),
        ("0340016101b5ffffffff07", "2147483647 items are announced"),
        ("0340016101b500", "an array has no items"),
        ("0340016101990178", "an array cannot contain Chars8TextWithEndElement"),
        ("0398", "an array needs an element, not Chars8Text"),
        ("034001619901", "the element of an array must be empty"),
        ("b70200d8", "not valid UTF-16-LE"),
        ("b703616263", "not valid UTF-16-LE"),
        ("9903eda080", "not valid UTF-8"),
        ("9901ff", "not valid UTF-8"),
        ("9500001d00000000000000000000000000", "the scale of a decimal must be 0 to 28, not 29"),
        ("9500000101000000000000000000000000", "the sign of a decimal must be 0x00 or 0x80, not 0x01"),
        ("9501000000000000000000000000000000", "the reserved bits of a decimal must be 0, not 0x0001"),
        ("970040f4f475280a2c", "beyond the year 9999"),
        ("a4a401a6a6", "a list contains StartListText"),
        ("a401", "a list contains EndElement"),
        ("a4bc0102a6", "a list contains QnameDictionaryText"),
        ("a48901a6", "a list contains Int8TextWithEndElement"),
        ("bd1a02", "the prefix of a QName must be 0 to 25, not 26"),
        ("0401618901", "an attribute needs a text record, not Int8TextWithEndElement"),
        ("04016101", "an attribute needs a text record, not EndElement"),
        ("5e016101", "the prefix 'a' is not declared"),
        ("2601618601", "the prefix 'a' is not declared"),
        ("0901610001", "the prefix 'a' is bound to the empty namespace"),
        ("0903786d6c0375727201", "the prefix 'xml' cannot be bound to 'urr'"),
        ("0905786d6c6e730375727201", "the prefix 'xmlns' cannot be bound to 'urr'"),
        ("0405786d6c6e73860101", "xmlns must be declared by a record of its own"),
        (f"0824{XML}01", "the prefix '' cannot be bound to 'http://www.w3.org/XML/1998/namespace'"),
        (f"09016124{XML}01", "the prefix 'a' cannot be bound to 'http://www.w3.org/XML/1998/namespace'"),
        (f"081d{XMLNS}01", "the prefix '' cannot be bound to 'http://www.w3.org/2000/xmlns/'"),
        (f"0901611d{XMLNS}01", "the prefix 'a' cannot be bound to 'http://www.w3.org/2000/xmlns/'"),
        ("080375727208037572720101", "the prefix '' is declared twice"),
        ("04016186040161820101", "an attribute comes twice"),
        ("40013c01", "'<' is not a valid XML name"),
        ("40013101", "'1' is not a valid XML name"),
        ("4002613a01", "'a:' is not a valid XML name"),
        ("40 02c2b2 01", "'\\xb2' is not a valid XML name"),
        ("40 03cc8161 01", "'\\u0301a' is not a valid XML name"),
        ("40 05612f3ec3a9 01", "'a/>\\xe9' is not a valid XML name"),
        ("40 056120c3a9 3d 01", "'a \\xe9=' is not a valid XML name"),
        ("400001", "'' is not a valid XML name"),
        ("420401", "is not a valid XML name"),
        ("98017804016186", "an attribute must follow the start of its element"),
    ],
)
def test_invalid_records(rest: str, said: str) -> None:
    assert said in problem(ROOT + rest)


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ("", "there is no root element"),
        ("020178", "there is no root element"),
        ("9801", "text outside of the root element"),
        ("01", "there is no open element to end"),
        ("0340016101b50101", "an array outside of the root element"),
        ("4001720140017301", "there is a second root element"),
        ("40017201ff", "text outside of the root element"),
        ("4001729901789901", "text outside of the root element"),
        ("400172", "the data ends inside the record"),
        ("4001720140", "there is a second root element"),
    ],
)
def test_documents_need_one_root(document: str, said: str) -> None:
    assert said in problem(document)


def test_comments_around_the_root() -> None:
    assert nbfx.to_text(read("nbfx", bytes.fromhex("02016140017201020162"))) == "<!--a--><r></r><!--b-->"


def test_overlong_sizes_are_accepted_as_dotnet_accepts_them() -> None:
    assert nbfx.to_text(read("nbfx", bytes.fromhex("40818080007201"))) == "<r></r>"


def test_depth() -> None:
    whole = b"\x40\x01r" * DEPTH_MAX + b"\x01" * DEPTH_MAX
    assert len(read("nbfx", whole)) == 2 * DEPTH_MAX
    deep = b"\x40\x01r" * 100_000 + b"\x01" * 100_000
    assert f"deeper than {DEPTH_MAX} levels" in problem(deep.hex())


def memory_of(data: bytes) -> int:
    """The bytes that reading a document takes at its peak, beyond the document."""
    tracemalloc.start()
    try:
        deque(nbfx.decode(data), maxlen=0)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_document() -> None:
    def document(count: int) -> bytes:
        return b"\x40\x01r" + b"\x40\x01e\x99\x0412345"[:-1] * count + b"\x01"

    memory_of(document(10))  # fills the caches
    assert memory_of(document(50_000)) < memory_of(document(100)) + 20_000


@pytest.mark.parametrize(
    ("table", "times"),
    [
        (b"\x02\x01a", SESSION_STRINGS_MAX),
        (b"\x82\x80\x02\xff\xff\x01" + b"a" * 0x7FFF, SESSION_BYTES_MAX // 0x7FFF),
    ],
)
def test_string_tables_that_grow_without_end(table: bytes, times: int) -> None:
    session = nbfx.ReaderSession()
    for _ in range(times):
        session.read_table(table)
    with pytest.raises(DecodeError, match="the session has more than"):
        session.read_table(table)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("", "the data ends inside the table"),
        ("80", "the data ends inside the table"),
        ("05", "the table has 5 bytes, but 0 are left"),
        ("020261", "a string of 2 bytes exceeds the table"),
        ("0201ff", "not valid UTF-8"),
        ("ffffffff0f", "a size exceeds 2147483647"),
    ],
)
def test_bad_string_tables(table: str, said: str) -> None:
    assert said in problem(table, "nbfse")


def test_a_long_string_repeated_is_not_written_out() -> None:
    """Eight bytes of a record may stand for 32 KiB: the text has a limit."""
    session = nbfx.ReaderSession()
    session.read_table(b"\x82\x80\x02\xff\xff\x01" + b"a" * 0x7FFF)
    bomb = b"\x40\x01r" + b"\xaa\x01" * 100_000 + b"\x01"
    with pytest.raises(DecodeError, match="characters"):
        nbfx.to_text(read_events(bomb, session.strings))
    with pytest.raises(DecodeError, match="characters"):
        nbfx.to_elements(read_events(bomb, session.strings))


def sized(text: str) -> bytes:
    out = bytearray()
    write_int31(out, len(text))
    return bytes(out) + text.encode()


MANY_PREFIXES = b"".join(b"\x09" + sized(f"p{n}") + b"\x01u" for n in range(2_000))
ATTRIBUTES = b"".join(b"\x04" + sized(f"a{n}") + b"\xaa\x01" for n in range(2_000))
AMPLIFIERS = {  # the document, whose string 1 has 30,000 characters
    "elements that declare in the scope of many prefixes": (
        b"\x40\x01r" + MANY_PREFIXES + b"\x40\x01e\x08\x01v\x01" * 2_000 + b"\x01"
    ),
    "elements in a long namespace": b"\x40\x01r\x08"
    + sized("n" * 30_000)
    + b"\x40\x01e\x01" * 2_000
    + b"\x01",
    "attributes that share a long value": b"\x40\x01r" + ATTRIBUTES + b"\x01",
    "prefixes that share a long namespace": (
        b"\x40\x01r" + b"".join(b"\x0b" + sized(f"p{n}") + b"\x01" for n in range(2_000)) + b"\x01"
    ),
}


@pytest.mark.parametrize("name", AMPLIFIERS)
def test_what_elements_share_is_not_copied(name: str) -> None:
    """Each would take 60 MB and more."""
    session = nbfx.ReaderSession()
    session.read_table(table_of(["s" * 30_000]))
    tracemalloc.start()
    try:
        nbfx.to_elements(read_events(AMPLIFIERS[name], session.strings))
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
        with suppress(DecodeError):
            nbfx.to_text(read_events(AMPLIFIERS[name], session.strings), 1_000_000)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def test_scopes_of_text_are_not_copied() -> None:
    prefixes = " ".join(f"xmlns:p{n}='u'" for n in range(2_000))
    elements = "<e xmlns='v'/>" * 2_000
    tracemalloc.start()
    try:
        nbfx.to_elements(nbfx.from_text(f"<r {prefixes}>{elements}</r>"))
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def test_lists_and_arrays_that_stand_for_far_more() -> None:
    session = nbfx.ReaderSession()
    session.read_table(table_of(["s" * 200_000]))
    lists = b"\x40\x01r\xa4" + b"\xaa\x01" * 1_000 + b"\xa6\x01"
    with pytest.raises(DecodeError, match="a list has more than 100000 values of together"):
        list(read_events(lists, session.strings))
    array = b"\x40\x01r\x03\x40\x01e" + b"".join(b"\x04" + sized(f"a{n}") + b"\x86" for n in range(2_000))
    with pytest.raises(DecodeError, match="more than 1000000 elements"):
        list(nbfx.decode(array + b"\x01\xb5\x84\x1e" + b"\1" * 0xF04 + b"\x01"))
    values = b"".join(b"\x04" + sized(f"a{n}") + b"\xa4" + b"\xaa\x01" * 50 + b"\xa6" for n in range(10))
    with pytest.raises(DecodeError, match="characters of text"):
        nbfx.to_elements(read_events(b"\x40\x01r" + values + b"\x01", session.strings))


def test_a_long_name_of_the_dictionary_is_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[str] = []

    def is_name(text: str) -> bool:
        checked.append(text)
        return names.is_name(text)

    monkeypatch.setattr("tiercel.nbfx.reader.is_name", is_name)
    session = nbfx.ReaderSession()
    session.read_table(table_of(["n" * 10_000]))
    inner = b"\x42\x01\x06\x01\x86\x01" * 100 + b"\x03\x42\x01\x01\xb5\x01\x01" * 100
    list(read_events(b"\x42\x01" + inner + b"\x01", session.strings))
    assert checked == ["n" * 10_000]
