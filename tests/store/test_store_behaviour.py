"""What every store does, in memory and on disk."""

import random
from collections.abc import Callable

import pytest

from tiercel.model.errors import StoreFailedError, StoreFullError
from tiercel.store import MAX_KEY_SIZE, Batch, Keyspace, Store

from .helpers import HIGHEST, LOWEST, MESSAGES, MIB, committed, contents, fill, key, record


class TestReading:
    @pytest.fixture
    def batch(self, store: Store) -> Batch:
        batch = store.begin()
        for name in (b"b", b"d", b"f"):
            batch.put(MESSAGES, name, name.upper())
        return batch

    @pytest.mark.parametrize(
        ("at_least", "below", "first", "last"),
        [
            (b"", b"z", b"b", b"f"),
            (b"b", b"f", b"b", b"d"),
            (b"b\0", b"f\0", b"d", b"f"),
            (b"c", b"d", None, None),
            (b"d", b"d", None, None),
            (b"e", b"c", None, None),
            (b"", b"", None, None),
            (b"", b"b", None, None),
            (b"g", HIGHEST, None, None),
            (LOWEST, HIGHEST, b"b", b"f"),
            (b"d" * 600, HIGHEST, b"f", b"f"),
        ],
    )
    def test_first_and_last_of_a_range(
        self, batch: Batch, at_least: bytes, below: bytes, first: bytes | None, last: bytes | None
    ) -> None:
        expected_first = None if first is None else (first, first.upper())
        expected_last = None if last is None else (last, last.upper())
        assert batch.first(MESSAGES, at_least, below) == expected_first
        assert batch.last(MESSAGES, at_least, below) == expected_last
        found = list(batch.range(MESSAGES, at_least, below))
        assert found == [(name, name.upper()) for name in (b"b", b"d", b"f") if at_least <= name < below]

    def test_keyspaces_do_not_mix(self, batch: Batch) -> None:
        assert batch.get(Keyspace.QUEUES, b"b") is None
        assert batch.first(Keyspace.QUEUES, LOWEST, HIGHEST) is None
        assert batch.last(Keyspace.QUEUES, LOWEST, HIGHEST) is None
        assert list(batch.range(Keyspace.QUEUES, LOWEST, HIGHEST)) == []
        assert (batch.count(MESSAGES), batch.count(Keyspace.QUEUES)) == (3, 0)

    def test_a_batch_sees_what_it_wrote(self, batch: Batch) -> None:
        batch.put(MESSAGES, b"b", b"new")
        assert batch.get(MESSAGES, b"b") == b"new"
        assert batch.delete(MESSAGES, b"b")
        assert not batch.delete(MESSAGES, b"b")
        assert batch.get(MESSAGES, b"b") is None
        assert batch.first(MESSAGES, LOWEST, HIGHEST) == (b"d", b"D")
        assert batch.count(MESSAGES) == 2

    def test_keys_are_those_of_the_range(self, batch: Batch) -> None:
        for name in (b"a", b"b", b"bb", b"c"):
            batch.put(Keyspace.MESSAGES, name, b"value")
        for ends in ((b"a", b"d"), (b"b", b"c"), (b"b", b"bb"), (b"c", b"a"), (b"d", b"e")):
            expected = [name for name, _ in batch.range(Keyspace.MESSAGES, *ends)]
            assert list(batch.keys(Keyspace.MESSAGES, *ends)) == expected

    @pytest.mark.parametrize(
        ("limit", "size", "names"),
        [(9, 99, b"bdf"), (2, 99, b"bd"), (1, 99, b"b"), (9, 1, b"b"), (9, 2, b"bd"), (2, 1, b"b")],
    )
    def test_the_first_of_a_range(self, batch: Batch, limit: int, size: int, names: bytes) -> None:
        found = batch.first_many(MESSAGES, LOWEST, HIGHEST, limit, size)
        assert found == [(bytes((name,)), bytes((name,)).upper()) for name in names]

    def test_the_first_of_a_range_are_those_in_it(self, batch: Batch) -> None:
        for ends in ((b"b", b"f"), (b"c", b"e"), (b"c", b"d"), (b"e", b"b"), (b"g", HIGHEST), (b"b", b"b")):
            expected = list(batch.range(MESSAGES, *ends))
            assert batch.first_many(MESSAGES, *ends, 9, 99) == expected
        assert batch.first_many(Keyspace.QUEUES, LOWEST, HIGHEST, 9, 99) == []

    def test_a_range_goes_on_while_what_it_gave_is_deleted(self, batch: Batch) -> None:
        seen = []
        for name, _ in batch.range(MESSAGES, LOWEST, HIGHEST):
            seen.append(name)
            batch.delete(MESSAGES, name)
        assert seen == [b"b", b"d", b"f"]
        assert batch.count(MESSAGES) == 0

    def test_a_range_sees_what_changes_ahead_of_it(self, batch: Batch) -> None:
        walk = batch.range(MESSAGES, LOWEST, HIGHEST)
        assert next(walk) == (b"b", b"B")
        batch.put(MESSAGES, b"a", b"behind")
        batch.put(MESSAGES, b"c", b"ahead")
        batch.delete(MESSAGES, b"d")
        assert list(walk) == [(b"c", b"ahead"), (b"f", b"F")]

    def test_a_long_walk_with_deletes_gives_everything_once(self, batch: Batch) -> None:
        fill(batch, range(2000), size=100)
        seen = []
        for name, _ in batch.range(MESSAGES, key(1, 0), key(2, 0)):
            seen.append(name)
            if len(seen) % 3:
                batch.delete(MESSAGES, name)
        assert seen == [key(1, number) for number in range(2000)]

    @pytest.mark.parametrize("seed", range(5))
    def test_a_walk_among_writes_on_both_sides_misses_nothing(self, store: Store, seed: int) -> None:
        rand = random.Random(seed)
        batch = store.begin()
        fill(batch, range(0, 400, 2))
        there = {key(1, number) for number in range(0, 400, 2)}
        at = b""
        for name, _ in batch.range(MESSAGES, LOWEST, HIGHEST):
            assert name == min(each for each in there if each > at)
            at = name
            for _ in range(rand.choice([0, 1, 4, 20])):
                number = max(0, int.from_bytes(at[4:], "big") + rand.randint(-8, 8))
                if rand.random() < 0.6:
                    batch.delete(MESSAGES, key(1, number))
                    there.discard(key(1, number))
                else:
                    fill(batch, range(number, number + 1), size=rand.choice([20, 1300, 3000]))
                    there.add(key(1, number))
        assert not [each for each in there if each > at]

    def test_many_are_written_and_taken_at_once(self, batch: Batch) -> None:
        batch.put_many(MESSAGES, [(b"c", b"C"), (b"d", b"new"), (b"z", b"")])
        batch.put_many(MESSAGES, [])
        assert batch.take(MESSAGES, b"c", b"e", 10) == [(b"c", b"C"), (b"d", b"new")]
        assert batch.take(MESSAGES, b"c", b"e", 10) == []
        assert batch.take(MESSAGES, LOWEST, HIGHEST, 0) == []
        assert batch.take(MESSAGES, LOWEST, HIGHEST, 2) == [(b"b", b"B"), (b"f", b"F")]
        assert batch.take(MESSAGES, LOWEST, HIGHEST, 2) == [(b"z", b"")]
        assert batch.take(MESSAGES, LOWEST, HIGHEST, 2) == []
        assert batch.count(MESSAGES) == 0

    def test_taking_from_many_pages(self, batch: Batch) -> None:
        fill(batch, range(1000))
        batch.put(MESSAGES, key(2, 0), b"neighbour")
        taken = []
        while rows := batch.take(MESSAGES, key(1, 0), key(2, 0), 333):
            taken += rows
        assert taken == [(key(1, number), record(number)) for number in range(1000)]
        assert batch.get(MESSAGES, key(2, 0)) == b"neighbour"

    def test_a_range_goes_on_while_many_are_taken_and_written(self, batch: Batch) -> None:
        fill(batch, range(100), size=100)
        seen = []
        for name, _ in batch.range(MESSAGES, key(1, 0), key(2, 0)):
            seen.append(name)
            batch.take(MESSAGES, LOWEST, name + b"\0", 100)
            batch.put_many(MESSAGES, [(name, b"again"), (key(0, len(seen)), b"behind")])
        assert seen == [key(1, number) for number in range(100)]

    def test_empty_and_large_values(self, batch: Batch) -> None:
        large = bytes(range(256)) * (4 * MIB // 256 + 1)
        batch.put(MESSAGES, b"empty", b"")
        batch.put(MESSAGES, b"large", large)
        assert batch.get(MESSAGES, b"empty") == b""
        assert batch.get(MESSAGES, b"large") == large


class TestKeys:
    @pytest.mark.parametrize("name", [b"x", b"\0", b"\xff" * MAX_KEY_SIZE])
    def test_of_1_to_511_bytes(self, store: Store, name: bytes) -> None:
        batch = store.begin()
        batch.put(MESSAGES, name, b"value")
        assert batch.get(MESSAGES, name) == b"value"
        assert list(batch.range(MESSAGES, LOWEST, HIGHEST)) == [(name, b"value")]
        assert batch.last(MESSAGES, LOWEST, HIGHEST) == (name, b"value")
        assert batch.delete(MESSAGES, name)

    @pytest.mark.parametrize("name", [b"", b"x" * (MAX_KEY_SIZE + 1)])
    def test_others_are_refused_and_the_batch_goes_on(self, store: Store, name: bytes) -> None:
        batch = store.begin()
        with pytest.raises(ValueError, match="1 to 511 bytes"):
            batch.put(MESSAGES, name, b"value")
        with pytest.raises(ValueError, match="1 to 511 bytes"):
            batch.put_many(MESSAGES, [(name, b"value")])
        batch.put(MESSAGES, b"good", b"value")
        batch.commit()
        assert committed(store)[MESSAGES] == {b"good": b"value"}

    def test_asking_for_an_impossible_key(self, store: Store) -> None:
        batch = store.begin()
        assert batch.get(MESSAGES, b"x" * 600) is None
        assert not batch.delete(MESSAGES, b"x" * 600)
        with pytest.raises(ValueError, match="1 to 511 bytes"):
            batch.get(MESSAGES, b"")
        with pytest.raises(ValueError, match="1 to 511 bytes"):
            batch.delete(MESSAGES, b"")


class TestBatches:
    def test_a_commit_keeps_everything_and_an_abort_nothing(self, store: Store) -> None:
        batch = store.begin()
        batch.put(MESSAGES, b"a", b"1")
        batch.put(Keyspace.STATS, b"a", b"1 message")
        batch.commit()
        batch = store.begin()
        batch.put(MESSAGES, b"b", b"2")
        batch.put(MESSAGES, b"a", b"changed")
        batch.delete(Keyspace.STATS, b"a")
        batch.abort()
        found = committed(store)
        assert found[MESSAGES] == {b"a": b"1"}
        assert found[Keyspace.STATS] == {b"a": b"1 message"}

    def test_one_at_a_time(self, store: Store) -> None:
        batch = store.begin()
        with pytest.raises(RuntimeError, match="a batch is open"):
            store.begin()
        batch.abort()
        store.begin().commit()

    @pytest.mark.parametrize("end", [Batch.commit, Batch.abort])
    def test_after_its_end_it_refuses_everything(self, store: Store, end: Callable[[Batch], None]) -> None:
        batch = store.begin()
        getattr(batch, end.__name__)()
        for use in (
            lambda: batch.put(MESSAGES, b"a", b"1"),
            lambda: batch.delete(MESSAGES, b"a"),
            lambda: batch.put_many(MESSAGES, [(b"a", b"1")]),
            lambda: batch.take(MESSAGES, b"a", b"b", 1),
            lambda: batch.get(MESSAGES, b"a"),
            lambda: batch.first(MESSAGES, b"a", b"b"),
            lambda: batch.last(MESSAGES, b"a", b"b"),
            lambda: list(batch.range(MESSAGES, b"a", b"b")),
            lambda: batch.count(MESSAGES),
            lambda: batch.reserve(1),
            lambda: batch.reserve_to_move(1, 1),
            batch.commit,
        ):
            with pytest.raises(RuntimeError, match="this batch has ended"):
                use()
        batch.abort()
        store.begin().abort()

    def test_a_snapshot_stays_as_it_was(self, store: Store) -> None:
        batch = store.begin()
        batch.put(MESSAGES, b"a", b"1")
        batch.commit()
        batch = store.begin()
        batch.put(MESSAGES, b"a", b"2")
        with store.snapshot() as view:
            assert view.get(MESSAGES, b"a") == b"1"
            batch.put(MESSAGES, b"b", b"2")
            batch.commit()
            assert contents(view)[MESSAGES] == {b"a": b"1"}
        assert committed(store)[MESSAGES] == {b"a": b"2", b"b": b"2"}

    def test_a_closed_store_refuses_and_forgets_the_open_batch(self, store: Store) -> None:
        batch = store.begin()
        batch.put(MESSAGES, b"a", b"1")
        store.close()
        with pytest.raises(StoreFailedError, match="closed"):
            store.begin()
        with pytest.raises(StoreFailedError, match="closed"), store.snapshot():
            pass
        with pytest.raises(StoreFailedError, match="closed"):
            batch.put(MESSAGES, b"a", b"1")
        store.close()


class TestAFullStore:
    """Sends are refused; receiving and deleting go on, and make room again."""

    @pytest.fixture
    def store(self, make_store: Callable[[int], Store]) -> Store:
        return make_store(4 * MIB)

    def test_refuses_sends_only(self, store: Store) -> None:
        sent = send_until_full(store, 0)
        assert 1800 < sent < 3300
        assert drain(store, sent) == list(range(sent))
        again = send_until_full(store, sent)
        assert again > 0.9 * sent
        assert drain(store, again) == list(range(sent, sent + again))

    def test_records_can_still_be_moved(self, store: Store) -> None:
        """For each that is put one is deleted, so no more room is needed than for a few of them at a time."""
        sent = send_until_full(store, 0)
        for start in range(0, sent, 5):
            batch = store.begin()
            numbers = range(start, min(start + 5, sent))
            batch.reserve_to_move(len(numbers), 1300 * len(numbers))
            for number in numbers:
                batch.put(MESSAGES, key(2, number), record(number))
                assert batch.delete(MESSAGES, key(1, number))
            batch.commit()
        moved = {key(2, number): record(number) for number in range(sent)}
        assert committed(store)[MESSAGES] == moved

    def test_but_not_more_at_once_than_receiving_can_spare(self, store: Store) -> None:
        send_until_full(store, 0)
        batch = store.begin()
        with pytest.raises(StoreFullError):
            batch.reserve_to_move(100, MIB)

    def test_says_what_how_much_and_what_to_do(self, store: Store) -> None:
        batch = store.begin()
        with pytest.raises(StoreFullError) as raised:
            batch.reserve(5 * MIB)
        assert raised.value.limit is not None
        assert raised.value.present is not None
        assert "store" in str(raised.value)

    def test_many_small_ones_need_more_than_their_bytes(self, store: Store) -> None:
        batch = store.begin()
        batch.reserve(10_000)
        with pytest.raises(StoreFullError):
            batch.reserve(10_000, 1_000_000)

    def test_a_refusal_leaves_the_batch_as_it_was(self, store: Store) -> None:
        batch = store.begin()
        fill(batch, range(100))
        for _ in range(3):
            with pytest.raises(StoreFullError):
                batch.reserve(5 * MIB)
            assert batch.last(MESSAGES, LOWEST, HIGHEST) == (key(1, 99), record(99))
        batch.delete(MESSAGES, key(1, 0))
        batch.reserve(1300)
        batch.put(MESSAGES, key(1, 100), record(100))
        batch.commit()
        assert committed(store)[MESSAGES] == {key(1, number): record(number) for number in range(1, 101)}


def send_until_full(store: Store, start: int) -> int:
    """Sends in batches of 50; how many were taken."""
    number = start
    while True:
        batch = store.begin()
        try:
            for _ in range(50):
                batch.reserve(1300)
                fill(batch, range(number, number + 1))
                number += 1
        except StoreFullError:
            return number - start
        finally:
            batch.commit()


def drain(store: Store, count: int) -> list[int]:
    """Receives in batches of 40; the numbers in the order in which they came."""
    received: list[int] = []
    while len(received) < count:
        batch = store.begin()
        for _ in range(min(40, count - len(received))):
            found = batch.first(MESSAGES, LOWEST, HIGHEST)
            assert found is not None
            received.append(int.from_bytes(found[1][:8], "big"))
            assert found[1] == record(received[-1])
            assert batch.delete(MESSAGES, found[0])
        batch.commit()
    with store.snapshot() as view:
        assert view.count(MESSAGES) == 0
    return received
