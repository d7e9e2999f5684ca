"""`tiercel trust`: manages the certificates of senders, and the public keys of queue managers."""

import base64
import binascii
import json
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import reduce
from itertools import repeat
from pathlib import Path
from typing import Annotated, Any, Final
from uuid import UUID

import typer

from tiercel.cli.connection import Place, api_host, connect
from tiercel.cli.context import TokenFile
from tiercel.cli.failures import Failure
from tiercel.cli.named_file import named_file
from tiercel.cli.options import Json, Yes
from tiercel.message_security.certificates import Certificate
from tiercel.message_security.providers import PROVIDERS
from tiercel.message_security.trust import (
    Trust,
    TrustedCertificate,
    TrustedQueueManager,
    TrustError,
    import_certificates,
    import_keys,
    parse_sid,
)
from tiercel.model.errors import DecodeError
from tiercel.server import trust_file
from tiercel.server.config import Config, ConfigError
from tiercel.wire.public_keys import MQDSPublicKeys

_PROVIDERS: Final = {provider.level.name.lower(): provider for provider in PROVIDERS}

verbs = typer.Typer()
trust = typer.Typer(
    help="Manage the certificates of senders, and the public keys of queue managers.",
    epilog="""\
A message is authenticated if its signature was made with a certificate in the trust store. Access lists then
see the SID of the entry. A message can be encrypted for a queue manager whose public key is in the trust
store. A running daemon picks up changes with the next message.

Compare the fingerprint with its owner before you add a certificate or a key: anybody can make one with any
name. `tiercel key show` and `tiercel key show --exchange` print it on the other computer.

    tiercel trust add --file trust shop shop.cer --sid S-1-5-21-1-2-3-1001
    tiercel trust fetch --file trust shop.example
    tiercel trust ls --file trust
""",
)
verbs.add_typer(trust, name="trust")

File = Annotated[Path | None, typer.Option(metavar="FILE", help="File of the trust store.")]
ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="Configuration with the trust store in \\[security]."),
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the entry.")]


@trust.command("add")
def add(
    name: Name,
    certificate: Annotated[
        Path, typer.Argument(metavar="CERTIFICATE", help="Certificate, PEM or DER, or MQUSERSIGNCERTS.")
    ],
    sid: Annotated[str, typer.Option(metavar="SID", help="Account that the certificate stands for.")],
    group: Annotated[
        list[str] | None,
        typer.Option("--group", metavar="SID", help="Group of the account, for access lists; repeatable."),
    ] = None,
    file: File = None,
    config: ConfigFile = None,
) -> None:
    """Add a certificate and print its fingerprint; create the file if necessary.

    A file of MQUSERSIGNCERTS, the attribute mSMQSignCertificates of a user in Active Directory, may have
    several certificates: the second becomes the entry NAME-2.
    """
    path = _path(file, config)
    with _refusals():
        account, groups = parse_sid(sid), tuple(map(parse_sid, group or ()))
        found = _read_certificates(certificate)
        names = [name, *(f"{name}-{number}" for number in range(2, len(found) + 1))]
        entries = [TrustedCertificate(*each, groups) for each in zip(names, repeat(account), found)]
        trust_file.change(path, lambda known: reduce(Trust.added, entries, known), create=True)
    for each in found:
        print(each.fingerprint)


@trust.command("export")
def export(
    sid: Annotated[str, typer.Argument(metavar="SID", help="Account whose certificates are exported.")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="File for MQUSERSIGNCERTS.")],
    file: File = None,
    config: ConfigFile = None,
) -> None:
    """Write the certificates of an account as Active Directory keeps them, for another trust store."""
    path = _path(file, config)
    with _refusals():
        user = trust_file.read(path).user(parse_sid(sid))
        if user is None:
            raise TrustError(f"{sid}: no certificate of this account")
    try:
        out.write_bytes(user.certificates)
    except OSError as problem:
        raise Failure(f"{out}: cannot be written ({problem.strerror})") from problem


Host = Annotated[
    list[str] | None,
    typer.Option("--host", metavar="HOST", help="Name or address in direct format names; repeatable."),
]


@trust.command("add-key")
def add_key(
    name: Name,
    key: Annotated[
        Path,
        typer.Argument(
            metavar="KEY", help="PUBLICKEYBLOB, PEM, or a file of `tiercel key export --exchange`."
        ),
    ],
    guid: Annotated[str, typer.Option(metavar="GUID", help="Queue manager that the key belongs to.")],
    host: Host = None,
    provider: Annotated[
        str, typer.Option(metavar="NAME", help=f"Provider of the key: {', '.join(_PROVIDERS)}.")
    ] = "advanced",
    file: File = None,
    config: ConfigFile = None,
) -> None:
    """Add the public key of a queue manager and print its fingerprint."""
    path = _path(file, config)
    if provider not in _PROVIDERS:
        raise typer.BadParameter(f"{provider!a} is not a provider; use {', '.join(_PROVIDERS)}")
    with _refusals():
        owner, keys = _guid(guid), import_keys(_read_file(key), _PROVIDERS[provider])
        entry = TrustedQueueManager(name, owner, _hosts(host), keys)
        trust_file.change(path, lambda known: known.added(entry), create=True)
    print(entry.fingerprint)


@trust.command("fetch")
def fetch(
    server: Annotated[
        str, typer.Argument(metavar="HOST", help="Computer or URL of the other queue manager's API.")
    ],
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of the entry (default: HOST).")
    ] = None,
    host: Host = None,
    fingerprint: Annotated[
        str | None, typer.Option(metavar="HEX", help="Expected fingerprint; replaces the question.")
    ] = None,
    yes: Yes = False,
    token_file: TokenFile = None,
    file: File = None,
    config: ConfigFile = None,
) -> None:
    """Get the public keys of another queue manager from its API; add them once you confirm the fingerprint.

    An entry of the same queue manager is replaced: run it again after the other side has rotated its keys.
    """
    path = _path(file, config)
    with connect(Place(server=server, token_file=token_file)) as api:
        told = api.get("queue-manager/keys")
    of = api_host(server)
    with _refusals():
        entry = _fetched(told, name or of, (of, *(host or ())))
        _confirm(entry, fingerprint, yes=yes)
        trust_file.change(path, lambda known: known.replaced(entry), create=True)
    print(entry.fingerprint)


def _fetched(told: Any, name: str, hosts: tuple[str, ...]) -> TrustedQueueManager:
    try:
        keys = MQDSPublicKeys.decode(base64.b64decode(told["keys"], validate=True)).keys
        return TrustedQueueManager(name, _guid(told["guid"]), _hosts(hosts), keys)
    except (TypeError, KeyError, binascii.Error, DecodeError) as problem:
        raise TrustError(f"the answer has no usable keys ({problem})") from problem


def _confirm(entry: TrustedQueueManager, expected: str | None, *, yes: bool) -> None:
    if expected is not None:
        if expected.replace(":", "").casefold() != entry.fingerprint.replace(":", "").casefold():
            raise Failure(f"the fingerprint is {entry.fingerprint}, not the expected one. Nothing was done")
        return
    print(f"queue manager {entry.guid}, {', '.join(entry.hosts)}\n{entry.fingerprint}", file=sys.stderr)
    if yes:
        return
    if not sys.stdin.isatty():
        raise Failure("nothing was done: compare the fingerprint and add --fingerprint HEX, or --yes")
    if not typer.confirm("Does `tiercel key show --exchange` print this on the other computer?", err=True):
        raise Failure("nothing was done")


@trust.command("rm")
def remove(name: Name, file: File = None, config: ConfigFile = None) -> None:
    """Remove a certificate or the keys of a queue manager."""
    path = _path(file, config)
    with _refusals():
        trust_file.change(path, lambda known: known.without(name))


@trust.command("ls")
def list_all(file: File = None, config: ConfigFile = None, as_json: Json = False) -> None:
    """List certificates with SID, subject and expiry, and queue managers with their hosts; fingerprints."""
    path = _path(file, config)
    with _refusals():
        known = trust_file.read(path)
    for row in _rows(known):
        if as_json:
            print(json.dumps(row))
        else:
            note = " (expired)" if row["expired"] else ""
            sids = ",".join((row["sid"], *row["groups"]))
            print(f"{row['name']} {sids} {row['subject']} until {row['expires']}{note}")
            print(f"    {row['fingerprint']}")
    for each in known.queue_managers:
        providers = [key.provider_name for key in each.keys]
        if as_json:
            row = {"name": each.name, "guid": str(each.guid), "hosts": each.hosts, "providers": providers}
            print(json.dumps(row | {"fingerprint": each.fingerprint}))
        else:
            print(f"{each.name} {each.guid} {','.join(each.hosts) or '-'} {', '.join(providers)}")
            print(f"    {each.fingerprint}")


def _rows(known: Trust) -> Iterator[dict[str, Any]]:
    now = time.time()
    for each in known:
        found = each.certificate
        yield {
            "name": each.name,
            "sid": str(each.sid),
            "groups": [str(group) for group in each.groups],
            "subject": found.subject,
            "expires": found.not_after.date().isoformat(),
            "expired": found.not_after.timestamp() < now,
            "fingerprint": found.fingerprint,
        }


def _guid(text: str) -> UUID:
    try:
        return UUID(text)
    except (ValueError, AttributeError, TypeError) as problem:
        raise TrustError(f"{str(text)[:60]!a} is not a valid GUID") from problem


def _hosts(hosts: Iterable[str] | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys(host.casefold() for host in hosts or ()))


def _read_file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as problem:
        raise TrustError(f"{path}: cannot be read ({problem.strerror})") from problem


def _read_certificates(path: Path) -> list[Certificate]:
    data = _read_file(path)
    try:
        found = import_certificates(data)
    except TrustError as problem:
        raise TrustError(f"{path}: {problem}") from problem
    if not found:
        raise TrustError(f"{path}: it has no certificate")
    return found


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except TrustError as problem:
        raise Failure(str(problem)) from problem


def _path(file: Path | None, config: Path | None) -> Path:
    return named_file(file, config, _trust_of)


def _trust_of(config: Config) -> str:
    if not config.security.trust:
        raise ConfigError("[security] has no trust store; set trust")
    return config.security.trust
