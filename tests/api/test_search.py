"""Searching a queue over HTTP: bounded work, in another process."""

from typing import Any

import pytest

from api.asked import Asked, Doing, at
from tiercel.admin import searching

from .test_messages import send_lines


def search(served: Asked, queue: str, pattern: str, **query: Any) -> dict[str, Any]:
    answer = served.get(f"{at(queue)}/search", pattern=pattern, **query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


@pytest.fixture
def orders(served: Asked, queue: str) -> str:
    """More than one slice of messages."""
    lines = b"".join(b'{"label": "order %d", "text": "body %d"}\n' % (i, i) for i in range(1200))
    assert send_lines(served, queue, lines).status_code == 201
    return queue


def labels(found: dict[str, Any]) -> list[str]:
    return [each["label"] for each in found["messages"]]


def test_messages_are_found_by_label_and_body(served: Asked, orders: str) -> None:
    found = search(served, orders, "^(order|body) 11[89]7?$")
    assert labels(found) == ["order 118", "order 119", "order 1187", "order 1197"]
    assert (found["looked"], found["skipped"], found["next"]) == (1200, [], None)
    assert (
        found["messages"][0]
        == served.get(f"{at(orders)}/messages/{found['messages'][0]['lookup_id']}").json()
    )


def test_case(served: Asked, orders: str) -> None:
    assert labels(search(served, orders, "ORDER 7$")) == []
    assert labels(search(served, orders, "ORDER 7$", ignore_case=True)) == ["order 7"]


def test_pages_follow_each_other(served: Asked, orders: str) -> None:
    first = search(served, orders, "5$", limit=100)
    second = search(served, orders, "5$", limit=100, after=first["next"])
    assert first["looked"] + second["looked"] == 1200
    assert labels(first) + labels(second) == [f"order {i}" for i in range(5, 1200, 10)]
    assert (len(first["messages"]), second["next"]) == (100, None)


def test_refused(served: Asked, queue: str) -> None:
    served.send(queue, {"text": "x"})
    for path, query in (
        (queue, {"pattern": "("}),
        (queue, {}),
        (queue, {"pattern": "x" * (searching.MAX_PATTERN + 1)}),
        (queue, {"pattern": "x", "after": "end"}),
    ):
        assert served.get(f"{at(path)}/search", **query).status_code == 400
    assert served.get(f"{at('nowhere')}/search", pattern="x").status_code == 404


def test_a_hostile_pattern_holds_up_nobody_else(served: Asked, queue: str) -> None:
    served.send(queue, {"text": "a" * 60 + "b"}, {"text": "aaa"})
    searched = Doing(lambda: search(served, queue, "^(a|a)+$"))
    assert served.get("/queues").status_code == 200
    found = searched.result()
    assert [each["body_size"] for each in found["messages"]] == [3]
    assert len(found["skipped"]) == 1


class TestFilter:
    def test_messages_are_found(self, served: Asked, orders: str) -> None:
        found = served.get(f"{at(orders)}/search", filter='label:"order 11" body:7 -body:1147').json()
        assert labels(found) == ["order 117", "order 1107", *(f"order {i}" for i in EXPECTED)]
        assert (found["looked"], found["matched"], found["next"]) == (1200, len(labels(found)), None)

    def test_work_is_bounded(self, served: Asked, orders: str) -> None:
        found = served.get(f"{at(orders)}/search", filter="priority>=0", limit=3).json()
        assert (found["looked"], found["matched"], len(found["messages"])) == (3, 3, 3)
        assert found["next"] == found["messages"][-1]["lookup_id"]

    def test_dead_letters_by_their_reason(self, served: Asked, queue: str) -> None:
        served.send(queue, {"negative_journaling": True, "time_to_be_received": 0, "label": queue})
        wanted = f"class:nack_receive* label:{queue}"
        found = served.get(f"{at(';deadletter')}/search", filter=wanted).json()
        assert found["matched"] == 1
        assert (
            served.get(f"{at(';deadletter')}/search", filter=f"class:ack* label:{queue}").json()["matched"]
            == 0
        )

    @pytest.mark.parametrize(
        "query",
        [{"filter": "age>long"}, {"filter": ""}, {"filter": "x", "pattern": "x"}, {"filter": "x" * 1001}],
    )
    def test_refused(self, served: Asked, queue: str, query: dict[str, str]) -> None:
        served.send(queue, {"text": "x"})
        assert served.get(f"{at(queue)}/search", **query).status_code == 400


EXPECTED = [i for i in range(1110, 1200) if "7" in str(i) and i != 1147]


class TestMemoryAndStore:
    """Express messages are in memory, the others are read from the store by the process that searches."""

    def mixed(self, served: Asked, queue: str, count: int) -> None:
        kinds = ("express", "recoverable", "recoverable")
        lines = b"".join(
            b'{"label": "order %d", "delivery": "%s", "priority": %d}\n' % (i, kinds[i % 3].encode(), i % 5)
            for i in range(count)
        )
        assert send_lines(served, queue, lines).status_code == 201

    def test_both_are_found_in_the_order_of_the_queue(
        self, served: Asked, queue: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(searching, "_IN_MEMORY", 7)  # several stretches
        self.mixed(served, queue, 200)
        found = search(served, queue, "order 1", limit=200)
        listed = served.get(f"{at(queue)}/messages", limit=1000).json()["messages"]
        assert labels(found) == [each["label"] for each in listed if each["label"].startswith("order 1")]
        assert (found["looked"], found["matched"], found["next"]) == (200, 111, None)

    def test_pages_of_both_follow_each_other(
        self, served: Asked, queue: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(searching, "_IN_MEMORY", 7)
        self.mixed(served, queue, 200)
        found: list[str] = []
        after, looked = "start", 0
        while after is not None:
            page = search(served, queue, "order", limit=9, after=after)
            found, after, looked = found + labels(page), page["next"], looked + page["looked"]
        assert sorted(found) == sorted(f"order {i}" for i in range(200))
        assert looked == 200

    def test_what_was_received_is_not_found(self, served: Asked, queue: str) -> None:
        self.mixed(served, queue, 6)
        for each in served.get(f"{at(queue)}/messages").json()["messages"][1:]:
            assert served.ask("DELETE", f"{at(queue)}/messages/{each['lookup_id']}").status_code < 300
        assert search(served, queue, "order")["looked"] == 1

    def test_nothing_stands_behind_the_last_position(self, served: Asked, queue: str) -> None:
        self.mixed(served, queue, 6)
        found = search(served, queue, "order", after=str(2**64 - 1))
        assert (found["looked"], found["next"]) == (0, None)
