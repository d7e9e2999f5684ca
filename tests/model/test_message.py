from dataclasses import fields
from uuid import UUID

import pytest

from tiercel.model.codes import (
    AdministrationQueueType,
    DestinationQueueType,
    EncryptionAlgorithm,
    HashAlgorithm,
    ResponseQueueType,
)
from tiercel.model.errors import (
    IllegalPropertyValueError,
    IllegalPropertyVariantTypeError,
    LabelTooLongError,
    UnsupportedFormatNameOperationError,
)
from tiercel.model.format_name import FormatName
from tiercel.model.identifiers import NO_SEQUENCE, NULL_GUID, MessageId
from tiercel.model.message import Message

SOURCE = UUID("aaaaaaaa-0000-4000-8000-000000000001")
DESTINATION = UUID("bbbbbbbb-0000-4000-8000-000000000002")
ADMIN = UUID("cccccccc-0000-4000-8000-000000000003")
OTHER = UUID("dddddddd-0000-4000-8000-000000000004")

# Property by property, [MS-MQDMPR] 3.1.1.12; sender id and type are filled in by whoever knows the user.
DEFAULTS: dict[str, object] = {
    "body": b"",
    "label": "",
    "priority": 3,
    "delivery": 0,
    "body_type": 0,
    "extension": b"",
    "application_tag": 0,
    "correlation_id": bytes(20),
    "message_class": 0,
    "time_to_reach_queue": 0x54600,
    "time_to_be_received": 0xFFFFFFFF,
    "acknowledgements": 0,
    "positive_journaling": False,
    "negative_journaling": False,
    "tracing": False,
    "tracing_queue": NULL_GUID,
    "dead_letter_queue": None,
    "destination_queue": None,
    "administration_queue": None,
    "response_queue": None,
    "destination_queues": (),
    "administration_queues": (),
    "response_queues": (),
    "destination_queue_manager": NULL_GUID,
    "transaction_status_queue": None,
    "id": (NULL_GUID, 0),
    "lookup_id": 0,
    "sent_time": 0,
    "arrival_time": 0,
    "abort_count": 0,
    "move_count": 0,
    "last_move_time": 0,
    "allow_peek_when_locked": False,
    "transaction_id": None,
    "tx_sequence_id": NO_SEQUENCE,
    "tx_sequence_number": 0,
    "previous_tx_sequence_number": 0,
    "first_in_transaction": False,
    "last_in_transaction": False,
    "final_ack_required": False,
    "sender_id": b"",
    "sender_id_type": 1,
    "sender_certificate": b"",
    "authentication_level": 0,
    "verified_sender": b"",
    "verified_name": "",
    "privacy_level": 0,
    "hash_algorithm": HashAlgorithm.SHA1,
    "encryption_algorithm": EncryptionAlgorithm.RC4,
    "symmetric_key": b"",
    "signature": b"",
    "multiple_destination_signature": b"",
    "authentication_provider_type": 0,
    "authentication_provider_name": "",
    "connector_type": NULL_GUID,
    "connector_queue_manager": NULL_GUID,
    "soap_envelope": "",
    "soap_compound_message": b"",
    "soap_header": "",
    "soap_body": "",
}


class TestDefaults:
    """[MS-MQDMPR] 3.1.1.12"""

    @pytest.mark.parametrize(("name", "default"), DEFAULTS.items(), ids=list(DEFAULTS))
    def test_of_each_property(self, name: str, default: object) -> None:
        assert getattr(Message(), name) == default

    def test_no_property_is_forgotten_here(self) -> None:
        assert {field.name for field in fields(Message)} == set(DEFAULTS)

    def test_only_the_body_goes_without_its_name(self) -> None:
        assert Message(b"x").body == b"x"


class TestPriority:
    @pytest.mark.conformance("DMPR-085")
    def test_default(self) -> None:
        assert Message().priority == 3

    @pytest.mark.conformance("DMPR-085")
    @pytest.mark.parametrize("priority", range(8))
    def test_allowed(self, priority: int) -> None:
        assert Message(priority=priority).priority == priority

    @pytest.mark.conformance("DMPR-085")
    @pytest.mark.parametrize("priority", [8, -1])
    def test_refused_at_once(self, priority: int) -> None:
        with pytest.raises(IllegalPropertyValueError, match=f"present: {priority}, limit: 0 to 7"):
            Message(priority=priority)

    def test_a_word_is_refused_at_once(self) -> None:
        with pytest.raises(IllegalPropertyVariantTypeError, match="present: str, limit: int"):
            Message(priority="high")  # type: ignore[arg-type]


class TestLabel:
    def test_counts_utf16_units(self) -> None:
        assert len(Message(label="x" * 249).label) == 249
        with pytest.raises(LabelTooLongError, match="present: 250, limit: 249"):
            Message(label="x" * 250)
        with pytest.raises(LabelTooLongError, match="present: 250"):
            Message(label="\N{BAR CHART}" * 125)

    def test_bytes_are_refused_at_once(self) -> None:
        with pytest.raises(IllegalPropertyVariantTypeError, match="message label"):
            Message(label=b"x" * 200)  # type: ignore[arg-type]


class TestRecoverable:
    @pytest.mark.parametrize(
        ("delivery", "transaction_id", "recoverable"), [(0, None, False), (1, None, True), (0, 0, True)]
    )
    def test_by_delivery_or_by_transaction(
        self, delivery: int, transaction_id: int | None, recoverable: bool
    ) -> None:
        message = Message(delivery=delivery, transaction_id=transaction_id)
        assert message.is_recoverable == recoverable
        assert message.is_transactional == (transaction_id is not None)


def queue(text: str | None) -> FormatName | None:
    return None if text is None else FormatName.parse(text)


def message(destination: str | None, admin: str | None = None, response: str | None = None) -> Message:
    return Message(
        id=MessageId(SOURCE, 1),
        destination_queue=queue(destination),
        destination_queue_manager=DESTINATION,
        administration_queue=queue(admin),
        response_queue=queue(response),
    )


ON_SOURCE, ON_DESTINATION = rf"PRIVATE={SOURCE}\1", rf"PRIVATE={DESTINATION}\2"
ON_ADMIN, ON_OTHER = rf"PRIVATE={ADMIN}\3", rf"PRIVATE={OTHER}\4"
PUBLIC, DIRECT = f"PUBLIC={OTHER}", r"DIRECT=OS:host\private$\q"


class TestDestinationQueueType:
    @pytest.mark.conformance("DMPR-098")
    @pytest.mark.parametrize(
        ("name", "kind", "host"),
        [
            (ON_OTHER, DestinationQueueType.PRIVATE_QUEUE, OTHER),
            (PUBLIC, DestinationQueueType.PUBLIC_QUEUE, DESTINATION),
            (DIRECT, DestinationQueueType.DIRECT_QUEUE, NULL_GUID),
            (r"DIRECT=TCP:10.0.0.1\q", DestinationQueueType.DIRECT_QUEUE, NULL_GUID),
        ],
    )
    def test_by_the_kind_of_name(self, name: str, kind: DestinationQueueType, host: UUID) -> None:
        assert message(name).destination_queue_type is kind
        assert message(name).destination_host == host

    @pytest.mark.parametrize("name", [None, f"MACHINE={OTHER};JOURNAL", f"{PUBLIC};JOURNAL", f"DL={OTHER}"])
    def test_other_names_have_none(self, name: str | None) -> None:
        with pytest.raises(UnsupportedFormatNameOperationError, match="message destination_queue"):
            _ = message(name).destination_queue_type


class TestAdministrationQueueType:
    @pytest.mark.conformance("DMPR-099")
    @pytest.mark.parametrize(
        ("destination", "admin", "kind"),
        [
            (DIRECT, None, AdministrationQueueType.NONE),
            (DIRECT, ON_SOURCE, AdministrationQueueType.PRIVATE_QUEUE_ON_SOURCE),
            (
                ON_DESTINATION,
                rf"PRIVATE={DESTINATION}\9",
                AdministrationQueueType.PRIVATE_QUEUE_ON_DESTINATION,
            ),
            (PUBLIC, ON_DESTINATION, AdministrationQueueType.PRIVATE_QUEUE_ON_DESTINATION),
            (DIRECT, ON_DESTINATION, AdministrationQueueType.PRIVATE_QUEUE_ON_OTHER),
            (ON_DESTINATION, ON_OTHER, AdministrationQueueType.PRIVATE_QUEUE_ON_OTHER),
            (ON_DESTINATION, PUBLIC, AdministrationQueueType.PUBLIC_QUEUE),
            (ON_DESTINATION, DIRECT, AdministrationQueueType.DIRECT_QUEUE),
            (ON_SOURCE, rf"PRIVATE={SOURCE}\9", AdministrationQueueType.PRIVATE_QUEUE_ON_SOURCE),
        ],
    )
    def test_by_where_the_queue_lives(
        self, destination: str, admin: str | None, kind: AdministrationQueueType
    ) -> None:
        assert message(destination, admin).administration_queue_type is kind

    def test_the_numbers(self) -> None:
        assert {kind.name: kind.value for kind in AdministrationQueueType} == {
            "NONE": 0,
            "PRIVATE_QUEUE_ON_SOURCE": 2,
            "PRIVATE_QUEUE_ON_DESTINATION": 3,
            "PUBLIC_QUEUE": 5,
            "PRIVATE_QUEUE_ON_OTHER": 6,
            "DIRECT_QUEUE": 7,
        }


class TestResponseQueueType:
    @pytest.mark.conformance("DMPR-099")
    @pytest.mark.parametrize(
        ("admin", "response", "kind"),
        [
            (None, None, ResponseQueueType.NONE),
            (ON_ADMIN, None, ResponseQueueType.NONE),
            (ON_ADMIN, ON_ADMIN, ResponseQueueType.SAME_AS_ADMINISTRATION_QUEUE),
            (DIRECT, DIRECT.lower(), ResponseQueueType.SAME_AS_ADMINISTRATION_QUEUE),
            (ON_SOURCE, ON_SOURCE, ResponseQueueType.SAME_AS_ADMINISTRATION_QUEUE),
            (ON_ADMIN, ON_SOURCE, ResponseQueueType.PRIVATE_QUEUE_ON_SOURCE),
            (ON_ADMIN, ON_DESTINATION, ResponseQueueType.PRIVATE_QUEUE_ON_DESTINATION),
            (ON_ADMIN, rf"PRIVATE={ADMIN}\9", ResponseQueueType.PRIVATE_QUEUE_ON_ADMIN),
            (ON_SOURCE, rf"PRIVATE={SOURCE}\9", ResponseQueueType.PRIVATE_QUEUE_ON_SOURCE),
            (ON_ADMIN, ON_OTHER, ResponseQueueType.PRIVATE_QUEUE_ON_OTHER),
            (None, ON_ADMIN, ResponseQueueType.PRIVATE_QUEUE_ON_OTHER),
            (DIRECT, ON_ADMIN, ResponseQueueType.PRIVATE_QUEUE_ON_OTHER),
            (ON_ADMIN, PUBLIC, ResponseQueueType.PUBLIC_QUEUE),
            (PUBLIC, DIRECT, ResponseQueueType.DIRECT_QUEUE),
        ],
    )
    def test_by_where_the_queue_lives(
        self, admin: str | None, response: str | None, kind: ResponseQueueType
    ) -> None:
        assert message(ON_DESTINATION, admin, response).response_queue_type is kind

    @pytest.mark.parametrize("name", [f"MACHINE={OTHER};DEADLETTER", rf"PRIVATE={OTHER}\1;JOURNAL"])
    def test_read_only_queues_have_none(self, name: str) -> None:
        with pytest.raises(UnsupportedFormatNameOperationError, match="message response_queue"):
            _ = message(ON_DESTINATION, None, name).response_queue_type
        with pytest.raises(UnsupportedFormatNameOperationError, match="message administration_queue"):
            _ = message(ON_DESTINATION, name).administration_queue_type


class TestCheck:
    """Says which property it is; what matters on the wire is in tests/wire/test_message_errors.py."""

    @pytest.mark.parametrize(
        ("name", "value", "limit"),
        [
            ("lookup_id", 2**64, "0 to 18446744073709551615"),
            ("abort_count", 2**32, "0 to 4294967295"),
            ("move_count", -1, "0 to 4294967295"),
            ("authentication_level", 16, "0 to 15"),
            ("transaction_id", 2**20, "0 to 1048575"),
            ("sender_id_type", 3, "0 to 2"),
        ],
    )
    def test_numbers(self, name: str, value: int, limit: str) -> None:
        wrong = Message()
        setattr(wrong, name, value)
        with pytest.raises(
            IllegalPropertyValueError, match=f"message {name}: .*present: {value}, limit: {limit}"
        ):
            wrong.check()

    def test_a_good_message_passes(self) -> None:
        message(DIRECT, ON_ADMIN, PUBLIC).check()
