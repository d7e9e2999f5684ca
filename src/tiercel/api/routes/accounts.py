"""The accounts that access lists may name."""

from fastapi import Response

from tiercel.api.context import Context, answer
from tiercel.api.models import AccountList
from tiercel.api.routing import needs, new_router
from tiercel.security.tokens import Role

router = new_router()


@router.get("/accounts", **needs(Role.ADMIN), response_model=AccountList)
async def list_accounts(api: Context) -> Response:
    """Names and SIDs of the file in `[accounts]`, which `tiercel user` manages."""
    accounts = [{"name": str(each), "sid": str(each.sid)} for each in api.accounts]
    return answer({"accounts": accounts})
