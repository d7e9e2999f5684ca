"""Streams of BinaryFormatter, built record by record for tests. [MS-NRBF] 2"""

import struct

END = b"\x0b"
NULL = b"\x0a"
# BinaryTypeEnum
PRIMITIVE, STRING, OBJECT, SYSTEM_CLASS, CLASS, OBJECT_ARRAY, STRING_ARRAY, PRIMITIVE_ARRAY = range(8)
# PrimitiveTypeEnum, as far as tests use it
BOOLEAN, BYTE, CHAR, DECIMAL, DOUBLE, INT16, INT32, INT64 = 1, 2, 3, 5, 6, 7, 8, 9
SINGLE, TIME_SPAN, DATE_TIME, UINT64, NULL_TYPE, STRING_TYPE = 11, 12, 13, 16, 17, 18


def i32(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}i", *values)


def text(value: str) -> bytes:
    """LengthPrefixedString"""
    data = value.encode()
    size, prefix = len(data), b""
    while size > 0x7F:
        prefix += bytes([size & 0x7F | 0x80])
        size >>= 7
    return prefix + bytes([size]) + data


def stream(*records: bytes, root: int = 1) -> bytes:
    return header(root) + b"".join(records) + END


def header(root: int = 1) -> bytes:
    return b"\x00" + i32(root, -1, 1, 0)


def string(number: int, value: str) -> bytes:
    return b"\x06" + i32(number) + text(value)


def reference(number: int) -> bytes:
    return b"\x09" + i32(number)


def typed(kind: int, data: bytes) -> bytes:
    """MemberPrimitiveTyped"""
    return b"\x08" + bytes([kind]) + data


def class_info(number: int, name: str, members: str) -> bytes:
    names = members.split()
    return i32(number) + text(name) + i32(len(names)) + b"".join(map(text, names))


def member_types(*types: bytes) -> bytes:
    """The BinaryTypeEnums, which are the first bytes, and then what more they need."""
    return b"".join(kind[:1] for kind in types) + b"".join(kind[1:] for kind in types)


def primitive(kind: int) -> bytes:
    return bytes([PRIMITIVE, kind])


def system_class(number: int, name: str, members: str, types: bytes, *values: bytes) -> bytes:
    """SystemClassWithMembersAndTypes"""
    return b"\x04" + class_info(number, name, members) + types + b"".join(values)


def class_of_library(
    number: int, name: str, members: str, types: bytes, library: int, *values: bytes
) -> bytes:
    """ClassWithMembersAndTypes"""
    return b"\x05" + class_info(number, name, members) + types + i32(library) + b"".join(values)


def class_with_id(number: int, described: int, *values: bytes) -> bytes:
    return b"\x01" + i32(number, described) + b"".join(values)


def library(number: int, name: str = "Acme, Version=1.0.0.0, Culture=neutral, PublicKeyToken=null") -> bytes:
    return b"\x0c" + i32(number) + text(name)


def objects(number: int, *items: bytes, count: int | None = None) -> bytes:
    """ArraySingleObject"""
    return b"\x10" + i32(number, len(items) if count is None else count) + b"".join(items)


def primitives(number: int, kind: int, count: int, data: bytes) -> bytes:
    """ArraySinglePrimitive"""
    return b"\x0f" + i32(number, count) + bytes([kind]) + data


def binary_array(number: int, kind: int, lengths: tuple[int, ...], item: bytes, *values: bytes) -> bytes:
    """BinaryArray; `item` is the type of an item and what more it needs."""
    bounds = i32(*lengths) if kind >= 3 else b""
    return (
        b"\x07" + i32(number) + bytes([kind]) + i32(len(lengths), *lengths) + bounds + item + b"".join(values)
    )
