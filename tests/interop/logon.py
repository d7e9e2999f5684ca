"""A daemon with an account, and who may log on to it."""

import subprocess
import sys
from pathlib import Path

from .conftest import Serve
from .served import Served

NONE, CONNECT, PACKET, INTEGRITY, PRIVACY = 1, 2, 4, 5, 6
NAMES = {1: "none", 2: "connect", 4: "packet", 5: "integrity", 6: "privacy"}
READER = {"user": "reader", "domain": "EXAMPLE", "password": "Password of the reader, 1%"}


def protect(
    serve: Serve, folder: Path, least_level: int, *bodies: bytes, owners_alone: bool = False
) -> Served:
    """A daemon with one account, which wants `least_level` even of programs of this computer."""
    accounts = folder / "accounts"
    subprocess.run(  # noqa: S603
        (sys.executable, "-m", "tiercel", "user", "add", "--file", str(accounts), r"EXAMPLE\reader"),
        input=READER["password"].encode() + b"\n",
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return serve(
        *bodies,
        more=f'[accounts]\nfile = "{accounts}"\n',
        least_level_local=NAMES[least_level],
        owners_alone=owners_alone,
    )
