"""Running pytest in a forked child: third-party packages are imported before the fork, Tiercel after it."""

import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path

import pytest

_THIRD_PARTY = (
    "cryptography.x509",
    "fastapi",
    "httpx",
    "hypothesis.stateful",
    "lmdb",
    "prometheus_client",
    "rich.console",
    "sortedcontainers",
    "spnego",
    "typer.testing",
    "uvicorn",
    "xdist.scheduler",
)
_POLL_S = 0.02
PASSED, FAILED = 0, 1
KILLER = "killed by "


def preload() -> None:
    for name in _THIRD_PARTY:
        with suppress(ImportError):
            import_module(name)


def in_child(copy: Path, work: Callable[[], int], limit_s: float, log: Path) -> int:
    """The exit status of `work` in a fork with the copy as its working directory; FAILED if it hangs."""
    with _temporary_folder() as temporary:
        child = os.fork()
        if not child:
            _become_child(copy, temporary, work, log)
        deadline = time.monotonic() + limit_s
        while True:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                _kill_group(child)  # the processes that a test has left
                return os.waitstatus_to_exitcode(status)
            if time.monotonic() > deadline:
                _kill_group(child)
                os.waitpid(child, 0)
                return FAILED
            time.sleep(_POLL_S)


@contextmanager
def _temporary_folder() -> Iterator[Path]:
    folder = tempfile.mkdtemp(prefix="mutant")  # short: sockets live in it
    try:
        yield Path(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _kill_group(child: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)


def _become_child(copy: Path, temporary: Path, work: Callable[[], int], log: Path) -> None:
    status = FAILED
    try:
        os.setsid()
        multiprocessing.current_process().daemon = False  # a test may start processes of its own
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.chdir(copy)
        os.environ["TMPDIR"] = str(temporary)
        os.environ["PYTHONPATH"] = str(copy / "src")
        tempfile.tempdir = None
        sys.path.insert(0, str(copy / "src"))
        status = work()
    except BaseException:  # noqa: BLE001  # whatever it is, only the child ends
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def run_pytest(arguments: list[str], plugin: object) -> int:
    options = ["-q", "-x", "-n0", "--tb=short", "-p", "no:cacheprovider"]
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # of packages imported before the fork
    return pytest.main([*options, *arguments], plugins=[plugin])


class Selection:
    """A plugin of pytest that runs certain tests in a certain order, and begins none after the deadline."""

    def __init__(self, tests: list[str], seconds: float) -> None:
        self._rank = {test: rank for rank, test in enumerate(tests)}
        self._deadline = time.monotonic() + seconds
        self.is_cut = False
        self.failed = ""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted(
            (item for item in items if item.nodeid in self._rank), key=lambda item: self._rank[item.nodeid]
        )

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed = report.nodeid

    def pytest_runtest_logfinish(self) -> None:
        self.is_cut = time.monotonic() > self._deadline

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> None:
        if self.is_cut:
            item.session.shouldstop = "out of time"


def run_selected(tests: list[str], seconds: float) -> int:
    files = dict.fromkeys(test.partition("::")[0] for test in tests)
    selection = Selection(tests, seconds)
    status = run_pytest(list(files), selection)
    if selection.failed:
        print(f"{KILLER}{selection.failed}")
        return FAILED
    return PASSED if selection.is_cut else status
