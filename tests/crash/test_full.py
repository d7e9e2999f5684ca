"""A full store and a full disk through the whole queue manager: senders are refused, nobody else is."""

import json
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from itertools import count, islice
from pathlib import Path
from uuid import UUID

import pytest

import tiercel
from engine import harness as engine_harness
from store.helpers import MIB, run
from tiercel.engine.history import History
from tiercel.model.format_name import FormatName
from tiercel.model.identifiers import MessageId
from tiercel.store import MemoryStore
from tiercel.store.lmdb_store import LmdbStore

from .world import World, problems_of

BODY = bytes(1300)


def send_until_full(queue: tiercel.EmbeddedQueue, number: int) -> int:
    """The number after the last message that was taken."""
    refused = 0
    while refused < 3:
        try:
            queue.send(tiercel.Message(BODY, label=str(number), delivery=1))
            number += 1
        except tiercel.StoreFullError:
            refused += 1
    return number


def send_two_thousand(queue: tiercel.EmbeddedQueue, transaction: tiercel.EmbeddedTransaction) -> None:
    for _ in range(2000):
        queue.send(tiercel.Message(BODY), transaction=transaction)


class TestAFullStore:
    def test_refuses_sends_and_takes_them_again_later(self, tmp_path: Path) -> None:
        with tiercel.open(tmp_path / "data", computer_name="HOST", max_bytes=2 * MIB) as qm:
            queue = qm.create_queue(r".\private$\a", journaling=False)
            full = send_until_full(queue, 0)
            assert full > 300
            assert queue.count == full
            assert [queue.receive(0).label for _ in range(full // 2)] == list(map(str, range(full // 2)))
            again = send_until_full(queue, full)
            assert again - full > full // 3
            labels = [queue.receive(0).label for _ in range(queue.count)]
            assert labels == list(map(str, range(full // 2, again)))
            queue.send(tiercel.Message(BODY, delivery=1))
        store = LmdbStore.open(tmp_path / "data")
        assert problems_of(store) == []
        store.close()

    def test_express_messages_do_not_need_it(self, tmp_path: Path) -> None:
        with tiercel.open(tmp_path / "data", computer_name="HOST", max_bytes=MIB) as qm:
            queue = qm.create_queue(r".\private$\a")
            full = send_until_full(queue, 0)
            queue.send(b"express")
            assert queue.count == full + 1

    @pytest.mark.parametrize("end", ["purge", "delete"])
    def test_can_be_emptied_at_once(self, tmp_path: Path, end: str) -> None:
        with tiercel.open(tmp_path / "data", computer_name="HOST", max_bytes=4 * MIB) as qm:
            queue = qm.create_queue(r".\private$\a")
            other = qm.create_queue(r".\private$\b")
            full = send_until_full(queue, 0)
            getattr(queue, end)()
            assert 0 < len(qm.discards()) <= full  # with no room for a line each, a line for all
            for _ in range(3):  # LMDB gives pages out again in the second commit after they became free
                try:
                    other.send(tiercel.Message(BODY, delivery=1))
                except tiercel.StoreFullError:
                    continue
            assert other.count > 0

    def test_a_transaction_that_does_not_fit_is_refused_whole(self, tmp_path: Path) -> None:
        """A send in a transaction is refused when it is made; what was accepted can be committed."""
        with tiercel.open(tmp_path / "data", computer_name="HOST", max_bytes=MIB) as qm:
            queue = qm.create_queue(r".\private$\t", transactional=True)
            sent = committed = refused = 0
            while refused < 3:
                transaction = qm.begin_transaction()
                try:
                    for _ in range(50):
                        queue.send(tiercel.Message(BODY, label=str(sent)), transaction=transaction)
                        sent += 1
                except tiercel.StoreFullError:
                    refused += 1
                    transaction.abort()
                    sent = committed
                    continue
                transaction.commit()
                committed = sent
            assert committed > 0
            assert queue.count == committed
        with tiercel.open(tmp_path / "data", computer_name="HOST", max_bytes=MIB) as qm:
            queue = qm.queue(r".\private$\t")
            labels = [queue.receive(0).label for _ in range(queue.count)]
            assert labels == list(map(str, range(committed)))

    def test_one_large_transaction_is_not_taken_beyond_what_fits(self, tmp_path: Path) -> None:
        """Its sends are in memory until it commits: together they must still have been reserved."""
        with tiercel.open(tmp_path / "data", computer_name="HOST", max_bytes=MIB) as qm:
            queue = qm.create_queue(r".\private$\t", transactional=True)
            transaction = qm.begin_transaction()
            with pytest.raises(tiercel.StoreFullError):
                send_two_thousand(queue, transaction)
            transaction.abort()
            assert queue.count == 0
            with qm.transaction() as transaction:
                queue.send(tiercel.Message(BODY), transaction=transaction)
            assert queue.count == 1

    def test_in_memory_too(self) -> None:
        world = World(MemoryStore(max_bytes=200_000), lambda store: store)
        queue = world.create("a")
        full = send_until_full(queue, 0)
        assert [queue.receive(0).label for _ in range(full)] == list(map(str, range(full)))
        assert problems_of(world.store) == []


class TestClaimsInAFullStore:
    """A claim writes what it takes, for a moment twice: still a full store must be emptied by a consumer."""

    @pytest.mark.parametrize("max_mib", [1, 4])
    @pytest.mark.parametrize("transactional", [False, True])
    def test_a_consumer_can_empty_it(self, tmp_path: Path, max_mib: int, transactional: bool) -> None:
        with tiercel.open(tmp_path / "data", computer_name="HOST", max_bytes=max_mib * MIB) as qm:
            queue = qm.create_queue(r".\private$\a", transactional=transactional)
            full = fill(qm, queue)
            consumer = qm.consumer("spark")
            seen: list[str] = []
            while len(seen) < full:
                claim = consumer.claim(queue, 1000)
                assert len(claim) > 0
                seen += [message.label for message in claim]
                assert consumer.acknowledge(queue, claim.hi) == len(claim)
            assert seen == list(map(str, range(full)))
            fill(qm, queue)
        store = LmdbStore.open(tmp_path / "data")
        assert problems_of(store) == []
        store.close()

    def test_without_acknowledging_nothing_is_lost_and_acknowledging_works(self, tmp_path: Path) -> None:
        with tiercel.open(tmp_path / "data", computer_name="HOST", max_bytes=2 * MIB) as qm:
            queue = qm.create_queue(r".\private$\a")
            full = fill(qm, queue)
            consumer = qm.consumer("spark")
            with suppress(tiercel.StoreFullError):
                while consumer.claim(queue, 1000):
                    pass
            (status,) = qm.claims()
            assert status.count + queue.count == full
            other = qm.consumer("other")
            with suppress(tiercel.StoreFullError):
                other.claim(queue, 1000)
            assert consumer.acknowledge(queue, status.hi) == status.count
        with tiercel.open(tmp_path / "data", computer_name="HOST", max_bytes=2 * MIB) as qm:
            queue = qm.queue(r".\private$\a")
            held = sum(each.count for each in qm.claims())
            assert held + queue.count == full - status.count
            fill(qm, queue)

    def test_what_is_claimed_can_be_released(self, tmp_path: Path) -> None:
        with tiercel.open(tmp_path / "data", computer_name="HOST", max_bytes=2 * MIB) as qm:
            queue = qm.create_queue(r".\private$\a")
            consumer = qm.consumer("spark")
            for number in range(200):
                queue.send(tiercel.Message(BODY, label=str(number), delivery=1))
            consumer.claim(queue)
            other = qm.create_queue(r".\private$\b")
            fill(qm, other)
            consumer.release()
            assert [queue.receive(0).label for _ in range(200)] == list(map(str, range(200)))

    def test_an_acknowledgement_is_done_though_the_claim_with_it_finds_no_room(self) -> None:
        world = World(MemoryStore(max_bytes=200_000), lambda store: store)
        queue = world.create("a")
        full = fill(world.qm, queue)
        consumer = world.qm.consumer("spark")
        claim = consumer.claim(queue, 10)
        assert isinstance(world.store, MemoryStore)
        world.store.max_bytes = world.store.size
        with pytest.raises(tiercel.StoreFullError):
            consumer.claim(queue, 10)
        assert (queue.count, world.qm.claims()[0].hi) == (full - claim.hi, claim.hi)
        assert len(consumer.claim(queue, 10, acknowledge=claim.hi)) == 0
        assert world.qm.claims()[0].count == 0
        assert problems_of(world.store) == []


def fill(qm: tiercel.EmbeddedQueueManager, queue: tiercel.EmbeddedQueue) -> int:
    """Sends until nothing goes in, three messages at a time; how many there are."""
    refused = 0
    while refused < 3:
        count = queue.count
        try:
            with qm.transaction() if queue.transactional else nullcontext() as transaction, qm.batch():
                for number in range(count, count + 3):
                    message = tiercel.Message(BODY, label=str(number), delivery=1)
                    queue.send(message, transaction=transaction)
        except tiercel.StoreFullError:
            refused += 1
    return queue.count


def test_a_full_disk(tmp_path: Path) -> None:
    """RLIMIT_FSIZE stands for the disk, as in tests/store."""
    found = json.loads(run(FULL_DISK, tmp_path / "data"))
    assert "the disk has no more space" in found["error"]
    assert found["sent"] > 3000
    assert found["received"] == list(map(str, range(found["sent"])))
    assert found["count"] == 1
    assert LmdbStore.verify(tmp_path / "data") == []
    store = LmdbStore.open(tmp_path / "data")
    assert problems_of(store) == []
    store.close()


FULL_DISK = """
    import json, resource, sys
    import tiercel
    MIB = 2**20
    resource.setrlimit(resource.RLIMIT_FSIZE, (24 * MIB, resource.RLIM_INFINITY))
    qm = tiercel.open(sys.argv[1], computer_name="HOST", max_bytes=64 * MIB)
    queue = qm.create_queue(r".\\private$\\a")
    sent, refused, error = 0, 0, ""
    while refused < 3:
        with qm.batch():
            try:
                for _ in range(100):
                    queue.send(tiercel.Message(bytes(1300), label=str(sent), delivery=1))
                    sent += 1
            except tiercel.StoreFullError as problem:
                refused += 1
                error = str(problem)
    received = []
    while queue.count:
        with qm.batch():
            received += [queue.receive(0).label for _ in range(min(queue.count, 100))]
    queue.send(tiercel.Message(bytes(1300), delivery=1))
    print(json.dumps({"sent": sent, "error": error, "received": received, "count": queue.count}))
    qm.close()
"""


class Small(engine_harness.World):
    """A queue manager whose store holds a mebibyte."""

    @staticmethod
    def _open(directory: Path) -> LmdbStore:
        return LmdbStore.open(directory, max_bytes=MIB)


class TestStrangersAtAFullStore:
    """Whatever they send: it is refused, and costs nothing that the store keeps for emptying it."""

    @pytest.fixture
    def small(self, tmp_path: Path) -> Iterator[Small]:
        made = Small(tmp_path / "data")
        yield made
        made.store.close()

    def test_that_invent_administration_queues(self, small: Small) -> None:
        """Each wants an acknowledgement in a queue of its own, and the ledger tells of those without."""
        box = small.create("q")
        queue, number = small.engine.queues.find(box.name), 0

        def arrive() -> None:
            nonlocal number
            for _ in range(50):
                number += 1
                packet = engine_harness.foreign_packet(
                    destination_queue=box.name,
                    acknowledgements=engine_harness.ALL_ACKNOWLEDGEMENTS,
                    administration_queue=FormatName.parse(rf"DIRECT=TCP:192.0.2.9\private$\a{number}"),
                    id=MessageId(UUID(int=number), number),
                )
                with suppress(tiercel.StoreFullError):
                    small.engine.delivery.arrive(packet, queue)

        for _ in range(150):
            small.run(arrive)
        lines = small.discards()
        assert any("no room" in line.reason or "no queue" in line.reason for line in lines)
        assert box.purge() > 0
        box.send(b"there is room again")

    def test_whose_messages_are_refused(self, small: Small) -> None:
        """They are remembered all the same, so that none is refused twice."""
        box = small.create("q")
        with pytest.raises(tiercel.StoreFullError):
            box.send_all(*[BODY] * 1000)
        history = small.run(lambda: History(small.engine._core))
        identities = (number.to_bytes(20, "big") for number in count())

        def remember() -> None:
            for identity in islice(identities, 20):
                history.remember([identity], recoverable=True, is_taken=False)
            history.flush()

        for _ in range(500):
            small.run(remember)
        assert (499 * 20).to_bytes(20, "big") in history
        again = small.run(lambda: History(small.engine._core))
        assert (499 * 20).to_bytes(20, "big") in again
        assert box.purge() > 0

    def test_that_repeat_what_was_taken(self, small: Small) -> None:
        """Repeats displace nothing: what was taken is known after a crash as well."""
        box = small.create("q")
        taken = [number.to_bytes(20, "big") for number in range(20)]

        def take(history: History, identities: list[bytes]) -> None:
            history.remember(identities, recoverable=True)
            history.flush()

        def repeat(history: History) -> None:
            assert history.is_duplicate(taken[0])
            history.flush()

        history = small.run(lambda: History(small.engine._core))
        small.run(lambda: take(history, taken[:10]))
        with pytest.raises(tiercel.StoreFullError):
            box.send_all(*[BODY] * 1000)
        small.run(lambda: take(history, taken[10:]))
        for _ in range(400):
            small.run(lambda: repeat(history))
        again = small.run(lambda: History(small.engine._core))
        assert set(taken) <= again._seen.keys()
