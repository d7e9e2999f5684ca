from .running_verbs import Run


def labels(run: Run, queue: str) -> list[str]:
    return [record["label"] for record in run.fine("peek", queue, "-n", "999", "--json").records]


def test_delete_and_undo(run: Run, queue: str) -> None:
    for label in ("a", "b", "c"):
        run.fine("send", queue, f"body {label}", "--label", label)
    assert run.fine("delete", queue, "--dry-run").out == f"3 messages of {queue} would be deleted\n"
    assert "add --yes" in run.refused(1, "delete", queue)
    done = run.fine("delete", queue, "--match", "body b", "--json").record
    assert (done["count"], labels(run, queue)) == (1, ["a", "c"])
    assert any(each["id"] == done["id"] for each in run.fine("operations", "--json").records)
    assert run.fine("undo", done["id"]).out == f"1 of 1 message put back into {queue}\n"
    assert labels(run, queue) == ["a", "b", "c"]
    assert run("delete", queue, "--match", "nothing").code == 3
    assert "undone already" in run.refused(1, "undo", done["id"])


def test_edit(run: Run, queue: str) -> None:
    run.fine("send", queue, "old", "--label", "first")
    identifier = run.fine("peek", queue, "--json").record["lookup_id"]
    lines = run.fine("edit", queue, identifier, "--set", "label=second", "--set", "priority=7").lines
    assert lines[0] == 'label: "first" -> "second"'
    assert lines[1].startswith("priority: ")
    assert labels(run, queue) == ["second"]
    run.refused(5, "edit", queue, identifier, "--text", "x")
    assert "NAME=VALUE" in run("edit", queue, identifier, "--set", "label").err


def test_audit(run: Run, queue: str) -> None:
    line = run.fine("audit", "-n", "1", "--json").record
    assert (line["what"], line["subject"]) == ("create queue", queue)
