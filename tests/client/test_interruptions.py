"""Calls that end half-way, and waits that nobody waits for any more: nothing acknowledged may be lost."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tiercel
from tiercel import aio
from tiercel.model.codes import MessageSeekAction

QUEUE = r".\private$\q"


def recoverable(body: bytes) -> tiercel.Message:
    return tiercel.Message(body, delivery=tiercel.DeliveryGuarantee.RECOVERABLE)


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


class TestACallThatEndsHalfWay:
    @pytest.mark.parametrize("where", ["_release", "_leave", "_enter"])
    def test_is_the_last_and_loses_nothing_that_was_acknowledged(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
    ) -> None:
        with tiercel.open(tmp_path / "data") as qm:
            queue = qm.create_queue(QUEUE)
            queue.send(recoverable(b"acknowledged"))
            with monkeypatch.context() as patched:
                patched.setattr(qm.driver, where, interrupt)
                with pytest.raises(KeyboardInterrupt):
                    queue.send(recoverable(b"interrupted"))
            with pytest.raises(tiercel.StoreFailedError):
                queue.send(recoverable(b"refused"))
        with tiercel.open(tmp_path / "data") as qm:
            bodies = [message.body for message in qm.queue(QUEUE).cursor()]
            assert bodies == [b"acknowledged"]

    def test_in_a_batch_is_told_at_its_end(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with tiercel.open(tmp_path / "data") as qm:
            queue = qm.create_queue(QUEUE)

            def swallow_it() -> None:
                with qm.batch():
                    queue.send(recoverable(b"1"))
                    monkeypatch.setattr(qm.driver.engine.sending, "send", interrupt)
                    with pytest.raises(KeyboardInterrupt):
                        queue.send(recoverable(b"2"))

            with pytest.raises(tiercel.StoreFailedError):
                swallow_it()

    def test_ends_every_wait(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        errors: list[BaseException] = []
        with tiercel.open(tmp_path / "data") as qm:
            queue = qm.create_queue(QUEUE)

            def wait() -> None:
                try:
                    queue.receive(60)
                except tiercel.TiercelError as error:
                    errors.append(error)

            thread = threading.Thread(target=wait)
            thread.start()
            while not qm.driver.run(lambda: qm.driver.engine.queues.get(queue.format_name).waiters):
                pass
            monkeypatch.setattr(qm.driver.engine.sending, "send", interrupt)
            with pytest.raises(KeyboardInterrupt):
                queue.send(b"x")
            thread.join(60)
        assert [type(error) for error in errors] == [tiercel.StoreFailedError]


class TestAWaitThatIsInterrupted:
    @pytest.mark.parametrize(
        "read",
        [
            lambda queue: queue.receive(5),
            lambda queue: queue.cursor().receive(5),
            lambda queue: queue.peek(5),
            lambda queue: queue.cursor().peek(5),
        ],
        ids=["receive", "receive with a cursor", "peek", "peek with a cursor"],
    )
    def test_gives_back_what_had_come_to_it(
        self,
        qm: tiercel.EmbeddedQueueManager,
        monkeypatch: pytest.MonkeyPatch,
        read: Callable[[tiercel.EmbeddedQueue], tiercel.Message],
    ) -> None:
        queue = qm.create_queue(QUEUE)

        def arrive_and_interrupt(_seconds: float | None) -> None:
            queue.send(recoverable(b"came just then"))
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            runtime: Any = qm._runtime
            patched.setattr(runtime.woken, "wait", arrive_and_interrupt)
            with pytest.raises(KeyboardInterrupt):
                read(queue)
        assert queue.receive(0).body == b"came just then"


def test_a_transaction_that_nobody_can_end_any_more_is_aborted(qm: tiercel.EmbeddedQueueManager) -> None:
    queue = qm.create_queue(QUEUE, transactional=True)
    with qm.transaction() as transaction:
        queue.send(b"1", transaction=transaction)
    queue.receive(0, transaction=qm.begin_transaction())
    assert queue.receive(0).abort_count == 1


def test_a_backlog_that_ran_out_of_time_ends_in_slices(tmp_path: Path) -> None:
    now = [1000.0]
    with tiercel.open(tmp_path / "data", clock=lambda: now[0]) as qm:
        queue = qm.create_queue(QUEUE)
        with qm.batch():
            for _ in range(2500):
                message = recoverable(b"x")
                message.time_to_be_received = 10
                queue.send(message)
    now[0] = 2000.0
    with tiercel.open(tmp_path / "data", clock=lambda: now[0]) as qm:
        assert (qm.queue(QUEUE).count, len(qm.discards())) == (0, 2500)


async def take_the_last(directory: Path) -> bytes:
    async with await aio.open(directory) as qm:
        queue = await qm.create_queue(QUEUE)
        await queue.send(b"first")
        await queue.send(b"last")
        return (await queue.receive(0, seek=MessageSeekAction.SEEK_LAST)).body


def test_asyncio_seeks_without_a_lookup_id_too(tmp_path: Path) -> None:
    import asyncio  # noqa: PLC0415  # the only test here that needs it

    assert asyncio.run(take_the_last(tmp_path / "data")) == b"last"
