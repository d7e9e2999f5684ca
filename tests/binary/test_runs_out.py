"""Messages that leave together are one run: [MS-MQQB] 3.1.5.5, 3.1.7.1, 3.1.5.9.

The peer may acknowledge any part of it, or repeat itself, or lie, or hang up, and messages may end meanwhile.
"""

from random import Random
from typing import Any
from uuid import UUID

import pytest

from tiercel.engine.check import Checker
from tiercel.engine.handles import Found
from tiercel.engine.queue_state import QueueState
from tiercel.engine.taken import Taken
from tiercel.model.codes import DeliveryGuarantee, QueueAccess
from tiercel.model.format_name import FormatName
from tiercel.model.identifiers import MessageId
from tiercel.store.interface import Keyspace
from tiercel.store.memory_store import Crash, MemoryStore, Write
from tiercel.wire.internal_packets import SessionAck
from tiercel.wire.order_ack import build_order_ack
from tiercel.wire.user_message import UserMessage

from .site import NOW, PEER, REMOVED_MS, SYSTEM, THERE, Peer, Site, letter

RECOVERABLE = DeliveryGuarantee.RECOVERABLE
ALL = (1 << 32) - 1


def bodies(first: int, last: int) -> list[bytes]:
    return [f"{number:03}".encode() for number in range(first, last + 1)]


@pytest.fixture
def runs(site: Site, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The lengths of the runs that leave."""
    found: list[int] = []
    take = site.engine.outgoing.take

    def noted(queue: QueueState, limit: int, receiver: UUID) -> list[Taken]:
        run = take(queue, limit, receiver)
        found.extend([sum(map(len, run))] if run else [])
        return run

    monkeypatch.setattr(site.engine.outgoing, "take", noted)
    return found


def begins(site: Site, count: int, **properties: Any) -> Peer:
    """A run of recoverable messages is on the wire, and nothing is acknowledged."""
    site.sends(*bodies(1, count), delivery=RECOVERABLE, **properties)
    peer = site.reaches()
    assert peer.hears_messages() == bodies(1, count)
    return peer


def assert_sound(site: Site) -> None:
    with site.store.snapshot() as view:
        assert list(Checker(view).problems()) == []
    state = site.state()
    assert state.stored_count == len(site.bodies()) - len(state.express)


class TestARun:
    def test_a_window_is_one_run(self, site: Site, runs: list[int]) -> None:
        site.sends(*bodies(1, 100), delivery=RECOVERABLE)
        peer = site.reaches()
        assert runs == [64]
        peer.acks(64, 1, ALL)
        assert runs == [64, 36]
        assert peer.hears_messages() == bodies(1, 100)

    def test_all_acknowledgements_of_one_read_make_room_for_one_run(
        self, site: Site, runs: list[int]
    ) -> None:
        site.sends(*bodies(1, 100), delivery=RECOVERABLE)
        peer = site.reaches()
        headers = peer.header(32, 1, ALL), peer.header(64, 33, ALL)
        peer.says(b"".join(SessionAck.of(header).encode() for header in headers))
        assert runs == [64, 36]
        assert site.bodies() == bodies(65, 100)

    def test_priorities_and_express_messages_in_it(self, site: Site) -> None:
        for number in range(1, 31):
            delivery = RECOVERABLE if number % 3 else DeliveryGuarantee.EXPRESS
            site.sends(f"{number:03}".encode(), delivery=delivery, priority=number % 4)
        peer = site.reaches()
        sent = peer.hears_messages()
        assert sent == sorted(bodies(1, 30), key=lambda body: (-(int(body) % 4), body))
        stored = sum(int(body) % 3 > 0 for body in sent)
        peer.acks(30, 1, (1 << stored) - 1)
        assert site.bodies() == []
        assert_sound(site)

    def test_a_damaged_record_in_it_is_set_aside(self, site: Site) -> None:
        site.sends(*bodies(1, 5), delivery=RECOVERABLE)
        records = site.store.spaces[Keyspace.MESSAGES]
        key = sorted(records)[2]
        records[key] = records[key][:-1] + b"?"
        peer = site.reaches()
        assert peer.hears_messages() == [b"001", b"002", b"004", b"005"]
        assert site.state().stored_count == len(site.bodies()) == 4
        peer.acks(4, 1, 0b1111)
        assert len(site.bodies()) == site.state().stored_count == 0
        assert len(site.store.spaces[Keyspace.DAMAGED]) == 1

    def test_expired_messages_in_it_are_not_sent(self, site: Site) -> None:
        for number in range(1, 21):
            limit = 5 if number % 4 == 0 else 1000
            site.sends(f"{number:03}".encode(), delivery=RECOVERABLE, time_to_reach_queue=limit)
        site.elapsed_ms += 7000
        sent = site.reaches().hears_messages()
        assert sent == [body for body in bodies(1, 20) if int(body) % 4]
        assert_sound(site)


class TestPartialAcknowledgement:
    @pytest.mark.parametrize("seed", range(12))
    def test_any_part_of_it_may_be_stored(self, site: Site, seed: int) -> None:
        """What is not is sent again on the next session, in order."""
        random = Random(seed)
        count = random.choice((2, 9, 31, 32, 33, 64))
        peer, left = begins(site, count), set(range(1, count + 1))
        for _ in range(random.randint(1, 5)):
            first, flags = random.randint(1, count), random.getrandbits(32)
            peer.acks(random.choice((0, count)), first, flags)
            left -= {number for number in left if number <= first or flags >> min(number - first, 40) & 1}
            assert site.bodies() == [f"{number:03}".encode() for number in sorted(left)]
        assert_sound(site)
        peer.hangs_up()
        site.wait(5_000)
        expected = [f"{number:03}".encode() for number in sorted(left)]
        assert (site.reaches().hears_messages() if left else []) == expected

    def test_one_that_comes_again_changes_nothing(self, site: Site) -> None:
        peer = begins(site, 20)
        for _ in range(3):
            peer.acks(20, 1, 0b1010)
            assert site.bodies() == [b"003", *bodies(5, 20)]
        peer.assert_open()

    @pytest.mark.parametrize(
        ("received", "first", "flags"), [(21, 0, 0), (65_000, 0, 0), (20, 0, ALL), (0, 40_000, ALL)]
    )
    def test_numbers_of_messages_that_were_not_sent_count_for_nothing(
        self, site: Site, received: int, first: int, flags: int
    ) -> None:
        peer = begins(site, 20)
        peer.acks(received, first, flags)
        assert site.bodies() == bodies(1, 20)
        peer.acks(20, 20, 0)
        assert site.bodies() == []

    def test_a_session_that_is_lost_in_the_middle(self, site: Site) -> None:
        peer = begins(site, 64)
        peer.acks(40, 1, ALL)
        peer.hangs_up()
        site.sends(*bodies(65, 70), delivery=RECOVERABLE)
        site.wait(5_000)
        assert site.reaches().hears_messages() == bodies(33, 70)[:64]


class TestPassingOn:
    """A router handles messages that come together like messages that come one by one."""

    FAR = rf"PRIVATE={UUID(int=77)}\00000007"

    def messages(self, first: int, last: int) -> list[bytes]:
        numbers = range(first, last + 1)
        return [letter(number, queue=self.FAR, recoverable=number % 7 > 0) for number in numbers]

    def packets(self, site: Site) -> list[bytes]:
        """Of all messages that wait to be passed on."""
        queue, core, at, found = site.state(self.FAR), site.engine._core, 0, []
        while (each := queue.at_or_after(core, at)) is not None:
            record = queue.get(core, each[0])
            assert record is not None
            found.append(record.packet)
            at = each[0] + 1
        return found

    def passed_on(self, quota_kib: int | None, *, at_once: bool) -> list[bytes]:
        site = Site(routing_server=True)
        peer = site.opens()
        peer.sends(*self.messages(1, 3))  # then the way is known
        if quota_kib is not None:
            administration = site.engine.administration
            site.run(lambda: administration.set_properties(queue_manager_quota_kib=quota_kib))
        rest = self.messages(4, 40)
        for run in [rest] if at_once else [[each] for each in rest]:
            if not peer.is_closed:
                peer.sends(*run)
        return site.run(lambda: self.packets(site))

    @pytest.mark.parametrize("quota_kib", [None, 3])
    def test_all_at_once_or_one_by_one(self, quota_kib: int | None) -> None:
        """Also if there is room for a part of them only."""
        packets = self.passed_on(quota_kib, at_once=True)
        assert packets == self.passed_on(quota_kib, at_once=False)
        assert {UserMessage(packet).hop_count for packet in packets} == {1}
        assert (len(packets) == 40) == (quota_kib is None)


class TestMessagesThatEndInFlight:
    def purge(self, site: Site) -> None:
        access = QueueAccess.RECEIVE | QueueAccess.ADMIN
        opened = site.run(lambda: site.engine.opening.open(FormatName.parse(THERE), access, token=SYSTEM))
        site.run(lambda: site.engine.purging.purge(opened))

    def test_purged_ones_are_complete_or_end_with_the_session(self, site: Site) -> None:
        peer = begins(site, 30)
        self.purge(site)
        peer.acks(30, 1, 0b1111)
        assert site.bodies() == bodies(5, 30)
        assert len(site.store.spaces[Keyspace.EXPIRIES]) == 26 * 2  # their deadlines, and their purge
        peer.hangs_up()
        assert site.bodies() == []
        assert not site.store.spaces[Keyspace.EXPIRIES]
        assert len(site.store.spaces[Keyspace.DISCARDS]) == 26
        assert_sound(site)

    def test_expired_ones_too(self, site: Site) -> None:
        peer = begins(site, 30, time_to_reach_queue=3)
        site.wait(6_000)
        peer.acks(30, 1, 0b1111)
        assert site.bodies() == bodies(5, 30)
        peer.hangs_up()
        assert site.bodies() == []
        assert not site.store.spaces[Keyspace.EXPIRIES]
        assert len(site.store.spaces[Keyspace.DISCARDS]) == 26

    def test_those_of_a_queue_that_is_gone(self, site: Site) -> None:
        peer = begins(site, 10)
        state = site.state()
        state.is_deleted = True
        peer.acks(10, 1, ALL)
        assert len(state.locks) == 10


class TestStreams:
    def test_partly_ordered_partly_stored(self, site: Site) -> None:
        """A message of a stream ends with its OrderAck, and only once its session ack has come, too."""
        site.sends(*bodies(1, 40), transactional=True)
        peer = site.reaches()
        messages = [peer.hears(UserMessage) for _ in range(40)]
        sequence = messages[0].sequence[0]
        assert [each.sequence[1] for each in messages] == list(range(1, 41))
        assert [each.previous_number for each in messages] == list(range(40))
        peer.acks(40, 1, 0b1111_0000)
        assert len(site.bodies()) == 40
        order_ack = build_order_ack(MessageId(PEER, 1), NOW, site.guid, sequence, 20)
        peer.sends(order_ack.data)
        assert site.bodies() == [*bodies(2, 4), *bodies(9, 40)]
        peer.acks(40, 20, 0)
        assert site.bodies() == bodies(21, 40)
        assert_sound(site)
        peer.hangs_up()
        site.wait(5_000)
        assert site.reaches().hears_messages() == bodies(21, 40)

    def test_a_message_that_an_administrator_holds_stops_the_stream(self, site: Site) -> None:
        site.sends(*bodies(1, 10), transactional=True)
        access = QueueAccess.RECEIVE | QueueAccess.ADMIN
        opened = site.run(lambda: site.engine.opening.open(FormatName.parse(THERE), access, token=SYSTEM))
        found = site.run(lambda: site.engine.reading.receive(opened, 0, two_phase=True))
        assert isinstance(found, Found)
        peer = site.reaches()
        peer.assert_silence()
        assert list(site.state().locks) == [found.lookup_id]
        site.run(lambda: site.engine.reading.end_receive(opened, found.lookup_id, delete=False))
        site.run(lambda: site.engine.outgoing.wake(site.state()))
        assert peer.hears_messages() == bodies(1, 10)


class TestCrash:
    """At every write of the batch in which a run leaves, or is acknowledged."""

    @pytest.mark.parametrize("transactional", [False, True])
    def test_nothing_is_lost_and_nothing_counted_twice(self, transactional: bool) -> None:
        point = ended = 0
        while not ended:
            point += 1
            site = Site()
            site.sends(*bodies(1, 40), delivery=RECOVERABLE, transactional=transactional)
            peer, writes = site.reaches(), 0
            sequence = peer.hears(UserMessage).sequence[0] if transactional else 0

            def crash(_write: Write, _number: int, point: int = point) -> None:
                nonlocal writes
                writes += 1
                if writes == point:
                    raise Crash

            site.store.faults = crash
            try:
                peer.acks(40, 1, 0b1111_1111)
                if transactional:
                    order_ack = build_order_ack(MessageId(PEER, 1), NOW, site.guid, sequence, 20)
                    peer.sends(order_ack.data)
                site.wait(REMOVED_MS)
                ended = point
            except Crash:
                pass
            left = bodies(9, 40) if ended else bodies(1, 40)
            again = bodies(21, 40) if ended and transactional else left  # not what the receiver has confirmed
            self.assert_rest(site.store.crash(), left, again)
        assert point > 16  # the messages and their deadlines

    def assert_rest(self, store: MemoryStore, left: list[bytes], again: list[bytes]) -> None:
        site = Site(store)
        assert site.bodies() == left
        assert_sound(site)
        site.run(site.protocol.start)
        assert site.reaches().hears_messages() == again
