"""The error tree against the table of codes in tests/vectors/codes.json."""

import json
import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiercel.model import errors
from tiercel.model.codes import Status
from tiercel.model.errors import (
    AccessDeniedError,
    DecodeError,
    IllegalFormatNameError,
    IllegalQueuePathNameError,
    InsufficientResourcesError,
    IoTimeoutError,
    LabelTooLongError,
    MessageAlreadyReceivedError,
    MqError,
    PeerError,
    QueueNotFoundError,
    StoreFullError,
    TiercelError,
    TransactionError,
    TransactionUsageError,
    UnknownCodeError,
    error_for_code,
)

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "codes.json").read_text("utf-8"))
PUBLISHED = {name: int(code, 16) for name, code in VECTORS["errors"].items()}
PUBLISHED_ERRORS = {name: code for name, code in PUBLISHED.items() if code >> 28 == 0xC}
CUSTOMER_BIT = 0x20000000


def classes_with_a_code() -> list[type[MqError]]:
    found = [
        value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, MqError)
    ]
    return [value for value in found if "code" in vars(value)]


def test_every_published_code_has_one_class_and_it_has_the_published_name() -> None:
    classes = classes_with_a_code()
    assert len(PUBLISHED) == 145
    assert len({each.code for each in classes}) == len(classes)
    published = {each.name: each.code for each in classes if not each.code & CUSTOMER_BIT}
    assert published == PUBLISHED_ERRORS


@pytest.mark.conformance("DMPR-004", "MQRR-019")
def test_codes_that_are_not_published_carry_the_customer_bit() -> None:
    ours = [each for each in classes_with_a_code() if each.code not in PUBLISHED.values()]
    assert StoreFullError in ours
    assert all(each.code & CUSTOMER_BIT for each in ours)
    assert all(not code & CUSTOMER_BIT for code in PUBLISHED.values())


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (MqError, 0xC00E0001),
        (QueueNotFoundError, 0xC00E0003),
        (IllegalQueuePathNameError, 0xC00E0014),
        (IoTimeoutError, 0xC00E001B),
        (MessageAlreadyReceivedError, 0xC00E001D),
        (IllegalFormatNameError, 0xC00E001E),
        (AccessDeniedError, 0xC00E0025),
        (InsufficientResourcesError, 0xC00E0027),
        (TransactionUsageError, 0xC00E0050),
        (LabelTooLongError, 0xC00E005D),
        (StoreFullError, 0xE00E0001),
    ],
)
def test_codes_that_clients_know(error: type[MqError], code: int) -> None:
    assert error.code == code
    assert error_for_code(code) is error


@pytest.mark.parametrize("error", classes_with_a_code(), ids=lambda error: error.__name__)
class TestEveryClass:
    def test_speaks_plainly(self, error: type[MqError]) -> None:
        for words in (error.meaning, error.fix):
            assert words
            assert words[-1] not in ". "
            assert "TODO" not in words
        assert error.__name__.endswith("Error")
        assert not error.__name__.endswith("ErrorError")

    def test_names_the_object_the_values_the_fix_and_the_code(self, error: type[MqError]) -> None:
        text = str(error("queue orders", present="1025 KiB", limit="1024 KiB"))
        for part in ("queue orders", error.meaning, "1025 KiB", "1024 KiB", error.fix[1:], error.name):
            assert part in text
        assert f"0x{error.code:08X}" in text

    def test_is_found_by_its_code(self, error: type[MqError]) -> None:
        assert error_for_code(error.code) is error
        assert error_for_code(error.code - 2**32) is error

    def test_survives_pickling(self, error: type[MqError]) -> None:
        raised = error("queue orders", problem="it is gone", limit=3, present=4, fix="do without")
        again = pickle.loads(pickle.dumps(raised))  # noqa: S301
        assert type(again) is error
        assert str(again) == str(raised)


def test_quota_disk_and_access_are_three_errors() -> None:
    assert len({InsufficientResourcesError.code, StoreFullError.code, AccessDeniedError.code}) == 3


def test_the_caller_may_say_more_than_the_class() -> None:
    error = QueueNotFoundError("queue a", problem="it was renamed", fix="use the new name")
    assert str(error) == "queue a: it was renamed. Use the new name. [MQ_ERROR_QUEUE_NOT_FOUND 0xC00E0003]"
    assert (error.subject, error.problem, error.fix) == ("queue a", "it was renamed", "use the new name")
    assert (error.limit, error.present) == (None, None)
    assert QueueNotFoundError.fix != error.fix


def test_zero_is_a_value_worth_telling() -> None:
    assert "(present: 0, limit: 0)" in str(MqError("the quota", present=0, limit=0))


def test_a_peer_error_is_no_error_of_ours() -> None:
    error = DecodeError("UserHeader", "flags", 44, "bits 26 and 27 are reserved")
    assert str(error) == "UserHeader.flags at byte 44: bits 26 and 27 are reserved"
    assert isinstance(error, PeerError)
    assert isinstance(error, TiercelError)
    assert not isinstance(error, MqError)
    again = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert (again.structure, again.field, again.offset, again.problem) == error.args


def test_a_family_catches_its_members() -> None:
    with pytest.raises(TransactionError):
        raise TransactionUsageError("queue orders")


@given(st.integers(min_value=0, max_value=0xFFFFFFFF))
def test_any_code_gives_a_class_that_carries_it(code: int) -> None:
    error = error_for_code(code)("queue orders")
    assert error.code == code
    assert f"0x{code:08X}" in str(error)


def test_an_unknown_code_is_kept_through_pickling() -> None:
    error = error_for_code(Status.NOT_FOUND)("queue orders", present=7)
    again = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert isinstance(again, UnknownCodeError)
    assert (again.code, again.present, str(again)) == (0xC0000225, 7, str(error))
