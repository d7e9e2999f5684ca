"""A daemon for the tests of the verbs: one for all of them, each with queues of its own."""

import json
import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from threading import Thread

import pytest

from tiercel.security.tokens import Bearer, digest_of, new_token, roles_of
from tiercel.server import token_file
from tiercel.server.log import JsonLines, TextLines

from .running_verbs import Daemon, Run

_NUMBERS = count(1)


@pytest.fixture(autouse=True)
def logs_end_with_their_test() -> Iterator[None]:
    """`serve` sends the log of its process to the standard error, which here is that of all tests."""
    root = logging.getLogger()
    level = root.level
    yield
    for handler in list(root.handlers):
        if isinstance(handler.formatter, TextLines | JsonLines):
            root.removeHandler(handler)
    root.setLevel(level)


@pytest.fixture(scope="session")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    folder = tmp_path_factory.mktemp("daemon")
    tokens = {role: _token(folder / "tokens", role) for role in ("read", "send", "receive", "admin")}
    config = folder / "tiercel.toml"
    config.write_text(
        f'[log]\nformat = "json"\n[api]\nenabled = true\nport = 0\ntokens = "{folder}/tokens"\n', "utf-8"
    )
    command = [sys.executable, "-m", "tiercel", "serve", "--data", str(folder / "data")]
    command += ["--config", str(config), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:  # noqa: S603  # our own
        assert process.stderr is not None
        try:
            start = next(event for event in map(json.loads, process.stderr) if event["event"] == "start")
            log = Thread(target=process.stderr.read)  # a pipe that nobody reads would stop the daemon
            log.start()
            yield Daemon(folder / "data", start["api"], tokens)
        finally:
            process.terminate()
            log.join()


def _token(file: Path, role: str) -> str:
    token = new_token()
    bearer = Bearer(role, roles_of(role), digest_of(token))
    token_file.change(file, lambda tokens: tokens.with_bearer(bearer), create=True)
    return token


@pytest.fixture
def run(daemon: Daemon, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """With the daemon as the one that is meant."""
    monkeypatch.setenv("TIERCEL_DATA", str(daemon.data))
    monkeypatch.delenv("TIERCEL_SERVER", raising=False)
    monkeypatch.setenv(
        "XDG_CONFIG_HOME", str(daemon.data / "no-contexts")
    )  # not those of whoever runs the tests
    for name in ("TIERCEL_TOKEN", "FORCE_COLOR", "PY_COLORS", "GITHUB_ACTIONS", "NO_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)  # of whoever runs the tests
    return Run(capsys)


@pytest.fixture
def new_queue(run: Run) -> Callable[..., str]:
    def create(*options: str) -> str:
        name = f"q{next(_NUMBERS)}"
        run.fine("create", name, *options)
        return name

    return create


@pytest.fixture
def queue(new_queue: Callable[..., str]) -> str:
    return new_queue()
