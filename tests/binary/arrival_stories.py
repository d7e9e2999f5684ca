"""The same bytes twice: once with messages taken together, once one by one. Nobody may see a difference.

A story is drawn from a seed: peers send bursts of messages that are alike, with others mixed in, cut into
reads at random; sessions are lost, messages repeated, and the machine dies in the middle of a batch. Some of
the messages are passed on, and applications send others, to a far queue manager, which acknowledges any part
of a run, repeats itself, lies, or hangs up. `tell` plays the story on a queue manager and returns everything
that can be seen of it: the store, the bytes on every connection, and what else it did.

    python tests/binary/arrival_stories.py SEEDS [FROM]     tells more stories than the test suite
"""

import struct
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from unittest.mock import patch
from uuid import UUID

sys.path.insert(0, str(Path(__file__).parents[1]))

from binary.site import NOW, SYSTEM, Peer, Site, establish
from tiercel.binary.actions import Action
from tiercel.binary.settings import Peer as PeerSettings
from tiercel.engine.delivery import Delivery
from tiercel.engine.outgoing import Outgoing
from tiercel.engine.queue_state import QueueState
from tiercel.engine.taken import Taken
from tiercel.model.codes import Acknowledgements, QueueAccess
from tiercel.model.errors import IoTimeoutError, MqError
from tiercel.model.format_name import FormatName
from tiercel.model.identifiers import MessageId, TxSequenceId
from tiercel.model.message import Message
from tiercel.model.sid import SecurityIdentifier
from tiercel.store.interface import Keyspace
from tiercel.store.memory_store import Crash, MemoryStore, Write
from tiercel.wire.alike import Alike
from tiercel.wire.base_header import TRACING
from tiercel.wire.internal_packets import EstablishConnection, SessionAck
from tiercel.wire.message import encode_message
from tiercel.wire.order_ack import build_order_ack
from tiercel.wire.user_message import UserMessage

SENDERS = (UUID(int=0xA, version=4), UUID(int=0xB, version=4))
FAR = UUID(int=0xF, version=4)  # another queue manager: what is for it is passed on
FAR_ORDERS = rf"PRIVATE={FAR}\0000000b"
PLAIN, IN_ORDER = ("q", "small", "journaled"), ("tx", "small_tx")
QUEUES = (*PLAIN, *IN_ORDER)
DESTINATIONS = (*QUEUES, "far")
SMALL_KIB = 12
STEPS = 20
_SID = SecurityIdentifier.parse("S-1-5-21-1-2-3-1001").encode()


class Told(NamedTuple):
    """What can be seen of a queue manager after a story."""

    store: dict[Keyspace, dict[bytes, bytes]]
    wires: list[bytes]
    actions: list[list[tuple[int, Action]]]  # of each life
    doubts: list[Any]


class Sender:
    """What one queue manager has sent, and would send next."""

    def __init__(self, random: Random, guid: UUID) -> None:
        self._random = random
        self.guid = guid
        self._number = 0
        self._sequences = dict.fromkeys(IN_ORDER, TxSequenceId(NOW, 1))
        self._places = dict.fromkeys(IN_ORDER, 0)
        self.sent: list[bytes] = []

    def burst(self) -> Iterator[bytes]:
        """Messages that are alike, but for some."""
        random = self._random
        queue = random.choice(DESTINATIONS)
        common = self._properties()
        size, mixed_in = random.choice((0, 10, 1000)), random.choice((0, 0, 0.01, 0.1))
        for _ in range(random.choice((1, 2, 5, 30, 70, 300))):
            packet = self._message(queue, common, random.randbytes(size))
            if random.random() < mixed_in:
                packet = self._other(packet, queue, common)
            self.sent.append(packet)
            yield packet

    def _properties(self) -> dict[str, Any]:
        random = self._random
        choices: list[dict[str, Any]] = [
            {},
            {"delivery": 0},
            {"priority": 6},
            {"time_to_be_received": 3},
            {"time_to_reach_queue": 2},
            {"label": "order 7"},
            {"application_tag": 7, "correlation_id": bytes(range(20))},
            {"negative_journaling": True},
            {"positive_journaling": True},
            {"sender_id": _SID},
            {"trace": True},
            {
                "administration_queue": FormatName.parse(r"DIRECT=OS:SITE\private$\q"),
                "acknowledgements": Acknowledgements.FULL_REACH_QUEUE,
            },
        ]
        return {"delivery": 1} | random.choice([{}, {}, random.choice(choices)])

    def _message(self, queue: str, common: dict[str, Any], body: bytes) -> bytes:
        self._number += 1
        properties = dict(common)
        is_traced = properties.pop("trace", False)
        if queue in IN_ORDER:
            self._places[queue] += 1
            properties |= {
                "transaction_id": self._places[queue] // 3 + 1,
                "tx_sequence_id": self._sequences[queue],
                "tx_sequence_number": self._places[queue],
                "previous_tx_sequence_number": self._places[queue] - 1,
            }
        message = Message(
            body,
            destination_queue=_name(queue),
            id=MessageId(self.guid, self._number),
            sent_time=NOW,
            **properties,
        )
        packet = encode_message(message)
        return _patched(packet, 2, packet[2] | TRACING & 0xFF) if is_traced else packet

    def _other(self, packet: bytes, queue: str, common: dict[str, Any]) -> bytes:
        """Another message in its place."""
        random = self._random

        def begin_again() -> bytes:
            if queue in IN_ORDER:
                ahead = random.choice((1, 1, 5_000_000))  # seconds; more than a day is not believed
                self._sequences[queue] = TxSequenceId(self._sequences[queue].timestamp + ahead, 1)
                self._places[queue] = 0
            return self._message(queue, common, b"")

        def gap() -> bytes:
            if queue in IN_ORDER:
                self._places[queue] += 2
            return self._message(queue, common, b"after a gap")

        others: list[Callable[[], bytes]] = [
            lambda: random.choice(self.sent) if self.sent else packet,  # once more
            lambda: self._message(queue, common | {"priority": 1}, b"other priority"),
            lambda: self._message(queue, common | {"time_to_be_received": 1}, b"soon over"),
            lambda: self._message(random.choice(DESTINATIONS), common, b"elsewhere"),
            lambda: self._message("nowhere", common, b"no such queue"),
            lambda: self._message(queue, common, b"another size"),
            lambda: _patched(packet, 52, random.randrange(256)),  # SentTime
            lambda: _patched(packet, random.randrange(len(packet)), random.randrange(256)),
            lambda: UserMessage(packet).with_session(Peer.header(self._peer_counts())),
            gap,
            begin_again,
        ]
        return random.choice(others)()

    def _peer_counts(self) -> Any:
        """Numbers that are right by chance only."""

        class Counts:
            sent = recoverable_sent = len(self.sent)

        return Counts()


class Story:
    def __init__(self, seed: int) -> None:
        self._random = Random(seed)  # a test
        self._senders = [Sender(self._random, guid) for guid in SENDERS]
        self._site = self._start(MemoryStore())
        self._peers: dict[UUID, Peer] = {}
        self._far: Peer | None = None
        self._told = Told({}, [], [], [])
        self._create_queues()

    def _start(self, store: MemoryStore) -> Site:
        peers = tuple(PeerSettings(guid=guid, addresses=("0.0.0.0/0",)) for guid in SENDERS)
        return Site(store, peers=peers, routing_server=True, machines={FAR: ("192.0.2.99",)})

    def _create_queues(self) -> None:
        for name in QUEUES:
            state = self._site.creates(name, transactional=name in IN_ORDER)
            attributes: dict[str, Any] = {}
            if name.startswith("small"):
                attributes["quota_kib"] = SMALL_KIB
            if name == "journaled":
                attributes["journaling"] = True
            if attributes:
                self._site.run(partial(self._site.engine.queues.set_properties, state, SYSTEM, **attributes))

    def tell(self) -> Told:
        acts = [self._send, self._send, self._send, self._hang_up, self._wait, self._receive, self._quota]
        acts += [self._send_away, self._send_away, *[self._hear_from_far] * 6]
        for _ in range(STEPS):
            self._random.choice(acts)()
        self._site.wait(30_000)
        self._end_life()
        spaces = {space: dict(rows) for space, rows in self._site.store.spaces.items()}
        return self._told._replace(store=spaces)

    def _end_life(self) -> None:
        self._told.wires.extend(peer.raw for peer in self._site.peers.values())
        self._told.actions.append(self._site.actions)
        self._told.doubts.append(self._site.protocol.doubts)

    # What happens.

    def _send(self) -> None:
        random = self._random
        sender = random.choice(self._senders)
        packets = list(sender.burst())
        if random.random() < 0.3:
            packets += sender.burst()
        data = b"".join(packets)
        cuts = sorted(random.randrange(len(data) + 1) for _ in range(random.choice((0, 0, 1, 3, 9))))
        fatal = random.choice((None, None, None, random.randint(1, 60)))
        kept = random.random() < 0.5
        for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
            self._say(sender, data[start:end], fatal, kept=kept)

    def _say(self, sender: Sender, data: bytes, fatal: int | None, *, kept: bool) -> None:
        self._in_danger(self._connected(sender), data, fatal, kept=kept)

    def _in_danger(self, peer: Peer, data: bytes, fatal: int | None, *, kept: bool) -> None:
        """`fatal`: the machine dies before so many writes of the batch, at the latest with its commit."""
        store, writes = self._site.store, self._site.store.writes

        def fault(write: Write, number: int) -> None:
            is_end, done = write is Write.COMMIT, number - writes - 1
            if done >= (fatal or 0) or (is_end and done):  # a batch that only reads does not matter
                raise Crash(kept=kept and is_end)

        store.faults = None if fatal is None else fault
        try:
            peer.says(data)
        except Crash:
            self._restart()
        store.faults = None

    def _connected(self, sender: Sender) -> Peer:
        peer = self._peers.get(sender.guid)
        if peer is not None and not peer.is_closed:
            return peer
        peer = self._peers[sender.guid] = self._site.accepts(sender.guid)
        peer.says(establish(sender.guid), peer.parameters(window=64))
        repeated = sender.sent[-self._random.choice((1, 20, 100)) :]
        if self._random.random() < 0.7 and not peer.is_closed:  # what it may not know to be there
            peer.says(b"".join(repeated))
        return peer

    def _hang_up(self) -> None:
        for peer in self._peers.values():
            if not peer.is_closed:
                peer.hangs_up()

    def _restart(self) -> None:
        self._end_life()
        elapsed_ms = self._site.elapsed_ms
        self._site = self._start(self._site.store.crash())
        self._site.elapsed_ms = elapsed_ms
        self._peers.clear()
        self._far = None

    # The far queue manager, and what leaves for it.

    def _send_away(self) -> None:
        """An application sends to the far queue manager."""
        random = self._random
        choices: list[dict[str, Any]] = [
            {"priority": 6},
            {"time_to_reach_queue": 3},
            {"time_to_be_received": 5},
            {"positive_journaling": True},
            {"negative_journaling": True},
            {"delivery": 0},
        ]
        properties = {"delivery": 1} | random.choice([{}, {}, random.choice(choices)])
        bodies = [random.randbytes(10) for _ in range(random.choice((1, 3, 40, 150)))]
        is_transactional = random.random() < 0.5
        with suppress(MqError):  # there is no room for all of them
            self._site.sends(*bodies, to=FAR_ORDERS, transactional=is_transactional, **properties)

    def _hear_from_far(self) -> None:
        """It is there at last, or says something."""
        random = self._random
        if self._far is None or self._far.is_closed:
            self._reach_far()
            return
        acts = [self._far_acks] * 5 + [self._far_orders] * 3 + [lambda _far: _far.hangs_up()]
        random.choice(acts)(self._far)

    def _reach_far(self) -> None:
        if not self._site.dials:
            self._site.wait(10_000)
        if not self._site.dials:
            return
        self._far = self._site.connects(FAR)
        if self._far.has_heard:  # else all messages for it have ended, and the site has hung up
            self._far.answers(self._far.hears(EstablishConnection))
            self._far.says(self._far.parameters(window=self._random.choice((1, 7, 64))))

    def _far_acks(self, far: Peer) -> None:
        """A part of what was sent, all of it, or what was not."""
        random, flight = self._random, far.session.flight
        received = random.choice((flight.sent, flight.sent, flight.sent - random.randint(0, 9), 40_000))
        stored = flight.recoverable_sent
        first = random.choice((stored, stored, stored - random.randint(0, 40), 0, 30_000))
        flags = random.choice((0, 0xFFFF_FFFF, random.getrandbits(32)))
        data = SessionAck.of(far.header(received & 0xFFFF, max(first, 0) & 0xFFFF, flags)).encode()
        fatal = random.choice((None, None, None, random.randint(1, 60)))
        self._in_danger(far, data * random.choice((1, 1, 2)), fatal, kept=random.random() < 0.5)

    def _far_orders(self, far: Peer) -> None:
        """An OrderAck, of messages that were sent or of others."""
        outgoing, random = self._site.engine.outgoing, self._random
        for queue in outgoing.queues():
            stream = outgoing.stream(queue)
            number = random.choice((stream.sent, random.randint(0, stream.sent), stream.sent + 1))
            if stream.sequence and not far.is_closed:
                ack = build_order_ack(MessageId(FAR, number), NOW, self._site.guid, stream.sequence, number)
                far.sends(ack.data)

    def _wait(self) -> None:
        self._site.wait(self._random.choice((100, 1000, 20_000)))

    def _receive(self) -> None:
        """Takes some messages, or waits for the next one."""
        name = FormatName.parse(rf"DIRECT=OS:.\private$\{self._random.choice(QUEUES)}")
        timeout, engine = self._random.choice((0, 0, 60)), self._site.engine
        for _ in range(self._random.choice((1, 20))):
            with suppress(IoTimeoutError):
                opened = self._site.run(partial(engine.opening.open, name, QueueAccess.RECEIVE, token=SYSTEM))
                self._site.run(partial(engine.reading.receive, opened, timeout))

    def _quota(self) -> None:
        """Of the queue manager: room for a part of the next run."""
        kib = self._random.choice((1, 20, 8192, 8192))
        administration = self._site.engine.administration
        self._site.run(lambda: administration.set_properties(queue_manager_quota_kib=kib))


def _name(queue: str) -> FormatName:
    return FormatName.parse(
        rf"PRIVATE={FAR}\0000000a" if queue == "far" else rf"DIRECT=OS:SITE\private$\{queue}"
    )


def _patched(packet: bytes, at: int, byte: int) -> bytes:
    return packet[:at] + struct.pack("B", byte) + packet[at + 1 :]


def tell_of_runs(seed: int) -> tuple[Told, list[int], list[int]]:
    """The story of a seed; and how many messages were stored together, and have left, each time."""
    stored: list[int] = []
    left: list[int] = []
    accept, take = Delivery.accept_alike, Outgoing.take

    def noted(self: Delivery, queue: QueueState, messages: Alike) -> None:
        stored.append(len(messages))
        accept(self, queue, messages)

    def taken(self: Outgoing, *arguments: Any) -> list[Taken]:
        runs = take(self, *arguments)
        left.extend(map(len, runs))
        return runs

    with patch.object(Delivery, "accept_alike", noted), patch.object(Outgoing, "take", taken):
        return Story(seed).tell(), stored, left


def tell_one_by_one(seed: int) -> Told:
    def singles(packets: Iterable[bytes]) -> Iterator[Alike]:
        return map(Alike, map(UserMessage, packets))

    with (
        patch("tiercel.wire.framer.take_alike", lambda first, _data, _at: Alike(first)),
        patch("tiercel.engine.delivery.by_shape", singles),
        patch("tiercel.engine.outgoing.by_shape", singles),
    ):
        return Story(seed).tell()


def differences(seed: int) -> list[str]:
    """What is not the same, if anything."""
    (together, _, _), one_by_one = tell_of_runs(seed), tell_one_by_one(seed)
    found = [
        name
        for name in ("wires", "actions", "doubts")
        if getattr(together, name) != getattr(one_by_one, name)
    ]
    return found + [
        f"keyspace {space}" for space in Keyspace if together.store[space] != one_by_one.store[space]
    ]


def main() -> None:
    seeds, first = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1
    for seed in range(first, first + seeds):
        if found := differences(seed):
            sys.exit(f"seed {seed}: {', '.join(found)} differ")
    print(f"{seeds} stories, the first of seed {first}: no difference")  # noqa: T201  # a script


if __name__ == "__main__":
    main()
