import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiercel.model.errors import DecodeError
from tiercel.model.sid import (
    ADMINISTRATORS,
    ANONYMOUS,
    AUTHENTICATED_USERS,
    EVERYONE,
    LOCAL_SYSTEM,
    MAX_SUB_AUTHORITIES,
    SecurityIdentifier,
)

SIDS = st.builds(
    SecurityIdentifier,
    st.integers(0, 2**48 - 1),
    st.lists(st.integers(0, 2**32 - 1), max_size=MAX_SUB_AUTHORITIES).map(tuple),
)
ADMINISTRATORS_BYTES = bytes.fromhex("01 02 000000000005 20000000 20020000")


@pytest.mark.parametrize(
    ("sid", "text"),
    [
        (EVERYONE, "S-1-1-0"),
        (ANONYMOUS, "S-1-5-7"),
        (AUTHENTICATED_USERS, "S-1-5-11"),
        (LOCAL_SYSTEM, "S-1-5-18"),
        (ADMINISTRATORS, "S-1-5-32-544"),
        (SecurityIdentifier(2**32 - 1, (2**32 - 1,)), "S-1-4294967295-4294967295"),
        (SecurityIdentifier(2**32, (1,)), "S-1-0x000100000000-1"),
        (SecurityIdentifier(5, ()), "S-1-5"),
    ],
)
def test_text(sid: SecurityIdentifier, text: str) -> None:
    assert str(sid) == text
    assert SecurityIdentifier.parse(text) == sid
    assert SecurityIdentifier.parse(text.lower()) == sid


@given(SIDS)
def test_every_sid_survives_text_and_bytes(sid: SecurityIdentifier) -> None:
    assert SecurityIdentifier.parse(str(sid)) == sid
    assert SecurityIdentifier.decode(sid.encode()) == sid
    assert hash(SecurityIdentifier.decode(sid.encode())) == hash(sid)


def test_authority_is_big_endian_and_sub_authorities_are_little_endian() -> None:
    assert ADMINISTRATORS.encode() == ADMINISTRATORS_BYTES
    assert SecurityIdentifier.decode(ADMINISTRATORS_BYTES) == ADMINISTRATORS


@pytest.mark.parametrize(
    ("data", "field"),
    [
        (b"", "Revision"),
        (ADMINISTRATORS_BYTES[:7], "Revision"),
        (b"\x02" + ADMINISTRATORS_BYTES[1:], "Revision"),
        (ADMINISTRATORS_BYTES[:-1], "SubAuthority"),
        (ADMINISTRATORS_BYTES + b"\0", "SubAuthority"),
        (b"\x01\x10" + bytes(6) + bytes(4 * 16), "SubAuthorityCount"),
        (b"\x01\xff" + bytes(6), "SubAuthorityCount"),
    ],
)
def test_bytes_that_are_no_sid(data: bytes, field: str) -> None:
    with pytest.raises(DecodeError) as caught:
        SecurityIdentifier.decode(data)
    assert caught.value.field == field


@pytest.mark.parametrize(
    "text",
    [
        "",
        "S-1",
        "S-1-",
        "S-2-5-7",
        "S-1-5-",
        "S-1-5-07",
        "S-1-05-7",
        "S-1-5--7",
        "S-1-5-4294967296",
        "S-1-5-7 ",
        "S-1-5-7\n",
        "S-1-5-\u0667",
        "S-1-0x5-7",
        "S-1-5" + "-1" * 16,
        pytest.param("S-1-" + "9" * 1_000_000, id="a million digits"),
    ],
)
def test_text_that_is_no_sid(text: str) -> None:
    with pytest.raises(DecodeError):
        SecurityIdentifier.parse(text)


@pytest.mark.parametrize(
    ("authority", "sub_authorities"), [(-1, ()), (2**48, ()), (5, (-1,)), (5, (2**32,)), (5, (0,) * 16)]
)
def test_parts_out_of_range(authority: int, sub_authorities: tuple[int, ...]) -> None:
    with pytest.raises(DecodeError):
        SecurityIdentifier(authority, sub_authorities)


@given(st.binary(max_size=80))
def test_any_bytes_give_a_sid_or_a_decode_error(data: bytes) -> None:
    try:
        sid = SecurityIdentifier.decode(data)
    except DecodeError:
        return
    assert sid.encode() == data


@given(st.text() | st.from_regex(r"S-1-\w{0,14}(-\w{0,11}){0,17}"))
def test_any_text_gives_a_sid_or_a_decode_error(text: str) -> None:
    try:
        sid = SecurityIdentifier.parse(text)
    except DecodeError:
        return
    assert SecurityIdentifier.parse(str(sid)) == sid


@pytest.mark.parametrize(
    ("text", "guest"),
    [
        ("S-1-5-21-1-2-3-501", True),
        ("S-1-5-21-1-2-3-500", False),
        ("S-1-5-32-501", False),
        ("S-1-5-501", False),
        ("S-1-1-21-501", False),
        ("S-1-5", False),
    ],
)
def test_guest(text: str, guest: bool) -> None:
    assert SecurityIdentifier.parse(text).is_guest is guest


def test_rid_is_the_last_sub_authority() -> None:
    assert ADMINISTRATORS.rid == 544
    assert SecurityIdentifier(5, ()).rid is None
