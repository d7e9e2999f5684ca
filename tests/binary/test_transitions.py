"""[MS-MQQB] 3.1.1.1.1, figures 3 and 4: every packet in every state, of both roles."""

from collections.abc import Callable

import pytest

from tiercel.binary.transitions import EVENT_OF_PACKET, TRANSITIONS, Event, State
from tiercel.engine.machine import Write
from tiercel.model.codes import MessageClass
from tiercel.model.identifiers import MessageId
from tiercel.wire.internal_packets import EstablishConnection
from tiercel.wire.order_ack import build_final_ack, build_order_ack
from tiercel.wire.user_message import UserMessage
from wire.packets import frame, replaced

from .site import NOW, PEER, Peer, Site, establish, in_stream, letter

PACKETS = tuple(EVENT_OF_PACKET.values())

# Sections 2.2 and 2.3 of the matrix, once more and by hand.
LEGAL = {
    (State.WAITING_EC, Event.ESTABLISH_CONNECTION): State.WAITING_CP,
    (State.WAITING_CP, Event.CONNECTION_PARAMETERS): State.OPEN,
    (State.WAITING_ECR, Event.ESTABLISH_CONNECTION): State.WAITING_CPR,
    (State.WAITING_CPR, Event.CONNECTION_PARAMETERS): State.OPEN,
    (State.OPEN, Event.SESSION_ACK): State.OPEN,
    (State.OPEN, Event.USER_MESSAGE): State.OPEN,
    (State.OPEN, Event.ORDER_ACK): State.OPEN,
    (State.OPEN, Event.FINAL_ACK): State.OPEN,
}


def closed(site: Site) -> Peer:
    peer = site.opens()
    peer.says(b"\0" * 16)
    return peer


def waiting_to_reconnect(site: Site) -> Peer:
    peer = dialled(site)
    peer.hangs_up()
    return peer


def dialled(site: Site) -> Peer:
    site.sends(b"1", delivery=1)
    return site.connects()


def established(site: Site) -> Peer:
    peer = site.accepts()
    peer.says(establish())
    return peer


def answered(site: Site) -> Peer:
    peer = dialled(site)
    peer.answers(peer.hears(EstablishConnection))
    return peer


def reached(site: Site) -> Peer:
    site.sends(b"1", delivery=1)
    return site.reaches()


Way = Callable[[Site], Peer]
WAYS: dict[str, tuple[Way, State]] = {
    "acceptor, accepted": (Site.accepts, State.WAITING_EC),
    "acceptor, answered": (established, State.WAITING_CP),
    "acceptor, open": (Site.opens, State.OPEN),
    "acceptor, closed": (closed, State.CLOSED),
    "initiator, connected": (dialled, State.WAITING_ECR),
    "initiator, answered": (answered, State.WAITING_CPR),
    "initiator, open": (reached, State.OPEN),
    "initiator, waiting to reconnect": (waiting_to_reconnect, State.WAITING_RECONNECT),
}
ways = pytest.mark.parametrize("way", [pytest.param(way, id=name) for name, (way, _) in WAYS.items()])
STATE_AFTER = dict(WAYS.values())


def packet(event: Event, site: Site, peer: Peer) -> bytes:
    """A good packet of its kind, whatever the state."""
    identity = MessageId(PEER, 7)
    match event:
        case Event.ESTABLISH_CONNECTION:
            is_initiator = peer.connection in site.protocol._sessions and peer.session.is_initiator
            guids = (site.guid, PEER) if is_initiator else (PEER, site.guid)
            return establish(*guids).encode()
        case Event.CONNECTION_PARAMETERS:
            return peer.parameters().encode()
        case Event.SESSION_ACK:
            return frame(8)[:20] + peer.header().encode()
        case Event.USER_MESSAGE:
            return letter(7)
        case Event.ORDER_ACK:
            return build_order_ack(identity, NOW, site.guid, 1, 1).data
        case _:
            about = UserMessage(in_stream(1))
            return replaced(
                build_final_ack(identity, NOW, MessageClass.ACK_RECEIVE, about).data, 32, site.guid.bytes_le
            )


def test_the_table_is_that_of_the_specification() -> None:
    table = {
        (state, event): following
        for state, row in TRANSITIONS.items()
        for event, following in row.items()
        if event in PACKETS
    }
    assert table == LEGAL


@pytest.mark.conformance("MQQB-058")
@pytest.mark.parametrize("event", PACKETS, ids=lambda event: event.value)
@ways
def test_every_packet_in_every_state(site: Site, way: Way, event: Event) -> None:
    peer, state = way(site), STATE_AFTER[way]
    sessions = site.protocol._sessions
    assert peer.connection not in sessions or peer.session.state is state
    said = len(peer.raw)
    peer.says(packet(event, site, peer))
    following = TRANSITIONS[state].get(event)
    if following is None:
        assert peer.is_closed
        assert peer.connection not in sessions
        assert len(peer.raw) == said
        assert site.bodies(r"DIRECT=OS:.\private$\q") == []
    else:
        assert peer.session.state is following


@pytest.mark.conformance("MQQB-058")
@pytest.mark.parametrize(
    "garbage", [b"\0" * 16, b"GET / HTTP/1.1\r\n\r\n", replaced(frame(8), 18, b"\x07")], ids=str
)
@ways
def test_garbage_in_every_state(site: Site, way: Way, garbage: bytes) -> None:
    peer = way(site)
    before = len(site.did(Write))
    peer.says(garbage)
    assert peer.is_closed
    assert peer.connection not in site.protocol._sessions
    assert len(site.did(Write)) == before


@pytest.mark.conformance("MQQB-095")
@ways
def test_the_end_of_the_connection_in_every_state(site: Site, way: Way) -> None:
    peer = way(site)
    was_there = peer.connection in site.protocol._sessions
    site.actions.clear()
    peer.hangs_up()
    peer.hangs_up()
    assert peer.connection not in site.protocol._sessions
    assert site.events() == ["closed"] * was_there
