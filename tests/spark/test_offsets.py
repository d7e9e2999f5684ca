"""Offsets: the text that Spark keeps, and what lies between two of them."""

import json

import pytest

from pyspark_msmq.offsets import Offset, OffsetError, Offsets, Reached, Span, spans
from pyspark_msmq.options import read_batch_options
from pyspark_msmq.partitions import Piece, Pieces, cut, gather, how_many

A, B = "11111111-0000-0000-0000-000000000000", "22222222-0000-0000-0000-000000000000"


ONE, OTHER = "aaaaaaaa-0000-0000-0000-000000000000", "bbbbbbbb-0000-0000-0000-000000000000"


def offsets(*queues: str) -> Offsets:
    parts = {one: Offset(one, "c", {queue: Reached(1, 5) for queue in queues}) for one in (OTHER, ONE)}
    return Offsets("c", parts)


def is_sorted(value: object) -> bool:
    if not isinstance(value, dict):
        return True
    return list(value) == sorted(value) and all(map(is_sorted, value.values()))


class TestText:
    def test_the_keys_stand_in_one_order(self) -> None:
        """Spark compares the text: two orders of the same offset would be two offsets."""
        assert json.dumps(offsets(A, B).to_json()) == json.dumps(offsets(B, A).to_json())
        assert is_sorted(offsets(B, A).to_json())
        assert is_sorted(offsets(B, A).without(ONE).to_json())

    def test_it_comes_back(self) -> None:
        one = Offset(ONE, "c", {A: Reached(2, 50, 4000, 10), B: Reached(1, 7, 0, 0, 3)})
        for offset in (Offsets("c", {ONE: one}), offsets(A, B), Offsets("c")):
            text = json.dumps(offset.to_json())
            assert Offsets.of_json(json.loads(text)) == offset
            assert json.dumps(Offsets.of_json(json.loads(text)).to_json()) == text

    def test_one_queue_manager_has_the_text_that_it_always_had(self) -> None:
        """A checkpoint of before goes on, and so does the version of before after it."""
        text = f'{{"c": "c", "q": {{"{A}": {{"b": 0, "e": 1, "hi": 5}}}}, "qm": "{ONE}", "v": 1}}'
        assert json.dumps(offsets(A).without(OTHER).to_json()) == text

    def test_a_queue_manager_without_messages_is_not_in_it(self) -> None:
        assert offsets().to_json() == Offsets("c").to_json()

    def test_a_later_version(self) -> None:
        with pytest.raises(OffsetError, match="version 3"):
            Offsets.of_json({"v": 3, "q": {}})

    def test_another_consumer(self) -> None:
        with pytest.raises(OffsetError, match="is for consumer c, but the option says d"):
            offsets(A).check_belongs("d")


class TestSpans:
    def test_between_two(self) -> None:
        start = Offset("qm", "c", {A: Reached(1, 5, 500)})
        end = Offset("qm", "c", {A: Reached(1, 8, 800), B: Reached(1, 2, 50)})
        assert spans(start, end) == [Span(A, 5, 8, 3, 300), Span(B, 0, 2, 2, 50)]
        assert spans(end, end) == []

    def test_a_queue_that_does_not_begin_at_nought(self) -> None:
        end = Offset("qm", "c", {A: Reached(1, 8, 300, lo=5)})
        assert spans(Offset("", "c"), end) == [Span(A, 5, 8, 3, 300)]

    def test_over_several_offsets_at_once(self) -> None:
        """Spark may skip some in a replay; what is between is the same in one step and in two."""
        steps = [Offset("qm", "c", {A: Reached(1, hi, hi * 100, lo=2)}) for hi in (2, 5, 9)]
        (whole,) = spans(steps[0], steps[2])
        parts = spans(steps[0], steps[1]) + spans(steps[1], steps[2])
        assert (whole.lo, whole.hi) == (parts[0].lo, parts[1].hi)
        assert whole.size_bytes == sum(part.size_bytes for part in parts)

    def test_sequences_with_gaps_are_counted(self) -> None:
        start = Offset(queues={A: Reached(1, 100, 500, count=5)})
        end = Offset(queues={A: Reached(1, 900, 800, count=8)})
        assert spans(start, end) == [Span(A, 100, 900, 3, 300)]


class TestCutting:
    @pytest.mark.parametrize(
        ("lo", "hi", "pieces"), [(0, 10, 1), (0, 10, 3), (7, 8, 4), (5, 5, 2), (0, 1000, 7)]
    )
    def test_pieces_meet_and_none_is_empty(self, lo: int, hi: int, pieces: int) -> None:
        found = list(cut(lo, hi, pieces))
        assert [number for a, b in found for number in range(a, b)] == list(range(lo, hi))
        assert all(a < b for a, b in found)
        assert len(found) == min(pieces, hi - lo)

    def test_how_many(self) -> None:
        def pieces(count: int, size_bytes: int, **options: str) -> int:
            return how_many(count, size_bytes, read_batch_options({"queue": "orders", **options}))

        assert pieces(1000, 0, maxMessagesPerPartition="250") == 4
        assert pieces(1000, 0, maxMessagesPerPartition="250", minPartitions="8") == 8
        assert pieces(1000, 3 * (64 << 20) + 1) == 4
        assert pieces(1000, 3 * (64 << 20) + 1, maxBytesPerPartition="1g") == 1

    def test_small_pieces_share_a_task(self) -> None:
        def tasks(*rows: int, size: int = 0, **options: str) -> list[list[int]]:
            read = read_batch_options({"queue": "orders", **options})
            pieces = [(Piece(read.endpoint, "orders", 0, many, many), size) for many in rows]
            found = [each.pieces if isinstance(each, Pieces) else (each,) for each in gather(pieces, read)]
            return [[piece.hi for piece in task if isinstance(piece, Piece)] for task in found]

        assert tasks(1, 2, 3) == [[1, 2, 3]]
        assert tasks(400, 600, 1, 5000, 1, 2) == [[400, 600], [1], [5000], [1, 2]]
        assert tasks(1, 2, 3, size=1 << 19) == [[1, 2], [3]]
        assert tasks(1, 2, 3, minPartitions="2") == [[1], [2], [3]]
        assert tasks(50, 50, maxMessagesPerPartition="50") == [[50], [50]]
