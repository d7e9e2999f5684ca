"""The server's side of SPNEGO: [RFC4178] 4 and 5, [MS-SPNG] 3.3."""

from collections.abc import Callable, Mapping
from typing import Final

from tiercel.rpc.authentication import ntlm_messages as ntlm
from tiercel.rpc.authentication import spnego_tokens as tokens
from tiercel.rpc.authentication.context import REFUSED, Context
from tiercel.rpc.authentication.spnego_tokens import NegState, NegTokenInit, NegTokenResp
from tiercel.rpc.security import AuthenticationError, AuthenticationLevel

Mechanisms = Mapping[bytes, Callable[[AuthenticationLevel], Context]]

_SAME: Final = {tokens.MS_KERBEROS_OID: tokens.KERBEROS_OID}


class SpnegoAcceptor(Context):
    """Chooses the first supported mechanism of the client's list, and delegates the rest to it."""

    def __init__(self, mechanisms: Mechanisms, level: AuthenticationLevel) -> None:
        super().__init__(level)
        self._mechanisms = mechanisms
        self._chosen: Context | None = None
        self._is_bare = False
        self._list = b""
        self._needs_mic = False

    @property
    def _inner(self) -> Context:
        if self._chosen is None:
            raise AuthenticationError("the authentication is not complete")
        return self._chosen

    def _step(self, token: bytes) -> bytes | None:
        if self._is_bare or (self._chosen is None and token.startswith(ntlm.SIGNATURE)):
            return self._step_bare(token)
        message = tokens.decode_token(token)
        if self._chosen is None:
            if not isinstance(message, NegTokenInit):
                raise AuthenticationError(REFUSED)
            return self._begin(message)
        if not isinstance(message, NegTokenResp) or message.state == NegState.REJECT:
            raise AuthenticationError(REFUSED)
        return self._go_on(message)

    def _step_bare(self, token: bytes) -> bytes | None:
        """NTLM without SPNEGO around it: Wine sends it, and Windows accepts it."""
        if self._chosen is None:
            self._choose(tokens.NTLM_OID)
            self._is_bare = True
        answer = self._inner.step(token)
        self._take_over()
        return answer

    def _choose(self, oid: bytes) -> None:
        make = self._mechanisms.get(_SAME.get(oid, oid))
        if make is None:
            raise AuthenticationError(REFUSED)
        self._chosen = make(self.level)

    def _begin(self, message: NegTokenInit) -> bytes:
        known = (oid for oid in message.mechanisms if _SAME.get(oid, oid) in self._mechanisms)
        oid = next(known, None)
        if oid is None:
            raise AuthenticationError("the client and this server have no way to log on in common")
        self._choose(oid)
        self._list = message.mechanism_list
        # The token belongs to the client's first choice; any other choice requires a signed list.
        is_first = _SAME.get(oid, oid) == _SAME.get(message.mechanisms[0], message.mechanisms[0])
        self._needs_mic = not is_first
        answer = None
        if is_first and message.mech_token is not None:
            answer = self._inner.step(message.mech_token)
        if self._inner.is_complete:
            return self._finish(answer, message.mech_list_mic, oid)
        state = NegState.ACCEPT_INCOMPLETE if is_first else NegState.REQUEST_MIC
        return NegTokenResp(state, oid, answer).encode()

    def _go_on(self, message: NegTokenResp) -> bytes:
        answer = None
        if not self._inner.is_complete:
            answer = self._inner.step(message.response_token or b"")
        if self._inner.is_complete:
            return self._finish(answer, message.mech_list_mic, None)
        return NegTokenResp(NegState.ACCEPT_INCOMPLETE, None, answer).encode()

    def _finish(self, answer: bytes | None, mic: bytes | None, oid: bytes | None) -> bytes:
        ours = None
        protector = self._inner.protector
        if mic is not None and protector is not None:
            protector.verify_mechanisms(self._list, mic)
            ours = protector.sign_mechanisms(self._list)
        elif self._needs_mic or self._inner.wants_mechanisms_signed:
            raise AuthenticationError(REFUSED)
        self._take_over()
        return NegTokenResp(NegState.ACCEPT_COMPLETED, oid, answer, ours).encode()

    def _take_over(self) -> None:
        self.protector, self._identity = self._inner.protector, self._inner.identity
