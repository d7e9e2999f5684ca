"""Peers that prove their GUID by a certificate: [[peers]] with `tls`."""

from uuid import UUID

import pytest

from engine.harness import Box
from tiercel.binary.actions import Action, Dial
from tiercel.binary.certificate import Certificate
from tiercel.binary.peer_table import PeerTable
from tiercel.binary.settings import Peer, Settings
from tiercel.engine.belief import Doubt
from tiercel.model.codes import MessageClass
from tiercel.model.identifiers import MessageId, TxSequenceId
from tiercel.wire.order_ack import build_final_ack

from .nodes import Hand, Net, Qm
from .test_belief import order_ack
from .test_transactional_sending import send, waiting

OTHER = UUID(int=7, version=4)


def proof(*guids: UUID, fingerprint: str = "AA") -> Certificate:
    return Certificate(fingerprint, frozenset(guids))


@pytest.fixture
def peer(here: Qm, hand: Hand) -> Hand:
    """The hand, which proves who it is, and has to."""
    hand.certificate = proof(hand.guid)
    here.configure(peers=(Peer(name="hand", guid=hand.guid, tls=(hand.address, 1812)),))
    return hand


@pytest.fixture
def stranger(net: Net) -> Hand:
    return net.hand()


@pytest.fixture
def queue(here: Qm) -> Box:
    return here.create("tx", transactional=True)


def dials(here: Qm, monkeypatch: pytest.MonkeyPatch) -> list[Dial]:
    found: list[Dial] = []
    perform = here.perform

    def note(action: Action) -> None:
        if isinstance(action, Dial):
            found.append(action)
        perform(action)

    monkeypatch.setattr(here, "perform", note)
    return found


class TestDialling:
    @pytest.mark.parametrize("name", ["{0}", "hand", "HAND", "branch"])
    def test_whatever_names_the_peer_is_dialled_over_tls(
        self, here: Qm, peer: Hand, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        known = Peer(
            name="hand", guid=peer.guid, tls=(peer.address, 1812), addresses=("branch", "192.0.2.0/24")
        )
        here.configure(peers=(known,))
        found = dials(here, monkeypatch)
        here.box(rf"DIRECT=OS:{name.format(peer.address)}\private$\q").send(b"1")
        peer.net.settle()
        assert [(dial.address, dial.port, dial.is_tls) for dial in found] == [(peer.address, 1812, True)]
        assert peer.bodies == [b"1"]

    def test_a_network_of_the_peer_is_shared_with_others(
        self, here: Qm, peer: Hand, stranger: Hand, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        known = Peer(name="hand", guid=peer.guid, tls=(peer.address, 1812), addresses=("192.0.2.0/24",))
        here.configure(peers=(known,))
        found = dials(here, monkeypatch)
        here.to(stranger, "q").send(b"1")
        stranger.net.settle()
        assert [dial.is_tls for dial in found] == [False]
        assert stranger.bodies == [b"1"]

    def test_a_name_for_the_same_address_is_the_peer(self, here: Qm, peer: Hand) -> None:
        here.run(lambda: here.protocol.peers.resolved(peer.address, [peer.address]))
        table = here.protocol.peers
        found = table.tls_peer_at(["192.0.2.250", peer.address])
        assert found is not None
        assert (found.guid, table.tls_peer_at(["192.0.2.250"])) == (peer.guid, None)

    def test_an_address_of_two_peers_says_nothing(self) -> None:
        one, two = (
            Peer(name=name, guid=UUID(int=number, version=4), tls=("gate", 1812 + number))
            for number, name in enumerate(("one", "two"))
        )
        table = PeerTable(Settings(peers=(one, two)))
        assert table.tls_peer(None, "gate") is None
        assert table.tls_peer(None, "two") is two
        assert table.tls_peer(one.guid, "gate") is one

    def test_somebody_else_who_answers_gets_nothing(self, net: Net, here: Qm, peer: Hand) -> None:
        """Another peer with a certificate of its own, at the address of the first."""
        box = here.to(peer, "tx")
        peer.guid, peer.certificate = OTHER, proof(OTHER)
        box.send(b"1")
        net.sleep(1)
        assert (peer.bodies, waiting(box)) == ([], 1)
        assert not peer.is_connected

    def test_a_lie_about_the_guid_gets_nothing(self, net: Net, here: Qm, peer: Hand) -> None:
        box = here.to(peer, "tx")
        peer.certificate = proof(OTHER)
        box.send(b"1")
        net.sleep(1)
        assert (peer.bodies, waiting(box)) == ([], 1)
        assert "does not name urn:uuid" in here.outgoing(box).reason
        peer.certificate = proof(peer.guid)
        net.sleep(60)
        assert (peer.bodies, here.outgoing(box).reason) == ([b"1"], "")

    def test_the_peer_is_refused_where_it_answers_without(
        self, net: Net, here: Qm, peer: Hand, stranger: Hand
    ) -> None:
        """Under a name that the configuration does not give it."""
        stranger.guid = peer.guid
        box = here.to(stranger, "q")
        box.send(b"1")
        net.sleep(1)
        assert (stranger.bodies, waiting(box)) == ([], 1)
        assert f"{peer.guid} must use TLS" in here.outgoing(box).reason

    def test_messages_for_its_guid_never_go_through_routers(
        self, net: Net, here: Qm, peer: Hand, stranger: Hand
    ) -> None:
        here.configure(out_routing_servers=(stranger.address,))
        net.down.add(peer.address)
        here.to_private(peer, 10).send(b"1")
        net.sleep(60)
        assert (stranger.calls, stranger.bodies) == ([], [])
        net.down.clear()
        net.sleep(20)
        assert peer.bodies == [b"1"]


class TestAccepting:
    def test_only_the_proof_counts_not_the_address(
        self, net: Net, here: Qm, peer: Hand, stranger: Hand, queue: Box
    ) -> None:
        stranger.guid = peer.guid
        assert not stranger.call(here).is_connected
        stranger.certificate = proof(OTHER)
        assert not stranger.call(here).is_connected
        stranger.certificate = peer.certificate  # the peer itself, at another address
        stranger.call(here).send(stranger.transactional(here.name_of("tx"), 1))
        net.sleep(5)
        assert queue.bodies() == [b"1"]
        assert [number for _, number in stranger.order_acks] == [1]

    def test_a_fingerprint_takes_the_place_of_the_name(self, here: Qm, peer: Hand) -> None:
        bound = Peer(name="hand", guid=peer.guid, tls=(peer.address, 1812), fingerprint="AA")
        here.configure(peers=(bound,))
        peer.certificate = proof()
        assert peer.call(here).is_connected
        peer.certificate = proof(peer.guid, fingerprint="BB")
        assert not peer.call(here).is_connected

    def test_a_certificate_proves_guids_that_are_not_listed(
        self, here: Qm, peer: Hand, stranger: Hand
    ) -> None:
        stranger.certificate = proof(stranger.guid)
        assert stranger.call(here).is_connected
        here.configure(only_peers=True)
        assert not stranger.call(here).is_connected
        assert peer.call(here).is_connected

    @pytest.mark.usefixtures("queue")
    def test_a_sender_that_has_moved_is_told_at_once(
        self, net: Net, here: Qm, peer: Hand, stranger: Hand
    ) -> None:
        """Also where its message does not continue the stream: its certificate proves who it is."""
        name, now = here.name_of("tx"), int(net.now)
        peer.call(here).send(peer.transactional(name, 1, tx_sequence_id=TxSequenceId(now, 5)))
        net.sleep(5)
        peer.hang_up()
        stranger.guid = peer.guid
        stranger.certificate = peer.certificate
        stranger.call(here).send(stranger.transactional(name, 1, tx_sequence_id=TxSequenceId(now, 4)))
        net.sleep(5)
        assert stranger.order_acks == peer.order_acks

    def test_a_session_without_it_ends_when_it_becomes_mandatory(self, here: Qm, hand: Hand) -> None:
        assert hand.call(here).is_connected
        here.configure(peers=(Peer(name="hand", guid=hand.guid, tls=(hand.address, 1812)),))
        hand.net.settle()
        assert not hand.is_connected


class TestRouters:
    """A router without TLS does not speak for a peer that has to use it."""

    def test_its_messages_are_not_taken(self, here: Qm, peer: Hand, stranger: Hand, queue: Box) -> None:
        here.configure(in_routing_servers=(stranger.address,))
        forged = stranger.transactional(here.private_name("tx"), 1, id=MessageId(peer.guid, 1))
        stranger.call(here).send(forged)
        assert (queue.bodies(), here.protocol.doubts) == ([], {Doubt.FOREIGN_SENDER: 1})
        stranger.certificate = proof(stranger.guid)
        stranger.call(here).send(forged)
        assert queue.bodies() == [b"1"]

    def test_its_acknowledgements_are_not_believed(self, here: Qm, peer: Hand, stranger: Hand) -> None:
        here.configure(in_routing_servers=(stranger.address,))
        box = here.to(peer, "tx")
        send(box, b"1", negative_journaling=True)
        peer.ack()
        (packet,) = peer.messages
        stranger.call(here)
        order_ack(stranger, here, *packet.sequence, source=peer.guid)
        refusal = MessageClass.NACK_RECEIVE_TIMEOUT
        stranger.send(build_final_ack(MessageId(stranger.guid, 77), int(here.now), refusal, packet))
        assert here.protocol.doubts == {Doubt.OTHER_QUEUE_MANAGER: 2}
        assert waiting(box) == 1
        peer.order_ack(packet)
        assert waiting(box) == 0
        assert here.transactional_dead_letters.bodies() == []

    def test_nor_over_http(self, here: Qm, peer: Hand) -> None:
        here.configure(in_routing_servers=("192.0.2.9",))
        assert "must use TLS" in here.protocol.peers.refusal_of({peer.guid}, "192.0.2.9")
        assert here.protocol.peers.refusal_of({OTHER}, "192.0.2.9") == ""
