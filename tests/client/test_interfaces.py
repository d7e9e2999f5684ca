"""Code that is typed for `Queue` takes every queue; mypy reads this file too."""

import asyncio
from dataclasses import fields
from pathlib import Path
from typing import Final

import pytest

import tiercel
from tiercel import aio
from tiercel.admin.message_json import READ_ONLY
from tiercel.model.properties import Properties

from .fake_server import HOST, play
from .support import sent_with_properties, sent_with_properties_on_loop
from .test_remote_daemon import FOR_ALL, daemon, fill


def drained(queue: tiercel.Queue) -> list[bytes]:
    """Reads a queue in every way that a `Queue` has, and leaves it empty."""
    seen = [message.body for message in queue.cursor()]
    taken = [queue.peek(0).body, queue.receive(0).body]
    with queue.receiving(0) as message:
        taken.append(message.body)
    queue.move(queue.peek(0), "retry")
    taken.append(queue.subqueue("retry").receive(0).body)
    taken += [message.body for message in queue.consume(0, until=lambda message: message.body == b"4")]
    queue.purge()
    queue.close()
    assert seen == taken[1:]
    return taken


async def drained_on_loop(queue: aio.Queue) -> list[bytes]:
    taken = [(await queue.peek(0)).body, (await queue.receive(0)).body]
    async with queue.receiving(0) as message:
        taken.append(message.body)
    await queue.move(await queue.peek(0), "retry")
    taken.append((await queue.subqueue("retry").receive(0)).body)
    taken += [each.body async for each in queue.consume(0, until=lambda message: message.body == b"4")]
    await queue.purge()
    await queue.close()
    return taken


def journal_of(manager: tiercel.QueueManager) -> list[bytes]:
    with manager:
        return [message.body for message in manager.journal.cursor()]


def retried(
    queue: tiercel.Queue, cursor: tiercel.Cursor, transaction: tiercel.Transaction
) -> tiercel.Message:
    queue.send(b"again", transaction=transaction)
    return cursor.receive(0, transaction=transaction)


BODIES = (b"1", b"2", b"3", b"4")
TAKEN = [b"1", b"1", b"2", b"3", b"4"]


def test_an_embedded_queue(tmp_path: Path) -> None:
    with tiercel.open(tmp_path / "data") as qm:
        orders = qm.create_queue("orders")
        orders.send_many(BODIES)
        assert drained(orders) == TAKEN
        sent_with_properties(orders)
        orders.send_many(["1", b"2"], label="both")
        assert [message.label for message in orders.consume(0)] == ["both", "both"]
        with pytest.raises(tiercel.errors.InvalidParameterError):
            orders.send_many(["1", tiercel.Message("2")], label="both")
        assert orders.count == 0
        payments = qm.create_queue("payments", transactional=True)
        with qm.transaction() as transaction:
            payments.send(b"1", transaction=transaction)
        with qm.transaction() as transaction:
            assert retried(payments, payments.cursor(), transaction).body == b"1"
        assert payments.count == 1
        assert journal_of(qm) == []


def test_a_remote_queue(tmp_path: Path) -> None:
    def read(port: int) -> None:
        with tiercel.connect(HOST, port=port) as remote:
            assert drained(remote.queue("orders")) == TAKEN

    async def scene() -> None:
        async with daemon(tmp_path / "data") as (qm, port):
            await fill(await qm.create_queue("orders", security=FOR_ALL), *BODIES)
            await asyncio.to_thread(read, port)

    play(scene())


def test_both_on_an_event_loop(tmp_path: Path) -> None:
    async def scene() -> None:
        async with daemon(tmp_path / "data") as (qm, port), await aio.connect(HOST, port=port) as remote:
            orders = await qm.create_queue("orders", security=FOR_ALL)
            managers: list[aio.QueueManager] = [qm, remote]
            for manager in managers:
                await fill(orders, *BODIES)
                assert await drained_on_loop(manager.queue("orders")) == TAKEN
            await sent_with_properties_on_loop(orders)

    play(scene())


OF_CONNECTORS: Final = {
    "authentication_provider_name",
    "authentication_provider_type",
    "hash_algorithm",
    "multiple_destination_signature",
    "sender_certificate",
    "signature",
    "symmetric_key",
}


def test_send_takes_every_property_that_a_sender_sets() -> None:
    every = {each.name for each in fields(tiercel.Message)}
    assert Properties.__annotations__.keys() == every - READ_ONLY - OF_CONNECTORS - {"body"}
