"""A sender and a consumer that speak MS-MQQB and nothing more: the daemon between them is what is measured.

Both keep to the window, and acknowledge as a queue manager does; neither stores anything.
"""

import select
import socket
import ssl
import struct
import time
from contextlib import suppress
from dataclasses import dataclass
from uuid import UUID, uuid4

from tiercel.model.format_name import FormatName
from tiercel.model.identifiers import MessageId
from tiercel.model.message import Message
from tiercel.wire.base_header import INTERNAL, SESSION_HEADER
from tiercel.wire.internal_packets import (
    ConnectionParameters,
    ConnectionParametersHeader,
    EstablishConnection,
    EstablishConnectionHeader,
    SessionAck,
)
from tiercel.wire.message import encode_message
from tiercel.wire.packet import decode_packet
from tiercel.wire.session_header import SessionHeader
from tiercel.wire.user_message import UserMessage

STAMP = struct.Struct("<d")  # when a message was sent, at the start of its body
_HEAD = struct.Struct("<BBHII")  # version, reserved, flags, signature, size of the packet
_SESSION_HEADER_AT = 20
_SESSION_HEADER_SIZE = 16
_FLAGS = 32  # recoverable messages that one acknowledgement can name
_WRAP = 0xFFFF
_RECEIVE_BYTES = 1 << 20
_ACK_TIMEOUT_MS = 20_000
_RECOVERABLE_ACK_TIMEOUT_MS = 500
_UNIQUIFIER_AT = 56


@dataclass(frozen=True)
class Times:
    """On the clock that all processes of the computer share."""

    first: float
    last: float
    latencies: tuple[float, ...] = ()
    count: int = 0  # messages acknowledged by `last`; only of a sender

    @property
    def rate(self) -> float:
        return self.count / (self.last - self.first)


class Stream:
    """Cuts packets out of a connection."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connection = connection
        self._buffer = b""

    def receive(self) -> list[bytes]:
        """At least one whole packet, and all that has come."""
        packets: list[bytes] = []
        while not packets:
            data = self._read()
            if not data:
                raise ConnectionError("the daemon closed the connection")
            data, at = self._buffer + data, 0
            while len(data) - at >= _HEAD.size:
                _, _, flags, _, size = _HEAD.unpack_from(data, at)
                if flags & SESSION_HEADER and not flags & INTERNAL:
                    size += _SESSION_HEADER_SIZE
                if len(data) - at < size:
                    break
                packets.append(data[at : at + size])
                at += size
            self._buffer = data[at:]
        return packets

    def _read(self) -> bytes:
        data = self.connection.recv(_RECEIVE_BYTES)
        if isinstance(self.connection, ssl.SSLSocket):  # which gives one record of 16 KiB at a time
            self.connection.setblocking(False)
            with suppress(ssl.SSLWantReadError):
                while more := self.connection.recv(_RECEIVE_BYTES):
                    data += more
            self.connection.setblocking(True)
        return data


def message(guid: UUID, destination: str, body: bytes, *, delivery: int = 1) -> bytes:
    """The packet of a message, recoverable by default."""
    return encode_message(
        Message(
            body,
            delivery=delivery,
            destination_queue=FormatName.parse(destination),
            id=MessageId(guid, 1),
            sent_time=int(time.time()),
        )
    )


def numbered(packet: bytes, number: int) -> bytes:
    """The same packet as another message."""
    return packet[:_UNIQUIFIER_AT] + number.to_bytes(4, "little") + packet[_UNIQUIFIER_AT + 4 :]


class Sender:
    def __init__(
        self,
        endpoint: tuple[str, int],
        destination: str,
        body_size: int,
        window: int,
        *,
        delivery: int = 1,
        guid: UUID | None = None,
        context: ssl.SSLContext | None = None,
        template: bytes = b"",
    ) -> None:
        """Sends `template` instead of a packet of its own, if there is one."""
        self._guid = guid or uuid4()
        self._packet = template or message(self._guid, destination, bytes(body_size), delivery=delivery)
        body = bytes([1]) * body_size
        self._body_at = 0 if template else message(self._guid, destination, body).index(body)
        self._number = 0
        connection = socket.create_connection(endpoint)
        self._stream = Stream(connection if context is None else context.wrap_socket(connection))
        self._sent = self._acked = 0
        stream = self._stream
        header = EstablishConnectionHeader(client_guid=self._guid, time_stamp=1)
        stream.connection.sendall(EstablishConnection.of(header).encode())
        [answer] = stream.receive()
        assert isinstance(decode_packet(answer), EstablishConnection)
        parameters = ConnectionParametersHeader(
            _RECOVERABLE_ACK_TIMEOUT_MS, _ACK_TIMEOUT_MS, window_size=window
        )
        stream.connection.sendall(ConnectionParameters.of(parameters).encode())
        [answer] = stream.receive()
        packet = decode_packet(answer)
        assert isinstance(packet, ConnectionParameters)
        self._window = min(window, packet.header.window_size)
        # A daemon acknowledges so many at once; fewer wait for its timer, half a second later.
        self._acked_by_count = min(max(self._window // 2, 1), _FLAGS - 1)

    def encode(self, count: int) -> bytes:
        """Messages with numbers of their own, one after the other."""
        head, tail = self._packet[:_UNIQUIFIER_AT], self._packet[_UNIQUIFIER_AT + 4 :]
        first, self._number = self._number + 1, self._number + count
        numbers = (number.to_bytes(4, "little") for number in range(first, first + count))
        return b"".join([head + number + tail for number in numbers])

    def send(self, count: int) -> Times:
        """As many as the window lets through, until the last is acknowledged.

        The times end with the last acknowledgement that did not have to wait for a timer: half a second of
        idling would be a large part of a short run.
        """
        packets, size = memoryview(self.encode(count)), len(self._packet)
        base, end = self._sent, self._sent + count
        start = last = time.monotonic()
        counted = 0
        while self._acked < end:
            room = min(self._window - (self._sent - self._acked), end - self._sent)
            if room:
                at = (self._sent - base) * size
                self._stream.connection.sendall(packets[at : at + room * size])
                self._sent += room
            before = self._acked
            self._take_acks()
            if self._acked - before >= self._acked_by_count:
                last, counted = time.monotonic(), self._acked - base
        return Times(start, last, count=counted) if counted else Times(start, time.monotonic(), count=count)

    def begin(self, packets: bytes, count: int) -> None:
        """Sends so many, no more than the window lets through; `finish` waits for them."""
        self._stream.connection.sendall(packets)
        self._sent += count

    def finish(self) -> None:
        while self._acked < self._sent:
            self._take_acks()

    def send_at(self, rate: int, count: int) -> Times:
        """One after the other in equal distances, each with the time at which it was due."""
        template = bytearray(self.encode(1))
        connection, start = self._stream.connection, time.monotonic() + 0.01
        for index in range(count):
            due = start + index / rate
            # Not a timeout of the socket: those are whole milliseconds, as long as what is measured.
            while (wait := due - time.monotonic()) > 0 and select.select([connection], [], [], wait)[0]:
                self._take_acks()
            while self._sent - self._acked >= self._window:
                self._take_acks()
            self._number += 1
            template[_UNIQUIFIER_AT : _UNIQUIFIER_AT + 4] = self._number.to_bytes(4, "little")
            STAMP.pack_into(template, self._body_at, due)
            connection.sendall(template)
            self._sent += 1
        self.finish()
        return Times(start, time.monotonic())

    def _take_acks(self) -> None:
        for packet in self._stream.receive():
            stored = int.from_bytes(packet[_SESSION_HEADER_AT : _SESSION_HEADER_AT + 2], "little")
            self._acked += (stored - self._acked) & _WRAP

    def close(self) -> None:
        self._stream.connection.close()


class Consumer:
    """The queue manager at which messages end: it counts them."""

    def __init__(
        self, listener: socket.socket, guid: UUID, window: int, *, context: ssl.SSLContext | None = None
    ) -> None:
        connection, _ = listener.accept()
        if context is not None:
            connection = context.wrap_socket(connection, server_side=True)
        self._stream = Stream(connection)
        self._window = window
        self._received = self._acked = 0
        [question] = self._stream.receive()
        establish = decode_packet(question)
        assert isinstance(establish, EstablishConnection)
        answer = EstablishConnectionHeader(
            establish.header.client_guid, guid, establish.header.time_stamp, padding=b"\x5a" * 512
        )
        connection.sendall(EstablishConnection.of(answer).encode())
        [proposal] = self._stream.receive()
        parameters = decode_packet(proposal)
        assert isinstance(parameters, ConnectionParameters)
        own = ConnectionParametersHeader(
            parameters.header.recoverable_ack_timeout, parameters.header.ack_timeout, window_size=window
        )
        connection.sendall(ConnectionParameters.of(own).encode())
        self._ack_after = max(min(window, parameters.header.window_size) // 2, 1)

    def receive(self, count: int, *, is_stamped: bool = False, ack_at_once: bool = False) -> Times:
        first, latencies = 0.0, []
        body_at, end = 0, self._received + count
        while self._received < end:
            packets = self._stream.receive()
            now = time.monotonic()
            first = first or now
            if is_stamped:
                if not body_at:
                    packet = UserMessage(packets[0])
                    body_at = packet.data.index(packet.body)
                latencies += [now - STAMP.unpack_from(packet, body_at)[0] for packet in packets]
            self._received += len(packets)
            if ack_at_once or self._received - self._acked >= self._ack_after or self._received == end:
                self._acknowledge()
        return Times(first, time.monotonic(), tuple(latencies))

    def _acknowledge(self) -> None:
        acks = []
        while self._acked < self._received:
            count = min(self._received - self._acked, _FLAGS - 1)
            start, flags = self._acked + 1 & _WRAP, (1 << count) - 1
            if not start:  # 0 would mean that none is meant
                start, flags = _WRAP, flags << 1 | 1
            self._acked += count
            header = SessionHeader(self._acked & _WRAP, start, flags, 0, 0, self._window)
            acks.append(SessionAck.of(header).encode())
        self._stream.connection.sendall(b"".join(acks))

    def close(self) -> None:
        self._stream.connection.close()
