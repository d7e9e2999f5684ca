"""Requests that arrive: their answers, and what becomes of their messages. [MC-MQSRM] 3.1.5.1."""

from unittest.mock import patch
from uuid import UUID

import pytest

from tiercel.model.codes import MessageClass
from tiercel.security.descriptor import SecurityDescriptor
from tiercel.srmp.http_request import HttpRequest, RequestHead
from tiercel.srmp.message import read_message
from tiercel.srmp.redirections import Redirection, Redirections
from tiercel.srmp.request import write_srmp
from tiercel.srmp.settings import Settings

from .test_bad_input import MUTANTS, with_envelope
from .vectors import BAD, changed, load, read
from .world import Side

OK, BAD_REQUEST, ERROR = 200, 400, 500


@pytest.fixture
def side() -> Side:
    side = Side(name="MACHINE2")
    side.create("simpleq")
    side.create("tsimpleq", transactional=True)
    return side


def envelope(data: bytes) -> bytes:
    """A request with this envelope and no body."""
    head = RequestHead("POST", "/msmq/private$/q", (("Content-Type", "text/xml"),))
    request = HttpRequest(head, data)
    headers = (*head.headers, ("Content-Length", f"{len(data)}"))
    return request._replace(head=head._replace(headers=headers)).encode()


def state(side: Side) -> tuple[int, int, int]:
    """What a request may leave behind: messages, remembered ids, streams."""
    boxes = [side.box("simpleq"), side.box("tsimpleq")]
    return (
        sum(box.state.count for box in boxes),
        len(side.engine.arrivals.history),
        len(side.run(side.engine.arrivals.streams.all)),
    )


class TestAMessageThatIsTaken:
    @pytest.mark.conformance("SRMP-013", "SRMP-112", "SRMP-124")
    def test_is_in_its_queue_with_its_properties(self, side: Side) -> None:
        assert side.post(load("02_msmq_element")) == OK
        message = side.box("simpleq").receive()
        expected = read_message(read("02_msmq_element"), int(side.now))
        names = ("label", "body", "priority", "correlation_id", "response_queue", "message_class", "id")
        for name in (*names, "sent_time", "arrival_time", "time_to_reach_queue", "soap_envelope"):
            assert getattr(message, name) == getattr(expected, name), name
        assert message.soap_compound_message == load("02_msmq_element")

    @pytest.mark.conformance("SRMP-013", "SRMP-056")
    def test_is_answered_after_the_commit(self, side: Side) -> None:
        """Nothing is written while the batch is open."""
        connection = side.run(lambda: side.srmp.accepted("192.0.2.7"))
        side.node.begin()
        side.srmp.received(connection, load("02_msmq_element"))
        side.srmp.flush()
        assert side.actions == []
        side.node.commit()
        assert [data.partition(b"\r\n")[0] for data in side.sent()] == [b"HTTP/1.1 200 OK"]

    def test_needs_no_transaction_of_the_store_if_it_is_express(self, side: Side) -> None:
        assert side.post(load("02_msmq_element")) == OK  # counters are reserved in blocks
        with patch.object(side.store, "begin", side_effect=side.store.begin) as begin:
            assert side.post(load("02_msmq_element").replace(b"uuid:20503@", b"uuid:20504@")) == OK
        assert side.box("simpleq").state.count == 2
        assert begin.call_count == 0

    @pytest.mark.conformance("SRMP-004", "SRMP-138")
    @pytest.mark.parametrize(
        "to",
        ["private$/simpleq", "PRIVATE$/SIMPLEQ", "private%24/simpleq", "private$/simpleq?senderstream=x"],
    )
    def test_is_found_by_every_spelling_of_its_queue(self, side: Side, to: str) -> None:
        assert side.post(envelope(changed("02_msmq_element", "private$/simpleQ", to))) == OK
        assert side.box("simpleq").state.count == 1

    @pytest.mark.conformance("SRMP-053")
    def test_may_be_late(self, side: Side) -> None:
        assert side.post(load("01_simple")) == OK
        assert side.box("simpleq").state.count == 1

    @pytest.mark.conformance("SRMP-053")
    def test_may_not_be_late_in_strict_mode(self) -> None:
        side = Side(name="MACHINE2", settings=Settings(drop_expired=True))
        side.create("simpleq")
        assert side.post(load("01_simple")) == OK
        assert side.box("simpleq").state.count == 0
        assert [line.reason for line in side.discards()] == ["dropped: it arrived after its time"]

    @pytest.mark.conformance("SRMP-055", "SRMP-101")
    def test_survives_if_it_is_durable(self, side: Side) -> None:
        side.post(load("01_simple"), load("04a_stream_msg1"))
        side.kill()
        assert (side.box("simpleq").state.count, side.box("tsimpleq").bodies()) == (0, [b"First Message"])


class TestAMessageThatCameBefore:
    @pytest.mark.conformance("SRMP-118")
    def test_is_dropped_and_answered_alike(self, side: Side) -> None:
        assert [side.post(load("02_msmq_element")) for _ in range(2)] == [OK, OK]
        assert side.box("simpleq").state.count == 1

    @pytest.mark.conformance("SRMP-118")
    def test_is_recognised_though_a_proxy_changed_the_head(self, side: Side) -> None:
        side.post(load("02_msmq_element"))
        side.post(load("02_msmq_element").replace(b"\r\n", b"\r\nX-Forwarded-For: 192.0.2.3\r\n", 1))
        assert side.box("simpleq").state.count == 1

    @pytest.mark.conformance("SRMP-100", "SRMP-118", "SRMP-120")
    def test_is_recognised_after_a_crash(self, side: Side) -> None:
        durable = changed("02_msmq_element", "</properties>", "</properties><services><durable/></services>")
        side.post(envelope(durable))
        side.kill()
        assert side.post(envelope(durable)) == OK
        assert side.box("simpleq").state.count == 1

    @pytest.mark.conformance("SRMP-100")
    def test_is_forgotten_in_time(self, side: Side) -> None:
        side.post(load("02_msmq_element"))
        side.sleep(1799)
        assert len(side.engine.arrivals.history) == 1
        side.sleep(1)
        side.sleep(1801)
        assert len(side.engine.arrivals.history) == 0

    @pytest.mark.conformance("SRMP-118")
    def test_is_taken_again_without_an_id_of_its_own(self, side: Side) -> None:
        side.post(load("01_simple"))
        side.post(load("01_simple"))
        assert side.box("simpleq").state.count == 2


class TestABadRequest:
    @pytest.mark.conformance("SRMP-014", "SRMP-111")
    @pytest.mark.parametrize("name", BAD)
    def test_of_the_vectors_leaves_nothing_behind(self, side: Side, name: str) -> None:
        assert side.post(load(name)) == BAD_REQUEST
        assert state(side) == (0, 0, 0)

    @pytest.mark.conformance("SRMP-014", "SRMP-034", "SRMP-111")
    @pytest.mark.parametrize(
        ("name", "old", "new"), MUTANTS, ids=[f"{new[:30]} for {old[:30]}" for _, old, new in MUTANTS]
    )
    def test_with_one_fault_leaves_nothing_behind(self, side: Side, name: str, old: str, new: str) -> None:
        assert side.post(with_envelope(name, changed(name, old, new)).encode()) == BAD_REQUEST
        assert state(side) == (0, 0, 0)


class TestADestination:
    @pytest.mark.conformance("SRMP-015")
    @pytest.mark.parametrize(
        ("name", "old", "new"),
        [
            ("02_msmq_element", "simpleQ", "nowhere"),
            ("02_msmq_element", "//machine2", "//elsewhere"),
            ("02_msmq_element", "simpleQ", "tsimpleq"),
            ("04a_stream_msg1", "tsimpleq", "simpleq"),
            ("02_msmq_element", "simpleQ", "order_queue$"),
        ],
        ids=["unknown", "foreign", "plain to transactional", "stream to plain", "order queue"],
    )
    def test_that_cannot_take_the_message_is_refused(self, side: Side, name: str, old: str, new: str) -> None:
        assert side.post(envelope(changed(name, old, new))) == BAD_REQUEST
        assert state(side) == (0, 0, 0)

    @pytest.mark.conformance("SRMP-169", "SRMP-175")
    @pytest.mark.parametrize(
        ("host", "status"),
        [
            ("machine2", OK),
            ("MACHINE2", OK),
            ("machine2.", OK),
            ("public.example.", OK),
            ("machine2..", BAD_REQUEST),
            ("Büro.example", OK),
            ("machine2.example.test", OK),
            ("localhost", OK),
            ("127.0.0.1", OK),
            ("[::1]:8080", OK),
            ("192.0.2.1", OK),
            ("public.example", OK),
            ("192.0.2.99", BAD_REQUEST),
            ("machine22", BAD_REQUEST),
        ],
    )
    def test_is_local_by_name_alias_or_address(self, host: str, status: int) -> None:
        side = Side(name="MACHINE2", settings=Settings(aliases=("Public.example", "xn--bro-hoa.example")))
        side.create("simpleq")
        assert side.post(envelope(changed("02_msmq_element", "//machine2", f"//{host}"))) == status


class TestAMessageThatIsNotKept:
    @pytest.mark.conformance("SRMP-123")
    def test_is_answered_with_200_if_the_sender_has_no_access(self, side: Side) -> None:
        side.box("simpleq").set(security=SecurityDescriptor.parse("O:SYG:SYD:(A;;GA;;;SY)").encode())
        assert side.post(load("02_msmq_element")) == OK
        assert state(side) == (0, 0, 0)
        assert side.discarded() == [MessageClass.NACK_ACCESS_DENIED]
        assert [event.event for event in side.events] == ["dropped"]
        assert side.srmp.dropped == {"refused": 1}

    def test_counts_as_of_nobody_also_if_it_claims_to_be_ours(self, side: Side) -> None:
        side.box("simpleq").set(security=SecurityDescriptor.parse("O:SYG:SYD:(A;;GA;;;SY)").encode())
        source, own = (
            "<SourceQmGuid>caf195ea-615c-4264-ae08-11a4e60194c0",
            side.engine.queue_manager.identifier,
        )
        assert side.post(envelope(changed("02_msmq_element", source, f"<SourceQmGuid>{own}"))) == OK
        assert state(side) == (0, 0, 0)
        assert side.discarded() == [MessageClass.NACK_ACCESS_DENIED]

    @pytest.mark.conformance("SRMP-117")
    def test_is_answered_with_200_if_its_kind_is_unknown(self, side: Side) -> None:
        assert side.post(envelope(changed("02_msmq_element", "<Class>0<", "<Class>1<"))) == OK
        assert state(side) == (0, 0, 0)
        assert [line.reason for line in side.discards()] == ["dropped: its kind is unknown"]

    @pytest.mark.conformance("SRMP-117")
    def test_is_kept_if_its_class_is_of_an_application(self, side: Side) -> None:
        assert side.post(envelope(changed("02_msmq_element", "<Class>0<", "<Class>256<"))) == OK
        assert side.box("simpleq").receive().message_class == 0x100


class TestAReceiptForAnApplication:
    @pytest.mark.conformance("SRMP-075", "SRMP-078", "SRMP-113", "SRMP-148")
    @pytest.mark.parametrize(
        ("name", "message_class"),
        [
            ("03c_delivery_receipt", MessageClass.ACK_REACH_QUEUE),
            ("03e_commitment_receipt", MessageClass.ACK_RECEIVE),
        ],
    )
    def test_comes_into_its_administration_queue(self, name: str, message_class: MessageClass) -> None:
        side = Side(name="MACHINE1")
        side.create("receipts")
        assert [side.post(load(name)) for _ in range(2)] == [OK, OK]
        (message,) = side.box("receipts").messages()
        assert (message.message_class, message.correlation_id) == (message_class, bytes(16) + b"\1\0\0\0")

    @pytest.mark.conformance("SRMP-113")
    @pytest.mark.parametrize("name", ["03c_delivery_receipt", "03e_commitment_receipt"])
    def test_of_another_class_is_ignored(self, name: str) -> None:
        side = Side(name="MACHINE1")
        side.create("receipts")
        old = "<Class>2<" if "delivery" in name else "<Class>16384<"
        assert side.post(envelope(changed(name, old, "<Class>0<"))) == OK
        assert side.box("receipts").state.count == 0


class TestNoRoom:
    @pytest.mark.conformance("SRMP-016")
    def test_in_the_queue_keeps_the_message_with_its_sender(self, side: Side) -> None:
        side.box("simpleq").set(quota_kib=0)
        assert side.post(load("02_msmq_element")) == ERROR
        assert state(side) == (0, 0, 0)
        side.box("simpleq").set(quota_kib=100)
        assert side.post(load("02_msmq_element")) == OK
        assert side.box("simpleq").state.count == 1

    @pytest.mark.conformance("SRMP-016")
    def test_in_the_queue_manager_keeps_the_message_with_its_sender(self, side: Side) -> None:
        side.set(queue_manager_quota_kib=0)
        assert side.post(load("04a_stream_msg1")) == ERROR
        assert side.box("tsimpleq").state.count == 0
        side.set(queue_manager_quota_kib=1000)
        assert side.post(load("04a_stream_msg1")) == OK
        assert side.box("tsimpleq").state.count == 1


class TestADestinationThatWasFoundBefore:
    @pytest.fixture(autouse=True)
    def before(self, side: Side) -> None:
        assert side.post(load("02_msmq_element")) == OK

    def test_is_unknown_when_its_queue_is_deleted(self, side: Side) -> None:
        side.box("simpleq").delete()
        assert side.post(load("02_msmq_element")) == BAD_REQUEST

    def test_is_the_new_queue_of_that_name(self, side: Side) -> None:
        side.box("simpleq").delete()
        side.create("simpleq", transactional=True)
        assert side.post(load("02_msmq_element")) == BAD_REQUEST, "the new one takes streams only"

    def test_is_redirected_from_now_on(self, side: Side) -> None:
        side.create("real")
        inbound = (Redirection("http://machine2/*", "http://machine2/msmq/private$/real"),)
        side.run(lambda: side.srmp.redirections.change(Redirections(inbound=inbound)))
        assert side.post(load("02_msmq_element").replace(b"uuid:20503@", b"uuid:20504@")) == OK
        assert side.box("real").state.count == 1

    def test_spellings_do_not_fill_memory(self, side: Side) -> None:
        for number in range(300):
            data = changed("02_msmq_element", "/simpleQ</to>", f"/simpleQ?{number}</to>")
            assert side.post(with_envelope("02_msmq_element", data).encode()) == OK
        assert len(side.srmp._receiver._destinations._found) <= 256

    def test_is_foreign_without_its_alias(self, side: Side) -> None:
        data = changed("02_msmq_element", "//machine2/", "//alias.example/")
        request = with_envelope("02_msmq_element", data).encode()
        side.run(lambda: side.srmp.change_settings(Settings(aliases=("alias.example",))))
        assert side.post(request) == OK
        side.run(lambda: side.srmp.change_settings(Settings()))
        assert side.post(request) == BAD_REQUEST


@pytest.mark.conformance("SRMP-196")
def test_a_hardened_queue_manager_takes_messages_over_http(side: Side) -> None:
    side.set(hardened_security=True)
    side.restart()
    assert side.post(load("02_msmq_element")) == OK
    assert side.box("simpleq").state.count == 1


def test_only_peers_are_heard() -> None:
    class Closed(Side):
        @staticmethod
        def is_welcome(address: str) -> bool:
            return address == "192.0.2.8"

    side = Closed(name="MACHINE2")
    side.create("simpleq")
    assert side.post(load("02_msmq_element")) == 403
    assert side.box("simpleq").state.count == 0


def with_body(body: bytes) -> bytes:
    request = read("02_msmq_element")
    return write_srmp(request.envelope, body, content_guid=request.envelope.path.id.lineage).encode()


def test_a_pinned_sender_is_heard_from_its_own_address_only() -> None:
    sender = read("02_msmq_element").envelope.path.id.lineage

    class Pinned(Side):
        @staticmethod
        def refusal(senders: set[UUID], address: str) -> str:
            return "pinned" if sender in senders and address != "192.0.2.8" else ""

    side = Pinned(name="MACHINE2", settings=Settings(trusted_proxies=("192.0.2.7",)))
    side.create("simpleq")
    data = load("02_msmq_element")
    assert side.post(data) == 403
    assert side.post(data.replace(b"Host:", b"X-Forwarded-For: 192.0.2.8, 192.0.2.9\r\nHost:", 1)) == 403
    assert side.box("simpleq").state.count == 0
    assert side.post(data.replace(b"Host:", b"X-Forwarded-For: 192.0.2.9, 192.0.2.8\r\nHost:", 1)) == OK
    assert side.box("simpleq").state.count == 1


class TestHttp:
    @pytest.mark.parametrize(
        ("request_", "status"),
        [
            (b"GET /msmq/private$/q HTTP/1.1\r\nHost: h\r\n\r\n", 405),
            (b"POST /else HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n", 404),
            (b"POST /msmq/private$/q HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n", 400),
            (b"POST /msmq/q HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
            (b"POST /msmq/q HTTP/1.1\r\nContent-Length: 0\r\nContent-Encoding: gzip\r\n\r\n", 415),
            (b"POST /msmq/q HTTP/1.1\r\nContent-Length: 0\r\nContent-Encoding: Identity\r\n\r\n", 400),
            (b"nonsense\r\n\r\n", 400),
        ],
    )
    def test_other_requests_get_the_usual_answers(self, side: Side, request_: bytes, status: int) -> None:
        assert side.post(request_) == status

    def test_the_answer_to_head_has_no_body(self, side: Side) -> None:
        """Else a client that goes on takes it for the next response."""
        connection = side.run(lambda: side.srmp.accepted("192.0.2.7"))
        head = b"HEAD /msmq/private$/simpleq HTTP/1.1\r\nHost: machine2\r\n"
        for data in (head + b"\r\n" + load("02_msmq_element"), head + b"Expect: 100-continue\r\n\r\n"):
            side.run(lambda data=data: side.srmp.received(connection, data))  # type: ignore[misc]
        answers = b"".join(side.sent()).split(b"\r\n\r\n")
        assert [answer[:12] for answer in answers] == [b"HTTP/1.1 405", b"HTTP/1.1 200", b"HTTP/1.1 405", b""]
        assert b"Content-Length: 21\r\n" in answers[0]
        assert b"Allow: POST" in answers[0]

    def test_a_chunked_request_is_taken(self, side: Side) -> None:
        head, _, body = load("02_msmq_element").partition(b"\r\n\r\n")
        lines = [line for line in head.split(b"\r\n") if not line.startswith(b"Content-Length")]
        chunks = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
        assert side.post(b"\r\n".join([*lines, b"Transfer-Encoding: chunked", b"", chunks])) == OK

    def test_a_client_that_waits_is_told_to_go_on(self, side: Side) -> None:
        head, _, body = load("02_msmq_element").partition(b"\r\n\r\n")
        connection = side.run(lambda: side.srmp.accepted("192.0.2.7"))
        side.run(lambda: side.srmp.received(connection, head + b"\r\nExpect: 100-continue\r\n\r\n"))
        assert side.sent() == [b"HTTP/1.1 100 Continue\r\n\r\n"]
        side.run(lambda: side.srmp.received(connection, body))
        assert [data[:12] for data in side.sent()] == [b"HTTP/1.1 200"]

    def test_an_old_client_gets_one_answer_and_the_end(self, side: Side) -> None:
        connection = side.run(lambda: side.srmp.accepted("192.0.2.7"))
        data = load("02_msmq_element").replace(b"HTTP/1.1", b"HTTP/1.0", 1)
        side.run(lambda: side.srmp.received(connection, data))
        assert b"Connection: close" in side.sent()[0]
        assert side.closed() == [connection]

    def test_half_requests_have_a_bound(self) -> None:
        side = Side(name="MACHINE2", settings=Settings(partial_request_bytes=250_000))
        side.create("simpleq")
        data = with_body(bytes(100_000))
        connections = [side.run(lambda: side.srmp.accepted("192.0.2.7")) for _ in range(3)]
        for connection in connections:
            side.run(lambda connection=connection: side.srmp.received(connection, data[:-1]))  # type: ignore[misc]
        assert [answer[:12] for answer in side.sent()] == [b"HTTP/1.1 503"]
        assert side.closed() == connections[:1], "the one that is incomplete for the longest time"
        for connection in connections[1:]:
            side.run(lambda connection=connection: side.srmp.received(connection, data[-1:]))  # type: ignore[misc]
        assert [answer[:12] for answer in side.sent()] == [b"HTTP/1.1 200"] * 2
        assert side.srmp._context.partial_requests._total == 0

    def test_blank_lines_do_not_keep_a_connection_open(self, side: Side) -> None:
        """HTTP lets a client send them before a request."""
        connection = side.run(lambda: side.srmp.accepted("192.0.2.7"))
        for _ in range(side.srmp._context.settings.idle_ms // 60_000):
            side.run(lambda: side.srmp.received(connection, b"\r\n"))
            side.sleep(60)
        assert (side.sent(), side.closed()) == ([], [connection])

    def test_a_request_that_never_ends_costs_its_connection(self, side: Side) -> None:
        connection = side.run(lambda: side.srmp.accepted("192.0.2.7"))
        for byte in load("02_msmq_element")[:70]:
            side.run(lambda byte=byte: side.srmp.received(connection, bytes((byte,))))  # type: ignore[misc]
            side.sleep(1)
        assert [data[:12] for data in side.sent()] == [b"HTTP/1.1 408"]
        assert side.closed() == [connection]
