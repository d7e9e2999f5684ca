"""Staged sends: durable when staged, published once or not at all, gone when nobody wants them."""

from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from tiercel.engine.claims import TRANSACTION_WAIT_S
from tiercel.engine.handles import Waiter
from tiercel.engine.publication import Publication, Published, Row, RowsOf
from tiercel.engine.stage_records import Stage, StageId
from tiercel.model.codes import MessageSeekAction
from tiercel.model.errors import (
    AccessDeniedError,
    InsufficientResourcesError,
    InvalidParameterError,
    MqError,
    QueueDeletedError,
    QueueNotFoundError,
    StageBusyError,
    StageNotFoundError,
    StageRefusedError,
    StoreFullError,
    TransactionUsageError,
)
from tiercel.model.format_name import FormatName
from tiercel.model.identifiers import lookup_id_sequence
from tiercel.model.limits import PUBLISHED_KEPT_S, STAGE_CHUNK_MAX_BYTES, STAGE_KEPT_DEFAULT_S
from tiercel.model.message import Message
from tiercel.sim.recorded_lives import disagreements
from tiercel.store.interface import Keyspace

from .harness import BOB, NOW, RECOVERABLE, SYSTEM, Box, Walk, World, result_of

DAY = 86_400
BAD_NAMES = ["", "a b", "a/b", "ä", "x" * 101, "a\0", "a\n"]


class Job:
    """What a sink does: its rows are lines of text, and a line is the body of a message."""

    def __init__(self, world: World, app: str = "app", batch: str = "0", queue: str = "orders") -> None:
        self.world, self.app, self.batch = world, app, batch
        self.name = FormatName.parse(rf"DIRECT=OS:.\private$\{queue}")

    def id(self, partition: int = 0, attempt: str = "a") -> StageId:
        return StageId(self.app, self.batch, str(partition), attempt)

    def stage(self, *lines: str, partition: int = 0, attempt: str = "a", chunk: int = 0, **how: Any) -> Stage:
        payload, stages = "\n".join(lines).encode(), self.world.engine.stages
        stage = self.id(partition, attempt)
        return self.world.run(lambda: stages.stage(stage, chunk, payload, len(lines), **how))

    def rows(self, payload: bytes, delivery: int = RECOVERABLE, **properties: Any) -> Iterator[Row]:
        for line in payload.splitlines():
            yield self.name, Message(line, delivery=delivery, **properties)

    def publish(self, *stages: StageId, rows_of: RowsOf | None = None, **how: Any) -> Published:
        published: Published = self._run("publish", stages, rows_of, **how)
        return published

    def begin(self, *stages: StageId, rows_of: RowsOf | None = None, **how: Any) -> Publication:
        publication = self._run("begin_publish", stages, rows_of, **how)
        assert isinstance(publication, Publication)
        return publication

    def _run(self, verb: str, stages: tuple[StageId, ...], rows_of: RowsOf | None, **how: Any) -> Any:
        token, command = how.pop("token", SYSTEM), getattr(self.world.engine.stages, verb)
        return self.world.run(
            lambda: command(self.app, self.batch, stages, rows_of or self.rows, token, **how)
        )

    def discard(self, **how: Any) -> int:
        return self.world.run(lambda: self.world.engine.stages.discard(self.app, self.batch, **how))


def listed(world: World) -> list[str]:
    return world.run(lambda: [str(stage.id) for stage in world.engine.stages.stages()])


def rows_in_store(world: World) -> int:
    spaces = (Keyspace.STAGES, Keyspace.STAGED)
    return world.run(lambda: sum(world.engine.batch.count(space) for space in spaces))


@pytest.fixture
def orders(world: World) -> Box:
    return world.create("orders", transactional=True)


@pytest.fixture
def job(world: World, orders: Box) -> Job:
    del orders
    return Job(world)


class TestStaging:
    def test_a_stage_is_seen_by_nobody_and_listed(self, world: World, job: Job, orders: Box) -> None:
        job.stage("one", "two")
        world.sleep(5)
        stage = job.stage("three", chunk=1)
        assert stage == Stage(job.id(), NOW, NOW + 5, 0, 2, 3, len("one\ntwo") + len("three"))
        assert world.run(lambda: list(world.engine.stages.stages())) == [stage]
        assert orders.bodies() == []

    def test_a_chunk_that_comes_again_replaces_the_first(self, job: Job, orders: Box) -> None:
        job.stage("one", "two")
        job.stage("three", chunk=1)
        stage = job.stage("uno")
        assert (stage.chunks, stage.rows, stage.size_bytes) == (2, 2, len("uno") + len("three"))
        job.publish(job.id())
        assert orders.bodies() == [b"uno", b"three"]

    def test_no_chunk_can_be_left_out(self, job: Job) -> None:
        job.stage("one")
        with pytest.raises(InvalidParameterError, match="come in order"):
            job.stage("three", chunk=2)

    @pytest.mark.parametrize("name", BAD_NAMES)
    def test_names_are_plain(self, job: Job, name: str) -> None:
        for wrong in (job.id()._replace(**{field: name}) for field in StageId._fields):
            with pytest.raises(InvalidParameterError):
                job.world.run(partial(job.world.engine.stages.stage, wrong, 0, b"", 0))
            with pytest.raises(InvalidParameterError):
                StageId.parse(str(wrong))

    def test_a_name_is_read_as_it_is_written(self, job: Job) -> None:
        assert StageId.parse(str(job.id(7, "b-1.c_2"))) == job.id(7, "b-1.c_2")
        with pytest.raises(InvalidParameterError):
            StageId.parse("app/0/1")

    @pytest.mark.parametrize(
        ("chunk", "payload", "rows"),
        [
            (-1, b"", 0),
            (0, b"", -1),
            (0, "", 0),
            ("0", b"", 0),
            (0, b"", None),
            (0, b"", 2**32),
            (0, bytes(STAGE_CHUNK_MAX_BYTES + 1), 1),
        ],
    )
    def test_wrong_values_are_refused(self, job: Job, chunk: Any, payload: Any, rows: Any) -> None:
        with pytest.raises(MqError):
            job.world.run(lambda: job.world.engine.stages.stage(job.id(), chunk, payload, rows))
        assert listed(job.world) == []

    def test_stages_outlive_a_kill(self, durable_world: World) -> None:
        box, job = durable_world.create("orders", transactional=True), Job(durable_world)
        job.stage("one", "two")
        job.stage("three", partition=1)
        size = durable_world.total_bytes
        durable_world.kill()
        assert durable_world.total_bytes == size == len("one\ntwothree")
        assert job.publish(job.id(), job.id(1)) == Published(3, already=False)
        durable_world.kill()
        assert box.bodies() == [b"one", b"two", b"three"]
        assert job.publish(job.id(), job.id(1)) == Published(3, already=True)


class TestPublishing:
    def test_rows_become_messages_in_the_order_of_the_stages(self, job: Job, orders: Box) -> None:
        job.stage("c", "d", partition=1)
        job.stage("a", "b")
        assert job.publish(job.id(0), job.id(1)) == Published(4, already=False)
        messages = orders.messages()
        assert [message.body for message in messages] == [b"a", b"b", b"c", b"d"]
        assert [message.first_in_transaction for message in messages] == [True, False, False, False]
        assert [message.last_in_transaction for message in messages] == [False, False, False, True]
        assert rows_in_store(job.world) == 0

    def test_twice_is_once(self, job: Job, orders: Box) -> None:
        job.stage("a", "b")
        job.publish(job.id())
        orders.drain()
        assert job.publish(job.id()) == Published(2, already=True)
        assert job.publish() == Published(2, already=True)
        assert orders.bodies() == []

    def test_the_stages_of_attempts_that_lost_go_too(self, job: Job, orders: Box) -> None:
        job.stage("a")
        job.stage("a", attempt="b")
        job.stage("a", "torn", attempt="c")
        other, longer = Job(job.world, batch="01"), Job(job.world, app="app-2")
        other.stage("not mine")
        longer.stage("nor mine")
        job.publish(job.id(0, "b"))
        assert orders.bodies() == [b"a"]
        assert listed(job.world) == [str(longer.id()), str(other.id())]

    def test_after_it_nobody_can_stage(self, job: Job) -> None:
        job.stage("a")
        job.publish(job.id())
        with pytest.raises(StageRefusedError, match="published already"):
            job.stage("a", attempt="late")
        assert listed(job.world) == []

    def test_nothing_is_published_when_a_stage_is_missing(self, job: Job, orders: Box) -> None:
        job.stage("a")
        with pytest.raises(StageNotFoundError, match="app/0/1/a"):
            job.publish(job.id(0), job.id(1))
        assert (orders.bodies(), listed(job.world)) == ([], [str(job.id())])
        job.stage("b", partition=1)
        assert job.publish(job.id(0), job.id(1)).messages == 2

    def test_a_stage_that_is_named_twice_counts_once(self, job: Job) -> None:
        job.stage("a")
        assert job.publish(job.id(), job.id()).messages == 1

    def test_a_stage_of_another_batch_is_refused(self, job: Job) -> None:
        other = Job(job.world, batch="1")
        other.stage("a")
        with pytest.raises(InvalidParameterError, match="another batch"):
            job.publish(other.id())

    def test_an_empty_batch_is_published_too(self, job: Job) -> None:
        assert job.publish() == Published(0, already=False)
        assert job.publish() == Published(0, already=True)

    def test_a_commit_that_was_reported_failed_is_found_out(self, durable_world: World) -> None:
        """The publish was durable, but its caller died before it heard so; it comes again with new stages."""
        box, job = durable_world.create("orders", transactional=True), Job(durable_world)
        job.stage("a")
        job.publish(job.id())
        durable_world.kill()
        with pytest.raises(StageRefusedError):
            job.stage("a", attempt="second-run")
        assert job.publish(job.id(0, "second-run")) == Published(1, already=True)
        assert box.bodies() == [b"a"]

    def test_a_kill_before_the_commit_leaves_the_stages(self, durable_world: World) -> None:
        box, job = durable_world.create("orders", transactional=True), Job(durable_world)
        job.stage("a", "b")
        durable_world.run(partial(job.begin(job.id()).prepare, 1))
        durable_world.kill()
        assert box.bodies() == []
        assert job.publish(job.id()) == Published(2, already=False)

    def test_rows_know_their_place_again(self, job: Job, orders: Box) -> None:
        """What is published again, after it was forgotten, carries the same marks."""

        def marks() -> list[bytes]:
            job.stage("a", "b")
            job.stage("c", chunk=1)
            job.stage("d", partition=1)
            job.publish(job.id(), job.id(1))
            job.world.run(lambda: job.world.engine.stages._forget(job.world.engine.seconds, b"app/0"))
            return [message.correlation_id for message in orders.drain()]

        first, second = marks(), marks()
        assert first == second
        assert len(set(first)) == 4
        assert [mark[16:] for mark in first] == [bytes([number, 0, 0, 0]) for number in (1, 2, 3, 1)]

    def test_a_correlation_id_of_its_own_stays(self, job: Job, orders: Box) -> None:
        job.stage("a")
        job.publish(job.id(), rows_of=partial(job.rows, correlation_id=b"c" * 20))
        assert orders.receive().correlation_id == b"c" * 20

    def test_rows_may_go_to_several_queues(self, world: World, job: Job, orders: Box) -> None:
        other = world.create("other", transactional=True)

        def rows(payload: bytes) -> Iterator[Row]:
            for name, message in job.rows(payload):
                yield (other.name if message.body == b"b" else name), message

        job.stage("a", "b", "c")
        assert job.publish(job.id(), rows_of=rows).messages == 3
        assert (orders.bodies(), other.bodies()) == ([b"a", b"c"], [b"b"])
        assert not orders.state.queue.open_handles - {orders.receiving.handle}


class TestOutsideOfTransactions:
    @pytest.mark.parametrize("delivery", [0, RECOVERABLE], ids=["express", "recoverable"])
    def test_a_queue_that_takes_no_transactions(self, world: World, delivery: int) -> None:
        box, job = world.create("plain"), Job(world, queue="plain")
        job.stage("a", "b", "c")
        rows_of = partial(job.rows, delivery=delivery, priority=5)
        publication = job.begin(job.id(), rows_of=rows_of, transactional=False)
        assert world.run(publication.prepare)
        assert box.bodies() == []
        assert world.run(publication.commit) == Published(3, already=False)
        messages = box.messages()
        assert [message.body for message in messages] == [b"a", b"b", b"c"]
        assert [message.is_transactional for message in messages] == [False] * 3
        assert [message.priority for message in messages] == [5] * 3

    @pytest.mark.parametrize("transactional", [False, True])
    def test_the_wrong_kind_of_queue_refuses_all(self, world: World, transactional: bool) -> None:
        box, job = world.create("orders", transactional=not transactional), Job(world)
        job.stage("a")
        with pytest.raises(TransactionUsageError):
            job.publish(job.id(), transactional=transactional)
        assert (box.bodies(), listed(world)) == ([], [str(job.id())])

    def test_waiting_readers_are_served(self, world: World) -> None:
        box, job = world.create("plain"), Job(world, queue="plain")
        waiter = box.wait()
        job.stage("a", "b")
        job.publish(job.id(), transactional=False)
        assert world.completed() == [waiter]
        assert box.bodies() == [b"b"]


class TestInSlices:
    def test_others_work_meanwhile(self, world: World, job: Job, orders: Box) -> None:
        job.stage(*"abcdefg")
        publication = job.begin(job.id())
        assert publication.rows == 7
        steps = []
        while not world.run(partial(publication.prepare, 3)):
            steps.append(publication.prepared)
            with world.transaction() as transaction:
                orders.send(b"other", transaction=transaction)
        assert steps == [3, 6]
        assert orders.bodies() == [b"other", b"other"]
        assert world.run(publication.commit) == Published(7, already=False)
        assert len(orders.bodies()) == 9

    def test_large_rows_make_short_slices(self, world: World, job: Job) -> None:
        job.stage(*["x" * 2**20] * 12)
        publication = job.begin(job.id())
        assert not world.run(publication.prepare)
        assert publication.prepared == 4

    def test_an_abort_leaves_everything_as_it_was(self, world: World, job: Job, orders: Box) -> None:
        job.stage(*"abc")
        size = world.total_bytes
        publication = job.begin(job.id())
        world.run(partial(publication.prepare, 2))
        for _ in range(2):
            world.run(publication.abort)
        assert (world.total_bytes, world.engine._core.pending_bytes) == (size, 0)
        assert (orders.bodies(), orders.state.held_bytes) == ([], 0)
        with pytest.raises(StageRefusedError, match="it has ended"):
            world.run(publication.prepare)
        assert job.publish(job.id()).messages == 3
        world.run(publication.abort)
        assert len(orders.bodies()) == 3

    def test_a_second_publish_meanwhile_is_told_to_wait(self, world: World, job: Job) -> None:
        job.stage("a")
        publication = job.begin(job.id())
        with pytest.raises(StageBusyError):
            job.publish(job.id())
        with pytest.raises(StageBusyError):
            job.stage("a", attempt="late")
        world.run(publication.commit)
        assert job.publish(job.id()).already

    def test_a_discard_meanwhile_ends_it(self, world: World, job: Job, orders: Box) -> None:
        job.stage("a")
        publication = job.begin(job.id())
        world.run(publication.prepare)
        assert job.discard() == 1
        with pytest.raises(StageRefusedError):
            world.run(publication.commit)
        assert (orders.bodies(), world.total_bytes) == ([], 0)

    def test_a_queue_that_is_deleted_meanwhile(self, world: World, job: Job, orders: Box) -> None:
        job.stage("a", "b")
        publication = job.begin(job.id())
        world.run(partial(publication.prepare, 1))
        orders.delete()
        with pytest.raises(MqError):
            world.run(publication.prepare)
        assert listed(world) == [str(job.id())]

    def test_published_before(self, world: World, job: Job) -> None:
        job.stage("a")
        job.publish(job.id())
        again = world.run(lambda: world.engine.stages.begin_publish("app", "0", [], job.rows, SYSTEM))
        assert again.prepare()
        again.abort()
        assert again.commit() == Published(1, already=True)
        assert world.run(lambda: world.engine.stages.outcome("app", "0")) == Published(1, already=True)
        assert world.run(lambda: world.engine.stages.outcome("app", "1")) is None


class TestRowsThatCannotBePublished:
    def refused(self, job: Job, error: type[MqError], rows_of: RowsOf, **how: Any) -> None:
        job.stage("a", "b")
        size = job.world.total_bytes
        with pytest.raises(error):
            job.publish(job.id(), rows_of=rows_of, **how)
        assert job.world.total_bytes == size
        assert listed(job.world) == [str(job.id())]
        assert job.world.engine._core.pending_bytes == 0

    def test_whatever_the_decoder_raises_is_an_error_of_the_caller(self, job: Job, orders: Box) -> None:
        def rows(payload: bytes) -> Iterator[Row]:
            yield next(job.rows(payload))
            raise ZeroDivisionError

        def no_rows(_payload: bytes) -> Iterator[Row]:
            raise ZeroDivisionError

        self.refused(job, InvalidParameterError, rows)
        self.refused(job, InvalidParameterError, no_rows)
        assert orders.bodies() == []

    @pytest.mark.parametrize("count", [1, 3])
    def test_fewer_rows_or_more_than_were_staged(self, job: Job, orders: Box, count: int) -> None:
        self.refused(job, InvalidParameterError, lambda _payload: list(job.rows(b"a\nb\nc"))[:count])
        assert orders.bodies() == []

    def test_no_such_queue(self, job: Job) -> None:
        nowhere = Job(job.world, queue="nowhere")
        self.refused(job, QueueNotFoundError, nowhere.rows)

    def test_no_right_to_send(self, world: World) -> None:
        world.options["everyone_may_send"] = False
        world.restart()
        world.create("orders", transactional=True)
        job = Job(world)
        self.refused(job, AccessDeniedError, job.rows, token=BOB)

    def test_a_property_that_no_message_has(self, job: Job) -> None:
        self.refused(job, MqError, partial(job.rows, label="x" * 300))

    def test_a_chunk_that_is_damaged(self, world: World, job: Job, orders: Box) -> None:
        job.stage("a", "b")
        key, data = world.run(lambda: world.engine.batch.first(Keyspace.STAGED, b"", b"\xff")) or (b"", b"")
        world.run(lambda: world.engine.batch.put(Keyspace.STAGED, key, data[:-1] + b"c"))
        with pytest.raises(StageNotFoundError, match="checksum"):
            job.publish(job.id())
        job.stage("a", "b")
        assert job.publish(job.id()).messages == 2
        assert orders.bodies() == [b"a", b"b"]

    def test_a_head_that_is_damaged_is_set_aside(self, world: World, job: Job) -> None:
        job.stage("a")
        world.run(lambda: world.engine.batch.put(Keyspace.STAGES, job.id().key, b"?"))
        with pytest.raises(StageNotFoundError):
            job.publish(job.id())
        assert world.run(lambda: world.engine.batch.count(Keyspace.DAMAGED)) == 1
        assert job.stage("a").rows == 1

    def test_what_became_of_it_is_damaged(self, world: World, job: Job) -> None:
        job.stage("a")
        job.publish(job.id())
        world.run(lambda: world.engine.batch.put(Keyspace.PUBLISHED, b"app/0", b"?"))
        with pytest.raises(StageRefusedError, match="outcome is damaged"):
            job.publish(job.id())
        with pytest.raises(StageRefusedError, match="outcome is damaged"):
            job.stage("a")


class TestDiscarding:
    def test_late_attempts_are_refused(self, durable_world: World) -> None:
        durable_world.create("orders", transactional=True)
        job = Job(durable_world)
        job.stage("a")
        job.stage("b", partition=1)
        assert job.discard() == 2
        assert (listed(durable_world), rows_in_store(durable_world), durable_world.total_bytes) == ([], 0, 0)
        durable_world.kill()
        with pytest.raises(StageRefusedError, match="discarded already"):
            job.stage("late", attempt="b")
        with pytest.raises(StageRefusedError, match="discarded already"):
            job.publish()
        assert job.discard() == 0

    def test_what_is_published_stays(self, job: Job, orders: Box) -> None:
        job.stage("a")
        job.publish(job.id())
        assert job.discard() == 0
        assert job.publish(job.id()) == Published(1, already=True)
        assert orders.bodies() == [b"a"]

    def test_a_stream_that_failed_comes_again(self, job: Job, orders: Box) -> None:
        job.stage("a")
        assert job.discard(for_good=False) == 1
        job.stage("a", attempt="b")
        assert job.publish(job.id(0, "b")) == Published(1, already=False)
        assert orders.bodies() == [b"a"]

    def test_others_are_left_alone(self, job: Job) -> None:
        names = [("app", "01"), ("app", "0-1"), ("app", "0.1"), ("app-2", "0"), ("ap", "0")]
        others = [Job(job.world, *name) for name in names]
        for each in (job, *others):
            each.stage("a")
        job.discard()
        assert sorted(listed(job.world)) == sorted(str(each.id()) for each in others)


class TestQuotas:
    def test_staged_bytes_count_for_the_queue_manager(self, world: World, job: Job, orders: Box) -> None:
        world.set(queue_manager_quota_kib=4)
        job.stage("a" * 2000)
        with pytest.raises(InsufficientResourcesError):
            job.stage("b" * 2500, partition=1)
        with pytest.raises(InsufficientResourcesError), world.transaction() as transaction:
            orders.send(b"c" * 2500, transaction=transaction)
        assert world.total_bytes == 2000
        # Rows become messages: they need no room beside themselves.
        assert job.publish(job.id()).messages == 1
        assert world.total_bytes == orders.state.size_bytes

    def test_a_queue_without_room_refuses_the_whole_batch(self, world: World) -> None:
        box, job = world.create("orders", transactional=True, quota_kib=2), Job(world)
        job.stage("a" * 600, "b" * 600, "c" * 600)
        with pytest.raises(InsufficientResourcesError):
            job.publish(job.id())
        assert (box.bodies(), listed(world)) == ([], [str(job.id())])
        box.set(quota_kib=4)
        assert job.publish(job.id()).messages == 3

    def test_a_batch_beyond_memory_is_refused(self, job: Job) -> None:
        job.stage("a" * 100)
        with patch("tiercel.engine.stages.PUBLISH_MAX_BYTES", 99), pytest.raises(StageRefusedError):
            job.publish(job.id())
        assert job.publish(job.id()).messages == 1

    def test_a_full_store_refuses_and_can_be_emptied(self, tmp_path: Path) -> None:
        """Of a store on disk: one in memory is never full."""
        world = World(tmp_path / "data")
        with closing(world.store):
            self._fill_and_empty(world)

    @staticmethod
    def _fill_and_empty(world: World) -> None:
        world.create("orders", transactional=True)
        world.set(queue_manager_quota_kib=0xFFFF_FFFF)
        job, line, chunk = Job(world), "x" * 2**20, 0
        with suppress(StoreFullError):
            for chunk in range(100):
                job.stage(line, chunk=chunk)
        assert 20 < chunk < 64
        with pytest.raises(StoreFullError):
            job.publish(job.id())
        assert job.discard(for_good=False) == 1
        with suppress(StoreFullError):  # the pages that were set free come with the batch after the next
            job.stage(line)
        job.stage(line)
        assert job.publish(job.id()).messages == 1


def stored(job: Job, world: World, *lines: str, **how: Any) -> Publication:
    """A publication of which every message is in the store."""
    job.stage(*lines)
    publication = job.begin(job.id(), **how)
    assert world.run(publication.prepare)
    while not world.run(partial(publication.store, 2)):
        pass
    return publication


class TestStoredBeforeTheCommit:
    """The messages of a large batch are written in slices, and readers see nothing of it until the commit."""

    @pytest.fixture
    def publication(self, world: World, job: Job, orders: Box) -> Publication:
        orders.arrive(b"before", transaction_id=1)
        publication = stored(job, world, *"abcde")
        orders.arrive(b"after", transaction_id=2)
        assert world.run(lambda: world.engine.batch.count(Keyspace.MESSAGES)) == 7
        return publication

    def test_the_record_of_their_life_is_in_the_commit(self) -> None:
        world = World(life_bytes=1 << 20)
        world.create("orders", transactional=True)
        publication = stored(Job(world), world, *"abc")
        world.run(publication.commit)
        world.kill()
        with world.store.snapshot() as view:
            assert list(disagreements(view, lambda _: True)) == []
        world.store.close()

    def test_nobody_sees_them(self, world: World, orders: Box, publication: Publication) -> None:
        state, browsing = orders.state, world.engine.browsing
        first = orders.lookup(0, MessageSeekAction.SEEK_FIRST)
        assert orders.bodies() == [b"before"]
        assert orders.lookup(0, MessageSeekAction.SEEK_LAST).body == b"before"
        assert world.run(lambda: [lookup_id_sequence(first.lookup_id), *browsing.head(state)]) == [1, 0, 1]
        assert world.run(lambda: [seen.lookup_id for seen in browsing.in_order(state, -1)]) == [
            first.lookup_id
        ]
        assert world.run(lambda: browsing.pass_over(state, -1, 10)) == (first.lookup_id, 1)
        assert world.run(lambda: browsing.newest(state)) == 1
        assert state.queue.message_count == state.count == 2  # the last one has arrived, for its sender
        with pytest.raises(MqError):
            orders.lookup(first.lookup_id + 1)
        world.run(publication.commit)
        assert orders.bodies() == [b"before", *map(bytes, zip(b"abcde")), b"after"]
        assert (state.queue.message_count, state.count) == (7, 7)
        assert world.run(lambda: browsing.newest(state)) == 7
        assert orders.lookup(first.lookup_id + 1).body == b"a"

    def test_a_claim_takes_those_before_them(
        self, world: World, orders: Box, publication: Publication
    ) -> None:
        claims = world.engine.claims
        epoch = world.run(lambda: claims.attach("lake"))
        world.sleep(TRANSACTION_WAIT_S)  # those that arrived are a part of their transactions
        assert world.run(lambda: claims.claim("lake", epoch, orders.state, 100)).hi == 1
        assert world.run(lambda: claims.claim("lake", epoch, orders.state, 100)).hi == 1
        world.run(publication.commit)
        assert world.run(lambda: claims.claim("lake", epoch, orders.state, 100)).hi == 7

    def test_a_cursor_misses_none(self, world: World, orders: Box, publication: Publication) -> None:
        walk = Walk(orders)
        assert walk.peek().body == b"before"
        waiter = walk.start_peek_next(10)
        world.sleep(10)
        assert isinstance(waiter, Waiter)
        world.run(publication.commit)
        assert [walk.peek().body, walk.peek_next().body] == [b"a", b"b"]

    def test_waiting_readers_get_them_in_their_order(
        self, world: World, orders: Box, publication: Publication
    ) -> None:
        assert orders.receive().body == b"before"
        waiters = [orders.wait() for _ in range(7)]
        orders.arrive(b"last", transaction_id=3)
        assert world.completed() == []
        world.run(publication.commit)
        bodies = [result_of(waiter).body for waiter in waiters]
        assert bodies == [b"a", b"b", b"c", b"d", b"e", b"after", b"last"]

    def test_a_purge_leaves_them(self, world: World, orders: Box, publication: Publication) -> None:
        newest = world.run(lambda: world.engine.browsing.newest(orders.state))
        assert orders.purge() == 1
        world.run(publication.commit)
        opened = orders.receiving
        assert world.run(lambda: world.engine.purging.purge(opened, newest=newest)) == 0
        assert len(orders.bodies()) == 6

    def test_an_abort_takes_them_out(self, world: World, job: Job, orders: Box) -> None:
        job.stage(*"abcde")
        size = world.total_bytes
        publication = job.begin(job.id())
        world.run(publication.prepare)
        for _ in range(2):
            assert not world.run(partial(publication.store, 2))
        for _ in range(2):
            world.run(publication.abort)
        assert (world.total_bytes, world.engine._core.pending_bytes) == (size, 0)
        assert (orders.state.used_bytes, orders.state.count, orders.state.hidden_from) == (0, 0, None)
        assert world.run(lambda: world.engine.batch.count(Keyspace.MESSAGES)) == 0
        assert world.run(lambda: world.engine.batch.count(Keyspace.UNPUBLISHED)) == 0
        assert job.publish(job.id()).messages == 5
        assert len(orders.bodies()) == 5

    def test_a_crash_takes_them_out(self, durable_world: World) -> None:
        orders = durable_world.create("orders", transactional=True)
        job = Job(durable_world)
        orders.arrive(b"before", transaction_id=1)
        stored(job, durable_world, *"abcde")
        orders.arrive(b"after", transaction_id=2)
        durable_world.kill()
        assert orders.bodies() == [b"before", b"after"]
        assert orders.state.count == 2
        assert job.publish(job.id()) == Published(5, already=False)
        assert len(orders.bodies()) == 7

    def test_after_the_commit_they_stay(self, durable_world: World) -> None:
        orders = durable_world.create("orders", transactional=True)
        publication = stored(Job(durable_world), durable_world, *"abcde")
        durable_world.run(publication.commit)
        durable_world.kill()
        assert len(orders.bodies()) == 5

    def test_a_queue_that_is_deleted_meanwhile_fails_the_batch(
        self, world: World, job: Job, orders: Box, publication: Publication
    ) -> None:
        orders.delete()
        assert world.run(lambda: world.engine.batch.count(Keyspace.MESSAGES)) == 0
        with pytest.raises(QueueDeletedError, match="deleted while messages were published"):
            world.run(publication.commit)
        assert listed(world) == [str(job.id())]
        assert world.total_bytes == sum(stage.size_bytes for stage in world.run(world.engine.stages.stages))

    def test_a_queue_that_is_deleted_between_two_slices(self, world: World, job: Job, orders: Box) -> None:
        job.stage(*"abcde")
        publication = job.begin(job.id())
        world.run(publication.prepare)
        world.run(partial(publication.store, 2))
        orders.delete()
        with pytest.raises(QueueDeletedError):
            world.run(partial(publication.store, 2))
        assert world.engine._core.pending_bytes == 0

    def test_they_are_one_transaction_of_the_stream(
        self, world: World, orders: Box, publication: Publication
    ) -> None:
        with world.transaction() as transaction:
            orders.send(b"own", transaction=transaction)
        world.run(publication.commit)
        own = [each for each in orders.messages() if each.body not in {b"before", b"after"}]
        assert [each.body for each in own] == [b"a", b"b", b"c", b"d", b"e", b"own"]
        assert [each.tx_sequence_number for each in own] == [1, 2, 3, 4, 5, 6]
        assert len({each.tx_sequence_id for each in own}) == 1
        assert [each.first_in_transaction for each in own] == [True, False, False, False, False, True]
        assert [each.last_in_transaction for each in own] == [False, False, False, False, True, True]

    def test_two_batches_appear_in_the_order_of_their_places(self, world: World, orders: Box) -> None:
        first, second = (
            stored(job, world, *lines) for job, lines in ((Job(world), "abc"), (Job(world, batch="1"), "def"))
        )
        assert orders.bodies() == []
        world.run(second.commit)
        assert orders.bodies() == []
        world.run(first.commit)
        assert orders.bodies() == [b"a", b"b", b"c", b"d", b"e", b"f"]

    def test_priorities_outside_of_transactions(self, world: World) -> None:
        plain, job = world.create("plain"), Job(world, queue="plain")
        plain.send_all(b"low", priority=1)

        def rows_of(payload: bytes) -> Iterator[Row]:
            for priority, row in enumerate(job.rows(payload)):
                row[1].priority = priority
                yield row

        publication = stored(job, world, *"abcde", rows_of=rows_of, transactional=False)
        plain.send(b"high", priority=7)
        assert plain.bodies() == [b"low"]
        assert [plain.lookup(0, MessageSeekAction.SEEK_LAST).body, plain.state.count] == [b"low", 2]
        world.run(publication.commit)
        assert plain.bodies() == [b"high", b"e", b"d", b"c", b"low", b"b", b"a"]

    def test_a_batch_with_special_messages_is_stored_by_its_commit(
        self, world: World, job: Job, orders: Box
    ) -> None:
        publication = stored(job, world, *"abcde", rows_of=partial(job.rows, time_to_be_received=60))
        assert world.run(lambda: world.engine.batch.count(Keyspace.MESSAGES)) == 0
        world.run(publication.commit)
        assert len(orders.bodies()) == 5

    def test_what_goes_to_another_computer_leaves_with_the_commit(self, world: World, orders: Box) -> None:
        name = FormatName.parse(r"DIRECT=OS:OTHER\private$\q")
        job = Job(world)

        def rows_of(payload: bytes) -> Iterator[Row]:
            for turn, (own, message) in enumerate(job.rows(payload)):
                yield name if turn % 2 else own, message

        publication = stored(job, world, *"abcde", rows_of=rows_of)
        outgoing = world.engine.queues.find(name)
        assert outgoing is not None
        assert (outgoing.count, orders.state.count) == (0, 0)
        assert world.run(lambda: world.engine.batch.count(Keyspace.MESSAGES)) == 3
        world.run(publication.commit)
        assert (outgoing.count, orders.bodies()) == (2, [b"a", b"c", b"e"])


class TestReaping:
    def test_by_age(self, world: World, job: Job) -> None:
        job.stage("a")
        world.sleep(60)
        job.stage("b", partition=1)
        assert world.run(lambda: world.engine.stages.reap(61)) == 0
        assert world.run(lambda: world.engine.stages.reap(60)) == 1
        assert listed(world) == [str(job.id(1))]
        assert [line.queue for line in world.discards()] == [f"stage {job.id()}"]

    def test_by_the_timer_of_the_engine(self, durable_world: World) -> None:
        job = Job(durable_world)
        job.stage("a")
        durable_world.sleep(DAY - 1)
        assert listed(durable_world) == [str(job.id())]
        assert durable_world.engine.next_deadline == NOW + STAGE_KEPT_DEFAULT_S
        durable_world.kill()
        assert durable_world.engine.next_deadline == NOW + STAGE_KEPT_DEFAULT_S
        durable_world.sleep(1)
        assert (listed(durable_world), durable_world.total_bytes) == ([], 0)
        assert durable_world.engine.next_deadline is None

    def test_while_nobody_ran(self, durable_world: World) -> None:
        Job(durable_world).stage("a")
        durable_world.now += 2 * DAY
        durable_world.kill()
        assert listed(durable_world) == []

    def test_the_last_chunk_counts(self, world: World, job: Job) -> None:
        job.stage("a")
        world.sleep(DAY - 1)
        job.stage("b", chunk=1)
        world.sleep(DAY - 1)
        assert listed(world) == [str(job.id())]

    def test_a_stage_may_name_its_own_time(self, durable_world: World) -> None:
        job = Job(durable_world)
        job.stage("a", keep_s=10)
        job.stage("b", partition=1)
        durable_world.kill()
        durable_world.sleep(10)
        assert listed(durable_world) == [str(job.id(1))]

    def test_the_time_can_be_set(self, world: World, job: Job) -> None:
        job.stage("a")
        world.run(lambda: setattr(world.engine.stages, "reap_after_s", 100))
        assert (world.engine.stages.reap_after_s, world.engine.next_deadline) == (100, NOW + 100)
        world.sleep(100)
        assert listed(world) == []

    def test_not_while_it_is_being_published(self, world: World, job: Job, orders: Box) -> None:
        job.stage("a")
        publication = job.begin(job.id())
        world.sleep(2 * DAY)
        assert world.engine.next_deadline is None
        world.run(publication.abort)
        assert listed(world) == []
        job.stage("b")
        publication = job.begin(job.id())
        world.sleep(2 * DAY)
        world.run(publication.commit)
        assert orders.bodies() == [b"b"]


class TestWhatIsRemembered:
    def kept(self, world: World) -> int:
        return world.run(lambda: world.engine.batch.count(Keyspace.PUBLISHED)) // 2

    @pytest.mark.parametrize("end", [Job.publish, Job.discard])
    def test_for_thirty_days(self, world: World, end: Callable[[Job], object]) -> None:
        with patch("tiercel.engine.stages.OUTCOMES_KEPT", 2):
            end(Job(world, app="old"))
            world.sleep(PUBLISHED_KEPT_S)
            end(Job(world, app="newer"))
            assert self.kept(world) == 2
            world.sleep(1)
            end(Job(world, app="new"))
            assert self.kept(world) == 2
        assert Job(world, app="old").publish() == Published(0, already=False)

    def test_the_newest_of_all_when_a_clock_leaps(self, world: World) -> None:
        Job(world, app="old").publish()
        world.sleep(10 * PUBLISHED_KEPT_S)
        Job(world, app="new").publish()
        assert Job(world, app="old").publish().already

    def test_the_newest_batches_of_a_stream(self, world: World) -> None:
        with patch("tiercel.engine.stages.OUTCOMES_OF_STREAM", 3):
            Job(world, app="other", batch="0").publish()
            for number in range(10):
                Job(world, app="stream", batch=str(number)).publish()
        assert self.kept(world) == 4
        assert Job(world, app="stream", batch="7").publish().already
        assert Job(world, app="other", batch="0").publish().already

    def test_not_more_than_so_many(self, world: World) -> None:
        with patch("tiercel.engine.stages.OUTCOMES_MAX", 5):
            for number in range(20):
                Job(world, app=f"job-{number}").publish()
                world.sleep(1)
        assert self.kept(world) == 5
        assert Job(world, app="job-15").publish().already
        assert not Job(world, app="job-14").publish().already
