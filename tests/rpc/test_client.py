"""[C706] 9.3, [MS-RPCE] 3.3.2: the client machine, with a good server and with bad ones."""

import random
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiercel.model.errors import DecodeError, PeerError
from tiercel.rpc.client import (
    EXPECTED,
    Answered,
    BindError,
    Bound,
    ClientConnection,
    Event,
    Failed,
    Faulted,
    ProtocolError,
    ShutdownRequested,
    State,
)
from tiercel.rpc.framer import Framer
from tiercel.rpc.pdu import (
    CONC_MPX,
    FIRST,
    LAST,
    WHOLE,
    AlterContext,
    AlterContextResp,
    Auth3,
    Bind,
    BindAck,
    BindNak,
    CoCancel,
    ContextAnswer,
    Fault,
    Orphaned,
    Pdu,
    Request,
    Response,
    Shutdown,
    Verifier,
    decode_pdu,
)
from tiercel.rpc.server import Abandoned, Call, Cancelled, ServerConnection
from tiercel.rpc.syntax import NDR, NDR64, Interface, SyntaxId

from .scripted import ECHO, PEER, make_service

ACK = BindAck(
    call_id=1,
    flags=WHOLE | CONC_MPX,
    max_xmit_frag=5840,
    max_recv_frag=5840,
    assoc_group_id=0x53F0,
    secondary_address=b"2103\0",
    results=(ContextAnswer(0, 0, NDR), ContextAnswer(3, 2)),
)


def sent(connection: ClientConnection) -> list[Pdu]:
    framer = Framer()
    framer.receive(connection.data_to_send())
    return [decode_pdu(data) for data in framer.pdus()]


def feed(connection: ClientConnection, *pdus: Pdu) -> list[Event]:
    return [event for pdu in pdus for event in connection.receive(pdu.encode())]


def bound(ack: BindAck = ACK, *, max_response_bytes: int = 1 << 20) -> ClientConnection:
    connection = ClientConnection(ECHO, max_response_bytes=max_response_bytes)
    connection.bind()
    assert feed(connection, ack) == [Bound()]
    connection.data_to_send()
    return connection


def problem(connection: ClientConnection, *pdus: Pdu) -> PeerError:
    """The error that these end the connection with."""
    *_, last = feed(connection, *pdus)
    assert isinstance(last, Failed)
    assert connection.is_closing
    assert feed(connection, *pdus) == []
    return last.error


class TestBind:
    def test_what_is_sent(self) -> None:
        connection = ClientConnection(ECHO, group_id=7, max_fragment=5840)
        connection.bind()
        (bind,) = sent(connection)
        assert isinstance(bind, Bind)
        assert (bind.max_recv_frag, bind.max_xmit_frag, bind.assoc_group_id) == (5840, 5840, 7)
        assert [element.transfer_syntaxes for element in bind.contexts] == [
            (NDR,),
            (SyntaxId.of_features(2),),
        ]
        assert bind.flags == WHOLE | CONC_MPX

    def test_bound(self) -> None:
        connection = bound()
        assert connection.is_bound
        assert connection.group_id == 0x53F0
        assert connection.is_multiplexed

    @pytest.mark.parametrize(
        ("answer", "words"),
        [
            (BindNak(reason=2), "local_limit_exceeded"),
            (BindNak(reason=99), "reason 99"),
            (
                replace(ACK, results=(ContextAnswer(2, 1),)),
                "provider_rejection, abstract_syntax_not_supported",
            ),
            (replace(ACK, results=(ContextAnswer(2, 77),)), "provider_rejection, reason 77"),
            (Fault(status=0x1C01000B), "0x1C01000B"),
        ],
    )
    def test_refused(self, answer: Pdu, words: str) -> None:
        connection = ClientConnection(ECHO)
        connection.bind()
        error = problem(connection, answer)
        assert isinstance(error, BindError)
        assert words in str(error)
        assert "the bind to Echo 6b5f0e4e-" in str(error)

    @pytest.mark.parametrize("results", [(), (ContextAnswer(0, 0, NDR64),)])
    def test_answers_that_are_none(self, results: tuple[ContextAnswer, ...]) -> None:
        connection = ClientConnection(ECHO)
        connection.bind()
        assert isinstance(problem(connection, replace(ACK, results=results)), ProtocolError)

    def test_once_only(self) -> None:
        with pytest.raises(ValueError, match="already bound"):
            bound().bind()

    def test_no_calls_before(self) -> None:
        with pytest.raises(ValueError, match="bound"):
            ClientConnection(ECHO).call(0, b"")


class TestStates:
    @pytest.mark.parametrize("state", [State.NEW, State.BINDING, State.BOUND])
    @pytest.mark.parametrize(
        "pdu",
        [
            ACK,
            BindNak(),
            Bind(),
            AlterContext(),
            AlterContextResp(results=ACK.results),
            Auth3(auth=Verifier(10, 6, 1, b"x")),
            Request(),
            Response(call_id=2),
            Fault(call_id=2),
            CoCancel(),
            Orphaned(),
            Shutdown(),
        ],
    )
    def test_every_pdu_in_every_state(self, state: State, pdu: Pdu) -> None:
        connection = ClientConnection(ECHO)
        if state is not State.NEW:
            connection.bind()
        if state is State.BOUND:
            feed(connection, ACK)
            connection.call(0, b"")
        events = feed(connection, pdu)
        broken = [
            event for event in events if isinstance(event, Failed) and isinstance(event.error, ProtocolError)
        ]
        assert bool(broken) == (type(pdu) not in EXPECTED[state])


class TestCalls:
    def test_answers_in_any_order(self) -> None:
        connection = bound()
        first, second = connection.call(0, b"a"), connection.call(1, b"b")
        assert [(pdu.call_id, pdu.opnum) for pdu in sent(connection) if isinstance(pdu, Request)] == [
            (first, 0),
            (second, 1),
        ]
        assert feed(
            connection, Response(call_id=second, stub=b"B"), Fault(call_id=first, status=0xC00E0003)
        ) == [
            Answered(second, b"B"),
            SameFault(first, 0xC00E0003),
        ]
        assert connection.outstanding_calls == 0

    def test_fragments_of_two_answers_may_mix(self) -> None:
        connection = bound()
        first, second = connection.call(0, b""), connection.call(0, b"")
        assert feed(
            connection,
            Response(call_id=first, flags=FIRST, stub=b"1"),
            Response(call_id=second, flags=FIRST, stub=b"2"),
            Response(call_id=first, flags=LAST, stub=b"!"),
            Response(call_id=second, flags=0, stub=b"3"),
            Response(call_id=second, flags=LAST, stub=b"?"),
        ) == [Answered(first, b"1!"), Answered(second, b"23?")]

    def test_an_object(self) -> None:
        connection = bound()
        connection.call(0, b"x", target=UUID(int=3))
        (pdu,) = sent(connection)
        assert isinstance(pdu, Request)
        assert (pdu.object, pdu.stub) == (UUID(int=3), b"x")

    def test_a_server_that_takes_one_at_a_time(self) -> None:
        """[MS-RPCE] 3.3.1.5.8: an exclusive connection."""
        connection = bound(replace(ACK, flags=WHOLE))
        calls = [connection.call(0, bytes([n])) for n in range(3)]
        assert connection.outstanding_calls == 3
        assert [pdu.call_id for pdu in sent(connection)] == calls[:1]
        connection.orphan(calls[1])
        assert feed(connection, Response(call_id=calls[0])) == [Answered(calls[0], b"")]
        assert [pdu.call_id for pdu in sent(connection)] == calls[2:]

    def test_large_requests_are_cut(self) -> None:
        connection = bound()
        stub = random.Random(2).randbytes(20_000)
        connection.call(0, stub)
        pdus = [pdu for pdu in sent(connection) if isinstance(pdu, Request)]
        assert b"".join(pdu.stub for pdu in pdus) == stub
        assert max(len(pdu.encode()) for pdu in pdus) <= 5840

    @pytest.mark.parametrize(
        "answers",
        [
            [Response(call_id=2, flags=LAST)],
            [Response(call_id=2, flags=FIRST), Response(call_id=2, flags=FIRST)],
            [Response(call_id=3)],
            [Response(call_id=1)],
            [Fault(call_id=9, status=5)],
            [
                Response(call_id=2, flags=FIRST, stub=bytes(900)),
                Response(call_id=2, flags=0, stub=bytes(101)),
            ],
        ],
    )
    def test_answers_that_no_server_gives(self, answers: list[Pdu]) -> None:
        connection = bound(max_response_bytes=1000)
        assert connection.call(0, b"") == 2
        assert isinstance(problem(connection, *answers), ProtocolError)

    def test_what_came_before_the_error_counts(self) -> None:
        connection = bound()
        connection.call(0, b"")
        *events, last = connection.receive(Response(call_id=2).encode() + b"GET / HTTP/1.1\r\n")
        assert events == [Answered(2, b"")]
        assert isinstance(last, Failed)
        assert isinstance(last.error, DecodeError)

    def test_shutdown(self) -> None:
        assert feed(bound(), Shutdown()) == [ShutdownRequested()]


@pytest.mark.parametrize("byte", [0, 1, 2, 3, 4, 0x80, 0xFF])
def test_the_quick_way_of_plain_answers_leads_to_the_same(byte: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever stands in any place of a header."""
    answer = Response(call_id=2, stub=b"one").encode()

    def play(at: int) -> list[str]:
        connection = bound(max_response_bytes=4)
        for _ in range(2):
            connection.call(0, b"")
        data = answer[:at] + bytes([byte]) + answer[at + 1 :] + answer
        return [repr(event) for event in connection.receive(data)]

    quickly = [play(at) for at in range(len(answer))]
    monkeypatch.setattr(ClientConnection, "_take_plain", lambda *_: False)
    assert quickly == [play(at) for at in range(len(answer))]


class SameFault:
    """Equal to a `Faulted` of this call and status: errors compare by identity."""

    def __init__(self, call_id: int, status: int) -> None:
        self._expected = (call_id, status)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Faulted) and (other.call_id, other.fault.status) == self._expected

    def __hash__(self) -> int:
        return hash(self._expected)


class TestCancel:
    def test_cancel(self) -> None:
        connection = bound()
        call_id = connection.call(0, b"")
        connection.data_to_send()
        connection.cancel(call_id)
        connection.cancel(99)
        assert sent(connection) == [CoCancel(call_id=call_id)]
        assert connection.outstanding_calls == 1

    def test_orphan(self) -> None:
        connection = bound()
        call_id = connection.call(0, b"")
        connection.data_to_send()
        connection.orphan(call_id)
        assert sent(connection) == [Orphaned(call_id=call_id)]
        assert feed(connection, Response(call_id=call_id)) == []
        assert not connection.is_closing

    def test_orphan_where_the_server_cannot_take_it(self) -> None:
        """[MS-RPCE] 3.3.1.5.10"""
        connection = bound(replace(ACK, results=ACK.results[:1]))
        connection.orphan(connection.call(0, b""))
        assert connection.is_closing


class Pair:
    """A client and a server machine with their bytes passed on in chunks of any size."""

    def __init__(self, interface: Interface = ECHO) -> None:
        self.client = ClientConnection(interface)
        self.server = ServerConnection(make_service(), PEER)
        self.answer: Callable[[bytes], bytes] = lambda stub: stub[::-1]

    def run(self, size: int = 1 << 20) -> list[Event]:
        events: list[Event] = []
        while True:
            out = self.client.data_to_send()
            for a, b in pairwise([*range(0, len(out), size), len(out)]):
                for event in self.server.receive(out[a:b]):
                    if isinstance(event, Call):
                        self.server.reply(event, self.answer(event.stub))
            back = self.server.data_to_send()
            for a, b in pairwise([*range(0, len(back), size), len(back)]):
                events += self.client.receive(back[a:b])
            if not out and not back:
                return events


class TestTogether:
    @given(st.binary(max_size=200), st.integers(1, 5), st.integers(1, 90))
    def test_any_stub_in_any_chunks(self, seed: bytes, factor: int, size: int) -> None:
        pair = Pair()
        pair.client.bind()
        assert pair.run(size) == [Bound()]
        stubs = [seed * (factor * n * 20) for n in range(3)]
        calls = [pair.client.call(0, stub) for stub in stubs]
        assert pair.run(size * 50) == [
            Answered(call, stub[::-1]) for call, stub in zip(calls, stubs, strict=True)
        ]

    def test_cancel_and_orphan_reach_the_server(self) -> None:
        pair = Pair()
        pair.client.bind()
        pair.run()
        first, second = pair.client.call(0, b"a"), pair.client.call(0, b"b")
        calls = pair.server.receive(pair.client.data_to_send())
        pair.client.cancel(first)
        pair.client.orphan(second)
        events = pair.server.receive(pair.client.data_to_send())
        assert isinstance(calls[0], Call)
        assert isinstance(calls[1], Call)
        assert events == [Cancelled(calls[0]), Abandoned(calls[1])]
