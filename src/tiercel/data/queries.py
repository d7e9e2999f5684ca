"""Questions of the data process about queues."""

from typing import Any, Final

from tiercel.admin import sources
from tiercel.admin.message_json import time_text
from tiercel.admin.runner import Runner
from tiercel.admin.sources import Source
from tiercel.engine.engine import Engine

_EXPRESS_ROWS: Final = 1000  # per answer, built in one turn
_EXPRESS_BYTES: Final = 4 << 20

Json = dict[str, Any]


class Queries:
    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    async def queues(self, pattern: str | None, source: Source) -> Json:
        def command(engine: Engine) -> Json:
            found = sources.listed(engine, pattern, source)
            guid = str(engine.queue_manager.identifier)
            return {"qm": guid, "queues": [sources.described(engine, state) for state in found]}

        return await self._runner.call(command)

    async def head(self, queue: str | None, source: Source, consumer: str | None, time: float | None) -> Json:
        def command(engine: Engine) -> Json:
            state = sources.find(engine, queue, source)
            head = engine.browsing.head(state)
            answer = sources.described(engine, state) | {"lo": head.lo, "hi": head.hi}
            answer["oldest"] = time_text(engine.browsing.oldest_arrival(state))
            if time is not None:
                answer["at"] = engine.browsing.sequence_at(state, time)
            if consumer is not None:
                status = engine.claims.status(consumer, state)
                answer["consumer"] = {"floor": status.lo, "hi": status.hi, "visible": state.count}
            return answer

        return await self._runner.call(command)

    async def place(self, queue: str | None, source: Source, consumer: str | None) -> Json:
        """Where the messages of a queue are in the store."""

        def command(engine: Engine) -> Json:
            state = sources.find(engine, queue, source)
            answer = sources.described(engine, state) | {"slot": state.slot, "express": len(state.express)}
            answer["newest"] = engine.browsing.newest(state)
            path = state.queue.pathname
            if path is not None and path.subqueue is not None:
                answer |= {"queue": str(path.without_subqueue()), "subqueue": path.subqueue}
            if consumer is not None:
                answer["claim_slot"] = engine.claims.status(consumer, state).slot
            return answer

        return await self._runner.call(command)

    async def express(
        self, queue: str | None, source: Source, lo: int, hi: int, after: int
    ) -> list[tuple[int, bytes]]:
        def command(engine: Engine) -> list[tuple[int, bytes]]:
            state = sources.find(engine, queue, source)
            return list(engine.browsing.express(state, lo, hi, after, _EXPRESS_ROWS, _EXPRESS_BYTES))

        return await self._runner.call(command)
