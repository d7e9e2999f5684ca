"""Every row of the tables of [MS-MQDMPR] 3.1.7.1.31 and 3.1.7.1.32, with distinctive values."""

import pickle
from copy import copy, deepcopy
from dataclasses import fields, replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiercel.model.codes import SenderIdType
from tiercel.model.format_name import (
    DirectFormatName,
    DistributionListFormatName,
    FormatName,
    PrivateFormatName,
    PublicFormatName,
    UnreadableFormatName,
)
from tiercel.model.identifiers import NULL_GUID, MessageId, TxSequenceId
from tiercel.model.message import Message
from tiercel.wire.message import decode_message, encode_message, read_message
from tiercel.wire.structure import Structure
from tiercel.wire.user_message import UserMessage

from .packets import (
    AH,
    GUID_A,
    GUID_B,
    GUID_C,
    HH,
    PLAIN,
    WIRE_A,
    WIRE_B,
    WIRE_C,
    dq,
    packet,
    properties,
    user,
)
from .strategies import messages
from .test_user_message import COMPOUND, ENVELOPE, SOAP

GUID_D, WIRE_D = UUID("d0d1d2d3-d4d5-d6d7-d8d9-dadbdcdddedf"), "d3d2d1d0 d5d4 d7d6 d8d9dadbdcdddedf"
GUID_E, WIRE_E = UUID("e0e1e2e3-e4e5-e6e7-e8e9-eaebecedeeef"), "e3e2e1e0 e5e4 e7e6 e8e9eaebecedeeef"
GUID_F, WIRE_F = UUID("f0f1f2f3-f4f5-f6f7-f8f9-fafbfcfdfeff"), "f3f2f1f0 f5f4 f7f6 f8f9fafbfcfdfeff"
CORRELATION = bytes(range(0x40, 0x54))

FULL = Message(
    b"\xb0\xb1",
    label="ab",
    priority=7,
    delivery=1,
    body_type=0x11121314,
    extension=b"\xee",
    application_tag=0x21222324,
    correlation_id=CORRELATION,
    message_class=0x1234,
    time_to_reach_queue=0x31323334,
    time_to_be_received=0x41424344,
    acknowledgements=0b0110,
    positive_journaling=True,
    tracing=True,
    tracing_queue=GUID_F,
    destination_queue=PrivateFormatName(GUID_B, 0x0A0B0C0D),
    administration_queue=PublicFormatName(GUID_C),
    response_queue=PrivateFormatName(GUID_D, 0x61626364),
    destination_queues=(DirectFormatName.from_wire(r"OS:h\q"),),
    administration_queues=(DistributionListFormatName(GUID_C),),
    response_queues=(PublicFormatName(GUID_D), PrivateFormatName(GUID_E, 9)),
    destination_queue_manager=GUID_B,
    id=MessageId(GUID_A, 0x51525354),
    sent_time=0x71727374,
    transaction_id=0xABCDE,
    tx_sequence_id=TxSequenceId(timestamp=0x05060708, ordinal=0x01020304),
    tx_sequence_number=0x090A0B0C,
    previous_tx_sequence_number=0x0D0E0F10,
    first_in_transaction=True,
    last_in_transaction=False,
    final_ack_required=True,
    sender_id=b"\x51",
    sender_id_type=2,
    sender_certificate=b"\x81\x82\x83\x84\x85",
    signature=b"\x71\x72\x73",
    symmetric_key=b"\x61\x62",
    privacy_level=3,
    hash_algorithm=0x800C,
    encryption_algorithm=0x660F,
    multiple_destination_signature=b"\x91\x92",
    authentication_provider_type=0x18,
    authentication_provider_name="CSP",
    connector_type=GUID_E,
    connector_queue_manager=GUID_F,
)
DIRECT_NAME = "4f0053003a0068005c0071000000"  # OS:h\q

# Field, offset, bytes: the whole packet of FULL, in the order of [MS-MQMQ] 2.2.20.
LAYOUT = [
    ("BaseHeader.VersionNumber and Reserved", 0, "10 00"),
    ("BaseHeader.Flags: PR 0, TR, DH", 2, "2001"),
    ("BaseHeader.Signature", 4, "4c494f52"),
    ("BaseHeader.PacketSize", 8, "a4010000"),
    ("BaseHeader.TimeToReachQueue", 12, "34333231"),
    ("UserHeader.SourceQueueManager", 16, WIRE_A),
    ("UserHeader.QueueManagerAddress", 32, WIRE_B),
    ("UserHeader.TimeToBeReceived", 48, "44434241"),
    ("UserHeader.SentTime", 52, "74737271"),
    ("UserHeader.MessageID", 56, "54535251"),
    ("UserHeader.Flags: DM 1, JP, DQ 3, AQ 5, RQ 6, SH, TH, MP, CQ, MQ", 60, "20aefe00"),
    ("UserHeader.DestinationQueue", 64, "0d0c0b0a"),
    ("UserHeader.AdminQueue", 68, WIRE_C),
    ("UserHeader.ResponseQueue", 84, f"{WIRE_D} 64636261"),
    ("UserHeader.ConnectorType", 104, WIRE_E),
    ("TransactionHeader.Flags: CG, FA, FM, ID", 120, "e7cdab00"),
    ("TransactionHeader.TxSequenceID", 124, "04030201 08070605"),
    ("TransactionHeader.TxSequenceNumber", 132, "0c0b0a09"),
    ("TransactionHeader.PreviousTxSequenceNumber", 136, "100f0e0d"),
    ("TransactionHeader.ConnectorQMGuid", 140, WIRE_F),
    ("SecurityHeader.Flags: ST 2, EB, AI", 156, "a200"),
    ("SecurityHeader.SenderIdSize", 158, "0100"),
    ("SecurityHeader.EncryptionKeySize", 160, "0200"),
    ("SecurityHeader.SignatureSize", 162, "0300"),
    ("SecurityHeader.SenderCertSize", 164, "05000000"),
    ("SecurityHeader.ProviderInfoSize: 4 + 8", 168, "0c000000"),
    ("SecurityHeader.SecurityData.SecurityID", 172, "51000000"),
    ("SecurityHeader.SecurityData.EncryptionKey", 176, "61620000"),
    ("SecurityHeader.SecurityData.Signature", 180, "71727300"),
    ("SecurityHeader.SecurityData.SenderCert", 184, "8182838485000000"),
    ("SecurityHeader.SecurityData.ProviderInfo.ProviderType", 192, "18000000"),
    ("SecurityHeader.SecurityData.ProviderInfo.ProviderName", 196, "4300530050000000"),
    ("MessagePropertiesHeader.Flags", 204, "06"),
    ("MessagePropertiesHeader.LabelLength, with the NUL", 205, "03"),
    ("MessagePropertiesHeader.MessageClass", 206, "3412"),
    ("MessagePropertiesHeader.CorrelationID", 208, CORRELATION.hex()),
    ("MessagePropertiesHeader.BodyType", 228, "14131211"),
    ("MessagePropertiesHeader.ApplicationTag", 232, "24232221"),
    ("MessagePropertiesHeader.MessageSize", 236, "02000000"),
    ("MessagePropertiesHeader.AllocationBodySize", 240, "02000000"),
    ("MessagePropertiesHeader.PrivacyLevel", 244, "03000000"),
    ("MessagePropertiesHeader.HashAlgorithm", 248, "0c800000"),
    ("MessagePropertiesHeader.EncryptionAlgorithm", 252, "0f660000"),
    ("MessagePropertiesHeader.ExtensionSize", 256, "01000000"),
    ("MessagePropertiesHeader.Label", 260, "610062000000"),
    ("MessagePropertiesHeader.ExtensionData", 266, "ee"),
    ("MessagePropertiesHeader.MessageBody and padding", 267, "b0b1 000000"),
    ("DebugHeader.Flags: QT 1, and Reserved", 272, "0100 0000"),
    ("DebugHeader.QueueIdentifier", 276, WIRE_F),
    ("MultiQueueFormatHeader.Destination", 292, f"1c000000 6400 0000 01000000 0300 {DIRECT_NAME}"),
    ("MultiQueueFormatHeader.Administration", 320, f"20000000 c800 0000 01000000 0600 0000 {WIRE_C}"),
    (
        "MultiQueueFormatHeader.Response",
        352,
        f"38000000 2c01 0000 02000000 0100 0000 {WIRE_D} 0200 0000 {WIRE_E} 09000000",
    ),
]
SIGNATURE = "5e01 0000 02000000 9192 0000"


class TestSerializeMessageToBuffer:
    """[MS-MQDMPR] 3.1.7.1.32"""

    @pytest.mark.conformance("DMPR-239", "DMPR-241", "DMPR-248")
    @pytest.mark.parametrize(("field", "at", "wire"), LAYOUT, ids=[row[0] for row in LAYOUT])
    def test_row(self, field: str, at: int, wire: str) -> None:
        data = bytes.fromhex(wire)
        assert encode_message(FULL)[at : at + len(data)].hex() == data.hex(), field

    @pytest.mark.conformance("DMPR-236", "DMPR-239")
    def test_nothing_else_is_in_the_packet(self) -> None:
        expected = bytes.fromhex("".join(wire for _, _, wire in LAYOUT) + SIGNATURE)
        assert encode_message(FULL) == expected
        assert len(expected) == 0x1A4 == UserMessage(expected).packet_size

    @pytest.mark.conformance("DMPR-239")
    @given(messages())
    def test_packet_size_and_the_fast_way_of_packing(self, message: Message) -> None:
        """Header by header gives the same bytes, zeros in every padding."""
        data = encode_message(message)
        headers = tuple(UserMessage(data).headers())
        assert UserMessage.build(*headers).data == data
        assert int.from_bytes(data[8:12], "little") == len(data)
        assert not any(_kept_padding(header) for header in headers)


def _kept_padding(header: Structure) -> bool:
    return any(getattr(header, name, None) for name in ("padding", "paddings", "rest"))


DECODED = [
    ("priority", 0),
    ("delivery", 1),
    ("destination_queue_manager", GUID_B),
    ("source_queue_manager", GUID_A),
    ("authentication_level", 0),
    *(
        (name, getattr(FULL, name))
        for name in (
            "body",
            "label",
            "extension",
            "tracing",
            "tracing_queue",
            "time_to_reach_queue",
            "time_to_be_received",
            "body_type",
            "encryption_algorithm",
            "hash_algorithm",
            "application_tag",
            "correlation_id",
            "acknowledgements",
            "message_class",
            "privacy_level",
            "authentication_provider_type",
            "authentication_provider_name",
            "sender_id",
            "sender_id_type",
            "symmetric_key",
            "signature",
            "sender_certificate",
            "final_ack_required",
            "first_in_transaction",
            "last_in_transaction",
            "transaction_id",
            "tx_sequence_id",
            "tx_sequence_number",
            "previous_tx_sequence_number",
            "connector_queue_manager",
            "connector_type",
            "sent_time",
            "id",
            "destination_queue",
            "administration_queue",
            "response_queue",
            "destination_queue_type",
            "administration_queue_type",
            "response_queue_type",
            "positive_journaling",
            "negative_journaling",
            "destination_queues",
            "administration_queues",
            "response_queues",
            "multiple_destination_signature",
        )
    ),
]


class TestDeserializeMessageFromBuffer:
    """[MS-MQDMPR] 3.1.7.1.31, with what its table leaves out (DMPR T-16)"""

    @pytest.mark.conformance("DMPR-238")
    @pytest.mark.parametrize(("attribute", "expected"), DECODED, ids=[row[0] for row in DECODED])
    def test_row(self, attribute: str, expected: object) -> None:
        wire = "".join(wire for _, _, wire in LAYOUT) + SIGNATURE
        message = decode_message(UserMessage(bytes.fromhex(wire)))
        assert getattr(message, attribute) == expected

    @pytest.mark.conformance("DMPR-238")
    def test_absent_headers_leave_the_defaults(self) -> None:
        minimal = packet(user(source=bytes(16).hex()), properties())
        assert decode_message(UserMessage(minimal)) == Message(
            time_to_reach_queue=0xFFFFFFFF, sender_id_type=SenderIdType.NONE
        )

    def test_soap_parts_are_read(self) -> None:
        data = packet(user(AH | HH), properties(), ENVELOPE, COMPOUND, SOAP)
        message = decode_message(UserMessage(data))
        assert (message.soap_envelope, message.soap_compound_message) == ("e", b"POST")
        assert (message.soap_header, message.soap_body) == ("h", "b")

    def test_a_name_without_grammar_does_not_stop_the_reader(self) -> None:
        data = packet(user(dq(7), bytes.fromhex("0600 3f00 3f00 0000")), properties())
        assert decode_message(UserMessage(data)).destination_queue == UnreadableFormatName("??")

    @pytest.mark.parametrize(
        ("name", "kind"), [(r"OS:h\q", DirectFormatName), ("nonsense", UnreadableFormatName)]
    )
    def test_a_direct_name_keeps_its_spelling(self, name: str, kind: type) -> None:
        message = Message(destination_queue=kind.from_wire(name) if kind is DirectFormatName else kind(name))
        decoded = decode_message(UserMessage(encode_message(message))).destination_queue
        assert isinstance(decoded, kind)
        assert getattr(decoded, "wire_name", None) == name

    def test_a_plain_message(self) -> None:
        message = decode_message(UserMessage(PLAIN))
        assert str(message.destination_queue) == r"DIRECT=OS:host\private$\orders"
        assert (message.label, message.body) == ("hello", b"body!")


def as_received(message: Message) -> Message:
    """What a receiver sees of a message: the specification drops or changes the rest."""
    result = replace(message, authentication_level=0, destination_queue_manager=message.destination_host)
    if message.is_transactional:
        result.priority, result.delivery = 0, 1
    if not message.sender_id:
        result.sender_id_type = 0
    if not message.authentication_provider_name:
        result.authentication_provider_type = 0
    return result


def wire_names(message: Message) -> list[object]:
    """Equal names may be spelled differently; here the spelling counts."""
    queues: list[FormatName | None] = [message.destination_queue, message.administration_queue]
    queues += [*message.destination_queues, *message.administration_queues, *message.response_queues]
    return [getattr(queue, "wire_name", queue) for queue in queues]


class TestRoundTrip:
    @pytest.mark.conformance("DMPR-239")
    @given(messages())
    def test_every_message_arrives_as_it_was_sent(self, message: Message) -> None:
        decoded = decode_message(UserMessage(encode_message(message)))
        assert decoded == as_received(message)
        assert wire_names(decoded) == wire_names(message)
        assert encode_message(decoded) == encode_message(message)

    @given(messages(), st.data())
    def test_read_property_by_property_it_is_the_same(self, message: Message, data: st.DataObject) -> None:
        packet = UserMessage(encode_message(message))
        names = data.draw(st.permutations([each.name for each in fields(Message)]))
        lazy, whole = read_message(packet), decode_message(packet)
        assert [getattr(lazy, name) for name in names] == [getattr(whole, name) for name in names]
        assert read_message(packet) == whole

    def test_the_full_one(self) -> None:
        assert decode_message(UserMessage(encode_message(FULL))) == as_received(FULL)

    def test_no_guid_is_the_null_guid(self) -> None:
        decoded = decode_message(UserMessage(PLAIN))
        assert decoded.connector_type == decoded.connector_queue_manager == NULL_GUID
        assert decoded.tracing_queue == decoded.destination_queue_manager == NULL_GUID


class TestReadWhenAskedFor:
    def test_what_was_set_stays(self) -> None:
        message = read_message(UserMessage(encode_message(FULL)))
        message.response_queue = None
        assert message.sender_id == FULL.sender_id
        assert message.response_queue is None

    def test_it_can_be_copied_kept_and_shown(self) -> None:
        packet = UserMessage(encode_message(FULL))
        whole = decode_message(packet)
        for copied in (copy, deepcopy, replace):
            assert copied(read_message(packet)) == whole == copied(read_message(packet))
        assert pickle.loads(pickle.dumps(read_message(packet))) == whole  # noqa: S301  # our own
        assert repr(read_message(packet)) == f"Received{whole!r}"
        assert read_message(packet) != replace(whole, label="another")

    def test_a_large_packet_is_not_kept(self) -> None:
        message = read_message(UserMessage(encode_message(replace(FULL, body=bytes(100_000)))))
        assert type(message) is Message

    def test_a_misspelt_property_is_named(self) -> None:
        message = read_message(UserMessage(PLAIN))
        with pytest.raises(AttributeError, match="'ReceivedMessage' object has no attribute 'lable'"):
            _ = message.lable  # type: ignore[attr-defined]
        with pytest.raises(AttributeError):
            message.lable = "x"  # type: ignore[attr-defined]
