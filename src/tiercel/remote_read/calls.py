"""Requests and responses of the sixteen methods, as values and as stub data: [MS-MQRR] 3.1.4 and 6.

A request knows its opnum and the type of its response. Most responses have a status. The two methods that
open a queue have none: they fail with a fault that carries the code (MQRR trap 25).
"""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Annotated, Any, ClassVar, Final, NamedTuple, Self, get_type_hints
from uuid import UUID

from tiercel.model.codes import SectionType
from tiercel.model.identifiers import NULL_GUID
from tiercel.model.limits import INFINITE
from tiercel.remote_read.packet import Section
from tiercel.remote_read.queue_format import NO_QUEUE, QueueFormat
from tiercel.rpc.ndr import (
    FIRST_REFERENT,
    HANDLE_SIZE,
    NULL_HANDLE,
    ContextHandle,
    NdrReader,
    NdrWriter,
    decode_handle,
)
from tiercel.rpc.status import NCA_S_OP_RNG_ERROR, RpcFault
from tiercel.rpc.syntax import Interface, SyntaxId

REMOTE_READ: Final = Interface(
    "RemoteRead", SyntaxId(UUID("1a9134dd-7b39-45ba-ad88-44d01ca47f28"), 1), operations=16
)

MQ_OK: Final = 0
RR_NACK: Final = 1
RR_ACK: Final = 2
TOKEN_MAX_BYTES: Final = 131_072
MAX_SECTIONS: Final = 2

_SECTION_TYPES = {int(kind): kind for kind in SectionType}
_SECTION_SIZE = 16  # of a SectionBuffer without its data


class Kind(NamedTuple):
    """How a field is read and written; neighbouring fields of fixed size are packed together."""

    read: Callable[[NdrReader, str], Any]
    write: Callable[[NdrWriter, Any], object]
    code: str = ""  # of the struct module
    unpacked: Callable[[Any], Any] | None = None  # converts the unpacked value


def _check_ack(ack: int) -> int:
    if not RR_NACK <= ack <= RR_ACK:
        raise ValueError(f"must be RR_NACK ({RR_NACK}) or RR_ACK ({RR_ACK}), not {ack}")
    return ack


U8 = Annotated[int, Kind(NdrReader.u8, NdrWriter.u8, "B")]
U16 = Annotated[int, Kind(NdrReader.u16, NdrWriter.u16, "H")]
U32 = Annotated[int, Kind(NdrReader.u32, NdrWriter.u32, "I")]
I32 = Annotated[int, Kind(NdrReader.i32, NdrWriter.i32, "i")]
U64 = Annotated[int, Kind(NdrReader.u64, NdrWriter.u64, "Q")]
Guid = Annotated[UUID, Kind(NdrReader.guid, NdrWriter.guid)]
Handle = Annotated[
    ContextHandle,
    Kind(
        NdrReader.context_handle,
        NdrWriter.context_handle,
        f"{HANDLE_SIZE}s",
        decode_handle,
    ),
]
Ack = Annotated[
    int,
    Kind(lambda reader, name: reader.u32(name, RR_NACK, RR_ACK), NdrWriter.u32, "I", _check_ack),
]
# XACTUOW is an unaligned array of bytes; the NULL GUID means no transaction (MQRR trap 1).
UnitOfWork = Annotated[
    UUID,
    Kind(
        lambda reader, name: UUID(bytes_le=reader.take(16, name)),
        lambda writer, value: writer.raw(value.bytes_le),
    ),
]
Token = Annotated[
    bytes,
    Kind(
        lambda reader, name: reader.conformant_bytes(name, reader.u32(name, high=TOKEN_MAX_BYTES)),
        lambda writer, value: writer.u32(len(value)).conformant_bytes(value),
    ),
]
QueueFormatField = Annotated[
    QueueFormat, Kind(lambda reader, _: QueueFormat.read(reader), lambda writer, value: value.write(writer))
]


def _read_sections(reader: NdrReader) -> tuple[Section, ...]:
    count = reader.u32("pdwNumberOfSections", high=MAX_SECTIONS)
    if not reader.pointer("ppPacketSections", count):
        return ()
    reader.conformance("ppPacketSections", count, element_size=_SECTION_SIZE)
    heads = []
    for _ in range(count):
        # Sixteen bits, then two bytes of padding (MQRR trap 2).
        reader.align(4)
        kind = _SECTION_TYPES[reader.enum16("SectionBufferType", _SECTION_TYPES)]
        alloc, size = reader.u32("SectionSizeAlloc"), reader.u32("SectionSize")
        heads.append((kind, alloc, size, reader.pointer("pSectionBuffer", size)))
    return tuple(
        Section(kind, alloc, reader.conformant_bytes("pSectionBuffer", size) if is_there else b"")
        for kind, alloc, size, is_there in heads
    )


def _write_sections(writer: NdrWriter, sections: tuple[Section, ...]) -> None:
    writer.u32(len(sections)).pointer(is_there=bool(sections))
    if not sections:
        return
    writer.conformance(len(sections))
    for section in sections:
        writer.align(4).enum16(section.type).u32(section.size_alloc).u32(len(section.data)).pointer()
    for section in sections:
        writer.conformant_bytes(section.data)


Sections = Annotated[
    tuple[Section, ...],
    Kind(lambda reader, _: _read_sections(reader), _write_sections),
]


@dataclass(slots=True)
class Call:
    """Arguments or results: the fields in wire order, each with its kind.

    Not frozen: that makes construction three times slower.
    """

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """The call of some bytes, or an NdrError; bytes after it are ignored."""
        return cls.split(data)[0]

    @classmethod
    def split(cls, data: bytes) -> tuple[Self, bytes]:
        """The same, and what follows."""
        form = _FORMS[cls]
        found = form.piece.unpack(data) if form.piece is not None else None
        if found is not None:
            values, end = found
            return cls(*values), data[end:]
        reader = NdrReader(data, cls.__name__)
        return cls(*[kind.read(reader, name) for name, kind in form.fields]), reader.rest

    def encode(self) -> bytes:
        form = _FORMS[type(self)]
        data = form.piece.pack(self) if form.piece is not None else None
        if data is not None:
            return data
        writer = NdrWriter()
        for name, kind in form.fields:
            kind.write(writer, getattr(self, name))
        return writer.data


# Decoding field by field works for all calls and reports errors. The calls of every message have a fast path
# besides, which unpacks them at once: it returns the values and where they end, or None if it does not apply.


class _FixedFields:
    """A call whose fields all have fixed sizes."""

    __slots__ = ("_struct", "_unpacked", "_values")

    def __init__(self, fields: Sequence[tuple[str, Kind]]) -> None:
        codes, size = ["<"], 0
        for _, kind in fields:
            own_size = struct.calcsize(kind.code)
            gap = -size % (own_size if own_size <= 8 else 4)  # a handle is aligned to 4 bytes
            codes.append(f"{gap}x{kind.code}")
            size += gap + own_size
        self._struct = struct.Struct("".join(codes))
        names = [name for name, _ in fields]
        values = attrgetter(*names)
        self._values = values if len(names) > 1 else lambda call: (values(call),)
        self._unpacked = [(at, kind.unpacked) for at, (_, kind) in enumerate(fields) if kind.unpacked]

    def unpack(self, data: bytes) -> tuple[list[Any], int] | None:
        if len(data) < self._struct.size:
            return None
        values = list(self._struct.unpack_from(data))
        try:
            for at, unpacked in self._unpacked:
                values[at] = unpacked(values[at])
        except ValueError:
            return None
        return values, self._struct.size

    def pack(self, call: "Call") -> bytes | None:
        return self._struct.pack(*self._values(call))


class _WholeMessage:
    """`Received` with a message in one section, which is the usual case."""

    __slots__ = ()
    _HEAD = struct.Struct("<I4xQIIIH2xIIII")  # to the conformance of the section's bytes
    _REFERENTS = (FIRST_REFERENT, FIRST_REFERENT + 4)

    def unpack(self, data: bytes) -> tuple[list[Any], int] | None:
        start = self._HEAD.size
        if len(data) < start:
            return None
        arrival, sequence, count, pointer, max_count, kind, alloc, size, buffer, there = (
            self._HEAD.unpack_from(data)
        )
        end = start + size
        at = end + (-end & 3)
        is_one = count == max_count == 1 and pointer and buffer
        if not is_one or size != there or kind not in _SECTION_TYPES or at + 4 > len(data):
            return None
        section = Section(_SECTION_TYPES[kind], alloc, data[start:end])
        return [arrival, sequence, (section,), int.from_bytes(data[at : at + 4], "little")], at + 4

    def pack(self, call: Call) -> bytes | None:
        assert isinstance(call, Received)
        if len(call.sections) != 1:
            return None
        [section] = call.sections
        size, (pointer, buffer) = len(section.data), self._REFERENTS
        head = (call.arrival_time, call.sequence_id, 1, pointer, 1)
        return b"".join(
            (
                self._HEAD.pack(*head, section.type, section.size_alloc, size, buffer, size),
                section.data,
                bytes(-size & 3),
                call.status.to_bytes(4, "little"),
            )
        )


class _Form(NamedTuple):
    fields: tuple[tuple[str, Kind], ...]
    piece: _FixedFields | _WholeMessage | None


class _Forms(dict[type[Call], _Form]):
    """The form of each call, made on first use, when all types are defined."""

    def __missing__(self, cls: type[Call]) -> _Form:
        form = self[cls] = _new_form(cls)
        return form


_FORMS = _Forms()


def _new_form(cls: type[Call]) -> _Form:
    hints = get_type_hints(cls, include_extras=True)
    kinds = tuple((field.name, hints[field.name].__metadata__[0]) for field in fields(cls))
    piece: _FixedFields | _WholeMessage | None = None
    if cls is Received:
        piece = _WholeMessage()
    elif kinds and all(kind.code for _, kind in kinds):
        piece = _FixedFields(kinds)
    return _Form(kinds, piece)


# Responses.


@dataclass(slots=True)
class Response(Call):
    @classmethod
    def failed(cls, status: int) -> "Response | None":  # noqa: ARG003
        """The response of a failed call, or None if it takes a fault. Its other fields have no meaning."""
        return None


@dataclass(slots=True)
class ServerPort(Response):
    port: U32


@dataclass(slots=True)
class QueueOpened(Response):
    handle: Handle = NULL_HANDLE


@dataclass(slots=True)
class QueueOpenedForMove(Response):
    move_context: U64
    handle: Handle


@dataclass(slots=True)
class QueueClosed(Response):
    handle: Handle = NULL_HANDLE
    status: U32 = MQ_OK

    @classmethod
    def failed(cls, status: int) -> Self:
        return cls(status=status)


@dataclass(slots=True)
class CursorCreated(Response):
    cursor: U32 = 0
    status: U32 = MQ_OK

    @classmethod
    def failed(cls, status: int) -> Self:
        return cls(status=status)


@dataclass(slots=True)
class Received(Response):
    arrival_time: U32 = 0
    sequence_id: U64 = 0
    sections: Sections = ()
    status: U32 = MQ_OK

    @classmethod
    def failed(cls, status: int) -> Self:
        return cls(status=status)


@dataclass(slots=True)
class Done(Response):
    """Of the methods that give nothing but whether they succeeded."""

    status: U32 = MQ_OK

    @classmethod
    def failed(cls, status: int) -> Self:
        return cls(status=status)

    def encode(self) -> bytes:  # the same as for all calls, for the one that answers every message
        return self.status.to_bytes(4, "little")


# Requests.


@dataclass(slots=True)
class Request(Call):
    OPNUM: ClassVar[int]
    RESPONSE: ClassVar[type[Response]] = Done


@dataclass(slots=True)
class HandleRequest(Request):
    """A method on an open queue."""

    handle: Handle


@dataclass(slots=True)
class GetServerPort(Request):
    OPNUM = 0
    RESPONSE = ServerPort


@dataclass(slots=True)
class OpenQueue(Request):
    """The client's id and version are of no importance any more (MQRR-054, MQRR-055)."""

    queue: QueueFormatField
    access: U32
    share_mode: U32 = 0
    client_id: Guid = NULL_GUID
    is_non_routing_server: I32 = 1
    major: U8 = 6
    minor: U8 = 1
    build_number: U16 = 0
    is_workgroup: I32 = 0

    OPNUM = 2
    RESPONSE: ClassVar[type[Response]] = QueueOpened


@dataclass(slots=True)
class CloseQueue(HandleRequest):
    OPNUM = 3
    RESPONSE = QueueClosed


@dataclass(slots=True)
class CreateCursor(HandleRequest):
    OPNUM = 4
    RESPONSE = CursorCreated


@dataclass(slots=True)
class CloseCursor(HandleRequest):
    cursor: U32

    OPNUM = 5


@dataclass(slots=True)
class PurgeQueue(HandleRequest):
    OPNUM = 6


@dataclass(slots=True)
class StartReceive(HandleRequest):
    lookup_id: U64 = 0
    cursor: U32 = 0
    action: U32 = 0
    timeout_ms: U32 = 0
    request_id: U32 = 0
    max_body_size: U32 = INFINITE
    max_compound_message_size: U32 = INFINITE

    OPNUM = 7
    RESPONSE = Received


@dataclass(slots=True)
class CancelReceive(HandleRequest):
    request_id: U32

    OPNUM = 8


@dataclass(slots=True)
class EndReceive(HandleRequest):
    ack: Ack
    request_id: U32

    OPNUM = 9


@dataclass(slots=True)
class MoveMessage(HandleRequest):
    move_context: U64
    lookup_id: U64
    transaction: UnitOfWork = NULL_GUID

    OPNUM = 10


@dataclass(slots=True)
class OpenQueueForMove(OpenQueue):
    OPNUM = 11
    RESPONSE = QueueOpenedForMove


@dataclass(slots=True)
class EnlistRemoteTransaction(Request):
    transaction: UnitOfWork
    token: Token = b""
    queue: QueueFormatField = NO_QUEUE

    OPNUM = 12


@dataclass(slots=True)
class StartTransactionalReceive(StartReceive):
    transaction: UnitOfWork = NULL_GUID

    OPNUM = 13


@dataclass(slots=True)
class SetUserAcknowledgementClass(HandleRequest):
    lookup_id: U64
    message_class: U16

    OPNUM = 14


@dataclass(slots=True)
class EndTransactionalReceive(EndReceive):
    OPNUM = 15


REQUESTS: Final[dict[int, type[Request]]] = {
    request.OPNUM: request
    for request in (
        GetServerPort,
        OpenQueue,
        CloseQueue,
        CreateCursor,
        CloseCursor,
        PurgeQueue,
        StartReceive,
        CancelReceive,
        EndReceive,
        MoveMessage,
        OpenQueueForMove,
        EnlistRemoteTransaction,
        StartTransactionalReceive,
        SetUserAcknowledgementClass,
        EndTransactionalReceive,
    )
}


def decode_request(opnum: int, stub: bytes) -> Request:
    """The arguments of a call; an RpcFault for an unknown opnum, such as 1."""
    return split_request(opnum, stub)[0]


def split_request(opnum: int, stub: bytes) -> tuple[Request, bytes]:
    """The same, and the bytes after them."""
    request = REQUESTS.get(opnum)
    if request is None:
        raise RpcFault(NCA_S_OP_RNG_ERROR, f"the interface has no operation {opnum}")
    return request.split(stub)
