"""`tiercel key`: shows and replaces the keys of a queue manager."""

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import typer

from tiercel.cli.context import Context, connected
from tiercel.cli.failures import Failure
from tiercel.cli.options import Json
from tiercel.message_security.exchange_keys import ExchangeKeyError, KeyRing
from tiercel.message_security.signer import Signer
from tiercel.message_security.tls_certificates import make_tls_certificate
from tiercel.model.errors import CannotSignDataExError
from tiercel.server import exchange_key_file, private_file, signing_key

verbs = typer.Typer()
key = typer.Typer(
    help="Show and replace the keys of a queue manager.",
    epilog="""\
Both kinds are made when they are first needed, as files in the data directory that only their owner can read.
The signing key (signing.pem) signs messages. To use a certificate of your own, replace the file: a private
RSA key and its certificate in PEM. The exchange keys (exchange.pem) open messages that others encrypted for
this queue manager.

Give the certificate to the receivers, and compare the fingerprint with them:

    tiercel key export --data data --out shop.cer
    tiercel trust add --file trust shop shop.cer --sid S-1-5-21-1-2-3-1001
    tiercel send orders hello --data data --sign

Give the public exchange keys to the senders; `tiercel trust fetch` gets them from a running daemon:

    tiercel key export --exchange --data data --out orders.keys
    tiercel key rotate --exchange --data data

Make a certificate for TLS between queue managers, and give orders.pem to the peers:

    tiercel key certificate --data data --out orders
""",
)
verbs.add_typer(key, name="key")

Data = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Data directory (default: $TIERCEL_DATA, else ./data).")
]
Exchange = Annotated[bool, typer.Option("--exchange", help="The exchange keys, not the signing key.")]


@key.command("show")
def show(data: Data = None, exchange: Exchange = False, as_json: Json = False) -> None:
    """Print the subject, expiry and fingerprint of the certificate, or the exchange keys with theirs."""
    directory = _directory(data)
    if exchange:
        _print_ring(_ring(directory), as_json=as_json)
    else:
        _print_signer(_signer(directory), as_json=as_json)


@key.command("export")
def export(
    data: Data = None,
    exchange: Exchange = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="File (default: print it).")
    ] = None,
) -> None:
    """Write the certificate in PEM, or the public exchange keys; private keys stay where they are."""
    directory = _directory(data)
    if exchange:
        ring = _ring(directory)
        content, fingerprint = ring.published().encode(), ring.fingerprint
        if out is None:
            raise typer.BadParameter("the public exchange keys are not text: --out is required")
    else:
        signer = _signer(directory)
        content, fingerprint = signer.certificate_pem().encode("ascii"), signer.certificate.fingerprint
        if out is None:
            print(content.decode(), end="")
            return
    try:
        out.write_bytes(content)
    except OSError as problem:
        raise Failure(f"{out}: cannot be written ({problem.strerror})") from problem
    print(fingerprint)


@key.command("rotate")
def rotate(
    data: Data = None,
    exchange: Exchange = False,
    forget_old: Annotated[
        bool, typer.Option("--forget-old", help="Delete old exchange keys at once, not after 30 days.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Make a new key and certificate, or new exchange keys.

    Receivers need the new certificate before the next signed message. Old exchange keys still open messages
    for 30 days; senders need the new ones until then.
    """
    directory = _directory(data)
    if forget_old and not exchange:
        raise typer.BadParameter("only for --exchange", param_hint="--forget-old")
    if not exchange:
        _print_signer(_signer(directory, replace=True), as_json=as_json)
        return
    _ring(directory)  # makes the first
    now = datetime.now(UTC)
    with _refusals():
        path = directory / exchange_key_file.FILE_NAME
        ring = exchange_key_file.change(path, lambda keys: keys.rotated(now, keep_old=not forget_old))
    _print_ring(ring, as_json=as_json)


@key.command("certificate")
@connected
def certificate(
    context: Context,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="NAME", help="Writes NAME.pem and NAME.key.")],
    days: Annotated[
        int, typer.Option(metavar="DAYS", min=1, max=3650, help="Validity (default: 365).")
    ] = 365,
) -> None:
    """Make a certificate for TLS between queue managers; print the GUID that it names and its fingerprint.

    Existing files are not overwritten.
    """
    manager = context.api.get("queue-manager")
    made = make_tls_certificate(UUID(manager["guid"]), manager["name"], datetime.now(UTC), days)
    files = (Path(f"{out}.key"), made.key, private_file.MODE), (Path(f"{out}.pem"), made.certificate, 0o644)
    for path, text, mode in files:
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                file.write(text)
        except OSError as problem:
            raise Failure(f"{path}: cannot be created ({problem.strerror})") from problem
    if context.out.as_json:
        context.out.record({"guid": manager["guid"], "fingerprint": made.fingerprint})
    else:
        context.out.say(manager["guid"])
        context.out.say(made.fingerprint)


def _signer(directory: Path, *, replace: bool = False) -> Signer:
    with _refusals():
        return signing_key.create(directory / signing_key.FILE_NAME, socket.gethostname(), replace=replace)


def _ring(directory: Path) -> KeyRing:
    with _refusals():
        return exchange_key_file.with_missing(directory / exchange_key_file.FILE_NAME, legacy=False)


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except (CannotSignDataExError, ExchangeKeyError) as problem:
        raise Failure(str(problem)) from problem


def _print_signer(signer: Signer, *, as_json: bool) -> None:
    found = signer.certificate
    expires = found.not_after.date().isoformat()
    if as_json:
        _print_row(subject=found.subject, expires=expires, fingerprint=found.fingerprint)
    else:
        print(f"{found.subject} until {expires}\n{found.fingerprint}")


def _print_ring(ring: KeyRing, *, as_json: bool) -> None:
    for each in ring.keys:
        name, bits = each.provider.level.name.lower(), each.key.key_size
        made = each.made.date().isoformat()
        retired = None if each.retired is None else each.retired.date().isoformat()
        if as_json:
            _print_row(provider=name, bits=bits, made=made, retired=retired, fingerprint=each.fingerprint)
        else:
            until = "" if retired is None else f", retired {retired}"
            print(f"{name} {bits} bits, made {made}{until}\n{each.fingerprint}")


def _print_row(**row: Any) -> None:
    print(json.dumps(row))


def _directory(data: Path | None) -> Path:
    directory = data or Path(os.environ.get("TIERCEL_DATA") or "data")
    if not directory.is_dir():
        raise Failure(f"{directory}: no such data directory")
    return directory
