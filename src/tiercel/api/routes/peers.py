"""Learned addresses of other queue managers."""

from typing import Annotated
from urllib.parse import unquote

from fastapi import Path, Response
from pydantic import AfterValidator

from tiercel.admin import peers
from tiercel.api.context import Context, answer
from tiercel.api.models import ForgottenPeer, PeerList
from tiercel.api.routing import needs, new_router
from tiercel.security.tokens import Role

router = new_router()


@router.get("/peers", **needs(Role.READ), response_model=PeerList)
async def list_peers(api: Context) -> Response:
    """Other queue managers that have sent transactional messages, and where each was last seen."""
    return answer(await api.runner.call(peers.all_peers))


@router.delete("/peers/{guid}", **needs(Role.ADMIN, audit="forget peer"), response_model=ForgottenPeer)
async def forget_peer(
    api: Context,
    guid: Annotated[
        str, Path(description="the GUID of the queue manager", max_length=100), AfterValidator(unquote)
    ],
) -> Response:
    """Forgets the learned address of a queue manager; its next transactional message tells it again."""
    return answer(await api.runner.call(lambda engine: peers.forget(engine, guid)))
