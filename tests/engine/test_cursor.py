"""[MS-MQDMPR] 3.2: the cursor, every state with every call."""

from collections.abc import Callable

import pytest

from tiercel.engine.handles import Found, Waiter
from tiercel.engine.queue_state import START
from tiercel.model.codes import CursorState, QueueAccess

from .harness import Box, Walk, World, found, refused, result_of

ALREADY_RECEIVED = 0xC00E001D
ILLEGAL = 0xC00E001C
NOT_FOUND = 0xC00E0088
TIMEOUT = 0xC00E001B
NOT_AVAILABLE = 0xC00E004B
CANCELLED = 0xC00E0008


@pytest.fixture
def box(world: World) -> Box:
    return world.create("q")


@pytest.fixture
def walk(box: Box) -> Walk:
    """A fresh cursor on three messages."""
    box.send_all(b"1", b"2", b"3")
    return Walk(box)


def state(walk: Walk) -> CursorState:
    return walk.cursor.state


def reach(walk: Walk, wanted: CursorState) -> None:
    """Brings a fresh cursor, on an empty queue or not, into a state."""
    match wanted:
        case CursorState.UNREAD:
            pass
        case CursorState.READ:
            walk.peek()
        case CursorState.WAIT_PEEK:
            assert isinstance(walk.start_peek(None), Waiter)
        case CursorState.WAIT_RECEIVE:
            assert isinstance(walk.start_receive(None), Waiter)
    assert state(walk) is wanted


Call = Callable[[Walk, float | None], Found | Waiter]
PEEK: Call = Walk.start_peek
PEEK_NEXT: Call = Walk.start_peek_next
RECEIVE: Call = Walk.start_receive


class TestEveryStateWithEveryCall:
    """What a call gives and where it leaves the cursor; an int is the code of the error."""

    @pytest.mark.conformance("DMPR-269", "DMPR-271", "DMPR-272", "DMPR-273", "DMPR-274", "DMPR-275")
    @pytest.mark.parametrize(
        ("before", "call", "outcome", "after"),
        [
            (CursorState.UNREAD, PEEK, b"1", CursorState.READ),
            (CursorState.UNREAD, PEEK_NEXT, ILLEGAL, CursorState.UNREAD),
            (CursorState.UNREAD, RECEIVE, b"1", CursorState.UNREAD),
            (CursorState.READ, PEEK, b"1", CursorState.READ),
            (CursorState.READ, PEEK_NEXT, b"2", CursorState.READ),
            (CursorState.READ, RECEIVE, b"1", CursorState.UNREAD),
        ],
    )
    def test_with_messages(
        self, walk: Walk, before: CursorState, call: Call, outcome: bytes | int, after: CursorState
    ) -> None:
        reach(walk, before)
        if isinstance(outcome, int):
            with refused(outcome):
                call(walk, None)
        else:
            assert found(call(walk, None)).body == outcome
        assert state(walk) is after

    @pytest.mark.conformance("DMPR-271", "DMPR-273", "DMPR-274")
    @pytest.mark.parametrize(
        ("before", "call", "after"),
        [
            (CursorState.UNREAD, PEEK, CursorState.WAIT_PEEK),
            (CursorState.UNREAD, RECEIVE, CursorState.WAIT_RECEIVE),
            (CursorState.READ, PEEK_NEXT, CursorState.WAIT_PEEK),
        ],
    )
    def test_with_nothing_to_find_it_waits(
        self, box: Box, before: CursorState, call: Call, after: CursorState
    ) -> None:
        if before is CursorState.READ:
            box.send(b"last")
        walk = Walk(box)
        reach(walk, before)
        assert isinstance(call(walk, None), Waiter)
        assert state(walk) is after

    @pytest.mark.conformance("DMPR-272", "DMPR-275")
    @pytest.mark.parametrize("call", [PEEK, RECEIVE], ids=["peek", "receive"])
    def test_the_message_under_the_cursor_is_gone(self, box: Box, walk: Walk, call: Call) -> None:
        walk.peek()
        box.receive()
        with refused(ALREADY_RECEIVED):
            call(walk, None)
        assert state(walk) is CursorState.READ
        assert walk.peek_next().body == b"2"

    @pytest.mark.parametrize("waiting", [CursorState.WAIT_PEEK, CursorState.WAIT_RECEIVE])
    @pytest.mark.parametrize("call", [PEEK, PEEK_NEXT, RECEIVE], ids=["peek", "peek next", "receive"])
    def test_while_it_waits_every_call_is_illegal(self, box: Box, waiting: CursorState, call: Call) -> None:
        walk = Walk(box)
        reach(walk, waiting)
        with refused(ILLEGAL):
            call(walk, None)
        assert state(walk) is waiting
        assert len(box.state.waiters) == 1


class TestStateAndInitialization:
    """3.2.1.2, 3.2.7.1, 3.1.7.1.1, 3.1.7.1.2."""

    @pytest.mark.conformance("DMPR-269")
    def test_handles_are_unique_in_the_queue_manager(self, world: World) -> None:
        boxes = [world.create(f"q{n}") for n in range(4)]
        walks = [Walk(box) for box in boxes for _ in range(25)]
        handles = {walk.cursor.handle for walk in walks} | {box.receiving.handle for box in boxes}
        assert len(handles) == 104
        assert walks[0].cursor in walks[0].opened.cursors.values()

    @pytest.mark.conformance("DMPR-153", "DMPR-270")
    def test_a_fresh_cursor_stands_before_the_first_message(self, walk: Walk) -> None:
        assert (walk.cursor.state, walk.cursor.position) == (CursorState.UNREAD, START)
        assert walk.opened.cursors == {walk.cursor.handle: walk.cursor}

    @pytest.mark.conformance("DMPR-153", "DMPR-270")
    def test_none_is_opened_on_a_deleted_queue(self, world: World, box: Box) -> None:
        opened = box.open(QueueAccess.RECEIVE)
        box.delete()
        with refused(NOT_AVAILABLE):
            world.run(lambda: world.engine.opening.open_cursor(opened))
        assert not opened.cursors

    @pytest.mark.conformance("DMPR-154")
    @pytest.mark.parametrize("call", [PEEK, RECEIVE], ids=["peek", "receive"])
    def test_closing_ends_the_wait_of_the_cursor_and_no_other(
        self, world: World, box: Box, call: Call
    ) -> None:
        walk, other = Walk(box), Walk(box)
        waiter, stays = call(walk, None), call(other, None)
        assert isinstance(waiter, Waiter)
        walk.close()
        assert world.completed() == [waiter]
        assert box.state.waiters == [stays]
        with refused(CANCELLED):
            waiter.result()

    def test_a_closed_cursor_and_one_of_another_opening_are_refused(self, box: Box, walk: Walk) -> None:
        stranger = Walk(box, box.open(QueueAccess.RECEIVE))
        stranger.opened = walk.opened
        walk.close()
        for each in (walk, stranger):
            with refused(0xC00E0007):
                each.peek()


class TestWalking:
    @pytest.mark.conformance("DMPR-073", "DMPR-273")
    def test_peeking_next_walks_to_the_end_and_then_times_out(self, walk: Walk) -> None:
        assert [walk.peek().body, walk.peek_next().body, walk.peek_next().body] == [b"1", b"2", b"3"]
        with refused(TIMEOUT):
            walk.peek_next()
        assert state(walk) is CursorState.UNREAD

    @pytest.mark.conformance("DMPR-274")
    def test_receiving_without_peeking_takes_them_all(self, box: Box, walk: Walk) -> None:
        assert [walk.receive().body for _ in range(3)] == [b"1", b"2", b"3"]
        with refused(NOT_FOUND):
            walk.receive()
        assert state(walk) is CursorState.UNREAD
        assert box.state.count == 0

    @pytest.mark.conformance("DMPR-275", "DMPR-212")
    def test_after_a_receive_the_next_peek_gives_the_following_message(self, walk: Walk) -> None:
        walk.peek()
        walk.receive()
        with refused(ILLEGAL):
            walk.peek_next()
        assert walk.peek().body == b"2"

    @pytest.mark.conformance("DMPR-212")
    def test_peek_next_needs_a_current_message(self, walk: Walk) -> None:
        with refused(ILLEGAL):
            walk.peek_next()
        assert walk.peek().body == b"1"
        assert walk.peek_next().body == b"2"

    def test_a_cursor_goes_past_what_others_have_locked(self, box: Box, walk: Walk) -> None:
        box.take()
        assert [walk.peek().body, walk.peek_next().body] == [b"2", b"3"]

    def test_it_sees_what_is_sent_behind_it_and_not_what_is_sent_before_it(
        self, box: Box, walk: Walk
    ) -> None:
        walk.peek()
        box.send(b"urgent", priority=7)
        box.send(b"later", priority=0)
        assert [walk.peek_next().body for _ in range(3)] == [b"2", b"3", b"later"]

    @pytest.mark.conformance("DMPR-074")
    def test_the_place_of_a_message_outlives_it(self, world: World) -> None:
        box = world.create("tx", transactional=True)
        with world.transaction() as sending:
            box.send_all(b"1", b"2", transaction=sending)
        walk, reading = Walk(box), world.begin()
        walk.peek()
        box.receive(transaction=reading)
        box.purge()
        world.abort(reading)
        with refused(ALREADY_RECEIVED):
            walk.peek()
        assert (box.state.count, box.state.locks, box.state.size_bytes) == (0, {}, 0)
        with world.transaction() as sending:
            box.send(b"3", transaction=sending)
        assert walk.peek_next().body == b"3"

    @pytest.mark.conformance("DMPR-204")
    def test_what_a_receive_with_a_cursor_answers(self, world: World, box: Box) -> None:
        box.send(b"1")
        walk = Walk(box)
        walk.peek()
        box.receive()
        with refused(ALREADY_RECEIVED):
            walk.receive()
        fresh = Walk(box)
        with refused(NOT_FOUND):
            fresh.receive()
        waiter = fresh.start_receive(5)
        assert isinstance(waiter, Waiter)
        box.send(b"2")
        assert result_of(waiter).body == b"2"
        waiter = fresh.start_receive(5)
        assert isinstance(waiter, Waiter)
        world.sleep(5)
        with refused(TIMEOUT):
            waiter.result()


class TestMessageAvailable:
    """3.2.7.5."""

    @pytest.mark.conformance("DMPR-276", "DMPR-213")
    def test_a_waiting_peek_jumps_to_an_urgent_message_at_the_head(self, box: Box, walk: Walk) -> None:
        for _ in range(2):
            walk.peek() if state(walk) is CursorState.UNREAD else walk.peek_next()
        walk.peek_next()
        waiter = walk.start_peek_next(None)
        assert isinstance(waiter, Waiter)
        box.send(b"urgent", priority=7)
        assert result_of(waiter).body == b"urgent"
        assert state(walk) is CursorState.READ
        assert walk.peek().body == b"urgent"
        assert walk.peek_next().body == b"1"

    @pytest.mark.conformance("DMPR-276")
    def test_a_waiting_receive_takes_it_and_stands_there_unread(self, box: Box) -> None:
        walk = Walk(box)
        waiter = walk.start_receive(None)
        assert isinstance(waiter, Waiter)
        box.send(b"urgent", priority=7)
        box.send(b"next")
        assert (result_of(waiter).body, state(walk)) == (b"urgent", CursorState.UNREAD)
        assert walk.peek().body == b"next"

    @pytest.mark.conformance("DMPR-213")
    def test_two_waiting_peeks_see_the_same_message(self, world: World, box: Box) -> None:
        walks = [Walk(box), Walk(box)]
        waiters = [walk.start_peek(None) for walk in walks]
        box.send(b"one")
        assert world.completed() == waiters
        assert [walk.peek().body for walk in walks] == [b"one", b"one"]


class TestWaitTimeExpired:
    """3.2.7.6."""

    @pytest.mark.conformance("DMPR-215", "DMPR-277")
    def test_a_peek_that_times_out_keeps_its_place(self, world: World, box: Box, walk: Walk) -> None:
        walk.peek()
        box.start_receive(0)
        walk.peek_next()
        walk.peek_next()
        waiter = walk.start_peek_next(1)
        assert isinstance(waiter, Waiter)
        world.sleep(1)
        with refused(TIMEOUT):
            waiter.result()
        assert state(walk) is CursorState.UNREAD
        box.send(b"4")
        assert walk.peek().body == b"4"

    @pytest.mark.conformance("DMPR-215", "DMPR-277")
    def test_a_peek_that_times_out_stays_before_what_was_locked(self, world: World, box: Box) -> None:
        box.send(b"held", priority=0)
        held = box.take()
        walk = Walk(box)
        assert isinstance(walk.start_peek(1), Waiter)
        world.sleep(1)
        assert state(walk) is CursorState.UNREAD
        box.end(held, delete=False)
        assert walk.peek().body == b"held"

    @pytest.mark.conformance("DMPR-277")
    def test_a_receive_that_times_out_stands_behind_what_was_there(self, world: World, box: Box) -> None:
        box.send(b"held", priority=0)
        held = box.take()
        walk = Walk(box)
        waiter = walk.start_receive(1)
        assert isinstance(waiter, Waiter)
        world.sleep(1)
        assert state(walk) is CursorState.UNREAD
        box.end(held, delete=False)
        with refused(NOT_FOUND):
            walk.receive()
        box.send(b"new", priority=0)
        assert walk.receive().body == b"new"

    def test_zero_time_is_no_wait(self, box: Box) -> None:
        walk = Walk(box)
        for call, code in ((PEEK, TIMEOUT), (RECEIVE, NOT_FOUND)):
            with refused(code):
                call(walk, 0)
            assert state(walk) is CursorState.UNREAD
        assert not box.state.waiters
