import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiercel.model.errors import DecodeError
from tiercel.wire.framer import Framer

from .packets import PLAIN, SESSION, TRANSACTIONAL, base, frame, packet, properties, replaced, user

STREAM = [frame(3), frame(5), frame(7), frame(8), PLAIN, TRANSACTIONAL, frame(8)]
# The same message with a SessionHeader behind it, as the specification counts and as a peer might.
OUTSIDE = replaced(TRANSACTIONAL, 2, b"\x10") + SESSION
WITHIN = replaced(replaced(TRANSACTIONAL, 2, b"\x10"), 8, b"\xac") + SESSION


def cut(*chunks: bytes) -> list[bytes]:
    """The packets of a stream that arrives in these chunks."""
    framer = Framer()
    packets: list[bytes] = []
    for chunk in chunks:
        framer.receive(chunk)
        packets += framer.packets()
    assert framer.is_between_packets == (b"".join(packets) == b"".join(chunks))
    return packets


class TestFraming:
    """[MS-MQMQ] 2.2.19.1"""

    @pytest.mark.conformance("MQQB-007")
    def test_read_boundaries_do_not_matter(self) -> None:
        stream = frame(3) + frame(5) + frame(7)
        assert cut(stream) == [frame(3), frame(5), frame(7)]
        assert cut(*(stream[i : i + 1] for i in range(len(stream)))) == [frame(3), frame(5), frame(7)]

    @pytest.mark.conformance("MQQB-007")
    @given(st.lists(st.integers(0, sum(map(len, STREAM))), max_size=12))
    def test_any_chunks_give_the_same_packets(self, cuts: list[int]) -> None:
        stream = b"".join(STREAM)
        places = [0, *sorted(cuts), len(stream)]
        assert cut(*(stream[a:b] for a, b in pairwise(places))) == STREAM

    def test_nothing_received_nothing_given(self) -> None:
        assert cut() == []
        assert cut(b"", b"") == []

    def test_a_cut_stream_is_not_between_packets(self) -> None:
        framer = Framer()
        framer.receive(frame(3) + frame(5)[:-1])
        assert list(framer.packets()) == [frame(3)]
        assert not framer.is_between_packets
        framer.receive(frame(5)[-1:])
        assert list(framer.packets()) == [frame(5)]
        assert framer.is_between_packets

    def test_packets_may_be_taken_one_at_a_time(self) -> None:
        framer = Framer()
        framer.receive(frame(7) + frame(8) + frame(5))
        assert next(framer.packets()) == frame(7)
        assert next(framer.packets()) == frame(8)
        assert list(framer.packets()) == [frame(5)]

    def test_a_packet_of_16_bytes(self) -> None:
        assert cut(base(16) + frame(5)) == [base(16), frame(5)]


class TestSessionHeader:
    """MQQB T50: a piggy-backed SessionHeader is not counted in PacketSize, that of a SessionAck is."""

    @pytest.mark.conformance("MQQB-008")
    def test_a_session_ack_is_36_bytes(self) -> None:
        assert frame(8)[8:12].hex() == "24000000"
        assert cut(frame(8) + frame(5)) == [frame(8), frame(5)]

    @pytest.mark.conformance("MQQB-008")
    def test_a_message_of_156_bytes_and_its_session_header(self) -> None:
        assert (OUTSIDE[8], len(OUTSIDE)) == (156, 172)
        assert cut(OUTSIDE + frame(8) + OUTSIDE + PLAIN) == [OUTSIDE, frame(8), OUTSIDE, PLAIN]

    @pytest.mark.conformance("MQQB-008")
    def test_however_the_bytes_arrive(self) -> None:
        stream = OUTSIDE + frame(5)
        for at in range(len(stream)):
            assert cut(stream[:at], stream[at:]) == [OUTSIDE, frame(5)]

    def test_a_peer_that_counts_it_in(self) -> None:
        stream = WITHIN + frame(8) + OUTSIDE + WITHIN + PLAIN
        assert cut(stream) == [WITHIN, frame(8), OUTSIDE, WITHIN, PLAIN]
        assert cut(*(stream[i : i + 1] for i in range(len(stream)))) == cut(stream)

    def test_a_message_that_ends_in_its_body(self) -> None:
        """Sixteen bytes less would cut the body, so the SessionHeader must come after it."""
        data = packet(user(), properties(body=bytes(64)), flags=0x10, session=SESSION)
        assert cut(data + frame(5)) == [data, frame(5)]


class TestBadStreams:
    """[MS-MQQB] 3.1.5.1.2 and 3.1.5.1.3"""

    @pytest.mark.parametrize(
        ("bad", "field"),
        [
            (replaced(frame(3), 0, b"\x11"), "version_number"),
            (replaced(frame(3), 4, b"ROIL"), "signature"),
            (replaced(frame(3), 8, bytes.fromhex("0f000000")), "packet_size"),
            (replaced(frame(3), 8, bytes.fromhex("00000000")), "packet_size"),
            (replaced(frame(3), 8, bytes.fromhex("01004000")), "packet_size"),
            (replaced(frame(3), 8, bytes.fromhex("ffffffff")), "packet_size"),
            (b"GET / HTTP/1.1\r\n", "version_number"),
        ],
    )
    def test_errors_come_after_the_good_packets_before_them(self, bad: bytes, field: str) -> None:
        framer = Framer()
        framer.receive(frame(3) + frame(5) + bad)
        packets = framer.packets()
        assert [next(packets), next(packets)] == [frame(3), frame(5)]
        with pytest.raises(DecodeError) as caught:
            next(packets)
        assert (caught.value.structure, caught.value.field) == ("BaseHeader", field)

    def test_a_broken_stream_stays_broken(self) -> None:
        framer = Framer()
        framer.receive(frame(7) + b"\x11" * 16)
        with pytest.raises(DecodeError):
            list(framer.packets())
        framer.receive(frame(5))
        with pytest.raises(DecodeError):
            list(framer.packets())

    def test_sixteen_bytes_are_enough_to_see_it(self) -> None:
        framer = Framer()
        framer.receive(replaced(frame(3), 4, b"ROIL")[:15])
        assert list(framer.packets()) == []
        framer.receive(b"\xff")
        with pytest.raises(DecodeError):
            list(framer.packets())

    def test_four_gibibytes_announced_cost_nothing(self) -> None:
        framer = Framer()
        framer.receive(base(0xFFFFFFFF))
        with pytest.raises(DecodeError, match="is 4294967295, allowed are 16 to 4194304"):
            list(framer.packets())
        assert len(framer._buffer) == 16


class TestEffort:
    def test_a_large_packet_in_small_chunks_is_looked_at_twice(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Linear: once when its header is there and once when it is whole, not at every chunk."""
        looks = 0

        def counted(data: bytes, at: int) -> int:
            nonlocal looks
            looks += 1
            return real(data, at)

        from tiercel.wire import framer as module  # noqa: PLC0415 - the module's own name is patched

        real = module._size_of_packet
        monkeypatch.setattr(module, "_size_of_packet", counted)
        large = packet(user(), properties(body=random.Random(1).randbytes(0x400000 - 120)))
        assert len(large) == 0x400000
        assert cut(*(large[i : i + 100] for i in range(0, len(large), 100))) == [large]
        assert looks <= 4
