"""How the machines of a world know of each other: by name, through routers, or not at all."""

from collections.abc import Callable
from dataclasses import replace
from enum import Enum
from random import Random

from tiercel.binary.settings import Settings
from tiercel.sim.setup import NAMES, installed


class Topology(Enum):
    KNOWN = "every machine knows every other"
    STRANGERS = "no machine knows another: direct names only"
    STAR = "all messages by GUID go through BRAVO"
    LINE = "ALPHA, BRAVO, CHARLIE and DELTA know their neighbours; those in the middle are routers"
    RING = "every machine knows the next one, its router: answers return by another router"

    @property
    def is_routed(self) -> bool:
        return self not in {Topology.KNOWN, Topology.STRANGERS}

    @property
    def forms(self) -> tuple[str, ...]:
        """The forms of format names that lead to every other machine."""
        return _FORMS[self]

    def is_router(self, index: int, count: int) -> bool:
        return _ROUTERS[self](index, count)

    def settings(self, common: Settings, index: int, count: int) -> Settings:
        """The settings of one machine among `count`."""
        neighbours = _NEIGHBOURS[self](index, count)
        routers = tuple(NAMES[each].lower() for each in neighbours if self.is_router(each, count))
        return replace(
            common,
            machines={installed(each)[0]: (NAMES[each].lower(),) for each in neighbours},
            out_routing_servers=routers,
            # Messages may come from another router than the one that they are sent to.
            in_routing_servers=tuple(
                NAMES[each].lower() for each in range(count) if each != index and self.is_router(each, count)
            ),
            routing_server=self.is_router(index, count),
        )


_FORMS = {
    Topology.KNOWN: ("tcp", "os", "private"),
    Topology.STRANGERS: ("tcp", "os"),
    Topology.STAR: ("private", "private", "os"),
    Topology.LINE: ("private", "private", "os"),
    Topology.RING: ("private", "private", "os"),
}
_NEIGHBOURS: dict[Topology, Callable[[int, int], list[int]]] = {
    Topology.KNOWN: lambda index, count: [each for each in range(count) if each != index],
    Topology.STRANGERS: lambda _index, _count: [],
    Topology.STAR: lambda index, count: [
        each for each in range(count) if each != index and 1 in {index, each}
    ],
    Topology.LINE: lambda index, count: [each for each in (index - 1, index + 1) if 0 <= each < count],
    Topology.RING: lambda index, count: [(index + 1) % count],
}
_ROUTERS: dict[Topology, Callable[[int, int], bool]] = {
    Topology.KNOWN: lambda _index, _count: False,
    Topology.STRANGERS: lambda _index, _count: False,
    Topology.STAR: lambda index, _count: index == 1,
    Topology.LINE: lambda index, count: 0 < index < count - 1,
    Topology.RING: lambda _index, _count: True,
}


def choose(random: Random, count: int) -> Topology:
    """A topology for a world of `count` machines."""
    topologies = [Topology.KNOWN, Topology.KNOWN, Topology.STRANGERS]
    topologies += [Topology.STAR, Topology.STAR, Topology.RING] if count > 2 else []
    topologies += [Topology.LINE, Topology.LINE] if count > 3 else []
    return random.choice(topologies)
