r"""Turns of the event loop and batches: what belongs together is committed together, and only then told."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tiercel.binary.actions import Action
from tiercel.engine.engine import Engine
from tiercel.engine.machine import Write
from tiercel.engine.queue_state import QueueState
from tiercel.model.errors import (
    MqError,
    QueueExistsError,
    ServiceNotAvailableError,
    StoreFailedError,
    StoreInUseError,
)
from tiercel.model.path_name import PathName
from tiercel.server.daemon import Daemon
from tiercel.store.lmdb_store import LmdbBatch

from .scripted import configured, connect, echo, ended, scripted

Scene = Callable[[Daemon, Any], Awaitable[None]]


@pytest.fixture
def play(tmp_path: Path) -> Callable[..., None]:
    async def main(scene: Scene, sections: dict[str, Any]) -> None:
        async with scripted(configured(tmp_path, **sections)) as (daemon, protocol):
            await scene(daemon, protocol)

    return lambda scene, **sections: asyncio.run(main(scene, sections))


def create(name: str, daemon: Daemon) -> Callable[[Engine], QueueState]:
    path = PathName.parse(rf".\private$\{name}")
    return lambda engine: engine.queues.create(path, daemon.driver.owner)


class TestCalls:
    def test_of_one_turn_share_a_commit(
        self, play: Callable[..., None], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        commits: list[LmdbBatch] = []
        commit = LmdbBatch.commit

        def count(batch: LmdbBatch) -> None:
            commits.append(batch)
            commit(batch)

        monkeypatch.setattr(LmdbBatch, "commit", count)

        async def scene(daemon: Daemon, _protocol: Any) -> None:
            before = len(commits)
            calls = [daemon.call(create(f"q{number}", daemon)) for number in range(100)]
            states = await asyncio.gather(*calls)
            assert len({state.queue.identifier for state in states}) == 100
            assert len(commits) == before + 1

        play(scene)

    def test_are_told_after_the_commit(
        self, play: Callable[..., None], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        told: list[str] = []
        commit = LmdbBatch.commit

        async def scene(daemon: Daemon, _protocol: Any) -> None:
            def note(batch: LmdbBatch) -> None:
                told.append(f"commit, call is done: {future.done()}")
                commit(batch)

            monkeypatch.setattr(LmdbBatch, "commit", note)
            future = daemon.call(create("q", daemon))
            future.add_done_callback(lambda _: told.append("told"))
            await future
            await asyncio.sleep(0)
            monkeypatch.undo()
            assert told == ["commit, call is done: False", "told"]

        play(scene)

    def test_do_not_wait_for_all_input_if_it_takes_long(
        self, play: Callable[..., None], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Input keeps its order, also with what comes meanwhile."""
        monkeypatch.setattr("tiercel.server.daemon._TURN_S", -1.0)

        async def scene(daemon: Daemon, _protocol: Any) -> None:
            seen: list[object] = []
            for number in range(3):
                daemon._put(seen.append, number)
            await daemon.call(lambda _: seen.append("answered"))
            daemon._put(seen.append, 3)
            while 3 not in seen:  # noqa: ASYNC110  # the next turns of the loop
                await asyncio.sleep(0)
            assert seen == [0, "answered", 1, 2, 3]

        play(scene)

    def test_that_is_refused_does_not_disturb_the_others(self, play: Callable[..., None]) -> None:
        async def scene(daemon: Daemon, _protocol: Any) -> None:
            names = ("a", "a", "b")
            results = await asyncio.gather(
                *(daemon.call(create(name, daemon)) for name in names), return_exceptions=True
            )
            assert [type(each) for each in results] == [QueueState, QueueExistsError, QueueState]
            assert daemon.failure is None

        play(scene)

    def test_that_nobody_waits_for_any_more_is_not_run(self, play: Callable[..., None]) -> None:
        async def scene(daemon: Daemon, _protocol: Any) -> None:
            ran = []
            daemon.call(lambda _: ran.append("cancelled")).cancel()
            await daemon.call(lambda _: ran.append("kept"))
            assert ran == ["kept"]

        play(scene)

    def test_the_last_of_all_clients_runs_at_once(self, play: Callable[..., None]) -> None:
        async def scene(daemon: Daemon, _protocol: Any) -> None:
            earlier, before = daemon.call(lambda _: "earlier"), daemon.turns
            assert daemon.call(lambda _: "last", is_last=True).result() == "last"
            assert earlier.result() == "earlier"
            assert daemon.turns == before + 1

        play(scene)

    def test_the_last_of_its_clients_waits_for_other_connections(self, play: Callable[..., None]) -> None:
        async def scene(daemon: Daemon, protocol: Any) -> None:
            _, writer = await connect(daemon)
            await protocol.until_input("accepted", 1)
            call = daemon.call(lambda _: "last", is_last=True)
            assert not call.done()
            assert await call == "last"
            writer.close()

        play(scene)

    def test_the_last_of_all_clients_waits_for_the_present_batch(self, play: Callable[..., None]) -> None:
        async def scene(daemon: Daemon, _protocol: Any) -> None:
            inner = await daemon.call(lambda _: [daemon.call(lambda _: "inner", is_last=True)])
            assert await inner[0] == "inner"
            with daemon.driver.batch():
                call = daemon.call(lambda _: "after it", is_last=True)
                assert not call.done()
            assert await call == "after it"

        play(scene)

    def test_after_the_end_is_refused(self, play: Callable[..., None]) -> None:
        async def scene(daemon: Daemon, _protocol: Any) -> None:
            await daemon.stop()
            with pytest.raises(ServiceNotAvailableError):
                await daemon.call(lambda _: None)

        play(scene)

    def test_that_came_before_the_end_is_done(self, play: Callable[..., None]) -> None:
        async def scene(daemon: Daemon, _protocol: Any) -> None:
            call = daemon.call(lambda _: "done")
            await daemon.stop()
            assert await call == "done"

        play(scene)


class TestInputs:
    def test_of_many_connections_are_one_batch(self, play: Callable[..., None]) -> None:
        async def scene(daemon: Daemon, protocol: Any) -> None:
            protocol.answer = echo
            streams = [await connect(daemon) for _ in range(20)]
            await protocol.until(lambda: sum(each[0] == "accepted" for each in protocol.inputs) == 20)
            before = len(protocol.batches)
            for connection in daemon.network.connections:  # as the loop does when all are ready in one turn
                connection.data_received(b"hello")
            await daemon.call(lambda _: None)
            [batch] = protocol.batches[before:]
            assert [each[0] for each in batch] == ["received"] * 20
            for reader, writer in streams:
                assert await reader.readexactly(5) == b"hello"
                writer.close()

        play(scene)

    def test_and_calls_share_a_batch(self, play: Callable[..., None]) -> None:
        async def scene(daemon: Daemon, protocol: Any) -> None:
            _, writer = await connect(daemon)
            await protocol.until_input("accepted", 1)
            before = len(protocol.batches)
            daemon._put(daemon.network.feed_received, (next(iter(daemon.network.connections)), b"x"), 1)
            await daemon.call(lambda _: None)
            assert protocol.batches[before:] == [[("received", 1, b"x")]]
            writer.close()

        play(scene)

    def test_that_are_many_bytes_do_not_wait_for_the_turn(self, play: Callable[..., None]) -> None:
        async def scene(daemon: Daemon, protocol: Any) -> None:
            _, writer = await connect(daemon)
            await protocol.until_input("accepted", 1)
            [connection] = daemon.network.connections
            before = len(protocol.batches)
            for _ in range(5):
                connection.data_received(bytes(40_000))
            assert [len(batch) for batch in protocol.batches[before:]] == [2, 2]
            writer.close()

        play(scene, limits={"batch_bytes": 65536})

    def test_wait_while_a_program_holds_a_batch_open(self, play: Callable[..., None]) -> None:
        async def scene(daemon: Daemon, protocol: Any) -> None:
            with daemon.driver.batch():
                _, writer = await connect(daemon)
                call = daemon.call(lambda _: None)
                for _ in range(20):
                    await asyncio.sleep(0)
                assert not call.done()
                assert protocol.batches[-1] == []
            await call
            await protocol.until_input("accepted", 1)
            writer.close()

        play(scene)


class TestOutputs:
    def test_wait_for_the_commit(self, play: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
        """A commit that fails lets nothing out, and ends everything."""

        def fail(_batch: LmdbBatch) -> None:
            raise StoreFailedError("store", problem="the disk is gone")

        def answer(*event: Any) -> list[Action]:
            return [Write(event[1], b"acknowledged")] if event[0] == "received" else []

        async def scene(daemon: Daemon, protocol: Any) -> None:
            protocol.answer = answer
            reader, writer = await connect(daemon)
            await protocol.until_input("accepted", 1)
            monkeypatch.setattr(LmdbBatch, "commit", fail)
            call = daemon.call(create("q", daemon))
            daemon._put(daemon.network.feed_received, (next(iter(daemon.network.connections)), b"x"), 1)
            with pytest.raises(StoreFailedError):
                await call
            await daemon.failed.wait()
            assert await ended(reader) == b""
            assert isinstance(daemon.failure, StoreFailedError)
            with pytest.raises(MqError):
                await daemon.call(lambda _: None)
            writer.close()

        play(scene)

    @pytest.mark.parametrize("culprit", ["input", "call"])
    def test_a_mistake_in_the_program_ends_everything(self, culprit: str, play: Callable[..., None]) -> None:
        def answer(*event: Any) -> list[Action]:
            if event[0] == "received":
                raise ZeroDivisionError
            return []

        async def scene(daemon: Daemon, protocol: Any) -> None:
            protocol.answer = answer
            reader, writer = await connect(daemon)
            await protocol.until_input("accepted", 1)
            if culprit == "input":
                writer.write(b"x")
            else:
                with pytest.raises(StoreFailedError):
                    await daemon.call(lambda _: 1 // 0)
            await daemon.failed.wait()
            assert isinstance(daemon.failure, ZeroDivisionError)
            assert await ended(reader) == b""
            writer.close()

        play(scene)


class TestTime:
    def test_a_deadline_of_the_protocol_brings_a_batch(self, play: Callable[..., None]) -> None:
        async def scene(daemon: Daemon, protocol: Any) -> None:
            due = asyncio.get_running_loop().time() + 0.01
            protocol.next_deadline = due
            await daemon.call(lambda _: None)
            before = len(protocol.batches)
            await protocol.until(lambda: len(protocol.batches) > before)
            assert asyncio.get_running_loop().time() >= due
            protocol.next_deadline = None
            await daemon.call(lambda _: None)

        play(scene)


def test_a_store_that_is_in_use(tmp_path: Path) -> None:
    async def main() -> None:
        config = configured(tmp_path)
        async with scripted(config):
            with pytest.raises(StoreInUseError):
                Daemon(config)

    asyncio.run(main())


def test_a_port_in_use_lets_go_of_the_store(tmp_path: Path) -> None:
    async def main() -> None:
        async with scripted(configured(tmp_path / "a")) as (daemon, _):
            config = configured(tmp_path / "b", listen={"port": daemon.endpoints[0].port})
            with pytest.raises(OSError, match="in use"):
                await Daemon(config).start()
        async with scripted(configured(tmp_path / "b")):
            pass

    asyncio.run(main())
