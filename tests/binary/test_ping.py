"""[MS-MQQB] 3.1.7.6 to 3.1.7.8: asking by UDP whether a session would be taken."""

import pytest

from tiercel.binary.actions import Resolve, SendDatagram
from tiercel.model.codes import ConnectionStatus
from tiercel.wire.internal_packets import EstablishConnection
from tiercel.wire.ping import Ping
from tiercel.wire.structure import encode_guid
from wire.packets import frame, replaced

from .site import ADDRESS, PEER, Site

CLIENT = ("192.0.2.9", 50_000)


@pytest.fixture
def asking() -> Site:
    """A site that pings, and has a message for somebody."""
    site = Site(ping=True)
    site.sends(b"1")
    return site


def answer(site: Site, data: bytes) -> None:
    site.run(lambda: site.protocol.datagram(ADDRESS, 3527, data, is_reply=True))


def reply(cookie: int, flags: int = 0) -> bytes:
    return Ping(flags, cookie=cookie, qm_guid=PEER).encode()


def question(site: Site, data: bytes) -> list[SendDatagram]:
    """What the site sends when it is asked."""
    site.run(lambda: site.protocol.datagram(*CLIENT, data, is_reply=False))
    answers = list(site.datagrams)
    site.datagrams.clear()
    return answers


class TestAnswering:
    @pytest.mark.conformance("MQQB-027")
    def test_repeats_the_cookie_and_says_who_it_is(self) -> None:
        site = Site(ping=True)
        [sent] = question(site, frame(1))
        assert (sent.address, sent.port) == CLIENT
        assert sent.is_reply
        assert sent.data[2:8] == bytes.fromhex("4855 04000000")
        assert sent.data[8:] == encode_guid(site.guid)

    @pytest.mark.conformance("MQQB-022")
    @pytest.mark.parametrize("data", [replaced(frame(1), 2, b"\x55\x48"), frame(1)[:-1], b""])
    def test_says_nothing_to_nonsense(self, data: bytes) -> None:
        assert question(Site(ping=True), data) == []

    @pytest.mark.conformance("MQQB-022")
    @pytest.mark.parametrize("number", [1, 2])
    def test_understands_what_windows_says(self, number: int) -> None:
        assert Ping.decode(frame(number)).encode() == frame(number)

    @pytest.mark.conformance("MQQB-023")
    @pytest.mark.parametrize(
        ("asked", "answered"), [(0x7D01, 1), (0xB295, 1), (0x7D00, 0), (0xFFFC, 0), (0xFFFD, 1)]
    )
    def test_copies_one_flag_and_ignores_the_others(self, asked: int, answered: int) -> None:
        [sent] = question(Site(ping=True), Ping(asked, cookie=1).encode())
        assert Ping.decode(sent.data).flags == answered

    @pytest.mark.conformance("MQQB-024")
    @pytest.mark.parametrize(("limit", "flags"), [(0, 3), (1, 1), (None, 1)])
    def test_says_whether_a_session_would_be_refused(self, limit: int | None, flags: int) -> None:
        [sent] = question(Site(ping=True, max_in_sessions=limit), frame(1))
        assert Ping.decode(sent.data).flags == flags

    @pytest.mark.conformance("MQQB-024")
    def test_says_so_when_the_last_place_is_taken(self) -> None:
        site = Site(ping=True, max_in_sessions=1)
        peer = site.opens()
        [full] = question(site, frame(1))
        peer.hangs_up()
        [free] = question(site, frame(1))
        assert [Ping.decode(each.data).is_refused for each in (full, free)] == [True, False]

    @pytest.mark.conformance("MQQB-026")
    def test_is_off_by_default(self) -> None:
        assert question(Site(), frame(1)) == []


class TestAsking:
    @pytest.mark.conformance("MQQB-026")
    def test_is_off_by_default(self, site: Site) -> None:
        site.sends(b"1")
        assert site.dialled() == [(0, ADDRESS)]
        assert not site.datagrams

    @pytest.mark.conformance("MQQB-028")
    def test_counts_its_questions_over_all_sessions(self, asking: Site) -> None:
        assert asking.datagrams.popleft().data[:8] == bytes.fromhex("0100 4855 01000000")
        answer(asking, reply(1))
        peer = asking.reaches()
        peer.acks(1)
        asking.sends(b"2", to=r"DIRECT=TCP:192.0.2.3\private$\q")
        assert Ping.decode(asking.datagrams.popleft().data) == Ping(1, cookie=2, qm_guid=asking.guid)

    @pytest.mark.conformance("MQQB-029")
    def test_waits_for_the_right_answer(self, asking: Site) -> None:
        answer(asking, reply(0))
        answer(asking, replaced(reply(1), 2, b"\x55\x48"))
        asking.wait(300)
        assert asking.dialled() == []
        answer(asking, reply(1))
        assert asking.dialled() == [(300, ADDRESS)]

    @pytest.mark.conformance("MQQB-030")
    def test_waits_for_a_second(self, asking: Site) -> None:
        asking.wait(999)
        assert asking.history() == []
        asking.wait(1)
        assert asking.history() == [ConnectionStatus.PING_FAILURE]
        asking.wait(1)
        answer(asking, reply(1))
        assert asking.dialled() == []

    @pytest.mark.conformance("MQQB-030")
    def test_hears_that_it_is_not_wanted(self, asking: Site) -> None:
        answer(asking, reply(1, flags=2))
        assert asking.history() == [ConnectionStatus.PING_FAILURE]
        assert asking.dialled() == []

    @pytest.mark.conformance("MQQB-030")
    def test_goes_on_when_it_is_welcome(self, asking: Site) -> None:
        answer(asking, reply(1, flags=0xFFFD))
        assert asking.dialled() == [(0, ADDRESS)]

    @pytest.mark.conformance("MQQB-031", "MQQB-042")
    def test_is_left_out_when_it_tries_again(self, asking: Site) -> None:
        asking.wait(1_000)
        assert asking.history() == [ConnectionStatus.PING_FAILURE]
        asking.wait(4_999)
        assert asking.dialled() == []
        asking.wait(1)
        assert asking.dialled() == [(6_000, ADDRESS)]
        assert len(asking.datagrams) == 1
        assert len(asking.did(Resolve)) == 2
        assert asking.connects().hears(EstablishConnection).header.operating_system == 0x0110

    @pytest.mark.conformance("MQQB-031")
    def test_that_failed_is_the_end_when_nothing_is_to_be_sent(self) -> None:
        site = Site(ping=True)
        site.sends(b"1", time_to_reach_queue=2)
        site.wait(3_600_000)
        assert site.history() == [ConnectionStatus.PING_FAILURE]
        assert site.dialled() == []

    @pytest.mark.conformance("MQQB-042")
    def test_is_told_in_the_first_packet(self, asking: Site) -> None:
        answer(asking, reply(1))
        assert asking.connects().hears(EstablishConnection).header.operating_system == 0x0010

    @pytest.mark.conformance("MQQB-025")
    @pytest.mark.parametrize("port", [3527, 4000])
    def test_goes_to_the_port_of_the_service(self, port: int) -> None:
        site = Site(ping=True, ping_port=port)
        site.sends(b"1")
        [sent] = site.datagrams
        assert (sent.address, sent.port, len(sent.data)) == (ADDRESS, port, 24)
        assert not sent.is_reply
