"""Receipts: [MC-MQSRM] 2.2.5.4 to 2.2.5.6, 3.1.5.1.5."""

from dataclasses import replace
from uuid import UUID

import pytest

from tiercel.model.codes import MessageClass
from tiercel.model.identifiers import NULL_GUID, MessageId
from tiercel.srmp.envelope import Decision, Envelope
from tiercel.srmp.kinds import NEGATIVE_CLASSES, Kind, kind_of
from tiercel.srmp.receipts import (
    Stamp,
    commitment_receipt,
    delivery_receipt,
    final_stream_receipt,
    stream_receipt,
)
from tiercel.srmp.values import parse_date

from .vectors import load, read, written

DELIVERY, COMMITMENT = "03c_delivery_receipt", "03e_commitment_receipt"
STREAM, FINAL = "04b_stream_receipt1", "11_final_stream_receipt_negative"
TO = "http://machine1/MSMQ/private$/receipts"


def stamp(name: str) -> Stamp:
    """The id and time of a published receipt."""
    envelope = read(name).envelope
    assert envelope.properties.sent_at is not None
    return Stamp(envelope.path.id, envelope.properties.sent_at)


def bytes_of(name: str, receipt: Envelope) -> bytes:
    """The request with a receipt in the place of that of a vector."""
    request = read(name)
    return written(request._replace(envelope=receipt))


@pytest.mark.conformance("SRMP-012", "SRMP-037", "SRMP-071", "SRMP-076", "SRMP-077")
def test_a_delivery_receipt_is_that_of_the_example() -> None:
    receipt = delivery_receipt(
        read("03a_receipts_request").envelope, TO, parse_date("20070719T032454"), stamp(DELIVERY)
    )
    assert bytes_of(DELIVERY, receipt) == load(DELIVERY)


@pytest.mark.conformance("SRMP-012", "SRMP-037", "SRMP-072", "SRMP-076", "SRMP-077")
def test_a_commitment_receipt_is_that_of_the_example() -> None:
    original = read("03a_receipts_request").envelope
    decided = parse_date("20070719T032721")
    receipt = commitment_receipt(original, TO, MessageClass.ACK_RECEIVE, decided, stamp(COMMITMENT))
    assert bytes_of(COMMITMENT, receipt) == load(COMMITMENT)


@pytest.mark.conformance("SRMP-012", "SRMP-038", "SRMP-076")
@pytest.mark.parametrize(
    ("number", "name"), [(1, STREAM), (2, "04d_stream_receipt2"), (3, "04f_stream_receipt3")]
)
def test_a_stream_receipt_is_that_of_the_example(number: int, name: str) -> None:
    first = read("04a_stream_msg1").envelope
    assert first.stream is not None
    assert first.stream.start is not None
    receipt = stream_receipt(first.stream.stream_id, number, first.stream.start, first.path.to, stamp(name))
    assert bytes_of(name, receipt) == load(name)


def test_a_final_stream_receipt_says_what_the_example_says() -> None:
    original, example = read("09_stream_gap").envelope, read(FINAL).envelope
    decided = parse_date("20240229T120500")
    receipt = final_stream_receipt(
        original, example.path.to, MessageClass.NACK_Q_PURGED, decided, stamp(FINAL)
    )
    assert receipt.msmq is not None
    receipt = replace(receipt, msmq=replace(receipt.msmq, hash_algorithm=32772))  # the example's
    assert receipt == example


def test_a_final_stream_receipt_needs_a_stream() -> None:
    with pytest.raises(ValueError, match="stream"):
        final_stream_receipt(read("01_simple").envelope, TO, MessageClass.ACK_RECEIVE, 0, stamp(FINAL))


@pytest.mark.conformance("SRMP-037")
@pytest.mark.parametrize(("action", "repeated"), [("MSMQ:X", "MSMQ:X"), ("X", "MSMQ:"), ("MSMQ:", "MSMQ:")])
def test_receipts_repeat_the_label(action: str, repeated: str) -> None:
    original = read("02_msmq_element").envelope
    original = replace(original, path=replace(original.path, action=action))
    assert delivery_receipt(original, TO, 0, stamp(DELIVERY)).path.action == repeated
    receipt = commitment_receipt(original, TO, MessageClass.ACK_RECEIVE, 0, stamp(DELIVERY))
    assert receipt.path.action == repeated


@pytest.mark.conformance("SRMP-076")
def test_receipts_correlate_with_the_id_of_the_original() -> None:
    original = read("02_msmq_element").envelope
    msmq = delivery_receipt(original, TO, 0, stamp(DELIVERY)).msmq
    assert msmq is not None
    assert msmq.correlation == UUID("caf195ea-615c-4264-ae08-11a4e60194c0").bytes_le + (20503).to_bytes(
        4, "little"
    )


@pytest.mark.conformance("SRMP-077")
def test_a_message_without_msmq_is_named_by_a_null_id() -> None:
    receipt = delivery_receipt(read("01_simple").envelope, TO, 0, stamp(DELIVERY)).delivery_receipt
    assert receipt is not None
    assert receipt.id == MessageId(NULL_GUID, 1)


@pytest.mark.conformance("SRMP-072", "SRMP-075")
@pytest.mark.parametrize("message_class", [MessageClass.ACK_RECEIVE, *sorted(NEGATIVE_CLASSES)])
def test_class_and_decision_agree(message_class: MessageClass) -> None:
    original = read("09_stream_gap").envelope
    decision = Decision.POSITIVE if message_class == 0x4000 else Decision.NEGATIVE
    for make, kind in (
        (commitment_receipt, Kind.COMMITMENT_RECEIPT),
        (final_stream_receipt, Kind.FINAL_STREAM_RECEIPT),
    ):
        receipt = make(original, TO, message_class, 0, stamp(FINAL))
        assert receipt.commitment_receipt is not None
        assert receipt.commitment_receipt.decision is decision
        assert kind_of(receipt) is kind


@pytest.mark.conformance("SRMP-075")
def test_the_classes_of_receipts() -> None:
    assert [read(name).envelope.msmq.message_class for name in (DELIVERY, COMMITMENT, STREAM, FINAL)] == [  # type: ignore[union-attr]
        *(2, 0x4000, 255, 0xC001)
    ]
    assert sorted(NEGATIVE_CLASSES) == [0x8001, 0xC000, 0xC001, 0xC002, 0xC004]


def of_class(name: str, message_class: int) -> Envelope:
    envelope = read(name).envelope
    assert envelope.msmq is not None
    return replace(envelope, msmq=replace(envelope.msmq, message_class=message_class))


class TestKinds:
    """3.1.5.1.5"""

    def test_examples(self) -> None:
        names = "02_msmq_element", "01_simple", DELIVERY, COMMITMENT, STREAM, FINAL
        assert [kind_of(read(name).envelope) for name in names] == [
            Kind.USER,
            Kind.USER,
            Kind.DELIVERY_RECEIPT,
            Kind.COMMITMENT_RECEIPT,
            Kind.STREAM_RECEIPT,
            Kind.FINAL_STREAM_RECEIPT,
        ]

    @pytest.mark.parametrize("name", [DELIVERY, COMMITMENT, STREAM, FINAL])
    @pytest.mark.parametrize("message_class", [0, 1, 0x8000, 0xC003])
    def test_another_class_is_unknown(self, name: str, message_class: int) -> None:
        assert kind_of(of_class(name, message_class)) is Kind.UNKNOWN

    @pytest.mark.conformance("SRMP-038")
    @pytest.mark.parametrize("name", [STREAM, FINAL])
    def test_another_action_is_unknown(self, name: str) -> None:
        envelope = read(name).envelope
        assert kind_of(replace(envelope, path=replace(envelope.path, action="MSMQ:"))) is Kind.UNKNOWN

    @pytest.mark.parametrize("name", [COMMITMENT, FINAL])
    def test_a_decision_that_contradicts_the_class_is_unknown(self, name: str) -> None:
        envelope = read(name).envelope
        assert envelope.commitment_receipt is not None
        other = (
            Decision.NEGATIVE
            if envelope.commitment_receipt.decision is Decision.POSITIVE
            else Decision.POSITIVE
        )
        changed = replace(envelope.commitment_receipt, decision=other)
        assert kind_of(replace(envelope, commitment_receipt=changed)) is Kind.UNKNOWN

    def test_two_receipts_that_do_not_go_together_are_unknown(self) -> None:
        delivery = read(DELIVERY).envelope
        both = replace(delivery, stream_receipt=read(STREAM).envelope.stream_receipt)
        assert kind_of(both) is Kind.UNKNOWN
        assert (
            kind_of(replace(delivery, commitment_receipt=read(COMMITMENT).envelope.commitment_receipt))
            is Kind.UNKNOWN
        )

    @pytest.mark.parametrize(
        ("message_class", "kind"),
        [
            (0x0100, Kind.USER),
            (0x0200, Kind.UNKNOWN),
            (0x0003, Kind.USER),
            (1, Kind.UNKNOWN),
            (2, Kind.UNKNOWN),
            (0x8000, Kind.UNKNOWN),
        ],
    )
    def test_classes_of_applications_are_user_messages(self, message_class: int, kind: Kind) -> None:
        assert kind_of(of_class("02_msmq_element", message_class)) is kind
