"""Messages that come together leave the same store and the same bytes on every wire as single ones."""

import pytest

from .arrival_stories import differences, tell_of_runs


@pytest.mark.parametrize("seed", [*range(1, 41), 50138])  # the last: journals without room for all copies
def test_no_difference(seed: int) -> None:
    assert differences(seed) == []


def test_the_stories_have_runs() -> None:
    stories = [tell_of_runs(seed)[1:] for seed in range(1, 11)]
    for runs in zip(*stories, strict=True):  # that came, and that left
        sizes = [size for run in runs for size in run]
        assert len(sizes) > 20
        assert max(sizes) > 50
