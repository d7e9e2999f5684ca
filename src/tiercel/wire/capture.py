"""pcap and pcapng captures to the byte streams of TCP 1801, the datagrams of UDP 3527 and PGM packets.

Nothing is guessed. Unreadable frames are counted. Bytes missing from a stream become a `Gap`, after which
reading resumes only at a segment that starts with a BaseHeader: elsewhere the packet boundaries are unknown.
Why this is written by hand: docs/decisions/0002-reading-captures.md.
"""

import struct
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import NamedTuple

from tiercel.model.errors import DecodeError
from tiercel.wire.base_header import BaseHeader
from tiercel.wire.structure import Reader

TCP_PORT = 1801
UDP_PORT = 3527

# The byte order of the file by its first bytes; the second pair of magics means nanoseconds.
_PCAP_ORDER = {
    b"\xd4\xc3\xb2\xa1": "<",
    b"\xa1\xb2\xc3\xd4": ">",
    b"\x4d\x3c\xb2\xa1": "<",
    b"\xa1\xb2\x3c\x4d": ">",
}
_PCAP_NANOSECONDS = frozenset({b"\x4d\x3c\xb2\xa1", b"\xa1\xb2\x3c\x4d"})
_PCAPNG_ORDER = {b"\x4d\x3c\x2b\x1a": "<", b"\x1a\x2b\x3c\x4d": ">"}
_SECTION_HEADER = b"\x0a\x0d\x0d\x0a"  # the same in both byte orders
_INTERFACE_DESCRIPTION, _SIMPLE_PACKET, _ENHANCED_PACKET = 1, 3, 6
_TIME_RESOLUTION = 9

_NULL, _ETHERNET, _LOOP, _LINUX_SLL, _LINUX_SLL2 = 0, 1, 108, 113, 276
_RAW_IP = frozenset({12, 14, 101, 228, 229})  # RAW as BSD and OpenBSD number it, RAW, IPV4, IPV6
_LINK_TYPES = _RAW_IP | {_NULL, _ETHERNET, _LOOP, _LINUX_SLL, _LINUX_SLL2}
_VLAN_TAGS = frozenset({0x8100, 0x88A8, 0x9100})
_IP_ETHERTYPES = frozenset({0x0800, 0x86DD})

_TCP, _UDP, _PGM = 6, 17, 113
_PGM_UDP_PORT = 3055  # of PGM that is encapsulated in UDP
_FRAGMENT, _AUTHENTICATION = 44, 51
_IPV6_EXTENSIONS = frozenset({0, 43, _FRAGMENT, _AUTHENTICATION, 60, 135, 139, 140})
_FIN, _SYN, _RST = 0x01, 0x02, 0x04


class SocketAddress(NamedTuple):
    address: bytes
    port: int

    def __str__(self) -> str:
        text = str(ip_address(self.address))
        return f"[{text}]:{self.port}" if ":" in text else f"{text}:{self.port}"


class Flow(NamedTuple):
    """One direction of a connection."""

    source: SocketAddress
    destination: SocketAddress

    def __str__(self) -> str:
        return f"{self.source} -> {self.destination}"

    @property
    def reverse(self) -> "Flow":
        return Flow(self.destination, self.source)


class Run(NamedTuple):
    """Contiguous bytes, starting with a packet."""

    offset: int
    data: bytes


class Gap(NamedTuple):
    """`size` unusable bytes of a stream: `lost` of them were not captured, the rest belong to cut packets."""

    offset: int
    size: int
    lost: int


class Stream(NamedTuple):
    """One direction of one connection; offsets count from its first byte, or the first one captured."""

    flow: Flow
    parts: tuple[Run | Gap, ...]


class Datagram(NamedTuple):
    flow: Flow
    data: bytes


@dataclass(slots=True)
class Capture:
    streams: list[Stream] = field(default_factory=list)
    datagrams: list[Datagram] = field(default_factory=list)
    multicasts: list[Datagram] = field(default_factory=list)  # PGM packets, with the ports of PGM
    # For each stream: the offset of each segment, and its capture time in seconds since 1970.
    moments: list[list[tuple[int, float]]] = field(default_factory=list)
    frames: int = 0
    # IP fragments are not reassembled: TCP does not produce them here, and a Ping is too small.
    fragments: int = 0
    # Frames truncated by the capture, and frames too short for their own headers.
    cut_frames: int = 0
    unreadable_frames: int = 0
    unknown_link_types: set[int] = field(default_factory=set)
    # Where the file is damaged; everything before it has been read.
    damage: DecodeError | None = None


def is_capture(data: bytes) -> bool:
    return data[:4] in _PCAP_ORDER or data[:4] == _SECTION_HEADER


def read_capture(
    data: bytes, tcp_ports: Collection[int] = (TCP_PORT,), udp_ports: Collection[int] = (UDP_PORT,)
) -> Capture:
    """The traffic of these ports; a DecodeError if the bytes are not a capture."""
    if not is_capture(data):
        raise DecodeError("Capture", "magic", 0, f"is {data[:4].hex()!r}, not that of pcap or pcapng")
    capture = Capture()
    connections = _Connections()
    try:
        for link_type, frame, time in (
            _pcapng_frames(data) if data[:4] == _SECTION_HEADER else _pcap_frames(data)
        ):
            capture.frames += 1
            packet = _read_frame(link_type, frame, capture)
            if packet is None:
                continue
            if packet.protocol == _TCP:
                _read_segment(packet, time, tcp_ports, connections)
            elif packet.protocol == _PGM or _is_encapsulated(packet):
                _read_multicast(packet, capture)
            else:
                _read_datagram(packet, udp_ports, capture)
    except DecodeError as damage:
        capture.damage = damage
    halves = [half for half in connections.halves if half.segments]
    capture.streams = [half.stream() for half in halves]
    capture.moments = [half.moments() for half in halves]
    return capture


# Files to frames


def _pcap_frames(data: bytes) -> Iterator[tuple[int, bytes, float]]:
    """Link type, bytes and time of each frame."""
    order = _PCAP_ORDER[data[:4]]
    if len(data) < 24:
        raise DecodeError("PcapHeader", "network", 20, f"the header needs 24 bytes, the file has {len(data)}")
    (network,) = struct.unpack_from(order + "I", data, 20)
    record = struct.Struct(order + "IIII")
    fractions = 1e-9 if data[:4] in _PCAP_NANOSECONDS else 1e-6
    at = 24
    while at < len(data):
        if at + record.size > len(data):
            raise DecodeError("PcapRecord", "orig_len", at, f"needs 16 bytes, {len(data) - at} are left")
        seconds, fraction, size, _ = record.unpack_from(data, at)
        at += record.size
        if size > len(data) - at:
            raise DecodeError("PcapRecord", "incl_len", at - 8, f"is {size}, {len(data) - at} are left")
        # The upper bits of the link type describe a trailing checksum.
        yield network & 0xFFFF, data[at : at + size], seconds + fraction * fractions
        at += size


def _pcapng_frames(data: bytes) -> Iterator[tuple[int, bytes, float | None]]:
    """Link type, bytes and time of each frame; a Simple Packet Block has no time."""
    interfaces: list[tuple[int, int, float]] = []
    for at, order, kind, body in _pcapng_blocks(data):
        try:
            if kind == _INTERFACE_DESCRIPTION:
                link_type, snap_length = struct.unpack_from(order + "HxxI", body)
                interfaces.append((link_type, snap_length, _time_unit(order, body)))
            elif kind == _ENHANCED_PACKET:
                interface, high, low, size, _ = struct.unpack_from(order + "IIIII", body)
                link_type, _, unit = interfaces[interface]
                yield link_type, struct.unpack_from(f"{size}s", body, 20)[0], (high << 32 | low) * unit
            elif kind == _SIMPLE_PACKET:
                (size,) = struct.unpack_from(order + "I", body)
                link_type, snap_length, _ = interfaces[0]
                yield link_type, body[4 : 4 + min(size, snap_length or size)], None
            elif kind is None:
                interfaces = []
        except (struct.error, IndexError):
            problem = f"block type {kind} is too short for its contents, or of an unknown interface"
            raise DecodeError("PcapngBlock", "body", at + 8, problem) from None


def _time_unit(order: str, interface: bytes) -> float:
    """The clock resolution of an interface, in seconds: its option if_tsresol, by default a microsecond."""
    at = 8
    while at + 4 <= len(interface):
        code, size = struct.unpack_from(order + "HH", interface, at)
        if code == _TIME_RESOLUTION and size >= 1 and at + 4 < len(interface):
            power = interface[at + 4]
            return 2.0 ** -(power & 0x7F) if power & 0x80 else 10.0**-power
        if code == 0:
            break
        at += 4 + size + -size % 4
    return 1e-6


def _pcapng_blocks(data: bytes) -> Iterator[tuple[int, str, int | None, bytes]]:
    """Offset, byte order, type (None for the header of a section) and body of each block."""
    at = 0
    order = "<"
    while at < len(data):
        is_section = data[at : at + 4] == _SECTION_HEADER
        if is_section:
            magic = data[at + 8 : at + 12]
            if magic not in _PCAPNG_ORDER:
                raise DecodeError("SectionHeaderBlock", "byte_order_magic", at + 8, f"is {magic.hex()!r}")
            order = _PCAPNG_ORDER[magic]
        if len(data) - at < 12:
            raise DecodeError("PcapngBlock", "length", at, f"needs 12 bytes, {len(data) - at} are left")
        kind, size = struct.unpack_from(order + "II", data, at)
        if size < 12 or size % 4 or size > len(data) - at:
            raise DecodeError("PcapngBlock", "length", at + 4, f"is {size}, {len(data) - at} are left")
        yield at, order, None if is_section else kind, data[at + 8 : at + size - 4]
        at += size


# Frames to TCP and UDP


class _Packet(NamedTuple):
    protocol: int
    source: bytes
    destination: bytes
    data: bytes


def _read_frame(link_type: int, frame: bytes, capture: Capture) -> _Packet | None:
    """The TCP or UDP packet of a frame; None if it has none, or was counted as unreadable."""
    if link_type not in _LINK_TYPES:
        capture.unknown_link_types.add(link_type)
        return None
    try:
        packet = _network_packet(link_type, frame)
        if packet is None:
            return None
        return (_read_ipv6 if packet[0] >> 4 == 6 else _read_ipv4)(packet, capture)
    except (struct.error, IndexError):
        capture.unreadable_frames += 1
        return None


def _network_packet(link_type: int, frame: bytes) -> bytes | None:
    if link_type in _RAW_IP:
        return frame
    if link_type in {_NULL, _LOOP}:
        return frame[4:]  # the address family differs by system; the IP version says the same
    type_at, at = {_ETHERNET: (12, 14), _LINUX_SLL: (14, 16), _LINUX_SLL2: (0, 20)}[link_type]
    (ethertype,) = struct.unpack_from("!H", frame, type_at)
    while ethertype in _VLAN_TAGS:
        (ethertype,) = struct.unpack_from("!H", frame, at + 2)
        at += 4
    return frame[at:] if ethertype in _IP_ETHERTYPES else None


def _read_ipv4(packet: bytes, capture: Capture) -> _Packet | None:
    first, total, fragment, protocol, source, destination = struct.unpack_from("!BxHxxHxBxx4s4s", packet)
    header_size = (first & 15) * 4
    if protocol not in {_TCP, _UDP, _PGM} or first >> 4 != 4 or header_size < 20:
        return None
    if fragment & 0x3FFF:
        capture.fragments += 1
        return None
    # With segmentation offload, the capture has the whole segment with length 0.
    capture.cut_frames += len(packet) < total
    return _Packet(protocol, source, destination, packet[header_size : total or len(packet)])


def _read_ipv6(packet: bytes, capture: Capture) -> _Packet | None:
    size, protocol, source, destination = struct.unpack_from("!4xHBx16s16s", packet)
    end = 40 + size if size else len(packet)
    at = 40
    while protocol in _IPV6_EXTENSIONS:
        following, length, offset = struct.unpack_from("!BBH", packet, at)
        if protocol == _FRAGMENT and offset & 0xFFF9:
            capture.fragments += 1
            return None
        if protocol == _FRAGMENT:
            at += 8
        else:
            at += (length + 2) * 4 if protocol == _AUTHENTICATION else (length + 1) * 8
        protocol = following
    if protocol not in {_TCP, _UDP}:
        return None
    capture.cut_frames += len(packet) < end
    return _Packet(protocol, source, destination, packet[at:end])


def _flow(packet: _Packet, ports: Collection[int]) -> Flow | None:
    if len(packet.data) < 4:
        return None
    source, destination = struct.unpack_from("!HH", packet.data)
    if source not in ports and destination not in ports:
        return None
    return Flow(SocketAddress(packet.source, source), SocketAddress(packet.destination, destination))


def _read_datagram(packet: _Packet, ports: Collection[int], capture: Capture) -> None:
    flow = _flow(packet, ports)
    if flow is not None:
        size = int.from_bytes(packet.data[4:6], "big")
        capture.datagrams.append(Datagram(flow, packet.data[8:size]))


def _is_encapsulated(packet: _Packet) -> bool:
    ports = _PGM_UDP_PORT.to_bytes(2, "big")
    return packet.protocol == _UDP and ports in {packet.data[:2], packet.data[2:4]}


def _read_multicast(packet: _Packet, capture: Capture) -> None:
    data = packet.data if packet.protocol == _PGM else packet.data[8:]
    if len(data) < 4:
        capture.unreadable_frames += 1
        return
    source, destination = struct.unpack_from("!HH", data)
    flow = Flow(SocketAddress(packet.source, source), SocketAddress(packet.destination, destination))
    capture.multicasts.append(Datagram(flow, data))


def _read_segment(
    packet: _Packet, time: float | None, ports: Collection[int], connections: "_Connections"
) -> None:
    flow = _flow(packet, ports)
    if flow is not None and len(packet.data) >= 20:
        sequence, acknowledged, offset, flags = struct.unpack_from("!4xIIBB", packet.data)
        data = packet.data[max(offset >> 4, 5) * 4 :]
        connections.add(flow, _Segment(sequence, acknowledged, flags, data, time))


# Segments to streams


class _Segment(NamedTuple):
    sequence: int
    acknowledged: int
    flags: int
    data: bytes
    time: float | None


class _Connections:
    """Both directions of all connections, in the order of their first segments, and which are open."""

    def __init__(self) -> None:
        self.halves: list[_Half] = []
        self._open: dict[Flow, _Half] = {}

    def add(self, flow: Flow, segment: _Segment) -> None:
        half = self._open.get(flow)
        if half is not None and half.is_followed_by(segment):
            half = None
            answered = self._open.get(flow.reverse)
            if answered is not None and not answered.is_answered_by(segment):
                del self._open[flow.reverse]
        if half is None:
            half = self._open[flow] = _Half(flow, segment.sequence)
            self.halves.append(half)
        half.add(segment)


class _Half:
    """The segments of one direction, their sequence numbers extended beyond 2^32."""

    def __init__(self, flow: Flow, sequence: int) -> None:
        self.flow = flow
        self.segments: list[tuple[int, bytes]] = []
        self._times: list[tuple[int, float]] = []
        self._begin: int | None = None  # known if the SYN was captured
        self._latest = self._lowest = self._highest = sequence
        self._end: int | None = None  # known if a FIN or RST was captured

    def _unwrap(self, sequence: int) -> int:
        """The extended sequence number nearest to the latest one."""
        return self._latest + (sequence - self._latest + 0x8000_0000 & 0xFFFF_FFFF) - 0x8000_0000

    def is_followed_by(self, segment: _Segment) -> bool:
        """Whether a segment belongs to a later connection between the same ports."""
        at = self._unwrap(segment.sequence)
        if segment.flags & _SYN:
            return at + 1 != (self._lowest if self._begin is None else self._begin)
        return bool(segment.data) and self._end is not None and not self._lowest <= at < self._end

    def is_answered_by(self, segment: _Segment) -> bool:
        """Whether a segment is the other side's SYN in answer to this one's."""
        return bool(segment.flags & _SYN) and self._begin == self._unwrap(segment.acknowledged)

    def add(self, segment: _Segment) -> None:
        at = self._unwrap(segment.sequence)
        if segment.flags & _SYN:
            at += 1
            self._begin = at
        end = at + len(segment.data)
        if segment.data:
            self.segments.append((at, segment.data))
            if segment.time is not None:
                self._times.append((at, segment.time))
        # A receiver ignores a reset that is not at the end of the sent bytes.
        if segment.flags & (_FIN | _RST) and end >= self._highest:
            self._end = end
        self._latest = at
        self._lowest = min(self._lowest, at)
        self._highest = max(self._highest, end)

    def moments(self) -> list[tuple[int, float]]:
        """The offset of each segment in the stream, and its capture time."""
        begin = min(at for at, _ in self.segments) if self._begin is None else self._begin
        return sorted((at - begin, time) for at, time in self._times)

    def stream(self) -> Stream:
        """The segments in order. Overlapping segments have the same bytes in TCP; the first is used."""
        segments = sorted(self.segments, key=lambda segment: segment[0])
        begin = segments[0][0] if self._begin is None else self._begin
        parts: list[Run | Gap] = []
        run = None if self._begin is None else bytearray()
        run_at = gap_at = expected = begin
        lost = 0
        for at, data in segments:
            if at > expected:
                if run:
                    parts.append(Run(run_at - begin, bytes(run)))
                if run is not None:
                    run, gap_at, lost = None, expected, 0
                lost += at - expected
            if run is None and _begins_packet(data):
                if at > gap_at:
                    parts.append(Gap(gap_at - begin, at - gap_at, lost))
                run, run_at, expected = bytearray(), at, at
            if run is not None and at + len(data) > expected:
                run += data[expected - at :]
            expected = max(expected, at + len(data))
        if run:
            parts.append(Run(run_at - begin, bytes(run)))
        elif run is None:
            parts.append(Gap(gap_at - begin, expected - gap_at, lost))
        return Stream(self.flow, tuple(parts))


def _begins_packet(data: bytes) -> bool:
    if data.startswith((b"POST ", b"HTTP/1.")):
        return True
    try:
        BaseHeader.read(Reader(data))
    except DecodeError:
        return False
    return True
