"""A Windows program reads from a `tiercel serve` process: the stubs of widl, the runtime of Wine."""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .conftest import Serve
from .installed import installed
from .logon import CONNECT, INTEGRITY, PACKET, PRIVACY, READER, protect
from .served import Served, take_port_135

BUILD = Path(__file__).parent / "wine" / "build.sh"
PROGRAMS = ("wine", "wineserver", "widl", "x86_64-w64-mingw32-gcc")
PATIENCE_S = 180.0
NTLM, SPNEGO = 10, 9
LARGE = (b"large:" + bytes(range(33, 127)) * 1090)[: 100 << 10]  # in fragments


class Wine:
    """A Windows of its own, which ends with the tests."""

    def __init__(self, folder: Path) -> None:
        self.program = folder / "program"
        self.program.mkdir()
        self._environment = os.environ | {
            "HOME": str(folder),
            "WINEPREFIX": str(folder / "prefix"),
            "WINEDEBUG": "-all",
            "WINEDLLOVERRIDES": "mscoree,mshtml=",  # nobody wants to be asked about .NET and HTML
            "DISPLAY": "",
        }
        self._run("sh", str(BUILD), str(self.program))
        self._run("wine", "wineboot", "--init")

    def close(self) -> None:
        """The server of this prefix, and with it whatever it has started."""
        self._run("wineserver", "-k")
        self._run("wineserver", "-w")

    def read(self, *arguments: str) -> str:
        return self._run("wine", "reader.exe", *arguments)

    def packet(self, number: int) -> bytes:
        return (self.program / f"packet-{number}.bin").read_bytes()

    def _run(self, *command: str) -> str:
        done = subprocess.run(  # noqa: S603
            command,
            cwd=self.program,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=PATIENCE_S,
            check=False,
        )
        return done.stdout.decode().replace("\r\n", "\n")


@pytest.fixture(scope="module")
def wine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wine]:
    for program in PROGRAMS:
        installed(program)
    wine = Wine(tmp_path_factory.mktemp("wine"))
    assert (wine.program / "reader.exe").exists(), "the program was not built"
    yield wine
    wine.close()


def expected(level: int, port: int) -> str:
    return f"""\
binding at level {level}: 00000000
R_GetServerPort: port {port}
R_OpenQueue of a queue that is not there: raised c00e0003
R_OpenQueue: 00000000
R_OpenQueue to peek: 00000000
peek: 00000000
  section of type 0, 396 of 396 bytes: packet-0.bin
peek with the body cut: 00000000
  section of type 1, 202 of 208 bytes: packet-1.bin
  section of type 2, 188 of 188 bytes: packet-2.bin
receive through the handle to peek: c00e0025
receive: 00000000
  section of type 0, 396 of 396 bytes: packet-3.bin
R_EndReceive NACK: 00000000
receive again: 00000000
  section of type 0, 396 of 396 bytes: packet-4.bin
R_EndReceive ACK: 00000000
R_EndReceive once more: c00e0007
R_CreateCursor: 00000000
peek at the cursor: 00000000
  section of type 0, 396 of 396 bytes: packet-5.bin
peek next: 00000000
  section of type 0, {len(LARGE) + 420} of {len(LARGE) + 420} bytes: packet-6.bin
R_CloseCursor: 00000000
R_PurgeQueue through the handle to peek: c0000022
R_PurgeQueue: 00000000
receive from an empty queue: c00e001b
receive that is cancelled: c00e0008
R_CancelReceive: 00000000
R_CloseQueue of the handle to peek: 00000000
R_CloseQueue: 00000000
handle after that: NULL
"""


def check(wine: Wine, served: Served) -> None:
    """What the packets hold, and what is left."""
    bodies = [
        next((body for body in (LARGE, b"first", b"second") if body in wine.packet(number)), None)
        for number in (0, 3, 4, 5, 6)
    ]
    assert bodies == [b"first", b"first", b"first", b"second", LARGE]
    assert served.left() == []


def test_a_windows_program_reads(serve: Serve, wine: Wine, transcript: Callable[[str], None]) -> None:
    served = serve(b"first", b"second", LARGE)
    printed = wine.read("127.0.0.1", str(served.port), "1")
    transcript(printed)
    assert printed == expected(1, served.port)
    check(wine, served)


def test_a_windows_program_asks_the_endpoint_mapper(serve: Serve, wine: Wine) -> None:
    """It knows the address only, and asks where every Windows program asks."""
    served = serve(b"first", b"second", LARGE, endpoint_mapper_port=take_port_135())
    assert wine.read("127.0.0.1", "-", "1") == expected(1, served.port)
    check(wine, served)


@pytest.mark.parametrize("service", [NTLM, SPNEGO])
@pytest.mark.parametrize("level", [CONNECT, INTEGRITY, PRIVACY])
def test_a_windows_program_logs_on(
    serve: Serve, wine: Wine, transcript: Callable[[str], None], tmp_path: Path, level: int, service: int
) -> None:
    """Nobody who proves less is let in."""
    installed("ntlm_auth")  # which Wine logs on with
    served = protect(serve, tmp_path, level, b"first", b"second", LARGE)
    logon = (READER["user"], READER["domain"], READER["password"], str(service))
    printed = wine.read("127.0.0.1", str(served.port), str(level), *logon)
    transcript(printed)
    assert printed == expected(level, served.port)
    check(wine, served)


def test_wine_does_not_sign_at_level_packet(serve: Serve, wine: Wine, tmp_path: Path) -> None:
    """It sends a signature of zeros, and does not even ask for signing: it proves nothing, and is refused."""
    installed("ntlm_auth")  # which Wine logs on with
    served = protect(serve, tmp_path, PACKET, b"first")
    logon = (READER["user"], READER["domain"], READER["password"], str(NTLM))
    assert "R_OpenQueue: raised 00000005" in wine.read("127.0.0.1", str(served.port), "4", *logon)
    assert "cannot protect its calls at level PACKET" in served.log.read_text("utf-8")
    assert served.left() == [b"first"]


def test_a_windows_program_with_a_wrong_password_gets_nothing(
    serve: Serve, wine: Wine, tmp_path: Path
) -> None:
    installed("ntlm_auth")  # which Wine logs on with
    served = protect(serve, tmp_path, PRIVACY, b"first")
    printed = wine.read("127.0.0.1", str(served.port), "6", READER["user"], READER["domain"], "wrong", "10")
    assert "R_OpenQueue: raised 00000005" in printed
    assert served.left() == [b"first"]
