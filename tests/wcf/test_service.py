"""Services: what becomes of the messages in the queue."""

import asyncio
import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import UUID
from xml.etree.ElementTree import Element

import pytest

import tiercel.aio
from client.fake_server import HOST
from client.test_remote_daemon import FOR_ALL, daemon
from tiercel import wcf
from tiercel.framing.body import write_body
from tiercel.framing.receiver import Receiver
from tiercel.framing.records import Encoding, Mode, Preamble
from tiercel.model.codes import AuthenticationLevel
from tiercel.model.errors import (
    DecodeError,
    InvalidParameterError,
    TransactionUsageError,
)
from tiercel.model.message import Message
from tiercel.wcf import aio

from .conftest import ACTION, ADDRESS, NAMESPACE, number_of, send


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def failing(times: int, seen: list[int]) -> Callable[[wcf.Envelope], None]:
    def submit(message: wcf.Envelope) -> None:
        seen.append(number_of(message))
        if len(seen) <= times:
            raise RuntimeError("the database is away")

    return submit


def serve(service: wcf.Service, operation: Callable[[wcf.Envelope], None]) -> int:
    service.operation(ACTION)(operation)
    return service.run(timeout=0)


@pytest.mark.conformance("NMFMB-049", "NMFMB-051", "NMFMB-052")
def test_messages_are_served_in_their_order(orders: wcf.Endpoint, queue: Any) -> None:
    send(orders, 1, 2, 3)
    seen: list[int] = []
    assert serve(wcf.Service(orders), failing(0, seen)) == 3
    assert seen == [1, 2, 3]
    assert queue.count == 0


@pytest.mark.conformance("NMFMB-052")
def test_a_message_whose_operation_raises_is_back_in_the_queue(orders: wcf.Endpoint, queue: Any) -> None:
    send(orders, 1)
    service = wcf.Service(orders)
    counts: list[tuple[int, int]] = []

    @service.operation(ACTION)
    def submit(message: wcf.Envelope) -> None:
        assert message.message is not None
        counts.append((message.message.abort_count, message.message.move_count))
        if len(counts) == 1:
            raise RuntimeError

    assert service.run(timeout=0) == 2
    assert counts == [(0, 0), (1, 0)]
    assert queue.count == 0


@pytest.mark.conformance("NMFMB-055")
def test_the_envelopes_of_a_session_share_a_transaction(qm: Any, queue: Any) -> None:
    orders = wcf.Endpoint(qm, ADDRESS, session=True)
    with orders.client() as client:
        for number in 1, 2, 3:
            client.send(ACTION, {"order": {"id": number}}, namespace=NAMESPACE)
    seen: list[int] = []

    def submit(message: wcf.Envelope) -> None:
        seen.append(number_of(message))
        if len(seen) == 2:
            raise RuntimeError

    assert serve(wcf.Service(orders), submit) == 2
    assert seen == [1, 2, 1, 2, 3]
    assert queue.count == 0


PREAMBLE = Preamble(Mode.SINGLETON_SIZED, ADDRESS, Encoding.BINARY)
MALFORMED = {
    "not framed": b"<order/>",
    "empty": b"",
    "session": write_body(Preamble(Mode.SIMPLEX, ADDRESS, Encoding.BINARY_SESSION), []),
    "foreign via": write_body(Preamble(Mode.SINGLETON_SIZED, "net.msmq://h/other", Encoding.BINARY), [b"x"]),
    "not binary XML": write_body(PREAMBLE, [b"\xff\xff"]),
    "not an envelope": write_body(PREAMBLE, [bytes.fromhex("40017201")]),
    "no action": write_body(PREAMBLE, [bytes.fromhex("56020b017304560801560e0101")]),
}


@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED)
@pytest.mark.conformance("NMFMB-054")
def test_malformed_messages_are_moved_aside_at_once(
    orders: wcf.Endpoint, queue: Any, qm: Any, body: bytes
) -> None:
    with qm.transaction() as transaction:
        queue.send(Message(body), transaction=transaction)
    send(orders, 2)
    seen: list[int] = []
    assert serve(wcf.Service(orders), failing(0, seen)) == 2
    assert seen == [2]
    assert (queue.count, queue.subqueue("poison").count) == (0, 1)
    assert queue.subqueue("poison").receive(0).body == body


@pytest.mark.conformance("NMFMB-019")
@pytest.mark.parametrize("signature", [b"", b"not verified"])
def test_an_authenticated_endpoint_refuses_messages_without_a_verified_signature(
    qm: Any, orders: wcf.Endpoint, queue: Any, caplog: Any, signature: bytes
) -> None:
    send(orders, 1)
    body = queue.receive(0).body
    with qm.transaction() as transaction:
        signed = Message(body, signature=signature, connector_type=UUID(int=bool(signature)))
        queue.send(signed, transaction=transaction)
    seen: list[int] = []
    assert serve(wcf.Service(wcf.Endpoint(qm, ADDRESS, authenticated=True)), failing(0, seen)) == 1
    assert seen == []
    assert (queue.count, queue.subqueue("poison").count) == (0, 1)
    assert "no signature of this one was verified" in caplog.text


@pytest.mark.conformance("NMFMB-019")
def test_an_authenticated_endpoint_takes_authenticated_messages(orders: wcf.Endpoint) -> None:
    """The queue manager sets the level when it has verified a signature."""
    binding = replace(orders.binding, authenticated=True)
    receiver = Receiver(orders.address, binding)
    receiver.check_protection(Message(b"", authentication_level=AuthenticationLevel.SIG30))
    with pytest.raises(DecodeError, match="demands authenticated messages"):
        receiver.check_protection(Message(b""))


def test_an_unknown_action_is_moved_aside(orders: wcf.Endpoint, queue: Any, caplog: Any) -> None:
    send(orders, 1)
    assert wcf.Service(orders).run(timeout=0) == 1
    assert queue.subqueue("poison").count == 1
    assert f"no operation for the action '{ACTION}'" in caplog.text


HEADER = "{urn:example:audit}Signature"


def with_header(orders: wcf.Endpoint, **attributes: str) -> None:
    """Sends order 1 with a header, as a binding with message security does."""
    namespace = orders.soap.namespace
    header = Element(HEADER, {f"{{{namespace}}}{name}": value for name, value in attributes.items()})
    header.text = "AAAA"
    with orders.client() as client:
        client.send(ACTION, {"order": {"id": 1}}, namespace=NAMESPACE, headers=(header,))


@pytest.mark.parametrize("soap", ["1.1", "1.2"])
def test_a_header_that_must_be_understood(qm: Any, queue: Any, caplog: Any, soap: str) -> None:
    orders = wcf.Endpoint(qm, ADDRESS, soap=soap, encoding="text")
    with_header(orders, mustUnderstand="1")
    seen: list[int] = []
    assert serve(wcf.Service(orders), failing(0, seen)) == 1
    assert (seen, queue.subqueue("poison").count) == ([], 1)
    assert f"the header '{HEADER}' must be understood" in caplog.text
    queue.subqueue("poison").move(queue.subqueue("poison").peek(0), None)
    assert serve(wcf.Service(orders, understands=[HEADER]), failing(0, seen)) == 1
    assert (seen, queue.count) == ([1], 0)


@pytest.mark.parametrize(
    "attributes",
    [{}, {"mustUnderstand": "0"}, {"mustUnderstand": "1", "role": "http://example.org/a-router"}],
)
def test_a_header_that_need_not_be_understood(qm: Any, queue: Any, attributes: dict[str, str]) -> None:
    orders = wcf.Endpoint(qm, ADDRESS)
    with_header(orders, **attributes)
    seen: list[int] = []
    serve(wcf.Service(orders), failing(0, seen))
    assert (seen, queue.count) == ([1], 0)


def test_an_operation_for_every_action(orders: wcf.Endpoint) -> None:
    send(orders, 1)
    service = wcf.Service(orders)
    seen: list[str] = []
    service.operation("*")(lambda message: seen.append(message.action))
    service.run(timeout=0)
    assert seen == [ACTION]


def test_an_action_has_one_operation(orders: wcf.Endpoint) -> None:
    service = wcf.Service(orders)
    service.operation(ACTION)(print)
    with pytest.raises(InvalidParameterError, match="it has an operation already"):
        service.operation(ACTION)(print)


# Poison messages.


def poisoned(orders: wcf.Endpoint, **options: Any) -> list[int]:
    """What was served of a message that always fails and one that never does."""
    send(orders, 1, 2)
    seen: list[int] = []

    def submit(message: wcf.Envelope) -> None:
        seen.append(number_of(message))
        if number_of(message) == 1:
            raise RuntimeError("always")

    serve(wcf.Service(orders, **options), submit)
    return seen


def test_move(orders: wcf.Endpoint, queue: Any) -> None:
    assert poisoned(orders, receive_retry_count=2, max_retry_cycles=0) == [1, 1, 1, 2]
    assert (queue.count, queue.subqueue("poison").count) == (0, 1)


def test_drop(orders: wcf.Endpoint, queue: Any, caplog: Any) -> None:
    options = {"receive_retry_count": 0, "max_retry_cycles": 0, "receive_error_handling": "drop"}
    assert poisoned(orders, **options) == [1, 2]
    assert queue.count == 0
    assert "is poison (drop): RuntimeError: always" in caplog.text


def test_fault(orders: wcf.Endpoint, queue: Any) -> None:
    options = {"receive_retry_count": 1, "max_retry_cycles": 0, "receive_error_handling": "fault"}
    with pytest.raises(wcf.ServiceFaultedError, match="RuntimeError: always") as caught:
        poisoned(orders, **options)
    assert queue.count == 2
    assert queue.peek(0).lookup_id == caught.value.lookup_id


def test_reject(qm: Any, orders: wcf.Endpoint, queue: Any) -> None:
    options = {"receive_retry_count": 0, "max_retry_cycles": 0, "receive_error_handling": "reject"}
    assert poisoned(orders, **options) == [1, 2]
    assert queue.count == 0
    assert qm.transactional_dead_letters.count == 1
    assert len(qm.discards()) == 1


def test_retry_cycles(tmp_path: Any) -> None:
    """Two attempts in each of three cycles; between them the message rests in ;retry."""
    clock, seen = Clock(), list[int]()
    with tiercel.open(tmp_path, clock=clock) as qm:
        queue = qm.create_queue(r".\private$\orders", transactional=True)
        orders = wcf.Endpoint(qm, ADDRESS)
        send(orders, 1)
        service = wcf.Service(
            orders, receive_retry_count=1, max_retry_cycles=2, retry_cycle_delay_s=3600, clock=clock
        )
        service.operation(ACTION)(failing(100, seen))
        retry, poison = queue.subqueue("retry"), queue.subqueue("poison")
        for cycle in 1, 2:
            service.run(timeout=0)
            assert (len(seen), queue.count, retry.count) == (2 * cycle, 0, 1)
            clock.now += 3599
            service.run(timeout=0)
            assert retry.count == 1  # it has not rested long enough
            clock.now += 61
        service.run(timeout=0)
        assert (len(seen), queue.count, retry.count, poison.count) == (6, 0, 0, 1)
        message = poison.peek(0)
        assert (message.abort_count, message.move_count) == (6, 5)


def test_a_service_that_waits_looks_after_messages_that_rest(orders: wcf.Endpoint, queue: Any) -> None:
    send(orders, 1)
    seen: list[int] = []
    service = wcf.Service(orders, receive_retry_count=0, max_retry_cycles=3, retry_cycle_delay_s=0)
    assert serve(service, failing(2, seen)) == 3
    assert seen == [1, 1, 1]
    assert (queue.count, queue.subqueue("retry").count) == (0, 0)


def test_the_counts_survive_a_service(orders: wcf.Endpoint, queue: Any) -> None:
    """Two services that were stopped at the message count as two attempts."""
    send(orders, 1)
    seen: list[int] = []

    def submit(message: wcf.Envelope) -> None:
        seen.append(number_of(message))
        raise KeyboardInterrupt

    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            serve(wcf.Service(orders, receive_retry_count=1, max_retry_cycles=0), submit)
        assert queue.count == 1
    assert serve(wcf.Service(orders, receive_retry_count=1, max_retry_cycles=0), submit) == 1
    assert seen == [1, 1]
    assert queue.subqueue("poison").count == 1


@pytest.mark.parametrize("name", ["receive_retry_count", "max_retry_cycles", "retry_cycle_delay_s"])
def test_invalid_counts(orders: wcf.Endpoint, name: str) -> None:
    with pytest.raises(InvalidParameterError, match=name):
        wcf.Service(orders, **{name: -1})


def test_invalid_error_handling(orders: wcf.Endpoint) -> None:
    with pytest.raises(InvalidParameterError, match="move, drop, reject, fault"):
        wcf.Service(orders, receive_error_handling="ignore")


# Best effort, stopping, asyncio, remote.


def test_best_effort_gives_a_message_back_too(qm: Any) -> None:
    news = wcf.Endpoint(qm, "net.msmq://localhost/private/news", exactly_once=False)
    send(news, 1, 2)
    seen: list[int] = []
    assert serve(wcf.Service(news), failing(1, seen)) == 3
    assert seen == [1, 1, 2]
    assert qm.queue(r".\private$\news").count == 0


def test_best_effort_poison(qm: Any) -> None:
    news = wcf.Endpoint(qm, "net.msmq://localhost/private/news", exactly_once=False)
    send(news, 1)
    serve(wcf.Service(news, receive_retry_count=1, max_retry_cycles=0), failing(9, []))
    assert qm.queue(r".\private$\news").subqueue("poison").count == 1


def test_stop_from_another_thread(orders: wcf.Endpoint) -> None:
    service = wcf.Service(orders)
    started = threading.Event()
    service.operation(ACTION)(lambda _: started.set())
    thread = threading.Thread(target=service.run)
    thread.start()
    send(orders, 1)
    assert started.wait(60)
    service.stop()
    thread.join(60)
    assert not thread.is_alive()


def test_stop_from_an_operation(orders: wcf.Endpoint, queue: Any) -> None:
    send(orders, 1, 2)
    service = wcf.Service(orders)
    service.operation(ACTION)(lambda _: service.stop())
    assert service.run() == 1
    assert queue.count == 1


def test_asyncio(tmp_path: Any) -> None:
    asyncio.run(served(tmp_path))


async def served(tmp_path: Any) -> None:
    async with await tiercel.aio.open(tmp_path) as qm:
        await qm.create_queue(r".\private$\orders", transactional=True)
        orders = aio.Endpoint(qm, ADDRESS)
        async with orders.client() as client:
            await client.send(ACTION, {"order": {"id": 1}}, namespace=NAMESPACE)
            async with client.session() as session:
                await session.send(ACTION)
        service = aio.Service(orders, receive_retry_count=1, max_retry_cycles=0)
        seen: list[int] = []

        @service.operation(ACTION)
        async def submit(message: wcf.Envelope) -> None:
            seen.append(number_of(message))
            if len(seen) == 1:
                raise RuntimeError

        assert await service.run(timeout=0) == 3  # a failure, a success, and the session, which is refused
        assert seen == [1, 1]
        queue = qm.queue(r".\private$\orders")
        assert (queue.count, queue.subqueue("poison").count) == (0, 1)


def test_a_cancelled_service_gives_its_message_back(tmp_path: Any) -> None:
    asyncio.run(cancelled(tmp_path))


async def cancelled(tmp_path: Any) -> None:
    async with await tiercel.aio.open(tmp_path) as qm:
        queue = await qm.create_queue(r".\private$\orders", transactional=True)
        orders = aio.Endpoint(qm, ADDRESS)
        async with orders.client() as client:
            await client.send(ACTION)
        service = aio.Service(orders)
        started = asyncio.Event()

        @service.operation(ACTION)
        async def submit(_: wcf.Envelope) -> None:
            started.set()
            await asyncio.Event().wait()

        task = asyncio.create_task(service.run())
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert queue.count == 1
        assert (await queue.receive(0)).abort_count == 1


def test_a_remote_queue_manager(tmp_path: Any) -> None:
    asyncio.run(served_remotely(tmp_path))


async def served_remotely(tmp_path: Any) -> None:
    """A remote reader has no transaction: the message is held, and given back when the call fails."""
    async with daemon(tmp_path) as (qm, port):
        queue = await qm.create_queue(r".\private$\orders", transactional=True, security=FOR_ALL)
        async with aio.Endpoint(qm, ADDRESS).client() as client:
            for number in 1, 2:
                await client.send(ACTION, {"order": {"id": number}}, namespace=NAMESPACE)
        async with await tiercel.aio.connect(HOST, port=port) as remote:
            far = aio.Endpoint(remote, "net.msmq://srv/private/orders")
            service = aio.Service(far)
            seen: list[int] = []

            @service.operation(ACTION)
            async def submit(message: wcf.Envelope) -> None:
                seen.append(number_of(message))
                if len(seen) == 1:
                    raise RuntimeError

            assert await service.run(timeout=0) == 3
            assert seen == [1, 1, 2]
            assert queue.count == 0
            with pytest.raises(TransactionUsageError, match="no transactions to send in"):
                await sent(far)


async def sent(endpoint: aio.Endpoint) -> None:
    async with endpoint.client() as client:
        await client.send(ACTION)


def test_failures_are_logged(orders: wcf.Endpoint, caplog: Any) -> None:
    send(orders, 1)
    with caplog.at_level(logging.WARNING):
        serve(wcf.Service(orders), failing(1, []))
    assert "failed, 1 times now" in caplog.text
    assert "the database is away" in caplog.text
