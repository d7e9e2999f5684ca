"""Messages that come together on a session are one run: [MS-MQQB] 3.1.5.1, 3.1.5.8."""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from uuid import UUID

import pytest

from tiercel.engine.arrivals import ArrivedRun, Source
from tiercel.engine.delivery import Delivery
from tiercel.engine.handles import Waiter
from tiercel.engine.queue_state import QueueState
from tiercel.model.codes import QueueAccess
from tiercel.model.format_name import FormatName
from tiercel.store.memory_store import Crash
from tiercel.wire.alike import Alike
from tiercel.wire.internal_packets import SessionAck
from tiercel.wire.session_header import SessionHeader
from tiercel.wire.user_message import UserMessage

from .nodes import Net
from .site import HERE, SYSTEM, Site, in_stream, letter, letters

IN_ORDER = r"DIRECT=OS:.\private$\tx"


@pytest.fixture
def runs(site: Site, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The lengths of the runs that arrive."""
    found: list[int] = []
    arrive = site.engine.arrivals.arrive

    def noted(run: Sequence[Alike], source: Source) -> ArrivedRun:
        found.append(sum(map(len, run)))
        return arrive(run, source)

    monkeypatch.setattr(site.engine.arrivals, "arrive", noted)
    return found


def test_a_single_message_is_a_run_of_one(site: Site, runs: list[int]) -> None:
    peer = site.opens()
    peer.sends(letter(1))
    peer.sends(letter(2))
    assert runs == [1, 1]


def test_those_of_one_read_are_one_run(site: Site, runs: list[int]) -> None:
    site.opens().sends(*map(letter, range(1, 21)))
    assert runs == [20]
    assert len(site.bodies(HERE)) == 20


def test_another_packet_ends_a_run(site: Site, runs: list[int]) -> None:
    peer = site.opens()
    peer.sent = 2
    peer.says(letter(1) + letter(2) + SessionAck.of(peer.header()).encode() + letter(3))
    assert runs == [2, 1]
    peer.assert_open()


def test_a_run_without_room_is_tried_once(site: Site, runs: list[int]) -> None:
    peer = site.opens()
    site.run(lambda: site.engine.administration.set_properties(queue_manager_quota_kib=0))
    peer.says(letter(1) + letter(2) + SessionAck.of(peer.header()).encode())
    assert runs == [2]
    peer.assert_closed()
    assert site.bodies(HERE) == []


@pytest.fixture
def stored(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many messages were stored together, each time; single ones are not counted."""
    found: list[int] = []
    accept = Delivery.accept_alike

    def noted(self: Delivery, queue: QueueState, messages: Alike) -> None:
        found.append(len(messages))
        accept(self, queue, messages)

    monkeypatch.setattr(Delivery, "accept_alike", noted)
    return found


def numbers(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(1, count + 1)]


def packets(site: Site, name: str) -> list[bytes]:
    queue, core = site.state(name), site.engine._core
    records = site.run(lambda: [queue.decode(core, *found) for found in queue.available(core)])
    return [record.packet for record in records if record is not None]


class TestAlike:
    """Messages of one shape are stored together, unless one of them is special."""

    def test_plain_ones(self, site: Site, stored: list[int]) -> None:
        peer = site.opens()
        peer.sends(*letters(1, 20, recoverable=True))
        assert (stored, site.bodies(HERE)) == ([20], numbers(20))
        site.wait(2000)
        assert peer.hears(SessionAck).header == SessionHeader(20, 1, 0xFFFFF, 0, 0, 64)

    def test_transactional_ones(self, site: Site, stored: list[int]) -> None:
        site.opens().sends(*map(in_stream, range(1, 21)))
        assert (stored, site.bodies(IN_ORDER)) == ([20], numbers(20))

    def test_acknowledged_as_often_as_single_ones(self, site: Site) -> None:
        peer = site.opens()
        peer.sends(*letters(1, 100, recoverable=True))
        headers = [peer.hears(SessionAck).header for _ in range(3)]
        assert [(each.ack_sequence_number, each.recoverable_msg_ack_seq_number) for each in headers] == [
            (32, 1),
            (64, 33),
            (96, 65),
        ]
        peer.assert_silence()

    def test_other_priorities_between_them(self, site: Site, stored: list[int]) -> None:
        high = [letter(number, recoverable=True, priority=7) for number in (4, 5)]
        site.opens().sends(*letters(1, 3, recoverable=True), *high, *letters(6, 9, recoverable=True))
        assert stored == [3, 2, 4]
        assert site.bodies(HERE) == [b"4", b"5", b"1", b"2", b"3", b"6", b"7", b"8", b"9"]

    def test_times_between_them(self, site: Site, stored: list[int]) -> None:
        short = letter(3, recoverable=True, time_to_be_received=5)
        site.opens().sends(*letters(1, 2, recoverable=True), short, *letters(4, 5, recoverable=True))
        assert (stored, len(site.bodies(HERE))) == ([2, 2], 5)
        site.wait(6000)
        assert site.bodies(HERE) == [b"1", b"2", b"4", b"5"]

    def test_all_with_the_same_time(self, site: Site, stored: list[int]) -> None:
        short = [letter(number, recoverable=True, time_to_be_received=5) for number in (1, 2, 3)]
        site.opens().sends(*short)
        assert (stored, site.bodies(HERE)) == ([3], numbers(3))
        site.wait(6000)
        assert site.bodies(HERE) == []

    def test_all_too_late(self, site: Site, stored: list[int]) -> None:
        site.wait(10_000)
        late = [letter(number, recoverable=True, time_to_reach_queue=5) for number in (1, 2, 3)]
        site.opens().sends(*late)
        assert (stored, site.bodies(HERE)) == ([], [])

    def test_one_that_came_before(self, site: Site, stored: list[int]) -> None:
        peer = site.opens()
        peer.sends(letter(2, recoverable=True))
        peer.sends(*letters(1, 3, recoverable=True))
        assert (stored, site.bodies(HERE)) == ([], [b"2", b"1", b"3"])

    def test_one_that_comes_twice(self, site: Site, stored: list[int]) -> None:
        site.opens().sends(*letters(1, 3, recoverable=True), letter(2, recoverable=True))
        assert (stored, site.bodies(HERE)) == ([], numbers(3))

    @pytest.mark.parametrize("order", [(1, 2, 4, 3), (1, 1, 2), (2, 3), (1, 3, 4)])
    def test_out_of_order(self, site: Site, stored: list[int], order: tuple[int, ...]) -> None:
        """Each is taken if it is the next one: [MS-MQQB] 3.1.5.8.6."""
        site.opens().sends(*map(in_stream, order))
        last, taken = 0, []
        for number in order:
            if number == last + 1:
                last = number
                taken.append(b"%d" % number)
        assert (stored, site.bodies(IN_ORDER)) == ([], taken)

    def test_the_quota_of_the_queue_in_the_middle(self, site: Site, stored: list[int]) -> None:
        state = site.state(HERE)
        set_quota = partial(site.engine.queues.set_properties, state, SYSTEM, quota_kib=1)
        site.run(set_quota)
        site.opens().sends(*letters(1, 20, recoverable=True))
        size = len(letter(1, recoverable=True))
        assert (stored, site.bodies(HERE)) == ([], numbers(1024 // size))
        assert site.run(lambda: len(list(site.engine.ledger.lines()))) == 20 - 1024 // size

    def test_the_quota_of_the_queue_manager_in_the_middle(self, site: Site, stored: list[int]) -> None:
        """The session ends without an acknowledgement: the peer sends all of them again."""
        administration = site.engine.administration
        site.run(lambda: administration.set_properties(queue_manager_quota_kib=1))
        peer = site.opens()
        peer.sends(*letters(1, 20, recoverable=True))
        fit = 1024 // len(letter(1, recoverable=True))
        assert (stored, site.bodies(HERE)) == ([], numbers(fit))
        peer.assert_closed()
        site.run(lambda: administration.set_properties(queue_manager_quota_kib=100))
        site.opens().sends(*letters(1, 20, recoverable=True))
        assert site.bodies(HERE) == numbers(20)

    def test_a_reader_waits(self, site: Site, stored: list[int]) -> None:
        name = FormatName.parse(HERE)
        opened = site.run(lambda: site.engine.opening.open(name, QueueAccess.RECEIVE, token=SYSTEM))
        waiter = site.run(lambda: site.engine.reading.receive(opened, 60))
        assert isinstance(waiter, Waiter)
        site.opens().sends(*letters(1, 3, recoverable=True))
        assert waiter.found is not None
        assert (stored, site.bodies(HERE)) == ([], [b"2", b"3"])

    def test_those_for_another_computer(self, stored: list[int]) -> None:
        far = UUID(int=0xF, version=4)
        name = rf"PRIVATE={far}\0000000a"
        site = Site(routing_server=True, machines={far: ("192.0.2.99",)})
        peer = site.opens()
        peer.sends(letter(1, recoverable=True, queue=name))  # now the way is known
        peer.sends(*(letter(number, recoverable=True, queue=name) for number in range(2, 10)))
        assert (stored, site.bodies(name)) == ([8], numbers(9))
        assert {UserMessage(packet).hop_count for packet in packets(site, name)} == {1}

    def test_to_a_queue_that_does_not_exist(self, site: Site, stored: list[int]) -> None:
        nowhere = [letter(n, recoverable=True, queue=r"DIRECT=OS:SITE\private$\nowhere") for n in (1, 2)]
        site.opens().sends(*nowhere)
        assert (stored, site.run(lambda: len(list(site.engine.ledger.lines())))) == ([], 2)

    def test_half_of_the_next_one(self, site: Site, stored: list[int]) -> None:
        peer = site.opens()
        first, second, third, fourth = letters(1, 4, recoverable=True)
        peer.says(first + second + third[:50])
        assert (stored, site.bodies(HERE)) == ([2], numbers(2))
        peer.says(third[50:] + fourth)
        assert (stored, site.bodies(HERE)) == ([2, 2], numbers(4))

    def test_a_bad_packet_after_them(self, site: Site, stored: list[int]) -> None:
        peer = site.opens()
        peer.says(b"".join(letters(1, 3, recoverable=True)) + bytes(100))
        assert (stored, site.bodies(HERE)) == ([3], numbers(3))
        assert peer.is_closed


def crashes(net: Net, *, transactional: bool, kept: bool) -> int:
    """A queue manager dies at each write of a run, and the peer sends all of it again; how often it died."""
    for write in count(1):
        here, hand = net.qm(f"HERE{write}"), net.hand()
        box, name = here.create("q", transactional=transactional), here.name_of("q")
        run = [
            hand.transactional(name, number) if transactional else hand.recoverable(name, b"%d" % number)
            for number in range(1, 9)
        ]
        hand.call(here)
        store = here.store
        here.crash_at(write, kept=kept)
        with suppress(Crash):
            hand._write(b"".join(packet.data for packet in run))
        if here.store is store:
            return write - 1
        assert box.bodies() in ([], numbers(8))
        hand.call(here).send(*run)
        assert box.bodies() == numbers(8)
    raise AssertionError


@pytest.mark.conformance("MQQB-120", "MQQB-228")
@pytest.mark.parametrize("transactional", [False, True])
@pytest.mark.parametrize("kept", [False, True])
def test_a_crash_at_every_write(net: Net, transactional: bool, kept: bool) -> None:
    assert crashes(net, transactional=transactional, kept=kept) > 8
