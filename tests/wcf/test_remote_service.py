"""A service on a remote connection: the same settings, with messages held where a transaction would be."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tiercel
import tiercel.aio
from client.fake_server import HOST, play
from client.test_remote_daemon import FOR_ALL, daemon
from tiercel import wcf
from tiercel.framing.body import write_body
from tiercel.framing.records import Encoding, Mode, Preamble
from tiercel.model.errors import InvalidParameterError, PropertyNotAllowedError, TransactionUsageError
from tiercel.model.message import Message
from tiercel.wcf import aio

from .conftest import ACTION, ADDRESS, NAMESPACE, number_of

NEWS = "net.msmq://localhost/private/news"
ADDRESSES = {True: ADDRESS, False: NEWS}  # by exactly_once
BOTH_ASSURANCES = pytest.mark.parametrize("exactly_once", [True, False])
Operation = Callable[[wcf.Envelope], None]


def path_of(exactly_once: bool) -> str:
    return r".\private$\orders" if exactly_once else r".\private$\news"


def served(
    folder: Path, work: Callable[[tiercel.RemoteQueueManager], None], *numbers: int, exactly_once: bool = True
) -> dict[str, int]:
    """Have a thread with a remote connection work on the numbers; how many messages are where afterwards."""

    def connected(port: int, message_port: int) -> None:
        with tiercel.connect(HOST, port=port, message_port=message_port) as remote:
            work(remote)

    async def scene() -> dict[str, int]:
        async with daemon(folder) as (qm, port):
            await qm.create_queue(path_of(True), transactional=True, security=FOR_ALL)
            await qm.create_queue(path_of(False), security=FOR_ALL)
            endpoint = aio.Endpoint(qm, ADDRESSES[exactly_once], exactly_once=exactly_once)
            async with endpoint.client() as client:
                for number in numbers:
                    await client.send(ACTION, {"order": {"id": number}}, namespace=NAMESPACE)
            message_port = int(str(qm.address).rpartition(":")[2])
            await asyncio.to_thread(connected, port, message_port)
            queue = qm.queue(path_of(exactly_once))
            parts = {"": queue, **{name: queue.subqueue(name) for name in ("retry", "poison")}}
            return {name: part.count for name, part in parts.items()}

    return play(scene())


def failing_at_one(seen: list[int]) -> Operation:
    def submit(message: wcf.Envelope) -> None:
        seen.append(number_of(message))
        if seen[-1] == 1:
            raise RuntimeError("always")

    return submit


@BOTH_ASSURANCES
@pytest.mark.parametrize(("handling", "poison"), [("move", 1), ("drop", 0)])
def test_poison_messages_are_put_aside(
    tmp_path: Path, handling: str, poison: int, exactly_once: bool
) -> None:
    seen: list[int] = []

    def work(remote: tiercel.RemoteQueueManager) -> None:
        endpoint = wcf.Endpoint(remote, ADDRESSES[exactly_once], exactly_once=exactly_once)
        service = wcf.Service(
            endpoint, receive_retry_count=1, max_retry_cycles=0, receive_error_handling=handling
        )
        service.operation(ACTION)(failing_at_one(seen))
        assert service.run(timeout=0) == 3

    counts = served(tmp_path, work, 1, 2, exactly_once=exactly_once)
    assert seen == [1, 1, 2]
    assert counts == {"": 0, "retry": 0, "poison": poison}


@BOTH_ASSURANCES
def test_a_fault_leaves_the_message_first_in_the_queue(tmp_path: Path, exactly_once: bool) -> None:
    def work(remote: tiercel.RemoteQueueManager) -> None:
        endpoint = wcf.Endpoint(remote, ADDRESSES[exactly_once], exactly_once=exactly_once)
        options: dict[str, Any] = {"receive_retry_count": 0, "max_retry_cycles": 0}
        service = wcf.Service(endpoint, receive_error_handling="fault", **options)
        service.operation(ACTION)(failing_at_one([]))
        with pytest.raises(wcf.ServiceFaultedError, match="RuntimeError: always") as caught:
            service.run(timeout=0)
        assert remote.queue(path_of(exactly_once)).peek(0).lookup_id == caught.value.lookup_id

    assert served(tmp_path, work, 1, 2, exactly_once=exactly_once)[""] == 2


def test_messages_rest_in_retry_and_come_back(tmp_path: Path) -> None:
    seen: list[int] = []
    counts: list[tuple[int, int]] = []

    def work(remote: tiercel.RemoteQueueManager) -> None:
        options: dict[str, Any] = {"receive_retry_count": 0, "retry_cycle_delay_s": 0}
        service = wcf.Service(wcf.Endpoint(remote, ADDRESS), max_retry_cycles=2, **options)

        @service.operation(ACTION)
        def submit(message: wcf.Envelope) -> None:
            assert message.message is not None
            seen.append(number_of(message))
            counts.append((message.message.abort_count, message.message.move_count))
            if len(seen) < 3:
                raise RuntimeError

        assert service.run(timeout=0) == 3

    assert served(tmp_path, work, 1) == {"": 0, "retry": 0, "poison": 0}
    assert (seen, counts) == ([1, 1, 1], [(0, 0), (1, 2), (2, 4)])


def test_malformed_messages_are_moved_aside(tmp_path: Path) -> None:
    body = write_body(Preamble(Mode.SINGLETON_SIZED, NEWS, Encoding.BINARY), [b"\xff"])
    seen: list[int] = []

    def work(remote: tiercel.RemoteQueueManager) -> None:
        remote.queue(path_of(False)).send(Message(body))
        endpoint = wcf.Endpoint(remote, NEWS, exactly_once=False)
        with endpoint.client() as client:
            client.send(ACTION, {"order": {"id": 2}}, namespace=NAMESPACE)
        service = wcf.Service(endpoint)
        service.operation(ACTION)(failing_at_one(seen))
        assert service.run(timeout=5) == 2

    assert served(tmp_path, work, exactly_once=False) == {"": 0, "retry": 0, "poison": 1}
    assert seen == [2]


@pytest.mark.parametrize("soap", ["1.1", "1.2"])
@pytest.mark.parametrize("session", [False, True])
def test_best_effort_messages_both_ways(tmp_path: Path, session: bool, soap: str) -> None:
    """A remote connection sends and serves what is not exactly-once, in sessions too."""
    seen: list[int] = []

    def work(remote: tiercel.RemoteQueueManager) -> None:
        endpoint = wcf.Endpoint(
            remote, NEWS, exactly_once=False, durable=False, session=session, soap=soap, time_to_live_s=600
        )
        with endpoint.client() as client:
            for number in 2, 3:
                client.send(ACTION, {"order": {"id": number}}, namespace=NAMESPACE)
        service = wcf.Service(endpoint)
        service.operation(ACTION)(failing_at_one(seen))
        assert service.run(timeout=5) == (1 if session else 2)

    assert served(tmp_path, work, exactly_once=False)[""] == 0
    assert seen == [2, 3]


def test_stop_from_another_thread(tmp_path: Path) -> None:
    def work(remote: tiercel.RemoteQueueManager) -> None:
        service = wcf.Service(wcf.Endpoint(remote, ADDRESS))
        started = threading.Event()
        service.operation(ACTION)(lambda _: started.set())
        thread = threading.Thread(target=service.run)
        thread.start()
        assert started.wait(60)
        service.stop()
        thread.join(60)
        assert not thread.is_alive()

    assert served(tmp_path, work, 1)[""] == 0


# Settings that a remote connection cannot have.


class Remote:
    """A manager without transactions."""


@pytest.mark.parametrize("module", [wcf, aio])
def test_a_remote_service_cannot_reject(module: Any) -> None:
    endpoint = module.Endpoint(Remote(), ADDRESS)
    with pytest.raises(InvalidParameterError, match="a remote connection cannot reject messages"):
        module.Service(endpoint, receive_error_handling="reject")


def test_best_effort_messages_cannot_be_rejected(qm: Any) -> None:
    endpoint = wcf.Endpoint(qm, NEWS, exactly_once=False)
    with pytest.raises(InvalidParameterError, match="not received in a transaction"):
        wcf.Service(endpoint, receive_error_handling="reject")


@pytest.mark.parametrize("module", [wcf, aio])
def test_a_remote_client_cannot_send_exactly_once(module: Any) -> None:
    with pytest.raises(TransactionUsageError, match="no transactions to send in"):
        module.Endpoint(Remote(), ADDRESS).client()


@pytest.mark.parametrize("options", [{"dead_letter_queue": "system"}, {"use_source_journal": True}])
def test_a_remote_client_keeps_no_copies(tmp_path: Path, options: dict[str, Any]) -> None:
    def work(remote: tiercel.RemoteQueueManager) -> None:
        endpoint = wcf.Endpoint(remote, NEWS, exactly_once=False, **options)
        with endpoint.client() as client, pytest.raises(PropertyNotAllowedError, match="of your own"):
            client.send(ACTION)

    assert served(tmp_path, work, exactly_once=False)[""] == 0
