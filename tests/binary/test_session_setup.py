"""[MS-MQQB] 3.1.5.2 to 3.1.5.4: from a name to an open session, on both sides."""

from hashlib import sha256
from uuid import UUID

import pytest

from engine.harness import World, refused
from tiercel.binary.actions import Dial, Resolve, SessionEvent
from tiercel.binary.transitions import State
from tiercel.engine.machine import Write
from tiercel.model.codes import ConnectionStatus, OutgoingQueueState
from tiercel.model.errors import ReachedOurselvesError
from tiercel.model.identifiers import NULL_GUID, TxSequenceId
from tiercel.store.memory_store import MemoryStore
from tiercel.wire.internal_packets import ConnectionParameters, EstablishConnection, SessionAck
from tiercel.wire.order_ack import OrderAck
from tiercel.wire.structure import encode_guid
from wire.packets import frame, replaced

from .site import ADDRESS, NOW, PEER, PRIVATE, THERE, UPTIME_S, Site, establish, in_stream, letter

STRANGER = UUID("909ea0fc-9078-4445-8f11-394c43cd8907")
SE = 0x0100
RESET = 0x8007_2746
FRAME_5 = frame(5)  # 1496 ms, 120,000 ms, window 64


def to_anybody() -> bytes:
    """Frame 3 without the GUID of the queue manager that it was for."""
    return replaced(frame(3), 36, bytes(16))


class TestTheWayThere:
    """3.1.5.2, 3.1.5.2.1, 3.1.7.4, 3.1.7.5."""

    @pytest.mark.conformance("MQQB-032")
    def test_step_by_step(self, site: Site) -> None:
        site.sends(b"1")
        peer = site.connects()
        peer.answers(peer.hears(EstablishConnection))
        peer.hears(ConnectionParameters)
        peer.says(frame(6))
        steps = [
            f"write {len(action.data)}" if isinstance(action, Write) else type(action).__name__
            for _, action in site.actions
        ]
        assert steps[:4] == ["Resolve", "Dial", "write 572", "write 32"]
        assert site.events() == ["opened"]
        assert peer.hears_messages() == [b"1"]

    @pytest.mark.conformance("MQQB-033", "MQQB-040")
    @pytest.mark.parametrize(
        ("name", "host"),
        [(r"DIRECT=OS:srv\private$\q", "srv"), (r"DIRECT=TCP:10.0.0.1\private$\q", "10.0.0.1")],
    )
    def test_of_a_direct_name_leads_to_whoever_answers_there(self, site: Site, name: str, host: str) -> None:
        site.sends(b"1", to=name)
        assert site.did(Resolve) == [(0, Resolve(host))]
        assert site.connects().raw[36:52] == bytes(16)

    @pytest.mark.conformance("MQQB-040")
    def test_of_a_private_name_leads_to_one_queue_manager(self) -> None:
        site = Site(machines={PEER: ("srv",)})
        site.sends(b"1", to=PRIVATE)
        assert site.did(Resolve) == [(0, Resolve("srv"))]
        assert site.connects().raw[36:52] == encode_guid(PEER)

    def test_of_a_private_name_without_a_known_computer_is_tried_again(self, site: Site) -> None:
        site.sends(b"1", to=PRIVATE)
        site.assert_queue_is(OutgoingQueueState.NEED_VALIDATION, PRIVATE)
        assert site.history(PRIVATE) == [ConnectionStatus.ROUTING_DATA_NOT_AVAILABLE]
        site.wait(5_000)
        assert site.history(PRIVATE) == [ConnectionStatus.ROUTING_DATA_NOT_AVAILABLE] * 2

    @pytest.mark.conformance("MQQB-035")
    def test_that_nobody_knows_is_looked_for_again(self, site: Site) -> None:
        site.addresses = {ADDRESS: []}
        site.sends(b"1")
        site.assert_queue_is(OutgoingQueueState.NEED_VALIDATION)
        site.wait(4_999)
        assert len(site.did(Resolve)) == 1
        site.addresses = {}
        site.wait(1)
        assert site.dialled() == [(5_000, ADDRESS)]

    @pytest.mark.conformance("MQQB-035")
    def test_of_a_queue_on_hold_is_not_looked_for(self, site: Site) -> None:
        site.addresses = {ADDRESS: []}
        site.sends(b"1")
        site.run(lambda: site.engine.outgoing.pause(site.state()))
        site.wait(3_600_000)
        site.assert_queue_is(OutgoingQueueState.ON_HOLD)
        assert len(site.did(Resolve)) == 1

    @pytest.mark.conformance("MQQB-037")
    def test_may_have_several_addresses(self, site: Site) -> None:
        site.addresses = {"srv": ["192.0.2.7", "2001:db8::7"]}
        site.sends(b"1", to=r"DIRECT=OS:srv\private$\q")
        outgoing = site.outgoing(r"DIRECT=OS:srv\private$\q")
        assert outgoing.next_hops == ["IP=192.0.2.7", "IPv6=2001:db8::7"]
        assert site.did(Dial) == [(0, Dial(1, "192.0.2.7", 1801))]
        peer = site.reaches()
        assert peer.session.address == "192.0.2.7"
        assert outgoing.next_hops == ["IP=192.0.2.7"]

    @pytest.mark.conformance("MQQB-003")
    @pytest.mark.parametrize("protocol", ["SPX", "IPX"])
    def test_by_spx_is_none(self, protocol: str) -> None:
        name = rf"DIRECT={protocol}:00000012.00a0234f7500\private$\q"
        store = MemoryStore()
        world = World(store=store)  # an engine without carriers takes any name
        world.box(name).send(b"1")
        world.engine.stop()
        site = Site(store)
        site.run(site.protocol.start)
        site.wait(3_600_000)
        assert site.dialled() == []
        assert site.history(name) == [ConnectionStatus.TCP_NOT_ENABLED]
        site.assert_queue_is(OutgoingQueueState.NEED_VALIDATION, name)
        with refused(0xC00E0020):
            site.sends(b"2", to=name)
        assert site.outgoing(name).message_count == 1


class TestTheFirstPacket:
    """3.1.5.2.3, 2.2.3."""

    @pytest.mark.conformance("MQQB-039", "MQQB-042")
    def test_says_who_asks_and_when(self, site: Site) -> None:
        site.wait(2_500)
        site.sends(b"1")
        raw = site.connects().raw
        assert len(raw) == 572
        assert raw[2:4] == b"\x0b\x00"
        assert raw[18:20] == b"\x02\x00"
        assert raw[20:36] == encode_guid(site.guid)
        assert int.from_bytes(raw[52:56], "little") == UPTIME_S * 1000 + 2_500
        assert raw[56:60] == b"\x10\x01\x00\x00"

    @pytest.mark.conformance("MQQB-044")
    def test_leaks_no_memory(self, site: Site) -> None:
        """All of the padding is ours: the mark of a Tiercel, and zeros."""
        site.sends(b"1")
        raw = site.connects().raw
        mark = sha256(b"Tiercel: a larger window, 1" + site.guid.bytes + raw[52:56]).digest()
        assert raw[60:] == mark + bytes(480)

    @pytest.mark.conformance("MQQB-045")
    def test_begins_to_wait_for_the_answer(self, site: Site) -> None:
        site.sends(b"1")
        site.wait(30_000)
        peer = site.connects()
        assert peer.session.state is State.WAITING_ECR
        assert site.history() == [ConnectionStatus.IN_PROCESS]
        site.assert_queue_is(OutgoingQueueState.WAITING)
        site.wait(59_999)
        assert not peer.is_closed
        site.wait(1)
        assert peer.is_closed

    @pytest.mark.conformance("MQQB-045")
    def test_leaves_a_queue_on_hold(self, site: Site) -> None:
        site.sends(b"1")
        site.run(lambda: site.engine.outgoing.pause(site.state()))
        site.connects()
        site.assert_queue_is(OutgoingQueueState.ON_HOLD)


class TestTheAnswerToIt:
    """3.1.5.3.1."""

    @pytest.mark.conformance("MQQB-047")
    @pytest.mark.parametrize(("server", "flags"), [("own", "0200"), ("none", "0200"), ("other", "1200")])
    def test_depends_on_whom_it_is_for(self, site: Site, server: str, flags: str) -> None:
        guid = {"own": site.guid, "none": NULL_GUID, "other": STRANGER}[server]
        peer = site.accepts()
        peer.says(establish(PEER, guid))
        assert len(peer.raw) == 572
        assert peer.raw[18:20].hex() == flags
        assert peer.is_closed == (server == "other")

    @pytest.mark.conformance("MQQB-016")
    def test_to_a_stranger_begins_as_that_of_windows(self, site: Site) -> None:
        peer = site.accepts()
        peer.says(establish(PEER, STRANGER))
        assert peer.raw[:20].hex(" ").upper() == (
            "10 5A 0B 00 4C 49 4F 52 3C 02 00 00 FF FF FF FF 00 00 12 00"
        )
        assert peer.hears(EstablishConnection).internal.is_refused
        peer.assert_closed()

    def test_to_ourselves_is_a_refusal(self, site: Site) -> None:
        peer = site.accepts()
        peer.says(establish(site.guid, NULL_GUID))
        assert peer.raw[18:20].hex() == "1200"
        assert peer.is_closed

    @pytest.mark.conformance("MQQB-048")
    @pytest.mark.parametrize("system", [0x0010, 0x0110])
    def test_repeats_the_question(self, site: Site, system: int) -> None:
        peer = site.accepts()
        request = establish(time_stamp=0xFEDCBA98, operating_system=system).encode()
        peer.says(request)
        assert peer.raw[20:36] == request[20:36] == encode_guid(PEER)
        assert peer.raw[36:52] == encode_guid(site.guid)
        assert peer.raw[52:56] == request[52:56]
        assert peer.session.remote_guid == PEER
        assert peer.session.state is State.WAITING_CP

    @pytest.mark.conformance("MQQB-042", "MQQB-041")
    @pytest.mark.parametrize(("system", "answer"), [(0x0010, 0x0010), (0x0110, 0x0110), (0x0100, 0x0110)])
    def test_repeats_whether_there_was_a_ping(self, site: Site, system: int, answer: int) -> None:
        peer = site.accepts()
        peer.says(establish(operating_system=system))
        assert peer.hears(EstablishConnection).header.operating_system == answer

    @pytest.mark.conformance("MQQB-043")
    def test_does_not_care_about_the_rest(self, site: Site) -> None:
        peer = site.accepts()
        peer.says(establish(operating_system=0xFF10, reserved=0xFFFF))
        header = peer.hears(EstablishConnection).header
        assert (header.operating_system, header.reserved) == (0x0110, 0)

    @pytest.mark.conformance("MQQB-044")
    def test_is_padded_with_5a(self, site: Site) -> None:
        peer = site.accepts()
        peer.says(establish(padding=bytes(range(256)) * 2))
        assert peer.raw[60:] == b"\x5a" * 512

    @pytest.mark.conformance("MQQB-014")
    def test_ignores_bits_without_a_meaning(self, site: Site) -> None:
        peer = site.accepts()
        peer.says(replaced(to_anybody(), 16, bytes.fromhex("ffffe2ff")))
        assert peer.raw[16:20] == bytes.fromhex("00000200")
        assert peer.session.state is State.WAITING_CP

    def test_refuses_a_peer_with_our_own_guid(self, site: Site) -> None:
        peer = site.accepts()
        peer.says(establish(site.engine.queue_manager.identifier))
        assert peer.hears(EstablishConnection).internal.is_refused
        peer.assert_closed()

    @pytest.mark.conformance("MQQB-049")
    def test_refuses_more_sessions_than_allowed(self) -> None:
        site = Site(max_in_sessions=1)
        first, second = site.opens(), site.accepts()
        second.says(establish(STRANGER))
        assert second.hears(EstablishConnection).internal.is_refused
        second.assert_closed()
        first.assert_open()
        first.hangs_up()
        site.opens().assert_open()


class TestTheAnswerThatCame:
    """3.1.5.3.2."""

    @pytest.mark.conformance("MQQB-050")
    @pytest.mark.parametrize(
        "changes", [{"client_guid": STRANGER}, {"server_guid": STRANGER}, {"refused": True}]
    )
    def test_is_wrong(self, changes: dict[str, object]) -> None:
        site = Site(machines={PEER: (ADDRESS,)})
        site.sends(b"1", to=PRIVATE)
        peer = site.connects()
        peer.answers(peer.hears(EstablishConnection), **changes)
        peer.assert_closed()

    @pytest.mark.conformance("MQQB-050")
    def test_is_right(self) -> None:
        site = Site(machines={PEER: (ADDRESS,)})
        site.sends(b"1", to=PRIVATE)
        site.reaches().assert_open()

    @pytest.mark.conformance("MQQB-051")
    def test_to_a_direct_name_may_come_from_anybody(self, site: Site) -> None:
        site.sends(b"1")
        peer = site.reaches(STRANGER)
        assert peer.session.remote_guid == STRANGER

    @pytest.mark.conformance("MQQB-052")
    @pytest.mark.parametrize(("took_ms", "timeout"), [(187, 1496), (1, 500), (59_999, 120_000)])
    def test_tells_how_long_a_stored_message_may_wait(self, site: Site, took_ms: int, timeout: int) -> None:
        site.sends(b"1")
        peer = site.connects()
        site.wait(took_ms)
        peer.answers(peer.hears(EstablishConnection))
        assert peer.hears(ConnectionParameters).header.recoverable_ack_timeout == timeout

    @pytest.mark.conformance("MQQB-052")
    def test_tells_it_also_when_the_clock_goes_round(self) -> None:
        site = Site(uptime_s=2**32 / 1000 - 0.1)
        site.sends(b"1")
        peer = site.connects()
        request = peer.hears(EstablishConnection)
        assert request.header.time_stamp == 2**32 - 100
        site.wait(187)
        peer.answers(request)
        assert peer.hears(ConnectionParameters).header.recoverable_ack_timeout == 1496


class TestParameters:
    """3.1.5.4, 2.2.2."""

    @pytest.mark.conformance("MQQB-054", "MQQB-062")
    def test_of_an_initiator(self, site: Site) -> None:
        site.sends(b"1")
        peer = site.connects()
        peer.answers(peer.hears(EstablishConnection))
        raw = peer.raw[572:]
        assert len(raw) == 32
        assert raw[8:12] == b"\x20\0\0\0"
        assert raw[18:20] == b"\x03\0"
        assert raw[20:32] == bytes.fromhex("f4010000 204e0000 0000 4000")
        assert peer.session.state is State.WAITING_CPR
        assert site.history()[-1] is ConnectionStatus.ESTABLISH_PACKET_RECEIVED

    @pytest.mark.conformance("MQQB-062")
    def test_may_be_set(self) -> None:
        site = Site(window_size=16, ack_timeout_ms=30_000, round_trip_delay_ms=500)
        site.sends(b"1")
        peer = site.connects()
        peer.answers(peer.hears(EstablishConnection))
        header = peer.hears(ConnectionParameters).header
        assert (header.ack_timeout, header.window_size) == (30_500, 16)

    @pytest.mark.conformance("MQQB-055")
    @pytest.mark.parametrize(("ack_timeout_ms", "sent"), [(1, 20_000), (119_900, 120_000), (60_000, 60_500)])
    def test_are_always_in_range(self, ack_timeout_ms: int, sent: int) -> None:
        site = Site(ack_timeout_ms=ack_timeout_ms, round_trip_delay_ms=500)
        site.sends(b"1")
        peer = site.connects()
        peer.answers(peer.hears(EstablishConnection))
        assert peer.hears(ConnectionParameters).header.ack_timeout == sent

    @pytest.mark.conformance("MQQB-056")
    def test_of_an_acceptor_are_those_of_the_initiator(self, site: Site) -> None:
        peer = site.accepts()
        peer.says(to_anybody(), FRAME_5)
        raw = peer.raw[572:]
        assert raw[18:20] == b"\x03\0"
        assert raw[20:28] == FRAME_5[20:28]
        assert raw[30:32] == b"\x40\0"
        session = peer.session
        assert (session._ack_timeout_ms, session._recoverable_ack_timeout_ms) == (120_000, 1_496)
        assert session.peer_window == 64
        peer.assert_open()
        site.wait(60_000)  # its initialization is over
        peer.assert_open()

    @pytest.mark.conformance("MQQB-055")
    @pytest.mark.parametrize(
        ("received", "answered"), [(0, (500, 20_000)), (0xFFFF_FFFF, (120_000, 120_000))]
    )
    def test_out_of_range_are_brought_into_it(
        self, site: Site, received: int, answered: tuple[int, int]
    ) -> None:
        peer = site.accepts()
        peer.says(establish(), peer.parameters(received, received, window=0))
        peer.hears(EstablishConnection)
        header = peer.hears(ConnectionParameters).header
        assert (header.recoverable_ack_timeout, header.ack_timeout) == answered

    @pytest.mark.conformance("MQQB-055")
    def test_with_a_window_of_0_let_one_message_through(self, site: Site) -> None:
        site.sends(b"1", b"2")
        peer = site.reaches(window=0)
        assert peer.hears_messages() == [b"1"]
        peer.acks(1, window=0)
        assert peer.hears_messages() == [b"2"]

    @pytest.mark.conformance("MQQB-057")
    def test_that_came_back_open_the_session(self, site: Site) -> None:
        site.addresses = {ADDRESS: [ADDRESS, "192.0.2.3"]}
        site.sends(b"1")
        peer = site.reaches(window=7)
        assert peer.session.peer_window == 7
        assert site.outgoing().next_hops == [f"IP={ADDRESS}"]
        assert site.history()[-1] is ConnectionStatus.ESTABLISHED
        site.assert_queue_is(OutgoingQueueState.CONNECTED)
        peer.acks(1)
        site.wait(60_000)  # the initialization timer is stopped
        peer.assert_open()

    @pytest.mark.conformance("MQQB-016")
    def test_may_refuse_as_well(self, site: Site) -> None:
        site.sends(b"1")
        peer = site.connects()
        peer.answers(peer.hears(EstablishConnection))
        peer.hears(ConnectionParameters)
        peer.says(replaced(frame(6), 18, b"\x13"))
        peer.assert_closed()
        assert site.history()[-1] is ConnectionStatus.CONNECTION_REFUSED
        assert site.bodies() == [b"1"]

    @pytest.mark.conformance("MQQB-057")
    def test_that_came_back_do_not_end_a_hold(self, site: Site) -> None:
        site.sends(b"1")
        site.run(lambda: site.engine.outgoing.pause(site.state()))
        peer = site.reaches()
        site.assert_queue_is(OutgoingQueueState.ON_HOLD)
        peer.assert_silence()


class TestPatience:
    """3.1.2.1, 3.1.6.6."""

    @pytest.mark.conformance("MQQB-046")
    def test_with_a_peer_that_says_nothing(self, site: Site) -> None:
        peer = site.accepts()
        assert peer.session.state is State.WAITING_EC
        site.wait(59_999)
        assert not peer.is_closed
        site.wait(1)
        peer.assert_closed()

    @pytest.mark.conformance("MQQB-059")
    @pytest.mark.parametrize(("delay_ms", "patience_ms"), [(0, 60_000), (500, 61_000)])
    def test_with_a_peer_that_does_not_answer(self, delay_ms: int, patience_ms: int) -> None:
        site = Site(round_trip_delay_ms=delay_ms)
        site.sends(b"1")
        peer = site.connects()
        peer.hears(EstablishConnection)
        site.wait(patience_ms - 1)
        assert not peer.is_closed
        site.wait(1)
        peer.assert_closed()

    @pytest.mark.conformance("MQQB-059")
    def test_with_an_initiator_that_stops_half_way(self, site: Site) -> None:
        peer = site.accepts()
        site.wait(30_000)
        peer.says(establish())
        peer.hears(EstablishConnection)
        site.wait(30_000)
        peer.assert_closed()


class TestTheHistoryOfFailures:
    """3.1.5.2."""

    @pytest.mark.conformance("MQQB-064")
    @pytest.mark.conformance("DMPR-057")
    def test_says_why(self, site: Site) -> None:
        site.addresses = {ADDRESS: []}
        site.sends(b"1")
        site.addresses = {}
        site.wait(5_000)
        site.fails_to_connect()
        site.wait(60_000)
        peer = site.connects()
        peer.answers(peer.hears(EstablishConnection), refused=True)
        site.wait(60_000)
        site.connects().hangs_up()
        site.wait(60_000)
        site.connects().hangs_up(RESET)
        site.wait(60_000)
        peer = site.connects(site.guid)
        peer.answers(peer.hears(EstablishConnection), refused=True)
        history = [
            (entry.status, entry.error)
            for entry in site.outgoing().connection_history
            if entry.status is not ConnectionStatus.IN_PROCESS
        ]
        assert history == [
            (ConnectionStatus.DNS_FAILURE, 0),
            (ConnectionStatus.SOCKET_CONNECT_FAILURE, 10061),
            (ConnectionStatus.CONNECTION_REFUSED, 0),
            (ConnectionStatus.UNKNOWN_FAILURE, 0),
            (ConnectionStatus.SOCKET_SEND_FAILURE, RESET),
            (ConnectionStatus.CONNECTION_REFUSED, ReachedOurselvesError.code),
        ]
        entry = site.outgoing().connection_history[1]
        assert (entry.connection_history_time, entry.address_list) == (NOW + 5, (ADDRESS,))


class TestANewSession:
    """3.1.3.2."""

    @pytest.mark.conformance("MQQB-060")
    def test_counts_from_1(self, site: Site) -> None:
        old = site.opens()
        old.sends(*(letter(number, recoverable=True) for number in (1, 2, 3)))
        old.hangs_up()
        peer = site.opens(recoverable_ack_timeout=500)
        assert not peer.session.is_active
        assert not peer.session.saw_direct_name
        peer.sends(letter(4, recoverable=True))
        site.wait(500)
        header = peer.hears(SessionAck).header
        assert (header.ack_sequence_number, header.recoverable_msg_ack_seq_number) == (1, 1)
        assert (header.recoverable_msg_ack_flags, header.user_msg_sequence_number) == (1, 0)

    @pytest.mark.conformance("MQQB-061")
    def test_sends_everything_again_from_1_on(self, site: Site) -> None:
        site.sends(b"1", b"2", b"3")
        peer = site.reaches()
        assert peer.hears_messages() == [b"1", b"2", b"3"]
        peer.hangs_up()
        site.wait(5_000)
        again = site.reaches()
        assert again.hears_messages() == [b"1", b"2", b"3"]
        assert again.session.flight.sent == 3
        again.acks(3)
        assert site.bodies() == []

    @pytest.mark.conformance("MQQB-063")
    def test_carries_messages_both_ways(self, site: Site) -> None:
        peer = site.opens()
        peer.sends(in_stream(1))
        site.wait(500)
        ack = peer.hears(OrderAck)
        assert (ack.body.tx_sequence_id, ack.body.tx_sequence_number) == (TxSequenceId(1, 1), 1)


def test_whoever_connects_is_told_in_the_log(site: Site) -> None:
    peer = site.opens()
    peer.says(establish())
    [accepted, opened, closed] = [event for _, event in site.did(SessionEvent)]
    assert (accepted.event, opened.event, closed.event) == ("accepted", "opened", "closed")
    assert (opened.address, opened.peer) == (ADDRESS, PEER)
    assert "EstablishConnection while open" in closed.reason
    assert THERE.startswith("DIRECT=TCP:" + opened.address)
