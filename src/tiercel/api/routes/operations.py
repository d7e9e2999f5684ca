"""Deleting messages with undo, editing and resending them, and the audit log."""

from datetime import UTC, datetime
from typing import Annotated

from fastapi import Path, Query, Request, Response

from tiercel.admin.bulk import Action, BulkRequest
from tiercel.admin.editing import EditRequest
from tiercel.admin.message_filter import Query as SearchQuery
from tiercel.admin.message_json import time_text
from tiercel.admin.operations import DeleteRequest
from tiercel.api.context import Context, about, answer
from tiercel.api.models import (
    AuditLines,
    DeleteMessages,
    Edit,
    Edited,
    LookupId,
    NewOperation,
    Operation,
    OperationList,
    QueueName,
)
from tiercel.api.numbers import lookup_ids_of
from tiercel.api.routing import needs, new_router
from tiercel.engine.operations import OperationState
from tiercel.model.errors import AccessDeniedError, InvalidParameterError
from tiercel.model.limits import MAX_PACKET_SIZE
from tiercel.security.tokens import Role

router = new_router()


def _time(name: str, text: str | None) -> datetime | None:
    try:
        found = None if text is None else datetime.fromisoformat(text)
    except ValueError as problem:
        fix = "write it as 2026-11-18T13:00:00Z"
        raise InvalidParameterError(name, problem="not a valid time", fix=fix) from problem
    return found if found is None or found.tzinfo is not None else found.replace(tzinfo=UTC)


_OperationId = Annotated[str, Path(pattern="^[0-9]{1,18}$", description="the id of an operation, in digits")]


@router.post(
    "/queues/{queue}/delete",
    **needs(Role.RECEIVE, audit="delete messages"),
    response_model=Operation,
)
async def delete_messages(
    api: Context, request: Request, queue: QueueName, wanted: DeleteMessages
) -> Response:
    """Moves messages to the subqueue `;trash`: for 24 hours it can be undone.

    With `dry_run`, counts the messages and returns a `plan`; the same request with this plan deletes none
    that arrived later.
    """
    about(request, dry_run=wanted.dry_run or None)
    done = await api.operations.delete(
        DeleteRequest(
            queue,
            request.state.who,
            None if wanted.lookup_ids is None else lookup_ids_of(wanted.lookup_ids),
            wanted.limit,
            None if wanted.plan is None else int(wanted.plan),
            wanted.dry_run,
        )
    )
    about(request, count=done["count"])
    return answer(done)


@router.get("/operations", **needs(Role.READ), response_model=OperationList)
async def list_operations(api: Context) -> Response:
    """Newest first."""
    return answer({"operations": await api.operations.all()})


@router.post(
    "/queues/{queue}/operations",
    **needs(Role.RECEIVE, Role.SEND, audit="begin operation"),
    response_model=Operation,
    status_code=202,
    responses={200: {"model": Operation, "description": "of a dry run"}},
)
async def begin_operation(api: Context, request: Request, queue: QueueName, wanted: NewOperation) -> Response:
    """Moves, copies, replays, deletes or purges messages in the background, in slices of one commit each.

    A message is done wholly or not at all, and the work goes on after a restart. With `dry_run`, counts the
    messages and returns a `plan` (200); with this plan, the real one touches none that arrived later. To
    purge takes the role admin.
    """
    action = Action(wanted.action)
    about(request, action=action, to=wanted.to, dry_run=wanted.dry_run or None)
    if action is Action.PURGE and not request.state.is_admin:
        fix = "delete instead, or use a token with the role admin"
        raise AccessDeniedError("purge", problem="it takes the role admin", fix=fix)
    if wanted.filter is not None and wanted.pattern is not None:
        raise InvalidParameterError("filter", problem="give either a pattern or a filter", fix="give one")
    text = wanted.pattern if wanted.filter is None else wanted.filter
    bulk = BulkRequest(
        queue,
        action,
        request.state.who,
        wanted.to,
        None if text is None else SearchQuery(text, wanted.filter is not None),
        _time("since", wanted.since),
        _time("until", wanted.until),
        wanted.limit,
        wanted.rate,
        None if wanted.plan is None else int(wanted.plan),
        wanted.keep,
        wanted.transactional,
        wanted.same_id,
    )
    if wanted.dry_run:
        return answer(await api.bulk.preview(bulk))
    started = await api.bulk.start(bulk)
    about(request, operation=started["id"])
    return answer(started, 202)


@router.get("/operations/{id}", **needs(Role.READ), response_model=Operation)
async def get_operation(api: Context, id: _OperationId) -> Response:  # noqa: A002
    return answer(await api.bulk.one(int(id)))


@router.post("/operations/{id}/pause", **needs(Role.RECEIVE, audit="pause"), response_model=Operation)
async def pause_operation(api: Context, id: _OperationId) -> Response:  # noqa: A002
    return answer(await api.bulk.change(int(id), OperationState.PAUSED))


@router.post("/operations/{id}/resume", **needs(Role.RECEIVE, audit="resume"), response_model=Operation)
async def resume_operation(api: Context, id: _OperationId) -> Response:  # noqa: A002
    """Goes on with an operation that is paused or has failed."""
    return answer(await api.bulk.change(int(id), OperationState.RUNNING))


@router.post("/operations/{id}/cancel", **needs(Role.RECEIVE, audit="cancel"), response_model=Operation)
async def cancel_operation(api: Context, id: _OperationId) -> Response:  # noqa: A002
    """Ends an operation; what it has done stays done, and can be undone as if it had finished."""
    return answer(await api.bulk.change(int(id), OperationState.CANCELLED))


@router.post("/operations/{id}/undo", **needs(Role.RECEIVE, audit="undo"), response_model=Operation)
async def undo_operation(api: Context, request: Request, id: _OperationId) -> Response:  # noqa: A002
    """Puts deleted, moved or replayed messages back into their old places, as far as they are still there.

    Dead letters become dead letters again. In a queue with consumers they get new places at the end, because
    consumers go by number.
    """
    done = await api.operations.undo(int(id))
    about(request, restored=done["restored"])
    return answer(done)


@router.post(
    "/queues/{queue}/messages/{lookup_id}/edit",
    **needs(Role.RECEIVE, Role.SEND, audit="edit message", max_bytes=2 * MAX_PACKET_SIZE),
    response_model=Edited,
)
async def edit_message(
    api: Context, request: Request, queue: QueueName, lookup_id: LookupId, wanted: Edit
) -> Response:
    """Sends a changed copy and deletes the original, in one commit.

    The original goes to the trash. A dead letter goes to the queue that it was sent to, any other message to
    its own queue, unless `to` names another. With `keep`, the original stays.
    """
    about(request, changed=sorted(wanted.changes), to=wanted.to)
    (number,) = lookup_ids_of([lookup_id])
    edit = EditRequest(
        queue, number, wanted.changes, wanted.to, request.state.who, wanted.keep, wanted.transactional
    )
    done = await api.editing.edit(edit)
    about(request, id=done["id"], edited_from=done["edited_from"], difference=done["changed"])
    return answer(done)


@router.get("/audit", **needs(Role.ADMIN), response_model=AuditLines)
async def read_audit(
    api: Context,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    before: Annotated[
        int | None, Query(ge=0, le=2**63 - 1, description="value of `next` in the previous response")
    ] = None,
) -> Response:
    """Who changed what, newest first. Each line was written in the commit of the change.

    `previous` is the SHA-256 of the line before; `tiercel check` verifies the chain.
    """
    found = await api.runner.call(lambda engine: list(engine.audit.newest(before, limit)))
    lines = [
        {"line": each.number, **each.values, "time": time_text(each.values.get("time"))} for each in found
    ]
    return answer({"lines": lines, "next": str(found[-1].number) if len(found) == limit else None})
