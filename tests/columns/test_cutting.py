"""How what a cursor reads is cut into batches."""

import pytest

from tiercel.columns import cut


@pytest.mark.parametrize(
    ("sizes", "batches"),
    [
        ([], []),
        ([1, 1, 1], [[1, 1, 1]]),
        ([1, 1, 1, 1], [[1, 1, 1], [1]]),
        ([5, 5, 1], [[5, 5], [1]]),
        ([11], [[11]]),
        ([1, 11, 1], [[1], [11], [1]]),
        ([11, 11], [[11], [11]]),
    ],
    ids=str,
)
def test_rows_and_bytes(sizes: list[int], batches: list[list[int]]) -> None:
    items = [(number, bytes(size)) for number, size in enumerate(sizes)]
    found = list(cut(items, max_rows=3, max_bytes=10))
    assert [[len(value) for value in values] for _, values in found] == batches
    assert [key for keys, _ in found for key in keys] == list(range(len(sizes)))
