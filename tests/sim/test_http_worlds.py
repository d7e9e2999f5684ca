"""Worlds in which some links are HTTP: lost answers and receipts, copies, routers, crashes at every write."""

import pytest

from tiercel.sim.http_links import Routing
from tiercel.sim.machine import Parts
from tiercel.sim.simulation import World, run

SEEDS = 40
SLICES = 4


def trace_of(seed: int, *, http: bool) -> list[str]:
    lines: list[str] = []
    run(seed, listener=lines.append, http=http)
    return lines


@pytest.mark.conformance("SRMP-024", "SRMP-098", "SRMP-106", "SRMP-118", "SRMP-128", "SRMP-130")
@pytest.mark.parametrize("first", range(1, SEEDS, SEEDS // SLICES))
def test_nothing_is_lost_doubled_or_reordered(first: int) -> None:
    results = [run(seed, http=True) for seed in range(first, first + SEEDS // SLICES)]
    failed = [result for result in results if result.problems]
    assert not failed, "\n".join(map(str, failed))


def test_honest_machines_keep_the_promise_among_enemies() -> None:
    results = [run(seed, http=True, enemies=True) for seed in range(1, SEEDS // SLICES + 1)]
    failed = [result for result in results if result.problems]
    assert not failed, "\n".join(map(str, failed))


def test_a_seed_is_the_same_world_every_time() -> None:
    assert trace_of(6, http=True) == trace_of(6, http=True)


def test_messages_receipts_and_answers_are_in_the_trace() -> None:
    text = "\n".join(trace_of(7, http=True))
    for part in ("POST A", "stream receipt to http://", " HTTP 200", "a proxy loses", "a proxy delivers"):
        assert part in text, part


def test_the_option_changes_no_other_world() -> None:
    assert not any("HTTP" in line for line in trace_of(7, http=False))


def test_the_way_to_replay_a_seed_names_the_option() -> None:
    assert run(3, http=True).command == "python -m tiercel.sim --seed 3 --trace --http"


def test_all_kinds_of_routing_occur() -> None:
    worlds = [World(seed, Parts(), None, http=True) for seed in range(1, 40)]
    assert {world.links.routing for world in worlds} == set(Routing)
