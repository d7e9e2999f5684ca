"""What data pipelines hold: claims, and unpublished stages."""

from typing import Annotated
from urllib.parse import unquote

from fastapi import Path, Request, Response
from pydantic import AfterValidator

from tiercel.admin import queue_lookup
from tiercel.admin.sources import name_of
from tiercel.api.context import Context, about, answer
from tiercel.api.models import ClaimList, Forgotten, Release, Released, StageList
from tiercel.api.routing import needs, new_router
from tiercel.engine.engine import Engine
from tiercel.security.tokens import Role

router = new_router()


@router.get("/claims", **needs(Role.READ), response_model=ClaimList)
async def list_claims(api: Context) -> Response:
    return answer(await api.claims.all())


@router.post("/claims/release", **needs(Role.ADMIN, audit="release claims"), response_model=Released)
async def release_claims(api: Context, request: Request, wanted: Release) -> Response:
    """Releases the claims of an abandoned consumer: of one queue, or all."""
    about(request, subject=wanted.consumer, queue=wanted.queue)
    queue = wanted.queue
    path = None if queue is None else await api.runner.call(lambda engine: _path(engine, queue))
    return answer(await api.claims.release(wanted.consumer, path))


def _path(engine: Engine, queue: str) -> str:
    return name_of(engine, queue_lookup.find(engine, queue))


@router.delete(
    "/consumers/{consumer}", **needs(Role.ADMIN, audit="forget consumer"), response_model=Forgotten
)
async def forget_consumer(
    api: Context, consumer: Annotated[str, Path(max_length=200), AfterValidator(unquote)]
) -> Response:
    """Removes a consumer that holds nothing; a new one with the same name starts its numbers again."""
    return answer(await api.claims.forget(consumer))


@router.get("/stages", **needs(Role.READ), response_model=StageList)
async def list_stages(api: Context) -> Response:
    return answer(await api.stages.all())
