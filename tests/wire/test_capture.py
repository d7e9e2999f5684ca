"""Captures: recordings of real tools, and streams with every disorder put together by hand."""

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiercel.model.errors import DecodeError
from tiercel.wire.capture import Capture, Flow, Gap, Run, SocketAddress, is_capture, read_capture

VECTORS = Path(__file__).resolve().parent.parent / "vectors"
FRAMES = [path.read_bytes() for path in sorted((VECTORS / "mqqb").glob("frame*.bin"))]
MESSAGE, SESSION_ACK = FRAMES[6], FRAMES[7]
RECORDED = sorted((VECTORS / "captures").glob("*.pcap*"))

SYN, ACK, FIN, RST = 0x02, 0x10, 0x01, 0x04
ETHERNET, RAW = 1, 101


# Captures put together by hand from the RFCs and the drafts of the pcap formats


def tcp(sequence: int, data: bytes = b"", flags: int = ACK, ports: tuple[int, int] = (40000, 1801)) -> bytes:
    return struct.pack("!HHIIBBHHH", *ports, sequence % 2**32, 0, 5 << 4, flags, 0, 0, 0) + data


def ipv4(
    payload: bytes, protocol: int = 6, fragment: int = 0, options: bytes = b"", total: int = -1
) -> bytes:
    """From 10.0.0.1 to 10.0.0.2, and back when the source port is 1801."""
    total = 20 + len(options) + len(payload) if total < 0 else total
    first = 0x45 + len(options) // 4
    hosts = (b"\x0a\0\0\1", b"\x0a\0\0\2")
    source, destination = hosts[::-1] if payload[:2] == struct.pack("!H", 1801) else hosts
    header = struct.pack("!BBHHHBBH", first, 0, total, 0, fragment, 64, protocol, 0)
    return header + source + destination + options + payload


def ipv6(payload: bytes, following: int = 6) -> bytes:
    addresses = bytes(15) + b"\1" + bytes(15) + b"\2"
    return struct.pack("!IHBB", 6 << 28, len(payload), following, 64) + addresses + payload


def ethernet(packet: bytes, ethertype: int = 0x0800, tags: bytes = b"") -> bytes:
    return bytes(12) + tags + struct.pack("!H", ethertype) + packet


def pcap(frames: list[bytes], link_type: int = RAW, order: str = "<", magic: int = 0xA1B2C3D4) -> bytes:
    header = struct.pack(order + "IHHIIII", magic, 2, 4, 0, 0, 65535, link_type)
    records = [struct.pack(order + "IIII", 0, 0, len(frame), len(frame)) + frame for frame in frames]
    return header + b"".join(records)


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    body += bytes(-len(body) % 4)
    size = struct.pack(order + "I", len(body) + 12)
    return struct.pack(order + "I", kind) + size + body + size


def section(order: str = "<") -> bytes:
    return block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1), order)


def interface(link_type: int, order: str = "<", snap_length: int = 0) -> bytes:
    return block(1, struct.pack(order + "HHI", link_type, 0, snap_length), order)


def enhanced(frame: bytes, number: int = 0, order: str = "<") -> bytes:
    return block(6, struct.pack(order + "IIIII", number, 0, 0, len(frame), len(frame)) + frame, order)


def simple(frame: bytes, order: str = "<") -> bytes:
    return block(3, struct.pack(order + "I", len(frame)) + frame, order)


def read_segments(*segments: bytes) -> Capture:
    return read_capture(pcap([ipv4(segment) for segment in segments]))


def assert_streams(capture: Capture, *expected: list[Run | Gap]) -> None:
    assert [list(stream.parts) for stream in capture.streams] == list(expected)


def assert_one_message(capture: Capture) -> None:
    assert_streams(capture, [Run(0, MESSAGE)])
    assert capture.damage is None
    assert not capture.unreadable_frames


class TestMoments:
    """When each segment of a stream was captured."""

    SEGMENTS = (tcp(100, flags=SYN), tcp(101, MESSAGE[:100]), tcp(201, MESSAGE[100:]))

    def pcap(self, magic: int, fractions: int) -> bytes:
        records = [
            struct.pack("<IIII", 1_790_000_000 + number, fractions, len(frame), len(frame)) + frame
            for number, frame in enumerate(map(ipv4, self.SEGMENTS))
        ]
        return pcap([], magic=magic) + b"".join(records)

    @pytest.mark.parametrize(("magic", "half"), [(0xA1B2C3D4, 500_000), (0xA1B23C4D, 500_000_000)])
    def test_in_pcap(self, magic: int, half: int) -> None:
        capture = read_capture(self.pcap(magic, half))
        assert_one_message(capture)
        assert capture.moments == [[(0, 1_790_000_001.5), (100, 1_790_000_002.5)]]

    @pytest.mark.parametrize(
        ("options", "unit"),
        [
            (b"", 1e-6),
            (struct.pack("<HHB3xHH", 9, 1, 9, 0, 0), 1e-9),
            (struct.pack("<HHB3xHH", 9, 1, 0x80 | 10, 0, 0), 2**-10),
            (struct.pack("<HH4sHHB3x", 2, 3, b"lo\0\0", 9, 1, 3), 1e-3),
            (struct.pack("<HH", 9, 1), 1e-6),  # cut off
        ],
        ids=["microseconds", "nanoseconds", "a power of two", "behind another option", "cut off"],
    )
    def test_in_pcapng(self, options: bytes, unit: float) -> None:
        ticks = round(1_790_000_000 / unit)
        described = block(1, struct.pack("<HHI", RAW, 0, 0) + options)
        frames = [
            block(
                6, struct.pack("<IIIII", 0, ticks >> 32, ticks & 0xFFFF_FFFF, len(frame), len(frame)) + frame
            )
            for frame in map(ipv4, self.SEGMENTS)
        ]
        capture = read_capture(section() + described + b"".join(frames))
        assert_one_message(capture)
        (moments,) = capture.moments
        assert [offset for offset, _ in moments] == [0, 100]
        assert [time for _, time in moments] == pytest.approx([1_790_000_000] * 2)

    def test_a_simple_packet_block_has_none(self) -> None:
        frames = b"".join(map(simple, map(ipv4, self.SEGMENTS)))
        assert read_capture(section() + interface(RAW) + frames).moments == [[]]


class TestRecordings:
    @pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name)
    def test_gives_the_frames_that_were_sent(self, path: Path) -> None:
        capture = read_capture(path.read_bytes())
        assert [datagram.data for datagram in capture.datagrams] == FRAMES[:2]
        client, server = capture.streams
        assert client.parts == (Run(0, FRAMES[2] + FRAMES[4] + FRAMES[6]),)
        assert server.parts == (Run(0, FRAMES[3] + FRAMES[5] + FRAMES[7]),)
        assert client.flow.reverse == server.flow
        assert client.flow.destination.port == 1801
        assert capture.frames == 25
        assert capture.damage is None

    def test_all_of_them_are_there(self) -> None:
        assert len(RECORDED) == 5

    def test_flows_read_like_addresses(self) -> None:
        four = Flow(SocketAddress(bytes([10, 0, 0, 1]), 40000), SocketAddress(bytes([10, 0, 0, 2]), 1801))
        assert str(four) == "10.0.0.1:40000 -> 10.0.0.2:1801"
        assert str(SocketAddress(bytes(15) + b"\1", 1801)) == "[::1]:1801"


class TestPcap:
    @pytest.mark.parametrize("order", "<>")
    @pytest.mark.parametrize("magic", [0xA1B2C3D4, 0xA1B23C4D])
    def test_both_byte_orders_and_both_resolutions(self, order: str, magic: int) -> None:
        data = pcap([ipv4(tcp(0, MESSAGE))], order=order, magic=magic)
        assert is_capture(data)
        assert_one_message(read_capture(data))

    def test_a_cut_file_keeps_what_came_before(self) -> None:
        data = pcap([ipv4(tcp(0, MESSAGE)), ipv4(tcp(2224, SESSION_ACK))])
        capture = read_capture(data[:-1])
        assert_streams(capture, [Run(0, MESSAGE)])
        assert capture.damage is not None
        assert capture.damage.field == "incl_len"

    def test_a_cut_record_header(self) -> None:
        capture = read_capture(pcap([]) + bytes(15))
        assert capture.damage is not None
        assert capture.damage.offset == 24

    def test_a_cut_header(self) -> None:
        capture = read_capture(pcap([])[:23])
        assert capture.damage is not None

    @pytest.mark.parametrize("data", [b"", b"LIOR", MESSAGE, b"\xd4\xc3\xb2"])
    def test_what_is_no_capture(self, data: bytes) -> None:
        assert not is_capture(data)
        with pytest.raises(DecodeError):
            read_capture(data)


class TestPcapng:
    @pytest.mark.parametrize("order", "<>")
    def test_both_byte_orders(self, order: str) -> None:
        frame = ipv4(tcp(0, MESSAGE))
        assert_one_message(read_capture(section(order) + interface(RAW, order) + enhanced(frame, 0, order)))
        assert_one_message(read_capture(section(order) + interface(RAW, order) + simple(frame, order)))

    def test_a_section_has_its_own_byte_order_and_interfaces(self) -> None:
        first, second = ipv4(tcp(0, MESSAGE[:99])), ethernet(ipv4(tcp(99, MESSAGE[99:])))
        data = section("<") + interface(RAW) + enhanced(first)
        data += section(">") + interface(ETHERNET, ">") + enhanced(second, 0, ">")
        assert_one_message(read_capture(data))

    def test_several_interfaces(self) -> None:
        first, second = ipv4(tcp(0, MESSAGE[:99])), ethernet(ipv4(tcp(99, MESSAGE[99:])))
        data = section() + interface(RAW) + interface(ETHERNET) + enhanced(second, 1) + enhanced(first, 0)
        assert_one_message(read_capture(data))

    def test_other_blocks_are_passed_over(self) -> None:
        statistics, custom = block(5, bytes(12)), block(0x0BAD, b"anything")
        data = section() + statistics + interface(RAW) + custom + enhanced(ipv4(tcp(0, MESSAGE))) + statistics
        assert_one_message(read_capture(data))

    def test_a_simple_packet_is_cut_at_the_snapshot_length(self) -> None:
        frame = ipv4(tcp(0, MESSAGE))
        cut = block(3, struct.pack("<I", len(frame)) + frame[:97])  # and three bytes of padding
        capture = read_capture(section() + interface(RAW, snap_length=97) + cut)
        assert capture.cut_frames == 1
        assert_streams(capture, [Run(0, MESSAGE[:57])])

    @pytest.mark.parametrize(
        "broken",
        [
            enhanced(ipv4(tcp(0)), number=1),
            block(6, struct.pack("<IIIII", 0, 0, 0, 5, 5) + b"1234"),
            block(6, b"short"),
            block(1, b"abcd"),
            b"\6\0\0\0\x0b\0\0\0\0\0\0\0",
            b"\6\0\0\0\x10\0\0\0\0\0\0\0",
            b"\6\0\0\0",
            section()[:8] + b"abcd" + section()[12:],
        ],
        ids=["interface", "frame", "enhanced", "description", "length", "beyond", "cut", "order"],
    )
    def test_a_broken_block_ends_the_capture_and_keeps_what_came_before(self, broken: bytes) -> None:
        good = section() + interface(RAW) + enhanced(ipv4(tcp(0, MESSAGE)))
        capture = read_capture(good + broken)
        assert_streams(capture, [Run(0, MESSAGE)])
        assert capture.damage is not None
        assert len(good) <= capture.damage.offset <= len(good) + 8


class TestLinkTypes:
    @pytest.mark.parametrize(
        ("link_type", "frame"),
        [
            (ETHERNET, ethernet(ipv4(tcp(0, MESSAGE)))),
            (ETHERNET, ethernet(ipv4(tcp(0, MESSAGE)), tags=bytes.fromhex("8100 0001"))),
            (ETHERNET, ethernet(ipv4(tcp(0, MESSAGE)), tags=bytes.fromhex("88a8 0001 8100 0002"))),
            (ETHERNET, ethernet(ipv6(tcp(0, MESSAGE)), 0x86DD)),
            (ETHERNET, ethernet(ipv4(tcp(0, MESSAGE))) + b"padding of the frame"),
            (0, b"\2\0\0\0" + ipv4(tcp(0, MESSAGE))),
            (0, b"\x1e\0\0\0" + ipv6(tcp(0, MESSAGE))),
            (108, b"\0\0\0\2" + ipv4(tcp(0, MESSAGE))),
            (113, bytes(14) + b"\x08\x00" + ipv4(tcp(0, MESSAGE))),
            (276, b"\x08\x00" + bytes(18) + ipv4(tcp(0, MESSAGE))),
            (276, b"\x81\x00" + bytes(18) + b"\0\1\x86\xdd" + ipv6(tcp(0, MESSAGE))),
            (RAW, ipv6(tcp(0, MESSAGE))),
            (228, ipv4(tcp(0, MESSAGE))),
            (0x1000_0000 | ETHERNET, ethernet(ipv4(tcp(0, MESSAGE))) + b"FCS!"),
        ],
    )
    def test_the_packet_is_found(self, link_type: int, frame: bytes) -> None:
        assert_one_message(read_capture(pcap([frame], link_type)))

    def test_an_unknown_link_type_is_told(self) -> None:
        assert read_capture(pcap([b"?"], 127)).unknown_link_types == {127}

    def test_other_protocols_are_passed_over(self) -> None:
        arp, icmp = ethernet(b"", 0x0806), ethernet(ipv4(b"ping", protocol=1))
        capture = read_capture(pcap([arp, icmp, ethernet(ipv6(b"", 58), 0x86DD)], ETHERNET))
        assert capture == Capture(frames=3)


class TestIp:
    def test_options_of_ipv4(self) -> None:
        assert_one_message(read_capture(pcap([ipv4(tcp(0, MESSAGE), options=bytes(12))])))

    def test_a_length_of_zero_means_the_whole_frame(self) -> None:
        assert_one_message(read_capture(pcap([ipv4(tcp(0, MESSAGE), total=0)])))

    def test_extension_headers_of_ipv6(self) -> None:
        hop_by_hop = bytes([60, 1]) + b"\xff" * 14
        destination = bytes([51, 0]) + b"\xff" * 6
        authentication = bytes([44, 4]) + b"\xff" * 22
        whole_fragment = bytes([6, 0]) + bytes(6)
        headers = hop_by_hop + destination + authentication + whole_fragment
        assert_one_message(read_capture(pcap([ipv6(headers + tcp(0, MESSAGE), 0)])))

    def test_fragments_are_counted_and_left_out(self) -> None:
        first = ipv4(tcp(0, MESSAGE[:80]), fragment=0x2000)
        last = ipv4(MESSAGE[80:], fragment=100 // 8)
        six = ipv6(bytes([6, 0, 0, 1]) + bytes(4) + tcp(0, MESSAGE), 44)
        capture = read_capture(pcap([first, last, six]))
        assert capture == Capture(frames=3, fragments=3)

    def test_do_not_fragment_is_no_fragment(self) -> None:
        assert_one_message(read_capture(pcap([ipv4(tcp(0, MESSAGE), fragment=0x4000)])))

    def test_frames_too_short_for_their_headers_are_counted(self) -> None:
        capture = read_capture(pcap([b"", ipv4(b"")[:19], ipv6(b"")[:39], ipv6(b"\6", 0)]))
        assert capture == Capture(frames=4, unreadable_frames=4)


class TestUdp:
    def test_pings(self) -> None:
        header = struct.pack("!HHHH", 40000, 3527, 8 + 24, 0)
        capture = read_capture(pcap([ipv4(header + FRAMES[0] + b"padding", protocol=17)]))
        assert [datagram.data for datagram in capture.datagrams] == [FRAMES[0]]

    def test_ports_can_be_chosen(self) -> None:
        header = struct.pack("!HHHH", 40000, 53, 8 + 24, 0)
        data = pcap([ipv4(header + FRAMES[0], protocol=17), ipv4(tcp(0, MESSAGE, ports=(9000, 40000)))])
        assert read_capture(data) == Capture(frames=2)
        chosen = read_capture(data, tcp_ports=[9000], udp_ports=[53])
        assert len(chosen.datagrams) == len(chosen.streams) == 1


class TestReassembly:
    def test_out_of_order(self) -> None:
        assert_one_message(
            read_segments(
                tcp(99, flags=SYN),
                tcp(1100, MESSAGE[1000:]),
                tcp(600, MESSAGE[500:1000]),
                tcp(100, MESSAGE[:500]),
            )
        )

    def test_out_of_order_before_the_syn(self) -> None:
        assert_one_message(read_segments(tcp(100, MESSAGE[:50]), tcp(99, flags=SYN), tcp(150, MESSAGE[50:])))

    def test_retransmitted(self) -> None:
        first, second = tcp(100, MESSAGE[:1000]), tcp(1100, MESSAGE[1000:])
        assert_one_message(read_segments(tcp(99, flags=SYN), first, first, second, first, second))

    def test_overlapping(self) -> None:
        assert_one_message(
            read_segments(
                tcp(100, MESSAGE[:1000]),
                tcp(600, MESSAGE[500:1500]),
                tcp(700, MESSAGE[600:700]),
                tcp(1100, MESSAGE[1000:]),
            )
        )

    @pytest.mark.parametrize("sequence", [2**32 - 1, 2**32 - 16, 2**32 - 1000, 2**32 - 2224, 0])
    def test_sequence_numbers_start_again_at_zero(self, sequence: int) -> None:
        segments = [tcp(sequence + 1 + at, MESSAGE[at : at + 100]) for at in range(0, len(MESSAGE), 100)]
        assert_one_message(read_segments(tcp(sequence, flags=SYN), *segments))
        assert_one_message(read_segments(tcp(sequence, flags=SYN), *reversed(segments)))

    def test_more_than_four_gigabytes_of_sequence_numbers(self) -> None:
        steps = [tcp(100 + step * 2**30, flags=ACK) for step in range(6)]
        parts = read_segments(tcp(100, MESSAGE), *steps, tcp(100 + 6 * 2**30, MESSAGE)).streams[0].parts
        assert parts[0] == Run(0, MESSAGE)
        assert parts[-1] == Run(6 * 2**30, MESSAGE)

    def test_a_keep_alive_repeats_the_last_byte(self) -> None:
        assert_one_message(
            read_segments(
                tcp(99, flags=SYN), tcp(100, MESSAGE[:500]), tcp(599, b"\0"), tcp(600, MESSAGE[500:])
            )
        )

    def test_directions_are_kept_apart(self) -> None:
        capture = read_segments(tcp(100, MESSAGE), tcp(100, SESSION_ACK, ports=(1801, 40000)))
        assert_streams(capture, [Run(0, MESSAGE)], [Run(0, SESSION_ACK)])

    def test_data_on_the_syn_and_on_the_fin(self) -> None:
        assert_one_message(read_segments(tcp(99, MESSAGE[:50], SYN), tcp(150, MESSAGE[50:], FIN)))


class TestGaps:
    def test_what_follows_a_gap_is_taken_up_at_a_base_header(self) -> None:
        capture = read_segments(
            tcp(99, flags=SYN),
            tcp(100, SESSION_ACK + MESSAGE[:500]),
            # 500 bytes are missing
            tcp(100 + 36 + 1000, MESSAGE[1000:]),
            tcp(100 + 36 + 2224, SESSION_ACK),
            tcp(100 + 36 + 2224 + 36, SESSION_ACK),
        )
        assert_streams(
            capture,
            [Run(0, SESSION_ACK + MESSAGE[:500]), Gap(536, 1724, 500), Run(2260, SESSION_ACK * 2)],
        )

    def test_a_header_inside_a_segment_is_not_trusted(self) -> None:
        capture = read_segments(tcp(99, flags=SYN), tcp(200, b"end of a packet" + SESSION_ACK))
        assert_streams(capture, [Gap(0, 100 + 15 + 36, 100)])

    def test_several_gaps_before_a_header_are_one(self) -> None:
        capture = read_segments(tcp(0, SESSION_ACK), tcp(40, b"abc"), tcp(50, b"def"), tcp(60, SESSION_ACK))
        assert_streams(capture, [Run(0, SESSION_ACK), Gap(36, 24, 18), Run(60, SESSION_ACK)])

    def test_a_capture_that_begins_inside_a_packet(self) -> None:
        capture = read_segments(tcp(100, MESSAGE[1000:]), tcp(1324, SESSION_ACK))
        assert_streams(capture, [Gap(0, 1224, 0), Run(1224, SESSION_ACK)])

    def test_after_a_syn_the_first_bytes_are_kept_whatever_they_are(self) -> None:
        assert_streams(read_segments(tcp(99, flags=SYN), tcp(100, b"nonsense")), [Run(0, b"nonsense")])

    def test_a_gap_right_after_the_syn(self) -> None:
        capture = read_segments(tcp(99, flags=SYN), tcp(200, SESSION_ACK))
        assert_streams(capture, [Gap(0, 100, 100), Run(100, SESSION_ACK)])

    def test_a_frame_cut_by_the_snapshot_length_leaves_a_gap(self) -> None:
        cut = ipv4(tcp(100, MESSAGE))[: 40 + 60]
        capture = read_capture(pcap([cut, ipv4(tcp(100 + 2224, SESSION_ACK))]))
        assert capture.cut_frames == 1
        assert_streams(capture, [Run(0, MESSAGE[:60]), Gap(60, 2164, 2164), Run(2224, SESSION_ACK)])


class TestReusedPorts:
    def test_a_new_syn_begins_a_new_connection(self) -> None:
        capture = read_segments(
            tcp(99, flags=SYN), tcp(100, MESSAGE), tcp(5_000_000, flags=SYN), tcp(5_000_001, SESSION_ACK)
        )
        assert_streams(capture, [Run(0, MESSAGE)], [Run(0, SESSION_ACK)])

    def test_also_when_the_new_numbers_are_lower(self) -> None:
        capture = read_segments(
            tcp(5_000_000, flags=SYN), tcp(5_000_001, MESSAGE), tcp(99, flags=SYN), tcp(100, SESSION_ACK)
        )
        assert_streams(capture, [Run(0, MESSAGE)], [Run(0, SESSION_ACK)])

    def test_a_repeated_syn_does_not(self) -> None:
        syn = tcp(99, flags=SYN)
        assert_one_message(read_segments(syn, syn, tcp(100, MESSAGE[:9]), syn, tcp(109, MESSAGE[9:])))

    def test_a_syn_ends_the_other_direction_too(self) -> None:
        back = (1801, 40000)
        capture = read_segments(
            tcp(100, MESSAGE),
            tcp(700, SESSION_ACK, ports=back),
            tcp(9_000_000, flags=SYN),  # the answering SYN is not in the capture
            tcp(500, SESSION_ACK, ports=back),
        )
        assert_streams(capture, [Run(0, MESSAGE)], [Run(0, SESSION_ACK)], [Run(0, SESSION_ACK)])

    def test_the_answer_to_a_syn_does_not_end_its_direction(self) -> None:
        answer = struct.pack("!HHIIBBHHH", 1801, 40000, 300, 9_000_001, 5 << 4, SYN | ACK, 0, 0, 0)
        capture = read_segments(
            tcp(9_000_000, flags=SYN),
            tcp(0, flags=RST, ports=(1801, 40000)),  # refused at first
            tcp(9_000_000, flags=SYN),
            answer,
            tcp(9_000_101, SESSION_ACK),
        )
        assert_streams(capture, [Gap(0, 100, 100), Run(100, SESSION_ACK)])

    @pytest.mark.parametrize("end", [FIN, RST])
    def test_data_beyond_the_end_is_of_a_new_connection(self, end: int) -> None:
        capture = read_segments(tcp(100, MESSAGE), tcp(2324, flags=end), tcp(50, SESSION_ACK))
        assert_streams(capture, [Run(0, MESSAGE)], [Run(0, SESSION_ACK)])

    @pytest.mark.parametrize("end", [FIN, RST])
    def test_data_repeated_after_the_end_is_not(self, end: int) -> None:
        capture = read_segments(tcp(100, MESSAGE[:50]), tcp(2324, flags=end), tcp(150, MESSAGE[50:]))
        assert_one_message(capture)

    def test_a_reset_from_elsewhere_changes_nothing(self) -> None:
        assert_one_message(
            read_segments(tcp(99, flags=SYN), tcp(100, MESSAGE[:9]), tcp(0, flags=RST), tcp(109, MESSAGE[9:]))
        )


class TestTotality:
    @given(st.binary(max_size=400), st.sampled_from(["pcap", "pcapng", "none"]))
    def test_random_bytes(self, data: bytes, kind: str) -> None:
        head = {"pcap": pcap([]), "pcapng": section() + interface(ETHERNET), "none": b""}[kind]
        read_total(head + data)

    @given(
        st.sampled_from([0, 1, 12, 101, 108, 113, 228, 276]), st.lists(st.binary(max_size=120), max_size=8)
    )
    def test_random_frames(self, link_type: int, frames: list[bytes]) -> None:
        capture = read_total(pcap(frames, link_type))
        assert capture is not None
        assert capture.frames == len(frames)

    @given(
        st.lists(
            st.builds(
                tcp,
                st.integers(0, 200) | st.integers(2**32 - 100, 2**32 - 1) | st.integers(0, 2**32 - 1),
                st.binary(max_size=30) | st.just(SESSION_ACK),
                st.integers(0, 31),
                st.sampled_from([(1, 1801), (1801, 1)]),
            ),
            max_size=20,
        )
    )
    def test_random_segments(self, segments: list[bytes]) -> None:
        capture = read_segments(*segments)
        for stream in capture.streams:
            end = 0
            for part in stream.parts:
                assert part.offset == end
                end += part.size if isinstance(part, Gap) else len(part.data)

    @given(st.sampled_from([path.read_bytes() for path in RECORDED]), st.data())
    def test_mutated_recordings(self, recorded: bytes, data: st.DataObject) -> None:
        mutated = bytearray(recorded)
        for at in data.draw(st.lists(st.integers(0, len(recorded) - 1), max_size=10)):
            mutated[at] = data.draw(st.integers(0, 255))
        read_total(bytes(mutated[: data.draw(st.integers(0, len(recorded)))]))

    @given(st.permutations(range(23)), st.integers(0, 2**32 - 1))
    def test_any_order_gives_the_same_stream(self, order: list[int], sequence: int) -> None:
        pieces = [tcp(sequence + 1 + 100 * i, MESSAGE[100 * i : 100 * i + 100]) for i in order]
        assert_one_message(read_segments(tcp(sequence, flags=SYN), *pieces))

    def test_reversed_streams_and_endless_connections_end(self) -> None:
        """Where quadratic work would hide: a second or two, and minutes if somebody makes it so."""
        backwards = [ipv4(tcp(100 * i, bytes(100))) for i in reversed(range(20_000))]
        reused = [ipv4(tcp(1000 * i, flags=SYN)) for i in range(20_000)]
        ended = [ipv4(tcp(1000 * i, b"x", flags=FIN)) for i in reversed(range(20_000))]
        for frames in backwards, reused, ended:
            read_capture(pcap(frames))


def read_total(data: bytes) -> Capture | None:
    try:
        return read_capture(data)
    except DecodeError:
        assert not is_capture(data)
        return None
