"""Messages that come together leave the same store and the same bytes on every wire as single ones."""

import pytest

from .arrival_stories import differences, tell_of_runs


@pytest.mark.parametrize("seed", range(1, 41))
def test_no_difference(seed: int) -> None:
    assert differences(seed) == []


def test_the_stories_have_runs() -> None:
    runs = [size for seed in range(1, 11) for size in tell_of_runs(seed)[1]]
    assert len(runs) > 20
    assert max(runs) > 50
