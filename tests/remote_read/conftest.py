from collections.abc import Iterator

import pytest

from engine.harness import Box

from .site import Remote, Site


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()
    yield made
    made.store.close()


@pytest.fixture
def box(site: Site) -> Box:
    return site.create("q")


@pytest.fixture
def a(site: Site, box: Box) -> Remote:  # noqa: ARG001  # the queue must be there
    """The queue, opened by one client to receive."""
    return site.reader().open("q")


@pytest.fixture
def b(site: Site, box: Box) -> Remote:  # noqa: ARG001
    """The same, opened by another."""
    return site.reader().open("q")
