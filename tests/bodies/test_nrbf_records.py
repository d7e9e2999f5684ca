"""Every record of [MS-NRBF] 2.3 to 2.6, and what a bad one gives."""

import struct

import pytest

from tiercel.bodies import Kind, decode
from tiercel.model.codes import BodyType

from .streams import (
    BOOLEAN,
    BYTE,
    CHAR,
    DATE_TIME,
    DECIMAL,
    DOUBLE,
    INT16,
    INT32,
    INT64,
    NULL,
    NULL_TYPE,
    OBJECT,
    SINGLE,
    STRING,
    STRING_TYPE,
    TIME_SPAN,
    UINT64,
    binary_array,
    class_info,
    class_of_library,
    class_with_id,
    header,
    i32,
    library,
    member_types,
    objects,
    primitive,
    primitives,
    reference,
    stream,
    string,
    system_class,
    text,
    typed,
)

INT = primitive(INT32)


def value(*records: bytes) -> object:
    decoded = decode(stream(*records), BodyType.BINARY_OBJECT)
    assert (decoded.kind, decoded.error) == (Kind.DOTNET, None)
    return decoded.value


def error(body: bytes) -> str:
    decoded = decode(body, BodyType.BINARY_OBJECT)
    assert (decoded.kind, decoded.value, decoded.text, decoded.json) == (Kind.DOTNET, None, None, None)
    assert decoded.error is not None
    return decoded.error


class TestPrimitives:
    @pytest.mark.parametrize(
        ("kind", "data", "expected"),
        [
            (BOOLEAN, b"\1", True),
            (BYTE, b"\xff", 255),
            (CHAR, "é".encode(), "é"),
            (DECIMAL, text("-12.50"), "-12.50"),
            (DOUBLE, struct.pack("<d", 0.1), 0.1),
            (INT16, struct.pack("<h", -2), -2),
            (INT64, struct.pack("<q", 1 << 40), 1 << 40),
            (10, b"\xff", -1),
            (SINGLE, struct.pack("<f", 0.1), 0.1),
            (TIME_SPAN, struct.pack("<q", -9_378_400_500_000), "-10.20:30:40.0500000"),
            (DATE_TIME, struct.pack("<Q", 630_822_816_000_000_001 | 1 << 62), "2000-01-01T00:00:00.0000001Z"),
            (DATE_TIME, struct.pack("<Q", 630_822_816_000_000_000), "2000-01-01T00:00:00"),
            (14, b"\xff\xff", 65535),
            (15, b"\xff" * 4, (1 << 32) - 1),
            (UINT64, b"\xff" * 8, (1 << 64) - 1),
            (NULL_TYPE, b"", None),
            (STRING_TYPE, text("hi"), "hi"),
        ],
    )
    def test_with_its_type(self, kind: int, data: bytes, expected: object) -> None:
        assert value(objects(1, typed(kind, data))) == [expected]

    def test_bytes_are_bytes_and_characters_a_text(self) -> None:
        assert value(primitives(1, BYTE, 3, b"\0\1\2")) == b"\0\1\2"
        assert value(primitives(1, CHAR, 4, "aé😀".encode())) == "aé😀"  # .NET counts UTF-16 units

    def test_decimals_in_an_array(self) -> None:
        assert value(primitives(1, DECIMAL, 2, text("1") + text("2.5"))) == ["1", "2.5"]

    @pytest.mark.parametrize(
        ("kind", "data", "problem"),
        [
            (DECIMAL, text("1e1000000"), "is not a valid decimal"),
            (DATE_TIME, b"\xff" * 8, "no moment from the year 1 to 9999"),
            (CHAR, b"\xff", "needs 3 bytes, 1 are left"),
            (STRING_TYPE, text("x")[:1] + b"\xff", "is not UTF-8"),
            (STRING_TYPE, b"\xff" * 5, "more than five bytes"),
            (4, b"", "there is no PrimitiveType 4"),
        ],
    )
    def test_what_is_none(self, kind: int, data: bytes, problem: str) -> None:
        assert problem in error(stream(objects(1, typed(kind, data))))


class TestClasses:
    def test_without_types_every_member_is_a_record(self) -> None:
        plain = b"\x02" + class_info(1, "System.Thing", "a b") + typed(INT32, i32(7)) + string(2, "x")
        assert value(plain) == {"$type": "System.Thing", "a": 7, "b": "x"}

    def test_of_a_library_without_types(self) -> None:
        made = b"\x03" + class_info(1, "Acme.Thing", "a") + i32(9) + NULL
        assert value(library(9), made) == {"$type": "Acme.Thing", "a": None}

    def test_described_once(self) -> None:
        first = class_of_library(2, "Acme.P", "x", member_types(INT), 9, i32(1))
        assert value(objects(1, library(9) + first, class_with_id(3, 2, i32(2)))) == [
            {"$type": "Acme.P", "x": 1},
            {"$type": "Acme.P", "x": 2},
        ]

    def test_two_members_of_one_property_name_keep_their_own(self) -> None:
        made = system_class(1, "T", "<a>k__BackingField a", member_types(INT, INT), i32(1, 2))
        assert value(made) == {"$type": "T", "<a>k__BackingField": 1, "a": 2}

    def test_a_description_must_come_first(self) -> None:
        assert "no object 7 described a class before" in error(stream(class_with_id(1, 7)))

    @pytest.mark.parametrize("kind", [NULL_TYPE, STRING_TYPE])
    def test_a_member_of_no_size(self, kind: int) -> None:
        made = system_class(1, "T", "a", member_types(primitive(kind)))
        assert "is for arguments of methods only" in error(stream(made))


class TestReferences:
    def test_an_object_used_twice_is_written_once(self) -> None:
        point = system_class(2, "P", "x", member_types(INT), i32(1))
        assert value(objects(1, point, reference(2))) == [
            {"$id": 2, "$type": "P", "x": 1},
            {"$ref": 2},
        ]

    def test_forward(self) -> None:
        assert value(objects(1, reference(2), reference(3)), string(3, "b"), string(2, "a")) == ["a", "b"]

    def test_a_list_used_twice(self) -> None:
        assert value(objects(1, reference(2), reference(2)), objects(2, NULL)) == [
            {"$id": 2, "$values": [None]},
            {"$ref": 2},
        ]

    def test_a_plain_value_used_twice_is_written_twice(self) -> None:
        boxed = system_class(2, "System.Int32", "m_value", member_types(INT), i32(5))
        assert value(objects(1, boxed, reference(2), reference(3), reference(3)), string(3, "x")) == [
            5,
            5,
            "x",
            "x",
        ]

    def test_a_cycle(self) -> None:
        node = system_class(1, "Node", "next", member_types(bytes([OBJECT])), reference(2))
        other = class_with_id(2, 1, reference(1))
        assert value(node, other) == {
            "$id": 1,
            "$type": "Node",
            "next": {"$type": "Node", "next": {"$ref": 1}},
        }

    def test_an_object_that_holds_itself(self) -> None:
        assert value(objects(1, reference(1))) == {"$id": 1, "$values": [{"$ref": 1}]}

    def test_to_nothing(self) -> None:
        assert "there is no object 9" in error(stream(objects(1, reference(9))))
        assert "there is no object 1" in error(stream(string(2, "x")))

    def test_two_objects_of_one_number(self) -> None:
        assert "two objects 2" in error(stream(objects(1, string(2, "a"), string(2, "b"))))


class TestArrays:
    def test_of_bare_numbers(self) -> None:
        assert value(binary_array(1, 0, (2,), INT, i32(1, 2))) == [1, 2]

    def test_jagged(self) -> None:
        made = binary_array(1, 1, (2,), bytes([7, INT32]), reference(2), reference(3))
        assert value(made, primitives(2, INT32, 2, i32(1, 2)), primitives(3, INT32, 0, b"")) == [[1, 2], []]

    def test_rectangular(self) -> None:
        assert value(binary_array(1, 2, (2, 3), INT, i32(*range(6)))) == [[0, 1, 2], [3, 4, 5]]
        assert value(binary_array(1, 2, (2, 2), bytes([STRING]), string(2, "a"), b"\x0d\x03")) == [
            ["a", None],
            [None, None],
        ]
        assert value(binary_array(1, 2, (2, 0), INT)) == [[], []]
        assert value(binary_array(1, 2, (2, 2), primitive(BYTE), b"\1\2\3\4")) == [[1, 2], [3, 4]]

    @pytest.mark.parametrize("kind", [3, 4])
    def test_with_lower_bounds(self, kind: int) -> None:
        assert value(binary_array(1, kind, (2,), INT, i32(1, 2))) == [1, 2]

    def test_rectangular_with_lower_bounds(self) -> None:
        assert value(binary_array(1, 5, (1, 2), INT, i32(1, 2))) == [[1, 2]]

    def test_runs_of_nulls(self) -> None:
        items = string(2, "a") + b"\x0d\x02" + b"\x0e" + i32(3) + string(3, "b")
        assert value(objects(1, items, count=7)) == ["a", None, None, None, None, None, "b"]

    @pytest.mark.parametrize(
        ("record", "problem"),
        [
            (objects(1, b"\x0d\x03", count=2), "3 nulls, 2 items are left"),
            (objects(1, b"\x0d\x00", count=2), "0 nulls say nothing"),
            (objects(1, count=-1), "-1 is less than nothing"),
            (primitives(1, INT32, -1, b""), "-1 is less than nothing"),
            (binary_array(1, 2, (), INT), "0 is not from 1 to 32"),
            (binary_array(1, 2, (1,) * 33, INT), "33 is not from 1 to 32"),
            (binary_array(1, 6, (1,), INT), "there is no BinaryArrayType 6"),
            (binary_array(1, 0, (1,), b"\x09"), "there is no BinaryType 9"),
        ],
    )
    def test_what_is_none(self, record: bytes, problem: str) -> None:
        assert problem in error(stream(record))

    def test_nulls_are_counted_in_arrays_only(self) -> None:
        made = system_class(1, "T", "a b", member_types(b"\2", b"\2"), b"\x0d\x02")
        assert "this record is not a value" in error(stream(made))


class TestMethods:
    def test_a_call_with_its_arguments(self) -> None:
        call = (
            b"\x15"
            + i32(0x2 | 0x20)
            + b"\x12"
            + text("Add")
            + b"\x12"
            + text("Acme.Calc")
            + b"\x12"
            + text("ctx")
        )
        call += i32(3) + bytes([INT32]) + i32(1) + bytes([NULL_TYPE]) + bytes([STRING_TYPE]) + text("x")
        assert value(call) == {"$call": "Add", "$type": "Acme.Calc", "context": "ctx", "args": [1, None, "x"]}

    def test_a_return(self) -> None:
        assert value(b"\x16" + i32(0x11 | 0x800) + bytes([BOOLEAN]) + b"\1") == {"$return": True}

    def test_a_return_in_an_array(self) -> None:
        assert value(b"\x16" + i32(0x1000), objects(1, string(2, "result"))) == {
            "$return": None,
            "array": ["result"],
        }

    def test_only_one(self) -> None:
        method = b"\x16" + i32(0x200)
        assert "a second method" in error(stream(method, method))

    def test_a_name_that_is_no_string(self) -> None:
        assert "is a Int32, not a String" in error(stream(b"\x15" + i32(1) + bytes([INT32]) + i32(1)))


class TestBadStreams:
    def test_the_version(self) -> None:
        assert "2.0 is not 1.0" in error(b"\0" + i32(1, -1, 2, 0) + b"\x0b")

    def test_what_comes_after_the_end_is_not_read(self) -> None:
        assert decode(stream(string(1, "x")) + b"padding", BodyType.BINARY_OBJECT).value == "x"

    @pytest.mark.parametrize("record", [18, 19, 20, 23, 255])
    def test_a_record_of_no_specification(self, record: int) -> None:
        assert f"there is no RecordType {record}" in error(header() + bytes([record]))

    def test_a_value_outside_of_an_object(self) -> None:
        assert "stands in no class and no array" in error(stream(NULL))

    def test_every_beginning_of_a_stream_is_an_error(self) -> None:
        made = class_of_library(1, "Acme.P", "x y", member_types(INT, b"\1"), 9, i32(1), string(2, "text"))
        whole = stream(library(9), made)
        for end in range(1, len(whole)):
            assert error(whole[:end])

    def test_the_error_says_where(self) -> None:
        assert error(header() + b"\x06" + i32(1) + b"\x05hi") == (
            "BinaryObjectString.Value at byte 23: needs 5 bytes, 2 are left"
        )
