import base64
import io
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from tiercel.cli.message_text import whole
from tiercel.model.limits import MAX_PACKET_SIZE
from tiercel.model.sid import SecurityIdentifier

from .running_verbs import Run


def sent(run: Run, queue: str, *options: str) -> dict[str, object]:
    identifier = run.fine("send", queue, *options).out.strip()
    message = run.fine("receive", queue, "--json").record
    assert message["id"] == identifier
    return message


def test_a_plain_text(run: Run, queue: str) -> None:
    message = sent(run, queue, "grüße")
    assert base64.b64decode(str(message["body"])).decode() == "grüße"
    assert "label" not in message


def test_a_signed_message(run: Run, queue: str) -> None:
    assert sent(run, queue, "x", "--sign")["authentication_level"] == "sig20"
    assert "authentication_level" not in sent(run, queue, "x")


def test_people_see_what_was_verified(run: Run, queue: str) -> None:
    run.fine("send", queue, "x", "--sign")
    assert re.search(r"authentication level +sig20, sha_512", run.fine("peek", queue).out)


def test_people_see_the_name_of_a_verified_sender() -> None:
    sid = base64.b64encode(SecurityIdentifier.parse("S-1-5-21-1-2-3-1001").encode()).decode()
    message = {"id": "x", "body_size": 0, "authentication_level": "sig10"}
    out = Console(file=io.StringIO(), width=100)
    out.print(whole({**message, "verified_sender": sid, "verified_name": "shop"}))
    assert isinstance(out.file, io.StringIO)
    lines = [line.split() for line in out.file.getvalue().splitlines()]
    assert ["authentication", "level", "sig10,", "sha1"] in lines
    assert ["verified", "sender", "S-1-5-21-1-2-3-1001"] in lines
    assert ["verified", "name", "shop"] in lines


def test_all_properties(run: Run, queue: str) -> None:
    options = ["--label", "order 7", "-p", "7", "--recoverable", "--ttl", "10m", "--ttrq", "1h"]
    options += [
        "--journal",
        "--dead-letter",
        "--response-queue",
        "answers",
        "--admin-queue",
        r".\private$\acks",
    ]
    options += [
        "--acknowledge",
        "full_receive",
        "--correlation-id",
        "{00000000-0000-0000-0000-000000000007}\\7",
    ]
    options += ["--set", "application_tag=7", "--set", "extension=AAE="]
    message = sent(run, queue, "x", *options)
    assert message["label"] == "order 7"
    assert message["priority"] == 7
    assert message["delivery"] == "recoverable"
    assert message["time_to_be_received"] == 600
    assert message["time_to_reach_queue"] == 3600
    assert message["positive_journaling"] is message["negative_journaling"] is True
    assert str(message["response_queue"]).endswith("\\private$\\answers")
    assert str(message["administration_queue"]).endswith("\\private$\\acks")
    assert message["acknowledgements"]
    assert message["correlation_id"] == "{00000000-0000-0000-0000-000000000007}\\7"
    assert (message["application_tag"], message["extension"]) == (7, "AAE=")


@pytest.mark.parametrize("form", ["utf-8", "xml", "bstr", "lpwstr", "lpstr"])
def test_forms_of_a_text(run: Run, queue: str, form: str) -> None:
    run.fine("send", queue, "hello", "--as", form)
    assert run.fine("peek", queue).lines[-1] == "    hello"


@pytest.mark.parametrize("form", ["json", "activex", "binary"])
def test_forms_of_a_value(run: Run, queue: str, form: str) -> None:
    run.fine("send", queue, "true", "--as", form)
    assert run.fine("peek", queue).lines[-1] == "    true"
    assert "not valid JSON" in run.refused(2, "send", queue, "{", "--as", form)


def test_a_file_and_the_standard_input(
    run: Run, queue: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "picture").write_bytes(b"\x00\xff")
    assert sent(run, queue, "--file", str(tmp_path / "picture"))["body"] == "AP8="
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"from afar")))
    assert base64.b64decode(str(sent(run, queue, "--file", "-")["body"])) == b"from afar"
    assert "No such file" in run.refused(2, "send", queue, "--file", tmp_path / "none")


def test_a_transactional_queue_needs_no_word(run: Run, new_queue: Callable[..., str]) -> None:
    assert "transaction_id" in sent(run, new_queue("--transactional"), "hello")


def test_another_computer(run: Run) -> None:
    far = r"DIRECT=OS:far.invalid\private$\sent"
    run.fine("send", far, "hello", "--transactional")
    assert "transaction_id" in run.fine("peek", far, "--json").record
    run.fine("purge", "--yes", far)


class TestRefused:
    def test_a_body_over_the_limit(self, run: Run, queue: str, tmp_path: Path) -> None:
        file = tmp_path / "large"
        for size in (
            MAX_PACKET_SIZE,
            MAX_PACKET_SIZE + 1,
        ):  # the queue manager knows, and this program before it
            with file.open("wb") as stream:
                stream.truncate(size)
            line = run.refused(1, "send", queue, "--file", file)
            assert f"limit: {MAX_PACKET_SIZE}" in line
            assert "present: 419" in line
        assert run.fine("count", queue).out == "0\n"

    def test_an_unknown_property(self, run: Run, queue: str) -> None:
        line = run.refused(1, "send", queue, "x", "--set", "lable=y")
        assert "lable" in line
        assert "perhaps label is meant".casefold() in line.casefold()
        assert "KEY=VALUE" in run.refused(2, "send", queue, "x", "--set", "label")

    def test_words_that_are_no_text(self, run: Run, queue: str) -> None:
        assert "not valid UTF-8" in run.refused(2, "count", "q\udcff")
        assert "not valid UTF-8" in run.refused(2, "ls", "q\udcff")
        run.refused(1, "send", queue, "\udcff")
        run.fine("send", queue, "x", "--label", "half \ud83d a character")
        assert run.fine("peek", queue, "--json").record["label"] == "half \ud83d a character"

    def test_a_long_label(self, run: Run, queue: str) -> None:
        line = run.refused(1, "send", queue, "x", "--label", "x" * 250)
        assert "limit: 249" in line
        assert "present: 250" in line

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            (["x", "-p", "8"], "priority must be 0 to 7, not 8"),
            (["x", "--ttl", "soon"], "'soon' is not a valid duration"),
            (["x", "--as", "word"], "'word' is not a valid form"),
            (["x", "--file", "y"], "use only one of these"),
            (["x", "--labl", "y"], "--label"),
            ([], "missing body"),
        ],
    )
    def test_wrong_usage(self, run: Run, queue: str, options: list[str], words: str) -> None:
        result = run("send", queue, *options)
        assert result.code == 2
        usage, line = result.err.splitlines()
        assert usage.startswith("usage: tiercel send")
        assert words in line

    def test_a_wrong_queue(self, run: Run, queue: str) -> None:
        assert f"Perhaps {queue} is meant" in run.refused(5, "send", f"{queue}x", "hello")
