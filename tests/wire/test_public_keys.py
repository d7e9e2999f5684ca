import pytest

from tiercel.model.errors import DecodeError
from tiercel.wire.public_keys import MQDSPublicKey, MQDSPublicKeys

from .packets import assert_both_ways, utf16

KEY = MQDSPublicKey.of(24, "AES", b"\1\2\3")
WIRE = f"03000000 08000000 18000000 {utf16('AES').hex()} 0000 010203"


def test_bytes() -> None:
    """[MS-MQMQ] 2.2.1: the length of the name is in bytes, and counts the NUL."""
    assert_both_ways(KEY, WIRE)


def test_a_list() -> None:
    """[MS-MQMQ] 2.2.2: the first number is the length of the whole structure."""
    assert_both_ways(MQDSPublicKeys.of((KEY, KEY)), f"36000000 02000000 {WIRE} {WIRE}")


@pytest.mark.conformance("DMPR-015")
def test_an_empty_list_is_a_structure_too() -> None:
    assert_both_ways(MQDSPublicKeys.of(()), "08000000 00000000")


@pytest.mark.parametrize(("at", "problem"), [(0, "length"), (4, "count")])
def test_numbers_that_do_not_fit(at: int, problem: str) -> None:
    data = bytearray(MQDSPublicKeys.of((KEY,)).encode())
    data[at] += 100
    with pytest.raises(DecodeError, match=problem):
        MQDSPublicKeys.decode(bytes(data))
