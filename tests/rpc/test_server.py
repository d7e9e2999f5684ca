"""[C706] 9.3, [MS-RPCE] 3.3.1.5 and 3.3.3: everything that a client may do to a connection, and may not."""

import random
import tracemalloc
from itertools import pairwise
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiercel.rpc import status
from tiercel.rpc.pdu import (
    CONC_MPX,
    DID_NOT_EXECUTE,
    FIRST,
    LAST,
    OBJECT_UUID,
    PENDING_CANCEL,
    WHOLE,
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
    PduType,
    RejectReason,
    Request,
    Response,
    Shutdown,
    Verifier,
)
from tiercel.rpc.server import EXPECTED, Abandoned, Call, Cancelled, Limits, ServerConnection, State
from tiercel.rpc.syntax import NDR, NDR64, Interface, SyntaxId

from .scripted import ECHO, PEER, REMOTE_READ, RawClient, make_service, offer, request, whole_stub

ACCEPTED = ContextAnswer(0, 0, NDR)
UNKNOWN_INTERFACE = ContextAnswer(2, 1)
UNKNOWN_TRANSFER = ContextAnswer(2, 2)


def client(limits: Limits | None = None) -> RawClient:
    """A client that is bound to Echo as context 0 and RemoteRead as context 1."""
    raw = RawClient(make_service(limits=limits))
    raw.bind()
    return raw


class TestBind:
    """[MS-RPCE] 3.3.1.5.6"""

    @pytest.mark.parametrize(
        ("abstract", "answer"),
        [
            ("dd34911a397bba45ad8844d01ca47f2801000000", ACCEPTED),
            ("dd34911a397bba45ad8844d01ca47f2802000000", UNKNOWN_INTERFACE),
            ("dd34911a397bba45ad8844d01ca47f2801000100", UNKNOWN_INTERFACE),
            ("0102030405060708090a0b0c0d0e0f1001000000", UNKNOWN_INTERFACE),
        ],
    )
    def test_remote_read_is_version_1_0(self, abstract: str, answer: ContextAnswer) -> None:
        raw = RawClient(make_service(REMOTE_READ))
        element = ContextElement(0, SyntaxId.decode(bytes.fromhex(abstract)), (NDR,))
        assert raw.bind(element).results == (answer,)

    @pytest.mark.parametrize(("minor", "answer"), [(0, ACCEPTED), (2, ACCEPTED), (3, UNKNOWN_INTERFACE)])
    def test_older_minor_versions_are_served(self, minor: int, answer: ContextAnswer) -> None:
        element = ContextElement(0, SyntaxId(ECHO.syntax.uuid, minor << 16 | 1), (NDR,))
        assert RawClient(make_service()).bind(element).results == (answer,)

    def test_ndr64_is_refused_for_its_context_only(self) -> None:
        """As Windows offers them: one context for each transfer syntax, and one for the features."""
        raw = RawClient(make_service())
        features = ContextElement(2, REMOTE_READ.syntax, (SyntaxId.of_features(3),))
        ack = raw.bind(offer(0, REMOTE_READ), offer(1, REMOTE_READ, NDR64), features)
        assert ack.results == (ACCEPTED, UNKNOWN_TRANSFER, ContextAnswer(3, 3))
        assert raw.send(request(2, context_id=0)) == []
        assert [call.interface for call in raw.calls()] == [REMOTE_READ]
        assert raw.refused(request(3, context_id=1)) == status.NCA_S_INVALID_PRES_CONTEXT_ID
        assert not raw.server.is_closing

    def test_ndr64_alone(self) -> None:
        raw = RawClient(make_service())
        assert raw.bind(offer(0, REMOTE_READ, NDR64)).results == (UNKNOWN_TRANSFER,)
        assert raw.refused(request(2)) == status.NCA_S_INVALID_PRES_CONTEXT_ID

    def test_both_in_one_context(self) -> None:
        raw = RawClient(make_service())
        assert raw.bind(offer(7, REMOTE_READ, NDR64, NDR)).results == (ACCEPTED,)
        raw.send(request(2, context_id=7))
        assert len(raw.calls()) == 1

    @pytest.mark.parametrize(("asked", "given"), [(0, 0), (1, 1), (2, 2), (3, 3), (0xFF, 3)])
    def test_features_that_are_not_known_are_cleared(self, asked: int, given: int) -> None:
        element = ContextElement(1, ECHO.syntax, (SyntaxId.of_features(asked),))
        assert RawClient(make_service()).bind(offer(0), element).results[1] == ContextAnswer(3, given)

    @pytest.mark.parametrize(
        ("offered", "agreed"), [(5840, 5840), (0xFFFF, 4280), (100, 1432), (0, 1432), (4280, 4280)]
    )
    def test_fragment_sizes(self, offered: int, agreed: int) -> None:
        raw = RawClient(make_service(limits=Limits(max_fragment=4280 if agreed == 4280 else 0xFFF8)))
        (ack,) = raw.send(Bind(max_xmit_frag=offered, max_recv_frag=1433, contexts=(offer(0),)))
        assert isinstance(ack, BindAck)
        assert (ack.max_recv_frag, ack.max_xmit_frag) == (agreed, 1433)

    def test_multiplexing_is_agreed_on(self) -> None:
        raw = RawClient(make_service())
        assert raw.bind().flags == WHOLE | CONC_MPX
        raw = RawClient(make_service())
        (ack,) = raw.send(Bind(contexts=(offer(0),)))
        assert ack.flags == WHOLE

    def test_the_endpoint_is_repeated(self) -> None:
        assert RawClient(make_service()).bind().secondary_address == b"2103\0"
        assert RawClient(make_service(endpoint="")).bind().secondary_address == b""

    @pytest.mark.parametrize(
        ("bad", "reason"),
        [
            (Bind(flags=FIRST, contexts=(offer(0),)).encode(), 0),
            (Bind(contexts=(offer(0),), assoc_group_id=0x1234).encode(), 0),
            (Bind(contexts=tuple(offer(i) for i in range(9))).encode(), RejectReason.LOCAL_LIMIT_EXCEEDED),
            (b"\5\1" + Bind(call_id=0).encode()[2:], RejectReason.PROTOCOL_VERSION_NOT_SUPPORTED),
            (b"\4\0" + Bind(call_id=0).encode()[2:], RejectReason.PROTOCOL_VERSION_NOT_SUPPORTED),
            (Bind(call_id=0).encode()[:24] + b"\1\0\0\0", 0),
            (Bind(auth=Verifier(0x55, 6, 1, b"x")).encode(), RejectReason.AUTHENTICATION_TYPE_NOT_RECOGNIZED),
        ],
    )
    def test_refused_with_a_bind_nak(self, bad: bytes, reason: int) -> None:
        raw = RawClient(make_service(limits=Limits(max_contexts=8)))
        assert raw.send(bad) == [BindNak(reason=reason)]
        assert raw.server.is_closing
        assert raw.server.problem
        assert len(raw.service.associations) == 0

    def test_big_endian_is_refused_politely(self) -> None:
        raw = RawClient(make_service())
        head = (
            bytes((5, 0, 11, 3)) + b"\0\0\0\0" + (72).to_bytes(2, "big") + bytes(2) + (7).to_bytes(4, "big")
        )
        assert raw.send(head) == [BindNak(call_id=7)]
        assert raw.server.is_closing
        assert "little-endian" in raw.server.problem

    def test_a_web_browser(self) -> None:
        raw = RawClient(make_service())
        raw.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert raw.server.is_closing
        assert raw.send(Bind().encode()) == []


class TestStates:
    @pytest.mark.parametrize("state", [State.NEW, State.BOUND])
    @pytest.mark.parametrize("kind", PduType)
    def test_every_pdu_in_every_state(self, state: State, kind: PduType) -> None:
        raw = RawClient(make_service())
        if state is State.BOUND:
            raw.bind()
        body = bytes(12) if kind in {PduType.BIND, PduType.ALTER_CONTEXT} else bytes(16)
        auth = Verifier(0x0A, 6, 1, b"x")
        data = (
            bytes((5, 0, kind, 3)) + b"\x10\0\0\0" + (16 + len(body)).to_bytes(2, "little") + bytes(6) + body
        )
        if kind is PduType.AUTH3:
            data = Auth3(auth=auth).encode()
        answers = raw.send(data)
        is_expected = kind in EXPECTED[state] and kind is not PduType.AUTH3
        assert raw.server.is_closing != is_expected
        if not is_expected:
            kinds = {PduType.BIND: BindNak, PduType.REQUEST: Fault, PduType.ALTER_CONTEXT: Fault}
            assert [type(answer) for answer in answers] == ([kinds[kind]] if kind in kinds else [])

    def test_nothing_is_done_after_the_end(self) -> None:
        raw = client()
        raw.send(request(2), Shutdown(), request(3), Bind())
        assert len(raw.calls()) == 1
        raw.server.reply(raw.calls()[0], b"late")
        assert raw.answers() == []


class TestAlterContext:
    def test_more_contexts(self) -> None:
        raw = RawClient(make_service())
        group = raw.bind(offer(0)).assoc_group_id
        (answer,) = raw.send(AlterContext(call_id=2, contexts=(offer(5, REMOTE_READ), offer(6, ECHO, NDR64))))
        assert isinstance(answer, AlterContextResp)
        assert answer.results == (ACCEPTED, UNKNOWN_TRANSFER)
        assert (answer.assoc_group_id, answer.secondary_address) == (group, b"")
        raw.send(request(3, context_id=5), request(4, context_id=0))
        assert [call.interface for call in raw.calls()] == [REMOTE_READ, ECHO]

    def test_a_context_keeps_its_interface(self) -> None:
        raw = RawClient(make_service())
        raw.bind(offer(0))
        (answer,) = raw.send(AlterContext(call_id=2, contexts=(offer(0), offer(0, REMOTE_READ))))
        assert isinstance(answer, AlterContextResp)
        assert answer.results == (ACCEPTED, ContextAnswer(2, 0))

    def test_no_more_than_the_limit(self) -> None:
        """[MS-RPCE] 3.3.3.5.5"""
        raw = RawClient(make_service(limits=Limits(max_contexts=2)))
        raw.bind(offer(0))
        raw.send(AlterContext(call_id=2, contexts=(offer(0), offer(1))))
        assert raw.send(AlterContext(call_id=3, contexts=(offer(2),))) == [
            BindNak(call_id=3, reason=RejectReason.LOCAL_LIMIT_EXCEEDED)
        ]
        assert raw.server.is_closing


class TestCalls:
    def test_a_call_and_its_answer(self) -> None:
        raw = client()
        assert raw.send(request(2, b"question", opnum=1)) == []
        (call,) = raw.calls()
        assert (call.call_id, call.interface, call.opnum, call.stub) == (2, ECHO, 1, b"question")
        assert (call.identity, call.level, call.object) == (None, 1, None)
        raw.server.reply(call, b"answer")
        assert raw.answers() == [Response(call_id=2, alloc_hint=6, stub=b"answer")]
        assert raw.server.pending_calls == 0

    def test_an_object(self) -> None:
        raw = client()
        target = UUID(int=5)
        raw.send(Request(call_id=2, flags=WHOLE | OBJECT_UUID, object=target, stub=b"x"))
        assert [(call.object, call.stub) for call in raw.calls()] == [(target, b"x")]

    def test_answers_in_any_order(self) -> None:
        """MQRR trap 27: a call that waits holds up no other."""
        raw = client()
        raw.send(request(2), request(3), request(4, context_id=1))
        first, second, third = raw.calls()
        for call in (third, first, second):
            raw.server.reply(call, str(call.call_id).encode())
        assert [
            (answer.call_id, answer.context_id) for answer in raw.answers() if isinstance(answer, Response)
        ] == [
            (4, 1),
            (2, 0),
            (3, 0),
        ]

    def test_a_call_is_answered_once(self) -> None:
        raw = client()
        raw.send(request(2))
        raw.server.reply(raw.calls()[0], b"")
        raw.server.reply(raw.calls()[0], b"")
        raw.server.fault(raw.calls()[0], 5)
        assert raw.answers() == [Response(call_id=2)]

    @pytest.mark.parametrize("code", [0xC00E0003, 0x6F7, 0x1C00001A, 5, 0xFFFFFFFF])
    def test_any_status(self, code: int) -> None:
        """MQRR trap 25"""
        raw = client()
        raw.send(request(2, context_id=1))
        raw.server.fault(raw.calls()[0], code)
        assert raw.answers() == [Fault(call_id=2, context_id=1, status=code)]

    @pytest.mark.parametrize("code", sorted(status.FORBIDDEN))
    def test_but_the_forbidden(self, code: int) -> None:
        raw = client()
        raw.send(request(2))
        with pytest.raises(ValueError, match=f"0x{code:08X}"):
            raw.server.fault(raw.calls()[0], code)

    def test_operations_out_of_range(self) -> None:
        raw = client()
        flags = WHOLE | DID_NOT_EXECUTE
        assert raw.send(request(2, opnum=16, context_id=1)) == [
            Fault(call_id=2, context_id=1, flags=flags, status=0x1C010002)
        ]
        raw.send(*(request(3 + opnum, opnum=opnum, context_id=1) for opnum in range(16)))
        assert [call.opnum for call in raw.calls()] == list(range(16))

    def test_a_large_answer_is_cut(self) -> None:
        raw = RawClient(make_service())
        raw.send(Bind(max_xmit_frag=4280, max_recv_frag=4280, contexts=(offer(0),)))
        raw.send(request(2))
        stub = random.Random(1).randbytes(100 * 1024)
        raw.server.reply(raw.calls()[0], stub)
        answers = raw.answers()
        assert whole_stub(answers) == stub
        assert len(answers) == -(-len(stub) // (4256 & ~15))
        assert max(len(answer.encode()) for answer in answers) <= 4280
        left = len(stub)
        for answer in answers:
            assert isinstance(answer, Response)
            assert answer.alloc_hint == left
            left -= len(answer.stub)

    @pytest.mark.parametrize("size", [0, 1, 1407, 1408, 1409, 2816, 2817])
    def test_the_last_fragment_says_so(self, size: int) -> None:
        """A fragment of 1432 bytes has room for 1408."""
        raw = RawClient(make_service())
        raw.send(Bind(max_recv_frag=1432, contexts=(offer(0),)))
        raw.send(request(2))
        raw.server.reply(raw.calls()[0], bytes(size))
        answers = raw.answers()
        assert whole_stub(answers) == bytes(size)
        assert len(answers) == max(1, -(-size // 1408))

    def test_shutdown(self) -> None:
        raw = client()
        raw.server.shut_down()
        assert raw.answers() == [Shutdown()]


class TestFragments:
    def test_a_request_in_pieces(self) -> None:
        raw = client()
        raw.send(
            request(2, b"a" * 100, flags=FIRST), request(2, b"b" * 7, flags=0), request(2, b"c", flags=LAST)
        )
        assert [call.stub for call in raw.calls()] == [b"a" * 100 + b"b" * 7 + b"c"]

    @pytest.mark.parametrize(
        "bad",
        [
            request(3, flags=FIRST),  # another call before this one is whole
            request(3),
            request(2, flags=FIRST),  # the same once more
            request(3, flags=0),
            request(2, flags=LAST, opnum=1),
            request(2, flags=LAST, context_id=1),
        ],
    )
    def test_overlap_is_a_protocol_error(self, bad: Request) -> None:
        """[MS-RPCE] 3.3.1.5.8, 3.3.3.5.7"""
        raw = client()
        raw.send(request(2, flags=FIRST))
        assert raw.refused(bad) == status.NCA_S_PROTO_ERROR
        assert raw.server.is_closing
        assert raw.events == []

    def test_a_live_call_id_is_not_used_again(self) -> None:
        raw = client()
        raw.send(request(2))
        assert raw.refused(request(2)) == status.NCA_S_PROTO_ERROR

    def test_an_id_may_come_again_when_its_call_is_over(self) -> None:
        raw = client()
        for _ in range(2):
            raw.send(request(2))
            raw.server.reply(raw.calls()[-1], b"")
            assert raw.answers() == [Response(call_id=2)]

    @pytest.mark.parametrize(("call_id", "is_ignored"), [(199, True), (51, True), (50, False), (201, False)])
    def test_leftovers_of_old_calls(self, call_id: int, is_ignored: bool) -> None:
        """[MS-RPCE] 3.3.3.5.6"""
        raw = client()
        raw.send(request(200))
        answers = raw.send(request(call_id, flags=LAST))
        assert raw.server.is_closing != is_ignored
        assert bool(answers) != is_ignored

    def test_larger_than_negotiated(self) -> None:
        raw = RawClient(make_service())
        raw.send(Bind(max_xmit_frag=2000, contexts=(offer(0),)))
        raw.send(request(2, bytes(2000 - 24)))
        assert len(raw.calls()) == 1
        assert raw.refused(request(3, bytes(2001 - 24))) == status.NCA_S_PROTO_ERROR

    def test_too_large_is_refused_at_once_and_the_rest_ignored(self) -> None:
        """[MS-RPCE] 3.3.3.5.4, 3.3.3.5.8"""
        raw = client(Limits(max_request_bytes=100))
        assert raw.send(request(2, bytes(60), flags=FIRST)) == []
        assert raw.refused(request(2, bytes(60), flags=0)) == status.ERROR_ACCESS_DENIED
        assert raw.send(request(2, bytes(60), flags=0), request(2, bytes(60), flags=LAST)) == []
        raw.send(request(3, bytes(100)))
        assert [call.call_id for call in raw.calls()] == [3]
        assert raw.refused(request(4, bytes(101))) == status.ERROR_ACCESS_DENIED

    @pytest.mark.parametrize("size", [0, 1, 2048])
    def test_a_million_fragments_cost_nothing(self, size: int) -> None:
        raw = client()
        data = request(2, bytes(size), flags=0).encode()
        raw.send(request(2, bytes(size), flags=FIRST))
        for _ in range(20_000):
            raw.server.receive(data)
        assert raw.server._partial is None  # refused by now
        assert [answer.status for answer in raw.answers() if isinstance(answer, Fault)] == [5]
        tracemalloc.start()
        try:
            chunk = data * 100
            before, _ = tracemalloc.get_traced_memory()
            for _ in range(20):
                assert raw.server.receive(chunk) == []
            after, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert after - before < 100_000
        assert peak - before < 4 * len(chunk) + 100_000
        assert raw.server.data_to_send() == b""

    def test_refused_calls_with_fragments_to_come(self) -> None:
        raw = client()
        assert raw.refused(request(2, opnum=3, flags=FIRST)) == status.NCA_S_OP_RNG_ERROR
        assert raw.send(request(2, opnum=3, flags=0), request(2, opnum=3, flags=LAST)) == []
        assert not raw.server.is_closing


class TestBusy:
    def test_pending_calls_are_bounded(self) -> None:
        raw = client(Limits(max_pending_calls=2))
        raw.send(request(2), request(3))
        assert raw.refused(request(4)) == status.NCA_S_SERVER_TOO_BUSY
        raw.server.reply(raw.calls()[0], b"")
        raw.answers()
        assert raw.send(request(5)) == []
        assert len(raw.calls()) == 3

    def test_pending_bytes_are_bounded(self) -> None:
        raw = client(Limits(max_pending_bytes=1000))
        raw.send(request(2, bytes(1001)))
        assert raw.refused(request(3)) == status.NCA_S_SERVER_TOO_BUSY
        raw.send(Orphaned(call_id=2), request(4, bytes(1001)))
        assert [call.call_id for call in raw.calls()] == [2, 4]
        raw.server.reply(raw.calls()[1], b"")
        raw.send(request(5))
        assert [call.call_id for call in raw.calls()] == [2, 4, 5]


class TestCancel:
    def test_cancel_overtakes_a_waiting_call(self) -> None:
        raw = client()
        raw.send(request(2), request(3), CoCancel(call_id=2))
        first, _ = raw.calls()
        assert raw.events[-1] == Cancelled(first)
        raw.server.fault(first, status.NCA_S_FAULT_CANCEL)
        assert raw.answers() == [Fault(call_id=2, status=0x1C00000D)]

    def test_cancel_before_the_last_fragment(self) -> None:
        raw = client()
        raw.send(request(2, flags=FIRST), CoCancel(call_id=2), request(2, flags=LAST))
        assert raw.events == [raw.calls()[0], Cancelled(raw.calls()[0])]

    def test_a_request_that_is_cancelled_already(self) -> None:
        raw = client()
        raw.send(request(2, flags=WHOLE | PENDING_CANCEL))
        assert raw.events == [raw.calls()[0], Cancelled(raw.calls()[0])]

    def test_cancel_of_nothing(self) -> None:
        raw = client()
        assert raw.send(CoCancel(call_id=9), Orphaned(call_id=9)) == []
        assert raw.events == []

    def test_an_orphan_gets_no_answer(self) -> None:
        raw = client()
        raw.send(request(2), Orphaned(call_id=2))
        call = raw.calls()[0]
        assert raw.events == [call, Abandoned(call)]
        raw.server.reply(call, b"too late")
        assert raw.answers() == []

    def test_an_orphan_before_its_last_fragment(self) -> None:
        raw = client()
        raw.send(request(2, flags=FIRST), Orphaned(call_id=2), request(3))
        assert [call.call_id for call in raw.calls()] == [3]

    def test_calls_of_a_lost_connection_are_abandoned(self) -> None:
        raw = client()
        raw.send(request(2), request(3), request(4, flags=FIRST))
        assert raw.server.connection_lost() == [Abandoned(call) for call in raw.calls()]
        raw.server.reply(raw.calls()[0], b"")
        assert raw.answers() == []
        assert raw.server.connection_lost() == []


def _script() -> bytes:
    pdus: list[Pdu] = [
        Bind(call_id=1, contexts=(offer(0), offer(1, REMOTE_READ))),
        request(2, b"one"),
        request(3, b"two", flags=FIRST),
        request(3, b"three", flags=LAST),
        AlterContext(call_id=4, contexts=(offer(2),)),
        request(5, opnum=99),
        CoCancel(call_id=3),
        Orphaned(call_id=2),
        request(6, b"four", context_id=2),
        request(7, flags=LAST),
        request(8),
    ]
    return b"".join(pdu.encode() for pdu in pdus)


def _play(chunks: list[bytes]) -> tuple[list[object], bytes]:
    server = ServerConnection(make_service(), PEER)
    seen: list[object] = []
    sent = b""
    for chunk in chunks:
        for event in server.receive(chunk):
            call = event if isinstance(event, Call) else getattr(event, "call", None)
            seen.append((type(event), call and (call.call_id, call.stub, call.interface)))
        sent += server.data_to_send()
    return seen, sent


@given(st.lists(st.integers(0, len(_script())), max_size=12))
def test_any_chunking_gives_the_same_events_and_answers(cuts: list[int]) -> None:
    stream = _script()
    places = [0, *sorted(cuts), len(stream)]
    assert _play([stream[a:b] for a, b in pairwise(places)]) == _play([stream])


def test_the_script_reaches_its_end() -> None:
    seen, _ = _play([_script()])
    assert len(seen) == 5  # three calls, a cancel, an orphan; then the leftover ends it


@pytest.mark.parametrize("byte", [0, 1, 2, 4, 0x13, 0x80, 0xFF])
def test_the_quick_way_of_plain_calls_leads_to_the_same(byte: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever stands in any place of a header."""
    bind = Bind(call_id=1, contexts=(offer(0), offer(1, REMOTE_READ))).encode()
    call, rest = request(2, b"one").encode(), request(3, b"two", flags=LAST).encode()
    streams = [bind + call[:at] + bytes([byte]) + call[at + 1 :] + call + rest for at in range(len(call))]
    quickly = [_play([stream]) for stream in streams]
    monkeypatch.setattr(ServerConnection, "_take_plain", lambda *_: False)
    assert quickly == [_play([stream]) for stream in streams]


def test_interfaces_are_values() -> None:
    assert Interface("Echo", ECHO.syntax, 3) == ECHO
