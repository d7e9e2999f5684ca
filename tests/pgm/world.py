"""Queue managers with multicast, and a network between them that the test controls.

net = Net(); here, there = net.add("here"), net.add("there")
there.create("prices", multicast_address="234.1.1.1:8001"); here.to().send(b"one"); net.sleep(1)
"""

from collections.abc import Callable
from random import Random
from typing import Any, TypeVar

from engine.harness import Box, World
from tiercel.pgm.actions import Action, Join, Leave, MulticastEvent
from tiercel.pgm.outputs import Outgoing
from tiercel.pgm.protocol import MulticastProtocol
from tiercel.pgm.settings import Settings
from tiercel.server.node import Node

T = TypeVar("T")
ADDRESS = "234.1.1.1:8001"


class Side(World):
    """A queue manager with multicast; its packets wait in `packets` until the network takes them."""

    def __init__(self, net: "Net | None" = None, **options: Any) -> None:
        self.net = net
        self.packets: list[Outgoing] = []
        self.events: list[MulticastEvent] = []
        self.groups: set[str] = set()
        self.starts = 0
        self.settings = options.pop("settings", Settings(rate_bytes_s=10_000_000))
        self.address = options.pop("address", "10.9.0.1")
        super().__init__(**options)

    def start(self) -> None:
        super().start()
        self.__dict__.pop("node", None)
        self.packets.clear()
        self.groups.clear()
        self.starts += 1
        draw = Random(self.starts).random
        self.multicast = MulticastProtocol(self.engine, self.settings, self.address, draw)
        self.node = Node(self.engine, wall_clock=lambda: self.now, monotonic_clock=lambda: self.now)
        self.node.attach(self.multicast, self._perform)
        self.run(self.engine.outgoing.start)

    def _perform(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Outgoing():
                    self.packets.append(action)
                case Join(group):
                    assert group not in self.groups
                    self.groups.add(group)
                case Leave(group):
                    self.groups.remove(group)
                case MulticastEvent():
                    self.events.append(action)

    def run(self, command: Callable[[], T]) -> T:
        if not hasattr(self, "node"):
            return super().run(command)
        self.node.begin()
        try:
            return command()
        finally:
            self.effects = self.node.commit()

    def to(self, address: str = ADDRESS) -> Box:
        return self.box(f"MULTICAST={address}")

    def hear(self, data: bytes, address: str, to: str) -> None:
        self.run(lambda: self.multicast.received(data, address, to))


class Net:
    """Carries packets between queue managers; a host hears the groups that it has joined, itself too."""

    def __init__(self) -> None:
        self.sides: list[Side] = []
        self.lose: Callable[[Outgoing], bool] = lambda _packet: False

    def add(self, name: str, **options: Any) -> Side:
        side = Side(self, name=name.upper(), address=f"10.9.0.{len(self.sides) + 1}", **options)
        self.sides.append(side)
        return side

    def settle(self) -> None:
        while any(side.packets for side in self.sides):
            for side in self.sides:
                packets, side.packets = side.packets, []
                for packet in packets:
                    if not self.lose(packet):
                        self._carry(side, packet)

    def _carry(self, side: Side, packet: Outgoing) -> None:
        for other in self.sides:
            if packet.address == other.address or packet.address in other.groups:
                other.hear(packet.data, side.address, packet.address)

    def sleep(self, seconds: float, step: float = 0.05) -> None:
        for _ in range(round(seconds / step)):
            for side in self.sides:
                side.sleep(step)
            self.settle()
