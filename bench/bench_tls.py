"""Mutual TLS between queue managers beside plain text, in and out of a daemon, in the same run.

bench_tls.py [--messages N] [--rounds N] [--only in|out]

1 KiB recoverable messages over one session, by turns without and with TLS. The cost is processor time of the
daemon for each message; the last column is how much TLS adds to it, and takes from the speed.
"""

import argparse
import socket
import ssl
import statistics
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from uuid import UUID, uuid4

import mqqb
from bench_daemon import (
    BODY_SIZE,
    CONSUMER,
    DAEMON,
    Daemon,
    Meter,
    Speed,
    Tiercel,
    Worker,
    common_port,
    folder,
)
from mqqb import Times

import tiercel

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))  # certificates

from certificates import Authority, Issued

WINDOW = 64
CASES = ("in", "out")


def peer_context(issued: Issued, ca: Path, *, is_server: bool) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if is_server else ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(issued.certificate, issued.key)
    context.load_verify_locations(ca)
    return context


def send(
    _pipe: Connection,
    endpoint: tuple[str, int],
    destination: str,
    count: int,
    guid: UUID,
    tls: "Files | None",
) -> Times:
    context = None if tls is None else peer_context(*tls, is_server=False)
    sender = mqqb.Sender(endpoint, destination, BODY_SIZE, WINDOW, guid=guid, context=context)
    times = sender.send(count)
    sender.close()
    return times


def consume(
    pipe: Connection, endpoint: tuple[str, int], guid: UUID, count: int, tls: "Files | None"
) -> Times:
    context = None if tls is None else peer_context(*tls, is_server=True)
    with socket.create_server(endpoint) as listener:
        pipe.send("listens")
        consumer = mqqb.Consumer(listener, guid, WINDOW, context=context)
        times = consumer.receive(count)
        consumer.close()
        return times


Files = tuple[Issued, Path]


class Subject:
    """A daemon, a sender and a consumer, all with or all without TLS."""

    def __init__(self, place: Path, *, is_tls: bool) -> None:
        self._worker = Worker()
        self._guid, self._sender = uuid4(), uuid4()
        self._port, self._tls_port = common_port(DAEMON, CONSUMER), common_port(DAEMON, CONSUMER)
        self._data = place / f"daemon-{'tls' if is_tls else 'plain'}"
        Tiercel.create_queue(None, self._data, f"{DAEMON}:{self._port}", r".\private$\in")
        self._tls: Files | None = None
        more = f'machines = {{ "{self._guid}" = "{CONSUMER}" }}\nrouting = {{ routing_server = true }}\n'
        if is_tls:
            more += self._secured(place)
        self._daemon = Daemon(DAEMON, self._port, self._data, WINDOW, more)
        self._sent = 0

    def _secured(self, place: Path) -> str:
        authority = Authority(place)
        with tiercel.open(self._data) as qm:
            own = authority.issue(qm.driver.engine.queue_manager.identifier, name="daemon")
        self._tls = authority.issue(self._guid, self._sender, name="peer"), authority.file
        return f"""
[tls]
listen = "{DAEMON}:{self._tls_port}"
tls_certificate = "{own.certificate}"
tls_key = "{own.key}"
tls_ca = "{authority.file}"
[[peers]]
name = "consumer"
guid = "{self._guid}"
tls = "{CONSUMER}:{self._tls_port}"
"""

    @property
    def _used_port(self) -> int:
        return self._port if self._tls is None else self._tls_port

    def _send(self, destination: str, count: int) -> Times:
        endpoint = DAEMON, self._used_port
        return self._worker.start(send, endpoint, destination, count, self._sender, self._tls).join()

    def into(self, count: int) -> Speed:
        meter = Meter(self._daemon.pid)
        times = self._send(rf"DIRECT=TCP:{DAEMON}\private$\in", count)
        self._sent += count
        return Speed(times.rate, meter.seconds / count * 1e6)

    def out(self, count: int) -> Speed:
        self._send(rf"PRIVATE={self._guid}\1", count)
        meter = Meter(self._daemon.pid)
        self._worker.start(consume, (CONSUMER, self._used_port), self._guid, count, self._tls).wait()
        times = self._worker.join()
        return meter.speed(count, times.last - times.first)

    def stop(self) -> None:
        self._daemon.stop()
        assert Tiercel.count(None, self._data, r".\private$\in") == self._sent


def median(speeds: list[Speed]) -> Speed:
    rates, costs = [speed.rate for speed in speeds], [speed.cost for speed in speeds]
    return Speed(statistics.median(rates), statistics.median(costs))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=CASES)
    options = parser.parse_args()
    with folder() as place:
        subjects = {"plain": Subject(place, is_tls=False), "TLS": Subject(place, is_tls=True)}
        print(f"{'case':5} {'line':6} {'messages/s':>10} {'us/message':>10}")
        for case in CASES if options.only is None else (options.only,):
            found: dict[str, list[Speed]] = {name: [] for name in subjects}
            for _ in range(options.rounds):
                for name, subject in subjects.items():
                    found[name].append((subject.into if case == "in" else subject.out)(options.messages))
            plain, tls = (median(found[name]) for name in subjects)
            for name, speed in (("plain", plain), ("TLS", tls)):
                print(f"{case:5} {name:6} {speed.rate:10,.0f} {speed.cost:10.1f}")
            slower, dearer = tls.rate / plain.rate - 1, tls.cost / plain.cost - 1
            print(f"{case:5} TLS: {slower:+.1%} speed, {dearer:+.1%} processor time")
        for subject in subjects.values():
            subject.stop()


if __name__ == "__main__":
    main()
