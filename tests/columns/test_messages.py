"""What stands in each column of a message: said here once by hand, for all ways that lead to columns."""

from datetime import UTC, datetime
from uuid import UUID

import pytest

from srmp.vectors import read
from tiercel.columns import SCHEMA, of_messages
from tiercel.columns.stored import StoredRows, batch_of
from tiercel.engine.records import Record
from tiercel.model.format_name import FormatName, PublicFormatName
from tiercel.model.identifiers import MessageId, TxSequenceId
from tiercel.model.message import Message
from tiercel.model.path_name import PathName
from tiercel.srmp.message import read_message
from tiercel.wire.message import decode_message, encode_message
from tiercel.wire.user_message import UserMessage

SOURCE = UUID("11ea26c6-b6e6-4997-9595-9150557358d1")
CONNECTOR = UUID("b0b1b2b3-b4b5-b6b7-b8b9-babbbcbdbebf")
ARRIVED = datetime(2023, 11, 14, 22, 13, 21, tzinfo=UTC)
SENT = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
MOVED = datetime(2023, 11, 14, 22, 13, 22, tzinfo=UTC)


def full_message() -> Message:
    return Message(
        b"<order/>",
        label="order 7 für Łódź",
        priority=6,
        delivery=0,
        body_type=0x1011,
        extension=b"ext",
        application_tag=0xFFFF_FFFF,
        correlation_id=bytes(range(20)),
        message_class=0xC004,
        time_to_reach_queue=60,
        time_to_be_received=0xFFFF_FFFF,
        acknowledgements=0xE,
        positive_journaling=True,
        destination_queue=FormatName.parse(r"DIRECT=OS:server01\private$\orders"),
        administration_queue=PublicFormatName(CONNECTOR),
        response_queue=FormatName.parse(rf"PRIVATE={SOURCE}\0000000f"),
        id=MessageId(SOURCE, 4_294_967_295),
        sent_time=1_700_000_000,
        transaction_id=5,
        tx_sequence_id=TxSequenceId(1_700_000_000, 1),
        last_in_transaction=True,
        sender_id=b"\1\5\0\0",
        sender_id_type=1,
        sender_certificate=b"cert",
        signature=b"sig",
        privacy_level=3,
        hash_algorithm=0x800C,
        encryption_algorithm=0x8000_6610,
        authentication_provider_type=24,
        authentication_provider_name="Provider",
        connector_type=CONNECTOR,
    )


FULL = {
    "queue": r"server01\private$\orders",
    "subqueue": "retry",
    "lookup_id": -2,
    "claim_seq": 9,
    "arrived_time": ARRIVED,
    "sent_time": SENT,
    "message_id": rf"{{{SOURCE}}}\4294967295",
    "correlation_id": bytes(range(20)),
    "class": 0xC004,
    "src_machine_id": str(SOURCE),
    "version": 16,
    "priority": 0,  # transactional messages have none
    "delivery": 1,  # and are always recoverable
    "acknowledge": 14,
    "journal": 2,
    "trace": 0,
    "ttrq": 60,
    "ttbr": 4_294_967_295,
    "dest_queue": r"DIRECT=OS:server01\private$\orders",
    "resp_queue": rf"PRIVATE={SOURCE}\0000000f",
    "admin_queue": f"PUBLIC={CONNECTOR}",
    "deadletter_queue": r"server01\private$\dead",
    "xact_status_queue": None,
    "label": "order 7 für Łódź",
    "body": b"<order/>",
    "body_type": 0x1011,
    "body_size": 8,
    "extension": b"ext",
    "app_specific": 4_294_967_295,
    "soap_envelope": None,
    "sender_id": b"\1\5\0\0",
    "sender_id_type": 1,
    "authenticated": False,
    "auth_level": 0,
    "verified_sender": None,
    "verified_name": None,
    "priv_level": 3,
    "hash_alg": 0x800C,
    "encryption_alg": 0x8000_6610 - (1 << 32),
    "signature": b"sig",
    "sender_cert": b"cert",
    "provider_name": "Provider",
    "provider_type": 24,
    "connector_type": str(CONNECTOR),
    "xact_id": rf"{{{SOURCE}}}\5",
    "first_in_xact": False,
    "last_in_xact": True,
    "abort_count": 1,
    "move_count": 2,
    "last_move_time": MOVED,
    "decode_error": None,
}
# What differs in a message with nothing in it.
EMPTY = dict.fromkeys(SCHEMA.names) | {
    "lookup_id": 0,
    "message_id": r"{00000000-0000-0000-0000-000000000000}\0",
    "correlation_id": bytes(20),
    "class": 0,
    "src_machine_id": "00000000-0000-0000-0000-000000000000",
    "version": 16,
    "priority": 3,
    "delivery": 0,
    "acknowledge": 0,
    "journal": 0,
    "trace": 0,
    "ttrq": 345_600,
    "ttbr": 4_294_967_295,
    "dest_queue": r"DIRECT=OS:h\q",
    "label": "",
    "body": b"",
    "body_type": 0,
    "body_size": 0,
    "app_specific": 0,
    "sender_id_type": 0,
    "authenticated": False,
    "auth_level": 0,
    "priv_level": 0,
    "hash_alg": 0x8004,
    "encryption_alg": 0x6801,
    "provider_type": 0,
    "first_in_xact": False,
    "last_in_xact": False,
    "abort_count": 0,
    "move_count": 0,
}


class TestStored:
    def test_full(self) -> None:
        packet = encode_message(full_message())
        record = Record(packet, 1_700_000_001, 1, 2, 1_700_000_002, r"server01\private$\dead")
        rows = StoredRows.of([0xFFFF_FFFF_FFFF_FFFE], [record.encode()], [9])
        batch = batch_of(rows, SCHEMA.names, queue=r"server01\private$\orders", subqueue="retry")
        assert batch.to_pylist() == [FULL | {"raw": packet}]

    def test_empty(self) -> None:
        packet = encode_message(Message(destination_queue=FormatName.parse(r"DIRECT=OS:h\q")))
        batch = batch_of(StoredRows.of([0], [Record(packet, 0).encode()]), SCHEMA.names)
        assert batch.to_pylist() == [EMPTY | {"raw": packet}]

    def test_a_message_over_http_beside_one_that_is_not(self) -> None:
        """Each has its body, and the one over HTTP its envelope, stored as it came."""
        message = read_message(read("02_msmq_element"), 1_700_000_001)
        plain = Message(b"plain", destination_queue=FormatName.parse(r"DIRECT=OS:h\q"))
        packets = encode_message(message, over_http=True), encode_message(plain)
        rows = StoredRows.of([1, 2], [Record(packet, 0).encode() for packet in packets])
        columns = ["label", "body", "body_size", "soap_envelope", "dest_queue"]
        assert batch_of(rows, columns).to_pylist() == [
            {
                "label": "",
                "body": message.body,
                "body_size": len(message.body),
                "soap_envelope": message.soap_envelope,
                "dest_queue": "DIRECT=HTTP://machine2/msmq/private$/simpleQ",
            },
            {
                "label": "",
                "body": b"plain",
                "body_size": 5,
                "soap_envelope": None,
                "dest_queue": r"DIRECT=OS:h\q",
            },
        ]


class TestMessages:
    def test_full(self) -> None:
        packet = encode_message(full_message())
        message = decode_message(UserMessage(packet))
        message.lookup_id, message.arrival_time = 0xFFFF_FFFF_FFFF_FFFE, 1_700_000_001
        message.abort_count, message.move_count, message.last_move_time = 1, 2, 1_700_000_002
        message.dead_letter_queue = PathName.parse(r"server01\private$\dead")
        place = {"queue": r"server01\private$\orders", "subqueue": "retry"}
        batch = of_messages([message], SCHEMA.names, claim_seqs=[9], raws=[packet], **place)
        assert batch.to_pylist() == [FULL | {"raw": packet}]
        assert batch.schema == SCHEMA

    def test_empty(self) -> None:
        message = Message(destination_queue=FormatName.parse(r"DIRECT=OS:h\q"), sender_id_type=0)
        assert of_messages([message], SCHEMA.names).to_pylist() == [EMPTY]

    def test_none(self) -> None:
        assert of_messages([]).num_rows == 0

    def test_queues_of_a_message_to_many(self) -> None:
        names = FormatName.parse(r"DIRECT=OS:a\q"), FormatName.parse(r"DIRECT=OS:b\q")
        batch = of_messages([Message(destination_queues=names)], ["dest_queue", "resp_queue"])
        assert batch.to_pylist() == [{"dest_queue": r"DIRECT=OS:a\q,DIRECT=OS:b\q", "resp_queue": None}]

    @pytest.mark.parametrize(("level", "authenticated"), [(0, False), (5, True)])
    def test_authenticated_is_what_the_receiver_verified(self, level: int, authenticated: bool) -> None:
        batch = of_messages([Message(authentication_level=level)], ["auth_level", "authenticated"])
        assert batch.to_pylist() == [{"auth_level": level, "authenticated": authenticated}]

    @pytest.mark.parametrize(
        ("positive", "negative", "journal"), [(False, True, 1), (True, False, 2), (True, True, 3)]
    )
    def test_journal(self, positive: bool, negative: bool, journal: int) -> None:
        message = Message(positive_journaling=positive, negative_journaling=negative)
        assert of_messages([message], ["journal"]).to_pylist() == [{"journal": journal}]
