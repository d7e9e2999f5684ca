"""Stored messages that the peer has: their removal shares a commit with what comes soon."""

import pytest

from tiercel.model.codes import DeliveryGuarantee, QueueAccess
from tiercel.model.format_name import FormatName
from tiercel.store.interface import Keyspace
from tiercel.store.memory_store import Write

from .site import REMOVED_MS, SYSTEM, THERE, Peer, Site, letter

RECOVERABLE = DeliveryGuarantee.RECOVERABLE


def bodies(first: int, last: int) -> list[bytes]:
    return [f"{number:03}".encode() for number in range(first, last + 1)]


def begins(site: Site, count: int) -> Peer:
    """A window of recoverable messages is on the wire."""
    site.sends(*bodies(1, count), delivery=RECOVERABLE)
    peer = site.reaches(window=4)
    assert peer.hears_messages() == bodies(1, 4)
    return peer


def stored(site: Site) -> int:
    return len(site.store.spaces[Keyspace.MESSAGES])


class TestTheRemoval:
    def test_waits_while_the_next_messages_leave(self, site: Site) -> None:
        peer = begins(site, 10)
        writes: list[Write] = []
        site.store.faults = lambda write, _number: writes.append(write)
        peer.acks(4, 1, 0b1111)
        assert peer.hears_messages() == bodies(5, 10)
        assert (writes, stored(site), site.state().count) == ([Write.COMMIT], 10, 10)  # of nothing
        site.wait(REMOVED_MS)
        assert (stored(site), site.state().count) == (6, 6)

    def test_waits_no_longer_than_for_the_next_commit(self, site: Site) -> None:
        peer = begins(site, 10)
        peer.acks(2, 1, 0b11)
        peer.acks(4, 3, 0b11)
        assert stored(site) == 10
        peer.sends(letter(1, recoverable=True))
        assert stored(site) == 10 - 4 + 1

    def test_comes_before_a_session_ends(self, site: Site) -> None:
        peer = begins(site, 10)
        peer.acks(3, 1, 0b111)
        peer.hangs_up()
        assert site.bodies() == bodies(4, 10)
        site.wait(5_000)
        assert site.reaches().hears_messages() == bodies(4, 10)

    def test_comes_when_the_queue_manager_stops(self, site: Site) -> None:
        begins(site, 4).acks(4, 1, 0b1111)
        assert stored(site) == 4
        site.run(site.protocol.stop)
        assert stored(site) == 0

    @pytest.mark.parametrize(("limit", "value"), [("_MESSAGES_MAX", 7), ("_BYTES_MAX", 1000)])
    def test_comes_at_once_when_much_waits(
        self, site: Site, monkeypatch: pytest.MonkeyPatch, limit: str, value: int
    ) -> None:
        monkeypatch.setattr(f"tiercel.binary.deliveries.{limit}", value)
        peer = begins(site, 12)
        peer.acks(4, 1, 0b1111)
        assert stored(site) == 12
        peer.acks(8, 5, 0b1111)
        assert stored(site) == 4

    def test_is_counted_once_for_messages_that_are_acknowledged_one_by_one(self, site: Site) -> None:
        peer = begins(site, 4)
        for number in range(1, 5):
            peer.acks(number, number, 1)
        site.wait(REMOVED_MS)
        assert (stored(site), site.state().count, site.state().locks) == (0, 0, {})

    def test_does_not_wait_for_a_commit_that_express_messages_do_not_need(self, site: Site) -> None:
        site.sends(b"1")
        site.reaches().acks(1)
        assert site.state().count == 0

    def test_is_repeated_after_a_crash_before_it(self, site: Site) -> None:
        """The message is sent again, as if its acknowledgement had been lost: the receiver drops it."""
        begins(site, 4).acks(4, 1, 0b1111)
        restarted = Site(site.store.crash())
        restarted.run(restarted.protocol.start)
        assert restarted.reaches().hears_messages() == bodies(1, 4)


def test_a_purged_message_that_the_peer_had_is_delivered(site: Site) -> None:
    begins(site, 4).acks(4, 1, 0b1111)
    access = QueueAccess.RECEIVE | QueueAccess.ADMIN
    opened = site.run(lambda: site.engine.opening.open(FormatName.parse(THERE), access, token=SYSTEM))
    site.run(lambda: site.engine.purging.purge(opened))
    site.wait(REMOVED_MS)
    assert stored(site) == 0
    assert len(site.store.spaces[Keyspace.EXPIRIES]) == 0
