"""The verbs as tests run them: in this process, or as a process of their own."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tiercel.cli import main


@dataclass(frozen=True)
class Daemon:
    data: Path
    url: str
    tokens: dict[str, str]  # by role


def start(daemon: Daemon, *words: str, **options: object) -> "subprocess.Popen[str]":
    """The program as a process of its own."""
    environment = {**os.environ, "TIERCEL_DATA": str(daemon.data)}
    return subprocess.Popen(  # type: ignore[call-overload,no-any-return]  # noqa: S603  # our own program
        [sys.executable, "-m", "tiercel", *words], env=environment, text=True, **options
    )


class Result:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines]

    @property
    def record(self) -> dict[str, Any]:
        (only,) = self.records
        return only


class Run:
    """`run("send", queue, "hello")`: the program in this process, with what it prints."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *words: object) -> Result:
        try:
            code = main([str(word) for word in words])
        except SystemExit as stop:
            code = int(stop.code or 0)
        return Result(code, *self._capsys.readouterr())

    def fine(self, *words: object) -> Result:
        result = self(*words)
        assert (result.code, result.err) == (0, ""), result.err
        return result

    def refused(self, code: int, *words: object) -> str:
        """The one line on the standard error, when nothing else was printed."""
        result = self(*words)
        assert (result.code, result.out) == (code, ""), result.err
        assert result.err.count("\n") == 1
        assert result.err.startswith(f"tiercel {words[0]}: ")
        return result.err
