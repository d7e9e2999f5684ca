"""The endpoint mapper on TCP port 135, which maps interfaces to ports. [C706] appendix O, [MS-RPCE] 2.2.1.2.

`EndpointMapper` is the server; `map_request` and `read_map_answer` are the client. All endpoints are
ncacn_ip_tcp.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from tiercel.model.errors import DecodeError
from tiercel.model.identifiers import NULL_GUID
from tiercel.rpc import status
from tiercel.rpc.ndr import NULL_HANDLE, ContextHandle, NdrReader, NdrWriter
from tiercel.rpc.server import Call
from tiercel.rpc.status import RpcFault
from tiercel.rpc.syntax import NDR, Interface, SyntaxId
from tiercel.rpc.towers import Tower

PORT: Final = 135
ENDPOINT_MAPPER: Final = Interface(
    "EndpointMapper", SyntaxId(UUID("e1af8308-5d1f-11c9-91a4-08002b14a0fa"), 3), operations=5
)
EPT_LOOKUP: Final = 2
EPT_MAP: Final = 3
EPT_LOOKUP_HANDLE_FREE: Final = 4

ENTRIES_MAX: Final = 500  # [range] of max_ents and max_towers
TOWER_MAX_BYTES: Final = 2000  # [range] of tower_length
ANNOTATION_MAX: Final = 64  # bytes with the NUL
_TOWERS_WANTED: Final = 4  # as Windows does


@dataclass(frozen=True, slots=True)
class MappedEndpoint:
    """An interface that listens on a TCP port of this computer."""

    interface: SyntaxId
    port: int
    annotation: str = ""


# vers_option of ept_lookup, [MS-RPCE] 2.2.1.2.4: whether a registered version matches the requested one
_VERSIONS: Final[dict[int, Callable[[SyntaxId, SyntaxId], bool]]] = {
    1: lambda _own, _asked: True,
    2: lambda own, asked: own.major == asked.major and own.minor >= asked.minor,
    3: lambda own, asked: own.version == asked.version,
    4: lambda own, asked: own.major == asked.major,
    5: lambda own, asked: (own.major, own.minor) <= (asked.major, asked.minor),
}


@dataclass(frozen=True, slots=True)
class _Search:
    """The results that a client has not fetched yet."""

    opnum: int
    rest: tuple[MappedEndpoint, ...]


class EndpointMapper:
    """Answers calls from a table of endpoints, which the daemon fills once it listens."""

    def __init__(self, endpoints: Iterable[MappedEndpoint] = ()) -> None:
        self.endpoints = tuple(endpoints)

    def answer(self, call: Call, address: str) -> bytes:
        """The stub of the answer; `address` is the local IPv4 address of the connection."""
        match call.opnum:
            case 2:
                return self._lookup(call, address)
            case 3:
                return self._map(call, address)
            case 4:
                return self._free(call)
        # ept_insert and ept_delete: remote clients may not change the table.
        raise RpcFault(status.EPT_S_CANT_PERFORM_OP, f"operation {call.opnum} is not offered")

    def _map(self, call: Call, address: str) -> bytes:
        """ept_map: [MS-RPCE] 2.2.1.2.5."""
        reader = NdrReader(call.stub, "ept_map")
        if reader.pointer("obj"):
            reader.guid("obj")  # our endpoints have no object, so they match any
        octets = _read_tower(reader) if reader.pointer("map_tower") else b""
        handle = reader.context_handle("entry_handle")
        count = reader.u32("max_towers", high=ENTRIES_MAX)
        code = 0
        matching: tuple[MappedEndpoint, ...] = ()
        try:
            wanted = Tower.decode(octets)
            matching = tuple(one for one in self.endpoints if _is_answered(one, wanted))
        except DecodeError:
            code = status.EPT_S_CANT_PERFORM_OP
        page, handle = self._page(call, handle, matching, count)
        towers = [Tower.of_tcp(one.interface, one.port, address).encode() for one in page]
        writer = NdrWriter().context_handle(handle).u32(len(towers)).conformance(count).variance(len(towers))
        for _ in towers:
            writer.pointer()
        for tower in towers:
            _write_tower(writer, tower)
        return writer.u32(0 if page else code or status.EPT_S_NO_MORE_ENTRIES).data

    def _lookup(self, call: Call, address: str) -> bytes:
        """ept_lookup: [MS-RPCE] 2.2.1.2.4."""
        reader = NdrReader(call.stub, "ept_lookup")
        kind = reader.u32("inquiry_type")
        target = reader.guid("object") if reader.pointer("object") else NULL_GUID
        wanted = _read_interface(reader) if reader.pointer("Ifid") else None
        option = reader.u32("vers_option")
        handle = reader.context_handle("entry_handle")
        count = reader.u32("max_ents", high=ENTRIES_MAX)
        found = self._matching(kind, target, wanted, option)
        page, handle = self._page(call, handle, found or (), count)
        writer = NdrWriter().context_handle(handle).u32(len(page)).conformance(count).variance(len(page))
        for endpoint in page:
            annotation = endpoint.annotation.encode("ascii", "replace")[: ANNOTATION_MAX - 1] + b"\0"
            writer.guid(NULL_GUID).pointer().variance(len(annotation)).raw(annotation)
        for endpoint in page:
            _write_tower(writer, Tower.of_tcp(endpoint.interface, endpoint.port, address).encode())
        none = status.EPT_S_CANT_PERFORM_OP if found is None else status.EPT_S_NO_MORE_ENTRIES
        return writer.u32(0 if page else none).data

    def _matching(
        self, kind: int, target: UUID, wanted: SyntaxId | None, option: int
    ) -> tuple[MappedEndpoint, ...] | None:
        """The endpoints that match an inquiry; None if the inquiry is invalid."""
        by_interface, by_object = kind in {1, 3}, kind in {2, 3}
        if kind > 3 or (by_interface and (wanted is None or option not in _VERSIONS)):
            return None
        found = self.endpoints
        if by_interface and wanted is not None:
            matches = _VERSIONS[option]
            found = tuple(
                one for one in found if one.interface.uuid == wanted.uuid and matches(one.interface, wanted)
            )
        return () if by_object and target != NULL_GUID else found

    def _free(self, call: Call) -> bytes:
        """ept_lookup_handle_free: [C706] appendix O."""
        reader = NdrReader(call.stub, "ept_lookup_handle_free")
        handle = reader.context_handle("entry_handle")
        if not handle.is_null:
            call.association.close_handle(ENDPOINT_MAPPER, handle)
        return NdrWriter().context_handle(NULL_HANDLE).u32(0).data

    def _page(
        self, call: Call, handle: ContextHandle, found: tuple[MappedEndpoint, ...], count: int
    ) -> tuple[tuple[MappedEndpoint, ...], ContextHandle]:
        """As many endpoints as the client asks for, and a handle for the rest.

        A lookup that fills the page gets a handle even if nothing is left: Samba's rpcclient fetches one at a
        time until there are no more, and would start again with a null handle.
        """
        group = call.association
        if not handle.is_null:
            search = group.find_handle(ENDPOINT_MAPPER, handle)
            if not isinstance(search, _Search) or search.opnum != call.opnum:
                raise RpcFault(
                    status.NCA_S_FAULT_CONTEXT_MISMATCH, "the handle belongs to another kind of search"
                )
            group.close_handle(ENDPOINT_MAPPER, handle)
            found = search.rest
        page, rest = found[:count], found[count:]
        is_more = bool(rest) or (call.opnum == EPT_LOOKUP and len(page) == count)
        if not is_more or not count:
            return page, NULL_HANDLE
        return page, group.open_handle(ENDPOINT_MAPPER, _Search(call.opnum, rest))


def _is_answered(endpoint: MappedEndpoint, wanted: Tower) -> bool:
    asked = wanted.interface
    if asked is None or not wanted.is_tcp or wanted.transfer_syntax != NDR:
        return False
    return endpoint.interface.uuid == asked.uuid and _VERSIONS[2](endpoint.interface, asked)


# The client


def map_request(interface: SyntaxId) -> bytes:
    """The stub of an `EPT_MAP` call for the TCP ports of `interface`."""
    writer = NdrWriter().pointer().guid(NULL_GUID).pointer()
    _write_tower(writer, Tower.of_tcp(interface).encode())
    return writer.context_handle(NULL_HANDLE).u32(_TOWERS_WANTED).data


def read_map_answer(stub: bytes, interface: SyntaxId) -> list[int]:
    """The TCP ports in the answer to an `EPT_MAP` call.

    An `RpcFault` with EPT_S_NOT_REGISTERED if the computer does not serve the interface.
    """
    reader = NdrReader(stub, "ept_map")
    reader.context_handle("entry_handle")
    count = reader.u32("num_towers", high=ENTRIES_MAX)
    max_count = reader.u32("ITowers", high=ENTRIES_MAX)
    reader.variance("ITowers", max_count, count, element_size=4)
    present = [reader.pointer("ITowers") for _ in range(count)]
    towers = [Tower.decode(_read_tower(reader)) for is_there in present if is_there]
    code = reader.u32("status")
    if code:
        known = {status.EPT_S_NO_MORE_ENTRIES, status.EPT_S_NOT_REGISTERED}
        raise RpcFault(status.EPT_S_NOT_REGISTERED if code in known else code, f"ept_map of {interface}")
    ports = [tower.port for tower in towers if tower.is_tcp and tower.interface == interface]
    if not any(ports):
        raise RpcFault(status.EPT_S_NOT_REGISTERED, f"ept_map of {interface}: no tower of TCP")
    return [port for port in ports if port]


# twr_t and RPC_IF_ID


def _read_tower(reader: NdrReader) -> bytes:
    """A structure that ends in a conformant array, whose maximum count comes first."""
    max_count = reader.conformance("tower_octet_string", high=TOWER_MAX_BYTES)
    size = reader.u32("tower_length", high=TOWER_MAX_BYTES)
    if size != max_count:
        raise reader.error("tower_octet_string", f"has {max_count} bytes, but {size} are announced")
    return reader.take(size, "tower_octet_string")


def _write_tower(writer: NdrWriter, octets: bytes) -> None:
    writer.conformance(len(octets)).u32(len(octets)).raw(octets)


def _read_interface(reader: NdrReader) -> SyntaxId:
    uuid, major, minor = reader.guid("Ifid"), reader.u16("VersMajor"), reader.u16("VersMinor")
    return SyntaxId(uuid, minor << 16 | major)
