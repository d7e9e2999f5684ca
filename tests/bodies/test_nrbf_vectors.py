"""Streams as .NET writes them."""

from pathlib import Path

from tiercel.bodies import Kind, decode
from tiercel.model.codes import BodyType

from .streams import (
    BYTE,
    INT16,
    INT32,
    NULL,
    STRING_ARRAY,
    class_of_library,
    class_with_id,
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
)

VECTORS = Path(__file__).resolve().parent.parent / "vectors" / "nrbf"
MSCORLIB = "mscorlib, Version=4.0.0.0, Culture=neutral, PublicKeyToken=b77a5c561934e089"
INT = primitive(INT32)


def value(body: bytes) -> object:
    decoded = decode(body, BodyType.BINARY_OBJECT)
    assert (decoded.kind, decoded.error) == (Kind.DOTNET, None)
    return decoded.value


def test_the_example_of_the_specification() -> None:
    """[MS-NRBF] 3: a method is called with an address."""
    name = "DOJRemotingMetadata"
    assembly = f"{name}, Version=1.0.2622.31326, Culture=neutral, PublicKeyToken=null"
    assert value((VECTORS / "send_address.bin").read_bytes()) == {
        "$call": "SendAddress",
        "$type": f"{name}.MyServer, {assembly}",
        "args": [
            {
                "$type": f"{name}.Address",
                "Street": "One Microsoft Way",
                "City": "Redmond",
                "State": "WA",
                "Zip": "98054",
            }
        ],
    }


def test_a_string() -> None:
    body = bytes.fromhex("0001000000ffffffff0100000000000000 0601000000 05 68656c6c6f 0b")
    decoded = decode(body, BodyType.BINARY_OBJECT)
    assert (decoded.value, decoded.text, decoded.json) == ("hello", "hello", '"hello"')


def test_it_is_known_by_its_header_too() -> None:
    assert decode(stream(string(1, "hello")), 0).kind is Kind.DOTNET


def test_a_boxed_number() -> None:
    body = stream(system_class(1, "System.Int32", "m_value", member_types(INT), i32(-7)))
    assert value(body) == -7


def test_an_object_with_automatic_properties() -> None:
    name = "Acme.Order"
    types = member_types(INT, b"\1", bytes([3]) + text("System.Guid"), b"\6")
    guid = system_class(
        -5,
        "System.Guid",
        "_a _b _c _d _e _f _g _h _i _j _k",
        member_types(INT, *[primitive(INT16)] * 2, *[primitive(BYTE)] * 8),
        bytes.fromhex("33221100 5544 7766 8899aabbccddeeff"),
    )
    order = class_of_library(
        1,
        name,
        "<Id>k__BackingField <Customer>k__BackingField key Base+<Lines>k__BackingField",
        types,
        2,
        i32(42),
        string(3, "Müller"),
        guid,
        reference(4),
    )
    lines = b"\x11" + i32(4, 3) + string(6, "a") + b"\x0d\x02"
    assert value(stream(library(2), order, lines)) == {
        "$type": name,
        "Id": 42,
        "Customer": "Müller",
        "key": "00112233-4455-6677-8899-aabbccddeeff",
        "Lines": ["a", None, None],
    }


class TestCollections:
    def test_list(self) -> None:
        name = f"System.Collections.Generic.List`1[[System.String, {MSCORLIB}]]"
        types = member_types(bytes([STRING_ARRAY]), INT, INT)
        made = system_class(1, name, "_items _size _version", types, reference(2), i32(2, 2))
        items = b"\x11" + i32(2, 4) + string(3, "a") + string(4, "b") + b"\x0d\x02"
        assert value(stream(made, items)) == ["a", "b"]

    def test_a_list_that_says_more_than_it_has_is_shown_as_it_is(self) -> None:
        types = member_types(b"\5", INT, INT)
        made = system_class(
            1, "System.Collections.ArrayList", "_items _size _version", types, reference(2), i32(9, 0)
        )
        assert value(stream(made, objects(2, NULL))) == {
            "$type": "System.Collections.ArrayList",
            "_items": [None],
            "_size": 9,
            "_version": 0,
        }

    def test_dictionary(self) -> None:
        arguments = f"[[System.String, {MSCORLIB}],[System.Int32, {MSCORLIB}]]"
        name = f"System.Collections.Generic.Dictionary`2{arguments}"
        pair = f"System.Collections.Generic.KeyValuePair`2{arguments}"
        types = member_types(INT, b"\2", INT, b"\5")
        made = system_class(
            1, name, "Version Comparer HashSize KeyValuePairs", types, i32(2), NULL, i32(3), reference(2)
        )
        first = system_class(-3, pair, "key value", member_types(b"\1", INT), string(4, "one"), i32(1))
        second = class_with_id(-5, -3, string(6, "two"), i32(2))
        array = b"\x07" + i32(2) + b"\x00" + i32(1, 2) + b"\x03" + text(pair) + first + second
        assert value(stream(made, array)) == {"one": 1, "two": 2}

    def test_hashtable_with_keys_that_are_no_names(self) -> None:
        made = system_class(
            1,
            "System.Collections.Hashtable",
            "Keys Values",
            member_types(b"\5", b"\5"),
            reference(2),
            reference(3),
        )
        keys = objects(2, NULL, string(4, "a"))
        values = objects(3, string(5, "x"), string(6, "y"))
        assert value(stream(made, keys, values)) == [{"key": None, "value": "x"}, {"key": "a", "value": "y"}]

    def test_set(self) -> None:
        name = f"System.Collections.Generic.HashSet`1[[System.Int32, {MSCORLIB}]]"
        made = system_class(
            1, name, "Version Elements", member_types(INT, bytes([7, INT32])), i32(1), reference(2)
        )
        assert value(stream(made, primitives(2, INT32, 2, i32(5, 6)))) == [5, 6]

    def test_empty_set(self) -> None:
        name = f"System.Collections.Generic.HashSet`1[[System.Int32, {MSCORLIB}]]"
        assert (
            value(stream(system_class(1, name, "Version Capacity", member_types(INT, INT), i32(0, 0)))) == []
        )


def test_an_enumeration_is_its_number() -> None:
    made = class_of_library(1, "Acme.Color", "value__", member_types(INT), 2, i32(3))
    assert value(stream(library(2), made)) == 3
