"""What must hold for PGM packets: any bytes give a packet or the one error."""

import json
from pathlib import Path

from basics import Target

from tiercel.model.errors import DecodeError
from tiercel.pgm.framing import Framing
from tiercel.pgm.packet import checksum, decode, encode

VECTORS = Path(__file__).resolve().parent.parent / "vectors" / "pgm"


def check_packet(data: bytes) -> None:
    """The checksum is made right, so that the fuzzer gets past it."""
    if len(data) >= 8:
        data = data[:6] + b"\0\0" + data[8:]
        data = data[:6] + checksum(data).to_bytes(2, "big") + data[8:]
    try:
        packet = decode(data)
    except DecodeError:
        return
    if decode(encode(packet)) != packet:
        raise AssertionError("what was written reads as something else")


def check_framing(data: bytes) -> None:
    """The first byte says where the APDU is cut: no byte is in two requests, and what is kept has a bound."""
    at, data = (data[0] * len(data) >> 8, data[1:]) if data else (0, b"")
    framing = Framing()
    found = framing.feed(data[:at])
    if not framing.malformed:
        found += framing.feed(data[at:])
    if not data.startswith(b"".join(found)):
        raise AssertionError("requests that did not come in this order")


def _requests() -> list[bytes]:
    return [b"\x40" + path.read_bytes() for path in sorted((VECTORS.parent / "srmp").glob("*.http"))]


def _packets() -> list[bytes]:
    files = [json.loads(path.read_text("utf-8")) for path in sorted(VECTORS.glob("*.json"))]
    return [bytes.fromhex(packet["pgm"]) for each in files for packet in each["packets"]]


TARGETS: dict[str, Target] = {
    "pgm_framing": Target(check_framing, _requests),
    "pgm_packet": Target(check_packet, _packets),
}
