"""Which rows a filter lets through."""

from datetime import UTC, datetime

import pytest

from tiercel.columns import RowFilter, of_messages
from tiercel.model.message import Message

BATCH = of_messages(
    [
        Message(label="order 1", sent_time=1_700_000_000),
        Message(label="order 2", sent_time=1_700_000_010, message_class=0x4000),
        Message(label="bill 1", sent_time=1_700_000_020, message_class=0xC000),
        Message(label=""),
    ]
)


def at(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


@pytest.mark.parametrize(
    ("chosen", "rows"),
    [
        (RowFilter(), [0, 1, 2, 3]),
        (RowFilter(label_like="order%"), [0, 1]),
        (RowFilter(label_like="%_1"), [0, 2]),
        (RowFilter(label_like=""), [3]),
        (RowFilter(classes=frozenset({0x4000, 0xC000})), [1, 2]),
        (RowFilter(classes=frozenset()), []),
        (RowFilter(sent_after=at(1_700_000_010)), [1, 2]),
        (RowFilter(sent_before=at(1_700_000_010)), [0]),
        (RowFilter(sent_after=at(1_700_000_001), sent_before=at(1_700_000_020)), [1]),
        (RowFilter(label_like="%1", classes=frozenset({0})), [0]),
    ],
    ids=str,
)
def test_rows(chosen: RowFilter, rows: list[int]) -> None:
    assert [row for row, is_in in enumerate(chosen.mask(BATCH).to_pylist()) if is_in] == rows


def test_columns_that_it_needs() -> None:
    assert RowFilter().columns == ()
    assert RowFilter("a", frozenset(), at(0)).columns == ("label", "class", "sent_time")
    assert RowFilter(sent_before=at(0)).columns == ("sent_time",)


class TestOptions:
    def test_all(self) -> None:
        options = {
            "labelLike": "order%",
            "class": "0, 0x4000,nack_q_deleted",
            "sentAfter": "2023-11-14T22:13:20Z",
            "sentBefore": "1700000010",
            "queue": "not a filter",
        }
        expected = RowFilter("order%", frozenset({0, 0x4000, 0xC000}), at(1_700_000_000), at(1_700_000_010))
        assert RowFilter.of_options(options) == expected

    def test_none(self) -> None:
        assert RowFilter.of_options({"queue": "q", "class": ""}) is None

    def test_time_without_a_zone_is_utc(self) -> None:
        assert RowFilter.of_options({"sentAfter": "2023-11-14 22:13:20"}) == RowFilter(
            sent_after=at(1_700_000_000)
        )

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"class": "7,NACK"}, "class 'NACK' is neither"),
            ({"sentAfter": "yesterday"}, "sentAfter 'yesterday' is not a valid time"),
            ({"sentBefore": "9" * 30}, "is not a valid time"),
        ],
    )
    def test_unreadable(self, options: dict[str, str], words: str) -> None:
        with pytest.raises(ValueError, match=words):
            RowFilter.of_options(options)
