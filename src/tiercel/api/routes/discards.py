"""The discard ledger: which messages ended without being received."""

from typing import Annotated

from fastapi import Query, Response

from tiercel.admin import queues
from tiercel.api.context import Context, answer
from tiercel.api.models import DiscardList
from tiercel.api.routing import needs, new_router
from tiercel.security.tokens import Role

router = new_router()


@router.get("/discards", **needs(Role.READ), response_model=DiscardList)
async def list_discards(
    api: Context,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    before: Annotated[
        int | None, Query(ge=0, le=2**63 - 1, description="value of `next` in the previous response")
    ] = None,
) -> Response:
    """Newest first."""
    lines = await api.runner.call(lambda engine: queues.discards(engine, before, limit))
    more = str(lines[-1]["line"]) if len(lines) == limit else None
    return answer({"discards": lines, "next": more})
