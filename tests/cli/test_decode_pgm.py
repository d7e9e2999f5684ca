"""`tiercel decode` of PGM in captures, raw and in UDP."""

import json
from ipaddress import ip_address
from pathlib import Path

import pytest

from pgm.vectors import packets
from tiercel.cli import main
from wire.test_capture import ipv4, pcap


def capture(path: Path, name: str, *, udp: bool = False) -> Path:
    """The conversation of OpenPGM as a capture."""
    frames = []
    for each in packets(name):
        data = bytes.fromhex(each["pgm"])
        if udp:
            size = len(data) + 8
            head = (40000).to_bytes(2, "big") + (3055).to_bytes(2, "big") + size.to_bytes(2, "big") + b"\0\0"
            data = head + data
        packet = ipv4(data, protocol=17 if udp else 113)
        frames.append(packet[:12] + ip_address(each["src"]).packed + ip_address(each["dst"]).packed + data)
    path.write_bytes(pcap(frames))
    return path


@pytest.mark.conformance("SRMP-177")
@pytest.mark.parametrize("udp", [False, True])
@pytest.mark.parametrize("name", ["plain", "loss"])
def test_every_packet_and_the_message_inside(
    name: str, udp: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["decode", "--json", str(capture(tmp_path / "c.pcap", name, udp=udp))]) == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    kinds = [each["kind"] for each in records]
    assert kinds.count("SrmpRequest") == 1
    assert len(kinds) == len(packets(name)) + 1
    summaries = [each["summary"] for each in records]
    assert summaries[0].startswith("PGM SPM  session ")
    assert any("MSMQ:MULTICAST=234.1.1.1:8001" in each for each in summaries)
    for record in records:
        for structure in record["structures"]:
            assert all(field["offset"] + field["size"] <= record["size"] for field in structure["fields"])


def test_a_packet_that_cannot_be_read_is_a_problem(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "c.pcap"
    path.write_bytes(pcap([ipv4(b"rubbish and more of it", protocol=113)]))
    assert main(["decode", "--summary", str(path)]) == 1
    assert "PgmPacket.type" in capsys.readouterr().err
