"""What must hold for any bytes that a peer of remote procedure calls sends: see `promises`."""

from collections.abc import Callable
from uuid import UUID

from basics import Target, read_properties, same

from tiercel.model.errors import DecodeError
from tiercel.rpc.associations import Associations
from tiercel.rpc.client import ClientConnection, Failed
from tiercel.rpc.endpoint_mapper import (
    ENDPOINT_MAPPER,
    EndpointMapper,
    MappedEndpoint,
    map_request,
    read_map_answer,
)
from tiercel.rpc.framer import Framer as PduFramer
from tiercel.rpc.ndr import ContextHandle, NdrError, NdrReader, NdrWriter
from tiercel.rpc.pdu import (
    FIRST,
    LAST,
    OBJECT_UUID,
    WHOLE,
    AlterContext,
    Auth3,
    Bind,
    BindAck,
    BindNak,
    CoCancel,
    ContextAnswer,
    ContextElement,
    Fault,
    Orphaned,
    Pdu,
    Request,
    Response,
    Shutdown,
    Verifier,
    decode_pdu,
)
from tiercel.rpc.server import Call, Limits, ServerConnection, Service
from tiercel.rpc.status import RpcFault
from tiercel.rpc.syntax import NDR, Interface, SyntaxId
from tiercel.rpc.towers import Tower

_GUID = UUID("00112233-4455-6677-8899-aabbccddeeff")
REMOTE_READ = Interface("RemoteRead", SyntaxId(UUID("1a9134dd-7b39-45ba-ad88-44d01ca47f28"), 1), 16)


def check_pdu(data: bytes) -> None:
    """Reserved fields are not kept, so the bytes may differ once; the value does not."""
    try:
        pdu = decode_pdu(data)
    except DecodeError as error:
        str(error)
        return
    again = decode_pdu(pdu.encode())
    if again != pdu:
        raise AssertionError(f"{pdu} became {again}")
    read_properties(pdu)


def check_pdu_framer(data: bytes) -> None:
    whole = _pdus(data[1:], len(data) or 1)
    pieces = _pdus(data[1:], data[0] + 1 if data else 1)
    if whole != pieces:
        raise AssertionError(f"{whole} at once, {pieces} in chunks of {data[0] + 1}")


def _pdus(stream: bytes, chunk: int) -> tuple[list[bytes], str]:
    framer = PduFramer()
    found: list[bytes] = []
    try:
        for at in range(0, len(stream), chunk):
            framer.receive(stream[at : at + chunk])
            for pdu in framer.pdus():
                found.append(pdu)  # noqa: PERF402 - what came before an error counts
    except DecodeError as error:
        return found, str(error)
    return found, ""


def check_rpc_server(data: bytes) -> None:
    """A connection takes any bytes: it gives events and answers that are PDUs, and keeps to its limits."""
    limits = Limits(max_pending_calls=4, max_request_bytes=64, max_request_fragments=8, max_contexts=4)
    mapper = EndpointMapper((MappedEndpoint(REMOTE_READ.syntax, 2103),))
    service = Service((ENDPOINT_MAPPER, REMOTE_READ), Associations(_count()), limits=limits)
    connection = ServerConnection(service, "192.0.2.7")
    framer = PduFramer()
    for event in connection.receive(data):
        if isinstance(event, Call) and event.interface is ENDPOINT_MAPPER:
            connection.answer(event, lambda call: mapper.answer(call, "192.0.2.1"))
    if connection.pending_calls > limits.max_pending_calls:
        raise AssertionError(f"{connection.pending_calls} calls are pending")
    framer.receive(connection.data_to_send())
    for pdu in framer.pdus():
        decode_pdu(pdu)
    connection.connection_lost()
    if len(service.associations):
        raise AssertionError("an association group is left")


def _count() -> Callable[[int], bytes]:
    drawn = iter(range(1, 1 << 30))
    return lambda size: next(drawn).to_bytes(size, "little")


def check_rpc_client(data: bytes) -> None:
    connection = ClientConnection(REMOTE_READ, max_response_bytes=256)
    connection.bind()
    failed = [event for event in connection.receive(data[:60]) if isinstance(event, Failed)]
    if connection.is_bound:
        connection.call(0, b"")
        connection.call(7, b"stub")
    failed += [event for event in connection.receive(data[60:]) if isinstance(event, Failed)]
    if len(failed) > 1 or bool(failed) != connection.is_closing:
        raise AssertionError(f"{failed} while closing: {connection.is_closing}")
    str(failed)


def check_ndr(data: bytes) -> None:
    """The first bytes choose what is read from the rest."""
    count, kinds, stub = data[0] % 16 if data else 0, data[1:17], data[17:]
    reader = NdrReader(stub)
    try:
        for kind in kinds[:count]:
            _NDR_ITEMS[kind % len(_NDR_ITEMS)](reader)
            if not 0 <= reader.at <= reader.end:
                raise AssertionError(f"read to {reader.at} of {reader.end}")
    except NdrError as error:
        str(error)
        return
    if len(reader.rest) != reader.end - reader.at:
        raise AssertionError("the rest is not what is left")


_NDR_ITEMS: tuple[Callable[[NdrReader], object], ...] = (
    lambda reader: reader.u8("x"),
    lambda reader: reader.u16("x"),
    lambda reader: reader.u32("x", 0, 1 << 20),
    lambda reader: reader.i32("x"),
    lambda reader: reader.u64("x"),
    lambda reader: reader.enum16("x", range(5)),
    lambda reader: reader.guid("x"),
    lambda reader: reader.context_handle("x").is_null,
    lambda reader: reader.pointer("x", 1),
    lambda reader: reader.conformant_bytes("x"),
    lambda reader: reader.string("x").encode("utf-16-le", "surrogatepass"),
    lambda reader: reader.variance("x", reader.conformance("x", element_size=4), element_size=4),
)


def check_tower(data: bytes) -> None:
    try:
        tower = Tower.decode(data)
    except DecodeError:
        return
    same(tower.encode(), data)
    read_properties(tower)
    for floor in tower.floors:
        read_properties(floor)


def check_map_answer(data: bytes) -> None:
    try:
        ports = read_map_answer(data, REMOTE_READ.syntax)
    except (DecodeError, RpcFault) as error:
        str(error)
        return
    if not all(0 < port < 0x10000 for port in ports):
        raise AssertionError(f"{ports} are no ports")


# What to begin with


def _rpc_pdus() -> list[Pdu]:
    contexts = (
        ContextElement(0, REMOTE_READ.syntax, (NDR,)),
        ContextElement(1, ENDPOINT_MAPPER.syntax, (NDR,)),
        ContextElement(2, REMOTE_READ.syntax, (SyntaxId.of_features(3),)),
    )
    results = (ContextAnswer(0, 0, NDR), ContextAnswer(3, 3))
    auth = Verifier(10, 6, 1, b"NTLMSSP\0", pad_length=2)
    return [
        Bind(call_id=1, contexts=contexts),
        Bind(call_id=1, contexts=contexts[:1], auth=Verifier(10, 6, 1, b"NTLMSSP\0")),
        BindAck(call_id=1, secondary_address=b"2103\0", results=results),
        BindNak(call_id=1, reason=4),
        AlterContext(call_id=2, contexts=contexts[:1]),
        Auth3(call_id=1, auth=Verifier(10, 6, 1, b"NTLMSSP\0")),
        Request(call_id=2, opnum=3, context_id=1, stub=map_request(REMOTE_READ.syntax)),
        Request(call_id=3, flags=WHOLE | OBJECT_UUID, object=_GUID, stub=b"stub", auth=auth),
        Request(call_id=4, flags=FIRST, stub=bytes(40)),
        Request(call_id=4, flags=LAST, stub=bytes(40)),
        Response(call_id=2, flags=FIRST, stub=b"answer"),
        Response(call_id=2, flags=LAST, stub=b"answer"),
        Fault(call_id=3, status=0x6F7),
        CoCancel(call_id=4),
        Orphaned(call_id=4),
        Shutdown(),
    ]


def _client_streams() -> list[bytes]:
    data = [pdu.encode() for pdu in _rpc_pdus()]
    calls = data[6:10]
    return [data[0] + b"".join(calls), data[0] + calls[0] + data[13] + data[14] + data[4], data[1]]


def _server_streams() -> list[bytes]:
    data = [pdu.encode() for pdu in _rpc_pdus()]
    return [data[2] + b"".join(data[10:13]), data[3], data[2] + data[15]]


def _stubs() -> list[bytes]:
    writer = NdrWriter().u8(1).u16(2).u32(3).i32(-4).u64(5).enum16(1).guid(_GUID)
    writer.context_handle(ContextHandle(0, _GUID)).pointer().conformant_bytes(b"bytes").string("text")
    return [bytes((12, *range(16))) + writer.conformance(1).variance(1).u32(7).data]


def _map_answers() -> list[bytes]:
    octets = Tower.of_tcp(REMOTE_READ.syntax, 2103, "192.0.2.1").encode()
    writer = NdrWriter().context_handle(ContextHandle()).u32(1).conformance(4).variance(1).pointer()
    writer.conformance(len(octets)).u32(len(octets)).raw(octets)
    return [writer.u32(0).data]


TARGETS: dict[str, Target] = {
    "map_answer": Target(check_map_answer, _map_answers),
    "ndr": Target(check_ndr, _stubs),
    "pdu": Target(check_pdu, lambda: [pdu.encode() for pdu in _rpc_pdus()]),
    "pdu_framer": Target(check_pdu_framer, lambda: [b"\7" + b"".join(pdu.encode() for pdu in _rpc_pdus())]),
    "rpc_client": Target(check_rpc_client, _server_streams),
    "rpc_server": Target(check_rpc_server, _client_streams),
    "tower": Target(check_tower, lambda: [Tower.of_tcp(REMOTE_READ.syntax, 2103).encode()]),
}
