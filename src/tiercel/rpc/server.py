"""The server's side of one connection, without sockets: [C706] 9.3 and 11, [MS-RPCE] 3.3.3.

Pass bytes to `receive` and handle the events that it returns; answer each `Call` with `reply` or `fault`, at
any time and in any order. Then send the bytes of `data_to_send`, and close the socket once `is_closing` is
true. When the socket is gone, `connection_lost` returns the last events.

    connection = ServerConnection(service, peer="192.0.2.7")
    for event in connection.receive(data):
        if isinstance(event, Call):
            connection.reply(event, echo(event.stub))
    transport.write(connection.data_to_send())

`Limits` bounds everything that a peer can make it keep.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final, Literal
from uuid import UUID

from tiercel.model.errors import DecodeError
from tiercel.rpc import status
from tiercel.rpc.acceptance import Acceptance, Refusal
from tiercel.rpc.associations import Association, Associations, Rundown
from tiercel.rpc.framer import Framer
from tiercel.rpc.ndr import NdrError
from tiercel.rpc.pdu import (
    CONC_MPX,
    DID_NOT_EXECUTE,
    FIRST,
    FRAGMENT_MAX,
    FRAGMENT_MIN,
    LAST,
    PENDING_CANCEL,
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
    ContextAnswer,
    ContextElement,
    ContextResult,
    Fault,
    Orphaned,
    Pdu,
    PduType,
    ProviderReason,
    RejectReason,
    Request,
    Response,
    Shutdown,
    Verifier,
    decode_pdu,
    plain_response,
    split_plain_request,
)
from tiercel.rpc.protection import Protection, cut, open_fragment
from tiercel.rpc.security import AuthenticationError, AuthenticationLevel, Identity, Providers
from tiercel.rpc.status import RpcFault
from tiercel.rpc.syntax import (
    KEEP_CONNECTION_ON_ORPHAN,
    NDR,
    SECURITY_CONTEXT_MULTIPLEXING,
    Interface,
    SyntaxId,
)

_FEATURES: Final = SECURITY_CONTEXT_MULTIPLEXING | KEEP_CONNECTION_ON_ORPHAN
_NO_LEVEL: Final = AuthenticationLevel.NONE  # cached: enum lookup is slow here
_OLD_CALLS: Final = 150  # [MS-RPCE] 3.3.3.5.6
# Answered with a bind_nak, whatever the client sent: [MS-RPCE] 3.3.3.5.5.
_NAK_REASONS: Final = frozenset(
    {
        RejectReason.LOCAL_LIMIT_EXCEEDED,
        RejectReason.PROTOCOL_VERSION_NOT_SUPPORTED,
    }
)


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one connection."""

    max_fragment: int = FRAGMENT_MAX
    max_request_bytes: int = 4 << 20  # [MS-RPCE] 3.3.3.5.4
    max_request_fragments: int = 16_384  # fragments may be empty, so their number is limited too
    max_pending_calls: int = 256
    max_pending_bytes: int = 8 << 20
    max_contexts: int = 256  # the specification allows 4,000 for each interface
    max_security_contexts: int = 16


@dataclass(frozen=True, slots=True)
class Service:
    """Shared by all connections to one endpoint."""

    interfaces: tuple[Interface, ...]
    associations: Associations
    providers: Providers = field(default_factory=dict)
    limits: Limits = Limits()
    endpoint: str = ""  # the port, as a bind_ack repeats it

    def find(self, element: ContextElement) -> Interface | None:
        return next((one for one in self.interfaces if one.accepts(element.abstract_syntax)), None)


@dataclass(slots=True, eq=False)  # not frozen: that makes construction three times slower
class Call:
    """A call to answer; its request is complete."""

    call_id: int
    context_id: int
    interface: Interface
    abstract_syntax: SyntaxId  # of the interface, in the version that the client bound to
    opnum: int
    object: UUID | None
    stub: bytes
    level: AuthenticationLevel
    identity: Identity | None  # None when the caller did not authenticate
    association: Association
    protection: Protection | None


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The client asks to end `call` early, and waits for its answer."""

    call: Call


@dataclass(frozen=True, slots=True)
class Abandoned:
    """`call` was orphaned or its connection lost; it needs no answer."""

    call: Call


Event = Call | Cancelled | Abandoned | Rundown


class State(Enum):
    NEW = auto()
    BOUND = auto()
    CLOSED = auto()


_BOUND: Final = State.BOUND
_CLOSED: Final = State.CLOSED

# The PDUs that a client may send in each state; others are protocol errors.
EXPECTED: Final[Mapping[State, frozenset[PduType]]] = {
    State.NEW: frozenset({PduType.BIND}),
    State.BOUND: frozenset({
        PduType.ALTER_CONTEXT,
        PduType.AUTH3,
        PduType.REQUEST,
        PduType.CO_CANCEL,
        PduType.ORPHANED,
    }),
    State.CLOSED: frozenset(),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Context:
    """A presentation context, which the client refers to by number."""

    interface: Interface
    abstract_syntax: SyntaxId


@dataclass(slots=True)
class _Partial:
    """A request with more fragments to come."""

    request: Request
    context: _Context
    protection: Protection | None
    stub: bytearray = field(default_factory=bytearray)
    fragments: int = 0
    is_cancelled: bool = False

    def continues(self, request: Request, protection: Protection | None) -> bool:
        first = self.request
        same = (first.context_id, first.opnum) == (request.context_id, request.opnum)
        return same and self.protection is protection


class ServerConnection:
    """One connection of `service`; `peer` is its remote address, without the port."""

    def __init__(self, service: Service, peer: str) -> None:
        self._service = service
        self._limits = service.limits
        self._peer = peer
        self._framer = Framer(service.limits.max_fragment)
        self._state = State.NEW
        self._output: list[bytes] = []
        self._association: Association | None = None
        self._max_receive = self._max_transmit = FRAGMENT_MIN
        self._contexts: dict[int, _Context] = {}
        self._security = Acceptance(service.providers, service.limits.max_security_contexts)
        self._partial: _Partial | None = None
        # A call that was answered with a fault: its remaining fragments are discarded.
        self._dropped: int | None = None
        self._highest_call_id = 0
        self._pending: dict[int, Call] = {}
        self._pending_bytes = 0
        self.problem = ""

    @property
    def is_closing(self) -> bool:
        """Whether to close the socket once all bytes are sent; `problem` says why."""
        return self._state is _CLOSED

    @property
    def pending_calls(self) -> int:
        return len(self._pending)

    @property
    def association(self) -> Association | None:
        """The group of the connection, after its bind."""
        return self._association

    @property
    def is_logged_on(self) -> bool:
        """Whether the client has proved an identity."""
        return self._security.is_logged_on

    def receive(self, data: bytes) -> list[Event]:
        """The events of received bytes; those after a protocol error are ignored."""
        events: list[Event] = []
        if self._state is _CLOSED:
            return events
        self._framer.receive(data)
        try:
            for pdu in self._framer.pdus():
                if self._take_plain(pdu, events):
                    continue
                self._take(pdu, events)
                if self.is_closing:
                    break
        except DecodeError as error:
            version = RejectReason.PROTOCOL_VERSION_NOT_SUPPORTED
            reason = version if error.field == "rpc_vers" else RejectReason.NOT_SPECIFIED
            self._refuse(self._framer.head, Refusal(str(error), reason=reason))
        return events

    def data_to_send(self) -> bytes:
        """The bytes to send; they are returned once."""
        output = self._output
        data = output[0] if len(output) == 1 else b"".join(output)
        output.clear()
        return data

    def reply(self, call: Call, stub: bytes) -> None:
        """Answer a call; ignored if it was abandoned."""
        if not self._finish(call):
            return
        if call.protection is None and len(stub) <= self._max_transmit - REQUEST_HEADER_SIZE:
            self._output.append(plain_response(call.call_id, call.context_id, stub))
            return
        answer = Response(call_id=call.call_id, context_id=call.context_id)
        self._output += cut(answer, stub, self._max_transmit, call.protection)

    def fault(self, call: Call, code: int) -> None:
        """Answer a call with a fault; its status may be any but those forbidden by [MS-RPCE] 3.3.3.5.1."""
        if code in status.FORBIDDEN:
            raise ValueError(f"a fault must not have status 0x{code:08X}")
        if self._finish(call):
            self._send(Fault(call_id=call.call_id, context_id=call.context_id, status=code))

    def answer(self, call: Call, handler: Callable[[Call], bytes]) -> None:
        """Reply with the result of `handler`, or with the fault of its `RpcFault` or `NdrError`."""
        try:
            self.reply(call, handler(call))
        except (RpcFault, NdrError) as error:
            self.fault(call, error.status)

    def shut_down(self) -> None:
        """Ask the client to close the connection: [MS-RPCE] 3.3.3.4.2."""
        if self._state is State.BOUND:
            self._send(Shutdown())

    def connection_lost(self) -> list[Event]:
        """Abandon pending calls, and run handles down if this was the last connection of its group."""
        self._state = State.CLOSED
        self._partial = None
        events: list[Event] = [Abandoned(call) for call in self._pending.values()]
        self._pending.clear()
        self._pending_bytes = 0
        if self._association is not None:
            events += self._service.associations.leave(self._association)
            self._association = None
        return events

    # PDUs

    def _take(self, data: bytes, events: list[Event]) -> None:
        try:
            pdu = decode_pdu(data)
            if type(pdu) is Request and self._state is _BOUND:
                self._request(pdu, data, events)
            elif pdu.TYPE in EXPECTED[self._state]:
                self._act(pdu, events)
            else:
                self._refuse(
                    data, Refusal(f"unexpected {pdu.TYPE.name} while the connection is {self._state.name}")
                )
        except DecodeError as error:
            self._refuse(data, Refusal(str(error)))
        except Refusal as refusal:
            self._refuse(data, refusal)

    def _take_plain(self, data: bytes, events: list[Event]) -> bool:
        """The fast path for calls of one fragment without protection; whether it applied.

        Invalid calls take the general path, which reports the error.
        """
        found = split_plain_request(data)
        if found is None or self._state is not _BOUND or self._partial is not None or self._security.is_used:
            return False
        call_id, context_id, opnum, stub = found
        context, pending, limits = self._contexts.get(context_id), self._pending, self._limits
        if (
            context is None
            or opnum >= context.interface.operations
            or call_id in pending
            or len(pending) >= limits.max_pending_calls
            or self._pending_bytes > limits.max_pending_bytes
            or len(data) > self._max_receive
            or len(stub) > limits.max_request_bytes
        ):
            return False
        self._highest_call_id = max(self._highest_call_id, call_id)
        self._dropped = None
        self._add_call(call_id, context_id, context, opnum, None, stub, None, events)
        return True

    def _act(self, pdu: Pdu, events: list[Event]) -> None:
        match pdu:
            case AlterContext():  # before Bind, its base class
                self._alter_context(pdu)
            case Bind():
                self._bind(pdu)
            case Auth3(auth=Verifier() as auth):
                self._security.take_last(auth)
            case CoCancel():
                self._co_cancel(pdu.call_id, events)
            case Orphaned():
                self._orphaned(pdu.call_id, events)

    def _refuse(self, head: bytes, refusal: Refusal) -> None:
        """Answer a protocol error as the PDU type allows, and close: [MS-RPCE] 3.3.3.5.5."""
        # Big-endian peers can read our little-endian answer, so the call id is read in their byte order.
        order: Literal["little", "big"] = "little" if head[4] & 0xF0 else "big"
        kind, call_id = head[2], int.from_bytes(head[12:16], order)
        if kind == PduType.BIND or refusal.reason in _NAK_REASONS:
            self._send(BindNak(call_id=call_id, reason=refusal.reason))
        elif kind in {PduType.REQUEST, PduType.ALTER_CONTEXT}:
            self._send(Fault(call_id=call_id, flags=WHOLE | DID_NOT_EXECUTE, status=refusal.status))
        self._close(str(refusal))

    def _close(self, problem: str) -> None:
        self._state = State.CLOSED
        self._partial = None
        self.problem = problem

    def _send(self, pdu: Pdu) -> None:
        self._output.append(pdu.encode())

    def _finish(self, call: Call) -> bool:
        if self._pending.get(call.call_id) is not call:
            return False
        del self._pending[call.call_id]
        self._pending_bytes -= len(call.stub)
        return self._state is not _CLOSED

    # Binding

    def _bind(self, bind: Bind) -> None:
        """[C706] 12.6.4.3; [MS-RPCE] 3.3.1.5.7 for the association group."""
        self._check_contexts(bind)
        auth = self._authenticate(bind)
        association = self._service.associations.join(bind.assoc_group_id, self._peer)
        if association is None:
            raise Refusal(f"unknown association group {bind.assoc_group_id:#x} of {self._peer}")
        self._association = association
        self._max_transmit = max(FRAGMENT_MIN, min(self._limits.max_fragment, bind.max_recv_frag))
        self._max_receive = max(FRAGMENT_MIN, min(self._limits.max_fragment, bind.max_xmit_frag))
        self._state = State.BOUND
        endpoint = self._service.endpoint
        self._answer(BindAck, bind, auth, endpoint.encode("ascii") + b"\0" if endpoint else b"")

    def _alter_context(self, alter: AlterContext) -> None:
        """[C706] 12.6.4.1."""
        self._check_contexts(alter)
        self._answer(AlterContextResp, alter, self._authenticate(alter), b"")

    def _answer(self, kind: type[BindAck], bind: Bind, auth: Verifier | None, address: bytes) -> None:
        assert self._association is not None
        header_sign = SUPPORT_HEADER_SIGN if self._security.header_signing else 0
        answer = kind(
            call_id=bind.call_id,
            flags=WHOLE | bind.flags & (CONC_MPX | header_sign),
            auth=auth,
            max_xmit_frag=self._max_transmit,
            max_recv_frag=self._max_receive,
            assoc_group_id=self._association.group_id,
            secondary_address=address,
            results=tuple(self._negotiate(element) for element in bind.contexts),
        )
        self._send(answer)

    def _check_contexts(self, bind: Bind) -> None:
        if bind.flags & WHOLE != WHOLE:
            raise Refusal(f"a {bind.TYPE.name} must not be fragmented")
        wanted = self._contexts.keys() | {element.context_id for element in bind.contexts}
        if len(wanted) > self._limits.max_contexts:
            problem = f"{len(wanted)} contexts requested, at most {self._limits.max_contexts} are allowed"
            raise Refusal(problem, reason=RejectReason.LOCAL_LIMIT_EXCEEDED)

    def _authenticate(self, bind: Bind) -> Verifier | None:
        if bind.auth is None:
            return None
        return self._security.take(bind.auth, header_signing=bool(bind.flags & SUPPORT_HEADER_SIGN))

    def _negotiate(self, element: ContextElement) -> ContextAnswer:
        """[MS-RPCE] 3.3.1.5.3 and 3.3.1.5.6"""
        offered = element.transfer_syntaxes
        features = offered[0].features if len(offered) == 1 else None
        if features is not None:
            return ContextAnswer(ContextResult.NEGOTIATE_ACK, features & _FEATURES)
        interface = self._service.find(element)
        reason = ProviderReason.NOT_SPECIFIED
        if interface is None:
            reason = ProviderReason.ABSTRACT_SYNTAX_NOT_SUPPORTED
        elif NDR not in offered:
            reason = ProviderReason.TRANSFER_SYNTAXES_NOT_SUPPORTED
        else:
            context = _Context(interface, element.abstract_syntax)
            if self._contexts.setdefault(element.context_id, context) == context:
                return ContextAnswer(ContextResult.ACCEPTANCE, 0, NDR)
        return ContextAnswer(ContextResult.PROVIDER_REJECTION, reason)

    # Calls

    def _request(self, request: Request, data: bytes, events: list[Event]) -> None:
        if len(data) > self._max_receive:
            raise Refusal(f"a fragment has {len(data)} bytes, the negotiated limit is {self._max_receive}")
        protection, stub = self._security.find(request.auth), request.stub
        if protection is not None or request.auth is not None:
            try:
                stub = open_fragment(request, data, protection)
            except AuthenticationError as error:
                raise Refusal(str(error), status.ERROR_ACCESS_DENIED) from None
        if request.flags & FIRST:
            context = self._begin(request)
            if context is None:
                return
            if request.flags & LAST and len(stub) <= self._limits.max_request_bytes:  # the usual case
                is_cancelled = bool(request.flags & PENDING_CANCEL)
                self._dispatch(request, context, protection, stub, events, is_cancelled=is_cancelled)
                return
            self._partial = _Partial(request, context, protection)
        elif not self._is_wanted(request, protection):
            return
        partial = self._partial
        if partial is not None and self._add(partial, request, stub) and request.flags & LAST:
            self._partial = None
            self._dispatch(
                partial.request,
                partial.context,
                protection,
                bytes(partial.stub),
                events,
                is_cancelled=partial.is_cancelled,
            )

    def _begin(self, request: Request) -> _Context | None:
        """The presentation context of a call's first fragment; None if the call was refused."""
        if self._partial is not None:
            other = self._partial.request.call_id
            raise Refusal(f"call {request.call_id} started before call {other} was complete")
        # 3.3.3.5.2 requires rising ids; impacket restarts after an alter_context, so only pending ones count.
        if request.call_id in self._pending:
            raise Refusal(f"call {request.call_id} is already pending")
        self._highest_call_id = max(self._highest_call_id, request.call_id)
        self._dropped = None
        context = self._contexts.get(request.context_id)
        limits = self._limits
        if context is None:
            self._drop(request, status.NCA_S_INVALID_PRES_CONTEXT_ID)
        elif request.opnum >= context.interface.operations:
            self._drop(request, status.NCA_S_OP_RNG_ERROR)
        elif len(self._pending) >= limits.max_pending_calls or self._pending_bytes > limits.max_pending_bytes:
            self._drop(request, status.NCA_S_SERVER_TOO_BUSY)
        else:
            return context
        return None

    def _is_wanted(self, request: Request, protection: Protection | None) -> bool:
        """Whether a later fragment belongs to the call being received."""
        partial = self._partial
        if partial is not None and partial.request.call_id == request.call_id:
            if not partial.continues(request, protection):
                raise Refusal(f"call {request.call_id} changed between its fragments")
            return True
        if partial is None and request.call_id == self._dropped:
            self._dropped = None if request.is_last else self._dropped
            return False
        if partial is None and 0 < self._highest_call_id - request.call_id < _OLD_CALLS:
            return False
        raise Refusal(f"unexpected fragment of call {request.call_id}")

    def _add(self, partial: _Partial, request: Request, stub: bytes) -> bool:
        """Keep one more fragment; False if the call became too large and was refused."""
        partial.fragments += 1
        partial.is_cancelled |= bool(request.flags & PENDING_CANCEL)
        # alloc_hint is ignored, so a wrong one does no harm ([MS-RPCE] 2.2.2.6).
        size = len(partial.stub) + len(stub)
        if size > self._limits.max_request_bytes or partial.fragments > self._limits.max_request_fragments:
            self._partial = None
            self._drop(request, status.ERROR_ACCESS_DENIED)
            return False
        partial.stub += stub
        return True

    def _drop(self, request: Request, code: int) -> None:
        """Refuse a call, and ignore its remaining fragments: [MS-RPCE] 3.3.3.5.8."""
        flags = WHOLE | DID_NOT_EXECUTE
        self._send(Fault(call_id=request.call_id, context_id=request.context_id, flags=flags, status=code))
        self._dropped = None if request.is_last else request.call_id

    def _dispatch(
        self,
        request: Request,
        context: _Context,
        protection: Protection | None,
        stub: bytes,
        events: list[Event],
        *,
        is_cancelled: bool,
    ) -> None:
        call = self._add_call(
            request.call_id,
            request.context_id,
            context,
            request.opnum,
            request.object,
            stub,
            protection,
            events,
        )
        if is_cancelled:
            events.append(Cancelled(call))

    def _add_call(
        self,
        call_id: int,
        context_id: int,
        context: _Context,
        opnum: int,
        target: UUID | None,
        stub: bytes,
        protection: Protection | None,
        events: list[Event],
    ) -> Call:
        assert self._association is not None
        call = self._pending[call_id] = Call(
            call_id,
            context_id,
            context.interface,
            context.abstract_syntax,
            opnum,
            target,
            stub,
            _NO_LEVEL if protection is None else protection.level.effective,
            None if protection is None else protection.context.identity,
            self._association,
            protection,
        )
        self._pending_bytes += len(stub)
        events.append(call)
        return call

    def _co_cancel(self, call_id: int, events: list[Event]) -> None:
        """[C706] 12.6.4.6; a cancel that crossed the answer is ignored."""
        if call_id in self._pending:
            events.append(Cancelled(self._pending[call_id]))
        elif self._partial is not None and self._partial.request.call_id == call_id:
            self._partial.is_cancelled = True

    def _orphaned(self, call_id: int, events: list[Event]) -> None:
        """[C706] 12.6.4.8."""
        call = self._pending.pop(call_id, None)
        if call is not None:
            self._pending_bytes -= len(call.stub)
            events.append(Abandoned(call))
        elif self._partial is not None and self._partial.request.call_id == call_id:
            self._partial = None
