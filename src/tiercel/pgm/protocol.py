"""Multicast for one queue manager: the carrier of MULTICAST= names, and what arrives for its queues.

All inputs come between `begin` and `flush`, inside a batch of the engine; the resulting packets are returned
by `take_actions`, after the commit.
"""

import hashlib
from collections import Counter
from collections.abc import Callable
from uuid import UUID

from tiercel.engine.core import Effect, earliest
from tiercel.engine.engine import Engine
from tiercel.engine.queue_state import QueueState
from tiercel.model.codes import MessageClass
from tiercel.model.errors import DecodeError, IllegalPropertySizeError, UnsupportedFormatNameOperationError
from tiercel.model.format_name import FormatName, MulticastFormatName
from tiercel.model.message import Message
from tiercel.model.queue import OutgoingQueue
from tiercel.pgm.actions import Action, MulticastEvent
from tiercel.pgm.incoming import Incoming, Refusal
from tiercel.pgm.limits import SENT_APDU_MAX_BYTES
from tiercel.pgm.packet import Nak, Other, PacketType, Tsi, decode
from tiercel.pgm.queue_sender import QueueSender, write_request
from tiercel.pgm.session import Shared
from tiercel.pgm.settings import Settings
from tiercel.pgm.source import Source, State
from tiercel.srmp.message import check_administration_queue

_SETTLE_S = 0.02  # packets that have left are noted in a batch of their own, unless another comes first
_HEAD_BYTES = 8_192  # more than the head and the envelope of a request have


class MulticastProtocol:
    def __init__(
        self,
        engine: Engine,
        settings: Settings,
        address: str,
        draw: Callable[[], float],
        is_welcome: Callable[[str], bool] = lambda _address: True,
        refusal: Refusal = lambda _senders, _address: "",
    ) -> None:
        """`address` is that of our interface; `draw` gives random numbers from 0 to 1.

        `[[peers]]` and `only_peers`: `is_welcome` says whether packets of an address are read at all, and
        `refusal` why a message of these queue managers is refused from an address.
        """
        self.address = address
        self.settings = settings
        self.malformed = 0  # packets, since the start
        self._engine = engine
        self._draw = draw
        self._is_welcome = is_welcome
        self._now = 0.0
        self._actions: list[Action] = []
        self._shared = Shared(self._now, allow_loopback=address.startswith("127."))
        self.incoming = Incoming(engine, settings, draw, self._shared, refusal, self._actions_append)
        self._gsi = _gsi(engine.queue_manager.identifier)
        self._queues = engine.carriers.register(self)
        self._current: dict[MulticastFormatName, Source] = {}
        self.sources: dict[Tsi, Source] = {}  # those that are ending, too
        self.sent: Counter[str] = Counter()  # the counts of sources that are gone
        self._senders: dict[QueueState, QueueSender] = {}
        self._settle_at: float | None = None
        self._is_stopped = False

    def _actions_append(self, action: Action) -> None:
        self._actions.append(action)

    # The batch.

    def begin(self, now: float) -> None:
        self._now = max(now, self._now)

    def flush(self) -> None:
        """Before the commit: run the timers, and send what is ready."""
        if self._settle_at is not None and self._settle_at <= self._now:
            self._settle()
        self.incoming.run(self._now)
        self.incoming.settle()
        self.incoming.subscribe()
        if self._is_stopped:
            return
        for queue in self._queues.take_ready():
            self._sender(queue)
        self._send()

    def finish(self, effects: list[Effect]) -> list[Effect]:
        return effects

    def take_actions(self) -> list[Action]:
        for sender in self._senders.values():
            if sender.packets_left() and self._settle_at is None:
                self._settle_at = self._now + _SETTLE_S
        actions = self._actions.copy()
        self._actions.clear()
        return actions

    @property
    def next_deadline(self) -> float | None:
        if self._queues.has_ready and not self._is_stopped:
            return self._now
        sources = (source.next_deadline for source in self.sources.values())
        return earliest(self._settle_at, self.incoming.next_deadline, *sources)

    # Sending.

    def _sender(self, queue: QueueState) -> QueueSender:
        sender = self._senders.get(queue)
        name = _name_of(queue)
        source = self._current.get(name)
        if source is None or source.state not in {State.IDLE, State.ACTIVE}:
            source = self._open(name)
        if sender is None or sender.source is not source:
            ahead = self.settings.rate_bytes_s * self.settings.bucket_s
            sender = QueueSender(self._engine, self._queues, queue, source, ahead)
            self._senders[queue] = sender
        return sender

    def _open(self, name: MulticastFormatName) -> Source:
        """A session with a port of its own, which no session has that others may still remember."""
        tsi = Tsi(self._gsi, 0)
        while not tsi.source_port or tsi in self.sources:
            tsi = Tsi(self._gsi, 1 + int(self._draw() * 0xFFFE))
        # A random first number as well: an older session that had the same port is not taken for this one.
        first = int(self._draw() * 0xFFFF_FFFF)
        source = Source(tsi, str(name.address), name.port, self.address, self.settings, self._now, first)
        self._current[name] = self.sources[tsi] = source
        return source

    def _send(self) -> None:
        """Take messages and run the sources until the rate allows no more."""
        for source in list(self.sources.values()):
            if source.state is State.ACTIVE and source.is_empty and not self._has_work(source):
                source.close()  # nothing was sent for TXW_SECS
        while True:
            before = sum(sender.source.submitted_bytes for sender in self._senders.values())
            if self._engine.queue_manager.connection_active:
                for sender in self._senders.values():
                    sender.serve()
            for source in list(self.sources.values()):
                self._actions += source.run(self._now)
                if source.state is State.GONE:
                    self._forget(source)
            for sender in self._senders.values():
                sender.note_sent()
            if sum(sender.source.submitted_bytes for sender in self._senders.values()) == before:
                return

    def _has_work(self, source: Source) -> bool:
        return any(each.source is source and not each.is_at_rest for each in self._senders.values())

    def _forget(self, source: Source) -> None:
        del self.sources[source.tsi]
        self._current = {name: each for name, each in self._current.items() if each is not source}
        self.sent.update(counts(source))

    def _settle(self) -> None:
        self._settle_at = None
        for queue, sender in list(self._senders.items()):
            sender.settle()
            if queue.is_deleted or (sender.is_at_rest and self._engine.outgoing.retire(queue)):
                del self._senders[queue]

    @property
    def totals(self) -> Counter[str]:
        """The counts of all sources, since the start."""
        found = Counter(self.sent)
        for source in self.sources.values():
            found.update(counts(source))
        return found

    # Inputs.

    def received(self, data: bytes, address: str, to: str) -> None:
        """A packet of a host, to a group or to us."""
        try:
            packet = decode(data)
        except DecodeError:
            self.malformed += 1
            return
        if isinstance(packet, Other) or not self._is_welcome(address):
            return
        if isinstance(packet, Nak) and packet.kind is not PacketType.NCF:
            source = self.sources.get(packet.tsi)
            if source is not None:
                source.receive(packet, self._now)
                return
        self.incoming.receive(packet, address, to, self._now)

    def failed(self, reason: str) -> None:
        """The network did not take a packet."""
        self._actions.append(MulticastEvent("failed", "", "", reason))

    def stop(self) -> None:
        """In the last batch: say that no more will come."""
        self._is_stopped = True
        for sender in self._senders.values():
            sender.withdraw()
        self._settle()
        for source in list(self.sources.values()):
            self._actions += source.last_words()

    # Called by the engine, as a carrier.

    kinds = ("MULTICAST",)

    @staticmethod
    def carries(name: FormatName) -> bool:
        return isinstance(name, MulticastFormatName)

    def check(self, message: Message) -> None:
        """No transactions (SRMP-181), and one APDU at most (SRMP-183)."""
        name = str(message.destination_queue)
        if message.is_transactional:
            problem = "a multicast address takes no transactional messages"
            fix = "send the message outside of a transaction"
            raise UnsupportedFormatNameOperationError(name, problem=problem, fix=fix)
        check_administration_queue(message)
        if len(message.body) + len(message.extension) + _HEAD_BYTES > SENT_APDU_MAX_BYTES:
            size = len(write_request(message, self._engine))
            if size > SENT_APDU_MAX_BYTES:
                problem = "the message with its envelope is too long for multicast"
                raise IllegalPropertySizeError(
                    f"message to {name}",
                    problem=problem,
                    limit=f"{SENT_APDU_MAX_BYTES} bytes",
                    present=size,
                    fix="send a shorter body, or a reference to it",
                )

    def paused(self, queue: QueueState) -> None:
        if (sender := self._senders.get(queue)) is not None:
            sender.withdraw()

    def resumed(self, queue: QueueState) -> None:
        """The engine has it ready again."""

    def message_failed(self, queue: QueueState, reason: MessageClass) -> None:
        """A message that asks for encryption cannot leave."""
        self._actions.append(MulticastEvent("failed", "", str(queue), reason.meaning))


def counts(source: Source) -> dict[str, int]:
    return {"packets": source.originals, "repairs": source.repairs, "naks": source.naks}


def _gsi(identifier: UUID) -> bytes:
    """Global source id: RFC 3208 suggests a part of a digest; ours is of the queue manager's GUID."""
    return hashlib.md5(identifier.bytes, usedforsecurity=False).digest()[10:]


def _name_of(queue: QueueState) -> MulticastFormatName:
    assert isinstance(queue.queue, OutgoingQueue)
    name = queue.queue.destination_format_name
    assert isinstance(name, MulticastFormatName)
    return name
