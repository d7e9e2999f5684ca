"""What is said to systemd and taken from it, over real sockets."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tiercel.server import systemd

UNITS = Path(__file__).parents[2] / "packaging"

# What systemd does before it runs a service with a socket.
ACTIVATE = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ |= {"LISTEN_FDS": "1", "LISTEN_PID": str(os.getpid())}
os.execv(sys.executable, [sys.executable, *sys.argv[2:]])
"""


@pytest.mark.parametrize("kind", ["path", "abstract"])
def test_notify(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"@tiercel-test-{os.getpid()}" if kind == "abstract" else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(name.replace("@", "\0", 1))
        monkeypatch.setenv("NOTIFY_SOCKET", name)
        assert systemd.notify("READY=1", "STATUS=fine")
        assert listener.recv(100) == b"READY=1\nSTATUS=fine"


@pytest.mark.parametrize("name", [None, "", "relative", "/nowhere/at/all"])
def test_nobody_to_notify(name: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    if name is not None:
        monkeypatch.setenv("NOTIFY_SOCKET", name)
    assert not systemd.notify("READY=1")


@pytest.mark.parametrize(
    ("microseconds", "pid", "seconds"),
    [
        ("2000000", None, 2.0),
        ("2000000", "1", None),
        (None, None, None),
        ("0", None, None),
        ("x", None, None),
    ],
)
def test_watchdog(
    microseconds: str | None, pid: str | None, seconds: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("WATCHDOG_USEC", microseconds), ("WATCHDOG_PID", pid)):
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    assert systemd.watchdog_seconds() == seconds


def test_sockets_of_somebody_else_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LISTEN_PID", "1")
    monkeypatch.setenv("LISTEN_FDS", "3")
    assert systemd.inherited_sockets() == []
    assert "LISTEN_FDS" not in os.environ


def test_a_socket_is_inherited() -> None:
    program = """
import os, socket
from tiercel.server import systemd
[found] = systemd.inherited_sockets()
print(found.getsockname(), os.get_inheritable(found.fileno()), systemd.inherited_sockets())
"""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        number = listener.fileno()
        ended = subprocess.run(  # noqa: S603  # our own program
            [sys.executable, "-c", ACTIVATE, str(number), "-c", program],
            pass_fds=[number],
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.stdout == f"{listener.getsockname()} False []\n", ended.stderr


@pytest.mark.parametrize("unit", ["tiercel.service", "tiercel.socket"])
def test_the_units_are_sound(unit: str, tmp_path: Path) -> None:
    systemd_analyze = Path("/usr/bin/systemd-analyze")
    if not systemd_analyze.exists():
        pytest.skip("systemd-analyze is not installed (Debian: apt install systemd)")
    for each in UNITS.iterdir():
        text = each.read_text("utf-8").replace("/opt/tiercel/bin/tiercel", "/bin/true")
        (tmp_path / each.name).write_text(text, "utf-8")
    ended = subprocess.run(  # noqa: S603
        [systemd_analyze, "verify", "--man=no", tmp_path / unit], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")
