"""PGM packets <-> values. RFC 3208 8 and 9.

Packets that flow up, from receivers to the source, have the two ports swapped; here every packet has its
session (`tsi`) and its data port (`port`), whatever the direction. The print of the RFC misleads in three
places: the header's option flags count from the least significant bit, OPT_FRAGMENT has 16 octets, and the
reserved octet of an option may contain anything.
"""

import struct
from enum import IntEnum
from typing import Final, NamedTuple

from tiercel.model.errors import DecodeError

IP_PROTOCOL: Final = 113
HEADER_BYTES: Final = 24  # of a data packet without options
FRAGMENT_BYTES: Final = 20  # OPT_LENGTH and OPT_FRAGMENT
NAK_LIST_MAX: Final = 62  # numbers in the list, beside that of the header
APDU_MAX_BYTES: Final = 65_536  # "64 kilobytes", [MC-MQSRM] 2.1.3.1

_COMMON: Final = struct.Struct(">HHBBH6sH")
_SPM: Final = struct.Struct(">IIIHH4s")
_DATA: Final = struct.Struct(">II")
_NAK: Final = struct.Struct(">IHH4sHH4s")
_FRAGMENT: Final = struct.Struct(">III")
_CHECKSUM_AT: Final = 6
_AFI_IPV4: Final = 1

_OPTIONS_PRESENT: Final = 0x01
_OPTIONS_FOR_ROUTERS: Final = 0x02
_PARITY: Final = 0xC0

_END: Final = 0x80
_OPTIONS_MAX: Final = 16
_OPT_LENGTH, _OPT_FRAGMENT, _OPT_NAK_LIST, _OPT_JOIN = 0x00, 0x01, 0x02, 0x03
_OPT_SYN, _OPT_FIN, _OPT_RST = 0x0D, 0x0E, 0x0F
_KNOWN: Final = frozenset({_OPT_FRAGMENT, _OPT_NAK_LIST, _OPT_JOIN, _OPT_SYN, _OPT_FIN, _OPT_RST})
_FRAGMENT_OPTION_BYTES: Final = 16
_NAK_LIST_MAX_BYTES: Final = 4 + 4 * NAK_LIST_MAX
# Most packets have a fragment and no other option; so they begin, and two reserved octets follow.
_ONLY_FRAGMENT: Final = bytes((_OPT_LENGTH, 4, 0, FRAGMENT_BYTES, _OPT_FRAGMENT | _END, 16))

NO_MORE_REPAIRS: Final = 0x40  # the N bit of OPT_RST


class PacketType(IntEnum):
    """RFC 3208 8"""

    SPM = 0x00
    POLL = 0x01
    POLR = 0x02
    ODATA = 0x04
    RDATA = 0x05
    NAK = 0x08
    NNAK = 0x09
    NCF = 0x0A
    SPMR = 0x0C
    ACK = 0x0D


UPSTREAM: Final = frozenset({PacketType.NAK, PacketType.NNAK, PacketType.SPMR, PacketType.POLR})
_TYPES: Final = {int(each): each for each in PacketType}


class Tsi(NamedTuple):
    """Transport session identifier: the source's global id and its port. RFC 3208 3.2."""

    gsi: bytes
    source_port: int

    def __str__(self) -> str:
        return f"{self.gsi.hex()}.{self.source_port}"


class Fragment(NamedTuple):
    """OPT_FRAGMENT: where a packet's data belongs in its APDU. RFC 3208 9.2."""

    first: int  # number of the packet that begins the APDU
    offset: int
    length: int  # of the APDU


class Options(NamedTuple):
    """The options that an end of a session reads; others are skipped. RFC 3208 9."""

    fragment: Fragment | None = None
    nak_list: tuple[int, ...] = ()
    join: int | None = None
    syn: bool = False
    fin: bool = False
    rst: int | None = None  # N bit and error code


NO_OPTIONS: Final = Options()
_NO_OTHERS: Final = NO_OPTIONS[1:]


class Spm(NamedTuple):
    """Source path message: the window, and where NAKs go. RFC 3208 8.1."""

    tsi: Tsi
    port: int
    number: int  # SPM_SQN, a series of its own
    trail: int
    lead: int
    path: str
    options: Options = NO_OPTIONS

    @property
    def kind(self) -> PacketType:
        return PacketType.SPM


class Data(NamedTuple):
    """ODATA, or RDATA as a repair. RFC 3208 8.2."""

    kind: PacketType
    tsi: Tsi
    port: int
    number: int
    trail: int
    payload: bytes
    options: Options = NO_OPTIONS


class Nak(NamedTuple):
    """NAK, NNAK or NCF: numbers that receivers lack. RFC 3208 8.3."""

    kind: PacketType
    tsi: Tsi
    port: int
    number: int
    source: str
    group: str
    options: Options = NO_OPTIONS

    @property
    def numbers(self) -> tuple[int, ...]:
        return (self.number, *self.options.nak_list)


class Other(NamedTuple):
    """POLL, POLR, SPMR, ACK: for parts of the RFC that [MC-MQSRM] 2.1.3 leaves out."""

    kind: PacketType
    tsi: Tsi
    port: int


Packet = Spm | Data | Nak | Other


def checksum(packet: bytes) -> int:
    """The checksum of a packet whose checksum field is zero; never 0, which says that there is none."""
    return ~_sum(packet) & 0xFFFF or 0xFFFF


def _sum(packet: bytes) -> int:
    """The one's complement sum: 2^16 is 1 modulo 65535, so the packet is one number to divide."""
    number = int.from_bytes(packet, "big") << (8 if len(packet) % 2 else 0)
    return number % 0xFFFF


# Decoding.


def decode(data: bytes) -> Packet:
    """The packet in `data`. Raises `DecodeError`."""
    if len(data) < _COMMON.size:
        raise _error("header", 0, f"needs {_COMMON.size} bytes, {len(data)} are left")
    port_from, port_to, version_type, flags, sent_sum, gsi, size = _COMMON.unpack_from(data)
    kind = _TYPES.get(version_type)
    if kind is None:
        raise _error("type", 4, f"0x{version_type:02x} is not a known version and type")
    if flags & _PARITY:
        raise _error("options", 5, "parity is not supported")
    has_data = kind is PacketType.ODATA or kind is PacketType.RDATA
    if sent_sum == 0 and has_data:
        raise _error("checksum", _CHECKSUM_AT, "is missing")
    if sent_sum and _sum(data):
        raise _error("checksum", _CHECKSUM_AT, "is wrong")
    is_up = kind in UPSTREAM
    tsi, port = Tsi(gsi, port_to if is_up else port_from), port_from if is_up else port_to
    if has_data:
        return _decode_data(data, kind, tsi, port, flags, size)
    if kind is PacketType.SPM:
        return _decode_spm(data, tsi, port, flags)
    if kind in {PacketType.NAK, PacketType.NNAK, PacketType.NCF}:
        return _decode_nak(data, kind, tsi, port, flags)
    return Other(kind, tsi, port)


def _decode_data(data: bytes, kind: PacketType, tsi: Tsi, port: int, flags: int, size: int) -> Data:
    _need(data, _DATA.size)
    number, trail = _DATA.unpack_from(data, _COMMON.size)
    at = HEADER_BYTES
    options = NO_OPTIONS
    if flags & _OPTIONS_PRESENT:
        options, at = _decode_options(data, at)
    if len(data) - at < size:
        raise _error("tsdu_length", 14, f"is {size}, {len(data) - at} bytes are left")
    fragment = options.fragment
    if fragment is not None and fragment.offset + size > fragment.length:
        raise _error("fragment", at, f"{fragment.offset} + {size} is beyond the length {fragment.length}")
    return Data(kind, tsi, port, number, trail, data[at : at + size], options)


def _decode_spm(data: bytes, tsi: Tsi, port: int, flags: int) -> Spm:
    _need(data, _SPM.size)
    number, trail, lead, family, _, path = _SPM.unpack_from(data, _COMMON.size)
    _check_family(family, 28)
    options = _decode_options(data, _COMMON.size + _SPM.size)[0] if flags & _OPTIONS_PRESENT else NO_OPTIONS
    return Spm(tsi, port, number, trail, lead, _address(path), options)


def _decode_nak(data: bytes, kind: PacketType, tsi: Tsi, port: int, flags: int) -> Nak:
    _need(data, _NAK.size)
    number, family, _, source, group_family, _, group = _NAK.unpack_from(data, _COMMON.size)
    _check_family(family, 20)
    _check_family(group_family, 28)
    options = _decode_options(data, _COMMON.size + _NAK.size)[0] if flags & _OPTIONS_PRESENT else NO_OPTIONS
    return Nak(kind, tsi, port, number, _address(source), _address(group), options)


def _decode_options(data: bytes, at: int) -> tuple[Options, int]:
    """The options that begin at `at`, and where they end."""
    if data.startswith(_ONLY_FRAGMENT, at) and len(data) >= at + FRAGMENT_BYTES:
        return Options(_read_fragment(data, at + 4)), at + FRAGMENT_BYTES
    if len(data) < at + 4 or data[at] != _OPT_LENGTH or data[at + 1] != 4:
        raise _error("options", at, "do not begin with OPT_LENGTH")
    total = int.from_bytes(data[at + 2 : at + 4], "big")
    end = at + total
    if total < 8 or end > len(data):
        raise _error("options", at, f"have {total} bytes, {len(data) - at} are left")
    found: dict[int, bytes] = {}
    at += 4
    for _ in range(_OPTIONS_MAX):
        if at + 4 > end or data[at + 1] < 4 or at + data[at + 1] > end:
            raise _error("options", at, "an option does not fit")
        kind, size = data[at] & ~_END, data[at + 1]
        if kind in found:
            raise _error("options", at, f"option 0x{kind:02x} is there twice")
        if kind in _KNOWN:
            found[kind] = data[at : at + size]
        is_last = data[at] & _END
        at += size
        if bool(is_last) != (at == end):
            raise _error("options", at, "the last option is not at the end")
        if is_last:
            return _read_options(found, at), end
    raise _error("options", at, f"there are more than {_OPTIONS_MAX}")


def _read_options(found: dict[int, bytes], at: int) -> Options:
    fragment = found.get(_OPT_FRAGMENT)
    if fragment is not None and len(fragment) != _FRAGMENT_OPTION_BYTES:
        raise _error("fragment", at, f"has {len(fragment)} bytes instead of {_FRAGMENT_OPTION_BYTES}")
    join, rst = found.get(_OPT_JOIN), found.get(_OPT_RST)
    if join is not None and len(join) != 8:
        raise _error("join", at, f"has {len(join)} bytes instead of 8")
    return Options(
        None if fragment is None else _read_fragment(fragment, 0),
        _read_nak_list(found.get(_OPT_NAK_LIST), at),
        None if join is None else int.from_bytes(join[4:], "big"),
        _OPT_SYN in found,
        _OPT_FIN in found,
        None if rst is None else rst[3] & 0x7F,
    )


def _read_fragment(data: bytes, at: int) -> Fragment:
    fragment = Fragment(*_FRAGMENT.unpack_from(data, at + 4))
    if not 0 < fragment.length <= APDU_MAX_BYTES:
        raise _error("fragment", at, f"length {fragment.length} is not 1 to {APDU_MAX_BYTES}")
    return fragment


def _read_nak_list(option: bytes | None, at: int) -> tuple[int, ...]:
    if option is None:
        return ()
    if len(option) % 4 or len(option) > _NAK_LIST_MAX_BYTES:
        raise _error("nak_list", at, f"has {len(option)} bytes")
    return struct.unpack_from(f">{len(option) // 4 - 1}I", option, 4)


def _need(data: bytes, size: int) -> None:
    if len(data) < _COMMON.size + size:
        left = len(data) - _COMMON.size
        raise _error("body", _COMMON.size, f"needs {size} bytes, {left} are left")


def _check_family(family: int, at: int) -> None:
    if family != _AFI_IPV4:
        raise _error("address", at, f"family {family} is not IPv4")


def _address(data: bytes) -> str:
    return ".".join(map(str, data))


def _error(field: str, at: int, problem: str) -> DecodeError:
    return DecodeError("PgmPacket", field, at, problem)


# Encoding.


def encode(packet: Packet) -> bytes:
    options = b""
    flags = size = 0
    if not isinstance(packet, Other) and packet.options is not NO_OPTIONS:
        options, flags = _encode_options(packet.options)
    match packet:
        case Data():
            size = len(packet.payload)
            body = _DATA.pack(packet.number, packet.trail) + options + packet.payload
        case Spm():
            path = _octets(packet.path)
            body = _SPM.pack(packet.number, packet.trail, packet.lead, _AFI_IPV4, 0, path) + options
        case Nak():
            source, group = _octets(packet.source), _octets(packet.group)
            body = _NAK.pack(packet.number, _AFI_IPV4, 0, source, _AFI_IPV4, 0, group) + options
        case _:
            body = b""
    ports = (packet.tsi.source_port, packet.port)
    if packet.kind in UPSTREAM:
        ports = ports[::-1]
    data = _COMMON.pack(*ports, packet.kind, flags, 0, packet.tsi.gsi, size) + body
    return data[:_CHECKSUM_AT] + checksum(data).to_bytes(2, "big") + data[_CHECKSUM_AT + 2 :]


def _encode_options(options: Options) -> tuple[bytes, int]:
    """The options and the header's flags; those for routers come first."""
    if options.fragment is not None and options[1:] == _NO_OTHERS:
        return _ONLY_FRAGMENT + b"\0\0" + _FRAGMENT.pack(*options.fragment), _OPTIONS_PRESENT
    parts: list[bytes] = []
    flags = _OPTIONS_PRESENT
    if options.nak_list:
        flags |= _OPTIONS_FOR_ROUTERS
        parts.append(_option(_OPT_NAK_LIST, struct.pack(f">{len(options.nak_list)}I", *options.nak_list)))
    if options.fragment is not None:
        parts.append(_option(_OPT_FRAGMENT, _FRAGMENT.pack(*options.fragment)))
    if options.join is not None:
        parts.append(_option(_OPT_JOIN, options.join.to_bytes(4, "big")))
    if options.syn:
        parts.append(_option(_OPT_SYN))
    if options.fin:
        parts.append(_option(_OPT_FIN))
    if options.rst is not None:
        parts.append(_option(_OPT_RST, last=options.rst))
    if not parts:
        return b"", 0
    parts[-1] = bytes([parts[-1][0] | _END]) + parts[-1][1:]
    total = 4 + sum(map(len, parts))
    return bytes([_OPT_LENGTH, 4]) + total.to_bytes(2, "big") + b"".join(parts), flags


def _option(kind: int, value: bytes = b"", last: int = 0) -> bytes:
    return bytes([kind, 4 + len(value), 0, last]) + value


def _octets(address: str) -> bytes:
    return bytes(map(int, address.split(".")))
