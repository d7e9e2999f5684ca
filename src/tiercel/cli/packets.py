"""Finds packets and SRMP requests in files for `tiercel decode`.

A packet that cannot be decoded is a `Problem`; decoding continues as long as the sizes say where the next
packet starts. Offsets are relative to the file, or to the stream in a capture.
"""

from collections import Counter
from collections.abc import Collection, Iterator
from ipaddress import ip_address
from itertools import count
from typing import NamedTuple

from tiercel.cli.hex_text import decode_hex_text
from tiercel.model.errors import DecodeError
from tiercel.pgm import dump as pgm_dump
from tiercel.pgm import packet as pgm_packet
from tiercel.pgm.captured import MulticastMessages
from tiercel.pgm.packet import Packet as PgmPacket
from tiercel.srmp import dump as srmp_dump
from tiercel.srmp.http_request import RequestParser, read_multicast
from tiercel.srmp.request import SrmpRequest, read_srmp
from tiercel.wire import base_header, ping
from tiercel.wire.base_header import BaseHeader
from tiercel.wire.capture import Capture, Datagram, Gap, Stream, is_capture, read_capture
from tiercel.wire.dump import AnyPacket, Listing, list_packet, reencode, summary
from tiercel.wire.framer import Framer
from tiercel.wire.packet import decode_packet
from tiercel.wire.ping import Ping
from tiercel.wire.structure import Reader

_PING_SIZE = Ping.LAYOUT.size
_PING_SIGNATURE = ping.SIGNATURE.to_bytes(2, "little")
_POST = b"POST "
_RESPONSE = b"HTTP/1."
_NO_RESPONSES = "HTTP responses are not listed"
_BASE_SIGNATURE = base_header.SIGNATURE.to_bytes(4, "little")


class Place(NamedTuple):
    """Position of a packet. Only captures have streams; a gap has no packet number."""

    stream: str | None
    number: int | None
    offset: int

    def __str__(self) -> str:
        packet = f"packet {self.number} " if self.number else ""
        return f"{self.stream}, " * bool(self.stream) + f"{packet}at {self.offset:#06x}"


class Found(NamedTuple):
    place: Place
    data: bytes
    packet: AnyPacket | SrmpRequest | PgmPacket

    @property
    def summary(self) -> str:
        if isinstance(self.packet, PgmPacket):
            return pgm_dump.summary(self.packet)
        if isinstance(self.packet, SrmpRequest):
            return srmp_dump.summary(self.packet)
        return summary(self.packet, len(self.data))

    def listings(self) -> list[Listing]:
        if isinstance(self.packet, PgmPacket):
            return pgm_dump.list_packet(self.packet, self.data)
        if isinstance(self.packet, SrmpRequest):
            return srmp_dump.list_request(self.packet)
        return list_packet(self.packet)

    def encode(self) -> bytes:
        if isinstance(self.packet, PgmPacket):
            return pgm_packet.encode(self.packet)
        if isinstance(self.packet, SrmpRequest):
            return srmp_dump.rewrite(self.packet)
        return reencode(self.packet)


class Problem(NamedTuple):
    """Bytes that could not be decoded, and why; without a place if the file itself is damaged."""

    place: Place | None
    text: str


class Note(NamedTuple):
    """Information that is not an error."""

    text: str


Item = Found | Problem | Note


class Contents(NamedTuple):
    """Kind, size and contents of a file."""

    kind: str
    size: int
    items: Iterator[Item]


def read_contents(data: bytes, tcp_ports: Collection[int], udp_ports: Collection[int]) -> Contents:
    """The contents of a file; raises DecodeError for incomplete hexadecimal text."""
    kind = "raw bytes"
    text = decode_hex_text(data)
    if text is not None:
        kind, data = "hexadecimal text", text
    if is_capture(data):
        capture = read_capture(data, tcp_ports, udp_ports)
        frames = "1 frame" if capture.frames == 1 else f"{capture.frames} frames"
        return Contents(f"capture of {frames}", len(data), _read_capture(capture))
    return Contents(kind, len(data), _read_raw(data))


def _read_raw(data: bytes) -> Iterator[Item]:
    """HTTP requests, or leading pings and the packets of a session."""
    numbers = count(1)
    if data.startswith(_POST):
        yield from _read_requests(data, None, 0, numbers)
        return
    if data.startswith(_RESPONSE):
        yield Note(_NO_RESPONSES)
        return
    at = 0
    while _is_ping(data[at : at + _PING_SIZE]):
        yield _read_ping(data[at : at + _PING_SIZE], Place(None, next(numbers), at))
        at += _PING_SIZE
    yield from _read_packets(data[at:], None, at, numbers)


def _is_ping(data: bytes) -> bool:
    return len(data) == _PING_SIZE and data[2:4] == _PING_SIGNATURE and data[4:8] != _BASE_SIGNATURE


def _read_ping(data: bytes, place: Place) -> Found | Problem:
    try:
        return Found(place, data, Ping.decode(data))
    except DecodeError as error:
        return _problem(place, error)


def _read_packets(
    data: bytes, stream: str | None, at: int, numbers: Iterator[int]
) -> Iterator[Found | Problem]:
    """The packets of a stream without gaps; `at` is the offset of its first byte."""
    framer = Framer()
    framer.receive(data)
    end = at + len(data)
    try:
        for packet in framer.packets():
            yield _read_packet(packet, Place(stream, next(numbers), at))
            at += len(packet)
    except DecodeError as error:
        place = Place(stream, next(numbers), at)
        text = _problem(place, error).text
        yield Problem(place, f"{text}; the start of the next packet is unknown, {end - at} bytes skipped")
        return
    if at < end:
        yield Problem(Place(stream, next(numbers), at), _what_is_cut(data[len(data) - (end - at) :]))


def _read_packet(data: bytes, place: Place) -> Found | Problem:
    try:
        return Found(place, data, decode_packet(data))
    except DecodeError as error:
        return _problem(place, error)


def _read_requests(
    data: bytes, stream: str | None, at: int, numbers: Iterator[int]
) -> Iterator[Found | Problem]:
    """The requests of a connection, or the one of a multicast message."""
    parser, end = RequestParser(), at + len(data)
    try:
        over_multicast = _is_multicast(data)
        requests = [read_multicast(data)] if over_multicast else parser.receive(data)
    except DecodeError as error:
        yield _problem(Place(stream, next(numbers), at), error)
        return
    for request in requests:
        size = len(request.encode())
        place = Place(stream, next(numbers), at)
        try:
            yield Found(place, data[:size], read_srmp(request, over_multicast=over_multicast))
        except DecodeError as error:
            yield _problem(place, error)
        data, at = data[size:], at + size
    if parser.problem is not None:
        yield _problem(Place(stream, next(numbers), at), parser.problem)
    elif not parser.is_idle:
        yield Problem(Place(stream, next(numbers), at), f"cut after {end - at} bytes of a request")


def _is_multicast(data: bytes) -> bool:
    """Whether the target of the request line is an address instead of a path or URL."""
    target = data[len(_POST) :].partition(b" ")[0]
    return not target.startswith(b"/") and b"://" not in target


def _problem(place: Place, error: DecodeError) -> Problem:
    at = place.offset + error.offset
    return Problem(place, f"{error.structure}.{error.field} at {at:#06x}: {error.problem}")


def _what_is_cut(data: bytes) -> str:
    if len(data) < BaseHeader.LAYOUT.size:
        return f"cut in its BaseHeader after {len(data)} of {BaseHeader.LAYOUT.size} bytes"
    return f"cut after {len(data)} of {BaseHeader.read(Reader(data)).packet_size} bytes"


def _read_capture(capture: Capture) -> Iterator[Item]:
    numbers: Counter[str] = Counter()
    for flow, data in capture.datagrams:
        stream = f"UDP {flow}"
        numbers[stream] += 1
        yield _read_ping(data, Place(stream, numbers[stream], 0))
    yield from _read_multicasts(capture.multicasts)
    connections: Counter[str] = Counter()
    for stream_of_flow in capture.streams:
        stream = f"TCP {stream_of_flow.flow}"
        connections[stream] += 1
        again = f", connection {connections[stream]}" if connections[stream] > 1 else ""
        yield from _read_stream(stream_of_flow, stream + again)
    yield from _remarks(capture)


def _read_multicasts(datagrams: list[Datagram]) -> Iterator[Item]:
    """Each PGM packet, and the messages that their sessions carry, as far as the capture has them."""
    numbers: Counter[str] = Counter()
    messages = MulticastMessages()
    for flow, data in datagrams:
        stream = f"PGM {flow}"
        numbers[stream] += 1
        place = Place(stream, numbers[stream], 0)
        try:
            packet = pgm_packet.decode(data)
        except DecodeError as error:
            yield _problem(place, error)
            continue
        yield Found(place, data, packet)
        group, address = (str(ip_address(each.address)) for each in (flow.destination, flow.source))
        for request in messages.add(packet, address, group):
            yield from _read_requests(request, f"{address} to {group}:{packet.port}", 0, count(1))


def _read_stream(stream: Stream, name: str) -> Iterator[Item]:
    numbers = count(1)
    for part in stream.parts:
        if isinstance(part, Gap):
            yield Problem(Place(name, None, part.offset), _gap(part))
        elif part.data.startswith(_POST):
            yield from _read_requests(part.data, name, part.offset, numbers)
        elif part.data.startswith(_RESPONSE):
            yield Note(f"{name}: {_NO_RESPONSES}")
        else:
            yield from _read_packets(part.data, name, part.offset, numbers)


def _gap(gap: Gap) -> str:
    if not gap.lost:
        return f"the capture starts inside a packet, {gap.size} bytes skipped"
    unused = (
        f" and {gap.size - gap.lost} after them cannot be assigned to a packet" if gap.size > gap.lost else ""
    )
    return f"{gap.lost} bytes are missing from the capture{unused}"


def _remarks(capture: Capture) -> Iterator[Item]:
    if capture.fragments:
        yield Note(f"IP fragments are not reassembled: {capture.fragments} skipped")
    if capture.cut_frames:
        yield Note(
            f"{capture.cut_frames} frames are truncated; capture with a larger snapshot length (tcpdump -s 0)"
        )
    if capture.unreadable_frames:
        yield Note(f"{capture.unreadable_frames} frames are too short for their headers and were skipped")
    for link_type in sorted(capture.unknown_link_types):
        yield Problem(None, f"frames of link type {link_type} are not supported and were skipped")
    if capture.damage is not None:
        damage = capture.damage
        text = f"{damage.structure}.{damage.field} at {damage.offset:#06x}: {damage.problem}"
        yield Problem(None, f"the capture is truncated, {text}")


def verify(found: Found) -> str | None:
    """The first difference after encoding the packet again; None if there is none."""
    try:
        again = found.encode()
    except ValueError as problem:
        return f"cannot be encoded again: {problem}"
    if again == found.data:
        return None
    for at, (old, new) in enumerate(zip(found.data, again, strict=False)):
        if old != new:
            name = _field_at(found, at)
            place = f"{found.place.offset + at:#06x} ({name})"
            return f"encoded again, the byte at {place} is 0x{new:02x} instead of 0x{old:02x}"
    end = found.place.offset + min(len(again), len(found.data))
    return f"encoded again, it has {len(again)} bytes instead of {len(found.data)}, the same up to {end:#06x}"


def _field_at(found: Found, at: int) -> str:
    listings = found.listings()
    for listing in listings:
        for field in listing.fields:
            if field.offset <= at < field.offset + field.size:
                return f"{listing.name}.{field.name}"
    # The fields of a request are not contiguous.
    return f"in {listings[-1].name}" if isinstance(found.packet, SrmpRequest) else "after the last field"
