"""Bulk work in the background: progress, plan, pause, cancel, restart, undo."""

import os
from pathlib import Path
from typing import Any

import pytest

from api.asked import Asked, asked, at
from api.test_operations import filled, places
from data.served import until


def begin(served: Asked, queue: str, action: str, **wanted: Any) -> dict[str, Any]:
    answer = served.post(f"{at(queue)}/operations", {"action": action, **wanted})
    assert answer.status_code == (200 if wanted.get("dry_run") else 202), answer.text
    begun: dict[str, Any] = answer.json()
    return begun


def one(served: Asked, operation: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = served.get(f"/operations/{operation['id']}").json()
    return found


def ended(served: Asked, operation: dict[str, Any]) -> dict[str, Any]:
    until(lambda: one(served, operation)["state"] != "running")
    return one(served, operation)


@pytest.fixture
def goal(served: Asked, queue: str) -> str:
    served.create(f"{queue}-goal")
    return f"{queue}-goal"


class TestWork:
    def test_move_those_that_a_filter_finds(self, served: Asked, queue: str, goal: str) -> None:
        filled(served, queue, 25)
        done = ended(served, begin(served, queue, "move", to=goal, filter="label:1"))
        assert (done["state"], done["count"], done["looked"], done["next"]) == ("done", 12, 25, None)
        assert (done["kind"], done["queue"]) == ("move", queue)
        assert served.labels(goal) == [str(i) for i in range(25) if "1" in str(i)]
        assert served.labels(queue) == [str(i) for i in range(25) if "1" not in str(i)]

    def test_a_move_is_undone(self, served: Asked, queue: str, goal: str) -> None:
        filled(served, queue, 250)
        before = places(served, queue)
        served.send(goal, {"label": "there before"})
        done = ended(served, begin(served, queue, "move", to=goal))
        assert (done["count"], served.count(queue), served.count(goal)) == (250, 0, 251)
        undone = served.post(f"/operations/{done['id']}/undo").json()
        assert (undone["state"], undone["restored"]) == ("undone", 250)
        assert (places(served, queue), served.labels(goal)) == (before, ["there before"])

    def test_more_than_a_look_in_order(self, served: Asked, queue: str, goal: str) -> None:
        lines = b"".join(b'{"label": "%d"}\n' % i for i in range(1100))
        headers = {"Content-Type": "application/x-ndjson"}
        served.http.post(f"/api/v1{at(queue)}/messages", content=lines, headers=headers)
        done = ended(served, begin(served, queue, "copy", to=goal, pattern="7$"))
        assert (done["count"], served.count(queue)) == (110, 1100)
        assert served.labels(goal, limit=1000) == [str(i) for i in range(7, 1100, 10)]

    def test_replay_and_limit(self, served: Asked, queue: str) -> None:
        served.send(queue, *({"label": f"{queue} {i}"} for i in range(5)))
        poison = f"{queue};poison"
        ended(served, begin(served, queue, "move", to=poison))
        done = ended(served, begin(served, poison, "replay", limit=2))
        assert (done["count"], served.labels(queue)) == (2, [f"{queue} 0", f"{queue} 1"])
        served.create(f"{queue}-transactional", transactional=True)
        wish = {"to": f"{queue}-transactional", "same_id": True}
        failed = ended(served, begin(served, poison, "replay", **wish))
        assert (failed["state"], failed["count"], "a new id" in failed["note"]) == ("failed", 0, True)
        assert served.count(poison) == 3

    def test_delete_and_undo(self, served: Asked, queue: str) -> None:
        filled(served, queue, 120)
        done = ended(served, begin(served, queue, "delete", filter="-label:11"))
        assert (done["state"], served.count(queue)) == ("done", 11)
        undone = served.post(f"/operations/{done['id']}/undo").json()
        assert (undone["state"], undone["restored"]) == ("undone", 109)
        assert served.labels(queue, limit=1000) == [str(i) for i in range(120)]

    def test_purge(self, served: Asked, queue: str) -> None:
        filled(served, queue, 5)
        done = ended(served, begin(served, queue, "purge", filter="label:3"))
        assert (done["state"], served.labels(queue)) == ("finished", ["0", "1", "2", "4"])
        assert served.post(f"/operations/{done['id']}/undo").status_code == 400

    def test_by_time_of_arrival(self, served: Asked, queue: str, goal: str) -> None:
        filled(served, queue, 3)
        assert ended(served, begin(served, queue, "move", to=goal, until="2020-01-01"))["count"] == 0
        assert (
            ended(served, begin(served, queue, "move", to=goal, since="2999-01-01T00:00:00Z"))["count"] == 0
        )
        wanted = {"since": "2020-01-01", "until": "2999-01-01"}
        assert ended(served, begin(served, queue, "move", to=goal, **wanted))["count"] == 3

    def test_the_record_of_the_messages_names_who_did_it(self, served: Asked, queue: str, goal: str) -> None:
        (first,) = filled(served, queue, 1)
        ended(served, begin(served, queue, "move", to=goal))
        told = [each["text"] for each in served.get("/why", id=first["id"]).json()["events"]]
        assert told[1] == f"arrived in {queue}, from uid {os.getuid()}"
        assert told[2].startswith(f"was moved to {goal}, lookup id ")
        assert told[2].endswith(f" by uid {os.getuid()}")


class TestPlan:
    def test_only_what_was_counted(self, served: Asked, queue: str) -> None:
        filled(served, queue, 7)
        plan = begin(served, queue, "delete", filter="label:1", dry_run=True)
        assert (plan["count"], plan["looked"], len(plan["first"]), plan["undoable"]) == (1, 7, 1, True)
        served.send(queue, {"label": "11"})
        done = ended(served, begin(served, queue, "delete", filter="label:1", plan=plan["plan"]))
        assert (done["count"], served.labels(queue)) == (1, ["0", "2", "3", "4", "5", "6", "11"])

    def test_it_changes_nothing(self, served: Asked, queue: str, goal: str) -> None:
        filled(served, queue, 7)
        plan = begin(served, queue, "move", to=goal, dry_run=True, limit=6)
        assert (plan["count"], len(plan["first"]), served.count(queue)) == (6, 5, 7)


class TestControl:
    def test_pause_resume_cancel(self, served: Asked, queue: str, goal: str) -> None:
        filled(served, queue, 5)
        begun = begin(served, queue, "move", to=goal, rate=0.001)  # the second message in 1000 s
        until(lambda: one(served, begun)["count"] == 1)
        assert served.post(f"/operations/{begun['id']}/pause").json()["state"] == "paused"
        assert served.post(f"/operations/{begun['id']}/resume").json()["state"] == "running"
        cancelled = served.post(f"/operations/{begun['id']}/cancel").json()
        done = cancelled["count"]  # a resumed one begins with a message at once
        assert (cancelled["state"], cancelled["note"], done in {1, 2}) == ("done", "cancelled", True)
        assert (served.count(goal), served.count(queue)) == (done, 5 - done)
        assert served.post(f"/operations/{begun['id']}/resume").status_code == 400
        assert served.post("/operations/999999/pause").status_code == 404

    def test_what_was_deleted_before_a_cancellation_can_be_undone(self, served: Asked, queue: str) -> None:
        filled(served, queue, 5)
        begun = begin(served, queue, "delete", rate=0.001)
        until(lambda: one(served, begun)["count"] == 1)
        assert served.post(f"/operations/{begun['id']}/cancel").json()["state"] == "done"
        served.post(f"/operations/{begun['id']}/undo")
        assert served.labels(queue) == ["0", "1", "2", "3", "4"]

    def test_a_failure_is_told_and_can_be_resumed(self, served: Asked, queue: str) -> None:
        filled(served, queue, 3)
        missing = f"{queue}-missing"
        failed = ended(served, begin(served, queue, "move", to=missing))
        assert (failed["state"], failed["count"], served.count(queue)) == ("failed", 0, 3)
        assert missing in failed["note"]
        served.create(missing)
        served.post(f"/operations/{failed['id']}/resume")
        assert ended(served, failed)["state"] == "done"
        assert served.labels(missing) == ["0", "1", "2"]

    @pytest.mark.parametrize(
        "wanted",
        [
            {"action": "move"},
            {"action": "delete", "to": "elsewhere"},
            {"action": "delete", "filter": "age>long"},
            {"action": "delete", "pattern": "("},
            {"action": "delete", "pattern": "x", "filter": "x"},
            {"action": "delete", "since": "yesterday"},
            {"action": "delete", "rate": 0},
            {"action": "burn"},
        ],
    )
    def test_refused(self, served: Asked, queue: str, wanted: dict[str, Any]) -> None:
        assert served.post(f"{at(queue)}/operations", wanted).status_code == 400
        assert served.post(f"{at('nowhere')}/operations", {"action": "delete"}).status_code == 404


def test_it_goes_on_after_a_kill(tmp_path: Path) -> None:
    with asked(tmp_path, "") as served:
        served.create("from")
        served.create("to")
        filled(served, "from", 30)
        begun = begin(served, "from", "copy", to="to", rate=20)
        until(lambda: one(served, begun)["count"] > 0)
    with asked(tmp_path, "") as served:  # nobody asks for it but this test
        done = ended(served, begun)
        assert (done["state"], done["count"]) == ("finished", 30)
        assert served.labels("to") == [str(i) for i in range(30)]


def test_the_trash_is_bounded(tmp_path: Path) -> None:
    with asked(tmp_path, "[api]\ntrash_bytes = 1000\n") as served:
        served.create("orders")
        filled(served, "orders", 20)
        assert begin(served, "orders", "delete", dry_run=True)["undoable"] is False
        failed = ended(served, begin(served, "orders", "delete"))
        assert failed["state"] == "failed"
        assert "it is full" in failed["note"]
        assert 0 < failed["count"] < 20
        assert served.post(f"/operations/{failed['id']}/cancel").json()["state"] == "done"
        served.post(f"/operations/{failed['id']}/undo")
        assert served.count("orders") == 20
