"""OpenPGM, another implementation of RFC 3208, sends to Tiercel and receives from it, with loss."""

import json
import subprocess
import sys
import time
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from srmp.vectors import load
from tiercel.srmp.http_request import read_multicast
from tiercel.srmp.request import read_srmp

from .installed import installed
from .network_lab import ADDRESSES, Lab, network_lab

ROOT = Path(__file__).resolve().parents[2]
TOOL, FIX = ROOT / "build" / "pgm" / "pgmtool", ROOT / "build" / "pgm" / "csumfix.so"
GROUP, PORT = "234.1.1.1", 8001
NAME = f"MULTICAST={GROUP}:{PORT}"
PATIENCE_S = 120.0
SIZES = [1, 100, 1000, 1400, 3000, 5000, 10_000, 20_000, 7, 500]

Transcript = Callable[[str], None]


@pytest.fixture(autouse=True)
def _openpgm() -> None:
    if not TOOL.exists():
        pytest.skip("OpenPGM is not installed; make interop does that")


def openpgm(lab: Lab, machine: str, verb: str, *options: str) -> "subprocess.Popen[str]":
    where = f"{ADDRESSES[machine]};{GROUP}"
    command = lab.command(machine, "env", f"LD_PRELOAD={FIX}", str(TOOL), verb, where, str(PORT), *options)
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # noqa: S603


def end(process: "subprocess.Popen[str]") -> None:
    process.terminate()
    with process:  # closes its pipes
        process.wait()


@contextmanager
def serving(lab: Lab, machine: str, folder: Path, transport: str, packet_bytes: int) -> Iterator[Path]:
    """A daemon with multicast; gives its data directory."""
    folder.mkdir()
    config, log = folder / "tiercel.toml", folder / "log"
    config.write_text(
        f'[listen]\nhost = "{ADDRESSES[machine]}"\n[multicast]\nenabled = true\ntransport = "{transport}"\n'
        f'interface = "{ADDRESSES[machine]}"\nrate_bytes_s = 1000000\npacket_bytes = {packet_bytes}\n',
        "utf-8",
    )
    words = (sys.executable, "-m", "tiercel", "serve", "--data", f"{folder}/data", "--config", str(config))
    with (
        log.open("w") as out,
        subprocess.Popen(lab.command(machine, *words), stderr=out) as daemon,  # noqa: S603
    ):
        try:
            until(lambda: "event=start" in log.read_text("utf-8"))
            assert "multicast_off" not in log.read_text("utf-8")
            yield folder / "data"
        finally:
            daemon.terminate()


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)


def verb(data: Path, *words: str) -> str:
    command = (sys.executable, "-m", "tiercel", *words, "--data", str(data))
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603


def body(number: int, size: int) -> bytes:
    return bytes((number + at) % 251 for at in range(size))


def request(number: int, content: bytes) -> bytes:
    """Vector 05 with another id and another body."""
    text = load("05_pgm").replace(b"uuid:4494@", b"uuid:%d@" % (5000 + number))
    head, _, rest = text.partition(b"\r\n\r\n")
    at = rest.index(b"Content-Length: 20\r\n")
    end = rest.index(b"\r\n\r\n", at) + 4
    rest = rest[:at] + b"Content-Length: %d\r\n" % len(content) + rest[at + 20 : end] + content
    rest += b"--MSMQ - SOAP boundary, 292--\r\n"
    return head.replace(b"Content-Length: 1067", b"Content-Length: %d" % len(rest)) + b"\r\n\r\n" + rest


@pytest.mark.conformance("SRMP-194")
@pytest.mark.parametrize("transport", ["raw", "udp"])
@pytest.mark.parametrize("loss", [0, 10, 30])
def test_openpgm_sends(tmp_path: Path, transport: str, loss: int, transcript: Transcript) -> None:
    with network_lab() as lab:
        _receive(lab, tmp_path, transport, loss, SIZES, 1500, transcript)


def test_openpgm_sends_60_kilobytes_in_large_packets(tmp_path: Path, transcript: Transcript) -> None:
    with network_lab(9000) as lab:
        _receive(lab, tmp_path, "raw", 10, [60_000, 1], 4400, transcript)


def _receive(
    lab: Lab,
    folder: Path,
    transport: str,
    loss: int,
    sizes: list[int],
    mtu: int,
    transcript: Transcript,
) -> None:
    lab.lose("b", loss)
    udp = ["--udp", "3055"] if transport == "udp" else []
    with serving(lab, "b", folder / "b", transport, 1500) as data:
        verb(data, "create", "prices", "--multicast", f"{GROUP}:{PORT}")
        wanted = "".join(f"{request(n, body(n, size)).hex()}\n" for n, size in enumerate(sizes))
        sender = openpgm(lab, "a", "send", "--linger", "60000", "--mtu", str(mtu), *udp)
        assert sender.stdin is not None
        sender.stdin.write(wanted)
        sender.stdin.close()
        try:
            until(lambda: verb(data, "count", "prices").split()[-1] == str(len(sizes)))
        finally:
            transcript(verb(data, "multicast"))
            end(sender)
        lines = verb(data, "receive", "prices", "-n", str(len(sizes)), "--json")
    found = [b64decode(json.loads(line)["body"]) for line in lines.splitlines()]
    assert found == [body(n, size) for n, size in enumerate(sizes)]


@pytest.mark.conformance("SRMP-180", "SRMP-194")
@pytest.mark.parametrize("transport", ["raw", "udp"])
@pytest.mark.parametrize("loss", [0, 10, 30])
def test_openpgm_receives(tmp_path: Path, transport: str, loss: int, transcript: Transcript) -> None:
    with network_lab() as lab:
        _send(lab, tmp_path, transport, loss, SIZES, 1500, transcript)


def test_openpgm_receives_60_kilobytes_in_large_packets(tmp_path: Path, transcript: Transcript) -> None:
    with network_lab(9000) as lab:
        _send(lab, tmp_path, "raw", 10, [1, 60_000, 1], 4400, transcript)


def _send(
    lab: Lab,
    folder: Path,
    transport: str,
    loss: int,
    sizes: list[int],
    packet_bytes: int,
    transcript: Transcript,
) -> None:
    udp = ["--udp", "3055"] if transport == "udp" else []
    options = ["--count", str(len(sizes) + 1), "--seconds", "100", "--mtu", str(packet_bytes), *udp]
    capture = folder / "capture.pcapng"
    sniffer = subprocess.Popen(  # noqa: S603
        lab.command("a", installed("tshark"), "-q", "-i", "eth0", "-w", str(capture)),
        stderr=subprocess.DEVNULL,
    )
    receiver = openpgm(lab, "b", "recv", *options)
    try:
        with serving(lab, "a", folder / "a", transport, packet_bytes) as data:
            time.sleep(1.0)  # OpenPGM has joined by then; it does not say so
            verb(data, "send", NAME, "first")
            time.sleep(1.0)
            lab.lose("b", loss)
            for number, size in enumerate(sizes):
                file = folder / f"{number}"
                file.write_bytes(body(number, size))
                verb(data, "send", NAME, "--file", str(file))
            assert receiver.stdout is not None
            lines = [receiver.stdout.readline() for _ in range(len(sizes) + 1)]
            transcript(verb(data, "multicast"))
    finally:
        end(receiver)
        sniffer.terminate()
        sniffer.wait()
    apdus = [bytes.fromhex(json.loads(line)["hex"]) for line in lines]
    parts = [read_srmp(read_multicast(apdu), over_multicast=True).body for apdu in apdus]
    found = [b"" if part is None else part.content for part in parts]
    assert found[1:] == [body(number, size) for number, size in enumerate(sizes)]
    _check_capture(capture, transport)


def _check_capture(capture: Path, transport: str) -> None:
    """Tshark finds nothing malformed and no wrong checksum."""
    options = ("-d", "udp.port==3055,pgm") if transport == "udp" else ()
    text = subprocess.run(  # noqa: S603
        (installed("tshark"), "-r", str(capture), *options, "-V", "-Y", "pgm"),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "Pragmatic General Multicast" in text or "PGM" in text
    assert "Malformed" not in text
    assert "incorrect" not in text
