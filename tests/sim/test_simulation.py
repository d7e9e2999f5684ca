"""Whole worlds: seeds that must come out clean, and that come out the same every time."""

import os
import subprocess
import sys

import pytest

from tiercel.sim.simulation import run

SEEDS = 300
SLICES = 10


def trace_of(seed: int) -> list[str]:
    lines: list[str] = []
    run(seed, listener=lines.append)
    return lines


@pytest.mark.parametrize("first", range(1, SEEDS, SEEDS // SLICES))
def test_nothing_goes_wrong(first: int) -> None:
    failed = [result for seed in range(first, first + SEEDS // SLICES) if (result := run(seed)).problems]
    assert not failed, "\n".join(map(str, failed))


def test_honest_machines_keep_the_promise_among_enemies() -> None:
    failed = [
        result for seed in range(1, SEEDS // SLICES + 1) if (result := run(seed, enemies=True)).problems
    ]
    assert not failed, "\n".join(map(str, failed))


@pytest.mark.parametrize(
    "seed",
    [
        5201,  # a clock that is set right leaps by months, and a published batch comes again
        5291,  # forged acknowledgements that name their receiver as the sender
        5400,  # a message expires where the store has no room for its line in the ledger
    ],
)
def test_worlds_that_went_wrong_once(seed: int) -> None:
    assert run(seed, enemies=True).problems == []


def test_a_seed_is_the_same_world_every_time() -> None:
    assert trace_of(7) == trace_of(7)


def test_hash_order_plays_no_part() -> None:
    command = [sys.executable, "-m", "tiercel.sim", "--seed", "12", "--trace"]
    outputs = {
        subprocess.run(  # noqa: S603 -- our own program
            command, env=os.environ | {"PYTHONHASHSEED": salt}, check=False, stdout=subprocess.PIPE
        ).stdout
        for salt in ("1", "2")
    }
    assert len(outputs) == 1
    assert len(outputs.pop()) > 10_000


def test_a_trace_does_not_change_the_world() -> None:
    quiet, loud = run(11), run(11, listener=lambda _line: None)
    assert quiet == loud


def test_a_failing_seed_says_how_to_replay_it() -> None:
    result = run(3)
    result.problems.append("a hole in the world")
    assert str(result).endswith("replay: python -m tiercel.sim --seed 3 --trace")
