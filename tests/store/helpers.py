"""What the tests of the stores share: keys, whole contents, and programs that run beside the test."""

import subprocess
import sys
import textwrap
from pathlib import Path

from tiercel.store import Batch, Keyspace, Store, View

MESSAGES = Keyspace.MESSAGES
LOWEST, HIGHEST = b"", b"\xff" * 512
MIB = 2**20

Contents = dict[Keyspace, dict[bytes, bytes]]


def key(queue: int, number: int) -> bytes:
    return queue.to_bytes(4, "big") + number.to_bytes(8, "big")


def contents(view: View) -> Contents:
    """Everything that is in the store but what the store itself keeps in META."""
    return {
        space: {
            name: value
            for name, value in view.range(space, LOWEST, HIGHEST)
            if (space, name) != (Keyspace.META, b"format version")
        }
        for space in Keyspace
    }


def committed(store: Store) -> Contents:
    with store.snapshot() as view:
        return contents(view)


def fill(batch: Batch, numbers: range, size: int = 1300) -> None:
    for number in numbers:
        batch.put(MESSAGES, key(1, number), record(number, size))


def record(number: int, size: int = 1300) -> bytes:
    return number.to_bytes(8, "big") + bytes([number % 251]) * (size - 8)


def program(text: str, *arguments: object) -> list[str]:
    """A Python program as a command line; it can import what the tests can."""
    search = f"import sys; sys.path.insert(0, {str(Path(__file__).parents[1])!r})\n"
    return [sys.executable, "-c", search + textwrap.dedent(text), *map(str, arguments)]


def run(text: str, *arguments: object) -> str:
    """What the program prints; what it complains of when it fails."""
    done = subprocess.run(  # noqa: S603 -- our own program
        program(text, *arguments), capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
