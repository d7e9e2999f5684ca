"""What must hold for PGM packets: any bytes give a packet or the one error."""

import json
from pathlib import Path

from basics import Target

from tiercel.model.errors import DecodeError
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


def _packets() -> list[bytes]:
    files = [json.loads(path.read_text("utf-8")) for path in sorted(VECTORS.glob("*.json"))]
    return [bytes.fromhex(packet["pgm"]) for each in files for packet in each["packets"]]


TARGETS: dict[str, Target] = {"pgm_packet": Target(check_packet, _packets)}
