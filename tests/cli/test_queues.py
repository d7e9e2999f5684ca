import json
from collections.abc import Callable

import pytest

from .running_verbs import Run


class TestList:
    def test_a_table_and_records(self, run: Run, new_queue: Callable[..., str]) -> None:
        name = new_queue("--transactional", "--label", "Orders", "--journal")
        run.fine("send", name, "hello")
        head, row = run.fine("ls", name).lines
        assert head.split() == ["QUEUE", "MESSAGES", "SIZE", "OLDEST", "KIND", "LABEL"]
        assert row.split()[:2] == [name, "1"]
        assert row.endswith("transactional journal  Orders")
        record = run.fine("ls", name, "--json").record
        assert (record["name"], record["count"], record["transactional"]) == (name, 1, True)

    def test_names_as_people_write_them(self, run: Run, queue: str) -> None:
        for written in (
            queue,
            rf"private$\{queue}",
            rf".\private$\{queue}",
            rf".\PRIVATE$\{queue.upper()}",
            rf"FormatName:DIRECT=OS:.\private$\{queue}",
        ):
            assert run.fine("count", written).out == "0\n"
        assert run.fine("ls", f"{queue[0]}*", "--json").records

    def test_system_queues_by_what_one_types(self, run: Run, queue: str) -> None:
        names = [line.split()[0] for line in run.fine("ls", "--all").lines]
        assert {";journal", ";deadletter", ";deadxact", queue, f"{queue};journal"} <= set(names)
        assert run.fine("count", ";deadletter", f"{queue};journal", "--json").records

    def test_no_such_name(self, run: Run) -> None:
        assert "zzz*: no such queue" in run.refused(5, "ls", "zzz*")

    def test_long(self, run: Run, queue: str) -> None:
        assert rf"private$\{queue}" in run.fine("ls", "-l", queue).lines[1]


class TestCreateAndSet:
    def test_properties(self, run: Run) -> None:
        created = run.fine("create", r".\private$\made", "quota=64", "privacy_level=body", "--json").record
        assert (created["quota_kib"], created["privacy_level"]) == (64, "body")
        assert "exists" in run.refused(1, "create", "made")
        assert run.fine("create", "made", "--exist-ok").out.endswith("\\private$\\made\n")
        run.fine("rm", "--yes", "made")

    def test_set_and_show(self, run: Run, queue: str) -> None:
        run.fine("set", queue, "label=Orders of the shop", "journal=true", "quota_kib=none")
        shown = {line.split()[0]: line.split(maxsplit=1)[1] for line in run.fine("set", queue).lines}
        assert (shown["label"], shown["journaling"], shown["quota_kib"]) == (
            "Orders of the shop",
            "true",
            "none",
        )
        assert run.fine("set", queue, "label=7", "--json").record["label"] == "7"

    def test_an_unknown_property(self, run: Run, queue: str) -> None:
        line = run.refused(1, "set", queue, "lable=x", "journaling=true")
        assert "lable: " in line
        assert "label" in line
        assert run.fine("set", queue, "--json").record["journaling"] is False  # nothing half-way

    def test_a_wrong_value(self, run: Run, queue: str) -> None:
        assert "quota_kib" in run.refused(1, "set", queue, "quota_kib=much")
        assert "KEY=VALUE" in run.refused(2, "set", queue, "label")

    def test_a_wrong_name(self, run: Run, queue: str) -> None:
        assert "MQ_ERROR_QUEUE_NOT_FOUND" in run.refused(5, "set", f"{queue}x")
        assert f"Perhaps {queue} is meant" in run.refused(5, "set", f"{queue}x")
        assert "MQ_ERROR_ILLEGAL" in run.refused(1, "create", "a+b")
        assert "missing queue name" in run.refused(2, "count", "")

    def test_names_that_a_path_of_http_would_spoil(self, run: Run) -> None:
        for name in ("a b", "ü%41x", "a/b", "a?b#c"):
            run.fine("create", name)
            run.fine("send", name, "hello")
            assert run.fine("count", name).out == "1\n"
            run.fine("rm", "--yes", name)


class TestEnding:
    def test_a_dry_run_changes_nothing(self, run: Run, queue: str) -> None:
        run.fine("send", queue, "hello")
        assert run.fine("purge", "-n", queue).out.startswith(f"{queue}: would be purged, 1 message (")
        assert run.fine("rm", "--dry-run", queue, "--json").record["count"] == 1
        assert run.fine("count", queue).out == "1\n"

    def test_without_a_terminal_yes_is_wanted(self, run: Run, queue: str) -> None:
        run.fine("send", queue, "hello")
        for verb in ("purge", "rm"):
            line = run.refused(1, verb, queue)
            assert f"{queue} with 1 message (" in line
            assert "add --yes" in line
        assert run.fine("count", queue).out == "1\n"

    def test_purge_and_remove(self, run: Run, queue: str) -> None:
        run.fine("send", queue, "hello")
        assert run.fine("purge", "--yes", queue).out.startswith(f"{queue}: purged, 1 message (")
        assert run.fine("count", queue).out == "0\n"
        assert run.fine("rm", "-y", queue).out == f"{queue}: deleted, 0 messages (0 B)\n"
        assert queue in run.refused(5, "count", queue)

    def test_one_wrong_name_ends_nothing(self, run: Run, queue: str) -> None:
        run.refused(5, "rm", "--yes", queue, f"{queue}x")
        run.fine("count", queue)

    def test_a_terminal_is_asked(self, run: Run, queue: str, monkeypatch: pytest.MonkeyPatch) -> None:
        answers = iter([False, True])
        monkeypatch.setattr("sys.stdin.isatty", lambda: True)
        monkeypatch.setattr("typer.confirm", lambda _question, **_options: next(answers))
        assert run.refused(1, "rm", queue) == "tiercel rm: nothing was done\n"
        run.fine("rm", queue)


def test_count_of_several(run: Run, new_queue: Callable[..., str]) -> None:
    one, two = new_queue(), new_queue()
    run.fine("send", two, "hello")
    assert [line.split() for line in run.fine("count", one, two).lines] == [["0", one], ["1", two]]
    assert [json.loads(line)["count"] for line in run.fine("count", one, two, "--json").lines] == [0, 1]


def test_pause_and_resume(run: Run) -> None:
    far = r"DIRECT=OS:far.invalid\private$\paused"
    run.fine("send", far, "hello")
    run.fine("pause", far)
    assert run.fine("ls", far, "--json").record["paused"] is True
    assert "paused" in run.fine("ls", far).lines[1]
    run.fine("resume", far)
    assert run.fine("ls", far, "--json").record["paused"] is False
    run.fine("purge", "--yes", far)
