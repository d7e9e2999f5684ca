"""Only `make interop` collects this folder: it needs packages and programs that few machines have."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from .impacket_reader import Impacket
from .served import Served

IS_WANTED = bool(os.environ.get("TIERCEL_INTEROP"))
if not IS_WANTED:
    collect_ignore_glob = ["test_*.py"]

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".venv-interop" / "bin" / "python"
TRANSCRIPTS: list[tuple[str, str]] = []

Serve = Callable[..., Served]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Fills a queue and starts a daemon over it."""
    started: list[Served] = []

    def start(*bodies: bytes, more: str = "", **options: Any) -> Served:
        served = Served(tmp_path, options, more)
        served.fill(*bodies)
        started.append(served)
        return served.start()

    yield start
    for served in started:
        assert served.stop() == 0, served.log.read_text("utf-8")


@pytest.fixture
def impacket() -> Iterator[Impacket]:
    if not PYTHON.exists():
        pytest.skip("impacket is not installed; make interop does that")
    peer = Impacket(PYTHON)
    yield peer
    peer.close()


@pytest.fixture
def transcript(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """What a stranger printed is shown at the end."""
    return lambda text: TRANSCRIPTS.append((request.node.nodeid, text))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for name, text in TRANSCRIPTS:
        terminalreporter.section(name.rpartition("/")[2], sep="-")
        terminalreporter.write_line(text.rstrip())
