"""The client's side of every mechanism: pyspnego makes the tokens.

NTLM messages are protected by the same code as on the server, at a fraction of pyspnego's cost.
"""

from collections.abc import Sequence
from typing import Final

import spnego

from tiercel.rpc.authentication import ntlm_messages as ntlm
from tiercel.rpc.authentication.context import Context
from tiercel.rpc.authentication.kerberos import WANTED, GssProtector
from tiercel.rpc.authentication.ntlm_session import NtlmSession
from tiercel.rpc.authentication.spnego_tokens import NegTokenInit, NegTokenResp, decode_token
from tiercel.rpc.security import AuthenticationError, AuthenticationLevel, AuthenticationType

_PROTOCOLS: Final = {
    AuthenticationType.NTLM: "ntlm",
    AuthenticationType.SPNEGO: "negotiate",
    AuthenticationType.KERBEROS: "kerberos",
}
_SIGNED: Final = ntlm.SIGN | ntlm.EXTENDED_SESSION_SECURITY | ntlm.KEY_128

Credentials = Sequence[spnego.Credential]


class Initiator(Context):
    """Logs on to `host` with one of `credentials`: passwords, NT hashes, keytabs or ticket caches."""

    def __init__(
        self,
        kind: AuthenticationType,
        level: AuthenticationLevel,
        credentials: Credentials,
        host: str,
        service: str = "host",
    ) -> None:
        super().__init__(level)
        if kind not in _PROTOCOLS:
            raise ValueError(f"cannot log on with {kind.name}")
        self._host = host
        self._is_wrapped = kind is AuthenticationType.SPNEGO
        self._has_signed = self._has_verified = False
        self._flags = 0
        try:
            self._client = spnego.client(
                list(credentials),
                hostname=host,
                service=service,
                protocol=_PROTOCOLS[kind],
                context_req=WANTED,
            )
        except Exception as problem:  # the libraries raise arbitrary exceptions
            raise AuthenticationError(f"cannot log on to {host}: {problem}") from problem

    def _step(self, token: bytes) -> bytes | None:
        try:
            answer = self._client.step(token or None)
            is_complete = self._client.complete
            is_ntlm = self._client.negotiated_protocol == "ntlm"
        except Exception as problem:
            why = "the server's answer cannot be used" if token else f"cannot log on to {self._host}"
            raise AuthenticationError(f"{why}: {problem}") from problem
        self._watch(token, answer)
        if is_complete:
            self.protector = self._ntlm() if is_ntlm else self._kerberos()
        return answer

    def _watch(self, token: bytes, answer: bytes | None) -> None:
        """Record what the tokens negotiated: NTLM flags, and SPNEGO signatures."""
        sent = answer or b""
        if self._is_wrapped:
            received = decode_token(token) if token else None
            self._has_verified |= received is not None and received.mech_list_mic is not None
            message = decode_token(sent) if sent else None
            self._has_signed |= message is not None and message.mech_list_mic is not None
            sent = _inside(message)
        if sent.startswith(ntlm.SIGNATURE) and ntlm.message_type(sent) == ntlm.AUTHENTICATE:
            self._flags = ntlm.Authenticate.decode(sent).flags  # also checks that it is NTLMv2

    def _ntlm(self) -> NtlmSession:
        wanted = _SIGNED | ntlm.SEAL if self.level.is_sealed else _SIGNED if self.level.is_signed else 0
        if self._flags & wanted != wanted:
            problem = (
                f"the server does not offer what level {self.level.name} needs (flags {self._flags:#010x})"
            )
            raise AuthenticationError(problem)
        self._check_signatures()
        session = NtlmSession(self._client.session_key, self._flags, is_server=False)
        session.skip_mechanisms(sent=self._has_signed, received=self._has_verified)
        return session

    def _kerberos(self) -> GssProtector:
        self._check_signatures()
        try:
            return GssProtector(self._client, self.level)
        except Exception as problem:
            raise AuthenticationError(f"Kerberos gave no keys: {problem}") from problem

    def _check_signatures(self) -> None:
        if self._has_signed and not self._has_verified:
            raise AuthenticationError("the server did not sign the list of mechanisms")


def _inside(message: NegTokenInit | NegTokenResp | None) -> bytes:
    if isinstance(message, NegTokenInit):
        return message.mech_token or b""
    return b"" if message is None else message.response_token or b""
