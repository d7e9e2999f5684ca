"""Messages that an administrator takes from one queue to another, as they are or sent anew."""

from typing import Any

import pytest

from tiercel.model.codes import Acknowledgements, MessageClass, QueueAccess, QueuePrivacyLevel
from tiercel.model.errors import InsufficientResourcesError, MessageNotFoundError, MqError
from tiercel.model.message import Message

from .harness import Box, World

FAR = r"DIRECT=TCP:192.0.2.9\private$\far"


@pytest.fixture
def box(world: World) -> Box:
    return world.create("q")


def hand_over(box: Box, goal: Box, message: Message | None = None) -> int | None:
    opened, target = box.receiving, goal.handle(QueueAccess.SEND)
    lookup_id = (message or box.peek()).lookup_id
    return box.world.run(lambda: box.world.engine.moving.hand_over(opened, lookup_id, target))


def take_away(box: Box, access: QueueAccess = QueueAccess.RECEIVE) -> None:
    opened = box.handle(access)
    seen = box.world.run(lambda: next(box.world.engine.browsing.in_order(box.state, -1)))
    box.world.run(lambda: box.world.engine.moving.take_away(opened, seen.lookup_id))


class TestHandOver:
    def test_the_message_stays_what_it_is(self, world: World, box: Box) -> None:
        admin, goal = world.create("admin"), world.create("goal")
        sent = box.send(
            b"1",
            label="L",
            priority=6,
            administration_queue=admin.name,
            acknowledgements=Acknowledgements.FULL_RECEIVE | Acknowledgements.POS_ARRIVAL,
            time_to_be_received=100,
        )
        admin.drain()
        world.sleep(5)
        assert hand_over(box, goal)
        (moved,) = goal.messages()
        assert (moved.id, moved.label, moved.priority, moved.move_count) == (sent, "L", 6, 1)
        assert (box.state.count, world.removed(), admin.classes(), world.discarded()) == (0, [], [], [])
        goal.receive()
        assert admin.classes() == [MessageClass.ACK_RECEIVE]

    def test_its_time_goes_on(self, world: World, box: Box) -> None:
        goal = world.create("goal")
        box.send(time_to_be_received=100)
        world.sleep(60)
        hand_over(box, goal)
        world.sleep(39)
        assert goal.state.count == 1
        world.sleep(2)
        assert (goal.state.count, world.discarded()) == (0, [MessageClass.NACK_RECEIVE_TIMEOUT])

    def test_who_waits_gets_it(self, world: World, box: Box) -> None:
        goal = world.create("goal")
        waiter = goal.wait(60)
        box.send(b"1")
        hand_over(box, goal)
        assert world.completed() == [waiter]

    def test_it_is_there_once_after_a_kill(self, durable_world: World) -> None:
        box, goal = durable_world.create("q"), durable_world.create("goal")
        box.send_all(b"1", b"2")
        hand_over(box, goal)
        durable_world.kill()
        assert (box.bodies(), goal.bodies()) == ([b"2"], [b"1"])

    def test_it_must_be_free(self, world: World, box: Box) -> None:
        goal = world.create("goal")
        box.send()
        taken = box.take()
        with pytest.raises(MessageNotFoundError):
            hand_over(box, goal, taken)
        assert (box.state.count, goal.state.count) == (1, 0)

    @pytest.mark.parametrize(
        "goal",
        [{"quota_kib": 1}, {"authentication": True}, {"privacy_level": QueuePrivacyLevel.BODY}],
        ids=str,
    )
    def test_the_other_queue_must_take_it(self, world: World, box: Box, goal: dict[str, Any]) -> None:
        other = world.create("goal", **goal)
        box.send(bytes(2000))
        with pytest.raises(MqError):
            hand_over(box, other)
        assert (box.state.count, other.state.count) == (1, 0)

    def test_a_full_queue_manager_can_still_tidy_up(self, world: World, box: Box) -> None:
        goal = world.create("goal")
        box.send(bytes(2000))
        world.set(queue_manager_quota_kib=2)
        with pytest.raises(InsufficientResourcesError):
            box.send(bytes(2000))
        assert hand_over(box, goal)

    @pytest.mark.parametrize("transactional", [True, False])
    def test_not_where_it_would_be_another_message(self, world: World, transactional: bool) -> None:
        box = world.create("q", transactional=transactional)
        goal = world.create("goal", transactional=not transactional)
        if transactional:
            with world.transaction() as sending:
                box.send(transaction=sending)
        else:
            box.send()
        assert not hand_over(box, goal)
        assert not hand_over(box, world.box(FAR))
        assert box.state.count == 1


class TestTakeAway:
    def test_its_sender_hears_that_it_was_received(self, world: World, box: Box) -> None:
        admin = world.create("admin")
        box.send(administration_queue=admin.name, acknowledgements=Acknowledgements.FULL_RECEIVE)
        take_away(box)
        assert (box.state.count, admin.classes(), world.discarded()) == (0, [MessageClass.ACK_RECEIVE], [])

    def test_one_on_its_way_ends_without_a_word(self, world: World) -> None:
        far = world.box(FAR)
        far.send(negative_journaling=True)
        take_away(far, QueueAccess.RECEIVE_ADMIN)
        assert (far.state.count, world.dead_letters.state.count, world.discarded()) == (0, 0, [])
