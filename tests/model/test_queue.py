"""Queues: defaults, durability tags and the rules of the model."""

import copy
from dataclasses import fields
from uuid import UUID

import pytest

from tiercel.model.codes import (
    ConnectionStatus,
    Durability,
    OutgoingQueueState,
    QueuePrivacyLevel,
    QueueScope,
    QueueType,
)
from tiercel.model.errors import (
    IllegalPropertyValueError,
    LabelTooLongError,
    MqError,
    PropertyNotAllowedError,
)
from tiercel.model.format_name import FormatName
from tiercel.model.identifiers import NULL_GUID, SequenceInfo, TxSequenceId
from tiercel.model.path_name import PathName
from tiercel.model.queue import (
    ConnectionHistoryEntry,
    DirectoryObject,
    IncomingTransactionalTransferInfo,
    OutgoingQueue,
    OutgoingTransferInfo,
    Queue,
    durability,
)

ID = UUID("11111111-2222-3333-4444-555555555555")
OTHER_ID = UUID("66666666-7777-8888-9999-aaaaaaaaaaaa")
DESTINATION = FormatName.parse("DIRECT=OS:far\\private$\\orders")


def outgoing_queue() -> OutgoingQueue:
    return OutgoingQueue(identifier=ID, destination_format_name=DESTINATION)


def test_set_queue_defaults() -> None:
    """[MS-MQDMPR] 3.1.7.1.33, but for the default security descriptor, which the engine makes."""
    queue = Queue(identifier=ID)
    assert queue.label == ""
    assert queue.type == NULL_GUID
    assert queue.journaling is False
    assert queue.quota_kib == 0xFFFFFFFF
    assert queue.journal_quota_kib == 0xFFFFFFFF
    assert queue.authentication is False
    assert queue.privacy_level is QueuePrivacyLevel.OPTIONAL
    assert queue.transactional is False
    assert queue.multicast_address is None
    assert queue.security is None
    assert queue.base_priority == 0


def test_the_other_defaults_of_a_queue() -> None:
    queue = Queue(identifier=ID)
    assert queue.queue_type is QueueType.PRIVATE
    assert queue.scope is QueueScope.ENTERPRISE
    assert (queue.full_path, queue.directory_path) == ("", "")
    assert (queue.pathname, queue.private_queue_number) == (None, None)
    assert (queue.total_bytes, queue.message_count, queue.active) == (0, 0, False)


class TestIdentifier:
    def test_cannot_be_changed(self) -> None:
        for entity in (Queue(identifier=ID), outgoing_queue(), DirectoryObject(identifier=ID)):
            with pytest.raises(PropertyNotAllowedError, match=r"the identifier of .*it cannot change"):
                entity.identifier = OTHER_ID
            assert entity.identifier == ID

    def test_stays_when_all_else_changes(self) -> None:
        queue = Queue(identifier=ID)
        queue.label, queue.quota_kib = "new", 1
        queue.pathname = PathName.parse("HOST\\private$\\renamed")
        assert queue.identifier == ID

    def test_is_kept_by_a_copy(self) -> None:
        assert copy.copy(Queue(identifier=ID, label="a")).identifier == ID

    def test_belongs_to_one_object_only(self) -> None:
        assert Queue(identifier=ID).identifier != Queue(identifier=OTHER_ID).identifier


def test_a_queue_equals_only_itself() -> None:
    queue = Queue(identifier=ID)
    assert queue == queue  # noqa: PLR0124
    assert queue != Queue(identifier=ID)
    assert len({queue, Queue(identifier=ID)}) == 2


def test_a_misspelt_attribute_is_no_attribute() -> None:
    with pytest.raises(AttributeError):
        Queue(identifier=ID).qouta_kib = 1  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "entity",
    [Queue, OutgoingQueue, OutgoingTransferInfo, IncomingTransactionalTransferInfo, ConnectionHistoryEntry],
)
def test_every_field_has_a_durability(entity: type) -> None:
    assert fields(entity)
    for each in fields(entity):
        assert durability(entity, each.name) in Durability


@pytest.mark.parametrize(
    ("entity", "attribute", "expected"),
    [
        (Queue, "identifier", Durability.DIRECTORY),
        (Queue, "label", Durability.DIRECTORY),
        (Queue, "private_queue_number", Durability.DIRECTORY),
        (Queue, "queue_type", Durability.PERSISTENT),
        (Queue, "scope", Durability.PERSISTENT),
        (Queue, "incoming_transactional_transfer_infos", Durability.PERSISTENT),
        (Queue, "total_bytes", Durability.VOLATILE),
        (Queue, "queue_manager", Durability.VOLATILE),
        (Queue, "active", Durability.COMPUTED),
        (OutgoingQueue, "active", Durability.COMPUTED),
        (OutgoingQueue, "destination_format_name", Durability.PERSISTENT),
        (OutgoingQueue, "multicast", Durability.PERSISTENT),
        (OutgoingQueue, "next_hops", Durability.VOLATILE),
        (OutgoingQueue, "state", Durability.VOLATILE),
        (OutgoingQueue, "connection_history", Durability.VOLATILE),
        (OutgoingTransferInfo, "eod_next_seq", Durability.PERSISTENT),
        (IncomingTransactionalTransferInfo, "sequence_number", Durability.PERSISTENT),
    ],
)
def test_durability(entity: type, attribute: str, expected: Durability) -> None:
    assert durability(entity, attribute) is expected


class TestRules:
    def test_a_label_has_124_utf16_units(self) -> None:
        assert Queue(identifier=ID, label="x" * 124).label
        with pytest.raises(LabelTooLongError, match="present: 125, limit: 124"):
            Queue(identifier=ID, label="x" * 125)
        with pytest.raises(LabelTooLongError, match="present: 126"):
            Queue(identifier=ID, label="\N{EAGLE}" * 63)

    def test_a_private_queue_number_is_for_private_queues(self) -> None:
        assert Queue(identifier=ID, private_queue_number=7).private_queue_number == 7
        for queue_type in (QueueType.PUBLIC, QueueType.SYSTEM, QueueType.CONNECTOR):
            with pytest.raises(PropertyNotAllowedError, match="present: 7"):
                Queue(identifier=ID, queue_type=queue_type, private_queue_number=7)

    @pytest.mark.parametrize(
        ("attribute", "low", "high"),
        [
            ("quota_kib", 0, 0xFFFFFFFF),
            ("journal_quota_kib", 0, 0xFFFFFFFF),
            ("private_queue_number", 0, 0xFFFFFFFF),
            ("base_priority", -0x8000, 0x7FFF),
        ],
    )
    def test_ranges(self, attribute: str, low: int, high: int) -> None:
        queue = Queue(identifier=ID)
        for value in (low, high):
            setattr(queue, attribute, value)
            queue.validate()
        for value in (low - 1, high + 1):
            setattr(queue, attribute, value)
            with pytest.raises(IllegalPropertyValueError, match=f"present: {value}, limit: {low} to {high}"):
                queue.validate()

    def test_the_error_names_the_queue(self) -> None:
        with pytest.raises(MqError, match=r"queue HOST\\private\$\\orders"):
            Queue(identifier=ID, pathname=PathName.parse("HOST\\private$\\orders"), quota_kib=-1)


class TestOutgoingQueue:
    def test_defaults(self) -> None:
        queue = outgoing_queue()
        assert queue.destination_format_name == DESTINATION
        assert queue.next_hops is None
        assert queue.multicast is False
        assert queue.state is OutgoingQueueState.INACTIVE
        assert queue.connection_history == []
        assert queue.queue_type is not QueueType.PUBLIC

    def test_may_be_labelled_with_a_long_format_name(self) -> None:
        queue = OutgoingQueue(identifier=ID, destination_format_name=DESTINATION, label="x" * 300)
        assert len(queue.label) == 300

    def test_is_held_to_the_rules_of_queues(self) -> None:
        with pytest.raises(IllegalPropertyValueError):
            OutgoingQueue(identifier=ID, destination_format_name=DESTINATION, quota_kib=-1)

    def test_and_its_transfer_info_know_each_other(self) -> None:
        queue = outgoing_queue()
        assert queue.transfer_info.outgoing_queue is queue
        assert queue.transfer_info.eod_next_seq == SequenceInfo()
        assert queue.transfer_info.eod_no_ack_count == 0
        assert "transfer_info" not in repr(queue)

    @pytest.mark.parametrize(
        ("outgoing", "messages", "is_open", "active"),
        [
            (False, 0, False, False),
            (False, 0, True, True),
            (False, 1, False, False),
            (False, 1, True, True),
            (True, 0, False, False),
            (True, 0, True, True),
            (True, 1, False, True),
            (True, 1, True, True),
        ],
    )
    def test_active_is_computed(self, outgoing: bool, messages: int, is_open: bool, active: bool) -> None:
        queue = outgoing_queue() if outgoing else Queue(identifier=ID)
        queue.message_count = messages
        if is_open:
            queue.open_handles.add(1)
        assert queue.active is active
        with pytest.raises(AttributeError):
            queue.active = True  # type: ignore[misc]


def test_a_connection_history_entry() -> None:
    entry = ConnectionHistoryEntry(status=ConnectionStatus.CONNECTION_REFUSED, connection_history_time=1)
    assert (entry.error, entry.address_list) == (0, ())


def test_incoming_transfer_info() -> None:
    queue = Queue(identifier=ID)
    info = IncomingTransactionalTransferInfo(queue=queue, format_name=DESTINATION, sender_identifier=OTHER_ID)
    assert info.queue is queue
    assert info.sequence_identifier == TxSequenceId()
    assert (info.sequence_number, info.last_access_time, info.reject_count) == (0, 0, 0)
