"""A hostile machine: it connects to the others and lies, and answers when somebody dials it.

It does not see the connections between the others, and no honest machine sends it anything of its own accord.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import count
from random import Random
from typing import Any
from uuid import UUID

from tiercel.binary.actions import Dial
from tiercel.binary.certificate import Certificate
from tiercel.binary.inputs import Inputs
from tiercel.engine.acknowledgements import ACKNOWLEDGEMENTS
from tiercel.engine.machine import Close, Write
from tiercel.model.codes import ConnectionStatus
from tiercel.model.errors import DecodeError
from tiercel.model.identifiers import MessageId
from tiercel.sim.forgery import Forgery
from tiercel.sim.machine import Machine
from tiercel.sim.network import End, Network
from tiercel.sim.schedule import Schedule
from tiercel.sim.sent_messages import SentMessages
from tiercel.sim.trace import Trace
from tiercel.wire.framer import Framer
from tiercel.wire.internal_packets import (
    ConnectionParameters,
    EstablishConnection,
    SessionAck,
)
from tiercel.wire.message import decode_message
from tiercel.wire.order_ack import build_final_ack, build_order_ack
from tiercel.wire.packet import decode_packet
from tiercel.wire.session_header import SessionHeader
from tiercel.wire.user_message import UserMessage

ADDRESS = "10.66.6.6"
_PORT = 1801
_STAYS_S = (0.1, 10.0, 200.0)


@dataclass(slots=True)
class EnemyOptions:
    """What the hostile machine of this seed does."""

    count: int = 10
    duration: float = 120.0
    # Whether the GUIDs of the others are pinned to their addresses. If not, a session in the name of another
    # machine can begin a later sequence in its stream, and the promise ends there.
    is_pinned: bool = False


class Enemy:
    """Its `post` runs commands at once: it has no disk, and no batches."""

    def __init__(
        self,
        machines: list[Machine],
        schedule: Schedule,
        network: Network,
        random: Random,
        trace: Trace,
        sent_messages: SentMessages,
        options: EnemyOptions,
    ) -> None:
        self.name = "ENEMY"
        self.addresses: tuple[str, ...] = (ADDRESS,)
        self.is_up = True
        self.life = 0  # not a queue manager: the reasons for which the others end its sessions do not count
        self.ends: dict[int, End] = {}
        self.protocol: Inputs = self
        self._forgery = Forgery(random, machines, sent_messages)
        self._sent_messages = sent_messages
        self._machines = machines
        self._schedule = schedule
        self._network = network
        self._random = random
        self._trace = trace
        self.options = options
        self._numbers = count(1)
        self._plans: dict[int, list[bytes]] = {}  # to be written once the connection is open
        self._served: dict[int, _Impostor] = {}
        self._dialled: dict[int, Framer] = {}
        network.add(self, "enemy", "enemy.example", is_hostile=True)

    def plan(self) -> None:
        for _ in range(self.options.count):
            self._schedule.at(self._random.random() * self.options.duration, self._attack)

    def end(self) -> None:
        """Leave the others alone from now on."""
        self.is_up = False
        for number in list(self.ends):
            self._network.perform(self, [Close(number)])

    def post(self, command: Callable[[], None]) -> None:
        if self.is_up:
            command()

    # Attacks.

    def _attack(self) -> None:
        if not self.is_up:
            return
        victim = self._random.choice(self._machines)
        other = self._forgery.guid_of(self._random.choice(self._machines))
        claimed = self._forgery.claimed_guid()
        trick, packets = self._choose(victim, other)
        self._trace(
            self.name, f"attacks {victim.name} as {str(claimed)[:8]}: {trick}, {len(packets)} packets"
        )
        number = next(self._numbers)
        setup = [self._forgery.establish(claimed, victim), self._forgery.parameters()]
        self._plans[number] = [*setup, *packets]
        self._network.perform(self, [Dial(number, self._random.choice(victim.addresses), _PORT)])
        self._schedule.after(self._random.choice(_STAYS_S), partial(self._leave, number))

    def _choose(self, victim: Machine, other: UUID) -> tuple[str, list[bytes]]:
        """A trick, and its packets; `other` is a machine that it speaks about, or pretends to be."""
        forgery = self._forgery
        tricks: dict[str, Callable[[], Iterator[bytes]]] = {
            "order_acks": lambda: forgery.order_acks(victim, other),
            "final_acks": lambda: forgery.final_acks(victim, other),
            "transactional": lambda: forgery.transactional(
                victim, other, ahead=self.options.is_pinned and self._random.random() < 0.5
            ),
            "passing": lambda: forgery.passing(
                victim, self._random.choice((other, forgery.guid_of(victim))), ahead=self.options.is_pinned
            ),
            "plain": lambda: forgery.plain(victim, other),
            "flood": lambda: forgery.flood(victim, forgery.guid, ADDRESS),
            "session_acks": lambda: iter([forgery.session_ack() for _ in range(3)]),
            "half": lambda: (packet[: len(packet) // 2] for packet in list(forgery.plain(victim, other))[:1]),
            "silent": lambda: iter(()),
        }
        trick = self._random.choice(list(tricks))
        packets = list(tricks[trick]())
        if trick != "half" and packets and self._random.random() < 0.2:
            packets.append(forgery.session_ack())
        return trick, packets

    def _leave(self, number: int) -> None:
        if number in self.ends:
            self._network.perform(self, [Close(number)])

    def _write(self, number: int, data: bytes) -> None:
        self._network.perform(self, [Write(number, data)])

    # Network events: `Inputs`.

    def connected(self, connection: int, certificate: Certificate | None = None) -> None:
        del certificate
        self._dialled[connection] = Framer()
        for packet in self._plans.pop(connection, ()):
            self._write(connection, packet)

    def connect_failed(
        self, connection: int, status: ConnectionStatus, error: int = 0, reason: str = ""
    ) -> None:
        del status, error, reason
        self._plans.pop(connection, None)

    def accepted(self, address: str, certificate: Certificate | None = None) -> int:
        del certificate
        number = next(self._numbers)
        self._trace(self.name, f"is dialled from {address}")
        self._served[number] = _Impostor(self._forgery, partial(self._write, number), self._overhear)
        return number

    def _overhear(self, packet: UserMessage) -> None:
        """An acknowledgement that another machine should have got; not if GUIDs are pinned."""
        if packet.message_class in ACKNOWLEDGEMENTS and not self.options.is_pinned:
            message = decode_message(packet)
            self._sent_messages.stolen[message.correlation_id][packet.message_class] += 1

    def received(self, connection: int, data: bytes) -> None:
        if (impostor := self._served.get(connection)) is not None:
            impostor.receive(data)
        elif (framer := self._dialled.get(connection)) is not None:
            framer.receive(data)
            for packet in map(decode_packet, framer.packets()):
                if isinstance(packet, UserMessage):
                    self._overhear(packet)

    def disconnected(self, connection: int, error: int = 0) -> None:
        del error
        self._served.pop(connection, None)
        self._dialled.pop(connection, None)

    def has_carried(self, connection: int) -> bool:
        return connection in self._served

    def writable(self, connection: int, *, is_writable: bool) -> None: ...

    def resolved(self, host: str, addresses: list[str]) -> None: ...

    def unwrapped(self, connection: int, result: Any) -> None: ...

    def datagram(self, address: str, port: int, data: bytes, *, is_reply: bool) -> None: ...


class _Impostor:
    """The other side of a connection that an honest machine has dialled: everything is acknowledged."""

    def __init__(
        self, forgery: Forgery, write: Callable[[bytes], None], overhear: Callable[[UserMessage], None]
    ) -> None:
        self._forgery = forgery
        self._overhear = overhear
        self._write = write
        self._framer = Framer()
        self._received = self._recoverable = self._sent = self._stored = 0
        self._ids = count(1)

    def receive(self, data: bytes) -> None:
        self._framer.receive(data)
        try:
            for packet in self._framer.packets():
                self._take(packet)
        except DecodeError:
            return

    def _take(self, data: bytes) -> None:
        match decode_packet(data):
            case EstablishConnection() as request:
                self._write(self._forgery.answer(request))
            case ConnectionParameters():
                self._write(self._forgery.parameters())
            case SessionAck():
                pass
            case packet:
                self._acknowledge(packet if isinstance(packet, UserMessage) else packet.message)

    def _acknowledge(self, packet: UserMessage) -> None:
        self._received += 1
        self._overhear(packet)
        if packet.is_recoverable:
            self._recoverable += 1
        if packet.is_transactional:
            source, sequence = packet.source_queue_manager, packet.sequence
            self._say(build_order_ack(self._id(), packet.sent_time, source, *sequence), recoverable=False)
            ended = build_final_ack(self._id(), packet.sent_time, self._forgery.end(), packet)
            self._say(ended, recoverable=True)
        header = SessionHeader(
            self._received & 0xFFFF, self._recoverable & 0xFFFF, 1, self._sent, self._stored
        )
        self._write(SessionAck.of(header).encode())

    def _say(self, packet: UserMessage, *, recoverable: bool) -> None:
        self._sent += 1
        self._stored += recoverable
        self._write(packet.data)

    def _id(self) -> MessageId:
        return MessageId(self._forgery.guid, next(self._ids))
