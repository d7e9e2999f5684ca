"""Signed and encrypted messages that arrive on port 1801, beside plain ones, in the same run.

bench_protected.py [--messages N] [--rounds N]

1 KiB recoverable messages over one session, by turns plain, signed (2048 bits, SHA-512, a certificate in the
trust store) and encrypted (AES-256, a session key in the cache). The cost is processor time of the daemon for
each message, so its inverse is what one core can take.
"""

import argparse
import statistics
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from pathlib import Path
from uuid import UUID, uuid4

import mqqb
from bench_daemon import BODY_SIZE, DAEMON, Daemon, Meter, Speed, Tiercel, Worker, common_port, folder
from mqqb import Times

import tiercel
from tiercel.message_security.encryption import Encryption
from tiercel.message_security.signer import Signer
from tiercel.message_security.trust import Trust, TrustedCertificate, TrustedQueueManager
from tiercel.model.codes import AuthenticationLevel, HashAlgorithm, PrivacyLevel, SenderIdType
from tiercel.model.format_name import FormatName, PrivateFormatName
from tiercel.model.identifiers import MessageId
from tiercel.model.message import Message
from tiercel.model.sid import ADMINISTRATORS
from tiercel.server import trust_file
from tiercel.wire.message import encode_message
from tiercel.wire.user_message import UserMessage

WINDOW = 64
QUEUE = r".\private$\in"


def send(_pipe: Connection, endpoint: tuple[str, int], guid: UUID, packet: bytes, count: int) -> Times:
    sender = mqqb.Sender(endpoint, "", BODY_SIZE, WINDOW, guid=guid, template=packet)
    times = sender.send(count)
    sender.close()
    return times


class Subject:
    """A daemon, and a sender whose packets are all made before it starts: ids are not signed."""

    def __init__(self, place: Path, *, messages: int) -> None:
        self._worker, self._guid, self._sent = Worker(), uuid4(), 0
        self._port = common_port(DAEMON)
        self._data, trust = place / "daemon", place / "trust"
        Tiercel.create_queue(None, self._data, f"{DAEMON}:{self._port}", QUEUE)
        self._signer = Signer.new("bench", datetime.now(UTC))
        with tiercel.open(self._data) as qm:
            ring = qm.driver.exchange_keys.ring()
            manager = qm.driver.engine.queue_manager.identifier
        there = TrustedQueueManager("there", manager, (), ring.published().keys)
        sender = TrustedCertificate("bench", ADMINISTRATORS, self._signer.certificate)
        trust_file.change(trust, lambda _: Trust((sender, there)), create=True)
        self._encryption = Encryption(trust=lambda: Trust((there,)))
        self._manager = manager
        self._daemon = Daemon(DAEMON, self._port, self._data, WINDOW, f'security = {{ trust = "{trust}" }}\n')
        self.messages = messages

    def _message(self) -> Message:
        return Message(
            bytes(BODY_SIZE),
            delivery=1,
            destination_queue=FormatName.parse(rf"DIRECT=TCP:{DAEMON}\private$\in"),
            id=MessageId(self._guid, 1),
            sent_time=int(datetime.now(UTC).timestamp()),
            sender_id_type=SenderIdType.NONE,
        )

    def packet(self, kind: str) -> bytes:
        message = self._message()
        if kind == "signed":
            message.sender_certificate = self._signer.certificate.der
            message.hash_algorithm = HashAlgorithm.SHA_512
            self._signer.sign(message, UserMessage(encode_message(message)), AuthenticationLevel.SIG20)
        if kind == "encrypted":
            message.privacy_level = PrivacyLevel.ADVANCED
            name = PrivateFormatName(self._manager, 1)
            return self._encryption.seal(UserMessage(encode_message(message)), name, 0.0).data
        return encode_message(message)

    def into(self, kind: str) -> Speed:
        meter = Meter(self._daemon.pid)
        arguments = (DAEMON, self._port), self._guid, self.packet(kind), self.messages
        times = self._worker.start(send, *arguments).join()
        self._guid = uuid4()
        self._sent += self.messages
        return Speed(times.rate, meter.seconds / self.messages * 1e6)

    def stop(self) -> None:
        self._daemon.stop()
        assert Tiercel.count(None, self._data, QUEUE) == self._sent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    kinds = ("plain", "signed", "encrypted")
    with folder() as place:
        subject = Subject(place, messages=options.messages)
        found: dict[str, list[Speed]] = {kind: [] for kind in kinds}
        for _ in range(options.rounds):
            for kind in kinds:
                found[kind].append(subject.into(kind))
        subject.stop()
    print(f"{'messages':10} {'messages/s':>10} {'us/message':>10} {'a second of CPU time':>21}")
    for kind, speeds in found.items():
        rate = statistics.median(speed.rate for speed in speeds)
        cost = statistics.median(speed.cost for speed in speeds)
        print(f"{kind:10} {rate:10,.0f} {cost:10.1f} {1e6 / cost:21,.0f}")


if __name__ == "__main__":
    main()
