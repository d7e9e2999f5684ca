"""Limits of connections to a port, in total and per address, with eviction of those that are not in use.

A port is open to anybody, so a limit alone would let one stranger keep everybody else out. When all places
are taken, a newcomer gets the place of a stranger, or else of an idle client. Connections in use are not
evicted.
"""

from collections import Counter
from collections.abc import Iterable
from enum import IntEnum
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final, Protocol

from tiercel.server import log

_IPV6_SITE_BITS: Final = 64  # one computer can use all addresses of a /64, so they count as one


class Standing(IntEnum):
    """In the order of eviction."""

    STRANGER = 0  # has not made a request or logged on
    IDLE = 1
    BUSY = 2  # never evicted


class Guest(Protocol):
    @property
    def standing(self) -> Standing: ...

    def evict(self) -> None:
        """Close the connection at once."""


class ConnectionLimits:
    """`trusted` addresses and networks have no limit per address, because many clients share them."""

    def __init__(self, interface: str, limit: int, per_address: int, trusted: Iterable[str] = ()) -> None:
        self._limit = limit
        self._per_address = per_address
        self._trusted = [ip_network(each, strict=False) for each in trusted]
        self._guests: dict[Guest, str] = {}  # oldest first, with the origin
        self._origins: Counter[str] = Counter()
        self._report = log.Repeated(f"{interface}_connections_turned_away")
        self.turned_away = 0  # refused and evicted, since the start

    def __len__(self) -> int:
        return len(self._guests)

    def enter(self, guest: Guest, address: str) -> bool:
        """Whether the connection is accepted; then call `leave` when it ends."""
        origin = origin_of(address)
        if (
            self._origins[origin] >= self._per_address
            and not self._is_trusted(address)
            and not self._make_room(f"{self._per_address} connections of one address are the limit", origin)
        ):
            return False
        if len(self._guests) >= self._limit and not self._make_room(
            f"{self._limit} connections are the limit"
        ):
            return False
        self._guests[guest] = origin
        self._origins[origin] += 1
        return True

    def leave(self, guest: Guest) -> None:
        """Does nothing for a connection that was refused or evicted."""
        origin = self._guests.pop(guest, None)
        if origin is not None:
            self._origins[origin] -= 1
            if not self._origins[origin]:
                del self._origins[origin]

    def _is_trusted(self, address: str) -> bool:
        return any(_parsed(address) in network for network in self._trusted)

    def _make_room(self, reason: str, origin: str | None = None) -> bool:
        """Evict a connection that is not in use, of the given origin if any; False if all are in use."""
        self.turned_away += 1
        self._report(reason)
        standings = {guest: guest.standing for guest, its in self._guests.items() if origin in {None, its}}
        lowest = min(standings.values(), default=Standing.BUSY)
        if lowest is Standing.BUSY:
            return False
        candidates = [guest for guest, standing in standings.items() if standing is lowest]
        crowds = Counter(self._guests[guest] for guest in candidates)
        # The oldest of the largest crowd: a newcomer from elsewhere has time for its request.
        victim = max(candidates, key=lambda guest: crowds[self._guests[guest]])
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
    parsed = _parsed(address)
    if isinstance(parsed, IPv6Address):
        return str(ip_network((parsed.packed, _IPV6_SITE_BITS), strict=False))
    return str(parsed)
