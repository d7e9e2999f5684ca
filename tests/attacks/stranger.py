"""A hostile peer on port 1801, written from [MS-MQMQ] 2.2 and [MS-MQQB] 2.2, without the codec of Tiercel.

It shakes hands under any GUID, and then sends what it likes.
"""

import socket
import struct
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self
from uuid import UUID, uuid4

PATIENCE_S = 60
NOBODY = UUID(int=0)
ESTABLISH_SIZE, PARAMETERS_SIZE = 572, 32
_BASE = struct.Struct("<BBH4sII")
_INTERNAL, _SESSION_HEADER = 0x08, 0x10
_INFINITE = 0xFFFF_FFFF
_ORDER_QUEUE = struct.pack("<I", 4)
_LABEL = "QM Ordering Ack"
# UserHeader.Flags
_RECOVERABLE, _SECURITY, _TRANSACTION, _PROPERTIES = 1 << 5, 1 << 19, 1 << 20, 1 << 21
_PRIVATE_OF_DESTINATION, _DIRECT = 3, 7
_ACK_RECEIVE = 0x4000
_SHA_512, _AES_256 = 0x800E, 0x6610


def base(size: int, flags: int = 3) -> bytes:
    return _BASE.pack(0x10, 0, flags, b"LIOR", size, _INFINITE)


def _internal(kind: int, header: bytes) -> bytes:
    flags = 3 | _INTERNAL | (_SESSION_HEADER if kind == 1 else 0)
    return base(20 + len(header), flags) + struct.pack("<HH", 0, kind) + header


def establish(client: UUID, server: UUID = NOBODY) -> bytes:
    return _internal(2, client.bytes_le + server.bytes_le + struct.pack("<IHH", 1, 0x0110, 0) + bytes(512))


def parameters(window: int = 64) -> bytes:
    return _internal(3, struct.pack("<IIHH", 500, 20_000, 0, window))


def session_ack(received: int, recoverable: int) -> bytes:
    count = min(recoverable, 32)
    first = recoverable - count + 1 if count else 0
    return _internal(1, struct.pack("<HHIHHHH", received, first, (1 << count) - 1, 0, 0, 64, 0))


def _aligned(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def _direct(name: str) -> bytes:
    text = f"{name}\0".encode("utf-16-le")
    return struct.pack("<H", len(text)) + text


@dataclass(frozen=True)
class Letter:
    """A UserMessage packet, with every claim that its sender may make."""

    source: UUID
    queue: str = ""  # the path behind DIRECT=
    number: int = 1
    body: bytes = b"from a stranger"
    admin_queue: str = ""
    acknowledgements: int = 0
    sequence: int = 0  # with it, transactional
    place: int = 1
    previous: int = 0
    message_class: int = 0
    label: str = ""
    security: bytes = b""
    privacy: int = 0
    address: UUID = NOBODY  # for the private queue `order_queue$` of this queue manager, instead of `queue`
    order_queue: bool = False

    def encode(self) -> bytes:
        flags, headers = _PROPERTIES, b""
        if self.sequence:
            flags |= _TRANSACTION | _RECOVERABLE
            headers = struct.pack("<IQII", 1 << 4, self.sequence, self.place, self.previous)
        if self.order_queue:
            flags |= _RECOVERABLE
        if self.security:
            flags |= _SECURITY
            headers += self.security
        priority = 0 if self.sequence or self.order_queue else 3
        user = self._user(flags)
        packet = user + headers + self._properties()
        return base(16 + len(packet), priority) + packet

    def _user(self, flags: int) -> bytes:
        if self.order_queue:
            flags, names = flags | _PRIVATE_OF_DESTINATION << 10, _ORDER_QUEUE
        else:
            flags, names = flags | _DIRECT << 10, _aligned(_direct(self.queue))
        if self.admin_queue:
            flags, names = flags | _DIRECT << 13, names + _aligned(_direct(self.admin_queue))
        numbers = struct.pack("<IIII", _INFINITE, int(time.time()), self.number, flags)
        return self.source.bytes_le + self.address.bytes_le + numbers + names

    def _properties(self) -> bytes:
        label = f"{self.label}\0".encode("utf-16-le") if self.label else b""
        head = struct.pack("<BBH20sII", self.acknowledgements, len(label) // 2, self.message_class, b"", 0, 0)
        size = len(self.body)
        sizes = struct.pack("<IIIIII", size, size, self.privacy, _SHA_512, _AES_256, 0)
        return _aligned(head + sizes + label + self.body)


def order_ack(source: UUID, victim: UUID, sequence: int, place: int, number: int) -> bytes:
    """[MS-MQQB] 2.2.4: says that `source` has everything of the victim's sequence up to `place`."""
    body = struct.pack("<QII20s", sequence, place, place - 1, b"")
    return _to_order_queue(source, victim, number, body, 0x00FF)


def final_ack(
    source: UUID, victim: UUID, sequence: int, place: int, message: int, reason: int = _ACK_RECEIVE
) -> bytes:
    """[MS-MQQB] 2.2.5: says how the victim's message has ended."""
    body = struct.pack("<QII", sequence, place, place - 1) + victim.bytes_le + struct.pack("<I", message)
    return _to_order_queue(source, victim, message, body, reason)


def _to_order_queue(source: UUID, victim: UUID, number: int, body: bytes, kind: int) -> bytes:
    letter = Letter(source, number=number, body=body, message_class=kind, label=_LABEL, address=victim)
    return replace(letter, order_queue=True).encode()


def security(
    flags: int, *, sid: bytes = b"", key: bytes = b"", signature: bytes = b"", certificate: bytes = b""
) -> bytes:
    """A SecurityHeader ([MS-MQMQ] 2.2.20.6) with its data."""
    sizes = struct.pack("<HHHHII", flags, len(sid), len(key), len(signature), len(certificate), 0)
    return sizes + b"".join(map(_aligned, (sid, key, signature, certificate)))


class Stranger:
    """One connection; `claimed` is the GUID that its session names."""

    def __init__(
        self, port: tuple[str, int], *, source: str = "127.0.9.9", claimed: UUID | None = None
    ) -> None:
        self.claimed = claimed or uuid4()
        self.got: list[bytes] = []  # the user messages that the daemon sent
        self._buffer = b""
        self._recoverable = 0
        self.connection = socket.create_connection(port, PATIENCE_S, (source, 0))
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.connection.close()

    def greet(self) -> Self:
        try:
            self.connection.sendall(establish(self.claimed))
            self._read_exactly(ESTABLISH_SIZE)
            self.connection.sendall(parameters())
            self._read_exactly(PARAMETERS_SIZE)
        except OSError:
            self.connection.close()
            raise
        return self

    def send(self, *packets: bytes) -> None:
        """Until the daemon has had enough."""
        with suppress(ConnectionError):
            for packet in packets:
                self.connection.sendall(packet)

    def listen(self, seconds: float, *, until: int = 0) -> bool:
        """Read, and acknowledge as a receiver does; whether the daemon has closed the connection."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.connection.settimeout(left)
            try:
                data = self.connection.recv(1 << 16)
            except TimeoutError:
                return False
            except ConnectionError:
                return True
            if not data:
                return True
            self._take(data)
            if until and len(self.got) >= until:
                return False
        return False

    def _take(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= _BASE.size:
            _, _, flags, _, size, _ = _BASE.unpack_from(self._buffer)
            if flags & _SESSION_HEADER and not flags & _INTERNAL:
                size += 16
            if len(self._buffer) < size:
                break
            packet, self._buffer = self._buffer[:size], self._buffer[size:]
            if not flags & _INTERNAL:
                self.got.append(packet)
                self._recoverable += bool(struct.unpack_from("<I", packet, 60)[0] & _RECOVERABLE)
                self.send(session_ack(len(self.got), self._recoverable))

    def _read_exactly(self, size: int) -> None:
        data = b""
        while len(data) < size:
            more = self.connection.recv(size - len(data))
            if not more:
                raise ConnectionError("the daemon closed the connection")
            data += more
