"""Incoming transactional streams: the last message taken, by sender and queue. [MS-MQQB] 3.1.5.8.6.

Kept per sending queue manager and destination queue, not per session or transport (MQQB T18), and stored in
the commit of the messages they speak of. A sender has one stream for each name that it uses for the queue, so
the name is part of the key.

Messages to a queue that does not exist are refused in order, too: an order ack for one of them speaks for all
before it. Such a stream is an orphan, as are those of a deleted queue. It is stored in the commit of the
answers, so that a message that was refused stays refused, also after a crash, if its queue is created then.
"""

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import blake2b
from typing import Self
from uuid import UUID

from tiercel.engine.core import Core
from tiercel.engine.peers import Peers
from tiercel.engine.queue_state import QueueState
from tiercel.engine.records import slot_key
from tiercel.model.format_name import FormatName, PrivateFormatName
from tiercel.model.limits import TIME_TO_REACH_QUEUE_DEFAULT_S
from tiercel.model.queue import IncomingTransactionalTransferInfo
from tiercel.store.interface import Keyspace
from tiercel.wire.message import decode_destination
from tiercel.wire.structure import decode_guid, decode_tx_sequence_id, encode_guid
from tiercel.wire.user_message import UserMessage

_KEY = struct.Struct(">I16s")
# Then the name that the sender calls the queue by and, after a NUL, where answers go, if that is known.
_VALUE = struct.Struct("<QIII")
_NO_QUEUE = 0  # of orphans; in the store also of streams over HTTP whose queue was deleted
_ORPHAN = slot_key(_NO_QUEUE)
_HTTP = b"DIRECT=HTTP"
_STREAMS_KEPT = 10_000  # in memory; the store has them all
_FORGOTTEN_AFTER_S = 180 * 86400
ORPHANS_MAX = 20_000  # in the store; twice what strangers can leave there, the rest is for known senders
_CLOCKS_DIFFER_S = 86400  # at most


@dataclass(slots=True, eq=False)
class IncomingStream:
    """IncomingTransactionalTransferInfo: `sender` is through with `number` of `sequence`."""

    key: bytes
    sequence: int = 0
    number: int = 0
    reject_count: int = 0
    last_access: int = 0
    name: str = ""
    # Where its sender is told: the address that its messages come from, empty if through a router; or a URL.
    answers_to: str = ""
    queue: QueueState | None = None
    refused: int = 0  # a sequence whose TimeStamp is too far in the future; not stored

    @classmethod
    def decode(cls, key: bytes, data: bytes) -> Self:
        sequence, number, rejects, accessed = _VALUE.unpack_from(data)
        name, _, answers_to = data[_VALUE.size :].decode().partition("\0")
        return cls(key, sequence, number, rejects, accessed, name, answers_to)

    def encode(self) -> bytes:
        numbers = _VALUE.pack(self.sequence, self.number, self.reject_count, self.last_access)
        names = f"{self.name}\0{self.answers_to}" if self.answers_to else self.name
        return numbers + names.encode(errors="replace")

    @property
    def slot(self) -> int:
        return int.from_bytes(self.key[:4], "big")

    @property
    def sender(self) -> UUID:
        return decode_guid(self.key[4:20])

    def accepts(self, sequence: int, number: int, previous: int, *, begins: bool | None = None) -> bool:
        """In order, with the gaps that expired messages leave (MQQB-150, MQQB-151).

        `begins`: whether the message may begin a sequence; by default if it has none before it.
        """
        if sequence == self.sequence:
            return number > self.number and previous <= self.number
        return sequence > self.sequence and (previous == 0 if begins is None else begins)


class DamagedStreamError(Exception):
    """The record of a stream cannot be read: nothing of it can be taken, or messages would be doubled."""


class IncomingStreams:
    def __init__(self, core: Core, peers: Peers) -> None:
        self._core = core
        self._peers = peers
        self._streams: dict[bytes, IncomingStream] = {}
        self._changed: dict[bytes, IncomingStream] = {}
        self._digests: dict[bytes, bytes] = {}
        self._orphans_kept_until = 0

    def of(self, packet: UserMessage, queue: QueueState | None) -> IncomingStream:
        """The stream of a message, as an orphan if there is no queue."""
        key = self._key(packet, queue)
        stream = self._streams.get(key)
        if stream is None:
            stream = self._load(key, queue, None if queue is None else decode_destination(packet))
        sequence = packet.sequence[0]
        if sequence > stream.sequence and queue is not None:  # rare
            self._adopt(stream, sequence)
        return stream

    def _adopt(self, stream: IncomingStream, sequence: int) -> None:
        """Go on with a sequence that began while the queue did not exist, or in one of the same name.

        What was refused of it stays refused, and its next message may be on the way already. Ids of sequences
        are random: nobody else could have begun this one.
        """
        left = _ORPHAN + stream.key[4:]
        orphan = self._streams.get(left) or self._stored_orphan(left)
        if orphan is None or orphan.sequence != sequence:
            return
        stream.sequence, stream.number, stream.answers_to = sequence, orphan.number, orphan.answers_to
        self._touch(stream)
        self._streams.pop(left, None)
        self._changed.pop(left, None)
        self._core.batch.delete(Keyspace.ORPHANS, left[4:])

    def _stored_orphan(self, key: bytes) -> IncomingStream | None:
        stored = self._core.batch.get(Keyspace.ORPHANS, key[4:])
        if stored is None:  # over HTTP, of a deleted queue
            stored = self._core.batch.get(Keyspace.INCOMING, key)
        return None if stored is None else _decode(key, stored, None)

    @property
    def are_too_many_orphans(self) -> bool:
        return self._core.batch.count(Keyspace.ORPHANS) >= ORPHANS_MAX

    def of_sender(self, sender: UUID, queue: QueueState, name: FormatName) -> IncomingStream:
        """The stream of a sender that is not that of the message, as in SRMP (SRMP-137)."""
        key = _KEY.pack(queue.slot, encode_guid(sender)) + _digest(name)
        return self._streams.get(key) or self._load(key, queue, name)

    def _load(self, key: bytes, queue: QueueState | None, name: FormatName | None) -> IncomingStream:
        stream = self._stored_orphan(key) if queue is None else self._stored(key, queue)
        if stream is None:  # orphans have no name: strangers can invent long ones
            stream = IncomingStream(key, name="" if name is None else str(name))
        stream.queue = queue
        if len(self._streams) >= _STREAMS_KEPT:
            self.flush()
            self._streams.clear()
        self._streams[key] = stream
        return stream

    def _stored(self, key: bytes, queue: QueueState) -> IncomingStream | None:
        stored = self._core.batch.get(Keyspace.INCOMING, key)
        if stored is None:
            stored = self._inherit(key)
        return None if stored is None else _decode(key, stored, queue)

    def bequeath(self, queue: QueueState) -> None:
        """A queue is deleted: its streams go on without it, and in a queue of the same name that follows it.

        Those over HTTP are always stored. Their senders could not go on if we forgot them: each message names
        one before it, which must be known here (SRMP-127). In the binary protocol, the first message in
        flight names none; if there are too many orphans, memory has to do.
        """
        self.flush()
        for key, data in list(self._core.batch.range(Keyspace.INCOMING, *_keys_of(queue.slot))):
            left = _ORPHAN + key[4:]
            if data[_VALUE.size :].startswith(_HTTP):
                self._core.batch.put(Keyspace.INCOMING, left, data)
            elif not self.are_too_many_orphans:
                self._streams.pop(left, None)
                self._core.batch.put(Keyspace.ORPHANS, left[4:], data)
            elif len(self._streams) < _STREAMS_KEPT:
                with suppress(struct.error, UnicodeDecodeError):  # damaged
                    self._streams[left] = IncomingStream.decode(left, data)

    def _inherit(self, key: bytes) -> bytes | None:
        """The record of the stream in a deleted queue of the same name."""
        left = _ORPHAN + key[4:]
        stored = self._core.batch.get(Keyspace.INCOMING, left)
        if stored is not None:
            self._core.batch.delete(Keyspace.INCOMING, left)
            self._core.batch.put(Keyspace.INCOMING, key, stored)
        return stored

    def _key(self, packet: UserMessage, queue: QueueState | None) -> bytes:
        slot = _NO_QUEUE if queue is None else queue.slot
        return _KEY.pack(slot, packet.data[16:32]) + self._digest(packet)

    def _digest(self, packet: UserMessage) -> bytes:
        """Identifies the name as the sender compares names: spellings of one name share a stream."""
        spelled = packet.destination_bytes
        digest = self._digests.get(spelled)
        if digest is None:
            digest = _digest(decode_destination(packet))
            if len(self._digests) >= _STREAMS_KEPT:
                self._digests.clear()
            self._digests[spelled] = digest
        return digest

    def forget_old(self) -> None:
        """Drops the streams of senders that have been silent for half a year; theirs begin anew by then.

        Orphans of strangers last as long as the answers to them.
        """
        self._forget(Keyspace.INCOMING, lambda _key: _FORGOTTEN_AFTER_S)
        self.forget_old_orphans()

    def forget_old_orphans(self) -> None:
        """At most once an hour, because strangers can ask for it."""
        if self._core.seconds < self._orphans_kept_until:
            return
        self._orphans_kept_until = self._core.seconds + 3600
        self._forget(Keyspace.ORPHANS, self._lifetime_of_orphan)

    def _lifetime_of_orphan(self, key: bytes) -> int:
        is_known = self._peers.knows(decode_guid(key[:16]))
        return _FORGOTTEN_AFTER_S if is_known else TIME_TO_REACH_QUEUE_DEFAULT_S

    def _forget(self, space: Keyspace, lifetime_of: Callable[[bytes], int]) -> None:
        for key, data in list(self._core.batch.range(space, b"\0", b"\xff" * 25)):
            is_whole = len(data) >= _VALUE.size
            if is_whole and _VALUE.unpack_from(data)[3] < self._core.seconds - lifetime_of(key):
                self._streams.pop(_ORPHAN + key, None)
                self._core.batch.delete(space, key)

    def accept(self, stream: IncomingStream, sequence: int, number: int, answers_to: str) -> None:
        """Only for what was accepted: a message out of order leaves the state alone (MQQB T03)."""
        stream.answers_to = answers_to
        stream.sequence, stream.number, stream.reject_count, stream.refused = sequence, number, 0, 0
        self._touch(stream)

    @contextmanager
    def answering(self, stream: IncomingStream, answers_to: str) -> Iterator[None]:
        """While a message is put into its queue; if there is no room for it, nothing has changed."""
        before, stream.answers_to = stream.answers_to, answers_to
        try:
            yield
        except BaseException:
            stream.answers_to = before
            raise

    def is_early(self, stream: IncomingStream, sequence: int) -> bool:
        """Whether the sequence is new, and its TimeStamp is more than a day ahead of our clock.

        A smaller id would never be accepted again (MQQB-151), so one packet could block a sender for years.
        """
        return sequence >> 32 > self._core.seconds + _CLOCKS_DIFFER_S and sequence != stream.sequence

    def refuse(self, stream: IncomingStream, sequence: int) -> None:
        stream.refused = sequence
        self.reject(stream)

    def reject(self, stream: IncomingStream) -> None:
        stream.reject_count = min(stream.reject_count + 1, 0xFFFF_FFFF)
        if stream.sequence:  # nothing is known of one from which nothing was ever taken
            self._touch(stream)

    def moved(self, stream: IncomingStream, answers_to: str) -> None:
        """The sender continues its sequence from another address."""
        stream.answers_to = answers_to
        self._touch(stream)

    def answers_to(self, packet: UserMessage, queue: QueueState | None) -> str:
        """Where the sender of a message is told how it ended; empty if that is not known."""
        key = self._key(packet, queue)
        stream = self._streams.get(key)
        if stream is None:
            space, stored_key = _place(key)
            with suppress(struct.error, UnicodeDecodeError):
                if stored := self._core.batch.get(space, stored_key):
                    stream = IncomingStream.decode(key, stored)
        return "" if stream is None else stream.answers_to

    def _touch(self, stream: IncomingStream) -> None:
        # Never back: a clock that is set back, and right again later, would make the stream seem old.
        stream.last_access = max(stream.last_access, self._core.seconds & 0xFFFF_FFFF)
        self._changed[stream.key] = stream

    def flush(self) -> None:
        """Writes what this batch has changed, once for each stream."""
        for key, stream in self._changed.items():
            if stream.queue is not None and stream.queue.is_deleted:
                continue
            self._core.batch.put(*_place(key), stream.encode())
        self._changed.clear()

    def infos(self, queue: QueueState) -> list[IncomingTransactionalTransferInfo]:
        """What management sees of the streams into a queue (MQQB-130)."""
        own = slot_key(queue.slot)
        return [
            IncomingTransactionalTransferInfo(
                queue=queue.queue,
                format_name=FormatName.parse(stream.name),
                sender_identifier=stream.sender,
                sequence_identifier=decode_tx_sequence_id(stream.sequence),
                sequence_number=stream.number,
                last_access_time=stream.last_access,
                reject_count=stream.reject_count,
            )
            for stream in self.all()
            if stream.key.startswith(own)
        ]

    def all(self) -> list[IncomingStream]:
        """Every stream into a queue that can be read, those in memory first."""
        found = [stream for stream in self._streams.values() if stream.slot != _NO_QUEUE]
        for key, data in self._core.batch.range(Keyspace.INCOMING, slot_key(_NO_QUEUE + 1), b"\xff" * 8):
            if key not in self._streams:
                with suppress(struct.error, UnicodeDecodeError):  # `tiercel check` tells of it
                    found.append(IncomingStream.decode(key, data))
        return found

    def reset(self, queue: QueueState, sender: UUID) -> int:
        """Forget how far the sender has come; returns the number of its streams into the queue."""
        start = _KEY.pack(queue.slot, encode_guid(sender))
        stored = [key for key, _ in self._core.batch.range(Keyspace.INCOMING, start, start + b"\xff" * 9)]
        known = [stream for stream in self._streams.values() if stream.key.startswith(start)]
        for stream in known:
            stream.sequence = stream.number = stream.refused = stream.reject_count = 0
            self._changed.pop(stream.key, None)
        for key in stored:
            self._core.batch.delete(Keyspace.INCOMING, key)
        return len({*stored, *(stream.key for stream in known)})


def _place(key: bytes) -> tuple[Keyspace, bytes]:
    """Where a stream is stored."""
    if key.startswith(_ORPHAN):
        return Keyspace.ORPHANS, key[4:]
    return Keyspace.INCOMING, key


def _keys_of(slot: int) -> tuple[bytes, bytes]:
    return slot_key(slot), slot_key(slot + 1)


def _digest(name: FormatName | None) -> bytes:
    # The queue manager of a private name is ourselves, whether the packet says so or leaves it out.
    canonical = f"private {name.number}" if isinstance(name, PrivateFormatName) else str(name).casefold()
    return blake2b(canonical.encode("utf-8", "surrogatepass"), digest_size=8).digest()


def _decode(key: bytes, stored: bytes, queue: QueueState | None) -> IncomingStream:
    try:
        return IncomingStream.decode(key, stored)
    except (struct.error, UnicodeDecodeError) as problem:
        sender = decode_guid(key[4:20])
        where = queue or "a queue that did not exist"
        raise DamagedStreamError(f"the record of what {sender} sent to {where} is damaged") from problem
