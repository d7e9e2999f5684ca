"""Which names a queue manager takes: with a network, without one, and from a store of earlier days."""

import asyncio
import time
from pathlib import Path

import pytest

from srmp.test_bad_input import with_envelope
from srmp.vectors import document
from tiercel.admin.outgoing import row as outgoing_row
from tiercel.cli.monitoring import _OUTGOING
from tiercel.engine.engine import Engine
from tiercel.engine.identity import Identity
from tiercel.model.codes import DeliveryGuarantee, QueueAccess
from tiercel.model.errors import UnsupportedFormatNameOperationError
from tiercel.model.format_name import FormatName
from tiercel.model.message import Message
from tiercel.model.path_name import PathName
from tiercel.security.access import Token
from tiercel.server.daemon import Daemon
from tiercel.server.driver import Driver
from tiercel.store.lmdb_store import LmdbStore

from .scripted import configured

HTTP = FormatName.parse("DIRECT=HTTP://there/msmq/private$/q")
CARRIED = [
    r"DIRECT=OS:there\private$\q",
    r"DIRECT=TCP:192.0.2.9\private$\q",
    r"PRIVATE=11111111-2222-3333-4444-555555555555\00000001",
]
REFUSED = [str(HTTP), "DIRECT=HTTPS://there/msmq/q", "MULTICAST=234.1.1.1:8001"]
SYSTEM = Token.local_system()


def embedded(directory: Path) -> Driver:
    return Driver(directory, clock=time.time, completed=lambda _waiter: None, deadline_changed=lambda: None)


@pytest.mark.parametrize("name", CARRIED)
def test_a_queue_manager_off_the_network_keeps_messages_for_the_daemon(tmp_path: Path, name: str) -> None:
    driver = embedded(tmp_path)
    opened = driver.open_queue(FormatName.parse(name), QueueAccess.SEND)
    driver.run(lambda: driver.engine.sending.send(opened, Message(b"1")))
    assert opened.state is not None
    assert opened.state.count == 1
    driver.close()


@pytest.mark.parametrize("name", REFUSED)
def test_it_refuses_what_no_daemon_would_carry(tmp_path: Path, name: str) -> None:
    driver = embedded(tmp_path)
    with pytest.raises(UnsupportedFormatNameOperationError) as caught:
        driver.open_queue(FormatName.parse(name), QueueAccess.SEND)
    assert "Use a name of another kind (DIRECT=OS, DIRECT=TCP, PRIVATE)." in str(caught.value)
    driver.close()


def test_the_daemon_says_which_section_is_off(tmp_path: Path) -> None:
    async def main() -> None:
        async with Daemon(configured(tmp_path)) as daemon:
            with pytest.raises(UnsupportedFormatNameOperationError, match=r"\(\[srmp\] is off\)"):
                await daemon.call(
                    lambda engine: engine.opening.open(HTTP, QueueAccess.SEND, token=daemon.driver.token)
                )

    asyncio.run(main())


def durable(name: str) -> bytes:
    envelope = document(name).replace(b"<commitmentReceiptRequest>", b"<durable/><commitmentReceiptRequest>")
    return with_envelope(name, envelope).encode()


def test_receipts_that_are_due_wait_until_srmp_is_on_again(tmp_path: Path) -> None:
    """A message came over HTTP and asked for receipts; then [srmp] was switched off, and it is received."""

    async def main() -> None:
        with_http = configured(tmp_path, srmp={"enabled": True, "http": False, "aliases": ("machine2",)})
        async with Daemon(with_http) as daemon:
            owner = daemon.driver.owner
            path = PathName.parse(r".\private$\simpleq")
            await daemon.call(lambda engine: engine.queues.create(path, owner))
            assert daemon.http is not None
            srmp, request = daemon.http.protocol, durable("03a_receipts_request")
            await daemon.call(lambda _: srmp.received(srmp.accepted("192.0.2.7"), request))
            assert srmp.statuses == {200: 1}
        async with Daemon(configured(tmp_path)) as daemon:
            name = FormatName.parse(r"DIRECT=OS:.\private$\simpleq")
            opened = daemon.driver.open_queue(name, QueueAccess.RECEIVE)
            await daemon.read(lambda engine: engine.reading.receive(opened, 0))
            rows = await daemon.call(
                lambda engine: [outgoing_row(engine, queue) for queue in engine.outgoing.queues()]
            )
            assert [row["format_name"] for row in rows] == [
                "DIRECT=HTTP://machine1/msmq/private$/receipts",
                "DIRECT=HTTP://machine1/msmq/private$/deliverydone",
            ]
            assert all("no transport for DIRECT=HTTP names" in row["reason"] for row in rows)

    asyncio.run(main())


def test_the_daemon_says_why_messages_of_earlier_days_wait(tmp_path: Path) -> None:
    config = configured(tmp_path)
    store = LmdbStore.open(Path(config.node.data), max_bytes=config.node.max_bytes)
    engine = Engine(
        store, Identity("HERE"), now=time.time(), owner=SYSTEM
    )  # without carriers: takes any name
    engine.begin(time.time())
    opened = engine.opening.open(HTTP, QueueAccess.SEND, token=SYSTEM)
    engine.sending.send(opened, Message(b"1", delivery=DeliveryGuarantee.RECOVERABLE))
    engine.commit()
    engine.stop()
    store.close()

    async def main() -> None:
        async with Daemon(config) as daemon:
            row = await daemon.call(lambda engine: outgoing_row(engine, engine.queues.get(HTTP)))
            assert (row["count"], row["state"]) == (1, "need_validation")
            reason = "this queue manager has no transport for DIRECT=HTTP names; configure one and restart"
            assert row["reason"].startswith(reason)
            shown = next(column for column in _OUTGOING if column.title == "LAST TRY")
            assert shown.cell(row) == row["reason"]

    asyncio.run(main())
