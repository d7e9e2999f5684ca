"""Real packets of OpenPGM, and packets whose bytes tshark has read."""

import json
from pathlib import Path
from typing import Any

from tiercel.pgm.packet import Data, Fragment, Nak, Options, Other, Packet, PacketType, Spm, Tsi

FOLDER = Path(__file__).resolve().parent.parent / "vectors" / "pgm"

TSI = Tsi(bytes.fromhex("101bfa737b6b"), 4660)
PORT = 8001
SOURCE, GROUP = "10.9.0.1", "234.1.1.1"

NAK_OPTIONS = Options(nak_list=(6, 7, 9))
GOLDEN: dict[str, tuple[str, Packet]] = {
    "SPM": (
        "12341f4100003e60101bfa737b6b0000000000070000000a00000014000100000a090001",
        Spm(TSI, PORT, 7, 10, 20, SOURCE),
    ),
    "SPM with FIN": (
        "12341f410001b04d101bfa737b6b0000000000080000000a00000014000100000a090001000400088e040000",
        Spm(TSI, PORT, 8, 10, 20, SOURCE, Options(fin=True)),
    ),
    "SPM with RST": (
        "12341f410001af07101bfa737b6b0000000000090000000a00000014000100000a090001000400088f040045",
        Spm(TSI, PORT, 9, 10, 20, SOURCE, Options(rst=0x45)),
    ),
    "SPM with JOIN": (
        "12341f410001bb37101bfa737b6b00000000000a0000000a00000014000100000a0900010004000c830800000000000c",
        Spm(TSI, PORT, 10, 10, 20, SOURCE, Options(join=12)),
    ),
    "ODATA with SYN": (
        "12341f4104013f69101bfa737b6b00010000000a0000000a000400088d04000078",
        Data(PacketType.ODATA, TSI, PORT, 10, 10, b"x", Options(syn=True)),
    ),
    "ODATA with FRAGMENT and FIN": (
        "12341f410401f0d5101bfa737b6b00030000000b0000000a00040018011000000000000b00000000000000038e040000616263",
        Data(PacketType.ODATA, TSI, PORT, 11, 10, b"abc", Options(Fragment(11, 0, 3), fin=True)),
    ),
    "RDATA": (
        "12341f4105007f15101bfa737b6b00030000000b0000000a616263",
        Data(PacketType.RDATA, TSI, PORT, 11, 10, b"abc"),
    ),
    "ODATA whose checksum is 0": (
        "12341f410400ffff101bfa737b6b00020000000d0000000a4477",
        Data(PacketType.ODATA, TSI, PORT, 13, 10, b"Dw"),
    ),
    "NAK with a list": (
        (
            "1f4112340803c93a101bfa737b6b000000000005000100000a09000100010000ea010101"
            "0004001482100000000000060000000700000009"
        ),
        Nak(PacketType.NAK, TSI, PORT, 5, SOURCE, GROUP, NAK_OPTIONS),
    ),
    "NCF with a list": (
        (
            "12341f410a03c73a101bfa737b6b000000000005000100000a09000100010000ea010101"
            "0004001482100000000000060000000700000009"
        ),
        Nak(PacketType.NCF, TSI, PORT, 5, SOURCE, GROUP, NAK_OPTIONS),
    ),
    "NNAK": (
        "1f41123409004a7c101bfa737b6b000000000005000100000a09000100010000ea010101",
        Nak(PacketType.NNAK, TSI, PORT, 5, SOURCE, GROUP),
    ),
    "SPMR": ("1f4112340c003c90101bfa737b6b0000", Other(PacketType.SPMR, TSI, PORT)),
}


def conversation(name: str) -> dict[str, Any]:
    """`plain` or `loss`."""
    found: dict[str, Any] = json.loads((FOLDER / f"openpgm_{name}.json").read_text("utf-8"))
    return found


def packets(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = conversation(name)["packets"]
    return found
