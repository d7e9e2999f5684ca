"""[MS-MQRR] 3.1.6: readers that vanish. Nothing is lost, and nothing is kept by two.

A reader may go at any step, with an answer on its way or without, in a batch of its own or together with
others; the queue manager may be killed at any time.
"""

import pytest

from engine.harness import Box
from tiercel.model.codes import LookupAction, QueueAccess
from tiercel.model.message import Message
from tiercel.remote_read import calls

from .site import PEEKING, RECEIVE, Remote, Site, refused


class TestRundown:
    @pytest.mark.conformance("MQRR-133")
    def test_cursors_and_the_queue_are_closed(self, site: Site) -> None:
        site.create("q")
        a = site.reader().open("q", RECEIVE, 1)
        a.cursor()
        a.reader.vanish()
        assert site.service.handle_count == 0
        assert not site.box("q").state.handles
        site.reader().open("q", RECEIVE, 1)

    @pytest.mark.conformance("MQRR-134")
    def test_what_was_handed_out_is_there_again(self, site: Site, a: Remote, b: Remote, box: Box) -> None:
        box.send_all(b"1", b"2", b"3")
        first, second = a.receive(), a.lookup(LookupAction.RECEIVE_NEXT, a.peek().lookup_id)
        a.reader.vanish()
        again = [b.receive(), b.receive(), b.receive()]
        assert [got.body for got in again] == [b"1", b"2", b"3"]
        assert [got.abort_count for got in again] == [1, 0, 1]
        assert [again[0].lookup_id, again[2].lookup_id] == [first.lookup_id, second.lookup_id]
        assert (site.service.handle_count, site.service.pending_count) == (1, 3)
        assert not site.waiting

    @pytest.mark.conformance("MQRR-135")
    @pytest.mark.parametrize("how", ["rundown", "orphan"])
    def test_who_is_gone_takes_nothing(self, site: Site, a: Remote, b: Remote, box: Box, how: str) -> None:
        wait = a.wait()
        if how == "rundown":
            a.reader.vanish()
        else:
            site.run(lambda: site.service.abandon(wait.id))
            assert not wait.is_answered
        box.send(b"1")
        got = b.receive()
        assert (got.body, got.abort_count) == (b"1", 0)
        assert site.service.pending_count == 1

    def test_one_connection_of_several_takes_only_its_calls_with_it(
        self, site: Site, a: Remote, box: Box
    ) -> None:
        """MQRR trap 28"""
        box.send(b"1")
        got, waits = a.receive(), [a.wait(), a.wait()]
        site.run(lambda: site.service.abandon(waits[0].id))
        assert box.bodies() == []
        box.send(b"2")
        a.end(got)
        a.end(waits[1].got)
        assert (waits[0].is_answered, box.bodies()) == (False, [])

    @pytest.mark.conformance("MQRR-147")
    def test_a_close_without_any_preparation(self, site: Site, a: Remote, b: Remote, box: Box) -> None:
        box.send(b"1")
        a.receive()
        cursor = a.cursor()
        waits = [a.wait(cursor=cursor), a.wait(), a.wait(PEEKING)]
        a.close()
        for wait in waits:
            with refused(0xC00E0008):
                wait.check()
        assert (b.take(), site.service.pending_count) == (b"1", 0)

    @pytest.mark.parametrize("end", ["close", "vanish", "abandon"])
    @pytest.mark.parametrize("in_transaction", [False, True])
    def test_in_the_batch_in_which_its_message_came(self, end: str, in_transaction: bool) -> None:
        site = Site(has_coordinator=True)
        box = site.create("q", transactional=in_transaction)
        a, b = site.reader().open("q"), site.reader().open("q")
        transaction = None
        if in_transaction:
            transaction = site.begin().id
            site.service._enlisted.add(transaction)
        wait = a.wait(transaction=transaction)
        sending = box.open(QueueAccess.SEND)
        inner = site.begin() if in_transaction else None

        def both() -> None:
            site.engine.sending.send(sending, Message(b"1"), inner)
            if inner is not None:
                site.engine.transactions.commit(inner.id)
            match end:
                case "close":
                    a.reader.submit(calls.CloseQueue(a.handle))
                case "vanish":
                    a.reader.leave()
                case "abandon":
                    site.service.abandon(wait.id)

        site.run(both)
        if end == "abandon":
            assert not wait.is_answered
        else:
            with refused(0xC00E0008):
                wait.check()
        got = b.receive()
        assert (got.body, got.abort_count, site.service.pending_count) == (b"1", 1, 1)


STEPS = ["open", "cursor", "wait", "message", "answered", "ended"]


class TestAClientThatVanishesAtEachStep:
    @pytest.mark.parametrize("crash", [False, True], ids=["vanishes", "and the server is killed"])
    @pytest.mark.parametrize("waits", [False, True], ids=["found", "waits"])
    @pytest.mark.parametrize("last", STEPS)
    def test_nothing_is_lost_and_nothing_is_had_twice(
        self, site: Site, box: Box, last: str, waits: bool, crash: bool
    ) -> None:
        done = STEPS[: STEPS.index(last) + 1]
        a = site.reader().open("q")
        if not waits:
            box.send(b"1")
        if "cursor" in done:
            a.cursor()
        wait = a.start(timeout_ms=1000) if "wait" in done else None
        if waits and "message" in done:
            box.send(b"1")
        is_had = False
        if "ended" in done:
            assert wait is not None
            a.end(wait.got)
            is_had = True
        a.reader.vanish()
        if crash:
            site.kill()
        if waits and "message" not in done:
            box.send(b"1")
        b = site.reader().open("q")
        if is_had:
            with refused(0xC00E001B):
                b.receive()
        else:
            assert b.take() == b"1"
        assert box.state.count == 0
