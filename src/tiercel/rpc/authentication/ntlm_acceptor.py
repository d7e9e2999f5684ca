"""The server's side of NTLM: [MS-NLMP] 3.2.5.

pyspnego's acceptor rebuilds the client's answer from its parts, and so rejects those of Samba, Wine and
impacket, which end differently; here the proof is checked over the received bytes.
"""

import hmac
import secrets
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from tiercel.model.errors import DecodeError
from tiercel.rpc.authentication import ntlm_messages as ntlm
from tiercel.rpc.authentication.context import REFUSED, Context
from tiercel.rpc.authentication.ntlm_session import KEY_SIZE, NtlmSession, hmac_md5, ntowf_v2, rc4
from tiercel.rpc.security import AuthenticationError, AuthenticationLevel, Identity
from tiercel.security.accounts import Account, Directory
from tiercel.wire.structure import encode_text

CHALLENGE_LIFETIME_S: Final = 60.0

_OFFERED = (
    ntlm.UNICODE | ntlm.REQUEST_TARGET | ntlm.SIGN | ntlm.SEAL | ntlm.NTLM | ntlm.ALWAYS_SIGN
    | ntlm.EXTENDED_SESSION_SECURITY | ntlm.VERSION | ntlm.KEY_128 | ntlm.KEY_EXCHANGE | ntlm.KEY_56
)  # fmt: skip
_SIGNED = ntlm.SIGN | ntlm.EXTENDED_SESSION_SECURITY | ntlm.KEY_128
_EPOCH_1601 = 11_644_473_600
_SHOWN = 120  # characters of a name


@dataclass(frozen=True, slots=True)
class NtlmServer:
    """Shared by all logons of a server. `report` is told why one was refused; the client never is."""

    accounts: Directory
    computer_name: str
    dns_name: str = ""
    report: Callable[[str], None] = lambda _reason: None
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], float] = time.time
    draw: Callable[[int], bytes] = secrets.token_bytes
    # The hash for unknown accounts, so that they take as much time as known ones.
    nobody: bytes = field(default_factory=lambda: secrets.token_bytes(KEY_SIZE), repr=False)

    def __call__(self, level: AuthenticationLevel) -> "NtlmAcceptor":
        return NtlmAcceptor(self, level)


class NtlmAcceptor(Context):
    def __init__(self, server: NtlmServer, level: AuthenticationLevel) -> None:
        super().__init__(level)
        self._server = server
        self._negotiate = self._challenge = self._server_challenge = self._timestamp = b""
        self._flags = 0
        self._challenged_at = 0.0

    def _step(self, token: bytes) -> bytes | None:
        if not self._challenge:
            return self._take_negotiate(token)
        self._take_authenticate(token)
        return None

    def _take_negotiate(self, token: bytes) -> bytes:
        server = self._server
        flags = ntlm.read_negotiate(token) & _OFFERED
        self._flags = flags | ntlm.NTLM | ntlm.TARGET_INFO | ntlm.TARGET_TYPE_SERVER | ntlm.REQUEST_TARGET
        self._challenged_at = server.clock()
        self._server_challenge = server.draw(8)
        self._timestamp = struct.pack("<Q", int((server.now() + _EPOCH_1601) * 10_000_000))
        name = server.computer_name.upper()[:15]
        dns_name = server.dns_name or server.computer_name
        info = {
            ntlm.AV_DOMAIN: encode_text(name),
            ntlm.AV_COMPUTER: encode_text(name),
            ntlm.AV_DNS_DOMAIN: encode_text(dns_name.partition(".")[2]),
            ntlm.AV_DNS_COMPUTER: encode_text(dns_name),
            # The timestamp makes the client send a MIC over all three messages.
            ntlm.AV_TIMESTAMP: self._timestamp,
        }
        self._negotiate = token
        self._challenge = ntlm.Challenge(self._flags, self._server_challenge, name, info).encode()
        return self._challenge

    def _take_authenticate(self, token: bytes) -> None:
        try:
            message = ntlm.Authenticate.decode(token)
        except DecodeError as problem:
            self._server.report(str(problem))
            raise AuthenticationError(REFUSED) from problem
        account = self._server.accounts.find(message.user, message.domain)
        # Compute everything before deciding, so that the timing reveals nothing.
        nt_hash = account.nt_hash if account is not None else None
        key = ntowf_v2(nt_hash or self._server.nobody, message.user, message.domain)
        proof = hmac_md5(key, self._server_challenge + message.blob)
        is_proved = hmac.compare_digest(proof, message.proof)
        flags = message.flags & self._flags
        session_key = _session_key(hmac_md5(key, message.proof), message, flags)
        mic = hmac_md5(session_key, self._negotiate + self._challenge + message.without_mic)
        has_mic = hmac.compare_digest(mic, message.mic)
        # A client without a MIC must echo our timestamp: an attacker could remove it to suppress the MIC.
        is_echo = message.av_pairs.get(ntlm.AV_TIMESTAMP) == self._timestamp
        reason = (
            "there is no such account" if account is None
            else "the account has no password" if nt_hash is None
            else "the password is wrong, or the token is of another logon" if not is_proved
            else "the messages were changed on their way" if not (has_mic if message.has_mic else is_echo)
            else self._other_reason(flags)
        )  # fmt: skip
        if account is None or reason:
            name = f"{message.domain}\\{message.user}"
            self._server.report(f"{name[:_SHOWN]!a}: {reason}")  # chosen by the peer
            raise AuthenticationError(REFUSED)
        self._identity = _identity(account)
        self.wants_mechanisms_signed = message.has_mic
        self.protector = NtlmSession(session_key, flags, is_server=True)

    def _other_reason(self, flags: int) -> str:
        if self._server.clock() - self._challenged_at > CHALLENGE_LIFETIME_S:
            return f"the answer took longer than {CHALLENGE_LIFETIME_S:.0f} s"
        wanted = _SIGNED | ntlm.SEAL if self.level.is_sealed else _SIGNED if self.level.is_signed else 0
        if flags & wanted != wanted:
            return f"the client cannot protect its calls at level {self.level.name} (flags {flags:#010x})"
        return ""


def _identity(account: Account) -> Identity:
    return Identity(account.user, account.domain, account.sid)


def _session_key(base_key: bytes, message: ntlm.Authenticate, flags: int) -> bytes:
    """ExportedSessionKey, 3.2.5.1.2; with NTLMv2 the key exchange key is the session base key (3.4.5.1)."""
    if not flags & ntlm.KEY_EXCHANGE or not flags & (ntlm.SIGN | ntlm.SEAL):
        return base_key
    return rc4(base_key).update(message.session_key[:KEY_SIZE].ljust(KEY_SIZE, b"\0"))
