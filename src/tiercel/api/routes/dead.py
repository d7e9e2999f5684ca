"""Dead letters of both dead-letter queues, by cause."""

from typing import Annotated

from fastapi import Query, Response

from tiercel.admin.dead_letters import GroupBy
from tiercel.api.context import Context, answer
from tiercel.api.models import DeadLetterGroups
from tiercel.api.routing import needs, new_router
from tiercel.model.errors import InvalidParameterError
from tiercel.security.tokens import Role

router = new_router()


@router.get("/dead", **needs(Role.READ), response_model=DeadLetterGroups)
async def group_dead_letters(
    api: Context,
    group: Annotated[
        str, Query(description="`reason`, `queue` (the destination), or both", max_length=100)
    ] = "reason,queue",
) -> Response:
    """Dead letters by cause, with the fix; at most the newest 20,000.

    To replay a whole group, begin an operation with its `filter` in each of its `queues`: `POST
    /queues/;deadletter/operations` with `action` "replay", and with `dry_run` first.
    """
    return answer(await api.dead_letters.grouped(_keys(group)))


def _keys(text: str) -> list[GroupBy]:
    try:
        return [GroupBy(each.strip()) for each in text.split(",")]
    except ValueError as problem:
        fix = f"give {', '.join(GroupBy)}, or both"
        raise InvalidParameterError("group", present=repr(text[:60]), fix=fix) from problem
