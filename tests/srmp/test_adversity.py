"""Two queue managers and a bad network: whatever is lost or dies, everything arrives once and in order."""

from random import Random

import pytest

from tiercel.srmp.settings import Settings

from .test_streams import send
from .world import Net

# What may happen, and how often.
EVENTS = {"send": 4, "plain": 3, "step": 12, "lose": 4, "sleep": 4, "kill": 2, "down": 1, "up": 2}


class Adversity:
    def __init__(self) -> None:
        self.net = Net()
        self.here = self.net.add("here")
        # Outside of streams, a copy that comes after this time is a new message (SRMP-100).
        self.there = self.net.add(
            "there", settings=Settings(http_url="http://there", history_lifetime_ms=10**9)
        )
        self.there.create("tx", transactional=True)
        self.there.create("q")
        self.sent: list[bytes] = []
        self.plain: list[bytes] = []
        self.to_lose = 0
        self.net.lose = self._lose

    def _lose(self, _to: str, _data: bytes) -> bool:
        if not self.to_lose:
            return False
        self.to_lose -= 1
        return True

    def do(self, event: str, detail: float | str) -> None:
        match event, detail:
            case "send", int(count):
                bodies = [b"%d" % (len(self.sent) + at) for at in range(count)]
                self.sent += bodies
                send(self.here, self.here.to("there", "tx"), *bodies)
            case "plain", _:
                self.plain.append(b"%d" % len(self.plain))
                self.here.to("there", "q").send(self.plain[-1])
            case "step", int(count):
                for _ in range(count):
                    self.net._step()
            case "lose", int(count):
                self.to_lose = count
            case "sleep", _:
                self._sleep(float(detail))
            case "kill", str(name):
                self.net.sides[name].kill()
                self.net.forget(name)
            case "down", str(name):
                self.net.down.add(name)
            case "up", str(name):
                self.net.down.discard(name)

    def _sleep(self, seconds: float) -> None:
        for side in self.net.sides.values():
            side.sleep(seconds)

    def heal(self) -> None:
        self.net.down.clear()
        self.to_lose = 0
        for _ in range(60):
            self.net.settle()
            self._sleep(400)
        for _ in range(4):
            self.net.settle()
            self._sleep(22_000)
        self.net.settle()


def happen(world: Adversity, random: Random) -> None:
    (event,) = random.choices(list(EVENTS), list(EVENTS.values()))
    match event:
        case "kill" | "down" | "up":
            world.do(event, random.choice(["here", "there"]))
        case "sleep":
            world.do(event, random.choice([0.2, 0.6, 21, 31, 400]))
        case _:
            world.do(event, random.randint(1, 4))


@pytest.mark.conformance("SRMP-024", "SRMP-098", "SRMP-106", "SRMP-118", "SRMP-128", "SRMP-130")
@pytest.mark.parametrize("seed", range(20))
def test_everything_arrives_once_and_in_order(seed: int) -> None:
    world, random = Adversity(), Random(seed)
    for _ in range(150):
        happen(world, random)
    world.heal()
    assert world.there.box("tx").bodies() == world.sent
    assert sorted(world.there.box("q").bodies()) == sorted(world.plain)
    assert not [queue for queue in world.here.engine.outgoing.queues() if queue.count]
