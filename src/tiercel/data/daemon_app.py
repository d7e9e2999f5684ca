"""The daemon's side of the data endpoint, on its Unix socket."""

import asyncio
import struct
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final, cast

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tiercel.admin.claims import Claims
from tiercel.admin.runner import Runner
from tiercel.admin.sources import Source
from tiercel.admin.stages import Stages
from tiercel.admin.waits import Waits
from tiercel.api import problems
from tiercel.api.parameters import Parameters, read_body
from tiercel.api.paths import DATA, INTERNAL
from tiercel.data.queries import Queries
from tiercel.engine.browsing import LAST_SEQUENCE
from tiercel.engine.publication import RowsOf
from tiercel.engine.stage_records import StageId
from tiercel.model.errors import InvalidParameterError
from tiercel.model.limits import STAGE_CHUNK_MAX_BYTES

_EXPRESS_ROW: Final = struct.Struct(">QI")  # lookup id, size of the record that follows
_MAX_LIMIT: Final = 10_000_000
_MAX_WAIT_MS: Final = 60_000
_EPOCH: Final = {"low": 1}


class DaemonApp:
    def __init__(self, runner: Runner, waits: Waits) -> None:
        self._queries = Queries(runner)
        self._claims = Claims(runner, waits)
        self._stages = Stages(runner)
        self.app = Starlette(
            routes=[
                Route(f"{DATA}/queues", self._queues),
                Route(f"{DATA}/head", self._head),
                Route(f"{DATA}/consumers/{{consumer}}/attach", self._attach, methods=["POST"]),
                Route(f"{DATA}/consumers/{{consumer}}/claim", self._claim, methods=["POST"]),
                Route(f"{DATA}/consumers/{{consumer}}/ack", self._acknowledge, methods=["POST"]),
                Route(f"{DATA}/consumers/{{consumer}}/release", self._release, methods=["POST"]),
                Route(f"{DATA}/consumers/{{consumer}}", self._forget, methods=["DELETE"]),
                Route(f"{DATA}/claims", self._list_claims),
                Route(f"{DATA}/stages/{{stage:path}}", self._stage, methods=["PUT"]),
                Route(f"{DATA}/stages", self._list_stages),
                Route(f"{DATA}/publish", self._publish, methods=["POST"]),
                Route(f"{DATA}/discard", self._discard, methods=["POST"]),
                Route(f"{INTERNAL}/place", self._place),
                Route(f"{INTERNAL}/express", self._express),
            ],
            exception_handlers=problems.HANDLERS,
        )

    async def _queues(self, request: Request) -> Response:
        given = Parameters.of_query(request)
        pattern, source = given.text("pattern", None), _source(given)
        given.finish()
        return JSONResponse(await self._queries.queues(pattern, source))

    async def _head(self, request: Request) -> Response:
        given = Parameters.of_query(request)
        queue, source = given.text("queue", None), _source(given)
        consumer, time = given.text("consumer", None), given.seconds("time")
        given.finish()
        return JSONResponse(await self._queries.head(queue, source, consumer, time))

    async def _place(self, request: Request) -> Response:
        given = Parameters.of_query(request)
        queue, source, consumer = given.text("queue", None), _source(given), given.text("consumer", None)
        given.finish()
        return JSONResponse(await self._queries.place(queue, source, consumer))

    async def _express(self, request: Request) -> Response:
        given = Parameters.of_query(request)
        queue, source = given.text("queue", None), _source(given)
        lo, hi = given.number("lo", high=LAST_SEQUENCE), given.number("hi", high=LAST_SEQUENCE)
        after = given.number("after")
        given.finish()
        rows = await self._queries.express(queue, source, lo, hi, after)
        parts = [part for each, data in rows for part in (_EXPRESS_ROW.pack(each, len(data)), data)]
        return Response(b"".join(parts), media_type="application/octet-stream")

    # Claims.

    async def _attach(self, request: Request) -> Response:
        given = await Parameters.of_json(request)
        queues, create = given.texts("queues"), given.flag("create", default=True)
        epoch, dry_run = given.number("epoch", None, **_EPOCH), given.flag("dry_run", default=False)
        given.finish()
        consumer = request.path_params["consumer"]
        answer = await self._claims.attach(consumer, queues, create=create, epoch=epoch, dry_run=dry_run)
        return JSONResponse(answer)

    async def _claim(self, request: Request) -> Response:
        given = await Parameters.of_json(request)
        epoch, queue = given.number("epoch", **_EPOCH), given.text("queue")
        options: dict[str, Any] = {
            "start": given.number("start", None),
            "limit": given.number("limit", None, low=1, high=_MAX_LIMIT),
            "byte_limit": given.number("bytes", None, low=1),
            "acknowledge": given.number("ack", 0),
            "wait_s": given.number("wait_ms", 0, high=_MAX_WAIT_MS) / 1000,
        }
        given.finish()
        consumer = request.path_params["consumer"]
        return JSONResponse(await self._claims.claim(consumer, epoch, queue, **options))

    async def _acknowledge(self, request: Request) -> Response:
        given = await Parameters.of_json(request)
        epoch, queue, up_to = given.number("epoch", **_EPOCH), given.text("queue"), given.number("up_to")
        given.finish()
        consumer = request.path_params["consumer"]
        return JSONResponse(await self._claims.acknowledge(consumer, epoch, queue, up_to))

    async def _release(self, request: Request) -> Response:
        given = await Parameters.of_json(request)
        queue = given.text("queue", None)
        given.finish()
        return JSONResponse(await self._claims.release(request.path_params["consumer"], queue))

    async def _forget(self, request: Request) -> Response:
        return JSONResponse(await self._claims.forget(request.path_params["consumer"]))

    async def _list_claims(self, request: Request) -> Response:
        Parameters.of_query(request).finish()
        return JSONResponse(await self._claims.all())

    # Stages.

    async def _stage(self, request: Request) -> Response:
        given = Parameters.of_query(request)
        chunk, rows = given.number("chunk", 0), given.number("rows")
        given.finish()
        stage = StageId.parse(request.path_params["stage"])
        payload = await read_body(request, STAGE_CHUNK_MAX_BYTES)
        return JSONResponse(await self._stages.stage(stage, chunk, payload, rows))

    async def _publish(self, request: Request) -> Response:
        given = await Parameters.of_json(request)
        app, batch, queue = given.text("app"), given.text("batch"), given.text("queue", None)
        stages, transactional = given.texts("stages"), given.flag("transactional", default=True)
        sign = given.flag("sign", default=False)
        given.finish()
        ids = [StageId.parse(each) for each in stages]
        rows = (await _rows_of())(queue)
        return JSONResponse(
            await self._stages.publish(app, batch, ids, rows, transactional=transactional, sign=sign)
        )

    async def _discard(self, request: Request) -> Response:
        given = await Parameters.of_json(request)
        prefix, for_good = given.text("prefix"), given.flag("tombstone", default=True)
        given.finish()
        app, slash, batch = prefix.partition("/")
        if not slash or "/" in batch:
            raise InvalidParameterError("prefix", present=prefix[:80], fix="give app/batch")
        return JSONResponse(await self._stages.discard(app, batch, for_good=for_good))

    async def _list_stages(self, request: Request) -> Response:
        Parameters.of_query(request).finish()
        return JSONResponse(await self._stages.all())


async def _rows_of() -> Callable[[str | None], RowsOf]:
    """Arrow is imported at the first publish: it costs 50 MB.

    In a thread: the event loop gets turns between its modules, instead of none for a tenth of a second.
    """
    module = await asyncio.to_thread(import_module, "tiercel.data.staged_rows")
    return cast("Callable[[str | None], RowsOf]", module.rows_of)


def _source(given: Parameters) -> Source:
    return Source(given.choice("from", Source.QUEUE, tuple(Source)))


def express_rows(data: bytes) -> list[tuple[int, bytes]]:
    """Decodes the response of `express`: lookup ids and records."""
    rows, at = [], 0
    while at < len(data):
        lookup_id, size = _EXPRESS_ROW.unpack_from(data, at)
        at += _EXPRESS_ROW.size
        rows.append((lookup_id, data[at : at + size]))
        at += size
    return rows
