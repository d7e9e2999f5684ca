"""Messages that arrived over HTTP are like any other for the commands; their envelope is kept as sent."""

import base64
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from srmp.world import Side
from tiercel.model.format_name import FormatName
from tiercel.model.identifiers import MessageId
from tiercel.model.message import Message
from tiercel.srmp.message import envelope_of
from tiercel.srmp.request import write_srmp

from .running_verbs import Result, Run

SENDER = UUID(int=7)
SENT = int(time.time())
Verb = Callable[..., Result]


def request(number: int, **properties: Any) -> bytes:
    message = Message(
        f"order {number}".encode(),
        label=f"label {number}",
        id=MessageId(SENDER, number),
        destination_queue=FormatName.parse("DIRECT=HTTP://here/msmq/private$/orders"),
        delivery=1,
        sent_time=SENT,
        application_tag=number,
        **properties,
    )
    return write_srmp(envelope_of(message), message.body, message.extension, content_guid=SENDER).encode()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A store with two messages that arrived over HTTP."""
    side = Side(directory=tmp_path / "data", name="HERE")
    side.now = time.time()
    for name in ("orders", "copy"):
        side.create(name, journaling=name == "orders")
    side.create("sorted", transactional=True)
    assert [side.post(request(number)) for number in (1, 2)] == [200, 200]
    side.engine.stop()
    side.store.close()
    return tmp_path / "data"


@pytest.fixture
def verb(run: Run, data: Path) -> Verb:
    return lambda *words: run.fine(*words, "--data", data)


def exported(verb: Verb, queue: str) -> list[dict[str, Any]]:
    return verb("export", queue).records


def labels(verb: Verb, queue: str) -> list[str]:
    return [each["label"] for each in exported(verb, queue)]


def test_peek_shows_them(verb: Verb) -> None:
    shown = verb("peek", "orders").out
    assert "label 1" in shown
    assert "order 1" in shown


@pytest.mark.conformance("DMPR-102")
def test_export_has_the_envelope_and_the_request_as_sent(verb: Verb) -> None:
    first, second = exported(verb, "orders")
    assert base64.b64decode(second["soap_compound_message"]) == request(2)
    assert second["soap_envelope"].encode() in request(2)
    assert first["soap_header"] in first["soap_envelope"]
    assert first["soap_body"] == "<se:Body></se:Body>"
    assert first["destination_queue"] == "DIRECT=HTTP://here/msmq/private$/orders"


def test_import_sends_them_as_messages_of_this_computer(verb: Verb, tmp_path: Path) -> None:
    file = tmp_path / "orders.jsonl"
    file.write_text(verb("export", "orders").out, "utf-8")
    verb("import", "copy", file)
    found = exported(verb, "copy")
    assert [(each["label"], each["application_tag"]) for each in found] == [("label 1", 1), ("label 2", 2)]
    assert not any("soap_envelope" in each for each in found)
    assert all(str(SENDER) not in each["id"] for each in found)


def test_they_keep_everything_when_they_are_moved_on_this_computer(verb: Verb) -> None:
    before = exported(verb, "orders")
    verb("mv", "orders", "copy")
    after = exported(verb, "copy")
    assert [each["soap_envelope"] for each in after] == [each["soap_envelope"] for each in before]
    assert [each["soap_compound_message"] for each in after] == [
        each["soap_compound_message"] for each in before
    ]


def test_they_are_copied_and_moved_where_they_have_to_change(verb: Verb) -> None:
    verb("cp", "orders", "copy")
    assert labels(verb, "copy") == ["label 1", "label 2"]
    verb("mv", "orders", "sorted")
    assert labels(verb, "sorted") == ["label 1", "label 2"]
    assert labels(verb, "orders") == []


def test_replay_brings_them_back_to_the_queue_here_that_their_url_names(verb: Verb) -> None:
    verb("mv", "orders", "copy")
    verb("replay", "copy")
    assert labels(verb, "orders") == ["label 1", "label 2"]
    assert labels(verb, "copy") == []


def test_received_ones_are_in_the_journal_and_come_back(verb: Verb) -> None:
    verb("receive", "orders", "--all")
    journal = json.loads(verb("journal", "orders", "--json").lines[0])
    assert journal["label"] == "label 1"
    verb("replay", "orders;journal")
    assert labels(verb, "orders") == ["label 1", "label 2"]
