"""Who a remote reader says it is, and everything else that `connect` takes."""

from typing import Any
from uuid import UUID, uuid4

from tiercel.client.channel import Authenticate
from tiercel.client.dialing import Options
from tiercel.model.errors import (
    ComputerDoesNotSupportEncryptionError,
    IllegalPropertyVariantTypeError,
    InvalidParameterError,
)
from tiercel.rpc.security import AuthenticationLevel

_LEVELS = {
    "none": AuthenticationLevel.NONE,
    "connect": AuthenticationLevel.CONNECT,
    "packet": AuthenticationLevel.PACKET,
    "integrity": AuthenticationLevel.INTEGRITY,
    "privacy": AuthenticationLevel.PRIVACY,
}


def make_options(
    host: Any,
    *,
    user: str | None,
    password: str | None,
    port: Any,
    level: Any,
    rebind: bool,
    workgroup: bool,
    rpc_cancel_minutes: float,
    reconnect_s: float,
    client_id: UUID | None,
) -> Options:
    if not isinstance(host, str) or not host:
        kind = type(host).__name__ if host else "nothing"
        raise IllegalPropertyVariantTypeError(
            "host", present=kind, limit="str", fix="pass a name or an address"
        )
    if port is not None and not (isinstance(port, int) and 0 < port <= 0xFFFF):
        raise InvalidParameterError("port", present=port, limit="1 to 65535")
    if not rpc_cancel_minutes > 0:
        raise InvalidParameterError("rpc_cancel_minutes", present=rpc_cancel_minutes, limit="more than 0")
    if not reconnect_s >= 0:
        raise InvalidParameterError("reconnect_s", present=reconnect_s, limit="0 or more")
    return Options(
        host=host,
        port=port,
        authenticate=_authenticate(user, password, _level(level, user)),
        rebind=rebind,
        workgroup=workgroup,
        rpc_timeout_s=rpc_cancel_minutes * 60,
        reconnect_s=reconnect_s,
        client_id=client_id or uuid4(),
    )


def _level(name: Any, user: str | None) -> AuthenticationLevel:
    """The level that was asked for; none is ever lowered silently."""
    if name is None:
        return AuthenticationLevel.NONE if user is None else AuthenticationLevel.PRIVACY
    level = _LEVELS.get(name.casefold()) if isinstance(name, str) else None
    if level is None:
        raise InvalidParameterError("level", present=name, limit=", ".join(_LEVELS))
    if (level is AuthenticationLevel.NONE) != (user is None):
        problem = "a level other than none protects with the secret of a user, and none needs no user"
        raise InvalidParameterError(
            "level", present=name, problem=problem, fix="pass a user and a level, or neither"
        )
    return level


def _authenticate(user: str | None, password: str | None, level: AuthenticationLevel) -> Authenticate:
    if user is None:
        return lambda: None
    _ = password, level
    problem = "this version of Tiercel cannot authenticate as a user"
    raise ComputerDoesNotSupportEncryptionError(user, problem=problem, fix="connect without a user")
