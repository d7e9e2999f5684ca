"""A small body must not become a large value: each of these would without a limit."""

import tracemalloc

import pytest

from tiercel.bodies import Decoded, decode
from tiercel.bodies.limits import DEPTH_MAX

from .streams import (
    INT32,
    NULL,
    OBJECT,
    binary_array,
    class_with_id,
    i32,
    member_types,
    objects,
    primitive,
    primitives,
    reference,
    stream,
    string,
    system_class,
    text,
)

MANY = 0x7FFFFFFF
ONE_MIB = 1 << 20


def decode_within(body: bytes, memory: int) -> Decoded:
    tracemalloc.start()
    try:
        decoded = decode(body)
        assert decoded.json is None or len(decoded.json) < memory
        assert tracemalloc.get_traced_memory()[1] < memory
    finally:
        tracemalloc.stop()
    return decoded


def nested(levels: int) -> bytes:
    """Arrays in arrays, each inside the one before."""
    return stream(*(objects(number, count=1) for number in range(1, levels)), objects(levels, NULL))


BOMBS = {
    "nulls": stream(objects(1, b"\x0e" + i32(20_000), count=20_000)),
    "more_nulls": stream(objects(1, b"\x0e" + i32(MANY), count=MANY)),
    "nulls_in_many_arrays": stream(
        *(objects(number, b"\x0e" + i32(9_000), count=9_000) for number in range(1, 100))
    ),
    "bytes": stream(primitives(1, 2, MANY, b"")),
    "characters": stream(primitives(1, 3, MANY, b"a")),
    "numbers": stream(primitives(1, INT32, MANY, b"")),
    "members": stream(b"\x02" + i32(1) + text("T") + i32(MANY)),
    "dimensions": stream(binary_array(1, 2, (100_000, 100_000), primitive(INT32))),
    "rows_of_nothing": stream(binary_array(1, 2, (MANY, 0), primitive(INT32))),
    "rows_of_nothing_in_rows": stream(binary_array(1, 2, (1000, 1000, 1000, 0), primitive(INT32))),
    "arguments": stream(b"\x16" + i32(2) + i32(MANY)),
    "string": stream(b"\x06" + i32(1) + b"\xff\xff\xff\xff\x07"),
    "xml_entities": b"""<?xml version="1.0"?>
        <!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]><x>&b;</x>""",
    "json_depth": b"[" * 100_000,
    "deep_arrays": nested(DEPTH_MAX + 1),
    "deep_xml": b"<?xml version='1.0'?>" + b"<a>" * 10_000,
}


@pytest.mark.parametrize("name", sorted(BOMBS))
def test_a_promise_costs_nothing(name: str) -> None:
    decoded = decode_within(BOMBS[name], ONE_MIB)
    assert decoded.error is not None or name == "json_depth"  # which is text


def test_nesting_up_to_the_limit() -> None:
    decoded = decode(nested(DEPTH_MAX))
    assert decoded.error is None
    assert decoded.json == "[" * DEPTH_MAX + "null" + "]" * DEPTH_MAX


def test_one_long_text_in_many_places() -> None:
    body = stream(objects(1, *[reference(2)] * 1000), string(2, "x" * 100_000))
    decoded = decode_within(body, 10 * ONE_MIB)
    assert "characters when every use is written out" in str(decoded.error)


def test_long_names_of_members_in_many_objects() -> None:
    first = system_class(2, "T", "n" * 100_000, member_types(primitive(1)), b"\1")
    others = [class_with_id(number, 2, b"\1") for number in range(3, 1003)]
    decoded = decode_within(stream(objects(1, first, *others)), 10 * ONE_MIB)
    assert "characters when every use is written out" in str(decoded.error)


def bytes_of(number: int) -> bytes:
    return primitives(number, 2, 100_000, bytes(100_000))


LIST = "System.Collections.Generic.List`1[[System.Byte]]"
HASHTABLE = "System.Collections.Hashtable"
SHARING = {  # a class with its members and their types, and the values of one of its objects
    "lists": (LIST, "_items _size", bytes([OBJECT]), reference(9999) + i32(100_000)),
    "hashtables": (HASHTABLE, "Keys Values", bytes([OBJECT]), reference(9999) * 2),
}


@pytest.mark.parametrize("name", SHARING)
def test_an_array_in_many_lists(name: str) -> None:
    class_name, members, kind, values = SHARING[name]
    second = kind if name == "hashtables" else primitive(INT32)
    first = system_class(2, class_name, members, member_types(kind, second), values)
    others = [class_with_id(number, 2, values) for number in range(3, 1003)]
    decoded = decode_within(stream(objects(1, first, *others), bytes_of(9999)), 100 * ONE_MIB)
    assert "characters when every use is written out" in str(decoded.error)


def test_an_array_in_one_list() -> None:
    first = system_class(
        1, LIST, "_items _size", member_types(bytes([OBJECT]), primitive(INT32)), reference(9) + i32(100_000)
    )
    assert decode(stream(first, bytes_of(9))).value == [0] * 100_000


@pytest.mark.parametrize(
    ("field", "name"),
    [
        ("<Total>k__BackingField", "Total"),
        ("Base+<Total>k__BackingField", "Total"),
        ("a+<b+<c>k__BackingField", "c"),
        ("Total>k__BackingField", "Total>k__BackingField"),
        ("<>k__BackingField", "<>k__BackingField"),
        ("+<" * 200_000 + ">k__BackingField", "+<" * 200_000 + ">k__BackingField"),  # linear
        ("+<" * 200_000, "+<" * 200_000),
    ],
)
def test_names_of_backing_fields(field: str, name: str) -> None:
    value = decode(stream(system_class(1, "T", field, member_types(primitive(1)), b"\1"))).value
    assert value == {"$type": "T", name: True}


def test_arrays_of_many_dimensions_in_each_other() -> None:
    levels = [binary_array(number, 2, (1,) * 32, bytes([OBJECT])) for number in range(1, 40)]
    decoded = decode(stream(b"".join(levels) + NULL))
    assert "nested deeper than" in str(decoded.error)


def test_a_long_namespace_on_many_elements() -> None:
    body = b'<?xml version="1.0"?><a xmlns="' + b"u" * 2000 + b'">' + b"<b/>" * 1000 + b"</a>"
    assert "xmlns" in str(decode(body).error)


def test_too_many_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tiercel.bodies.xml_documents.ITEMS_MAX", 10)
    assert "more than 10 elements" in str(
        decode(b'<?xml version="1.0"?><a>' + b"<b c='1'/>" * 5 + b"</a>").error
    )
    assert decode(b'<?xml version="1.0"?><a>' + b"<b c='1'/>" * 4 + b"</a>").error is None


def test_a_caller_deep_in_its_stack() -> None:
    def deeper() -> Decoded:
        try:
            return deeper()
        except RecursionError:
            return decode(b"")

    assert deeper().error is None

    def at_depth(levels: int) -> Decoded:
        return at_depth(levels - 1) if levels else decode(nested(DEPTH_MAX))

    for levels in range(0, 900, 50):
        try:
            decoded = at_depth(levels)
        except RecursionError:
            pytest.fail(f"raised at {levels}")
        assert decoded.error in {None, "body: too deeply nested for the remaining stack"}
