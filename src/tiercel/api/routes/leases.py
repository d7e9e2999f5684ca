"""Leases: messages received and not yet acknowledged."""

from fastapi import Response

from tiercel.api.context import Context, answer
from tiercel.api.models import Ended, Extend, Extended, LeaseId, LeaseList
from tiercel.api.routing import needs, new_router
from tiercel.security.tokens import Role

router = new_router()


@router.get("/leases", **needs(Role.READ), response_model=LeaseList)
async def list_leases(api: Context) -> Response:
    return answer({"leases": await api.receiver.listed()})


@router.post(
    "/leases/{lease}/acknowledge",
    **needs(Role.RECEIVE, audit="acknowledge", messages=True),
    response_model=Ended,
)
async def acknowledge_lease(api: Context, lease: LeaseId) -> Response:
    """Confirms the receive. Idempotent; 410 if the lease ended in another way."""
    return answer(await api.receiver.acknowledge(lease))


@router.post(
    "/leases/{lease}/return", **needs(Role.RECEIVE, audit="return", messages=True), response_model=Ended
)
async def return_lease(api: Context, lease: LeaseId) -> Response:
    """Returns the message to its place in the queue at once."""
    return answer(await api.receiver.give_back(lease))


@router.post("/leases/{lease}/extend", **needs(Role.RECEIVE), response_model=Extended)
async def extend_lease(api: Context, lease: LeaseId, wanted: Extend | None = None) -> Response:
    return answer(await api.receiver.extend(lease, (wanted or Extend()).lease_s))
