"""The client itself: its name and its roles."""

from fastapi import Request, Response

from tiercel.api.authorization import TokenAuthorization
from tiercel.api.context import Context, answer
from tiercel.api.models import Me
from tiercel.api.routing import AUTHORIZATION, needs, new_router

router = new_router()


@router.get("/me", **needs(), response_model=Me)
async def get_me(api: Context, request: Request) -> Response:
    """The name for the audit log, and every role that the client has."""
    authorization = request.scope[AUTHORIZATION]
    roles = authorization.roles(request)
    computer = api.runner.driver.engine.queue_manager.computer_name
    is_login = isinstance(authorization, TokenAuthorization) and authorization.is_login(request)
    return answer(
        {
            "name": authorization.who(request),
            "roles": sorted(roles),
            "computer": computer,
            "logged_in": is_login,
        }
    )
