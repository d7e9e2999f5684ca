"""The carrier: from an outgoing queue to the subscribed queues, and what is refused."""

from itertools import count
from random import Random

import pytest

from engine.harness import SYSTEM, Box, World
from pgm.world import ADDRESS, Net, Side
from srmp.vectors import load
from tiercel.model.codes import Acknowledgements, OutgoingQueueState
from tiercel.model.errors import (
    IllegalPropertySizeError,
    IllegalPropertyValueError,
    UnsupportedFormatNameOperationError,
)
from tiercel.model.format_name import FormatName
from tiercel.model.queue import OutgoingQueue
from tiercel.pgm.outputs import Outgoing
from tiercel.pgm.packet import Data, Fragment, Options, PacketType, Spm, Tsi, decode, encode
from tiercel.pgm.settings import Settings
from tiercel.server.transports import expect_transports
from tiercel.srmp.http_request import read_multicast
from tiercel.srmp.receipt_sender import ReceiptSender
from tiercel.srmp.request import read_srmp
from tiercel.srmp.usual_message import UsualMessages

GROUP, PORT = "234.1.1.1", 8001
PORTS = count(4711)  # each source has its own


@pytest.fixture
def net() -> Net:
    return Net()


def sent(side: Side, *kinds: PacketType) -> list[Data]:
    packets = [decode(each.data) for each in side.packets]
    return [each for each in packets if isinstance(each, Data) and (not kinds or each.kind in kinds)]


def speak(
    side: Side, *apdus: bytes, port: int = PORT, room: int = 1400, group: str = GROUP, at_once: bool = False
) -> None:
    """A foreign source sends APDUs, each cut into packets of `room` bytes; they come in one batch or many."""
    if at_once:
        hear, side.hear = side.hear, side.multicast.received  # type: ignore[method-assign]
        try:
            side.run(lambda: speak(side, *apdus, port=port, room=room, group=group))
        finally:
            side.hear = hear  # type: ignore[method-assign]
        return
    tsi = Tsi(b"other!", next(PORTS))
    number = 0
    side.hear(encode(Spm(tsi, port, 0, 0, 0xFFFF_FFFF, "10.9.0.9")), "10.9.0.9", group)
    for apdu in apdus:
        first = number
        for offset in range(0, len(apdu), room):
            piece = apdu[offset : offset + room]
            options = Options(Fragment(first, offset, len(apdu))) if len(apdu) > room else Options()
            data = encode(Data(PacketType.ODATA, tsi, port, number, 0, piece, options))
            side.hear(data, "10.9.0.9", group)
            number += 1


class TestSending:
    @pytest.mark.conformance("SRMP-180", "DMPR-054", "DMPR-178")
    def test_a_message_becomes_odata_to_the_group_and_is_done_when_it_has_left(self) -> None:
        side = Side()
        side.to().send(b"one")
        first = decode(side.packets[0].data)
        assert isinstance(first, Spm)
        (data,) = sent(side)
        assert {packet.address for packet in side.packets} == {GROUP}
        assert (data.kind, data.port) == (PacketType.ODATA, PORT)
        request = read_srmp(read_multicast(data.payload), over_multicast=True)
        assert request.http.head.target == ADDRESS
        assert request.body is not None
        assert request.body.content == b"one"
        queue = side.to().state.queue
        assert isinstance(queue, OutgoingQueue)
        assert (queue.multicast, queue.state) == (True, OutgoingQueueState.CONNECTED)
        assert side.to().state.count == 1  # until the packets have left
        side.sleep(0.1)
        assert side.to().state.count == 0

    def test_a_message_is_sent_again_after_a_crash_before_it_was_done(self, net: Net) -> None:
        here, there = net.add("here"), net.add("there")
        prices = there.create("prices", multicast_address=ADDRESS)
        here.to().send(b"one")
        net.settle()
        here.kill()
        net.sleep(1.0)
        assert prices.bodies() == [b"one"]  # it has the same id
        assert there.multicast.incoming.dropped["duplicate"] == 1

    def test_what_the_rate_does_not_allow_yet_stays_in_the_queue(self) -> None:
        side = Side(settings=Settings(rate_bytes_s=70_000))
        box = side.to()
        for _ in range(300):
            box.send(bytes(1000))
        side.sleep(0.1)
        assert len(sent(side)) < 20
        assert side.multicast.sources
        assert all(each.waiting_bytes < 150_000 for each in side.multicast.sources.values())
        assert box.state.count > 250

    def test_a_paused_queue_sends_nothing_more(self) -> None:
        side = Side(settings=Settings(rate_bytes_s=70_000))
        box = side.to()
        for _ in range(20):
            box.send(bytes(3000))
        side.run(lambda: side.engine.outgoing.pause(box.state))
        for _ in range(5):
            side.sleep(0.1)  # the message that has begun is completed
        side.packets.clear()
        for _ in range(20):
            side.sleep(0.1)
        assert not sent(side)
        side.run(lambda: side.engine.outgoing.resume(box.state))
        for _ in range(100):
            side.sleep(0.1)
        assert box.state.count == 0
        assert b"".join(data.payload for data in sent(side)).count(b"POST ") == 19

    @pytest.mark.conformance("SRMP-181")
    def test_no_transactions(self) -> None:
        side = Side()
        problem = "takes no transactional messages"
        with (
            side.transaction() as transaction,
            pytest.raises(UnsupportedFormatNameOperationError, match=problem),
        ):
            side.to().send(b"one", transaction=transaction)

    @pytest.mark.conformance("SRMP-183")
    def test_nothing_above_64_kilobytes(self) -> None:
        side = Side()
        side.to().send(bytes(64_000))
        with pytest.raises(IllegalPropertySizeError, match=r"too long for multicast .*limit: 65535 bytes"):
            side.to().send(bytes(65_536))

    def test_receipts_can_only_go_to_http(self) -> None:
        side = Side()
        with pytest.raises(IllegalPropertyValueError, match="can only go to an HTTP name"):
            side.to().send(
                b"one",
                administration_queue=FormatName.parse(r"DIRECT=OS:here\private$\a"),
                acknowledgements=Acknowledgements.POS_ARRIVAL,
            )

    def test_an_element_of_a_longer_name(self, net: Net) -> None:
        here, there = net.add("here"), net.add("there")
        prices = there.create("prices", multicast_address=ADDRESS)
        own = here.create("own")
        here.box(rf"DIRECT=OS:here\private$\own,MULTICAST={ADDRESS}").send(b"one")
        net.sleep(0.2)
        assert (own.bodies(), prices.bodies()) == ([b"one"], [b"one"])

    def test_a_session_ends_when_its_window_has_passed(self) -> None:
        side = Side(settings=Settings(rate_bytes_s=10_000_000, window_s=10.0))
        side.to().send(b"one")
        for _ in range(40):
            side.sleep(0.5)
        assert not side.multicast.sources
        fins = [decode(each.data) for each in side.packets]
        assert sum(isinstance(each, Spm) and each.options.fin for each in fins) == 3
        side.packets.clear()
        side.to().send(b"two")
        (data,) = sent(side)
        assert b"two" in data.payload

    def test_the_last_batch_says_that_no_more_will_come(self) -> None:
        side = Side()
        side.to().send(b"one")
        side.packets.clear()
        side.run(side.multicast.stop)
        spms = [decode(each.data) for each in side.packets]
        assert [isinstance(each, Spm) and each.options.fin for each in spms] == [True] * 3
        assert side.node.deadlines[1] is None

    def test_off_the_network_its_names_wait_for_a_daemon_that_has_it(self) -> None:
        world = World()
        expect_transports(world.engine)
        with pytest.raises(UnsupportedFormatNameOperationError, match=r"\[multicast\] is off"):
            world.box(f"MULTICAST={ADDRESS}").send(b"one")
        world.set(srmp_pgm_support=True)
        world.restart()
        expect_transports(world.engine)
        box = world.box(f"MULTICAST={ADDRESS}")
        box.send(b"one")
        assert box.state.count == 1


class TestReceiving:
    @pytest.mark.conformance("SRMP-178", "SRMP-179")
    def test_each_subscribed_queue_gets_a_copy(self) -> None:
        side = Side()
        one = side.create("one", multicast_address=ADDRESS)
        two = side.create("two", multicast_address=ADDRESS)
        other = side.create("other", multicast_address="234.1.1.1:8002")
        speak(side, load("05_pgm"))
        body = "ardenwhite".encode("utf-16-le")
        assert (one.bodies(), two.bodies(), other.bodies()) == ([body], [body], [])

    def test_usual_messages_become_the_packets_that_others_do(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """They have a faster way into the store."""
        source, sides = Side(), (Side(), Side())
        for number in range(3):
            source.to().send(b"428.10", label=f"price {number}", application_tag=number, priority=number)
        requests = [data.payload for data in sent(source)]
        assert len(requests) == 3
        found = []
        for side in sides:
            box = side.create("one", multicast_address=ADDRESS)
            speak(side, *requests, room=2000)
            found.append([seen.record.packet for seen in side.engine.browsing.in_order(box.state, 0)])
            monkeypatch.setattr(UsualMessages, "shape_of", lambda *_arguments: None)
        assert found[0] == found[1]
        assert len(found[0]) == 3

    @pytest.mark.conformance("SRMP-176")
    def test_without_a_queue_nothing_happens(self) -> None:
        side = Side()
        side.create("other", multicast_address="234.1.1.2:8001")
        speak(side, load("05_pgm"))
        assert (side.events, side.multicast.incoming.messages) == ([], 0)

    @pytest.mark.conformance("SRMP-193")
    def test_the_same_message_twice_is_one(self) -> None:
        side = Side()
        boxes = [side.create(name, multicast_address=ADDRESS) for name in ("one", "two")]
        speak(side, load("05_pgm"), load("05_pgm"))
        assert [len(box.bodies()) for box in boxes] == [1, 1]

    @pytest.mark.parametrize("room", [100, 500, 1400])
    def test_messages_are_framed_by_their_length_however_packets_cut_them(self, room: int) -> None:
        side = Side()
        box = side.create("one", multicast_address=ADDRESS)
        data = load("05_pgm")
        other = data.replace(b"uuid:4494@", b"uuid:4495@")
        third = data.replace(b"uuid:4494@", b"uuid:4496@")
        stream = data + other + third
        speak(side, *(stream[at : at + 700] for at in range(0, len(stream), 700)), room=room)
        assert len(box.bodies()) == 3
        assert not side.multicast.incoming.dropped

    def test_after_a_loss_the_next_whole_message_is_taken(self) -> None:
        side = Side()
        box = side.create("one", multicast_address=ADDRESS)
        data = load("05_pgm")
        other = data.replace(b"uuid:4494@", b"uuid:4495@")
        speak(side, data[700:], other)
        assert len(box.bodies()) == 1
        assert side.multicast.incoming.dropped["malformed"] == 1

    @pytest.mark.conformance("SRMP-181")
    def test_a_stream_element_is_ignored(self) -> None:
        side = Side()
        box = side.create("one", multicast_address=ADDRESS)
        here = Side(name="THERE")
        here.to().send(b"one")
        (data,) = sent(here)
        guid = here.engine.queue_manager.identifier
        stream = f'<Stream xmlns="http://schemas.xmlsoap.org/srmp/"><streamId>uid:{guid}\\1</streamId>'
        stream += (
            "<current>1</current><start><sendReceiptsTo>http://h/msmq/q</sendReceiptsTo></start></Stream>"
        )
        text = data.payload.replace(b"<Msmq ", stream.encode() + b"<Msmq ")
        head, _, rest = text.partition(b"\r\n\r\n")
        envelope = text[text.index(b"<se:Envelope") : text.index(b"</se:Envelope>") + 14]
        old = len(envelope) - len(stream)
        rest = rest.replace(b"Content-Length: %d" % old, b"Content-Length: %d" % len(envelope), 1)
        lines = [line for line in head.split(b"\r\n") if not line.startswith(b"Content-Length")]
        head = b"\r\n".join([*lines, b"Content-Length: %d" % len(rest)])
        speak(side, head + b"\r\n\r\n" + rest)
        assert box.bodies() == [b"one"]

    def test_another_address_inside_than_outside_is_refused(self) -> None:
        side = Side()
        box = side.create("one", multicast_address="234.1.1.1:8002")
        speak(side, load("05_pgm"), port=8002)
        assert box.bodies() == []
        assert side.multicast.incoming.dropped["malformed"] == 1

    def test_a_full_queue_loses_its_copy_and_the_ledger_says_so(self) -> None:
        side = Side()
        full = side.create("full", multicast_address=ADDRESS, quota_kib=1)
        box = side.create("one", multicast_address=ADDRESS)
        speak(side, load("05_pgm"))
        assert (full.bodies(), len(box.bodies())) == ([], 1)
        assert side.multicast.incoming.dropped["no room"] == 1
        assert len(side.discards()) == 1

    def test_receipts_go_as_unicast_posts(self) -> None:
        here, side = Side(name="THERE"), Side()
        side.engine.delivery.tell_by(ReceiptSender(side.engine))
        box = side.create("one", multicast_address=ADDRESS)
        admin = "DIRECT=HTTP://there/msmq/private$/receipts"
        asked = Acknowledgements.POS_ARRIVAL | Acknowledgements.POS_RECEIVE
        here.to().send(b"one", administration_queue=FormatName.parse(admin), acknowledgements=asked)
        for packet in here.packets:
            side.hear(packet.data, here.address, packet.address)
        outgoing = [each for each in side.engine.queues.all() if each.is_outgoing]
        assert [(str(each.queue.label).lower(), each.count) for each in outgoing] == [(admin.lower(), 1)]
        assert box.receive().body == b"one"
        assert outgoing[0].count == 2

    def test_packets_that_cannot_be_read_are_counted(self) -> None:
        side = Side()
        side.hear(b"rubbish", "10.9.0.9", GROUP)
        assert side.multicast.malformed == 1


def usual(*numbers: int) -> list[bytes]:
    """Messages of one shape."""
    return [load("05_pgm").replace(b"uuid:4494@", b"uuid:%d@" % number) for number in numbers]


class TestRuns:
    """Messages of one shape that come in one batch go into their queues together."""

    def test_each_queue_has_them_in_their_order(self) -> None:
        side = Side()
        boxes = [side.create(name, multicast_address=ADDRESS) for name in ("one", "two")]
        speak(side, *usual(*range(1000, 1600)), at_once=True)
        found = [[message.id.uniquifier for message in box.messages()] for box in boxes]
        assert found == [list(range(1000, 1600))] * 2
        assert side.multicast.incoming.messages == 600

    def test_a_duplicate_among_them_is_dropped(self) -> None:
        side = Side()
        box = side.create("one", multicast_address=ADDRESS)
        speak(side, *usual(1000, 1001, 1002, 1001, 1003), at_once=True)
        assert [message.id.uniquifier for message in box.messages()] == [1000, 1001, 1002, 1003]
        assert side.multicast.incoming.dropped == {"duplicate": 1}

    def test_one_that_came_before_is_dropped(self) -> None:
        side = Side()
        box = side.create("one", multicast_address=ADDRESS)
        speak(side, *usual(1000, 1001), at_once=True)
        speak(side, *usual(1001, 1002), at_once=True)
        assert [message.id.uniquifier for message in box.messages()] == [1000, 1001, 1002]

    def test_one_that_is_written_in_another_way_is_the_same_message(self) -> None:
        side = Side()
        box = side.create("one", multicast_address=ADDRESS)
        again = usual(1001)[0].replace(b"\r\nHost: ", b"\r\nhost: ")
        speak(side, *usual(1000, 1001), again, *usual(1002), at_once=True)
        assert [message.id.uniquifier for message in box.messages()] == [1000, 1001, 1002]
        assert side.multicast.incoming.dropped == {"duplicate": 1}

    def test_a_queue_takes_as_many_as_it_has_room_for(self) -> None:
        side = Side()
        full = side.create("full", multicast_address=ADDRESS, quota_kib=20)
        box = side.create("one", multicast_address=ADDRESS)
        speak(side, *usual(*range(1000, 1010)), at_once=True)
        kept = len(full.bodies())
        assert 0 < kept < 10
        assert [message.id.uniquifier for message in full.messages()] == list(range(1000, 1000 + kept))
        assert len(box.bodies()) == 10
        assert side.multicast.incoming.dropped == {"no room": 10 - kept}

    def test_a_reader_that_waits_gets_the_first(self) -> None:
        side = Side()
        box = side.create("one", multicast_address=ADDRESS)
        speak(side, *usual(1003), at_once=True)
        box.receive()
        waiter = box.wait()
        speak(side, *usual(1000, 1001, 1002), at_once=True)
        assert waiter.found is not None
        assert [message.id.uniquifier for message in box.messages()] == [1001, 1002]

    def test_peers_that_are_refused_are_refused_each_time(self) -> None:
        side = Side()
        box = side.create("one", multicast_address=ADDRESS)
        speak(side, *usual(1000), at_once=True)
        side.multicast.incoming._refusal = lambda _senders, address: f"{address} is not welcome"
        speak(side, *usual(1001, 1002), at_once=True)
        assert len(box.bodies()) == 1
        assert side.multicast.incoming.dropped == {"refused": 2}

    def test_to_another_address_they_are_refused(self) -> None:
        side = Side()
        box = side.create("one", multicast_address=ADDRESS)
        other = side.create("other", multicast_address="234.1.1.1:8002")
        speak(side, *usual(1000), at_once=True)
        speak(side, *usual(1001), port=8002, at_once=True)
        assert (len(box.bodies()), other.bodies()) == (1, [])
        assert side.multicast.incoming.dropped == {"malformed": 1}


class TestSubscriptions:
    @pytest.mark.conformance("DMPR-039")
    def test_groups_are_joined_and_left_at_once(self) -> None:
        side = Side()
        box = side.create("one", multicast_address=ADDRESS)
        side.create("two", multicast_address="234.1.1.1:8002")
        assert side.groups == {GROUP}
        self.set(box, "234.1.1.9:1")
        assert side.groups == {GROUP, "234.1.1.9"}
        self.set(box, None)
        assert side.groups == {GROUP}
        side.run(lambda: side.engine.queues.delete(side.box("two").state, SYSTEM))
        assert side.groups == set()

    @staticmethod
    def set(box: Box, address: str | None) -> None:
        engine = box.world.engine
        box.world.run(lambda: engine.queues.set_properties(box.state, SYSTEM, multicast_address=address))

    @pytest.mark.conformance("DMPR-039")
    def test_after_a_restart_they_are_joined_again(self) -> None:
        side = Side()
        assert side.create("none").state.queue.multicast_address is None
        side.create("one", multicast_address=ADDRESS)
        side.restart()
        assert side.groups == {GROUP}
        assert side.box("one").state.queue.multicast_address == ADDRESS

    @pytest.mark.conformance("SRMP-181")
    def test_a_transactional_queue_cannot_subscribe(self) -> None:
        side = Side()
        with pytest.raises(IllegalPropertyValueError, match="multicast has no transactions"):
            side.create("one", transactional=True, multicast_address=ADDRESS)
        box = side.create("two", transactional=True)
        with pytest.raises(IllegalPropertyValueError, match="multicast has no transactions"):
            self.set(box, ADDRESS)


class TestTogether:
    @pytest.mark.parametrize("loss", [0.0, 0.3])
    def test_everything_arrives_in_order(self, net: Net, loss: float) -> None:
        draw = Random(3)
        here, there = net.add("here"), net.add("there")
        boxes = [there.create(name, multicast_address=ADDRESS) for name in ("one", "two")]
        own = here.create("own", multicast_address=ADDRESS)
        here.to().send(b"0")
        net.sleep(0.2)
        net.lose = lambda _packet: draw.random() < loss
        bodies = [b"%d" % number + bytes(number * 200) for number in range(1, 40)]
        for body in bodies:
            here.to().send(body)
            net.sleep(0.05)
        net.lose = lambda _packet: False
        net.sleep(25.0)
        assert here.to().state.count == 0
        for box in (*boxes, own):
            assert box.bodies() == [b"0", *bodies]

    def test_what_cannot_be_repaired_is_counted_and_told(self, net: Net) -> None:
        here, there = net.add("here"), net.add("there")
        box = there.create("one", multicast_address=ADDRESS)
        here.to().send(b"0")
        net.sleep(0.2)

        def lose(packet: Outgoing) -> bool:
            found = decode(packet.data)
            return (
                packet.one_hop
                or packet.address == here.address
                or (isinstance(found, Data) and b"lost" in found.payload)
            )

        net.lose = lose
        here.to().send(b"lost")
        here.to().send(b"2")
        net.sleep(10.0)
        assert box.bodies() == [b"0", b"2"]
        assert there.multicast.incoming.totals["lost"] == 1
        (event,) = there.events
        assert (event.event, event.address, event.queue) == ("lost", here.address, ADDRESS)


def test_a_flood_of_sources_is_bounded() -> None:
    side = Side(settings=Settings(rate_bytes_s=70_000))
    side.create("one", multicast_address=ADDRESS)
    for number in range(1000):
        tsi = Tsi(number.to_bytes(6, "big"), 1)
        data = encode(Data(PacketType.ODATA, tsi, PORT, number, 0, b"x"))
        side.multicast.received(data, f"10.1.{number >> 8}.{number & 255}", GROUP)
    assert len(side.multicast.incoming.receivers[GROUP, PORT].sessions) <= 256
