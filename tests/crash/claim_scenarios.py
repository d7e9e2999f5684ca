"""Scenarios of consumers: claims, acknowledgements, releases, and queues that change under their hands."""

from typing import Any
from unittest.mock import patch

import tiercel
from tiercel.model.codes import QueueAccess
from tiercel.model.format_name import FormatName

from .story import Story, scenario
from .world import World


@scenario
def claims_and_acknowledgements(world: World) -> Story:
    queue = world.create("a")
    world.send("a", "1", "2", "3", "4", "5")
    yield "a: 1 2 3 4 5"
    spark = world.qm.consumer("spark")
    yield "a: 1 2 3 4 5"
    spark.claim(queue, 2)
    yield "a: 3 4 5\nspark holds a 1-2: 1 2"
    spark.claim(queue, 2)
    yield "a: 5\nspark holds a 1-4: 1 2 3 4"
    spark.acknowledge(queue, 3)
    yield "a: 5\nspark holds a 4-4: 4"
    spark.claim(queue, 2, acknowledge=4)
    yield "a:\nspark holds a 5-5: 5"
    spark.acknowledge(queue, 5)
    yield "a:\nspark holds a 6-5:"


@scenario
def a_consumer_comes_back_after_a_crash(world: World) -> Story:
    world.create("a")
    world.send("a", "1", "2", "3")
    world.qm.consumer("spark").claim(world.queue("a"), 2)
    yield "a: 3\nspark holds a 1-2: 1 2"
    world.restart()
    spark, queue = world.qm.consumer("spark"), world.queue("a")
    yield "a: 3\nspark holds a 1-2: 1 2"
    assert [message.claim_seq for message in spark.claim(queue)] == [1, 2]
    yield "a: 3\nspark holds a 1-2: 1 2"
    spark.claim(queue, acknowledge=2)
    yield "a:\nspark holds a 3-3: 3"


@scenario
def messages_are_released(world: World) -> Story:
    queue = world.create("a")
    world.create("b")
    world.send("a", "1", "2", "3", time_to_be_received=100)
    world.send("b", "4")
    spark = world.qm.consumer("spark")
    spark.claim(queue, 2)
    spark.claim(world.queue("b"))
    yield "a: 3\nb:\nspark holds a 1-2: 1 2\nspark holds b 1-1: 4"
    world.qm.release_claims("spark", queue)
    yield "a: 1~1 2~1 3\nb:\nspark holds a 3-2:\nspark holds b 1-1: 4"
    world.qm.release_claims("spark")
    yield "a: 1~1 2~1 3\nb: 4~1\nspark holds a 3-2:\nspark holds b 2-1:"
    world.qm.forget_consumer("spark")
    yield "a: 1~1 2~1 3\nb: 4~1"


@scenario
def a_release_goes_in_slices(world: World) -> Story:
    queue = world.create("a")
    world.send("a", "1", "2", "3")
    world.qm.consumer("spark").claim(queue)
    yield "a:\nspark holds a 1-3: 1 2 3"
    engine = world.driver.engine
    world.driver.run(lambda: engine.claims.release("spark", limit=2))
    yield "a: 1~1 2~1\nspark holds a 3-3: 3"
    world.driver.run(lambda: engine.claims.release("spark", limit=2))
    yield "a: 1~1 2~1 3~1\nspark holds a 4-3:"


@scenario
def express_messages_are_claimed(world: World) -> Story:
    queue = world.create("a")
    world.send("a", "1", "2", delivery=tiercel.DeliveryGuarantee.EXPRESS)
    world.send("a", "3")
    spark = world.qm.consumer("spark")
    yield "a: 3"
    spark.claim(queue, 2)
    yield "a: 3\nspark holds a 1-2: 1 2"
    world.qm.release_claims("spark")
    yield "a: 3\nspark holds a 3-2:"


@scenario
def whole_transactions_are_claimed(world: World) -> Story:
    queue = world.create("a", transactional=True, journaling=True)
    for labels in "12", "345":
        with world.qm.transaction() as transaction:
            world.send("a", *labels, transaction=transaction, positive_journaling=True)
    spark = world.qm.consumer("spark")
    yield "a: 1 2 3 4 5"
    spark.claim(queue, 3)
    yield "a: 3 4 5\nspark holds a 1-2: 1 2"
    spark.claim(queue, 1)
    yield "a:\nspark holds a 1-5: 1 2 3 4 5"
    spark.acknowledge(queue, 2)
    yield "a:\na;JOURNAL: 1 2\nsystem$;JOURNAL: 1 2\nspark holds a 3-5: 3 4 5"


@scenario
def claimed_messages_are_acknowledged_to_their_senders(world: World) -> Story:
    queue = world.create("a")
    world.create("admin")
    name = FormatName.parse(r"DIRECT=OS:.\private$\admin")
    asked: dict[str, Any] = {
        "acknowledgements": tiercel.Acknowledgements.FULL_RECEIVE,
        "administration_queue": name,
    }
    world.send("a", "1", "2", **asked)
    spark = world.qm.consumer("spark")
    spark.claim(queue)
    yield "a:\nadmin:\nspark holds a 1-2: 1 2"
    spark.acknowledge(queue, 1)
    yield "a:\nadmin: <ACK_RECEIVE>\nspark holds a 2-2: 2"
    queue.delete()
    yield "admin: <ACK_RECEIVE> <NACK_Q_DELETED>\ndiscards: 2"


@scenario
def the_time_of_claimed_messages_stands_still(world: World) -> Story:
    queue = world.create("a")
    world.send("a", "1", "2", time_to_be_received=10)
    yield "a: 1 2"
    spark = world.qm.consumer("spark")
    spark.claim(queue, 1)
    yield "a: 2\nspark holds a 1-1: 1"
    world.wait(11)
    yield "a:\nspark holds a 1-1: 1\ndiscards: 2"
    world.qm.release_claims("spark")
    yield "a: 1~1\nspark holds a 2-1:\ndiscards: 2"
    world.wait(11)
    yield "a:\nspark holds a 2-1:\ndiscards: 2 1"


@scenario
def a_purge_leaves_claimed_messages_alone(world: World) -> Story:
    queue = world.create("a")
    world.send("a", "1", "2", "3")
    spark = world.qm.consumer("spark")
    spark.claim(queue, 1)
    yield "a: 2 3\nspark holds a 1-1: 1"
    queue.purge()
    yield "a:\nspark holds a 1-1: 1\ndiscards: 2 3"
    world.qm.release_claims("spark")
    yield "a: 1~1\nspark holds a 2-1:\ndiscards: 2 3"


@scenario
def a_subqueue_is_claimed_from(world: World) -> Story:
    queue = world.create("a")
    world.send("a", "1", "2")
    queue.move(queue.peek(0), "retry")
    yield "a: 2\na;retry: 1"
    retry = queue.subqueue("retry")
    spark = world.qm.consumer("spark")
    spark.claim(retry)
    yield "a: 2\nspark holds a;retry 1-1: 1"
    spark.acknowledge(retry, 1)
    yield "a: 2\nspark holds a;retry 2-1:"
    world.qm.forget_consumer("spark")
    yield "a: 2"


@scenario
def a_waiting_reader_gets_what_is_released(world: World) -> Story:
    queue = world.create("a")
    world.send("a", "1", "2")
    spark = world.qm.consumer("spark")
    spark.claim(queue)
    engine = world.driver.engine
    opened = world.driver.run(lambda: queue.opened(QueueAccess.RECEIVE))
    world.driver.run(lambda: engine.reading.receive(opened))
    yield "a:\nspark holds a 1-2: 1 2"
    world.qm.release_claims("spark")
    yield "a: 2~1\nspark holds a 3-2:"


@scenario
def epochs_at_the_end_of_their_block(world: World) -> Story:
    queue = world.create("a")
    world.send("a", "1", "2", "3")
    epochs = []
    with patch("tiercel.engine.core.COUNTER_BLOCK", 2):
        world.restart()
        queue = world.queue("a")
        for number, state in enumerate(("a: 2 3", "a: 3", "a:"), 1):
            spark = world.qm.consumer("spark")
            spark.claim(queue, 1, acknowledge=number - 1)
            epochs.append(spark.epoch)
            assert epochs == sorted(set(epochs))
            yield f"{state}\nspark holds a {number}-{number}: {number}"
