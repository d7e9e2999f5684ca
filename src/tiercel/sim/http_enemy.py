"""A hostile client over HTTP: it knows everything but the tokens of receipts URLs, and posts lies.

GUIDs, names and message ids are public or easy to guess, and so that nothing depends on it, this client also
knows the ids of the streams that the machines are sending. Anyone can begin a new stream in the name of
another machine, and the promise to that machine ends there: only machines that pin the GUIDs of the others
(`[[peers]]`) meet such requests.
"""

from collections.abc import Callable, Iterator
from random import Random
from uuid import UUID

from tiercel.model.codes import Acknowledgements, DeliveryGuarantee, MessageClass
from tiercel.model.format_name import FormatName
from tiercel.model.identifiers import MessageId, TxSequenceId
from tiercel.model.message import Message
from tiercel.sim.checkers import contents
from tiercel.sim.enemy import ADDRESS, EnemyOptions
from tiercel.sim.http_port import HttpPort
from tiercel.sim.machine import Machine
from tiercel.sim.network import Network, Stranger
from tiercel.sim.schedule import Schedule
from tiercel.sim.sent_messages import Kind, SentMessages, foreign
from tiercel.sim.setup import NAMES, PLAIN_QUEUES, TRANSACTIONAL_QUEUES, installed
from tiercel.sim.trace import Trace
from tiercel.srmp.envelope import Envelope
from tiercel.srmp.message import envelope_of
from tiercel.srmp.receipts import Stamp, final_stream_receipt, stream_receipt
from tiercel.srmp.request import write_srmp
from tiercel.srmp.values import StreamId
from tiercel.wire.message import decode_message
from tiercel.wire.structure import decode_tx_sequence_id
from tiercel.wire.user_message import UserMessage

_DAY = 86_400
_MESSAGE_IDS = 60  # those that come early in a world
_FAR = 100_000  # a number that no stream of a world reaches
_ENDS = (
    MessageClass.ACK_RECEIVE,
    MessageClass.NACK_Q_PURGED,
    MessageClass.NACK_RECEIVE_TIMEOUT,
)


class HttpEnemy:
    def __init__(
        self,
        ports: list[HttpPort],
        schedule: Schedule,
        network: Network,
        random: Random,
        trace: Trace,
        sent_messages: SentMessages,
        options: EnemyOptions,
    ) -> None:
        self._ports = ports
        self._schedule = schedule
        self._network = network
        self._random = random
        self._trace = trace
        self._sent_messages = sent_messages
        self._options = options
        self._guid = UUID(int=random.getrandbits(128), version=4)
        self._is_over = False

    def plan(self) -> None:
        for _ in range(self._options.count):
            self._schedule.at(self._random.random() * self._options.duration, self._attack)

    def end(self) -> None:
        """Leave the others alone from now on."""
        self._is_over = True

    def _attack(self) -> None:
        victim = self._random.choice(self._ports)
        if self._is_over or not victim.is_up:
            return
        tricks: list[Callable[[Machine], Iterator[bytes]]] = [
            *[self._stream_receipts] * 4,  # most are too early or too late to do any harm
            self._final_receipts,
            self._gaps,
            self._old_streams,
            self._plain,
            self._flood,
            self._repeats,
            self._not_messages,
        ]
        if self._options.is_pinned:
            tricks.append(self._later_streams)
        trick = self._random.choice(tricks)
        requests = list(trick(victim.machine))
        self._trace("ENEMY", f"posts to {victim.name}: {trick.__name__[1:]}, {len(requests)} requests")
        data, stays = b"".join(requests), self._random.random() < 0.3
        self._network.intrude(Stranger(ADDRESS), victim, data, stays=stays)

    # Receipts for messages of the victim.

    def _stream_receipts(self, victim: Machine) -> Iterator[bytes]:
        for stream_id, sent in self._streams(victim):
            number = self._random.choice((sent, sent, sent + 1, 0x7FFF_FFFF))
            to = f"http://{victim.name}/MSMQ/PRIVATE$/order_queue${self._token()}"
            yield _request(stream_receipt(stream_id, max(number, 1), to, to, self._stamp(victim)))

    def _final_receipts(self, victim: Machine) -> Iterator[bytes]:
        to = f"http://{victim.name}/MSMQ/PRIVATE$/order_queue${self._token()}"
        for _, _, record in contents(victim):
            packet = UserMessage(record.packet)
            if packet.is_transactional and packet.source_queue_manager == _guid(victim):
                ended = decode_message(packet)
                ended.destination_queue = _queue(victim, "orders")
                original = envelope_of(ended, stream_sender=_guid(victim))
                end, now = self._random.choice(_ENDS), int(victim.wall_clock())
                yield _request(final_stream_receipt(original, to, end, now, self._stamp(victim)))

    def _streams(self, machine: Machine) -> list[tuple[StreamId, int]]:
        """The streams that a machine is sending over HTTP, and how far they are."""
        outgoing = machine.engine.outgoing
        streams = [outgoing.stream(queue) for queue in outgoing.queues()]
        own = _guid(machine)
        return [
            (StreamId(own, decode_tx_sequence_id(stream.sequence)), stream.sent)
            for stream in streams
            if stream.sequence
        ]

    def _token(self) -> str:
        return self._random.choice(("", f"?senderstream={self._random.getrandbits(128):032x}"))

    def _stamp(self, victim: Machine) -> Stamp:
        return Stamp(self._message_id(), int(victim.wall_clock()))

    # Messages in the streams of others.

    def _gaps(self, victim: Machine) -> Iterator[bytes]:
        """Of streams that others are sending, and far ahead in them."""
        for machine in self._machines:
            for stream_id, _ in self._streams(machine):
                yield self._of_stream(victim, stream_id, _FAR + self._random.randint(0, 9))

    def _old_streams(self, victim: Machine) -> Iterator[bytes]:
        """Older than any that an honest machine has begun."""
        past = int(victim.wall_clock()) - 30 * _DAY
        for machine in self._machines:
            yield self._of_stream(victim, StreamId(_guid(machine), TxSequenceId(past, 7)), 2)

    def _later_streams(self, victim: Machine) -> Iterator[bytes]:
        now = int(victim.wall_clock())
        for machine in self._machines:
            timestamp = now + self._random.choice((1, _DAY // 2, 30 * _DAY))
            yield self._of_stream(victim, StreamId(_guid(machine), TxSequenceId(timestamp, 1)), 1)

    def _of_stream(self, victim: Machine, stream_id: StreamId, number: int) -> bytes:
        message = self._message(victim, Kind.TRANSACTIONAL, self._random.choice(TRANSACTIONAL_QUEUES))
        message.transaction_id = 0
        message.tx_sequence_id, message.tx_sequence_number = stream_id.sequence, number
        message.previous_tx_sequence_number = number - 1
        receipts_url = f"http://{ADDRESS}/msmq/private$/order_queue$"
        envelope = envelope_of(message, stream_sender=stream_id.sender, receipts_url=receipts_url)
        return _request(envelope, message.body)

    # Messages outside of streams.

    def _plain(self, victim: Machine) -> Iterator[bytes]:
        """Messages with ids that another machine may be about to use."""
        for _ in range(self._random.choice((1, 10))):
            kind = self._random.choice((Kind.EXPRESS, Kind.RECOVERABLE))
            message = self._message(victim, kind, self._random.choice(PLAIN_QUEUES))
            yield _request(envelope_of(message), message.body)

    def _flood(self, victim: Machine) -> Iterator[bytes]:
        """Messages whose receipts go to computers that do not exist, or to itself."""
        for number in range(self._random.choice((5, 30))):
            message = self._message(victim, Kind.EXPRESS, PLAIN_QUEUES[0])
            message.id = message.id._replace(lineage=self._guid)
            host = self._random.choice((f"nobody{number % 3}", ADDRESS))
            message.acknowledgements = int(Acknowledgements.POS_ARRIVAL)
            message.administration_queue = FormatName.parse(f"DIRECT=HTTP://{host}/msmq/private$/admin")
            yield _request(envelope_of(message), message.body)

    def _repeats(self, victim: Machine) -> Iterator[bytes]:
        """What an honest machine has posted to the victim before."""
        for end in self._network.recorded:
            is_http = isinstance(end.host, HttpPort)
            if is_http and end.sent and end.peer is not None and end.peer.host.name == victim.name:
                yield bytes(end.sent)

    def _not_messages(self, victim: Machine) -> Iterator[bytes]:
        (whole,) = self._of_one(victim)
        yield self._random.choice(
            (
                whole[: len(whole) // 2],
                b"GET /msmq/private$/orders HTTP/1.1\r\nHost: x\r\n\r\n",
                b"POST /msmq/private$/orders HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc",
                whole.replace(b"</se:Envelope>", b""),
                self._random.randbytes(600),
            )
        )

    def _of_one(self, victim: Machine) -> list[bytes]:
        message = self._message(victim, Kind.EXPRESS, PLAIN_QUEUES[0])
        return [_request(envelope_of(message), message.body)]

    @property
    def _machines(self) -> list[Machine]:
        return [port.machine for port in self._ports if port.is_up]

    def _message(self, victim: Machine, kind: Kind, queue: str) -> Message:
        label = f"X{len(self._sent_messages.foreign) + 1}"
        self._sent_messages.foreign[label] = foreign(label, kind, victim, queue)
        is_recoverable = kind is not Kind.EXPRESS
        message = Message(
            label.encode(),
            label=label,
            delivery=DeliveryGuarantee.RECOVERABLE if is_recoverable else DeliveryGuarantee.EXPRESS,
            destination_queue=_queue(victim, queue),
        )
        message.sent_time = int(victim.wall_clock())
        message.id = self._message_id()
        return message

    def _message_id(self) -> MessageId:
        machine = self._random.choice(self._ports).machine
        return MessageId(_guid(machine), self._random.randint(1, _MESSAGE_IDS))


def _guid(machine: Machine) -> UUID:
    return installed(NAMES.index(machine.name))[0]


def _queue(machine: Machine, queue: str) -> FormatName:
    return FormatName.parse(f"DIRECT=HTTP://{machine.name}/msmq/private$/{queue}")


def _request(envelope: Envelope, body: bytes = b"") -> bytes:
    return write_srmp(envelope, body or None, content_guid=envelope.path.id.lineage).encode()
