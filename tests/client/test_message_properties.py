"""Every property that an application may set: set and read by its plain name, also after a restart."""

from dataclasses import fields
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

import tiercel
from tiercel.model.codes import EncryptionAlgorithm, HashAlgorithm, PrivacyLevel, SenderIdType
from tiercel.model.errors import IoTimeoutError, PropertyNotAllowedError

from .conftest import ORDERS
from .support import RECOVERABLE

GUID = UUID("12345678-1234-4234-8234-123456789abc")
ADMIN = tiercel.FormatName.parse(r"DIRECT=OS:admin\private$\acks")
PRIVATE = tiercel.FormatName.parse(f"PRIVATE={GUID}\\1f")
PUBLIC = tiercel.FormatName.parse(f"PUBLIC={GUID}")
CONNECTOR: dict[str, Any] = {"connector_type": GUID}  # who protects messages by itself says that it is one

# Each with a value that is not its default, and what must be set beside it so that it means something.
SETTABLE: dict[str, tuple[Any, dict[str, Any]]] = {
    "body": (bytes(range(256)), {}),
    "label": ("Größe \N{GRINNING FACE} № 7", {}),
    "priority": (7, {}),
    "delivery": (RECOVERABLE, {}),
    "body_type": (8, {}),
    "extension": (b"\0extension\xff", {}),
    "application_tag": (0xFFFF_FFFF, {}),
    "correlation_id": (bytes(range(20)), {}),
    "message_class": (0x1234, {}),
    "time_to_reach_queue": (1000, {}),
    "time_to_be_received": (100_000, {}),
    "acknowledgements": (tiercel.Acknowledgements.FULL_RECEIVE, {}),
    "positive_journaling": (True, {}),
    "negative_journaling": (True, {}),
    "tracing": (True, {}),
    "tracing_queue": (GUID, {"tracing": True}),
    "dead_letter_queue": (tiercel.PathName.parse(r"TEST\private$\failed"), {}),
    "administration_queue": (ADMIN, {}),
    "response_queue": (PRIVATE, {}),
    "administration_queues": ((ADMIN, PRIVATE), {}),
    "response_queues": ((PUBLIC, ADMIN), {}),
    "destination_queues": ((ADMIN, PUBLIC), {}),
    "sender_id": (b"\x01\x05" + bytes(26), {"sender_id_type": SenderIdType.SID}),
    "sender_id_type": (SenderIdType.QM, {"sender_id": b"\x01\x05" + bytes(26)}),
    "sender_certificate": (b"certificate", {}),
    "privacy_level": (PrivacyLevel.ENHANCED, {}),
    "hash_algorithm": (HashAlgorithm.SHA_512, {}),
    "encryption_algorithm": (EncryptionAlgorithm.AES256, {}),
    "symmetric_key": (b"key", CONNECTOR),
    "signature": (b"signature", CONNECTOR),
    "multiple_destination_signature": (b"list signature", CONNECTOR | {"response_queues": (ADMIN,)}),
    "authentication_provider_type": (12, CONNECTOR | {"authentication_provider_name": "provider"}),
    "authentication_provider_name": ("provider", CONNECTOR),
    "connector_type": (GUID, {}),
}
# What the queue managers say, which an application reads.
GIVEN = {
    "destination_queue",
    "destination_queue_manager",
    "id",
    "lookup_id",
    "sent_time",
    "arrival_time",
    "abort_count",
    "move_count",
    "last_move_time",
    "transaction_id",
    "tx_sequence_id",
    "tx_sequence_number",
    "previous_tx_sequence_number",
    "first_in_transaction",
    "last_in_transaction",
    "final_ack_required",
    "authentication_level",
    "verified_sender",
    "verified_name",
    "connector_queue_manager",
    "allow_peek_when_locked",
    "transaction_status_queue",
    "soap_envelope",
    "soap_compound_message",
    "soap_header",
    "soap_body",
}


def test_no_property_is_forgotten() -> None:
    assert {item.name for item in fields(tiercel.Message)} == SETTABLE.keys() | GIVEN


@pytest.mark.parametrize("name", SETTABLE)
def test_is_what_was_set(queue: tiercel.EmbeddedQueue, name: str) -> None:
    value, beside = SETTABLE[name]
    assert value != getattr(tiercel.Message(), name), "the default proves nothing"
    queue.send(tiercel.Message(**{name: value}, **beside))
    assert getattr(queue.peek(0), name) == value
    assert getattr(queue.receive(0), name) == value


@pytest.mark.parametrize("name", SETTABLE)
def test_may_be_set_after_the_message_is_made(queue: tiercel.EmbeddedQueue, name: str) -> None:
    value, beside = SETTABLE[name]
    message = tiercel.Message(**beside)
    setattr(message, name, value)
    queue.send(message)
    assert getattr(queue.receive(0), name) == value


@pytest.mark.parametrize("in_transaction", [False, True])
def test_all_are_the_same_after_a_restart(directory: Path, in_transaction: bool) -> None:
    def value_of(name: str) -> Any:
        # A transactional message is recoverable and has no priority ([MS-MQDMPR] 3.1.7.1.32).
        return 0 if in_transaction and name == "priority" else SETTABLE[name][0]

    with tiercel.open(directory) as qm:
        queue = qm.create_queue(ORDERS, transactional=in_transaction)
        with qm.transaction() as tx:
            for name, (value, beside) in SETTABLE.items():
                message = tiercel.Message(
                    **{"delivery": RECOVERABLE, "application_tag": 1, name: value} | beside
                )
                queue.send(message, transaction=tx if in_transaction else None)
        before = {message.id: message for message in queue.cursor()}
        assert len(before) == len(SETTABLE)
    with tiercel.open(directory) as qm:
        queue = qm.queue(ORDERS)
        after = {message.id: message for message in queue.cursor()}
        assert after == before
        for name, message in zip(SETTABLE, sorted(after.values(), key=lambda each: each.id), strict=True):
            assert getattr(message, name) == value_of(name), name
            taken = queue.receive(lookup_id=message.lookup_id)
            assert getattr(taken, name) == value_of(name), name


class TestWhatTheQueueManagerAdds:
    def test_to_what_was_sent(self, directory: Path) -> None:
        with tiercel.open(directory, clock=lambda: 1_700_000_000.9) as qm:
            queue = qm.create_queue(ORDERS)
            message = tiercel.Message(b"x")
            assert queue.send(message) == message.id
            found = queue.receive(0)
        assert found.id == message.id
        assert found.sent_time == found.arrival_time == message.sent_time == 1_700_000_000
        assert found.lookup_id > 0
        assert str(found.destination_queue).endswith(r"\private$\orders")
        assert not found.is_transactional

    def test_ids_are_never_used_twice(self, directory: Path) -> None:
        seen = set()
        for _ in range(3):
            with tiercel.open(directory) as qm, qm.batch():
                queue = qm.queues()[0] if qm.queues() else qm.create_queue(ORDERS)
                seen |= {queue.send(b"x") for _ in range(10)}
        assert len(seen) == 30

    def test_the_same_message_may_be_sent_again(self, queue: tiercel.EmbeddedQueue) -> None:
        message = tiercel.Message(b"x", label="twice")
        first, second = queue.send(message), queue.send(message)
        assert first != second
        assert [queue.receive(0).id, queue.receive(0).id] == [first, second]

    def test_a_received_message_may_be_sent_on(
        self,
        qm: tiercel.EmbeddedQueueManager,
        queue: tiercel.EmbeddedQueue,
        transactional: tiercel.EmbeddedQueue,
    ) -> None:
        with qm.transaction() as tx:
            transactional.send(tiercel.Message(b"x", label="on"), transaction=tx)
        queue.send(transactional.receive(0))
        found = queue.receive(0)
        assert (found.body, found.label, found.is_transactional) == (b"x", "on", False)

    def test_the_ends_of_a_transaction_are_marked(
        self, qm: tiercel.EmbeddedQueueManager, transactional: tiercel.EmbeddedQueue
    ) -> None:
        with qm.transaction() as tx:
            for body in (b"1", b"2", b"3"):
                transactional.send(body, transaction=tx)
        found = [transactional.receive(0) for _ in range(3)]
        assert [message.first_in_transaction for message in found] == [True, False, False]
        assert [message.last_in_transaction for message in found] == [False, False, True]
        assert [message.tx_sequence_number for message in found] == [1, 2, 3]
        assert len({message.transaction_id for message in found}) == 1


class TestBodies:
    @pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 5, 4095, 4096, 65_536, 1_000_000])
    def test_of_every_size(self, queue: tiercel.EmbeddedQueue, size: int) -> None:
        body = bytes(range(256)) * (size // 256) + bytes(size % 256)
        queue.send(body)
        assert queue.receive(0).body == body

    def test_are_not_shared_with_the_sender(self, queue: tiercel.EmbeddedQueue) -> None:
        message = tiercel.Message(b"before")
        queue.send(message)
        message.body = b"after"
        assert queue.receive(0).body == b"before"


def test_express_messages_end_with_the_process_and_recoverable_ones_stay(directory: Path) -> None:
    with tiercel.open(directory) as qm:
        queue = qm.create_queue(ORDERS)
        queue.send(b"express")
        queue.send(tiercel.Message(b"recoverable", delivery=RECOVERABLE))
        assert queue.count == 2
    with tiercel.open(directory) as qm:
        queue = qm.queue(ORDERS)
        assert queue.count == 1
        assert queue.receive(0).body == b"recoverable"
        assert queue.size_bytes == 0


@pytest.mark.conformance("DMPR-102")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("soap_envelope", "<se:Envelope/>"),
        ("soap_compound_message", b"POST"),
        ("soap_header", "<se:Header/>"),
        ("soap_body", "<se:Body/>"),
        ("transaction_status_queue", ADMIN),
    ],
)
def test_what_only_the_queue_manager_sets_is_refused(
    queue: tiercel.EmbeddedQueue, name: str, value: Any
) -> None:
    with pytest.raises(PropertyNotAllowedError):
        queue.send(tiercel.Message(**{name: value}))
    with pytest.raises(IoTimeoutError):
        queue.peek(0)
