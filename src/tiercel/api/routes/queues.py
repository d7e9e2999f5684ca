"""Queues: list, create, show, change, delete, purge."""

from typing import Annotated, Any, Literal

from fastapi import Query, Request, Response

from tiercel.admin.account_names import with_sids
from tiercel.admin.queues import DEFAULT_KINDS, QueueKind
from tiercel.admin.samples import KEPT
from tiercel.api.context import Api, Context, about, answer
from tiercel.api.models import (
    Counts,
    NewQueue,
    QueueDetails,
    QueueList,
    QueueName,
    QueueProperties,
    SampleList,
)
from tiercel.api.routing import needs, new_router
from tiercel.model.errors import InvalidParameterError
from tiercel.security.tokens import Role

router = new_router()

DryRun = Annotated[bool, Query(description="only count the messages")]


@router.get("/queues", **needs(Role.READ), response_model=QueueList)
async def list_queues(
    api: Context,
    pattern: Annotated[
        str | None, Query(description="glob pattern for names, such as `orders*`", max_length=1000)
    ] = None,
    kind: Annotated[str, Query(description="comma-separated kinds, or `all`", max_length=200)] = "",
    depths: Annotated[
        int, Query(ge=0, le=KEPT, description="points of a small chart: counts of the last 10 minutes")
    ] = 0,
) -> Response:
    """Rates are per second, of the last 10 seconds; they and `depths` are sampled once the API is used."""
    return answer({"queues": await api.queues.listed(pattern, _kinds(kind), depths=depths)})


def _kinds(text: str) -> tuple[QueueKind, ...]:
    if not text:
        return DEFAULT_KINDS
    if text == "all":
        return tuple(QueueKind)
    try:
        return tuple(QueueKind(each.strip()) for each in text.split(","))
    except ValueError as problem:
        fix = f"give all, or some of {', '.join(QueueKind)}"
        raise InvalidParameterError("kind", present=repr(text[:60]), fix=fix) from problem


@router.post(
    "/queues", **needs(Role.ADMIN, audit="create queue"), response_model=QueueDetails, status_code=201
)
async def create_queue(api: Context, request: Request, new: NewQueue) -> Response:
    """201 for a new queue; 200 for an existing one with `exist_ok`."""
    about(request, subject=new.path_name)
    queue, is_new = await api.queues.create(
        new.path_name,
        _without_names(api, new.properties),
        transactional=new.transactional,
        exist_ok=new.exist_ok,
    )
    return answer(queue, 201 if is_new else 200)


@router.get("/queues/{queue}", **needs(Role.READ), response_model=QueueDetails)
async def get_queue(api: Context, queue: QueueName) -> Response:
    return answer(await api.queues.get(queue))


@router.get("/queues/{queue}/samples", **needs(Role.READ), response_model=SampleList)
async def get_samples(
    api: Context,
    queue: QueueName,
    step_s: Annotated[
        Literal["5", "60"], Query(description="5: the last 10 minutes; 60: the last 2 hours")
    ] = "5",
) -> Response:
    """Depth and totals over time, oldest first; none for a queue that had no message since the start."""
    return answer({"step_s": int(step_s), "samples": await api.queues.sampled(queue, int(step_s))})


@router.patch("/queues/{queue}", **needs(Role.ADMIN, audit="change queue"), response_model=QueueDetails)
async def change_queue(
    api: Context, request: Request, queue: QueueName, properties: QueueProperties
) -> Response:
    changes = properties.model_dump(exclude_unset=True)
    about(request, changes=", ".join(f"{name}={value}" for name, value in changes.items()))
    return answer(await api.queues.change(queue, _without_names(api, changes)))


def _without_names(api: Api, properties: dict[str, Any]) -> dict[str, Any]:
    """With SIDs instead of the accounts that the access list names."""
    security = properties.get("security")
    return (
        {**properties, "security": with_sids(security, api.accounts)}
        if isinstance(security, str)
        else properties
    )


@router.delete("/queues/{queue}", **needs(Role.ADMIN, audit="delete queue"), response_model=Counts)
async def delete_queue(api: Context, request: Request, queue: QueueName, dry_run: DryRun = False) -> Response:
    about(request, dry_run=dry_run)
    counts = await api.queues.delete(queue, dry_run=dry_run)
    about(request, **counts)
    return answer(counts | {"dry_run": dry_run})


@router.post("/queues/{queue}/purge", **needs(Role.ADMIN, audit="purge queue"), response_model=Counts)
async def purge_queue(api: Context, request: Request, queue: QueueName, dry_run: DryRun = False) -> Response:
    """Ends every message present now; each is listed in the discard ledger."""
    about(request, dry_run=dry_run)  # first: a dry run leaves no line in the audit log
    counts = await api.queues.purge(queue, dry_run=dry_run)
    about(request, **counts)
    return answer(counts | {"dry_run": dry_run})
