"""[MS-MQQB] 3.1.5.8.6, 3.1.6.9, 3.1.7.17, 3.1.7.2.2: the receiver's half of exactly once, in order."""

import struct
from typing import Any

import pytest

from engine.harness import Box
from tiercel.engine import incoming_streams
from tiercel.engine.arrivals import Source
from tiercel.engine.incoming_streams import IncomingStream
from tiercel.model.codes import MessageClass, QueuePrivacyLevel
from tiercel.model.format_name import PrivateFormatName
from tiercel.model.identifiers import MessageId, TxSequenceId
from tiercel.model.limits import INFINITE, TIME_TO_REACH_QUEUE_DEFAULT_S
from tiercel.wire.alike import Alike
from tiercel.wire.order_ack import FinalAck, OrderAck, build_order_ack, recognise
from tiercel.wire.queue_names import DirectQueueFormatName, PrivateQueueFormatNameId
from tiercel.wire.structure import encode_guid
from tiercel.wire.user_message import UserMessage

from .nodes import SEQUENCE, Hand, Net, Qm, whole
from .test_receiving import granting

USER = 16  # where the UserHeader begins


@pytest.fixture
def box(here: Qm) -> Box:
    return here.create("tx", transactional=True)


@pytest.fixture
def sender(here: Qm, hand: Hand) -> Hand:
    return hand.call(here)


def stream(here: Qm) -> IncomingStream:
    (found,) = here.run(here.engine.arrivals.streams.all)
    return found


class TestAccepting:
    """3.1.5.8.6."""

    @pytest.mark.conformance("MQQB-150")
    @pytest.mark.parametrize(
        ("number", "previous", "is_accepted"),
        [(6, 5, True), (9, 5, True), (9, 3, True), (5, 4, False), (7, 6, False)],
    )
    def test_in_the_same_sequence(
        self, here: Qm, box: Box, sender: Hand, number: int, previous: int, is_accepted: bool
    ) -> None:
        sender.send(sender.transactional(here.name_of("tx"), 5, 0))
        sender.send(sender.transactional(here.name_of("tx"), number, previous))
        assert box.bodies() == [b"5", b"%d" % number][: 1 + is_accepted]

    @pytest.mark.conformance("MQQB-151")
    @pytest.mark.parametrize(
        ("sequence", "number", "previous", "is_accepted"),
        [
            (TxSequenceId(2, 1), 1, 0, True),
            (TxSequenceId(2, 1), 4, 0, True),
            (TxSequenceId(2, 1), 2, 1, False),
            (TxSequenceId(0, 1), 1, 0, False),
        ],
    )
    @pytest.mark.parametrize("is_fresh", [True, False])
    def test_in_another_sequence(
        self,
        here: Qm,
        box: Box,
        sender: Hand,
        sequence: TxSequenceId,
        number: int,
        previous: int,
        is_accepted: bool,
        is_fresh: bool,
    ) -> None:
        name = here.name_of("tx")
        if not is_fresh:
            sender.send(sender.transactional(name, 5, 0))
        elif sequence < SEQUENCE:
            is_accepted = True  # the first of all is greater than nothing
        sender.send(sender.transactional(name, number, previous, tx_sequence_id=sequence))
        assert box.bodies()[not is_fresh :] == [b"%d" % number] * is_accepted

    @pytest.mark.conformance("MQQB-152")
    def test_the_timestamp_counts_more_than_the_ordinal(self, here: Qm, box: Box, sender: Hand) -> None:
        name = here.name_of("tx")
        older, newer = TxSequenceId(1, 9), TxSequenceId(2, 1)
        packet = sender.transactional(name, 1, tx_sequence_id=newer)
        (on_the_wire,) = struct.unpack_from("<Q", packet.data, packet._transaction_at + 4)
        assert on_the_wire == whole(newer) == 2 << 32 | 1
        for body, sequence in ((b"a", older), (b"b", newer), (b"c", older)):
            sender.send(sender.transactional(name, 1, body=body, tx_sequence_id=sequence))
        assert box.bodies() == [b"a", b"b"]

    @pytest.mark.conformance("MQQB-153")
    def test_what_is_not_accepted_is_counted_until_the_next_good_one(
        self, here: Qm, box: Box, sender: Hand
    ) -> None:
        seen = []
        for number in (1, 1, 1, 2):
            sender.send(sender.transactional(here.name_of("tx"), number))
            seen.append((box.state.count, stream(here).reject_count))
        assert seen == [(1, 0), (1, 1), (1, 2), (2, 0)]

    @pytest.mark.conformance("MQQB-130")
    def test_management_sees_each_stream_of_a_queue(self, net: Net, here: Qm, box: Box, sender: Hand) -> None:
        here.create("tx2", transactional=True)
        names = here.name_of("tx"), here.private_name("tx"), here.name_of("tx2")
        for name in names:
            sender.send(*(sender.transactional(name, number) for number in (1, 2, 2)))
        for end in (net.settle, here.kill):
            end()
            infos = here.run(lambda: here.engine.arrivals.streams.infos(box.state))
            assert {each.format_name for each in infos} == {*names[:2]}
            for each in infos:
                assert (each.queue, each.sender_identifier) == (box.state.queue, sender.guid)
                assert (each.sequence_identifier, each.sequence_number) == (SEQUENCE, 2)
                assert (each.last_access_time, each.reject_count) == (net.now, 1)
        box.delete()
        for end in (net.settle, here.kill):
            end()
            assert len(here.run(here.engine.arrivals.streams.all)) == 1

    @pytest.mark.conformance("MQQB-154")
    def test_and_changes_nothing(self, here: Qm, box: Box, sender: Hand) -> None:
        name = here.name_of("tx")
        sender.send(sender.transactional(name, 5, 0), sender.transactional(name, 7, 6))
        assert (stream(here).sequence, stream(here).number) == (whole(), 5)
        sender.send(sender.transactional(name, 6, 5))
        assert box.bodies() == [b"5", b"6"]

    @pytest.mark.conformance("MQQB-156")
    def test_each_queue_and_each_sender_for_itself(self, net: Net, here: Qm, box: Box, sender: Hand) -> None:
        second, other = here.create("tx2", transactional=True), net.hand().call(here)
        for each in (sender, other):
            for queue in ("tx", "tx2"):
                name = here.name_of(queue)
                each.send(
                    each.transactional(name, 1), each.transactional(name, 2), each.transactional(name, 2)
                )
        assert (box.bodies(), second.bodies()) == ([b"1", b"2"] * 2, [b"1", b"2"] * 2)

    @pytest.mark.conformance("MQQB-156")
    def test_more_streams_in_one_batch_than_fit_in_memory(
        self, here: Qm, box: Box, hand: Hand, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(incoming_streams, "_STREAMS_KEPT", 1)
        here.create("tx2", transactional=True)
        names = here.name_of("tx"), here.name_of("tx2"), here.name_of("tx")
        run = [Alike(hand.transactional(name, 1)) for name in names]
        source = Source(hand.guid, hand.address, is_direct=True)
        here.run(lambda: here.engine.arrivals.arrive(run, source))
        assert box.bodies() == [b"1"]

    @pytest.mark.conformance("MQQB-156", "MQQB-228")
    @pytest.mark.parametrize("end", ["hang up", "kill"])
    def test_over_sessions_and_restarts(self, here: Qm, box: Box, sender: Hand, end: str) -> None:
        name = here.name_of("tx")
        sender.send(sender.transactional(name, 1), sender.transactional(name, 1))
        if end == "kill":
            here.kill()
        else:
            sender.hang_up()
        sender.call(here)
        assert (stream(here).sequence, stream(here).number, stream(here).reject_count) == (whole(), 1, 1)
        sender.send(sender.transactional(name, 1), sender.transactional(name, 2))
        assert box.bodies() == [b"1", b"2"]


class TestQueuesThatComeAndGo:
    """A stream goes on when its queue is created or deleted, without waiting for the resend of its sender."""

    @pytest.fixture
    def there(self, net: Net) -> Qm:
        return net.qm("THERE")

    @staticmethod
    def crash(here: Qm, hand: Hand) -> None:
        """The sender connects again before it can be dialled."""
        here.net.down.add(hand.address)
        here.kill()

    def test_a_queue_that_is_created_after_a_refusal(self, net: Net, here: Qm, there: Qm) -> None:
        orders = there.to(here, "orders")
        there.send_together((orders, b"1"))
        net.settle()  # refused, and not yet confirmed by an OrderAck
        box = here.create("orders", transactional=True)
        there.send_together((orders, b"2"))
        net.sleep(1)
        assert box.bodies() == [b"2"]
        assert orders.state.count == 0

    def test_a_queue_that_is_created_anew(self, net: Net, here: Qm, there: Qm) -> None:
        orders = there.to(here, "orders")
        here.create("orders", transactional=True)
        there.send_together((orders, b"1"))
        net.settle()
        here.box("orders").delete()
        box = here.create("orders", transactional=True)
        there.send_together((orders, b"2"))
        net.sleep(1)
        assert box.bodies() == [b"2"]

    def test_a_queue_that_is_deleted(self, net: Net, here: Qm, there: Qm) -> None:
        """What comes next is refused at once."""
        orders = there.to(here, "orders")
        here.create("orders", transactional=True)
        there.send_together((orders, b"1"))
        net.settle()
        here.box("orders").delete()
        there.send_together((orders, b"2"))
        net.sleep(1)
        assert orders.state.count == 0
        assert MessageClass.NACK_BAD_DST_Q in here.discarded()

    def test_a_message_that_was_refused_stays_refused(self, here: Qm, sender: Hand) -> None:
        """Its sender has heard so, and may have sent it again by other means."""
        packet = sender.transactional(here.name_of("orders"), 1)
        sender.send(packet)
        box = here.create("orders", transactional=True)
        sender.send(packet, sender.transactional(here.name_of("orders"), 2, 0))
        assert box.bodies() == [b"2"]

    def test_a_run_that_was_refused_stays_refused_after_a_crash(self, here: Qm, hand: Hand) -> None:
        """Its answers are stored, so its place in its stream is, in the same commit."""
        run = [hand.transactional(here.name_of("orders"), number, number - 1) for number in (1, 2, 3)]
        hand.call(here).send(*run)
        self.crash(here, hand)
        box = here.create("orders", transactional=True)
        hand.call(here).send(*run)
        here.net.sleep(1)
        assert box.bodies() == []
        assert here.discarded() == [MessageClass.NACK_BAD_DST_Q] * 3
        assert [number for _, number in hand.order_acks][-1] == 3
        hand.send(hand.transactional(here.name_of("orders"), 4, 3))
        assert box.bodies() == [b"4"]

    def test_a_message_refused_twice_is_answered_once(self, here: Qm, hand: Hand) -> None:
        packet = hand.transactional(here.name_of("orders"), 1)
        hand.call(here).send(packet)
        self.crash(here, hand)
        hand.call(here).send(packet)
        here.net.sleep(1)
        assert here.discarded() == [MessageClass.NACK_BAD_DST_Q]
        assert hand.order_acks

    @pytest.mark.parametrize("first", ["taken", "refused"])
    def test_the_middle_of_a_stream_whose_queue_is_deleted(self, here: Qm, hand: Hand, first: str) -> None:
        """A queue of the wrong kind refuses what comes, and is replaced; or one that takes it is deleted."""
        name = here.name_of("orders")
        here.create("orders", transactional=first == "taken")
        hand.call(here).send(hand.transactional(name, 1))
        here.box("orders").delete()
        self.crash(here, hand)
        hand.call(here).send(hand.transactional(name, 2, 1))
        self.crash(here, hand)
        box = here.create("orders", transactional=True)
        hand.call(here).send(*(hand.transactional(name, number, number - 1) for number in (1, 2, 3)))
        assert box.bodies() == [b"3"]

    def test_whatever_came_to_the_new_queue_in_between(self, here: Qm, hand: Hand) -> None:
        """Messages of older sequences, or of none that can begin, do not hide what was refused."""
        name = here.name_of("orders")
        refused = hand.transactional(name, 1)
        hand.call(here).send(refused)
        self.crash(here, hand)
        box = here.create("orders", transactional=True)
        older = SEQUENCE._replace(ordinal=SEQUENCE.ordinal - 1)
        hand.call(here).send(hand.transactional(name, 8, 7, tx_sequence_id=older))
        hand.send(hand.transactional(name, 5, 0, tx_sequence_id=older))
        hand.send(refused, hand.transactional(name, 2, 1))
        assert box.bodies() == [b"5", b"2"]

    def test_a_clock_that_was_set_back_for_a_while(self, net: Net, here: Qm, hand: Hand) -> None:
        """The receiver started with it, and does not forget the stream when it is right again."""
        box = here.create("orders", transactional=True)
        packets = [hand.transactional(here.name_of("orders"), number, number - 1) for number in (1, 2)]
        hand.call(here).send(packets[0])
        net.now -= 400 * 86400
        self.crash(here, hand)
        hand.call(here).send(packets[1])
        net.now += 400 * 86400
        self.crash(here, hand)
        hand.call(here).send(*packets)
        assert box.bodies() == [b"1", b"2"]

    def test_another_sequence_begins_as_in_any_new_queue(self, here: Qm, sender: Hand) -> None:
        """A stranger who claimed to be the sender has not blocked a queue before it exists."""
        name = here.name_of("orders")
        later = SEQUENCE._replace(ordinal=SEQUENCE.ordinal + 7)
        sender.send(sender.transactional(name, 9, 0, tx_sequence_id=later))
        box = here.create("orders", transactional=True)
        sender.send(sender.transactional(name, 1, 0))
        assert box.bodies() == [b"1"]


class TestOrderAcks:
    """3.1.2.7, 3.1.6.9."""

    @pytest.mark.conformance("MQQB-157")
    @pytest.mark.parametrize(("number", "previous"), [(2, 1), (1, 0), (4, 3)])
    @pytest.mark.usefixtures("box")
    def test_half_a_second_after_whatever_came(
        self, net: Net, here: Qm, sender: Hand, number: int, previous: int
    ) -> None:
        sender.send(sender.transactional(here.name_of("tx"), 1))
        net.sleep(1)
        sender.clear()
        sender.send(sender.transactional(here.name_of("tx"), number, previous))
        net.sleep(0.499)
        assert sender.order_acks == []
        net.sleep(0.001)
        assert sender.order_acks == [(whole(), max(number, 1) if previous <= 1 else 1)]

    @pytest.mark.conformance("MQQB-158")
    def test_put_off_by_each_message_but_not_for_ever(
        self, net: Net, here: Qm, box: Box, sender: Hand
    ) -> None:
        for number in range(1, 76):
            sender.send(sender.transactional(here.name_of("tx"), number))
            sender.ack()
            net.sleep(0.4)
        assert len(box.bodies()) == 75
        assert [number for _, number in sender.order_acks] == [26, 52]

    @pytest.mark.conformance("MQQB-159")
    def test_none_when_the_session_is_gone(self, net: Net, here: Qm, box: Box, sender: Hand) -> None:
        packet = sender.transactional(here.name_of("tx"), 1)
        sender.send(packet)
        sender.hang_up()
        net.sleep(10)
        assert (sender.calls, box.bodies()) == ([], [b"1"])
        sender.call(here).send(packet)
        net.sleep(1)
        assert sender.order_acks == [(whole(), 1)]

    @pytest.mark.conformance("MQQB-159")
    def test_none_for_a_routed_message_when_the_session_is_gone(
        self, net: Net, here: Qm, box: Box, sender: Hand
    ) -> None:
        here.configure(in_routing_servers=(sender.address,))
        sender.send(net.hand().transactional(here.name_of("tx"), 1))
        assert box.bodies() == [b"1"]
        sender.hang_up()
        net.sleep(10)
        assert list(here.engine.outgoing.queues()) == []

    @pytest.mark.usefixtures("box")
    def test_only_those_that_a_router_carries_expire(self, net: Net, here: Qm, sender: Hand) -> None:
        """A newer one supersedes it, and it must not wait for ever for a sender that is gone."""
        source = net.hand()
        here.configure(machines={source.guid: (source.address,)}, in_routing_servers=(sender.address,))
        name = here.name_of("tx")
        sender.send(sender.transactional(name, 1), source.transactional(name, 1))
        net.sleep(1)
        ((_, direct),) = sender.arrivals
        ((_, routed),) = source.arrivals
        assert direct.time_to_reach_queue == INFINITE
        assert routed.time_to_reach_queue == TIME_TO_REACH_QUEUE_DEFAULT_S

    @pytest.mark.conformance("MQQB-160")
    def test_they_never_run_ahead_of_what_is_missing(
        self, net: Net, here: Qm, box: Box, sender: Hand
    ) -> None:
        one, two, three, four = (sender.transactional(here.name_of("tx"), number) for number in (1, 2, 3, 4))
        sender.send(one, two, four)
        net.sleep(1)
        sender.send(three, four)
        net.sleep(1)
        assert sender.order_acks == [(whole(), 2), (whole(), 4)]
        assert box.bodies() == [b"1", b"2", b"3", b"4"]

    @pytest.mark.conformance("MQQB-171")
    def test_what_is_refused_is_confirmed_too(self, net: Net, here: Qm, sender: Hand, box: Box) -> None:
        box.set(quota_kib=1)
        name = here.name_of("tx")
        refused = sender.transactional(name, 2, body=bytes(2000))
        sender.send(sender.transactional(name, 1), refused, sender.transactional(name, 3))
        net.sleep(1)
        assert sender.order_acks == [(whole(), 3)]
        assert sender.final_acks == [(refused.id.uniquifier, MessageClass.NACK_Q_EXCEED_QUOTA)]
        assert box.bodies() == [b"1", b"3"]


@pytest.mark.usefixtures("box")
class TestPackets:
    """2.2.4, 2.2.5."""

    def order_ack(self, net: Net, here: Qm, sender: Hand, *, is_direct: bool) -> UserMessage:
        name = here.name_of("tx") if is_direct else here.private_name("tx")
        sender.send(sender.transactional(name, 3, 0))
        net.sleep(1)
        return sender.arrivals[-1][1]

    def final_ack(self, here: Qm, sender: Hand, *, is_direct: bool) -> tuple[UserMessage, UserMessage]:
        name = here.name_of("tx") if is_direct else here.private_name("tx")
        packet = sender.transactional(name, 3, 0, final_ack_required=True)
        sender.send(packet)
        here.box("tx").receive()
        here.net.settle()
        return packet, sender.arrivals[-1][1]

    @pytest.mark.conformance("MQQB-161")
    @pytest.mark.parametrize(("is_direct", "flags", "size"), [(False, 0x200C00, 192), (True, 0x201C00, 264)])
    def test_order_ack_flags(self, net: Net, here: Qm, is_direct: bool, flags: int, size: int) -> None:
        sender = net.hand("192.0.2.1").call(here)
        packet = self.order_ack(net, here, sender, is_direct=is_direct)
        assert isinstance(recognise(packet), OrderAck)
        assert (packet.base_flags, packet.flags, len(packet.data)) == (0, flags, size)

    @pytest.mark.conformance("MQQB-162", "MQQB-163")
    @pytest.mark.parametrize("is_direct", [False, True])
    @pytest.mark.parametrize("is_final", [False, True])
    def test_what_both_have_in_common(
        self, net: Net, here: Qm, sender: Hand, is_direct: bool, is_final: bool
    ) -> None:
        if is_final:
            _, packet = self.final_ack(here, sender, is_direct=is_direct)
        else:
            packet = self.order_ack(net, here, sender, is_direct=is_direct)
        name = packet.data[USER + 48 : packet.properties_at]
        if is_direct:
            text = f"TCP:{sender.address}\\PRIVATE$\\order_queue$\0".encode("utf-16-le")
            assert name == (struct.pack("<H", len(text)) + text).ljust(len(text) + 5 & ~3, b"\0")
        else:
            assert name == b"\4\0\0\0"
        properties = packet.properties
        assert (properties.flags, properties.label, properties.label_length) == (0, "QM Ordering Ack", 16)
        assert (properties.message_size, properties.body_type) == (0x24, 0)
        assert packet.message_class == (0x4000 if is_final else 0x00FF)
        names = (packet.admin_queue, packet.response_queue)
        assert (*names, packet.security, packet.others) == (None, None, None, ())

    @pytest.mark.conformance("MQQB-164")
    def test_order_ack_body(self, net: Net, here: Qm, sender: Hand) -> None:
        packet = self.order_ack(net, here, sender, is_direct=True)
        assert packet.body == struct.pack("<QII", whole(), 3, 2) + bytes(20)

    @pytest.mark.conformance("MQQB-164")
    def test_garbage_in_its_reserved_bytes_is_tolerated(self, net: Net, here: Qm, hand: Hand) -> None:
        outgoing = here.to(hand, "tx")
        here.send_together((outgoing, b"1"))
        net.settle()
        hand.ack()
        (packet,) = hand.messages
        ack = build_order_ack(MessageId(hand.guid, 99), int(net.now), here.guid, *packet.sequence)
        hand.send(UserMessage(ack.data[:-20] + b"\xa5" * 20))
        assert outgoing.state.count == 0

    @pytest.mark.conformance("MQQB-165", "MQQB-167")
    @pytest.mark.parametrize(("is_direct", "flags"), [(False, 0x200C20), (True, 0x201C20)])
    def test_final_ack(self, here: Qm, sender: Hand, is_direct: bool, flags: int) -> None:
        packet, ack = self.final_ack(here, sender, is_direct=is_direct)
        assert isinstance(recognise(ack), FinalAck)
        assert (ack.base_flags, ack.flags, ack.message_class) == (0, flags, 0x4000)
        source = encode_guid(sender.guid)
        assert ack.body == struct.pack("<QII", whole(), 3, 0) + source + packet.data[56:60]


class TestFinalAcks:
    """3.1.7.2.2, 3.1.7.17."""

    @pytest.mark.conformance("MQQB-168")
    @pytest.mark.parametrize("flag", ["positive_journaling", "negative_journaling", "final_ack_required", ""])
    @pytest.mark.parametrize(
        ("end", "reason"),
        [
            ("receive", MessageClass.ACK_RECEIVE),
            ("delete", MessageClass.NACK_Q_DELETED),
            ("purge", MessageClass.NACK_Q_PURGED),
            ("wait", MessageClass.NACK_RECEIVE_TIMEOUT),
        ],
    )
    def test_how_a_message_ended(
        self, net: Net, here: Qm, box: Box, sender: Hand, flag: str, end: str, reason: MessageClass
    ) -> None:
        wanted: dict[str, Any] = {flag: True} if flag else {}
        packet = sender.transactional(here.name_of("tx"), 1, time_to_be_received=100, **wanted)
        sender.send(packet)
        if end == "wait":
            net.jump(100)
        else:
            getattr(box, end)()
        net.settle()
        assert sender.final_acks == ([(packet.id.uniquifier, reason)] if flag else [])

    @pytest.mark.conformance("MQQB-168")
    def test_a_refused_message_needs_no_flag(self, here: Qm, sender: Hand) -> None:
        packet = sender.transactional(here.name_of("gone"), 1)
        sender.send(packet)
        assert sender.final_acks == [(packet.id.uniquifier, MessageClass.NACK_BAD_DST_Q)]

    @pytest.mark.conformance("MQQB-166")
    @pytest.mark.parametrize(
        ("reason", "attributes", "properties"),
        [
            (0x8000, {}, {}),
            (0x8003, {"quota_kib": 0}, {}),
            (0x8004, {"security": granting("")}, {}),
            (0x8006, {"authentication": True}, {}),
            (0x8007, {"privacy_level": QueuePrivacyLevel.BODY}, {}),
            (0x8009, {"transactional": False}, {}),
            (0xC000, {}, {}),
            (0xC001, {}, {}),
            (0xC002, {}, {"time_to_be_received": 5}),
        ],
    )
    def test_every_class_has_its_trigger(
        self, net: Net, here: Qm, sender: Hand, reason: int, attributes: Any, properties: Any
    ) -> None:
        if reason != 0x8000:
            here.create("mine", **{"transactional": True, **attributes})
        packet = sender.transactional(here.name_of("mine"), 1, final_ack_required=True, **properties)
        sender.send(packet)
        box = here.box("mine")
        if reason == MessageClass.NACK_Q_DELETED:
            box.delete()
        elif reason == MessageClass.NACK_Q_PURGED:
            box.purge()
        elif reason == MessageClass.NACK_RECEIVE_TIMEOUT:
            net.jump(5)
        net.settle()
        assert sender.final_acks == [(packet.id.uniquifier, reason)]

    @pytest.mark.conformance("MQQB-169")
    @pytest.mark.parametrize("address", ["192.0.2.9", "2001:db8::9"])
    def test_where_they_go(self, net: Net, here: Qm, box: Box, address: str) -> None:
        sender = net.hand(address).call(here)
        for name in (here.private_name("tx"), here.name_of("tx")):  # once direct, a session stays it
            sender.send(sender.transactional(name, 1, final_ack_required=True))
            box.receive()
            net.sleep(1)
        by_number = PrivateQueueFormatNameId(4)
        by_name = DirectQueueFormatName.of(rf"TCP:{address}\PRIVATE$\order_queue$")
        names = [packet.destination_queue for _, packet in sender.arrivals]
        assert names == [by_number, by_number, by_name, by_name]
        hosts = {packet.queue_manager_address for _, packet in sender.arrivals[:2]}
        assert hosts == {sender.guid}

    @pytest.mark.conformance("MQQB-170")
    def test_a_new_session_is_made_for_them(self, net: Net, here: Qm, box: Box, sender: Hand) -> None:
        packet = sender.transactional(here.name_of("tx"), 1, final_ack_required=True)
        sender.send(packet)
        sender.hang_up()
        box.receive()
        net.settle()
        assert sender.calls == [here.guid]
        assert sender.final_acks == [(packet.id.uniquifier, MessageClass.ACK_RECEIVE)]

    def test_one_that_nobody_can_take_disturbs_nothing(self, net: Net, here: Qm, box: Box) -> None:
        packet = net.hand().transactional(here.name_of("tx"), 1, final_ack_required=True)
        router = net.hand()  # its sender is behind another, and no way leads back
        here.configure(in_routing_servers=(router.address,))
        router.call(here).send(packet)
        assert box.receive().body == b"1"
        net.sleep(60)
        waiting = Box(here, PrivateFormatName(packet.source_queue_manager, 4)).state
        assert (waiting.count, router.is_connected) == (2, True)  # and the order ack
