"""The checks of the fuzzer on a few hundred inputs each, so that they are kept working without the fuzzer."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from promises import TARGETS

SCRIPT = Path(__file__).parent / "targets.py"
each_target = pytest.mark.parametrize("name", sorted(TARGETS))


@st.composite
def broken(draw: st.DrawFn, seeds: list[bytes]) -> bytes:
    """A seed with a few places changed, cut out or repeated."""
    data = bytearray(draw(st.sampled_from(seeds)))
    for _ in range(draw(st.integers(0, 5))):
        start = draw(st.integers(0, len(data)))
        end = draw(st.integers(start, min(start + 8, len(data))))
        data[start:end] = draw(st.binary(min_size=end - start, max_size=end - start) | st.binary(max_size=8))
    return bytes(data)


@each_target
def test_seeds_hold(name: str) -> None:
    seeds = list(TARGETS[name].seeds())
    assert seeds
    for seed in seeds:
        TARGETS[name].check(seed)


@each_target
def test_broken_seeds_hold(name: str) -> None:
    @given(broken(list(TARGETS[name].seeds())))
    @settings(max_examples=150, deadline=None)
    def check(data: bytes) -> None:
        TARGETS[name].check(data)

    check()


@each_target
def test_random_bytes_hold(name: str) -> None:
    @given(st.binary(max_size=200))
    @settings(max_examples=100, deadline=None)
    def check(data: bytes) -> None:
        TARGETS[name].check(data)

    check()


def test_the_list_of_targets() -> None:
    found = subprocess.run([sys.executable, SCRIPT, "--list"], capture_output=True, text=True, check=True)  # noqa: S603
    assert found.stdout.split() == sorted(TARGETS)
