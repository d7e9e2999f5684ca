"""The enumerations of [MS-NRBF], and the contents of a stream."""

from collections import Counter
from dataclasses import dataclass, field
from enum import IntEnum, IntFlag
from typing import Any


class RecordType(IntEnum):
    """[MS-NRBF] 2.1.2.1"""

    SerializedStreamHeader = 0
    ClassWithId = 1
    SystemClassWithMembers = 2
    ClassWithMembers = 3
    SystemClassWithMembersAndTypes = 4
    ClassWithMembersAndTypes = 5
    BinaryObjectString = 6
    BinaryArray = 7
    MemberPrimitiveTyped = 8
    MemberReference = 9
    ObjectNull = 10
    MessageEnd = 11
    BinaryLibrary = 12
    ObjectNullMultiple256 = 13
    ObjectNullMultiple = 14
    ArraySinglePrimitive = 15
    ArraySingleObject = 16
    ArraySingleString = 17
    MethodCall = 21
    MethodReturn = 22


class BinaryType(IntEnum):
    """[MS-NRBF] 2.1.2.2"""

    Primitive = 0
    String = 1
    Object = 2
    SystemClass = 3
    Class = 4
    ObjectArray = 5
    StringArray = 6
    PrimitiveArray = 7


class PrimitiveType(IntEnum):
    """[MS-NRBF] 2.1.2.3"""

    Boolean = 1
    Byte = 2
    Char = 3
    Decimal = 5
    Double = 6
    Int16 = 7
    Int32 = 8
    Int64 = 9
    SByte = 10
    Single = 11
    TimeSpan = 12
    DateTime = 13
    UInt16 = 14
    UInt32 = 15
    UInt64 = 16
    Null = 17
    String = 18


class BinaryArrayType(IntEnum):
    """[MS-NRBF] 2.4.1.1"""

    Single = 0
    Jagged = 1
    Rectangular = 2
    SingleOffset = 3
    JaggedOffset = 4
    RectangularOffset = 5

    @property
    def has_lower_bounds(self) -> bool:
        return self >= BinaryArrayType.SingleOffset


class MessageFlags(IntFlag):
    """Where a method's record keeps its arguments and results. [MS-NRBF] 2.2.1.1"""

    NoArgs = 0x1
    ArgsInline = 0x2
    ArgsIsArray = 0x4
    ArgsInArray = 0x8
    NoContext = 0x10
    ContextInline = 0x20
    ContextInArray = 0x40
    MethodSignatureInArray = 0x80
    PropertiesInArray = 0x100
    NoReturnValue = 0x200
    ReturnValueVoid = 0x400
    ReturnValueInline = 0x800
    ReturnValueInArray = 0x1000
    ExceptionInArray = 0x2000
    GenericMethod = 0x8000


# With any of these, an ArraySingleObject after the method's record holds the rest.
WITH_ARRAY = (
    MessageFlags.ArgsIsArray
    | MessageFlags.ArgsInArray
    | MessageFlags.ContextInArray
    | MessageFlags.MethodSignatureInArray
    | MessageFlags.PropertiesInArray
    | MessageFlags.ReturnValueInArray
    | MessageFlags.ExceptionInArray
    | MessageFlags.GenericMethod
)


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference to the object with that number, which may follow later in the stream."""

    id: int


@dataclass(frozen=True, slots=True)
class ClassLayout:
    """A class as the stream describes it. Primitive members have their type here; all others are records."""

    name: str
    members: tuple[str, ...]
    primitives: tuple[PrimitiveType | None, ...]


@dataclass(frozen=True, slots=True)
class ClassObject:
    id: int
    layout: ClassLayout
    values: list[Any]

    @property
    def members(self) -> dict[str, Any]:
        return dict(zip(self.layout.members, self.values, strict=True))


@dataclass(frozen=True, slots=True)
class ArrayObject:
    """Items in row-major order; bytes are `bytes`, and characters are a `str`."""

    id: int
    lengths: tuple[int, ...]
    items: list[Any] | bytes | str


@dataclass(frozen=True, slots=True)
class StringObject:
    id: int
    text: str


AnyObject = ClassObject | ArrayObject | StringObject


@dataclass(frozen=True, slots=True)
class Method:
    """A MethodCall or MethodReturn of .NET Remoting; only calls have `name` and `type_name`."""

    record: RecordType
    flags: MessageFlags
    name: str | None = None
    type_name: str | None = None
    return_value: Any = None
    context: str | None = None
    args: list[Any] | None = None


@dataclass(slots=True)
class Stream:
    size: int  # of the body
    root_id: int = 0
    objects: dict[int, AnyObject] = field(default_factory=dict)
    uses: Counter[int] = field(
        default_factory=Counter
    )  # how often each object is used as a member, an item or the root
    method: Method | None = None
    method_array: ArrayObject | None = None
