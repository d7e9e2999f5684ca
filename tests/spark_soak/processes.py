"""Processes: who is whose child, who has which end of a connection, and how one is ended for good."""

import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")
PATIENCE_S = 300.0  # only a run that fails waits that long; a busy machine is no failure


def descendants(root: int) -> list[int]:
    """All processes below this one, parents first."""
    children: dict[int, list[int]] = {}
    for each in _pids():
        with suppress(OSError):
            # The name may hold anything, even blanks and brackets; what follows is in fixed places.
            parent = int((PROC / str(each) / "stat").read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(each)
    found = [root]
    for pid in found:
        found += children.get(pid, [])
    return found[1:]


def command(pid: int) -> str:
    with suppress(OSError):
        return (PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    return ""


def is_alive(pid: int) -> bool:
    with suppress(OSError):
        state: str = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[0]
        return state not in {"Z", "X"}
    return False


def kill(pids: Iterable[int]) -> None:
    """SIGKILL, and it returns when they are gone."""
    pids = list(pids)
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + PATIENCE_S
    while any(map(is_alive, pids)):
        assert time.monotonic() < deadline, f"{pids} do not die"
        time.sleep(0.005)


def at_port(port: int, among: Iterable[int]) -> int | None:
    """The process whose end of a connection on this machine has this port."""
    wanted = {
        f"socket:[{fields[9]}]"
        for line in (PROC / "net/tcp").read_text().splitlines()[1:]
        if int((fields := line.split())[1].rpartition(":")[2], 16) == port
    }
    for pid in among:
        with suppress(OSError):
            for each in (PROC / str(pid) / "fd").iterdir():
                with suppress(OSError):
                    if each.readlink().name in wanted:
                        return pid
    return None


def _pids() -> list[int]:
    return [int(each.name) for each in PROC.iterdir() if each.name.isdigit()]
