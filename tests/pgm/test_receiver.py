"""The receiving end of a session: gaps, NAKs, order, fragments, joining and ending."""

import tracemalloc
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest

from pgm.vectors import GROUP, PORT, SOURCE, TSI, conversation
from tiercel.pgm.limits import NAKS_A_SECOND, SESSIONS_A_GROUP
from tiercel.pgm.outputs import Outgoing
from tiercel.pgm.packet import NO_OPTIONS, Data, Fragment, Nak, Options, PacketType, Spm, Tsi, decode
from tiercel.pgm.receiver import Receiver
from tiercel.pgm.session import Session, Shared, State
from tiercel.pgm.settings import Settings

FIN, RST = Options(fin=True), Options(rst=0x40)


@dataclass
class Lab:
    """A receiver with a clock, what it has delivered (None for a loss) and the NAKs that it has sent."""

    now: float = 0.0
    draw: float = 0.5
    got: list[bytes | None] = field(default_factory=list)
    naks: list[tuple[float, Outgoing, Nak]] = field(default_factory=list)
    spm_number: int = 0

    def __post_init__(self) -> None:
        self.shared = Shared(self.now)
        self.receiver = Receiver(GROUP, PORT, Settings(), lambda: self.draw, self.shared)

    def hear(self, packet: Data | Spm | Nak, address: str = SOURCE) -> None:
        session = self.receiver.receive(packet, address, self.now)
        self._take(session)

    def _take(self, session: Session | None) -> None:
        if session is not None:
            self.got += session.delivered
            session.delivered.clear()

    def data(self, *numbers: int, trail: int = 0, kind: PacketType = PacketType.ODATA, **more: Any) -> None:
        for number in numbers:
            payload = more.get("payload", b"%d" % number)
            options = more.get("options", Options())
            self.hear(Data(kind, more.get("tsi", TSI), PORT, number, trail, payload, options))

    def repair(self, *numbers: int, trail: int = 0) -> None:
        self.data(*numbers, trail=trail, kind=PacketType.RDATA)

    def spm(self, trail: int, lead: int, options: Options = NO_OPTIONS, path: str = SOURCE) -> None:
        self.hear(Spm(TSI, PORT, self.spm_number & 0xFFFF_FFFF, trail, lead, path, options))
        self.spm_number += 1

    def ncf(self, *numbers: int, kind: PacketType = PacketType.NCF) -> None:
        first, *others = numbers
        address = SOURCE if kind is PacketType.NCF else "10.9.0.7"
        self.hear(Nak(kind, TSI, PORT, first, SOURCE, GROUP, Options(nak_list=tuple(others))), address)

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        for _ in range(100_000):
            output, moved = self.receiver.run(self.now)
            for out in output:
                nak = decode(out.data)
                assert isinstance(nak, Nak)
                self.naks.append((self.now, out, nak))
            for session in moved:
                self._take(session)
            deadline = self.receiver.next_deadline
            if deadline is None or deadline > end:
                break
            self.now = max(deadline, self.now)
        else:
            raise AssertionError("it is due for ever")
        self.now = end

    @property
    def session(self) -> Session:
        return self.receiver.sessions[TSI]

    @property
    def asked(self) -> list[tuple[float, tuple[int, ...]]]:
        """NAKs without their copies to the group."""
        return [(at, nak.numbers) for at, out, nak in self.naks if not out.one_hop]


def numbers(*found: int | None) -> Sequence[bytes | None]:
    return [None if number is None else b"%d" % number for number in found]


@pytest.mark.parametrize("name", ["plain", "loss"])
def test_the_apdus_of_openpgm(name: str) -> None:
    lab = Lab()
    real = conversation(name)
    for each in real["packets"]:
        packet = decode(bytes.fromhex(each["pgm"]))
        if isinstance(packet, (Data, Spm)):
            lab.hear(packet)
    assert [apdu.hex() for apdu in lab.got if apdu is not None] == real["apdus_delivered_in_order"]


class TestRepair:
    @pytest.mark.conformance("SRMP-190")
    def test_a_gap_is_asked_for_at_the_source_and_in_the_group(self) -> None:
        lab = Lab()
        lab.spm(0, 0xFFFF_FFFF)
        lab.data(0, 2)
        lab.run(0.1)
        assert lab.got == numbers(0)
        (at, unicast, nak), (_, multicast, copy) = lab.naks
        assert at == pytest.approx(0.03)
        assert (nak.kind, nak.numbers, nak.source, nak.group) == (PacketType.NAK, (1,), SOURCE, GROUP)
        assert (unicast.address, unicast.one_hop) == (SOURCE, False)
        assert (multicast.address, multicast.one_hop, copy) == (GROUP, True, nak)
        lab.repair(1)
        assert lab.got == numbers(0, 1, 2)

    @pytest.mark.parametrize(("draw", "delay"), [(0.0, 0.01), (1.0, 0.05)])
    @pytest.mark.conformance("SRMP-187")
    def test_the_back_off_is_drawn(self, draw: float, delay: float) -> None:
        lab = Lab(draw=draw)
        lab.spm(0, 0xFFFF_FFFF)
        lab.data(0, 2)
        lab.run(0.1)
        assert [at for at, _ in lab.asked] == pytest.approx([delay])

    def test_no_nak_before_the_first_spm(self) -> None:
        lab = Lab()
        lab.data(0, 2)
        lab.run(3.0)
        assert lab.naks == []
        lab.spm(0, 2)
        lab.run(1.0)
        assert [found for _, found in lab.asked] == [(1,), (1,)]

    def test_numbers_that_are_missed_together_are_asked_for_together(self) -> None:
        lab = Lab()
        lab.data(0)
        lab.spm(0, 3)
        lab.run(0.1)
        assert [found for _, found in lab.asked] == [(1, 2, 3)]

    @pytest.mark.conformance("SRMP-187")
    def test_without_a_confirmation_it_asks_ten_times_and_gives_up(self) -> None:
        lab = Lab()
        lab.spm(0, 0xFFFF_FFFF)
        lab.data(0, 2)
        lab.run(20.0)
        times = [at for at, _ in lab.asked]
        assert len(times) == 10
        assert [b - a for a, b in pairwise(times)] == pytest.approx([0.78] * 9)
        assert lab.got == numbers(0, None, 2)
        assert (lab.session.lost, lab.session.missing) == (1, 0)
        lab.data(3)
        assert lab.got == numbers(0, None, 2, 3)

    @pytest.mark.conformance("SRMP-187")
    def test_confirmed_but_never_repaired_it_asks_ten_times_and_gives_up(self) -> None:
        lab = Lab()
        lab.spm(0, 0xFFFF_FFFF)
        lab.data(0, 2)
        for _ in range(10):
            before = len(lab.asked)
            while len(lab.asked) == before:
                lab.run(0.01)
            lab.ncf(1)
        assert lab.got == numbers(0)
        lab.run(2.1)
        assert lab.got == numbers(0, None, 2)
        times = [at for at, _ in lab.asked]
        assert [b - a for a, b in pairwise(times)] == pytest.approx([2.03] * 9, abs=0.02)

    def test_a_confirmation_during_the_back_off_suppresses_the_nak(self) -> None:
        lab = Lab()
        lab.spm(0, 0xFFFF_FFFF)
        lab.data(0, 2)
        lab.ncf(1)
        lab.run(1.99)
        assert lab.naks == []
        lab.run(0.1)
        assert [found for _, found in lab.asked] == [(1,)]

    def test_the_nak_of_another_receiver_suppresses_ours(self) -> None:
        lab = Lab()
        lab.spm(0, 0xFFFF_FFFF)
        lab.data(0, 2)
        lab.ncf(1, kind=PacketType.NAK)
        lab.run(0.74)
        assert lab.naks == []
        lab.run(0.1)
        assert [found for _, found in lab.asked] == [(1,)]

    def test_when_the_source_cannot_repair_any_more(self) -> None:
        lab = Lab()
        lab.spm(0, 0xFFFF_FFFF)
        lab.data(0, 2)
        lab.spm(2, 2)
        lab.run(5.0)
        assert lab.naks == []
        assert lab.got == numbers(0, None, 2)
        assert lab.session.lost == 1

    @pytest.mark.conformance("SRMP-191")
    def test_delivery_is_in_order_over_the_wrap(self) -> None:
        lab = Lab(spm_number=0xFFFF_FFFF)
        top = 0xFFFF_FFFE
        lab.data(top, 0xFFFF_FFFF, trail=top)
        lab.data(1, trail=top)
        lab.spm(top, 1)
        lab.spm(top, 2)  # SPM_SQN has wrapped
        lab.repair(0, trail=top)
        assert lab.got == numbers(top, 0xFFFF_FFFF, 0, 1)
        lab.run(0.1)
        assert [found for _, found in lab.asked] == [(2,)]

    def test_duplicates_and_packets_of_another_address_change_nothing(self) -> None:
        lab = Lab()
        lab.data(0, 0, 1)
        lab.repair(1)
        lab.hear(Data(PacketType.ODATA, TSI, PORT, 2, 0, b"false"), "10.9.0.66")
        lab.hear(Spm(TSI, PORT, 9, 3, 50, "10.9.0.66"), "10.9.0.66")
        lab.data(2)
        assert lab.got == numbers(0, 1, 2)
        assert lab.session.missing == 0

    def test_promises_do_not_postpone_a_repair_for_ever(self) -> None:
        lab = Lab()
        lab.spm(0, 0xFFFF_FFFF)
        lab.data(0, 2)
        for _ in range(70):
            lab.ncf(1)
            lab.run(1.0)
        assert lab.got == numbers(0, None, 2)


class TestJoining:
    @pytest.mark.conformance("SRMP-192")
    def test_a_late_receiver_starts_at_the_current_data(self) -> None:
        lab = Lab()
        lab.data(5)
        lab.spm(0, 5, Options(join=0))
        lab.run(3.0)
        assert (lab.got, lab.naks) == (numbers(5), [])
        lab.data(8, trail=6)
        lab.run(0.1)
        assert [found for _, found in lab.asked] == [(6, 7)]

    def test_in_the_middle_of_an_apdu(self) -> None:
        lab = Lab()
        for number, offset in ((4, 3), (5, 6)):
            lab.data(number, payload=b"abc", options=Options(Fragment(3, offset, 9)))
        lab.data(6)
        lab.run(1.0)
        assert (lab.got, lab.naks) == (numbers(6), [])

    def test_after_an_spm_the_first_packet_is_repaired(self) -> None:
        lab = Lab()
        lab.spm(7, 6)
        lab.data(8, trail=7)
        lab.run(0.1)
        assert [found for _, found in lab.asked] == [(7,)]

    @pytest.mark.parametrize("kind", [PacketType.RDATA, PacketType.NCF, PacketType.NAK])
    def test_other_packets_open_no_session(self, kind: PacketType) -> None:
        lab = Lab()
        if kind is PacketType.RDATA:
            lab.repair(3)
        else:
            lab.ncf(3, kind=kind)
        assert not lab.receiver.sessions

    def test_an_spm_without_a_window_opens_no_session(self) -> None:
        lab = Lab()
        lab.spm(0, 0x8000_0000)
        assert not lab.receiver.sessions


class TestFragments:
    @pytest.mark.conformance("SRMP-183")
    @pytest.mark.parametrize("size", [1, 1452, 1453, 10_000, 65_535, 65_536])
    def test_an_apdu_in_pieces(self, size: int) -> None:
        lab = Lab()
        apdu = bytes(at % 251 for at in range(size))
        pieces = [apdu[at : at + 1432] for at in range(0, size, 1432)]
        for number, piece in enumerate(pieces):
            options = Options(Fragment(0, number * 1432, size))
            lab.hear(Data(PacketType.ODATA, TSI, PORT, number, 0, piece, options))
        assert lab.got == [apdu]

    @pytest.mark.parametrize(
        "second", [Fragment(1, 3, 9), Fragment(0, 4, 9), Fragment(0, 3, 8), Fragment(0, 0, 9)]
    )
    def test_pieces_that_do_not_fit_end_the_apdu(self, second: Fragment) -> None:
        lab = Lab()
        lab.data(0, payload=b"abc", options=Options(Fragment(0, 0, 9)))
        lab.data(1, payload=b"def", options=Options(second))
        lab.data(2, payload=b"ghi", options=Options(Fragment(0, 6, 9)))
        lab.data(3)
        assert lab.got == numbers(3)
        assert lab.session.reassembly.dropped == 1

    def test_a_lost_piece_loses_its_apdu_only(self) -> None:
        lab = Lab()
        lab.data(0, payload=b"abc", options=Options(Fragment(0, 0, 9)))
        lab.data(2, payload=b"ghi", options=Options(Fragment(0, 6, 9)))
        lab.data(3, trail=2)
        assert lab.got == numbers(None, 3)


class TestEnd:
    @pytest.mark.conformance("SRMP-192")
    def test_fin_closes_after_the_gaps_are_repaired(self) -> None:
        lab = Lab()
        lab.data(0, 2)
        lab.spm(0, 3, FIN)
        session = lab.session
        lab.run(0.1)
        assert [found for _, found in lab.asked] == [(1, 3)]
        states = [session.state]
        lab.repair(1)
        lab.repair(3)
        assert lab.got == numbers(0, 1, 2, 3)
        assert [*states, session.state] == [State.ENDING, State.CLOSED]
        lab.data(4)
        assert not lab.receiver.sessions

    @pytest.mark.conformance("SRMP-192")
    def test_rst_closes_at_once(self) -> None:
        lab = Lab()
        lab.spm(0, 0xFFFF_FFFF)
        lab.data(0, 2)
        lab.spm(0, 2, RST)
        lab.run(10.0)
        lab.data(3)
        assert (lab.got, lab.naks) == (numbers(0), [])
        assert not lab.receiver.sessions

    def test_a_closed_session_may_come_again_after_the_window_has_passed(self) -> None:
        lab = Lab()
        lab.data(0)
        lab.spm(0, 0, FIN)
        lab.run(301.0)
        lab.data(1)
        assert lab.got == numbers(0, 1)

    def test_a_silent_source_is_forgotten(self) -> None:
        lab = Lab()
        lab.data(0)
        lab.run(400.0)
        assert not lab.receiver.sessions
        assert lab.receiver.next_deadline is None


class TestHostileInput:
    def test_a_jump_needs_a_second_packet(self) -> None:
        lab = Lab()
        lab.spm(0, 0xFFFF_FFFF)
        lab.data(0)
        far = 1 << 20
        tracemalloc.start()
        lab.data(far)
        lab.spm(0, far * 2)
        lab.run(1.0)
        assert tracemalloc.get_traced_memory()[1] < 200_000
        tracemalloc.stop()
        assert (lab.naks, lab.session.missing) == ([], 0)
        lab.data(1)
        lab.data(far + 1, far + 2)
        assert lab.got == numbers(0, 1, None, far + 1, far + 2)

    def test_a_large_gap_costs_little_and_asks_in_measure(self) -> None:
        lab = Lab()
        lab.spm(0, 0xFFFF_FFFF)
        lab.data(0)
        tracemalloc.start()
        lab.data(60_000)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
        tracemalloc.stop()
        lab.run(1.0)
        assert 0 < len(lab.asked) <= 2 * NAKS_A_SECOND
        lab.repair(40_000, 40_002)
        assert lab.session.missing == 59_997

    @pytest.mark.parametrize("step", [3, 65_000])
    @pytest.mark.parametrize("by", ["data", "spm"])
    def test_a_gap_that_cannot_be_repaired_costs_one_step_whatever_its_length(
        self, monkeypatch: pytest.MonkeyPatch, by: str, step: int
    ) -> None:
        """A stranger can send many packets that open such gaps; each took 55 ms."""
        lab, steps, lose = Lab(), list[int](), Session._lose

        def spy(self: Session, count: int) -> None:
            steps.append(count)
            lose(self, count)

        monkeypatch.setattr(Session, "_lose", spy)
        lab.data(0, 1)
        for last in (1, 1 + step, 1 + 2 * step):
            if by == "spm":
                lab.spm(last + step, last + step - 1)
            else:
                lab.data(last + step, trail=last + step)
        assert steps == ([step - 1, step, step] if by == "spm" else [step - 1] * 3)
        assert lab.session.lost == sum(steps)
        assert lab.session.missing == 0

    def test_numbers_behind_a_gap_that_is_given_up_are_delivered(self) -> None:
        """Some that are here, some that are being repaired, and some before the window."""
        lab = Lab()
        lab.spm(0, 0)
        lab.data(1, 4, 5, 8, 10)
        lab.spm(9, 10)
        assert lab.got == [b"1", None, b"4", b"5", None, b"8"]
        assert lab.session.missing == 1
        lab.repair(9)
        assert lab.got[6:] == numbers(9, 10)

    def test_spm_numbers_that_jump_do_not_silence_the_source(self) -> None:
        lab = Lab()
        lab.spm(0, 0xFFFF_FFFF)
        lab.hear(Spm(TSI, PORT, 0x7000_0000, 0, 0xFFFF_FFFF, SOURCE))
        lab.spm(0, 2)
        assert lab.session.missing == 3

    @pytest.mark.parametrize("path", ["0.0.0.0", "0.1.2.3", "127.0.0.1", "255.255.255.255", "234.1.1.1"])  # noqa: S104
    def test_a_path_must_be_a_host(self, path: str) -> None:
        lab = Lab()
        lab.data(0)
        lab.spm(0, 0, path=path)
        assert lab.session.path is None

    def test_another_path_counts_when_it_is_repeated(self) -> None:
        lab = Lab()
        for path, result in (
            (SOURCE, SOURCE),
            ("10.9.0.3", SOURCE),
            (SOURCE, SOURCE),
            ("10.9.0.3", SOURCE),
            ("10.9.0.3", "10.9.0.3"),
        ):
            lab.spm(0, 0xFFFF_FFFF, path=path)
            assert lab.session.path == result

    def test_thousands_of_sources_do_not_displace_one_that_delivers(self) -> None:
        lab = Lab()
        lab.data(0, 1, 2)
        for number in range(3 * SESSIONS_A_GROUP):
            lab.now += 0.001
            lab.data(7, tsi=Tsi(number.to_bytes(6, "big"), 1))
        assert len(lab.receiver.sessions) == SESSIONS_A_GROUP
        assert TSI in lab.receiver.sessions

    def test_memory_behind_a_gap_is_bounded(self) -> None:
        lab = Lab()
        lab.data(0)
        for number in range(2, 7002):
            lab.data(number, payload=bytes(1400))
        assert lab.shared.buffered_bytes <= 8 << 20
        assert None in lab.got
        lab.receiver.stop()
        assert lab.shared.buffered_bytes == 0

    def test_data_that_is_older_than_its_own_window_is_ignored(self) -> None:
        lab = Lab()
        lab.data(0)
        lab.data(1, trail=2)
        lab.data(1)
        assert lab.got == numbers(0, 1)
