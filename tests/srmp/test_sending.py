"""Messages to HTTP names: requests, answers, timers. [MC-MQSRM] 3.1.7. The test plays the server."""

from collections.abc import Callable
from typing import Any

import pytest

from engine.harness import Box
from tiercel.model.codes import (
    Acknowledgements,
    ConnectionStatus,
    MessageClass,
    OutgoingQueueState,
    QueueAccess,
)
from tiercel.model.errors import (
    IllegalPropertyValueError,
    MessageTooLargeError,
    UnsupportedFormatNameOperationError,
)
from tiercel.model.format_name import FormatName
from tiercel.model.limits import MAX_PACKET_SIZE
from tiercel.srmp.actions import Dial
from tiercel.srmp.http_request import read_http_request
from tiercel.srmp.request import SrmpRequest, read_srmp
from tiercel.srmp.settings import Settings

from .test_streams import send
from .world import Net, Side

Q = "DIRECT=HTTP://there/msmq/private$/Orders"


@pytest.fixture
def side() -> Side:
    return Side(settings=Settings(http_url="http://here:8080"))


@pytest.fixture
def box(side: Side) -> Box:
    return side.box(Q)


def requests(side: Side) -> list[SrmpRequest]:
    return [read_srmp(read_http_request(data)) for data in side.sent()]


def bodies(side: Side) -> list[bytes]:
    return [b"" if each.body is None else each.body.content for each in requests(side)]


def state(box: Box) -> OutgoingQueueState:
    queue = box.state.queue
    assert hasattr(queue, "state")
    result: OutgoingQueueState = queue.state
    return result


class TestARequest:
    @pytest.mark.conformance("SRMP-001", "SRMP-149", "SRMP-150")
    @pytest.mark.parametrize(
        ("name", "host", "port", "is_tls"),
        [
            ("DIRECT=HTTP://there/msmq/private$/q", "there", 80, False),
            ("DIRECT=HTTPS://there/msmq/private$/q", "there", 443, True),
            ("DIRECT=HTTP://there:8080/msmq/q", "there", 8080, False),
            ("DIRECT=HTTPS://[2001:db8::1]:8443/msmq/q", "2001:db8::1", 8443, True),
        ],
    )
    def test_goes_to_the_host_of_the_name(
        self, side: Side, name: str, host: str, port: int, is_tls: bool
    ) -> None:
        side.box(name).send(b"1")
        dial = side.dialled()
        assert (dial.host, dial.port, dial.is_tls) == (host, port, is_tls)

    @pytest.mark.conformance("SRMP-003", "SRMP-005", "SRMP-007", "SRMP-040", "SRMP-089")
    def test_looks_as_queue_managers_write_it(self, side: Side, box: Box) -> None:
        identifier = box.send(b"one", label="first")
        side.connect()
        (request,) = requests(side)
        own = side.engine.queue_manager.identifier
        assert request.http.head.target == "/msmq/private$/orders"
        assert request.http.head.header("Host") == "there"
        assert request.envelope.path.to == "http://there/msmq/private$/Orders"
        assert request.envelope.path.id == identifier
        assert request.body is not None
        assert (request.body.content, request.body.content_id) == (b"one", f"body@{own}")

    @pytest.mark.conformance("SRMP-021")
    def test_waits_for_the_answer_to_the_one_before(self, side: Side, box: Box) -> None:
        box.send_all(b"1", b"2")
        connection = side.connect()
        assert bodies(side) == [b"1"]
        box.send(b"3")
        side.sleep(5)
        assert bodies(side) == []
        side.answer(connection)
        assert bodies(side) == [b"2"]

    @pytest.mark.conformance("SRMP-152")
    def test_of_the_highest_priority_goes_first(self, side: Side, box: Box) -> None:
        for priority in (0, 7, 3):
            box.send(b"%d" % priority, priority=priority)
        connection = side.connect()
        sent = bodies(side)
        for _ in range(2):
            side.answer(connection)
            sent += bodies(side)
        assert sent == [b"7", b"3", b"0"]

    def test_of_each_queue_has_its_own_connection(self, side: Side, box: Box) -> None:
        box.send(b"1")
        side.connect()
        side.box("DIRECT=HTTP://there/msmq/private$/other").send(b"2")
        side.connect()
        assert bodies(side) == [b"1", b"2"]


class TestAnAnswer:
    @pytest.mark.conformance("SRMP-017", "SRMP-161")
    def test_of_200_ends_the_message(self, side: Side, box: Box) -> None:
        box.send(b"1", positive_journaling=True)
        connection = side.connect()
        assert side.journal.bodies() == []
        side.answer(connection)
        assert (box.state.count, side.journal.bodies()) == (0, [b"1"])

    @pytest.mark.conformance("SRMP-018", "SRMP-162")
    def test_of_400_ends_it_for_good(self, side: Side, box: Box) -> None:
        box.send(b"1", negative_journaling=True, positive_journaling=True)
        box.send(b"2")
        connection = side.connect()
        for _ in range(2):
            side.answer(connection, 400)
        assert bodies(side) == [b"1", b"2"]
        assert (box.state.count, side.dead_letters.bodies(), side.journal.bodies()) == (0, [b"1"], [])
        assert side.discarded() == [MessageClass.NACK_BAD_DST_Q] * 2
        assert all("400 Bad Request" in line.reason for line in side.discards())

    @pytest.mark.conformance("SRMP-020")
    def test_of_another_success_is_like_200(self, side: Side, box: Box) -> None:
        box.send(b"1")
        side.answer(side.connect(), 202)
        assert box.state.count == 0

    @pytest.mark.conformance("SRMP-019", "SRMP-020", "SRMP-044", "SRMP-051", "SRMP-103")
    @pytest.mark.parametrize("status", [301, 401, 403, 404, 413, 429, 500, 503])
    def test_of_anything_else_is_tried_again_in_20_seconds(self, side: Side, box: Box, status: int) -> None:
        box.send(b"1")
        connection = side.connect()
        (first,) = side.sent()
        side.answer(connection, status)
        assert side.closed() == [connection]
        assert state(box) is OutgoingQueueState.INACTIVE
        assert f"the server answered {status}" in side.outgoing(box).reason
        side.sleep(19.9)
        assert side.actions == []
        side.sleep(0.1)
        side.answer(side.connect())
        assert side.sent() == [first], "the same id and sentAt"
        assert box.state.count == 0

    @pytest.mark.conformance("SRMP-019")
    def test_that_never_comes_is_tried_again(self, side: Side, box: Box) -> None:
        box.send(b"1")
        connection = side.connect()
        side.sleep(61)
        assert side.closed() == [connection]
        side.sleep(20)
        side.connect()
        assert bodies(side) == [b"1", b"1"]

    @pytest.mark.conformance("SRMP-019", "SRMP-024")
    def test_that_a_broken_connection_loses_is_tried_again(self, side: Side, box: Box) -> None:
        box.send(b"1")
        connection = side.connect()
        side.run(lambda: side.srmp.disconnected(connection, 104))
        side.sleep(20)
        side.connect()
        assert bodies(side) == [b"1", b"1"]

    @pytest.mark.parametrize(
        ("answer", "reason"),
        [
            (b"220 smtp.example ESMTP\r\n\r\n", "Expected HTTP/"),
            (
                b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
                "changes to a protocol",
            ),
        ],
    )
    def test_that_is_not_http_is_tried_again(self, side: Side, box: Box, answer: bytes, reason: str) -> None:
        box.send(b"1")
        connection = side.connect()
        side.run(lambda: side.srmp.received(connection, answer))
        assert side.closed() == [connection]
        assert "the answer is not HTTP" in side.outgoing(box).reason
        assert reason in side.outgoing(box).reason

    def test_that_comes_before_its_request_counts_for_nothing(self, side: Side, box: Box) -> None:
        box.send(b"one")
        box.send(b"two")
        number = side.connect()
        answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
        side.run(lambda: side.srmp.received(number, answer * 2))
        assert box.state.count == 1
        assert side.closed() == [number]

    def test_with_a_body_and_an_interim_answer_is_read(self, side: Side, box: Box) -> None:
        box.send(b"1")
        connection = side.connect()
        data = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nyes"
        for byte in data:
            side.run(lambda byte=byte: side.srmp.received(connection, bytes((byte,))))  # type: ignore[misc]
        assert box.state.count == 0

    def test_without_a_length_ends_with_the_connection(self, side: Side, box: Box) -> None:
        box.send(b"1")
        connection = side.connect()
        side.run(lambda: side.srmp.received(connection, b"HTTP/1.0 200 OK\r\n\r\nthanks"))
        side.run(lambda: side.srmp.disconnected(connection))
        assert not [each for each in side.engine.outgoing.queues() if each.count]


class TestAConnection:
    @pytest.mark.conformance("SRMP-110", "SRMP-151")
    def test_is_used_again_and_closed_when_idle(self, side: Side, box: Box) -> None:
        opened = box.open(QueueAccess.SEND)
        assert opened.is_open
        box.send(b"1")
        connection = side.connect()
        side.answer(connection)
        side.sleep(299)
        box.send(b"2")
        side.answer(connection)
        assert bodies(side) == [b"1", b"2"]
        side.sleep(299)
        assert side.closed() == []
        side.sleep(1)
        assert side.closed() == [connection]
        assert state(box) is OutgoingQueueState.DISCONNECTED
        box.send(b"3")
        side.connect()
        assert bodies(side) == [b"3"]

    def test_that_the_server_closes_as_idle_costs_no_time(self, side: Side, box: Box) -> None:
        box.send(b"1")
        connection = side.connect()
        side.answer(connection)
        box.send(b"2")
        side.run(lambda: side.srmp.disconnected(connection))
        side.answer(side.connect())
        assert bodies(side) == [b"1", b"2", b"2"]

    def test_ends_when_the_server_says_so(self, side: Side, box: Box) -> None:
        box.send_all(b"1", b"2")
        connection = side.connect()
        side.answer(connection, close=True)
        assert side.closed() == [connection]
        side.connect()
        assert bodies(side) == [b"1", b"2"]

    @pytest.mark.conformance("SRMP-024", "SRMP-101", "SRMP-151")
    def test_that_fails_keeps_the_messages(self, side: Side, box: Box) -> None:
        box.send(b"durable")
        box.send(b"express", delivery=0)
        dial = side.dialled()
        status = ConnectionStatus.CERTIFICATE_VALIDATION_FAILURE
        side.run(lambda: side.srmp.connect_failed(dial.connection, status, 0, "the certificate has expired"))
        queue = side.outgoing(box)
        assert (queue.reason, queue.connection_history[-1].status) == ("the certificate has expired", status)
        assert box.state.count == 2
        side.kill()
        side.answer(side.connect())
        assert bodies(side) == [b"durable"]

    def test_of_an_empty_queue_ends_with_the_queue(self, side: Side, box: Box) -> None:
        box.send(b"1")
        side.answer(side.connect())
        box.close()
        side.sleep(301)
        assert list(side.engine.outgoing.queues()) == []


class TestTime:
    @pytest.mark.conformance("SRMP-052", "SRMP-163")
    def test_a_message_whose_time_is_over_is_not_sent(self, side: Side, box: Box) -> None:
        box.send(b"1", time_to_reach_queue=2, negative_journaling=True)
        box.send(b"2", time_to_reach_queue=2, positive_journaling=True)
        box.send(b"3", time_to_reach_queue=20)
        dial = side.dialled()
        status = ConnectionStatus.SOCKET_CONNECT_FAILURE
        side.run(lambda: side.srmp.connect_failed(dial.connection, status))
        side.sleep(20)
        side.connect()
        assert bodies(side) == [b"3"], "equality still sends"
        assert (side.dead_letters.bodies(), side.journal.bodies()) == ([b"1"], [])


class TestPause:
    @pytest.mark.conformance("SRMP-158", "SRMP-159")
    def test_nothing_leaves_until_the_queue_is_resumed(self, side: Side, box: Box) -> None:
        box.send_all(b"1", b"2")
        connection = side.connect()
        assert bodies(side) == [b"1"]
        side.run(lambda: side.engine.outgoing.pause(box.state))
        assert (side.closed(), state(box)) == ([connection], OutgoingQueueState.ON_HOLD)
        box.send(b"3")
        side.sleep(1000)
        assert (side.actions, box.state.count) == ([], 3)
        side.run(lambda: side.engine.outgoing.resume(box.state))
        connection = side.connect()
        for _ in range(3):
            side.answer(connection)
        assert bodies(side) == [b"1", b"2", b"3"]


def sizes_that_are_taken(send_one: Callable[[bytes], object]) -> list[int]:
    """The longest body that may be sent is among them."""
    fits, too_long = MAX_PACKET_SIZE - 40_000, MAX_PACKET_SIZE
    taken = []
    while too_long - fits > 1:
        size = (fits + too_long) // 2
        try:
            send_one(bytes(size))
        except MessageTooLargeError:
            too_long = size
        else:
            taken.append(fits := size)
    return taken


class TestASendThatIsRefused:
    @pytest.mark.conformance("SRMP-023")
    @pytest.mark.parametrize(
        "more",
        [{}, {"label": "<" * 249}, {"extension": bytes(9000)}, {"response_queue": FormatName.parse(Q)}],
    )
    def test_what_fits_here_fits_there_with_its_envelope(self, more: dict[str, Any]) -> None:
        net = Net()
        here, there = net.add("here"), net.add("there")
        there.create("q")
        there.create("t", transactional=True)
        q, t = (here.to("there", name) for name in "qt")
        simple = sizes_that_are_taken(lambda body: q.send(body, **more))
        of_a_stream = sizes_that_are_taken(lambda body: send(here, t, body, **more))
        net.sleep(1)
        assert [len(each.body) for each in there.box("q").messages()] == simple
        assert [len(each.body) for each in there.box("t").messages()] == of_a_stream
        assert simple
        assert of_a_stream

    @pytest.mark.conformance("SRMP-022")
    def test_a_stream_to_https_needs_a_listener_for_its_receipts(self, side: Side) -> None:
        box = side.box("DIRECT=HTTPS://there/msmq/private$/q")
        transaction = side.begin()
        with pytest.raises(UnsupportedFormatNameOperationError, match="there is no https listener here"):
            box.send(b"1", transaction=transaction)
        box.send(b"2")
        assert box.state.count == 1

    @pytest.mark.conformance("SRMP-022")
    def test_a_stream_whose_listener_is_gone_waits(self) -> None:
        side = Side(settings=Settings(https_url="https://here"))
        box = side.box("DIRECT=HTTPS://there/msmq/private$/q")
        send(side, box, b"1")
        side.settings = Settings()
        side.kill()
        box = side.box("DIRECT=HTTPS://there/msmq/private$/q")
        side.connect()
        assert (side.sent(), box.state.count) == ([], 1)
        assert "there is no https listener here" in side.outgoing(box).reason
        assert side.outgoing(box).next_try == side.engine.seconds + 20

    @pytest.mark.conformance("SRMP-061")
    def test_receipts_need_an_http_name(self, box: Box) -> None:
        admin = FormatName.parse(r"DIRECT=OS:here\private$\admin")
        with pytest.raises(IllegalPropertyValueError, match="can only go to an HTTP name"):
            box.send(b"1", acknowledgements=Acknowledgements.POS_ARRIVAL, administration_queue=admin)
        box.send(b"2", acknowledgements=Acknowledgements.NEG_ARRIVAL, administration_queue=admin)
        assert box.state.count == 1


class TestAProxy:
    settings = Settings(http_url="http://here", proxy=("proxy", 3128))

    def test_gets_requests_in_absolute_form(self) -> None:
        side = Side(settings=self.settings)
        side.box("DIRECT=HTTP://there:8080/msmq/private$/q").send(b"1")
        dial = side.actions[0]
        assert isinstance(dial, Dial)
        assert (dial.host, dial.port, dial.is_tls, dial.tunnel) == ("proxy", 3128, False, None)
        side.connect()
        (request,) = side.sent()
        assert request.startswith(b"POST http://there:8080/msmq/private$/q HTTP/1.1\r\nHost: there:8080\r\n")
        assert Side(name="THERE").post(request) == 400, "a queue manager reads it, and has no such queue"

    def test_is_a_tunnel_for_https(self) -> None:
        side = Side(settings=self.settings)
        side.box("DIRECT=HTTPS://there/msmq/private$/q").send(b"1")
        dial = side.dialled()
        assert (dial.host, dial.port, dial.is_tls, dial.tunnel) == ("there", 443, True, ("proxy", 3128))


def test_nothing_is_dialled_after_the_end(side: Side, box: Box) -> None:
    box.send(b"1")
    side.connect()
    side.run(side.srmp.stop)
    assert not [each for each in side.actions if isinstance(each, Dial)]


@pytest.mark.conformance("SRMP-160")
def test_a_message_to_several_queues_is_one_request_each(side: Side) -> None:
    names = [f"DIRECT=HTTP://h{number}/msmq/q" for number in (1, 2)]
    side.box(",".join(names)).send(b"1")
    sent = []
    for _ in names:
        dial = next(each for each in side.actions if isinstance(each, Dial))
        side.actions.remove(dial)
        side.run(lambda dial=dial: side.srmp.connected(dial.connection, ""))  # type: ignore[misc]
    for request in requests(side):
        assert request.envelope.msmq is not None
        sent.append((request.envelope.path.to, request.envelope.msmq.destination_mqf))
    urls = ("http://h1/msmq/q", "http://h2/msmq/q")
    assert sorted(sent) == [(url, urls) for url in urls]
