"""[MS-MQRR] 3.1.4.4 to 3.1.4.7 and 3.1.4.13: cursors, purging and the nine actions.

What R_StartReceive does, R_StartTransactionalReceive does as well when it names no transaction: everything
here that reads runs with both (MQRR-118).
"""

from typing import Any

import pytest

from engine.harness import Box
from tiercel.model.codes import LookupAction, ReceiveAction
from tiercel.model.identifiers import NULL_GUID
from tiercel.model.limits import INFINITE

from .site import LOOKUP, PEEK, PEEKING, PEEKING_NEXT, RECEIVING, Refused, Remote, Site, refused

INVALID_PARAMETER = 0xC00E0006
CANCELLED = 0xC00E0008
IO_TIMEOUT = 0xC00E001B
ILLEGAL_CURSOR_ACTION = 0xC00E001C
ALREADY_RECEIVED = 0xC00E001D
NOT_FOUND = 0xC00E0088
STATUS_INVALID_HANDLE = 0xC0000008
ACTIONS = [*ReceiveAction, *list(LookupAction)[:3], *list(LookupAction)[5:8]]
PEEKS = [LOOKUP.PEEK_CURRENT, LOOKUP.PEEK_NEXT, LOOKUP.PEEK_PREV]
RECEIVES = [LOOKUP.RECEIVE_CURRENT, LOOKUP.RECEIVE_NEXT, LOOKUP.RECEIVE_PREV]

pytestmark = pytest.mark.conformance("MQRR-117", "MQRR-118")


@pytest.fixture(params=["R_StartReceive", "R_StartTransactionalReceive"], autouse=True)
def _both_methods(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "R_StartTransactionalReceive":
        start = Remote.start

        def without_transaction(remote: Remote, *args: Any, **how: Any) -> Any:
            return start(remote, *args, **({"transaction": NULL_GUID} | how))

        monkeypatch.setattr(Remote, "start", without_transaction)


@pytest.fixture
def five(box: Box) -> list[int]:
    """The lookup ids of five messages."""
    box.send_all(b"1", b"2", b"3", b"4", b"5")
    return [message.lookup_id for message in box.messages()]


class TestWhatGoesTogether:
    """3.1.4.7, the table of ulAction."""

    @pytest.mark.conformance("MQRR-071")
    def test_nine_actions(self, a: Remote, five: list[int]) -> None:
        assert len(ACTIONS) == 9
        for action in ACTIONS:
            cursor = a.cursor() if action == PEEKING_NEXT else 0
            if cursor:
                a.peek(cursor=cursor)
            got = a.start(action, lookup_id=five[2] if action in LookupAction else 0, cursor=cursor).got
            if action in {RECEIVING, *RECEIVES}:
                a.give_back(got)

    @pytest.mark.conformance("MQRR-071")
    @pytest.mark.parametrize(
        "action", [0x1, 0x40000000, 0x40000013, 0x40000014, 0x40000023, 0x40000120, 0x80000002, INFINITE]
    )
    @pytest.mark.parametrize("lookup", [False, True])
    def test_no_tenth(self, a: Remote, five: list[int], action: int, lookup: bool) -> None:
        with refused(INVALID_PARAMETER):
            a.start(action, lookup_id=five[2] if lookup else 0).check()

    @pytest.mark.conformance("MQRR-069")
    @pytest.mark.parametrize("action", [*PEEKS, *RECEIVES])
    def test_a_lookup_has_neither_cursor_nor_time(self, a: Remote, five: list[int], action: int) -> None:
        for how in ({"cursor": a.cursor()}, {"timeout_ms": 1}, {"timeout_ms": INFINITE}):
            with refused(INVALID_PARAMETER):
                a.lookup(action, five[2], **how)

    @pytest.mark.conformance("MQRR-069")
    @pytest.mark.parametrize("action", ReceiveAction)
    def test_only_a_lookup_has_a_lookup_id(self, a: Remote, five: list[int], action: int) -> None:
        for cursor in (0, a.cursor()):
            with refused(INVALID_PARAMETER):
                a.start(action, lookup_id=five[2], cursor=cursor).check()

    @pytest.mark.conformance("MQRR-069")
    @pytest.mark.parametrize("action", [each for each in (*PEEKS, *RECEIVES) if not each & 1])
    def test_a_lookup_needs_a_lookup_id(self, a: Remote, five: list[int], action: int) -> None:
        """But the message after nothing is the first: see TestFirstAndLast."""
        assert five
        with refused(INVALID_PARAMETER):
            a.lookup(action, 0)

    @pytest.mark.conformance("MQRR-070")
    def test_a_cursor_takes_three_actions_and_none_takes_two(self, a: Remote, five: list[int]) -> None:
        assert five
        cursor = a.cursor()
        for action in (PEEKING, PEEKING_NEXT, RECEIVING):
            a.start(action, cursor=cursor).check()
        with refused(INVALID_PARAMETER):
            a.start(PEEKING_NEXT).check()
        for action in (PEEKING, RECEIVING):
            a.start(action).check()

    def test_arguments_are_looked_at_before_the_cursor(self, a: Remote) -> None:
        """MQRR trap 32"""
        with refused(INVALID_PARAMETER):
            a.start(0x1, cursor=99).check()


class TestReceiving:
    @pytest.mark.conformance("MQRR-067")
    def test_a_peek_is_over_with_its_answer(self, site: Site, a: Remote, b: Remote, box: Box) -> None:
        box.send(b"1")
        got = a.peek()
        with refused(0xC00E0007):
            a.end(got)
        assert (b.peek().body, site.service.pending_count) == (b"1", 0)
        assert b.take() == b"1"

    @pytest.mark.conformance("MQRR-068")
    def test_what_is_handed_out_nobody_else_sees(self, a: Remote, b: Remote, box: Box) -> None:
        box.send(b"1")
        got = a.receive()
        for how in ({}, {"cursor": b.cursor()}):
            for action in (RECEIVING, PEEKING):
                with refused(NOT_FOUND if how and action == RECEIVING else IO_TIMEOUT):
                    b.start(action, **how).check()
        for lookup in (*PEEKS, *RECEIVES):
            with pytest.raises(Refused):
                b.lookup(lookup, got.lookup_id)
        a.give_back(got)
        assert b.take() == b"1"

    @pytest.mark.conformance("MQRR-072")
    def test_the_first_that_is_free(self, a: Remote, b: Remote, five: list[int]) -> None:
        assert b.receive().lookup_id == five[0]
        assert a.receive().lookup_id == five[1]

    @pytest.mark.conformance("MQRR-073")
    def test_at_a_cursor(self, a: Remote, box: Box) -> None:
        box.send_all(b"1", b"2", b"3")
        cursor = a.cursor()
        a.peek(cursor=cursor)
        assert a.start(PEEKING_NEXT, cursor=cursor).got.body == b"2"
        assert [a.take(cursor=cursor), a.take(cursor=cursor)] == [b"2", b"3"]
        assert box.bodies() == [b"1"]

    @pytest.mark.conformance("MQRR-074")
    @pytest.mark.parametrize("with_cursor", [False, True])
    def test_peeking_moves_nothing(self, a: Remote, five: list[int], with_cursor: bool) -> None:
        cursor = a.cursor() if with_cursor else 0
        assert [a.peek(cursor=cursor).lookup_id for _ in range(3)] == [five[0]] * 3

    @pytest.mark.conformance("MQRR-075")
    def test_peeking_on(self, a: Remote, five: list[int]) -> None:
        cursor = a.cursor()
        with refused(ILLEGAL_CURSOR_ACTION):
            a.start(PEEKING_NEXT, cursor=cursor).check()
        got = [a.start(action, cursor=cursor).got for action in (PEEKING, PEEKING_NEXT, PEEKING_NEXT)]
        assert [each.lookup_id for each in got] == five[:3]

    @pytest.mark.conformance("MQRR-076")
    def test_lookups_that_peek(self, a: Remote, b: Remote, box: Box, five: list[int]) -> None:
        held = b.lookup(LOOKUP.RECEIVE_CURRENT, five[3])
        got = [a.lookup(action, five[2]).lookup_id for action in PEEKS]
        assert got == [five[2], five[4], five[1]]
        b.give_back(held)
        assert len(box.bodies()) == 5

    @pytest.mark.conformance("MQRR-077")
    @pytest.mark.parametrize(("action", "place"), [*zip(RECEIVES, (2, 3, 1), strict=True)])
    def test_lookups_that_receive(
        self, a: Remote, box: Box, five: list[int], action: int, place: int
    ) -> None:
        """MQRR trap 4: they are ended like any other receive."""
        left = [*five[:place], *five[place + 1 :]]
        got = a.lookup(action, five[2])
        assert (got.lookup_id, ids(box)) == (five[place], left)
        a.give_back(got)
        assert ids(box) == five
        a.end(a.lookup(action, five[2]))
        assert ids(box) == left

    @pytest.mark.conformance("MQRR-078")
    @pytest.mark.parametrize("action", [*PEEKS, *RECEIVES])
    def test_lookups_of_what_is_not_there(self, a: Remote, five: list[int], action: int) -> None:
        a.end(a.lookup(LOOKUP.RECEIVE_CURRENT, five[2]))
        for lookup_id in (five[2], five[4] + 1000, 5):
            with refused(NOT_FOUND):
                a.lookup(action, lookup_id)

    @pytest.mark.conformance("MQRR-086")
    def test_when_it_arrived(self, site: Site, a: Remote, box: Box) -> None:
        box.send(b"1")
        arrived = int(site.now)
        site.sleep(100)
        assert a.peek().received.arrival_time == a.receive().received.arrival_time == arrived

    @pytest.mark.conformance("MQRR-087")
    def test_the_sequence_is_the_lookup_id_without_its_first_byte(self, a: Remote, box: Box) -> None:
        for priority in range(8):
            box.send(bytes([priority]), priority=priority)
        by_priority = {message.priority: message.lookup_id for message in box.messages()}
        for priority, lookup_id in by_priority.items():
            got = a.lookup(LOOKUP.PEEK_CURRENT, lookup_id)
            assert got.received.sequence_id == lookup_id & 0x00FF_FFFF_FFFF_FFFF
            assert got.lookup_id == lookup_id
            assert got.body == bytes([priority])

    @pytest.mark.conformance("MQRR-088")
    def test_the_handle_must_allow_it(self, site: Site, box: Box) -> None:
        box.send(b"1")
        with refused(0xC00E0025):
            site.reader().open("q", PEEK).receive()
        assert box.bodies() == [b"1"]

    @pytest.mark.conformance("MQRR-034")
    def test_the_time_is_served_absolute_and_the_store_is_not_touched(
        self, site: Site, a: Remote, box: Box
    ) -> None:
        sent = int(site.now)
        box.send(b"1", time_to_reach_queue=60)
        site.sleep(7)
        first, second = a.peek(), a.peek()
        (section,) = first.received.sections
        assert int.from_bytes(section.data[12:16], "little") == sent + 60
        assert first.received == second.received
        assert first.message.packet.time_to_reach_queue == 60

    @pytest.mark.conformance("MQRR-083")
    def test_the_whole_packet(self, a: Remote, box: Box) -> None:
        box.send(b"x" * 1000)
        lookup_id = box.messages()[0].lookup_id
        stored = box.state.get(box.world.engine._core, lookup_id)
        assert stored is not None
        assert a.peek(max_body_size=1000).message.packet.data == stored.packet

    @pytest.mark.conformance("MQRR-082", "MQRR-084")
    def test_a_part_of_the_body(self, a: Remote, box: Box) -> None:
        box.send(b"x" * 1000)
        for limit in (0, 1, 999):
            message = a.peek(max_body_size=limit, max_compound_message_size=INFINITE).message
            assert (message.body_received, message.body_size) == (limit, 1000)
        for limit in (1000, INFINITE):
            assert a.peek(max_body_size=limit, max_compound_message_size=0).message.is_complete


class TestFirstAndLast:
    """MQRR trap 16: as [MS-MQQP] has it."""

    @pytest.mark.parametrize("action", [LOOKUP.PEEK_NEXT, LOOKUP.RECEIVE_NEXT])
    def test_after_nothing_comes_the_first(self, a: Remote, five: list[int], action: int) -> None:
        assert a.lookup(action, 0).lookup_id == five[0]

    @pytest.mark.parametrize("action", [LOOKUP.PEEK_PREV, LOOKUP.RECEIVE_PREV])
    def test_before_the_end_comes_the_last(self, a: Remote, five: list[int], action: int) -> None:
        assert a.lookup(action, 0xFFFF_FFFF_FFFF_FFFF).lookup_id == five[4]

    def test_an_empty_queue_has_neither(self, a: Remote) -> None:
        for action, lookup_id in ((LOOKUP.PEEK_NEXT, 0), (LOOKUP.PEEK_PREV, 0xFFFF_FFFF_FFFF_FFFF)):
            with refused(NOT_FOUND):
                a.lookup(action, lookup_id)


class TestWaiting:
    @pytest.mark.conformance("MQRR-079")
    @pytest.mark.parametrize("action", [RECEIVING, PEEKING])
    def test_milliseconds(self, site: Site, a: Remote, action: int) -> None:
        """MQRR trap 9"""
        start = site.now
        wait = a.wait(action, timeout_ms=2000)
        site.sleep(1.9)
        assert not wait.is_answered
        assert site.engine.next_deadline == start + 2
        site.sleep(0.1)
        with refused(IO_TIMEOUT):
            wait.check()
        assert site.service.pending_count == 0

    @pytest.mark.conformance("MQRR-079")
    def test_for_ever(self, site: Site, a: Remote, box: Box) -> None:
        """MQRR trap 7: a long wait is not cleaned up."""
        wait = a.wait(timeout_ms=INFINITE)
        assert site.engine.next_deadline is None
        site.sleep(360)
        assert not wait.is_answered
        box.send(b"1")
        a.end(wait.got)
        assert box.bodies() == []

    @pytest.mark.conformance("MQRR-079")
    def test_not_at_all(self, a: Remote) -> None:
        """MQRR trap 10: only a receive at a cursor says it otherwise."""
        for action in (RECEIVING, PEEKING):
            with refused(IO_TIMEOUT):
                a.start(action).check()
        with refused(NOT_FOUND):
            a.start(RECEIVING, cursor=a.cursor()).check()
        with refused(IO_TIMEOUT):
            a.start(PEEKING, cursor=a.cursor()).check()

    @pytest.mark.conformance("MQRR-080")
    def test_each_receive_takes_one_and_every_peek_sees_it(
        self, site: Site, a: Remote, b: Remote, box: Box
    ) -> None:
        receives = [a.wait(), b.wait(), a.wait()]
        peeks = [a.wait(PEEKING), b.wait(PEEKING)]
        site.sleep(1)
        box.send(b"1")
        assert [peek.got.body for peek in peeks] == [b"1", b"1"]
        assert [each.is_answered for each in receives] == [True, False, False]
        assert receives[0].answered_at == site.now
        box.send(b"2")
        assert [receives[0].got.body, receives[1].got.body] == [b"1", b"2"]
        assert not receives[2].is_answered
        a.end(receives[0].got)
        b.end(receives[1].got)
        assert box.bodies() == []

    @pytest.mark.conformance("MQRR-081")
    def test_a_number_that_is_in_use(self, site: Site, a: Remote, box: Box) -> None:
        box.send_all(b"1", b"2")
        got = a.receive(request_id=5)
        with refused(INVALID_PARAMETER):
            a.receive(request_id=5)
        a.end(got)
        assert a.take(request_id=5) == b"2"
        waits = [a.wait(request_id=6), a.wait(PEEKING, request_id=7)]
        for number in (6, 7):
            for action in (RECEIVING, PEEKING):
                with refused(INVALID_PARAMETER):
                    a.start(action, request_id=number).check()
        box.send(b"3")
        assert [wait.got.body for wait in waits] == [b"3", b"3"]
        assert site.service.pending_count == 1

    @pytest.mark.conformance("MQRR-090")
    def test_numbers_are_of_their_handle(self, a: Remote, b: Remote, box: Box) -> None:
        box.send_all(b"1", b"2")
        first, second = a.receive(request_id=1), b.receive(request_id=1)
        a.end(first)
        b.give_back(second)
        assert box.bodies() == [b"2"]

    @pytest.mark.conformance("MQRR-090")
    def test_each_request_knows_its_message(self, a: Remote, box: Box) -> None:
        waits = [a.wait(), a.wait()]
        box.send_all(b"1", b"2")
        first, second = (wait.got for wait in waits)
        a.give_back(second)
        a.end(first)
        assert box.bodies() == [b"2"]

    def test_messages_go_to_those_who_wait_in_the_order_of_their_coming(
        self, a: Remote, b: Remote, box: Box
    ) -> None:
        """On one handle and on several; also those that are given back, and the ones that do not wait."""
        box.send_all(b"1", b"2")
        held = [a.receive(request_id=each) for each in (1, 2)]
        assert [got.body for got in held] == [b"1", b"2"]
        waits = [reader.wait(request_id=each) for each, reader in ((3, a), (1, b), (4, a), (5, a))]
        box.send(b"3")
        for got in held:
            a.give_back(got)
        box.send(b"4")
        assert [wait.got.body for wait in waits] == [b"3", b"1", b"2", b"4"]

    def test_several_wait_on_one_handle_and_others_go_on(self, a: Remote) -> None:
        waits = [a.wait(timeout_ms=30_000, request_id=each) for each in (1, 2)]
        assert a.cursor()
        a.cancel(2)
        assert [wait.is_answered for wait in waits] == [False, True]


class TestCursors:
    @pytest.mark.conformance("MQRR-060")
    def test_as_many_as_one_likes(self, site: Site, a: Remote, five: list[int]) -> None:
        cursors = [a.cursor() for _ in range(1000)]
        assert len(set(cursors)) == 1000
        assert min(cursors) > 0
        first, second = cursors[0], cursors[-1]
        a.peek(cursor=first)
        a.start(PEEKING_NEXT, cursor=first)
        site.sleep(1)
        assert a.peek(cursor=first).lookup_id == five[1]
        assert a.peek(cursor=second).lookup_id == five[0]

    @pytest.mark.conformance("MQRR-061", "MQRR-089")
    def test_a_closed_one_is_gone(self, a: Remote, five: list[int]) -> None:
        assert five
        cursor = a.cursor()
        a.close_cursor(cursor)
        for action in ReceiveAction:
            with refused(STATUS_INVALID_HANDLE):
                a.start(action, cursor=cursor).check()

    @pytest.mark.conformance("MQRR-062", "MQRR-089")
    def test_only_ones_own_can_be_used(self, a: Remote, b: Remote, five: list[int]) -> None:
        own, foreign = a.cursor(), b.cursor()
        a.close_cursor(own)
        for cursor in (own, foreign, 4711):
            with refused(STATUS_INVALID_HANDLE):
                a.close_cursor(cursor)
            with refused(STATUS_INVALID_HANDLE):
                a.peek(cursor=cursor)
        assert b.peek(cursor=foreign).lookup_id == five[0]

    @pytest.mark.conformance("MQRR-091")
    @pytest.mark.parametrize("action", [PEEKING, RECEIVING])
    def test_its_message_was_taken(self, a: Remote, b: Remote, five: list[int], action: int) -> None:
        assert five
        cursor = a.cursor()
        a.peek(cursor=cursor)
        b.take()
        with refused(ALREADY_RECEIVED):
            a.start(action, cursor=cursor).check()

    @pytest.mark.conformance("MQRR-147")
    def test_closing_one_ends_its_waits(self, site: Site, a: Remote, box: Box) -> None:
        """MQRR trap 31"""
        cursor = a.cursor()
        waits = [a.wait(cursor=cursor), a.wait()]
        a.close_cursor(cursor)
        with refused(CANCELLED):
            waits[0].check()
        assert (waits[1].is_answered, site.service.pending_count) == (False, 1)
        box.send(b"1")
        assert waits[1].got.body == b"1"


class TestPurging:
    @pytest.mark.conformance("MQRR-063")
    def test_everything_goes(self, a: Remote, box: Box) -> None:
        box.send_all(*[b"x"] * 10)
        a.purge()
        with refused(IO_TIMEOUT):
            a.peek()

    @pytest.mark.conformance("MQRR-064")
    def test_not_through_a_handle_that_peeks(self, site: Site, box: Box) -> None:
        box.send(b"x")
        with refused(0xC0000022):
            site.reader().open("q", PEEK).purge()
        assert box.bodies() == [b"x"]

    @pytest.mark.conformance("MQRR-065")
    @pytest.mark.parametrize("ack", [1, 2])
    def test_what_was_handed_out_goes_with_its_end(self, a: Remote, b: Remote, box: Box, ack: int) -> None:
        box.send(b"x")
        got = a.receive()
        b.purge()
        assert box.state.count == 1
        a.end(got, ack)
        assert box.state.count == 0


def ids(box: Box) -> list[int]:
    return [message.lookup_id for message in box.messages()]
