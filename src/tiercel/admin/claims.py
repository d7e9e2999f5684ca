"""Claims of consumers: exactly-once reading for data pipelines, over `tiercel.engine.claims`.

Every operation runs in batches of the daemon, long ones in slices of some milliseconds; port 1801 is served
between two slices. An operation returns once its effect is durable.
"""

import asyncio
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import Any, Final

from tiercel.admin import sources
from tiercel.admin.message_json import time_text
from tiercel.admin.runner import Runner
from tiercel.admin.waits import Waits
from tiercel.engine.claim_records import weights
from tiercel.engine.claims import Claim, ClaimStatus
from tiercel.engine.engine import Engine
from tiercel.engine.queue_state import QueueState
from tiercel.model.codes import QueueAccess
from tiercel.model.errors import IoTimeoutError, StoreFullError
from tiercel.model.queue_name import parse_queue_name

SLICE: Final = 1000  # messages per turn: about 15 ms
_UNFINISHED_S: Final = 0.1  # how often to check whether a transaction has ended

Json = dict[str, Any]


class Claims:
    def __init__(self, runner: Runner, waits: Waits) -> None:
        self._runner = runner
        self._waits = waits

    async def attach(
        self, consumer: str, queues: list[str], *, create: bool, epoch: int | None, dry_run: bool = False
    ) -> Json:
        """Takes the consumer over and fences its previous owner; with the current epoch, only adds queues.

        A dry run changes nothing, and also tells which other queues the consumer has claimed messages of.
        """

        def command(engine: Engine) -> Json:
            states = {name: sources.find(engine, name) for name in queues}  # raises before anything is done
            current = None
            if not dry_run:
                current = engine.claims.attach(consumer, states.values(), create=create, epoch=epoch)
            claims = [each for each in engine.claims.all() if each.consumer == consumer]
            by_queue = {each.identifier: each for each in claims}
            rows = {}
            for name, state in states.items():
                claim = by_queue.pop(state.queue.identifier, None)
                place = {"floor": claim.lo, "hi": claim.hi} if claim else {"floor": 0, "hi": 0}
                rows[name] = sources.described(engine, state) | place
            answer = {"qm": str(engine.queue_manager.identifier), "epoch": current, "queues": rows}
            others = sorted(each.queue for each in by_queue.values() if each.hi)
            return answer | {"others": others} if dry_run else answer

        return await self._runner.call(command)

    async def claim(
        self,
        consumer: str,
        epoch: int,
        queue: str,
        *,
        start: int | None,
        limit: int | None,
        byte_limit: int | None,
        acknowledge: int,
        wait_s: float,
    ) -> Json:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_s
        if acknowledge:
            await self.acknowledge(consumer, epoch, queue, acknowledge)
        while True:
            answer = await self._claim_now(consumer, epoch, queue, start, limit, byte_limit)
            left = deadline - loop.time()
            if answer["hi"] > answer["lo"] or left <= 0 or self._waits.are_over:
                return answer
            await self._wait_for_message(queue, left)

    async def _claim_now(
        self,
        consumer: str,
        epoch: int,
        queue: str,
        start: int | None,
        limit: int | None,
        byte_limit: int | None,
    ) -> Json:
        def command(engine: Engine) -> tuple[Claim, QueueState]:
            state = sources.find(engine, queue)
            size = None if byte_limit is None else byte_limit - size_bytes
            return engine.claims.claim(consumer, epoch, state, rows, size, start=hi), state

        taken, size_bytes, hi, lo = 0, 0, start, start
        sums: list[tuple[int, int]] = []
        while True:
            rows = min(SLICE, SLICE if limit is None else limit - taken)
            try:
                claim, state = await self._runner.call(command)
            except StoreFullError:
                if not sums:
                    raise
                break  # the store is full: return what was claimed so far
            lo, hi = lo if sums else claim.lo, claim.hi
            if claim.is_repeat:
                before = await self._weights(consumer, state, claim.lo, claim.hi)
                sums += [(end, size_bytes + size) for end, size in before]
                break
            if claim.hi == claim.lo:
                break
            taken, size_bytes = taken + claim.hi - claim.lo, size_bytes + claim.size_bytes
            sums.append((claim.hi, size_bytes))
            if limit is None:
                limit = taken + state.count  # messages present now: more may keep arriving
            # Fewer than requested: the next message exceeds the byte limit, or there is none.
            if taken >= limit or claim.hi - claim.lo < rows:
                break
        return {"lo": lo, "hi": hi, "e": state.epoch, "weights": sums, "visible": state.count}

    async def _weights(self, consumer: str, state: QueueState, lo: int, hi: int) -> list[tuple[int, int]]:
        """Cumulative bytes of a repeated claim, by claim number."""
        slot = (await self._runner.call(lambda engine: engine.claims.status(consumer, state))).slot
        sums, total = [], 0
        for above, up_to in pairwise([*range(lo, hi, SLICE), hi]):
            step = await self._runner.call(partial(_weights_of, slot, above, up_to))
            total += step[-1][1] if step else 0
            sums.append((up_to, total))
        return sums

    async def _wait_for_message(self, queue: str, seconds: float) -> None:
        """Returns when a message is available or the time is up."""

        async def wait() -> None:
            opened = await self._runner.call(
                lambda engine: engine.opening.open(
                    engine.queues.format_name(sources.find(engine, queue)),
                    QueueAccess.PEEK,
                    token=self._runner.driver.token,
                )
            )
            try:
                started = asyncio.get_running_loop().time()
                await self._runner.read(lambda engine: engine.reading.peek(opened, seconds))
                if asyncio.get_running_loop().time() - started < _UNFINISHED_S:
                    # It was there but could not be claimed: its transaction has not ended yet.
                    await asyncio.sleep(min(_UNFINISHED_S, seconds))
            except IoTimeoutError:
                pass
            finally:
                self._runner.driver.close_later({QueueAccess.PEEK: opened})

        await self._waits.until(wait())

    async def acknowledge(self, consumer: str, epoch: int, queue: str, up_to: int) -> Json:
        def command(engine: Engine) -> tuple[int, ClaimStatus]:
            state = sources.find(engine, queue)
            before = engine.claims.status(consumer, state)
            # The first slice rejects a number that was never claimed, before anything is acknowledged.
            step = up_to if up_to > before.hi else min(before.lo + SLICE, up_to)
            ended = engine.claims.acknowledge(consumer, epoch, state, step)
            return ended, engine.claims.status(consumer, state)

        acknowledged = 0
        while True:
            ended, status = await self._runner.call(command)
            acknowledged += ended
            if status.lo >= up_to:
                return {"acknowledged": acknowledged, "floor": status.lo}

    async def release(self, consumer: str, queue: str | None) -> Json:
        def command(engine: Engine) -> int:
            state = None if queue is None else sources.find(engine, queue)
            return engine.claims.release(consumer, state, limit=SLICE)

        def claimed(engine: Engine) -> int:
            wanted = None if queue is None else sources.find(engine, queue).queue.identifier
            mine = (each for each in engine.claims.all() if each.consumer == consumer)
            return sum(each.count for each in mine if wanted in {None, each.identifier})

        before = await self._runner.call(claimed)
        while await self._runner.call(command):
            pass
        return {"released": before}

    async def forget(self, consumer: str) -> Json:
        await self._runner.call(lambda engine: engine.claims.forget(consumer))
        return {"forgotten": consumer}

    async def all(self) -> Json:
        return {"claims": await self._runner.call(lambda engine: list(_claim_rows(engine)))}


def _weights_of(slot: int, lo: int, hi: int, engine: Engine) -> list[tuple[int, int]]:
    return weights(engine.batch, slot, lo, hi, SLICE)


def _claim_rows(engine: Engine) -> Iterator[Json]:
    for status in engine.claims.all():
        queue = engine.queues.find(parse_queue_name(status.queue))
        oldest = None if queue is None else engine.browsing.oldest_arrival(queue)
        lag = {"lag": 0 if queue is None else queue.count, "oldest_unclaimed": time_text(oldest)}
        yield _claim_row(status) | lag


def _claim_row(status: ClaimStatus) -> Json:
    return {
        "consumer": status.consumer,
        "queue": status.queue,
        "guid": str(status.identifier),
        "e": status.queue_epoch,
        "epoch": status.epoch,
        "floor": status.lo,
        "hi": status.hi,
        "count": status.count,
        "bytes": status.size_bytes,
        "age": status.oldest_s,
        "last_seen": status.last_seen,
    }
