"""A commit that fails, and a command that ends half-way: nothing is acknowledged from there on."""

from collections.abc import Callable

import pytest

import tiercel
from tiercel.engine.handles import Waiter
from tiercel.model.codes import QueueAccess
from tiercel.store import CommitFails, MemoryStore, Write

from .world import START, World, observe, opened, problems_of

EXPRESS = tiercel.DeliveryGuarantee.EXPRESS

CALLS: dict[str, Callable[[World, tiercel.EmbeddedQueue], object]] = {
    "send": lambda world, _: world.send("a", "later"),
    "send express": lambda _, queue: queue.send(b"later"),
    "receive": lambda _, queue: queue.receive(0),
    "peek": lambda _, queue: queue.peek(0),
    "wait": lambda _, queue: queue.receive(0.01),
    "purge": lambda _, queue: queue.purge(),
    "count": lambda _, queue: queue.count,
    "create": lambda world, _: world.create("new"),
    "delete": lambda _, queue: queue.delete(),
    "transaction": lambda world, _: world.qm.begin_transaction(),
    "queues": lambda world, _: world.qm.queues(),
    "discards": lambda world, _: world.qm.discards(),
}


def failing_world(*, kept: bool) -> tuple[World, MemoryStore]:
    store = MemoryStore()
    world = World(store, lambda same: same)
    world.create("a")
    world.send("a", "before", "it")
    world.send("a", "express", delivery=EXPRESS)

    def fail(write: Write, _number: int) -> None:
        if write is Write.COMMIT:
            raise CommitFails(kept=kept)

    store.faults = fail
    return world, store


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("name", CALLS)
def test_every_call_after_it_is_refused(name: str, kept: bool) -> None:
    world, store = failing_world(kept=kept)
    queue = world.queue("a")
    with pytest.raises(tiercel.StoreFailedError):
        world.send("a", "lost")
    store.faults = None  # the disk is well again, but nobody knows what it holds
    for _ in range(2):
        with pytest.raises(tiercel.StoreFailedError):
            CALLS[name](world, queue)
    world.qm.close()
    again = store.crash()
    assert problems_of(again) == []
    with opened(again, START) as qm:
        assert observe(qm) == ("a: before it lost" if kept else "a: before it")


def test_a_reader_that_waits_is_not_given_what_failed() -> None:
    world, store = failing_world(kept=False)
    store.faults, fail = None, store.faults
    world.create("b")
    engine = world.driver.engine
    queue = world.queue("b")  # held: a queue that is forgotten closes its handles
    opened_b = world.driver.run(lambda: queue.opened(QueueAccess.RECEIVE))
    waiter = world.driver.run(lambda: engine.reading.receive(opened_b))
    assert isinstance(waiter, Waiter)
    completed: list[Waiter] = []
    world.driver._completed = completed.append
    store.faults = fail
    with pytest.raises(tiercel.StoreFailedError):
        world.send("b", "lost")
    with pytest.raises(tiercel.StoreFailedError):
        world.queue("b").send(b"express")
    assert completed == []


def test_two_hundred_points_at_which_a_command_ends_half_way() -> None:
    """Control-C at any write of a transaction: all of it or nothing, and nothing goes on from there."""
    for number in range(1, 200):
        store = MemoryStore()
        world = World(store, lambda same: same)
        world.create("a", transactional=True)
        start = store.writes

        def interrupt(_write: Write, write_number: int, at: int = start + number) -> None:
            if write_number == at:
                raise KeyboardInterrupt

        store.faults = interrupt
        try:
            with world.qm.transaction() as transaction:
                world.send("a", "1", "2", "3", transaction=transaction)
        except (KeyboardInterrupt, tiercel.StoreFailedError):
            store.faults = None
            with pytest.raises(tiercel.StoreFailedError):
                world.queue("a").send(b"express")
        else:
            assert number > 8
            return
        again = store.crash()
        assert problems_of(again) == []
        with opened(again, START) as qm:
            assert observe(qm) == "a:"
    pytest.fail("the transaction has no end")
