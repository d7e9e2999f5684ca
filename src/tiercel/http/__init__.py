"""The queue manager over HTTP.

The daemon answers small requests on its own event loop, on a Unix socket beside the store (`daemon_app`). The
data process has the public address; it checks tokens, reads bulk from snapshots of the store, and passes the
rest on (`data_app`). `faces` is all that others need of this folder.
"""

from tiercel.server.config import Config, ConfigError
from tiercel.server.daemon import Face

__all__ = ["faces"]


def faces(config: Config) -> list[Face]:
    """What the daemon shows beside port 1801; raises `ConfigError`."""
    if not config.data.enabled:
        return []
    try:
        from tiercel.http.data_endpoint import DataEndpoint  # noqa: PLC0415  # needs packages of an extra
    except ImportError as problem:
        line = f"[data] enabled = true: {problem.name} is not installed; say pip install 'tiercel[data]'"
        raise ConfigError(line) from problem
    return [DataEndpoint(config)]
