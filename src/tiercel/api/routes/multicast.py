"""Multicast groups and sources."""

from fastapi import Response

from tiercel.admin.multicast import describe
from tiercel.api.context import Context, answer
from tiercel.api.models import Multicast
from tiercel.api.routing import needs, new_router
from tiercel.security.tokens import Role

router = new_router()


@router.get("/multicast", **needs(Role.READ), response_model=Multicast)
async def show_multicast(api: Context) -> Response:
    """The multicast addresses of queues with the sources that are heard there, and what is sent."""
    network = None if api.daemon is None else api.daemon.multicast
    protocol = None if network is None else network.protocol
    return answer(await api.runner.call(lambda engine: describe(engine, protocol)))
