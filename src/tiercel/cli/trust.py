"""`tiercel trust`: manages the certificates of senders whose signatures count."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from tiercel.cli.failures import Failure
from tiercel.cli.named_file import named_file
from tiercel.cli.options import Json
from tiercel.message_security.certificates import load_certificate, pem_to_der
from tiercel.message_security.trust import Trust, TrustedCertificate, TrustError, parse_sid
from tiercel.model.errors import InvalidCertificateError
from tiercel.server import trust_file
from tiercel.server.config import Config, ConfigError

verbs = typer.Typer()
trust = typer.Typer(
    help="Manage the certificates of senders whose signatures count.",
    epilog="""\
A message is authenticated if its signature was made with a certificate in the trust store. Access lists then
see the SID of the entry. A running daemon picks up changes with the next signed message.

Compare the fingerprint with its owner before you add a certificate: anybody can make one with any name.

    tiercel trust add --file trust shop shop.cer --sid S-1-5-21-1-2-3-1001
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
    certificate: Annotated[Path, typer.Argument(metavar="CERTIFICATE", help="Certificate, PEM or DER.")],
    sid: Annotated[str, typer.Option(metavar="SID", help="Account that the certificate stands for.")],
    file: File = None,
    config: ConfigFile = None,
) -> None:
    """Add a certificate and print its fingerprint; create the file if necessary."""
    path = _path(file, config)
    with _refusals():
        found = load_certificate(_read(certificate))
        entry = TrustedCertificate(name, parse_sid(sid), found)
        trust_file.change(path, lambda known: known.added(entry), create=True)
    print(found.fingerprint)


@trust.command("rm")
def remove(name: Name, file: File = None, config: ConfigFile = None) -> None:
    """Remove a certificate."""
    path = _path(file, config)
    with _refusals():
        trust_file.change(path, lambda known: known.without(name))


@trust.command("ls")
def list_all(file: File = None, config: ConfigFile = None, as_json: Json = False) -> None:
    """List certificates with SID, subject, expiry and fingerprint."""
    path = _path(file, config)
    with _refusals():
        known = trust_file.read(path)
    for row in _rows(known):
        if as_json:
            print(json.dumps(row))
        else:
            note = " (expired)" if row["expired"] else ""
            print(f"{row['name']} {row['sid']} {row['subject']} until {row['expires']}{note}")
            print(f"    {row['fingerprint']}")


def _rows(known: Trust) -> Iterator[dict[str, object]]:
    now = time.time()
    for each in known:
        found = each.certificate
        yield {
            "name": each.name,
            "sid": str(each.sid),
            "subject": found.subject,
            "expires": found.not_after.date().isoformat(),
            "expired": found.not_after.timestamp() < now,
            "fingerprint": found.fingerprint,
        }


def _read(path: Path) -> bytes:
    try:
        return pem_to_der(path.read_bytes())
    except OSError as problem:
        raise TrustError(f"{path}: cannot be read ({problem.strerror})") from problem
    except InvalidCertificateError as problem:
        raise TrustError(f"{path}: not a certificate with an RSA key ({problem.problem})") from problem


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
