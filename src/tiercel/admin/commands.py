"""What requests have the queue manager do: every command runs in a batch of the daemon, long ones in slices.

A slice is one turn of the event loop, some milliseconds; between two of them port 1801 has its turn. Answers
are there when what they tell of is durable.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import Any, Final, TypeVar

from tiercel.admin import sources
from tiercel.admin.runner import Host
from tiercel.admin.sources import Source
from tiercel.admin.waits import Waits
from tiercel.engine.claim_records import weights
from tiercel.engine.claims import Claim, ClaimStatus
from tiercel.engine.engine import Engine
from tiercel.engine.publication import Published, RowsOf
from tiercel.engine.queue_state import QueueState
from tiercel.engine.stage_records import Stage, StageId
from tiercel.model.codes import QueueAccess
from tiercel.model.errors import ConsumerFencedError, IoTimeoutError, MqError, StoreFullError

SLICE: Final = 1000  # messages in one turn: some 15 ms
_PREPARED: Final = 250  # messages of a publish in one turn: each is encoded
_UNFINISHED_S: Final = 0.1  # how often to look whether a transaction has come to its end
_EXPRESS_BYTES: Final = 4 << 20

T = TypeVar("T")
Json = dict[str, Any]


class Commands:
    def __init__(self, host: Host, waits: Waits) -> None:
        self._host = host
        self._waits = waits

    async def run(self, command: Callable[[Engine], T]) -> T:
        return await self._host.call(command)

    # Queues.

    async def queues(self, pattern: str | None, source: Source) -> Json:
        def command(engine: Engine) -> Json:
            found = sources.listed(engine, pattern, source)
            guid = str(engine.queue_manager.identifier)
            return {"qm": guid, "queues": [_described(engine, state) for state in found]}

        return await self.run(command)

    async def head(self, queue: str | None, source: Source, consumer: str | None, time: float | None) -> Json:
        def command(engine: Engine) -> Json:
            state = sources.find(engine, queue, source)
            head = engine.browsing.head(state)
            answer = _described(engine, state) | {"lo": head.lo, "hi": head.hi}
            if time is not None:
                answer["at"] = engine.browsing.sequence_at(state, time)
            if consumer is not None:
                status = engine.claims.status(consumer, state)
                answer["consumer"] = {"floor": status.lo, "hi": status.hi, "visible": state.count}
            return answer

        return await self.run(command)

    async def place(self, queue: str | None, source: Source, consumer: str | None) -> Json:
        """Where the data process finds the messages in the store."""

        def command(engine: Engine) -> Json:
            state = sources.find(engine, queue, source)
            answer = _described(engine, state) | {"slot": state.slot, "express": len(state.express)}
            path = state.queue.pathname
            if path is not None and path.subqueue is not None:
                answer |= {"queue": str(path.without_subqueue()), "subqueue": path.subqueue}
            if consumer is not None:
                answer["claim_slot"] = engine.claims.status(consumer, state).slot
            return answer

        return await self.run(command)

    async def express(
        self, queue: str | None, source: Source, lo: int, hi: int, after: int
    ) -> list[tuple[int, bytes]]:
        def command(engine: Engine) -> list[tuple[int, bytes]]:
            state = sources.find(engine, queue, source)
            return list(engine.browsing.express(state, lo, hi, after, SLICE, _EXPRESS_BYTES))

        return await self.run(command)

    # Claims.

    async def attach(self, consumer: str, queues: list[str], *, create: bool, epoch: int | None) -> Json:
        """Lets nobody but the caller act for the consumer; with its epoch, only tells of more queues."""

        def command(engine: Engine) -> Json:
            states = {name: sources.find(engine, name) for name in queues}  # before anything is done
            current = engine.claims.attach(consumer, create=create) if epoch is None else epoch
            found = {name: engine.claims.status(consumer, state) for name, state in states.items()}
            for status in found.values():
                if status.epoch != current:
                    raise ConsumerFencedError(f"consumer {consumer}", present=status.epoch, limit=current)
            guid = str(engine.queue_manager.identifier)
            rows = {
                name: _described(engine, states[name]) | {"floor": status.lo, "hi": status.hi}
                for name, status in found.items()
            }
            return {"qm": guid, "epoch": current, "queues": rows}

        return await self.run(command)

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
                claim, state = await self.run(command)
            except StoreFullError:
                if not sums:
                    raise
                break  # what was claimed before there was no more room is a claim
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
                limit = taken + state.count  # what is there now: more may come for ever
            # Fewer than asked for: the next one is too large for what is left of the bytes, or there is none.
            if taken >= limit or claim.hi - claim.lo < rows:
                break
        return {"lo": lo, "hi": hi, "e": state.epoch, "weights": sums, "visible": state.count}

    async def _weights(self, consumer: str, state: QueueState, lo: int, hi: int) -> list[tuple[int, int]]:
        """How many bytes the claims have up to which number, of claims that were made before."""
        slot = (await self.run(lambda engine: engine.claims.status(consumer, state))).slot
        sums, total = [], 0
        for above, up_to in pairwise([*range(lo, hi, SLICE), hi]):
            step = await self.run(partial(_weights_of, slot, above, up_to))
            total += step[-1][1] if step else 0
            sums.append((up_to, total))
        return sums

    async def _wait_for_message(self, queue: str, seconds: float) -> None:
        """Until a message can be had, or the time is over."""

        async def wait() -> None:
            opened = await self.run(
                lambda engine: engine.opening.open(
                    engine.queues.format_name(sources.find(engine, queue)),
                    QueueAccess.PEEK,
                    token=self._host.driver.token,
                )
            )
            try:
                started = asyncio.get_running_loop().time()
                await self._host.read(lambda engine: engine.reading.peek(opened, seconds))
                if asyncio.get_running_loop().time() - started < _UNFINISHED_S:
                    # It was there before, and could not be claimed: a transaction has not come to its end.
                    await asyncio.sleep(min(_UNFINISHED_S, seconds))
            except IoTimeoutError:
                pass
            finally:
                self._host.driver.close_later({QueueAccess.PEEK: opened})

        await self._waits.until(wait())

    async def acknowledge(self, consumer: str, epoch: int, queue: str, up_to: int) -> Json:
        def command(engine: Engine) -> tuple[int, ClaimStatus]:
            state = sources.find(engine, queue)
            before = engine.claims.status(consumer, state)
            # A number that was never claimed is refused by the first slice, not when all others are gone.
            step = up_to if up_to > before.hi else min(before.lo + SLICE, up_to)
            ended = engine.claims.acknowledge(consumer, epoch, state, step)
            return ended, engine.claims.status(consumer, state)

        acknowledged = 0
        while True:
            ended, status = await self.run(command)
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

        before = await self.run(claimed)
        while await self.run(command):
            pass
        return {"released": before}

    async def forget(self, consumer: str) -> Json:
        await self.run(lambda engine: engine.claims.forget(consumer))
        return {"forgotten": consumer}

    async def claims(self) -> Json:
        found = await self.run(lambda engine: engine.claims.all())
        return {"claims": [_claim_row(each) for each in found]}

    # Stages.

    async def stage(self, stage: StageId, chunk: int, payload: bytes, rows: int) -> Json:
        return _stage_row(await self.run(lambda engine: engine.stages.stage(stage, chunk, payload, rows)))

    async def publish(
        self, app: str, batch: str, stages: list[StageId], rows_of: RowsOf, *, transactional: bool
    ) -> Json:
        token = self._host.driver.token
        publication = await self.run(
            lambda engine: engine.stages.begin_publish(
                app, batch, stages, rows_of, token, transactional=transactional
            )
        )
        try:
            while not await self.run(lambda _: publication.prepare(_PREPARED)):
                pass
            done: Published = await self.run(lambda _: publication.commit())
        finally:
            with suppress(MqError):
                await self.run(lambda _: publication.abort())
        return {"published": done.messages, "already": done.already}

    async def discard(self, app: str, batch: str, *, for_good: bool) -> Json:
        gone = await self.run(lambda engine: engine.stages.discard(app, batch, for_good=for_good))
        return {"discarded": gone}

    async def stages(self) -> Json:
        def command(engine: Engine) -> Json:
            now = engine.seconds
            rows = [_stage_row(each) | {"age": now - each.created} for each in engine.stages.stages()]
            return {"stages": rows}

        return await self.run(command)


def _weights_of(slot: int, lo: int, hi: int, engine: Engine) -> list[tuple[int, int]]:
    return weights(engine.batch, slot, lo, hi, SLICE)


def _described(engine: Engine, state: QueueState) -> Json:
    return {
        "queue": sources.name_of(engine, state),
        "guid": str(state.queue.identifier),
        "e": state.epoch,
        "count": state.count,
        "bytes": state.size_bytes,
        "transactional": state.queue.transactional,
    }


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


def _stage_row(stage: Stage) -> Json:
    return {
        "stage": str(stage.id),
        "created": stage.created,
        "changed": stage.changed,
        "rows": stage.rows,
        "bytes": stage.size_bytes,
        "chunks": stage.chunks,
    }
