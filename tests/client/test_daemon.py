"""The queues of a running daemon, with the faces of the embedded ones."""

import asyncio
import inspect
import os
import signal
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import tiercel
from api.asked import Asked, asked
from tiercel import aio
from tiercel.client import api_client, daemon_aio
from tiercel.client.api_client import AsyncLease
from tiercel.security.tokens import Bearer, digest_of, new_token, roles_of
from tiercel.server import token_file

from .support import sent_with_properties, sent_with_properties_on_loop
from .test_interfaces import (
    BODIES,
    TAKEN,
    drained,
    drained_on_loop,
)

_NUMBERS = count()


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    file = tmp_path_factory.mktemp("tokens") / "tokens"
    found = {}
    for role in ("read", "send", "receive", "admin"):
        found[role] = new_token()
        bearer = Bearer(role, roles_of(role), digest_of(found[role]))
        token_file.change(file, lambda tokens, new=bearer: tokens.with_bearer(new), create=True)  # type: ignore[misc]
    return file, found


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, tokens: tuple[Path, dict[str, str]]) -> Iterator[Asked]:
    options = f'[api]\nenabled = true\nport = 0\ntokens = "{tokens[0]}"\n'
    with asked(tmp_path_factory.mktemp("daemon"), options) as served:
        yield served


@pytest.fixture
def qm(served: Asked) -> Iterator[tiercel.DaemonQueueManager]:
    with tiercel.connect(f"unix:{served.data}", token=None) as qm:
        yield qm


@pytest.fixture
def queue(qm: tiercel.DaemonQueueManager) -> tiercel.DaemonQueue:
    return qm.create_queue(f"q{next(_NUMBERS)}")


def number_of(queue: tiercel.DaemonQueue) -> int:
    found: int = queue.details()["count"]
    return found


class TestFaces:
    def test_a_queue_is_read_in_every_way(self, queue: tiercel.DaemonQueue) -> None:
        assert len(queue.send_many(BODIES)) == len(BODIES)
        assert drained(queue) == TAKEN
        sent_with_properties(queue)
        queue.send_many(["1", b"2"], label="both")
        assert [message.label for message in queue.consume(0)] == ["both", "both"]

    def test_the_same_on_an_event_loop(self, served: Asked, queue: tiercel.DaemonQueue) -> None:
        async def scene() -> None:
            async with await aio.connect(f"unix:{served.data}", token=None) as qm:
                other = qm.queue(queue.format_name)
                await other.send_many(BODIES)
                assert [each.body async for each in other.cursor()] == list(BODIES)
                assert await drained_on_loop(other) == TAKEN
                await sent_with_properties_on_loop(other)

        asyncio.run(scene())

    def test_a_queue_manager(self, qm: tiercel.DaemonQueueManager) -> None:
        def all_of(manager: tiercel.QueueManager) -> list[tiercel.Queue]:
            return [manager.journal, manager.dead_letters, manager.transactional_dead_letters]

        assert [queue.peek for queue in all_of(qm)]
        assert list(qm.journal.cursor()) == []

    @pytest.mark.parametrize(
        ("sync", "asynchronous"),
        [
            (tiercel.DaemonQueueManager, daemon_aio.AsyncDaemonQueueManager),
            (tiercel.DaemonQueue, daemon_aio.AsyncDaemonQueue),
            (tiercel.DaemonCursor, daemon_aio.AsyncDaemonCursor),
            (api_client.ApiClient, api_client.AsyncApiClient),
            (api_client.Lease, api_client.AsyncLease),
        ],
    )
    def test_are_the_same_for_threads_and_asyncio(self, sync: type, asynchronous: type) -> None:
        def public(kind: type) -> dict[str, list[str]]:
            names = {name: value for name, value in vars(kind).items() if not name.startswith("_")}
            return {
                name: list(inspect.signature(value).parameters) if callable(value) else []
                for name, value in names.items()
            }

        assert public(sync) == public(asynchronous)

    @pytest.mark.parametrize(
        "name", ["send", "send_many", "receive", "receive_many", "peek", "receiving", "consume"]
    )
    def test_take_what_the_embedded_queue_takes(self, name: str) -> None:
        own, embedded = (
            set(inspect.signature(getattr(kind, name)).parameters)
            for kind in (tiercel.DaemonQueue, tiercel.EmbeddedQueue)
        )
        assert embedded <= own


class TestMessages:
    def test_properties_stay(self, queue: tiercel.DaemonQueue) -> None:
        sent = tiercel.Message(
            b"\x00\xff",
            label="grüße \ud800",
            priority=5,
            delivery=tiercel.DeliveryGuarantee.RECOVERABLE,
            body_type=17,
            extension=b"more",
            correlation_id=bytes(range(20)),
            acknowledgements=tiercel.Acknowledgements.POS_ARRIVAL,
            administration_queue=tiercel.FormatName.parse(r"DIRECT=OS:h\private$\admin"),
        )
        identifier = queue.send(sent)
        found = queue.receive(0)
        assert found.id == identifier == sent.id
        for name in ("body", "label", "priority", "delivery", "body_type", "extension", "correlation_id"):
            assert getattr(found, name) == getattr(sent, name)
        assert found.administration_queue == sent.administration_queue
        assert abs(found.arrival_time - time.time()) < 3600

    def test_all_or_none_are_sent(self, queue: tiercel.DaemonQueue) -> None:
        with pytest.raises(tiercel.TiercelError):
            queue.send_many([b"1", tiercel.Message(b"2", time_to_be_received=-1)])
        assert (number_of(queue), queue.send_many([])) == (0, [])

    def test_receive_waits(self, queue: tiercel.DaemonQueue, served: Asked) -> None:
        async def scene() -> None:
            async with await aio.connect(f"unix:{served.data}", token=None) as qm:
                other = qm.queue(queue.format_name)
                waiting = asyncio.create_task(other.receive(60))
                await other.send(b"here")
                assert (await waiting).body == b"here"

        asyncio.run(scene())

    def test_by_lookup_id(self, queue: tiercel.DaemonQueue) -> None:
        queue.send_many([b"1", b"2", b"3"])
        seek = tiercel.MessageSeekAction
        first = queue.peek(0)
        assert queue.peek(lookup_id=first.lookup_id, seek=seek.SEEK_NEXT).body == b"2"
        assert queue.receive(seek=seek.SEEK_FIRST).body == b"1"
        with pytest.raises(tiercel.MessageNotFoundError):
            queue.receive(lookup_id=first.lookup_id)
        with pytest.raises(tiercel.IllegalOperationError):
            queue.peek(seek=seek.SEEK_LAST)
        assert [message.body for message in queue.receive_many(10)] == [b"2", b"3"]
        assert queue.receive_many(10, timeout=0) == []

    def test_a_cursor_takes(self, queue: tiercel.DaemonQueue) -> None:
        queue.send_many([b"1", b"2", b"3"])
        cursor = queue.cursor()
        assert [cursor.peek().body, cursor.peek().body, cursor.peek_next().body] == [b"1", b"1", b"2"]
        assert [cursor.receive().body, cursor.receive().body] == [b"2", b"3"]
        with pytest.raises(tiercel.IoTimeoutError):
            cursor.receive()
        assert queue.purge() == 1

    def test_transactional_queues(self, qm: tiercel.DaemonQueueManager) -> None:
        queue = qm.create_queue(f"q{next(_NUMBERS)}", transactional=True)
        queue.send_many([b"1", b"2"])
        first = queue.receive(0)
        assert (first.body, first.first_in_transaction, first.last_in_transaction) == (b"1", True, False)
        for call in (
            lambda: queue.send(b"3", transaction=Any),  # type: ignore[arg-type]
            lambda: queue.reject(1),
        ):
            with pytest.raises(tiercel.TransactionUsageError, match="the HTTP API has no transactions"):
                call()


class TestLeases:
    def test_a_block_that_raises_returns_its_message(self, queue: tiercel.DaemonQueue) -> None:
        queue.send(b"job")
        with pytest.raises(RuntimeError), queue.receiving(0):
            raise RuntimeError
        assert queue.receive(0).abort_count == 1

    def test_a_loop_that_is_left_returns_its_message(self, queue: tiercel.DaemonQueue) -> None:
        queue.send_many([b"1", b"2"])
        for message in queue.consume(0):
            if message.body == b"2":
                break
        assert [message.body for message in queue.receive_many(9, 0)] == [b"2"]

    def test_a_lease_is_extended_while_the_block_works(
        self, queue: tiercel.DaemonQueue, served: Asked, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(api_client, "_EXTENDED_EVERY_S", 0.01)
        monkeypatch.setattr("tiercel.client.daemon_sync.LEASE_S", 5.0)
        queue.send(b"long")
        end = time.monotonic() + 60
        with queue.receiving(0):
            while served.get("/leases").json()["leases"][0]["lease_s"] != api_client.LEASE_S:
                assert time.monotonic() < end
        assert number_of(queue) == 0

    def test_an_interrupted_acknowledgement_leaves_the_message_to_the_next_receive(
        self, served: Asked, queue: tiercel.DaemonQueue, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        queue.send_many([b"1", b"2"])
        acknowledge = AsyncLease.acknowledge

        async def cut(lease: AsyncLease) -> None:
            await acknowledge(lease)
            raise asyncio.CancelledError

        async def scene() -> None:
            async with await aio.connect(f"unix:{served.data}", token=None) as qm:
                other = qm.queue(queue.format_name)
                monkeypatch.setattr(AsyncLease, "acknowledge", cut)
                with pytest.raises(asyncio.CancelledError):
                    await other.receive(0)
                monkeypatch.setattr(AsyncLease, "acknowledge", acknowledge)
                assert [(await other.receive(0)).body, (await other.receive(0)).body] == [b"1", b"2"]

        asyncio.run(scene())

    def test_a_lost_acknowledgement_is_no_lost_message(
        self, queue: tiercel.DaemonQueue, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def lost(_lease: object) -> None:
            raise tiercel.ServiceNotAvailableError("daemon")

        queue.send(b"1")
        monkeypatch.setattr(api_client.Lease, "acknowledge", lost)
        assert queue.receive(0).body == b"1"


class TestConnecting:
    def test_by_tcp_with_a_token(self, served: Asked, tokens: tuple[Path, dict[str, str]]) -> None:
        url = served.start["api"]
        with tiercel.connect(url, token=tokens[1]["send"]) as qm:
            queue = qm.queue("nowhere")
            with pytest.raises(tiercel.AccessDeniedError, match="it lacks the role"):
                queue.receive(0)
            with pytest.raises(tiercel.QueueNotFoundError):
                queue.send(b"x")
        with tiercel.connect(url) as nobody, pytest.raises(tiercel.AccessDeniedError, match="token="):
            nobody.queue("nowhere").peek(0)

    def test_errors_are_those_of_the_daemon(self, qm: tiercel.DaemonQueueManager, tmp_path: Path) -> None:
        name = f"q{next(_NUMBERS)}"
        qm.create_queue(name)
        with tiercel.open(tmp_path / "data") as embedded:
            embedded.create_queue(name)
            with pytest.raises(tiercel.QueueExistsError) as here:
                embedded.create_queue(name)
        with pytest.raises(tiercel.QueueExistsError) as there:
            qm.create_queue(name)
        assert str(there.value).partition(":")[2] == str(here.value).partition(":")[2]
        assert there.value.fix == here.value.fix

    @pytest.mark.filterwarnings(
        "ignore::pytest.PytestUnraisableExceptionWarning"
    )  # httpcore leaves a socket open
    def test_nobody_is_there(self, tmp_path: Path) -> None:
        for address in (f"unix:{tmp_path}", f"unix:{tmp_path}/none", "http://127.0.0.1:9"):
            with pytest.raises(tiercel.ServiceNotAvailableError, match="cannot connect"):
                tiercel.connect(address)

    def test_what_an_address_takes(self) -> None:
        connect: Any = tiercel.connect
        for address, options in (
            ("unix:", {}),
            ("http://", {}),
            ("http://[::1", {}),
            ("http://h", {"token": "ä"}),
            ("http://h", {"user": "x"}),
            ("unix:data", {"token": "x"}),
            ("host", {"token": "x"}),
        ):
            with pytest.raises(tiercel.InvalidParameterError):
                connect(address, **options)

    def test_a_store_in_use_names_the_call(self, served: Asked) -> None:
        with pytest.raises(tiercel.StoreInUseError, match=r'tiercel\.connect\("unix:') as caught:
            tiercel.open(served.data)
        assert f'"unix:{served.data}"' in str(caught.value)

    @pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # the same
    def test_a_daemon_that_starts_again(self, tmp_path: Path) -> None:
        with asked(tmp_path) as first, tiercel.connect(f"unix:{tmp_path}/data", token=None) as qm:
            queue = qm.create_queue("orders")
            queue.send(tiercel.Message(b"1", delivery=1))
            os.kill(first.process.pid, signal.SIGKILL)
            first.process.wait()
            with asked(tmp_path):
                assert queue.receive(0).body == b"1"
            with pytest.raises(tiercel.ServiceNotAvailableError):
                queue.send(b"2")
