"""`tiercel decode` of SRMP requests."""

import json
from pathlib import Path

import pytest

from srmp.vectors import BAD, CANONICAL, VALID, VECTORS, load
from tiercel.cli import main
from wire.test_capture import SYN, ipv4, pcap, tcp


def decode(*arguments: str | Path) -> int:
    return main(["decode", *map(str, arguments)])


def path(name: str) -> Path:
    return VECTORS / f"{name}.http"


@pytest.mark.parametrize("name", VALID)
def test_a_request_is_listed_field_by_field(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert decode("--json", path(name)) == 0
    (record,) = map(json.loads, capsys.readouterr().out.splitlines())
    data = load(name)
    assert record["kind"] == "SrmpRequest"
    assert record["size"] == len(data)
    names = [structure["name"] for structure in record["structures"]]
    assert names[0] == "RequestHead"
    assert "path" in names
    assert "properties" in names
    for structure in record["structures"]:
        for field in structure["fields"]:
            assert 0 <= field["offset"] <= len(data) - field["size"]
            if field["name"] == "to":
                assert data[field["offset"] :][: field["size"]].decode().strip() == field["value"].strip()


def test_the_text_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert decode("--verify", path("09_stream_gap")) == 0
    out = capsys.readouterr().out
    for line in (
        'SRMP user message  1497 bytes  to http://machine2/msmq/private$/orders  "MSMQ:order"  number 4',
        '  0x0005    21  target          "/msmq/private$/orders"',
        '  0x0246    46  id              "uuid:7005@32221eda-9376-46df-b6ed-783091123831"',
        "  0x03f4     1  Class           0  NORMAL",
        "  0x047b     5  HashAlgorithm   32772  SHA1",
        'body: text "four"',
        "1 packet, verified: encoding gives the same bytes",
    ):
        assert line in out


@pytest.mark.parametrize("name", CANONICAL)
def test_requests_of_queue_managers_are_verified(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert decode("--verify", "--summary", path(name)) == 0
    assert "verified: encoding gives the same bytes" in capsys.readouterr().out


def test_the_first_difference_of_another_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert decode("--verify", path("10_routing_extras")) == 1
    assert "(RequestHead.Content-Length) is 0x33 instead of 0x35" in capsys.readouterr().err


@pytest.mark.parametrize("name", BAD)
def test_a_bad_request_is_a_problem_with_its_place(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert decode(path(name)) == 1
    assert "packet 1 at 0x0000: " in capsys.readouterr().err


def test_the_requests_of_a_connection(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "connection"
    file.write_bytes(
        load("02_msmq_element") + load("03c_delivery_receipt") + load("08_lowercase_stream")[:-1]
    )
    assert decode("--summary", "--verify", file) == 1
    captured = capsys.readouterr()
    assert "#1 at 0x0000  SRMP user message" in captured.out
    assert "#2 at 0x05dd  SRMP delivery receipt" in captured.out
    assert "packet 3 at 0x0a3f: cut after 1564 bytes of a request" in captured.err


def test_a_request_cut_in_its_head(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "connection"
    file.write_bytes(load("02_msmq_element") + b"POST /msmq")
    assert decode("--summary", file) == 1
    assert "packet 2 at 0x05dd: cut after 10 bytes of a request" in capsys.readouterr().err


def test_garbage_after_a_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "connection"
    file.write_bytes(load("02_msmq_element") + b"garbage\r\n\r\n")
    assert decode("--summary", file) == 1
    captured = capsys.readouterr()
    assert "#1 at 0x0000  SRMP user message" in captured.out
    assert "packet 2 at 0x05dd: HttpRequest.head" in captured.err


def test_a_response_is_no_request(capsys: pytest.CaptureFixture[str]) -> None:
    assert decode(VECTORS / "03b_response.http") == 1
    assert "HTTP responses are not listed" in capsys.readouterr().err


def test_the_requests_of_a_capture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Requests in segments of 100 bytes, the first two exchanged; the response goes back."""
    data = load("02_msmq_element") + load("03c_delivery_receipt")
    segments = [tcp(1 + at, data[at : at + 100], ports=(40000, 80)) for at in range(0, len(data), 100)]
    start = [tcp(0, flags=SYN, ports=(40000, 80)), tcp(0, flags=SYN, ports=(80, 40000))]
    back = tcp(1, load("03b_response"), ports=(80, 40000))
    file = tmp_path / "http.pcap"
    file.write_bytes(pcap([ipv4(each) for each in (*start, segments[1], segments[0], *segments[2:], back)]))
    assert decode("--summary", "--verify", "--tcp-port", "80", file) == 0
    captured = capsys.readouterr()
    assert "#1 at 0x0000  SRMP user message  1501 bytes" in captured.out
    assert "#2 at 0x05dd  SRMP delivery receipt  1122 bytes" in captured.out
    assert "HTTP responses are not listed" in captured.err
