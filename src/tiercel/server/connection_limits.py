"""Limits of connections to a port, in total and per address, with eviction of those that are not in use.

A port is open to anybody, so a limit alone would let one stranger keep everybody else out. When all places
are taken, a newcomer gets the place of a stranger, or else of an idle client. Connections in use are not
evicted.
"""

from collections import Counter
from collections.abc import Callable, Iterable, MutableSequence
from enum import IntEnum
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from logging import WARNING
from time import monotonic
from typing import Final, Protocol

from tiercel.server import log

_LOOK_AGAIN_S: Final = 0.1  # after all connections were in use
_IPV6_SITE_BITS: Final = 64  # one computer can use all addresses of a /64, so they count as one


class Standing(IntEnum):
    """In the order of eviction."""

    STRANGER = 0  # has not made a request, logged on or carried a message
    IDLE = 1
    BUSY = 2  # never evicted


class Guest(Protocol):
    @property
    def standing(self) -> Standing: ...

    def evict(self) -> None:
        """Close the connection at once."""


class ConnectionLimits:
    """`trusted` addresses and networks have no limit per address, because many clients share them.

    `interface` is part of the log event of connections that were refused or evicted.
    """

    def __init__(
        self,
        interface: str,
        limit: int,
        per_address: int,
        trusted: Iterable[str] = (),
        clock: Callable[[], float] = monotonic,
        turned_away: MutableSequence[int] | None = None,
    ) -> None:
        """`turned_away`: where to count, if another process reads it."""
        self.change(limit, per_address)
        self._trusted = [ip_network(each, strict=False) for each in trusted]
        self._guests: dict[Guest, str] = {}  # oldest first, with the origin
        self._origins: dict[str, dict[Guest, None]] = {}
        self._report = log.Repeated(f"{interface}_connections_turned_away".removeprefix("_"), level=WARNING)
        self._clock = clock
        self._all_busy_until = 0.0
        self._turned_away = [0] if turned_away is None else turned_away

    @property
    def turned_away(self) -> int:
        """Connections that were refused and evicted, since the start."""
        return self._turned_away[0]

    def change(self, limit: int, per_address: int) -> None:
        """Holds for newcomers; those who are there stay."""
        self._limit = limit
        self._per_address = per_address

    def __len__(self) -> int:
        return len(self._guests)

    def enter(self, guest: Guest, address: str) -> bool:
        """Whether the connection is accepted; then call `leave` when it ends."""
        origin = origin_of(address)
        neighbours = self._origins.get(origin, {})
        if len(neighbours) >= self._per_address and not self._is_trusted(address):
            reason = f"{self._per_address} connections of one address are the limit"
            if not self._make_room(reason, origin, neighbours):
                return False
        if len(self._guests) >= self._limit:
            reason = f"{self._limit} connections are the limit"
            # Several at once, or a crowd of newcomers would make us look at all connections for each of them.
            if not self._make_room(reason, origin, self._guests, 1 + self._limit // 100):
                return False
        self._guests[guest] = origin
        self._origins.setdefault(origin, {})[guest] = None
        return True

    def leave(self, guest: Guest) -> None:
        """Does nothing for a connection that was refused or evicted."""
        origin = self._guests.pop(guest, None)
        if origin is not None:
            neighbours = self._origins[origin]
            del neighbours[guest]
            if not neighbours:
                del self._origins[origin]

    def _is_trusted(self, address: str) -> bool:
        return bool(address) and any(_parsed(address) in network for network in self._trusted)

    def _make_room(self, reason: str, origin: str, guests: Iterable[Guest], count: int = 1) -> bool:
        """Evict some of these connections that are not in use; False if all are in use."""
        self._report(reason, address=origin)
        if guests is self._guests and self._clock() < self._all_busy_until:
            self._turned_away[0] += 1
            return False
        standings = {guest: guest.standing for guest in guests}
        lowest = min(standings.values(), default=Standing.BUSY)
        if lowest is Standing.BUSY:
            self._turned_away[0] += 1
            if guests is self._guests:
                self._all_busy_until = self._clock() + _LOOK_AGAIN_S
            return False
        candidates = [guest for guest, standing in standings.items() if standing is lowest]
        crowds = Counter(self._guests[guest] for guest in candidates)
        # The oldest of the largest crowd: a newcomer from elsewhere has time for its request.
        candidates.sort(key=lambda guest: -crowds[self._guests[guest]])
        for victim in candidates[:count]:
            self._turned_away[0] += 1
            self.leave(victim)
            victim.evict()
        return True


@lru_cache(1024)
def _parsed(address: str) -> IPv4Address | IPv6Address:
    parsed = ip_address(address)
    mapped = parsed.ipv4_mapped if isinstance(parsed, IPv6Address) else None
    return mapped or parsed


@lru_cache(1024)
def origin_of(address: str) -> str:
    """The address, or the network of an IPv6 address, that is counted as one client."""
    if not address:  # it has ended already
        return ""
    parsed = _parsed(address)
    if isinstance(parsed, IPv6Address):
        return str(ip_network((parsed.packed, _IPV6_SITE_BITS), strict=False))
    return str(parsed)
