"""Two machines on one computer: network namespaces a (10.9.0.1) and b (10.9.0.2), joined by a cable."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from .installed import installed

ADDRESSES = {"a": "10.9.0.1", "b": "10.9.0.2"}
_LOSS = """
table ip loss {{ chain in {{ type filter hook input priority 0;
  ip protocol 113 numgen random mod 100 < {0} counter drop
  udp dport 3055 numgen random mod 100 < {0} counter drop
  }}
}}
"""


class Lab:
    def __init__(self) -> None:
        self._name = f"tiercel{os.getpid()}"

    def command(self, machine: str, *words: str) -> tuple[str, ...]:
        return (installed("ip"), "netns", "exec", f"{self._name}{machine}", *words)

    def run(self, machine: str, *words: str, **options: Any) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(  # noqa: S603
            self.command(machine, *words), capture_output=True, text=True, check=True, **options
        )

    def lose(self, machine: str, percent: int) -> None:
        """The machine loses so many of the PGM packets that arrive."""
        if percent:
            self.run(machine, installed("nft"), "-f", "-", input=_LOSS.format(percent))

    def up(self, mtu: int) -> None:
        ip = installed("ip")
        for machine in ADDRESSES:
            _run(ip, "netns", "add", f"{self._name}{machine}")
        names = f"{self._name}a", f"{self._name}b"
        _run(ip, *f"link add eth0 netns {names[0]} type veth peer name eth0 netns {names[1]}".split())
        for machine, address in ADDRESSES.items():
            for line in (
                f"addr add {address}/24 dev eth0",
                f"link set eth0 mtu {mtu} up",
                "link set lo up",
                "route add 224.0.0.0/4 dev eth0",
            ):
                self.run(machine, ip, *line.split())

    def down(self) -> None:
        for machine in ADDRESSES:
            subprocess.run(  # noqa: S603
                (installed("ip"), "netns", "del", f"{self._name}{machine}"), capture_output=True, check=False
            )


def _run(*words: str) -> None:
    subprocess.run(words, capture_output=True, check=True)  # noqa: S603


@contextmanager
def network_lab(mtu: int = 1500) -> Iterator[Lab]:
    """Skips where namespaces cannot be made."""
    lab = Lab()
    try:
        lab.up(mtu)
    except subprocess.CalledProcessError as problem:
        lab.down()
        pytest.skip(f"no network namespaces: {problem.stderr!r}")
    try:
        yield lab
    finally:
        lab.down()
