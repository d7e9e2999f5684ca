"""Connection-oriented PDUs: [C706] 12.6.4, [MS-RPCE] 2.2.2.

`decode_pdu` gives the value of one whole PDU, `encode` its bytes. Reserved fields and alignment are ignored
when read and zero when written. Stub data stays as it stands on the wire: sealed, and with its
authentication padding.
"""

import struct
from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar, Final, NamedTuple, Self
from uuid import UUID

from tiercel.model.errors import DecodeError
from tiercel.rpc.syntax import NO_SYNTAX, SyntaxId
from tiercel.wire.structure import Layout, Reader, Structure, encode_guid

VERSION: Final = 5
VERSION_MINOR: Final = 0
_VERSIONS: Final = VERSION | VERSION_MINOR << 8
LITTLE_ENDIAN: Final = b"\x10\0\0\0"  # and ASCII, and IEEE floating point: [C706] 14.1
_LITTLE: Final = LITTLE_ENDIAN[0]

# pfc_flags, [C706] 12.6.3.1
FIRST: Final = 0x01
LAST: Final = 0x02
PENDING_CANCEL: Final = 0x04  # in requests, responses, faults, co_cancel and orphaned
SUPPORT_HEADER_SIGN: Final = 0x04  # in bind, alter_context, their answers and auth3: [MS-RPCE] 2.2.2.3
CONC_MPX: Final = 0x10
DID_NOT_EXECUTE: Final = 0x20
MAYBE: Final = 0x40
OBJECT_UUID: Final = 0x80
WHOLE: Final = FIRST | LAST

HEADER_SIZE: Final = 16
REQUEST_HEADER_SIZE: Final = 24  # without an object
TRAILER_SIZE: Final = 8
FRAGMENT_MIN: Final = 1432  # MustRecvFragSize: every implementation accepts it
FRAGMENT_MAX: Final = 0xFFF8  # frag_length has 16 bits; a multiple of 8 keeps stub data aligned

_HEAD = struct.Struct("<BBBB4sHHI")
_SIZE = struct.Struct("<H2xB3xH")  # version, byte order and size in the header
_REQUEST = struct.Struct("<IHH")
_RESPONSE = struct.Struct("<IHBB")
_FAULT = struct.Struct("<II")
_PLAIN_REQUEST = struct.Struct("<BBBB4sHHIIHH")
_PLAIN_RESPONSE = struct.Struct("<BBBB4sHHIIHBB")
_CALL = struct.Struct("<2xBB6xHI4xHH")  # the fields of a request or response that vary
_LIMITS = struct.Struct("<HHI")
_COUNT = struct.Struct("<BBH")
_ELEMENT = struct.Struct("<HBB")
_RESULT = struct.Struct("<HH")


class PduType(IntEnum):
    REQUEST = 0
    RESPONSE = 2
    FAULT = 3
    BIND = 11
    BIND_ACK = 12
    BIND_NAK = 13
    ALTER_CONTEXT = 14
    ALTER_CONTEXT_RESP = 15
    AUTH3 = 16
    SHUTDOWN = 17
    CO_CANCEL = 18
    ORPHANED = 19


class RejectReason(IntEnum):
    """provider_reject_reason of a bind_nak: [C706] 12.6.3.1, [MS-RPCE] 2.2.2.5."""

    NOT_SPECIFIED = 0
    TEMPORARY_CONGESTION = 1
    LOCAL_LIMIT_EXCEEDED = 2
    CALLED_PADDR_UNKNOWN = 3
    PROTOCOL_VERSION_NOT_SUPPORTED = 4
    DEFAULT_CONTEXT_NOT_SUPPORTED = 5
    USER_DATA_NOT_READABLE = 6
    NO_PSAP_AVAILABLE = 7
    AUTHENTICATION_TYPE_NOT_RECOGNIZED = 8
    INVALID_CHECKSUM = 9


class ContextResult(IntEnum):
    """p_cont_def_result_t, [MS-RPCE] 2.2.2.4"""

    ACCEPTANCE = 0
    USER_REJECTION = 1
    PROVIDER_REJECTION = 2
    NEGOTIATE_ACK = 3


class ProviderReason(IntEnum):
    """p_provider_reason_t: why a presentation context was rejected."""

    NOT_SPECIFIED = 0
    ABSTRACT_SYNTAX_NOT_SUPPORTED = 1
    TRANSFER_SYNTAXES_NOT_SUPPORTED = 2
    LOCAL_LIMIT_EXCEEDED = 3


class Header(NamedTuple):
    """The sixteen bytes before every PDU."""

    rpc_vers: int
    rpc_vers_minor: int
    ptype: int
    flags: int
    packed_drep: bytes
    frag_length: int
    auth_length: int
    call_id: int


def read_header(data: bytes, at: int = 0) -> Header:
    """The header at `at`; a DecodeError if its version, byte order or size is not supported."""
    header = Header._make(_HEAD.unpack_from(data, at))
    if header.rpc_vers != VERSION or header.rpc_vers_minor != VERSION_MINOR:
        version = f"{header.rpc_vers}.{header.rpc_vers_minor}"
        raise DecodeError("Pdu", "rpc_vers", 0, f"is {version}, known is {VERSION}.{VERSION_MINOR}")
    if header.packed_drep[0] != _LITTLE:
        raise DecodeError(
            "Pdu", "packed_drep", 4, f"is {header.packed_drep.hex()}, known is little-endian ASCII"
        )
    if header.frag_length < HEADER_SIZE:
        raise DecodeError("Pdu", "frag_length", 8, f"is {header.frag_length}, the least is {HEADER_SIZE}")
    return header


def fragment_size(data: bytes, at: int) -> int:
    """The size of the PDU whose header is at `at`; raises what `read_header` does."""
    version, byte_order, size = _SIZE.unpack_from(data, at)
    if version != _VERSIONS or byte_order != _LITTLE or size < HEADER_SIZE:
        read_header(data, at)
    return int(size)


@dataclass(frozen=True, slots=True)
class SecTrailer(Structure):
    """[MS-RPCE] 2.2.2.11: precedes the authentication token."""

    auth_type: int = 0
    auth_level: int = 0
    auth_pad_length: int = 0
    auth_reserved: int = 0
    auth_context_id: int = 0

    LAYOUT = Layout("B B B B I")


@dataclass(frozen=True, slots=True)
class Verifier:
    """The end of an authenticated PDU. `pad_length` is the padding after the stub data."""

    auth_type: int
    auth_level: int
    context_id: int
    token: bytes = b""
    pad_length: int = 0

    @property
    def trailer(self) -> bytes:
        return SecTrailer(self.auth_type, self.auth_level, self.pad_length, 0, self.context_id).encode()


class Common(NamedTuple):
    """The first fields of every PDU, in the order of `Pdu`."""

    call_id: int
    flags: int
    auth: Verifier | None


@dataclass(slots=True)
class Pdu(ABC):
    """The base of all PDUs. Not frozen: that makes construction three times slower."""

    call_id: int = 0
    flags: int = WHOLE
    auth: Verifier | None = None

    TYPE: ClassVar[PduType]

    @classmethod
    @abstractmethod
    def read(cls, reader: Reader, common: Common) -> Self:
        """The PDU with the body in `reader`."""

    @abstractmethod
    def body(self) -> bytes: ...

    def encode(self) -> bytes:
        body = self.body()
        auth = self.auth
        verifier = b"" if auth is None else auth.trailer + auth.token
        size, token_size = HEADER_SIZE + len(body) + len(verifier), 0 if auth is None else len(auth.token)
        if size > 0xFFFF:
            raise ValueError(f"a {self.TYPE.name} of {size} bytes is larger than a PDU can be")
        head = (VERSION, VERSION_MINOR, self.TYPE, self.flags, LITTLE_ENDIAN, size, token_size, self.call_id)
        return _HEAD.pack(*head) + body + verifier

    @property
    def is_first(self) -> bool:
        return bool(self.flags & FIRST)

    @property
    def is_last(self) -> bool:
        return bool(self.flags & LAST)


@dataclass(frozen=True, slots=True)
class ContextElement:
    """A presentation context that a client offers: p_cont_elem_t."""

    context_id: int
    abstract_syntax: SyntaxId
    transfer_syntaxes: tuple[SyntaxId, ...]


@dataclass(frozen=True, slots=True)
class ContextAnswer:
    """The server's answer to it: p_result_t. With NEGOTIATE_ACK the reason is the features."""

    result: int
    reason: int = 0
    transfer_syntax: SyntaxId = NO_SYNTAX


@dataclass(slots=True)
class Bind(Pdu):
    """[C706] 12.6.4.3"""

    max_xmit_frag: int = FRAGMENT_MAX
    max_recv_frag: int = FRAGMENT_MAX
    assoc_group_id: int = 0
    contexts: tuple[ContextElement, ...] = ()

    TYPE = PduType.BIND

    @classmethod
    def read(cls, reader: Reader, common: Common) -> Self:
        xmit, recv, group = _unpack(reader, _LIMITS, "max_xmit_frag")
        count, _, _ = _unpack(reader, _COUNT, "n_context_elem")
        contexts = tuple(_read_element(reader) for _ in range(count))
        return cls(*common, xmit, recv, group, contexts)

    def body(self) -> bytes:
        parts = [
            _LIMITS.pack(self.max_xmit_frag, self.max_recv_frag, self.assoc_group_id),
            _COUNT.pack(len(self.contexts), 0, 0),
        ]
        for element in self.contexts:
            parts += [
                _ELEMENT.pack(element.context_id, len(element.transfer_syntaxes), 0),
                element.abstract_syntax.encode(),
                *(syntax.encode() for syntax in element.transfer_syntaxes),
            ]
        return b"".join(parts)


def _read_element(reader: Reader) -> ContextElement:
    context_id, count, _ = _unpack(reader, _ELEMENT, "p_cont_elem")
    abstract = SyntaxId.read(reader)
    return ContextElement(context_id, abstract, tuple(SyntaxId.read(reader) for _ in range(count)))


class AlterContext(Bind):
    """[C706] 12.6.4.1: negotiates more contexts; its fragment sizes and group are ignored."""

    __slots__ = ()
    TYPE = PduType.ALTER_CONTEXT


@dataclass(slots=True)
class BindAck(Pdu):
    """[C706] 12.6.4.4"""

    max_xmit_frag: int = FRAGMENT_MAX
    max_recv_frag: int = FRAGMENT_MAX
    assoc_group_id: int = 0
    secondary_address: bytes = b""  # with its NUL, if any
    results: tuple[ContextAnswer, ...] = ()

    TYPE = PduType.BIND_ACK

    @classmethod
    def read(cls, reader: Reader, common: Common) -> Self:
        xmit, recv, group = _unpack(reader, _LIMITS, "max_xmit_frag")
        size = int.from_bytes(reader.take(2, "sec_addr_length"), "little")
        address = reader.take(size, "sec_addr")
        reader.take(-reader.at % 4, "pad2")
        count, _, _ = _unpack(reader, _COUNT, "n_results")
        results = tuple(_read_answer(reader) for _ in range(count))
        return cls(*common, xmit, recv, group, address, results)

    def body(self) -> bytes:
        address = len(self.secondary_address).to_bytes(2, "little") + self.secondary_address
        return b"".join(
            (
                _LIMITS.pack(self.max_xmit_frag, self.max_recv_frag, self.assoc_group_id),
                address,
                bytes(-len(address) % 4),
                _COUNT.pack(len(self.results), 0, 0),
                *(
                    _RESULT.pack(one.result, one.reason) + one.transfer_syntax.encode()
                    for one in self.results
                ),
            )
        )


def _read_answer(reader: Reader) -> ContextAnswer:
    result, reason = _unpack(reader, _RESULT, "p_results")
    return ContextAnswer(result, reason, SyntaxId.read(reader))


class AlterContextResp(BindAck):
    """[C706] 12.6.4.2"""

    __slots__ = ()
    TYPE = PduType.ALTER_CONTEXT_RESP


@dataclass(slots=True)
class BindNak(Pdu):
    """[C706] 12.6.4.5, [MS-RPCE] 2.2.2.9; extended error information after the versions is not read."""

    reason: int = RejectReason.NOT_SPECIFIED
    versions: tuple[tuple[int, int], ...] = ((VERSION, VERSION_MINOR),)

    TYPE = PduType.BIND_NAK

    @classmethod
    def read(cls, reader: Reader, common: Common) -> Self:
        reason = int.from_bytes(reader.take(2, "provider_reject_reason"), "little")
        # Some servers end the PDU here.
        count = reader.take(1, "n_protocols")[0] if reader.at < reader.end else 0
        pairs = reader.take(2 * count, "p_protocols")
        versions = tuple(zip(pairs[::2], pairs[1::2], strict=True))
        return cls(*common, reason, versions)

    def body(self) -> bytes:
        versions = bytes(number for pair in self.versions for number in pair)
        data = self.reason.to_bytes(2, "little") + bytes([len(self.versions)]) + versions
        return data + bytes(-len(data) % 4)


@dataclass(slots=True)
class Auth3(Pdu):
    """[MS-RPCE] 2.2.2.10: the last token of an odd number of them; it has no answer."""

    TYPE = PduType.AUTH3

    @classmethod
    def read(cls, reader: Reader, common: Common) -> Self:
        if common.auth is None:
            raise DecodeError("Auth3", "auth_length", 10, "is 0, but an auth3 must have a token")
        reader.at = reader.end
        return cls(*common)

    def body(self) -> bytes:
        return bytes(4)


@dataclass(slots=True)
class Request(Pdu):
    """[C706] 12.6.4.9"""

    alloc_hint: int = 0
    context_id: int = 0
    opnum: int = 0
    object: UUID | None = None
    stub: bytes = b""

    TYPE = PduType.REQUEST

    @classmethod
    def read(cls, reader: Reader, common: Common) -> Self:
        hint, context_id, opnum = _unpack(reader, _REQUEST, "alloc_hint")
        target = reader.guid("object") if common.flags & OBJECT_UUID else None
        return cls(*common, hint, context_id, opnum, target, _read_stub(reader, common.auth))

    def body(self) -> bytes:
        if (self.object is not None) != bool(self.flags & OBJECT_UUID):
            raise ValueError("the object of a request does not match its flags")
        target = b"" if self.object is None else encode_guid(self.object)
        return _REQUEST.pack(self.alloc_hint, self.context_id, self.opnum) + target + self.stub


@dataclass(slots=True)
class Response(Pdu):
    """[C706] 12.6.4.10"""

    alloc_hint: int = 0
    context_id: int = 0
    cancel_count: int = 0
    stub: bytes = b""

    TYPE = PduType.RESPONSE

    @classmethod
    def read(cls, reader: Reader, common: Common) -> Self:
        hint, context_id, cancels, _ = _unpack(reader, _RESPONSE, "alloc_hint")
        return cls(*common, hint, context_id, cancels, _read_stub(reader, common.auth))

    def body(self) -> bytes:
        return _RESPONSE.pack(self.alloc_hint, self.context_id, self.cancel_count, 0) + self.stub


@dataclass(slots=True)
class Fault(Pdu):
    """[C706] 12.6.4.7, [MS-RPCE] 2.2.2.8: the error is the status; stub data is ignored and never sent."""

    alloc_hint: int = 32
    context_id: int = 0
    cancel_count: int = 0
    status: int = 0

    TYPE = PduType.FAULT

    @classmethod
    def read(cls, reader: Reader, common: Common) -> Self:
        hint, context_id, cancels, _ = _unpack(reader, _RESPONSE, "alloc_hint")
        status = int.from_bytes(reader.take(4, "status"), "little")
        return cls(*common, hint, context_id, cancels, status)

    def body(self) -> bytes:
        return _RESPONSE.pack(self.alloc_hint, self.context_id, self.cancel_count, 0) + _FAULT.pack(
            self.status, 0
        )


class _Bare(Pdu):
    """A PDU without a body."""

    __slots__ = ()

    @classmethod
    def read(cls, reader: Reader, common: Common) -> Self:
        reader.at = reader.end
        return cls(*common)

    def body(self) -> bytes:
        return b""


class CoCancel(_Bare):
    """[C706] 12.6.4.6: the client asks to end a call early."""

    __slots__ = ()
    TYPE = PduType.CO_CANCEL


class Orphaned(_Bare):
    """[C706] 12.6.4.8: the client abandons a call."""

    __slots__ = ()
    TYPE = PduType.ORPHANED


class Shutdown(_Bare):
    """[C706] 12.6.4.11: the server asks the client to close the connection."""

    __slots__ = ()
    TYPE = PduType.SHUTDOWN


# As plain numbers: enum lookup is slow here.
_IS_REQUEST: Final = int(PduType.REQUEST)
_IS_RESPONSE: Final = int(PduType.RESPONSE)

_PDUS: Final[dict[int, type[Pdu]]] = {
    cls.TYPE: cls
    for cls in (
        Bind, AlterContext, BindAck, AlterContextResp, BindNak, Auth3,
        Request, Response, Fault, CoCancel, Orphaned, Shutdown,
    )
}  # fmt: skip


def split_plain_request(data: bytes) -> tuple[int, int, int, bytes] | None:
    """Call id, context id, opnum and stub of an unfragmented call without object and verifier, or None.

    `data` comes from the framer, so its version, byte order and size are valid.
    """
    if len(data) < REQUEST_HEADER_SIZE:
        return None
    ptype, flags, auth_length, call_id, context_id, opnum = _CALL.unpack_from(data)
    if ptype != _IS_REQUEST or flags & ~CONC_MPX != WHOLE or auth_length:
        return None
    return call_id, context_id, opnum, data[REQUEST_HEADER_SIZE:]


def split_plain_response(data: bytes) -> tuple[int, bytes] | None:
    """Call id and stub of an unfragmented answer without verifier; otherwise None."""
    if len(data) < REQUEST_HEADER_SIZE:
        return None
    ptype, flags, auth_length, call_id, _, _ = _CALL.unpack_from(data)
    if ptype != _IS_RESPONSE or flags != WHOLE or auth_length:
        return None
    return call_id, data[REQUEST_HEADER_SIZE:]


def decode_pdu(data: bytes) -> Pdu:
    """The PDU that fills `data` exactly; otherwise a DecodeError."""
    if len(data) < HEADER_SIZE:
        raise DecodeError("Pdu", "header", 0, f"needs {HEADER_SIZE} bytes, {len(data)} are left")
    header = read_header(data)
    if header.frag_length != len(data):
        raise DecodeError("Pdu", "frag_length", 8, f"is {header.frag_length}, but {len(data)} bytes are here")
    kind = _PDUS.get(header.ptype)
    if kind is None:
        raise DecodeError("Pdu", "ptype", 2, f"is {header.ptype}, not a connection-oriented PDU")
    end = len(data)
    auth = None
    if header.auth_length:
        end -= TRAILER_SIZE + header.auth_length
        if end < HEADER_SIZE:
            raise DecodeError("Pdu", "auth_length", 10, f"{header.auth_length} is more than the PDU holds")
        auth = _read_verifier(data, end, has_stub=kind in {Request, Response})
    reader = Reader(data, HEADER_SIZE, end)
    reader.structure = kind.__name__
    return kind.read(reader, Common(header.call_id, header.flags, auth))


def plain_request(call_id: int, context_id: int, opnum: int, stub: bytes) -> bytes:
    """The bytes of an unfragmented call without object and verifier; faster than `encode`."""
    size = len(stub)
    head = (VERSION, VERSION_MINOR, _IS_REQUEST, WHOLE, LITTLE_ENDIAN, REQUEST_HEADER_SIZE + size, 0, call_id)
    return _PLAIN_REQUEST.pack(*head, size, context_id, opnum) + stub


def plain_response(call_id: int, context_id: int, stub: bytes) -> bytes:
    """The same for its answer."""
    size = len(stub)
    head = (
        VERSION,
        VERSION_MINOR,
        _IS_RESPONSE,
        WHOLE,
        LITTLE_ENDIAN,
        REQUEST_HEADER_SIZE + size,
        0,
        call_id,
    )
    return _PLAIN_RESPONSE.pack(*head, size, context_id, 0, 0) + stub


def _read_verifier(data: bytes, at: int, *, has_stub: bool) -> Verifier:
    trailer = SecTrailer.decode(data[at : at + TRAILER_SIZE])
    token = data[at + TRAILER_SIZE :]
    pad_length = trailer.auth_pad_length if has_stub else 0
    return Verifier(trailer.auth_type, trailer.auth_level, trailer.auth_context_id, token, pad_length)


def _unpack(reader: Reader, layout: struct.Struct, field: str) -> tuple[int, ...]:
    return layout.unpack(reader.take(layout.size, field))


def _read_stub(reader: Reader, auth: Verifier | None) -> bytes:
    stub = reader.take(reader.end - reader.at, "stub")
    if auth is not None and auth.pad_length > len(stub):
        raise reader.error("auth_pad_length", f"is {auth.pad_length}, the stub has {len(stub)} bytes")
    return stub
