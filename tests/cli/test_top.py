from .running_verbs import Run


def test_one_frame(run: Run, queue: str) -> None:
    run.fine("send", queue, "hello")
    lines = run.fine("top", "-n", "1000").lines
    assert "waiting for other computers" in lines[0]
    assert any(line.split()[:2] == [queue, "1"] for line in lines)
    frame = run.fine("top", "--json", "-n", "1000").record
    assert queue in [each["name"] for each in frame["queues"]]
    assert run.fine("top", "--json", "-n", "1").record["queues"][1:] == []
