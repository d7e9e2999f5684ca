"""Messages over HTTP that the configuration of peers refuses."""

from uuid import UUID

from tiercel.binary.peer_table import PeerTable
from tiercel.binary.settings import Peer, Settings

GUID, OTHER = UUID(int=1), UUID(int=2)
HERE, THERE = "192.0.2.1", "192.0.2.2"
PINNED = Peer(name="a", guid=GUID, addresses=(HERE,))


def test_without_rules_all_are_taken() -> None:
    assert PeerTable(Settings()).refusal_of({GUID}, THERE) == ""


def test_a_pinned_sender_is_taken_from_its_address_only() -> None:
    table = PeerTable(Settings(peers=(PINNED,)))
    assert table.refusal_of({GUID, OTHER}, HERE) == ""
    assert table.refusal_of({OTHER}, THERE) == ""
    assert "pinned" in table.refusal_of({OTHER, GUID}, THERE)


def test_only_peers_are_taken() -> None:
    table = PeerTable(Settings(peers=(PINNED,), only_peers=True))
    assert table.refusal_of({GUID}, HERE) == ""
    assert "only" in table.refusal_of({OTHER}, HERE)
    assert "only" in table.refusal_of(set(), HERE)
    assert "only" in PeerTable(Settings(only_peers=True)).refusal_of({GUID}, HERE)


def test_a_router_may_bring_the_messages_of_others() -> None:
    settings = Settings(peers=(PINNED,), only_peers=True, in_routing_servers=(THERE,))
    assert PeerTable(settings).refusal_of({OTHER}, THERE) == ""
