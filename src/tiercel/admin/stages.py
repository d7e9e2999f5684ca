"""Stages: rows that a pipeline uploads in parts and publishes in one transaction."""

from contextlib import suppress
from typing import Any, Final

from tiercel.admin.runner import Runner
from tiercel.engine.engine import Engine
from tiercel.engine.publication import Published, RowsOf
from tiercel.engine.stage_records import Stage, StageId
from tiercel.model.errors import MqError

_PREPARED: Final = 250  # messages of a publish per turn: each is encoded

Json = dict[str, Any]


class Stages:
    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    async def stage(self, stage: StageId, chunk: int, payload: bytes, rows: int) -> Json:
        return _stage_row(
            await self._runner.call(lambda engine: engine.stages.stage(stage, chunk, payload, rows))
        )

    async def publish(
        self, app: str, batch: str, stages: list[StageId], rows_of: RowsOf, *, transactional: bool
    ) -> Json:
        token = self._runner.driver.token
        publication = await self._runner.call(
            lambda engine: engine.stages.begin_publish(
                app, batch, stages, rows_of, token, transactional=transactional
            )
        )
        try:
            while not await self._runner.call(lambda _: publication.prepare(_PREPARED)):
                pass
            done: Published = await self._runner.call(lambda _: publication.commit())
        finally:
            with suppress(MqError):
                await self._runner.call(lambda _: publication.abort())
        return {"published": done.messages, "already": done.already}

    async def discard(self, app: str, batch: str, *, for_good: bool) -> Json:
        gone = await self._runner.call(lambda engine: engine.stages.discard(app, batch, for_good=for_good))
        return {"discarded": gone}

    async def all(self) -> Json:
        def command(engine: Engine) -> Json:
            now = engine.seconds
            rows = [_stage_row(each) | {"age": now - each.created} for each in engine.stages.stages()]
            return {"stages": rows}

        return await self._runner.call(command)


def _stage_row(stage: Stage) -> Json:
    return {
        "stage": str(stage.id),
        "created": stage.created,
        "changed": stage.changed,
        "rows": stage.rows,
        "bytes": stage.size_bytes,
        "chunks": stage.chunks,
    }
