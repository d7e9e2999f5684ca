import pytest

from .site import Site


@pytest.fixture
def site() -> Site:
    site = Site()
    site.creates("q")
    site.creates("tx", transactional=True)
    site.actions.clear()
    return site
