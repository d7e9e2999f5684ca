"""[MS-MQDMPR] 3.1.1.18, 3.1.7.1.28, 3.1.7.3.9: which outgoing message leaves next.

The specification keeps one collection for the whole queue manager and sends one entry at a time. Here each
outgoing queue sends by itself, which is externally equivalent (SRMP trap 45): carriers get the queues that
are ready, queues of one next hop take turns by their base priority, and each gives its best message.
"""

from uuid import UUID

import pytest

from carrier import HttpCarrier, Post
from tiercel.binary.actions import Resolve
from tiercel.model.codes import DeliveryGuarantee
from tiercel.wire.user_message import UserMessage

from .site import ADDRESS, PRIVATE, Peer, Site, establish, letter

QUEUES = [rf"DIRECT=TCP:{ADDRESS}\private$\q{number}" for number in (1, 2, 3)]


def narrow() -> Site:
    """A site that has one message on its way at a time."""
    return Site(window_size=1)


def opened(site: Site) -> Peer:
    """The session is open, and its first message on its way."""
    site.sends(b"first")
    peer = site.reaches()
    assert peer.hears_messages() == [b"first"]
    return peer


def drained(peer: Peer) -> list[bytes]:
    """What leaves, one message after the other."""
    sent: list[bytes] = []
    received = 1
    while True:
        peer.acks(received)
        if not peer.has_heard:
            return sent
        sent += [peer.hears(UserMessage).body]
        received += 1


@pytest.mark.conformance("DMPR-116")
def test_one_session_carries_the_messages_of_all_queues_to_a_next_hop() -> None:
    site = narrow()
    peer = opened(site)
    for number, name in enumerate(QUEUES):
        site.sends(b"%d" % number, to=name)
        site.outgoing(name).base_priority = number
    (next_hop,) = peer.session.next_hops
    assert set(next_hop.ready) >= {site.state(name) for name in QUEUES}
    assert drained(peer) == [b"2", b"1", b"0"]
    assert not next_hop.ready


@pytest.mark.conformance("DMPR-230")
def test_messages_that_are_added_leave_without_being_asked_for() -> None:
    site = narrow()
    peer = opened(site)
    bodies = [b"%d" % number for number in range(10)]
    for body in bodies:  # in batches of their own
        site.sends(body, priority=3)
    site.sends(b"urgent", priority=4)
    assert drained(peer) == [b"urgent", *bodies]
    assert site.bodies() == []


@pytest.mark.conformance("DMPR-230")
@pytest.mark.parametrize("transactional", [False, True])
def test_messages_that_are_added_together_do_too(site: Site, *, transactional: bool) -> None:
    site.sends(b"first")
    peer = site.reaches()
    assert peer.hears_messages() == [b"first"]
    site.sends(b"1", b"2", b"3", delivery=DeliveryGuarantee.RECOVERABLE, transactional=transactional)
    assert peer.hears_messages() == [b"1", b"2", b"3"]


@pytest.mark.conformance("DMPR-230")
def test_and_a_run_that_is_passed_on() -> None:
    site = Site(routing_server=True)
    peer, sender = site.opens(), site.accepts(UUID(int=9))
    sender.says(establish(sender.guid), sender.parameters())
    run = [letter(number, recoverable=True, queue=PRIVATE, source=sender.guid) for number in range(1, 8)]
    sender.sends(*run[:2])  # then the way is known
    assert peer.hears_messages() == [b"1", b"2"]
    sender.sends(*run[2:])
    assert peer.hears_messages() == [b"3", b"4", b"5", b"6", b"7"]


@pytest.mark.conformance("DMPR-233")
def test_the_highest_priority_goes_next_and_deleted_messages_do_not() -> None:
    site = narrow()
    peer = opened(site)
    for priority in (1, 7, 5, 6):
        site.sends(b"%d" % priority, priority=priority)
    state = site.state()
    sixth = next(each for each in state.express if UserMessage(state.express[each].packet).body == b"6")
    record = state.express[sixth]
    site.run(lambda: site.engine.delivery.detach(state, sixth, record))
    peer.assert_silence()
    assert drained(peer) == [b"7", b"5", b"1"]
    peer.acks(4)
    peer.assert_silence()


@pytest.mark.conformance("DMPR-041")
def test_the_base_priority_orders_queues_and_not_the_messages_of_one() -> None:
    site = narrow()
    peer = opened(site)
    slow, fast = QUEUES[:2]
    site.sends(b"slow 1", b"slow 2", to=slow, priority=7)
    site.sends(b"fast 1", b"fast 2", to=fast, priority=3)
    site.outgoing(fast).base_priority = 5
    assert drained(peer) == [b"fast 1", b"fast 2", b"slow 1", b"slow 2"]


@pytest.mark.conformance("DMPR-234")
def test_the_name_decides_which_protocol_sends(site: Site) -> None:
    carrier = HttpCarrier(site.engine)
    posts: list[object] = []
    site.node.attach(carrier, posts.extend)
    site.sends(b"binary")
    assert ([action.host for _, action in site.did(Resolve)], posts) == ([ADDRESS], [])
    site.sends(b"srmp", to="DIRECT=HTTP://there/msmq/private$/q")
    (post,) = posts
    assert isinstance(post, Post)
    assert [UserMessage(data).body for data in post.packets] == [b"srmp"]
    assert site.reaches().hears_messages() == [b"binary"]
