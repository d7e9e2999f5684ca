"""What queue managers write: [MC-MQSRM] 3.1.7.2.4."""

import re
from dataclasses import replace

import pytest
from hypothesis import given

from tiercel.srmp.envelope import RP, SE, SRMP, Envelope
from tiercel.srmp.envelope_reader import read_envelope
from tiercel.srmp.envelope_writer import write_envelope

from .strategies import envelopes
from .vectors import read


def read_again(envelope: Envelope) -> Envelope:
    return read_envelope(write_envelope(envelope)).envelope


@given(envelopes)
def test_what_was_written_reads_the_same(envelope: Envelope) -> None:
    assert read_again(envelope) == envelope


@pytest.mark.conformance("SRMP-011")
@given(envelopes)
def test_an_envelope_is_one_line_without_a_declaration(envelope: Envelope) -> None:
    data = write_envelope(envelope)
    start = f'<se:Envelope xmlns:se="{SE}" xmlns="{SRMP}"><se:Header>'
    assert data.startswith(start.encode() + f'<path xmlns="{RP}" se:mustUnderstand="1"><action>'.encode())
    assert data.endswith(b"</se:Header><se:Body></se:Body></se:Envelope>")


@pytest.mark.conformance("SRMP-011")
@pytest.mark.parametrize("label", ['a<b&c"ü漢', "]]>", "a\rb\nc\td", " a ", "\U0001f600"])
def test_labels_are_escaped(label: str) -> None:
    envelope = read("02_msmq_element").envelope
    envelope = replace(envelope, path=replace(envelope.path, action=f"MSMQ:{label}"))
    assert read_again(envelope).path.action == f"MSMQ:{label}"


@pytest.mark.parametrize("character", ["\0", "\x1f", "\ud800", "\uffff", "\x0b"])
def test_characters_that_xml_cannot_have_are_replaced(character: str) -> None:
    envelope = read("02_msmq_element").envelope
    envelope = replace(envelope, path=replace(envelope.path, action=f"MSMQ:a{character}b"))
    assert read_again(envelope).path.action == "MSMQ:a\ufffdb"


def _everything() -> Envelope:
    """No message has all of it; the order is what matters."""
    envelope = read("06_all_properties").envelope
    return replace(
        envelope,
        stream=read("09_stream_gap").envelope.stream,
        delivery_receipt=read("03c_delivery_receipt").envelope.delivery_receipt,
        stream_receipt=read("11_final_stream_receipt_negative").envelope.stream_receipt,
        commitment_receipt=read("11_final_stream_receipt_negative").envelope.commitment_receipt,
        signature=read("12_signed_body").envelope.signature,
    )


@pytest.mark.conformance("SRMP-031", "SRMP-032", "SRMP-063")
def test_headers_have_their_order_and_only_four_must_be_understood() -> None:
    header = read_envelope(write_envelope(_everything())).header
    marks = [(child.name, child.attributes.get(f"{SE} mustUnderstand")) for child in header.children]
    assert marks == [
        ("path", "1"),
        ("properties", "1"),
        ("services", "1"),
        ("Stream", "1"),
        ("deliveryReceipt", None),
        ("streamReceipt", None),
        ("commitmentReceipt", None),
        ("Msmq", None),
        ("Signature", None),
    ]


@pytest.mark.conformance("SRMP-031", "SRMP-091")
def test_the_elements_of_msmq_have_the_order_of_the_specification() -> None:
    data = write_envelope(_everything())
    assert b'<Msmq xmlns="msmq.namespace.xml">' in data
    msmq = next(child for child in read_envelope(data).header.children if child.name == "Msmq")
    assert [child.name for child in msmq.children] == [
        *("Class", "Priority", "Journal", "DeadLetter", "Correlation", "Trace", "ConnectorType", "App"),
        *("BodyType", "HashAlgorithm", "Eod", "Provider", "SourceQmGuid", "DestinationMqf", "AdminMqf"),
        *("ResponseMqf", "TTrq"),
    ]


def test_the_path_has_the_order_of_the_examples() -> None:
    assert re.search(
        rb"<action>.*</action><to>.*</to><rev><via>.*</via></rev><id>", write_envelope(_everything())
    )
