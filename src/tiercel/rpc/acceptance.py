"""The server's side of authentication: [MS-RPCE] 3.3.1.5.2.1, 3.3.1.5.4, 3.3.3.5.3."""

from typing import Final

from tiercel.rpc import status
from tiercel.rpc.pdu import RejectReason, Verifier
from tiercel.rpc.protection import Protection
from tiercel.rpc.security import AuthenticationError, AuthenticationLevel, Providers

_LEGS_MAX: Final = 10  # tokens of one authentication; NTLM takes 2, Kerberos in SPNEGO at most 4


class Refusal(Exception):  # noqa: N818 - an answer to the peer, not a mistake
    """Why a connection ends: `status` goes into a fault, `reason` into a bind_nak."""

    def __init__(
        self,
        problem: str,
        code: int = status.NCA_S_PROTO_ERROR,
        reason: RejectReason = RejectReason.NOT_SPECIFIED,
    ) -> None:
        super().__init__(problem)
        self.status = code
        self.reason = reason


class Acceptance:
    """The security contexts of one connection, by the number that the client gave them."""

    def __init__(self, providers: Providers, max_contexts: int) -> None:
        self._providers = providers
        self._max_contexts = max_contexts
        self._protections: dict[int, Protection] = {}
        # Whether headers are signed too: decided by the first token, for the whole connection.
        self.header_signing = False
        self.is_used = False  # whether the connection has a security context

    @property
    def is_logged_on(self) -> bool:
        """Whether the peer has proved an identity, other than the anonymous one."""
        contexts = [each.context for each in self._protections.values() if not each.problem]
        return any(each.is_complete and each.identity is not None and each.identity.sid for each in contexts)

    def take(self, auth: Verifier, *, header_signing: bool) -> Verifier | None:
        """Take the token of a bind or alter_context; the token to answer with. [MS-RPCE] 3.3.1.5.2.1."""
        protection = self._protections.get(auth.context_id)
        if protection is None:
            protection = self._new(auth, header_signing=header_signing)
        token = _step(protection, auth)
        # Without a token from the provider there is no trailer.
        return protection.token(token) if token else None

    def take_last(self, auth: Verifier) -> None:
        """Take the token of an auth3, which has no answer: a failure is reported to the first request."""
        protection = self._protections.get(auth.context_id)
        if protection is None:
            raise Refusal(f"an auth3 came for the unknown security context {auth.context_id}")
        try:
            _step(protection, auth)
        except Refusal as refusal:
            protection.problem = str(refusal)
            return
        if not protection.context.is_complete:
            protection.problem = "the authentication is not complete after the last token"

    def find(self, auth: Verifier | None) -> Protection | None:
        """The security context of a request; None if the connection has none. [MS-RPCE] 3.3.1.5.4."""
        if auth is None:
            if not self._protections:
                return None
            # At level connect a request may omit the trailer: 3.3.1.5.4.
            protection = next(iter(self._protections.values()))
            if len(self._protections) > 1 or protection.level.is_signed:
                raise Refusal("a request came without authentication", status.ERROR_ACCESS_DENIED)
        else:
            found = self._protections.get(auth.context_id)
            if found is None or not found.matches(auth):
                raise Refusal("a request names an unknown security context")
            protection = found
        if protection.problem or not protection.context.is_complete:
            problem = protection.problem or "a request came before the authentication was complete"
            raise Refusal(problem, status.ERROR_ACCESS_DENIED)
        return protection

    def _new(self, auth: Verifier, *, header_signing: bool) -> Protection:
        accept = self._providers.get(auth.auth_type)
        if accept is None:
            # Reject reason 8 (3.3.3.5.3) means "out of memory" in a fault, so that has a status of its own.
            problem = f"no provider for authentication type {auth.auth_type}"
            code, reason = status.RPC_S_UNKNOWN_AUTHN_SERVICE, RejectReason.AUTHENTICATION_TYPE_NOT_RECOGNIZED
            raise Refusal(problem, code, reason)
        if auth.auth_level not in AuthenticationLevel.__members__.values() or auth.auth_level == 1:
            raise Refusal(f"{auth.auth_level} is not a valid authentication level")
        # Clients should negotiate several contexts first (3.3.1.5.4); impacket does not.
        if len(self._protections) >= self._max_contexts:
            raise Refusal(f"the connection already has {len(self._protections)} security contexts")
        if not self._protections:
            self.header_signing = header_signing
        level = AuthenticationLevel(auth.auth_level)
        context = accept(level.effective)
        protection = Protection(auth.auth_type, level, auth.context_id, context, self.header_signing)
        self._protections[auth.context_id] = protection
        self.is_used = True
        return protection


def _step(protection: Protection, auth: Verifier) -> bytes | None:
    protection.legs += 1
    problem = ""
    if not protection.matches(auth):
        problem = "the type or level changed during the authentication"
    elif protection.context.is_complete or protection.problem or protection.legs > _LEGS_MAX:
        problem = "unexpected authentication token"
    try:
        if not problem:
            return protection.context.step(auth.token)
    except AuthenticationError as error:
        problem = str(error)
    raise Refusal(problem, status.ERROR_ACCESS_DENIED, RejectReason.INVALID_CHECKSUM)
