"""Redirections of messages over HTTP."""

from typing import Annotated

from fastapi import Query, Request, Response

from tiercel.admin import redirections
from tiercel.api import models
from tiercel.api.context import Context, about, answer
from tiercel.api.routing import needs, new_router
from tiercel.security.tokens import Role

router = new_router()


@router.get("/redirections", **needs(Role.READ), response_model=models.RedirectionList)
async def list_redirections(api: Context) -> Response:
    """Redirections of messages over HTTP, and whether messages to other computers are passed on."""
    return answer(await api.runner.call(redirections.all_redirections))


@router.patch(
    "/redirections",
    **needs(Role.ADMIN, audit="change redirections"),
    response_model=models.RedirectionList,
)
async def change_redirections(
    api: Context, request: Request, settings: models.RedirectionSettings
) -> Response:
    """Sets what is given, and leaves the rest."""
    changes = settings.model_dump(exclude_unset=True)
    about(request, changes=", ".join(f"{name}={value}" for name, value in changes.items()))
    return answer(await api.runner.call(lambda engine: redirections.change(engine, changes)))


@router.post("/redirections", **needs(Role.ADMIN, audit="add redirection"), response_model=models.Redirection)
async def add_redirection(api: Context, request: Request, new: models.NewRedirection) -> Response:
    """Adds a redirection after the others of its kind; one with the same pattern is replaced."""
    about(request, subject=f"{new.kind} {new.pattern}", changes=new.to or "")
    return answer(
        await api.runner.call(lambda engine: redirections.add(engine, new.kind, new.pattern, new.to or ""))
    )


@router.delete(
    "/redirections", **needs(Role.ADMIN, audit="remove redirection"), response_model=models.Redirection
)
async def remove_redirection(
    api: Context,
    request: Request,
    kind: Annotated[models.RedirectionKind, Query()],
    pattern: Annotated[str, Query(max_length=2048)],
) -> Response:
    about(request, subject=f"{kind} {pattern}")
    return answer(await api.runner.call(lambda engine: redirections.remove(engine, kind, pattern)))
