"""The attacks: each tries something on a real daemon, and tells what the daemon kept or did."""

import re
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from addresses import own_address
from api.asked import Asked, asked, at
from tiercel.model.codes import MessageClass

from .stranger import PATIENCE_S, Letter, Stranger, base, final_ack, order_ack, security

MIB = 1 << 20
PORT, API_PORT, DATA_PORT, SRMP_PORT, READ_PORT = 1801, 8801, 8802, 8080, 2103
BAD_SIGNATURE = MessageClass.NACK_BAD_SIGNATURE
BAD_ENCRYPTION = MessageClass.NACK_BAD_ENCRYPTION
ACCESS_DENIED = MessageClass.NACK_ACCESS_DENIED
ADMINISTRATORS = bytes.fromhex("01020000000000052000000020020000")  # S-1-5-32-544
ONLY_ADMINISTRATORS = "O:BAD:(A;;GA;;;BA)"
AES = 5  # PrivacyLevel
_WAITING = 10  # messages
_OF_A_SESSION = 123  # acknowledgements; it is closed after 100
_ROOM = 48 * MIB  # for whatever else happens meanwhile


@dataclass(frozen=True)
class Scale:
    """How much of everything."""

    guesses: int = 492
    made_up: int = 8000
    refused: int = 6000
    idle: int = 1000
    halves: int = 60
    addresses: int = 20
    # Of the configuration.
    idle_s: int = 10
    connections: int = 1000
    clients: int = 256  # of the HTTP API and the data endpoint
    partial_mib: int = 64  # of incomplete packets


FULL = Scale()
SHORT = Scale(
    guesses=123,
    made_up=300,
    refused=30,
    idle=60,
    halves=24,
    addresses=4,
    idle_s=1,
    connections=40,
    clients=40,
    partial_mib=8,
)


@dataclass(frozen=True)
class Row:
    attack: str
    tried: str
    result: str
    is_held: bool


class Daemon:
    """A daemon at an address of its own, with all its ports."""

    def __init__(self, served: Asked, address: str) -> None:
        self.api = served
        self.address = address
        self.port = (address, PORT)
        self.guid = UUID(served.get("/queue-manager").json()["guid"])

    def path(self, queue: str) -> str:
        return rf"TCP:{self.address}\private$\{queue}"

    def send(self, name: str, label: str, *, transactional: bool = False) -> str:
        """The id of the message."""
        answer = self.api.post(f"{at(name)}/messages", {"label": label}, transactional=transactional)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    def outgoing(self) -> list[dict[str, Any]]:
        queues: list[dict[str, Any]] = self.api.get("/outgoing").json()["outgoing"]
        return queues

    def waiting(self) -> int:
        return sum(int(queue["count"]) for queue in self.outgoing())

    def streams(self, direction: str) -> list[dict[str, Any]]:
        streams = self.api.get("/streams").json()["streams"]
        return [each for each in streams if each["direction"] == direction]

    def discards(self) -> list[dict[str, Any]]:
        lines: list[dict[str, Any]] = self.api.get("/discards", limit=1000).json()["discards"]
        return lines

    def metric(self, name: str) -> float:
        text = self.api.http.get("/metrics").text
        return sum(float(value) for value in re.findall(rf"^{name}(?:{{.*}})? (\S+)$", text, re.MULTILINE))

    @property
    def peak(self) -> int:
        """The most memory that it has ever had."""
        status = Path(f"/proc/{self.api.process.pid}/status").read_text("ascii")
        found = re.search(r"VmHWM:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1]) * 1024

    def is_served(self, source: str = "127.0.8.8") -> bool:
        """Whether an honest newcomer gets a message in, within a minute."""
        before, end = self.api.count("orders"), time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            try:
                with Stranger(self.port, source=source).greet() as newcomer:
                    newcomer.send(Letter(newcomer.claimed, self.path("orders")).encode())
                    while time.monotonic() < end and not newcomer.listen(0.05):
                        if self.api.count("orders") > before:
                            return True
            except OSError:
                time.sleep(0.2)
        return False


@contextmanager
def daemon(folder: Path, which: int, scale: Scale, *, doors: bool = False) -> Iterator[Daemon]:
    """With `doors`, its other ports are open, too."""
    address = own_address(which)
    options = f"""
[limits]
idle_s = {scale.idle_s}
connections = {scale.connections}
partial_packet_bytes = {scale.partial_mib * MIB}
[binary]
retry_ms = 200
retry_max_ms = 1000
resend_table_s = [2]
"""
    if doors:
        options += _doors(address, scale)
    folder.mkdir(exist_ok=True)
    with asked(folder, options, listen=f"{address}:{PORT}") as served:
        yield Daemon(served, address)


def _doors(address: str, scale: Scale) -> str:
    return f"""
[api]
enabled = true
host = "{address}"
port = {API_PORT}
connections = {scale.clients}
[data]
enabled = true
host = "{address}"
port = {DATA_PORT}
connections = {scale.clients}
[srmp]
enabled = true
host = "{address}"
port = {SRMP_PORT}
connections = {scale.connections}
[remote_read]
enabled = true
host = "{address}"
port = {READ_PORT}
connections = {scale.connections}
"""


def until(condition: Callable[[], object]) -> bool:
    end = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


# Acknowledgements that nobody gave.


def acknowledgements(folder: Path, scale: Scale) -> Iterator[Row]:
    """Committed messages wait for a computer that is down, and a stranger acknowledges them."""
    with daemon(folder / "sender", 0, scale) as victim:
        name = rf"DIRECT=TCP:{own_address(1)}\private$\orders"
        ids = [victim.send(name, f"{number}", transactional=True) for number in range(_WAITING)]
        (stream,) = victim.streams("out")
        # A stranger can guess the second at which the queue manager was set up; this one knows it.
        timestamp = int(stream["sequence"].partition(".")[0])
        yield _order_acks(victim, timestamp, scale)
        yield _final_acks(victim, timestamp, ids)
        with daemon(folder / "receiver", 2, scale) as receiver:  # where nobody looks for it yet
            receiver.api.create("orders", transactional=True)
        with daemon(folder / "receiver", 1, scale) as receiver:
            arrived = until(lambda: receiver.api.count("orders") == _WAITING and not victim.waiting())
            labels = receiver.api.labels("orders")
            yield Row(
                "then the receiver comes up",
                f"{_WAITING} messages waited",
                f"{len(labels)} arrived, {victim.waiting()} wait",
                arrived and labels == [f"{number}" for number in range(_WAITING)],
            )


def _order_acks(victim: Daemon, timestamp: int, scale: Scale) -> Row:
    closed = 0
    for second in range(scale.guesses // _OF_A_SESSION):
        with Stranger(victim.port).greet() as stranger:
            for ordinal in range(1, _OF_A_SESSION + 1):
                guess = timestamp + second << 32 | ordinal
                stranger.send(order_ack(stranger.claimed, victim.guid, guess, _WAITING, ordinal))
            closed += stranger.listen(PATIENCE_S)
    waiting, doubted = victim.waiting(), victim.metric("tiercel_not_believed_total")
    return Row(
        "forged OrderAcks",
        f"{scale.guesses} with guessed sequence ids",
        f"{waiting} of {_WAITING} messages wait; {doubted:.0f} not believed; {closed} sessions closed",
        waiting == _WAITING and closed == scale.guesses // _OF_A_SESSION,
    )


def _final_acks(victim: Daemon, timestamp: int, ids: list[str]) -> Row:
    """With the real message ids, which are no secret."""
    before = len(victim.discards())
    with Stranger(victim.port).greet() as stranger:
        for number in sorted({*range(1, 60), *(int(each.rpartition("\\")[2]) for each in ids)}):
            stranger.send(final_ack(stranger.claimed, victim.guid, timestamp << 32 | 1, 1, number))
        stranger.listen(1)
    waiting, ended = victim.waiting(), len(victim.discards()) - before
    return Row(
        "forged FinalAcks",
        "ACK_RECEIVE for message ids 1 to 59 and the real ones",
        f"{waiting} of {_WAITING} messages wait; {ended} lines in the discards",
        waiting == _WAITING and not ended,
    )


# Other people's names.


def identities(folder: Path, scale: Scale) -> Iterator[Row]:
    with daemon(folder / "receiver", 0, scale) as victim, daemon(folder / "sender", 1, scale) as honest:
        victim.api.create("orders", transactional=True)
        name = f"DIRECT={victim.path('orders')}"

        def goes_on() -> bool:
            before = victim.api.count("orders")
            honest.send(name, "honest", transactional=True)
            return until(lambda: victim.api.count("orders") == before + 1)

        assert goes_on()
        yield _foreign_source(victim, honest, goes_on)
        yield _far_future(victim, honest, goes_on)
        yield _squatting(victim)


def _stolen(honest: Daemon, victim: Daemon) -> bytes:
    return Letter(honest.guid, victim.path("orders"), sequence=0xFFFF_FFFF_FFFF_FFFF).encode()


def _foreign_source(victim: Daemon, honest: Daemon, goes_on: Callable[[], bool]) -> Row:
    before = victim.api.count("orders")
    with Stranger(victim.port).greet() as stranger:
        stranger.send(_stolen(honest, victim))
        stranger.listen(1)
        answers = len(stranger.got)
    taken = victim.api.count("orders") - before
    is_open = goes_on()
    return Row(
        "another's GUID in a message",
        "sequence ffffffff:ffffffff, on a session of its own",
        f"{taken} taken, {answers} acknowledged; the true sender {'goes on' if is_open else 'is blocked'}",
        is_open and not taken and not answers,
    )


def _far_future(victim: Daemon, honest: Daemon, goes_on: Callable[[], bool]) -> Row:
    before = victim.api.count("orders")
    with Stranger(victim.port, claimed=honest.guid).greet() as stranger:
        stranger.send(_stolen(honest, victim))
        stranger.listen(1)
    taken = victim.api.count("orders") - before
    is_open = goes_on()
    return Row(
        "the same in a session that claims it",
        "sequence ffffffff:ffffffff",
        f"{taken} taken; the true sender {'goes on' if is_open else 'is blocked'}",
        is_open and not taken,
    )


def _squatting(victim: Daemon) -> Row:
    target = uuid4()
    victim.send(f"PRIVATE={target}\\00000007", "secret")
    with Stranger(victim.port, claimed=target).greet() as stranger:
        stranger.listen(3)
        got = len(stranger.got)
    learned = [each for each in victim.api.get("/peers").json()["peers"] if each["guid"] == str(target)]
    return Row(
        "GUID squatting",
        "a session that claims the GUID for which a message waits",
        f"it got {got} messages; {len(learned)} addresses learned; {victim.waiting()} waits",
        not got and not learned and victim.waiting() == 1,
    )


# Strangers who have nothing but a way to the port.


def strangers(folder: Path, scale: Scale) -> Iterator[Row]:
    with daemon(folder / "victim", 0, scale, doors=True) as victim:
        victim.api.create("orders")
        victim.api.create("secured", security=ONLY_ADMINISTRATORS)
        yield from _claims(victim)
        yield _asked_for(victim)
        yield _idle_sessions(victim, scale)
        yield _half_packets(victim, scale)
        yield from _silent_clients(victim, scale)
        yield _made_up_queues(victim, scale)
        yield _refused(victim, scale)


# Floods.


def _made_up_queues(victim: Daemon, scale: Scale) -> Row:
    slowest, before = 0.0, victim.api.count("orders")
    with Stranger(victim.port).greet() as stranger:
        for number in range(1, scale.made_up + 1):
            admin = rf"OS:made-up-{number}.invalid\private$\admin"
            letter = Letter(
                stranger.claimed, victim.path("orders"), number, admin_queue=admin, acknowledgements=5
            )
            stranger.send(letter.encode())
            if number % 500 == 0:
                stranger.listen(0.01)
                slowest = max(slowest, _seconds(victim.outgoing))
    until(lambda: victim.api.count("orders") == before + scale.made_up)
    slowest = max(slowest, _seconds(victim.outgoing))
    queues = len(victim.outgoing())
    return Row(
        "administration queues on made-up hosts",
        f"{scale.made_up} messages, each with another one",
        f"{queues} outgoing queues, of at most 1,000; slowest answer of the API {slowest:.1f} s",
        queues <= 1000 and victim.is_served(),
    )


def _refused(victim: Daemon, scale: Scale) -> Row:
    """Each under a GUID of its own, to a queue that takes no transactional messages."""
    before, streams = len(victim.outgoing()), len(victim.streams("in"))
    for number in range(scale.refused):
        source = f"127.0.{10 + number % scale.addresses}.1"
        with Stranger(victim.port, source=source).greet() as stranger:
            letter = Letter(stranger.claimed, victim.path("orders"), sequence=int(time.time()) << 32 | 7)
            stranger.send(letter.encode())
    is_served = victim.is_served()
    queues, kept = len(victim.outgoing()) - before, len(victim.streams("in")) - streams
    peers = len(victim.api.get("/peers").json()["peers"])
    return Row(
        "refused messages of unknown senders",
        f"{scale.refused} transactional ones, each with a GUID and a session of its own",
        f"{queues} outgoing queues with answers, of at most 1,000; {kept} places in streams; {peers} senders",
        is_served and queues <= 1000 and kept <= 1000 and not peers,
    )


def _seconds(work: Callable[[], object]) -> float:
    start = time.monotonic()
    work()
    return time.monotonic() - start


# Connections and memory.


def _idle_sessions(victim: Daemon, scale: Scale) -> Row:
    def come(source: str) -> Stranger:
        return Stranger(victim.port, source=source).greet()

    with _crowd(scale.idle, scale.addresses, come) as count:
        is_served = victim.is_served()
    return Row(
        "idle sessions",
        f"{count} from {scale.addresses} addresses",
        f"a newcomer {'is served' if is_served else 'is kept out'}",
        is_served,
    )


@contextmanager
def _crowd(count: int, addresses: int, come: Callable[[str], Any]) -> Iterator[int]:
    """So many connections at once, as far as the daemon lets them; yields how many came."""
    with ExitStack() as stack:
        came = 0
        for number in range(count):
            try:
                stack.enter_context(come(f"127.0.{20 + number % addresses}.1"))
                came += 1
            except OSError:
                continue
        yield came


def _half_packets(victim: Daemon, scale: Scale) -> Row:
    size = 3 * MIB
    half = base(4 * MIB) + bytes(size - 16)
    before = victim.peak

    def come(source: str) -> Stranger:
        stranger = Stranger(victim.port, source=source).greet()
        stranger.send(half)
        return stranger

    with _crowd(scale.halves, scale.addresses, come):
        is_served = victim.is_served()
    grown = (victim.peak - before) // MIB
    return Row(
        "half packets",
        f"{scale.halves} of 3 MiB",
        f"at most {grown} MiB more memory, of {scale.halves * 3} MiB sent",
        is_served and grown * MIB <= scale.partial_mib * MIB + _ROOM,
    )


def _silent_clients(victim: Daemon, scale: Scale) -> Iterator[Row]:
    request = b"GET /api/v1/health HTTP/1.1\r\nHost: x\r\n"
    doors = [
        ("HTTP API", API_PORT, request, _gets(victim, API_PORT, "/api/v1/health")),
        ("data endpoint", DATA_PORT, b"GET /data/v1/head HTT", _gets(victim, DATA_PORT, "/data/v1/nothing")),
        ("messages over HTTP", SRMP_PORT, b"POST /msmq/private$/orders HT", _gets(victim, SRMP_PORT, "/")),
        ("remote read", READ_PORT, b"\x05\x00\x0b\x03", _binds(victim)),
    ]
    for name, port, start, is_served in doors:
        came = _come(victim.address, port, start)
        with _crowd(scale.idle, scale.addresses, came) as count:
            served = until(is_served)
        yield Row(
            f"{name}: clients that stop after a few bytes",
            f"{count} from {scale.addresses} addresses",
            f"a newcomer {'is served' if served else 'is kept out'}",
            served,
        )


def _come(address: str, port: int, start: bytes) -> Callable[[str], socket.socket]:
    def come(source: str) -> socket.socket:
        connection = socket.create_connection((address, port), PATIENCE_S, (source, 0))
        connection.sendall(start)
        return connection

    return come


def _answers(address: str, port: int, request: bytes, start: bytes) -> bool:
    try:
        with socket.create_connection((address, port), PATIENCE_S, ("127.0.8.8", 0)) as connection:
            connection.settimeout(5)
            connection.sendall(request)
            return connection.recv(64).startswith(start)
    except OSError:
        return False


def _gets(victim: Daemon, port: int, path: str) -> Callable[[], bool]:
    """Any answer but 503 is one of a server that has time."""
    request = f"GET {path} HTTP/1.1\r\nHost: {victim.address}:{port}\r\nConnection: close\r\n\r\n".encode()

    def is_served() -> bool:
        ok = _answers(victim.address, port, request, b"HTTP/1.1 ")
        return ok and not _answers(victim.address, port, request, b"HTTP/1.1 503")

    return is_served


def _binds(victim: Daemon) -> Callable[[], bool]:
    """A bind to an unknown interface ([C706] 12.6.4.3) gets a bind_ack that refuses it."""
    context = struct.pack("<HBB16sI16sI", 0, 1, 0, uuid4().bytes_le, 1, uuid4().bytes_le, 2)
    body = struct.pack("<HHIBBH", 4280, 4280, 0, 1, 0, 0) + context
    bind = struct.pack("<BBBBIHHI", 5, 0, 11, 3, 0x10, 16 + len(body), 0, 1) + body
    return lambda: _answers(victim.address, READ_PORT, bind, b"\x05\x00")


# Claims about security.


def _claims(victim: Daemon) -> Iterator[Row]:
    verified = 1 << 4 | 3 << 8  # AU, and AS: signature of MSMQ 2.0
    signed = security(
        1 | verified | 1 << 7, sid=ADMINISTRATORS, signature=b"\x5a" * 256, certificate=b"\x30" * 64
    )
    yield _claim(victim, "garbage signature", "AU=1, AS=3, an invented SID", signed, "orders", BAD_SIGNATURE)
    unsigned = security(1 | verified, sid=ADMINISTRATORS)
    yield _claim(victim, "authenticated without a signature", "AU=1, AS=3 and a SID", unsigned, "orders")
    sealed = security(1 << 5, key=b"\x5a" * 140)
    yield _claim(
        victim, "ciphertext that nothing opens", "EB=1, a random key", sealed, "orders", BAD_ENCRYPTION
    )
    named = security(1, sid=ADMINISTRATORS)
    tried = "to a queue that only they may use"
    yield _claim(victim, "unsigned SID of administrators", tried, named, "secured", ACCESS_DENIED)


def _claim(
    victim: Daemon, attack: str, tried: str, header: bytes, queue: str, refusal: MessageClass | None = None
) -> Row:
    """Refused with that class or, without one, delivered as not authenticated."""
    before, lines = victim.api.count(queue), len(victim.discards())
    with Stranger(victim.port).greet() as stranger:
        privacy = AES if refusal == BAD_ENCRYPTION else 0
        letter = Letter(stranger.claimed, victim.path(queue), security=header, privacy=privacy)
        stranger.send(letter.encode())
        until(lambda: victim.api.count(queue) > before or len(victim.discards()) > lines)
    if victim.api.count(queue) == before:
        reason = str(victim.discards()[0]["reason"])
        is_right = refusal is not None and refusal.meaning in reason
        return Row(attack, tried, f"refused: {reason}", is_right)
    newest = victim.api.get(f"{at(queue)}/messages").json()["messages"][-1]
    level, sender = newest.get("authentication_level", "none"), newest.get("verified_sender")
    is_held = not refusal and level == "none" and not sender
    return Row(attack, tried, f"delivered, authentication {level}, sender {sender}", is_held)


def _asked_for(victim: Daemon) -> Row:
    """An acknowledgement of the queue manager itself, which every access list would let in."""
    before, lines = victim.api.count("orders"), len(victim.discards())
    with Stranger(victim.port).greet() as stranger:
        admin = victim.path("secured")
        letter = Letter(stranger.claimed, victim.path("orders"), admin_queue=admin, acknowledgements=1)
        stranger.send(letter.encode())
        until(lambda: victim.api.count("orders") > before)
        until(lambda: len(victim.discards()) > lines or victim.api.count("secured") > 0)
    got = victim.api.count("secured")
    tried = "that queue as the administration queue of a message to another one"
    return Row("an acknowledgement in a closed queue", tried, f"{got} got in", not got)


ATTACKS = (acknowledgements, identities, strangers)
