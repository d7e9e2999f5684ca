import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tiercel.admin.message_json import READ_ONLY

from .running_verbs import Daemon, Run, start

OPTIONS = (
    ["--label", "order 7", "-p", "7", "--recoverable", "--ttl", "10m", "--journal", "--dead-letter"],
    ["--as", "bstr", "--response-queue", "answers", "--set", "application_tag=7", "--set", "extension=AAE="],
    ["--label", "\u2028 line \u0085 breaks \U0001f600", "--ttrq", "1h", "--set", "tracing=false"],
)


def kept(message: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in message.items() if name not in READ_ONLY}


def test_there_and_back(run: Run, new_queue: Callable[..., str], tmp_path: Path) -> None:
    source, target = new_queue(), new_queue()
    for options in OPTIONS:
        run.fine("send", source, "x\u2028y", *options)
    exported = run.fine("export", source)
    assert len(exported.out.split("\n")) == 4  # splitlines would see more
    file = tmp_path / "messages"
    file.write_text(exported.out, "utf-8")
    assert run.fine("import", target, file).out == f"{file}: 3 messages sent to {target}\n"
    again = run.fine("export", target)
    before, after = (
        [kept(json.loads(line)) for line in result.out.rstrip("\n").split("\n")]
        for result in (exported, again)
    )
    assert after == before
    assert [each.get("label") for each in before] == ["order 7", None, OPTIONS[2][1]]
    assert (before[1]["body_type"], before[1]["extension"]) == ("bstr", "AAE=")


def test_from_pipe_to_pipe(run: Run, new_queue: Callable[..., str], daemon: Daemon) -> None:
    source, target = new_queue(), new_queue()
    run.fine("send", source, "hello")
    exporting = start(daemon, "export", source, stdout=subprocess.PIPE)
    importing = start(daemon, "import", target, "--json", stdin=exporting.stdout, stdout=subprocess.PIPE)
    out, _ = importing.communicate()
    assert exporting.stdout is not None
    exporting.stdout.close()
    assert (exporting.wait(), importing.returncode) == (0, 0)
    assert json.loads(out) == {"queue": target, "count": 1, "dry_run": False}
    assert run.fine("count", target).out == "1\n"


def test_into_a_file(run: Run, queue: str, tmp_path: Path) -> None:
    run.fine("send", queue, "hello")
    result = run("export", queue, "--out", tmp_path / "messages")
    assert (result.code, result.out) == (0, "")
    assert "1 message of" in result.err
    assert [each.name for each in tmp_path.iterdir()] == ["messages"]
    assert json.loads((tmp_path / "messages").read_text("utf-8"))["body_size"] == 5


def test_a_file_that_cannot_be_written(run: Run, queue: str, tmp_path: Path) -> None:
    line = run.refused(2, "export", queue, "--out", tmp_path / "none" / "file")
    assert line == f"tiercel export: {tmp_path}/none/file: No such file or directory\n"


def test_a_terminal_is_shown_no_control_characters(
    run: Run, new_queue: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """C1, and a character that reverses what follows; the values stay the same."""
    queue, label = new_queue(), "a\x9b31mb\u202ec"
    run.fine("send", queue, "hello", "--label", label)
    plain = run.fine("export", queue).out
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    shown = run.fine("export", queue).out
    assert r"a\u009b31mb\u202ec" in shown
    assert not set("\x9b\u202e") & set(shown)
    assert json.loads(shown) == json.loads(plain)
    assert json.loads(shown)["label"] == label


class TestRefused:
    """The whole file is looked at before anything is sent."""

    @pytest.fixture
    def lines(self) -> list[str]:
        return [json.dumps({"text": "hello", "label": f"message {number}"}) for number in range(3)]

    def refused(self, run: Run, queue: str, file: Path, text: str, code: int = 1) -> str:
        file.write_text(text, "utf-8")
        line = run.refused(code, "import", queue, file)
        assert run.fine("count", queue).out == "0\n"
        return line

    def test_half_written(self, run: Run, queue: str, lines: list[str], tmp_path: Path) -> None:
        line = self.refused(run, queue, tmp_path / "f", "\n".join(lines)[:-5])
        assert f"{tmp_path}/f, line 3: not a JSON object" in line
        assert line.endswith("Is the file complete? Nothing was sent\n")

    def test_an_unknown_property(self, run: Run, queue: str, lines: list[str], tmp_path: Path) -> None:
        lines[1] = '{"text": "hello", "lable": "x"}'
        line = self.refused(run, queue, tmp_path / "f", "\n".join(lines))
        assert "line 2: message property lable" in line
        assert "erhaps label is meant" in line

    def test_a_wrong_value(self, run: Run, queue: str, lines: list[str], tmp_path: Path) -> None:
        lines[2] = '{"priority": 9}'
        assert "line 3: message priority" in self.refused(run, queue, tmp_path / "f", "\n".join(lines))

    def test_no_objects(self, run: Run, queue: str, tmp_path: Path) -> None:
        assert "line 1: not a JSON object" in self.refused(run, queue, tmp_path / "f", "[1]")
        assert "line 2: not a JSON object" in self.refused(run, queue, tmp_path / "f", "{}\n\x00")
        assert "line 1: not a JSON object" in self.refused(run, queue, tmp_path / "f", "[" * 100_000)

    def test_no_file(self, run: Run, queue: str, tmp_path: Path) -> None:
        assert "No such file" in run.refused(2, "import", queue, tmp_path / "none")

    def test_no_queue(self, run: Run, queue: str, lines: list[str], tmp_path: Path) -> None:
        (tmp_path / "f").write_text("\n".join(lines), "utf-8")
        line = run.refused(5, "import", f"{queue}x", tmp_path / "f")
        assert line.endswith("Nothing was sent.\n")


def test_only_checked(run: Run, queue: str, tmp_path: Path) -> None:
    (tmp_path / "f").write_text('{"text": "a"}\n\n{"text": "b"}\n', "utf-8")
    assert run.fine("import", "-n", queue, tmp_path / "f").out.endswith(
        f"2 messages would be sent to {queue}\n"
    )
    assert run.fine("count", queue).out == "0\n"


def test_in_parts(run: Run, queue: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is larger than a request: what was sent before something went wrong is told."""
    monkeypatch.setattr("tiercel.cli.exporting.MAX_REQUEST_MESSAGES", 2)
    run.fine("set", queue, "quota_kib=1")
    (tmp_path / "f").write_text("".join(f'{{"text": "{"x" * 100}"}}\n\n' for _ in range(9)), "utf-8")
    line = run.refused(1, "import", queue, tmp_path / "f")
    assert "MQ_ERROR_INSUFFICIENT_RESOURCES" in line
    sent = int(run.fine("count", queue).out)
    assert 0 < sent < 9
    assert f"{sent} messages sent before that; continue with --skip {2 * sent - 1}\n" in line
    run.fine("set", queue, "quota_kib=none")
    run.fine("import", queue, tmp_path / "f", "--skip", 2 * sent - 1)
    assert run.fine("count", queue).out == "9\n"
