"""Any PDU, as hypothesis draws them."""

from hypothesis import strategies as st

from tiercel.rpc.pdu import (
    OBJECT_UUID,
    AlterContext,
    AlterContextResp,
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
)
from tiercel.rpc.syntax import SyntaxId

bytes_u8 = st.integers(0, 0xFF)
u16 = st.integers(0, 0xFFFF)
u32 = st.integers(0, 0xFFFFFFFF)
syntaxes = st.builds(SyntaxId, st.uuids(), u32)
elements = st.builds(ContextElement, u16, syntaxes, st.lists(syntaxes, max_size=3).map(tuple))
answers = st.builds(ContextAnswer, u16, u16, syntaxes)
versions = st.lists(st.tuples(bytes_u8, bytes_u8), max_size=3).map(tuple)
tokens = st.binary(min_size=1, max_size=40)
verifiers = st.builds(Verifier, bytes_u8, bytes_u8, u32, tokens)
flags = st.integers(0, 0x7F)


def _pdu(kind: type[Pdu], **fields: st.SearchStrategy[object]) -> st.SearchStrategy[Pdu]:
    common = {"call_id": u32, "flags": flags, "auth": st.none() | verifiers}
    return st.builds(kind, **{**common, **fields})


_bind = {"max_xmit_frag": u16, "max_recv_frag": u16, "assoc_group_id": u32}
_binds = {**_bind, "contexts": st.lists(elements, max_size=4).map(tuple)}
_acks = {
    **_bind,
    "secondary_address": st.binary(max_size=9),
    "results": st.lists(answers, max_size=4).map(tuple),
}
_stub = {"alloc_hint": u32, "context_id": u16, "stub": st.binary(max_size=60)}

pdus: st.SearchStrategy[Pdu] = st.one_of(
    _pdu(Bind, **_binds),
    _pdu(AlterContext, **_binds),
    _pdu(BindAck, **_acks),
    _pdu(AlterContextResp, **_acks),
    _pdu(BindNak, reason=u16, versions=versions),
    _pdu(Auth3, auth=verifiers),
    _pdu(Request, opnum=u16, **_stub),
    _pdu(Request, opnum=u16, object=st.uuids(), flags=flags.map(OBJECT_UUID.__or__), **_stub),
    _pdu(Response, cancel_count=bytes_u8, **_stub),
    _pdu(Fault, alloc_hint=u32, context_id=u16, cancel_count=bytes_u8, status=u32),
    *(_pdu(kind) for kind in (CoCancel, Orphaned, Shutdown)),
)
