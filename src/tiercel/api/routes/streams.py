"""Streams of transactional messages."""

from typing import Annotated
from urllib.parse import unquote

from fastapi import Path, Response
from pydantic import AfterValidator

from tiercel.admin import streams
from tiercel.api.context import Context, answer
from tiercel.api.models import QueueName, StreamList, StreamReset
from tiercel.api.routing import needs, new_router
from tiercel.security.tokens import Role

router = new_router()


@router.get("/streams", **needs(Role.READ), response_model=StreamList)
async def list_streams(api: Context) -> Response:
    """Incoming and outgoing streams of transactional messages."""
    return answer(await api.runner.call(streams.all_streams))


@router.delete(
    "/queues/{queue}/streams/{sender}",
    **needs(Role.ADMIN, audit="reset stream"),
    response_model=StreamReset,
)
async def reset_stream(
    api: Context,
    queue: QueueName,
    sender: Annotated[
        str, Path(description="the GUID of the sender", max_length=100), AfterValidator(unquote)
    ],
) -> Response:
    """Forgets how far a sender has come with its messages to a queue.

    The next message of the sender is accepted, even one that it has sent before.
    """
    return answer(await api.runner.call(lambda engine: streams.reset(engine, queue, sender)))
