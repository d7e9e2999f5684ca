r"""`tiercel.connect`: the queues of another queue manager, by what its address says.

tiercel.connect("unix:data")                        a daemon on this computer, by its data directory
tiercel.connect("http://host:8801", token="...")    a daemon with [api] enabled
tiercel.connect("host", user=r"DOMAIN\user", ...)   any queue manager, Windows too, as a remote reader
"""

from typing import TYPE_CHECKING, Any, overload

from tiercel.client.opening import Opening
from tiercel.model.errors import InvalidParameterError

if TYPE_CHECKING:  # each is loaded only where it is needed: one loads an HTTP client, the other RPC
    import os
    from uuid import UUID

    from tiercel.client.daemon_aio import AsyncDaemonQueueManager
    from tiercel.client.daemon_sync import DaemonQueueManager
    from tiercel.client.remote import RemoteQueueManager
    from tiercel.client.remote_aio import AsyncRemoteQueueManager


def is_daemon(address: object) -> bool:
    """Whether an address is that of a daemon: `unix:DIRECTORY`, `http://HOST:PORT` or `https://HOST:PORT`."""
    return isinstance(address, str) and address.startswith(("unix:", "http://", "https://"))


@overload
def connect(address: str, /, *, token: str | None) -> "DaemonQueueManager": ...
@overload
def connect(  # only the text of the address tells which of the two it is
    address: str, /
) -> "RemoteQueueManager | DaemonQueueManager": ...
@overload
def connect(
    host: str,
    *,
    user: str | None = None,
    password: str | None = None,
    keytab: "str | os.PathLike[str] | None" = None,
    port: int | None = None,
    level: str | None = None,
    rebind: bool = False,
    workgroup: bool = True,
    rpc_cancel_minutes: float = 5,
    reconnect_s: float = 30,
    message_port: int | None = None,
    client_id: "UUID | None" = None,
) -> "RemoteQueueManager": ...
def connect(host: str, **options: Any) -> "RemoteQueueManager | DaemonQueueManager":
    r"""Connects to another queue manager, to read its queues and to send to them.

    `unix:DIRECTORY` is a daemon on this computer, `http://HOST:8801` one with [api] enabled, which takes a
    `token`. Anything else is the name or address of a computer, with Windows or Tiercel, that is read over
    MS-MQRR: see `tiercel.client.remote.connect` for its options.
    """
    if is_daemon(host):
        from tiercel.client.api_client import ApiClient  # noqa: PLC0415
        from tiercel.client.daemon_sync import DaemonQueueManager  # noqa: PLC0415

        api = ApiClient(host, _token(options))
        try:
            api.start()
        except BaseException:
            api.close()
            raise
        return DaemonQueueManager(api)
    from tiercel.client import remote  # noqa: PLC0415

    return remote.connect(host, **_without_token(options))


@overload
def connect_on_loop(address: str, /, *, token: str | None) -> "Opening[AsyncDaemonQueueManager]": ...
@overload
def connect_on_loop(address: str, /) -> "Opening[AsyncRemoteQueueManager | AsyncDaemonQueueManager]": ...
@overload
def connect_on_loop(
    host: str,
    *,
    user: str | None = None,
    password: str | None = None,
    keytab: "str | os.PathLike[str] | None" = None,
    port: int | None = None,
    level: str | None = None,
    rebind: bool = False,
    workgroup: bool = True,
    rpc_cancel_minutes: float = 5,
    reconnect_s: float = 30,
    message_port: int | None = None,
    client_id: "UUID | None" = None,
) -> "Opening[AsyncRemoteQueueManager]": ...
def connect_on_loop(host: str, **options: Any) -> "Opening[Any]":
    """Connects to another queue manager; addresses and options are those of `tiercel.connect`.

    `async with tiercel.aio.connect(...) as qm` closes it at the end of the block; `await` returns it.
    """
    return Opening(_connect(host, options))


async def _connect(host: str, options: dict[str, Any]) -> "AsyncRemoteQueueManager | AsyncDaemonQueueManager":
    if is_daemon(host):
        from tiercel.client.api_client import AsyncApiClient  # noqa: PLC0415
        from tiercel.client.daemon_aio import AsyncDaemonQueueManager  # noqa: PLC0415

        api = AsyncApiClient(host, _token(options))
        try:
            await api.start()
        except BaseException:
            await api.close()
            raise
        return AsyncDaemonQueueManager(api)
    from tiercel.client.logon import connection  # noqa: PLC0415
    from tiercel.client.remote_aio import AsyncRemoteQueueManager  # noqa: PLC0415

    manager = AsyncRemoteQueueManager(connection(host, **_without_token(options)))
    await manager.start()
    return manager


def _token(options: dict[str, Any]) -> str | None:
    token = options.pop("token", None)
    if options:
        name = next(iter(options))
        raise InvalidParameterError(
            name, problem="a daemon takes only `token`", fix="leave it out, or pass the name of a computer"
        )
    if token is not None and (not isinstance(token, str) or not token.isascii() or not token.strip()):
        raise InvalidParameterError("token", problem="not a valid token", fix="`tiercel token add` makes one")
    return token and token.strip()


def _without_token(options: dict[str, Any]) -> dict[str, Any]:
    if "token" in options:
        fix = "pass unix:DIRECTORY or http://HOST:8801, or a user and a password"
        raise InvalidParameterError("token", problem="it is for the HTTP API of a daemon", fix=fix)
    return options
