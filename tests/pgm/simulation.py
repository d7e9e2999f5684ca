"""A lossy, duplicating, reordering network with one source and some receivers, driven by a seed.

`simulation.py SEEDS [FROM]` runs that many worlds. Every receiver must get every APDU in order, except where
it says that it has lost something; a network without repairs must end in such a loss, not in silence.
"""

import heapq
import random
import sys
from itertools import count

from tiercel.pgm.outputs import Outgoing
from tiercel.pgm.packet import Nak, Other, Tsi, decode
from tiercel.pgm.receiver import Receiver
from tiercel.pgm.session import Session, Shared
from tiercel.pgm.settings import Settings
from tiercel.pgm.source import Source

GROUP, PORT, SOURCE = "234.1.1.1", 8001, "10.9.0.1"
_TSI = Tsi(b"source", 4660)
_DURATION_S = 120.0


class Host:
    """A receiver on the network."""

    def __init__(self, world: "World", number: int, joins_at: float) -> None:
        self.address = f"10.9.0.{number + 2}"
        self.joins_at = joins_at
        self.got: list[bytes | None] = []
        self.lost = 0
        self.receiver = Receiver(
            GROUP, PORT, world.settings, world.random.random, Shared(world.now), self._closed
        )

    def _closed(self, session: Session) -> None:
        self.lost += session.lost

    def hear(self, data: bytes, address: str, now: float) -> None:
        packet = decode(data)
        if isinstance(packet, Other) or now < self.joins_at:
            return
        self._take(self.receiver.receive(packet, address, now))

    def run(self, now: float) -> list[Outgoing]:
        output, moved = self.receiver.run(now)
        for session in moved:
            self._take(session)
        return output

    def _take(self, session: Session | None) -> None:
        if session is not None:
            self.got += session.delivered
            session.delivered.clear()

    @property
    def losses(self) -> int:
        return self.lost + sum(session.lost for session in self.receiver.sessions.values())


class World:
    def __init__(self, seed: int) -> None:
        self.random = draw = random.Random(seed)
        self.now = 0.0
        self.loss = draw.choice([0.0, 0.1, 0.3, 0.3])
        self.has_repairs = draw.random() < 0.9  # otherwise every NAK is lost
        self.settings = Settings(
            rate_bytes_s=draw.choice([20_000, 70_000, 1_000_000]),
            packet_bytes=draw.choice([300, 1500]),
            multicast_naks=draw.random() < 0.7,
        )
        first = draw.choice([0, 0xFFFF_FFF0, draw.getrandbits(32)])
        self.source = Source(_TSI, GROUP, PORT, SOURCE, self.settings, self.now, first)
        self.hosts = [
            Host(self, number, draw.choice([0.0, 0.0, draw.uniform(0, 2)]))
            for number in range(draw.randint(1, 3))
        ]
        self.apdus = [self._apdu(number) for number in range(draw.randint(1, 25))]
        self._events: list[tuple[float, int, Host | None, bytes, str]] = []  # under way; None is the source
        self._order = count()

    def _apdu(self, number: int) -> bytes:
        size = self.random.choice([1, 10, 250, 1400, 3000])
        return number.to_bytes(2, "big") + self.random.randbytes(size)

    def run(self) -> None:
        submissions = [(self.random.uniform(0, 5), apdu) for apdu in self.apdus]
        times = sorted(at for at, _ in submissions)
        waiting = list(zip(times, self.apdus, strict=True))[::-1]
        while self.now < _DURATION_S:
            while waiting and waiting[-1][0] <= self.now:
                self.source.submit(waiting.pop()[1])
            self._step()
            if not waiting and self._is_at_rest:
                self.source.close()
                return
            self.now = self._next_time(waiting[-1][0] if waiting else _DURATION_S)

    @property
    def _is_at_rest(self) -> bool:
        """Everything was sent and heard of, and no receiver waits for anything."""
        return (
            not self.source.waiting_bytes
            and not any(entry[2] for entry in self._events)
            and self.now > 6.0
            and all(
                each.next > self.source.lead and not each.missing
                for host in self.hosts
                for each in host.receiver.sessions.values()
            )
        )

    def _next_time(self, submission: float) -> float:
        times = [submission, self.source.next_deadline, self._events[0][0] if self._events else None]
        times += [host.receiver.next_deadline for host in self.hosts]
        return max(min(at for at in times if at is not None), self.now)

    def _step(self) -> None:
        while self._events and self._events[0][0] <= self.now:
            _, _, host, data, address = heapq.heappop(self._events)
            if host is not None:
                host.hear(data, address, self.now)
                continue
            packet = decode(data)
            assert isinstance(packet, Nak)
            self.source.receive(packet, self.now)
        for out in self.source.run(self.now):
            for host in self.hosts:
                self._carry(host, out.data, SOURCE)
        for host in self.hosts:
            for out in host.run(self.now):
                if not self.has_repairs:
                    continue
                self._carry(None, out.data, host.address)
                for other in self.hosts if out.address == GROUP else ():
                    if other is not host:
                        self._carry(other, out.data, host.address)

    def _carry(self, to: Host | None, data: bytes, address: str) -> None:
        """Some packets are lost, some come twice, and all take their time."""
        while True:
            if self.random.random() >= self.loss:
                at = self.now + self.random.choice([0.001, self.random.uniform(0, 0.05)])
                heapq.heappush(self._events, (at, next(self._order), to, data, address))
            if self.random.random() >= 0.1:
                return

    def check(self) -> None:
        for host in self.hosts:
            self._check(host)

    def _check(self, host: Host) -> None:
        numbers = [None if apdu is None else int.from_bytes(apdu[:2], "big") for apdu in host.got]
        for number, apdu in zip(numbers, host.got, strict=True):
            assert number is None or self.apdus[number] == apdu, "an APDU is not what was sent"
        heard = [number for number in numbers if number is not None]
        assert heard == sorted(set(heard)), "doubled, or out of order"
        expected = heard[0] if heard else None
        for number in numbers:
            if number is None:
                expected = None
            else:
                assert expected in {None, number}, f"{expected} is missing, and nobody says so"
                expected = number + 1
        if None not in numbers:
            assert host.losses == 0
        if heard and expected is not None:
            assert expected == len(self.apdus), "the end is missing, and nobody says so"
        # With loss, the first packet that is heard may be an SPM after the data: a late join.
        if host.joins_at == 0.0 and host.receiver.sessions and not self.loss:
            assert numbers, "nothing was delivered, and nobody says so"


def run_seed(seed: int) -> World:
    world = World(seed)
    world.run()
    world.check()
    return world


def main(seeds: int, start: int = 1) -> int:
    apdus = losses = repairs = 0
    for seed in range(start, start + seeds):
        try:
            world = run_seed(seed)
        except AssertionError as problem:
            sys.stdout.write(f"seed {seed}: {problem}; run again: tests/pgm/simulation.py 1 {seed}\n")
            return 1
        apdus += len(world.apdus) * len(world.hosts)
        losses += sum(host.losses for host in world.hosts)
        repairs += world.source.repairs
    sys.stdout.write(
        f"{seeds} seeds: {apdus} APDUs, {repairs} repairs, {losses} packets given up, all named\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
