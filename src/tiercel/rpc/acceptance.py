"""How a server takes the authentication of its clients: [MS-RPCE] 3.3.1.5.2.1, 3.3.1.5.4, 3.3.3.5.3."""

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
        # Whether headers are signed too: said with the first token, for the whole connection.
        self.header_signing = False
        self.is_used = False  # whether the connection has a security context

    def take(self, auth: Verifier, *, header_signing: bool) -> Verifier | None:
        """Take the token of a bind or alter_context; what to answer it with."""
        protection = self._protections.get(auth.context_id)
        if protection is None:
            protection = self._new(auth, header_signing=header_signing)
        token = _step(protection, auth)
        # Where the provider has nothing more to say, there is no trailer at all.
        return protection.token(token) if token else None

    def take_last(self, auth: Verifier) -> None:
        """Take the token of an auth3. Nobody answers it: the first request learns how it went."""
        protection = self._protections.get(auth.context_id)
        if protection is None:
            raise Refusal(f"an auth3 came for the unknown security context {auth.context_id}")
        try:
            _step(protection, auth)
        except Refusal as refusal:
            protection.problem = str(refusal)
            return
        if not protection.context.is_complete:
            protection.problem = "the last token came, and the authentication is not complete"

    def find(self, auth: Verifier | None) -> Protection | None:
        """The security context of a request, None where the connection has none."""
        if auth is None:
            if not self._protections:
                return None
            # With level connect alone a request may leave its trailer out: 3.3.1.5.4.
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
            # In a fault, reject reason 8 (3.3.3.5.3) would read "out of memory"; this status says the same.
            problem = f"there is no provider for authentication of type {auth.auth_type}"
            code, reason = status.RPC_S_UNKNOWN_AUTHN_SERVICE, RejectReason.AUTHENTICATION_TYPE_NOT_RECOGNIZED
            raise Refusal(problem, code, reason)
        if auth.auth_level not in AuthenticationLevel.__members__.values() or auth.auth_level == 1:
            raise Refusal(f"there is no authentication at level {auth.auth_level}")
        # A client should negotiate that it has several (3.3.1.5.4); impacket has them without.
        if len(self._protections) >= self._max_contexts:
            raise Refusal(f"there are {len(self._protections)} security contexts already")
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
        problem = "an authentication changed its type or level half way"
    elif protection.context.is_complete or protection.problem or protection.legs > _LEGS_MAX:
        problem = "a token came that nobody waits for"
    try:
        if not problem:
            return protection.context.step(auth.token)
    except AuthenticationError as error:
        problem = str(error)
    raise Refusal(problem, status.ERROR_ACCESS_DENIED, RejectReason.INVALID_CHECKSUM)
