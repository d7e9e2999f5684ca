"""Messages from one queue to another."""

from fastapi import Request, Response

from tiercel.admin import transfer
from tiercel.api.context import Api, Context, about, answer
from tiercel.api.models import Carried, Errand, QueueName
from tiercel.api.routing import needs, new_router
from tiercel.model.errors import InvalidParameterError
from tiercel.security.tokens import Role

router = new_router()


@router.post(
    "/queues/{queue}/move", **needs(Role.RECEIVE, Role.SEND, audit="move messages"), response_model=Carried
)
async def move_messages(api: Context, request: Request, queue: QueueName, errand: Errand) -> Response:
    """Never lost, never doubled: what takes a message from the one queue puts it into the other.

    Within this computer a message stays what it is. To another computer, and between transactional queues
    and others, it is sent anew: it gets a new id.
    """
    return await _carry(api, request, queue, errand, moves=True)


@router.post(
    "/queues/{queue}/copy", **needs(Role.READ, Role.SEND, audit="copy messages"), response_model=Carried
)
async def copy_messages(api: Context, request: Request, queue: QueueName, errand: Errand) -> Response:
    """Sends what is in one queue to another, with all that a sender may set; the originals stay."""
    return await _carry(api, request, queue, errand, moves=False)


async def _carry(api: Api, request: Request, queue: str, errand: Errand, *, moves: bool) -> Response:
    about(request, to=errand.to)
    counts = await api.transfer.run(
        transfer.Errand(
            queue,
            errand.to,
            moves,
            errand.after,
            errand.limit,
            None if errand.lookup_ids is None else tuple(map(_number, errand.lookup_ids)),
            errand.transactional,
            errand.dry_run,
        )
    )
    about(request, count=counts["count"], dry_run=errand.dry_run)
    return answer(counts)


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 20):
        raise InvalidParameterError("lookup_ids", present=repr(text[:60]), fix="give lookup ids in digits")
    return int(text)
