"""The description of the API: for programs, and as a page for people that needs nothing from elsewhere."""

from importlib.resources import files
from typing import Final

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse

from tiercel.api.context import answer
from tiercel.api.routing import ApiRoute

router = APIRouter(route_class=ApiRoute)

# All that the page may do is ask the server that it came from.
_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'"
)


@router.get("/openapi.json", include_in_schema=False)
async def get_openapi(request: Request) -> Response:
    return answer(request.app.openapi())


@router.get("/docs", include_in_schema=False)
async def get_page() -> Response:
    text = files("tiercel.api.routes").joinpath("openapi.html").read_text("utf-8")
    return HTMLResponse(text, headers={"Content-Security-Policy": _POLICY})
