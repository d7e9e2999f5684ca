"""[C706] appendix O, [MS-RPCE] 2.2.1.2"""

from uuid import UUID

import pytest

from tiercel.model.errors import DecodeError
from tiercel.model.identifiers import NULL_GUID
from tiercel.rpc import status
from tiercel.rpc.client import Answered, Bound, ClientConnection, Faulted
from tiercel.rpc.endpoint_mapper import (
    ENDPOINT_MAPPER,
    EPT_LOOKUP,
    EPT_LOOKUP_HANDLE_FREE,
    EPT_MAP,
    EndpointMapper,
    MappedEndpoint,
    map_request,
    read_map_answer,
)
from tiercel.rpc.ndr import NULL_HANDLE, ContextHandle, NdrReader, NdrWriter
from tiercel.rpc.server import Call, ServerConnection
from tiercel.rpc.status import RpcFault
from tiercel.rpc.syntax import NDR64, SyntaxId
from tiercel.rpc.towers import Floor, Tower

from .scripted import ECHO, PEER, REMOTE_READ, make_service

ADDRESS = "192.0.2.1"
OTHER = SyntaxId(UUID(int=9), 1)
MAPPER = EndpointMapper(
    (
        MappedEndpoint(REMOTE_READ.syntax, 2103, "Message Queuing - RemoteRead"),
        MappedEndpoint(ECHO.syntax, 7777, "x" * 80),
        MappedEndpoint(REMOTE_READ.syntax, 2114),
    )
)


class Asker:
    """A client machine that is bound to an endpoint mapper."""

    def __init__(self, mapper: EndpointMapper = MAPPER) -> None:
        self._mapper = mapper
        self.client = ClientConnection(ENDPOINT_MAPPER)
        self.server = ServerConnection(make_service(ENDPOINT_MAPPER), PEER)
        self.client.bind()
        self.server.receive(self.client.data_to_send())
        assert self.client.receive(self.server.data_to_send()) == [Bound()]

    def ask(self, opnum: int, stub: bytes) -> bytes:
        self.client.call(opnum, stub)
        for event in self.server.receive(self.client.data_to_send()):
            assert isinstance(event, Call)
            self.server.answer(event, lambda call: self._mapper.answer(call, ADDRESS))
        (answer,) = self.client.receive(self.server.data_to_send())
        if isinstance(answer, Faulted):
            raise answer.fault
        assert isinstance(answer, Answered)
        return answer.stub


def map_stub(tower: Tower | bytes | None, handle: ContextHandle = NULL_HANDLE, count: int = 4) -> bytes:
    writer = NdrWriter().pointer(is_there=False).pointer(is_there=tower is not None)
    if tower is not None:
        octets = tower if isinstance(tower, bytes) else tower.encode()
        writer.conformance(len(octets)).u32(len(octets)).raw(octets)
    return writer.context_handle(handle).u32(count).data


def lookup_stub(
    kind: int,
    wanted: SyntaxId | None = None,
    option: int = 1,
    handle: ContextHandle = NULL_HANDLE,
    count: int = 500,
    target: UUID | None = None,
) -> bytes:
    writer = NdrWriter().u32(kind).pointer(is_there=target is not None)
    if target is not None:
        writer.guid(target)
    writer.pointer(is_there=wanted is not None)
    if wanted is not None:
        writer.guid(wanted.uuid).u16(wanted.major).u16(wanted.minor)
    return writer.u32(option).context_handle(handle).u32(count).data


def read_towers(reader: NdrReader, count: int) -> list[tuple[SyntaxId | None, int | None]]:
    found = []
    for _ in range(count):
        size = reader.conformance("tower")
        assert reader.u32("length") == size
        tower = Tower.decode(reader.take(size, "tower"))
        assert tower.is_tcp
        assert tower.floors[4].address == bytes((192, 0, 2, 1))
        found.append((tower.interface, tower.port))
    return found


def read_lookup(stub: bytes) -> tuple[list[int | None], list[bytes], ContextHandle, int]:
    reader = NdrReader(stub)
    handle, count = reader.context_handle("handle"), reader.u32("count")
    reader.variance("entries", reader.u32("max"), count)
    annotations = []
    for _ in range(count):
        assert reader.guid("object") == NULL_GUID
        assert reader.pointer("tower")
        annotations.append(reader.take(reader.variance("annotation", 64), "annotation"))
    ports = [port for _, port in read_towers(reader, count)]
    return ports, annotations, handle, reader.u32("status")


class TestMap:
    def test_the_clients_question(self) -> None:
        assert read_map_answer(Asker().ask(EPT_MAP, map_request(REMOTE_READ.syntax)), REMOTE_READ.syntax) == [
            2103,
            2114,
        ]
        assert read_map_answer(Asker().ask(EPT_MAP, map_request(ECHO.syntax)), ECHO.syntax) == [7777]

    @pytest.mark.parametrize("wanted", [OTHER, SyntaxId(REMOTE_READ.syntax.uuid, 2)])
    def test_not_registered(self, wanted: SyntaxId) -> None:
        stub = Asker().ask(EPT_MAP, map_request(wanted))
        assert stub[-4:] == status.EPT_S_NO_MORE_ENTRIES.to_bytes(4, "little")
        with pytest.raises(RpcFault) as caught:
            read_map_answer(stub, wanted)
        assert caught.value.status == status.EPT_S_NOT_REGISTERED == 0x6D9

    @pytest.mark.parametrize(
        "tower",
        [
            Tower(()),
            Tower(Tower.of_tcp(ECHO.syntax).floors[:4]),
            Tower(
                (Floor.of_syntax(ECHO.syntax), Floor.of_syntax(NDR64), *Tower.of_tcp(ECHO.syntax).floors[2:])
            ),
            Tower(
                (
                    *Tower.of_tcp(ECHO.syntax).floors[:3],
                    Floor(b"\x0f", b"\\pipe\\x\0"),
                    Floor(b"\x11", b"h\0"),
                )
            ),
        ],
    )
    def test_towers_that_nobody_answers(self, tower: Tower) -> None:
        assert Asker().ask(EPT_MAP, map_stub(tower))[-4:] == (0x16C9A0D6).to_bytes(4, "little")

    @pytest.mark.parametrize("tower", [None, b"\xff\xff", b"\7\0" + b"\1\0x\0\0" * 7])
    def test_towers_that_are_none(self, tower: bytes | None) -> None:
        assert Asker().ask(EPT_MAP, map_stub(tower))[-4:] == (0x6D8).to_bytes(4, "little")

    def test_page_by_page(self) -> None:
        asker = Asker()
        stub = map_stub(Tower.of_tcp(REMOTE_READ.syntax), count=1)
        reader = NdrReader(asker.ask(EPT_MAP, stub))
        handle = reader.context_handle("handle")
        assert not handle.is_null
        assert (reader.u32("num"), reader.u32("max"), reader.u32("offset"), reader.u32("actual")) == (
            1,
            1,
            0,
            1,
        )
        assert reader.pointer("tower")
        assert read_towers(reader, 1) == [(REMOTE_READ.syntax, 2103)]
        assert reader.u32("status") == 0
        with pytest.raises(RpcFault, match="0x1C00001A"):
            asker.ask(EPT_LOOKUP, lookup_stub(0, handle=handle))
        reader = NdrReader(asker.ask(EPT_MAP, map_stub(Tower.of_tcp(REMOTE_READ.syntax), handle, 1)))
        assert reader.context_handle("handle").is_null
        reader.take(20, "counts")
        assert read_towers(reader, 1) == [(REMOTE_READ.syntax, 2114)]
        with pytest.raises(RpcFault, match="0x1C00001A"):
            asker.ask(EPT_MAP, map_stub(Tower.of_tcp(REMOTE_READ.syntax), handle, 1))

    def test_room_for_nothing(self) -> None:
        stub = Asker().ask(EPT_MAP, map_stub(Tower.of_tcp(ECHO.syntax), count=0))
        assert stub == bytes(20) + bytes(16) + (0x16C9A0D6).to_bytes(4, "little")

    @pytest.mark.parametrize(
        "stub",
        [
            b"",
            map_stub(Tower.of_tcp(ECHO.syntax), count=501),
            map_stub(Tower.of_tcp(ECHO.syntax))[:-1],
            map_stub(bytes(2001)),
            NdrWriter().u32(0).u32(1).u32(4).u32(3).raw(bytes(40)).data,
        ],
    )
    def test_bad_stubs(self, stub: bytes) -> None:
        with pytest.raises(RpcFault) as caught:
            Asker().ask(EPT_MAP, stub)
        assert caught.value.status == status.RPC_X_BAD_STUB_DATA


class TestMapAnswers:
    def answer(self, *towers: Tower, code: int = 0) -> bytes:
        writer = NdrWriter().context_handle(NULL_HANDLE).u32(len(towers)).conformance(4).variance(len(towers))
        for _ in towers:
            writer.pointer()
        for tower in towers:
            octets = tower.encode()
            writer.conformance(len(octets)).u32(len(octets)).raw(octets)
        return writer.u32(code).data

    def test_only_towers_of_the_interface_over_tcp_count(self) -> None:
        pipe = Tower((*Tower.of_tcp(ECHO.syntax).floors[:3], Floor(b"\x0f", b"\\pipe\\x\0")))
        stub = self.answer(
            pipe, Tower.of_tcp(OTHER, 1), Tower.of_tcp(ECHO.syntax, 5), Tower.of_tcp(ECHO.syntax)
        )
        assert read_map_answer(stub, ECHO.syntax) == [5]
        with pytest.raises(RpcFault, match="0x000006D9"):
            read_map_answer(self.answer(pipe), ECHO.syntax)

    @pytest.mark.parametrize(("code", "shown"), [(0x16C9A0D6, 0x6D9), (0x6D9, 0x6D9), (5, 5)])
    def test_failures(self, code: int, shown: int) -> None:
        with pytest.raises(RpcFault) as caught:
            read_map_answer(self.answer(code=code), ECHO.syntax)
        assert caught.value.status == shown

    @pytest.mark.parametrize("stub", [b"", bytes(20) + b"\xff" * 12, bytes(20) + b"\1\0\0\0" * 4])
    def test_nonsense(self, stub: bytes) -> None:
        with pytest.raises(DecodeError):
            read_map_answer(stub, ECHO.syntax)


class TestLookup:
    def test_everything(self) -> None:
        ports, annotations, handle, code = read_lookup(Asker().ask(EPT_LOOKUP, lookup_stub(0)))
        assert (ports, handle, code) == ([2103, 7777, 2114], NULL_HANDLE, 0)
        assert annotations == [b"Message Queuing - RemoteRead\0", b"x" * 63 + b"\0", b"\0"]

    def test_page_by_page(self) -> None:
        asker = Asker()
        found = []
        handle = NULL_HANDLE
        for _ in range(3):
            ports, _, handle, code = read_lookup(
                asker.ask(EPT_LOOKUP, lookup_stub(0, handle=handle, count=1))
            )
            found += ports
            assert code == 0
            assert not handle.is_null  # a client may begin anew with a null handle
        assert found == [2103, 7777, 2114]
        last = read_lookup(asker.ask(EPT_LOOKUP, lookup_stub(0, handle=handle, count=1)))
        assert last == ([], [], NULL_HANDLE, status.EPT_S_NO_MORE_ENTRIES)

    @pytest.mark.parametrize(
        ("version", "option", "is_found"),
        [
            ((1, 2), 3, True),
            ((1, 1), 3, False),
            ((1, 0), 2, True),
            ((1, 3), 2, False),
            ((2, 0), 2, False),
            ((1, 9), 4, True),
            ((2, 0), 4, False),
            ((1, 2), 5, True),
            ((2, 0), 5, True),
            ((1, 1), 5, False),
            ((9, 9), 1, True),
        ],
    )
    def test_versions(self, version: tuple[int, int], option: int, is_found: bool) -> None:
        """Echo is registered as version 1.2."""
        wanted = SyntaxId(ECHO.syntax.uuid, version[1] << 16 | version[0])
        ports, _, _, code = read_lookup(Asker().ask(EPT_LOOKUP, lookup_stub(1, wanted, option)))
        assert (ports, code) == (([7777], 0) if is_found else ([], 0x16C9A0D6))

    def test_objects(self) -> None:
        assert len(read_lookup(Asker().ask(EPT_LOOKUP, lookup_stub(2)))[0]) == 3
        assert read_lookup(Asker().ask(EPT_LOOKUP, lookup_stub(2, target=UUID(int=4))))[0] == []
        assert read_lookup(Asker().ask(EPT_LOOKUP, lookup_stub(3, ECHO.syntax, 3)))[0] == [7777]

    @pytest.mark.parametrize("stub", [lookup_stub(4), lookup_stub(1), lookup_stub(1, OTHER, 6)])
    def test_questions_without_sense(self, stub: bytes) -> None:
        assert read_lookup(Asker().ask(EPT_LOOKUP, stub))[3] == status.EPT_S_CANT_PERFORM_OP


class TestHandles:
    def test_free(self) -> None:
        asker = Asker()
        handle = read_lookup(asker.ask(EPT_LOOKUP, lookup_stub(0, count=1)))[2]
        stub = NdrWriter().context_handle(handle).data
        assert asker.ask(EPT_LOOKUP_HANDLE_FREE, stub) == bytes(24)
        with pytest.raises(RpcFault, match="0x1C00001A"):
            asker.ask(EPT_LOOKUP_HANDLE_FREE, stub)
        assert asker.ask(EPT_LOOKUP_HANDLE_FREE, bytes(20)) == bytes(24)

    @pytest.mark.parametrize("opnum", [0, 1])
    def test_nobody_registers_over_the_network(self, opnum: int) -> None:
        with pytest.raises(RpcFault) as caught:
            Asker().ask(opnum, b"")
        assert caught.value.status == status.EPT_S_CANT_PERFORM_OP

    def test_what_was_removed(self) -> None:
        with pytest.raises(RpcFault) as caught:
            Asker().ask(5, b"")
        assert caught.value.status == status.NCA_S_OP_RNG_ERROR
