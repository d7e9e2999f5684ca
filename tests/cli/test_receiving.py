import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tiercel.cli.connection import Api, Place, connect
from tiercel.cli.context import Context
from tiercel.cli.output import Output
from tiercel.cli.receiving import Leased

from .running_verbs import Daemon, Run, start


class TestReceive:
    def test_whole(self, run: Run, queue: str) -> None:
        run.fine("send", queue, '{"order": 7}', "--as", "json", "--label", "order 7")
        lines = run.fine("receive", queue).lines
        assert lines[0] == "order 7"
        assert any(line.split() == ["message", "class", "normal"] for line in lines)
        assert lines[-3:] == ["    {", '      "order": 7', "    }"]
        assert run.fine("count", queue).out == "0\n"

    def test_nothing(self, run: Run, queue: str) -> None:
        result = run("receive", queue, "--wait", "0.05")
        assert (result.code, result.out) == (3, "")
        assert result.err == f"{queue}: no message in 0.05 s\n"
        assert run("receive", queue, "--json").err == ""

    def test_all_in_their_order(self, run: Run, queue: str, tmp_path: Path) -> None:
        lines = [f'{{"priority": {number % 2}}}\n' for number in range(60)]  # more than are leased at once
        (tmp_path / "messages").write_text("".join(lines), "utf-8")
        run.fine("import", queue, tmp_path / "messages")
        first = [record["priority"] for record in run.fine("receive", queue, "-n", "2", "--json").records]
        assert first == [1, 1]
        rest = [record["priority"] for record in run.fine("receive", queue, "--all", "--json").records]
        assert rest == [1] * 28 + [0] * 30
        assert run.fine("count", queue).out == "0\n"

    def test_the_body_alone(self, run: Run, queue: str, daemon: Daemon, tmp_path: Path) -> None:
        (tmp_path / "body").write_bytes(bytes(range(256)))
        run.fine("send", queue, "--file", tmp_path / "body")
        with (tmp_path / "copy").open("wb") as file, start(daemon, "receive", queue, "--body", stdout=file):
            pass
        assert (tmp_path / "copy").read_bytes() == bytes(range(256))

    def test_one_by_its_lookup_id(self, run: Run, queue: str) -> None:
        for text in "abc":
            run.fine("send", queue, text, "--label", text)
        wanted = run.fine("peek", queue, "-n", "3", "--json").records[1]
        received = run.fine("receive", queue, "--lookup-id", wanted["lookup_id"], "--json").record
        assert received["label"] == "b"
        assert run.fine("count", queue).out == "2\n"
        line = run.refused(5, "receive", queue, "--lookup-id", wanted["lookup_id"])
        assert "MQ_ERROR_MESSAGE_NOT_FOUND" in line
        assert "'x' is not a valid lookup id" in run("receive", queue, "--lookup-id", "x").err

    def test_waits_for_a_message(self, run: Run, queue: str, daemon: Daemon) -> None:
        with start(daemon, "receive", queue, "--wait", "60", "--json", stdout=subprocess.PIPE) as waiting:
            run.fine("send", queue, "hello", "--label", "late")
            out, _ = waiting.communicate()
        assert '"late"' in out
        assert waiting.returncode == 0


class TestNothingIsLost:
    def test_a_reader_that_goes_away(self, run: Run, queue: str, daemon: Daemon) -> None:
        """What could not be written goes back to its place, and all that was leased with it."""
        for text in "abc":
            run.fine("send", queue, text, "--label", text)
        reader, writer = os.pipe()
        os.close(reader)
        with start(daemon, "receive", queue, "--all", stdout=writer, stderr=subprocess.PIPE) as receiving:
            os.close(writer)
            _, err = receiving.communicate()
        assert (receiving.returncode, err) == (141, "")
        assert [each["label"] for each in run.fine("peek", queue, "-n", "9", "--json").records] == list("abc")

    def test_a_disk_that_is_full(self, run: Run, queue: str, daemon: Daemon) -> None:
        run.fine("send", queue, "hello")
        with open("/dev/full", "w") as full:  # noqa: PTH123  # nothing is written there
            receiving = start(daemon, "receive", queue, stdout=full, stderr=subprocess.PIPE)
            _, err = receiving.communicate()
        assert receiving.returncode == 1
        assert err == "tiercel receive: output: No space left on device\n"
        assert run.fine("count", queue).out == "1\n"

    def test_a_program_that_is_ended(self, run: Run, queue: str, daemon: Daemon, tmp_path: Path) -> None:
        """While nobody reads its output; what it had leased is back when it has ended."""
        (tmp_path / "large").write_bytes(bytes(1 << 20))
        for label in "ab":
            run.fine("send", queue, "--file", tmp_path / "large", "--label", label)
        reader, writer = os.pipe()
        with (
            connect(Place(data=str(daemon.data))) as api,
            start(daemon, "receive", queue, "--follow", "--json", stdout=writer) as receiving,
        ):
            assert os.read(reader, 1) == b"{"  # and no more: the pipe is full before the first is printed
            receiving.terminate()
            assert receiving.wait() == 130
            assert self.leases(api, queue) == []
        os.close(reader)
        os.close(writer)
        assert [each["label"] for each in run.fine("peek", queue, "-n", "9", "--json").records] == ["a", "b"]

    def test_leases_last_as_long_as_the_reader_takes(
        self, run: Run, queue: str, daemon: Daemon, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("tiercel.cli.receiving._EXTENDED_EVERY_S", 0.01)
        run.fine("send", queue, "hello")
        with connect(Place(data=str(daemon.data))) as api:
            context = Context(api, Output(as_json=True))
            with Leased(context, queue, None) as leased:
                assert leased.next(1, 0) is not None
                first = until = self.left(api, queue)
                while until <= first:  # goes down, until somebody makes it longer
                    first, until = until, self.left(api, queue)
                leased.acknowledge()
        assert run.fine("count", queue).out == "0\n"

    def left(self, api: Api, queue: str) -> float:
        (lease,) = self.leases(api, queue)
        return float(lease["seconds_left"])

    def leases(self, api: Api, queue: str) -> list[dict[str, Any]]:
        return [each for each in api.get("leases")["leases"] if each["queue"].endswith(f"\\{queue}")]


class TestPeek:
    def test_the_next_and_several(self, run: Run, queue: str) -> None:
        for text in ("one", "two"):
            run.fine("send", queue, text, "--label", f"label {text}")
        assert run.fine("peek", queue).lines[0] == "label one"
        head, one, two = run.fine("peek", queue, "-n", "5").lines
        assert head.split() == ["ARRIVED", "LOOKUP", "ID", "PRI", "SIZE", "LABEL", "BODY"]
        assert one.endswith("label one  one")
        assert two.endswith("label two  two")
        assert run.fine("count", queue).out == "2\n"

    def test_nothing(self, run: Run, queue: str) -> None:
        assert run("peek", queue).code == 3
        assert run("peek", queue, "-n", "3", "--wait", "0.01").code == 3

    def test_what_would_move_the_cursor_is_shown_as_its_code(self, run: Run, queue: str) -> None:
        run.fine("send", queue, "\x1b[2Jgone\x9b", "--as", "bstr", "--label", "\x1b]0;title\x07")
        for out in (
            run.fine("peek", queue).out,
            run.fine("peek", queue, "-n", "2").out,
            run.fine("tail", queue).out,
        ):
            assert "\x1b" not in out
            assert "\x9b" not in out
            assert r"\x1b[2Jgone\x9b" in out
