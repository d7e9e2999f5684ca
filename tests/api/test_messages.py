"""Messages over HTTP: sent, browsed, exported, waited for."""

import base64
import json
import time
from http.client import HTTPResponse
from typing import Any

import httpx
import pytest

from addresses import own_address
from api.asked import V1, Api, Asked, Doing, at
from data.served import PATIENCE_S, until
from tiercel.admin.sending import MAX_MESSAGES

LINES = {"content-type": "application/x-ndjson"}


def send_lines(api: Api, queue: str, data: bytes, **query: Any) -> httpx.Response:
    return api.ask("POST", f"{at(queue)}/messages", content=data, headers=LINES, params=query)


def exported(api: Api, queue: str) -> list[dict[str, Any]]:
    answer = api.ask("GET", f"{at(queue)}/messages", headers={"accept": LINES["content-type"]})
    assert (answer.status_code, answer.headers["content-type"]) == (200, LINES["content-type"])
    return [json.loads(line) for line in answer.text.splitlines()]


class TestSend:
    def test_signed_messages(self, served: Asked, queue: str) -> None:
        """More than one slice of them, so that the queue manager goes on in between."""
        lines = b"".join(b'{"label": "%d"}\n' % i for i in range(150))
        assert send_lines(served, queue, lines, sign=True).status_code == 201
        found = exported(served, queue)
        assert [each["label"] for each in found] == [str(i) for i in range(150)]
        assert {each["authentication_level"] for each in found} == {"sig20"}

    def test_properties_stay(self, served: Asked, queue: str) -> None:
        given = {
            "body": base64.b64encode(bytes(range(256))).decode(),
            "label": "\u00fc \U0001f989",
            "priority": 5,
            "delivery": "recoverable",
            "body_type": "vector_ui1",
            "correlation_id": r"{00112233-4455-6677-8899-aabbccddeeff}\7",
            "acknowledgements": ["pos_arrival", "neg_receive"],
            "administration_queue": r"DIRECT=OS:HOST\private$\admin",
            "response_queue": r"DIRECT=TCP:192.0.2.1\private$\answers",
            "time_to_be_received": 1000,
            "application_tag": 4_000_000_000,
            "message_class": 77,
        }
        (identifier,) = served.send(queue, given)
        (found,) = served.get(f"{at(queue)}/messages").json()["messages"]
        assert found["id"] == identifier
        assert {name: found[name] for name in given} == given
        assert found["body_size"] == 256
        assert found == served.get(f"{at(queue)}/messages/{found['lookup_id']}").json()

    def test_half_a_surrogate_pair_in_a_label(self, served: Asked, queue: str) -> None:
        sent = served.ask(
            "POST",
            f"{at(queue)}/messages",
            content=rb'{"label": "\ud800"}',
            headers={"content-type": "application/json"},
        )
        assert sent.status_code == 201
        assert served.labels(queue) == ["\ud800"]
        assert exported(served, queue)[0]["label"] == "\ud800"

    @pytest.mark.parametrize(
        ("body", "kind", "text"),
        [
            ({"text": "\u00e4"}, "text", "\u00e4"),
            ({"text": "\u00e4", "body_type": "lpwstr"}, "text", "\u00e4"),
            ({"text": "\u00e4", "body_type": "bstr"}, "text", "\u00e4"),
            ({"json": {"a": [1]}}, "json", '{"a": [1]}'),
            ({"body": "AAEC"}, "binary", None),
        ],
        ids=["utf-8", "lpwstr", "bstr", "json", "bytes"],
    )
    def test_bodies_in_words(
        self, served: Asked, queue: str, body: dict[str, str], kind: str, text: str | None
    ) -> None:
        served.send(queue, body)
        (found,) = served.get(f"{at(queue)}/messages", decode="true").json()["messages"]
        assert found["decoded"] == {"kind": kind, "text": text}
        (bare,) = served.get(f"{at(queue)}/messages", bodies="false").json()["messages"]
        assert "body" not in bare
        assert bare["body_size"] == found["body_size"]

    def test_others_are_served_while_a_hostile_body_is_decoded(self, served: Asked, queue: str) -> None:
        body = base64.b64encode(b"<r>" + 900_000 * b"<a/>" + b"</r>").decode()  # takes seconds
        served.send(queue, {"body": body})
        path = f"{at(queue)}/messages"
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(served.data / "tiercel.sock"))) as client:
            slow = Api(client)
            client.base_url, client.timeout = httpx.URL("http://local"), httpx.Timeout(2 * PATIENCE_S)
            decoding = Doing(lambda: slow.get(path, bodies="false", decode="true").json())
            answers = 0
            while not decoding.is_done:
                assert served.get("/queue-manager").status_code == 200
                answers += 1
            (message,) = decoding.result()["messages"]
        assert answers > 5
        assert message["decoded"]["kind"] in {"binary", "text", "xml"}  # given up, or a fast computer

    @pytest.mark.parametrize(
        ("message", "words"),
        [
            ({"lable": "x"}, "message property lable: there is no such property. Perhaps label is meant."),
            ({"priority": 8}, "message priority"),
            ({"priority": True}, "message priority"),
            ({"body": "%"}, "limit: bytes in base64"),
            ({"body": "AAEC", "text": "x"}, "it is given by ['body', 'text']"),
            ({"text": "x", "body_type": "i4"}, "message text"),
            ({"response_queue": "DIRECT=nonsense"}, "message response_queue"),
            ({"label": "x" * 250}, "message label"),
            ({"correlation_id": "7"}, "an id as {guid}\\number"),
            ([], "it must be a JSON object"),
            (None, "it must be a JSON object"),
        ],
        ids=[str(number) for number in range(11)],
    )
    def test_refuses_what_cannot_be(self, served: Asked, queue: str, message: Any, words: str) -> None:
        content = json.dumps(message)
        answer = served.ask(
            "POST", f"{at(queue)}/messages", content=content, headers={"content-type": "application/json"}
        )
        assert answer.status_code == 400
        assert words in answer.json()["detail"]
        assert served.count(queue) == 0

    def test_a_body_over_4_mib(self, served: Asked, queue: str) -> None:
        for size in (4 << 20, 7 << 20):
            answer = served.post(f"{at(queue)}/messages", {"body": base64.b64encode(bytes(size)).decode()})
            assert (answer.status_code, answer.json()["title"]) == (413, "Request Entity Too Large")
            assert "4194304" in answer.json()["detail"]
            assert "present: " in answer.json()["detail"]
        assert served.count(queue) == 0
        served.send(queue, {"body": base64.b64encode(bytes((4 << 20) - 1000)).decode()})
        assert served.count(queue) == 1

    def test_an_unknown_property_of_a_body_that_may_be_left_out(self, served: Asked, queue: str) -> None:
        answer = served.post(f"{at(queue)}/receive", {"waitms": 5})
        assert (answer.status_code, answer.json()["fix"]) == (400, "perhaps wait_ms is meant")
        answer = served.post(f"{at(queue)}/receive", {"zzz": 5})
        assert answer.json()["fix"].startswith("there are limit, wait_ms")

    def test_an_unknown_type_of_body(self, served: Asked, queue: str) -> None:
        answer = served.ask("POST", f"{at(queue)}/messages", content=b"hello")
        assert (answer.status_code, "application/json for one" in answer.json()["fix"]) == (400, True)

    def test_no_such_queue(self, served: Asked) -> None:
        served.create("sendable")
        answer = served.post(f"{at('sendible')}/messages", {})
        assert (answer.status_code, answer.json()["fix"]) == (404, "perhaps sendable is meant")

    def test_a_quota_that_is_used_up(self, served: Asked) -> None:
        served.create("small", quota_kib=1)
        answer = served.post(f"{at('small')}/messages", {"text": "x" * 2000})
        assert (answer.status_code, answer.json()["code"]) == (507, "MQ_ERROR_INSUFFICIENT_RESOURCES")

    def test_to_another_computer(self, served: Asked) -> None:
        far = rf"DIRECT=TCP:{own_address(8)}\private$\far"
        assert served.post(f"{at(far)}/messages", {"label": "plain"}).status_code == 201
        assert served.post(f"{at(far)}/messages", {"label": "tx"}, transactional="true").status_code == 201
        messages = served.get(f"{at(far)}/messages").json()["messages"]
        assert [(each["label"], "transaction_id" in each) for each in messages] == [
            ("plain", False),
            ("tx", True),
        ]
        row = next(each for each in served.get("/outgoing").json()["outgoing"] if each["format_name"] == far)
        assert (row["count"], row["paused"], row["unacknowledged"]) == (2, False, 1)
        assert served.post(f"{at(far)}/pause").json()["paused"]
        assert not served.post(f"{at(far)}/resume").json()["paused"]
        refused = served.post(f"{at(far)}/receive", {})
        assert (refused.status_code, refused.json()["fix"]) == (400, "delete it, or purge the queue")
        gone = served.ask("DELETE", f"{at(far)}/messages/{messages[0]['lookup_id']}")
        assert gone.json()["label"] == "plain"
        assert served.get("/discards", limit=1).json()["discards"][0]["label"] == "plain"

    def test_a_transactional_queue_needs_no_words(self, served: Asked) -> None:
        served.create("tx", transactional=True)
        served.send("tx", {"label": "1"})
        assert send_lines(served, "tx", b'{"label":"2"}\n{"label":"3"}\n').status_code == 201
        found = served.get(f"{at('tx')}/messages").json()["messages"]
        assert [each["label"] for each in found] == ["1", "2", "3"]
        assert [each["transaction_id"] for each in found][1:] == [found[1]["transaction_id"]] * 2
        assert served.post(f"{at('tx')}/messages", {}, transactional="false").status_code == 400


class TestSendMany:
    def test_all_of_them(self, served: Asked, queue: str) -> None:
        count = 350  # several slices
        lines = b"".join(b'{"label":"%d","delivery":"recoverable"}\n' % number for number in range(count))
        answer = send_lines(served, queue, lines).json()
        assert (answer["count"], len(set(answer["ids"]))) == (count, count)
        labels = [each["label"] for each in exported(served, queue)]
        assert labels == [str(number) for number in range(count)]

    @pytest.mark.parametrize("count", [3, 350])
    @pytest.mark.parametrize(
        "last", [b'{"label": "half', b'{"priority": 9}', b"7"], ids=["half", "wrong", "none"]
    )
    def test_or_none(self, served: Asked, queue: str, count: int, last: bytes) -> None:
        answer = send_lines(served, queue, b"{}\n" * count + last)
        assert (answer.status_code, f"line {count + 1}: " in answer.json()["detail"]) == (400, True)
        assert served.count(queue) == 0

    def test_a_line_that_is_not_json(self, served: Asked, queue: str) -> None:
        detail = send_lines(served, queue, b"{}\nhello\n").json()["detail"]
        assert detail.startswith("line 2: it is not valid JSON")

    def test_or_none_when_there_is_no_room(self, served: Asked) -> None:
        served.create("tight", quota_kib=40)
        assert send_lines(served, "tight", b"{}\n" * 350).status_code == 507
        found = served.get(at("tight")).json()
        assert (found["count"], found["bytes"], found["open_handles"]) == (0, 0, 0)
        assert send_lines(served, "tight", b"{}\n" * 150).status_code == 201  # nothing is held any more

    def test_too_many(self, served: Asked, queue: str) -> None:
        answer = send_lines(served, queue, b"{}\n" * (MAX_MESSAGES + 1))
        assert (answer.status_code, str(MAX_MESSAGES) in answer.json()["detail"]) == (400, True)

    def test_too_large(self, served: Asked, queue: str) -> None:
        head = (
            f"POST {V1}{at(queue)}/messages HTTP/1.1\r\nHost: x\r\nContent-Type: {LINES['content-type']}\r\n"
        )
        with served.connection() as connection:  # nobody reads 65 MiB to find out
            connection.sendall(f"{head}Content-Length: {65 << 20}\r\n\r\n".encode())
            response = HTTPResponse(connection)
            response.begin()
            assert (response.status, b"limit: 67108864 bytes" in response.read()) == (413, True)

    def test_who_goes_in_the_middle_has_sent_nothing(self, served: Asked, queue: str) -> None:
        head = (
            f"POST {V1}{at(queue)}/messages HTTP/1.1\r\nHost: x\r\nContent-Type: {LINES['content-type']}\r\n"
        )
        with served.connection() as connection:
            connection.sendall(f"{head}Content-Length: 100\r\n\r\n".encode() + b"{}\n{}\n")
        served.create(f"{queue}-after")  # later than what was cut off
        assert served.count(queue) == 0

    def test_exports_can_be_sent_again(self, served: Asked, queue: str) -> None:
        served.send(queue, {"text": "a", "priority": 7, "label": "first"}, {"text": "b", "extension": "AAEC"})
        answer = served.ask("GET", f"{at(queue)}/messages", headers={"accept": LINES["content-type"]})
        served.create(f"{queue}-again")
        assert send_lines(served, f"{queue}-again", answer.content).json()["count"] == 2
        own = {"id", "lookup_id", "destination_queue", "sent_time", "arrival_time"}

        def kept(name: str) -> list[dict[str, Any]]:
            return [{key: each[key] for key in each if key not in own} for each in exported(served, name)]

        assert kept(f"{queue}-again") == kept(queue)


class TestBrowse:
    def test_in_the_order_of_the_queue_page_by_page(self, served: Asked, queue: str) -> None:
        served.send(queue, *({"label": f"{number}", "priority": number % 8} for number in range(10)))
        labels, after = [], "start"
        while after is not None:
            page = served.get(f"{at(queue)}/messages", limit=3, after=after).json()
            labels += [each["label"] for each in page["messages"]]
            after = page["next"]
        assert labels == ["7", "6", "5", "4", "3", "2", "1", "9", "0", "8"]

    def test_in_the_order_of_arrival(self, served: Asked, queue: str) -> None:
        served.send(queue, *({"label": f"{number}", "priority": number % 8} for number in range(10)))
        page = served.get(f"{at(queue)}/messages", order="arrival", limit=4).json()
        assert [each["label"] for each in page["messages"]] == ["0", "1", "2", "3"]
        assert served.labels(queue, order="arrival", after=page["next"]) == ["4", "5", "6", "7", "8", "9"]
        assert served.labels(queue, order="arrival", last=2) == ["8", "9"]
        assert served.labels(queue, order="arrival", last=20)[0] == "0"
        assert served.labels(queue, order="arrival", after="end") == []

    def test_express_and_recoverable_ones_together(self, served: Asked, queue: str) -> None:
        for number in range(6):
            message = {"label": f"{number}", "delivery": "express" if number % 2 else "recoverable"}
            served.post(f"{at(queue)}/messages", message)
        wanted = ["0", "1", "2", "3", "4", "5"]
        assert served.labels(queue) == served.labels(queue, order="arrival") == wanted

    def test_pages_are_bounded_in_bytes(self, served: Asked, queue: str) -> None:
        body = base64.b64encode(bytes(3 << 20)).decode()
        served.send(queue, *({"label": f"{number}", "body": body} for number in range(5)))
        page = served.get(f"{at(queue)}/messages").json()
        assert len(page["messages"]) == 2
        assert served.labels(queue, after=page["next"]) == ["2", "3"]
        assert [each["label"] for each in exported(served, queue)] == ["0", "1", "2", "3", "4"]

    def test_a_leased_message_is_shown_as_such(self, served: Asked, queue: str) -> None:
        served.send(queue, {"label": "a"}, {"label": "b"})
        served.receive(queue)
        page = served.get(f"{at(queue)}/messages").json()["messages"]
        assert [(each["label"], each.get("locked", False)) for each in page] == [("a", True), ("b", False)]
        assert served.labels(queue, available_only="true") == ["b"]

    @pytest.mark.parametrize(
        "query",
        [
            {"limit": "0"},
            {"limit": "1001"},
            {"after": "x"},
            {"after": "9" * 30},
            {"after": "end"},
            {"last": "1"},
            {"order": "size"},
            {"wait_ms": "60001"},
            {"lmit": "1"},
            {"bodies": "perhaps"},
        ],
        ids=str,
    )
    def test_refuses_what_makes_no_sense(self, served: Asked, queue: str, query: dict[str, str]) -> None:
        answer = served.get(f"{at(queue)}/messages", **query)
        assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json")

    def test_one_that_is_not_there(self, served: Asked, queue: str) -> None:
        served.send(queue, {})
        for lookup_id in ("0", "18446744073709551615", "99999999999999999999"):
            assert served.get(f"{at(queue)}/messages/{lookup_id}").status_code == 404
            assert served.ask("DELETE", f"{at(queue)}/messages/{lookup_id}").status_code == 404


class TestWait:
    def wait(self, served: Asked, queue: str, **query: Any) -> "Waiting":
        waiting = Waiting(served, queue, query)
        until(lambda: served.get(at(queue)).json()["waiting_readers"] == 1)
        return waiting

    def test_for_the_first(self, served: Asked, queue: str) -> None:
        waiting = self.wait(served, queue)
        served.send(queue, {"label": "come"})
        assert waiting.labels() == ["come"]

    def test_for_what_comes_behind(self, served: Asked, queue: str) -> None:
        served.send(queue, {"label": "old"})
        waiting = self.wait(served, queue, order="arrival", after="end")
        served.send(queue, {"label": "new", "priority": 7})
        assert waiting.labels() == ["new"]
        assert served.labels(queue, order="arrival", after=waiting.page["next"]) == []

    def test_sees_what_somebody_receives_at_once(self, served: Asked, queue: str) -> None:
        waiting = self.wait(served, queue, order="arrival")
        receiver = Doing(lambda: served.receive(queue, wait_ms=60_000, acknowledge="now"))
        until(lambda: served.get(at(queue)).json()["waiting_readers"] == 2)
        served.send(queue, {"label": "gone"})
        assert waiting.labels() == ["gone"]
        receiver.result()
        assert served.count(queue) == 0

    def test_in_vain(self, served: Asked, queue: str) -> None:
        started = time.monotonic()
        page = served.get(f"{at(queue)}/messages", wait_ms=50, order="arrival", after="7").json()
        assert page == {"messages": [], "next": "7"}
        assert time.monotonic() - started >= 0.05
        assert served.get(f"{at(queue)}/messages", wait_ms=1).json() == {"messages": [], "next": None}

    def test_ends_when_its_client_goes(self, served: Asked, queue: str) -> None:
        request = f"GET {V1}{at(queue)}/messages?wait_ms=60000 HTTP/1.1\r\nHost: x\r\n\r\n"
        with served.connection() as connection:
            connection.sendall(request.encode())
            until(lambda: served.get(at(queue)).json()["waiting_readers"] == 1)
        until(lambda: served.get(at(queue)).json()["waiting_readers"] == 0)
        until(lambda: served.get(at(queue)).json()["open_handles"] == 0)

    def test_of_a_queue_that_is_deleted(self, served: Asked, queue: str) -> None:
        waiting = self.wait(served, queue)
        served.ask("DELETE", at(queue))
        assert waiting.answer.result().status_code == 410


class Waiting:
    """A browse that waits, in a thread."""

    def __init__(self, served: Asked, queue: str, query: dict[str, Any]) -> None:
        self.answer = Doing(lambda: served.get(f"{at(queue)}/messages", wait_ms=60_000, **query))

    @property
    def page(self) -> dict[str, Any]:
        page: dict[str, Any] = self.answer.result().json()
        return page

    def labels(self) -> list[str]:
        return [each["label"] for each in self.page["messages"]]
