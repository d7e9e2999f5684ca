"""Opening, closing, and one write for many sends."""

# ruff: noqa: PT012  # what a block does before it raises is what is tested

import subprocess
import sys
from pathlib import Path

import pytest

import tiercel

from .conftest import ORDERS
from .support import RECOVERABLE, bodies


class TestOpen:
    def test_makes_the_directory(self, tmp_path: Path) -> None:
        with tiercel.open(tmp_path / "a" / "b") as qm:
            assert qm.queues() == []

    @pytest.mark.parametrize("kind", [str, Path])
    def test_takes_text_and_paths(self, directory: Path, kind: type) -> None:
        with tiercel.open(kind(directory)) as qm:
            assert qm.queues() == []

    def test_twice_is_refused_clearly(self, qm: tiercel.EmbeddedQueueManager, directory: Path) -> None:
        with pytest.raises(tiercel.StoreInUseError, match=str(directory)):
            tiercel.open(directory)
        with pytest.raises(tiercel.StoreInUseError):
            tiercel.open(directory / ".." / directory.name)
        qm.create_queue(ORDERS)

    def test_from_another_process_is_refused_clearly(
        self, qm: tiercel.EmbeddedQueueManager, directory: Path
    ) -> None:
        program = "import sys, tiercel; tiercel.open(sys.argv[1])"
        ended = subprocess.run(  # noqa: S603  # our own program
            [sys.executable, "-c", program, str(directory)], capture_output=True, text=True, check=False
        )
        assert "StoreInUseError" in ended.stderr
        assert qm.queues() == []

    def test_what_is_no_store_is_left_alone(self, tmp_path: Path) -> None:
        (tmp_path / "letter.txt").write_text("dear reader", "utf-8")
        with pytest.raises(tiercel.StoreFailedError, match=r"letter\.txt"):
            tiercel.open(tmp_path)
        assert list(tmp_path.iterdir()) == [tmp_path / "letter.txt"]

    def test_a_file_is_no_directory(self, tmp_path: Path) -> None:
        file = tmp_path / "file"
        file.write_bytes(b"x")
        with pytest.raises(tiercel.StoreFailedError, match="directory"):
            tiercel.open(file)
        assert file.read_bytes() == b"x"

    def test_a_damaged_file_is_not_made_worse(self, directory: Path) -> None:
        with tiercel.open(directory) as qm:
            qm.create_queue(ORDERS)
        data = directory / "data.mdb"
        data.write_bytes(b"\xff" * data.stat().st_size)
        with pytest.raises(tiercel.StoreDamagedError):
            tiercel.open(directory)
        assert set(data.read_bytes()) == {0xFF}

    def test_under_another_computer_name(self, directory: Path) -> None:
        with tiercel.open(directory, computer_name="alpha") as qm:
            qm.create_queue(ORDERS).send(tiercel.Message(b"x", delivery=RECOVERABLE))
        with tiercel.open(directory, computer_name="beta") as qm:
            [queue] = qm.queues()
            assert queue.count == qm.queue(ORDERS).count == 1
            assert qm.queue(queue.path_name).receive(0).body == b"x"


class TestClose:
    def test_twice_is_nothing(self, directory: Path) -> None:
        qm = tiercel.open(directory)
        qm.close()
        qm.close()
        tiercel.open(directory).close()

    def test_what_is_left_may_be_closed_too(self, directory: Path) -> None:
        qm = tiercel.open(directory)
        queue = qm.create_queue(ORDERS)
        cursor = queue.cursor()
        qm.close()
        cursor.close()
        queue.close()

    def test_use_after_it(self, directory: Path) -> None:
        qm = tiercel.open(directory)
        queue = qm.create_queue(ORDERS)
        cursor, tx = queue.cursor(), qm.begin_transaction()
        qm.close()
        calls = [
            qm.queues,
            qm.discards,
            qm.begin_transaction,
            lambda: qm.queue(ORDERS),
            lambda: qm.create_queue(ORDERS),
            lambda: qm.delete_queue(ORDERS),
            lambda: qm.journal,
            lambda: qm.dead_letters,
            lambda: qm.batch().__enter__(),
            lambda: qm.transaction().__enter__(),
            lambda: queue.count,
            lambda: queue.size_bytes,
            lambda: queue.label,
            lambda: queue.journal,
            lambda: queue.send(b"x"),
            lambda: queue.receive(0),
            lambda: queue.peek(0),
            lambda: queue.receiving(0).__enter__(),
            lambda: queue.receive(lookup_id=1),
            lambda: queue.move(1, "retry"),
            lambda: queue.set_properties(label="x"),
            queue.cursor,
            queue.purge,
            queue.delete,
            cursor.peek,
            cursor.receive,
            tx.commit,
            tx.abort,
        ]
        for call in calls:
            with pytest.raises(tiercel.ServiceNotAvailableError, match=r"closed.*Open it again"):
                call()

    def test_a_queue_opens_again_when_it_is_used(self, queue: tiercel.EmbeddedQueue) -> None:
        queue.send(b"x")
        queue.close()
        queue.close()
        assert queue.receive(0).body == b"x"

    def test_an_error_in_the_block_comes_through(self, directory: Path) -> None:
        with pytest.raises(ZeroDivisionError), tiercel.open(directory) as qm:
            qm.create_queue(ORDERS)
            raise ZeroDivisionError
        with tiercel.open(directory) as qm:
            assert len(qm.queues()) == 1


class TestBatch:
    def test_commits_once(self, qm: tiercel.EmbeddedQueueManager, queue: tiercel.EmbeddedQueue) -> None:
        commits = 0
        commit = qm.driver.engine.commit

        def counted() -> object:
            nonlocal commits
            commits += 1
            return commit()

        qm.driver.engine.commit = counted  # type: ignore[method-assign,assignment]
        with qm.batch():
            for _ in range(100):
                queue.send(tiercel.Message(b"x", delivery=RECOVERABLE))
            with qm.batch():
                queue.receive(0)
            assert commits == 0
        assert commits == 1
        assert queue.count == 99

    def test_what_was_done_before_an_error_stays_done(self, directory: Path) -> None:
        with tiercel.open(directory) as qm:
            queue = qm.create_queue(ORDERS)
            with pytest.raises(ZeroDivisionError), qm.batch():
                queue.send(tiercel.Message(b"1", delivery=RECOVERABLE))
                raise ZeroDivisionError
            queue.send(tiercel.Message(b"2", delivery=RECOVERABLE))
        with tiercel.open(directory) as qm:
            assert bodies(qm.queue(ORDERS)) == [b"1", b"2"]

    def test_an_error_of_ours_inside_does_not_spoil_the_rest(
        self, qm: tiercel.EmbeddedQueueManager, queue: tiercel.EmbeddedQueue
    ) -> None:
        with qm.batch():
            queue.send(b"1")
            with pytest.raises(tiercel.LabelTooLongError):
                queue.send(tiercel.Message(label="x" * 250))
            with pytest.raises(tiercel.QueueNotFoundError):
                qm.queue(r".\private$\nowhere")
            queue.send(b"2")
        assert bodies(queue) == [b"1", b"2"]

    def test_a_transaction_inside(
        self, qm: tiercel.EmbeddedQueueManager, transactional: tiercel.EmbeddedQueue
    ) -> None:
        with qm.batch():
            with qm.transaction() as tx:
                transactional.send(b"1", transaction=tx)
            with pytest.raises(ZeroDivisionError), qm.transaction() as tx:
                transactional.send(b"2", transaction=tx)
                raise ZeroDivisionError
        assert bodies(transactional) == [b"1"]

    def test_closing_inside(self, directory: Path) -> None:
        with tiercel.open(directory) as qm:
            queue = qm.create_queue(ORDERS)
            with pytest.raises(tiercel.TiercelError), qm.batch():
                queue.send(tiercel.Message(b"1", delivery=RECOVERABLE))
                qm.close()
                queue.send(b"2")
        with tiercel.open(directory) as qm:
            assert bodies(qm.queue(ORDERS)) == [b"1"]


class TestFullStore:
    """Sends are refused with their own error; reading and deleting go on, and nothing is lost."""

    SMALL = 4 << 20
    BIG = tiercel.Message(bytes(4000), delivery=RECOVERABLE)

    def test_sends_are_refused_and_the_rest_works(self, directory: Path) -> None:
        with tiercel.open(directory, max_bytes=self.SMALL) as qm:
            queue = qm.create_queue(ORDERS)
            sent = self.fill(qm, queue)
            assert queue.count == sent
            queue.send(b"express messages need no room")
            queue.receive(0)
        with tiercel.open(directory, max_bytes=self.SMALL) as qm:
            queue = qm.queue(ORDERS)
            assert queue.count == sent - 1
            assert queue.purge() == sent - 1
            assert queue.count == 0

    def test_after_a_purge_there_is_room_again(self, directory: Path) -> None:
        with tiercel.open(directory, max_bytes=self.SMALL) as qm:
            queue = qm.create_queue(ORDERS)
            for number in range(3):
                self.fill(qm, queue)
                qm.create_queue(rf".\private$\{number}")
                queue.purge()
                queue.send(self.BIG)

    @pytest.mark.parametrize("full", [True, False])
    def test_a_transaction_that_does_not_fit_is_aborted(self, directory: Path, full: bool) -> None:
        with tiercel.open(directory, max_bytes=self.SMALL) as qm:
            queue = qm.create_queue(ORDERS)
            payments = qm.create_queue(r".\private$\payments", transactional=True)
            if full:
                self.fill(qm, queue)
            with pytest.raises(tiercel.StoreFullError), qm.transaction() as tx:
                for _ in range(50 if full else 2000):
                    payments.send(self.BIG, transaction=tx)
            assert payments.count == 0
            assert not tx.is_active
            queue.purge()
            qm.create_queue(r".\private$\other")

    def fill(self, qm: tiercel.EmbeddedQueueManager, queue: tiercel.EmbeddedQueue) -> int:
        sent = 0
        with pytest.raises(tiercel.StoreFullError, match=r"4\.0 MiB"):
            while True:
                with qm.batch():
                    for _ in range(20):
                        queue.send(self.BIG)
                        sent += 1
        return sent


def test_a_forked_child_is_refused_and_harms_nothing(directory: Path) -> None:
    program = """
import os, sys, tiercel
qm = tiercel.open(sys.argv[1])
queue = qm.create_queue(r".\\private$\\orders")
queue.send(tiercel.Message(b"parent 1", delivery=tiercel.DeliveryGuarantee.RECOVERABLE))
if not (child := os.fork()):
    try:
        queue.send(tiercel.Message(b"child", delivery=tiercel.DeliveryGuarantee.RECOVERABLE))
    except tiercel.ServiceNotAvailableError:
        qm.close()
        os._exit(0)
    os._exit(1)
status = os.waitpid(child, 0)[1]
queue.send(tiercel.Message(b"parent 2", delivery=tiercel.DeliveryGuarantee.RECOVERABLE))
sys.exit(status)
"""
    ended = subprocess.run(  # noqa: S603  # our own program
        [sys.executable, "-c", program, str(directory)], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    with tiercel.open(directory) as qm:
        assert bodies(qm.queue(ORDERS)) == [b"parent 1", b"parent 2"]
