"""The codec, against real packets of OpenPGM and bytes that tshark has read."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgm.vectors import GOLDEN, PORT, SOURCE, TSI, packets
from tiercel.model.errors import DecodeError
from tiercel.pgm.packet import (
    APDU_MAX_BYTES,
    Data,
    Fragment,
    Nak,
    Options,
    Other,
    Packet,
    PacketType,
    Spm,
    Tsi,
    checksum,
    decode,
    encode,
)

REAL = [*packets("plain"), *packets("loss")]
ODATA = bytes.fromhex(GOLDEN["ODATA with FRAGMENT and FIN"][0])


def summed(data: bytes) -> bytes:
    """The packet with its checksum made right."""
    data = data[:6] + b"\0\0" + data[8:]
    return data[:6] + checksum(data).to_bytes(2, "big") + data[8:]


def without_rubbish(data: bytes) -> bytes:
    """OpenPGM leaves something in the reserved octet of the list in an NCF."""
    if data[4] != PacketType.NCF or len(data) == 36:
        return data
    return summed(data[:42] + b"\0" + data[43:])


class TestVectors:
    @pytest.mark.conformance("SRMP-177")
    @pytest.mark.parametrize("real", REAL, ids=lambda each: f"{each['kind']}-{each['t']}")
    def test_real_packets_are_read_and_built_again(self, real: dict[str, Any]) -> None:
        data = bytes.fromhex(real["pgm"])
        packet = decode(data)
        assert packet.kind.name == real["kind"]
        assert encode(packet) == without_rubbish(data)
        read = real["tshark"]
        assert packet.tsi.gsi.hex() == read["hdr.gsi"].replace(":", "")
        if isinstance(packet, Spm):
            assert packet.number == int(read["spm.sqn"], 16)
            assert (packet.trail, packet.lead) == (int(read["spm.trail"], 16), int(read["spm.lead"], 16))
            assert packet.path == read["spm.path.ipv4"]

    @pytest.mark.parametrize("name", GOLDEN)
    def test_golden_packets_both_ways(self, name: str) -> None:
        data, packet = GOLDEN[name]
        assert decode(bytes.fromhex(data)) == packet
        assert encode(packet).hex() == data

    def test_ports_follow_the_direction(self) -> None:
        up, down = bytes.fromhex(GOLDEN["NAK with a list"][0]), bytes.fromhex(GOLDEN["NCF with a list"][0])
        assert (up[0:2], up[2:4]) == (down[2:4], down[0:2])
        assert decode(up).tsi == decode(down).tsi


class TestChecksum:
    def test_any_flipped_bit_of_a_data_packet_is_noticed(self) -> None:
        for bit in range(len(ODATA) * 8):
            broken = bytearray(ODATA)
            broken[bit // 8] ^= 1 << bit % 8
            with pytest.raises(DecodeError):
                decode(bytes(broken))

    def test_data_without_a_checksum_is_refused_and_a_nak_without_one_accepted(self) -> None:
        with pytest.raises(DecodeError, match="checksum at byte 6: is missing"):
            decode(ODATA[:6] + b"\0\0" + ODATA[8:])
        nak = bytes.fromhex(GOLDEN["NAK with a list"][0])
        assert decode(nak[:6] + b"\0\0" + nak[8:]) == decode(nak)

    @given(st.binary(min_size=1, max_size=100))
    def test_it_is_the_one_of_the_internet(self, data: bytes) -> None:
        padded = data + b"\0" * (len(data) % 2)
        total = sum(int.from_bytes(padded[at : at + 2], "big") for at in range(0, len(padded), 2))
        while total > 0xFFFF:
            total = (total & 0xFFFF) + (total >> 16)
        assert checksum(data) == (~total & 0xFFFF or 0xFFFF)


def with_options(options: str, kind: str = "04", body: str = "0000000b0000000a") -> bytes:
    return summed(bytes.fromhex(f"12341f41{kind}010000101bfa737b6b0000{body}{options}"))


class TestRefused:
    @pytest.mark.conformance("SRMP-182")
    @pytest.mark.parametrize("kind", ["04", "05", "08"])
    @pytest.mark.parametrize("flag", [0x80, 0x40])
    def test_parity(self, kind: str, flag: int) -> None:
        data = bytearray(bytes.fromhex(GOLDEN["NAK with a list"][0]))
        data[4] = int(kind, 16)
        data[5] |= flag
        with pytest.raises(DecodeError, match="parity is not supported"):
            decode(summed(bytes(data)))

    @pytest.mark.parametrize(
        "options",
        [
            "",  # none, though the flag is set
            "00040004",  # nothing but the length
            "00050008" + "8e040000",  # a length of another length
            "0004000c" + "8e040000",  # beyond the packet
            "00040008" + "8e000000",  # an option of no length
            "00040008" + "8e080000",  # an option beyond the rest
            "00040008" + "0e040000",  # no end
            "0004000c" + "8e04000010040000",  # the end before the end
            "0004000c" + "0e0400008e040000",  # twice
            "00040010" + "810c0000" + "0000000b00000000",  # OPT_FRAGMENT as the RFC prints its length
            "0004000a" + "82060000" + "0000",  # half a number in a list
            "00040009" + "8305000000",  # OPT_JOIN of 5 bytes
            f"{4 + 17 * 4:08x}".replace("0000", "0004", 1) + "10040000" * 16 + "90040000",  # 17 options
            "00040014" + "81100000" + "0000000b" + "00000000" + "00000000",  # an APDU of no length
            "00040014" + "81100000" + "0000000b" + "00000000" + f"{APDU_MAX_BYTES + 1:08x}",
            "00040014" + "81100000" + "0000000b" + "00000005" + "00000004",  # begins beyond its length
        ],
    )
    def test_options_that_lie(self, options: str) -> None:
        with pytest.raises(DecodeError):
            decode(with_options(options))

    def test_unknown_options_are_skipped(self) -> None:
        packet = decode(with_options("00040010" + "1004ffff" + "7f04ffff" + "8e04ff00"))
        assert packet == Data(PacketType.ODATA, TSI, PORT, 11, 10, b"", Options(fin=True))

    @pytest.mark.parametrize("kind", [0x03, 0x06, 0x0B, 0x14, 0x44, 0xFF])
    def test_other_versions_and_types(self, kind: int) -> None:
        with pytest.raises(DecodeError, match="is not a known version and type"):
            decode(summed(ODATA[:4] + bytes([kind]) + ODATA[5:]))

    def test_ipv6(self) -> None:
        data = bytearray(bytes.fromhex(GOLDEN["SPM"][0]))
        data[29] = 2
        with pytest.raises(DecodeError, match="family 2 is not IPv4"):
            decode(summed(bytes(data)))

    def test_more_data_than_there_is(self) -> None:
        with pytest.raises(DecodeError, match=r"tsdu_length at byte 14: is 4, 3 bytes are left"):
            decode(summed(ODATA[:15] + b"\4" + ODATA[16:]))

    def test_bytes_after_the_data_are_ignored(self) -> None:
        packet = decode(summed(bytes.fromhex(GOLDEN["RDATA"][0]) + b"more"))
        assert isinstance(packet, Data)
        assert packet.payload == b"abc"

    def test_cut_and_changed_packets_give_a_value_or_the_one_error(self) -> None:
        draw = random.Random(1)
        seeds = [bytes.fromhex(real["pgm"]) for real in REAL] + [bytes.fromhex(g[0]) for g in GOLDEN.values()]
        for _ in range(3000):
            data = bytearray(draw.choice(seeds)[: draw.randrange(80)])
            for _ in range(draw.randrange(4)):
                if data:
                    data[draw.randrange(len(data))] = draw.randrange(256)
            try:
                decode(summed(bytes(data)) if len(data) >= 8 else bytes(data))
            except DecodeError:
                continue


ports = st.integers(0, 0xFFFF)
numbers = st.integers(0, 0xFFFF_FFFF)
tsis = st.builds(Tsi, st.binary(min_size=6, max_size=6), ports)
addresses = st.ip_addresses(v=4).map(str)
lists = st.lists(numbers, max_size=62).map(lambda found: Options(nak_list=tuple(found)))


@st.composite
def ends(draw: st.DrawFn) -> Options:
    rst = draw(st.none() | st.integers(0, 0x7F))
    return Options(join=draw(st.none() | numbers), fin=draw(st.booleans()), rst=rst)


@st.composite
def data_packets(draw: st.DrawFn) -> Data:
    payload = draw(st.binary(max_size=60))
    offset = draw(st.integers(0, 1000))
    fragment = Fragment(draw(numbers), offset, offset + len(payload) + draw(st.integers(1, 1000)))
    options = Options(draw(st.none() | st.just(fragment)), syn=draw(st.booleans()), fin=draw(st.booleans()))
    kind = draw(st.sampled_from([PacketType.ODATA, PacketType.RDATA]))
    return Data(kind, draw(tsis), draw(ports), draw(numbers), draw(numbers), payload, options)


naks = st.sampled_from([PacketType.NAK, PacketType.NNAK, PacketType.NCF])
others = st.sampled_from([PacketType.POLL, PacketType.POLR, PacketType.SPMR, PacketType.ACK])


@given(
    data_packets()
    | st.builds(Spm, tsis, ports, numbers, numbers, numbers, addresses, ends())
    | st.builds(Nak, naks, tsis, ports, numbers, addresses, addresses, lists)
    | st.builds(Other, others, tsis, ports)
)
def test_every_packet_is_read_as_it_was_written(packet: Packet) -> None:
    assert decode(encode(packet)) == packet


def test_the_path_is_where_it_belongs() -> None:
    assert encode(Spm(TSI, PORT, 1, 2, 3, SOURCE))[32:36] == bytes([10, 9, 0, 1])
