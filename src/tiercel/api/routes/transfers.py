"""Moving, copying and replaying messages from one queue to another."""

from fastapi import Request, Response

from tiercel.admin.operations import MOVE, REPLAY
from tiercel.admin.transfers import TransferRequest
from tiercel.api.context import Api, Context, about, answer
from tiercel.api.models import QueueName, Replay, Transfer, Transferred
from tiercel.api.numbers import lookup_ids_of
from tiercel.api.routing import needs, new_router
from tiercel.security.tokens import Role

router = new_router()


@router.post(
    "/queues/{queue}/move",
    **needs(Role.RECEIVE, Role.SEND, audit="move messages"),
    response_model=Transferred,
)
async def move_messages(api: Context, request: Request, queue: QueueName, wanted: Transfer) -> Response:
    """Each message leaves one queue and enters the other in the same commit: never lost, never doubled.

    Within this computer a message keeps its id. To another computer, and between transactional and
    non-transactional queues, it is sent as a new message with a new id. A dead letter or a copy of a journal
    becomes a message again: its time to be received starts anew, and its end is acknowledged and journaled.
    With `undo`, messages that stayed on this computer and kept their id can be put back for 24 hours.
    """
    return await _transfer(api, request, queue, wanted, moves=True)


@router.post(
    "/queues/{queue}/copy", **needs(Role.READ, Role.SEND, audit="copy messages"), response_model=Transferred
)
async def copy_messages(api: Context, request: Request, queue: QueueName, wanted: Transfer) -> Response:
    """Sends copies to another queue, with every property that a sender may set; the originals stay."""
    return await _transfer(api, request, queue, wanted, moves=False)


@router.post(
    "/queues/{queue}/replay",
    **needs(Role.RECEIVE, Role.SEND, audit="replay messages"),
    response_model=Transferred,
)
async def replay_messages(api: Context, request: Request, queue: QueueName, wanted: Replay) -> Response:
    """Moves each message to the queue that it was sent to, with all its properties.

    For dead letters, journals and subqueues. With `keep`, copies are sent and the originals stay. With
    `undo`, messages that stayed on this computer can be put back for 24 hours, and are dead letters again.
    """
    return await _transfer(api, request, queue, wanted, moves=not wanted.keep)


async def _transfer(
    api: Api, request: Request, queue: str, wanted: Transfer | Replay, *, moves: bool
) -> Response:
    about(request, **({} if wanted.to is None else {"to": wanted.to}), dry_run=wanted.dry_run)
    lookup_ids = None if wanted.lookup_ids is None else lookup_ids_of(wanted.lookup_ids)
    undo = moves and wanted.undo
    counts = await api.transfers.run(
        TransferRequest(
            queue,
            wanted.to,
            moves,
            wanted.after,
            wanted.limit,
            lookup_ids,
            wanted.transactional,
            wanted.dry_run,
            request.state.who,
            undo,
            int(wanted.operation) if undo and wanted.operation is not None else None,
            REPLAY if isinstance(wanted, Replay) else MOVE,
            isinstance(wanted, Replay) and wanted.same_id,
        )
    )
    about(request, count=counts["count"])
    return answer(counts)
