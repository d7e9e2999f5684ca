"""Receiving over HTTP: requests that wait, clients that disconnect, and the leases between them.

A thin shell around the lease machine (`tiercel.admin.leases`), which runs in the batches of the node.
"""

import asyncio
import secrets
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Self, TypeVar

from tiercel.admin import queue_lookup
from tiercel.admin.browsing import Decoder, Row, message_of, with_bodies
from tiercel.admin.leases import SLICE, Leases, LeaseStatus, Receipt
from tiercel.admin.message_json import Json, time_text, to_json
from tiercel.admin.runner import Runner
from tiercel.admin.sources import name_of
from tiercel.admin.waits import Caller, Waits
from tiercel.api import models
from tiercel.engine.engine import Engine
from tiercel.engine.handles import Found
from tiercel.model.errors import IoTimeoutError

T = TypeVar("T")


class ReceiveRequest(NamedTuple):
    limit: int = 1
    wait_s: float = 0
    lease_s: float = 30
    is_final: bool = False  # received at once: no lease
    lookup_id: int | None = None
    bodies: bool = True
    decode: bool = False

    @classmethod
    def of(cls, given: models.Receive, lookup_id: int | None = None) -> Self:
        return cls(
            limit=given.limit,
            wait_s=given.wait_ms / 1000,
            lease_s=given.lease_s,
            is_final=given.acknowledge == "now",
            lookup_id=lookup_id,
            bodies=given.bodies,
            decode=given.decode,
        )


class Receiver:
    """Call `attach` before the first request, on the thread of the event loop."""

    def __init__(self, runner: Runner, waits: Waits, decoder: Decoder) -> None:
        driver = runner.driver
        self._runner = runner
        self._waits = waits
        self._decoder = decoder
        self.leases = Leases(driver.engine, driver.token, partial(secrets.token_hex, 12))

    def attach(self) -> None:
        self._runner.driver.node.attach(self.leases, lambda _actions: None)

    async def receive(self, queue: str, request: ReceiveRequest, who: str, caller: Caller) -> list[Json]:
        """Messages in the order of the queue; none if none came in time."""
        receipts: list[Receipt] = []  # filled inside the batch: a cancelled request knows what it opened

        def begin() -> Receipt:
            receipts.append(receipt := self.leases.open(queue))
            if request.lookup_id is None:
                self.leases.take(receipt, request.limit)
            else:
                self.leases.take_exactly(receipt, request.lookup_id)
            return receipt

        try:
            receipt = await self._call(begin)
            await self._take(receipt, request, caller)
            rows = await with_bodies(await _shown(receipt.taken, request), self._decoder)
            if not request.is_final:
                ids = await self._call(lambda: self.leases.lease(receipt, request.lease_s, who))
                _leased(rows, ids)
            elif await caller.is_gone():
                self._abandon(receipts)
            else:
                await self._call(lambda: self.leases.keep(receipt))
        except BaseException:
            self._abandon(receipts)
            raise
        return rows

    def start(
        self,
        queue: str,
        request: ReceiveRequest,
        who: str,
        is_gone: Callable[[], bool],
        *,
        is_last: bool = False,
    ) -> "asyncio.Future[list[Json]]":
        """`receive` of at most a slice, in one batch; `is_last` as in `Runner.call`.

        It fails, and nothing is received, if the request would have to wait, or its client is gone.
        """

        def receive(_engine: Engine) -> list[Json]:
            receipt = self.leases.open(queue)
            self.leases.take(receipt, request.limit)
            must_wait = request.wait_s and not receipt.taken
            if must_wait or (request.is_final and is_gone()):
                self.leases.abandon(receipt)
                raise IoTimeoutError(receipt.queue)
            rows = [_row_of(found, request).json for found in receipt.taken]
            if request.is_final:
                self.leases.keep(receipt)
                return rows
            return _leased(rows, self.leases.lease(receipt, request.lease_s, who))

        return self._runner.call(receive, is_last=is_last)

    async def _take(self, receipt: Receipt, request: ReceiveRequest, caller: Caller) -> None:
        """Takes what else is there, or waits for the first message."""
        taken = receipt.taken
        while len(taken) % SLICE == 0 and 0 < len(taken) < request.limit:
            if not await self._call(lambda: self.leases.take(receipt, request.limit)):
                break
        if taken or not request.wait_s:
            return
        first = await self._waits.until(self._wait(receipt, request.wait_s), caller)
        if first is not None:
            taken.append(first)

    async def _wait(self, receipt: Receipt, seconds: float) -> Found | None:
        try:
            return await self._runner.read(lambda _: self.leases.wait(receipt, seconds))
        except IoTimeoutError:
            return None

    def _abandon(self, receipts: list[Receipt]) -> None:
        """Gives everything back; not awaited, because the request may have been cancelled."""

        def abandon() -> None:
            for each in receipts:
                self.leases.abandon(each)

        done = asyncio.ensure_future(self._call(abandon))
        done.add_done_callback(lambda call: call.cancelled() or call.exception())

    # Leases. `who` is the client; None is an administrator, who may end any lease.

    async def acknowledge(self, lease: str, who: str | None) -> Json:
        return await self.start_acknowledge(lease, who)

    def start_acknowledge(
        self, lease: str, who: str | None, *, is_last: bool = False
    ) -> "asyncio.Future[Json]":
        """`is_last` as in `Runner.call`."""

        def acknowledge(_engine: Engine) -> Json:
            return {"lease": lease, "already": not self.leases.acknowledge(lease, who)}

        return self._runner.call(acknowledge, is_last=is_last)

    async def give_back(self, lease: str, who: str | None) -> Json:
        return {"lease": lease, "already": not await self._call(lambda: self.leases.give_back(lease, who))}

    async def extend(self, lease: str, seconds: float, who: str | None) -> Json:
        await self._call(lambda: self.leases.extend(lease, seconds, who))
        return {"lease": lease, "lease_s": seconds}

    async def listed(self, who: str | None) -> list[Json]:
        """All leases; the ids of other clients' leases only for an administrator."""

        def command(engine: Engine) -> list[Json]:
            rows = [_row(engine, each) for each in self.leases.all()]
            return [row if who in {None, row["who"]} else row | {"lease": None} for row in rows]

        return await self._runner.call(command)

    async def holder(self, queue: str, lookup_id: int) -> Json | None:
        """The lease of a message, without its id; None if it has none."""

        def command(engine: Engine) -> Json | None:
            name = name_of(engine, queue_lookup.find(engine, queue))
            for each in self.leases.all():
                if (each.queue, each.lookup_id) == (name, lookup_id):
                    row = _row(engine, each)
                    return {"kind": "lease", "who": each.who, "until": row["ends"]}
            return None

        return await self._runner.call(command)

    async def _call(self, command: Callable[[], T]) -> T:
        return await self._runner.call(lambda _engine: command())


async def _shown(taken: list[Found], request: ReceiveRequest) -> list[Row]:
    rows: list[Row] = []
    for number, found in enumerate(taken, 1):
        rows.append(_row_of(found, request))
        if number % SLICE == 0:
            await asyncio.sleep(0)  # others have a turn
    return rows


def _row_of(found: Found, request: ReceiveRequest) -> Row:
    message = message_of(found.lookup_id, found.record)
    return Row(to_json(message, body=request.bodies), message if request.decode else None)


def _leased(rows: list[Json], leases: list[str]) -> list[Json]:
    for row, lease in zip(rows, leases, strict=True):
        row["lease"] = lease
    return rows


def _row(engine: Engine, lease: LeaseStatus) -> Json:
    return {
        "lease": lease.id,
        "queue": lease.queue,
        "lookup_id": str(lease.lookup_id),
        "who": lease.who,
        "lease_s": lease.seconds,
        "seconds_left": round(lease.seconds_left, 3),
        "ends": time_text(int(engine.seconds + lease.seconds_left)),
    }
