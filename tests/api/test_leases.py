"""Receiving over HTTP: leases that are acknowledged, given back, or run out; clients and daemons that go."""

import signal
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from api.asked import V1, Asked, Doing, asked, at
from data.served import until

WAIT_S = 20


def end(served: Asked, message: dict[str, Any], how: str) -> Any:
    return served.post(f"/leases/{message['lease']}/{how}")


def locked(served: Asked, queue: str) -> int:
    number: int = served.get(at(queue)).json()["locked"]
    return number


class TestReceive:
    def test_leases_what_is_there(self, served: Asked, queue: str) -> None:
        served.send(
            queue, {"label": "low", "priority": 1}, {"label": "high", "priority": 6}, {"label": "mid"}
        )
        first = served.receive(queue, limit=2, lease_s=600)
        assert [each["label"] for each in first] == ["high", "mid"]
        assert [each["label"] for each in served.receive(queue, limit=2)] == ["low"]
        assert served.receive(queue) == []
        assert served.count(queue) == 3
        rows = {each["lease"]: each for each in served.get("/leases").json()["leases"]}
        row = rows[first[0]["lease"]]
        assert (row["queue"], row["lookup_id"]) == (rf"HOST\private$\{queue}", first[0]["lookup_id"])
        assert (row["lease_s"], 0 < row["seconds_left"] <= 600) == (600, True)
        assert row["who"].startswith("uid ")

    def test_one_by_its_lookup_id(self, served: Asked, queue: str) -> None:
        served.send(queue, {"label": "a"}, {"label": "b"})
        second = served.get(f"{at(queue)}/messages").json()["messages"][1]["lookup_id"]
        assert [each["label"] for each in served.receive(queue, lookup_id=second)] == ["b"]
        again = served.post(f"{at(queue)}/receive", {"lookup_id": second})
        assert again.status_code == 404

    def test_at_once(self, served: Asked, queue: str) -> None:
        served.send(queue, *({"label": f"{number}"} for number in range(120)))
        received = served.receive(queue, limit=110, acknowledge="now", bodies=False)
        assert [each["label"] for each in received] == [str(number) for number in range(110)]
        assert not any("lease" in each for each in received)
        assert served.count(queue) == 10
        assert locked(served, queue) == 0

    def test_waits_for_the_first(self, served: Asked, queue: str) -> None:
        reader = Doing(lambda: served.receive(queue, wait_ms=60_000, limit=5))
        until(lambda: served.get(at(queue)).json()["waiting_readers"] == 1)
        served.send(queue, {"label": "come"})
        received = reader.result()
        assert [each["label"] for each in received] == ["come"]
        assert end(served, received[0], "acknowledge").status_code == 200

    def test_from_a_transactional_queue(self, served: Asked) -> None:
        served.create("leased-tx", transactional=True)
        served.send("leased-tx", {"label": "1"}, {"label": "2"})
        (message,) = served.receive("leased-tx")
        end(served, message, "acknowledge")
        assert served.labels("leased-tx") == ["2"]

    @pytest.mark.parametrize(
        "wish",
        [{"limit": 0}, {"limit": 1001}, {"lease_s": 0}, {"wait_ms": -1}, {"acknowledge": "later"}, {"x": 1}],
        ids=str,
    )
    def test_refuses_what_makes_no_sense(self, served: Asked, queue: str, wish: dict[str, Any]) -> None:
        served.send(queue, {})
        assert served.post(f"{at(queue)}/receive", wish).status_code == 400
        assert locked(served, queue) == 0


class TestAcknowledge:
    def test_ends_the_message(self, served: Asked, queue: str) -> None:
        served.send(queue, {})
        (message,) = served.receive(queue)
        assert end(served, message, "acknowledge").json() == {"lease": message["lease"], "already": False}
        assert served.count(queue) == 0
        assert served.get(at(queue)).json()["open_handles"] == 0

    def test_twice_is_once(self, served: Asked, queue: str) -> None:
        served.send(queue, {}, {})
        (message,) = served.receive(queue)
        assert [end(served, message, "acknowledge").json()["already"] for _ in range(3)] == [
            False,
            True,
            True,
        ]
        assert served.count(queue) == 1
        returned = end(served, message, "return")
        assert (returned.status_code, returned.json()["code"]) == (410, "TIERCEL_ERROR_LEASE_ENDED")
        assert "its message was acknowledged" in returned.json()["detail"]

    def test_one_that_never_was(self, served: Asked) -> None:
        for lease in ("nonsense", "0" * 32, "%2F"):
            answer = served.post(f"/leases/{lease}/acknowledge")
            assert (answer.status_code, answer.json()["code"]) == (404, "TIERCEL_ERROR_LEASE_NOT_FOUND")
            assert "never given" in answer.json()["detail"]


class TestReturn:
    def test_puts_it_back_in_its_place(self, served: Asked, queue: str) -> None:
        served.send(queue, {"label": "a"}, {"label": "b"})
        (message,) = served.receive(queue)
        assert end(served, message, "return").json()["already"] is False
        assert end(served, message, "return").json()["already"] is True
        assert served.labels(queue, available_only="true") == ["a", "b"]
        (again,) = served.receive(queue)
        assert (again["label"], again["abort_count"]) == ("a", 1)
        assert (
            end(served, message, "acknowledge").status_code == 410
        )  # the old lease has no say in the new one
        assert locked(served, queue) == 1

    def test_goes_to_who_waits(self, served: Asked, queue: str) -> None:
        served.send(queue, {"label": "a"})
        (message,) = served.receive(queue)
        reader = Doing(lambda: served.receive(queue, wait_ms=60_000))
        until(lambda: served.get(at(queue)).json()["waiting_readers"] == 1)
        end(served, message, "return")
        assert [each["label"] for each in reader.result()] == ["a"]


class TestTime:
    def test_runs_out(self, served: Asked, queue: str) -> None:
        served.send(queue, {"label": "a"})
        (message,) = served.receive(queue, lease_s=0.01)
        until(lambda: locked(served, queue) == 0)
        answer = end(served, message, "acknowledge")
        assert (answer.status_code, "its time ran out" in answer.json()["detail"]) == (410, True)
        assert served.count(queue) == 1
        assert served.get(at(queue)).json()["open_handles"] == 0

    def test_runs_out_for_many_at_once(self, served: Asked, queue: str) -> None:
        lines, headers = b'{"delivery":"recoverable"}\n' * 130, {"content-type": "application/x-ndjson"}
        served.ask("POST", f"{at(queue)}/messages", content=lines, headers=headers)
        assert len(served.receive(queue, limit=130, lease_s=0.01, bodies=False)) == 130
        until(lambda: locked(served, queue) == 0)
        assert len(served.receive(queue, limit=1000, bodies=False)) == 130

    def test_can_be_extended(self, served: Asked, queue: str) -> None:
        served.send(queue, {"label": "short"}, {"label": "long"})
        short, long = served.receive(queue, limit=2, lease_s=600)
        assert served.post(f"/leases/{long['lease']}/extend", {"lease_s": 7200}).json()["lease_s"] == 7200
        served.post(f"/leases/{short['lease']}/extend", {"lease_s": 0.01})
        until(lambda: locked(served, queue) == 1)
        assert served.labels(queue, available_only="true") == ["short"]
        rows = served.get("/leases").json()["leases"]
        assert [each["seconds_left"] > 600 for each in rows if each["lease"] == long["lease"]] == [True]
        assert end(served, long, "acknowledge").status_code == 200
        assert served.post(f"/leases/{long['lease']}/extend", {}).status_code == 410


class TestMeanwhile:
    def test_a_purge_does_not_take_it_from_its_holder(self, served: Asked, queue: str) -> None:
        served.send(queue, {"label": "kept"}, {"label": "returned"}, {"label": "purged"})
        kept, returned = served.receive(queue, limit=2)
        purge = served.post(f"{at(queue)}/purge").json()
        assert (purge["count"], purge["locked"]) == (1, 2)
        assert end(served, kept, "acknowledge").status_code == 200
        assert end(served, returned, "return").status_code == 200
        assert served.count(queue) == 0  # what was purged ends when it is given back
        labels = [each["label"] for each in served.get("/discards", limit=2).json()["discards"]]
        assert labels == ["returned", "purged"]

    @pytest.mark.parametrize("how", ["acknowledge", "return", "extend"])
    def test_a_queue_that_is_deleted_takes_it_along(self, served: Asked, queue: str, how: str) -> None:
        served.send(queue, {"label": "doomed"})
        (message,) = served.receive(queue)
        served.ask("DELETE", at(queue))
        answer = end(served, message, how)
        assert (answer.status_code, "the queue was deleted" in answer.json()["detail"]) == (410, True)
        assert served.get("/discards", limit=1).json()["discards"][0]["label"] == "doomed"
        assert message["lease"] not in served.get("/leases").text

    def test_a_queue_of_the_same_name_is_another(self, served: Asked, queue: str) -> None:
        served.send(queue, {})
        (message,) = served.receive(queue, lease_s=0.2)
        served.ask("DELETE", at(queue))
        served.create(queue)
        served.send(queue, {"label": "new"})
        until(lambda: message["lease"] not in served.get("/leases").text)
        assert served.labels(queue, available_only="true") == ["new"]


def ask_to_receive(connection: socket.socket, queue: str, wish: bytes) -> None:
    head = f"POST {V1}{at(queue)}/receive HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    connection.sendall(f"{head}Content-Length: {len(wish)}\r\n\r\n".encode() + wish)


class TestClientsThatGo:
    def ends_early(self, served: Asked, queue: str, wish: bytes) -> bool:
        """Whether the wait of a client that goes ends before its time; again, if this computer slept."""
        started = time.monotonic()
        with served.connection() as connection:
            ask_to_receive(connection, queue, wish)
            until(lambda: served.get(at(queue)).json()["waiting_readers"] == 1)
        until(lambda: served.get(at(queue)).json()["waiting_readers"] == 0)
        return time.monotonic() - started < WAIT_S

    @pytest.mark.parametrize("acknowledge", ["lease", "now"])
    def test_while_they_wait_take_nothing(self, served: Asked, queue: str, acknowledge: str) -> None:
        wish = b'{"wait_ms": %d, "acknowledge": "%s"}' % (1000 * WAIT_S, acknowledge.encode())
        assert any(self.ends_early(served, queue, wish) for _ in range(3)), "the wait ended by itself"
        served.send(queue, {"label": "safe"})
        assert served.labels(queue, available_only="true") == ["safe"]
        until(lambda: served.get(at(queue)).json()["open_handles"] == 0)

    def test_before_they_are_answered_keep_it_no_longer_than_the_lease(
        self, served: Asked, queue: str
    ) -> None:
        served.send(queue, {"label": "back"})
        with served.connection() as connection:
            ask_to_receive(connection, queue, b'{"lease_s": 0.5}')
        until(lambda: served.labels(queue, available_only="true") == ["back"])
        until(lambda: locked(served, queue) == 0)
        assert served.count(queue) == 1


class TestDaemonsThatGo:
    @pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "stopped"])
    def test_end_every_lease(self, tmp_path: Path, number: signal.Signals) -> None:
        with asked(tmp_path) as served:
            served.create("orders")
            served.send("orders", {"label": "acknowledged"}, {"label": "leased"})
            done, open_one = served.receive("orders", limit=2, lease_s=3600)
            end(served, done, "acknowledge")
            served.process.send_signal(number)
            served.process.wait()
        with asked(tmp_path) as served:
            assert served.labels("orders", available_only="true") == ["leased"]
            for how in ("acknowledge", "return", "extend"):
                answer = end(served, open_one, how)
                assert (answer.status_code, "a restart" in answer.json()["detail"]) == (404, True)

    def test_answer_those_who_wait(self, tmp_path: Path) -> None:
        with asked(tmp_path) as served:
            served.create("orders")
            receiver = Doing(lambda: served.receive("orders", wait_ms=60_000))
            looker = Doing(lambda: served.labels("orders", wait_ms=60_000))
            until(lambda: served.get(at("orders")).json()["waiting_readers"] == 2)
            served.process.send_signal(signal.SIGTERM)
            assert (receiver.result(), looker.result()) == ([], [])
            assert served.process.wait() == 0
