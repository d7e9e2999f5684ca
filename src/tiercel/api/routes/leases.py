"""Leases: messages received and not yet acknowledged."""

from fastapi import Request, Response

from tiercel.api.context import Context, answer
from tiercel.api.models import Ended, Extend, Extended, LeaseId, LeaseList
from tiercel.api.routing import needs, new_router
from tiercel.security.tokens import Role

router = new_router()


def _client(request: Request) -> str | None:
    """The client whose leases the request may end; None for an administrator, who may end all."""
    return None if request.state.is_admin else request.state.who


@router.get("/leases", **needs(Role.READ), response_model=LeaseList)
async def list_leases(api: Context, request: Request) -> Response:
    """All leases. The ids of other clients' leases are null, except for administrators."""
    return answer({"leases": await api.receiver.listed(_client(request))})


@router.post(
    "/leases/{lease}/acknowledge",
    **needs(Role.RECEIVE, audit="acknowledge", messages=True),
    response_model=Ended,
)
async def acknowledge_lease(api: Context, request: Request, lease: LeaseId) -> Response:
    """Confirms the receive. Idempotent; 410 if the lease ended in another way, 404 if it is unknown.

    A lease belongs to the token that took it: other tokens, except administrators, get 403.
    """
    return answer(await api.receiver.acknowledge(lease, _client(request)))


@router.post(
    "/leases/{lease}/return", **needs(Role.RECEIVE, audit="return", messages=True), response_model=Ended
)
async def return_lease(api: Context, request: Request, lease: LeaseId) -> Response:
    """Returns the message to its place in the queue at once."""
    return answer(await api.receiver.give_back(lease, _client(request)))


@router.post("/leases/{lease}/extend", **needs(Role.RECEIVE), response_model=Extended)
async def extend_lease(
    api: Context, request: Request, lease: LeaseId, wanted: Extend | None = None
) -> Response:
    return answer(await api.receiver.extend(lease, (wanted or Extend()).lease_s, _client(request)))
