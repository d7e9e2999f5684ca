"""The queue manager over HTTP.

The daemon answers small requests on its own event loop: the HTTP API (`api`), on a Unix socket beside the
store and on TCP, and the requests of the data process (`daemon_app`). That one has a public address of its
own; it checks tokens, reads bulk from snapshots of the store, and passes the rest on (`data_app`). `faces` is
all that the daemon needs of this folder, `local.serving` all that the command line needs for a store that
nobody runs.
"""

from importlib.util import find_spec
from typing import Final

from tiercel.http.api_endpoint import ApiEndpoint
from tiercel.http.data_endpoint import DataEndpoint
from tiercel.server.config import Config, ConfigError
from tiercel.server.daemon import Face

__all__ = ["faces"]

_EXTRA: Final = ("numpy", "pyarrow")  # what the data process needs; the daemon itself imports neither


def faces(config: Config) -> list[Face]:
    """What the daemon shows beside port 1801; raises `ConfigError`."""
    api = ApiEndpoint(config)
    if not config.data.enabled:
        return [api]
    for package in _EXTRA:
        if not _is_there(package):
            line = f"[data] enabled = true: {package} is not installed; say pip install 'tiercel[data]'"
            raise ConfigError(line)
    return [api, DataEndpoint(config)]


def _is_there(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ValueError:  # somebody has put something else in its place
        return False
