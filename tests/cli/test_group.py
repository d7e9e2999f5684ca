"""The program as a whole: its verbs, their help, and what it costs to start it."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.main import get_command

from tiercel.cli import app
from tiercel.cli.exit_codes import ExitCode
from tiercel.cli.group import PANELS

from .running_verbs import Daemon, Run

VERBS = [verb for verbs in PANELS.values() for verb in verbs]
OF_THE_ISSUE = (
    "ls create set rm send receive peek tail grep count cp mv purge export import journal dead discards "
    "outgoing connections transactions claims pause resume user check decode pipeline serve bench"
)


def test_every_verb_is_there() -> None:
    assert set(OF_THE_ISSUE.split()) <= set(VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_help_has_examples(verb: str) -> None:
    group = get_command(app)
    with group.make_context("tiercel", [verb], resilient_parsing=True) as context:
        command = group.get_command(context, verb)  # type: ignore[attr-defined]  # it is a group
    assert command.help
    assert len(command.help.strip().splitlines()[0]) <= 110
    assert f"    tiercel {verb}" in (command.epilog or "")


def test_help_is_as_it_was_written(capsys: pytest.CaptureFixture[str]) -> None:
    """Neither markup nor a missing escape takes words away."""
    run = Run(capsys)
    out = run("token", "add", "--help").out
    assert "[data]" in out
    out = run("send", "--help").out
    assert r"DIRECT=TCP:192.0.2.7\private$\orders" in out


def test_a_wrong_verb(capsys: pytest.CaptureFixture[str]) -> None:
    result = Run(capsys)("recieve", "q")
    assert result.code == 2
    assert "Did you mean 'receive'" in result.err


def test_an_option_before_the_verb(capsys: pytest.CaptureFixture[str]) -> None:
    result = Run(capsys)("--data", "x", "ls")
    assert result.code == 2
    assert "options follow the command" in result.err


def test_exit_codes_are_told_once() -> None:
    assert all(code.meaning for code in ExitCode)
    assert (ExitCode.NO_DAEMON, ExitCode.BROKEN_PIPE) == (69, 141)


HEAVY = ("fastapi", "starlette", "uvicorn", "httpx", "pyarrow", "pyspark", "numpy", "rich", "tiercel.engine")


def test_what_is_not_used_is_not_loaded() -> None:
    program = (
        "import sys; from tiercel.cli import main\n"
        "try: main(['--version'])\nexcept SystemExit: pass\n"
        f"print([name for name in {HEAVY} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout.splitlines()[-1] == "[]"


UNUSED_BY_LS = (
    "asyncio",
    "fastapi",
    "httpx",
    "importlib.metadata",
    "pydantic",
    "rich.console",
    "tiercel.client",
    "tiercel.model",
    "urllib.request",
)


@pytest.mark.parametrize(
    "words", [["ls"], ["ls", "q*", "--long"], ["ls", "--json"], ["count", "QUEUE"]], ids=" ".join
)
def test_a_listing_loads_only_what_it_uses(daemon: Daemon, queue: str, words: list[str]) -> None:
    assert loaded(daemon, [queue if word == "QUEUE" else word for word in words], UNUSED_BY_LS) == []


def test_the_default_of_a_number_needs_no_conversion(daemon: Daemon, queue: str) -> None:
    assert loaded(daemon, ["tail", queue], ("pydantic",)) == []
    assert loaded(daemon, ["tail", queue, "-n", "3"], ("pydantic",)) == ["pydantic"]


def test_a_search_without_a_match_decodes_nothing(daemon: Daemon, queue: str) -> None:
    modules = ("tiercel.bodies", "rich.console", "tiercel.model")
    assert loaded(daemon, ["grep", "nothing", queue], modules, code=3) == []


def loaded(daemon: Daemon, words: list[str], modules: tuple[str, ...], code: int = 0) -> list[str]:
    """The modules that a command has loaded, of those named."""
    program = (
        "import json, sys; from tiercel.cli import main\n"
        f"assert main({words}) == {code}\n"
        f"print(json.dumps([name for name in {modules} if name in sys.modules]))"
    )
    environment = {**os.environ, "TIERCEL_DATA": str(daemon.data)}
    done = subprocess.run(  # noqa: S603  # our own program
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    found: list[str] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_the_shell_completes_names_of_queues(run: Run, queue: str, daemon: Daemon) -> None:
    run.fine("send", queue, "hello")
    environment = {
        **os.environ,
        "TIERCEL_DATA": str(daemon.data),
        "_TIERCEL_COMPLETE": "complete_bash",
        "COMP_WORDS": f"tiercel peek {queue}",
        "COMP_CWORD": "2",
    }
    program = [sys.executable, "-m", "tiercel"]
    done = subprocess.run(program, env=environment, capture_output=True, text=True, check=False)  # noqa: S603
    assert queue in done.stdout.split()
    environment["TIERCEL_DATA"] = "/nowhere"
    done = subprocess.run(program, env=environment, capture_output=True, text=True, check=False)  # noqa: S603
    assert (done.stdout.strip(), done.stderr) == ("", "")


def test_the_app_is_a_typer() -> None:
    assert isinstance(app, typer.Typer)


def test_the_page_has_the_same_exit_codes() -> None:
    page = Path(__file__).parents[2] / "docs" / "command-line.md"
    rows = re.findall(r"(?m)^\| (\d+) \| (.*) \|$", page.read_text("utf-8"))
    assert rows == [(str(int(code)), code.meaning) for code in ExitCode]
