"""Exactly once in order over HTTP, both sides: [MC-MQSRM] 3.1.5.1.8, 3.1.5.1.9, 3.1.6.2, 3.1.7.2.3."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from engine.harness import Box
from tiercel.engine.check import Checker
from tiercel.model.codes import MessageClass
from tiercel.srmp.actions import Dial
from tiercel.srmp.envelope import Decision, Envelope
from tiercel.srmp.http_request import read_http_request
from tiercel.srmp.kinds import NEGATIVE_CLASSES
from tiercel.srmp.receipts import Stamp, final_stream_receipt, stream_receipt
from tiercel.srmp.request import read_srmp, write_srmp
from tiercel.srmp.settings import Settings
from tiercel.srmp.values import StreamId

from .world import Net, Side


def send(side: Side, box: Box, *bodies: bytes, **properties: object) -> None:
    with side.transaction() as transaction:
        for body in bodies:
            box.send(body, transaction=transaction, **properties)


def envelopes(side: Side) -> list[Envelope]:
    return [read_srmp(read_http_request(data)).envelope for data in side.sent()]


def streams(side: Side) -> list[tuple[int, int | None, bool]]:
    """Number, previous and whether it starts a stream, of the requests since the last call."""
    found = [each.stream for each in envelopes(side)]
    return [(each.current, each.previous, each.start is not None) for each in found if each is not None]


class TestASenderAlone:
    """The test plays the receiver."""

    @pytest.fixture
    def side(self) -> Side:
        return Side(settings=Settings(http_url="http://here:8080"))

    @pytest.fixture
    def box(self, side: Side) -> Box:
        return side.box("DIRECT=HTTP://there/msmq/private$/tx")

    def accept(self, side: Side, connection: int, count: int = 1) -> list[Envelope]:
        """Answer the requests with 200."""
        found = []
        for _ in range(count):
            found += envelopes(side)
            side.answer(connection)
        return found + envelopes(side)

    def confirm(self, side: Side, first: Envelope, number: int, to: str | None = None) -> None:
        """A stream receipt to the URL of the first message."""
        assert first.stream is not None
        to = to or first.stream.start or ""
        stamp = Stamp(first.path.id, int(side.now))
        receipt = stream_receipt(first.stream.stream_id, number, to, first.path.to, stamp)
        assert side.post(write_srmp(receipt).encode()) == 200

    @pytest.mark.conformance("SRMP-068", "SRMP-069", "SRMP-087", "SRMP-153", "SRMP-157", "SRMP-022")
    def test_messages_have_their_place(self, side: Side, box: Box) -> None:
        transaction = side.begin()
        box.send(b"1", transaction=transaction)
        box.send(b"2", transaction=transaction)
        box.send(b"3", transaction=transaction)
        assert side.actions == []
        side.commit(transaction)
        found = self.accept(side, side.connect(), 3)
        places = [each.stream for each in found]
        own = side.engine.queue_manager.identifier
        assert [(each.current, each.previous) for each in places if each] == [(1, None), (2, 1), (3, 2)]
        assert len({each.stream_id for each in places if each}) == 1
        assert places[0] is not None
        assert places[0].stream_id.sender == own
        url = r"http://here:8080/MSMQ/PRIVATE\$/order_queue\$\?senderstream=[0-9a-f]{32}"
        assert re.fullmatch(url, places[0].start or "")
        marks = [
            (each.msmq.eod.first, each.msmq.eod.last) if each.msmq and each.msmq.eod else None
            for each in found
        ]
        assert marks == [(True, False), None, (False, True)]

    @pytest.mark.conformance("SRMP-157")
    def test_nothing_of_an_aborted_transaction_leaves(self, side: Side, box: Box) -> None:
        transaction = side.begin()
        box.send(b"1", transaction=transaction)
        side.abort(transaction)
        assert side.actions == []

    @pytest.mark.conformance("SRMP-017", "SRMP-139", "SRMP-140", "SRMP-143")
    def test_a_receipt_ends_the_messages_up_to_its_number(self, side: Side, box: Box) -> None:
        send(side, box, b"1", b"2", b"3", b"4", b"5", positive_journaling=True)
        first = self.accept(side, side.connect(), 5)[0]
        assert (box.state.count, side.journal.bodies()) == (5, [])
        self.confirm(side, first, 3)
        assert (box.state.count, side.journal.bodies()) == (2, [b"1", b"2", b"3"])

    @pytest.mark.conformance("SRMP-104", "SRMP-105", "SRMP-106")
    def test_without_receipts_all_are_sent_again_at_growing_intervals(self, side: Side, box: Box) -> None:
        send(side, box, b"1", b"2", b"3", time_to_reach_queue=345600)
        connection = side.connect()
        first = self.accept(side, connection, 3)
        times: list[float] = []
        start = side.now
        while len(times) < 11:
            deadline = side.node.seconds_to_deadline()
            assert deadline is not None
            side.sleep(max(deadline, 0.001))
            for dial in [each for each in side.actions if isinstance(each, Dial)]:
                side.actions.remove(dial)
                connection = dial.connection
                side.run(lambda: side.srmp.connected(connection, ""))  # noqa: B023
            if again := self.accept(side, connection, 3) if side.actions else []:
                side.closed()
                assert again == first
                times.append(round(side.now - start))
        table = [30, 30, 30, 300, 300, 300, 1800, 1800, 1800, 21600, 21600]
        assert times == [sum(table[: count + 1]) for count in range(11)]

    @pytest.mark.conformance("SRMP-106", "SRMP-154")
    def test_a_request_under_way_is_sent_again_after_those_before_it(self, side: Side, box: Box) -> None:
        """Else one of these would follow a message that is behind it, and such a request is malformed."""
        send(side, box, b"1", b"2", b"3", b"4")
        connection = side.connect()
        self.accept(side, connection, 2)
        side.sleep(30)
        side.answer(connection)
        assert streams(side) == [(1, None, True)]
        for _ in range(4):
            side.answer(connection)
        assert streams(side) == [(2, 1, False), (3, 2, False), (4, 3, False)]

    @pytest.mark.conformance("SRMP-104", "SRMP-106")
    def test_an_answer_that_comes_after_the_time_for_the_receipt(self, side: Side, box: Box) -> None:
        """The receipt can be lost as well: the message is sent again then."""
        send(side, box, b"1")
        connection = side.connect()
        side.sleep(40)
        side.answer(connection)
        assert streams(side) == [(1, None, True)]
        side.sleep(31)
        assert streams(side) == [(1, None, True)]

    @pytest.mark.conformance("SRMP-107")
    def test_a_receipt_brings_the_first_interval_back(self, side: Side, box: Box) -> None:
        send(side, box, b"1", b"2")
        connection = side.connect()
        first = self.accept(side, connection, 2)[0]
        for _ in range(3):
            side.sleep(30)
            self.accept(side, connection, 2)
        side.sleep(30)
        assert envelopes(side) == [], "the fourth interval is longer"
        self.confirm(side, first, 1)
        side.sleep(30)
        assert streams(side) == [(2, 1, False)]

    @pytest.mark.conformance("SRMP-147", "SRMP-156", "SRMP-097")
    def test_after_the_last_receipt_a_new_stream_begins(self, side: Side, box: Box) -> None:
        ids: list[StreamId] = []
        connection = 0
        for _ in range(3):
            send(side, box, b"1")
            connection = connection or side.connect()
            (found,) = self.accept(side, connection)
            assert found.stream is not None
            assert (found.stream.current, found.stream.start is not None) == (1, True)
            ids.append(found.stream.stream_id)
            self.confirm(side, found, 1)
        assert ids == sorted(set(ids))
        send(side, side.box("DIRECT=HTTP://there/msmq/private$/other"), b"1")
        (other,) = self.accept(side, side.connect())
        assert other.stream is not None
        assert other.stream.stream_id > ids[-1]

    @pytest.mark.conformance("SRMP-142", "SRMP-114")
    def test_a_receipt_without_evidence_changes_nothing(self, side: Side, box: Box) -> None:
        send(side, box, b"1", b"2")
        connection = side.connect()
        first = envelopes(side)[0]
        side.answer(connection)
        assert first.stream is not None
        start, stream_id = first.stream.start or "", first.stream.stream_id
        self.confirm(side, first, 3)  # never sent
        self.confirm(side, first, 1, start[:-1] + ("0" if start[-1] != "0" else "1"))
        self.confirm(side, first, 1, start.partition("?")[0])
        stamp = Stamp(first.path.id, int(side.now))
        for other in (
            stream_id._replace(sender=side.engine.new_guid()),
            stream_id._replace(sequence=stream_id.sequence._replace(ordinal=stream_id.sequence.ordinal + 1)),
        ):
            receipt = stream_receipt(other, 1, start, "http://there/msmq/private$/tx", stamp)
            assert side.post(write_srmp(receipt).encode()) == 200
        assert box.state.count == 2
        assert side.srmp.doubts == {"not_sent": 1, "other_url": 3, "unknown_sequence": 1}
        self.confirm(side, first, 1)
        assert box.state.count == 1

    def test_a_token_may_be_optional(self) -> None:
        side = Side(settings=Settings(http_url="http://here", token_required=False))
        box = side.box("DIRECT=HTTP://there/msmq/private$/tx")
        send(side, box, b"1")
        (first,) = self.accept(side, side.connect())
        self.confirm(side, first, 1, "http://here/msmq/private$/order_queue$")
        assert box.state.count == 0

    @pytest.mark.conformance("SRMP-097", "SRMP-098")
    def test_numbers_and_token_survive_a_crash(self, side: Side, box: Box) -> None:
        send(side, box, b"1", b"2")
        before = self.accept(side, side.connect(), 2)
        side.kill()
        after = self.accept(side, side.connect(), 2)
        assert after == before
        self.confirm(side, before[0], 2)
        assert box.state.count == 0

    @pytest.mark.conformance("SRMP-098", "SRMP-147")
    def test_a_receipt_that_comes_after_a_crash_counts(self, side: Side, box: Box) -> None:
        send(side, box, b"1", b"2")
        first = self.accept(side, side.connect(), 2)[0]
        side.kill()
        self.confirm(side, first, 2)
        assert box.state.count == 0

    @pytest.mark.conformance("SRMP-154")
    def test_a_message_that_ended_is_bridged(self, side: Side, box: Box) -> None:
        send(side, box, b"1")
        send(side, box, b"2", time_to_reach_queue=10)
        send(side, box, b"3")
        connection = side.connect()
        self.accept(side, connection, 3)
        side.sleep(30)
        found = self.accept(side, connection, 2)
        places = [each.stream for each in found if each.stream]
        assert [(each.current, each.previous) for each in places] == [(1, None), (3, 1)]

    @pytest.mark.conformance("SRMP-154")
    def test_a_gap_is_bridged_from_the_last_receipt(self, side: Side, box: Box) -> None:
        send(side, box, b"1")
        send(side, box, b"2", time_to_reach_queue=10)
        send(side, box, b"3")
        connection = side.connect()
        first = self.accept(side, connection, 3)[0]
        self.confirm(side, first, 1)
        side.sleep(30)
        assert streams(side) == [(3, 1, False)]

    def test_a_receipt_may_be_faster_than_the_answer(self, side: Side, box: Box) -> None:
        send(side, box, b"1")
        connection = side.connect()
        (first,) = envelopes(side)
        self.confirm(side, first, 1)
        side.answer(connection)
        assert box.state.count == 0

    @pytest.mark.conformance("SRMP-104")
    def test_receipts_are_awaited_again_after_a_failure(self, side: Side, box: Box) -> None:
        send(side, box, b"1")
        send(side, box, b"2", time_to_reach_queue=15)
        connection = side.connect()
        side.answer(connection)
        side.answer(connection, 503)
        side.sent()
        side.sleep(20)
        assert side.closed() == [connection]
        assert side.actions == [], "nothing is left without an answer"
        side.sleep(30)
        side.connect()
        assert streams(side) == [(1, None, True)]

    @pytest.mark.conformance("SRMP-154")
    def test_a_message_that_was_refused_is_bridged(self, side: Side, box: Box) -> None:
        send(side, box, b"1", b"2", b"3", negative_journaling=True)
        connection = side.connect()
        side.answer(connection)
        side.answer(connection, 400)
        assert streams(side) == [(1, None, True), (2, 1, False), (3, 1, False)]
        assert side.transactional_dead_letters.bodies() == [b"2"]

    @pytest.mark.conformance("SRMP-155")
    @pytest.mark.parametrize("how", ["expired", "refused"])
    def test_a_stream_that_lost_its_first_message_begins_anew(self, side: Side, box: Box, how: str) -> None:
        send(side, box, b"1", time_to_reach_queue=15)
        send(side, box, b"2")
        send(side, box, b"3")
        connection = side.connect()
        (first,) = envelopes(side)
        side.answer(connection, 503 if how == "expired" else 400)
        if how == "expired":
            side.sleep(20)
            connection = side.connect()
        second, third = self.accept(side, connection, 2)
        assert first.stream is not None
        assert second.stream is not None
        assert third.stream is not None
        assert (second.stream.current, second.stream.start is not None) == (1, True)
        assert (third.stream.current, third.stream.previous) == (2, 1)
        assert second.stream.stream_id == third.stream.stream_id > first.stream.stream_id
        self.confirm(side, second, 2)
        assert box.state.count == 0

    @pytest.mark.conformance("SRMP-155")
    def test_a_stream_does_not_begin_anew_if_its_first_message_was_accepted(
        self, side: Side, box: Box
    ) -> None:
        """The receiver may have both, and only receipts were lost: a new stream would double the second."""
        send(side, box, b"1", time_to_reach_queue=15)
        send(side, box, b"2")
        connection = side.connect()
        before = self.accept(side, connection, 2)
        side.sleep(30)
        (again,) = self.accept(side, connection)
        assert again.stream is not None
        assert before[1].stream is not None
        assert again.stream.stream_id == before[1].stream.stream_id
        assert (again.stream.current, again.stream.previous) == (2, 1)

    @pytest.mark.conformance("SRMP-075", "SRMP-115", "SRMP-116", "SRMP-144", "SRMP-145", "SRMP-146")
    @pytest.mark.parametrize("is_first", [True, False], ids=["before the receipt", "after the receipt"])
    @pytest.mark.parametrize("code", [MessageClass.ACK_RECEIVE, *sorted(NEGATIVE_CLASSES)])
    def test_a_final_receipt_decides(self, side: Side, box: Box, code: MessageClass, is_first: bool) -> None:
        send(side, box, b"1", b"2", negative_journaling=True, positive_journaling=True)
        found = self.accept(side, side.connect(), 2)
        assert found[0].stream is not None
        if not is_first:
            self.confirm(side, found[0], 2)
            assert (box.state.count, side.journal.bodies()) == (0, [])
        stamp = Stamp(found[0].path.id, int(side.now))
        final = final_stream_receipt(found[1], found[0].stream.start or "", code, int(side.now), stamp)
        assert final.commitment_receipt is not None
        assert side.post(write_srmp(final).encode()) == 200
        is_positive = final.commitment_receipt.decision is Decision.POSITIVE
        assert side.journal.bodies() == [b"2"] * is_positive
        assert side.transactional_dead_letters.bodies() == [b"2"] * (not is_positive)
        assert side.post(write_srmp(final).encode()) == 200, "again: it is dropped"
        assert len(side.journal.bodies() + side.transactional_dead_letters.bodies()) == 1

    @pytest.mark.conformance("SRMP-115")
    def test_a_final_receipt_that_contradicts_itself_decides_nothing(self, side: Side, box: Box) -> None:
        send(side, box, b"1", negative_journaling=True)
        (found,) = self.accept(side, side.connect())
        assert found.stream is not None
        stamp = Stamp(found.path.id, int(side.now))
        url = found.stream.start or ""
        final = final_stream_receipt(found, url, MessageClass.ACK_RECEIVE, int(side.now), stamp)
        data = write_srmp(final).encode().replace(b">positive<", b">negative<")
        assert side.post(data) == 200
        assert (box.state.count, side.transactional_dead_letters.bodies()) == (1, [])

    @pytest.mark.conformance("SRMP-141")
    def test_management_sees_how_far_it_is(self, side: Side, box: Box) -> None:
        send(side, box, b"1", b"2", b"3")
        first = self.accept(side, side.connect(), 3)[0]
        self.confirm(side, first, 2)
        info = side.outgoing(box).transfer_info
        assert (info.eod_last_ack.number, info.eod_next_seq.number) == (2, 4)
        assert (info.eod_no_ack_count, info.eod_last_ack_count, info.eod_last_ack_time) == (
            1,
            1,
            int(side.now),
        )
        assert (info.eod_first_non_ack.number, info.eod_last_non_ack.number) == (3, 3)
        assert info.eod_resend_time == int(side.now) + 30

    def test_a_final_receipt_needs_the_token(self, side: Side, box: Box) -> None:
        send(side, box, b"1", negative_journaling=True)
        (found,) = self.accept(side, side.connect())
        stamp = Stamp(found.path.id, int(side.now))
        to = "http://here/msmq/private$/order_queue$"
        final = final_stream_receipt(found, to, MessageClass.NACK_Q_PURGED, int(side.now), stamp)
        assert side.post(write_srmp(final).encode()) == 200
        assert (box.state.count, side.transactional_dead_letters.bodies()) == (1, [])

    @pytest.mark.conformance("SRMP-158", "SRMP-159")
    def test_a_paused_stream_goes_on(self, side: Side, box: Box) -> None:
        send(side, box, b"1", b"2")
        connection = side.connect()
        self.accept(side, connection)
        side.run(lambda: side.engine.outgoing.pause(box.state))
        side.sleep(1000)
        assert side.closed() == [connection]
        side.run(lambda: side.engine.outgoing.resume(box.state))
        connection = side.connect()
        side.answer(connection)
        side.sent()
        side.sleep(30)
        assert streams(side) == [(1, None, True)]


class TestTwoQueueManagers:
    @pytest.fixture
    def net(self) -> Net:
        net = Net()
        net.add("here")
        net.add("there").create("tx", transactional=True)
        return net

    def test_messages_arrive_and_are_confirmed(self, net: Net) -> None:
        here, there = net.sides["here"], net.sides["there"]
        box = here.to("there", "tx")
        send(here, box, *(b"%d" % number for number in range(50)))
        net.settle()
        assert there.box("tx").bodies() == [b"%d" % number for number in range(50)]
        net.sleep(1)
        assert box.state.count == 0

    @pytest.mark.conformance("SRMP-127")
    @pytest.mark.parametrize("crashes", [False, True])
    def test_a_stream_goes_on_in_a_new_queue_of_the_same_name(self, net: Net, crashes: bool) -> None:
        here, there = net.sides["here"], net.sides["there"]
        box = here.to("there", "tx")
        net.lose = lambda to, data: to == "here" and data.startswith(b"POST")  # the stream stays open
        for number in range(3):
            send(here, box, b"%d" % number)
            net.settle()
        assert there.box("tx").bodies() == [b"0", b"1", b"2"]
        there.box("tx").delete()
        if crashes:
            there.kill()
            net.forget("there")
        there.create("tx", transactional=True)
        net.lose = lambda _to, _data: False
        send(here, box, b"3")
        net.sleep(100)
        assert there.box("tx").bodies() == [b"3"], "the others were in the queue that was deleted"
        assert box.state.count == 0
        assert there.run(there.engine.arrivals.streams.all)
        send(here, box, b"4")
        net.sleep(100)
        assert there.box("tx").bodies() == [b"3", b"4"]

    def test_a_deleted_queue_leaves_no_stream_to_see_and_none_to_complain_of(self, net: Net) -> None:
        here, there = net.sides["here"], net.sides["there"]
        send(here, here.to("there", "tx"), b"1")
        net.settle()
        there.box("tx").delete()
        there.restart()
        assert there.run(there.engine.arrivals.streams.all) == []
        with there.store.snapshot() as view:
            assert list(Checker(view).problems()) == []

    @pytest.mark.conformance("SRMP-024", "SRMP-130")
    def test_lost_answers_and_receipts_double_nothing(self, net: Net) -> None:
        here, there = net.sides["here"], net.sides["there"]
        box = here.to("there", "tx")
        count = 0

        def lose(_to: str, _data: bytes) -> bool:
            nonlocal count
            count += 1
            return count % 3 == 0

        net.lose = lose
        send(here, box, *(b"%d" % number for number in range(20)))
        net.sleep(2000, 5)
        net.lose = lambda _to, _data: False
        net.sleep(4000, 5)
        assert there.box("tx").bodies() == [b"%d" % number for number in range(20)]
        assert box.state.count == 0

    @pytest.mark.conformance("SRMP-098", "SRMP-099")
    def test_crashes_lose_and_double_nothing(self, net: Net) -> None:
        here, there = net.sides["here"], net.sides["there"]
        box = here.to("there", "tx")
        for number in range(12):
            send(here, box, b"%d" % number)
            for _ in range(number):
                net._step()
            name = ("here", "there")[number % 2]
            net.sides[name].kill()
            net.forget(name)
        net.sleep(4000, 5)
        assert there.box("tx").bodies() == [b"%d" % number for number in range(12)]
        assert box.state.count == 0

    @pytest.mark.conformance("SRMP-145", "SRMP-166")
    def test_a_message_that_is_purged_there_is_a_dead_letter_here(self, net: Net) -> None:
        here, there = net.sides["here"], net.sides["there"]
        send(here, here.to("there", "tx"), b"1", b"2", negative_journaling=True)
        net.sleep(1)
        there.box("tx").receive()
        there.box("tx").purge()
        net.sleep(1)
        assert here.transactional_dead_letters.bodies() == [b"2"]
        assert here.engine.outgoing.stream(here.to("there", "tx").state).unread == 0

    def test_a_queue_manager_can_send_to_itself(self, net: Net) -> None:
        here = net.sides["here"]
        here.create("own", transactional=True)
        box = here.to("here", "own")
        send(here, box, b"1", b"2", negative_journaling=True, positive_journaling=True)
        net.sleep(1)
        here.box("own").receive()
        here.box("own").purge()
        net.sleep(1)
        assert (here.journal.bodies(), here.transactional_dead_letters.bodies()) == ([b"1"], [b"2"])

    @pytest.mark.conformance("SRMP-148")
    def test_administration_queues_get_the_receipts(self, net: Net) -> None:
        here, there = net.sides["here"], net.sides["there"]
        here.create("admin")
        there.create("q")
        admin = here.to("here", "admin").name
        identifier = here.to("there", "q").send(b"1", administration_queue=admin, acknowledgements=0x7)
        net.settle()
        there.box("q").receive()
        net.settle()
        found = here.box("admin").messages()
        assert [each.message_class for each in found] == [
            MessageClass.ACK_REACH_QUEUE,
            MessageClass.ACK_RECEIVE,
        ]
        expected = identifier.lineage.bytes_le + identifier.uniquifier.to_bytes(4, "little")
        assert {each.correlation_id for each in found} == {expected}


class TestAcknowledgementsOfMessagesThatCameAnotherWay:
    """Here they were sent on the computer of their queue, and their administration queue has an HTTP name."""

    @pytest.fixture
    def net(self) -> Net:
        net = Net()
        net.add("here").create("admin")
        net.add("there").create("q")
        return net

    def send(self, net: Net, queue: str = "q", **properties: Any) -> bytes:
        admin = net.sides["here"].to("here", "admin").name
        identifier = (
            net.sides["there"]
            .box(queue)
            .send(b"1", administration_queue=admin, acknowledgements=0xF, **properties)
        )
        net.settle()
        return identifier.lineage.bytes_le + identifier.uniquifier.to_bytes(4, "little")

    @pytest.mark.conformance("SRMP-113")
    @pytest.mark.parametrize(
        ("end", "code"),
        [
            (lambda box: box.receive(), MessageClass.ACK_RECEIVE),
            (lambda box: box.purge(), MessageClass.NACK_Q_PURGED),
            (lambda box: box.delete(), MessageClass.NACK_Q_DELETED),
        ],
        ids=["received", "purged", "deleted"],
    )
    def test_are_receipts(self, net: Net, end: Callable[[Box], object], code: MessageClass) -> None:
        correlation = self.send(net)
        end(net.sides["there"].box("q"))
        net.settle()
        found = net.sides["here"].box("admin").messages()
        assert [each.message_class for each in found] == [MessageClass.ACK_REACH_QUEUE, code]
        assert {each.correlation_id for each in found} == {correlation}
        assert not net.sides["here"].srmp.dropped

    @pytest.mark.conformance("SRMP-061", "SRMP-117")
    def test_that_srmp_does_not_have_leave_a_line_and_nothing_else(self, net: Net) -> None:
        """Receivers must ignore negative arrival acknowledgements, so none is sent."""
        there = net.sides["there"]
        self.send(net, "DIRECT=HTTP://nowhere/msmq/private$/q", time_to_reach_queue=5)
        there.sleep(10)
        net.settle()
        assert net.requests == []
        assert any(
            "the acknowledgement cannot be sent: SRMP has no" in each.reason for each in there.discards()
        )
        assert not [each for each in there.engine.outgoing.queues() if each.is_for_acknowledgements]


@pytest.mark.conformance("SRMP-155")
def test_a_stream_goes_on_after_its_first_message_expired_while_the_clocks_differed() -> None:
    """A receiver whose clock is days behind does not believe in the stream, and takes nothing of it."""
    net = Net()
    here, there = net.add("here"), net.add("there")
    there.create("tx", transactional=True)
    there.now -= 700_000
    there.kill()  # a queue manager takes a clock that goes back for true when it starts
    box = here.to("there", "tx")
    send(here, box, b"1", time_to_reach_queue=10)
    send(here, box, b"2")
    net.sleep(60, 1)
    assert there.box("tx").bodies() == []
    there.now += 700_000
    net.sleep(60, 1)
    assert there.box("tx").bodies() == [b"2"]
    assert box.state.count == 0
