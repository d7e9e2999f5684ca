"""Limits of connections: who is refused, and who is evicted instead."""

from dataclasses import dataclass

import pytest

from tiercel.server.connection_limits import ConnectionLimits, Standing, origin_of

STRANGER, IDLE, BUSY = Standing


@dataclass(eq=False)
class Guest:
    standing: Standing = STRANGER
    is_evicted: bool = False

    def evict(self) -> None:
        self.is_evicted = True


def entered(limits: ConnectionLimits, address: str, count: int, standing: Standing = STRANGER) -> list[Guest]:
    guests = [Guest(standing) for _ in range(count)]
    assert all(limits.enter(guest, address) for guest in guests)
    return guests


def evicted(guests: list[Guest]) -> list[int]:
    return [number for number, guest in enumerate(guests) if guest.is_evicted]


def test_a_newcomer_gets_the_place_of_the_oldest_stranger_in_the_largest_crowd() -> None:
    limits = ConnectionLimits("test", 6, 6)
    alone = entered(limits, "192.0.2.1", 1)
    busy = entered(limits, "192.0.2.2", 2, BUSY)
    crowd = entered(limits, "192.0.2.3", 3)
    (newcomer,) = entered(limits, "192.0.2.4", 1)
    assert (evicted(alone), evicted(busy), evicted(crowd)) == ([], [], [0])
    assert (newcomer.is_evicted, len(limits), limits.turned_away) == (False, 6, 1)


def test_strangers_are_evicted_before_idle_clients() -> None:
    limits = ConnectionLimits("test", 3, 3)
    idle, stranger = entered(limits, "192.0.2.1", 2, IDLE), entered(limits, "192.0.2.2", 1)
    entered(limits, "192.0.2.3", 1, BUSY)
    assert (evicted(idle), evicted(stranger)) == ([], [0])
    entered(limits, "192.0.2.3", 1, BUSY)
    assert evicted(idle) == [0]


def test_connections_in_use_are_never_evicted() -> None:
    limits = ConnectionLimits("test", 2, 2)
    busy = entered(limits, "192.0.2.1", 2, BUSY)
    assert not limits.enter(Guest(), "192.0.2.2")
    limits.leave(busy[0])
    entered(limits, "192.0.2.2", 1)
    assert (evicted(busy), len(limits)) == ([], 2)


@pytest.mark.parametrize(
    ("first", "second"),
    [("192.0.2.1", "192.0.2.1"), ("192.0.2.1", "::ffff:192.0.2.1"), ("2001:db8::1", "2001:db8::2")],
    ids=["IPv4", "mapped", "IPv6 of one network"],
)
def test_one_address_has_a_limit_of_its_own(first: str, second: str) -> None:
    limits = ConnectionLimits("test", 10, 2)
    entered(limits, first, 1, BUSY)
    entered(limits, second, 1, BUSY)
    assert not limits.enter(Guest(), second)
    entered(limits, "198.51.100.1", 2)


def test_a_crowd_of_one_address_evicts_only_itself() -> None:
    limits = ConnectionLimits("test", 10, 2)
    other, crowd = entered(limits, "192.0.2.1", 1), entered(limits, "192.0.2.2", 2)
    entered(limits, "192.0.2.2", 1)
    assert (evicted(other), evicted(crowd)) == ([], [0])


def test_trusted_addresses_have_no_limit_per_address() -> None:
    limits = ConnectionLimits("test", 10, 1, ["192.0.2.1", "10.0.0.0/8"])
    for address in ("192.0.2.1", "10.1.2.3"):
        entered(limits, address, 3, BUSY)
    entered(limits, "192.0.2.2", 1, BUSY)
    assert not limits.enter(Guest(), "192.0.2.2")


def test_who_left_is_forgotten() -> None:
    limits = ConnectionLimits("test", 10, 1)
    for _ in range(5):
        (guest,) = entered(limits, "192.0.2.1", 1, BUSY)
        limits.leave(guest)
        limits.leave(guest)
    assert (len(limits), limits.turned_away, dict(limits._origins)) == (0, 0, {})


def test_origins() -> None:
    assert origin_of("2001:db8::1") == "2001:db8::/64"
    assert origin_of("192.0.2.1") == "192.0.2.1"


def test_of_many_connections_several_are_evicted_at_once() -> None:
    limits = ConnectionLimits("test", 200, 200)
    crowd = entered(limits, "192.0.2.1", 200)
    entered(limits, "192.0.2.2", 1)
    assert (evicted(crowd), len(limits)) == ([0, 1, 2], 198)


def test_connections_in_use_are_not_looked_at_for_every_newcomer() -> None:
    now = 1.0
    limits = ConnectionLimits("test", 2, 2, clock=lambda: now)
    busy = entered(limits, "192.0.2.1", 2, BUSY)
    assert not limits.enter(Guest(), "192.0.2.2")
    busy[0].standing = IDLE
    assert not limits.enter(Guest(), "192.0.2.2")
    now += 1
    entered(limits, "192.0.2.2", 1)
    assert (evicted(busy), limits.turned_away) == ([0], 3)
