"""Access: the tokens of the API, their roles and their last use; revoking one."""

import asyncio
from typing import Annotated
from urllib.parse import unquote

from fastapi import Path, Request, Response
from pydantic import AfterValidator

from tiercel.admin.message_json import time_text
from tiercel.api.context import Context, answer
from tiercel.api.models import AccessTokenList, Revoked
from tiercel.api.routing import AUTHORIZATION, needs, new_router
from tiercel.model.errors import IllegalOperationError, TokenNotFoundError
from tiercel.security.tokens import Role, TokenError, Tokens
from tiercel.server import token_file

router = new_router()

TokenName = Annotated[str, Path(max_length=200, description="the name of a token"), AfterValidator(unquote)]


@router.get("/tokens", **needs(Role.ADMIN), response_model=AccessTokenList)
async def list_tokens(api: Context, request: Request) -> Response:
    """Names and roles; the tokens themselves are known to nobody but their owners.

    Uses of the data endpoint are not counted.
    """
    own = request.state.who
    tokens = [
        {
            "name": use.bearer.name,
            "roles": sorted(use.bearer.roles),
            "last_used": None if use.last_used is None else time_text(int(use.last_used)),
            "logins": use.logins,
            "is_own": _is_token(api, request) and use.bearer.name == own,
        }
        for use in api.tokens.uses()
    ]
    return answer({"file": None if api.tokens.file is None else str(api.tokens.file), "tokens": tokens})


@router.delete("/tokens/{token}", **needs(Role.ADMIN, audit="revoke token"), response_model=Revoked)
async def revoke_token(api: Context, request: Request, token: TokenName) -> Response:
    """Removes a token from the file. It ends at once, and with it every login.

    Not the one of the request itself: so a token with the role admin always remains.
    """
    file = api.tokens.file
    if file is None or all(use.bearer.name != token for use in api.tokens.uses()):
        raise TokenNotFoundError(f"token {token}")
    if _is_token(api, request) and token == request.state.who:
        problem = "the request itself uses it"
        fix = "revoke it with another one, or with `tiercel token rm` on the computer"
        raise IllegalOperationError(f"token {token}", problem=problem, fix=fix)

    def edit(tokens: Tokens) -> Tokens:
        bearer = tokens.get(token)
        if bearer is None:
            raise TokenNotFoundError(f"token {token}")
        return tokens.without(bearer)

    await api.runner.call(lambda _engine: None)  # the audit line comes before the change
    try:
        await asyncio.to_thread(token_file.change, file, edit)  # it waits for other editors, and for the disk
    except TokenError as problem:
        raise IllegalOperationError(
            f"token {token}", problem=str(problem), fix="let the daemon write the file and its folder"
        ) from problem
    return answer({"revoked": token})


def _is_token(api: Context, request: Request) -> bool:
    """Whether the client has a token; the owner of the store needs none."""
    return request.scope[AUTHORIZATION] is api.tokens
