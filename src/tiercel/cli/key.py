"""`tiercel key`: shows and replaces the key that a queue manager signs with."""

import json
import os
import socket
from pathlib import Path
from typing import Annotated

import typer

from tiercel.cli.failures import Failure
from tiercel.cli.options import Json
from tiercel.message_security.signer import Signer
from tiercel.model.errors import CannotSignDataExError
from tiercel.server import signing_key

verbs = typer.Typer()
key = typer.Typer(
    help="Show and replace the key that a queue manager signs with.",
    epilog="""\
The key is made when it is first needed: signing.pem in the data directory, which only its owner can read.
To use a certificate of your own, replace the file: a private RSA key and its certificate in PEM.

Give the certificate to the receivers, and compare the fingerprint with them:

    tiercel key export --data data --out shop.cer
    tiercel trust add --file trust shop shop.cer --sid S-1-5-21-1-2-3-1001
    tiercel send orders hello --data data --sign
""",
)
verbs.add_typer(key, name="key")

Data = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Data directory (default: $TIERCEL_DATA, else ./data).")
]


@key.command("show")
def show(data: Data = None, as_json: Json = False) -> None:
    """Print the subject, expiry and fingerprint of the certificate."""
    _print(_current(_path(data)), as_json=as_json)


@key.command("export")
def export(
    data: Data = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="File (default: print it).")
    ] = None,
) -> None:
    """Write the certificate in PEM; the private key stays where it is."""
    signer = _current(_path(data))
    if out is None:
        print(signer.certificate_pem(), end="")
        return
    try:
        out.write_text(signer.certificate_pem(), "ascii")
    except OSError as problem:
        raise Failure(f"{out}: cannot be written ({problem.strerror})") from problem
    print(signer.certificate.fingerprint)


@key.command("rotate")
def rotate(data: Data = None, as_json: Json = False) -> None:
    """Make a new key and certificate. Receivers need the new certificate before the next signed message."""
    _print(_made(_path(data), replace=True), as_json=as_json)


def _current(path: Path) -> Signer:
    return _made(path, replace=False)


def _made(path: Path, *, replace: bool) -> Signer:
    if not path.parent.is_dir():
        raise Failure(f"{path.parent}: no such data directory")
    try:
        return signing_key.create(path, socket.gethostname(), replace=replace)
    except CannotSignDataExError as problem:
        raise Failure(str(problem)) from problem


def _print(signer: Signer, *, as_json: bool) -> None:
    found = signer.certificate
    expires = found.not_after.date().isoformat()
    if as_json:
        row = {"subject": found.subject, "expires": expires, "fingerprint": found.fingerprint}
        print(json.dumps(row))
    else:
        print(f"{found.subject} until {expires}\n{found.fingerprint}")


def _path(data: Path | None) -> Path:
    return (data or Path(os.environ.get("TIERCEL_DATA") or "data")) / signing_key.FILE_NAME
