"""Learned addresses of other queue managers are listed, and forgotten."""

from uuid import uuid4

import pytest

from binary.nodes import Hand, Qm
from tiercel.admin import peers
from tiercel.model.errors import InvalidParameterError, MessageNotFoundError


@pytest.fixture(autouse=True)
def known(here: Qm, hand: Hand) -> None:
    """The peer has sent something."""
    here.create("orders", transactional=True)
    hand.call(here).send(hand.transactional(here.name_of("orders"), 1))


def test_the_list_gives_the_address_where_each_was_last_seen(here: Qm, hand: Hand) -> None:
    row = {"guid": str(hand.guid), "address": hand.address, "is_direct": True}
    assert here.run(lambda: peers.all_peers(here.engine)) == {"peers": [row]}


def test_a_forgotten_one_is_learned_again(here: Qm, hand: Hand) -> None:
    assert here.run(lambda: peers.forget(here.engine, str(hand.guid))) == {"guid": str(hand.guid)}
    assert here.run(lambda: peers.all_peers(here.engine)) == {"peers": []}
    hand.send(hand.transactional(here.name_of("orders"), 2))
    assert len(here.run(lambda: peers.all_peers(here.engine))["peers"]) == 1


def test_an_unknown_one_is_an_error(here: Qm) -> None:
    with pytest.raises(MessageNotFoundError):
        here.run(lambda: peers.forget(here.engine, str(uuid4())))
    with pytest.raises(InvalidParameterError, match="GUID"):
        here.run(lambda: peers.forget(here.engine, "orders"))
