"""Calls between the two machines, with the logons that a daemon has."""

import pytest

from rpc.logons import KINDS, LEVELS, PRIVACY, SECRET, USER, Logons
from rpc.scripted import ECHO, PEER, Numbers
from tiercel.rpc.associations import Associations
from tiercel.rpc.authentication import initiator, password
from tiercel.rpc.client import Answered, Authentication, Bound, ClientConnection, Failed, Faulted
from tiercel.rpc.client import Event as ClientEvent
from tiercel.rpc.pdu import SUPPORT_HEADER_SIGN, PduType
from tiercel.rpc.security import AuthenticationLevel, AuthenticationType
from tiercel.rpc.server import Call, ServerConnection, Service

each_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


class Talk:
    """A client and a server that echoes backwards."""

    def __init__(self, kind: AuthenticationType, level: AuthenticationLevel, secret: str = SECRET) -> None:
        context = initiator(password(USER, secret), "linux-host", kind, level)
        self.client = ClientConnection(ECHO, Authentication(kind, level, context))
        self.server = ServerConnection(Service((ECHO,), Associations(Numbers()), Logons().providers), PEER)
        self.calls: list[Call] = []
        self.forgets_header_signing = False

    def run(self) -> list[ClientEvent]:
        events: list[ClientEvent] = []
        while data := self.client.data_to_send():
            for event in self.server.receive(self._pass(data)):
                if isinstance(event, Call):
                    self.calls.append(event)
                    self.server.reply(event, event.stub[::-1])
            events += self.client.receive(self._pass(self.server.data_to_send()))
        return events

    def _pass(self, data: bytes) -> bytes:
        if self.forgets_header_signing and data[2:3] in {bytes([PduType.BIND]), bytes([PduType.BIND_ACK])}:
            return data[:3] + bytes([data[3] & ~SUPPORT_HEADER_SIGN]) + data[4:]
        return data


@each_kind
@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)
@pytest.mark.parametrize("forgets", [False, True])
def test_calls_of_any_size(kind: AuthenticationType, level: AuthenticationLevel, *, forgets: bool) -> None:
    talk = Talk(kind, level)
    talk.forgets_header_signing = forgets
    talk.client.bind()
    assert talk.run() == [Bound()]
    for size in (0, 1, 100, 100_000):
        stub = bytes(number % 251 for number in range(size))
        call_id = talk.client.call(0, stub)
        assert talk.run() == [Answered(call_id, stub[::-1])]
        assert talk.calls[-1].level is level
        assert str(talk.calls[-1].identity) == USER


@each_kind
def test_a_wrong_password(kind: AuthenticationType) -> None:
    talk = Talk(kind, PRIVACY, "wrong")
    talk.client.bind()
    events = talk.run()
    if events == [Bound()]:  # NTLM ends with an auth3, and so the first call hears of it
        talk.client.call(0, b"x")
        events = talk.run()
    assert events
    assert all(isinstance(event, Failed | Faulted) for event in events)
    assert talk.calls == []
    assert "the logon was refused" in talk.server.problem


@each_kind
def test_ntlm_signs_headers_whatever_was_agreed(kind: AuthenticationType) -> None:
    """As impacket does, which never sets PFC_SUPPORT_HEADER_SIGN."""
    talk = Talk(kind, PRIVACY)
    talk.forgets_header_signing = True
    talk.client.bind()
    talk.run()
    talk.client.call(0, b"some stub data")
    data = bytearray(talk.client.data_to_send())
    data[22] ^= 1  # opnum
    assert talk.server.receive(bytes(data)) == []
    assert "a signature is wrong" in talk.server.problem
