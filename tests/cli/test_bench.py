from collections.abc import Callable

import pytest

from tiercel.cli import bench

from .running_verbs import Run


def test_measures_and_leaves_nothing(run: Run) -> None:
    rows = run("bench", "--seconds", "0.05", "--size", "10", "--json").records
    assert [row["what"] for row in rows][:2] == ["send, express", "send, recoverable"]
    assert all(row["messages"] > 0 and row["messages_per_s"] > 0 for row in rows)
    assert all(row["latency_p50_ms"] <= row["latency_p99_ms"] for row in rows)
    assert "bench" not in run.fine("ls", "--json").out


def test_messages_that_were_not_received_leave_no_discards(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def measure(what: str, step: Callable[[], int], _seconds: float) -> bench.Measured:
        return bench.Measured(what, 1 if what.startswith("receive") else step(), 1.0, [1.0])

    monkeypatch.setattr(bench, "_measure", measure)
    run.fine("bench", "--size", "10", "--json")
    assert "bench" not in run.fine("discards", "--json", "-n", "1000").out
    assert "bench" not in run.fine("ls", "--json").out
