"""Encrypted messages from other queue managers: [MS-MQQB] 3.1.5.8.3, [MS-MQDMPR] 3.1.1.2."""

from typing import Any
from uuid import UUID

import pytest

from message_security import vectors
from message_security.encrypting import encryption, ring, sealed
from message_security.signing import signed, trust
from tiercel.columns.stored import StoredRows, batch_of, slow_batch_of
from tiercel.engine.records import Record
from tiercel.message_security.providers import ADVANCED
from tiercel.message_security.verdict import Verdict, decode_verdict
from tiercel.message_security.verifier import Verifier
from tiercel.model.codes import (
    AuthenticationLevel,
    EncryptionAlgorithm,
    MessageClass,
    PrivacyLevel,
    QueuePrivacyLevel,
)
from tiercel.model.errors import ComputerDoesNotSupportEncryptionError, MqError
from tiercel.model.identifiers import MessageId
from tiercel.model.message import Message
from tiercel.remote_read.packet import serve
from tiercel.wire.message import decode_message, encode_message
from tiercel.wire.user_message import UserMessage

from .harness import ALICE, NOW, RECOVERABLE, SYSTEM, Box, World

BAD = MessageClass.NACK_BAD_ENCRYPTION


@pytest.fixture
def world() -> World:
    return World(encryption=encryption(ring()))


def message(box: Box, body: bytes = b"secret", **properties: Any) -> Message:
    properties.setdefault("privacy_level", PrivacyLevel.ADVANCED)
    identity = MessageId(UUID(int=0xBEEF), 7)
    return Message(body, id=identity, sent_time=NOW, destination_queue=box.name, **properties)


def encrypted(box: Box, body: bytes = b"secret", **properties: Any) -> UserMessage:
    return sealed(UserMessage(encode_message(message(box, body, **properties))))


def arrive(world: World, box: Box, packet: UserMessage) -> MessageClass | None:
    return world.run(lambda: world.engine.delivery.arrive(packet, box.state))


def records(world: World, box: Box) -> list[Record]:
    return [seen.record for seen in world.engine.browsing.in_order(box.state, 0)]


class TestArrival:
    @pytest.mark.conformance("MQQB-209")
    @pytest.mark.parametrize("is_stored", [False, True])
    def test_a_body_is_decrypted_and_stored_in_clear(self, world: World, *, is_stored: bool) -> None:
        box = world.create("q")
        more: dict[str, Any] = {"delivery": RECOVERABLE} if is_stored else {}
        assert arrive(world, box, encrypted(box, label="label", **more)) is None
        if is_stored:
            world.restart()
        (found,) = box.messages()
        assert (found.body, found.label, found.symmetric_key) == (b"secret", "label", b"")
        assert found.privacy_level == PrivacyLevel.ADVANCED
        (record,) = records(world, box)
        assert b"secret" in record.packet
        assert decode_verdict(record.verdict) == Verdict(was_encrypted=True)

    def test_every_way_of_reading_shows_the_clear_body(self, world: World) -> None:
        box = world.create("q")
        arrive(world, box, encrypted(box))
        (record,) = records(world, box)
        rows = StoredRows.of([1], [record.encode()])
        for columns in (batch_of, slow_batch_of):
            shown = columns(rows, ["body", "authenticated"]).to_pylist()
            assert shown == [{"body": b"secret", "authenticated": False}]
        assert UserMessage(serve(UserMessage(record.packet), record)).body == b"secret"

    @pytest.mark.conformance("MQQB-205")
    @pytest.mark.parametrize("level", [0, 2, 4, 6])
    def test_another_privacy_level_is_refused(self, world: World, level: int) -> None:
        box = world.create("q")
        packet = encrypted(box)
        at = packet.properties_at + 40
        changed = packet.data[:at] + level.to_bytes(4, "little") + packet.data[at + 4 :]
        assert arrive(world, box, UserMessage(changed)) is BAD
        assert box.bodies() == []

    @pytest.mark.conformance("MQQB-209")
    def test_a_changed_last_block_is_refused(self, world: World) -> None:
        box = world.create("q")
        packet = encrypted(box)
        at = packet.data.index(packet.body) + len(packet.body) - 1
        for bit in range(8):
            changed = packet.data[:at] + bytes((packet.data[at] ^ 1 << bit,)) + packet.data[at + 1 :]
            assert arrive(world, box, UserMessage(changed)) is BAD
        assert box.bodies() == []

    def test_what_no_key_opens_is_refused(self) -> None:
        for keys in (None, ring(ADVANCED)):
            world = World(encryption=encryption(keys))
            box = world.create("q")
            packet = encrypted(box)
            stranger = packet.data.replace(packet.security_data()[1], _for_another_key(packet))
            assert arrive(world, box, UserMessage(stranger)) is BAD
            assert box.bodies() == []
            (discard,) = world.discards()
            assert "not encrypted for this queue manager" in str(discard)

    def test_old_ciphers_are_refused_with_a_class_of_their_own(self) -> None:
        world = World(encryption=encryption(ring(), policy=None))
        box = world.create("q")
        packet = vectors.packet("security/05_enc_rc4_128")
        assert arrive(world, box, packet) is MessageClass.NACK_UNSUPPORTED_CRYPTO_PROVIDER

    def test_a_session_key_is_opened_once(self, world: World) -> None:
        box = world.create("q")
        packet = encrypted(box)
        assert world.run(lambda: world.engine.arrivals.needs_key(packet))
        keys = world.engine.arrivals.unwrap(packet)
        world.run(lambda: world.engine.arrivals.remember_key(packet, keys))
        assert not world.run(lambda: world.engine.arrivals.needs_key(packet))
        assert arrive(world, box, packet) is None

    def test_a_message_to_an_unknown_queue_needs_no_key(self, world: World) -> None:
        box = world.create("q")
        packet = encrypted(box)
        world.run(lambda: world.engine.queues.delete(box.state, SYSTEM))
        assert not world.run(lambda: world.engine.arrivals.needs_key(packet))

    def test_a_router_passes_it_on_as_it_came(self, world: World) -> None:
        there = world.box(r"DIRECT=OS:there\private$\q")
        world.left_outgoing(there.name)
        packet = encrypted(there)
        queue = world.run(lambda: world.engine.queues.destination(there.name))
        assert world.run(lambda: world.engine.delivery.arrive(packet, queue)) is None
        assert [seen.record.packet for seen in world.engine.browsing.in_order(queue, 0)] == [packet.data]


def _for_another_key(packet: UserMessage) -> bytes:
    blob = packet.security_data()[1]
    return blob[:12] + bytes(len(blob) - 13) + b"\1"


class TestSignatures:
    def test_one_over_the_clear_body_is_verified(self) -> None:
        known = trust(alice=ALICE.user)
        world = World(encryption=encryption(ring()), verifier=Verifier(lambda: known))
        box = world.create("q", authentication=True, privacy_level=QueuePrivacyLevel.BODY)
        clear = message(box, sender_id=ALICE.user.encode())
        assert arrive(world, box, sealed(signed(clear, "alice"))) is None
        (found,) = box.messages()
        assert (found.body, found.authentication_level) == (b"secret", AuthenticationLevel.SIG20)
        (record,) = records(world, box)
        sender = ALICE.user.encode()
        expected = Verdict(AuthenticationLevel.SIG20, 0, sender, was_encrypted=True, name="alice")
        assert decode_verdict(record.verdict) == expected

    def test_encryption_alone_authenticates_nobody(self, world: World) -> None:
        box = world.create("q", authentication=True)
        assert arrive(world, box, encrypted(box)) is MessageClass.NACK_BAD_SIGNATURE


class TestPrivacyLevels:
    @pytest.mark.conformance("DMPR-037")
    @pytest.mark.parametrize("is_encrypted", [False, True])
    @pytest.mark.parametrize("level", list(QueuePrivacyLevel))
    def test_what_a_queue_takes_from_the_network(
        self, world: World, level: QueuePrivacyLevel, *, is_encrypted: bool
    ) -> None:
        box = world.create("q", privacy_level=level)
        clear = message(box, privacy_level=PrivacyLevel.NONE)
        packet = encrypted(box) if is_encrypted else UserMessage(encode_message(clear))
        refuses = QueuePrivacyLevel.NONE if is_encrypted else QueuePrivacyLevel.BODY
        assert arrive(world, box, packet) is (BAD if level is refuses else None)

    def test_a_level_without_encryption_does_not_count(self, world: World) -> None:
        """The property is only a claim of the sender."""
        box = world.create("q", privacy_level=QueuePrivacyLevel.BODY)
        claimed = UserMessage(UserMessage(encode_message(message(box))).with_clear_body())
        assert claimed.properties.privacy_level == PrivacyLevel.ADVANCED
        assert arrive(world, box, claimed) is BAD

    def test_a_message_of_this_computer_counts_as_encrypted_if_it_asks_for_it(self, world: World) -> None:
        box = world.create("q", privacy_level=QueuePrivacyLevel.BODY)
        with pytest.raises(ComputerDoesNotSupportEncryptionError):
            box.send(b"clear")
        box.send(b"secret", privacy_level=PrivacyLevel.ADVANCED)
        (found,) = box.messages()
        assert (found.body, found.privacy_level) == (b"secret", PrivacyLevel.ADVANCED)
        assert not UserMessage(records(world, box)[0].packet).security_flags & 0x20

    def test_it_may_be_moved_to_a_queue_that_demands_encryption(self, world: World) -> None:
        source = world.create("q", journaling=True)
        goal = world.create("strict", privacy_level=QueuePrivacyLevel.BODY)
        arrive(world, source, encrypted(source))
        source.send(b"clear")
        source.receive()
        source.journal.hand_over(source.journal.peek(), goal)
        with pytest.raises(MqError):
            source.hand_over(source.peek(), goal)
        assert goal.bodies() == [b"secret"]


@pytest.mark.conformance("DMPR-103")
def test_a_body_that_its_application_encrypted_stays_as_it_is(world: World) -> None:
    """In a queue of this computer; on its way it does as well (tests/binary)."""
    box = world.create("q", privacy_level=QueuePrivacyLevel.BODY)
    own: dict[str, Any] = {
        "symmetric_key": b"key",
        "connector_type": UUID(int=5),
        "encryption_algorithm": EncryptionAlgorithm.AES128,
        "authentication_provider_type": 77,
        "authentication_provider_name": "of the application",
    }
    box.send(b"ciphertext", privacy_level=PrivacyLevel.ADVANCED, **own)
    (found,) = box.messages()
    assert found.body == b"ciphertext"
    assert {name: getattr(found, name) for name in own} == own
    assert decode_message(UserMessage(records(world, box)[0].packet)).symmetric_key == b"key"
