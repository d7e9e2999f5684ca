"""CPU time of a message in one process, without sockets: a queue manager between peers that cost nothing.

bench_runs.py [--messages N] [--rounds N] [--windows W ...] [--cases CASE ...] [--profile]

1 KiB recoverable messages in a store on disk; every batch is one window of them and one commit. "in" come and
stay, "out" leave for another queue manager, "both" are passed on. "ordered in" and "ordered out" are
transactional. The peers prepare what they say before the clock runs. `--profile` prints where the time goes.
"""

import argparse
import cProfile
import gc
import pstats
import shutil
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from tiercel.binary.actions import Action, Dial, Resolve
from tiercel.binary.protocol import BinaryProtocol
from tiercel.binary.settings import Settings
from tiercel.engine.engine import Engine
from tiercel.engine.identity import Identity
from tiercel.engine.machine import Write
from tiercel.model.codes import QueueAccess
from tiercel.model.format_name import FormatName
from tiercel.model.identifiers import MessageId, TxSequenceId
from tiercel.model.message import Message
from tiercel.model.path_name import PathName
from tiercel.security.access import Token
from tiercel.server.node import Node
from tiercel.store import open_store
from tiercel.wire.base_header import INTERNAL
from tiercel.wire.framer import Framer
from tiercel.wire.internal_packets import (
    ConnectionParameters,
    ConnectionParametersHeader,
    EstablishConnection,
    EstablishConnectionHeader,
    SessionAck,
)
from tiercel.wire.message import encode_message
from tiercel.wire.order_ack import build_order_ack
from tiercel.wire.packet import decode_packet
from tiercel.wire.session_header import SessionHeader
from tiercel.wire.user_message import UserMessage

BODY = bytes(1024)
FLAGS = 32
WRAP = 0xFFFF
SENDER, CONSUMER = uuid4(), uuid4()
FAR = FormatName.parse(rf"PRIVATE={CONSUMER}\0000000a")
CASES = ("in", "out", "both", "ordered in", "ordered out")


class Manager:
    """A queue manager; `spent` is the CPU time of its batches."""

    def __init__(self, data: Path, window: int) -> None:
        self.window = window
        self.store = open_store(data)
        self.engine = Engine(self.store, Identity("BENCH"), now=time.time(), owner=Token.local_system())
        settings = Settings(
            window_size=window, routing_server=True, machines={CONSUMER: ("192.0.2.9",)}, ping=False
        )
        self.protocol = BinaryProtocol(self.engine, settings)
        self.node = Node(self.engine)
        self.node.attach(self.protocol, self._perform)
        self.dials: list[int] = []
        self.written: dict[int, list[bytes]] = {}
        self.spent = 0.0
        self._names: list[str] = []
        self.profile: cProfile.Profile | None = None

    @property
    def guid(self) -> UUID:
        return self.engine.queue_manager.identifier

    def _perform(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, Write):
                self.written.setdefault(action.connection, []).append(action.data)
            elif isinstance(action, Dial):
                self.dials.append(action.connection)
            elif isinstance(action, Resolve):
                self._names.append(action.host)

    def run(self, *commands: Callable[[], object]) -> None:
        if self.profile is not None:
            self.profile.enable()
        start = time.process_time()
        self.node.begin()
        for command in commands:
            command()
        self.node.commit()
        self.spent += time.process_time() - start
        if self.profile is not None:
            self.profile.disable()
        while self._names:
            name = self._names.pop()
            self.run(partial(self.protocol.resolved, name, [name]))

    def take(self, connection: int) -> bytes:
        return b"".join(self.written.pop(connection, ()))

    def create(self, name: str, *, transactional: bool) -> None:
        path, owner = PathName.parse(rf".\private$\{name}"), Token.local_system()
        self.run(lambda: self.engine.queues.create(path, owner, transactional=transactional))

    def accept(self) -> int:
        """A session that a sender has opened."""
        numbers: list[int] = []
        self.run(lambda: numbers.append(self.protocol.accepted("192.0.2.8")))
        establish = EstablishConnectionHeader(client_guid=SENDER, time_stamp=1)
        parameters = ConnectionParametersHeader(500, 20_000, window_size=self.window)
        said = EstablishConnection.of(establish).encode() + ConnectionParameters.of(parameters).encode()
        self.run(lambda: self.protocol.received(numbers[0], said))
        self.take(numbers[0])
        return numbers[0]

    def dial(self) -> int:
        """The session with the consumer; what it says first is left to take."""
        connection = self.dials.pop()
        self.run(lambda: self.protocol.connected(connection))
        asked = decode_packet(self.take(connection))
        assert isinstance(asked, EstablishConnection)
        answer = EstablishConnectionHeader(
            asked.header.client_guid, CONSUMER, asked.header.time_stamp, padding=b"\x5a" * 512
        )
        self.run(lambda: self.protocol.received(connection, EstablishConnection.of(answer).encode()))
        self.take(connection)
        parameters = ConnectionParametersHeader(500, 20_000, window_size=self.window)
        self.run(lambda: self.protocol.received(connection, ConnectionParameters.of(parameters).encode()))
        return connection

    def send(self, count: int, *, transactional: bool) -> None:
        """Of its own applications, to the consumer."""

        def send() -> None:
            opened = self.engine.opening.open(FAR, QueueAccess.SEND, token=Token.local_system())
            transaction = self.engine.transactions.begin() if transactional else None
            for _ in range(count):
                self.engine.sending.send(opened, Message(BODY, delivery=1), transaction)
            if transaction is not None:
                self.engine.transactions.commit(transaction.id)

        self.run(send)


class Sender:
    def __init__(self, destination: FormatName, window: int, *, transactional: bool = False) -> None:
        self._window = window
        self._number = 0
        self._transactional = transactional
        sequence = TxSequenceId(int(time.time()), 1)
        properties: dict[str, Any] = (
            {"transaction_id": 1, "tx_sequence_id": sequence} if transactional else {}
        )
        message = Message(
            BODY,
            delivery=1,
            destination_queue=destination,
            id=MessageId(SENDER, 1),
            sent_time=int(time.time()),
            **properties,
        )
        self._packet = encode_message(message)
        self._place_at = UserMessage(self._packet).place_at if transactional else 0

    def window(self) -> bytes:
        packets = []
        for number in range(self._number + 1, self._number + 1 + self._window):
            packet = bytearray(self._packet)
            packet[56:60] = number.to_bytes(4, "little")
            if self._transactional:
                at = self._place_at
                packet[at : at + 8] = number.to_bytes(4, "little") + (number - 1).to_bytes(4, "little")
            packets.append(packet)
        self._number += self._window
        return b"".join(packets)


class Consumer:
    """Acknowledges what it gets, and if it is in order, that it is."""

    def __init__(self, manager: Manager) -> None:
        self._manager = manager
        self.received = self._sent = self._acked = 0

    def answer(self, data: bytes) -> bytes:
        framer = Framer()
        framer.receive(data)
        packets = [packet for packet in framer.packets() if not packet[2] & INTERNAL]
        answers = []
        left = len(packets)
        self.received += left
        while left:
            count = min(left, FLAGS - 1)
            start, flags = self._acked + 1 & WRAP, (1 << count) - 1
            if not start:
                start, flags = WRAP, flags << 1 | 1
            self._acked += count
            left -= count
            sent, window = self._sent & WRAP, self._manager.window
            header = SessionHeader(self._acked & WRAP, start, flags, sent, 0, window)
            answers.append(SessionAck.of(header).encode())
        last = UserMessage(packets[-1]) if packets else None
        if last is not None and last.is_transactional:
            sequence, number = last.sequence
            self._sent += 1
            ack = build_order_ack(
                MessageId(CONSUMER, self._sent), int(time.time()), self._manager.guid, sequence, number
            )
            answers.append(ack.data)
        return b"".join(answers)


def into(manager: Manager, count: int, *, transactional: bool) -> None:
    manager.create("q", transactional=transactional)
    connection, sender = (
        manager.accept(),
        Sender(FormatName.parse(r"DIRECT=OS:.\private$\q"), manager.window, transactional=transactional),
    )
    reads = [sender.window() for _ in range(count // manager.window)]
    manager.spent = 0.0
    for data in reads:
        manager.run(partial(manager.protocol.received, connection, data))
        manager.take(connection)
    [queue] = [each for each in manager.engine.queues.all() if str(each).endswith("q")]
    assert queue.count == count // manager.window * manager.window


def out(manager: Manager, count: int, *, transactional: bool) -> None:
    for start in range(0, count, 100):
        manager.send(min(100, count - start), transactional=transactional)
    consumer, connection = Consumer(manager), manager.dial()
    manager.spent = 0.0
    while data := manager.take(connection):
        answer = consumer.answer(data)
        manager.run(partial(manager.protocol.received, connection, answer))
    assert consumer.received == count, f"{consumer.received} of {count}"


def both(manager: Manager, count: int) -> None:
    sender, accepted = Sender(FAR, manager.window), manager.accept()
    manager.run(lambda: manager.protocol.received(accepted, sender.window()))
    consumer, connection = Consumer(manager), manager.dial()
    reads = [sender.window() for _ in range(count // manager.window)]
    manager.spent = 0.0
    for data in reads:
        answer = consumer.answer(manager.take(connection))
        manager.run(
            partial(manager.protocol.received, accepted, data),
            partial(manager.protocol.received, connection, answer),
        )
        manager.take(accepted)
    assert consumer.received == count // manager.window * manager.window


def measure(case: str, window: int, count: int, *, profile: bool) -> float:
    place = tempfile.mkdtemp(prefix="bench-", dir=Path(__file__).parent)
    try:
        manager = Manager(Path(place) / "store", window)
        manager.profile = cProfile.Profile() if profile else None
        gc.collect()
        match case:
            case "both":
                both(manager, count)
            case "in" | "ordered in":
                into(manager, count, transactional=case != "in")
            case _:
                out(manager, count, transactional=case != "out")
        if manager.profile is not None:
            pstats.Stats(manager.profile).sort_stats("tottime").print_stats(35)
        manager.store.close()
        return manager.spent / count * 1e6
    finally:
        shutil.rmtree(place, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--windows", type=int, nargs="+", default=[64, 256])
    parser.add_argument("--cases", nargs="+", choices=CASES, default=CASES)
    parser.add_argument("--profile", action="store_true", help="print the profile of one round of each")
    arguments = parser.parse_args()
    print(f"CPU \u00b5s of a message of {len(BODY)} bytes, the best of {arguments.rounds} rounds; window")
    print(" " * 12 + "".join(f"{window:>10}" for window in arguments.windows), flush=True)
    for case in arguments.cases:
        cells = []
        for window in arguments.windows:
            rounds = 1 if arguments.profile else arguments.rounds
            found = [
                measure(case, window, arguments.messages, profile=arguments.profile) for _ in range(rounds)
            ]
            cells.append(f"{min(found):>10.1f}")
        print(f"{case:12}{''.join(cells)}", flush=True)


if __name__ == "__main__":
    main()
