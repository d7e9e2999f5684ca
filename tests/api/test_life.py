"""What `GET /why` tells of messages of which only the record of events is left."""

from pathlib import Path

import pytest

from api.asked import Api, Asked, asked, at
from api.test_why import UNKNOWN, texts, why


def test_received_without_a_trace(served: Asked, queue: str) -> None:
    (wanted,) = served.send(queue, {"label": "order 7"})
    served.receive(queue, acknowledge="now")
    found = why(served, wanted)
    assert (found["state"], found["places"]) == ("received", [])
    arrived, taken, received = texts(found)
    assert taken.startswith(f"was taken from {queue} by ")
    assert arrived.startswith(f"arrived in {queue}, from ")
    assert received.startswith(f"was received from {queue} by ")
    assert found["life_since"] <= found["events"][0]["time"]


def test_of_a_queue_that_is_deleted(served: Asked) -> None:
    served.create("short-lived")
    (wanted,) = served.send("short-lived", {"label": "order 7"})
    assert served.ask("DELETE", at("short-lived")).status_code == 200
    told = texts(why(served, wanted))
    assert told[0].startswith("arrived in short-lived")
    assert any(each.startswith("ended: ") for each in told)


def test_held_and_given_back_again_and_again(served: Asked, queue: str) -> None:
    (wanted,) = served.send(queue, {"label": "order 7"})
    for _ in range(3):
        (message,) = served.receive(queue)
        assert served.post(f"/leases/{message['lease']}/return").status_code == 200
    found = why(served, wanted)
    assert found["state"] == "waiting"
    told = texts(found)
    assert (
        sum("; 2 more times until" in each for each in told if each.startswith(f"was taken from {queue}"))
        == 1
    )
    assert not any("given back 3 times" in each for each in told), "the events tell it already"


def test_it_is_told_once_what_two_records_know(served: Asked, queue: str) -> None:
    (wanted,) = served.send(queue, {"negative_journaling": True, "time_to_be_received": 0})
    told = texts(why(served, wanted))
    assert sum(";deadletter" in each for each in told) == 1
    assert sum(each.startswith("ended: ") for each in told) == 1
    assert sum(each.startswith("arrived in") for each in told) == 1


def test_express_messages_that_a_crash_took(tmp_path: Path) -> None:
    with asked(tmp_path, "") as served:
        served.create("quick")
        (wanted,) = served.send("quick", {"delivery": "express"})
        served.send("quick", {"label": "recoverable"})  # its commit has the events of both
    with asked(tmp_path, "") as served:
        found = why(served, wanted)
        assert (found["state"], texts(found)[-1][:22]) == ("ended", "is not here any more: ")


def test_nothing_is_known(served: Api, queue: str) -> None:
    served.send(queue, {"label": "order 7"})
    found = why(served, UNKNOWN)  # type: ignore[arg-type]
    assert (found["state"], found["events"]) == ("unknown", [])
    assert found["life_since"] is not None


@pytest.mark.parametrize("is_on", [False, True])
def test_the_limit_is_an_option(tmp_path: Path, is_on: bool) -> None:
    with asked(tmp_path, f"[life]\nmax_bytes = {(1 << 20) * is_on}\n") as served:
        served.create("orders")
        (wanted,) = served.send("orders", {"label": "order 7"})
        served.receive("orders", acknowledge="now")
        found = why(served, wanted)
        assert (found["state"], found["life_since"] is not None) == (
            "received" if is_on else "unknown",
            is_on,
        )
