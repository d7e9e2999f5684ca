"""impacket as a remote reader, in a process of its own: commands and answers are lines of JSON.

It runs in .venv-interop and knows nothing of Tiercel: the structures are written down for impacket's own NDR.
Several calls may be pending on one connection; `answer` takes the next one off the line, whosever it is.
"""

import json
import socket
import struct
import sys
import time

from impacket.dcerpc.v5 import epm, transport
from impacket.dcerpc.v5.dtypes import DWORD, GUID, LONG, ULONGLONG, USHORT
from impacket.dcerpc.v5.ndr import (
    NDRCALL,
    NDRENUM,
    NDRPOINTER,
    NDRSMALL,
    NDRSTRUCT,
    NDRUNION,
    NDRUniConformantArray,
    NDRUniConformantVaryingArray,
)
from impacket.dcerpc.v5.rpcrt import DCERPC_v5, DCERPCException
from impacket.uuid import string_to_bin, uuidtup_to_bin

REMOTE_READ = uuidtup_to_bin(("1a9134dd-7b39-45ba-ad88-44d01ca47f28", "1.0"))
PATIENCE_S = 30
BIND, BIND_ACK, FAULT = 11, 12, 3
UNSIGNED_CHAR = NDRSMALL  # one byte either way


class WideString(NDRUniConformantVaryingArray):
    item = "<H"


class PWideString(NDRPOINTER):
    referent = (("Data", WideString),)


class ObjectId(NDRSTRUCT):
    structure = (("Lineage", GUID), ("Uniquifier", DWORD))


class QueueFormatUnion(NDRUNION):
    commonHdr = (("tag", UNSIGNED_CHAR),)
    union = {  # noqa: RUF012
        1: ("m_gPublicID", GUID),
        2: ("m_oPrivateID", ObjectId),
        3: ("m_pDirectID", PWideString),
        4: ("m_gMachineID", GUID),
        8: ("m_pDirectSubqueueID", PWideString),
    }


class QueueFormat(NDRSTRUCT):
    structure = (
        ("m_qft", UNSIGNED_CHAR),
        ("m_SuffixAndFlags", UNSIGNED_CHAR),
        ("m_reserved", USHORT),
        ("u", QueueFormatUnion),
    )


class Handle(NDRSTRUCT):
    structure = (("attributes", DWORD), ("uuid", "16s=b''"))

    def getAlignment(self):
        return 4


class Transaction(NDRSTRUCT):
    structure = (("rgb", "16s=b''"),)

    def getAlignment(self):
        return 1


class SectionType(NDRENUM):
    class enumItems:
        pass


class Bytes(NDRUniConformantArray):
    item = "c"


class PBytes(NDRPOINTER):
    referent = (("Data", Bytes),)


class SectionBuffer(NDRSTRUCT):
    structure = (
        ("SectionBufferType", SectionType),
        ("SectionSizeAlloc", DWORD),
        ("SectionSize", DWORD),
        ("pSectionBuffer", PBytes),
    )


class Sections(NDRUniConformantArray):
    item = SectionBuffer


class PSections(NDRPOINTER):
    referent = (("Data", Sections),)


OPEN = (
    ("format", QueueFormat),
    ("access", DWORD),
    ("share", DWORD),
    ("client", GUID),
    ("non_routing", LONG),
    ("major", UNSIGNED_CHAR),
    ("minor", UNSIGNED_CHAR),
    ("build", USHORT),
    ("workgroup", LONG),
)
RECEIVE = (
    ("handle", Handle),
    ("lookup", ULONGLONG),
    ("cursor", DWORD),
    ("action", DWORD),
    ("timeout", DWORD),
    ("request", DWORD),
    ("max_body", DWORD),
    ("max_compound", DWORD),
)
RECEIVED = (
    ("arrived", DWORD),
    ("sequence", ULONGLONG),
    ("count", DWORD),
    ("sections", PSections),
    ("status", DWORD),
)
STATUS = (("status", DWORD),)
METHODS = {
    "get_server_port": (0, (), STATUS),
    "open_queue": (2, OPEN, (("handle", Handle),)),
    "close_queue": (3, (("handle", Handle),), (("handle", Handle), *STATUS)),
    "create_cursor": (4, (("handle", Handle),), (("cursor", DWORD), *STATUS)),
    "close_cursor": (5, (("handle", Handle), ("cursor", DWORD)), STATUS),
    "purge_queue": (6, (("handle", Handle),), STATUS),
    "start_receive": (7, RECEIVE, RECEIVED),
    "cancel_receive": (8, (("handle", Handle), ("request", DWORD)), STATUS),
    "end_receive": (9, (("handle", Handle), ("ack", DWORD), ("request", DWORD)), STATUS),
    "move_message": (
        10,
        (("handle", Handle), ("to", ULONGLONG), ("lookup", ULONGLONG), ("transaction", Transaction)),
        STATUS,
    ),
    "open_queue_for_move": (11, OPEN, (("move", ULONGLONG), ("handle", Handle))),
    "start_transactional_receive": (13, (*RECEIVE, ("transaction", Transaction)), RECEIVED),
    "set_user_acknowledgement_class": (
        14,
        (("handle", Handle), ("lookup", ULONGLONG), ("class", USHORT)),
        STATUS,
    ),
    "end_transactional_receive": (15, (("handle", Handle), ("ack", DWORD), ("request", DWORD)), STATUS),
}
# Built once: impacket finds fields by the class.
REQUESTS = {
    name: type(name, (NDRCALL,), {"opnum": opnum, "structure": fields})
    for name, (opnum, fields, _) in METHODS.items()
}
RESPONSES = {
    name: type(f"{name}_response", (NDRCALL,), {"structure": fields})
    for name, (_, _, fields) in METHODS.items()
}


class Connection:
    def __init__(self, command):
        binding = f"ncacn_ip_tcp:{command.get('host', '127.0.0.1')}[{command['port']}]"
        self.transport = transport.DCERPCTransportFactory(binding)
        self.transport.set_connect_timeout(PATIENCE_S)
        self.last = b""
        self.fragments = 0
        self.pending = {}
        self._group = command.get("group", 0)
        self.dce = DCERPC_v5(self.transport)
        if "user" in command:
            self.dce.set_credentials(command["user"], command["password"], command.get("domain", ""))
        if "level" in command:
            self.dce.set_auth_level(command["level"])
        self.dce.connect()
        self._watch()
        self.dce.bind(
            REMOTE_READ if "interface" not in command else uuidtup_to_bin(tuple(command["interface"])),
            bogus_binds=command.get("bogus", 0),
            transfer_syntax=tuple(command.get("syntax", ("8a885d04-1ceb-11c9-9fe8-08002b104860", "2.0"))),
        )

    def _watch(self):
        """See what goes over the line: impacket hides numbers of calls, codes of faults and groups."""
        receive, send = self.transport.recv, self.transport.send

        def watched_recv(forceRecv=0, count=0):
            data = receive(forceRecv, count)
            self.last = data if data[:1] == b"\x05" and len(data) >= 16 else self.last + data
            if data[:1] == b"\x05" and data[2:3] == bytes([BIND_ACK]):
                self.group = struct.unpack_from("<L", data, 20)[0]
            if data[:1] == b"\x05":
                self.fragments += 1
            return data

        def watched_send(data, forceWriteAndx=0, forceRecv=0):
            if data[2] == BIND and self._group:
                data = data[:20] + struct.pack("<L", self._group) + data[24:]
            return send(data, forceWriteAndx, forceRecv)

        self.transport.recv, self.transport.send = watched_recv, watched_send

    def begin(self, method, arguments):
        request = REQUESTS[method]()
        for name, value in arguments.items():
            fill(request, name, value)
        return self.send(method, request.opnum, request)

    def send(self, method, opnum, body):
        number = self.dce._DCERPC_v5__callid
        self.dce.call(opnum, body)
        self.pending[number] = method
        return number

    def answer(self):
        self.fragments = 0
        try:
            stub = self.dce.recv()
        except DCERPCException as error:
            if self.last[2:3] != bytes([FAULT]):
                raise
            number, status = struct.unpack_from("<L8xL", self.last, 12)
            return {"method": self.pending.pop(number, "?"), "fault": status, "text": str(error)}
        number = struct.unpack_from("<L", self.last, 12)[0]
        method = self.pending.pop(number)
        response = RESPONSES[method](stub)
        fields = {name: show(response[name]) for name, _ in METHODS[method][2]}
        return {"method": method, "call": number, "fragments": self.fragments, "size": len(stub), **fields}


def fill(request, name, value):
    if name == "format":
        queue_format, tag, arm = request[name], value["type"], value["value"]
        queue_format["m_qft"] = queue_format["u"]["tag"] = tag
        field = QueueFormatUnion.union[tag][0]
        if tag in {3, 8}:
            queue_format["u"][field] = [ord(each) for each in arm + "\0"]
        elif tag == 2:
            queue_format["u"][field]["Lineage"] = string_to_bin(arm[0])
            queue_format["u"][field]["Uniquifier"] = arm[1]
        else:
            queue_format["u"][field] = string_to_bin(arm)
    elif name == "handle":
        data = bytes.fromhex(value)
        request[name]["attributes"], request[name]["uuid"] = struct.unpack("<L16s", data)
    elif name == "client":
        request[name] = string_to_bin(value)
    elif name == "transaction":
        request[name]["rgb"] = bytes.fromhex(value)
    else:
        request[name] = value


def show(value):
    if isinstance(value, Handle):
        return struct.pack("<L16s", value["attributes"], value["uuid"]).hex()
    if isinstance(value, list):
        return [
            {
                "type": each["SectionBufferType"],
                "alloc": each["SectionSizeAlloc"],
                "size": each["SectionSize"],
                "bytes": b"".join(each["pSectionBuffer"]).hex(),
            }
            for each in value
        ]
    return None if value == b"" else value


def drain(connection, handle, count):
    """Receives and acknowledges messages one after the other: what that takes, for bench/."""
    reading = {"lookup": 0, "cursor": 0, "action": 0, "timeout": 10_000}
    sizes = {"max_body": 0xFFFF_FFFF, "max_compound": 0xFFFF_FFFF}
    wall, cpu = time.perf_counter(), time.process_time()
    for number in range(1, count + 1):
        connection.begin("start_receive", {"handle": handle, "request": number, **reading, **sizes})
        assert connection.answer()["status"] == 0
        connection.begin("end_receive", {"handle": handle, "ack": 2, "request": number})
        assert connection.answer()["status"] == 0
    return {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}


def endpoints(command):
    """ept_map and ept_lookup, as impacket's own module asks them."""

    def dce():
        mapper = transport.DCERPCTransportFactory(f"ncacn_ip_tcp:127.0.0.1[{command['port']}]").get_dce_rpc()
        mapper.connect()
        return mapper

    interface = uuidtup_to_bin(tuple(command["interface"])) if "interface" in command else REMOTE_READ
    mapped = epm.hept_map("127.0.0.1", interface, protocol=command.get("protocol", "ncacn_ip_tcp"), dce=dce())
    found = [
        [
            str(each["tower"]["Floors"][0]),
            epm.PrintStringBinding(each["tower"]["Floors"]),
            each["annotation"].decode().rstrip("\0"),
        ]
        for each in epm.hept_lookup("127.0.0.1", dce=dce())
    ]
    return {"mapped": mapped, "found": found}


def main():
    connections = {}
    for line in sys.stdin:
        command = json.loads(line)
        name = command.get("on", "")
        try:
            answer = act(connections, name, command)
        except Exception as problem:  # noqa: BLE001
            answer = {"problem": f"{type(problem).__name__}: {problem}"}
        print(json.dumps(answer, default=str), flush=True)  # noqa: T201


def act(connections, name, command):
    match command["do"]:
        case "connect":
            made = connections[name] = Connection(command)
            return {"group": made.group}
        case "call":
            connections[name].begin(command["method"], command["arguments"])
            return connections[name].answer()
        case "begin":
            return {"call": connections[name].begin(command["method"], command["arguments"])}
        case "answer":
            return connections[name].answer()
        case "drain":
            return drain(connections[name], command["handle"], command["count"])
        case "raw":
            connections[name].send("get_server_port", command["opnum"], bytes.fromhex(command["stub"]))
            return connections[name].answer()
        case "drop":
            line = connections.pop(name).transport.get_socket()
            line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            line.close()
            return {}
        case "disconnect":
            connections.pop(name).dce.disconnect()
            return {}
        case "endpoints":
            return endpoints(command)
    return {"problem": "no such command"}


if __name__ == "__main__":
    main()
