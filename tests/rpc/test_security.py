"""[MS-RPCE] 3.3.1.5.2 and 3.3.1.5.4: building a security context, and using it on every fragment."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiercel.rpc import status
from tiercel.rpc.client import Answered, Authentication, BindError, Bound, ClientConnection, Event, Failed
from tiercel.rpc.pdu import (
    FIRST,
    LAST,
    SUPPORT_HEADER_SIGN,
    WHOLE,
    AlterContext,
    AlterContextResp,
    Auth3,
    Bind,
    BindAck,
    BindNak,
    ContextAnswer,
    ContextElement,
    Fault,
    Pdu,
    RejectReason,
    Request,
    Verifier,
    decode_pdu,
)
from tiercel.rpc.protection import Protection, cut, open_fragment
from tiercel.rpc.security import AuthenticationError, AuthenticationLevel, AuthenticationType, Identity
from tiercel.rpc.server import Call, ServerConnection
from tiercel.rpc.syntax import NDR, SyntaxId

from .scripted import (
    ECHO,
    PEER,
    SCRIPTED,
    USER,
    RawClient,
    ScriptedContext,
    make_service,
    offer,
    request,
    scripted_providers,
)

NONE, CONNECT, CALL, PACKET, INTEGRITY, PRIVACY = list(AuthenticationLevel)[1:]


class Conversation:
    """A client and a server that authenticate each other with `legs` tokens of the client."""

    def __init__(
        self,
        level: AuthenticationLevel,
        legs: int = 2,
        auth_type: AuthenticationType = AuthenticationType.NTLM,
        *,
        name: str = "reader",
        ends_with_token: bool = False,
    ) -> None:
        providers = dict(scripted_providers(legs, ends_with_token=ends_with_token))
        providers[auth_type] = providers[SCRIPTED]
        self.context = ScriptedContext(is_server=False, legs=legs, name=name)
        self.client = ClientConnection(
            ECHO, Authentication(auth_type, level, self.context), max_fragment=1432
        )
        self.server = ServerConnection(make_service(providers=providers), PEER)
        self.calls: list[Call] = []
        self.wire: list[bytes] = []
        self.client.bind()

    def run(self) -> list[Event]:
        """Pass everything on; the server answers with the stub turned round."""
        events: list[Event] = []
        while out := self.client.data_to_send():
            self.wire.append(out)
            for event in self.server.receive(out):
                assert isinstance(event, Call)
                self.calls.append(event)
                self.server.reply(event, event.stub[::-1])
            self.wire.append(self.server.data_to_send())
            events += self.client.receive(self.wire[-1])
        return events


def kinds(wire: list[bytes]) -> list[str]:
    return [decode_pdu(data).TYPE.name for data in wire if data]


class Silent(ScriptedContext):
    """Has nothing to say, and knows nobody."""

    is_complete = False

    def step(self, _token: bytes) -> None:
        return None


class TestLegs:
    @pytest.mark.parametrize(
        ("legs", "auth_type", "ends_with_token", "expected"),
        [
            (2, AuthenticationType.NTLM, False, ["BIND", "BIND_ACK", "AUTH3"]),
            (1, AuthenticationType.KERBEROS, False, ["BIND", "BIND_ACK"]),
            (1, AuthenticationType.KERBEROS, True, ["BIND", "BIND_ACK"]),
            (
                2,
                AuthenticationType.SPNEGO,
                True,
                ["BIND", "BIND_ACK", "ALTER_CONTEXT", "ALTER_CONTEXT_RESP"],
            ),
            (
                2,
                AuthenticationType.KERBEROS,
                False,
                ["BIND", "BIND_ACK", "ALTER_CONTEXT", "ALTER_CONTEXT_RESP"],
            ),
            (
                3,
                AuthenticationType.SPNEGO,
                True,
                ["BIND", "BIND_ACK", *["ALTER_CONTEXT", "ALTER_CONTEXT_RESP"] * 2],
            ),
        ],
    )
    def test_who_says_what(
        self, legs: int, auth_type: AuthenticationType, ends_with_token: bool, expected: list[str]
    ) -> None:
        talk = Conversation(PRIVACY, legs, auth_type, ends_with_token=ends_with_token)
        assert talk.run() == [Bound()]
        assert kinds(talk.wire) == expected
        talk.client.call(0, b"abc")
        assert talk.run() == [Answered(2, b"cba")]

    def test_a_token_that_nobody_knows(self) -> None:
        talk = Conversation(PRIVACY, name="stranger")
        (event,) = talk.run()
        assert isinstance(event, Failed)
        assert isinstance(event.error, BindError)
        assert "invalid_checksum" in str(event.error)
        assert talk.server.is_closing

    def test_a_server_that_ends_it_too_early(self) -> None:
        context = Silent(is_server=False)
        client = ClientConnection(ECHO, Authentication(AuthenticationType.NTLM, PRIVACY, context))
        client.bind()
        (event,) = client.receive(BindAck(call_id=1, results=(ContextAnswer(0, 0, NDR),)).encode())
        assert isinstance(event, Failed)
        assert "before the authentication was complete" in str(event.error)

    def test_a_server_that_never_ends_it(self) -> None:
        talk = Conversation(PRIVACY, 100, AuthenticationType.SPNEGO)
        *_, event = talk.run()
        assert isinstance(event, Failed)
        assert len(talk.wire) == 20

    def test_endless_questions_end_at_the_client_too(self) -> None:
        context = ScriptedContext(is_server=False, legs=100)
        client = ClientConnection(ECHO, Authentication(AuthenticationType.SPNEGO, PRIVACY, context))
        client.bind()
        question = Verifier(AuthenticationType.SPNEGO, PRIVACY, 1, b"and?")
        results = (ContextAnswer(0, 0, NDR),)
        events = client.receive(BindAck(call_id=1, results=results, auth=question).encode())
        for _ in range(20):
            events += client.receive(AlterContextResp(call_id=1, results=results, auth=question).encode())
        (event,) = events
        assert isinstance(event, Failed)
        assert "after 10 tokens" in str(event.error)

    def test_a_server_that_does_not_sign_headers(self) -> None:
        context = ScriptedContext(is_server=False, legs=1)
        client = ClientConnection(ECHO, Authentication(AuthenticationType.KERBEROS, INTEGRITY, context))
        client.bind()
        client.data_to_send()
        assert client.receive(BindAck(call_id=1, results=(ContextAnswer(0, 0, NDR),)).encode()) == [Bound()]
        client.call(0, b"abc")
        data = client.data_to_send()
        pdu = decode_pdu(data)
        assert isinstance(pdu, Request)
        server = ScriptedContext(is_server=True, legs=1)
        receiver = Protection(AuthenticationType.KERBEROS, INTEGRITY, 1, server, header_signing=False)
        assert open_fragment(pdu, data, receiver) == b"abc"

    def test_a_provider_that_is_not_there(self) -> None:
        context = ScriptedContext(is_server=False)
        client = ClientConnection(ECHO, Authentication(AuthenticationType.KERBEROS, PRIVACY, context))
        client.bind()
        server = ServerConnection(make_service(), PEER)
        server.receive(client.data_to_send())
        (event,) = client.receive(server.data_to_send())
        assert isinstance(event, Failed)
        assert "authentication_type_not_recognized" in str(event.error)


class TestLevels:
    @pytest.mark.parametrize("level", [CONNECT, CALL, PACKET, INTEGRITY, PRIVACY])
    def test_calls_at_every_level(self, level: AuthenticationLevel) -> None:
        talk = Conversation(level)
        assert talk.run() == [Bound()]
        stub = random.Random(3).randbytes(10_000)
        talk.wire.clear()
        assert talk.client.call(1, stub) == 2
        assert talk.run() == [Answered(2, stub[::-1])]
        assert [(call.identity, call.level) for call in talk.calls] == [(USER, level.effective)]
        assert (stub[:50] in talk.wire[0]) == (level is not PRIVACY)

    def test_default_is_connect(self) -> None:
        assert AuthenticationLevel.DEFAULT.effective is CONNECT
        talk = Conversation(AuthenticationLevel.DEFAULT)
        talk.run()
        talk.client.call(0, b"")
        talk.run()
        assert talk.calls[0].level is CONNECT

    @pytest.mark.parametrize(("level", "signs"), [(PACKET, False), (INTEGRITY, True), (PRIVACY, True)])
    def test_headers_are_signed_where_both_can(self, level: AuthenticationLevel, signs: bool) -> None:
        talk = Conversation(level)
        talk.run()
        ack = decode_pdu(talk.wire[1])
        assert bool(ack.flags & SUPPORT_HEADER_SIGN) == signs
        talk.wire.clear()
        talk.client.call(0, b"abc")
        talk.run()
        (header, stub, trailer) = talk.context.seen[-1]
        assert stub[:3] == b"cba"
        assert len(stub) == 16
        answer = talk.wire[1]
        assert (header, trailer) == ((answer[:24], answer[40:48]) if signs else (b"", b""))

    @pytest.mark.parametrize("level", [PACKET, INTEGRITY, PRIVACY])
    def test_a_context_may_sign_headers_always(self, level: AuthenticationLevel) -> None:
        """NTLM signs the whole PDU, negotiated or not: impacket and Samba never ask."""
        client, server = ScriptedContext(is_server=False), ScriptedContext(is_server=True)
        client.signs_headers_always = server.signs_headers_always = True
        (data,) = cut(Request(call_id=1), b"abc", 1432, Protection(10, level, 7, client))
        pdu = decode_pdu(data)
        assert isinstance(pdu, Request)
        assert open_fragment(pdu, data, Protection(10, level, 7, server)) == b"abc"
        assert server.seen[0][::2] == (data[:24], data[40:48])

    @given(st.binary(max_size=4000), st.sampled_from([PACKET, INTEGRITY, PRIVACY]), st.integers(1432, 2000))
    def test_fragments_are_aligned_and_fit(self, stub: bytes, level: AuthenticationLevel, size: int) -> None:
        sender = Protection(10, level, 7, ScriptedContext(is_server=False), header_signing=True)
        receiver = Protection(10, level, 7, ScriptedContext(is_server=True), header_signing=True)
        found = b""
        for data in cut(Request(call_id=1), stub, size, sender):
            assert len(data) <= size
            pdu = decode_pdu(data)
            assert isinstance(pdu, Request)
            assert len(pdu.stub) % 16 == 0
            found += open_fragment(pdu, data, receiver)
        assert found == stub


class TestTampering:
    def bound(self, level: AuthenticationLevel = INTEGRITY) -> tuple[Conversation, bytes]:
        talk = Conversation(level)
        talk.run()
        talk.client.call(0, b"some stub data")
        return talk, talk.client.data_to_send()

    @pytest.mark.parametrize("at", [16, 22, 25, 41, 45, 60])
    def test_a_changed_byte(self, at: int) -> None:
        talk, data = self.bound()
        changed = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        assert talk.server.receive(changed) == []
        (answer,) = [decode_pdu(talk.server.data_to_send())]
        assert isinstance(answer, Fault)
        assert answer.status in {status.ERROR_ACCESS_DENIED, status.NCA_S_PROTO_ERROR}
        assert talk.server.is_closing

    def test_a_replayed_request(self) -> None:
        talk, data = self.bound(PRIVACY)
        (call,) = talk.server.receive(data)
        assert isinstance(call, Call)
        talk.server.reply(call, b"")
        assert talk.server.receive(data) == []
        assert talk.server.is_closing

    def test_a_request_that_lost_its_trailer(self) -> None:
        talk, _ = self.bound()
        assert talk.server.receive(request(2).encode()) == []
        answer = decode_pdu(talk.server.data_to_send())
        assert isinstance(answer, Fault)
        assert answer.status == status.ERROR_ACCESS_DENIED

    def test_an_answer_that_lost_its_trailer(self) -> None:
        talk = Conversation(PRIVACY)
        talk.run()
        talk.client.call(0, b"")
        plain = bytes.fromhex("05000203100000001800000002000000") + bytes(8)
        (event,) = talk.client.receive(plain)
        assert isinstance(event, Failed)
        assert isinstance(event.error, AuthenticationError)


def auth(
    level: int = PRIVACY, token: bytes = b"reader 1", context_id: int = 1, auth_type: int = SCRIPTED
) -> Verifier:
    return Verifier(auth_type, level, context_id, token)


class TestServerRules:
    def raw(self, legs: int = 2) -> RawClient:
        return RawClient(make_service(providers=scripted_providers(legs)))

    def test_a_wrong_auth3_is_told_to_the_first_request(self) -> None:
        raw = self.raw()
        raw.bind(auth=auth())
        assert raw.send(Auth3(auth=auth(token=b"wrong"))) == []
        assert not raw.server.is_closing
        assert raw.refused(Request(call_id=2, stub=bytes(16), auth=auth())) == status.ERROR_ACCESS_DENIED

    def test_nothing_is_done_for_the_unknown_at_level_connect(self) -> None:
        """There no signature would find out."""
        raw = self.raw()
        raw.bind(auth=auth(level=CONNECT))
        raw.send(Auth3(auth=auth(level=CONNECT, token=b"wrong")))
        assert raw.refused(request(2)) == status.ERROR_ACCESS_DENIED
        raw = self.raw()
        raw.bind(auth=auth(level=CONNECT))
        assert raw.refused(request(2)) == status.ERROR_ACCESS_DENIED
        assert raw.calls() == []

    @pytest.mark.parametrize("other", [auth(level=INTEGRITY), auth(auth_type=0x0A), auth(context_id=2)])
    def test_a_request_says_the_same_as_the_bind(self, other: Verifier) -> None:
        raw = self.raw(1)
        raw.bind(auth=auth())
        assert raw.refused(Request(call_id=2, stub=bytes(16), auth=other)) == status.NCA_S_PROTO_ERROR

    def test_an_auth3_that_was_not_the_last(self) -> None:
        raw = self.raw(3)
        raw.bind(auth=auth())
        assert raw.send(Auth3(auth=auth(token=b"reader 2"))) == []
        assert raw.refused(Request(call_id=2, stub=bytes(16), auth=auth())) == status.ERROR_ACCESS_DENIED
        assert "not complete" in raw.server.problem

    def test_a_request_before_the_last_token(self) -> None:
        raw = self.raw()
        raw.bind(auth=auth())
        assert raw.refused(Request(call_id=2, stub=bytes(16), auth=auth())) == status.ERROR_ACCESS_DENIED

    @pytest.mark.parametrize(
        "second",
        [
            auth(level=INTEGRITY, token=b"reader 2"),
            auth(auth_type=0x0A, token=b"reader 2"),
            auth(token=b"reader 1"),
        ],
    )
    def test_what_ends_an_authentication(self, second: Verifier) -> None:
        raw = self.raw()
        raw.bind(auth=auth())
        assert raw.refused(AlterContext(call_id=2, auth=second)) == status.ERROR_ACCESS_DENIED
        assert raw.server.is_closing

    def test_a_token_after_the_last(self) -> None:
        raw = self.raw(1)
        raw.bind(auth=auth())
        assert (
            raw.refused(AlterContext(call_id=2, auth=auth(token=b"reader 2"))) == status.ERROR_ACCESS_DENIED
        )

    def test_endless_legs(self) -> None:
        raw = self.raw(100)
        raw.bind(auth=auth())
        answers: list[Pdu] = []
        for n in range(2, 20):
            answers += raw.send(AlterContext(call_id=n, auth=auth(token=f"reader {n}".encode())))
        assert [type(answer) for answer in answers] == [AlterContextResp] * 9 + [Fault]

    @pytest.mark.parametrize("level", [1, 7, 255])
    def test_levels_that_are_none(self, level: int) -> None:
        raw = self.raw()
        assert raw.send(Bind(auth=auth(level=level))) == [BindNak()]

    def test_an_unknown_provider_later(self) -> None:
        raw = self.raw()
        raw.bind()
        code = raw.refused(AlterContext(call_id=2, auth=auth(auth_type=0x55)))
        assert code == status.RPC_S_UNKNOWN_AUTHN_SERVICE

    def test_refusals_of_the_provider(self) -> None:
        raw = self.raw()
        assert raw.send(Bind(auth=auth(token=b"x"))) == [BindNak(reason=RejectReason.INVALID_CHECKSUM)]

    def test_authentication_after_an_anonymous_bind(self) -> None:
        raw = self.raw(1)
        raw.bind()
        raw.send(request(2))
        (answer,) = raw.send(AlterContext(call_id=3, auth=auth(level=CONNECT)))
        assert isinstance(answer, AlterContextResp)
        raw.send(request(4))
        assert [call.identity for call in raw.calls()] == [None, USER]

    def test_at_connect_a_trailer_may_be_left_out_or_not(self) -> None:
        raw = self.raw(1)
        raw.bind(auth=auth(level=CONNECT))
        padded = Verifier(SCRIPTED, CONNECT, 1, b"anything", pad_length=3)
        raw.send(request(2), Request(call_id=3, stub=b"stub\0\0\0", auth=padded))
        assert [(call.stub, call.identity, call.level) for call in raw.calls()] == [
            (b"stub", USER, CONNECT)
        ] * 2

    def test_a_trailer_of_an_unknown_context(self) -> None:
        raw = self.raw()
        raw.bind()
        assert raw.refused(Request(call_id=2, auth=auth())) == status.NCA_S_PROTO_ERROR

    def test_an_auth3_for_nothing(self) -> None:
        raw = self.raw()
        raw.bind()
        assert raw.send(Auth3(auth=auth())) == []
        assert raw.server.is_closing


class TestSeveralContexts:
    """[MS-RPCE] 3.3.1.5.4"""

    def raw(self, features: int, level: int = CONNECT) -> RawClient:
        raw = RawClient(make_service(providers=scripted_providers(1)))
        element = ContextElement(9, ECHO.syntax, (SyntaxId.of_features(features),))
        raw.bind(offer(0), element, auth=auth(level=level))
        return raw

    @pytest.mark.parametrize("features", [0, 1])
    def test_two_of_them(self, features: int) -> None:
        """With and without their being negotiated, as Windows and impacket do."""
        raw = self.raw(features)
        (answer,) = raw.send(AlterContext(call_id=2, auth=auth(level=PACKET, context_id=2)))
        assert isinstance(answer, AlterContextResp)
        signer = Protection(SCRIPTED, PACKET, 2, ScriptedContext(is_server=False))
        signed = cut(Request(call_id=3), b"signed", 1432, signer)
        raw.send(*signed, Request(call_id=4, auth=auth(level=CONNECT)))
        assert [(call.level, call.stub) for call in raw.calls()] == [(PACKET, b"signed"), (CONNECT, b"")]
        assert raw.refused(request(5)) == status.ERROR_ACCESS_DENIED

    def test_a_call_stays_with_one_of_them(self) -> None:
        raw = self.raw(1)
        raw.send(AlterContext(call_id=2, auth=auth(level=CONNECT, context_id=2)))
        first = Request(call_id=3, flags=FIRST, auth=auth(level=CONNECT))
        raw.send(first)
        other = Request(call_id=3, flags=LAST, auth=auth(level=CONNECT, context_id=2))
        assert raw.refused(other) == status.NCA_S_PROTO_ERROR

    def test_headers_are_signed_as_the_first_has_said(self) -> None:
        raw = RawClient(make_service(providers=scripted_providers(1)))
        flags = WHOLE | SUPPORT_HEADER_SIGN
        raw.send(Bind(call_id=1, flags=flags, contexts=(offer(0),), auth=auth()))
        raw.send(AlterContext(call_id=2, auth=auth(context_id=2)))
        signer = Protection(SCRIPTED, PRIVACY, 2, ScriptedContext(is_server=False), header_signing=True)
        raw.send(*cut(Request(call_id=3), b"signed", 1432, signer))
        assert [call.stub for call in raw.calls()] == [b"signed"]

    def test_bounded(self) -> None:
        raw = self.raw(1)
        answers: list[Pdu] = []
        for n in range(2, 18):
            answers += raw.send(AlterContext(call_id=n, auth=auth(level=CONNECT, context_id=n)))
        assert [type(answer) for answer in answers] == [AlterContextResp] * 15 + [Fault]


def test_header_signing_is_not_promised_without_authentication() -> None:
    raw = RawClient(make_service())
    (answer,) = raw.send(Bind(flags=WHOLE | SUPPORT_HEADER_SIGN, contexts=(offer(0),)))
    assert isinstance(answer, BindAck)
    assert answer.flags == WHOLE


def test_identities_print_as_windows_writes_them() -> None:
    assert str(USER) == r"EXAMPLE\reader"
    assert str(Identity("reader")) == "reader"
