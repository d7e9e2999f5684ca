"""Consumers over HTTP: attach, claim, read, acknowledge, release; and what an old driver hears."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

import pytest

import tiercel
from data.served import Answer, Served, serving

MESSAGES = 2500
QUEUES = [rf".\private$\q{number}" for number in range(20)]

NewQueue = Callable[[], str]


def prepare(manager: tiercel.EmbeddedQueueManager) -> None:
    with manager.batch():
        for name in QUEUES:
            queue = manager.create_queue(name)
            for number in range(MESSAGES if name == QUEUES[0] else 10):
                queue.send(tiercel.Message(b"x" * 100, label=f"{number}", delivery=1))
        steps = manager.create_queue(r".\private$\steps", transactional=True)
        with manager.transaction() as transaction:
            for number in range(3):
                steps.send(tiercel.Message(b"", label=f"{number}"), transaction=transaction)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("claims"), prepare) as served:
        yield served


@pytest.fixture(scope="module")
def new_queue() -> NewQueue:
    """A queue with ten messages that nobody has touched."""
    numbers = count(1)
    return lambda: QUEUES[next(numbers)]


def labels(served: Served, queue: str, lo: int, hi: int) -> list[str]:
    rows = served.read(queue=queue, consumer="c", lo=lo, hi=hi, columns="claim_seq,label")
    assert rows.column("claim_seq").to_pylist() == list(range(lo + 1, lo + 1 + rows.num_rows))
    found: list[str] = rows.column("label").to_pylist()
    return found


class TestNames:
    @pytest.mark.parametrize("name", ["q0", r"private$\q0", rf"FormatName:DIRECT=OS:{QUEUES[0]}"])
    def test_every_spelling(self, served: Served, name: str) -> None:
        assert served.get("/head", queue=name)["guid"] == served.get("/head", queue=QUEUES[0])["guid"]
        attached = served.post("/consumers/names/attach", queues=[name])
        assert attached["queues"][name]["count"] == MESSAGES

    def test_patterns_of_short_names(self, served: Served) -> None:
        found = [each["queue"].partition("\\")[2] for each in served.get("/queues", pattern="q1?")["queues"]]
        assert found == [rf"private$\q{number}" for number in range(10, 20)]

    def test_none(self, served: Served) -> None:
        answer = served.get("/head", queue=" ")
        assert (answer.status, "it is empty" in answer["detail"]) == (400, True)


class TestAttach:
    def test_gives_an_epoch_and_where_its_queues_stand(self, served: Served, new_queue: NewQueue) -> None:
        first, second = new_queue(), new_queue()
        answer = served.post("/consumers/a.1/attach", queues=[first])
        assert answer["qm"] == served.start["guid"]
        row = answer["queues"][first]
        assert (row["floor"], row["hi"], row["e"], row["count"]) == (0, 0, 0, 10)
        assert row["guid"] == served.get("/head", queue=first)["guid"]
        again = served.post("/consumers/a.1/attach", queues=[first, second])
        assert again["epoch"] > answer["epoch"]

    def test_more_queues_in_the_same_epoch(self, served: Served, new_queue: NewQueue) -> None:
        first, second = new_queue(), new_queue()
        epoch = served.post("/consumers/more/attach", queues=[first])["epoch"]
        answer = served.post("/consumers/more/attach", queues=[second], epoch=epoch)
        assert (answer["epoch"], list(answer["queues"])) == (epoch, [second])
        assert served.post("/consumers/more/claim", epoch=epoch, queue=first, start=0)["hi"] == 10
        served.post("/consumers/more/attach", queues=[first])
        old = served.post("/consumers/more/attach", queues=[second], epoch=epoch)
        assert (old.status, old["code"]) == (409, "TIERCEL_ERROR_CONSUMER_FENCED")

    def test_may_be_told_to_make_none(self, served: Served) -> None:
        answer = served.post("/consumers/nobody/attach", queues=[QUEUES[0]], create=False)
        assert (answer.status, answer["code"]) == (404, "TIERCEL_ERROR_CONSUMER_NOT_FOUND")

    def test_with_a_queue_that_is_not_there_does_nothing(self, served: Served) -> None:
        assert served.post("/consumers/none/attach", queues=[r".\private$\none"]).status == 404
        assert served.post("/consumers/none/release").status == 404


class TestClaim:
    def test_read_acknowledge(self, served: Served) -> None:
        queue = QUEUES[0]
        epoch = served.post("/consumers/c/attach", queues=[queue])["epoch"]
        claim = served.post("/consumers/c/claim", epoch=epoch, queue=queue, start=0, limit=2200)
        assert (claim["lo"], claim["hi"], claim["visible"], claim["e"]) == (0, 2200, 300, 0)
        ends = [end for end, _ in claim["weights"]]
        sums = [size for _, size in claim["weights"]]
        assert ends == [1000, 2000, 2200]
        assert sums == sorted(sums)
        assert 2200 * 100 < sums[-1] < 2200 * 1000
        assert labels(served, queue, 0, 2200) == [f"{number}" for number in range(2200)]
        assert labels(served, queue, 700, 703) == ["700", "701", "702"]
        assert served.get("/head", queue=queue)["count"] == 300

        # The driver crashed before it wrote down what it had: it is offered the same again.
        repeat = served.post("/consumers/c/claim", epoch=epoch, queue=queue, start=0, limit=5)
        assert (repeat["lo"], repeat["hi"]) == (0, 2200)
        assert [end for end, _ in repeat["weights"]] == ends

        done = served.post("/consumers/c/ack", epoch=epoch, queue=queue, up_to=2100)
        assert done.value == {"acknowledged": 2100, "floor": 2100}
        assert served.post("/consumers/c/ack", epoch=epoch, queue=queue, up_to=2100)["acknowledged"] == 0
        assert labels(served, queue, 2100, 2200) == [f"{number}" for number in range(2100, 2200)]
        head = served.get("/head", queue=queue, consumer="c")["consumer"]
        assert head == {"floor": 2100, "hi": 2200, "visible": 300}

        rest = served.post("/consumers/c/claim", epoch=epoch, queue=queue, start=2200, ack=2200)
        assert (rest["lo"], rest["hi"], rest["visible"]) == (2200, 2500, 0)
        row = next(each for each in served.get("/claims")["claims"] if each["consumer"] == "c")
        assert (row["floor"], row["hi"], row["count"], row["queue"]) == (2200, 2500, 300, r"HOST\private$\q0")
        old = served.post("/consumers/c/claim", epoch=epoch, queue=queue, start=1000)
        assert (old.status, old["code"]) == (410, "TIERCEL_ERROR_CLAIM_LOST")

    def test_no_more_bytes_than_asked_for(self, served: Served, new_queue: NewQueue) -> None:
        queue = new_queue()
        epoch = served.post("/consumers/b/attach", queues=[queue])["epoch"]
        size = served.get("/head", queue=queue)["bytes"] // 10
        claim = served.post("/consumers/b/claim", epoch=epoch, queue=queue, start=0, bytes=3 * size)
        assert claim["hi"] == 3

    def test_a_transaction_is_never_split(self, served: Served) -> None:
        queue = r".\private$\steps"
        epoch = served.post("/consumers/t/attach", queues=[queue])["epoch"]
        claim = served.post("/consumers/t/claim", epoch=epoch, queue=queue, start=0, limit=1)
        assert claim["hi"] == 3


@contextmanager
def waiting_claim(served: Served, consumer: str, queue: str) -> Iterator[list[Answer]]:
    """A claim that waits behind the ten messages of the queue; its answer is there after the block."""
    epoch = served.post(f"/consumers/{consumer}/attach", queues=[queue])["epoch"]
    served.post(f"/consumers/{consumer}/claim", epoch=epoch, queue=queue, start=0)
    claim = {"epoch": epoch, "queue": queue, "start": 10, "wait_ms": 60_000}
    found: list[Answer] = []
    waiting = threading.Thread(
        target=lambda: found.append(served.post(f"/consumers/{consumer}/claim", **claim))
    )
    waiting.start()
    waiting.join(0.3)
    yield found
    waiting.join()


class TestLongPoll:
    def test_ends_with_nothing(self, served: Served, new_queue: NewQueue) -> None:
        queue = new_queue()
        epoch = served.post("/consumers/w/attach", queues=[queue])["epoch"]
        served.post("/consumers/w/claim", epoch=epoch, queue=queue, start=0)
        claim = served.post("/consumers/w/claim", epoch=epoch, queue=queue, start=10, wait_ms=200)
        assert (claim["lo"], claim["hi"], claim["weights"]) == (10, 10, [])

    def test_is_woken_by_a_message(self, served: Served, new_queue: NewQueue) -> None:
        queue = new_queue()
        with waiting_claim(served, "w", queue) as found:
            assert not found
            served.publish(queue, [{"body": b"new"}], transactional=False)
        assert (found[0]["lo"], found[0]["hi"]) == (10, 11)

    def test_of_an_old_driver_ends_when_a_message_comes(self, served: Served, new_queue: NewQueue) -> None:
        queue = new_queue()
        with waiting_claim(served, "o", queue) as found:
            served.post("/consumers/o/attach", queues=[queue])
            served.publish(queue, [{"body": b"new"}], transactional=False)
        assert found[0].status == 409
        assert served.get("/head", queue=queue)["count"] == 1


class TestFencing:
    @pytest.mark.parametrize("verb", ["claim", "ack"])
    def test_an_older_epoch_is_refused(self, served: Served, new_queue: NewQueue, verb: str) -> None:
        queue = new_queue()
        old = served.post("/consumers/f/attach", queues=[queue])["epoch"]
        new = served.post("/consumers/f/attach", queues=[queue])["epoch"]
        body = {"claim": {"start": 0}, "ack": {"up_to": 0}}[verb]
        answer = served.post(f"/consumers/f/{verb}", epoch=old, queue=queue, **body)
        assert (answer.status, answer["code"]) == (409, "TIERCEL_ERROR_CONSUMER_FENCED")
        assert served.post(f"/consumers/f/{verb}", epoch=new, queue=queue, **body).status == 200


class TestAcknowledge:
    def test_what_was_never_claimed_ends_nothing(self, served: Served, new_queue: NewQueue) -> None:
        """Not even what comes before it: whoever says such a number speaks of other messages."""
        queue = new_queue()
        served.publish(queue, [{"body": b"x"}] * 1500, transactional=False)
        epoch = served.post("/consumers/a/attach", queues=[queue])["epoch"]
        assert served.post("/consumers/a/claim", epoch=epoch, queue=queue, start=0)["hi"] == 1510
        answer = served.post("/consumers/a/ack", epoch=epoch, queue=queue, up_to=5000)
        assert (answer.status, answer["code"]) == (410, "TIERCEL_ERROR_CLAIM_LOST")
        (row,) = [each for each in served.get("/claims")["claims"] if each["consumer"] == "a"]
        assert row["count"] == 1510


class TestRelease:
    def test_gives_back_and_fences(self, served: Served, new_queue: NewQueue) -> None:
        queue = new_queue()
        epoch = served.post("/consumers/r/attach", queues=[queue])["epoch"]
        served.post("/consumers/r/claim", epoch=epoch, queue=queue, start=0, limit=7)
        assert served.delete("/consumers/r").status == 400  # it holds claims
        assert served.post("/consumers/r/release", queue=queue).value == {"released": 7}
        assert served.get("/head", queue=queue)["count"] == 10
        assert served.post("/consumers/r/claim", epoch=epoch, queue=queue, start=7).status == 409
        assert served.read(queue=queue, consumer="r", lo=0, hi=7).num_rows == 0
        assert served.delete("/consumers/r").value == {"forgotten": "r"}
        assert served.delete("/consumers/r").status == 404


class TestRefusals:
    @pytest.mark.parametrize(
        ("path", "body", "status", "words"),
        [
            ("/consumers/x/claim", {"queue": QUEUES[0]}, 400, "give epoch"),
            ("/consumers/x/claim", {"epoch": 1, "queue": 3}, 400, "give a string"),
            ("/consumers/x/claim", {"epoch": 1, "queue": "q", "limit": 0}, 400, "a whole number from 1"),
            ("/consumers/x/claim", {"epoch": True, "queue": "q"}, 400, "a whole number"),
            ("/consumers/x/claim", {"epoch": 1, "queue": QUEUES[0], "wait_ms": 60_001}, 400, "to 60000"),
            ("/consumers/x/claim", {"epoch": 1, "queue": QUEUES[0], "limits": 5}, 400, "perhaps limit is"),
            ("/consumers/x/claim", {"epoch": 1, "queue": QUEUES[0]}, 404, "attach it first"),
            ("/consumers/x/attach", {"queues": QUEUES[0]}, 400, "a list of strings"),
            ("/consumers/x y/attach", {"queues": [QUEUES[0]]}, 400, ""),
        ],
    )
    def test_say_what_to_do(
        self, served: Served, path: str, body: dict[str, object], status: int, words: str
    ) -> None:
        answer = served.post(path.replace(" ", "%20"), **body)
        assert answer.status == status, answer
        assert words in answer["fix"]

    def test_what_is_no_json(self, served: Served) -> None:
        for data in (b"{", b"[]", b"\xff"):
            kind = {"Content-Type": "application/json"}
            assert served.ask("POST", "/consumers/x/attach", data, kind).status == 400
        answer = served.ask("POST", "/consumers/x/attach", b"{}", {"Content-Type": "text/plain"})
        assert "Content-Type: application/json" in answer["fix"]
