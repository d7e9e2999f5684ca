"""Incoming transactional streams: what was taken last, from whom, for which queue. [MS-MQQB] 3.1.5.8.6.

Kept per sending queue manager and destination queue, not per session (MQQB T18), and stored in the commit of
the messages they speak of. A sender has one stream for each name that it calls the queue by, so the name as
it stands in the packet is part of the key.
"""

import struct
from dataclasses import dataclass
from hashlib import blake2b
from uuid import UUID

from tiercel.engine.engine import Engine
from tiercel.engine.queue_state import QueueState
from tiercel.store.interface import Keyspace
from tiercel.wire.structure import decode_guid
from tiercel.wire.user_message import UserMessage

_KEY = struct.Struct(">I16s")
_VALUE = struct.Struct("<QIII")


@dataclass(slots=True, eq=False)
class IncomingStream:
    """IncomingTransactionalTransferInfo, in the form that the protocol needs."""

    key: bytes
    sequence: int = 0
    number: int = 0
    reject_count: int = 0
    last_access: int = 0

    @property
    def sender(self) -> UUID:
        return decode_guid(self.key[4:20])

    def accepts(self, sequence: int, number: int, previous: int) -> bool:
        """In order, with the gaps that expired messages leave (MQQB-150, MQQB-151)."""
        if sequence == self.sequence:
            return number > self.number and previous <= self.number
        return sequence > self.sequence and previous == 0


class Streams:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._streams: dict[bytes, IncomingStream] = {}
        self._changed: dict[bytes, IncomingStream] = {}

    def of(self, packet: UserMessage, queue: QueueState) -> IncomingStream:
        name = packet.destination_bytes
        key = _KEY.pack(queue.slot, packet.data[16:32]) + blake2b(name, digest_size=8).digest()
        stream = self._streams.get(key)
        if stream is None:
            stored = self._engine.batch.get(Keyspace.INCOMING, key)
            stream = IncomingStream(key, *(_VALUE.unpack(stored) if stored else ()))
            self._streams[key] = stream
        return stream

    def accept(self, stream: IncomingStream, sequence: int, number: int) -> None:
        """Only for what was accepted: a message out of order leaves the state alone (MQQB T03)."""
        stream.sequence, stream.number, stream.reject_count = sequence, number, 0
        self._touch(stream)

    def reject(self, stream: IncomingStream) -> None:
        stream.reject_count = min(stream.reject_count + 1, 0xFFFF_FFFF)
        self._touch(stream)

    def _touch(self, stream: IncomingStream) -> None:
        stream.last_access = self._engine.seconds & 0xFFFF_FFFF
        self._changed[stream.key] = stream

    def flush(self) -> None:
        """Writes what this batch has changed, once for each stream."""
        for key, stream in self._changed.items():
            value = _VALUE.pack(stream.sequence, stream.number, stream.reject_count, stream.last_access)
            self._engine.batch.put(Keyspace.INCOMING, key, value)
        self._changed.clear()

    def all(self) -> list[IncomingStream]:
        """Every stream, for management."""
        for key, data in self._engine.batch.range(Keyspace.INCOMING, b"\0", b"\xff" * 8):
            self._streams.setdefault(key, IncomingStream(key, *_VALUE.unpack(data)))
        return list(self._streams.values())
