"""PGM packets as listings, for `tiercel decode`: RFC 3208 8 and 9."""

from collections.abc import Iterator

from tiercel.pgm.packet import HEADER_BYTES, UPSTREAM, Data, Nak, Other, Packet, Spm
from tiercel.wire.dump import Field, Listing


def summary(packet: Packet) -> str:
    """The packet in one line."""
    words = [f"PGM {packet.kind.name}", f"session {packet.tsi}", f"port {packet.port}"]
    match packet:
        case Spm():
            words += [f"number {packet.number}", f"window {packet.trail} to {packet.lead}"]
        case Data():
            words += [f"number {packet.number}", f"{len(packet.payload)} bytes"]
            if packet.options.fragment is not None:
                _, offset, length = packet.options.fragment
                words.append(f"at {offset} of {length}")
        case Nak():
            words.append(f"numbers {', '.join(map(str, packet.numbers))}")
    if not isinstance(packet, Other):
        words += [name for name in ("syn", "fin") if getattr(packet.options, name)]
        words += ["rst"] if packet.options.rst is not None else []
    return "  ".join(words)


def list_packet(packet: Packet, data: bytes) -> list[Listing]:
    """The header, the body, the options and the data of a packet whose bytes are `data`."""
    ports = (packet.tsi.source_port, packet.port)
    source, destination = ports[::-1] if packet.kind in UPSTREAM else ports
    header = (
        _field(data, 0, 2, "source_port", source),
        _field(data, 2, 2, "destination_port", destination),
        _field(data, 4, 1, "type", int(packet.kind), packet.kind.name),
        _field(data, 5, 1, "options", data[5]),
        _field(data, 6, 2, "checksum", int.from_bytes(data[6:8], "big")),
        _field(data, 8, 6, "global_source_id", packet.tsi.gsi.hex()),
        _field(data, 14, 2, "tsdu_length", int.from_bytes(data[14:16], "big")),
    )
    body = tuple(_body(packet, data))
    parts = [Listing(0, "PgmHeader", header)]
    return [*parts, Listing(16, packet.kind.name, body)] if body else parts


def _body(packet: Packet, data: bytes) -> Iterator[Field]:
    match packet:
        case Spm():
            yield _field(data, 16, 4, "spm_sequence_number", packet.number)
            yield _field(data, 20, 4, "trailing_edge", packet.trail)
            yield _field(data, 24, 4, "leading_edge", packet.lead)
            yield _field(data, 32, 4, "path", packet.path)
            yield from _options(packet.options._asdict(), data, 36)
        case Data():
            yield _field(data, 16, 4, "sequence_number", packet.number)
            yield _field(data, 20, 4, "trailing_edge", packet.trail)
            yield from _options(packet.options._asdict(), data, HEADER_BYTES)
            at = data.rindex(packet.payload) if packet.payload else len(data)
            yield _field(data, at, len(packet.payload), "data", packet.payload)
        case Nak():
            yield _field(data, 16, 4, "sequence_number", packet.number)
            yield _field(data, 24, 4, "source", packet.source)
            yield _field(data, 32, 4, "group", packet.group)
            yield from _options(packet.options._asdict(), data, 36)


def _options(options: dict[str, object], data: bytes, at: int) -> Iterator[Field]:
    if not data[5] & 1:
        return
    size = int.from_bytes(data[at + 2 : at + 4], "big")
    present = {name: value for name, value in options.items() if value not in {None, False, ()}}
    words = " ".join(f"{name}={value}" for name, value in present.items())
    yield Field(at, "option_list", data[at : at + size], data[at : at + size], None, words or None)


def _field(data: bytes, at: int, size: int, name: str, value: object, meaning: str | None = None) -> Field:
    return Field(at, name, data[at : at + size], value, None, meaning)
