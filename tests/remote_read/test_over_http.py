"""Remote readers get messages that arrived over HTTP as any other: [MS-MQRR] 2.2.5.1.2."""

import pytest

from engine.harness import Box
from srmp.vectors import load, read
from tiercel.model.message import Message
from tiercel.srmp.message import read_message
from tiercel.wire.message import decode_message, encode_message
from tiercel.wire.soap_header import ENVELOPE_ID, SRMPEnvelopeHeader
from tiercel.wire.user_message import UserMessage

from .site import Remote, Site

VECTOR = "02_msmq_element"


@pytest.fixture
def posted(site: Site, box: Box) -> Message:
    """A message that the queue got over HTTP."""
    message = read_message(read(VECTOR), int(site.now))
    message.sent_time = int(site.now)
    packet = UserMessage(encode_message(message, over_http=True))
    site.run(lambda: site.engine.arrivals.arrive_over_http(packet, box.state, has_id=True))
    assert box.state.count == 1
    return message


@pytest.mark.conformance("MQRR-036", "MQRR-038")
def test_a_reader_gets_the_body_the_envelope_and_the_request(a: Remote, posted: Message) -> None:
    got = a.receive()
    message = decode_message(got.message.packet)
    assert (got.body, message.label) == (posted.body, posted.label)
    assert message.soap_envelope == posted.soap_envelope
    assert message.soap_compound_message == load(VECTOR)
    a.end(got)


@pytest.mark.conformance("MQRR-038")
@pytest.mark.parametrize("limit", [0, 100, 1000])
def test_a_reader_that_wants_a_part_of_the_request_gets_the_envelope(
    a: Remote, posted: Message, limit: int
) -> None:
    got = a.peek(max_compound_message_size=limit)
    message = decode_message(got.message.packet)
    assert message.soap_envelope == posted.soap_envelope
    assert message.soap_compound_message[:limit] == load(VECTOR)[:limit]


@pytest.mark.conformance("MQRR-037")
def test_the_envelope_header_is_read_whatever_its_reserved_field_says() -> None:
    """Its length counts characters with the NUL, as those of SoapHeader do."""
    data = SRMPEnvelopeHeader.of(ENVELOPE_ID, "<größer/>").encode()
    assert data == b"\x90\x01\0\0\x0a\0\0\0" + "<größer/>\0".encode("utf-16-le")
    again = SRMPEnvelopeHeader.decode(data[:2] + b"\xff\xff" + data[4:])
    assert (again.data, again.reserved) == ("<größer/>", 0xFFFF)
