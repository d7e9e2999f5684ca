"""[MS-MQQB] 3.1.7.1.3, 3.1.5.6, 3.1.5.7, 3.1.6.5: the sender's half of exactly once, in order."""

from typing import Any

import pytest

from engine.harness import Box
from tiercel.engine.belief import Doubt
from tiercel.model.codes import DeliveryGuarantee, MessageClass, QueueAccess
from tiercel.model.identifiers import MessageId
from tiercel.model.path_name import PathName
from tiercel.store.interface import COPIED_KEY, Keyspace
from tiercel.wire.order_ack import build_final_ack, with_direct_name
from tiercel.wire.user_message import UserMessage

from .nodes import Hand, Net, Qm

HOUR = 3600
RECEIVED, TIMED_OUT = MessageClass.ACK_RECEIVE, MessageClass.NACK_RECEIVE_TIMEOUT


@pytest.fixture
def box(here: Qm, hand: Hand) -> Box:
    return here.to(hand, "tx")


def send(box: Box, *bodies: bytes, **properties: Any) -> None:
    """Each in a transaction of its own."""
    here = box.world
    assert isinstance(here, Qm)
    for body in bodies:
        here.send_together((box, body), **properties)
    here.net.settle()


def places(hand: Hand) -> list[tuple[int, int]]:
    """The number of each message that came, and the one that is said to be before it."""
    return [(packet.sequence[1], packet.previous_number) for packet in hand.messages]


def sequences(hand: Hand) -> list[int]:
    return [packet.sequence[0] for packet in hand.messages]


def waiting(box: Box) -> int:
    return box.state.count


class TestNumbers:
    """3.1.7.1.3."""

    @pytest.mark.conformance("MQQB-132")
    def test_the_first_three(self, hand: Hand, box: Box) -> None:
        send(box, b"1", b"2", b"3")
        assert places(hand) == [(1, 0), (2, 1), (3, 2)]
        assert len(set(sequences(hand))) == 1

    @pytest.mark.conformance("MQQB-133")
    def test_the_id_begins_at_random_and_never_goes_back(
        self, net: Net, here: Qm, hand: Hand, box: Box
    ) -> None:
        """Not with ordinal 1, as [MS-MQQB] 3.1.1.3.1 says: who guesses it could forge acknowledgements."""
        start = int(net.now)
        for _ in range(3):
            send(box, b"1")
            net.sleep(10)
            self.acknowledge_all(hand)
            here.kill()
        net.now -= 20  # a clock that is set back
        here.kill()
        send(box, b"1")
        seen = sequences(hand)
        assert seen[0] >> 32 == start
        ordinals = [sequence & 0xFFFF_FFFF for sequence in seen]
        assert all(0 < ordinal < 2**31 for ordinal in ordinals)
        assert len({ordinal >> 12 for ordinal in ordinals}) == 4, "drawn anew for each TimeStamp"
        assert seen == sorted(seen)
        assert len(set(seen)) == 4

    @pytest.mark.conformance("MQQB-133")
    def test_a_restored_store_begins_with_a_new_timestamp(
        self, net: Net, here: Qm, hand: Hand, box: Box
    ) -> None:
        backup = here.backup()
        send(box, b"1")
        self.acknowledge_all(hand)
        net.sleep(10)
        here.resume_from(backup)
        send(box, b"2")
        before, after = (sequence >> 32 for sequence in sequences(hand))
        assert after > before

    def test_numbers_that_were_given_since_a_backup_are_not_given_again(
        self, net: Net, here: Qm, hand: Hand, box: Box
    ) -> None:
        net.down.add(hand.address)
        send(box, b"1")
        backup = here.backup()
        backup.spaces[Keyspace.META][COPIED_KEY] = b"1"
        send(box, b"2")
        here.resume_from(backup)
        send(box, b"3")
        net.down.clear()
        net.sleep(60)
        (first, _), (last, previous), *_ = places(hand)
        assert (first, previous) == (1, 1)
        assert last > 2**20

    def acknowledge_all(self, hand: Hand) -> None:
        hand.ack()
        hand.order_ack(hand.messages[-1])

    @pytest.mark.conformance("MQQB-134")
    def test_a_new_sequence_begins_when_nothing_is_unacknowledged(self, hand: Hand, box: Box) -> None:
        send(box, b"1", b"2")
        hand.ack()
        hand.order_ack(hand.messages[0])
        send(box, b"3")
        hand.order_ack(hand.messages[2])
        hand.ack()
        send(box, b"4")
        old, *_, new = sequences(hand)
        assert (len(set(sequences(hand))), new - old) == (2, 1)
        assert places(hand) == [(1, 0), (2, 1), (3, 2), (1, 0)]

    @pytest.mark.conformance("MQQB-135", "MQQB-227")
    def test_a_number_is_given_once_and_survives(self, net: Net, here: Qm, hand: Hand, box: Box) -> None:
        net.down.add(hand.address)
        send(box, b"1")  # numbered, and not sent
        here.kill()
        net.down.clear()
        net.sleep(10)
        here.kill()  # sent, and not acknowledged
        net.settle()
        send(box, b"2")
        first, again, second = hand.messages
        assert first.data == again.data
        assert (first.sequence[1], second.sequence[1]) == (1, 2)

    def test_a_message_that_an_administrator_holds_stops_those_behind_it(
        self, net: Net, here: Qm, hand: Hand, box: Box
    ) -> None:
        net.down.add(hand.address)
        send(box, b"1", b"2", b"3")
        opened = box.open(QueueAccess.RECEIVE_ADMIN)
        held = box.take(opened=opened)
        net.down.clear()
        net.sleep(HOUR)
        assert (hand.is_connected, hand.bodies) == (True, [])
        here.run(lambda: here.engine.reading.end_receive(opened, held.lookup_id, delete=False))
        net.sleep(1)
        assert hand.bodies == [b"1", b"2", b"3"]

    @pytest.mark.conformance("MQQB-135")
    def test_so_a_receiver_delivers_it_once(self, net: Net, here: Qm) -> None:
        there = net.qm("THERE")
        there.create("tx", transactional=True)
        box = here.to(there, "tx")
        send(box, b"1")
        assert there.box("tx").bodies() == [b"1"]
        here.kill()
        net.sleep(40)
        assert there.box("tx").bodies() == [b"1"]
        assert waiting(box) == 0

    @pytest.mark.conformance("MQQB-136")
    def test_sent_again_it_names_the_one_before_it_that_is_still_there(
        self, net: Net, hand: Hand, box: Box
    ) -> None:
        send(box, b"1", b"2", b"3")
        hand.ack()
        hand.order_ack(hand.messages[0])
        hand.clear()
        net.sleep(30)
        assert places(hand) == [(2, 0), (3, 2)]


class TestResending:
    """3.1.2.6, 3.1.6.5."""

    @pytest.mark.conformance("MQQB-137", "MQQB-138")
    def test_when_nobody_answers(self, net: Net, here: Qm, hand: Hand, box: Box) -> None:
        here.configure(cleanup_ms=86_400_000)  # a session that is thought idle would be made anew meanwhile
        send(box, b"1")
        start = net.now
        times: list[float] = []
        while len(times) < 12:
            hand.ack()  # the session is fine
            net.sleep(15)
            times += [at - start for at, _ in hand.arrivals]
            hand.clear()
        expected = [0, 30, 60, 90, 390, 690, 990, 2790, 4590, 6390, 6390 + 6 * HOUR, 6390 + 12 * HOUR]
        assert times == expected

    @pytest.mark.conformance("MQQB-139")
    def test_what_is_in_a_stream_goes_again_and_nothing_else(
        self, net: Net, here: Qm, hand: Hand, box: Box
    ) -> None:
        send(box, b"1", b"2", b"3")
        here.to(hand, "q").send(b"express", delivery=DeliveryGuarantee.EXPRESS)
        net.settle()
        hand.clear()
        net.sleep(30)
        assert hand.bodies == [b"1", b"2", b"3"]
        assert [packet.previous_number for packet in hand.messages] == [0, 1, 2]
        flight = here.protocol.sessions[0].flight
        assert flight.size == 7

    @pytest.mark.conformance("MQQB-139")
    def test_a_session_ack_of_the_first_attempt_counts_for_nothing(
        self, net: Net, hand: Hand, box: Box
    ) -> None:
        send(box, b"1", b"2")
        hand.order_ack(hand.messages[0])
        net.sleep(30)
        assert hand.bodies == [b"1", b"2", b"2"]
        hand.ack(stored=2)
        hand.order_ack(hand.messages[1])
        assert waiting(box) == 1
        hand.ack()
        assert waiting(box) == 0

    @pytest.mark.conformance("MQQB-145")
    def test_after_an_answer_it_is_patient_no_longer(self, net: Net, hand: Hand, box: Box) -> None:
        send(box, b"1")
        for _ in range(100):
            hand.ack()
            net.sleep(10)
        hand.order_ack(hand.messages[0])
        hand.ack()
        assert waiting(box) == 0
        hand.clear()
        send(box, b"2")
        start = net.now
        hand.ack()
        net.sleep(40)
        assert [at - start for at, packet in hand.arrivals if packet.body == b"2"] == [0, 30]


class TestOrderAcks:
    """3.1.5.6."""

    @pytest.mark.conformance("MQQB-140")
    def test_messages_stay_until_they_come(self, here: Qm, net: Net, hand: Hand, box: Box) -> None:
        send(box, b"plain")
        send(box, b"journal", positive_journaling=True)
        plain, journal = hand.messages
        hand.ack()
        here.kill()
        assert waiting(box) == 2
        net.settle()
        hand.ack()
        hand.order_ack(journal)
        assert (waiting(box), awaiting(here)) == (0, [b"journal"])
        assert plain.sequence[1] < journal.sequence[1]

    @pytest.mark.conformance("MQQB-141")
    def test_they_never_take_anything_back(self, net: Net, here: Qm, hand: Hand, box: Box) -> None:
        send(box, b"1", b"2", b"3")
        info = here.outgoing(box).transfer_info
        seen = []
        for number in (2, 1):
            net.jump(1)
            hand.order_ack(hand.messages[0], number)
            unacked = (info.eod_first_non_ack.number, info.eod_last_non_ack.number, info.eod_no_ack_count)
            seen.append((info.eod_last_ack.number, info.eod_last_ack_count, info.eod_last_ack_time, unacked))
        assert seen == [(2, 1, net.now - 1, (3, 3, 1)), (2, 2, net.now, (3, 3, 1))]

    @pytest.mark.conformance("MQQB-142")
    def test_what_has_no_session_ack_yet_waits_for_it(self, hand: Hand, box: Box) -> None:
        send(box, b"1", b"2", b"3")
        hand.ack(stored=2)
        hand.order_ack(hand.messages[2])
        assert waiting(box) == 1
        hand.ack()
        assert waiting(box) == 0

    @pytest.mark.conformance("MQQB-143")
    def test_those_of_another_sequence_are_nothing(self, hand: Hand, box: Box) -> None:
        send(box, b"1")
        hand.ack()
        hand.order_ack(hand.messages[0])
        send(box, b"2")
        hand.ack()
        hand.order_ack(hand.messages[0])
        assert waiting(box) == 1
        hand.order_ack(hand.messages[1])
        assert waiting(box) == 0

    @pytest.mark.conformance("MQQB-144")
    @pytest.mark.parametrize("flag", ["positive_journaling", "negative_journaling", "final_ack_required"])
    def test_who_wants_to_know_more_waits_for_the_final_ack(
        self, here: Qm, hand: Hand, box: Box, flag: str
    ) -> None:
        send(box, b"1", **{flag: True})
        hand.ack()
        hand.order_ack(hand.messages[0])
        assert (waiting(box), awaiting(here)) == (0, [b"1"])
        assert here.outgoing(box).transfer_info.eod_no_read_count == 1
        here.kill()
        assert awaiting(here) == [b"1"]

    @pytest.mark.conformance("MQQB-146", "DMPR-059")
    def test_management_sees_it_all(self, net: Net, here: Qm, hand: Hand, box: Box) -> None:
        send(box, b"1", b"2", b"3", positive_journaling=True)
        hand.ack()
        net.sleep(40)
        info = here.outgoing(box).transfer_info

        def seen() -> list[int]:
            numbers = (info.eod_last_ack, info.eod_first_non_ack, info.eod_last_non_ack, info.eod_next_seq)
            counts = [info.eod_last_ack_count, info.eod_no_ack_count, info.eod_no_read_count]
            resends = [info.eod_resend_count, info.eod_resend_interval_s, info.eod_resend_time]
            return [*(each.number for each in numbers), *counts, *resends]

        start = int(net.now) - 40
        assert seen() == [0, 1, 3, 4, 0, 3, 0, 1, 30, start + 60]
        hand.ack()
        hand.order_ack(hand.messages[1])
        assert seen() == [2, 3, 3, 4, 1, 1, 2, 0, 30, start + 70]
        hand.order_ack(hand.messages[2])
        assert seen() == [3, 0, 0, 4, 2, 0, 3, 0, 30, 0]

    @pytest.mark.conformance("MQQB-146")
    def test_management_sees_the_same_after_a_restart(self, here: Qm, hand: Hand, box: Box) -> None:
        send(box, b"1", b"2", b"3", positive_journaling=True)
        hand.ack()
        hand.order_ack(hand.messages[1])
        before = here.outgoing(box).transfer_info
        here.kill()
        after = here.outgoing(box).transfer_info
        assert after is not before
        for name in (
            "eod_last_ack", "eod_first_non_ack", "eod_last_non_ack", "eod_next_seq",
            "eod_last_ack_count", "eod_last_ack_time", "eod_no_ack_count", "eod_no_read_count",
        ):  # fmt: skip
            assert getattr(after, name) == getattr(before, name), name
        assert (after.eod_last_ack.number, after.eod_no_ack_count) == (2, 1)


def awaiting(here: Qm) -> list[bytes]:
    """The messages of AwaitingFinalACKTable."""
    state, core, at, found = here.engine._catalog.awaiting_final_ack, here.engine._core, 0, []
    while (each := state.next_available(core, at)) is not None:
        at = each[0]
        found.append(UserMessage(each[1].packet).body)
    return found


class TestFinalAcks:
    """3.1.5.7."""

    def deliver(self, box: Box, hand: Hand, **properties: Any) -> UserMessage:
        send(box, b"1", **properties)
        packet = hand.messages[-1]
        hand.ack()
        hand.order_ack(packet)
        return packet

    @pytest.mark.conformance("MQQB-147", "MQQB-184")
    def test_a_positive_one_brings_the_copy_into_the_journal(self, here: Qm, hand: Hand, box: Box) -> None:
        send(box, b"1", positive_journaling=True)
        (packet,) = hand.messages
        copies = [here.journal.bodies()]
        hand.ack()
        copies.append(here.journal.bodies())
        hand.order_ack(packet)
        copies.append(here.journal.bodies())
        hand.final_ack(packet, RECEIVED)
        copies.append(here.journal.bodies())
        assert copies == [[], [], [], [b"1"]]
        assert awaiting(here) == []

    @pytest.mark.conformance("MQQB-148", "MQQB-186")
    @pytest.mark.parametrize("is_own", [True, False])
    def test_another_brings_it_to_the_dead_letters(
        self, here: Qm, hand: Hand, box: Box, is_own: bool
    ) -> None:
        own = here.create("own", transactional=True)
        path = PathName.parse(r".\private$\own") if is_own else None
        packet = self.deliver(box, hand, negative_journaling=True, dead_letter_queue=path)
        hand.final_ack(packet, TIMED_OUT)
        kept = [own.bodies(), here.transactional_dead_letters.bodies()]
        assert kept == ([[b"1"], []] if is_own else [[], [b"1"]])

    @pytest.mark.conformance("MQQB-166")
    @pytest.mark.parametrize(
        "reason",
        [
            MessageClass.NACK_HOP_COUNT_EXCEEDED,  # 0x8005
            MessageClass.NACK_MESSAGE_TOO_LARGE,
            MessageClass.NACK_RECEIVE_REJECTED,  # 0xC004
        ],
    )
    def test_classes_that_are_not_in_the_list_count_too(
        self, net: Net, here: Qm, hand: Hand, box: Box, reason: MessageClass
    ) -> None:
        packet = self.deliver(box, hand, negative_journaling=True)
        hand.final_ack(packet, reason)
        assert (awaiting(here), here.transactional_dead_letters.bodies()) == ([], [b"1"])
        assert here.discarded() == [reason]
        send(box, b"2")
        net.settle()
        assert hand.bodies == [b"1", b"2"], "the session is still open"

    @pytest.mark.conformance("MQQB-149")
    @pytest.mark.parametrize("reason", [RECEIVED, TIMED_OUT])
    def test_one_may_come_before_any_other_answer(
        self, net: Net, here: Qm, hand: Hand, box: Box, reason: MessageClass
    ) -> None:
        send(box, b"1", positive_journaling=True, negative_journaling=True)
        (packet,) = hand.messages
        hand.final_ack(packet, reason)
        journal, dead = here.journal.bodies(), here.transactional_dead_letters.bodies()
        assert (journal, dead) == (([b"1"], []) if reason is RECEIVED else ([], [b"1"]))
        hand.ack()
        hand.order_ack(packet)
        net.sleep(60)
        assert (waiting(box), awaiting(here), hand.bodies) == (0, [], [b"1"])

    @pytest.mark.conformance("MQQB-149")
    def test_the_entry_goes_even_if_no_copy_is_wanted(self, here: Qm, hand: Hand, box: Box) -> None:
        packet = self.deliver(box, hand, negative_journaling=True)
        hand.final_ack(packet, RECEIVED)
        assert (awaiting(here), here.journal.bodies()) == ([], [])
        assert here.transactional_dead_letters.bodies() == []

    @pytest.mark.conformance("MQQB-149")
    @pytest.mark.parametrize("later", [0, 1])
    def test_a_refusal_of_what_has_no_copy_here_leaves_a_line(
        self, here: Qm, hand: Hand, box: Box, later: int
    ) -> None:
        """It was complete with its OrderAck, and the next sequence may have begun."""
        packet = self.deliver(box, hand)
        for _ in range(later):
            self.deliver(box, hand)
        for _ in range(2):
            hand.final_ack(packet, MessageClass.NACK_BAD_DST_Q)
        (line,) = here.discards()
        assert (line.message_id, line.message_class) == (str(packet.id), MessageClass.NACK_BAD_DST_Q)
        assert line.reason == "another queue manager reports: the destination queue does not exist"
        hand.final_ack(packet, RECEIVED)
        assert len(here.discards()) == 1

    def test_a_refusal_of_a_sequence_from_before_a_restart_is_believed(
        self, net: Net, here: Qm, hand: Hand, box: Box
    ) -> None:
        send(box, b"1")
        here.kill()
        net.settle()
        packet = hand.messages[-1]
        hand.final_ack(packet, MessageClass.NACK_BAD_DST_Q)
        assert here.discarded() == [MessageClass.NACK_BAD_DST_Q]
        assert Doubt.UNKNOWN_MESSAGE not in here.protocol.doubts

    @pytest.mark.parametrize("has_copy", [True, False])
    def test_a_refusal_without_an_order_ack_holds_up_nothing(
        self, net: Net, here: Qm, hand: Hand, box: Box, has_copy: bool
    ) -> None:
        """A receiver that follows the words of 3.1.5.8 refuses before its stream moves on (MQQB T17)."""
        for number in range(1, 7):
            send(box, b"%d" % number, negative_journaling=has_copy)
        for number in range(1, 6):
            packet = hand.messages[0]
            assert (packet.body, packet.previous_number) == (b"%d" % number, 0)
            hand.ack()
            hand.final_ack(packet, MessageClass.NACK_BAD_DST_Q)
            hand.clear()
            net.sleep(31)
        assert hand.bodies == [b"6"]
        hand.ack()
        hand.order_ack(hand.messages[0])
        net.sleep(100_000)
        assert (waiting(box), here.discarded()) == (0, [MessageClass.NACK_BAD_DST_Q] * 5)
        assert hand.bodies == [b"6"]

    def test_after_the_last_refusal_nothing_is_waited_for(
        self, net: Net, here: Qm, hand: Hand, box: Box
    ) -> None:
        send(box, b"1", negative_journaling=True)
        info = here.outgoing(box).transfer_info
        hand.ack()
        hand.final_ack(hand.messages[0], MessageClass.NACK_BAD_DST_Q)
        assert info.eod_resend_time > 0
        net.sleep(61)
        assert info.eod_resend_time == 0

    def test_what_was_refused_and_confirmed_is_forgotten(self, here: Qm, hand: Hand, box: Box) -> None:
        send(box, b"1", b"2", b"3")
        for packet in hand.messages[:2]:
            hand.final_ack(packet, MessageClass.NACK_BAD_DST_Q)
        stream = here.engine.outgoing.stream(box.state)
        assert stream.refused == {1, 2}
        hand.order_ack(hand.messages[0])
        assert stream.refused == {2}

    @pytest.mark.parametrize("has_copy", [True, False])
    @pytest.mark.parametrize(("days", "note"), [(5, "; its clock is 5 days ahead of ours"), (-5, "")])
    def test_a_receiver_whose_clock_is_days_ahead_is_named(
        self, here: Qm, hand: Hand, box: Box, days: int, note: str, has_copy: bool
    ) -> None:
        """One that seems to be behind may have been on its way for days."""
        packet = self.deliver(box, hand, negative_journaling=has_copy)
        sent_time = int(here.now) + days * 86_400
        hand.send(build_final_ack(MessageId(hand.guid, 99), sent_time, TIMED_OUT, packet))
        (line,) = here.discards()
        assert line.reason.endswith(f"{TIMED_OUT.meaning}{note}")

    @pytest.mark.conformance("MQQB-149")
    def test_those_for_others_are_harmless(self, here: Qm, hand: Hand, box: Box) -> None:
        packet = self.deliver(box, hand, positive_journaling=True)
        stranger = hand.transactional(box.name, 1, id=MessageId(hand.guid, packet.id.uniquifier))
        unknown = hand.transactional(box.name, 1, id=MessageId(here.guid, 12345))
        for other in (stranger, unknown):
            ack = build_final_ack(MessageId(hand.guid, 99), int(here.now), RECEIVED, other)
            hand.send(with_direct_name(ack, here.address))
        assert (awaiting(here), here.journal.bodies()) == ([b"1"], [])
        assert hand.is_connected

    @pytest.mark.parametrize(
        "reason", [MessageClass.NACK_HOP_COUNT_EXCEEDED, MessageClass.NACK_RECEIVE_REJECTED]
    )
    def test_classes_that_the_list_leaves_out_are_taken(
        self, here: Qm, hand: Hand, box: Box, reason: MessageClass
    ) -> None:
        packet = self.deliver(box, hand, negative_journaling=True)
        hand.final_ack(packet, reason)
        assert here.transactional_dead_letters.bodies() == [b"1"]
        assert hand.is_connected
