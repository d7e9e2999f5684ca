"""The verification trailer after the stub data of a request: [MS-RPCE] 2.2.2.13.

It repeats header fields under the protection of the signature, so that the server notices changes to them.
Only the interface knows where the stub data ends, so it calls `check_trailer` with the rest.
"""

import struct
from typing import Final

from tiercel.model.errors import DecodeError
from tiercel.rpc.pdu import LITTLE_ENDIAN, PduType
from tiercel.rpc.server import Call
from tiercel.rpc.status import ERROR_ACCESS_DENIED, RPC_X_BAD_STUB_DATA, RpcFault
from tiercel.rpc.syntax import NDR
from tiercel.wire.structure import Reader

SIGNATURE: Final = bytes.fromhex("8ae3137102f43671")
BITMASK: Final = 0x0001
PCONTEXT: Final = 0x0002
HEADER2: Final = 0x0003
END: Final = 0x4000
MUST_PROCESS: Final = 0x8000
CLIENT_SUPPORT_HEADER_SIGNING: Final = 0x0000_0001

_COMMAND = struct.Struct("<HH")
_HEADER2 = struct.Struct("<BBH4sIHH")


def check_trailer(call: Call, rest: bytes) -> None:
    """Compare the trailer in `rest`, if any, with `call`; an `RpcFault` if they differ."""
    at = rest.find(SIGNATURE)
    if at < 0:
        return
    reader = Reader(rest, at + len(SIGNATURE))
    reader.structure = "VerificationTrailer"
    try:
        is_last = False
        while not is_last:
            command, size = _COMMAND.unpack(reader.take(_COMMAND.size, "command"))
            _check(call, command, reader.take(size, "length"))
            is_last = bool(command & END)
    except DecodeError as error:
        raise RpcFault(RPC_X_BAD_STUB_DATA, str(error)) from None


def _check(call: Call, command: int, data: bytes) -> None:
    match command & ~(END | MUST_PROCESS):
        case 0x0001:
            is_right = len(data) == 4 and (
                not data[0] & CLIENT_SUPPORT_HEADER_SIGNING or _agreed_to_sign_headers(call)
            )
        case 0x0002:
            is_right = data == call.abstract_syntax.encode() + NDR.encode()
        case 0x0003:
            is_right = len(data) == _HEADER2.size and _repeats_header(call, data)
        case _:
            is_right = not command & MUST_PROCESS
    if not is_right:
        problem = f"command {command:#06x} of the verification trailer does not match call {call.call_id}"
        raise RpcFault(ERROR_ACCESS_DENIED, problem)


def _repeats_header(call: Call, data: bytes) -> bool:
    kind, _, _, drep, call_id, context_id, opnum = _HEADER2.unpack(data)
    said = (kind, drep, call_id, context_id, opnum)
    return bool(said == (PduType.REQUEST, LITTLE_ENDIAN, call.call_id, call.context_id, call.opnum))


def _agreed_to_sign_headers(call: Call) -> bool:
    return call.protection is None or call.protection.header_signing
