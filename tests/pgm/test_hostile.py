"""Packets and requests that strangers made up reach the whole queue manager, and stop nothing."""

from random import Random

from pgm.vectors import packets
from pgm.world import ADDRESS, Side
from srmp.vectors import VALID, load
from tiercel.pgm.packet import Data, Fragment, Options, PacketType, Tsi, checksum, encode

GROUP, PORT = "234.1.1.1", 8001


def changed(data: bytes, draw: Random) -> bytes:
    broken = bytearray(data)
    for _ in range(draw.randrange(1, 6)):
        at = draw.randrange(len(broken))
        broken[at : at + draw.randrange(3)] = draw.randbytes(draw.randrange(3))
        if not broken:
            return b"\0"
    return bytes(broken)


def test_changed_packets() -> None:
    side, draw = Side(), Random(1)
    box = side.create("one", multicast_address=ADDRESS)
    side.to().send(b"ours")
    real = [bytes.fromhex(each["pgm"]) for name in ("plain", "loss") for each in packets(name)]
    real += [packet.data for packet in side.packets]
    for _ in range(1500):
        data = changed(draw.choice(real), draw)
        if len(data) >= 8:
            data = data[:6] + b"\0\0" + data[8:]
            data = data[:6] + checksum(data).to_bytes(2, "big") + data[8:]
        side.hear(data, f"10.9.0.{draw.randrange(1, 5)}", GROUP)
        if draw.random() < 0.1:
            side.sleep(draw.choice([0.01, 0.5, 40.0]))
    assert box.state.count <= 1 + 1500


def test_changed_requests() -> None:
    side, draw = Side(), Random(2)
    side.create("one", multicast_address=ADDRESS)
    side.create("two", multicast_address=ADDRESS)
    requests = [
        load("05_pgm"),
        *(load(name).replace(b"http://machine2", b"MSMQ:MULTICAST=") for name in VALID),
    ]
    for number in range(400):
        data = changed(draw.choice(requests), draw)
        tsi = Tsi(number.to_bytes(6, "big"), 1)
        for offset in range(0, len(data), 1400):
            fragment = Fragment(0, offset, len(data)) if len(data) > 1400 else None
            piece = data[offset : offset + 1400]
            packet = Data(PacketType.ODATA, tsi, PORT, offset // 1400, 0, piece, Options(fragment))
            side.hear(encode(packet), "10.9.0.9", GROUP)
    assert sum(side.multicast.incoming.dropped.values()) > 0
