"""Signed messages from other queue managers: [MS-MQQB] 3.1.5.8.3, [MS-MQDMPR] 3.1.1.2."""

from dataclasses import replace
from typing import Any
from uuid import UUID
from zlib import crc32

import pytest

from message_security.signing import forged, signed, trust
from tiercel.admin.browsing import message_of
from tiercel.columns.stored import StoredRows, batch_of, slow_batch_of
from tiercel.engine.records import Record, decode_record
from tiercel.message_security.trust import Trust
from tiercel.message_security.verdict import Verdict
from tiercel.message_security.verifier import Verifier
from tiercel.model.codes import (
    AuthenticationLevel,
    MessageClass,
    QueueAccess,
    QueueAccessMask,
    SenderIdType,
)
from tiercel.model.errors import (
    CannotSignDataExError,
    MessageNotAuthenticatedError,
    MqError,
    StoreDamagedError,
)
from tiercel.model.identifiers import MessageId
from tiercel.model.message import Message
from tiercel.model.sid import SecurityIdentifier
from tiercel.remote_read.packet import serve
from tiercel.security.descriptor import SecurityDescriptor
from tiercel.wire.message import decode_message, encode_message
from tiercel.wire.user_message import UserMessage

from .harness import ALICE, BOB, NOW, RECOVERABLE, SYSTEM, Box, World

SIG20 = AuthenticationLevel.SIG20


def knowing(known: Trust, **options: Any) -> World:
    return World(verifier=Verifier(lambda: known), **options)


@pytest.fixture
def world() -> World:
    return knowing(trust(alice=ALICE.user))


def message(box: Box, **properties: Any) -> Message:
    properties.setdefault("sender_id", ALICE.user.encode())
    return Message(
        b"body", id=MessageId(UUID(int=0xBEEF), 7), sent_time=NOW, destination_queue=box.name, **properties
    )


def arrive(world: World, box: Box, packet: UserMessage) -> MessageClass | None:
    return world.run(lambda: world.engine.delivery.arrive(packet, box.state))


class TestQueuesThatDemandAuthentication:
    @pytest.mark.conformance("DMPR-036")
    def test_they_take_what_was_verified(self, world: World) -> None:
        box = world.create("q", authentication=True)
        assert arrive(world, box, signed(message(box), "alice")) is None
        (found,) = box.messages()
        assert (found.body, found.authentication_level) == (b"body", SIG20)
        assert found.verified_sender == ALICE.user.encode()

    @pytest.mark.conformance("DMPR-036")
    def test_they_refuse_unsigned_messages(self, world: World) -> None:
        box = world.create("q", authentication=True)
        packet = signed(message(box), "alice")
        unsigned = UserMessage(encode_message(replace(decode_message(packet), signature=b"")))
        assert arrive(world, box, unsigned) is MessageClass.NACK_BAD_SIGNATURE
        assert box.bodies() == []

    def test_they_refuse_a_signature_of_nobody(self, world: World) -> None:
        box = world.create("q", authentication=True)
        packet = signed(message(box, sender_id_type=SenderIdType.NONE, sender_id=b""), "mallory")
        assert arrive(world, box, packet) is MessageClass.NACK_BAD_SIGNATURE

    def test_a_message_may_be_moved_there_if_it_was_verified(self, world: World) -> None:
        """From a queue that takes everything."""
        source, goal = world.create("q"), world.create("strict", authentication=True)
        arrive(world, source, signed(message(source), "alice"))
        source.hand_over(source.peek(), goal)
        (found,) = goal.messages()
        assert found.authentication_level == SIG20

    def test_a_copy_in_a_journal_keeps_what_was_verified(self, world: World) -> None:
        source, goal = world.create("q", journaling=True), world.create("strict", authentication=True)
        arrive(world, source, signed(message(source), "alice"))
        source.receive()
        source.journal.hand_over(source.journal.peek(), goal)
        assert [found.authentication_level for found in goal.messages()] == [SIG20]

    def test_an_unsigned_message_may_not_be_moved_there(self, world: World) -> None:
        source, goal = world.create("q"), world.create("strict", authentication=True)
        source.send(b"1")
        with pytest.raises(MessageNotAuthenticatedError):
            source.hand_over(source.peek(), goal)


class TestBadSignatures:
    @pytest.mark.conformance("MQQB-201")
    def test_the_message_is_refused_by_every_queue(self, world: World) -> None:
        box = world.create("q")
        assert arrive(world, box, forged(signed(message(box), "alice"))) is MessageClass.NACK_BAD_SIGNATURE
        assert box.bodies() == []
        assert world.discarded() == [MessageClass.NACK_BAD_SIGNATURE]

    def test_the_ledger_says_what_is_wrong(self, world: World) -> None:
        box = world.create("q")
        arrive(world, box, signed(message(box), "mallory"))
        (discard,) = world.discards()
        assert "its certificate is not in the trust store" in str(discard)

    def test_a_router_passes_it_on(self, world: World) -> None:
        """Only the destination verifies: a router may not know the sender."""
        there = world.box(r"DIRECT=OS:there\private$\q")
        world.left_outgoing(there.name)
        packet = forged(signed(message(there), "alice"))
        queue = world.run(lambda: world.engine.queues.destination(there.name))
        assert world.run(lambda: world.engine.delivery.arrive(packet, queue)) is None
        good = signed(message(there), "alice")
        assert world.run(lambda: world.engine.delivery.arrive(good, queue)) is None
        assert [seen.record.verdict for seen in world.engine.browsing.in_order(queue, 0)] == [b"", b""]


class TestAccessLists:
    @pytest.mark.conformance("MQQB-203")
    @pytest.mark.parametrize(
        ("granted", "reason"), [(ALICE, None), (BOB, MessageClass.NACK_ACCESS_DENIED)], ids=["her", "another"]
    )
    def test_they_see_the_sender_of_a_verified_signature(
        self, world: World, granted: Any, reason: MessageClass | None
    ) -> None:
        box = world.create("q", security=only(granted))
        assert arrive(world, box, signed(message(box), "alice")) is reason

    @pytest.mark.conformance("MQQB-212")
    @pytest.mark.parametrize(
        ("groups", "reason"),
        [({BOB.user}, None), (set(), MessageClass.NACK_ACCESS_DENIED)],
        ids=["member", "stranger"],
    )
    def test_they_see_the_groups_of_the_sender(self, groups: set[Any], reason: MessageClass | None) -> None:
        (alice,) = trust(alice=ALICE.user)
        world = knowing(Trust((replace(alice, groups=tuple(groups)),)))
        box = world.create("q", security=only(BOB))
        assert arrive(world, box, signed(message(box), "alice")) is reason

    @pytest.mark.conformance("MQQB-212")
    def test_groups_that_cannot_be_told_count_as_denied(self) -> None:
        """Even if the account itself is granted the right: an entry for a group may deny it."""
        answers: list[Any] = [OSError("no domain controller"), MqError("resolver"), frozenset()]

        def resolve(sid: bytes) -> frozenset[SecurityIdentifier]:
            assert sid == ALICE.user.encode()
            answer = answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return frozenset(answer)

        known = trust(alice=ALICE.user)
        world = World(verifier=Verifier(lambda: known, groups=resolve))
        box = world.create("q", security=only(ALICE))
        packet = signed(message(box), "alice")
        denied = MessageClass.NACK_ACCESS_DENIED
        assert [arrive(world, box, packet) for _ in range(3)] == [denied, denied, None]

    def test_they_see_nobody_in_what_a_packet_claims(self) -> None:
        """The trust store is empty, so that the message is taken as unsigned."""
        world = knowing(Trust())
        box = world.create("q", security=only(ALICE))
        assert arrive(world, box, signed(message(box), "alice")) is MessageClass.NACK_ACCESS_DENIED

    def test_a_warning_about_them_ends_with_the_first_entry(self) -> None:
        for known, is_ignored in ((Trust(), True), (trust(alice=ALICE.user), False)):
            world = knowing(known)
            box = world.create("q", security=only(ALICE))
            assert world.engine.queues.ignores_named_senders(box.state) == is_ignored


def only(token: Any) -> bytes:
    rights = int(QueueAccessMask.WRITE_MESSAGE)
    return SecurityDescriptor.parse(f"O:{SYSTEM.user}D:(A;;0x{rights:x};;;{token.user})").encode()


class TestStoredVerdict:
    def test_it_stands_beside_the_untouched_packet(self, world: World) -> None:
        box = world.create("q", journaling=True)
        packet = signed(message(box, delivery=RECOVERABLE), "alice")
        arrive(world, box, packet)
        world.restart()
        (found,) = world.engine.browsing.in_order(box.state, 0)
        assert found.record.packet == packet.data
        assert found.record.verdict == Verdict(SIG20, 0, ALICE.user.encode(), name="alice").encode()
        box.receive()
        assert [each.authentication_level for each in box.journal.messages()] == [SIG20]

    def test_every_way_of_reading_shows_it(self, world: World) -> None:
        box = world.create("q")
        packet = signed(message(box), "alice")
        record = Record(
            packet.data, NOW, verdict=Verdict(SIG20, 0, ALICE.user.encode(), name="alice").encode()
        )
        assert message_of(1, record).authentication_level == SIG20
        rows = StoredRows.of([1], [record.encode()])
        for columns in (batch_of, slow_batch_of):
            shown = columns(rows, ["authenticated", "auth_level", "verified_sender"]).to_pylist()
            sender = str(ALICE.user)
            assert shown == [{"authenticated": True, "auth_level": SIG20, "verified_sender": sender}]
            assert columns(rows, ["verified_name"]).to_pylist() == [{"verified_name": "alice"}]
        served = UserMessage(serve(packet, record))
        assert served.security is not None
        assert served.security.signature_type == SIG20
        assert served.security_data() == packet.security_data()

    @pytest.mark.parametrize("reason", [0, 0x8003])
    @pytest.mark.parametrize("queue", ["", r".\private$\mine"])
    def test_records_come_back(self, reason: int, queue: str) -> None:
        verdict = Verdict(SIG20, 1, ALICE.user.encode()).encode()
        record = Record(b"packet" * 20, 1, 2, 3, 4, queue, is_copy=True, reason=reason, verdict=verdict)
        assert decode_record(record.encode()) == record

    def test_a_record_without_room_for_its_verdict_is_damaged(self) -> None:
        data = bytearray(Record(b"", 1, verdict=b"xyz").encode())
        data[24 + 2] = 200
        data[:4] = crc32(data[4:]).to_bytes(4, "little")
        with pytest.raises(StoreDamagedError):
            decode_record(bytes(data))


@pytest.mark.parametrize("others", ["", r",DIRECT=OS:there\private$\a"])
def test_messages_to_a_multicast_address_cannot_be_signed(world: World, others: str) -> None:
    """They would leave unsigned."""
    opened = world.box(f"MULTICAST=234.1.1.1:8001{others}").open(QueueAccess.SEND)
    with pytest.raises(CannotSignDataExError, match="multicast"):
        world.run(
            lambda: world.engine.sending.to_sign(opened, Message(b""), b"certificate", is_transactional=False)
        )
