"""Scenarios of transactions: whole, aborted, in doubt, and with their messages ending under their hands."""

from contextlib import suppress

import tiercel

from .story import Story, scenario
from .world import World


@scenario
def a_transaction_of_three_sends(world: World) -> Story:
    world.create("a", transactional=True)
    with world.qm.transaction() as transaction:
        world.send("a", "0", transaction=transaction)
    yield "a: 0"
    with world.qm.transaction() as transaction:
        world.send("a", "1", "2", "3", transaction=transaction)
    yield "a: 0 1 2 3"
    with world.qm.transaction() as transaction:
        world.send("a", "4", "5", transaction=transaction)
    yield "a: 0 1 2 3 4 5"


@scenario
def a_transaction_of_receives(world: World) -> Story:
    world.create("a", transactional=True)
    with world.qm.transaction() as transaction:
        world.send("a", "1", "2", "3", transaction=transaction)
    yield "a: 1 2 3"
    with world.qm.transaction() as transaction:
        world.receive("a", transaction=transaction)
        world.receive("a", transaction=transaction)
    yield "a: 3"


@scenario
def from_one_queue_to_another(world: World) -> Story:
    for name in "ab":
        world.create(name, transactional=True)
    with world.qm.transaction() as transaction:
        world.send("a", "1", "2", transaction=transaction)
    yield "a: 1 2\nb:"
    with world.qm.transaction() as transaction:
        world.receive("a", transaction=transaction)
        world.send("b", "done", "and more", transaction=transaction)
        world.receive("a", transaction=transaction)
    yield "a:\nb: done and more"


@scenario
def an_abort(world: World) -> Story:
    for name in "ab":
        world.create(name, transactional=True)
    with world.qm.transaction() as transaction:
        world.send("a", "1", "2", transaction=transaction)
    yield "a: 1 2\nb:"
    transaction = world.qm.begin_transaction()
    world.receive("a", transaction=transaction)
    world.receive("a", transaction=transaction)
    world.send("b", "never", transaction=transaction)
    yield "a: 1 2\nb:"
    transaction.abort()
    yield "a: 1~1 2~1\nb:"


@scenario
def moves_in_a_transaction(world: World) -> Story:
    queue = world.create("a", transactional=True)
    with world.qm.transaction() as transaction:
        world.send("a", "1", "2", "3", transaction=transaction)
    yield "a: 1 2 3"
    first = queue.peek(0)
    with world.qm.transaction() as transaction:
        queue.move(first, "retry", transaction=transaction)
        world.receive("a", transaction=transaction)
        world.send("a", "4", transaction=transaction)
    yield "a: 3 4\na;retry: 1"


@scenario
def prepared_then_committed(world: World) -> Story:
    yield from _prepared(world)
    world.end_in_doubt(commit=True)
    yield "a: 2 new\nb: more"


@scenario
def prepared_then_aborted(world: World) -> Story:
    yield from _prepared(world)
    world.end_in_doubt(commit=False)
    yield "a: 1~1 2\nb:"


def _prepared(world: World) -> Story:
    for name in "ab":
        world.create(name, transactional=True)
    with world.qm.transaction() as transaction:
        world.send("a", "1", "2", transaction=transaction)
    yield "a: 1 2\nb:"
    transaction = world.qm.begin_transaction()
    world.receive("a", transaction=transaction)
    world.send("a", "new", transaction=transaction)
    world.send("b", "more", transaction=transaction)
    yield "a: 1 2\nb:"
    world.prepare(transaction)
    yield "a: (1) 2\nb:\nin doubt: 1"
    world.restart()
    yield "a: (1) 2\nb:\nin doubt: 1"


@scenario
def two_in_doubt(world: World) -> Story:
    world.create("a", transactional=True)
    for _ in range(2):
        transaction = world.qm.begin_transaction()
        world.send("a", "1", "1", transaction=transaction)
        world.prepare(transaction)
    world.restart()
    yield "a:\nin doubt: 2"
    world.end_in_doubt(commit=True)
    yield "a: 1 1 1 1"


@scenario
def prepared_and_committed_at_once(world: World) -> Story:
    world.create("a", transactional=True)
    transaction = world.qm.begin_transaction()
    world.send("a", "1", "2", transaction=transaction)
    yield "a:"
    world.prepare(transaction)
    yield "a:\nin doubt: 1"
    transaction.commit()
    yield "a: 1 2"


@scenario
def prepared_without_operations(world: World) -> Story:
    transaction = world.qm.begin_transaction()
    yield ""
    world.prepare(transaction)
    yield "in doubt: 1"
    world.restart()
    yield "in doubt: 1"
    world.end_in_doubt(commit=True)
    yield ""


@scenario
def a_prepared_move(world: World) -> Story:
    queue = world.create("a", transactional=True)
    with world.qm.transaction() as transaction:
        world.send("a", "1", "2", transaction=transaction)
    yield "a: 1 2"
    transaction = world.qm.begin_transaction()
    queue.move(queue.peek(0), "retry", transaction=transaction)
    yield "a: 1 2"
    world.prepare(transaction)
    yield "a: (1) 2\nin doubt: 1"
    world.restart()
    yield "a: (1) 2\nin doubt: 1"
    world.end_in_doubt(commit=True)
    yield "a: 2\na;retry: 1"


@scenario
def the_queue_of_a_prepared_receive_is_deleted(world: World) -> Story:
    for name in "ab":
        world.create(name, transactional=True)
    with world.qm.transaction() as transaction:
        world.send("a", "1", "2", transaction=transaction)
    transaction = world.qm.begin_transaction()
    world.receive("a", transaction=transaction)
    world.send("b", "3", transaction=transaction)
    world.prepare(transaction)
    yield "a: (1) 2\nb:\nin doubt: 1"
    with suppress(tiercel.MqError):  # refused while somebody else decides about a message in it
        world.queue("a").delete()
    yield "a: (1) 2\nb:\nin doubt: 1"
    world.end_in_doubt(commit=False)
    yield "a: 1~1 2\nb:"
    world.queue("a").delete()
    yield "b:\ndiscards: 1 2"


@scenario
def a_purge_while_somebody_holds_a_message(world: World) -> Story:
    world.create("a", transactional=True)
    with world.qm.transaction() as transaction:
        world.send("a", "1", "2", "3", transaction=transaction)
    transaction = world.qm.begin_transaction()
    world.receive("a", transaction=transaction)
    yield "a: 1 2 3"
    world.queue("a").purge()
    yield "a:\ndiscards: 2 3 1"  # after a restart nobody holds it any more
    transaction.commit()
    yield "a:\ndiscards: 2 3"


@scenario
def a_purge_is_remembered_while_others_run_out_of_time(world: World) -> Story:
    world.create("a", transactional=True)
    world.create("b")
    world.send("b", "x", time_to_be_received=10)
    with world.qm.transaction() as transaction:
        world.send("a", "1", transaction=transaction)
    transaction = world.qm.begin_transaction()
    world.receive("a", transaction=transaction)
    yield "a: 1\nb: x"
    world.queue("a").purge()
    yield "a:\nb: x\ndiscards: 1"
    world.wait(11)
    yield "a:\nb:\ndiscards: x 1"
    transaction.abort()
    yield "a:\nb:\ndiscards: x 1"


@scenario
def a_transactional_queue_is_deleted(world: World) -> Story:
    queue = world.create("a", transactional=True)
    with world.qm.transaction() as transaction:
        world.send("a", "1", "2", transaction=transaction, negative_journaling=True)
    yield "a: 1 2"
    queue.delete()
    yield "system$;DEADXACT: 1 2\ndiscards: 1 2"


@scenario
def time_runs_out_while_somebody_holds_the_message(world: World) -> Story:
    world.create("a", transactional=True)
    with world.qm.transaction() as transaction:
        world.send("a", "1", transaction=transaction, time_to_be_received=10)
    yield "a: 1"
    transaction = world.qm.begin_transaction()
    world.receive("a", transaction=transaction)
    yield "a: 1"
    world.wait(11)
    yield "a:\ndiscards: 1"  # after a restart nobody holds it any more
    transaction.abort()
    yield "a:\ndiscards: 1"
