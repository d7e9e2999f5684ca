"""Names for queue managers, kept in a file of the user."""

import json
from pathlib import Path

import pytest

from .running_verbs import Daemon, Run


@pytest.fixture(autouse=True)
def file(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:  # noqa: ARG001  # after `run`
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config" / "tiercel" / "contexts.json"


@pytest.fixture
def prod(run: Run, daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A context of the daemon, with nothing else that names it."""
    (tmp_path / "token").write_text(daemon.tokens["read"])
    assert run.fine("context", "add", "prod", "--server", daemon.url, "--token-file", tmp_path / "token").out
    monkeypatch.delenv("TIERCEL_DATA")
    monkeypatch.chdir(tmp_path)
    return "prod"


def test_chooses_the_queue_manager_before_and_after_the_command(run: Run, prod: str, queue: str) -> None:
    assert run.fine("--context", prod, "count", queue).out == "0\n"
    assert run.fine("count", queue, "--context", prod).out == "0\n"
    assert "no daemon runs here" in run.refused(69, "count", queue)


@pytest.fixture
def queue(run: Run, daemon: Daemon) -> str:  # the one of conftest needs TIERCEL_DATA
    run("create", "named", "--data", daemon.data, "--exist-ok")
    return "named"


def test_is_the_default_once_it_is_used(run: Run, prod: str, queue: str) -> None:
    run.fine("context", "use", prod)
    assert run.fine("count", queue).out == "0\n"
    assert [each["current"] for each in run.fine("context", "ls", "--json").records] == [True]
    assert run.fine("context", "ls").lines[1].startswith("*  prod     ")
    run.fine("context", "use")
    assert run("count", queue).code == 69


def test_gives_way_to_what_is_said(
    run: Run, prod: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.fine("context", "use", prod)
    assert "there is no store" in run.refused(69, "ls", "--data", tmp_path)
    monkeypatch.setenv("TIERCEL_DATA", str(tmp_path))
    assert "there is no store" in run.refused(69, "ls")
    assert run("ls", "--context", prod).code == 0
    result = run("ls", "--context", prod, "--data", tmp_path)
    assert (result.code, "use only one of these" in result.err) == (2, True)


def test_a_token_file_of_the_command_counts(
    run: Run, prod: str, queue: str, daemon: Daemon, tmp_path: Path
) -> None:
    assert "it lacks the role send" in run("send", queue, "x", "--context", prod).err
    (tmp_path / "other").write_text(daemon.tokens["send"])
    run.fine("send", queue, "x", "--context", prod, "--token-file", tmp_path / "other")
    run.fine("purge", queue, "--yes", "--data", daemon.data)


def test_is_removed(run: Run, prod: str, file: Path) -> None:
    run.fine("context", "use", prod)
    run.fine("context", "rm", prod)
    assert json.loads(file.read_text("utf-8")) == {"current": None, "contexts": {}}
    assert "no such context" in run("context", "rm", prod).err


@pytest.mark.usefixtures("prod")
def test_the_file_has_absolute_paths_and_no_token(
    run: Run, file: Path, daemon: Daemon, tmp_path: Path
) -> None:
    run.fine("context", "add", "here", "--data", "some/where")
    text = file.read_text("utf-8")
    assert daemon.tokens["read"] not in text
    assert json.loads(text)["contexts"]["here"]["data"] == f"{tmp_path}/some/where"


def test_refused(run: Run, prod: str, file: Path) -> None:
    assert run("context", "add", "x").code == 2
    assert run("context", "add", "x", "--data", "a", "--server", "b").code == 2
    assert "write it as http://HOST:8801" in run("context", "add", "x", "--server", "ftp://x").err
    assert "context y: no such context" in run.refused(5, "ls", "--context", "y")
    assert run("context", "use", "y").code == 5
    file.write_text("{", "utf-8")
    assert "not a valid file of contexts" in run.refused(2, "ls", "--context", prod)
