"""Scenarios of queues and single messages; those of transactions come with them."""

from contextlib import suppress
from typing import Any
from unittest.mock import patch

import tiercel
from tiercel.engine.handles import Waiter
from tiercel.model.codes import QueueAccess
from tiercel.model.format_name import FormatName

from . import claim_scenarios, stage_scenarios, transaction_scenarios
from .story import SCENARIOS, Scenario, Story, scenario
from .world import World

__all__ = ["SCENARIOS", "Scenario", "claim_scenarios", "stage_scenarios", "transaction_scenarios"]

FULL = tiercel.Acknowledgements.FULL_RECEIVE | tiercel.Acknowledgements.POS_ARRIVAL


def name_of(queue: str) -> FormatName:
    return FormatName.parse(rf"DIRECT=OS:.\private$\{queue}")


@scenario
def first_message(world: World) -> Story:
    yield ""
    world.create("a")
    yield "a:"
    world.send("a", "1")
    yield "a: 1"


@scenario
def sends_and_receives_one_by_one(world: World) -> Story:
    world.create("a")
    world.send("a", "1", "2")
    yield "a: 1 2"
    world.send("a", "3")
    yield "a: 1 2 3"
    world.receive("a")
    yield "a: 2 3"
    world.send("a", "urgent", priority=7)
    yield "a: urgent 2 3"
    world.receive("a")
    yield "a: 2 3"
    world.receive("a")
    yield "a: 3"
    world.restart()
    yield "a: 3"


@scenario
def a_batch_of_sends(world: World) -> Story:
    world.create("a")
    world.create("b")
    yield "a:\nb:"
    with world.qm.batch():
        world.send("a", "1", "2", "3")
        world.send("b", "4", "5")
        world.receive("a")
    yield "a: 2 3\nb: 4 5"


@scenario
def many_at_once(world: World) -> Story:
    queue = world.create("a", journaling=True)
    yield "a:"
    labels = ["1", "2", "3", "4"]
    queue.send_many([tiercel.Message(b"x", label=label, delivery=1) for label in labels])
    yield "a: 1 2 3 4"
    with suppress(tiercel.IllegalPropertySizeError):
        queue.send_many([b"never", bytes(5_000_000)])
    yield "a: 1 2 3 4"
    assert len(queue.receive_many(3, 0)) == 3
    yield "a: 4\na;JOURNAL: 1 2 3"
    limited = [tiercel.Message(b"x", label=each, delivery=1, time_to_be_received=10) for each in "56"]
    queue.send_many(limited)
    yield "a: 4 5 6\na;JOURNAL: 1 2 3"
    assert len(queue.receive_many(2, 0)) == 2
    yield "a: 6\na;JOURNAL: 1 2 3 4 5"


@scenario
def express_beside_recoverable(world: World) -> Story:
    world.create("a")
    yield "a:"
    world.send("a", "lost", delivery=tiercel.DeliveryGuarantee.EXPRESS)
    yield "a:"
    world.send("a", "kept")
    yield "a: kept"
    world.receive("a")
    yield "a: kept"
    world.receive("a")
    yield "a:"


@scenario
def a_move_and_back(world: World) -> Story:
    world.create("a")
    world.send("a", "1", "2")
    yield "a: 1 2"
    world.queue("a").move(world.queue("a").peek(0), "retry")
    yield "a: 2\na;retry: 1"
    retry = world.queue("a").subqueue("retry")
    retry.move(retry.peek(0), None)
    yield "a: 2 1"
    retry.close()
    yield "a: 2 1"


@scenario
def to_another_computer(world: World) -> Story:
    world.create("a")
    far = world.qm.queue(r"DIRECT=TCP:10.9.8.7\private$\far")
    yield "a:"
    far.send(tiercel.Message(b"x", label="1", delivery=1, time_to_reach_queue=10))
    yield "a:\nfar: 1"
    world.wait(11)
    yield "a:\nfar:\ndiscards: 1"


@scenario
def a_purge(world: World) -> Story:
    world.create("a")
    world.send("a", "1", "2", "3", time_to_be_received=500)
    yield "a: 1 2 3"
    world.queue("a").purge()
    yield "a:\ndiscards: 1 2 3"


@scenario
def a_queue_is_deleted(world: World) -> Story:
    queue = world.create("a", journaling=True)
    world.create("b")
    world.send("a", "1", "2", "3", "4", time_to_be_received=500)
    world.receive("a")
    queue.move(queue.peek(0), "retry")
    yield "a: 3 4\na;JOURNAL: 1\na;retry: 2\nb:"
    queue.delete()
    yield "b:\ndiscards: 2 1 3 4"
    world.create("a")
    yield "a:\nb:\ndiscards: 2 1 3 4"


@scenario
def properties_are_set(world: World) -> Story:
    queue = world.create("a", label="old")
    yield "a[old]:"
    queue.set_properties(label="new", journaling=True)
    yield "a[new]:"
    world.send("a", "1")
    yield "a[new]: 1"
    world.receive("a")
    yield "a[new]:\na;JOURNAL: 1"


@scenario
def messages_run_out_of_time(world: World) -> Story:
    world.create("a")
    world.send("a", "1", "3", time_to_be_received=10)
    world.send("a", "2", time_to_be_received=20)
    world.send("a", "4")
    yield "a: 1 3 2 4"
    world.wait(11)
    yield "a: 2 4\ndiscards: 1 3"
    world.restart()
    yield "a: 2 4\ndiscards: 1 3"
    world.wait(10)
    yield "a: 4\ndiscards: 1 3 2"


@scenario
def dead_letters(world: World) -> Story:
    world.create("a")
    world.create("t", transactional=True)
    world.send("a", "1", time_to_be_received=10, negative_journaling=True)
    with world.qm.transaction() as transaction:
        world.send("t", "2", transaction=transaction, time_to_be_received=10, negative_journaling=True)
    yield "a: 1\nt: 2"
    world.wait(11)
    yield "a:\nsystem$;DEADLETTER: 1\nsystem$;DEADXACT: 2\nt:\ndiscards: 1 2"


@scenario
def an_application_has_its_own_dead_letters(world: World) -> Story:
    world.create("a")
    world.create("dead")
    own = tiercel.PathName.parse(r".\private$\dead")
    world.send("a", "1", time_to_be_received=10, negative_journaling=True, dead_letter_queue=own)
    yield "a: 1\ndead:"
    world.wait(11)
    yield "a:\ndead: 1\ndiscards: 1"
    world.receive("dead")
    yield "a:\ndead:\ndiscards: 1"


@scenario
def journaling_at_the_target(world: World) -> Story:
    world.create("a", journaling=True, transactional=True)
    with world.qm.transaction() as transaction:
        world.send("a", "1", "2", transaction=transaction)
    yield "a: 1 2"
    world.receive("a")
    yield "a: 2\na;JOURNAL: 1"
    with world.qm.transaction() as transaction:
        world.receive("a", transaction=transaction)
    yield "a:\na;JOURNAL: 1 2"


@scenario
def journaling_at_the_source(world: World) -> Story:
    world.create("a")
    world.create("t", transactional=True)
    yield "a:\nt:"
    world.send("a", "1", positive_journaling=True)
    yield "a: 1\nsystem$;JOURNAL: 1\nt:"
    with world.qm.transaction() as transaction:
        world.send("t", "2", transaction=transaction, positive_journaling=True)
    yield "a: 1\nsystem$;JOURNAL: 1\nt: 2"
    world.receive("t")
    yield "a: 1\nsystem$;JOURNAL: 1 2\nt:"


@scenario
def acknowledgements(world: World) -> Story:
    for name in "a", "admin":
        world.create(name)
    yield "a:\nadmin:"
    asked: dict[str, Any] = {"acknowledgements": FULL, "administration_queue": name_of("admin")}
    world.send("a", "1", **asked)
    yield "a: 1\nadmin: <ACK_REACH_QUEUE>"
    world.receive("a")
    yield "a:\nadmin: <ACK_REACH_QUEUE> <ACK_RECEIVE>"
    with world.qm.batch():
        world.send("a", "2", time_to_be_received=10, **asked)
        world.receive("admin")
        world.receive("admin")
    yield "a: 2\nadmin: <ACK_REACH_QUEUE>"
    world.wait(11)
    yield "a:\nadmin: <ACK_REACH_QUEUE> <NACK_RECEIVE_TIMEOUT>\ndiscards: 2"


@scenario
def a_read_in_two_phases_is_kept(world: World) -> Story:
    queue = world.create("a", journaling=True)
    world.send("a", "1", "2")
    yield "a: 1 2"
    with queue.receiving(0):
        pass
    yield "a: 2\na;JOURNAL: 1"


@scenario
def a_read_in_two_phases_is_given_back(world: World) -> Story:
    queue = world.create("a")
    world.send("a", "1", "2")
    yield "a: 1 2"
    with suppress(LookupError), queue.receiving(0):
        raise LookupError
    yield "a: 1~1 2"
    with queue.receiving(0):
        yield "a: 1~1 2"
        world.send("a", "3")
        yield "a: 1~1 2 3"
    yield "a: 2 3"


@scenario
def numbers_at_the_end_of_their_block(world: World) -> Story:
    world.restart()
    with patch("tiercel.engine.core.COUNTER_BLOCK", 2):
        world.create("a")
        world.restart()
        yield "a:"
        labels = ""
        for label in "123456789":
            world.send("a", label)
            labels += f" {label}"
            yield f"a:{labels}"
            if label in "36":
                world.restart()
        world.create("b")
        yield f"a:{labels}\nb:"


@scenario
def the_ledger_is_full(world: World) -> Story:
    with patch("tiercel.engine.discards.LEDGER_LINES", 3):
        world.restart()
        world.create("a")
        world.send("a", "1", "2")
        yield "a: 1 2"
        world.queue("a").purge()
        yield "a:\ndiscards: 1 2"
        with world.qm.batch():
            world.send("a", "3", "4", "5", "6")
        yield "a: 3 4 5 6\ndiscards: 1 2"
        world.queue("a").purge()
        yield "a:\ndiscards: 4 5 6"


@scenario
def a_waiting_reader_gets_the_message(world: World) -> Story:
    world.create("a")
    world.create("b")
    engine = world.driver.engine
    queue = world.queue("a")  # held: a queue that is forgotten closes its handles
    opened = world.driver.run(lambda: queue.opened(QueueAccess.RECEIVE))
    waiter = world.driver.run(lambda: engine.reading.receive(opened))
    yield "a:\nb:"
    world.send("a", "straight through")
    assert isinstance(waiter, Waiter)
    assert waiter.found is not None
    yield "a:\nb:"
    world.send("a", "1")
    yield "a: 1\nb:"
