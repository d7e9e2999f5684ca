"""[C706] appendix L, [MS-RPCE] 3.1.3.5.3"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiercel.model.errors import DecodeError
from tiercel.rpc.syntax import NDR, SyntaxId
from tiercel.rpc.towers import Floor, Tower

from .scripted import REMOTE_READ
from .strategies import syntaxes

# RemoteRead on 192.0.2.7:2103, written down by hand.
TOWER = bytes.fromhex(
    "0500"
    "1300 0d dd34911a397bba45ad8844d01ca47f28 0100 0200 0000"
    "1300 0d 045d888aeb1cc9119fe808002b104860 0200 0200 0000"
    "0100 0b 0200 0000"
    "0100 07 0200 0837"
    "0100 09 0400 c0000207"
)
floors = st.builds(Floor, st.binary(max_size=20), st.binary(max_size=6))


def test_remote_read() -> None:
    tower = Tower.of_tcp(REMOTE_READ.syntax, 2103, "192.0.2.7")
    assert tower.encode() == TOWER
    assert Tower.decode(TOWER) == tower
    assert (tower.interface, tower.transfer_syntax, tower.port) == (REMOTE_READ.syntax, NDR, 2103)
    assert tower.is_tcp


@given(st.lists(floors, max_size=6))
def test_round_trip(values: list[Floor]) -> None:
    tower = Tower(tuple(values))
    assert Tower.decode(tower.encode()) == tower


@given(syntaxes)
def test_versions(syntax: SyntaxId) -> None:
    assert Tower.of_tcp(syntax, 1).interface == syntax


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "floor_count"),
        (b"\7\0" + b"\1\0x\0\0" * 7, "is 7, at most 6"),
        (b"\1\0\5\0abc", "needs 5 bytes, 3 are left"),
        (TOWER + b"\0", "1 bytes follow"),
        (TOWER[:-1], "address"),
    ],
)
def test_refused(data: bytes, problem: str) -> None:
    with pytest.raises(DecodeError, match=problem):
        Tower.decode(data)


def test_towers_of_other_protocols() -> None:
    pipe = Tower((*Tower.of_tcp(REMOTE_READ.syntax).floors[:3], Floor(b"\x0f", b"\\pipe\\x\0")))
    assert not pipe.is_tcp
    assert pipe.port is None
    assert Tower(()).interface is None
    assert Tower(()).transfer_syntax is None
    assert Tower((Floor(b"\x0d", b""),)).interface is None
    short = Tower((*pipe.floors[:3], Floor(b"\x07", b"\1"), Floor(b"\x09", bytes(4))))
    assert not short.is_tcp
