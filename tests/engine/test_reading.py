"""[MS-MQDMPR] 3.1.7.1.10 to 3.1.7.1.15 and 3.1.7.3.2, 3.1.7.3.3: reads that find something, or nothing."""

from collections.abc import Callable

import pytest

from tiercel.engine.core import Removed
from tiercel.engine.handles import OpenQueue
from tiercel.engine.queue_state import START
from tiercel.model.codes import MessageClass, MessageSeekAction, QueueAccess, ShareMode
from tiercel.model.errors import MqError
from tiercel.wire.user_message import UserMessage

from .harness import ALL_ACKNOWLEDGEMENTS, Box, Walk, World, refused

FIRST, PREVIOUS = MessageSeekAction.SEEK_FIRST, MessageSeekAction.SEEK_PREVIOUS
CURRENT = MessageSeekAction.SEEK_CURRENT
NEXT, LAST = MessageSeekAction.SEEK_NEXT, MessageSeekAction.SEEK_LAST

MESSAGE_NOT_FOUND = 0xC00E0088
ALREADY_RECEIVED = 0xC00E001D
TRANSACTION_USAGE = 0xC00E0050
TRANSACTION_SEQUENCE = 0xC00E0051
NOT_AVAILABLE = 0xC00E004B
TIMEOUT = 0xC00E001B


@pytest.fixture
def box(world: World) -> Box:
    return world.create("q")


@pytest.fixture
def orders(world: World) -> Box:
    return world.create("orders", transactional=True)


@pytest.fixture
def five(world: World, orders: Box) -> list[int]:
    """The lookup ids of a b c d e."""
    with world.transaction() as sending:
        orders.send_all(b"a", b"b", b"c", b"d", b"e", transaction=sending)
    return [message.lookup_id for message in orders.messages()]


class TestDequeueMessage:
    """3.1.7.1.10."""

    @pytest.mark.conformance("DMPR-199", "DMPR-071")
    def test_the_first_available_message_comes_and_the_head_is_not_skipped(self, box: Box) -> None:
        box.send_all(b"1", b"2", b"3")
        assert box.receive().body == b"1"
        box.take()
        assert box.receive().body == b"3"

    @pytest.mark.conformance("DMPR-199", "DMPR-202", "DMPR-071")
    def test_what_another_transaction_has_taken_is_passed_over(
        self, world: World, orders: Box, five: list[int]
    ) -> None:
        mine, theirs = world.begin(), world.begin()
        assert orders.receive(transaction=theirs).body == b"a"
        assert orders.receive(transaction=mine).body == b"b"
        assert orders.bodies() == [b"c", b"d", b"e"]
        assert [(each.kind.name, each.lookup_id) for each in mine.operations] == [("DEQUEUE", five[1])]
        world.commit(theirs)
        world.abort(mine)
        assert orders.bodies() == [b"b", b"c", b"d", b"e"]

    @pytest.mark.conformance("DMPR-200")
    def test_an_empty_queue_times_out_at_once_or_later(self, world: World, box: Box) -> None:
        with refused(TIMEOUT):
            box.receive()
        waiter = box.wait(5)
        world.sleep(2)
        box.send(b"late")
        assert waiter.result().record.arrival_time == world.now

    @pytest.mark.conformance("DMPR-201", "DMPR-249")
    def test_a_plain_receive_deletes_and_acknowledges(self, world: World, box: Box) -> None:
        admin = world.create("admin")
        for body in (b"1" * 100, b"2"):
            box.send(body, acknowledgements=ALL_ACKNOWLEDGEMENTS, administration_queue=admin.name)
        assert admin.classes() == [MessageClass.ACK_REACH_QUEUE] * 2
        before = box.state.size_bytes
        box.receive()
        (removed,) = (effect for effect in world.effects if isinstance(effect, Removed))
        assert (removed.reason, UserMessage(removed.record.packet).body) == (
            MessageClass.ACK_RECEIVE,
            b"1" * 100,
        )
        assert admin.classes() == [MessageClass.ACK_RECEIVE]
        assert box.state.size_bytes == before - len(removed.record.packet)
        assert box.bodies() == [b"2"]

    @pytest.mark.conformance("DMPR-203", "DMPR-205", "DMPR-071")
    def test_a_two_phase_read_locks_and_deletes_nothing(self, box: Box) -> None:
        box.send_all(b"1", b"2")
        taken = box.take()
        assert (taken.body, box.state.count) == (b"1", 2)
        assert box.bodies() == [b"2"]

    @pytest.mark.conformance("DMPR-203")
    def test_of_two_phases_and_a_transaction_the_transaction_decides(
        self, world: World, orders: Box, five: list[int]
    ) -> None:
        """T-13: both together must lock once, under the transaction."""
        reading = world.begin()
        orders.receive(transaction=reading, two_phase=True)
        assert orders.state.locks[five[0]].owner is reading
        world.abort(reading)
        assert orders.bodies() == [b"a", b"b", b"c", b"d", b"e"]


class TestDequeueMessageEnd:
    """3.1.7.1.12."""

    @pytest.mark.conformance("DMPR-207")
    def test_acknowledged_it_is_gone_and_the_sender_is_told(self, world: World, box: Box) -> None:
        admin = world.create("admin")
        box.send(b"1", acknowledgements=ALL_ACKNOWLEDGEMENTS, administration_queue=admin.name)
        taken = box.take()
        assert admin.classes() == [MessageClass.ACK_REACH_QUEUE]
        box.end(taken, delete=True)
        assert (box.state.count, admin.classes()) == (0, [MessageClass.ACK_RECEIVE])

    @pytest.mark.conformance("DMPR-207")
    def test_not_acknowledged_it_is_back_at_its_place(self, box: Box) -> None:
        box.send_all(b"1", b"2")
        taken = box.take()
        box.end(taken, delete=False)
        again = box.receive()
        assert (again.body, again.lookup_id, again.abort_count) == (b"1", taken.lookup_id, 1)

    @pytest.mark.conformance("DMPR-206")
    @pytest.mark.parametrize("first", [True, False])
    @pytest.mark.parametrize("second", [True, False])
    def test_ending_twice_is_refused(self, box: Box, first: bool, second: bool) -> None:
        box.send(b"1")
        taken = box.take()
        box.end(taken, delete=first)
        with refused(TRANSACTION_SEQUENCE):
            box.end(taken, delete=second)
        assert box.state.count == (not first)

    @pytest.mark.conformance("DMPR-208", "DMPR-186")
    @pytest.mark.parametrize("delete", [True, False])
    def test_a_purged_message_does_not_come_back(self, world: World, box: Box, delete: bool) -> None:
        admin = world.create("admin")
        box.send(b"1", acknowledgements=ALL_ACKNOWLEDGEMENTS, administration_queue=admin.name)
        taken = box.take()
        box.purge()
        assert box.state.count == 1
        box.end(taken, delete=delete)
        assert (box.state.count, box.state.size_bytes) == (0, 0)
        assert admin.classes() == [MessageClass.ACK_REACH_QUEUE, MessageClass.NACK_Q_PURGED]

    def test_a_rejected_message_ends(self, world: World, box: Box) -> None:
        admin = world.create("admin")
        box.send(b"1", acknowledgements=ALL_ACKNOWLEDGEMENTS, administration_queue=admin.name)
        taken, opened = box.take(), box.receiving
        world.run(lambda: world.engine.reading.reject(opened, taken.lookup_id))
        assert box.state.count == 0
        assert admin.classes() == [MessageClass.ACK_REACH_QUEUE, MessageClass.NACK_RECEIVE_REJECTED]
        assert world.discarded() == [MessageClass.NACK_RECEIVE_REJECTED]
        with refused(TRANSACTION_SEQUENCE):
            world.run(lambda: world.engine.reading.reject(opened, taken.lookup_id))

    def test_only_the_handle_that_took_it_can_end_it(self, world: World, box: Box) -> None:
        box.send(b"1")
        taken, other = box.take(), box.open(QueueAccess.RECEIVE)
        with refused(TRANSACTION_SEQUENCE):
            world.run(lambda: world.engine.reading.end_receive(other, taken.lookup_id, delete=True))
        assert box.state.count == 1

    def test_closing_the_handle_gives_it_back(self, box: Box) -> None:
        box.send_all(b"1", b"2")
        box.take()
        box.close()
        assert box.bodies() == [b"1", b"2"]


class TestReadMessageByLookupIdentifier:
    """3.1.7.1.13 and 3.1.7.3.3, on a b c d e with c locked."""

    @pytest.mark.conformance("DMPR-114")
    def test_the_actions_and_the_share_modes_are_those_of_the_specification(self) -> None:
        assert [each.value for each in MessageSeekAction] == [
            "SeekFirst",
            "SeekPrevious",
            "SeekCurrent",
            "SeekNext",
            "SeekLast",
        ]
        assert [(each.name, each.value) for each in ShareMode] == [("DENY_NONE", 0), ("DENY_RECEIVE", 1)]

    @pytest.mark.conformance("DMPR-210", "DMPR-263", "DMPR-114")
    @pytest.mark.parametrize("mode", ["peek", "receive", "transaction", "two phases"])
    @pytest.mark.parametrize(
        ("action", "at", "expected"),
        [
            (FIRST, 3, 0),
            (LAST, 0, 4),
            (CURRENT, 1, 1),
            (NEXT, 1, 3),  # c is passed over
            (NEXT, 2, 3),  # a locked message is still a place to start from
            (NEXT, 4, None),
            (PREVIOUS, 3, 1),
            (PREVIOUS, 2, 1),
            (PREVIOUS, 0, None),
        ],
    )
    def test_every_action_in_every_mode(
        self,
        world: World,
        orders: Box,
        five: list[int],
        mode: str,
        action: MessageSeekAction,
        at: int,
        expected: int | None,
    ) -> None:
        other = world.begin()
        orders.lookup(five[2], peek=False, transaction=other)
        reading = world.begin() if mode == "transaction" else None
        how = {"peek": mode == "peek", "transaction": reading, "two_phase": mode == "two phases"}
        if expected is None:
            with refused(MESSAGE_NOT_FOUND):
                orders.lookup(five[at], action, **how)
            assert len(orders.messages()) == 4
            return
        assert orders.lookup(five[at], action, **how).lookup_id == five[expected]
        assert (five[expected] in [each.lookup_id for each in orders.messages()]) == (mode == "peek")
        assert orders.state.count == (4 if mode == "receive" else 5)
        if reading is not None:
            world.abort(reading)
            assert len(orders.messages()) == 4

    @pytest.mark.conformance("DMPR-263", "DMPR-211")
    @pytest.mark.parametrize("action", [CURRENT, NEXT, PREVIOUS])
    @pytest.mark.parametrize("peek", [True, False], ids=["peek", "receive"])
    def test_an_unknown_id_is_not_found(
        self, orders: Box, five: list[int], action: MessageSeekAction, peek: bool
    ) -> None:
        gone = orders.lookup(five[2], peek=False).lookup_id
        for unknown in (gone, five[4] + 1000, 0, 2**64 - 1):
            with refused(MESSAGE_NOT_FOUND):
                orders.lookup(unknown, action, peek=peek)
        assert len(orders.messages()) == 4

    @pytest.mark.conformance("DMPR-263")
    @pytest.mark.parametrize(("action", "expected"), [(FIRST, b"a"), (LAST, b"e")])
    def test_first_and_last_need_no_id(
        self, orders: Box, five: list[int], action: MessageSeekAction, expected: bytes
    ) -> None:
        assert five
        assert orders.lookup(0, action).body == expected

    @pytest.mark.conformance("DMPR-263")
    @pytest.mark.parametrize("action", [FIRST, LAST])
    def test_an_empty_queue_has_no_first_and_no_last(self, orders: Box, action: MessageSeekAction) -> None:
        with refused(MESSAGE_NOT_FOUND):
            orders.lookup(0, action)

    @pytest.mark.conformance("DMPR-264", "DMPR-211")
    @pytest.mark.parametrize(
        ("state", "peek", "receive"),
        [
            ("available", b"c", b"c"),
            ("locked", TRANSACTION_USAGE, MESSAGE_NOT_FOUND),
            ("locked, peek allowed", b"c", MESSAGE_NOT_FOUND),
            ("purge pending", MESSAGE_NOT_FOUND, MESSAGE_NOT_FOUND),
            ("purge pending, peek allowed", MESSAGE_NOT_FOUND, MESSAGE_NOT_FOUND),
        ],
    )
    def test_the_current_message_by_its_state(
        self, world: World, orders: Box, five: list[int], state: str, peek: bytes | int, receive: bytes | int
    ) -> None:
        if state != "available":
            allow = state.endswith("allowed")
            orders.lookup(five[2], peek=False, transaction=world.begin(), allow_peek=allow)
        if state.startswith("purge"):
            orders.purge()
        for is_peek, expected in ((True, peek), (False, receive)):
            if isinstance(expected, int):
                with refused(expected):
                    orders.lookup(five[2], peek=is_peek)
            else:
                assert orders.lookup(five[2], peek=is_peek).body == expected

    @pytest.mark.conformance("DMPR-210")
    def test_a_peek_takes_no_transaction(self, world: World, orders: Box, five: list[int]) -> None:
        reading = world.begin()
        with pytest.raises(MqError):
            orders.lookup(five[0], peek=True, transaction=reading)
        assert not reading.operations


class TestPeekMessage:
    """3.1.7.1.15."""

    @pytest.mark.conformance("DMPR-214")
    def test_peeking_changes_nothing(self, box: Box) -> None:
        box.send_all(b"1", b"2")
        assert [box.peek().body, box.peek().body] == [b"1", b"1"]
        assert box.state.count == 2

    @pytest.mark.conformance("DMPR-214")
    def test_with_a_cursor_it_looks_at_the_current_message(self, box: Box) -> None:
        box.send_all(b"1", b"2")
        walk = Walk(box)
        assert [walk.peek().body, walk.peek().body] == [b"1", b"1"]
        box.receive()
        with refused(ALREADY_RECEIVED):
            walk.peek()


class TestAllowPeekWhenLocked:
    @pytest.mark.conformance("DMPR-077", "DMPR-262")
    @pytest.mark.parametrize("allowed", [True, False])
    def test_a_locked_message_is_seen_by_peeks_only_and_only_if_allowed(
        self, world: World, orders: Box, five: list[int], allowed: bool
    ) -> None:
        reading = world.begin()
        assert orders.receive(transaction=reading, allow_peek=allowed).lookup_id == five[0]
        assert orders.peek().body == (b"a" if allowed else b"b")
        assert orders.bodies()[0] == (b"a" if allowed else b"b")
        assert orders.lookup(0, FIRST).body == (b"a" if allowed else b"b")
        if allowed:
            assert orders.lookup(five[1], PREVIOUS).body == b"a"
        else:
            with refused(MESSAGE_NOT_FOUND):
                orders.lookup(five[1], PREVIOUS)
        assert orders.receive().body == b"b"

    @pytest.mark.conformance("DMPR-262")
    @pytest.mark.parametrize("allowed", [True, False])
    def test_one_in_the_middle_too(self, world: World, orders: Box, five: list[int], allowed: bool) -> None:
        orders.lookup(five[2], peek=False, transaction=world.begin(), allow_peek=allowed)
        assert orders.bodies() == [b"a", b"b", *([b"c"] if allowed else []), b"d", b"e"]
        assert orders.lookup(five[1], NEXT).body == (b"c" if allowed else b"d")
        assert orders.lookup(five[3], PREVIOUS).body == (b"c" if allowed else b"b")
        assert orders.lookup(five[3], PREVIOUS, peek=False).body == b"b"
        assert orders.lookup(five[0], NEXT, peek=False).body == b"d"


class TestSeekAvailableMessagePosition:
    """3.1.7.3.2: mixed states, from START, from the middle, from behind the last."""

    @pytest.mark.conformance("DMPR-260", "DMPR-261", "DMPR-050")
    @pytest.mark.parametrize("locked", [set(), {0}, {4}, {1, 2}, {0, 1, 3}, {0, 1, 2, 3, 4}])
    def test_forward_and_backward(self, world: World, orders: Box, five: list[int], locked: set[int]) -> None:
        other = world.begin()
        for index in locked:
            orders.lookup(five[index], peek=False, transaction=other)
        core, state = world.engine._core, orders.state
        free = [index for index in range(5) if index not in locked]
        for origin in range(-1, 6):
            after = START if origin < 0 else five[origin] if origin < 5 else five[4] + 1
            before = five[origin] if 0 <= origin < 5 else 0 if origin < 0 else 1 << 64
            forward, backward = state.next_available(core, after), state.previous_available(core, before)
            behind = [index for index in free if index > origin]
            ahead = [index for index in free if index < origin]
            assert (forward and forward[0]) == (five[behind[0]] if behind else None)
            assert (backward and backward[0]) == (five[ahead[-1]] if ahead else None)

    @pytest.mark.conformance("DMPR-050")
    def test_an_empty_list_has_nothing_from_start_or_end(self, world: World, orders: Box) -> None:
        core, state = world.engine._core, orders.state
        assert state.next_available(core, START) is None
        assert state.previous_available(core, 1 << 64) is None

    @pytest.mark.conformance("DMPR-073")
    def test_forward_and_backward_enumerate_the_same(self, orders: Box, five: list[int]) -> None:
        there, back = [orders.lookup(0, FIRST)], [orders.lookup(0, LAST)]
        for _ in range(4):
            there.append(orders.lookup(there[-1].lookup_id, NEXT))
            back.append(orders.lookup(back[-1].lookup_id, PREVIOUS))
        assert [each.lookup_id for each in there] == five == [each.lookup_id for each in reversed(back)]


Read = Callable[[World, OpenQueue, Walk], object]
READS: dict[str, Read] = {
    "receive": lambda world, opened, _walk: world.engine.reading.receive(opened),
    "receive with a cursor": lambda world, opened, walk: world.engine.reading.receive(
        opened, cursor=walk.cursor
    ),
    "receive in two phases": lambda world, opened, _: world.engine.reading.receive(opened, two_phase=True),
    "end of two phases": lambda world, opened, _: world.engine.reading.end_receive(opened, 1, delete=True),
    "by lookup id": lambda world, opened, _: world.engine.reading.read_by_lookup_id(
        opened, 1, CURRENT, peek=True
    ),
    "peek": lambda world, opened, _: world.engine.reading.peek(opened),
    "peek next": lambda world, opened, walk: world.engine.reading.peek_next(opened, None, walk.cursor),
}


class TestReadsOfADeletedQueue:
    @pytest.mark.conformance("DMPR-198", "DMPR-167", "DMPR-258")
    @pytest.mark.parametrize("read", READS.values(), ids=READS.keys())
    def test_the_queue_is_not_available(self, world: World, box: Box, read: Read) -> None:
        opened = box.open(QueueAccess.RECEIVE)
        box.send(b"1")
        walk, state = Walk(box, opened), box.state
        walk.peek()
        box.delete()
        with refused(NOT_AVAILABLE):
            world.run(lambda: read(world, opened, walk))
        assert not state.waiters

    @pytest.mark.conformance("DMPR-198")
    def test_without_a_timeout_a_read_waits_for_ever(self, world: World, box: Box) -> None:
        opened = box.receiving
        waiters = [
            world.run(lambda: world.engine.reading.receive(opened)),
            world.run(lambda: world.engine.reading.peek(opened)),
        ]
        world.sleep(10**7)
        assert box.state.waiters == waiters
