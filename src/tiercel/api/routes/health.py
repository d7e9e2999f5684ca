"""Monitoring: health, readiness and metrics."""

from fastapi import APIRouter, Response

from tiercel.api import metrics
from tiercel.api.context import Context, answer
from tiercel.api.models import Health, Ready
from tiercel.api.routing import ApiRoute, needs
from tiercel.security.tokens import Role

router = APIRouter(route_class=ApiRoute)


@router.get("/health", response_model=Health)
async def get_health(api: Context) -> Response:
    """200 while the queue manager works; 503 when it has failed and must be started again."""
    has_failed = api.runner.driver.engine.has_failed
    return answer({"status": "failed" if has_failed else "ok"}, 503 if has_failed else 200)


@router.get("/ready", response_model=Ready)
async def get_ready(api: Context) -> Response:
    """200 when requests are served: the queue manager has run and committed a command."""
    if api.waits.are_over:
        return answer({"status": "stopping"}, 503)
    if api.runner.driver.engine.has_failed:
        return answer({"status": "failed"}, 503)
    await api.runner.call(lambda _: None)
    return answer({"status": "ready"})


@router.get(
    "/metrics",
    **needs(Role.READ),
    responses={
        200: {"description": "for Prometheus", "content": {"text/plain": {"schema": {"type": "string"}}}}
    },
)
async def get_metrics(api: Context) -> Response:
    text, kind = await metrics.rendered(api)
    return Response(text, media_type=kind)
