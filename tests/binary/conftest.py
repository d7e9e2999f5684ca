"""A network with one queue manager, HERE, and one peer that the test plays; and a site for single packets."""

import pytest

from .nodes import Hand, Net, Qm
from .site import Site


@pytest.fixture
def net() -> Net:
    return Net()


@pytest.fixture
def here(net: Net) -> Qm:
    return net.qm()


@pytest.fixture
def hand(net: Net) -> Hand:
    return net.hand()


@pytest.fixture
def site() -> Site:
    site = Site()
    site.creates("q")
    site.creates("tx", transactional=True)
    site.actions.clear()
    return site
