"""What must hold for any tokens of a logon, and for any file of accounts."""

from basics import Target

from tiercel.model.errors import DecodeError
from tiercel.rpc.authentication import NtlmServer, acceptors, initiator, password
from tiercel.rpc.authentication import ntlm_messages as ntlm
from tiercel.rpc.authentication.spnego_tokens import NegTokenResp, decode_token
from tiercel.rpc.security import AuthenticationError, AuthenticationLevel, AuthenticationType, SecurityContext
from tiercel.security.accounts import Account, AccountError, Accounts
from tiercel.security.nt_hash import nt_hash

LEVEL = AuthenticationLevel.PRIVACY
KINDS = (AuthenticationType.NTLM, AuthenticationType.SPNEGO)
USER, SECRET = "EXAMPLE\\reader", "secret"


def _draw(size: int) -> bytes:
    return bytes(range(1, size + 1))


SERVER = NtlmServer(
    Accounts([Account("reader", "EXAMPLE", None, nt_hash(SECRET))]),
    "linux-host",
    clock=lambda: 0.0,
    now=lambda: 1.7e9,
    draw=_draw,
    nobody=bytes(16),
)
PROVIDERS = acceptors(SERVER)


def check_ntlm_message(data: bytes) -> None:
    try:
        message = ntlm.Authenticate.decode(data)
    except DecodeError:
        return
    if len(message.without_mic) != len(data) or len(message.mic) not in {0, ntlm.MIC_SIZE}:
        raise AssertionError("a MIC is not where it should be")
    ntlm.decode_av_pairs(ntlm.encode_av_pairs(message.av_pairs))
    str((message.user, message.domain, message.has_mic))


def check_spnego_token(data: bytes) -> None:
    try:
        token = decode_token(data)
    except DecodeError:
        return
    if isinstance(token, NegTokenResp):
        if decode_token(token.encode()) != token:
            raise AssertionError(f"{token} is another one when encoded")
    elif token.mechanism_list not in data:
        raise AssertionError("the list of mechanisms is not as it came")


def check_logon_server(data: bytes) -> None:
    """A server that gets any tokens. The seeds do not know the password, so nobody gets in."""
    kind, tokens = _read(data)
    context = PROVIDERS[kind](LEVEL)
    _take(context, tokens)
    if context.is_complete:
        raise AssertionError("somebody got in without the password")


def check_logon_client(data: bytes) -> None:
    """A client whose server answers with any tokens."""
    kind, tokens = _read(data)
    context = initiator(password(USER, "another"), "linux-host", kind, LEVEL)
    _take(context, [b"", *tokens])
    if context.is_complete:  # NTLM tells a client only later that the server does not know the password
        try:
            context.unwrap(b"", b"stub", b"", bytes(16))
        except AuthenticationError:
            return
        raise AssertionError("a fragment with a wrong signature was taken")


def _read(data: bytes) -> tuple[AuthenticationType, list[bytes]]:
    """What kind, and tokens with their lengths before them in two bytes."""
    tokens: list[bytes] = []
    at = 1
    while at + 2 <= len(data) and len(tokens) < 8:
        end = at + 2 + int.from_bytes(data[at : at + 2], "little")
        tokens.append(data[at + 2 : end])
        at = end
    return KINDS[data[0] % 2 if data else 0], tokens


def _take(context: SecurityContext, tokens: list[bytes]) -> None:
    for token in tokens:
        try:
            context.step(token)
        except AuthenticationError as error:
            str(error)


def check_accounts(data: bytes) -> None:
    try:
        accounts = Accounts.parse(data.decode("utf-8", "replace"))
    except AccountError as error:
        str(error)
        return
    if list(Accounts.parse(accounts.text())) != list(accounts):
        raise AssertionError("the accounts are others when written")
    for account in accounts:
        if accounts.find(account.user, account.domain) != account:
            raise AssertionError(f"{account} is not found")
        str(account.sid)


# What to begin with


def _logon(kind: AuthenticationType) -> list[bytes]:
    """The tokens of both sides, the client's first; the password is wrong."""
    client, server = initiator(password(USER, "another"), "linux-host", kind, LEVEL), PROVIDERS[kind](LEVEL)
    found = [client.step(b"") or b""]
    found.append(server.step(found[0]) or b"")
    found.append(client.step(found[1]) or b"")
    return found


def _seeds(*legs: int) -> list[bytes]:
    seeds = []
    for number, kind in enumerate(KINDS):
        logon = _logon(kind)
        tokens = [logon[leg] for leg in legs]
        seeds.append(bytes([number]) + b"".join(len(token).to_bytes(2, "little") + token for token in tokens))
    return seeds


def _account_seeds() -> list[bytes]:
    account = Account("reader", "EXAMPLE", None, bytes(16))
    return [f"# some\n{account.line()}\n\nany:S-1-5-21-1-2-3-4:\n".encode()]


TARGETS: dict[str, Target] = {
    "accounts": Target(check_accounts, _account_seeds),
    "logon_client": Target(check_logon_client, lambda: _seeds(1)),
    "logon_server": Target(check_logon_server, lambda: _seeds(0, 2)),
    "ntlm_message": Target(check_ntlm_message, lambda: _logon(AuthenticationType.NTLM)[2:]),
    "spnego_token": Target(check_spnego_token, lambda: _logon(AuthenticationType.SPNEGO)),
}
