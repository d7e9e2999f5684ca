"""One soak: two daemons, one of which sends numbered messages to the other, and a plan of mishaps."""

import asyncio
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from uuid import UUID

import tiercel
from certificates import Authority
from tiercel import aio
from tiercel.server.config import SrmpOptions, TlsOptions, load

from .letters import COUNTER, ORDERS, number_of
from .links import Link, Site
from .transports import Transport, tls_settings

_STUCK_S = 180.0  # without any progress; a peer that is silent is given up after 80
_STOP_S = 60.0
_PRODUCER = Path(__file__).parent / "producer.py"

Say = Callable[[str], None]


@dataclass
class Plan:
    messages: int
    kills: int
    cuts: int
    seed: int


@dataclass
class Result:
    messages: int = 0
    seconds: float = 0.0
    kills: Counter[str] = field(default_factory=Counter)
    cuts: Counter[str] = field(default_factory=Counter)


class Side:
    """A daemon as a process. When it ends without having been killed, `problem` says so."""

    def __init__(
        self,
        name: str,
        site: Site,
        settings: str,
        folder: Path,
        program: tuple[str, ...],
        *,
        tells: bool = False,
    ) -> None:
        self.name = name
        self.tells = tells  # how far it is
        self.data = folder / name
        self.config = folder / f"{name}.toml"
        self.log = folder / f"{name}.log"
        self.problem = ""
        self._program = program
        self.site = site
        self._process: asyncio.subprocess.Process | None = None
        self.config.write_text(settings, "utf-8")

    @property
    def guid(self) -> UUID:
        """Of its queue manager, which is made if it is not there yet."""
        with tiercel.open(self.data) as qm:
            return qm.driver.engine.queue_manager.identifier

    async def start(self) -> None:
        command = [*self.site.prefix, sys.executable, *self._program]
        output = asyncio.subprocess.PIPE if self.tells else asyncio.subprocess.DEVNULL
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(*command, stdout=output, stderr=log)

    @property
    def output(self) -> asyncio.StreamReader:
        assert self._process is not None
        assert self._process.stdout is not None
        return self._process.stdout

    async def end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.returncode is None:
            process.send_signal(number)
        async with asyncio.timeout(_STOP_S):
            code = await process.wait()
        if code not in {0, -signal.SIGKILL, -number}:  # a signal may come while it still loads its modules
            self.problem = self._last_words(code)

    def check_alive(self) -> None:
        if self._process is not None and self._process.returncode is not None:
            raise AssertionError(self._last_words(self._process.returncode))

    def _last_words(self, code: int) -> str:
        log = self.log.read_text("utf-8", "replace").splitlines()[-40:]
        return "\n".join([f"{self.name} ended by itself with {code}; the end of its log:", *log])


class Soak:
    def __init__(
        self,
        plan: Plan,
        transport: Transport,
        link: Link,
        folder: Path,
        say: Say = lambda _text: None,
    ) -> None:
        self.plan = plan
        self.result = Result()
        self._link = link
        self._say = say
        self._rand = random.Random(plan.seed)
        self._next = self._waiting = 0  # how far the sender is
        self._progress_at = time.monotonic()
        destination = transport.destination(link.receiver)
        authority = Authority(folder) if transport.has_certificates else None
        data, config = folder / "sender", folder / "sender.toml"
        sends = (str(_PRODUCER), str(data), str(config), destination, str(plan.messages), str(plan.seed))
        settings = transport.settings(link.sender, folder, authority)
        self._sender = Side("sender", link.sender, settings, folder, sends, tells=True)
        data, config = folder / "receiver", folder / "receiver.toml"
        serves = ("-m", "tiercel", "serve", "--data", str(data), "--config", str(config))
        settings = transport.settings(link.receiver, folder, authority)
        self._receiver = Side("receiver", link.receiver, settings, folder, serves)
        if transport is Transport.TLS and authority is not None:
            _add_tls(self._sender, self._receiver, authority)
            _add_tls(self._receiver, self._sender, authority)
        self._reading: asyncio.Task[None] | None = None

    async def run(self) -> Result:
        """Raises an AssertionError when anything is lost, doubled, changed or out of order."""
        start = time.monotonic()
        await self._create_queue()
        await self._link.start()
        try:
            await self._start(self._receiver)
            await self._start(self._sender)
            await self._mishaps()
            await self._until(self._has_all_sent)
            for side in (self._sender, self._receiver):
                await side.end(signal.SIGTERM)
                assert not side.problem, side.problem
        finally:
            for side in (self._sender, self._receiver):
                await side.end(signal.SIGKILL)
            if self._reading is not None:
                await self._reading
            await self._link.stop()
        self.result.seconds = time.monotonic() - start
        await self._check()
        return self.result

    async def _create_queue(self) -> None:
        """On an address that is there before the namespaces are."""
        config = replace(
            load(self._receiver.config).with_listen("127.0.0.1:0"),
            srmp=SrmpOptions(),
            tls=TlsOptions(),
            peers=(),
        )
        async with await aio.open(self._receiver.data, config=config) as qm:
            await qm.create_queue(ORDERS, transactional=True)

    # What happens to them.

    async def _mishaps(self) -> None:
        """At random places of the way, each of them while messages are on it."""
        plan, rand = self.plan, self._rand
        mishaps: list[Side | None] = [None] * plan.cuts
        mishaps += [(self._sender, self._receiver)[index % 2] for index in range(plan.kills)]
        rand.shuffle(mishaps)
        places = sorted(rand.randrange(plan.messages * 97 // 100) for _ in mishaps)
        for victim, place in zip(mishaps, places, strict=True):
            await self._until(lambda place=place: self._next >= place)  # type: ignore[misc]
            if rand.random() < 0.8:  # else one mishap comes into the other
                await self._until_it_moves()
            await asyncio.sleep(rand.random() * 0.2)
            if victim is None:
                how = await self._link.cut(rand)
                self.result.cuts[how] += 1
                self._say(f"{self._next}: the link was cut, {how}")
            else:
                await self._kill(victim)

    async def _kill(self, side: Side) -> None:
        side.check_alive()
        await side.end(signal.SIGKILL)
        assert not side.problem, side.problem
        self.result.kills[side.name] += 1
        pause = self._rand.choice((0.0, 0.0, 0.3, 1.0))
        self._say(f"{self._next}: the {side.name} was killed, and starts again after {pause} s")
        await asyncio.sleep(pause)
        await self._start(side)

    async def _start(self, side: Side) -> None:
        await side.start()
        if side.tells:
            if self._reading is not None:
                await self._reading
            self._waiting = -1  # until it tells
            self._reading = asyncio.create_task(self._read(side.output))

    async def _read(self, output: asyncio.StreamReader) -> None:
        while line := await output.readline():
            if not line.endswith(b"\n"):
                return
            number, waiting = map(int, line.split())
            assert number >= self._next, f"the sender went back from {self._next} to {number}"
            if (number, waiting) != (self._next, self._waiting):
                self._next, self._waiting = number, waiting
                self._progress_at = time.monotonic()

    async def _until_it_moves(self) -> None:
        before = self._next, self._waiting
        await self._until(lambda: self._has_all_sent() or before != (self._next, self._waiting))

    def _has_all_sent(self) -> bool:
        return self._next == self.plan.messages and not self._waiting

    async def _until(self, condition: Callable[[], bool]) -> None:
        self._progress_at = time.monotonic()
        while not condition():
            for side in (self._sender, self._receiver):
                side.check_alive()
            if time.monotonic() - self._progress_at > _STUCK_S:
                raise AssertionError(f"nothing moves: {self._next} sent, {self._waiting} of them wait")
            await asyncio.sleep(0.005)

    # What is left of them.

    async def _check(self) -> None:
        plan, stores = self.plan, (self._sender.data, self._receiver.data)
        with tiercel.open(self._receiver.data) as qm:
            numbers = [number_of(message.body) for message in qm.queue(ORDERS).cursor()]
            assert not qm.discards()
        assert numbers == list(range(plan.messages)), _difference(numbers, plan.messages)
        with tiercel.open(self._sender.data) as qm:
            assert [int(each.body) for each in qm.queue(COUNTER).cursor()] == [plan.messages]
            assert not qm.transactional_dead_letters.count
            assert not qm.dead_letters.count
            assert not qm.discards()
        for data in stores:
            check = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "tiercel", "check", str(data), stdout=asyncio.subprocess.PIPE
            )
            output, _ = await check.communicate()
            assert not check.returncode, output.decode()
        self.result.messages = len(numbers)


def _add_tls(side: Side, other: Side, authority: Authority) -> None:
    with side.config.open("a", encoding="utf-8") as config:
        config.write(tls_settings(side.site, side.guid, other.site, other.guid, authority))


def _difference(numbers: list[int], total: int) -> str:
    counts = Counter(numbers)
    lost = [number for number in range(total) if not counts[number]]
    doubled = [number for number, count in counts.items() if count > 1]
    jumps = [(one, two) for one, two in pairwise(numbers) if two != one + 1]
    return (
        f"{len(numbers)} messages of {total}; lost {len(lost)}: {lost[:20]}; doubled {len(doubled)}: "
        f"{doubled[:20]}; {len(jumps)} breaks of the order: {jumps[:20]}"
    )
