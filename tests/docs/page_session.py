"""Runs the blocks of a page as one session of a shell, in a network of its own.

The pages use the real ports, which on a shared computer somebody else may have: so the session gets a network
namespace with nothing but a loopback. Where the system allows none, it runs here if the ports are free.
"""

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from spark.jvm import JAVA_OPTIONS

from . import quick_program
from .pages import ROOT, Block

PORTS = (1801, 1812, 8801, 8802, 2103)
HOSTS = ("127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4")
PATIENCE_S = 300  # only a session that fails waits that long

_PRELUDE = """\
set -eu -o pipefail
trap 'code=$?; for job in $(jobs -p); do kill $job 2>/dev/null || true; done; wait; exit $code' EXIT
"""
# Somebody who types waits for the first line of the log.
_WAIT = """\
import socket, sys, time
deadline = time.monotonic() + 200
for door in sys.argv[1:]:
    while True:
        with socket.socket(socket.AF_UNIX) as probe:
            if probe.connect_ex(door) == 0:
                break
        if time.monotonic() > deadline:
            sys.exit(f"{door}: nobody listens there")
        time.sleep(0.02)
"""
_SERVES = re.compile(r"(?m)^tiercel serve [^&\n]*--data (\S+)[^&\n]*&")  # in the background


class Session:
    def __init__(self, blocks: Sequence[Block], folder: Path) -> None:
        self._blocks = blocks
        self._folder = folder / "work"
        self._notes = folder / "notes"  # where the session itself keeps things
        self._program = folder / "tiercel.sock"
        self._folder.mkdir()
        self._notes.mkdir()
        for name in ("examples", "tests"):
            (self._folder / name).symlink_to(ROOT / name)

    def run(
        self, without: Collection[str] = (), more: Sequence[Path] = (), patience_s: float = PATIENCE_S
    ) -> None:
        """Runs the blocks on a computer that lacks some programs of this one and has those in `more`."""
        script = self._notes / "session.sh"
        steps = [self._step(number, block) for number, block in enumerate(self._blocks)]
        wait = self._notes / "wait.py"
        wait.write_text(_WAIT, "utf-8")
        quick = shlex.join([sys.executable, quick_program.__file__, str(self._program)])
        begin = f"({quick} &)\npython {wait} {self._program}\n"  # no job of this shell, but of its session
        script.write_text("".join([_PRELUDE, begin, *steps]), "utf-8")
        quick_program.write_program(self._notes, self._program)
        tools = self._tools(without) if without else os.environ["PATH"]
        path = ":".join(map(str, [self._notes, Path(sys.executable).parent, *more, tools]))
        environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
        said = self._notes / "stderr"
        with said.open("wb") as errors:
            process = subprocess.Popen(  # noqa: S603  # what we have written ourselves
                [*own_network(), "bash", str(script)],
                cwd=self._folder,
                env=environment
                | {
                    "PATH": path,
                    "NO_COLOR": "1",
                    "XDG_CACHE_HOME": str(self._notes),
                    "XDG_CONFIG_HOME": str(self._notes / "config"),
                    "JDK_JAVA_OPTIONS": JAVA_OPTIONS,
                },
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
            )
        try:
            code = process.wait(patience_s)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            with suppress(ProcessLookupError):  # nothing that a page has started outlives it
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if code != 0:
            reached = self._notes / "reached"
            at = self._blocks[int(reached.read_text())] if reached.exists() else "the beginning"
            how = f"takes longer than {patience_s} s" if code is None else f"ended with {code}"
            raise AssertionError(f"{at} {how}:\n{said.read_text('utf-8')[-4000:]}")
        self._compare()

    def _tools(self, without: Collection[str]) -> str:
        """A folder with the programs of the system, but for some."""
        tools = self._notes / "tools"
        tools.mkdir()
        for folder in ("/bin", "/usr/bin", "/sbin", "/usr/sbin"):
            for program in Path(folder).iterdir():
                if program.name not in without and not (tools / program.name).exists():
                    (tools / program.name).symlink_to(program)
        return str(tools)

    def _step(self, number: int, block: Block) -> str:
        if not block.is_run:
            return ""
        lines = [f"echo {number} > {self._notes}/reached", f"exec > {self._notes}/{number}.out"]
        if block.kind == "python":
            program = self._notes / f"{number}.py"
            program.write_text(block.code, "utf-8")
            lines.append(f"python {program}")
        else:
            code = typed(block) if block.kind == "console" else block.code
            lines.append(_SERVES.sub(self._with_wait, code))
        return "\n".join(lines) + "\n"

    def _with_wait(self, serve: re.Match[str]) -> str:
        door = f"{serve[1]}/tiercel.sock"
        return f"{serve[0]}\n{shlex.join(['python', str(self._notes / 'wait.py'), door])}"

    def _compare(self) -> None:
        """What a page shows as the output of the block before it, is."""
        for number, block in enumerate(self._blocks):
            if block.note == "prints":
                printed = (self._notes / f"{number - 1}.out").read_text("utf-8")
                missing = first_difference(block.code, printed)
                assert missing is None, f"{block}: {missing!r} is not what was printed:\n{printed}"


def typed(block: Block) -> str:
    """What a person types, each line by itself: that there is no message or match is no failure (3)."""
    commands = [line.removeprefix("$ ") for line in block.code.splitlines() if line.startswith("$ ")]
    lines = [f"set +e\n{each}\ncode=$?\nset -e\ntest $code = 0 -o $code = 3" for each in commands]
    return "\n".join(lines)


def first_difference(shown: str, printed: str) -> str | None:
    """The first line shown that was not printed, in this order; `...` stands for anything."""
    rest = iter(printed.splitlines())
    for line in filter(None, map(str.strip, shown.splitlines())):
        pattern = re.compile(
            r"\s+".join(".*".join(map(re.escape, word.split("..."))) for word in line.split())
        )
        if not any(pattern.fullmatch(each.strip()) for each in rest):
            return line
    return None


@cache
def own_network() -> tuple[str, ...]:
    """The beginning of a command that runs in a network of its own; nothing, where that cannot be."""
    command = (
        "unshare",
        "--map-root-user",
        "--net",
        sys.executable,
        str(Path(__file__).with_name("own_network.py")),
    )
    try:
        tried = subprocess.run([*command, "true"], capture_output=True, check=False)  # noqa: S603
    except FileNotFoundError:
        return ()
    return command if tried.returncode == 0 else ()


def ports_in_use() -> list[str]:
    """What stands in the way of a session in this network."""
    found = []
    for host in HOSTS:
        for port in PORTS:
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind((host, port))
                except OSError:
                    found.append(f"{host}:{port}")
    return found
