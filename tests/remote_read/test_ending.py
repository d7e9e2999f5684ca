"""[MS-MQRR] 3.1.4.8 and 3.1.4.9: cancelling a read that waits, and ending one that has its message."""

import pytest

from engine.harness import ALL_ACKNOWLEDGEMENTS, Box
from tiercel.model.codes import MessageClass, QueueAccess
from tiercel.model.message import Message
from tiercel.remote_read import calls
from tiercel.remote_read.calls import RR_ACK, RR_NACK
from tiercel.rpc.ndr import NdrError
from tiercel.rpc.status import RPC_X_BAD_STUB_DATA

from .site import LOOKUP, PEEKING, PEEKING_NEXT, RECEIVING, Remote, Site, Waiting, refused

INVALID_PARAMETER = 0xC00E0006
INVALID_HANDLE = 0xC00E0007
CANCELLED = 0xC00E0008
NOT_FOUND = 0xC00E0088
STATUS_NOT_FOUND = 0xC0000225
ACKS = pytest.mark.parametrize("ack", [RR_NACK, RR_ACK])


class TestCancelReceive:
    @pytest.mark.conformance("MQRR-092")
    def test_both_calls_are_answered(self, site: Site, a: Remote, box: Box) -> None:
        wait = a.wait(request_id=5)
        a.cancel(5)
        with refused(CANCELLED):
            wait.check()
        assert wait.answered_at == site.now
        assert site.completed() == []  # nobody else has anything to do with it
        box.send(b"1")
        assert (box.bodies(), site.service.pending_count) == ([b"1"], 0)
        with refused(INVALID_HANDLE):
            a.end(5)
        assert a.take(request_id=5) == b"1"

    @pytest.mark.conformance("MQRR-093")
    def test_nothing_waits_under_the_number(self, a: Remote, box: Box) -> None:
        wait = a.wait(request_id=5)
        with refused(STATUS_NOT_FOUND):
            a.cancel(6)
        assert not wait.is_answered
        box.send(b"1")
        got = wait.got
        with refused(STATUS_NOT_FOUND):
            a.cancel(5)
        a.end(got)
        assert box.bodies() == []

    @pytest.mark.conformance("MQRR-094")
    @pytest.mark.parametrize("action", [PEEKING, PEEKING_NEXT])
    def test_peeks_too(self, a: Remote, box: Box, action: int) -> None:
        """MQRR trap 8"""
        cursor = a.cursor()
        if action == PEEKING_NEXT:
            box.send(b"1")
            a.peek(cursor=cursor)
        wait = a.wait(action, cursor=cursor, request_id=5)
        a.cancel(5)
        with refused(CANCELLED):
            wait.check()

    @pytest.mark.conformance("MQRR-095")
    def test_only_ones_own(self, site: Site, a: Remote, b: Remote, box: Box) -> None:
        same_client = a.reader.open("q")
        waits = [each.wait(request_id=1) for each in (same_client, b, a)]
        a.cancel(1)
        assert [wait.is_answered for wait in waits] == [False, False, True]
        box.send(b"1")
        assert waits[0].got.body == b"1"
        assert site.service.pending_count == 2

    def test_in_the_batch_in_which_its_message_came(self, site: Site, a: Remote, box: Box) -> None:
        """Then it is too late."""
        wait = a.wait(request_id=5)
        sending = box.open(QueueAccess.SEND)

        def both() -> Waiting:
            site.engine.sending.send(sending, Message(b"1"))
            return a.reader.submit(calls.CancelReceive(a.handle, 5))

        cancel = site.run(both)
        with refused(STATUS_NOT_FOUND):
            cancel.check()
        a.end(wait.got)
        assert box.bodies() == []


class TestEndReceive:
    @pytest.mark.conformance("MQRR-096")
    def test_acknowledged_it_is_gone_for_good(self, site: Site) -> None:
        admin, box = site.create("admin"), site.create("q", journaling=True)
        box.send(b"1", acknowledgements=ALL_ACKNOWLEDGEMENTS, administration_queue=admin.name)
        a = site.reader().open("q")
        got = a.receive()
        assert admin.classes() == [MessageClass.ACK_REACH_QUEUE]
        a.end(got)
        for _ in range(2):
            assert (box.bodies(), box.journal.bodies()) == ([], [b"1"])
            site.kill()
        assert admin.classes() == [MessageClass.ACK_RECEIVE]

    @pytest.mark.conformance("MQRR-097")
    def test_otherwise_it_is_there_again(self, a: Remote, b: Remote, box: Box) -> None:
        box.send_all(b"1", b"2")
        got = a.receive()
        a.give_back(got)
        again = b.receive()
        assert (again.body, again.lookup_id, again.abort_count) == (b"1", got.lookup_id, 1)
        b.give_back(again)
        assert box.bodies() == [b"1", b"2"]

    @pytest.mark.conformance("MQRR-041")
    def test_failed_reads_are_counted(self, a: Remote, box: Box) -> None:
        box.send(b"1")
        counts = []
        for _ in range(5):
            got = a.receive()
            counts.append(got.abort_count)
            a.give_back(got)
        assert counts == [0, 1, 2, 3, 4]

    @pytest.mark.conformance("MQRR-098")
    @pytest.mark.parametrize("ack", [0, 3])
    @pytest.mark.parametrize("kind", [calls.EndReceive, calls.EndTransactionalReceive])
    def test_there_is_no_third_way(self, a: Remote, box: Box, kind: type[calls.EndReceive], ack: int) -> None:
        box.send(b"1")
        got = a.receive()
        with pytest.raises(NdrError) as caught:
            a.reader.call(kind(a.handle, ack, got.request_id))
        assert caught.value.status == RPC_X_BAD_STUB_DATA
        a.end(got)
        assert box.bodies() == []

    @pytest.mark.conformance("MQRR-099")
    @pytest.mark.parametrize("transactional", [False, True])
    @ACKS
    def test_requests_that_are_not_there(self, a: Remote, box: Box, ack: int, transactional: bool) -> None:
        with refused(INVALID_HANDLE):
            a.end(1, ack, transactional=transactional)
        box.send(b"1")
        got = a.receive(request_id=5)
        with refused(INVALID_PARAMETER):
            a.end(6, ack, transactional=transactional)
        a.end(got)

    @ACKS
    def test_one_that_waits_has_no_end_yet(self, a: Remote, box: Box, ack: int) -> None:
        """By the words of 3.1.4.9 its entry would go, and nobody could end the read any more."""
        wait = a.wait(request_id=5)
        with refused(INVALID_PARAMETER):
            a.end(5, ack)
        box.send(b"1")
        a.end(wait.got)
        assert box.bodies() == []

    @pytest.mark.conformance("MQRR-100")
    @ACKS
    def test_only_once(self, site: Site, a: Remote, box: Box, ack: int) -> None:
        box.send(b"1")
        got = a.receive()
        a.end(got, ack)
        left = box.bodies()
        with refused(INVALID_HANDLE):
            a.end(got, ack)
        assert site.service.next_deadline is None
        site.sleep(600)
        assert box.bodies() == left

    @pytest.mark.conformance("MQRR-101")
    @ACKS
    def test_a_message_that_is_gone(self, site: Site, a: Remote, box: Box, ack: int) -> None:
        box.send(b"1")
        got = a.receive()
        state, engine = box.state, site.engine
        record = state.get(engine._core, got.lookup_id)
        assert record is not None
        site.run(lambda: engine.delivery.finish(state, got.lookup_id, record, MessageClass.NACK_Q_PURGED))
        with refused(NOT_FOUND):
            a.end(got, ack)

    @pytest.mark.conformance("MQRR-101")
    @ACKS
    def test_a_message_that_is_free(self, site: Site, a: Remote, box: Box, ack: int) -> None:
        box.send(b"1")
        got = a.receive()
        site.run(lambda: box.state.unlock(got.lookup_id))
        with refused(0xC00E0051):
            a.end(got, ack)
        assert box.bodies() == [b"1"]

    def test_a_queue_that_was_deleted(self, site: Site, a: Remote, box: Box) -> None:
        box.send(b"1")
        got, wait = a.receive(), a.wait()
        box.delete()
        with refused(0xC00E005A):
            wait.check()
        with refused(0xC00E004B):
            a.end(got)
        a.close()
        assert (site.service.handle_count, site.service.pending_count) == (0, 0)

    def test_the_time_that_ran_out_meanwhile(self, site: Site, a: Remote, box: Box) -> None:
        for ack, left in ((RR_ACK, MessageClass.ACK_RECEIVE), (RR_NACK, MessageClass.NACK_RECEIVE_TIMEOUT)):
            box.send(b"1", time_to_be_received=5)
            got = a.receive()
            site.sleep(10)
            a.end(got, ack)
            assert (site.removed(), box.state.count) == ([left], 0)


class TestPendingRequestTable:
    @pytest.mark.conformance("MQRR-131", "MQRR-132")
    @pytest.mark.parametrize("action", [RECEIVING, LOOKUP.RECEIVE_CURRENT])
    def test_after_five_minutes_of_silence_the_message_is_free(
        self, site: Site, a: Remote, b: Remote, box: Box, action: int
    ) -> None:
        box.send(b"1")
        lookup_id = a.peek().lookup_id
        got = a.start(action, lookup_id=lookup_id if action else 0).got
        assert site.service.next_deadline == site.now + 300
        site.sleep(299)
        assert box.bodies() == []
        site.sleep(1)
        again = b.receive()
        assert (again.lookup_id, again.abort_count) == (lookup_id, 1)
        with refused(INVALID_HANDLE):
            a.end(got)
        b.give_back(again)
        assert (box.bodies(), site.service.pending_count) == ([b"1"], 0)

    @pytest.mark.conformance("MQRR-131")
    def test_the_time_can_be_set(self) -> None:
        site = Site(cleanup_s=60)
        box = site.create("q")
        box.send_all(b"1", b"2")
        a = site.reader().open("q")
        a.receive()
        site.sleep(30)
        a.receive()
        site.sleep(30)
        assert box.bodies() == [b"1"]
        site.sleep(30)
        assert box.bodies() == [b"1", b"2"]

    def test_silence_is_counted_from_the_delivery(self, site: Site, a: Remote, box: Box) -> None:
        """MQRR trap 7"""
        wait = a.wait(timeout_ms=1_000_000)
        site.sleep(900)
        box.send(b"1")
        site.sleep(299)
        a.end(wait.got)
        assert box.bodies() == []

    def test_it_goes_to_one_who_waits(self, site: Site, a: Remote, b: Remote, box: Box) -> None:
        box.send(b"1")
        got, wait = a.receive(), b.wait(timeout_ms=1_000_000)
        site.sleep(300)
        assert (wait.got.lookup_id, wait.got.abort_count) == (got.lookup_id, 1)
