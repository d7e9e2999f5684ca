"""A message that arrived over HTTP as the packet that is stored and read remotely: [MS-MQRR] 2.2.5.1.2."""

import pytest

from tiercel.model.codes import SectionType
from tiercel.model.errors import DecodeError, IllegalPropertyValueError
from tiercel.model.limits import INFINITE
from tiercel.model.message import Message
from tiercel.remote_read.packet import split
from tiercel.srmp.message import read_message
from tiercel.srmp.request import read_srmp, write_srmp
from tiercel.wire.message import decode_message, encode_message
from tiercel.wire.soap_header import CompoundMessageHeader, SoapHeader, SRMPEnvelopeHeader
from tiercel.wire.structure import Reader
from tiercel.wire.user_header import ARRIVED_OVER_HTTP
from tiercel.wire.user_message import UserMessage

from .vectors import VALID, load, read

NOW = 1_800_000_000
UNICAST = [name for name in VALID if name != "05_pgm"]


def stored(name: str) -> tuple[Message, UserMessage]:
    message = read_message(read(name), NOW)
    return message, UserMessage(encode_message(message, over_http=True))


@pytest.mark.parametrize("name", UNICAST)
def test_the_packet_has_all_properties(name: str) -> None:
    message, packet = stored(name)
    found = decode_message(packet)
    for field in ("arrival_time", "final_ack_required", "previous_tx_sequence_number"):
        if not message.is_transactional or field == "arrival_time":  # not in a packet
            setattr(found, field, getattr(message, field))
    if message.is_transactional:
        assert found.priority == 0
        found.priority = message.priority
    else:
        found.first_in_transaction, found.last_in_transaction = (
            message.first_in_transaction,
            message.last_in_transaction,
        )
        found.connector_queue_manager = message.connector_queue_manager
    found.authentication_provider_type = message.authentication_provider_type
    assert found == message


@pytest.mark.conformance("MQRR-036")
@pytest.mark.parametrize("name", UNICAST)
def test_a_message_over_http_has_both_headers(name: str) -> None:
    message, packet = stored(name)
    assert packet.flags & ARRIVED_OVER_HTTP
    envelope, compound = packet.other(SRMPEnvelopeHeader), packet.other(CompoundMessageHeader)
    assert envelope is not None
    assert envelope.data == message.soap_envelope
    assert envelope.data_length == len(message.soap_envelope.encode("utf-16-le")) // 2 + 1
    assert compound is not None
    assert compound.data == load(name)
    assert compound.message_body == message.body
    assert packet.other(SoapHeader) is not None


@pytest.mark.conformance("MQRR-036")
def test_another_message_has_neither() -> None:
    message = read_message(read("02_msmq_element"), NOW)
    packet = UserMessage(encode_message(message))
    assert not packet.flags & ARRIVED_OVER_HTTP
    assert packet.others == ()


@pytest.mark.conformance("SRMP-023", "MQRR-038")
def test_the_body_is_stored_once() -> None:
    body = bytes(range(256)) * (4_000_000 // 256)
    request = read("02_msmq_element")
    http = write_srmp(request.envelope, body, content_guid=request.envelope.path.id.lineage)
    message = read_message(read_srmp(http), NOW)
    packet = UserMessage(encode_message(message, over_http=True))
    assert (packet.body, packet.body_size, packet.sent_body_size) == (body, len(body), len(body))
    assert decode_message(packet).body == body
    assert len(packet.data) < len(body) + 10_000


def test_a_body_that_the_request_does_not_contain_is_refused() -> None:
    message = read_message(read("02_msmq_element"), NOW)
    message.body = b"another"
    with pytest.raises(IllegalPropertyValueError, match="soap_compound_message"):
        encode_message(message, over_http=True)


def test_remote_readers_get_the_request() -> None:
    _, packet = stored("02_msmq_element")
    (section,) = split(packet.data, INFINITE, INFINITE)
    assert section.type == SectionType.FULL_PACKET
    first = split(packet.data, INFINITE, 100)[0]
    assert first.type == SectionType.SRMP_FIRST_SECTION
    assert first.data.endswith(load("02_msmq_element")[:100])


@pytest.mark.parametrize("value", [0, 1, 3, 0x7F, 0xFF])
def test_a_broken_packet_is_measured_as_it_is_read(value: int) -> None:
    """Accepted or refused as its headers are, and its body is where its request says."""
    _, packet = stored("02_msmq_element")
    start = len(packet.data) - sum(len(header.encode()) for header in packet.others)
    for place in range(start, len(packet.data)):
        data = packet.data[:place] + bytes([value]) + packet.data[place + 1 :]
        reader = Reader(data, start)
        try:
            SRMPEnvelopeHeader.read(reader)
            body = CompoundMessageHeader.read(reader).message_body
            SoapHeader.read(reader)
        except DecodeError:
            with pytest.raises(DecodeError):
                UserMessage(data)
        else:
            assert UserMessage(data).body == body
