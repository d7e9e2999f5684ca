"""Scenarios of staged sends: a batch of them is published wholly and once, or not at all."""

from collections.abc import Callable, Iterator
from contextlib import suppress

import tiercel
from tiercel.engine.publication import Publication, Published, Row, RowsOf
from tiercel.engine.stage_records import StageId
from tiercel.model.errors import StageRefusedError
from tiercel.model.format_name import FormatName

from .story import Story, scenario
from .world import World


def stage(world: World, name: str, labels: str, chunk: int = 0) -> None:
    stages = world.driver.engine.stages
    world.driver.run(lambda: stages.stage(StageId.parse(name), chunk, labels.encode(), len(labels.split())))


def rows_of(queue: str = "a") -> Callable[[bytes], Iterator[Row]]:
    name = FormatName.parse(rf"DIRECT=OS:.\private$\{queue}")

    def rows(payload: bytes) -> Iterator[Row]:
        for label in payload.decode().split():
            yield (
                name,
                tiercel.Message(b"x" * 50, label=label, delivery=tiercel.DeliveryGuarantee.RECOVERABLE),
            )

    return rows


def rows_by_turns(*queues: str) -> RowsOf:
    turns = [rows_of(queue) for queue in queues]

    def rows(payload: bytes) -> Iterator[Row]:
        for turn, label in enumerate(payload.split()):
            yield from turns[turn % len(turns)](label)

    return rows


def begin(
    world: World,
    *names: str,
    transactional: bool = True,
    rows: RowsOf | None = None,
) -> Publication:
    driver, ids = world.driver, [StageId.parse(name) for name in names]
    publication = driver.run(
        lambda: driver.engine.stages.begin_publish(
            "app", "7", ids, rows or rows_of(), driver.token, transactional=transactional
        )
    )
    assert isinstance(publication, Publication)
    return publication


def publish(world: World, *names: str) -> Published:
    driver, ids = world.driver, [StageId.parse(name) for name in names]
    return driver.run(lambda: driver.engine.stages.publish("app", "7", ids, rows_of(), driver.token))


def discard(world: World, *, for_good: bool = True) -> None:
    world.driver.run(lambda: world.driver.engine.stages.discard("app", "7", for_good=for_good))


@scenario
def stages_are_published_once(world: World) -> Story:
    world.create("a", transactional=True)
    yield "a:"
    stage(world, "app/7/0/x", "1 2")
    yield "a:\nstaged: app/7/0/x=2"
    stage(world, "app/7/0/x", "3", chunk=1)
    yield "a:\nstaged: app/7/0/x=3"
    stage(world, "app/7/1/y", "4")
    yield "a:\nstaged: app/7/0/x=3 app/7/1/y=1"
    stage(world, "app/7/1/lost", "4")
    yield "a:\nstaged: app/7/0/x=3 app/7/1/lost=1 app/7/1/y=1"
    assert publish(world, "app/7/0/x", "app/7/1/y") == Published(4, already=False)
    yield "a: 1 2 3 4\nbatches: app/7=4"
    assert publish(world, "app/7/0/x", "app/7/1/y") == Published(4, already=True)
    yield "a: 1 2 3 4\nbatches: app/7=4"
    world.restart()
    assert publish(world, "app/7/0/x") == Published(4, already=True)
    yield "a: 1 2 3 4\nbatches: app/7=4"


@scenario
def a_publish_in_slices(world: World) -> Story:
    world.create("a", transactional=True)
    stage(world, "app/7/0/x", "1 2 3")
    yield "a:\nstaged: app/7/0/x=3"
    publication = begin(world, "app/7/0/x")
    world.driver.run(lambda: publication.prepare(2))
    with world.qm.transaction() as transaction:
        world.send("a", "0", transaction=transaction)
    yield "a: 0\nstaged: app/7/0/x=3"
    world.driver.run(publication.prepare)
    yield "a: 0\nstaged: app/7/0/x=3"
    world.driver.run(publication.commit)
    yield "a: 0 1 2 3\nbatches: app/7=3"


@scenario
def a_publish_stored_in_slices(world: World) -> Story:
    world.create("a", transactional=True)
    world.create("b", transactional=True)
    with world.qm.transaction() as transaction:
        world.send("a", "0", transaction=transaction)
    stage(world, "app/7/0/x", "1 2 3")
    stage(world, "app/7/1/y", "4 5")
    yield "a: 0\nb:\nstaged: app/7/0/x=3 app/7/1/y=2"
    publication = begin(world, "app/7/0/x", "app/7/1/y", rows=rows_by_turns("a", "b"))
    world.driver.run(publication.prepare)
    yield "a: 0\nb:\nstaged: app/7/0/x=3 app/7/1/y=2"
    for _ in range(2):
        world.driver.run(lambda: publication.store(2))
        yield "a: 0\nb:\nstaged: app/7/0/x=3 app/7/1/y=2"
    world.receive("a")
    yield "a:\nb:\nstaged: app/7/0/x=3 app/7/1/y=2"
    world.driver.run(publication.commit)
    yield "a: 1 3 4\nb: 2 5\nbatches: app/7=5"


@scenario
def a_publish_that_is_given_up(world: World) -> Story:
    world.create("a")
    world.create("b")
    stage(world, "app/7/0/x", "1 2 3")
    stage(world, "app/7/1/y", "4 5")
    yield "a:\nb:\nstaged: app/7/0/x=3 app/7/1/y=2"
    names, rows = ("app/7/0/x", "app/7/1/y"), rows_by_turns("a", "b")
    publication = begin(world, *names, transactional=False, rows=rows)
    world.driver.run(publication.prepare)
    world.driver.run(lambda: publication.store(2))
    world.driver.run(publication.abort)
    yield "a:\nb:\nstaged: app/7/0/x=3 app/7/1/y=2"
    publication = begin(world, *names, transactional=False, rows=rows)
    world.driver.run(publication.prepare)
    while not world.driver.run(lambda: publication.store(2)):
        pass
    world.restart()
    yield "a:\nb:\nstaged: app/7/0/x=3 app/7/1/y=2"


@scenario
def a_publish_outside_of_transactions(world: World) -> Story:
    world.create("a")
    stage(world, "app/7/0/x", "1 2 3")
    yield "a:\nstaged: app/7/0/x=3"
    publication = begin(world, "app/7/0/x", transactional=False)
    world.driver.run(publication.commit)
    yield "a: 1 2 3\nbatches: app/7=3"


@scenario
def stages_are_discarded(world: World) -> Story:
    world.create("a", transactional=True)
    stage(world, "app/7/0/x", "1 2")
    stage(world, "app/7/0/x", "3", chunk=1)
    stage(world, "app/8/0/x", "4")
    yield "a:\nstaged: app/7/0/x=3 app/8/0/x=1"
    discard(world, for_good=False)
    yield "a:\nstaged: app/8/0/x=1"
    stage(world, "app/7/0/z", "1 2")
    yield "a:\nstaged: app/7/0/z=2 app/8/0/x=1"
    discard(world)
    yield "a:\nbatches: app/7!\nstaged: app/8/0/x=1"
    with suppress(StageRefusedError):
        stage(world, "app/7/0/late", "1 2")
    yield "a:\nbatches: app/7!\nstaged: app/8/0/x=1"


@scenario
def stages_are_reaped(world: World) -> Story:
    world.create("a", transactional=True)
    stage(world, "app/7/0/x", "1 2")
    yield "a:\nstaged: app/7/0/x=2"
    world.wait(86_399)
    stage(world, "app/7/1/x", "3")
    yield "a:\nstaged: app/7/0/x=2 app/7/1/x=1"
    world.wait(1)
    reaped = "discards: 2 staged rows were never published, and their time was over"
    yield f"a:\n{reaped}\nstaged: app/7/1/x=1"
