"""Looking at messages while others take them."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from data.served import PATIENCE_S
from tiercel.admin.browsing import END, BrowseOptions, Messages, Order, Start
from tiercel.admin.local import LocalRunner
from tiercel.admin.message_json import from_json
from tiercel.admin.queues import Queues
from tiercel.admin.sending import Sender
from tiercel.admin.waits import Waits
from tiercel.api.body_decoder import BodyDecoder
from tiercel.api.receiving import Receiver, ReceiveRequest
from tiercel.engine.engine import Engine
from tiercel.engine.handles import Found, Waiter


class Client:
    """One that stays, or that is gone when it is asked about."""

    def __init__(self, *, is_gone: bool = False) -> None:
        self._is_gone = is_gone

    async def gone(self) -> None:
        await asyncio.Event().wait()

    async def is_gone(self) -> bool:
        return self._is_gone


class Rival(LocalRunner):
    """A queue manager where somebody receives whatever a wait has found, before it is looked at again."""

    async def read(self, command: Callable[[Engine], Found | Waiter]) -> Found:
        found = await super().read(command)
        (gone,) = await Receiver(self, Waits(), BodyDecoder()).receive(
            "q", ReceiveRequest(is_final=True), "rival", Client()
        )
        assert gone["lookup_id"] == str(found.lookup_id)
        return found


class Sudden(LocalRunner):
    """A queue manager where a message comes just before a wait begins."""

    async def read(self, command: Callable[[Engine], Found | Waiter]) -> Found:
        await Sender(self).send("q", [from_json({"label": "sudden"})], None)
        return await super().read(command)


async def look(folder: Path, order: Order) -> list[str]:
    runner = Sudden(folder, create=True)
    try:
        await Queues(runner).create("q", {}, transactional=False, exist_ok=False)
        page = await Messages(runner, Waits(), BodyDecoder()).page(
            "q", BrowseOptions(order), limit=9, wait_s=PATIENCE_S, caller=Client()
        )
        return [each["label"] for each in page.messages]
    finally:
        runner.close()


@pytest.mark.parametrize("order", Order)
def test_what_comes_before_the_wait_ends_it(tmp_path: Path, order: Order) -> None:
    assert asyncio.run(look(tmp_path / "data", order)) == ["sudden"]


async def tail(folder: Path, order: Order) -> tuple[list[str], str | None]:
    runner, waits = Rival(folder, create=True), Waits()
    try:
        await Queues(runner).create("q", {}, transactional=False, exist_ok=False)
        after = END if order is Order.ARRIVAL else "start"
        wait = Messages(runner, waits, BodyDecoder()).page(
            "q", BrowseOptions(order), start=Start(after), limit=1, wait_s=60, caller=Client()
        )
        waiting = asyncio.ensure_future(wait)
        while not runner.driver.engine.next_deadline:  # noqa: ASYNC110  # nobody tells when a wait has begun
            await asyncio.sleep(0)
        await Sender(runner).send("q", [from_json({"label": "quick"})], None)
        page = await waiting
        return [each["label"] for each in page.messages], page.next
    finally:
        runner.close()


def test_what_is_received_at_once_was_seen(tmp_path: Path) -> None:
    assert asyncio.run(tail(tmp_path / "data", Order.ARRIVAL)) == (["quick"], "1")


def test_what_is_received_at_once_is_no_longer_in_the_queue(tmp_path: Path) -> None:
    assert asyncio.run(tail(tmp_path / "data", Order.QUEUE)) == ([], None)


async def receive_for(folder: Path, client: Client) -> int:
    runner, waits = LocalRunner(folder, create=True), Waits()
    try:
        await Queues(runner).create("q", {}, transactional=False, exist_ok=False)
        await Sender(runner).send("q", [from_json({})], None)
        receiver = Receiver(runner, waits, BodyDecoder())
        await receiver.receive("q", ReceiveRequest(is_final=True), "", client)
        await runner.call(lambda _: None)
        count: int = (await Queues(runner).get("q"))["count"]
        return count
    finally:
        runner.close()


def test_who_is_gone_has_received_nothing(tmp_path: Path) -> None:
    assert asyncio.run(receive_for(tmp_path / "a", Client(is_gone=True))) == 1
    assert asyncio.run(receive_for(tmp_path / "b", Client())) == 0


async def row(folder: Path, at: int) -> list[str]:
    runner = LocalRunner(folder, create=True)
    try:
        await Queues(runner).create("q", {}, transactional=False, exist_ok=False)
        await Sender(runner).send("q", [from_json({"label": str(number)}) for number in range(12)], None)
        page = await Messages(runner, Waits(), BodyDecoder()).page(
            "q", BrowseOptions(), limit=1, start=Start(at=at), caller=Client()
        )
        return [each["label"] for each in page.messages]
    finally:
        runner.close()


@pytest.mark.parametrize(
    ("at", "found"), [(2, ["2"]), (3, ["3"]), (10, ["10"]), (11, ["11"]), (12, []), (99, [])]
)
def test_a_far_row_is_walked_to_in_several_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int, found: list[str]
) -> None:
    monkeypatch.setattr("tiercel.admin.browsing._WALKED", 3)
    assert asyncio.run(row(tmp_path / "data", at)) == found
