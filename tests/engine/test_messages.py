"""[MS-MQDMPR] 3.1.1.11, 3.1.1.12, 3.1.7.1.9: the list of messages, and what a message keeps."""

import itertools
import random
from typing import Any
from uuid import UUID

import pytest

from tiercel.model.codes import MessageClass, QueueAccess
from tiercel.model.errors import IllegalPropertyVariantTypeError
from tiercel.model.format_name import FormatName
from tiercel.model.identifiers import MessageId, lookup_id_sequence
from tiercel.model.limits import TIME_TO_REACH_QUEUE_DEFAULT_S
from tiercel.model.message import Message
from tiercel.wire.message import decode_message
from tiercel.wire.user_message import UserMessage

from .harness import ALL_ACKNOWLEDGEMENTS, NOW, RECOVERABLE, Box, World, found, result_of


@pytest.fixture
def box(world: World) -> Box:
    return world.create("q")


@pytest.mark.parametrize("name", ["dead_letter_queue", "time_to_reach_queue", "response_queues", "signature"])
def test_a_property_of_a_wrong_type_is_refused(box: Box, name: str) -> None:
    properties: dict[str, Any] = {name: "orders"}
    with pytest.raises(IllegalPropertyVariantTypeError, match=name):
        box.send(b"x", **properties)
    assert box.state.count == 0


class TestMessagePositionList:
    """3.1.1.2."""

    @pytest.mark.conformance("DMPR-049", "DMPR-191")
    @pytest.mark.parametrize("delivery", ["express", "recoverable", "mixed"])
    def test_priority_first_then_arrival(self, box: Box, delivery: str) -> None:
        for index, priority in enumerate([3, 7, 0, 3, 7]):
            mode = index % 2 if delivery == "mixed" else int(delivery == "recoverable")
            box.send(bytes([priority, index]), priority=priority, delivery=mode)
        expected = [bytes(pair) for pair in ((7, 1), (7, 4), (3, 0), (3, 3), (0, 2))]
        assert box.bodies() == expected
        assert [message.body for message in box.drain()] == expected

    @pytest.mark.parametrize("delivery", [0, 1])
    def test_the_queue_counts_what_is_in_it(self, box: Box, delivery: int) -> None:
        box.send_all(b"1", b"2", delivery=delivery)
        queue = box.state.queue
        both = queue.total_bytes
        box.end(box.take(), delete=True)
        assert (queue.message_count, queue.total_bytes) == (1, both // 2)
        box.receive()
        assert (queue.message_count, queue.total_bytes) == (0, 0)

    @pytest.mark.conformance("DMPR-190", "DMPR-075")
    def test_the_lookup_id_is_the_priority_byte_and_a_counter(self, box: Box) -> None:
        for priority in (0, 7, 3, 3, 7):
            box.send(bytes([priority]), priority=priority)
        messages = box.messages()
        ids = [message.lookup_id for message in messages]
        assert ids == sorted(set(ids))
        assert [each >> 56 for each in ids] == [7 - message.body[0] for message in messages]
        by_arrival = sorted(lookup_id_sequence(each) for each in ids)
        assert by_arrival == list(range(by_arrival[0], by_arrival[0] + 5))

    @pytest.mark.conformance("DMPR-190")
    def test_transactional_messages_have_no_priority(self, world: World) -> None:
        """T-02."""
        box = world.create("orders", transactional=True)
        with world.transaction() as sending:
            box.send(b"low", priority=0, transaction=sending)
            box.send(b"high", priority=7, transaction=sending)
        assert box.bodies() == [b"low", b"high"]
        assert {message.lookup_id >> 56 for message in box.messages()} == {7}

    @pytest.mark.conformance("DMPR-075")
    def test_a_moved_message_gets_an_id_of_its_new_list(self, world: World, box: Box) -> None:
        """T-09."""
        sub = box.subqueue("s")
        seen: set[int] = set()
        for priority in (3, 7, 0, 3):
            box.send(b"x", priority=priority)
            message = box.peek()
            seen.add(message.lookup_id)
            box.move(message, sub)
        ids = [message.lookup_id for message in sub.messages()]
        assert ids == sorted(set(ids))
        assert seen.isdisjoint(ids)
        assert [each >> 56 for each in ids] == [0, 4, 4, 7]
        moved = sub.receive()
        assert (moved.move_count, moved.last_move_time) == (1, world.now)

    @pytest.mark.conformance("DMPR-028")
    def test_the_counter_goes_on_after_restarts(self, durable_world: World) -> None:
        box = durable_world.create("q")
        highest = 0
        for restart in (durable_world.restart, durable_world.kill, durable_world.restart):
            box.send_all(b"1", b"2", b"3")
            sequences = [lookup_id_sequence(message.lookup_id) for message in box.drain()]
            assert min(sequences) > highest
            highest = max(sequences)
            restart()


class TestIdentifier:
    @pytest.mark.conformance("DMPR-076", "DMPR-092")
    def test_ten_thousand_messages_over_two_restarts_have_ids_of_their_own(self, world: World) -> None:
        box = world.create("q")
        ids: set[MessageId] = set()
        for end in (world.restart, world.kill, None):
            opened = box.open(QueueAccess.SEND)
            world.engine.begin(world.now)
            ids |= {world.engine.sending.send(opened, Message(b"", delivery=n % 2)) for n in range(3400)}
            world.engine.commit()
            if end is not None:
                end()
        assert len(ids) == 10_200
        assert {each.lineage for each in ids} == {world.engine.queue_manager.identifier}

    @pytest.mark.conformance("DMPR-092")
    def test_the_origin_of_a_message_stays(self, box: Box) -> None:
        origin = UUID(int=0xABCDEF)
        box.arrive(b"1", id=MessageId(origin, 9))
        message = box.receive()
        assert (message.id, message.source_queue_manager) == (MessageId(origin, 9), origin)


class TestArrivalTime:
    @pytest.mark.conformance("DMPR-079")
    def test_it_is_when_the_message_came_into_the_queue(self, durable_world: World) -> None:
        box = durable_world.create("q")
        orders = durable_world.create("orders", transactional=True)
        durable_world.sleep(10)
        box.send(b"1")
        sending = durable_world.begin()
        orders.send(b"2", transaction=sending)
        durable_world.sleep(10)
        durable_world.commit(sending)
        durable_world.sleep(10)
        durable_world.restart()
        (one,), (two,) = box.messages(), orders.messages()
        assert (one.sent_time, one.arrival_time) == (NOW + 10, NOW + 10)
        assert (two.sent_time, two.arrival_time) == (NOW + 10, NOW + 20)


class TestQueuesForAnswers:
    """A name of this computer means another one wherever the message is read, so it is sent in full."""

    OWN = FormatName.parse(r"DIRECT=OS:here.example.test\private$\answers")

    @pytest.mark.parametrize("goal", ["q", r"DIRECT=TCP:192.0.2.9\private$\far"])
    @pytest.mark.parametrize(
        "name", [r"DIRECT=OS:.\private$\answers", r"DIRECT=OS:localhost\private$\answers"]
    )
    def test_are_sent_as_the_direct_name_of_this_computer(self, world: World, goal: str, name: str) -> None:
        world.create("q")
        own = FormatName.parse(name)
        world.box(goal).send(b"x", administration_queue=own, response_queue=own, acknowledgements=5)
        state = world.box(goal).state
        (seen,) = world.run(lambda: list(world.engine.browsing.in_order(state, -1)))
        sent = decode_message(UserMessage(seen.record.packet))
        assert (sent.administration_queue, sent.response_queue) == (self.OWN, self.OWN)

    def test_acknowledgements_come_home(self, world: World) -> None:
        box, answers = world.create("q"), world.create("answers")
        box.send(b"x", administration_queue=answers.name, acknowledgements=ALL_ACKNOWLEDGEMENTS)
        assert answers.classes() == [MessageClass.ACK_REACH_QUEUE]

    @pytest.mark.parametrize("name", [r"DIRECT=OS:there\private$\a", r"DIRECT=TCP:192.0.2.1\private$\a"])
    def test_other_names_stay(self, world: World, name: str) -> None:
        box, other = world.create("q"), FormatName.parse(name)
        box.send(b"x", response_queue=other)
        assert box.peek().response_queue == other


class TestDeliveryGuarantee:
    @pytest.mark.conformance("DMPR-083", "DMPR-072")
    def test_a_recoverable_message_survives_a_kill_with_all_it_has(self, durable_world: World) -> None:
        box = durable_world.create("q")
        durable_world.create("admin")
        everything: dict[str, Any] = {
            "label": "the label",
            "priority": 5,
            "body_type": 8,
            "extension": b"ext",
            "application_tag": 4711,
            "correlation_id": bytes(range(20)),
            "message_class": 0x1234,
            "time_to_be_received": 5000,
            "acknowledgements": 5,
            "administration_queue": FormatName.parse(r"DIRECT=OS:here.example.test\private$\admin"),
            "response_queue": FormatName.parse(r"DIRECT=OS:there\private$\answers"),
            "negative_journaling": True,
            "sender_certificate": b"cert",
        }
        box.send(b"body", delivery=RECOVERABLE, **everything)
        box.send(b"express", delivery=0)
        before = box.messages()[0]
        durable_world.kill()
        (after,) = box.messages()
        assert after == before
        assert {name: getattr(after, name) for name in everything} == everything

    @pytest.mark.conformance("DMPR-083", "DMPR-072")
    def test_express_messages_leave_no_count_behind(self, durable_world: World) -> None:
        box = durable_world.create("q")
        box.send_all(b"1", b"2", delivery=0)
        durable_world.restart()
        assert (box.bodies(), box.state.count, box.state.size_bytes, durable_world.total_bytes) == (
            [],
            0,
            0,
            0,
        )

    def test_express_is_the_default(self, world: World, box: Box) -> None:
        opened = box.open(QueueAccess.SEND)
        world.run(lambda: world.engine.sending.send(opened, Message(b"1")))
        assert len(box.state.express) == 1
        assert box.receive().delivery == 0


class TestOpaqueProperties:
    @pytest.mark.conformance("DMPR-090")
    @pytest.mark.parametrize("seed", range(10))
    def test_what_the_application_says_is_not_touched(self, durable_world: World, seed: int) -> None:
        draw = random.Random(seed)
        box = durable_world.create("q")
        said: dict[str, Any] = {
            "body": draw.randbytes(draw.randrange(5000)),
            "extension": draw.randbytes(draw.randrange(500)),
            "label": "".join(chr(draw.randrange(0x20, 0xD7FF)) for _ in range(draw.randrange(120))),
            "application_tag": draw.randrange(2**32),
            "body_type": draw.randrange(2**32),
            "correlation_id": draw.randbytes(20),
        }
        box.send(**said)
        durable_world.kill()
        message = box.receive()
        assert {name: getattr(message, name) for name in said} == said

    @pytest.mark.conformance("DMPR-090")
    def test_their_defaults_are_empty(self, world: World, box: Box) -> None:
        opened = box.open(QueueAccess.SEND)
        world.run(lambda: world.engine.sending.send(opened, Message()))
        message = box.receive()
        assert (message.body, message.extension, message.label) == (b"", b"", "")
        assert (message.application_tag, message.body_type, message.correlation_id) == (0, 0, bytes(20))
        assert message.message_class == MessageClass.NORMAL


class TestTimeToReachQueue:
    @pytest.mark.conformance("DMPR-094")
    @pytest.mark.parametrize(
        ("asked", "configured", "carried"),
        [
            (None, None, 345_600),
            (60, None, 60),
            (400_000, None, 345_600),
            (0xFFFF_FFFF, None, 345_600),
            (0xFFFF_FFFE, None, 345_600),
            (400_000, 500_000, 400_000),
            (600_000, 500_000, 500_000),
        ],
    )
    def test_the_configured_limit_caps_what_is_asked_for(
        self, asked: int | None, configured: int | None, carried: int
    ) -> None:
        assert TIME_TO_REACH_QUEUE_DEFAULT_S == 0x54600
        world = World() if configured is None else World(long_lived_s=configured)
        away = world.box(r"DIRECT=OS:there\private$\q")
        asking: dict[str, Any] = {} if asked is None else {"time_to_reach_queue": asked}
        away.send(b"1", **asking)
        opened = away.open(QueueAccess.RECEIVE_ADMIN)
        result = away.start_receive(0, opened=opened)
        assert found(result).time_to_reach_queue == carried


class TestPositionStates:
    """3.1.1.11: which states follow which."""

    @pytest.mark.conformance("DMPR-070")
    @pytest.mark.parametrize(
        ("lock", "then", "end", "seen"),
        [
            (lock, then, end, (end == "give back") and then == "")
            for lock, then, end in itertools.product(
                ["transaction", "two phases"], ["", "purge"], ["keep", "give back"]
            )
        ],
    )
    def test_available_locked_purge_pending_deleted(
        self, world: World, lock: str, then: str, end: str, seen: bool
    ) -> None:
        box = world.create("orders", transactional=True)
        with world.transaction() as sending:
            box.send(b"1", transaction=sending)
        assert box.bodies() == [b"1"]
        reading = world.begin() if lock == "transaction" else None
        message = box.receive(transaction=reading) if reading else box.take()
        assert (box.bodies(), box.state.count) == ([], 1)
        if then:
            box.purge()
            assert (box.bodies(), box.state.count) == ([], 1)
        if reading is not None:
            world.commit(reading) if end == "keep" else world.abort(reading)
        else:
            box.end(message, delete=end == "keep")
        assert (box.bodies(), box.state.count) == ([b"1"] * seen, int(seen))
        assert box.state.locks == {}

    def test_a_waiter_takes_a_message_without_anybody_seeing_it(self, box: Box) -> None:
        waiter = box.wait()
        box.send(b"1")
        assert (result_of(waiter).body, box.state.count) == (b"1", 0)
