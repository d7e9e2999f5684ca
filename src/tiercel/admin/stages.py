"""Stages: rows that a pipeline uploads in parts and publishes in one transaction."""

import asyncio
from contextlib import suppress
from typing import Any, Final

from tiercel.admin.runner import Runner
from tiercel.engine.engine import Engine
from tiercel.engine.publication import Publication, Published, PublishedBefore, RowsOf
from tiercel.engine.stage_records import Stage, StageId
from tiercel.message_security.signer import Signer, sign_all
from tiercel.model.errors import MqError
from tiercel.server.process_tuning import garbage_left_alone

_PREPARED: Final = 250  # messages of a publish per turn: each is encoded
_STORED: Final = 500

Json = dict[str, Any]


class Stages:
    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    async def stage(self, stage: StageId, chunk: int, payload: bytes, rows: int) -> Json:
        return _stage_row(
            await self._runner.call(lambda engine: engine.stages.stage(stage, chunk, payload, rows))
        )

    async def publish(
        self,
        app: str,
        batch: str,
        stages: list[StageId],
        rows_of: RowsOf,
        *,
        transactional: bool,
        sign: bool = False,
    ) -> Json:
        """With `sign`, the queue manager signs the messages with its own key: pipelines have none."""
        signer = await asyncio.to_thread(self._runner.driver.signing_key.signer) if sign else None
        with garbage_left_alone():
            return await self._publish(app, batch, stages, rows_of, signer, transactional=transactional)

    async def _publish(
        self,
        app: str,
        batch: str,
        stages: list[StageId],
        rows_of: RowsOf,
        signer: Signer | None,
        *,
        transactional: bool,
    ) -> Json:
        token = self._runner.driver.token
        publication = await self._runner.call(
            lambda engine: engine.stages.begin_publish(
                app, batch, stages, rows_of, token, transactional=transactional
            )
        )
        try:
            if signer is not None:
                await self._sign(publication, signer)
            while not await self._runner.call(lambda _: publication.prepare(_PREPARED)):
                pass
            while not await self._runner.call(lambda _: publication.store(_STORED)):
                pass
            done: Published = await self._runner.call(lambda _: publication.commit())
        finally:
            with suppress(MqError):
                await self._runner.call(lambda _: publication.abort())
        return {"published": done.messages, "already": done.already}

    async def _sign(self, publication: Publication | PublishedBefore, signer: Signer) -> None:
        """In a thread: it takes a millisecond for each message."""
        certificate = signer.certificate.der
        while to_sign := await self._runner.call(lambda _: publication.to_sign(certificate, _PREPARED)):
            await asyncio.to_thread(sign_all, signer, to_sign)
            await self._runner.call(lambda _: publication.prepare())

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
