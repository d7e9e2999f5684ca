"""A second transport gets everything from the engine: two queue managers with `tests/carrier.py`."""

from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from carrier import RETRY_S, Answer, HttpCarrier, Post
from tiercel.engine.arrivals import Source
from tiercel.model.codes import ConnectionStatus, MessageClass, OutgoingQueueState, QueueAccess
from tiercel.model.queue import OutgoingQueue
from tiercel.server.node import Node

from .harness import SYSTEM, Box, World

T = TypeVar("T")


class Side(World):
    """A queue manager with the carrier; posts wait in `posts` until the test lets them go."""

    def __init__(self, **options: Any) -> None:
        self.posts: list[Post] = []
        self.answers: list[Answer] = []
        super().__init__(**options)

    def start(self) -> None:
        super().start()
        self.carrier = HttpCarrier(self.engine)
        self.node = Node(self.engine, wall_clock=lambda: self.now, monotonic_clock=lambda: self.now)
        self.node.attach(self.carrier, self._perform)
        self.posts.clear()
        self.run(self.engine.outgoing.start)

    def _perform(self, actions: list[Post | Answer]) -> None:
        for action in actions:
            (self.posts if isinstance(action, Post) else self.answers).append(action)  # type: ignore[arg-type]

    def run(self, command: Callable[[], T]) -> T:
        if not hasattr(self, "node"):
            return super().run(command)
        self.node.begin()
        try:
            return command()
        finally:
            self.effects = self.node.commit()

    def to(self, queue: str, other: str = "there") -> Box:
        return self.box(f"DIRECT=HTTP://{other}/msmq/private$/{queue}")

    def outgoing(self, box: Box) -> OutgoingQueue:
        queue = box.state.queue
        assert isinstance(queue, OutgoingQueue)
        return queue

    # What the network does.

    def deliver(self, post: Post, other: "Side") -> Answer:
        """The post arrives; its answer is not told yet."""
        source = Source(self.engine.queue_manager.identifier, "192.0.2.9", is_direct=False)
        other.run(lambda: other.carrier.received(post.number, source, post.packets))
        return other.answers.pop()

    def hear(self, answer: Answer) -> None:
        number = answer.post
        assert isinstance(number, int)
        self.run(lambda: self.carrier.answered(number, answer.count, answer.streams))

    def settle(self, other: "Side") -> None:
        while self.posts:
            self.hear(self.deliver(self.posts.pop(0), other))

    def fail(self) -> Post:
        post = self.posts.pop(0)
        self.run(lambda: self.carrier.failed(post.number))
        return post


@pytest.fixture
def here() -> Side:
    return Side()


@pytest.fixture
def there() -> Side:
    side = Side(name="THERE")
    side.create("q")
    side.create("tx", transactional=True)
    return side


def test_messages_are_carried(here: Side, there: Side) -> None:
    box = here.to("q")
    box.send_all(b"1", b"2", delivery=0)
    box.send(b"3", positive_journaling=True)
    here.settle(there)
    assert there.box("q").bodies() == [b"1", b"2", b"3"]
    assert (box.state.count, here.journal.bodies()) == (0, [b"3"])


def test_a_lost_answer_doubles_nothing(here: Side, there: Side) -> None:
    here.to("q").send(b"1")
    with here.transaction() as transaction:
        here.to("tx").send(b"2", transaction=transaction)
        here.to("tx").send(b"3", transaction=transaction)
    for _ in range(2):
        here.deliver(here.posts[0], there)
        here.fail()
    there.kill()
    here.kill()
    here.settle(there)
    assert (there.box("q").bodies(), there.box("tx").bodies()) == ([b"1"], [b"2", b"3"])
    assert not [state for state in here.engine.outgoing.queues() if state.count]


def test_a_late_copy_of_a_post_doubles_nothing(here: Side, there: Side) -> None:
    with here.transaction() as transaction:
        here.to("tx").send(b"1", transaction=transaction)
    late = here.fail()
    here.sleep(RETRY_S)
    here.settle(there)
    assert here.deliver(late, there).count == 1
    assert there.box("tx").bodies() == [b"1"]


def test_it_fails_and_recovers(here: Side, there: Side) -> None:
    box = here.to("q")
    box.send(b"1")
    here.fail()
    queue = here.outgoing(box)
    assert ([entry.status for entry in queue.connection_history], queue.state) == (
        [ConnectionStatus.SOCKET_CONNECT_FAILURE],
        OutgoingQueueState.WAITING,
    )
    assert here.posts == []
    assert here.node.seconds_to_deadline() == RETRY_S
    here.sleep(RETRY_S)
    here.settle(there)
    assert there.box("q").bodies() == [b"1"]


def test_a_message_whose_time_is_over_becomes_a_dead_letter(here: Side) -> None:
    here.to("q").send(b"1", time_to_reach_queue=3, negative_journaling=True)
    here.fail()
    here.sleep(RETRY_S)
    assert (here.posts, here.dead_letters.bodies()) == ([], [b"1"])
    assert here.discarded() == [MessageClass.NACK_REACH_QUEUE_TIMEOUT]


@pytest.mark.conformance("DMPR-232", "DMPR-253")
def test_a_paused_queue_sends_nothing_until_it_is_resumed(here: Side, there: Side) -> None:
    paused, other = here.to("q"), here.to("tx")
    here.run(lambda: here.engine.opening.open(paused.name, QueueAccess.SEND, token=SYSTEM))
    here.run(lambda: here.engine.outgoing.pause(paused.state))
    states = [here.outgoing(paused).state]
    paused.send_all(b"1", b"2", b"3", b"4", b"5")
    with here.transaction() as transaction:
        other.send(b"6", transaction=transaction)
    here.settle(there)
    assert (there.box("q").bodies(), there.box("tx").bodies()) == ([], [b"6"])
    assert paused.state.count == 5
    here.run(lambda: here.engine.outgoing.resume(paused.state))
    here.settle(there)
    assert there.box("q").bodies() == [b"1", b"2", b"3", b"4", b"5"]
    assert states == [OutgoingQueueState.ON_HOLD]


@pytest.mark.conformance("DMPR-231")
def test_an_answer_starts_the_next_post_even_if_it_is_unknown(here: Side, there: Side) -> None:
    box = here.to("q")
    box.send(b"1")
    box.send(b"2")
    assert len(here.posts) == 1, "one at a time for each queue"
    here.run(lambda: here.carrier.answered(12345, 1, frozenset()))
    assert len(here.posts) == 1
    here.settle(there)
    assert there.box("q").bodies() == [b"1", b"2"]
    assert (box.state.count, here.posts) == (0, [])


def test_a_receiver_without_room_takes_a_part_of_the_run(here: Side, there: Side) -> None:
    there.set(queue_manager_quota_kib=1)
    box = here.to("q")
    here.run(lambda: here.engine.opening.open(box.name, QueueAccess.SEND, token=SYSTEM))
    here.run(lambda: here.engine.outgoing.pause(box.state))
    box.send_all(b"1", b"2", b"3" * 2000, delivery=0)
    here.run(lambda: here.engine.outgoing.resume(box.state))
    answer = here.deliver(here.posts.pop(0), there)
    assert answer.count == 2
    here.hear(answer)
    assert box.state.count == 1
    there.set(queue_manager_quota_kib=100)
    here.settle(there)
    assert [body[:1] for body in there.box("q").bodies()] == [b"1", b"2", b"3"]
