import hashlib

import pytest

from tiercel.model.errors import DecodeError
from tiercel.wire.user_certificates import MQUserSignCert, MQUserSignCerts, certificate_digest

from .packets import GUID_A, WIRE_A, assert_both_ways

DER = b"\x30\x03\x02\x01\x07"
DIGEST = hashlib.md5(DER, usedforsecurity=False).hexdigest()
ONE = MQUserSignCert.of(GUID_A, DER)


def test_bytes() -> None:
    """[MS-MQMQ] 2.2.22"""
    assert_both_ways(ONE, f"{DIGEST} {WIRE_A} 05000000 {DER.hex()}")


def test_a_list() -> None:
    """[MS-MQMQ] 2.2.21: without padding, so the second starts at an odd place."""
    one = f"{DIGEST} {WIRE_A} 05000000 {DER.hex()}"
    assert_both_ways(MQUserSignCerts.of((ONE, ONE)), f"02000000 {one} {one}")


def test_the_digest_is_md5() -> None:
    assert certificate_digest(DER).hex() == DIGEST


def test_a_wrong_digest_is_refused() -> None:
    data = bytearray(ONE.encode())
    data[0] ^= 1
    with pytest.raises(DecodeError, match="digest"):
        MQUserSignCert.decode(bytes(data))


def test_too_many_are_refused() -> None:
    with pytest.raises(DecodeError, match="count"):
        MQUserSignCerts.decode(b"\0\0\0\1")
