"""The packets of a hostile machine: everything that can be made from what is public.

Public are names, addresses, GUIDs and queue numbers, the seconds at which the machines started, and message
ids, which are small numbers. The ordinal of a sequence is random, so it can only be guessed.
"""

from collections.abc import Iterator
from random import Random
from uuid import UUID

from tiercel.model.codes import Acknowledgements, DeliveryGuarantee, MessageClass
from tiercel.model.format_name import FormatName
from tiercel.model.identifiers import NULL_GUID, MessageId, TxSequenceId
from tiercel.model.message import Message
from tiercel.sim.machine import START, Machine
from tiercel.sim.sent_messages import Kind, SentMessages, foreign
from tiercel.sim.setup import NAMES, PLAIN_QUEUES, TRANSACTIONAL_QUEUES, installed
from tiercel.wire.internal_packets import (
    ConnectionParameters,
    ConnectionParametersHeader,
    EstablishConnection,
    EstablishConnectionHeader,
    SessionAck,
)
from tiercel.wire.message import encode_message
from tiercel.wire.order_ack import build_final_ack, build_order_ack
from tiercel.wire.session_header import SessionHeader
from tiercel.wire.structure import encode_tx_sequence_id
from tiercel.wire.user_message import UserMessage

_DAY = 86_400
_MESSAGE_IDS = 60  # those that come early in a world
_ORDINALS = 8
_NUMBERS = (1, 1, 2, 5, 20, 0x7FFF_FFFF, 0xFFFF_FFFF)
_ENDS = (
    MessageClass.ACK_RECEIVE,
    MessageClass.ACK_RECEIVE,
    MessageClass.NACK_BAD_DST_Q,
    MessageClass.NACK_RECEIVE_TIMEOUT,
    MessageClass.NACK_ACCESS_DENIED,
)


class Forgery:
    def __init__(self, random: Random, machines: list[Machine], sent_messages: SentMessages) -> None:
        self.guid = UUID(int=random.getrandbits(128), version=4)  # its own, if it does not lie
        self._random = random
        self._machines = machines
        self._sent_messages = sent_messages
        self._started: dict[Machine, list[int]] = {machine: [START] for machine in machines}
        for machine in machines:
            machine.starting.append(lambda machine=machine: self._has_started(machine))  # type: ignore[misc]

    def _has_started(self, machine: Machine) -> None:
        self._started[machine].append(int(machine.wall_clock()))

    def guid_of(self, machine: Machine) -> UUID:
        return installed(NAMES.index(machine.name))[0]

    def claimed_guid(self) -> UUID:
        """The GUID that it gives as its own in a session."""
        return self._random.choice([self.guid, *(self.guid_of(machine) for machine in self._machines)])

    # Sessions.

    def establish(self, claimed: UUID, victim: Machine) -> bytes:
        server = self._random.choice((NULL_GUID, self.guid_of(victim)))
        return EstablishConnection.of(EstablishConnectionHeader(claimed, server)).encode()

    def answer(self, request: EstablishConnection) -> bytes:
        """The answer to somebody who has dialled this machine."""
        header = EstablishConnectionHeader(
            request.header.client_guid, self.claimed_guid(), request.header.time_stamp
        )
        return EstablishConnection.of(header).encode()

    def parameters(self) -> bytes:
        window = self._random.choice((64, 64, 0, 1, 0xFFFF))
        timeout = self._random.choice((500, 20_000, 0, 0xFFFF_FFFF))
        return ConnectionParameters.of(
            ConnectionParametersHeader(timeout, timeout, window_size=window)
        ).encode()

    def session_ack(self) -> bytes:
        return SessionAck.of(self.session_header()).encode()

    def session_header(self) -> SessionHeader:
        """Acknowledges messages that were never sent, and counts those that it has not sent."""
        draw = self._random.choice
        return SessionHeader(
            draw((0, 1, 5, 64, 0xFFFF)),
            draw((0, 1, 5, 0xFFFF)),
            draw((0, 1, 0xFFFF_FFFF)),
            draw((0, 1, 9)),
            draw((0, 1, 9)),
            draw((0, 1, 64, 0xFFFF)),
        )

    # Acknowledgements.

    def sequence(self, machine: Machine) -> TxSequenceId:
        """A guess at a sequence of a machine: its TimeStamp is easy to know, its ordinal is not."""
        timestamp = self._random.choice(self._started[machine]) + self._random.choice((0, 0, 0, -1, 1))
        ordinal = self._random.choice((self._random.randint(1, _ORDINALS), self._random.getrandbits(31)))
        return TxSequenceId(timestamp, ordinal)

    def order_acks(self, victim: Machine, source: UUID) -> Iterator[bytes]:
        for _ in range(self._random.choice((1, 20, 80))):
            yield build_order_ack(
                self._message_id(source),
                int(victim.wall_clock()),
                self.guid_of(victim),
                encode_tx_sequence_id(self.sequence(victim)),
                self._random.choice(_NUMBERS),
            ).data

    def final_acks(self, victim: Machine, source: UUID) -> Iterator[bytes]:
        for _ in range(self._random.choice((1, 20, 80))):
            ended = Message(
                b"",
                transaction_id=1,
                tx_sequence_id=self.sequence(victim),
                tx_sequence_number=self._random.choice(_NUMBERS),
                destination_queue=self._queue(victim, "orders"),
            )
            ended.id = self._message_id(self.guid_of(victim))
            yield build_final_ack(
                self._message_id(source),
                int(victim.wall_clock()),
                self.end(),
                UserMessage(encode_message(ended)),
            ).data

    def end(self) -> MessageClass:
        return self._random.choice(_ENDS)

    def _message_id(self, source: UUID) -> MessageId:
        return MessageId(source, self._random.randint(1, _MESSAGE_IDS))

    # Messages.

    def transactional(self, victim: Machine, source: UUID, *, ahead: bool) -> Iterator[bytes]:
        """Messages that come early or late in a stream, or leave gaps in it.

        With `ahead`, of sequences that begin later than those of any honest sender.
        """
        now = int(victim.wall_clock())
        late = (0, now + self._random.randint(1, _DAY), now + 30 * _DAY, 0xFFFF_FFFF)
        sequence = self._random.choice((TxSequenceId(1, 1), TxSequenceId(now - _DAY, 7)))
        if ahead:
            sequence = TxSequenceId(self._random.choice(late), self._random.getrandbits(32))
        for _ in range(self._random.choice((1, 5))):
            number = self._random.choice(_NUMBERS)
            previous = self._random.choice((0, 0, number - 1, number))
            yield self._message(
                victim,
                source,
                Kind.TRANSACTIONAL,
                transaction_id=1,
                tx_sequence_id=sequence,
                tx_sequence_number=number,
                previous_tx_sequence_number=previous,
                positive_journaling=self._random.random() < 0.5,
            )

    def plain(self, victim: Machine, source: UUID) -> Iterator[bytes]:
        """Messages with ids that another machine may be about to use."""
        for _ in range(self._random.choice((1, 20, 80))):
            kind = self._random.choice((Kind.EXPRESS, Kind.RECOVERABLE))
            yield self._message(victim, source, kind)

    def passing(self, victim: Machine, source: UUID, *, ahead: bool) -> Iterator[bytes]:
        """Messages for another machine, which a router would pass on.

        With `ahead`, perhaps of sequences that begin later than those of an honest sender.
        """
        target = self._random.choice(self._machines)
        guid, numbers, _ = installed(NAMES.index(target.name))
        queue = FormatName.parse(f"PRIVATE={guid}\\{numbers['orders']:08x}")
        for number in range(1, self._random.choice((2, 4))):
            place = {"tx_sequence_number": number, "previous_tx_sequence_number": number - 1}
            yield self._message(
                victim,
                source,
                Kind.TRANSACTIONAL,
                transaction_id=1,
                tx_sequence_id=self.sequence(victim) if ahead else TxSequenceId(1, number),
                destination_queue=queue,
                positive_journaling=True,
                **place,
            )

    def flood(self, victim: Machine, source: UUID, own_address: str) -> Iterator[bytes]:
        """Messages whose answers go to computers that do not exist, or to itself."""
        for number in range(self._random.choice((5, 30))):
            host = self._random.choice((f"OS:nobody{number % 3}", f"TCP:{own_address}"))
            yield self._message(
                victim,
                source,
                Kind.EXPRESS,
                acknowledgements=int(Acknowledgements.POS_ARRIVAL | Acknowledgements.NEG_ARRIVAL),
                administration_queue=FormatName.parse(rf"DIRECT={host}\private$\admin"),
            )

    def _message(self, victim: Machine, source: UUID, kind: Kind, **properties: object) -> bytes:
        label = f"X{len(self._sent_messages.foreign) + 1}"
        queue = self._random.choice(TRANSACTIONAL_QUEUES if kind is Kind.TRANSACTIONAL else PLAIN_QUEUES)
        self._sent_messages.foreign[label] = foreign(label, kind, victim, queue)
        recoverable = kind is Kind.RECOVERABLE
        message = Message(
            label.encode(),
            label=label,
            delivery=DeliveryGuarantee.RECOVERABLE if recoverable else DeliveryGuarantee.EXPRESS,
            **{"destination_queue": self._queue(victim, queue), **properties},  # type: ignore[arg-type]
        )
        message.id = self._message_id(source)
        message.sent_time = int(victim.wall_clock())
        return encode_message(message)

    def _queue(self, machine: Machine, queue: str) -> FormatName:
        """One of the names of a queue: each has streams of its own."""
        guid, numbers, _ = installed(NAMES.index(machine.name))
        names = (
            rf"DIRECT=OS:{machine.name.lower()}\private$\{queue}",
            rf"DIRECT=TCP:{machine.addresses[0]}\private$\{queue}",
            f"PRIVATE={guid}\\{numbers[queue]:08x}",
        )
        return FormatName.parse(self._random.choice(names))
