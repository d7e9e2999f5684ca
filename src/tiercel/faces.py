"""What the daemon serves beside port 1801: the HTTP API and, if it is enabled, the data endpoint."""

from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from tiercel.admin.waits import Waits
from tiercel.api.endpoint import ApiEndpoint
from tiercel.data.endpoint import DataEndpoint
from tiercel.server.config import Config, ConfigError
from tiercel.server.daemon import Face

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from tiercel.admin.runner import Runner

__all__ = ["faces"]

_EXTRA: Final = ("numpy", "pyarrow")  # required by the data process; the daemon imports neither


def faces(config: Config) -> list[Face]:
    """Raises `ConfigError`."""
    api = ApiEndpoint(config, _data_routes)
    if not config.data.enabled:
        return [api]
    for package in _EXTRA:
        if not _is_there(package):
            line = f"[data] enabled = true: {package} is not installed; run pip install 'tiercel[data]'"
            raise ConfigError(line)
    return [api, DataEndpoint(config)]


def _data_routes(runner: "Runner", waits: Waits) -> "ASGIApp":
    """For the data process, which asks the daemon through its Unix socket."""
    from tiercel.data.daemon_app import DaemonApp  # noqa: PLC0415  # not before the first request

    return DaemonApp(runner, waits).app


def _is_there(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ValueError:  # replaced by something else in sys.modules
        return False
