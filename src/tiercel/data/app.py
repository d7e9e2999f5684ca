"""The application of the data process: it reads bulk from the store and forwards the rest to the daemon."""

from collections.abc import Awaitable, Callable, Iterable
from http import HTTPStatus
from typing import Final

import pyarrow as pa
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tiercel import columns
from tiercel.admin.errors import BusyError
from tiercel.admin.sources import Source
from tiercel.api import problems
from tiercel.api.authorization import TokenAuthorization
from tiercel.api.parameters import Parameters, read_body
from tiercel.api.paths import DATA
from tiercel.columns import RowFilter
from tiercel.data import discard_table, ranges, staged_rows
from tiercel.data.arrow_stream import ArrowStream, Batches
from tiercel.data.daemon_client import DaemonClient, DaemonRefusedError
from tiercel.data.ranges import Projection, StoredQueue
from tiercel.engine.browsing import LAST_SEQUENCE
from tiercel.model.errors import InvalidParameterError
from tiercel.model.identifiers import lookup_id_sequence
from tiercel.model.limits import STAGE_CHUNK_MAX_BYTES
from tiercel.security.tokens import Role
from tiercel.store import Reader

_MAX_STREAMS: Final = 32  # each holds several megabytes in memory
_FILTERS: Final = ("labelLike", "class", "sentAfter", "sentBefore")
_BAD: Final = ("fail", "column", "skip")

Handler = Callable[[Request], Awaitable[Response]]


class DataApp:
    def __init__(self, reader: Reader, daemon: DaemonClient, authorization: TokenAuthorization) -> None:
        self._reader = reader
        self._daemon = daemon
        self._authorization = authorization
        self._streams = 0
        forward = daemon.forward
        handlers: dict[tuple[str, str], tuple[Role, Handler]] = {
            ("GET", "/queues"): (Role.READ, forward),
            ("GET", "/head"): (Role.READ, self._head),
            ("GET", "/cuts"): (Role.READ, self._cuts),
            ("GET", "/range"): (Role.READ, self._range),
            ("POST", "/consumers/{consumer}/attach"): (Role.RECEIVE, forward),
            ("POST", "/consumers/{consumer}/claim"): (Role.RECEIVE, forward),
            ("POST", "/consumers/{consumer}/ack"): (Role.RECEIVE, forward),
            ("POST", "/consumers/{consumer}/release"): (Role.RECEIVE, forward),
            ("DELETE", "/consumers/{consumer}"): (Role.RECEIVE, forward),
            ("GET", "/claims"): (Role.READ, forward),
            ("PUT", "/stages/{stage:path}"): (Role.SEND, self._stage),
            ("GET", "/stages"): (Role.READ, forward),
            ("POST", "/publish"): (Role.SEND, forward),
            ("POST", "/discard"): (Role.SEND, forward),
        }
        self.app = Starlette(
            routes=[
                Route(DATA + path, self._guarded(role, handler), methods=[method])
                for (method, path), (role, handler) in handlers.items()
            ],
            exception_handlers={**problems.HANDLERS, DaemonRefusedError: _refused},
        )

    def _guarded(self, role: Role, handler: Handler) -> Handler:
        async def guarded(request: Request) -> Response:
            self._authorization.check(request, role)
            if request.method == "HEAD":  # Starlette would build the whole response and discard it
                raise HTTPException(HTTPStatus.METHOD_NOT_ALLOWED)
            return await handler(request)

        return guarded

    # Reading.

    async def _head(self, request: Request) -> Response:
        if request.query_params.get("from") != Source.DISCARDS:
            return await self._daemon.forward(request)
        with self._reader.snapshot() as view:
            lo, hi = discard_table.head(view)
        return JSONResponse(
            {"queue": Source.DISCARDS, "guid": "", "e": 0, "lo": lo, "hi": hi, "count": hi - lo}
        )

    async def _range(self, request: Request) -> Response:
        given = Parameters.of_query(request)
        source = Source(given.choice("from", Source.QUEUE, tuple(Source)))
        lo, hi = given.number("lo", high=LAST_SEQUENCE), given.number("hi", high=LAST_SEQUENCE)
        wanted = given.text("columns", None)
        names = None if wanted is None else tuple(filter(None, wanted.split(",")))
        if source is Source.DISCARDS:
            given.finish()
            names = discard_table.check_names(discard_table.SCHEMA.names if names is None else names)
            batches = _each(ranges.ledger(self._reader, lo, hi, names))
            return self._stream(discard_table.schema(names), batches)
        consumer, where = given.text("consumer", None), _place_parameters(given, source)
        projection = _shape(given, names)
        given.finish()
        if consumer is not None:
            where["consumer"] = consumer
        answer = await self._daemon.place(where)
        place = StoredQueue.of_answer(answer)
        if consumer is not None:
            batches = _each(ranges.claimed(self._reader, place, lo, hi, projection))
        else:
            hi = min(hi, answer["newest"])  # above it may be messages that have not appeared yet
            batches = self._browsed(place, where, lo, hi, projection, has_express=bool(answer["express"]))
        return self._stream(projection.schema, batches)

    async def _browsed(
        self,
        place: StoredQueue,
        where: dict[str, str],
        lo: int,
        hi: int,
        projection: Projection,
        *,
        has_express: bool,
    ) -> Batches:
        for batch in ranges.stored(self._reader, place, lo, hi, projection):
            yield batch
        if has_express:
            async for found in self._daemon.express(where, lo, hi):
                yield ranges.express(found, place, projection)

    def _stream(self, schema: pa.Schema, batches: Batches) -> Response:
        """Starts a stream, within the limit."""
        if self._streams >= _MAX_STREAMS:
            raise BusyError("data endpoint", present=self._streams, limit=_MAX_STREAMS)
        self._streams += 1
        return ArrowStream(schema, batches, self._ended)

    def _ended(self) -> None:
        self._streams -= 1

    async def _cuts(self, request: Request) -> Response:
        given = Parameters.of_query(request)
        source = Source(given.choice("from", Source.QUEUE, tuple(Source)))
        lo, hi = given.number("lo", high=LAST_SEQUENCE), given.number("hi", high=LAST_SEQUENCE)
        max_rows, max_bytes = given.number("rows", 2**62, low=1), given.number("bytes", 2**62, low=1)
        limit = given.number("limit", None, low=1)
        where = _place_parameters(given, source)
        given.finish()
        answer = await self._daemon.place(where)
        hi = min(hi, answer["newest"])
        in_memory = [
            (lookup_id_sequence(each), len(data))
            async for found in self._daemon.express(where, lo, hi)
            for each, data in found
        ]
        found = await ranges.cuts(
            self._reader,
            StoredQueue.of_answer(answer),
            lo,
            hi,
            in_memory,
            max_rows=max_rows,
            max_bytes=max_bytes,
            limit=limit,
        )
        return JSONResponse({"guid": answer["guid"], "e": answer["e"], "cuts": found})

    # Sending.

    async def _stage(self, request: Request) -> Response:
        given = Parameters.of_query(request)
        chunk = given.number("chunk", 0)
        given.finish()
        payload = await read_body(request, STAGE_CHUNK_MAX_BYTES)
        return await self._daemon.stage(request, chunk, staged_rows.check(payload), payload)


async def _refused(_request: Request, error: Exception) -> Response:
    assert isinstance(error, DaemonRefusedError)
    return error.answer


async def _each(batches: Iterable[pa.RecordBatch]) -> Batches:
    for batch in batches:
        yield batch


def _place_parameters(given: Parameters, source: Source) -> dict[str, str]:
    queue = given.text("queue", None)
    return {"from": str(source)} if queue is None else {"from": str(source), "queue": queue}


def _shape(given: Parameters, names: tuple[str, ...] | None) -> Projection:
    filters = {name: value for name in _FILTERS if (value := given.text(name, None)) is not None}
    bad = given.choice("badMessageMode", "fail", _BAD)
    chosen = tuple(columns.names()) if names is None else names
    if given.flag("includeRaw", default=False) and "raw" not in chosen:
        chosen += ("raw",)
    try:
        return Projection(tuple(columns.check_names(chosen)), RowFilter.of_options(filters), bad)
    except ValueError as problem:
        fix = f"the columns are {', '.join(columns.names())}"
        raise InvalidParameterError(
            "columns or filters", problem=str(problem).rstrip("?."), fix=fix
        ) from problem
