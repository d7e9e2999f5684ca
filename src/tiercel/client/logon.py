"""The arguments of `connect`, and the authentication that they describe."""

import os
from collections.abc import Callable
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import Any, ParamSpec, TypeVar
from uuid import UUID, uuid4

from tiercel.client.channel import Authenticate
from tiercel.client.dialing import MESSAGE_PORT, Options
from tiercel.model.errors import IllegalPropertyVariantTypeError, InvalidParameterError
from tiercel.rpc import authentication
from tiercel.rpc.client import Authentication
from tiercel.rpc.security import AuthenticationLevel, AuthenticationType

P = ParamSpec("P")
T = TypeVar("T")

_LEVELS = {
    "none": AuthenticationLevel.NONE,
    "connect": AuthenticationLevel.CONNECT,
    "packet": AuthenticationLevel.PACKET,
    "integrity": AuthenticationLevel.INTEGRITY,
    "privacy": AuthenticationLevel.PRIVACY,
}


def with_arguments_of(make: Callable[P, Options]) -> Callable[[Callable[[Options], T]], Callable[P, T]]:
    """Gives a function of `Options` the arguments that make them."""

    def decorate(connect: Callable[[Options], T]) -> Callable[P, T]:
        @wraps(connect)
        def connecting(*arguments: P.args, **options: P.kwargs) -> T:
            return connect(make(*arguments, **options))

        given, result = signature(make), signature(connect).return_annotation
        connecting.__signature__ = given.replace(return_annotation=result)  # type: ignore[attr-defined]
        return connecting

    return decorate


def connection(
    host: str,
    *,
    user: str | None = None,
    password: str | None = None,
    keytab: str | os.PathLike[str] | None = None,
    port: int | None = None,
    level: str | None = None,
    rebind: bool = False,
    workgroup: bool = True,
    rpc_cancel_minutes: float = 5,
    reconnect_s: float = 30,
    message_port: int | None = None,
    client_id: UUID | None = None,
) -> Options:
    _check(host, port, message_port, rpc_cancel_minutes, reconnect_s)
    return Options(
        host=host,
        port=port,
        authenticate=_authenticate(
            host, user, password, keytab, _level(level, is_user=user is not None or keytab is not None)
        ),
        rebind=rebind,
        workgroup=workgroup,
        rpc_timeout_s=rpc_cancel_minutes * 60,
        reconnect_s=reconnect_s,
        message_port=message_port or MESSAGE_PORT,
        client_id=client_id or uuid4(),
    )


def _check(host: Any, port: Any, message_port: Any, rpc_cancel_minutes: float, reconnect_s: float) -> None:
    if not isinstance(host, str) or not host:
        kind = type(host).__name__ if host else "nothing"
        raise IllegalPropertyVariantTypeError(
            "host", present=kind, limit="str", fix="pass a name or an address"
        )
    for name, number in (("port", port), ("message_port", message_port)):
        if number is not None and not (isinstance(number, int) and 0 < number <= 0xFFFF):
            raise InvalidParameterError(name, present=number, limit="1 to 65535")
    if not rpc_cancel_minutes > 0:
        raise InvalidParameterError("rpc_cancel_minutes", present=rpc_cancel_minutes, limit="more than 0")
    if not reconnect_s >= 0:
        raise InvalidParameterError("reconnect_s", present=reconnect_s, limit="0 or more")


def _level(name: Any, *, is_user: bool) -> AuthenticationLevel:
    """The requested level; never lowered silently."""
    if name is None:
        return AuthenticationLevel.PRIVACY if is_user else AuthenticationLevel.NONE
    level = _LEVELS.get(name.casefold()) if isinstance(name, str) else None
    if level is None:
        raise InvalidParameterError("level", present=name, limit=", ".join(_LEVELS))
    if (level is AuthenticationLevel.NONE) == is_user:
        problem = "level none is for connections without a user, and every other level needs a user"
        raise InvalidParameterError(
            "level", present=name, problem=problem, fix="pass a user and a level, or neither"
        )
    return level


def _authenticate(
    host: str,
    user: str | None,
    password: str | None,
    keytab: str | os.PathLike[str] | None,
    level: AuthenticationLevel,
) -> Authenticate:
    """Creates the authentication of one connection; SPNEGO chooses for a user@domain with a password."""
    if user is None and keytab is None:
        return lambda: None
    if (password is None) == (keytab is None):
        problem = "a user needs either a password or a keytab"
        raise InvalidParameterError("user", present=user, problem=problem, fix="pass one of the two")
    if keytab is not None:
        credentials, kind = authentication.keytab(Path(keytab), user), AuthenticationType.KERBEROS
    else:
        credentials, kind = authentication.password(str(user), str(password)), AuthenticationType.NTLM
        if authentication.kerberos_is_available() and user is not None and "@" in user:
            kind = AuthenticationType.SPNEGO

    def authenticate() -> Authentication:
        return Authentication(kind, level, authentication.initiator(credentials, host, kind, level))

    return authenticate
