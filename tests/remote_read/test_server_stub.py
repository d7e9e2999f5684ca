"""The service behind real connections: raw PDUs go in, raw PDUs come out. [MS-MQRR] 2.1, 2.2.4, 3.1.4."""

from collections.abc import Sequence
from uuid import uuid4

import pytest

from engine.harness import ALICE, Box
from rpc.scripted import (
    ECHO,
    RawClient,
    ScriptedContext,
    make_service,
    offer,
    request,
    scripted_providers,
    whole_stub,
)
from tiercel.model.codes import QueueAccessMask
from tiercel.model.sid import ANONYMOUS
from tiercel.remote_read import calls
from tiercel.remote_read.calls import REMOTE_READ, REQUESTS, Received, Request
from tiercel.remote_read.packet import rebuild
from tiercel.remote_read.queue_format import QueueFormat
from tiercel.remote_read.server_stub import ServerStub
from tiercel.rpc.client import Answered, Authentication, ClientConnection, Faulted
from tiercel.rpc.ndr import ContextHandle
from tiercel.rpc.pdu import (
    CoCancel,
    ContextElement,
    ContextResult,
    Fault,
    Orphaned,
    Pdu,
    ProviderReason,
    decode_pdu,
)
from tiercel.rpc.security import AuthenticationLevel, AuthenticationType
from tiercel.rpc.server import Service
from tiercel.rpc.syntax import NDR, NDR64, SyntaxId
from tiercel.rpc.verification import END, PCONTEXT, SIGNATURE
from tiercel.security.descriptor import SecurityDescriptor

from .site import RECEIVE, Site, queue_format

BAD_STUB_DATA = 0x6F7
OP_RNG_ERROR = 0x1C010002
CONTEXT_MISMATCH = 0x1C00001A
FAULT_CANCEL = 0x1C00000D
PRIVACY = AuthenticationLevel.PRIVACY


class Line(RawClient):
    """A connection from this computer, which needs no authentication."""

    def __init__(self, site: Site, service: Service) -> None:
        super().__init__(service, "127.0.0.1")
        self.site = site
        self.stub = ServerStub(site.service)
        self.call_ids = iter(range(2, 1_000_000))

    def send(self, *pdus: Pdu | bytes) -> list[Pdu]:
        """In one piece."""
        data = b"".join(pdu if isinstance(pdu, bytes) else pdu.encode() for pdu in pdus)
        self.site.run(lambda: self.stub.take_all(self.server, self.server.receive(data)))
        return self.answers()

    def answers(self) -> list[Pdu]:
        """Once more as bytes in `sent`."""
        self.sent = self.server.data_to_send()
        self._framer.receive(self.sent)
        return [decode_pdu(data) for data in self._framer.pdus()]

    def start(self, opnum: int, stub: bytes) -> tuple[int, list[Pdu]]:
        call_id = next(self.call_ids)
        return call_id, self.send(request(call_id, stub, opnum))

    def ask(self, value: Request) -> list[Pdu]:
        return self.start(value.OPNUM, value.encode())[1]

    def fault(self, opnum: int, stub: bytes) -> int:
        (answer,) = self.start(opnum, stub)[1]
        assert isinstance(answer, Fault)
        return answer.status

    def open(self) -> ContextHandle:
        return calls.QueueOpened.decode(
            whole_stub(self.ask(calls.OpenQueue(queue_format("q"), RECEIVE)))
        ).handle

    def lose(self) -> None:
        """The socket is gone."""

        def take() -> None:
            for event in self.server.connection_lost():
                self.stub.take(self.server, event)

        self.site.run(take)


@pytest.fixture
def box(site: Site) -> Box:
    """Open to everybody."""
    box = site.create("q")
    everything = QueueAccessMask.QUEUE_GENERIC_ALL
    dacl = f"(A;;0x{everything:x};;;{ANONYMOUS})(A;;0x{everything:x};;;{ALICE.user})"
    security = SecurityDescriptor.parse(f"O:{ALICE.user}D:{dacl}").encode()
    box.set(security=security)
    return box


@pytest.fixture
def service() -> Service:
    return make_service(REMOTE_READ, ECHO, providers=scripted_providers())


@pytest.fixture
def line(site: Site, service: Service, box: Box) -> Line:  # noqa: ARG001  # the queue must be there
    line = Line(site, service)
    line.bind(offer(0, REMOTE_READ))
    return line


def stub(answers: Sequence[Pdu]) -> bytes:
    return whole_stub(answers)


class TestInterface:
    @pytest.mark.conformance("MQRR-001")
    def test_bind(self, site: Site, service: Service) -> None:
        accepted = Line(site, service).bind(offer(0, REMOTE_READ))
        assert [each.result for each in accepted.results] == [ContextResult.ACCEPTANCE]
        others = (SyntaxId(REMOTE_READ.syntax.uuid, 2), SyntaxId(uuid4(), 1))
        for syntax in others:
            (answer,) = Line(site, service).bind(ContextElement(0, syntax, (NDR,))).results
            assert answer.result == ContextResult.PROVIDER_REJECTION
            assert answer.reason == ProviderReason.ABSTRACT_SYNTAX_NOT_SUPPORTED

    @pytest.mark.conformance("MQRR-010")
    @pytest.mark.usefixtures("box")
    def test_transfer_syntaxes(self, site: Site, service: Service) -> None:
        line = Line(site, service)
        elements = [
            ContextElement(number, REMOTE_READ.syntax, syntaxes)
            for number, syntaxes in enumerate([(NDR,), (NDR64,), (NDR, NDR64)])
        ]
        results = line.bind(*elements).results
        assert [each.result for each in results] == [
            ContextResult.ACCEPTANCE,
            ContextResult.PROVIDER_REJECTION,
            ContextResult.ACCEPTANCE,
        ]
        assert results[1].reason == ProviderReason.TRANSFER_SYNTAXES_NOT_SUPPORTED
        opening = calls.OpenQueue(queue_format("q"), RECEIVE)
        for number in (0, 2):
            assert len(stub(line.send(request(number + 2, opening.encode(), 2, context_id=number)))) == 20

    @pytest.mark.conformance("MQRR-002")
    def test_sixteen_operations(self, line: Line) -> None:
        assert line.fault(16, b"") == OP_RNG_ERROR
        for opnum in sorted(REQUESTS)[1:]:
            assert line.fault(opnum, b"\1\2\3") == BAD_STUB_DATA
        assert line.fault(1, b"") != BAD_STUB_DATA
        assert stub(line.ask(calls.GetServerPort())) == bytes.fromhex("37080000")

    @pytest.mark.conformance("MQRR-011")
    def test_strings_that_break_the_rules(self, line: Line) -> None:
        good = calls.OpenQueue(queue_format("q"), RECEIVE).encode()
        for size in range(len(good)):
            assert line.fault(2, good[:size]) == BAD_STUB_DATA
        counts = {"actual over max": (20, 200), "offset": (16, 1), "no NUL": (20, 3)}
        for at, value in counts.values():
            bad = bytearray(good)
            bad[at] = value
            assert line.fault(2, bytes(bad)) == BAD_STUB_DATA
        assert len(stub(line.start(2, good)[1])) == 20

    @pytest.mark.conformance("MQRR-020")
    def test_a_kind_of_name_that_does_not_exist(self, line: Line) -> None:
        bad = bytearray(calls.OpenQueue(QueueFormat(0), RECEIVE).encode())
        bad[0] = bad[4] = 9
        assert line.fault(2, bytes(bad)) == BAD_STUB_DATA

    @pytest.mark.conformance("MQRR-048")
    def test_the_code_of_a_failed_open_is_the_status_of_the_fault(self, line: Line) -> None:
        assert line.fault(2, calls.OpenQueue(queue_format("nobody"), RECEIVE).encode()) == 0xC00E0003

    @pytest.mark.conformance("MQRR-057")
    def test_a_closed_handle_comes_back_as_zeros(self, line: Line) -> None:
        handle = line.open()
        assert stub(line.ask(calls.CloseQueue(handle))) == bytes(24)
        assert line.fault(3, calls.CloseQueue(handle).encode()) == CONTEXT_MISMATCH

    @pytest.mark.conformance("MQRR-098")
    def test_an_acknowledgement_out_of_range(self, line: Line, box: Box) -> None:
        handle = line.open()
        box.send(b"1")
        line.ask(calls.StartReceive(handle, request_id=7))
        for ack in (0, 3):
            assert line.fault(9, calls.EndReceive(handle, ack, 7).encode()) == BAD_STUB_DATA
        assert stub(line.ask(calls.EndReceive(handle, 2, 7))) == bytes(4)
        assert box.bodies() == []

    def test_a_verification_trailer_is_compared(self, line: Line) -> None:
        """[MS-RPCE] 2.2.2.13: the interface that it names is the one that was bound."""
        opening = calls.OpenQueue(queue_format("q"), RECEIVE).encode()
        for syntax, is_right in ((REMOTE_READ.syntax, True), (ECHO.syntax, False)):
            said = syntax.encode() + NDR.encode()
            trailer = (
                SIGNATURE + (PCONTEXT | END).to_bytes(2, "little") + len(said).to_bytes(2, "little") + said
            )
            if is_right:
                assert len(stub(line.start(2, opening + trailer)[1])) == 20
            else:
                assert line.fault(2, opening + trailer) == 0x5
        assert line.site.service.handle_count == 1

    def test_a_long_answer_comes_in_fragments(self, line: Line, box: Box) -> None:
        body = bytes(range(256)) * 400
        box.send(body)
        answers = line.ask(calls.StartReceive(line.open()))
        assert len(answers) > 1
        assert rebuild(Received.decode(stub(answers)).sections).packet.body == body


class TestConnections:
    @pytest.mark.conformance("MQRR-024")
    def test_several_calls_wait_and_others_overtake_them(self, line: Line) -> None:
        handle = line.open()
        waits = {}
        for number in (1, 2):
            call = calls.StartReceive(handle, timeout_ms=30_000, request_id=number)
            waits[number], answers = line.start(7, call.encode())
            assert answers == []
        assert calls.CursorCreated.decode(stub(line.ask(calls.CreateCursor(handle)))).status == 0
        done, cancelled = line.ask(calls.CancelReceive(handle, 1)), waits[1]
        assert {answer.call_id for answer in done} == {cancelled, cancelled + 3}
        assert line.server.pending_calls == 1

    @pytest.mark.conformance("MQRR-136")
    def test_two_connections_of_a_group_share_a_handle(
        self, site: Site, service: Service, line: Line, box: Box
    ) -> None:
        handle = line.open()
        box.send(b"1")
        group = line.server.association
        assert group is not None
        second = Line(site, service)
        second.bind(offer(0, REMOTE_READ), group_id=group.group_id)
        line.ask(calls.StartReceive(handle, request_id=1))
        line.lose()
        assert (box.bodies(), site.service.handle_count) == ([], 1)
        assert stub(second.ask(calls.EndReceive(handle, 1, 1))) == bytes(4)
        second.ask(calls.StartReceive(handle, request_id=2))
        second.lose()
        assert (box.bodies(), site.service.handle_count) == ([b"1"], 0)

    def test_a_handle_of_one_group_is_nobodys_in_another(
        self, site: Site, service: Service, line: Line
    ) -> None:
        other = Line(site, service)
        other.bind(offer(0, REMOTE_READ))
        assert other.fault(6, calls.PurgeQueue(line.open()).encode()) == CONTEXT_MISMATCH

    @pytest.mark.conformance("MQRR-026")
    def test_handles_are_of_their_interface(self, line: Line) -> None:
        group = line.server.association
        assert group is not None
        foreign = group.open_handle(ECHO, "something else")
        assert line.fault(6, calls.PurgeQueue(foreign).encode()) == CONTEXT_MISMATCH
        with pytest.raises(Exception, match="CONTEXT_MISMATCH"):
            group.find_handle(ECHO, line.open())

    @pytest.mark.parametrize("how", ["orphaned", "lost"])
    def test_who_is_gone_takes_nothing(self, line: Line, box: Box, how: str) -> None:
        handle = line.open()
        call_id, _ = line.start(7, calls.StartReceive(handle, timeout_ms=30_000).encode())
        if how == "orphaned":
            assert line.send(Orphaned(call_id=call_id)) == []
        else:
            line.lose()
        box.send(b"1")
        assert (box.bodies(), line.answers()) == ([b"1"], [])

    def test_a_cancel_is_obeyed(self, line: Line, box: Box) -> None:
        handle = line.open()
        call_id, _ = line.start(7, calls.StartReceive(handle, timeout_ms=30_000).encode())
        (answer,) = line.send(CoCancel(call_id=call_id))
        assert isinstance(answer, Fault)
        assert (answer.call_id, answer.status) == (call_id, FAULT_CANCEL)
        box.send(b"1")
        assert box.bodies() == [b"1"]
        assert line.site.service.pending_count == 0

    def test_too_many_handles(self, line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("tiercel.rpc.associations.HANDLES_MAX", 2)
        line.open()
        line.open()
        assert line.fault(2, calls.OpenQueue(queue_format("q"), RECEIVE).encode()) == 0x1C00001B
        assert len(line.site.box("q").state.handles) == line.site.service.handle_count == 2


class TestOurOwnClient:
    def test_it_is_who_it_proved_to_be(self, site: Site, service: Service) -> None:
        """Sealed, and from another computer; only Alice may read."""
        box = site.create("hers", ALICE)
        box.send(b"for Alice")
        server = Line(site, service)
        server.server._peer = "192.0.2.7"
        client = ClientConnection(
            REMOTE_READ,
            Authentication(AuthenticationType(0x0A), PRIVACY, ScriptedContext(is_server=False)),
        )
        client.bind()
        exchange(client, server)
        opening = calls.OpenQueue(queue_format("hers"), RECEIVE)
        handle = calls.QueueOpened.decode(answer(client, server, opening)).handle
        got = Received.decode(answer(client, server, calls.StartReceive(handle, request_id=1)))
        assert rebuild(got.sections).packet.body == b"for Alice"
        assert answer(client, server, calls.EndReceive(handle, 2, 1)) == bytes(4)
        client.call(2, calls.OpenQueue(queue_format("nobody"), RECEIVE).encode())
        (faulted,) = exchange(client, server)
        assert isinstance(faulted, Faulted)
        assert faulted.fault.status == 0xC00E0003
        assert box.state.count == 0


def answer(client: ClientConnection, server: Line, value: Request) -> bytes:
    client.call(value.OPNUM, value.encode())
    (answered,) = exchange(client, server)
    assert isinstance(answered, Answered)
    return answered.stub


def exchange(client: ClientConnection, server: Line) -> list[object]:
    """Carries bytes both ways until nobody has any."""
    events: list[object] = []
    while data := client.data_to_send():
        server.send(data)
        events += client.receive(server.sent)
    return events
