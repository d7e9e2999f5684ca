"""MD4 of RFC 1320, and NT hashes of MS-NLMP."""

import pytest

from tiercel.security.nt_hash import md4, nt_hash


@pytest.mark.parametrize(
    ("text", "digest"),
    [
        (b"", "31d6cfe0d16ae931b73c59d7e0c089c0"),
        (b"a", "bde52cb31de33e46245e05fbdbd6fb24"),
        (b"abc", "a448017aaf21d8525fc10ae87aa6729d"),
        (b"message digest", "d9130a8164549fe818874806e1c7014b"),
        (b"abcdefghijklmnopqrstuvwxyz", "d79e1c308aa5bbcdeea8ed63df412da9"),
        (
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
            "043f8582f241db351ce627e153e7f0e4",
        ),
        (b"1234567890" * 8, "e33b4ddc9c38f2199c3e7b164fcc0536"),
    ],
)
def test_md4(text: bytes, digest: str) -> None:
    """The test suite of RFC 1320, A.5."""
    assert md4(text).hex() == digest


def test_nt_hash() -> None:
    """[MS-NLMP] 4.2.2.1.2"""
    assert nt_hash("Password").hex() == "a4f49c406510bdcab6824ee7c30fd852"


@pytest.mark.parametrize("size", range(50, 130))
def test_every_length_of_padding(size: int) -> None:
    spnego_md4 = pytest.importorskip("spnego._ntlm_raw.md4").md4
    data = bytes(range(size))
    assert md4(data) == spnego_md4(data)
