"""Reads the stream of .NET's BinaryFormatter, record by record. [MS-NRBF]

It only reads: classes are names, members are values, and nothing is looked up, loaded or called. The result
is a table of objects that refer to each other by number; `nrbf_values` turns it into one value.
"""

import math
import struct
from typing import Any

from tiercel.bodies.limits import DEPTH_MAX
from tiercel.bodies.nrbf_reader import Reader
from tiercel.bodies.nrbf_types import (
    WITH_ARRAY,
    AnyObject,
    ArrayObject,
    BinaryArrayType,
    BinaryType,
    ClassLayout,
    ClassObject,
    MessageFlags,
    Method,
    PrimitiveType,
    RecordType,
    Reference,
    Stream,
    StringObject,
)

_HEADER = struct.Struct("<Biiii")
_VERSION = (1, 0)
_RANK_MAX = 32  # of an array in .NET

_WITH_TYPES = {RecordType.SystemClassWithMembersAndTypes, RecordType.ClassWithMembersAndTypes}
_WITH_LIBRARY = {RecordType.ClassWithMembers, RecordType.ClassWithMembersAndTypes}
_OBJECTS = {
    RecordType.ClassWithId,
    RecordType.SystemClassWithMembers,
    *_WITH_TYPES,
    *_WITH_LIBRARY,
    RecordType.BinaryObjectString,
    RecordType.BinaryArray,
    RecordType.ArraySinglePrimitive,
    RecordType.ArraySingleObject,
    RecordType.ArraySingleString,
}


def has_header(body: bytes) -> bool:
    """Whether the bytes begin like such a stream: version 1.0 after two numbers, which text never has."""
    if len(body) < _HEADER.size:
        return False
    record, _, _, *version = _HEADER.unpack_from(body)
    return bool(record == RecordType.SerializedStreamHeader and tuple(version) == _VERSION)


def read_stream(body: bytes) -> Stream:
    """The objects of a stream up to its MessageEnd; DecodeError if it is invalid."""
    return _Parser(body).parse()


class _Parser:
    def __init__(self, data: bytes) -> None:
        self._reader = Reader(data)
        self._layouts: dict[int, ClassLayout] = {}  # by the object that first described the class
        self._stream = Stream(len(data))
        self._depth = 0

    def parse(self) -> Stream:
        self._header()
        while (record := self._record_type()) is not RecordType.MessageEnd:
            if record is RecordType.MethodCall:
                self._stream.method = self._method_call()
            elif record is RecordType.MethodReturn:
                self._stream.method = self._method_return()
            elif record is RecordType.BinaryLibrary:
                self._library()
            elif record in _OBJECTS:
                self._keep_method_array(self._object(record))
            else:
                raise self._reader.error("RecordTypeEnum", "this record stands in no class and no array")
        return self._stream

    def _header(self) -> None:
        reader = self._reader
        reader.record = "SerializedStreamHeader"
        _, root, _, *version = _HEADER.unpack(reader.take(_HEADER.size, "RecordTypeEnum"))
        if tuple(version) != _VERSION:
            raise reader.error("MajorVersion", f"{version[0]}.{version[1]} is not 1.0")
        self._stream.root_id = root
        self._stream.uses[root] += 1

    def _record_type(self) -> RecordType:
        record = self._reader.enum(RecordType, "RecordTypeEnum")
        self._reader.record = record.name
        return record

    # Members and items

    def _member(self) -> Any:
        """A value with a record: an object, a reference to one, a primitive with its type, or null."""
        record = self._record_type()
        if record is RecordType.BinaryLibrary:  # the library of the class that follows
            self._library()
            record = self._record_type()
        if record is RecordType.MemberReference:
            return self._use(Reference(self._reader.int32("IdRef")))
        if record is RecordType.MemberPrimitiveTyped:
            return self._value_with_code()
        if record is RecordType.ObjectNull:
            return None
        if record in _OBJECTS:
            return self._use(Reference(self._object(record).id))
        raise self._reader.error("RecordTypeEnum", "this record is not a value")

    def _use(self, reference: Reference) -> Reference:
        self._stream.uses[reference.id] += 1
        return reference

    def _items(self, count: int) -> list[Any]:
        items: list[Any] = []
        while len(items) < count:
            nulls = self._nulls()
            if nulls > count - len(items):
                raise self._reader.error("NullCount", f"{nulls} nulls, {count - len(items)} items are left")
            if nulls:
                items += [None] * nulls
            else:
                items.append(self._member())
        return items

    def _nulls(self) -> int:
        """How many nulls the next record stands for; 0 if it is another record."""
        reader = self._reader
        record = self._record_type()
        if record is RecordType.ObjectNullMultiple256:
            count = reader.byte("NullCount")
        elif record is RecordType.ObjectNullMultiple:
            count = reader.int32("NullCount")
        else:
            reader.at -= 1
            return 0
        if count < 1:
            raise reader.error("NullCount", f"{count} nulls say nothing")
        return count

    # Objects

    def _object(self, record: RecordType) -> AnyObject:
        if self._depth == DEPTH_MAX:
            raise self._reader.error("ObjectId", f"objects in objects, more than {DEPTH_MAX} deep")
        self._depth += 1
        found = self._read_object(record)
        self._depth -= 1
        if found.id in self._stream.objects:
            raise self._reader.error("ObjectId", f"there are two objects {found.id}")
        self._stream.objects[found.id] = found
        return found

    def _read_object(self, record: RecordType) -> AnyObject:
        match record:
            case RecordType.BinaryObjectString:
                return StringObject(self._reader.int32("ObjectId"), self._reader.string("Value"))
            case RecordType.ClassWithId:
                return self._class_with_id()
            case RecordType.ArraySinglePrimitive:
                return self._array_of_primitives()
            case RecordType.ArraySingleObject | RecordType.ArraySingleString:
                return self._array_of_records()
            case RecordType.BinaryArray:
                return self._binary_array()
        return self._class(has_types=record in _WITH_TYPES, has_library=record in _WITH_LIBRARY)

    def _class_with_id(self) -> ClassObject:
        reader = self._reader
        number = reader.int32("ObjectId")
        described = reader.int32("MetadataId")
        if described not in self._layouts:
            raise reader.error("MetadataId", f"no object {described} described a class before")
        layout = self._layouts[described]
        reader.spend(len(layout.members), "MetadataId")
        return self._instance(number, layout)

    def _class(self, *, has_types: bool, has_library: bool) -> ClassObject:
        reader = self._reader
        number = reader.int32("ObjectId")
        name = reader.string("Name")
        count = reader.count("MemberCount")
        members = tuple(reader.string("MemberNames") for _ in range(count))
        primitives = self._member_types(count) if has_types else (None,) * count
        if has_library:
            reader.int32("LibraryId")
        layout = ClassLayout(name, members, primitives)
        self._layouts.setdefault(number, layout)
        return self._instance(number, layout)

    def _instance(self, number: int, layout: ClassLayout) -> ClassObject:
        values = [
            self._member() if kind is None else self._reader.primitive(kind, member)
            for member, kind in zip(layout.members, layout.primitives, strict=True)
        ]
        return ClassObject(number, layout, values)

    def _member_types(self, count: int) -> tuple[PrimitiveType | None, ...]:
        kinds = [self._reader.enum(BinaryType, "BinaryTypeEnums") for _ in range(count)]
        return tuple(self._additional_info(kind) for kind in kinds)

    def _additional_info(self, kind: BinaryType) -> PrimitiveType | None:
        """The primitive type of a value without a record. Class names are in the records themselves."""
        reader = self._reader
        if kind is BinaryType.Primitive:
            return self._bare_type()
        if kind is BinaryType.PrimitiveArray:
            reader.enum(PrimitiveType, "AdditionalInfos")
        elif kind is BinaryType.SystemClass:
            reader.string("AdditionalInfos")
        elif kind is BinaryType.Class:
            reader.string("AdditionalInfos")
            reader.int32("AdditionalInfos")
        return None

    def _bare_type(self) -> PrimitiveType:
        kind = self._reader.enum(PrimitiveType, "PrimitiveTypeEnum")
        if kind in {PrimitiveType.Null, PrimitiveType.String}:
            raise self._reader.error("PrimitiveTypeEnum", f"{kind.name} is for arguments of methods only")
        return kind

    # Arrays

    def _array_of_primitives(self) -> ArrayObject:
        reader = self._reader
        number = reader.int32("ObjectId")
        length = self._length()
        items = reader.primitives(self._bare_type(), length, "Values")
        return ArrayObject(number, (length,), items)

    def _length(self) -> int:
        length = self._reader.int32("Length")
        if length < 0:
            raise self._reader.error("Length", f"{length} is less than nothing")
        return length

    def _array_of_records(self) -> ArrayObject:
        number = self._reader.int32("ObjectId")
        count = self._reader.count("Length")
        return ArrayObject(number, (count,), self._items(count))

    def _binary_array(self) -> ArrayObject:
        reader = self._reader
        number = reader.int32("ObjectId")
        kind = reader.enum(BinaryArrayType, "BinaryArrayTypeEnum")
        lengths = self._lengths(reader.int32("Rank"))
        if kind.has_lower_bounds:
            reader.take(4 * len(lengths), "LowerBounds")
        primitive = self._additional_info(reader.enum(BinaryType, "TypeEnum"))
        count = math.prod(lengths)
        if primitive is not None:
            items = reader.primitives(primitive, count, "Values")
        else:
            reader.spend(count, "Lengths")
            items = self._items(count)
        return ArrayObject(number, lengths, items)

    def _lengths(self, rank: int) -> tuple[int, ...]:
        if not 1 <= rank <= _RANK_MAX:
            raise self._reader.error("Rank", f"{rank} is not from 1 to {_RANK_MAX}")
        lengths = tuple(self._length() for _ in range(rank))
        rows = 1
        for length in lengths[:-1]:  # empty rows take memory too
            rows *= length
            self._reader.spend(rows, "Lengths")
        return lengths

    # Libraries and methods

    def _library(self) -> None:
        self._reader.int32("LibraryId")
        self._reader.string("LibraryName")

    def _value_with_code(self) -> Any:
        kind = self._reader.enum(PrimitiveType, "PrimitiveTypeEnum")
        if kind is PrimitiveType.Null:
            return None
        if kind is PrimitiveType.String:
            return self._reader.string("Value")
        return self._reader.primitive(kind, "Value")

    def _string_with_code(self, field: str) -> str:
        kind = self._reader.enum(PrimitiveType, field)
        if kind is not PrimitiveType.String:
            raise self._reader.error(field, f"is a {kind.name}, not a String")
        return self._reader.string(field)

    def _method_call(self) -> Method:
        flags = self._message_flags()
        name = self._string_with_code("MethodName")
        type_name = self._string_with_code("TypeName")
        context, args = self._context_and_args(flags)
        return Method(RecordType.MethodCall, flags, name, type_name, context=context, args=args)

    def _method_return(self) -> Method:
        flags = self._message_flags()
        result = self._value_with_code() if flags & MessageFlags.ReturnValueInline else None
        context, args = self._context_and_args(flags)
        return Method(RecordType.MethodReturn, flags, return_value=result, context=context, args=args)

    def _message_flags(self) -> MessageFlags:
        if self._stream.method is not None:
            raise self._reader.error("MessageEnum", "the stream has a second method")
        return MessageFlags(self._reader.int32("MessageEnum") & 0xFFFF_FFFF)

    def _context_and_args(self, flags: MessageFlags) -> tuple[str | None, list[Any] | None]:
        context = self._string_with_code("CallContext") if flags & MessageFlags.ContextInline else None
        if not flags & MessageFlags.ArgsInline:
            return context, None
        count = self._reader.count("Args")
        return context, [self._value_with_code() for _ in range(count)]

    def _keep_method_array(self, found: AnyObject) -> None:
        """The first array after a method holds its arguments and results, if the method's flags say so."""
        stream = self._stream
        if stream.method is None or stream.method_array is not None or not stream.method.flags & WITH_ARRAY:
            return
        if isinstance(found, ArrayObject):
            stream.method_array = found
