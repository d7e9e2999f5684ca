"""`/queues`, `/head` and `/cuts`: which queues there are, and where their messages stand."""

import time
from collections.abc import Iterator

import pytest

import tiercel
from data.served import Served, serving

ORDERS = r".\private$\orders"
BEGAN = time.time()


def prepare(manager: tiercel.EmbeddedQueueManager) -> None:
    orders = manager.create_queue(ORDERS, journaling=True, quota_kib=1000)
    manager.create_queue(r".\private$\bills", transactional=True)
    manager.create_queue(r".\private$\empty")
    for number in range(20):
        orders.send(tiercel.Message(b"x" * 100, delivery=1, priority=number % 8))
    for _ in range(4):
        orders.receive(0)
    far = manager.queue(r"DIRECT=OS:other\private$\far")
    far.send(tiercel.Message(b"far", delivery=1))
    orders.send(tiercel.Message(b"late", delivery=1, time_to_be_received=0, negative_journaling=True))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("queues"), prepare) as served:
        yield served


class TestQueues:
    def test_lists_those_of_applications(self, served: Served) -> None:
        answer = served.get("/queues")
        assert answer["qm"] == served.start["guid"]
        rows = {row["queue"]: row for row in answer["queues"]}
        assert set(rows) == {rf"HOST\private$\{name}" for name in ("orders", "bills", "empty")}
        orders = rows[r"HOST\private$\orders"]
        assert (orders["count"], orders["e"], orders["transactional"]) == (16, 0, False)
        assert orders["bytes"] > 16 * 100
        assert rows[r"HOST\private$\bills"]["transactional"] is True

    @pytest.mark.parametrize(
        ("pattern", "found"),
        [
            (r".\private$\*", {"orders", "bills", "empty"}),
            (r"private$\o*", {"orders"}),
            (r"host\PRIVATE$\[be]*", {"bills", "empty"}),
            ("orders", {"orders"}),
            ("order", set()),
        ],
    )
    def test_pattern(self, served: Served, pattern: str, found: set[str]) -> None:
        queues = served.get("/queues", pattern=pattern)["queues"]
        assert {row["queue"].rpartition("\\")[2] for row in queues} == found

    def test_journals_and_outgoing(self, served: Served) -> None:
        journals = served.get("/queues", **{"from": "journal"})["queues"]
        assert [row["count"] for row in journals if "orders" in row["queue"]] == [4]
        outgoing = served.get("/queues", **{"from": "outgoing"})["queues"]
        assert [(row["queue"], row["count"]) for row in outgoing] == [(r"DIRECT=OS:other\private$\far", 1)]


class TestHead:
    def test_everything_is_in_it(self, served: Served) -> None:
        head = served.get("/head", queue=ORDERS)
        assert head["lo"] < head["hi"]
        assert head["guid"] == served.get("/queues", pattern=r"private$\orders")["queues"][0]["guid"]
        assert served.read(queue=ORDERS, lo=head["lo"], hi=head["hi"]).num_rows == 16
        assert served.read(queue=ORDERS, lo=head["lo"] + 1, hi=head["hi"]).num_rows == 15
        assert served.read(queue=ORDERS, lo=head["lo"], hi=head["hi"] - 1).num_rows == 15

    def test_of_an_empty_queue(self, served: Served) -> None:
        head = served.get("/head", queue=r"host\private$\empty")
        assert (head["lo"], head["hi"], head["count"]) == (0, 0, 0)

    def test_where_a_time_is(self, served: Served) -> None:
        head = served.get("/head", queue=ORDERS)
        assert served.get("/head", queue=ORDERS, time=0)["at"] == head["lo"]
        assert served.get("/head", queue=ORDERS, time=BEGAN - 10.5)["at"] == head["lo"]
        assert served.get("/head", queue=ORDERS, time=BEGAN + 86400)["at"] == head["hi"]

    @pytest.mark.parametrize(
        ("query", "count"),
        [
            ({"from": "journal", "queue": ORDERS}, 4),
            ({"from": "journal"}, 0),
            ({"from": "deadletter"}, 1),
            ({"from": "xactdeadletter"}, 0),
            ({"from": "outgoing", "queue": r"DIRECT=OS:other\private$\far"}, 1),
            ({"from": "discards"}, 1),
            ({"queue": r"DIRECT=OS:host\private$\orders"}, 16),
        ],
    )
    def test_of_other_places(self, served: Served, query: dict[str, str], count: int) -> None:
        head = served.get("/head", **query)
        assert head.status == 200, head
        assert head["count"] == count
        assert served.read(lo=head["lo"], hi=head["hi"], **query).num_rows == count


class TestCuts:
    def test_by_rows(self, served: Served) -> None:
        head = served.get("/head", queue=ORDERS)
        lo, cuts = head["lo"], served.get("/cuts", queue=ORDERS, lo=head["lo"], hi=head["hi"], rows=6)["cuts"]
        assert [rows for _, rows, _ in cuts] == [6, 6, 4]
        assert cuts[-1][0] == head["hi"]
        for end, rows, _ in cuts:
            assert served.read(queue=ORDERS, lo=lo, hi=end).num_rows == rows
            lo = end

    def test_by_bytes_and_no_more_than_asked_for(self, served: Served) -> None:
        head = served.get("/head", queue=ORDERS)
        span = {"queue": ORDERS, "lo": head["lo"], "hi": head["hi"]}
        cuts = served.get("/cuts", **span, bytes=1)["cuts"]
        assert [rows for _, rows, _ in cuts] == [1] * 16
        assert served.get("/cuts", **span, bytes=1, limit=3)["cuts"] == cuts[:3]
        size = sum(size for _, _, size in cuts)
        assert served.get("/cuts", **span)["cuts"] == [[head["hi"], 16, size]]


class TestRefusals:
    def test_nothing_is_made_to_be_thrown_away(self, served: Served) -> None:
        assert served.ask("HEAD", "/range", queue=ORDERS, lo=0, hi=1).status == 405

    @pytest.mark.parametrize(
        ("path", "query", "status", "words"),
        [
            ("/head", {"queue": r".\private$\none"}, 404, "create the queue"),
            ("/head", {"queue": "none"}, 404, "create the queue"),
            ("/head", {"queue": "\\orders"}, 400, r"write it as computer\queue"),
            ("/head", {}, 400, "give queue, as orders"),
            ("/head", {"queu": ORDERS}, 400, "perhaps queue is meant"),
            ("/head", {"queue": ORDERS, "from": "nowhere"}, 400, "give one of queue, journal"),
            ("/head", {"queue": ORDERS, "time": "noon"}, 400, "give seconds since 1970"),
            ("/head", {"queue": ORDERS, "from": "deadletter"}, 400, "leave queue out"),
            ("/head", {"queue": ORDERS, "from": "outgoing"}, 400, "leave from=outgoing out"),
            ("/head", {"queue": ORDERS, "consumer": "nobody"}, 404, "attach it first"),
            ("/range", {"queue": ORDERS, "lo": 0}, 400, "give hi"),
            ("/range", {"queue": ORDERS, "lo": -1, "hi": 1}, 400, "a whole number from 0"),
            ("/range", {"queue": ORDERS, "lo": 0, "hi": 2**60}, 400, "a whole number from 0"),
            ("/range", {"queue": ORDERS, "lo": 0, "hi": 1, "columns": "lable"}, 400, "the columns are"),
            ("/range", {"queue": ORDERS, "lo": 0, "hi": 1, "class": "nix"}, 400, "the columns are"),
            ("/range", {"queue": r".\private$\none", "lo": 0, "hi": 1}, 404, "create the queue"),
            ("/cuts", {"queue": ORDERS, "lo": 0, "hi": 1, "rows": 0}, 400, "a whole number from 1"),
            ("/nowhere", {}, 404, "check the path"),
            ("/publish", {}, 405, "check the method"),
        ],
    )
    def test_say_what_to_do(
        self, served: Served, path: str, query: dict[str, str], status: int, words: str
    ) -> None:
        answer = served.get(path, **query)
        assert answer.status == status, answer
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer["status"] == status
        assert words in answer["fix"]
        assert answer["code"] in answer["detail"]
        assert f"0x{answer['number']:08X}" in answer["detail"]
