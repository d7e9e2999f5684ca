"""`python -m tiercel.sim`: progress, several processes, the exit code."""

import subprocess
import sys

import pytest

from tiercel.sim import __main__ as command
from tiercel.sim.simulation import Result


def results(*failed: int) -> list[Result]:
    return [Result(seed, ["lost"] if seed in failed else [], messages=2) for seed in range(1, 6)]


def test_progress_is_printed_while_it_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter(range(0, 1000, 3))
    monkeypatch.setattr("time.monotonic", lambda: float(next(clock)))
    assert command._report(results(2), keep_going=True) == 1
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("3 seeds so far, 1 failed, ") for line in lines)
    assert lines[-1].startswith("5 seeds, 1 failed; 10 messages, ")


def test_the_first_failure_ends_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert command._report(results(2, 4), keep_going=False) == 1
    assert capsys.readouterr().out.splitlines()[-1].startswith("2 seeds, 1 failed; ")


def test_several_processes_run_the_same_seeds() -> None:
    def totals(jobs: str) -> str:
        arguments = [sys.executable, "-m", "tiercel.sim", "--seeds", "6", "--jobs", jobs]
        output = subprocess.run(arguments, check=True, stdout=subprocess.PIPE, text=True).stdout  # noqa: S603
        return output.splitlines()[-1].partition(" in ")[0]

    assert totals("1") == totals("2")
