from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiercel.model.identifiers import (
    NO_SEQUENCE,
    NULL_GUID,
    MessageId,
    SequenceInfo,
    TxSequenceId,
    lookup_id,
    lookup_id_sequence,
)

GUID = UUID("00112233-4455-6677-8899-aabbccddeeff")
u32 = st.integers(0, 0xFFFFFFFF)
sequential_ids = st.integers(0, 2**56 - 1)
priorities = st.integers(0, 7)


class TestMessageId:
    """OBJECTID, [MS-MQMQ] 2.2.8"""

    def test_text(self) -> None:
        assert str(MessageId(GUID, 2286)) == r"{00112233-4455-6677-8899-aabbccddeeff}\2286"

    @pytest.mark.parametrize(
        "text",
        [
            r"{00112233-4455-6677-8899-aabbccddeeff}\2286",
            r"00112233-4455-6677-8899-aabbccddeeff\2286",
            r"{00112233-4455-6677-8899-AABBCCDDEEFF}\02286",
        ],
    )
    def test_parse(self, text: str) -> None:
        assert MessageId.parse(text) == MessageId(GUID, 2286)

    @given(st.uuids(), u32)
    def test_every_id_survives_text(self, lineage: UUID, uniquifier: int) -> None:
        message_id = MessageId(lineage, uniquifier)
        assert MessageId.parse(str(message_id)) == message_id

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "{00112233-4455-6677-8899-aabbccddeeff}",
            "{00112233-4455-6677-8899-aabbccddeeff}\\",
            "{00112233-4455-6677-8899-aabbccddeeff}\\-1",
            "{00112233-4455-6677-8899-aabbccddeeff}\\0x10",
            "{00112233-4455-6677-8899-aabbccddeeff}\\\N{ARABIC-INDIC DIGIT ONE}",
            "{00112233-4455-6677-8899-aabbccddeeff}\\1\\2",
            "{00112233-4455-6677-8899}\\1",
            "{00112233-4455-6677-8899-aabbccddeeff}\\4294967296",
            "{00112233-4455-6677-8899-aabbccddeeff}\\" + "9" * 5000,
            "\\1",
        ],
    )
    def test_what_is_none(self, text: str) -> None:
        with pytest.raises(ValueError, match=r"."):
            MessageId.parse(text)

    def test_default(self) -> None:
        assert MessageId() == (NULL_GUID, 0)


class TestSequences:
    """TxSequenceID [MS-MQMQ] 2.2.18.1.2, SEQUENCE_INFO 2.2.5"""

    @given(u32, u32, u32, u32)
    def test_order_is_that_of_one_number_with_the_timestamp_high(
        self, a: int, b: int, c: int, d: int
    ) -> None:
        assert (TxSequenceId(a, b) < TxSequenceId(c, d)) == (a << 32 | b < c << 32 | d)

    def test_defaults(self) -> None:
        assert TxSequenceId(timestamp=0, ordinal=0) == NO_SEQUENCE
        assert SequenceInfo() == (NO_SEQUENCE, 0, 0)


class TestLookupIdentifier:
    """[MS-MQDMPR] 3.1.7.1.9 as DMPR T-02 corrects it"""

    @pytest.mark.parametrize(
        ("priority", "sequential_id", "expected"),
        [
            (7, 1, 0x00_00000000000001),
            (3, 0x010203, 0x04_00000000010203),
            (0, 0xFFFFFFFFFFFFFF, 0x07_FFFFFFFFFFFFFF),
        ],
    )
    def test_the_high_byte_is_seven_minus_the_priority(
        self, priority: int, sequential_id: int, expected: int
    ) -> None:
        assert lookup_id(priority, sequential_id) == expected
        assert lookup_id_sequence(expected) == sequential_id

    @given(priorities, sequential_ids, priorities, sequential_ids)
    def test_sorts_by_priority_and_then_by_arrival(self, one: int, first: int, two: int, second: int) -> None:
        before = (-one, first) < (-two, second)
        assert (lookup_id(one, first) < lookup_id(two, second)) == before

    @given(priorities, sequential_ids)
    def test_has_64_bits_and_gives_its_sequence_back(self, priority: int, sequential_id: int) -> None:
        value = lookup_id(priority, sequential_id)
        assert 0 <= value < 2**64
        assert lookup_id_sequence(value) == sequential_id

    def test_a_sequence_beyond_56_bits_does_not_touch_the_priority(self) -> None:
        assert lookup_id(7, 2**56) == 0
