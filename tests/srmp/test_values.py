import os
import time
from collections.abc import Callable, Iterator
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiercel.model.identifiers import MessageId, TxSequenceId
from tiercel.srmp.values import (
    NO_LIMIT,
    U32_MAX,
    U64_MAX,
    StreamId,
    format_date,
    format_expiry,
    format_message_id,
    parse_base64,
    parse_date,
    parse_guid,
    parse_message_id,
    parse_number,
    parse_stream_id,
)

GUID = UUID("32221eda-9376-46df-b6ed-783091123831")


def refused(parse: Callable[[str], object], text: str) -> str:
    with pytest.raises(ValueError, match=r".") as caught:
        parse(text)
    return str(caught.value)


@pytest.mark.conformance("SRMP-025")
def test_guids_are_written_in_lower_case_and_read_in_either() -> None:
    assert parse_guid("32221EDA-9376-46DF-B6ED-783091123831") == parse_guid(str(GUID)) == GUID
    assert format_message_id(MessageId(GUID, 1)) == "uuid:1@32221eda-9376-46df-b6ed-783091123831"


@pytest.mark.conformance("SRMP-025")
@pytest.mark.parametrize(
    "text", ["", f"{{{GUID}}}", f"urn:uuid:{GUID}", GUID.hex, f"{GUID}0", f"{GUID}\n", "x" * 36]
)
def test_other_forms_of_a_guid_are_refused(text: str) -> None:
    assert "is not a GUID" in refused(parse_guid, text)


@pytest.fixture
def tokyo() -> Iterator[None]:
    before = os.environ.get("TZ")
    os.environ["TZ"] = "Asia/Tokyo"
    time.tzset()
    yield
    os.environ.pop("TZ")
    if before is not None:
        os.environ["TZ"] = before
    time.tzset()


@pytest.mark.usefixtures("tokyo")
@pytest.mark.conformance("SRMP-026")
def test_dates_are_in_utc() -> None:
    assert format_date.__wrapped__(1_182_287_214) == "20070619T210654"
    assert parse_date("20070619T210654") == 1_182_287_214


@given(st.integers(0, 253_402_300_799))
def test_dates_round_trip(seconds: int) -> None:
    assert parse_date(format_date(seconds)) == seconds


@pytest.mark.conformance("SRMP-026")
def test_an_expiry_ends_with_32_bits() -> None:
    assert format_expiry(NO_LIMIT) == format_expiry(NO_LIMIT + 1) == format_expiry(2**33) == "20380119T031407"
    assert format_expiry(NO_LIMIT - 1) == "20380119T031406"
    assert parse_date("20380119T031408") == NO_LIMIT + 1


@pytest.mark.conformance("SRMP-026")
@pytest.mark.parametrize(
    "text",
    [
        "2007-06-19T21:06:54",
        "20070619T210654Z",
        "20070619T210654+00",
        "20071319T210654",
        "20070230T210654",
        "20070619T240000",
        "20070619T235960",
        "20070619",
        "19691231T235959",
        "00000000T000000",
        "\uff120070619T210654",
        "",
    ],
)
def test_other_dates_are_refused(text: str) -> None:
    assert refused(parse_date, text)


@pytest.mark.conformance("SRMP-027")
@pytest.mark.parametrize(
    "text", ["-1", "", "1e3", "+1", "1.0", "0x1", " 1", "\u0661", "18446744073709551616", "9" * 5000]
)
def test_other_numbers_are_refused(text: str) -> None:
    assert refused(parse_number, text)


@pytest.mark.conformance("SRMP-027")
def test_numbers_have_their_own_limits() -> None:
    assert parse_number(f"{U64_MAX}") == U64_MAX
    assert parse_number("007", 7) == 7
    assert "is 4294967296, the limit is 4294967295" in refused(
        lambda text: parse_number(text, U32_MAX), f"{2**32}"
    )


@given(st.uuids(), st.integers(0, U32_MAX))
def test_message_ids_round_trip(guid: UUID, number: int) -> None:
    assert parse_message_id(format_message_id(MessageId(guid, number))) == MessageId(guid, number)


@pytest.mark.conformance("SRMP-041")
@pytest.mark.parametrize(
    "text",
    [
        f"1@{GUID}",
        f"uuid:1{GUID}",
        f"uuid:@{GUID}",
        "uuid:1@",
        f"uuid:1@{{{GUID}}}",
        f"uuid:4294967296@{GUID}",
        f"UUID:1@{GUID}",
        f"uuid:1@2@{GUID}",
    ],
)
def test_other_message_ids_are_refused(text: str) -> None:
    assert refused(parse_message_id, text)


@pytest.mark.conformance("SRMP-064")
def test_a_stream_id_is_a_sender_a_time_and_a_number() -> None:
    stream = parse_stream_id(f"uid:{GUID}\\4839986701558349830")
    assert stream == StreamId(GUID, TxSequenceId(0x432B1643, 6))
    assert str(stream) == f"uid:{GUID}\\4839986701558349830"
    assert stream != stream._replace(sender=UUID(int=1))


@given(st.uuids(), st.integers(0, U64_MAX))
def test_stream_ids_round_trip(guid: UUID, number: int) -> None:
    text = f"uid:{guid}\\{number}"
    assert str(parse_stream_id(text)) == text


@pytest.mark.conformance("SRMP-064")
@pytest.mark.parametrize(
    "text",
    [
        f"{GUID}\\1",
        f"uid:{GUID}/1",
        f"uid:{GUID}\\",
        "uid:\\1",
        f"uid:{GUID}\\{2**64}",
        f"uid:{{{GUID}}}\\1",
        "uid:",
    ],
)
def test_other_stream_ids_are_refused(text: str) -> None:
    assert refused(parse_stream_id, text)


@pytest.mark.conformance("SRMP-082")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "AAAA",
        "A" * 28,
        "AAAAAAAAAAAAAAAAAAAAAAAAAA==",
        "AAAAAAAAAAAAAAAAAAAAAAAAAAA",
        "ä" * 28,
        "A===" * 7,
    ],
)
def test_other_base64_is_refused(text: str) -> None:
    assert refused(lambda each: parse_base64(each, 20), text)


def test_base64_may_have_white_space() -> None:
    assert parse_base64(" AAECAwQFBgcICQ\r\noLDA0ODxAREhM= ", 20) == bytes(range(20))
