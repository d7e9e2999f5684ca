"""The client's side of one connection, without sockets: [C706] 9.3 and 11, [MS-RPCE] 3.3.2.

    connection = ClientConnection(interface, Authentication(AuthenticationType.NTLM, PRIVACY, context))
    connection.bind()                             # after every step, send the bytes of `data_to_send`
    connection.receive(data) == [Bound()]
    call_id = connection.call(7, stub)
    connection.receive(data) == [Answered(call_id, stub)]

Several calls may be outstanding; their answers come in any order. If the server takes only one at a time, the
others wait here. `Failed` is the last event: it ends the connection and all its calls.
"""

from collections import deque
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, NamedTuple
from uuid import UUID

from tiercel.model.errors import PeerError
from tiercel.rpc.framer import Framer
from tiercel.rpc.pdu import (
    CONC_MPX,
    FIRST,
    FRAGMENT_MAX,
    FRAGMENT_MIN,
    LAST,
    OBJECT_UUID,
    REQUEST_HEADER_SIZE,
    SUPPORT_HEADER_SIGN,
    WHOLE,
    AlterContext,
    AlterContextResp,
    Auth3,
    Bind,
    BindAck,
    BindNak,
    CoCancel,
    ContextElement,
    ContextResult,
    Fault,
    Orphaned,
    Pdu,
    ProviderReason,
    RejectReason,
    Request,
    Response,
    Shutdown,
    Verifier,
    decode_pdu,
    plain_request,
    split_plain_response,
)
from tiercel.rpc.protection import Protection, cut, open_fragment
from tiercel.rpc.security import AuthenticationLevel, AuthenticationType, SecurityContext
from tiercel.rpc.status import RpcFault
from tiercel.rpc.syntax import KEEP_CONNECTION_ON_ORPHAN, NDR, Interface, SyntaxId

RESPONSE_MAX_BYTES: Final = 16 << 20  # four of the largest messages
_LEGS_MAX: Final = 10
_CONTEXT_ID: Final = 0
_SECURITY_CONTEXT_ID: Final = 1
_BIND_CALL_ID: Final = 1


class ProtocolError(PeerError):
    """The server violated the protocol."""


class BindError(PeerError):
    """The server does not serve the interface, or rejects the authentication."""


class UnknownInterfaceError(BindError):
    """The server does not serve the interface."""


@dataclass(frozen=True, slots=True)
class Authentication:
    """The client's authentication; `context` is made for `level`."""

    auth_type: AuthenticationType
    level: AuthenticationLevel
    context: SecurityContext


@dataclass(frozen=True, slots=True)
class Bound:
    """Calls can be made."""


class Answered(NamedTuple):
    call_id: int
    stub: bytes


@dataclass(frozen=True, slots=True)
class Faulted:
    call_id: int
    fault: RpcFault


@dataclass(frozen=True, slots=True)
class ShutdownRequested:
    """The server asks to close the connection once no call is outstanding."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The connection and its calls have failed: a `BindError`, or the server violated the protocol."""

    error: PeerError


Event = Bound | Answered | Faulted | ShutdownRequested | Failed


class State(Enum):
    NEW = auto()
    BINDING = auto()
    AUTHENTICATING = auto()
    BOUND = auto()
    CLOSED = auto()


# The PDUs that a server may send in each state; others are protocol errors.
EXPECTED: Final[dict[State, tuple[type[Pdu], ...]]] = {
    State.NEW: (),
    State.BINDING: (BindAck, BindNak, Fault),
    State.AUTHENTICATING: (AlterContextResp, BindNak, Fault),
    State.BOUND: (Response, Fault, Shutdown),
    State.CLOSED: (),
}


_NO_CALL: Final = bytearray()  # None is a call without any part of its answer
_BOUND: Final = State.BOUND  # cached: enum lookup is slow here
_CLOSED: Final = State.CLOSED


class ClientConnection:
    """One connection to a server of `interface`; `group_id` joins the group of another connection to it."""

    def __init__(
        self,
        interface: Interface,
        authentication: Authentication | None = None,
        *,
        group_id: int = 0,
        max_fragment: int = FRAGMENT_MAX,
        max_response_bytes: int = RESPONSE_MAX_BYTES,
    ) -> None:
        self.interface = interface
        self.group_id = group_id
        self._auth = authentication
        self._protection = None if authentication is None else _protection(authentication)
        self._max_fragment = self._max_transmit = max_fragment
        self._max_response_bytes = max_response_bytes
        self._framer = Framer(max_fragment)
        self._state = State.NEW
        self._output: list[bytes] = []
        self._features = 0
        self._is_multiplexed = False
        self._next_call_id = _BIND_CALL_ID + 1
        # Outstanding calls with the part of the answer received so far; None before the first fragment.
        self._outstanding: dict[int, bytearray | None] = {}
        self._waiting: deque[tuple[Request, bytes]] = deque()

    @property
    def is_bound(self) -> bool:
        return self._state is _BOUND

    @property
    def is_closing(self) -> bool:
        """Whether to close the socket once all bytes are sent."""
        return self._state is State.CLOSED

    @property
    def is_multiplexed(self) -> bool:
        """Whether the server takes several calls at a time."""
        return self._is_multiplexed

    @property
    def outstanding_calls(self) -> int:
        return len(self._outstanding) + len(self._waiting)

    def data_to_send(self) -> bytes:
        """The bytes to send; they are returned once."""
        output = self._output
        data = output[0] if len(output) == 1 else b"".join(output)
        output.clear()
        return data

    # Commands

    def bind(self) -> None:
        """Start the bind; `receive` finally returns `Bound` or `Failed`. [C706] 12.6.4.3."""
        if self._state is not State.NEW:
            raise ValueError("the connection is already bound")
        syntax = self.interface.syntax
        features = SyntaxId.of_features(KEEP_CONNECTION_ON_ORPHAN)
        token = self._step(b"")
        bind = Bind(
            call_id=_BIND_CALL_ID,
            flags=WHOLE | CONC_MPX | self._header_sign(),
            auth=self._token(token or b""),
            max_xmit_frag=self._max_fragment,
            max_recv_frag=self._max_fragment,
            assoc_group_id=self.group_id,
            contexts=(
                ContextElement(_CONTEXT_ID, syntax, (NDR,)),
                ContextElement(_CONTEXT_ID + 1, syntax, (features,)),
            ),
        )
        self._send(bind)
        self._state = State.BINDING

    def call(self, opnum: int, stub: bytes, *, target: UUID | None = None) -> int:
        """Make a call, on an object if given; the call id of its answer."""
        if self._state is not _BOUND:
            raise ValueError("the connection is not bound yet")
        call_id = self._next_call_id
        self._next_call_id += 1
        is_plain = target is None and self._protection is None
        if is_plain and len(stub) <= self._max_transmit - REQUEST_HEADER_SIZE and self._can_send:
            self._outstanding[call_id] = None
            self._output.append(plain_request(call_id, _CONTEXT_ID, opnum, stub))
            return call_id
        flags = WHOLE if target is None else WHOLE | OBJECT_UUID
        self._waiting.append((Request(call_id=call_id, flags=flags, opnum=opnum, object=target), stub))
        self._send_calls()
        return call_id

    def cancel(self, call_id: int) -> None:
        """Ask the server to end a call early; it is still answered."""
        if call_id in self._outstanding:
            self._send(CoCancel(call_id=call_id))

    def orphan(self, call_id: int) -> None:
        """Abandon a call; it is not answered. A server that cannot do that closes the connection."""
        if call_id not in self._outstanding:
            self._waiting = deque(entry for entry in self._waiting if entry[0].call_id != call_id)
            return
        del self._outstanding[call_id]
        self._send(Orphaned(call_id=call_id))
        if not self._features & KEEP_CONNECTION_ON_ORPHAN:
            self._state = State.CLOSED
            return
        self._send_calls()

    # Input

    def receive(self, data: bytes) -> list[Event]:
        """The events of received bytes; none after `Failed`."""
        events: list[Event] = []
        if self._state is _CLOSED:
            return events
        self._framer.receive(data)
        try:
            for whole in self._framer.pdus():
                if self._take_plain(whole, events):
                    continue
                pdu = decode_pdu(whole)
                if type(pdu) is Response and self._state is _BOUND:
                    self._response(pdu, whole, events)
                else:
                    self._take(pdu, events)
        except PeerError as error:
            self._state = State.CLOSED
            events.append(Failed(error))
        return events

    def _take_plain(self, data: bytes, events: list[Event]) -> bool:
        """The fast path for answers of one fragment without protection; whether it applied."""
        if self._protection is not None or self._waiting or self._state is not _BOUND:
            return False
        found = split_plain_response(data)
        if found is None or self._outstanding.get(found[0], _NO_CALL) is not None:
            return False
        if len(found[1]) > self._max_response_bytes:
            return False
        del self._outstanding[found[0]]
        events.append(Answered(*found))
        return True

    def _take(self, pdu: Pdu, events: list[Event]) -> None:
        # AlterContextResp is a subclass of BindAck, so the exact type counts.
        if type(pdu) not in EXPECTED[self._state]:
            raise ProtocolError(f"unexpected {pdu.TYPE.name} while the connection is {self._state.name}")
        match pdu:
            case Fault():
                self._fault(pdu, events)
            case AlterContextResp():
                self._check_results(pdu)
                self._continue_authentication(pdu, events)
            case BindAck():
                self._bind_ack(pdu)
                self._continue_authentication(pdu, events)
            case BindNak():
                raise BindError(f"{self._subject} was refused: {_name(RejectReason, pdu.reason)}")
            case Shutdown():
                events.append(ShutdownRequested())

    @property
    def _subject(self) -> str:
        return f"the bind to {self.interface.name} {self.interface.syntax}"

    # Binding

    def _bind_ack(self, ack: BindAck) -> None:
        self._check_results(ack)
        self.group_id = ack.assoc_group_id
        self._max_transmit = max(FRAGMENT_MIN, min(self._max_fragment, ack.max_recv_frag))
        self._is_multiplexed = bool(ack.flags & CONC_MPX)
        if self._protection is not None:
            self._protection.header_signing = bool(ack.flags & self._header_sign())
        features = ack.results[1] if len(ack.results) > 1 else None
        if features is not None and features.result == ContextResult.NEGOTIATE_ACK:
            self._features = features.reason

    def _check_results(self, ack: BindAck) -> None:
        if not ack.results:
            raise ProtocolError(f"{self._subject} was answered without a result")
        answer = ack.results[0]
        if answer.result != ContextResult.ACCEPTANCE:
            is_unknown = answer.reason == ProviderReason.ABSTRACT_SYNTAX_NOT_SUPPORTED
            error = UnknownInterfaceError if is_unknown else BindError
            reason = _name(ProviderReason, answer.reason)
            raise error(f"{self._subject} was refused: {_name(ContextResult, answer.result)}, {reason}")
        if answer.transfer_syntax != NDR:
            raise ProtocolError(
                f"{self._subject} was answered with {answer.transfer_syntax}, which was not offered"
            )

    def _continue_authentication(self, ack: BindAck, events: list[Event]) -> None:
        """Exchange tokens until the provider is done: [MS-RPCE] 3.3.1.5.2.1."""
        protection = self._protection
        if protection is None or self._auth is None:
            self._state = State.BOUND
            events.append(Bound())
            return
        token = None
        if ack.auth is not None or not protection.context.is_complete:
            token = self._step(b"" if ack.auth is None else ack.auth.token)
        is_complete = protection.context.is_complete
        if token and not (is_complete and self._auth.auth_type.has_odd_legs):
            element = ContextElement(_CONTEXT_ID, self.interface.syntax, (NDR,))
            alter = AlterContext(
                call_id=_BIND_CALL_ID,
                flags=WHOLE | self._header_sign(),
                auth=self._token(token),
                max_xmit_frag=self._max_fragment,
                max_recv_frag=self._max_fragment,
                assoc_group_id=self.group_id,
                contexts=(element,),
            )
            self._send(alter)
            self._state = State.AUTHENTICATING
            return
        if not is_complete:
            raise BindError(f"{self._subject} ended before the authentication was complete")
        if token:
            self._send(Auth3(call_id=_BIND_CALL_ID, auth=self._token(token)))
        self._state = State.BOUND
        events.append(Bound())

    def _step(self, token: bytes) -> bytes | None:
        protection = self._protection
        if protection is None:
            return None
        protection.legs += 1
        if protection.legs > _LEGS_MAX:
            raise BindError(f"{self._subject} was not authenticated after {_LEGS_MAX} tokens")
        return protection.context.step(token)

    def _token(self, token: bytes) -> Verifier | None:
        return None if self._protection is None else self._protection.token(token)

    def _header_sign(self) -> int:
        is_signed = self._protection is not None and self._protection.level >= AuthenticationLevel.INTEGRITY
        return SUPPORT_HEADER_SIGN if is_signed else 0

    # Calls

    @property
    def _can_send(self) -> bool:
        """Whether a new call may be sent now."""
        return self._is_multiplexed or not (self._outstanding or self._waiting)

    def _send_calls(self) -> None:
        while self._waiting and (self._is_multiplexed or not self._outstanding):
            request, stub = self._waiting.popleft()
            self._outstanding[request.call_id] = None
            self._output += cut(request, stub, self._max_transmit, self._protection)

    def _response(self, response: Response, data: bytes, events: list[Event]) -> None:
        stub, protection = response.stub, self._protection
        if protection is not None or response.auth is not None:
            stub = open_fragment(response, data, protection)
        call_id, is_last = response.call_id, response.flags & LAST
        if not self._is_awaited(call_id):
            return
        gathered = self._outstanding[call_id]
        if bool(response.flags & FIRST) == (gathered is not None):
            raise ProtocolError(f"the fragments of the answer to call {call_id} are out of order")
        if gathered is not None:
            gathered += stub
        elif not is_last:
            gathered = self._outstanding[call_id] = bytearray(stub)
        whole = stub if gathered is None else gathered
        if len(whole) > self._max_response_bytes:
            raise ProtocolError(f"the answer to call {call_id} is over {self._max_response_bytes} bytes")
        if is_last:
            del self._outstanding[call_id]
            events.append(Answered(call_id, bytes(whole)))
            if self._waiting:
                self._send_calls()

    def _fault(self, fault: Fault, events: list[Event]) -> None:
        """A fault has no signature, whatever the level: [MS-RPCE] 2.2.2.12 names only responses."""
        if self._state is not State.BOUND:
            raise BindError(f"{self._subject} was refused: {RpcFault(fault.status)}")
        if self._is_awaited(fault.call_id):
            del self._outstanding[fault.call_id]
            events.append(Faulted(fault.call_id, RpcFault(fault.status)))
            self._send_calls()

    def _is_awaited(self, call_id: int) -> bool:
        """Whether an answer is expected: not for an abandoned call."""
        if call_id in self._outstanding:
            return True
        if not _BIND_CALL_ID < call_id < self._next_call_id:
            raise ProtocolError(f"unexpected answer to call {call_id}, which was never made")
        return False

    def _send(self, pdu: Pdu) -> None:
        self._output.append(pdu.encode())


def _protection(authentication: Authentication) -> Protection:
    level = authentication.level.effective
    return Protection(authentication.auth_type, level, _SECURITY_CONTEXT_ID, authentication.context)


def _name(kind: type[Enum], value: int) -> str:
    try:
        return str(kind(value).name).lower()
    except ValueError:
        return f"reason {value}"
