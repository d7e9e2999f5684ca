"""Hexadecimal text in the forms that people paste."""

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiercel.cli.hex_text import decode_hex_text
from tiercel.model.errors import DecodeError

FRAME = (Path(__file__).parent.parent / "vectors/mqqb/frame8_session_ack.bin").read_bytes()

XXD = b"""\
00000000: 10cd 1b00 4c49 4f52 2400 0000 ffff ffff  ....LIOR$.......
00000010: 0000 0100 0100 0000 0000 0000 0000 0000  ................
00000020: 4000 0000                                @...
"""
XXD_EIGHT = b"""\
00000000: 10cd 1b00 4c49 4f52  ab cd ef
00000008: 2400 0000 ffff ffff  $.......
00000010: 0000 0100 0100 0000  ........
00000018: 0000 0000 0000 0000  ........
00000020: 4000 0000            @...
"""
HEXDUMP = b"""\
00000000  10 cd 1b 00 4c 49 4f 52  24 00 00 00 ff ff ff ff  |....LIOR$.......|
00000010  00 00 01 00 01 00 00 00  00 00 00 00 00 00 00 00  |................|
00000020  40 00 00 00                                       |@...|
00000024
"""
OD = b"""\
000000 10 cd 1b 00 4c 49 4f 52 24 00 00 00 ff ff ff ff  >....LIOR$.......<
000010 00 00 01 00 01 00 00 00 00 00 00 00 00 00 00 00  >................<
000020 40 00 00 00                                      >@...<
000024
"""
TSHARK = b"""\
0000  10 cd 1b 00 4c 49 4f 52 24 00 00 00 ff ff ff ff   ....LIOR$.......
0010  00 00 01 00 01 00 00 00 00 00 00 00 00 00 00 00   ................
0020  40 00 00 00                                       @...
"""


@pytest.mark.parametrize(
    "text", [XXD, XXD_EIGHT, HEXDUMP, OD, TSHARK], ids=["xxd", "xxd -c 8", "hexdump", "od", "tshark"]
)
def test_dumps(text: bytes) -> None:
    assert decode_hex_text(text) == FRAME
    assert decode_hex_text(text.replace(b"\n", b"\r\n")) == FRAME


@pytest.mark.parametrize(
    "text",
    [
        b"10cd1b00",
        b"10CD1B00\n",
        b" 10 cd\n1b\t00 ",
        b"0x10, 0xcd, 0x1b, 0x00",
        b"{0X10,0XCD,0X1B,0X00};",
        b"10:cd:1b:00",
    ],
)
def test_plain_digits(text: bytes) -> None:
    assert decode_hex_text(text) == b"\x10\xcd\x1b\x00"


def test_repeated_rows_are_written_out() -> None:
    text = b"00000000  5a 5a  |ZZ|\n*\n00000006  01  |.|\n00000007\n"
    assert decode_hex_text(text) == b"ZZZZZZ\x01"


def test_a_row_of_characters_that_look_like_digits() -> None:
    assert decode_hex_text(b"00000000: 6162 6364  abcd\n00000004: 6162       ab\n") == b"abcdab"


@pytest.mark.parametrize("data", [b"", b" \n", b"README", FRAME, b"10 cg", b"\x1010", "1\uff10".encode()])
def test_what_is_no_hexadecimal_text(data: bytes) -> None:
    assert decode_hex_text(data) is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"10cd1", "5 digits are half a byte too many"),
        (XXD.replace(b"00000010", b"00000020"), "row 2 begins at 0x20, expected is 0x10"),
        (XXD + b"the end", "row 4 begins with no offset"),
        (b"00000000  5a  |Z|\n*\n7fffffff\n", "begins at 0x7fffffff"),
    ],
    ids=["half", "row", "trailer", "repetition"],
)
def test_text_with_a_part_missing(text: bytes, problem: str) -> None:
    with pytest.raises(DecodeError, match=problem):
        decode_hex_text(text)


@given(st.binary(min_size=1, max_size=100))
def test_what_was_written_is_read(data: bytes) -> None:
    assert decode_hex_text(data.hex().encode()) == data


@given(
    st.text("0123456789abcdefx:* |\n.", max_size=80)
    | st.binary(max_size=40).map(lambda data: data.decode("latin-1"))
)
def test_any_bytes_give_bytes_or_the_one_error(text: str) -> None:
    with contextlib.suppress(DecodeError):
        decode_hex_text(text.encode("latin-1"))
