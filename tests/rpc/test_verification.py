"""[MS-RPCE] 2.2.2.13"""

import struct

import pytest

from tiercel.rpc.protection import Protection
from tiercel.rpc.security import AuthenticationLevel
from tiercel.rpc.server import Call
from tiercel.rpc.status import RpcFault
from tiercel.rpc.syntax import NDR, NDR64, SyntaxId
from tiercel.rpc.verification import BITMASK, END, HEADER2, MUST_PROCESS, PCONTEXT, SIGNATURE, check_trailer

from .scripted import ECHO, REMOTE_READ, RawClient, ScriptedContext, make_service, request

OLDER = SyntaxId(ECHO.syntax.uuid, 1)  # the client's minor version is not the server's


def made(*, signs_headers: bool | None = None) -> Call:
    """Call 7 of operation 2 in context 3, signed with or without its header."""
    raw = RawClient(make_service())
    raw.bind()
    raw.send(request(7, opnum=2))
    call = raw.calls()[0]
    protection = None
    if signs_headers is not None:
        context = ScriptedContext(is_server=True)
        protection = Protection(10, AuthenticationLevel.INTEGRITY, 1, context, signs_headers)
    return Call(
        call_id=7,
        context_id=3,
        interface=ECHO,
        abstract_syntax=OLDER,
        opnum=2,
        object=None,
        stub=b"",
        level=AuthenticationLevel.INTEGRITY,
        identity=None,
        association=call.association,
        protection=protection,
    )


def command(kind: int, data: bytes, size: int | None = None) -> bytes:
    return struct.pack("<HH", kind, len(data) if size is None else size) + data


def header2(
    ptype: int = 0, drep: str = "10000000", call_id: int = 7, context_id: int = 3, opnum: int = 2
) -> bytes:
    data = struct.pack("<BBH4sIHH", ptype, 9, 9, bytes.fromhex(drep), call_id, context_id, opnum)
    return command(HEADER2 | END, data)


BITS = command(BITMASK, b"\1\0\0\0")
CONTEXT = command(PCONTEXT | MUST_PROCESS, OLDER.encode() + NDR.encode())
UNKNOWN = command(0x0009, b"1234")


@pytest.mark.parametrize(
    "rest",
    [
        b"",
        b"\0\0\0",
        b"anything else",
        SIGNATURE + header2(),
        bytes(3) + SIGNATURE + BITS + CONTEXT + header2() + bytes(5),
        SIGNATURE + UNKNOWN + header2(),
    ],
)
def test_agrees(rest: bytes) -> None:
    check_trailer(made(signs_headers=True), rest)


@pytest.mark.parametrize(
    "trailer",
    [
        header2(ptype=2),
        header2(drep="00000000"),
        header2(call_id=8),
        header2(context_id=0),
        header2(opnum=3),
        command(HEADER2 | END, b"1234"),
        command(PCONTEXT | END, ECHO.syntax.encode() + NDR.encode()),
        command(PCONTEXT | END, REMOTE_READ.syntax.encode() + NDR.encode()),
        command(PCONTEXT | END, OLDER.encode() + NDR64.encode()),
        command(BITMASK | END, b""),
        command(0x0009 | MUST_PROCESS | END, b""),
        CONTEXT + header2(opnum=1),
    ],
)
def test_differs(trailer: bytes) -> None:
    with pytest.raises(RpcFault) as caught:
        check_trailer(made(signs_headers=True), b"\0" + SIGNATURE + trailer)
    assert caught.value.status == 5


@pytest.mark.parametrize("trailer", [b"", b"\1\0", BITS, command(BITMASK | END, b"\1\0", 4), CONTEXT[:-1]])
def test_cut_short(trailer: bytes) -> None:
    with pytest.raises(RpcFault) as caught:
        check_trailer(made(signs_headers=True), SIGNATURE + trailer)
    assert caught.value.status == 0x6F7


def test_somebody_took_header_signing_out_of_the_bind() -> None:
    trailer = SIGNATURE + command(BITMASK | END, b"\1\0\0\0")
    check_trailer(made(signs_headers=True), trailer)
    check_trailer(made(), trailer)
    check_trailer(made(signs_headers=False), SIGNATURE + command(BITMASK | END, b"\0\0\0\0"))
    with pytest.raises(RpcFault):
        check_trailer(made(signs_headers=False), trailer)


def test_a_call_knows_the_version_that_its_client_bound_to() -> None:
    raw = RawClient(make_service())
    raw.bind()
    raw.send(request(2))
    assert raw.calls()[0].abstract_syntax == ECHO.syntax
