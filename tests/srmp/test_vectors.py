"""The requests of section 4 of the specification, and those that other writers could send."""

import re
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from tiercel.model.errors import DecodeError
from tiercel.model.message import Message
from tiercel.srmp.envelope_reader import read_envelope
from tiercel.srmp.http_request import read_http_request
from tiercel.srmp.kinds import kind_of
from tiercel.srmp.message import envelope_of, read_message
from tiercel.srmp.request import read_srmp
from tiercel.srmp.values import format_date

from .vectors import BAD, CANONICAL, VALID, VECTORS, document, expected, load, read, written

NOW = 1_800_000_000
EXPECTED = expected()


def values(name: str) -> dict[str, Any]:
    """What a vector reads as, under the names of expected.json."""
    request = read(name)
    message = read_message(request, NOW)
    stream, msmq = request.envelope.stream, request.envelope.msmq
    found: dict[str, Any] = {
        "Label": message.label,
        "DestinationQueueFormatName": _direct(request.envelope.path.to),
        "Identifier": {"Lineage": str(message.source_queue_manager), "Uniquifier": message.id.uniquifier},
        "SentTime": f"{_iso(message.sent_time)}Z",
        "TimeToReachQueue": message.time_to_reach_queue,
        "DeliveryGuarantee": ("Express", "Recoverable")[message.delivery],
        "Class": message.message_class,
        "Priority": message.priority,
        "BodyType": message.body_type,
        "ApplicationTag": message.application_tag,
        "CorrelationIdentifier": message.correlation_id.hex(),
        "HashAlgorithm": message.hash_algorithm,
        "SourceMachineIdentifier": None if msmq is None else str(msmq.source_qm_guid),
        "PositiveJournalingRequested": message.positive_journaling,
        "NegativeJournalingRequested": message.negative_journaling,
        "TracingRequested": message.tracing,
        "ConnectorTypeIdentifier": str(message.connector_type),
        "FirstInTransaction": message.first_in_transaction,
        "LastInTransaction": message.last_in_transaction,
        "ConnectorQueueManagerIdentifier": str(message.connector_queue_manager),
        "AuthenticationProviderType": message.authentication_provider_type,
        "AuthenticationProviderName": message.authentication_provider_name,
        "FinalAckRequired": message.final_ack_required,
        "AcknowledgementsRequested": _acknowledgements(message),
        "body_length": len(message.body),
        "Body": message.body.hex(),
        "Extension": message.extension.hex(),
    }
    for key, names in (
        ("DestinationMultiQueueFormatName", () if msmq is None else msmq.destination_mqf),
        ("AdministrationMultiQueueFormatName", () if msmq is None else msmq.admin_mqf),
        ("ResponseMultiQueueFormatName", () if msmq is None else msmq.response_mqf),
    ):
        found[key] = list(names)
    if stream is not None:
        found |= {"streamId": str(stream.stream_id), "current": stream.current}
        found |= {"TimeStamp": message.tx_sequence_id.timestamp, "Ordinal": message.tx_sequence_id.ordinal}
        found |= {"start": stream.start is not None, "sendReceiptsTo": stream.start}
    if (receipt := request.envelope.stream_receipt) is not None:
        found |= {"streamId": str(receipt.stream_id), "lastOrdinal": receipt.last_ordinal}
    if (decided := request.envelope.commitment_receipt) is not None:
        found |= {"decision": decided.decision, "decidedAt": f"{_iso(decided.decided_at)}Z"}
    return found


def _direct(to: str) -> str:
    return to.removeprefix("MSMQ:") if to.startswith("MSMQ:") else f"DIRECT={to}"


def _iso(seconds: int) -> str:
    text = format_date(seconds)
    return f"{text[:4]}-{text[4:6]}-{text[6:11]}:{text[11:13]}:{text[13:]}"


def _acknowledgements(message: Message) -> list[str]:
    names = {1: "AckPosArrival", 2: "AckPosReceive", 8: "AckNegReceive"}
    return [name for bit, name in names.items() if message.acknowledgements & bit]


# Prose in expected.json, and what its notes settle otherwise.
PROSE = {
    ("02_msmq_element", "HashAlgorithm"),
    ("03a_receipts_request", "Label"),  # NULL, which a message here does not distinguish from an empty one
    ("04a_stream_msg1", "DeliveryGuarantee"),
    ("04a_stream_msg1", "Identifier"),  # SourceQmGuid is believed (SRMP-043)
    ("05_pgm", "BodyType"),
    ("01_simple", "Body"),
}


@pytest.mark.conformance("SRMP-049", "SRMP-197")
@pytest.mark.parametrize("name", VALID)
def test_a_vector_reads_as_expected(name: str) -> None:
    found = values(name)
    wanted = dict(EXPECTED[name])
    wanted |= wanted.pop("defaults", {})
    compared = 0
    for key, value in wanted.items():
        if key not in found or (name, key) in PROSE:
            continue
        if isinstance(value, dict):
            value.pop("note", None)
        assert found[key] == value, key
        compared += 1
    assert compared or name == "13_signed_wrong_reference"


def test_the_bodies_that_are_given_as_text() -> None:
    assert read_message(read("01_simple"), NOW).body == b"First Message"
    assert read_message(read("05_pgm"), NOW).body.decode("utf-16-le") == "ardenwhite"


@pytest.mark.parametrize("name", VALID)
def test_the_kind_of_a_vector(name: str) -> None:
    words = EXPECTED.get(name, {}).get("kind", "user").partition(",")[0]
    assert kind_of(read(name).envelope).value.startswith(
        words.replace("stream", "user") if words == "stream" else words
    )


@pytest.mark.conformance("SRMP-008", "SRMP-197")
@pytest.mark.parametrize("name", CANONICAL)
def test_writing_what_was_read_gives_the_same_bytes(name: str) -> None:
    assert written(read(name)) == load(name)


@pytest.mark.conformance("SRMP-011", "SRMP-200")
def test_the_multicast_message_meets_every_published_length() -> None:
    request = read("05_pgm")
    assert len(request.envelope_part.content) == 779
    assert len(request.http.body) == 1067
    assert written(request) == load("05_pgm")


@pytest.mark.conformance("SRMP-197")
def test_the_envelope_of_a_message_is_that_of_the_vector() -> None:
    message = read_message(read("02_msmq_element"), NOW)
    assert len(document("02_msmq_element")) == 774
    assert envelope_of(message) == read("02_msmq_element").envelope


@pytest.mark.parametrize("name", BAD)
def test_a_bad_vector_is_refused(name: str) -> None:
    with pytest.raises(DecodeError) as caught:
        read_srmp(read_http_request(load(name)))
    assert 0 < caught.value.offset < len(load(name))


@pytest.mark.conformance("SRMP-009")
def test_both_framings_give_the_same_payload() -> None:
    request, rfc = read("10_routing_extras"), read("07_rfc2387_framing")
    assert request.body is not None
    assert rfc.body is not None
    assert rfc.body.content == request.body.content == bytes(range(256))
    assert rfc.envelope.msmq == request.envelope.msmq


@pytest.mark.conformance("SRMP-033")
@pytest.mark.parametrize("name", VALID)
def test_the_message_keeps_what_was_sent(name: str) -> None:
    data = load(name)
    message = read_message(read(name), NOW)
    assert message.soap_compound_message == data
    assert message.soap_envelope.encode() in data
    assert message.soap_envelope.startswith("<se:Envelope")
    assert message.soap_envelope.endswith("</se:Envelope>")
    header = re.search(rb"<se:Header>.*</se:Header>", data, re.DOTALL)
    assert header is not None
    assert message.soap_header.encode() == header[0]
    assert message.soap_body == "<se:Body></se:Body>"
    assert message.arrival_time == NOW


@pytest.mark.conformance("SRMP-197")
def test_the_fragments_of_section_2_can_be_read() -> None:
    """Each sample takes the place of the element of its name in an envelope that has them all."""
    root = ET.parse(VECTORS / "fragments.xml").getroot()  # noqa: S314  # our own file
    for fragment in root:
        element = fragment[0]
        if fragment.get("section") in {"2.2.4", "2.2.5.2", "2.2.5.3"}:
            continue  # an empty element, shown for its attribute
        if element.tag.endswith("durable"):
            assert read_envelope(_with(element)).envelope == read_envelope(FULL).envelope
            continue
        envelope = _with(element)
        assert read_envelope(envelope).envelope != read_envelope(FULL).envelope, ET.tostring(element)


def _with(element: ET.Element) -> bytes:
    root = ET.fromstring(FULL)  # noqa: S314  # our own file
    for parent in root.iter():
        for at, child in enumerate(parent):
            if child.tag == element.tag:
                parent[at] = element
                return ET.tostring(root)
    raise AssertionError(f"no {element.tag} to replace")


def _full() -> bytes:
    """An envelope with every element of section 2.2."""
    return b"".join(
        (
            b'<se:Envelope xmlns:se="http://schemas.xmlsoap.org/soap/envelope/" xmlns="http://schemas.xmlsoap.org/srmp/">',
            b'<se:Header><path xmlns="http://schemas.xmlsoap.org/rp/"><action>MSMQ:a</action>',
            b"<to>http://a/msmq/q</to><rev><via>http://b/msmq/q</via></rev>",
            b"<id>uuid:1@00000000-0000-0000-0000-000000000001</id></path>",
            b"<properties><expiresAt>20380119T031407</expiresAt><sentAt>20240229T120000</sentAt></properties>",
            b"<services><deliveryReceiptRequest><sendTo>http://c/msmq/q</sendTo></deliveryReceiptRequest>",
            b"<commitmentReceiptRequest><sendTo>http://c/msmq/q</sendTo></commitmentReceiptRequest><durable/></services>",
            b"<stream><streamId>uid:00000000-0000-0000-0000-000000000001\\1</streamId><current>43</current>",
            b"<previous>1</previous><start><sendReceiptsTo>http://d/msmq/q</sendReceiptsTo></start></stream>",
            b"<deliveryReceipt><receivedAt>20240229T120000</receivedAt>",
            b"<id>uuid:1@00000000-0000-0000-0000-000000000001</id></deliveryReceipt>",
            b"<commitmentReceipt><decidedAt>20240229T120000</decidedAt><decision>negative</decision>",
            b"<id>uuid:1@00000000-0000-0000-0000-000000000001</id></commitmentReceipt>",
            b"<streamReceipt><streamId>uid:00000000-0000-0000-0000-000000000001\\1</streamId>",
            b"<lastOrdinal>1</lastOrdinal></streamReceipt>",
            b'<Msmq xmlns="msmq.namespace.xml"><Class>0</Class><Priority>1</Priority><BodyType>0</BodyType>',
            b"<SourceQmGuid>00000000-0000-0000-0000-000000000001</SourceQmGuid><TTrq>20240304T120000</TTrq></Msmq>",
            b'<Signature xmlns="http://www.w3.org/2000/02/xmldsig#"/></se:Header><se:Body/></se:Envelope>',
        )
    )


FULL = _full()
