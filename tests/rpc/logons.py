"""A server with two accounts, and clients that log on to it."""

from collections.abc import Callable, Iterator

from tiercel.rpc.authentication import NtlmServer, acceptors, initiator, password
from tiercel.rpc.security import (
    AuthenticationError,
    AuthenticationLevel,
    AuthenticationType,
    SecurityContext,
)
from tiercel.security.accounts import Account, Accounts
from tiercel.security.nt_hash import nt_hash

USER, SECRET = "EXAMPLE\\reader", "Süß & geheim"
ACCOUNTS = Accounts(
    [
        Account("reader", "EXAMPLE", None, nt_hash(SECRET)),
        Account("local", "", None, nt_hash("lokal")),
        Account("kim", "EXAMPLE.ORG"),
    ]
)
KINDS = (AuthenticationType.NTLM, AuthenticationType.SPNEGO)
LEVELS = (
    AuthenticationLevel.CONNECT,
    AuthenticationLevel.PACKET,
    AuthenticationLevel.INTEGRITY,
    AuthenticationLevel.PRIVACY,
)
PRIVACY = AuthenticationLevel.PRIVACY

Change = Callable[[int, bytes], bytes]


class Logons:
    """Makes both sides of a logon; the clock stands until it is moved."""

    def __init__(self) -> None:
        self.reasons: list[str] = []
        self.time = 1000.0
        self.server = NtlmServer(
            ACCOUNTS, "linux-host", "linux-host.example.org", self.reasons.append, lambda: self.time
        )
        self.providers = acceptors(self.server)

    def pair(
        self,
        kind: AuthenticationType = AuthenticationType.NTLM,
        level: AuthenticationLevel = PRIVACY,
        user: str = USER,
        secret: str = SECRET,
    ) -> tuple[SecurityContext, SecurityContext]:
        """The client's side and the server's."""
        return initiator(password(user, secret), "linux-host", kind, level), self.providers[kind](level)


def tokens(
    client: SecurityContext, server: SecurityContext, change: Change = lambda _leg, token: token
) -> Iterator[bytes]:
    """The tokens as they were received, until both sides are done."""
    sides, token, leg = (client, server), b"", 0
    while True:
        answer = sides[leg % 2].step(token)
        if answer is None:
            return
        token = change(leg, answer)
        yield token
        leg += 1


def log_on(
    client: SecurityContext, server: SecurityContext, change: Change = lambda _leg, token: token
) -> None:
    for _ in tokens(client, server, change):
        pass


def exchange(client: SecurityContext, server: SecurityContext, level: AuthenticationLevel) -> None:
    """A few fragments each way."""
    header, trailer = b"header", b"trailer"
    for number in range(5):
        stub = bytes([number]) * (number * 7)
        for sender, receiver in ((client, server), (server, client)):
            if level.is_sealed:
                sealed, signature = sender.wrap(header, stub, trailer)
                assert len(sealed) == len(stub)
                assert receiver.unwrap(header, sealed, trailer, signature) == stub
            else:
                signature = sender.sign(header, stub, trailer)
                receiver.verify(header, stub, trailer, signature)
            assert len(signature) == sender.signature_size == receiver.signature_size


def works(client: SecurityContext, server: SecurityContext, change: Change) -> bool:
    """Whether a logon comes to its end and fragments pass, when the tokens are changed on their way."""
    try:
        log_on(client, server, change)
        if not (client.is_complete and server.is_complete):
            return False
        exchange(client, server, PRIVACY)
    except AuthenticationError:
        return False
    return True


def init(mechanisms: list[bytes], token: bytes | None = None) -> bytes:
    """A NegTokenInit."""

    def tlv(tag: int, value: bytes) -> bytes:
        return bytes([tag, 0x83]) + len(value).to_bytes(3, "big") + value

    body = tlv(0xA0, tlv(0x30, b"".join(tlv(6, oid) for oid in mechanisms)))
    if token is not None:
        body += tlv(0xA2, tlv(4, token))
    return tlv(0x60, tlv(6, bytes.fromhex("2b0601050502")) + tlv(0xA0, tlv(0x30, body)))
