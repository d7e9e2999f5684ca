"""The command as its users meet it: what it prints, what it complains of, and its exit code."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tiercel.cli import BROKEN_PIPE, main
from tiercel.wire.base_header import BaseHeader
from tiercel.wire.session_header import SessionHeader
from tiercel.wire.structure import Structure

HERE = Path(__file__).parent
VECTORS = HERE.parent / "vectors"
CAPTURES = sorted((VECTORS / "captures").glob("*.pcap*"))
FRAMES = {int(path.name[5]): path for path in sorted((VECTORS / "mqqb").glob("frame*.bin"))}


@pytest.fixture(autouse=True)
def in_the_folder_of_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the names in the output are the same everywhere."""
    monkeypatch.chdir(VECTORS)


class Result:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code = code
        self.out = out
        self.err = err

    @property
    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


class Command:
    def __init__(self, capsys: pytest.CaptureFixture[str], folder: Path) -> None:
        self._capsys = capsys
        self._folder = folder

    def __call__(self, *arguments: str | Path) -> Result:
        try:
            code = main(["decode", *map(str, arguments)])
        except SystemExit as stop:
            code = int(stop.code or 0)
        captured = self._capsys.readouterr()
        return Result(code, captured.out, captured.err)

    def on(self, data: bytes, *arguments: str) -> Result:
        path = self._folder / "input"
        path.write_bytes(data)
        return self(*arguments, path)


@pytest.fixture
def decode(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    return Command(capsys, tmp_path)


def assert_complaint(result: Result, *words: str) -> None:
    """One line on the standard error, with these words in it."""
    assert result.err.count("\n") == 1
    assert result.err.startswith("tiercel decode: ")
    for word in words:
        assert word in result.err


class TestText:
    @pytest.mark.parametrize("number", [7, 8])
    def test_prints_what_reviewers_have_read(self, decode: Command, number: int) -> None:
        """Golden files; written by `tiercel decode --verify` in tests/vectors, and read by people."""
        path = FRAMES[number].relative_to(VECTORS)
        result = decode("--verify", path)
        assert result.out == (HERE / "golden" / f"{path.stem}.txt").read_text("utf-8")
        assert (result.code, result.err) == (0, "")

    def test_a_stream_of_packets(self, decode: Command) -> None:
        result = decode.on(b"".join(FRAMES[number].read_bytes() for number in (3, 5, 7)), "--summary")
        starts = [line.split("  ")[:2] for line in result.out.splitlines()[1:-1]]
        assert starts == [
            ["#1 at 0x0000", "EstablishConnection"],
            ["#2 at 0x023c", "ConnectionParameters"],
            ["#3 at 0x025c", "UserMessage"],
        ]
        assert result.out.endswith("3 packets\n")

    def test_pings_and_then_a_session(self, decode: Command) -> None:
        result = decode.on(b"".join(path.read_bytes() for path in FRAMES.values()), "--summary", "--verify")
        assert result.code == 0
        assert result.out.count("  Ping  ") == 2
        assert "8 packets, verified" in result.out

    def test_the_body_whole(self, decode: Command) -> None:
        assert len(decode("--body", FRAMES[7]).out) > 2 * len(decode(FRAMES[7]).out)

    def test_several_files(self, decode: Command) -> None:
        result = decode("--summary", FRAMES[1], FRAMES[8])
        assert result.out.count("1 packet\n") == 2

    def test_a_label_that_the_terminal_cannot_show(self, decode: Command) -> None:
        data = (
            FRAMES[7].read_bytes().replace("label".encode("utf-16-le"), "l\x1bb\u2713l".encode("utf-16-le"))
        )
        assert '"mqsender l\\x1bb✓l"' in decode.on(data, "--summary").out


class TestJson:
    @pytest.mark.parametrize("number", FRAMES)
    def test_the_fields_add_up_to_the_packet(self, decode: Command, number: int) -> None:
        (record,) = decode("--json", FRAMES[number]).records
        at = 0
        for structure in record["structures"]:
            assert structure["offset"] == at
            for field in structure["fields"]:
                assert list(field) == ["offset", "size", "name", "value", "flags", "meaning"]
                assert field["offset"] == at
                at += field["size"]
        assert at == record["size"] == FRAMES[number].stat().st_size

    def test_a_record_says_where_it_comes_from(self, decode: Command) -> None:
        records = decode("--json", "--verify", CAPTURES[0]).records
        assert {
            key: records[-1][key] for key in ("file", "stream", "packet", "offset", "kind", "difference")
        } == {
            "file": str(CAPTURES[0]),
            "stream": "TCP 127.0.0.1:1801 -> 127.0.0.1:40002",
            "packet": 3,
            "offset": 604,
            "kind": "SessionAck",
            "difference": None,
        }

    def test_a_problem_is_a_record_too(self, decode: Command) -> None:
        result = decode.on(FRAMES[8].read_bytes()[:20], "--json")
        (record,) = result.records
        assert record["problem"] == "cut after 20 of 36 bytes"
        assert (record["packet"], record["offset"]) == (1, 0)
        assert_complaint(result, "packet 1 at 0x0000: cut after 20 of 36 bytes")


class TestInputs:
    @pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name)
    def test_captures(self, decode: Command, path: Path) -> None:
        result = decode("--summary", "--verify", path)
        assert (result.code, result.err) == (0, "")
        lines = [line.split("  ")[1] for line in result.out.splitlines() if line.startswith("#")]
        session = ["EstablishConnection", "ConnectionParameters"]
        assert lines == ["Ping", "Ping", *session, "UserMessage", *session, "SessionAck"]

    def test_other_ports(self, decode: Command) -> None:
        result = decode(
            "--summary", "--tcp-port", "9999", "--tcp-port", "40002", "--udp-port", "1", CAPTURES[0]
        )
        assert "6 packets" in result.out

    def test_hexadecimal_text(self, decode: Command) -> None:
        result = decode.on(FRAMES[7].read_bytes().hex(" ").encode(), "--summary")
        assert "hexadecimal text, 2224 bytes" in result.out
        assert "UserMessage" in result.out

    def test_a_capture_as_hexadecimal_text(self, decode: Command) -> None:
        assert "8 packets" in decode.on(CAPTURES[0].read_bytes().hex().encode(), "--summary").out

    def test_the_standard_input(self, decode: Command, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(FRAMES[8].read_bytes())))
        result = decode("--summary", "-")
        assert result.out.startswith("standard input: raw bytes, 36 bytes\n#1 at 0x0000  SessionAck")


class TestProblems:
    def test_a_packet_that_does_not_decode_is_told_and_the_next_one_follows(self, decode: Command) -> None:
        bad = bytearray(FRAMES[8].read_bytes())
        bad[18] = 0x09  # no packet type
        result = decode.on(FRAMES[8].read_bytes() + bytes(bad) + FRAMES[8].read_bytes(), "--summary")
        assert result.code == 1
        assert_complaint(result, "packet 2 at 0x0024: InternalHeader.flags at 0x0036: PT 9")
        assert "#3 at 0x0048  SessionAck" in result.out
        assert "2 packets, 1 problem" in result.out

    def test_a_stream_without_framing_ends(self, decode: Command) -> None:
        good = FRAMES[8].read_bytes()
        result = decode.on(good + b"no packet at all" + good, "--summary")
        assert result.code == 1
        assert_complaint(
            result, "packet 2 at 0x0024: BaseHeader.version_number at 0x0024: is 0x6e", "52 bytes skipped"
        )
        assert "1 packet, 1 problem" in result.out

    @pytest.mark.parametrize(
        ("size", "words"),
        [(7, "cut in its BaseHeader after 7 of 16 bytes"), (16, "cut after 16 of 2224 bytes")],
    )
    def test_a_cut_packet(self, decode: Command, size: int, words: str) -> None:
        result = decode.on(FRAMES[8].read_bytes() + FRAMES[7].read_bytes()[:size])
        assert result.code == 1
        assert_complaint(result, f"packet 2 at 0x0024: {words}")

    def test_a_gap_in_a_capture(self, decode: Command) -> None:
        recorded = CAPTURES[0].read_bytes()
        start = recorded.index(FRAMES[7].read_bytes()[500:1000])
        record = start - 66 - 16  # Ethernet, IP and TCP with its options, and the header of the record
        result = decode.on(recorded[:record] + recorded[start + 500 :], "--summary")
        assert result.code == 1
        cut, gap = result.err.splitlines()
        assert cut.endswith("packet 3 at 0x025c: cut after 500 of 2224 bytes")
        assert "127.0.0.1:40002 -> 127.0.0.1:1801, at 0x0450: 500 bytes are missing from the capture" in gap
        assert gap.endswith("and 1224 after them cannot be assigned to a packet")
        assert "7 packets, 2 problems" in result.out

    def test_a_cut_capture(self, decode: Command) -> None:
        result = decode.on(CAPTURES[0].read_bytes()[:-1], "--summary")
        assert result.code == 1
        assert_complaint(result, "the capture is truncated, PcapRecord.incl_len")
        assert "8 packets, 1 problem" in result.out

    def test_remarks_on_frames_that_were_left_out_are_no_failure(self, decode: Command) -> None:
        recorded = bytearray(CAPTURES[0].read_bytes())
        recorded[24 + 16 + 14 + 6] |= 0x20  # the first Ping becomes a fragment
        result = decode.on(bytes(recorded), "--summary")
        assert result.code == 0
        assert_complaint(result, "IP fragments are not reassembled: 1 skipped")

    @pytest.mark.parametrize("data", [b"", CAPTURES[0].read_bytes()[:24]], ids=["empty", "capture"])
    def test_nothing_to_decode(self, decode: Command, data: bytes) -> None:
        result = decode.on(data)
        assert result.code == 1
        assert_complaint(result, "nothing to decode in")

    def test_hexadecimal_text_with_a_part_missing(self, decode: Command) -> None:
        result = decode.on(b"10cd1")
        assert result.code == 1
        assert_complaint(result, "half a byte")

    def test_a_file_that_is_not_there(self, decode: Command) -> None:
        result = decode("--summary", "missing", FRAMES[8])
        assert result.code == 2
        assert_complaint(result, "tiercel decode: missing: No such file or directory")
        assert "SessionAck" in result.out

    def test_a_folder(self, decode: Command, tmp_path: Path) -> None:
        result = decode(tmp_path)
        assert result.code == 2
        assert_complaint(result, "Is a directory")


class TestVerify:
    """Decoding and encoding agree, so the difference must be put in here."""

    @pytest.fixture
    def other_byte(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def encode(self: Structure) -> bytes:
            return self.fixed()[:5] + b"?" + self.fixed()[6:]

        monkeypatch.setattr(SessionHeader, "encode", encode)

    @pytest.mark.usefixtures("other_byte")
    def test_tells_the_first_byte_that_differs(self, decode: Command) -> None:
        result = decode.on(FRAMES[5].read_bytes() + FRAMES[8].read_bytes(), "--summary", "--verify")
        assert result.code == 1
        field = "0x0039 (SessionHeader.recoverable_msg_ack_flags)"
        assert_complaint(
            result, f"packet 2 at 0x0020: encoded again, the byte at {field} is 0x3f instead of 0x00"
        )
        assert "2 packets, 1 problem" in result.out

    @pytest.mark.usefixtures("other_byte")
    def test_only_when_asked(self, decode: Command) -> None:
        assert decode(FRAMES[8]).code == 0

    @pytest.mark.usefixtures("other_byte")
    def test_as_json(self, decode: Command) -> None:
        (record,) = decode("--json", "--verify", FRAMES[8]).records
        assert record["difference"].startswith("encoded again, the byte at 0x0019")

    @pytest.mark.parametrize(("cut", "size"), [(slice(-1), 35), (slice(0), 20)])
    def test_tells_another_length(
        self, decode: Command, monkeypatch: pytest.MonkeyPatch, cut: slice, size: int
    ) -> None:
        monkeypatch.setattr(SessionHeader, "encode", lambda self: self.fixed()[cut])
        result = decode("--summary", "--verify", FRAMES[8])
        assert result.code == 1
        assert_complaint(result, f"it has {size} bytes instead of 36, the same up to {size:#06x}")

    def test_tells_what_cannot_be_encoded(self, decode: Command, monkeypatch: pytest.MonkeyPatch) -> None:
        def encode(self: Structure) -> bytes:
            raise ValueError(f"{type(self).__name__} is broken")

        monkeypatch.setattr(BaseHeader, "encode", encode)
        result = decode("--summary", "--verify", FRAMES[8])
        assert result.code == 1
        assert_complaint(result, "cannot be encoded again: BaseHeader is broken")


class TestUsage:
    @pytest.mark.parametrize(
        "arguments",
        [
            [],
            ["--no-such-option", "x"],
            ["--json", "--summary", "x"],
            ["--tcp-port", "0", "x"],
            ["--tcp-port", "65536", "x"],
            ["--udp-port", "²", "x"],
        ],
    )
    def test_wrong_usage(self, decode: Command, arguments: list[str]) -> None:
        result = decode(*arguments)
        assert result.code == 2
        assert result.err.startswith("usage: tiercel")

    def test_no_command(self, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit, match="2"):
            main([])
        assert "COMMAND" in capsys.readouterr().err

    def test_version(self, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit, match="0"):
            main(["--version"])
        assert capsys.readouterr().out.startswith("tiercel 0.")

    def test_help_tells_the_exit_codes(self, decode: Command) -> None:
        result = decode("--help")
        assert result.code == 0
        assert "exit codes: 0" in result.out


def tiercel(*arguments: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "tiercel", "decode", *arguments]
    return subprocess.run(command, check=False, timeout=60, **options)  # noqa: S603 - our own program


class TestProcess:
    """What only a process of its own can show."""

    def test_python_m_tiercel(self) -> None:
        result = tiercel("--json", "-", input=FRAMES[8].read_bytes(), capture_output=True)
        assert (result.returncode, result.stderr) == (0, b"")
        assert json.loads(result.stdout)["kind"] == "SessionAck"

    def test_the_exit_code_of_a_failure(self) -> None:
        result = tiercel("-", input=b"\0", capture_output=True)
        assert result.returncode == 1
        assert result.stderr.count(b"\n") == 1

    def test_a_reader_that_goes_away_is_no_error(self) -> None:
        reader, writer = os.pipe()
        os.close(reader)
        with os.fdopen(writer, "wb") as broken:
            result = tiercel(str(FRAMES[7]), stdout=broken, stderr=subprocess.PIPE)
        assert (result.returncode, result.stderr) == (BROKEN_PIPE, b"")

    def test_a_terminal_that_knows_ascii_only(self) -> None:
        data = FRAMES[7].read_bytes().replace("label".encode("utf-16-le"), "läbel".encode("utf-16-le"))
        environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
        result = tiercel("--summary", "-", input=data, capture_output=True, env=environment)
        assert result.returncode == 0
        assert rb"l\xe4bel" in result.stdout
