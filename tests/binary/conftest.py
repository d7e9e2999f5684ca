"""A network with one queue manager, HERE, and one peer that the test plays."""

import pytest

from .nodes import Hand, Net, Qm


@pytest.fixture
def net() -> Net:
    return Net()


@pytest.fixture
def here(net: Net) -> Qm:
    return net.qm()


@pytest.fixture
def hand(net: Net) -> Hand:
    return net.hand()
