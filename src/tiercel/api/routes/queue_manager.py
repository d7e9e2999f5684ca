"""The queue manager itself: identity, properties, totals, backup."""

import asyncio
import base64
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fastapi import Request, Response

from tiercel.admin.message_json import time_text
from tiercel.admin.queues import attributes_of, manager_properties
from tiercel.api import models
from tiercel.api.authorization import OwnerAuthorization
from tiercel.api.context import Api, Context, about, answer
from tiercel.api.routing import AUTHORIZATION, needs, new_router
from tiercel.engine.attributes import SETTABLE_OF_MANAGER
from tiercel.engine.engine import Engine
from tiercel.message_security.exchange_keys import ExchangeKeyError
from tiercel.model.errors import AccessDeniedError, ServiceNotAvailableError
from tiercel.security.tokens import Role
from tiercel.server.backup import make_backup_apart

router = new_router()


def _told(api: Api, engine: Engine) -> dict[str, Any]:
    manager, daemon = engine.queue_manager, api.daemon
    states = [each for each in engine.queues.all() if not engine.queues.is_internal(each)]
    states += [each.journal for each in states if each.journal is not None]
    return {
        "name": manager.computer_name,
        "qualified_name": manager.qualified_computer_name,
        "guid": str(manager.identifier),
        "version": version("tiercel"),
        "data": str(api.runner.driver.directory),
        "is_running": daemon is not None,
        "started": time_text(int(api.started)),
        "addresses": [] if daemon is None else [str(each) for each in daemon.endpoints],
        "properties": manager_properties(engine),
        "totals": {
            "queues": sum(engine.queues.is_visible(each) for each in states),
            "messages": sum(each.count for each in states),
            "bytes": sum(each.size_bytes for each in states),
        },
    }


@router.get("/queue-manager", **needs(Role.READ), response_model=models.QueueManager)
async def get_queue_manager(api: Context) -> Response:
    return answer(await api.runner.call(lambda engine: _told(api, engine)))


@router.patch(
    "/queue-manager",
    **needs(Role.ADMIN, audit="change queue manager"),
    response_model=models.QueueManager,
)
async def change_queue_manager(
    api: Context, request: Request, properties: models.ManagerProperties
) -> Response:
    changes = properties.model_dump(exclude_unset=True)
    about(request, changes=", ".join(f"{name}={value}" for name, value in changes.items()))
    attributes = attributes_of(changes, SETTABLE_OF_MANAGER)

    def command(engine: Engine) -> dict[str, Any]:
        engine.administration.set_properties(**attributes)
        return _told(api, engine)

    return answer(await api.runner.call(command))


@router.get("/queue-manager/keys", **needs(Role.READ), response_model=models.PublicKeys)
async def get_keys(api: Context) -> Response:
    """The public keys that others encrypt with for this queue manager; they are made if there are none.

    `tiercel trust fetch` reads them.
    """
    driver = api.runner.driver
    try:
        ring = await asyncio.to_thread(driver.exchange_keys.ring)  # making keys takes some tenths of a second
    except ExchangeKeyError as problem:
        raise ServiceNotAvailableError(
            "exchange keys", problem=str(problem), fix="correct the file"
        ) from None
    manager = driver.engine.queue_manager
    return answer(
        {
            "guid": str(manager.identifier),
            "name": manager.computer_name,
            "keys": base64.b64encode(ring.published().encode()).decode(),
            "fingerprint": ring.fingerprint,
        }
    )


@router.post("/backup", **needs(Role.ADMIN, audit="backup"), response_model=models.BackupMade)
async def make_backup(api: Context, request: Request, wanted: models.Backup) -> Response:
    """Copies the store while it is in use, and verifies the copy. Only over the Unix socket, because the
    destination is a path of this computer.
    """
    if not isinstance(request.scope[AUTHORIZATION], OwnerAuthorization):
        problem = "backups are made over the Unix socket only"
        raise AccessDeniedError("backup", problem=problem, fix="run `tiercel backup` on the computer itself")
    if api.daemon is None:
        problem = "no daemon runs"
        raise ServiceNotAvailableError("backup", problem=problem, fix="run `tiercel backup --data DIR`")
    about(request, subject=wanted.directory)
    made = await make_backup_apart(api.runner.driver.directory, Path(wanted.directory))
    api.runner.driver.forget_dead_readers()
    return answer(asdict(made))
