"""Messages that feel like Python: texts, times, enumerations, and a repr that says what is special."""

import pickle
import re
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from inspect import getsource
from pathlib import Path

import pytest

import tiercel
from tiercel import DeliveryGuarantee, Message, MessageClass
from tiercel.bodies import Kind
from tiercel.model import message as module
from tiercel.model.limits import INFINITE
from tiercel.model.sid import SecurityIdentifier


class TestBodies:
    def test_a_text_is_its_utf_8(self) -> None:
        message = Message("grüße")
        assert message.body == "grüße".encode()
        assert message.text == "grüße"

    @pytest.mark.parametrize(
        ("message", "text"),
        [
            (Message(), ""),
            (Message("ä".encode("utf-16-le"), body_type=8), "ä"),
            (Message(b"<?xml version='1.0'?><string>tea</string>"), "tea"),
        ],
    )
    def test_text_is_decoded(self, message: Message, text: str) -> None:
        assert message.text == text

    def test_what_is_not_text(self) -> None:
        with pytest.raises(ValueError, match="message body: it is not text"):
            Message(b"\x00\xff").text  # noqa: B018
        with pytest.raises(ValueError, match="encrypted"):
            Message(b"secret", symmetric_key=b"key").text  # noqa: B018
        assert Message(b"secret", symmetric_key=b"key").decoded.error == "encrypted"

    def test_json(self) -> None:
        assert Message('{"order": 7}').json() == {"order": 7}
        assert Message('{"order": 7}').decoded.kind is Kind.JSON
        with pytest.raises(ValueError, match="Expecting value"):
            Message("tea").json()

    def test_a_text_is_sent(self, tmp_path: Path) -> None:
        with tiercel.open(tmp_path / "data") as qm:
            queue = qm.create_queue("orders")
            queue.send("tea")
            queue.send_many(["more", b"tea"])
            assert [message.text for message in queue.consume(0)] == ["tea", "more", "tea"]


class TestTimes:
    def test_are_given_as_timedelta_or_none(self) -> None:
        message = Message(time_to_be_received=timedelta(minutes=5), time_to_reach_queue=None)
        assert (message.time_to_be_received, message.time_to_reach_queue) == (300, INFINITE)
        assert message.is_received_within == timedelta(minutes=5)
        assert message.reaches_queue_within is None
        assert Message(time_to_be_received=timedelta(milliseconds=1)).time_to_be_received == 1
        assert Message(time_to_be_received=timedelta.max).time_to_be_received == INFINITE - 1

    def test_invalid_ones(self) -> None:
        for wrong in ("5", timedelta(seconds=-1)):
            with pytest.raises(ValueError, match="time_to_be_received"):
                Message(time_to_be_received=wrong).check()  # type: ignore[arg-type]

    def test_are_read_as_datetime(self, tmp_path: Path) -> None:
        moment = datetime(2026, 11, 18, 6, 0, tzinfo=UTC)
        with tiercel.open(tmp_path / "data", clock=moment.timestamp) as qm:
            queue = qm.create_queue("orders")
            queue.send("tea")
            message = queue.receive(0)
        assert (message.sent_at, message.arrived_at, message.last_moved_at) == (moment, moment, None)
        assert Message().sent_at is None


class TestNumbers:
    def test_a_received_message_has_members_of_enumerations(self, tmp_path: Path) -> None:
        with tiercel.open(tmp_path / "data") as qm:
            queue = qm.create_queue("orders")
            queue.send(Message(delivery=1, message_class=77, acknowledgements=3))
            message = queue.receive(0)
        assert message.delivery is DeliveryGuarantee.RECOVERABLE
        assert message.acknowledgements == tiercel.Acknowledgements(3)
        assert isinstance(message.acknowledgements, tiercel.Acknowledgements)
        assert message.message_class == 77  # of the application: no member
        assert Message().message_class is MessageClass.NORMAL


def test_the_version() -> None:
    assert tiercel.__version__ == version("tiercel")


class TestRepr:
    def test_shows_what_differs(self) -> None:
        assert repr(Message()) == "Message()"
        message = Message(b"tea", label="order 7", delivery=1, time_to_be_received=9)
        assert repr(message) == (
            "Message(b'tea', label='order 7', delivery=DeliveryGuarantee.RECOVERABLE, time_to_be_received=9)"
        )

    def test_cuts_what_is_long(self) -> None:
        text = repr(Message(bytes(10_000), label="x" * 249, extension=b"y" * 1000))
        assert text.startswith("Message(<10000 bytes: b'")
        assert len(text) < 1000

    def test_of_a_received_message(self, tmp_path: Path) -> None:
        with tiercel.open(tmp_path / "data") as qm:
            queue = qm.create_queue("orders")
            queue.send(Message(b"tea", label="order 7"))
            message = queue.receive(0)
        text = repr(message)
        assert f"sent_time={message.sent_at}" in text
        assert f"sender_id={SecurityIdentifier.decode(message.sender_id)}" in text
        assert "sender_id=b'not a SID'" in repr(Message(sender_id=b"not a SID"))
        assert text.startswith("ReceivedMessage(b'tea', label='order 7', destination_queue=DIRECT=OS:")
        assert "id={" in text


def test_the_types_of_the_constructor_are_those_of_the_properties() -> None:
    stub = getsource(module).partition("def __init__(")[2].partition(") -> None: ...")[0]
    assert re.findall(r"(?m)^ {12}(\w+):", stub) == [field.name for field in fields(Message)]


class TestErrors:
    def test_are_those_of_python_too(self, tmp_path: Path) -> None:
        with tiercel.open(tmp_path / "data") as qm:
            queue = qm.create_queue("orders")
            with pytest.raises(TimeoutError):
                queue.receive(0)
            with pytest.raises(ValueError, match="limit"):
                queue.receive_many(0)
            with pytest.raises(TypeError):
                queue.send(7)  # type: ignore[arg-type]
            with pytest.raises(ValueError, match="label"):
                Message(label="x" * 1000)
            with pytest.raises(ValueError, match="format name"):
                qm.queue("DIRECT=x")

    def test_keep_their_text_when_they_are_pickled(self) -> None:
        error = tiercel.IoTimeoutError("queue orders", fix="wait longer")
        again = pickle.loads(pickle.dumps(error))  # noqa: S301  # our own
        assert (type(again), str(again)) == (tiercel.IoTimeoutError, str(error))
        assert error.errno is None
