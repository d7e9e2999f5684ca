import json
from pathlib import Path

import pytest

from nbfx.vectors import load
from tiercel.bodies import encode
from tiercel.cli import main
from tiercel.cli.body import body_line, body_of, body_record
from tiercel.model.codes import BodyType
from tiercel.model.format_name import FormatName
from tiercel.model.message import Message
from tiercel.wire.message import encode_message
from tiercel.wire.packet import decode_packet

QUEUE = FormatName.parse(r"DIRECT=OS:host\private$\q")


def packet(body: bytes, body_type: int = 0) -> bytes:
    return encode_message(Message(body, body_type=body_type, destination_queue=QUEUE))


def line(body: bytes, body_type: int = 0, *, whole: bool = False) -> str:
    decoded = body_of(decode_packet(packet(body, body_type)))
    assert decoded is not None
    return body_line(decoded, whole=whole)


def test_text_is_quoted() -> None:
    assert line(b"a\x09b") == r'body: text "a\tb"'
    assert line(*encode("hello", "xml")) == 'body: xml "hello"'


def test_a_long_text_is_cut_unless_it_is_asked_for() -> None:
    assert line(b"x" * 100) == f'body: text "{"x" * 80}" and 20 more characters'
    assert line(b"x" * 100, whole=True) == f'body: text "{"x" * 100}"'


def test_bytes_and_errors() -> None:
    assert line(b"\0\1") == "body: binary"
    assert line(b"\0", BodyType.I4) == "body: binary, but body.VT_I4 at byte 0: has 4 bytes, not 1"


def test_nothing_to_show() -> None:
    assert body_of(decode_packet(packet(b""))) is None
    frames = Path(__file__).parent.parent / "vectors" / "mqqb"
    assert body_of(decode_packet((frames / "frame8_session_ack.bin").read_bytes())) is None


def test_for_scripts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "packet"
    path.write_bytes(packet(b'{"a": 1}'))
    assert main(["decode", "--json", str(path)]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["body"] == {"kind": "json", "text": '{"a": 1}', "json": '{"a": 1}', "error": None}
    decoded = body_of(decode_packet(packet(b'{"a": 1}')))
    assert decoded is not None
    assert body_record(decoded) == record["body"]


def test_wcf() -> None:
    vector = next(each for each in load("nmfmb") if each["name"] == "02_datagram_order")
    decoded = body_of(decode_packet(packet(bytes.fromhex(vector["hex"]), 0x1011)))
    assert decoded is not None
    assert body_line(decoded, whole=False).startswith(
        'body: wcf action "http://example.org/orders/IOrder/Submit" to '
    )
    assert body_record(decoded)["to"] == "net.msmq://localhost/private/orders"
