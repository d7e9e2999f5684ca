"""What is known about a message, by its id, and whether one would reach its queue."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from addresses import own_address
from api.asked import Asked, asked, at
from data.served import until

UNKNOWN = r"{00000000-0000-0000-0000-00000000abcd}\7"


def why(served: Asked, identifier: str) -> dict[str, Any]:
    answer = served.get("/why", id=identifier)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def texts(found: dict[str, Any]) -> list[str]:
    return [each["text"] for each in found["events"]]


def explain(served: Asked, queue: str, **options: Any) -> dict[str, Any]:
    answer = served.get("/explain", queue=queue, **options)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def results(found: dict[str, Any]) -> list[str]:
    return [each["result"] for each in found["findings"]]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    """Without the record of events: it answers from what is left of the messages."""
    config = "[api]\nenabled = true\nport = 0\n[life]\nmax_bytes = 0\n"
    with asked(tmp_path_factory.mktemp("api"), config) as served:
        yield served


class TestWhy:
    @pytest.mark.parametrize("delivery", ["recoverable", "express"])
    def test_it_waits_in_its_queue(self, served: Asked, queue: str, delivery: str) -> None:
        served.send(queue, *({"label": "other"} for _ in range(3)))
        (wanted,) = served.send(queue, {"label": "order 7", "delivery": delivery})
        found = why(served, wanted)
        (place,) = found["places"]
        assert (found["state"], found["label"], place["queue"]) == ("waiting", "order 7", queue)
        assert texts(found)[0] == f"sent by this computer to {queue}"
        assert f"arrived in {queue}, lookup id {place['lookup_id']}" in texts(found)
        assert served.get(f"{at(queue)}/messages/{place['lookup_id']}").json()["id"] == wanted

    def test_a_reader_holds_it(self, served: Asked, queue: str) -> None:
        (wanted,) = served.send(queue, {"label": "held"})
        served.receive(queue)
        found = why(served, wanted)
        assert (found["state"], texts(found)[-1]) == ("held", "a reader holds it and has not finished")

    def test_received_with_a_journal(self, served: Asked) -> None:
        served.create("journaled", journaling=True)
        (wanted,) = served.send("journaled", {"label": "read"})
        served.receive("journaled", acknowledge="now")
        found = why(served, wanted)
        assert (found["state"], found["places"][0]["queue"]) == ("received", "journaled;journal")
        assert "was received" in texts(found)

    def test_a_dead_letter_says_how_to_replay_it(self, served: Asked, queue: str) -> None:
        message = {"negative_journaling": True, "time_to_be_received": 0}
        (wanted,) = served.send(queue, message)
        found = why(served, wanted)
        (place,) = found["places"]
        assert (found["state"], place["queue"]) == ("dead", ";deadletter")
        assert found["fix"].startswith("start the receiver, then replay")
        assert found["commands"] == [f"tiercel replay ';deadletter' --lookup-id {place['lookup_id']}"]

    def test_a_dropped_message_is_in_the_ledger(self, served: Asked, queue: str) -> None:
        (wanted,) = served.send(queue, {"label": "gone", "time_to_be_received": 0})
        found = why(served, wanted)
        assert (found["state"], found["places"], found["label"]) == ("ended", [], "gone")
        assert texts(found)[0].startswith("ended: ")
        assert found["discards_since"]

    def test_it_waits_for_another_computer(self, served: Asked) -> None:
        goal = rf"DIRECT=TCP:{own_address()}\private$\far"
        (wanted,) = served.send(goal, {"label": "far"})
        found = why(served, wanted)
        assert (found["state"], found["places"][0]["queue"]) == ("outgoing", goal)
        assert f"waits for {goal}" in texts(found)

    def test_an_acknowledgement_tells_the_end(self, served: Asked, queue: str) -> None:
        served.create(f"{queue}-admin")
        admin = {"administration_queue": f"{queue}-admin", "acknowledgements": ["pos_receive", "neg_receive"]}
        (wanted,) = served.send(queue, admin)
        served.receive(queue, acknowledge="now")
        found = why(served, wanted)
        assert (found["state"], found["places"]) == ("received", [])
        assert any(text.startswith("acknowledged: ") for text in texts(found))

    def test_an_id_in_a_body_is_no_trace(self, served: Asked, queue: str) -> None:
        (wanted,) = served.send(queue, {"label": "quoted"})
        served.receive(queue, acknowledge="now")
        served.send(queue, {"text": wanted})
        assert why(served, wanted)["state"] == "unknown"

    def test_nothing_is_known(self, served: Asked) -> None:
        found = why(served, UNKNOWN)
        assert (found["state"], found["events"], found["fix"]) == ("unknown", [], None)

    @pytest.mark.parametrize(
        "identifier", ["", "7", r"{no-guid}\7", r"{00000000-0000-0000-0000-00000000abcd}"]
    )
    def test_not_an_id(self, served: Asked, identifier: str) -> None:
        assert served.get("/why", id=identifier).status_code == 400


class TestExplain:
    def test_a_local_queue(self, served: Asked, queue: str) -> None:
        found = explain(served, queue)
        assert (found["would_go"], set(results(found))) == (True, {"ok"})

    def test_the_wrong_kind_of_queue(self, served: Asked, queue: str) -> None:
        found = explain(served, queue, transactional=True)
        assert (found["would_go"], found["error"]) == (False, "MQ_ERROR_TRANSACTION_USAGE")

    def test_no_such_queue_and_nothing_is_created(self, served: Asked) -> None:
        found = explain(served, "nowhere")
        assert (found["would_go"], found["error"]) == (False, "MQ_ERROR_QUEUE_NOT_FOUND")
        goal = r"DIRECT=OS:server-b\private$\paid"
        before = served.get("/outgoing").json()
        assert explain(served, goal, network=False)["would_go"]
        assert served.get("/outgoing").json() == before

    def test_a_full_queue(self, served: Asked) -> None:
        served.create("small", quota_kib=1)
        found = explain(served, "small", size=2000)
        assert (found["would_go"], found["error"]) == (False, "MQ_ERROR_INSUFFICIENT_RESOURCES")

    def test_rights_of_an_account(self, served: Asked) -> None:
        served.create("closed", security="D:(A;;GA;;;BA)")
        assert explain(served, "closed")["would_go"]
        found = explain(served, "closed", account="anonymous")
        assert (found["would_go"], found["error"]) == (False, "MQ_ERROR_ACCESS_DENIED")
        assert served.get("/explain", queue="closed", account="nobody").status_code == 400

    def test_signed_messages_only(self, served: Asked) -> None:
        served.create("signed", authentication=True)
        assert not explain(served, "signed")["would_go"]
        assert explain(served, "signed", signed=True)["would_go"]

    def test_nothing_listens_there(self, served: Asked) -> None:
        found = explain(served, rf"DIRECT=TCP:{own_address()}\private$\far")
        assert not found["would_go"]
        assert "cannot connect" in found["findings"][-2]["text"]

    def test_an_impossible_name(self, served: Asked) -> None:
        found = explain(served, r"DIRECT=TCP:300.1.1.1\private$\far")
        assert (found["would_go"], len(found["findings"])) == (False, 1)


def test_two_computers(tmp_path: Path) -> None:
    """A asks B, whose API it knows by [[peers]]."""
    (tmp_path / "b").mkdir()
    (tmp_path / "a").mkdir()
    with asked(tmp_path / "b", "[api]\nenabled = true\nport = 0\n") as b:
        b.create("paid", transactional=True)
        host, port = b.start["address"].rsplit(":", 1)
        peers = f'[[peers]]\nname = "server-b"\naddresses = ["server-b"]\nurl = "{b.start["api"]}"\n'
        with asked(tmp_path / "a", f'{peers}[hosts]\nserver-b = "{host}:{port}"\n') as a:
            goal = r"DIRECT=OS:server-b\private$\paid"
            found = explain(a, goal, peer=True)
            assert (found["would_go"], results(found)[-1]) == (False, "ok")
            assert any(each["text"].startswith("server-b: ") for each in found["findings"])
            assert explain(a, goal, peer=True, transactional=True)["would_go"]
            (wanted,) = a.send(r"DIRECT=OS:server-b\private$\nowhere", {"label": "lost"})
            until(lambda: bool(b.get("/discards").json()["discards"]))
            (hop,) = a.get("/why", id=wanted, hops=True).json()["hops"]
            assert (hop["name"], hop["answer"]["state"]) == ("server-b", "ended")
