"""What lies between two daemons, and how it is cut: a proxy on loopback, or a cable between namespaces."""

import asyncio
import os
import random
import shutil
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from addresses import own_address


@dataclass(frozen=True)
class Site:
    """Where a daemon runs: its address, what it writes under [hosts], and how to start a process there."""

    address: str
    reached_at: str  # by the other side: the address itself, or that of a proxy
    hosts: str = ""
    prefix: tuple[str, ...] = ()


class Link(ABC):
    """`sender` and `receiver` are the sites; `cut` takes the way between them away for a while."""

    sender: Site
    receiver: Site

    @abstractmethod
    async def start(self) -> None: ...

    @abstractmethod
    async def cut(self, rand: random.Random) -> str:
        """Cuts it and mends it again; says how it was cut."""

    @abstractmethod
    async def stop(self) -> None: ...


# Loopback.


class LoopbackLink(Link):
    """Every connection goes through a proxy, which can end it, stop in the middle, or end one half of it."""

    def __init__(self, port: int) -> None:
        one, two, to_two, to_one = map(own_address, range(4))
        self.sender = Site(one, to_one, f'"{two}" = "{to_two}:{port}"')
        self.receiver = Site(two, to_two, f'"{one}" = "{to_one}:{port}"')
        self._proxies = [Proxy(to_two, one, two, port), Proxy(to_one, two, one, port)]

    async def start(self) -> None:
        for proxy in self._proxies:
            await proxy.start()

    async def cut(self, rand: random.Random) -> str:
        kind = rand.choice(("reset", "freeze", "half"))
        seconds = rand.choice((0.0, 0.1, 0.5, 2.0))
        for proxy in self._proxies:
            proxy.cut(kind, rand)
        await asyncio.sleep(seconds)
        for proxy in self._proxies:
            proxy.mend()
        return f"{kind} for {seconds} s"

    async def stop(self) -> None:
        for proxy in self._proxies:
            await proxy.stop()


class _End(asyncio.Protocol):
    """One side of a connection through the proxy."""

    transport: asyncio.Transport

    def __init__(self, proxy: "Proxy") -> None:
        self.proxy = proxy
        self.other: _End | None = None
        self._held: list[bytes] = []  # until the other side is connected

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.proxy.ends.add(self)
        if self.other is None:
            self.proxy.dial(self)
        else:
            self.other.attach(self)

    def attach(self, other: "_End") -> None:
        self.other = other
        other.transport.write(b"".join(self._held))

    def data_received(self, data: bytes) -> None:
        if self.proxy.is_frozen:
            return  # what is on its way when the line goes is lost
        if self.other is None:
            self._held.append(data)
        elif not self.other.transport.is_closing():
            self.other.transport.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self.proxy.ends.discard(self)
        if self.other is not None and not self.proxy.is_frozen:
            self.other.transport.close()


class Proxy:
    def __init__(self, host: str, source: str, target: str, port: int) -> None:
        self.ends: set[_End] = set()
        self.is_frozen = False
        self._place = host, source, target, port
        self._is_refusing = False
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        host, _, _, port = self._place
        self._server = await asyncio.get_running_loop().create_server(lambda: _End(self), host, port)

    def dial(self, end: _End) -> None:
        if self._is_refusing:
            end.transport.abort()
            return
        task = asyncio.get_running_loop().create_task(self._dial(end))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _dial(self, end: _End) -> None:
        _, source, target, port = self._place
        other = _End(self)
        other.other = end
        try:  # the daemon behind it shall see the address of its peer
            await asyncio.get_running_loop().create_connection(
                lambda: other, target, port, local_addr=(source, 0)
            )
        except OSError:
            end.transport.abort()

    def cut(self, kind: str, rand: random.Random) -> None:
        self._is_refusing = kind != "freeze"
        if kind == "reset":
            self._abort()
            return
        self.is_frozen = True
        if kind == "half":
            for end in sorted(self.ends, key=id):
                if rand.random() < 0.5:
                    end.transport.abort()

    def mend(self) -> None:
        self._abort()
        self.is_frozen = self._is_refusing = False

    def _abort(self) -> None:
        for end in list(self.ends):
            end.transport.abort()

    async def stop(self) -> None:
        self._server.close()
        self._abort()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.sleep(0)


# Namespaces.


class NamespaceLink(Link):
    """Two network namespaces with a cable between them."""

    def __init__(self) -> None:
        self._names = [f"tiercel-{os.getpid()}-{letter}" for letter in "ab"]
        addresses = ("192.0.2.1", "192.0.2.2")
        self.sender, self.receiver = (
            Site(address, address, prefix=("ip", "netns", "exec", name))
            for name, address in zip(self._names, addresses, strict=True)
        )

    async def start(self) -> None:
        for name in self._names:
            _ip("netns", "add", name)
        one, two = self._names
        _ip("-n", one, "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", two)
        for name, site in zip(self._names, (self.sender, self.receiver), strict=True):
            _ip("-n", name, "address", "add", f"{site.address}/24", "dev", "cable")
            _ip("-n", name, "link", "set", "lo", "up")
            _ip("-n", name, "link", "set", "cable", "up")

    async def cut(self, rand: random.Random) -> str:
        """The cable is out and TCP hears of nothing; both ends get a reset; or a firewall resets one end.

        The last is rare: the other end may wait for an acknowledgement until its time is up, which is long.
        """
        name = rand.choice(self._names)
        seconds = rand.choice((0.05, 0.3, 1.0, 3.0))
        [kind] = rand.choices(("unplugged", "reset", "firewall"), (10, 10, 1))
        if kind == "reset":
            _ip("netns", "exec", name, "ss", "--kill", "--tcp", "--numeric")
            return kind
        with self._unplugged(name) if kind == "unplugged" else self._firewall(name):
            await asyncio.sleep(seconds)
        return f"{kind} for {seconds} s"

    @contextmanager
    def _unplugged(self, name: str) -> Iterator[None]:
        _ip("-n", name, "link", "set", "cable", "down")
        try:
            yield
        finally:
            _ip("-n", name, "link", "set", "cable", "up")

    @contextmanager
    def _firewall(self, name: str) -> Iterator[None]:
        rule = ("INPUT", "-i", "cable", "-p", "tcp", "-j", "REJECT", "--reject-with", "tcp-reset")
        _ip("netns", "exec", name, "iptables", "-A", *rule)
        try:
            yield
        finally:
            _ip("netns", "exec", name, "iptables", "-D", *rule)

    async def stop(self) -> None:
        for name in self._names:
            _ip("netns", "delete", name, must=False)

    @staticmethod
    def missing() -> str:
        """Why there can be no namespaces here; nothing, if there can."""
        for program, package in (("ip", "iproute2"), ("ss", "iproute2"), ("iptables", "iptables")):
            if shutil.which(program) is None:
                return f"the program {program} is not installed (apt-get install {package})"
        if os.geteuid():
            return "network namespaces need root"
        name = f"tiercel-{os.getpid()}-probe"
        try:
            _ip("netns", "add", name)
            _ip("-n", name, "link", "add", "cable", "type", "veth", "peer", "name", "other")
        except subprocess.CalledProcessError as problem:
            return f"the system makes no network namespaces: {problem.stderr.strip()}"
        finally:
            _ip("netns", "delete", name, must=False)
        return ""


def _ip(*arguments: str, must: bool = True) -> None:
    subprocess.run(["ip", *arguments], check=must, capture_output=True, text=True)  # noqa: S603, S607
