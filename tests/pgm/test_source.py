"""The sending end of a session: rate, window, SPMs, repairs."""

from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from pgm.vectors import GROUP, PORT, SOURCE, TSI
from tiercel.pgm.limits import NCFS_A_SECOND
from tiercel.pgm.outputs import Outgoing
from tiercel.pgm.packet import Data, Nak, Options, Packet, PacketType, Spm, Tsi, decode
from tiercel.pgm.settings import Settings
from tiercel.pgm.source import Source, State

QUICK = Settings(rate_bytes_s=100_000_000)


@dataclass
class Lab:
    """A source with a clock, and everything that it has sent: (time, packet, octets on the wire)."""

    settings: Settings = QUICK
    first: int = 0
    now: float = 0.0
    sent: list[tuple[float, Packet, int]] = field(default_factory=list)
    raw: list[Outgoing] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.source = Source(TSI, GROUP, PORT, SOURCE, self.settings, self.now, self.first)

    def run(self, seconds: float = 0.0) -> None:
        """Step from deadline to deadline."""
        end = self.now + seconds
        for _ in range(100_000):
            self._take()
            deadline = self.source.next_deadline
            if deadline is None or deadline > end:
                break
            assert deadline >= self.now - 1e-9
            self.now = max(deadline, self.now)
        else:
            raise AssertionError("it is due for ever")
        self.now = end
        self._take()

    def _take(self) -> None:
        for out in self.source.run(self.now):
            self.raw.append(out)
            size = 20 + (4 if out.router_alert else 0) + len(out.data)
            self.sent.append((self.now, decode(out.data), size))

    def send(self, count: int, size: int = 10) -> None:
        for _ in range(count):
            self.source.submit(bytes(size))

    def nak(self, first: int, *others: int, group: str = GROUP, tsi: Tsi = TSI, port: int = PORT) -> None:
        nak = Nak(PacketType.NAK, tsi, port, first, SOURCE, group, Options(nak_list=others))
        self.source.receive(nak, self.now)

    def of(self, kind: PacketType) -> list[tuple[float, Packet]]:
        return [(at, packet) for at, packet, _ in self.sent if packet.kind is kind]

    def forget(self) -> None:
        self.sent.clear()
        self.raw.clear()

    @property
    def spms(self) -> list[Spm]:
        return [packet for _, packet, _ in self.sent if isinstance(packet, Spm)]

    @property
    def repairs(self) -> list[Data]:
        return [packet for _, packet in self.of(PacketType.RDATA) if isinstance(packet, Data)]


class TestSpms:
    def test_the_first_packet_says_where_the_data_will_begin(self) -> None:
        lab = Lab(first=100)
        lab.run()
        assert (lab.spms[0].trail, lab.spms[0].lead, lab.spms[0].path) == (100, 99, SOURCE)

    @pytest.mark.conformance("SRMP-186")
    def test_one_for_every_fifty_packets_and_every_half_second(self) -> None:
        lab = Lab()
        lab.send(120)
        lab.run()
        kinds = [packet.kind for _, packet, _ in lab.sent]
        gaps = "".join("s" if kind is PacketType.SPM else "d" for kind in kinds).split("s")
        assert max(map(len, gaps)) == 50
        assert len(lab.spms) == 3
        lab.forget()
        lab.run(10.0)
        times = [at for at, _ in lab.of(PacketType.SPM)]
        assert max(b - a for a, b in pairwise(times)) <= 0.5 + 1e-6

    @pytest.mark.conformance("SRMP-186")
    def test_heartbeats_become_rarer_after_data(self) -> None:
        lab = Lab(Settings(rate_bytes_s=100_000_000, ambient_s=0))
        lab.run(5.0)
        lab.forget()
        lab.send(1)
        lab.run(50.0)
        assert [at - 5.0 for at, _ in lab.of(PacketType.SPM)] == [1, 3, 7, 15, 30, 45]


class TestRate:
    @pytest.mark.conformance("SRMP-184")
    @pytest.mark.parametrize("rate", [70_000, 20_000])
    def test_no_interval_has_more_than_the_rate_and_one_bucket(self, rate: int) -> None:
        lab = Lab(Settings(rate_bytes_s=rate))
        lab.send(60, 4000)
        lab.run(20.0)
        bucket = max(rate * 0.04, 1500)
        times = [(at, size) for at, packet, size in lab.sent if packet.kind is not PacketType.NCF]
        for start in range(0, len(times), 3):
            octets = 0
            for at, size in times[start:]:
                octets += size
                assert octets <= bucket + rate * (at - times[start][0]) + 1
        assert sum(size for _, size in times) >= min(rate * 19, 240_000)

    def test_a_flood_of_naks_is_answered_in_measure_and_data_keeps_half_the_rate(self) -> None:
        lab = Lab(Settings(rate_bytes_s=70_000))
        lab.send(50, 1000)
        lab.run(2.0)
        lab.forget()
        lab.send(300, 1000)
        for _ in range(1000):
            for number in range(10):
                lab.nak(lab.now.__hash__() % 7 + number)
            lab.run(0.001)
        octets = {kind: sum(s for _, p, s in lab.sent if p.kind is kind) for kind in PacketType}
        assert len(lab.of(PacketType.NCF)) <= 2 * NCFS_A_SECOND
        assert octets[PacketType.RDATA] <= octets[PacketType.ODATA] + 1500
        assert octets[PacketType.RDATA] + octets[PacketType.ODATA] + octets[PacketType.SPM] <= 75_000


class TestWindow:
    @pytest.mark.conformance("SRMP-185")
    def test_it_advances_every_45_seconds_and_keeps_255(self) -> None:
        lab = Lab()
        moves = []
        for second in range(600):
            lab.send(1)
            before = lab.source.trail
            lab.run(1.0)
            if lab.source.trail != before:
                moves.append(second + 1)
                assert lab.source.trail <= second + 1 - 255 + 1
                assert lab.source.trail >= second + 1 - 300
        assert moves == list(range(270, 601, 45))

    def test_data_is_repaired_for_254_seconds_and_gone_after_300(self) -> None:
        lab = Lab()
        lab.send(1)
        lab.run(254.0)
        lab.nak(0)
        lab.run(0.1)
        assert [packet.number for packet in lab.repairs] == [0]
        lab.run(46.0)
        lab.forget()
        lab.nak(0)
        lab.run(1.0)
        assert not lab.repairs
        assert (lab.source.trail, lab.source.lead) == (1, 0)

    @pytest.mark.conformance("SRMP-189")
    def test_a_pending_repair_holds_the_trailing_edge(self) -> None:
        lab = Lab()
        lab.send(10)
        lab.run(269.99)
        lab.nak(5)  # its repair is due 36 ms later, after the advance
        lab.run(0.02)
        assert lab.source.trail == 5
        lab.run(0.1)
        assert [packet.number for packet in lab.repairs] == [5]
        assert lab.source.trail == 10

    def test_naks_do_not_postpone_the_advance(self) -> None:
        lab = Lab()
        lab.send(10)
        for _ in range(280):
            lab.nak(3)
            lab.run(1.0)
        assert lab.source.trail == 10

    def test_a_window_without_room_advances_early(self) -> None:
        lab = Lab(Settings(rate_bytes_s=100_000_000, window_bytes=100_000))
        lab.send(500, 1000)
        lab.run(0.1)
        assert lab.source.lead == 499
        assert lab.source.window_bytes <= 100_000
        assert 400 < lab.source.trail <= 499

    def test_a_pending_repair_at_the_edge_of_a_full_window_makes_data_wait(self) -> None:
        lab = Lab(Settings(rate_bytes_s=100_000_000, window_bytes=100_000, repair_delay_s=2.0))
        lab.send(83, 1000)
        lab.run(0.1)
        oldest = lab.source.trail
        lab.nak(oldest + 1)
        lab.send(83, 1000)
        lab.run(0.001)
        assert lab.source.trail == oldest + 1
        lab.run(2.0)
        assert lab.source.lead == 165
        assert [packet.number for packet in lab.repairs] == [oldest + 1]


class TestRepair:
    @pytest.mark.conformance("SRMP-190")
    def test_a_nak_has_an_ncf_at_once_and_each_number_once(self) -> None:
        lab = Lab()
        lab.send(10)
        lab.run(1.0)
        lab.forget()
        lab.nak(5, 6, 7, 9)
        lab.run()
        (ncf,) = [packet for _, packet in lab.of(PacketType.NCF)]
        assert isinstance(ncf, Nak)
        assert (ncf.numbers, ncf.source, ncf.group) == ((5, 6, 7, 9), SOURCE, GROUP)
        lab.nak(5, 6, 7, 9)  # the copy that went to the group
        lab.run(0.4)
        assert len(lab.of(PacketType.NCF)) == 1
        assert [packet.number for packet in lab.repairs] == [5, 6, 7, 9]
        assert all(out.router_alert for out in lab.raw if decode(out.data).kind is not PacketType.ODATA)

    @pytest.mark.conformance("SRMP-188")
    @pytest.mark.parametrize(
        ("first", "lead", "number", "delay"),
        [
            (10, 109, 10, 0.0),
            (10, 109, 60, 0.030),
            (10, 109, 109, 0.0594),
            (0xFFFF_FFFE, 0x1_0000_0003, 0x1_0000_0001, 0.030),
        ],
    )
    def test_the_older_the_sooner(self, first: int, lead: int, number: int, delay: float) -> None:
        lab = Lab(first=first)
        lab.send(lead - first + 1)
        lab.run(0.2)
        lab.forget()
        started = lab.now
        lab.nak(number & 0xFFFF_FFFF)
        lab.run(0.1)
        assert [at - started for at, _ in lab.of(PacketType.RDATA)] == pytest.approx([delay])

    @pytest.mark.conformance("SRMP-190")
    def test_a_nak_outside_the_window_shows_the_window(self) -> None:
        lab = Lab(Settings(rate_bytes_s=100_000_000, ambient_s=0), first=100)
        lab.send(1)
        lab.run(0.1)
        lab.forget()
        for number in (99, 98, 101, 5000):
            lab.nak(number)
            lab.run()
        assert [packet.kind for _, packet, _ in lab.sent] == [PacketType.SPM]

    def test_naks_of_other_sessions_and_other_packets_are_ignored(self) -> None:
        lab = Lab(Settings(rate_bytes_s=100_000_000, ambient_s=0))
        lab.send(3)
        lab.run(0.1)
        lab.forget()
        lab.nak(1, group="234.1.1.2")
        lab.nak(1, tsi=Tsi(b"others", TSI.source_port))
        lab.nak(1, port=8002)
        lab.source.receive(Nak(PacketType.NAK, TSI, PORT, 1, "10.9.0.9", GROUP), lab.now)
        lab.source.receive(Nak(PacketType.NNAK, TSI, PORT, 1, SOURCE, GROUP), lab.now)
        lab.run(0.5)
        assert lab.sent == []

    def test_a_repair_keeps_the_content_and_has_the_current_trail(self) -> None:
        lab = Lab()
        lab.send(1, 5000)
        lab.run(1.0)
        originals = {p.number: p for _, p in lab.of(PacketType.ODATA) if isinstance(p, Data)}
        lab.nak(2)
        lab.run(0.1)
        (repair,) = lab.repairs
        assert repair == originals[2]._replace(kind=PacketType.RDATA)

    @pytest.mark.conformance("SRMP-183")
    @pytest.mark.parametrize("size", [1, 1452, 1453, 10_000, 65_535])
    def test_fragments_leave_room_for_the_router_alert(self, size: int) -> None:
        lab = Lab()
        apdu = bytes(at % 251 for at in range(size))
        lab.source.submit(apdu)
        lab.run(1.0)
        lab.nak(0)
        lab.run(0.1)
        assert max(octets for _, _, octets in lab.sent) <= 1500
        data = [packet for _, packet in lab.of(PacketType.ODATA) if isinstance(packet, Data)]
        assert b"".join(packet.payload for packet in data) == apdu
        assert (data[0].options.fragment is None) == (size <= 1452)
        assert all(p.options.fragment.first == 0 for p in data if p.options.fragment is not None)


class TestEnd:
    @pytest.mark.conformance("SRMP-192")
    def test_closing_sends_what_is_queued_and_repairs_as_long_as_the_window_lasts(self) -> None:
        lab = Lab(Settings(rate_bytes_s=70_000))
        lab.send(20, 1000)
        lab.source.close()
        lab.run(5.0)
        assert len(lab.of(PacketType.ODATA)) == 20
        assert [spm.options.fin for spm in lab.spms][-3:] == [True] * 3
        lab.nak(3)
        lab.run(1.0)
        assert [packet.number for packet in lab.repairs] == [3]
        lab.run(300.0)
        assert lab.source.state is State.GONE

    @pytest.mark.conformance("SRMP-192")
    def test_cancelling_sends_three_rst_and_answers_nothing_more(self) -> None:
        lab = Lab(Settings(rate_bytes_s=70_000))
        lab.send(20, 1000)
        lab.run(0.1)
        lab.forget()
        lab.source.abort()
        lab.nak(0)
        lab.run(1.0)
        assert [packet.kind for _, packet, _ in lab.sent] == [PacketType.SPM] * 3
        assert [spm.options.rst for spm in lab.spms] == [0x40] * 3
        assert lab.source.state is State.GONE

    def test_options_that_windows_does_not_send(self) -> None:
        lab = Lab()
        lab.send(3, 3000)
        lab.run(1.0)
        options = [packet.options for _, packet, _ in lab.sent if isinstance(packet, (Data, Spm))]
        assert not any(each.syn or each.join is not None for each in options)

    def test_a_queue_manager_that_ends_says_so_three_times(self) -> None:
        lab = Lab()
        lab.send(1)
        lab.run(1.0)
        spms = [decode(out.data) for out in lab.source.last_words()]
        assert [spm.options.fin for spm in spms if isinstance(spm, Spm)] == [True] * 3
        assert lab.source.next_deadline is None
