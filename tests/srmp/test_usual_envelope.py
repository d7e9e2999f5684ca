"""The pattern for usual envelopes reads as the XML parser does, or leaves the envelope to it."""

from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiercel.model.errors import DecodeError
from tiercel.model.identifiers import MessageId
from tiercel.srmp.envelope import Envelope, Msmq, Path, Properties, Services
from tiercel.srmp.envelope_reader import read_envelope
from tiercel.srmp.envelope_writer import write_envelope
from tiercel.srmp.message import envelope_of
from tiercel.srmp.usual_envelope import UsualEnvelope, read_usual_envelope

from .strategies import envelopes, messages
from .vectors import CANONICAL, changed, document

USUAL = "02_msmq_element"
STREAM = "09_stream_gap"
SENDER = UUID(int=1)


def parsed(data: bytes) -> UsualEnvelope:
    found = read_envelope(data)
    return UsualEnvelope(found.envelope, found.header.raw, found.body.raw)


def agrees(data: bytes) -> bool:
    """Whether the pattern matches; what it reads must be what the parser reads."""
    found = read_usual_envelope(data)
    assert found is None or found == parsed(data)
    return found is not None


@given(envelopes)
def test_any_envelope_reads_the_same(envelope: Envelope) -> None:
    agrees(write_envelope(envelope))


@given(messages())
def test_the_envelope_of_any_message_reads_the_same(message: object) -> None:
    agrees(write_envelope(envelope_of(message, stream_sender=SENDER, receipts_url="http://h/msmq/q")))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", CANONICAL)
def test_what_queue_managers_write_reads_the_same(name: str) -> None:
    agrees(document(name))


@pytest.mark.parametrize("name", [USUAL, STREAM])
def test_ordinary_messages_are_usual(name: str) -> None:
    assert agrees(document(name))


def test_a_message_with_every_usual_property_is_usual() -> None:
    envelope = Envelope(
        Path("MSMQ:größer ]]", "http://h/msmq/private$/q", MessageId(SENDER, 7), "MSMQ:DIRECT=OS:h\\a b"),
        Properties(5, 6),
        Services(durable=True),
        read_envelope(document(STREAM)).envelope.stream,
        msmq=Msmq(SENDER, 9, 1, 2, True, True, bytes(range(20)), True, None, 3, 4, 5),
    )
    assert agrees(write_envelope(envelope))
    assert agrees(write_envelope(replace(envelope, properties=Properties(5))))


@given(st.binary(max_size=6), st.integers(0, 5000), st.integers(0, 6), st.sampled_from([USUAL, STREAM]))
def test_a_changed_envelope_is_never_read_differently(new: bytes, at: int, size: int, name: str) -> None:
    data = document(name)
    at %= len(data)
    changed_data = data[:at] + new + data[at + size :]
    try:
        parsed(changed_data)
    except DecodeError:
        assert read_usual_envelope(changed_data) is None
    else:
        agrees(changed_data)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("<action>MSMQ:", "<action>MSMQ:&#65;"),
        ("<action>MSMQ:", "<action>MSMQ:&unknown;"),
        ("<action>MSMQ:", "<action>MSMQ:\x01"),
        ("<action>MSMQ:", "<action>MSMQ:\ufffe"),
        ("<action>MSMQ:", "<action>MSMQ:\r\n"),
        ("<action>MSMQ:", "<action>MSMQ:]]>"),
        ("<action>MSMQ:", "<action><!-- -->MSMQ:"),
        ("<action>MSMQ:", "<action>MSMQ:" + "x" * 300),
        ("<Priority>3", "<Priority>8"),
        ("<Priority>3", "<Priority> 3"),
        ("<to>http", "<to> http"),
        ("<to>http://machine2/msmq/", "<to>ftp://machine2/"),
        ("<TTrq>2007", "<TTrq>1907"),
        ("<sentAt>2007", "<sentAt>2107"),
        ("<App>0", "<App>4294967296"),
        ("<Class>0", "<Class>65536"),
        ("<Correlation>", "<Correlation>A"),
        ("xmlns=", "xmlns:a='b' xmlns="),
        ("</se:Envelope>", "</se:Envelope> "),
        ("<id>", "<id>1</id><id>"),
    ],
)
def test_unusual_and_invalid_envelopes_are_left_to_the_parser(old: str, new: str) -> None:
    assert read_usual_envelope(changed(USUAL, old, new)) is None


@pytest.mark.parametrize(
    ("old", "new"),
    [("<current>4", "<current>0"), ("<previous>1", "<previous>4"), ("</Stream>", "</stream>")],
)
def test_streams_that_cannot_be_are_left_to_the_parser(old: str, new: str) -> None:
    assert read_usual_envelope(changed(STREAM, old, new)) is None


def test_bytes_that_are_not_text_are_left_to_the_parser() -> None:
    assert read_usual_envelope(document(USUAL).replace(b"MSMQ:", b"MSMQ:\xff")) is None
    assert read_usual_envelope(b"") is None
