"""The trace of a run, one line per event: `time machine event`."""

from collections.abc import Callable

from tiercel.model.codes import MessageClass
from tiercel.model.errors import DecodeError
from tiercel.model.identifiers import TxSequenceId
from tiercel.sim.schedule import Schedule
from tiercel.srmp.envelope import LABEL_PREFIX
from tiercel.srmp.http_request import HttpRequest, RequestParser
from tiercel.srmp.http_response import ResponseParser
from tiercel.srmp.kinds import Kind, kind_of
from tiercel.srmp.request import read_srmp
from tiercel.wire.framer import Framer
from tiercel.wire.internal_packets import ConnectionParameters, EstablishConnection, SessionAck
from tiercel.wire.order_ack import FinalAck, OrderAck
from tiercel.wire.packet import Packet, decode_packet
from tiercel.wire.session_header import SessionHeader
from tiercel.wire.user_message import UserMessage


class Trace:
    """Free unless there is a listener: a seed that fails is run again with one."""

    def __init__(self, schedule: Schedule, listener: Callable[[str], None] | None) -> None:
        self._schedule = schedule
        self._listener = listener

    @property
    def is_on(self) -> bool:
        return self._listener is not None

    def __call__(self, machine: str, event: str) -> None:
        if self._listener is not None:
            self._listener(f"{self._schedule.now:13.4f} {machine:<8} {event}")


class PacketReader:
    """Describes what passes in one direction of a connection: packets, or HTTP."""

    def __init__(self) -> None:
        self._framer = Framer()
        self._http: RequestParser | ResponseParser | None = None
        self._has_begun = False
        self._is_broken = False

    def read(self, data: bytes) -> list[str]:
        if not self._has_begun:
            self._has_begun = True
            self._http = (
                RequestParser() if data[:1] == b"P" else ResponseParser() if data[:1] == b"H" else None
            )
        if self._is_broken:
            return [f"{len(data)} bytes"]
        if self._http is not None:
            return self._read_http(self._http, data)
        self._framer.receive(data)
        lines = []
        try:
            for packet in self._framer.packets():
                lines.append(describe(decode_packet(packet)))  # noqa: PERF401  # those before the bad one count
        except DecodeError as problem:
            self._is_broken = True
            lines.append(f"{len(data)} bytes that are no packet ({problem})")
        return lines

    def _read_http(self, parser: RequestParser | ResponseParser, data: bytes) -> list[str]:
        try:
            if isinstance(parser, ResponseParser):
                return [f"HTTP {response.status}" for response in parser.receive(data)]
            return [describe_request(request) for request in parser.receive(data)]
        except DecodeError as problem:
            self._is_broken = True
            return [f"{len(data)} bytes that are not HTTP ({problem})"]


def describe_request(request: HttpRequest) -> str:
    try:
        envelope = read_srmp(request).envelope
    except DecodeError as problem:
        return f"POST {request.head.target} that is not SRMP ({problem})"
    kind, number = kind_of(envelope), envelope.path.id.uniquifier
    words = [f"POST {envelope.path.action.removeprefix(LABEL_PREFIX) or kind.value} id {number}"]
    if kind is not Kind.USER:
        words.append(f"{kind.value} to {envelope.path.to}")
    if (stream := envelope.stream) is not None:
        words.append(f"tx {_sequence(stream.stream_id.sequence)}/{stream.current} after {stream.previous}")
    if (receipt := envelope.stream_receipt) is not None:
        words.append(f"of {_sequence(receipt.stream_id.sequence)}/{receipt.last_ordinal}")
    if (decision := envelope.commitment_receipt) is not None:
        words.append(f"{decision.decision.value} of message {decision.id.uniquifier}")
    return " ".join(words)


def describe(packet: Packet) -> str:
    match packet:
        case EstablishConnection():
            refused = " refused" if packet.internal.is_refused else ""
            return f"EstablishConnection{refused}"
        case ConnectionParameters():
            header = packet.header
            return (
                f"ConnectionParameters window {header.window_size} ack {header.ack_timeout}"
                f" recoverable {header.recoverable_ack_timeout}"
            )
        case SessionAck():
            return f"SessionAck {_session(packet.header)}"
        case OrderAck():
            number = f"{_sequence(packet.body.tx_sequence_id)}/{packet.body.tx_sequence_number}"
            return f"OrderAck {number}{_riding(packet.message)}"
        case FinalAck():
            kind = _class(packet.message_class)
            return f"FinalAck {kind} of message {packet.body.message_id}{_riding(packet.message)}"
    return _message(packet)


def _message(packet: UserMessage) -> str:
    words = [f"Message {packet.label or _class(packet.message_class)} id {packet.id.uniquifier}"]
    if (transaction := packet.transaction) is not None:
        identifier = _sequence(transaction.tx_sequence_id)
        number, previous = transaction.tx_sequence_number, transaction.previous_tx_sequence_number
        words.append(f"tx {identifier}/{number} after {previous}")
    elif packet.is_recoverable:
        words.append("recoverable")
    if packet.hop_count:
        words.append(f"hop {packet.hop_count}")
    return " ".join(words) + _riding(packet)


def _riding(packet: UserMessage) -> str:
    return "" if packet.session is None else f" + {_session(packet.session)}"


def _session(header: SessionHeader) -> str:
    return (
        f"ack {header.ack_sequence_number} stored from {header.recoverable_msg_ack_seq_number}"
        f" bits {header.recoverable_msg_ack_flags:b} sent {header.user_msg_sequence_number}"
        f"/{header.recoverable_msg_seq_number} window {header.window_size}"
    )


def _sequence(identifier: TxSequenceId) -> str:
    timestamp, ordinal = identifier
    return f"{timestamp % 10_000}.{ordinal}"


def _class(number: int) -> str:
    return next((each.name for each in MessageClass if each == number), f"class {number:04x}")
