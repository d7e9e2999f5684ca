"""Samba's rpcclient asks the endpoint mapper of a `tiercel serve` process, at port 135 as always."""

import subprocess
from collections.abc import Callable

from .conftest import Serve
from .installed import installed
from .served import take_port_135

PATIENCE_S = 60.0


def rpcclient(command: str) -> str:
    """What it printed; the error stream is where it says how a search ended."""
    program = installed("rpcclient")
    done = subprocess.run(  # noqa: S603
        (program, "--no-pass", "--user=%", "ncacn_ip_tcp:127.0.0.1", "--command", command),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=PATIENCE_S,
        check=False,
    )
    return done.stdout.decode()


def test_a_lookup_ends(serve: Serve, transcript: Callable[[str], None]) -> None:
    """It asks for one at a time, until there are no more."""
    served = serve(endpoint_mapper_port=take_port_135())
    printed = rpcclient("epmlookup")
    transcript(printed)
    syntax = "abstract_syntax=1a9134dd-7b39-45ba-ad88-44d01ca47f28/0x00000001"
    binding = f"ncacn_ip_tcp:127.0.0.1[{served.port},{syntax}]"
    assert sorted(printed.splitlines()) == [
        f"00000000-0000-0000-0000-000000000000 {binding}: Message Queuing - RemoteRead V1",
        "epm_Lookup no more entries",
    ]


def test_what_is_not_there_is_not_mapped(serve: Serve) -> None:
    serve(endpoint_mapper_port=take_port_135())
    assert "epm_Map returned 382312662 (0x16C9A0D6)" in rpcclient("epmmap lsarpc")
