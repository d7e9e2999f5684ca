"""Redirections and store-and-forward: [MC-MQSRM] 3.1.1.1.7 to 3.1.1.1.10, 3.1.5.1.3, 3.1.7.9."""

import pytest

from tiercel.model.errors import IllegalPropertyValueError
from tiercel.srmp.http_request import read_http_request
from tiercel.srmp.redirections import Redirection, Redirections, matches
from tiercel.srmp.request import SrmpRequest, read_srmp
from tiercel.srmp.settings import Settings
from tiercel.store.interface import Keyspace

from .test_bad_input import with_envelope
from .test_streams import send
from .vectors import changed, load
from .world import Net, Side


def redirect(side: Side, **redirections: object) -> None:
    side.run(lambda: side.srmp.redirections.change(Redirections(**redirections)))  # type: ignore[arg-type]


def requests(side: Side) -> list[SrmpRequest]:
    return [read_srmp(read_http_request(data)) for data in side.sent()]


def young(name: str) -> bytes:
    """A vector whose time is not over."""
    return load(name).replace(b">2007", b">2030")


@pytest.mark.conformance("SRMP-173")
@pytest.mark.parametrize(
    ("pattern", "url", "is_match"),
    [
        ("http://h/msmq/*", "http://h/msmq/private$/q", True),
        ("http://H/MSMQ/*", "http://h/msmq/q", True),
        ("http://h/msmq/*", "http://hh/msmq/q", False),
        ("http://h/*/q", "http://h/msmq/q", False),
        ("http://h/msmq/q", "http://h/msmq/q2", False),
        ("http://h/msmq/q", "http://h/MSMQ/Q", True),
    ],
)
def test_a_star_matches_at_the_end_only(pattern: str, url: str, is_match: bool) -> None:
    assert matches(pattern, url) is is_match


class TestStoreAndForward:
    @pytest.fixture
    def side(self) -> Side:
        return Side(name="ROUTER")

    @pytest.mark.conformance("SRMP-169")
    def test_is_off_by_default(self, side: Side) -> None:
        assert side.post(load("02_msmq_element")) == 400
        assert side.actions == []

    @pytest.mark.conformance("SRMP-170")
    @pytest.mark.parametrize("name", ["02_msmq_element", "04a_stream_msg1", "07_rfc2387_framing"])
    def test_the_content_stays_as_it_is(self, side: Side, name: str) -> None:
        redirect(side, store_and_forward=True)
        assert side.post(young(name)) == 200
        side.connect()
        (request,) = requests(side)
        assert request.http.body == read_http_request(young(name)).body
        assert request.http.head.header("Host") == "machine2"

    def test_all_via_headers_count(self, side: Side) -> None:
        redirect(side, store_and_forward=True)
        data = young("02_msmq_element").replace(b"Host:", b"Via: 1.1 proxy\r\nvia: 1.1 other\r\nHost:", 1)
        own = str(side.engine.queue_manager.identifier)
        assert side.post(data.replace(b"1.1 other", b"1.1 " + own.encode())) == 400
        assert side.post(data) == 200
        side.connect()
        (request,) = requests(side)
        assert request.http.head.header("Via") == f"1.1 proxy, 1.1 other, 1.1 {own}"

    @pytest.mark.conformance("SRMP-170")
    def test_a_message_whose_time_is_over_stays_with_its_sender(self, side: Side) -> None:
        redirect(side, store_and_forward=True)
        assert side.post(load("02_msmq_element")) == 500
        assert side.actions == []

    @pytest.mark.conformance("SRMP-170")
    def test_streams_pass_through(self) -> None:
        net = Net()
        here, router, there = (net.add(name) for name in ("here", "router", "there"))
        there.create("tx", transactional=True)
        redirect(here, outbound=(Redirection("http://there/*", "http://router"),))
        redirect(router, store_and_forward=True)
        box = here.to("there", "tx")
        send(here, box, b"1", b"2", b"3", negative_journaling=True)
        net.sleep(1)
        found = there.box("tx").messages()
        assert [message.body for message in found] == [b"1", b"2", b"3"]
        assert {message.id.lineage for message in found} == {here.engine.queue_manager.identifier}
        assert box.state.count == 0
        there.box("tx").purge()
        net.sleep(1)
        assert here.transactional_dead_letters.bodies() == [b"1", b"2", b"3"]

    @pytest.mark.conformance("SRMP-170")
    def test_a_final_receipt_survives_a_crash_of_the_router(self) -> None:
        """Its content says that it is express, but there is no other one."""
        net = Net()
        here, router, there = (net.add(name) for name in ("here", "router", "there"))
        there.create("tx", transactional=True)
        redirect(there, outbound=(Redirection("http://here/*", "http://router"),))
        redirect(router, store_and_forward=True)
        send(here, here.to("there", "tx"), b"1", negative_journaling=True)
        net.sleep(1)
        net.down.add("here")
        net.sleep(301, 10)
        there.box("tx").purge()
        net.sleep(1)
        router.kill()
        net.forget("router")
        net.down.clear()
        net.sleep(30, 1)
        assert here.transactional_dead_letters.bodies() == [b"1"]

    def test_our_own_stream_may_pass_through_ourselves(self) -> None:
        net = Net()
        here, there = net.add("here"), net.add("there")
        there.create("tx", transactional=True)
        redirect(
            here, inbound=(Redirection("http://here/msmq/private$/tx", "http://there/msmq/private$/tx"),)
        )
        box = here.to("here", "tx")
        send(here, box, b"1", b"2")
        net.sleep(1)
        assert there.box("tx").bodies() == [b"1", b"2"]
        assert box.state.count == 0

    def test_a_message_in_a_circle_ends(self) -> None:
        net = Net()
        first, second = net.add("first"), net.add("second")
        far = "http://far/*"
        redirect(first, store_and_forward=True, outbound=(Redirection(far, "http://second"),))
        redirect(second, store_and_forward=True, outbound=(Redirection(far, "http://first"),))
        first.to("far", "q").send(b"1", negative_journaling=True)
        net.settle()
        assert len(net.requests) < 10
        assert not [each for side in (first, second) for each in side.engine.outgoing.queues() if each.count]


class TestInboundRedirection:
    @pytest.fixture
    def side(self) -> Side:
        side = Side(name="MACHINE2")
        side.create("real")
        side.create("tx", transactional=True)
        return side

    @pytest.mark.conformance("SRMP-171", "SRMP-172")
    def test_to_a_local_queue(self, side: Side) -> None:
        public = Redirection("http://public.example/*", "http://machine2/msmq/private$/real")
        redirect(side, inbound=(public,))
        data = changed("02_msmq_element", "//machine2/", "//public.example/")
        assert side.post(with_envelope("02_msmq_element", data).encode()) == 200
        assert side.box("real").state.count == 1

    @pytest.mark.conformance("SRMP-172")
    def test_the_kind_of_the_queue_is_checked_there(self, side: Side) -> None:
        redirect(side, inbound=(Redirection("http://machine2/*", "http://machine2/msmq/private$/tx"),))
        assert side.post(load("02_msmq_element")) == 400
        assert side.post(load("04a_stream_msg1")) == 200
        assert side.box("tx").state.count == 1

    @pytest.mark.conformance("SRMP-171")
    def test_to_another_computer(self, side: Side) -> None:
        redirect(side, inbound=(Redirection("http://machine2/*", "http://inner/msmq/private$/q"),))
        assert side.post(young("02_msmq_element")) == 200
        dial = side.dialled()
        assert dial.host == "inner"
        side.run(lambda: side.srmp.connected(dial.connection, ""))
        (request,) = requests(side)
        original = read_srmp(read_http_request(young("02_msmq_element")))
        assert request.envelope.path.to == "http://inner/msmq/private$/q"
        assert (request.envelope.path.id, request.envelope.properties, request.envelope.msmq) == (
            original.envelope.path.id,
            original.envelope.properties,
            original.envelope.msmq,
        )
        assert request.body is not None
        assert original.body is not None
        assert request.body.content == original.body.content


class TestOutboundRedirection:
    @pytest.mark.conformance("SRMP-174")
    @pytest.mark.parametrize(
        ("exceptions", "host", "port"), [((), "proxy", 3128), (("http://far/msmq/private$/q",), "far", 80)]
    )
    def test_only_the_connection_goes_elsewhere(
        self, exceptions: tuple[str, ...], host: str, port: int
    ) -> None:
        side = Side()
        outbound = (Redirection("http://far/*", "http://proxy:3128"),)
        redirect(side, outbound=outbound, outbound_exceptions=exceptions)
        side.to("far", "q").send(b"1")
        dial = side.dialled()
        assert (dial.host, dial.port) == (host, port)
        side.run(lambda: side.srmp.connected(dial.connection, ""))
        (request,) = requests(side)
        assert request.envelope.path.to == "http://far/msmq/private$/q"
        assert request.http.head.header("Host") == "far"


class TestReplacementOfTheReceiptsUrl:
    @pytest.mark.conformance("SRMP-070")
    @pytest.mark.parametrize(
        ("to", "default", "expected"),
        [
            ("there", "http://gate/msmq/private$/order_queue$", "http://special/msmq/private$/order_queue$"),
            ("other", "http://gate/msmq/private$/order_queue$", "http://gate/msmq/private$/order_queue$"),
            ("other", "", "http://here:8080/MSMQ/PRIVATE$/order_queue$"),
        ],
    )
    def test_is_found_by_the_destination(self, to: str, default: str, expected: str) -> None:
        side = Side(settings=Settings(http_url="http://here:8080"))
        special = Redirection("http://there/*", "http://special/msmq/private$/order_queue$")
        redirect(side, receipts=(special,), receipts_default=default)
        side.kill()
        send(side, side.to(to, "tx"), b"1")
        side.connect()
        (request,) = requests(side)
        assert request.envelope.stream is not None
        url, _, token = (request.envelope.stream.start or "").partition("?senderstream=")
        assert (url, len(token)) == (expected, 32)


class TestTheTable:
    @pytest.mark.conformance("SRMP-102")
    def test_survives_a_crash(self) -> None:
        side = Side()
        table = Redirections(
            store_and_forward=True,
            inbound=(Redirection("http://a/*", "http://b/msmq/q"),),
            outbound_exceptions=("http://c/*",),
        )
        side.run(lambda: side.srmp.redirections.change(table))
        side.kill()
        assert side.run(lambda: side.srmp.redirections.current) == table

    @pytest.mark.parametrize(
        "table",
        [
            Redirections(inbound=(Redirection("http://a/*", "http://b"),)),
            Redirections(receipts_default="DIRECT=OS:a\\q"),
            Redirections(outbound=(Redirection("http://a/*", "ftp://b"),)),
            Redirections(outbound=(Redirection("http://a/*", "http://b:port"),)),
        ],
    )
    def test_refuses_what_cannot_be_used(self, table: Redirections) -> None:
        side = Side()
        with pytest.raises(IllegalPropertyValueError):
            side.run(lambda: side.srmp.redirections.change(table))
        assert side.run(lambda: side.srmp.redirections.current) == Redirections()

    @pytest.mark.parametrize("data", [b"{", b"[]", b"{}", b'{"inbound": [1]}'])
    def test_that_is_damaged_is_set_aside(self, data: bytes) -> None:
        side = Side()
        side.run(lambda: side.engine.batch.put(Keyspace.META, b"srmp_redirections", data))
        side.restart()
        assert side.run(lambda: side.srmp.redirections.current) == Redirections()
        assert "the record is damaged" in side.discards()[0].reason
