"""Deleting messages with undo, editing and resending them, and the audit log."""

from typing import Annotated

from fastapi import Path, Query, Request, Response

from tiercel.admin.editing import EditRequest
from tiercel.admin.message_json import time_text
from tiercel.admin.operations import DeleteRequest
from tiercel.api.context import Context, about, answer
from tiercel.api.models import (
    AuditLines,
    DeleteMessages,
    Edit,
    Edited,
    LookupId,
    Operation,
    OperationList,
    QueueName,
)
from tiercel.api.numbers import lookup_ids_of
from tiercel.api.routing import needs, new_router
from tiercel.model.limits import MAX_PACKET_SIZE
from tiercel.security.tokens import Role

router = new_router()

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


@router.post("/operations/{id}/undo", **needs(Role.RECEIVE, audit="undo"), response_model=Operation)
async def undo_operation(api: Context, request: Request, id: _OperationId) -> Response:  # noqa: A002
    """Puts the messages back into their old places, as far as they are still in the trash.

    In a queue with consumers they get new places at the end, because consumers go by number.
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
