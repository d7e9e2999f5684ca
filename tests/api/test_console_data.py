"""Requests that the console makes: jumps, light rows, samples, packets, causes, events."""

import base64
import json
from typing import Any

import httpx
import pytest

from api.asked import Asked, at
from tiercel.api.events import MAX_LISTENERS


@pytest.fixture(scope="module")
def rows(served: Asked) -> str:
    """Ten messages, the first five urgent."""
    served.create("rows")
    served.send("rows", *({"label": str(n), "priority": 7 if n < 5 else 1} for n in range(10)))
    return "rows"


class TestJumps:
    def test_to_a_row(self, served: Asked, rows: str) -> None:
        assert served.labels(rows, at=0, limit=2) == ["0", "1"]
        assert served.labels(rows, at=4, limit=3) == ["4", "5", "6"]
        assert served.labels(rows, at=9) == ["9"]
        assert served.labels(rows, at=10) == []
        assert served.labels(rows, at=1_000_000) == []

    def test_to_a_row_by_arrival(self, served: Asked, queue: str) -> None:
        served.send(queue, *({"label": str(n), "priority": n % 4} for n in range(8)))
        served.post(f"{at(queue)}/messages", {"label": "8", "priority": 7, "delivery": "express"})
        assert served.labels(queue, at=0, limit=3) == ["8", "3", "7"]
        assert served.labels(queue, at=0, order="arrival") == list("012345678")
        assert served.labels(queue, at=5, limit=2, order="arrival") == ["5", "6"]
        assert served.labels(queue, at=9, order="arrival") == []
        messages = served.get(f"{at(queue)}/messages", order="arrival").json()["messages"]
        rows = [
            served.get(f"{at(queue)}/row", lookup_id=each["lookup_id"], order="arrival").json()["row"]
            for each in messages
        ]
        assert rows == list(range(9))
        ends = [
            served.get(f"{at(queue)}/row", since=f"{year}-01-01T00:00:00Z", order="arrival").json()["row"]
            for year in (2020, 2100)
        ]
        assert ends == [0, 9]

    def test_to_a_row_among_express_messages(self, served: Asked, queue: str) -> None:
        for n, delivery in enumerate(["express", "recoverable", "express"]):
            served.post(f"{at(queue)}/messages", {"label": str(n), "delivery": delivery})
        assert [served.labels(queue, at=n, limit=1) for n in range(3)] == [["0"], ["1"], ["2"]]

    def test_to_a_time(self, served: Asked, rows: str) -> None:
        past, future = "2020-01-01T00:00:00Z", "2100-01-01T00:00:00Z"
        assert len(served.labels(rows, order="arrival", since=past)) == 10
        assert served.labels(rows, order="arrival", since=future) == []

    def test_from_a_message_or_a_time_to_its_row(self, served: Asked, rows: str) -> None:
        def row(**query: Any) -> int:
            found: int = served.get(f"{at(rows)}/row", **query).json()["row"]
            return found

        messages = served.get(f"{at(rows)}/messages").json()["messages"]
        assert [row(lookup_id=each["lookup_id"]) for each in messages] == list(range(10))
        assert row(since="2020-01-01T00:00:00Z") == 0
        assert row(since="2100-01-01T00:00:00Z") == row(lookup_id="9" * 18) == 10
        assert served.get(f"{at(rows)}/row").status_code == 400
        both = {"since": "2020-01-01T00:00:00Z", "lookup_id": "1"}
        assert served.get(f"{at(rows)}/row", **both).status_code == 400

    @pytest.mark.parametrize("order", ["queue", "arrival"])
    def test_back_from_a_position(self, served: Asked, rows: str, order: str) -> None:
        def page(**query: Any) -> dict[str, Any]:
            found: dict[str, Any] = served.get(f"{at(rows)}/messages", order=order, **query).json()
            return found

        middle = page(limit=7)
        before = page(before=str(int(middle["next"])), limit=3)
        assert [each["label"] for each in before["messages"]] == ["3", "4", "5"]
        assert [each["label"] for each in page(before=middle["next"], limit=50)["messages"]] == list("012345")
        start = page(limit=1)["next"]
        assert page(before=start)["messages"] == []

    @pytest.mark.parametrize(
        ("query", "words"),
        [
            ({"at": 1, "before": "7"}, "excludes"),
            ({"at": 1, "after": "7"}, "excludes"),
            ({"since": "2020-01-01T00:00:00Z"}, "it goes by arrival"),
            ({"since": "2020-01-01T00:00:00", "order": "arrival"}, "since"),
            ({"before": "x"}, "before"),
            ({"fields": "label,prioritee"}, "perhaps priority is meant"),
        ],
    )
    def test_that_have_no_meaning(self, served: Asked, rows: str, query: dict[str, Any], words: str) -> None:
        answer = served.get(f"{at(rows)}/messages", **query)
        assert answer.status_code == 400
        assert words.casefold() in answer.json()["detail"].casefold()


class TestLightRows:
    def test_are_a_part_of_the_whole_ones(self, served: Asked, queue: str) -> None:
        served.send(queue, {"text": "abc", "label": "x", "priority": 5, "response_queue": "answers"})
        (whole,) = served.get(f"{at(queue)}/messages").json()["messages"]
        names = sorted(whole.keys() - {"body_size"})
        (light,) = served.get(f"{at(queue)}/messages", fields=",".join(names)).json()["messages"]
        assert light == whole
        (label,) = served.get(f"{at(queue)}/messages", fields="label, lookup_id").json()["messages"]
        assert label == {"label": "x", "lookup_id": whole["lookup_id"], "body_size": 3}


class TestOneMessage:
    def test_tells_who_holds_it(self, served: Asked, queue: str) -> None:
        served.send(queue, {"label": "held"})
        (message,) = served.receive(queue)
        shown = served.get(f"{at(queue)}/messages/{message['lookup_id']}").json()
        assert shown["locked_by"]["kind"] == "lease"
        assert shown["locked_by"]["who"].startswith("uid ")
        assert shown["locked_by"]["until"] > shown["arrival_time"]
        assert message["lease"] not in json.dumps(shown)
        served.post(f"/leases/{message['lease']}/return")
        assert "locked_by" not in served.get(f"{at(queue)}/messages/{message['lookup_id']}").json()

    def test_packet_field_by_field_or_raw(self, served: Asked, queue: str) -> None:
        served.send(queue, {"text": "body of it", "label": "x"})
        (message,) = served.get(f"{at(queue)}/messages").json()["messages"]
        place = f"{at(queue)}/messages/{message['lookup_id']}/packet"
        listed = served.get(place).json()
        assert [each["name"] for each in listed["structures"]][:2] == ["BaseHeader", "UserHeader"]
        raw = served.ask("GET", place, headers={"Accept": "application/octet-stream"}).content
        assert len(raw) == listed["size"] == sum(each["size"] for each in listed["structures"])
        assert base64.b64decode(message["body"]) in raw
        assert served.get(f"{at(queue)}/messages/1/packet").status_code == 404


class TestThroughput:
    def test_totals_and_rates(self, served: Asked, queue: str) -> None:
        served.send(queue, {}, {})
        served.receive(queue, acknowledge="now")
        (row,) = served.get("/queues", pattern=queue, depths=30).json()["queues"]
        assert (row["in_total"], row["out_total"]) == (2, 1)
        assert row["in_rate"] >= 0
        assert isinstance(row["depths"], list)

    def test_samples(self, served: Asked, queue: str) -> None:
        assert served.get(f"{at(queue)}/samples").json() == {"step_s": 5, "samples": []}
        assert served.get(f"{at(queue)}/samples", step_s=60).json() == {"step_s": 60, "samples": []}
        assert served.get(f"{at(queue)}/samples", step_s=7).status_code == 400


class TestDeadLetters:
    def test_by_cause(self, served: Asked, queue: str) -> None:
        message = {"negative_journaling": True, "time_to_be_received": 0, "label": "late"}
        served.send(queue, message, message)
        served.get(f"{at(queue)}/messages", wait_ms=100)  # a turn, in which they expire
        found = served.get("/dead").json()
        (group,) = found["groups"]
        assert (group["class"], group["count"], found["total"]) == ("nack_receive_timeout", 2, 2)
        assert group["destination"].endswith(queue)
        assert group["reason"] == "the message was not received in time"
        assert "replay" in group["fix"]
        assert group["first"] <= group["last"]
        ids = [each["lookup_id"] for each in served.get(f"{at(';deadletter')}/messages").json()["messages"]]
        assert sorted(group["lookup_ids"][";deadletter"]) == sorted(ids)
        assert group["queues"] == {";deadletter": 2}
        begun = {"action": "replay", "filter": group["filter"], "dry_run": True}
        assert served.post(f"{at(';deadletter')}/operations", begun).json()["count"] == 2
        assert served.get("/dead", group="reason").json()["groups"][0]["destination"] == ""
        assert served.get("/dead", group="size").status_code == 400


class TestMe:
    def test_is_the_owner_of_the_socket(self, served: Asked) -> None:
        me = served.get("/me").json()
        assert me["name"].startswith("uid ")
        assert me["roles"] == ["admin", "read", "receive", "send"]
        assert me["computer"] == "HOST"


def events(response: httpx.Response, kind: str) -> Any:
    """The data of the next event of that kind."""
    name = ""
    for line in response.iter_lines():
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: ") and name == kind:
            return json.loads(line.removeprefix("data: "))
    raise AssertionError(f"the stream ended without {kind}")


class TestEvents:
    def test_tell_of_every_queue_and_then_of_changes(self, served: Asked, queue: str) -> None:
        with served.http.stream("GET", "/api/v1/events") as stream:
            first = {each["path_name"] for each in events(stream, "queues")["queues"]}
            assert rf"HOST\private$\{queue}" in first
        with served.http.stream("GET", "/api/v1/events") as stream:
            lines = stream.iter_lines()
            served.send(queue, {})
            counts = set()
            for line in lines:
                if line.startswith('data: {"queues"'):
                    rows = json.loads(line.removeprefix("data: "))["queues"]
                    counts |= {each["count"] for each in rows if each["path_name"].endswith(queue)}
                    if 1 in counts:
                        break
            assert 1 in counts

    @pytest.mark.parametrize("kind", ["operations", "audit"])
    def test_tell_of_other_changes(self, served: Asked, queue: str, kind: str) -> None:
        served.send(queue, {})
        with served.http.stream("GET", "/api/v1/events") as stream:
            lines = stream.iter_lines()
            assert any(line == f"event: {kind}" for line in lines)  # at first all of them
            assert served.post(f"{at(queue)}/delete", {}).status_code == 200
            assert any(line == f"event: {kind}" for line in lines)

    def test_have_a_bounded_number_of_listeners(self, served: Asked) -> None:
        streams = [served.http.stream("GET", "/api/v1/events") for _ in range(MAX_LISTENERS + 1)]
        try:
            statuses = [each.__enter__().status_code for each in streams]
        finally:
            for each in streams:
                each.__exit__(None, None, None)
        assert statuses == [200] * MAX_LISTENERS + [503]
