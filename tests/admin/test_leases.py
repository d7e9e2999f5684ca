"""The lease machine, without a clock: time is what `begin` says."""

from collections.abc import Callable
from itertools import count
from typing import TypeVar

import pytest

from tiercel.admin import leases
from tiercel.admin.errors import BusyError
from tiercel.admin.leases import SLICE, Leases, Receipt
from tiercel.engine.engine import Engine
from tiercel.engine.handles import Waiter
from tiercel.engine.identity import Identity
from tiercel.model.codes import QueueAccess
from tiercel.model.errors import (
    AccessDeniedError,
    LeaseEndedError,
    LeaseNotFoundError,
    MessageNotFoundError,
)
from tiercel.model.message import Message
from tiercel.model.queue_name import parse_new_queue_name, parse_queue_name
from tiercel.security.access import Token
from tiercel.server.node import Node
from tiercel.store.memory_store import MemoryStore

OWNER = Token.local_system()
T = TypeVar("T")


class Desk:
    """A queue manager with one queue, and a clock that stands still."""

    def __init__(self, messages: int) -> None:
        self.now = 100.0
        self.store = MemoryStore()
        self.start()
        self.run(lambda: self.engine.queues.create(parse_new_queue_name("q"), OWNER))
        self.run(lambda: self._send(messages))

    def start(self) -> None:
        ids = count(1)
        identity = Identity("HOST", "HOST", ())
        self.engine = Engine(self.store, identity, now=1_700_000_000, owner=OWNER)
        self.node = Node(
            self.engine, wall_clock=lambda: 1_700_000_000 + self.now, monotonic_clock=lambda: self.now
        )
        self.leases = Leases(self.engine, OWNER, lambda: f"{next(ids):08}")
        self.node.attach(self.leases, lambda _actions: None)

    def _send(self, messages: int) -> None:
        opened = self.engine.opening.open(parse_queue_name("q"), QueueAccess.SEND, token=OWNER)
        for number in range(messages):
            self.engine.sending.send(opened, Message(b"%d" % number, delivery=1))
        self.engine.opening.close(opened)

    def run(self, command: Callable[[], T]) -> T:
        self.node.begin()
        try:
            return command()
        finally:
            self.node.commit()

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.run(lambda: None)

    def lease(self, limit: int, seconds: float) -> list[str]:
        def command() -> list[str]:
            receipt = self.leases.open("q")
            while self.leases.take(receipt, limit):
                pass
            return self.leases.lease(receipt, seconds, "tester")

        return self.run(command)

    @property
    def state(self) -> tuple[int, int, int]:
        """How many messages there are, how many are locked, and how many openings of the queue."""
        state = self.engine.queues.get(parse_queue_name("q"))
        return state.count, len(state.locks), len(state.handles)


def test_an_acknowledged_message_is_gone_and_a_returned_one_is_back() -> None:
    desk = Desk(2)
    first, second = desk.lease(2, 30)
    assert desk.state == (2, 2, 1)
    assert desk.run(lambda: desk.leases.acknowledge(first)) is True
    assert desk.run(lambda: desk.leases.acknowledge(first)) is False
    assert desk.run(lambda: desk.leases.give_back(second)) is True
    assert desk.run(lambda: desk.leases.give_back(second)) is False
    assert desk.state == (1, 0, 0)
    with pytest.raises(LeaseEndedError, match="its message was acknowledged"):
        desk.run(lambda: desk.leases.give_back(first))


def test_a_lease_runs_out_when_its_time_has_come() -> None:
    desk = Desk(1)
    (lease,) = desk.lease(1, 30)
    assert desk.leases.next_deadline == 130
    desk.pass_time(29.9)
    assert desk.state == (1, 1, 1)
    desk.pass_time(0.1)
    assert desk.state == (1, 0, 0)
    assert desk.leases.next_deadline is None
    with pytest.raises(LeaseEndedError, match="its time ran out"):
        desk.run(lambda: desk.leases.acknowledge(lease))


def test_a_lease_can_be_made_longer_and_shorter() -> None:
    desk = Desk(1)
    (lease,) = desk.lease(1, 30)
    desk.pass_time(20)
    desk.run(lambda: desk.leases.extend(lease, 30))
    assert desk.leases.next_deadline == 150
    desk.run(lambda: desk.leases.extend(lease, 5))
    assert desk.leases.next_deadline == 125
    desk.pass_time(5)
    assert desk.state == (1, 0, 0)


def test_many_that_run_out_together_go_back_in_slices() -> None:
    desk = Desk(2 * SLICE + 1)
    assert len(desk.lease(1000, 10)) == 2 * SLICE + 1
    desk.pass_time(10)
    assert desk.state[1] == SLICE + 1
    deadline = desk.leases.next_deadline
    assert deadline is not None
    assert desk.now < deadline < desk.now + 1
    desk.pass_time(1)
    desk.pass_time(1)
    assert desk.state == (2 * SLICE + 1, 0, 0)


def test_a_request_without_a_client_gives_everything_back() -> None:
    desk = Desk(3)

    def begin() -> Receipt:
        receipt = desk.leases.open("q")
        desk.leases.take(receipt, 2)
        return receipt

    receipt = desk.run(begin)
    assert desk.state == (3, 2, 1)
    desk.run(lambda: desk.leases.lease(receipt, 30, "tester"))
    desk.run(lambda: desk.leases.abandon(receipt))
    assert desk.state == (3, 0, 0)
    assert desk.leases.count == 0


def test_a_request_that_waits_is_ended_with_its_client() -> None:
    desk = Desk(0)
    receipt = desk.run(lambda: desk.leases.open("q"))
    waiter = desk.run(lambda: desk.leases.wait(receipt, 30))
    assert isinstance(waiter, Waiter)
    desk.run(lambda: desk.leases.abandon(receipt))
    assert waiter.is_done
    assert desk.state == (0, 0, 0)


def test_what_is_kept_at_once_has_no_lease() -> None:
    desk = Desk(2)

    def receive() -> None:
        receipt = desk.leases.open("q")
        desk.leases.take(receipt, 1)
        desk.leases.keep(receipt)

    desk.run(receive)
    assert desk.state == (1, 0, 0)
    assert desk.leases.all() == []


def test_one_that_is_not_there_leaves_no_opening() -> None:
    desk = Desk(1)
    receipt = desk.run(lambda: desk.leases.open("q"))
    with pytest.raises(MessageNotFoundError):
        desk.run(lambda: desk.leases.take_exactly(receipt, 99))
    desk.run(lambda: desk.leases.abandon(receipt))
    assert desk.state == (1, 0, 0)


def test_leases_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "_MAX_LEASES", 2)
    desk = Desk(3)
    assert len(desk.lease(3, 30)) == 2
    with pytest.raises(BusyError, match="2 leases of"):
        desk.lease(1, 30)


def test_after_a_restart_everything_is_back() -> None:
    desk = Desk(1)
    (lease,) = desk.lease(1, 30)
    desk.store = desk.store.crash()
    desk.start()
    assert desk.state == (1, 0, 0)
    with pytest.raises(LeaseNotFoundError, match="ended by a restart"):
        desk.run(lambda: desk.leases.acknowledge(lease))


@pytest.mark.parametrize("operation", ["acknowledge", "give_back", "extend"])
@pytest.mark.parametrize("has_ended", [False, True])
def test_a_lease_belongs_to_the_client_that_took_it(operation: str, has_ended: bool) -> None:
    desk = Desk(1)
    (lease,) = desk.lease(1, 30)
    if has_ended:
        desk.run(lambda: desk.leases.acknowledge(lease, "tester"))
    before = desk.state
    arguments = (lease, 60.0) if operation == "extend" else (lease,)
    with pytest.raises(AccessDeniedError, match="taken with another token"):
        desk.run(lambda: getattr(desk.leases, operation)(*arguments, "stranger"))
    assert (desk.state, desk.leases.next_deadline) == (before, None if has_ended else 130)


@pytest.mark.parametrize("who", ["tester", None], ids=["its holder", "an administrator"])
def test_the_holder_and_administrators_end_a_lease(who: str | None) -> None:
    desk = Desk(1)
    (lease,) = desk.lease(1, 30)
    desk.run(lambda: desk.leases.extend(lease, 60, who))
    assert desk.run(lambda: desk.leases.acknowledge(lease, who)) is True
    assert desk.run(lambda: desk.leases.acknowledge(lease, who)) is False
    assert desk.state == (0, 0, 0)


def test_an_extended_lease_does_not_hold_up_others() -> None:
    desk = Desk(2)
    first, _second = desk.lease(2, 30)
    desk.run(lambda: desk.leases.extend(first, 1000))
    assert desk.leases.next_deadline == 130
    desk.pass_time(30)
    assert desk.state == (2, 1, 1)


def test_a_lease_that_is_extended_for_long_takes_no_more_memory() -> None:
    desk = Desk(2)
    (first,) = desk.lease(1, 3000)
    (second,) = desk.lease(1, 3600)
    for _ in range(1000):
        desk.pass_time(1)
        desk.run(lambda: desk.leases.extend(second, 3600))
    assert len(desk.leases._deadlines) <= 2 * desk.leases.count + SLICE + 1
    desk.pass_time(2000)
    assert [each.id for each in desk.leases.all()] == [second]
    with pytest.raises(LeaseEndedError):
        desk.run(lambda: desk.leases.acknowledge(first))
    desk.pass_time(1600)
    assert desk.leases.count == 0
