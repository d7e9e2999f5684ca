"""Acknowledgements that come with the next read: nobody waits for them, and one commit serves many."""

from collections.abc import Iterable

import pytest

from engine.harness import Box
from rpc.scripted import request, whole_stub
from tiercel.model.codes import DeliveryGuarantee
from tiercel.remote_read import calls
from tiercel.remote_read.actions import Reply
from tiercel.remote_read.calls import RR_ACK, RR_NACK, Received, Request
from tiercel.remote_read.packet import rebuild
from tiercel.rpc.ndr import ContextHandle
from tiercel.rpc.pdu import Pdu, Response

from .site import LOOKUP, RECEIVE, Site, queue_format
from .test_server_stub import Line, box, line, service

__all__ = ["box", "line", "service"]  # fixtures of theirs

MANY = 160
INVALID_PARAMETER = 0xC00E0006
WAITED = 0.01  # seconds; longer than any acknowledgement waits


class Consumer:
    """Reads one message after the other, and acknowledges each together with the next read."""

    def __init__(self, line: Line) -> None:
        self.line = line
        self.handle: ContextHandle = calls.QueueOpened.decode(
            whole_stub(line.ask(calls.OpenQueue(queue_format("q"), RECEIVE)))
        ).handle
        self.unanswered: dict[int, type[Request]] = {}
        self.ended = 0
        self.bodies: list[bytes] = []

    def ask(self, *requests: Request) -> None:
        pdus = []
        for each in requests:
            call_id = next(self.line.call_ids)
            self.unanswered[call_id] = type(each)
            pdus.append(request(call_id, each.encode(), each.OPNUM))
        self.take(self.line.send(*pdus))

    def take(self, answers: Iterable[Pdu]) -> None:
        for answer in answers:
            assert isinstance(answer, Response)
            kind = self.unanswered.pop(answer.call_id)
            response = kind.RESPONSE.decode(answer.stub)
            if isinstance(response, Received) and response.sections:
                self.bodies.append(rebuild(response.sections).packet.body)
            elif kind is calls.EndReceive:
                assert isinstance(response, calls.Done)
                assert response.status == 0
                self.ended += 1

    def start(self, number: int, **how: int) -> calls.StartReceive:
        return calls.StartReceive(self.handle, request_id=number, **how)

    def end(self, number: int, ack: int = RR_ACK) -> calls.EndReceive:
        return calls.EndReceive(self.handle, ack, number)

    def read(self, count: int) -> None:
        self.ask(self.start(1))
        for number in range(1, count):
            self.ask(self.end(number), self.start(number + 1))


@pytest.fixture
def consumer(line: Line) -> Consumer:
    return Consumer(line)


def test_the_next_message_does_not_wait_for_them(consumer: Consumer, box: Box) -> None:
    box.send_all(b"1", b"2", b"3")
    consumer.read(3)
    assert (consumer.bodies, consumer.ended) == ([b"1", b"2", b"3"], 0)
    assert box.bodies() == []  # nobody else gets what is being acknowledged


def test_of_many_calls_in_one_piece_each_read_gets_its_message_in_turn(consumer: Consumer, box: Box) -> None:
    box.send_all(*(b"%d" % number for number in range(12)))
    consumer.ask(*(consumer.start(number) for number in range(1, 5)))
    consumer.ask(*map(consumer.end, range(1, 5)), *map(consumer.start, range(5, 9)))
    consumer.ask(*map(consumer.end, range(5, 9)), *map(consumer.start, range(9, 13)))
    assert consumer.bodies == [b"%d" % number for number in range(12)]
    assert consumer.ended == 0  # nor did they wait for any of the acknowledgements


def test_they_are_made_durable_together(site: Site, consumer: Consumer, box: Box) -> None:
    box.send_all(*(b"%d" % number for number in range(MANY + 1)))
    consumer.read(MANY + 1)
    assert len(consumer.bodies) == MANY + 1
    assert 0 < consumer.ended < MANY
    assert box.state.count == MANY + 1 - consumer.ended
    site.sleep(WAITED)
    consumer.take(consumer.line.answers())
    assert (consumer.ended, box.state.count) == (MANY, 1)
    site.kill()
    assert box.bodies() == [b"%d" % MANY]


def test_the_next_message_leaves_before_their_commit(site: Site, consumer: Consumer, box: Box) -> None:
    box.send_all(*(b"%d" % number for number in range(MANY)))
    consumer.ask(consumer.start(1))
    number = 1
    while not consumer.ended:
        consumer.ask(consumer.end(number), consumer.start(number + 1))
        number += 1
    of_reads, of_ends = (
        [type(action.response) for action in each if isinstance(action, Reply)] for each in site.commits
    )
    assert of_reads == [Received]
    assert of_ends == [calls.Done] * consumer.ended


def test_the_clock_ends_them(site: Site, consumer: Consumer, box: Box) -> None:
    box.send_all(b"1", b"2")
    consumer.read(2)
    deadline = site.service.next_deadline
    assert deadline is not None
    assert site.now < deadline <= site.now + WAITED
    site.sleep(WAITED)
    consumer.take(consumer.line.answers())
    assert consumer.ended == 1
    assert site.service.next_deadline != deadline


def test_a_commit_that_is_due_takes_them_along(consumer: Consumer, box: Box) -> None:
    box.send_all(b"1", b"2")
    consumer.read(2)
    box.send(b"3")
    consumer.take(consumer.line.answers())
    assert consumer.ended == 1


def test_who_asks_for_nothing_more_waits_for_it(consumer: Consumer, box: Box) -> None:
    box.send_all(b"1", b"2")
    consumer.read(2)
    consumer.ask(consumer.end(2))
    assert (consumer.ended, box.state.count) == (2, 0)


def test_any_other_call_finds_them_done(consumer: Consumer, box: Box) -> None:
    box.send_all(b"1", b"2")
    consumer.read(1)
    first = next(iter(box.state.locks))
    consumer.ask(consumer.end(1), consumer.start(2, action=LOOKUP.PEEK_CURRENT, lookup_id=first))
    assert (consumer.ended, box.state.count) == (1, 1)  # and the message that was looked for is not found


def test_express_messages_need_no_commit(consumer: Consumer, box: Box) -> None:
    box.send_all(b"1", b"2", b"3", delivery=DeliveryGuarantee.EXPRESS)
    consumer.read(3)
    assert (consumer.bodies, consumer.ended) == ([b"1", b"2", b"3"], 2)


def test_what_goes_back_goes_back(site: Site, consumer: Consumer, box: Box) -> None:
    box.send_all(b"1", b"2")
    consumer.read(1)
    consumer.ask(consumer.end(1, RR_NACK), consumer.start(2))
    site.sleep(WAITED)
    consumer.take(consumer.line.answers())
    assert (consumer.ended, consumer.bodies, box.bodies()) == (1, [b"1", b"2"], [b"1"])


def test_a_reader_that_goes_has_acknowledged(consumer: Consumer, box: Box) -> None:
    box.send_all(b"1", b"2")
    consumer.read(2)
    consumer.line.lose()
    assert box.bodies() == [b"2"]  # and not the first once more


def test_one_that_is_wrong_is_told_so(consumer: Consumer, box: Box) -> None:
    box.send_all(b"1", b"2")
    consumer.read(1)
    end, start = consumer.end(9), consumer.start(2)
    answers = consumer.line.send(
        request(50, end.encode(), end.OPNUM), request(51, start.encode(), start.OPNUM)
    )
    assert [answer.call_id for answer in answers] == [50, 51]
    assert isinstance(answers[0], Response)
    assert calls.Done.decode(answers[0].stub).status == INVALID_PARAMETER


def test_only_the_first_of_two_has_a_message(site: Site, consumer: Consumer, box: Box) -> None:
    box.send_all(b"1", b"2", b"3")
    consumer.read(1)
    end, start = consumer.end(1), consumer.start(2)
    pdus = [request(number, each.encode(), each.OPNUM) for number, each in enumerate((end, end, start), 50)]
    of_read = consumer.line.send(*pdus)
    assert [answer.call_id for answer in of_read] == [52]
    site.sleep(WAITED)
    of_ends = consumer.line.answers()
    assert [answer.call_id for answer in of_ends] == [50, 51]
    statuses = [calls.Done.decode(answer.stub).status for answer in of_ends if isinstance(answer, Response)]
    assert statuses[0] == 0
    assert statuses[1] != 0
    assert box.state.count == 2
