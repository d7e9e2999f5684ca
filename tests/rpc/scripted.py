"""Peers that do as they are told: an authentication without secrets, and a client that sends raw PDUs."""

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from tiercel.model.sid import SecurityIdentifier
from tiercel.rpc.associations import Associations
from tiercel.rpc.framer import Framer
from tiercel.rpc.pdu import (
    CONC_MPX,
    WHOLE,
    Bind,
    BindAck,
    ContextElement,
    Fault,
    Pdu,
    Request,
    Response,
    Verifier,
    decode_pdu,
)
from tiercel.rpc.security import AuthenticationError, AuthenticationLevel, Identity, Providers
from tiercel.rpc.server import Call, Event, Limits, ServerConnection, Service
from tiercel.rpc.syntax import NDR, Interface, SyntaxId

ECHO = Interface("Echo", SyntaxId(UUID("6b5f0e4e-5d6e-4b0e-9e3c-0d7c3a8f9b01"), 0x0002_0001), 3)
REMOTE_READ = Interface("RemoteRead", SyntaxId(UUID("1a9134dd-7b39-45ba-ad88-44d01ca47f28"), 1), 16)
PEER = "192.0.2.7"
SCRIPTED = 0xE0  # an authentication type that nobody else has
USER = Identity("reader", "EXAMPLE", SecurityIdentifier.parse("S-1-5-21-1-2-3-1001"))


class Numbers:
    """Counts where a real server would draw: `os.urandom` of the tests."""

    def __init__(self) -> None:
        self.drawn = 0

    def __call__(self, size: int) -> bytes:
        self.drawn += 1
        return self.drawn.to_bytes(size, "little")


class ScriptedContext:
    """Both sides of an authentication: the client says its name `legs` times."""

    def __init__(
        self, *, is_server: bool, legs: int = 2, name: str = "reader", ends_with_token: bool = False
    ) -> None:
        self._is_server = is_server
        self._legs = legs
        self._name = name
        self._ends_with_token = ends_with_token
        self._taken = 0
        self._sent = self._received = 0
        self.seen: list[tuple[bytes, bytes, bytes]] = []
        self.signature_size = 13
        self.signs_headers_always = False

    @property
    def is_complete(self) -> bool:
        return self._taken >= self._legs

    @property
    def identity(self) -> Identity | None:
        return USER if self._is_server and self.is_complete else None

    def step(self, token: bytes) -> bytes | None:
        self._taken += 1
        if not self._is_server:
            return f"{self._name} {self._taken}".encode() if self._taken <= self._legs else None
        if token != f"reader {self._taken}".encode():
            raise AuthenticationError(f"{token!r} is not the name that was expected")
        if self.is_complete and not self._ends_with_token:
            return None
        return f"and {self._taken}".encode()

    def sign(self, header: bytes, stub: bytes, trailer: bytes) -> bytes:
        self._sent += 1
        return self._signature(self._is_server, self._sent, header + stub + trailer)

    def verify(self, header: bytes, stub: bytes, trailer: bytes, signature: bytes) -> None:
        self._received += 1
        self.seen.append((header, stub, trailer))
        if signature != self._signature(not self._is_server, self._received, header + stub + trailer):
            raise AuthenticationError(f"fragment {self._received} has a wrong signature")

    def wrap(self, header: bytes, stub: bytes, trailer: bytes) -> tuple[bytes, bytes]:
        signature = self.sign(header, stub, trailer)
        return bytes(byte ^ 0x5A for byte in stub), signature

    def unwrap(self, header: bytes, sealed: bytes, trailer: bytes, signature: bytes) -> bytes:
        stub = bytes(byte ^ 0x5A for byte in sealed)
        self.verify(header, stub, trailer, signature)
        return stub

    def _signature(self, from_server: bool, number: int, data: bytes) -> bytes:
        key = b"server" if from_server else b"client"
        return hmac.digest(key, number.to_bytes(4, "little") + data, hashlib.sha256)[: self.signature_size]


def scripted_providers(legs: int = 2, *, ends_with_token: bool = False) -> Providers:
    def accept(_level: AuthenticationLevel) -> ScriptedContext:
        return ScriptedContext(is_server=True, legs=legs, ends_with_token=ends_with_token)

    return {SCRIPTED: accept, 0x0A: accept}


def make_service(
    *interfaces: Interface,
    providers: Providers | None = None,
    limits: Limits | None = None,
    endpoint: str = "2103",
) -> Service:
    found = interfaces or (ECHO, REMOTE_READ)
    return Service(found, Associations(Numbers()), providers or {}, limits or Limits(), endpoint)


def offer(context_id: int, interface: Interface = ECHO, *syntaxes: SyntaxId) -> ContextElement:
    return ContextElement(context_id, interface.syntax, syntaxes or (NDR,))


@dataclass
class RawClient:
    """Sends any PDU to a server machine and decodes what comes back."""

    service: Service
    peer: str = PEER

    def __post_init__(self) -> None:
        self.server = ServerConnection(self.service, self.peer)
        self.events: list[Event] = []
        self._framer = Framer()

    def send(self, *pdus: Pdu | bytes) -> list[Pdu]:
        """What the server answers at once; what it has to do is in `events`."""
        for pdu in pdus:
            self.events += self.server.receive(pdu if isinstance(pdu, bytes) else pdu.encode())
        return self.answers()

    def answers(self) -> list[Pdu]:
        self._framer.receive(self.server.data_to_send())
        return [decode_pdu(data) for data in self._framer.pdus()]

    def bind(self, *contexts: ContextElement, group_id: int = 0, auth: Verifier | None = None) -> BindAck:
        bind = Bind(
            call_id=1,
            flags=WHOLE | CONC_MPX,
            assoc_group_id=group_id,
            contexts=contexts or (offer(0), offer(1, REMOTE_READ)),
            auth=auth,
        )
        (answer,) = self.send(bind)
        assert isinstance(answer, BindAck), answer
        return answer

    def calls(self) -> list[Call]:
        return [event for event in self.events if isinstance(event, Call)]

    def refused(self, *pdus: Pdu | bytes) -> int:
        """The status of the one fault that these bring."""
        (answer,) = self.send(*pdus)
        assert isinstance(answer, Fault), answer
        return answer.status


def request(
    call_id: int, stub: bytes = b"stub", opnum: int = 0, flags: int = WHOLE, context_id: int = 0
) -> Request:
    return Request(
        call_id=call_id, opnum=opnum, flags=flags, context_id=context_id, stub=stub, alloc_hint=len(stub)
    )


def whole_stub(answers: Sequence[Pdu]) -> bytes:
    """The stub of a response that came in these fragments, all flags as they should be."""
    responses = [answer for answer in answers if isinstance(answer, Response)]
    assert responses == list(answers)
    assert [answer.is_first for answer in responses] == [True] + [False] * (len(responses) - 1)
    assert [answer.is_last for answer in responses] == [False] * (len(responses) - 1) + [True]
    return b"".join(answer.stub for answer in responses)
