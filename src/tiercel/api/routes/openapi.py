"""The OpenAPI description, and a self-contained page that shows it."""

from importlib.resources import files
from typing import Final

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse

from tiercel.api.context import answer
from tiercel.api.routing import ApiRoute

router = APIRouter(route_class=ApiRoute)

# The page may only connect to its own server.
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
