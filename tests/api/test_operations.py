"""Deleting with undo, editing and resending, and the audit lines of both."""

from pathlib import Path
from typing import Any

import pytest

from addresses import own_address
from api.asked import Asked, asked, at
from data.served import until


def messages(served: Asked, queue: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = served.get(f"{at(queue)}/messages").json()["messages"]
    return found


def places(served: Asked, queue: str) -> list[str]:
    return [each["lookup_id"] for each in messages(served, queue)]


def filled(served: Asked, queue: str, count: int = 5) -> list[dict[str, Any]]:
    served.send(queue, *({"label": f"{number}"} for number in range(count)))
    return messages(served, queue)


def delete(served: Asked, queue: str, **wanted: Any) -> dict[str, Any]:
    answer = served.post(f"{at(queue)}/delete", wanted)
    assert answer.status_code == 200, answer.text
    done: dict[str, Any] = answer.json()
    return done


class TestDelete:
    def test_undo_puts_messages_back_into_their_old_places(self, served: Asked, queue: str) -> None:
        before = filled(served, queue)
        done = delete(served, queue, lookup_ids=[before[1]["lookup_id"], before[3]["lookup_id"]])
        assert (done["count"], done["state"], served.labels(queue)) == (2, "done", ["0", "2", "4"])
        assert served.labels(f"{queue};trash") == ["1", "3"]
        undone = served.post(f"/operations/{done['id']}/undo").json()
        assert (undone["state"], undone["restored"]) == ("undone", 2)
        after = messages(served, queue)
        assert [each["lookup_id"] for each in after] == [each["lookup_id"] for each in before]
        assert [each["id"] for each in after] == [each["id"] for each in before]
        again = served.post(f"/operations/{done['id']}/undo")
        assert (again.status_code, "undone already" in again.json()["detail"]) == (400, True)

    def test_the_plan_of_a_dry_run_leaves_later_messages(self, served: Asked, queue: str) -> None:
        filled(served, queue, 3)
        plan = delete(served, queue, dry_run=True)
        assert (plan["count"], plan["undoable"], len(plan["first"])) == (3, True, 3)
        served.send(queue, {"label": "late", "priority": 7})
        assert delete(served, queue, plan=plan["plan"])["count"] == 3
        assert served.labels(queue) == ["late"]

    def test_in_several_commits(self, served: Asked, queue: str) -> None:
        lines = b"".join(b'{"label":"%d"}\n' % number for number in range(250))
        kind = {"content-type": "application/x-ndjson"}
        served.ask("POST", f"{at(queue)}/messages", content=lines, headers=kind)
        done = delete(served, queue, limit=220)
        assert (done["count"], served.count(queue)) == (220, 30)
        assert served.post(f"/operations/{done['id']}/undo").json()["restored"] == 220
        assert served.labels(queue, limit=1000) == [str(number) for number in range(250)]

    def test_what_was_taken_out_of_the_trash_stays_out(self, served: Asked, queue: str) -> None:
        filled(served, queue, 2)
        done = delete(served, queue)
        served.receive(f"{queue};trash", acknowledge="now")
        assert served.post(f"/operations/{done['id']}/undo").json()["restored"] == 1

    def test_a_message_that_a_reader_holds_stays(self, served: Asked, queue: str) -> None:
        filled(served, queue, 3)
        served.receive(queue)
        assert delete(served, queue)["count"] == 2
        assert served.count(queue) == 1

    def test_of_an_empty_queue_leaves_nothing_to_undo(self, served: Asked, queue: str) -> None:
        done = delete(served, queue)
        assert (done["count"], done["state"]) == (0, "finished")
        assert served.post(f"/operations/{done['id']}/undo").status_code == 400

    def test_no_trash(self, served: Asked) -> None:
        refused = served.post(f"{at(';deadletter')}/delete", {})
        assert (refused.status_code, "cannot be undone" in refused.json()["detail"]) == (400, True)

    def test_no_such_operation(self, served: Asked) -> None:
        assert served.post("/operations/999999/undo").status_code == 404


def move(served: Asked, queue: str, to: str, **wanted: Any) -> dict[str, Any]:
    answer = served.post(f"{at(queue)}/move", {"to": to, "undo": True, **wanted})
    assert answer.status_code == 200, answer.text
    done: dict[str, Any] = answer.json()
    return done


class TestUndoOfMoves:
    @pytest.fixture
    def goal(self, served: Asked, queue: str) -> str:
        served.create(f"{queue}-goal")
        return f"{queue}-goal"

    def test_old_places_of_what_nobody_has_received(self, served: Asked, queue: str, goal: str) -> None:
        before = filled(served, queue)
        served.send(goal, {"label": "there before"})
        chosen = [before[at]["lookup_id"] for at in (1, 2, 3)]
        done = move(served, queue, goal, lookup_ids=chosen)
        assert served.labels(goal) == ["there before", "1", "2", "3"]
        served.receive(goal, acknowledge="now", limit=2)
        undone = served.post(f"/operations/{done['operation']}/undo").json()
        assert (undone["count"], undone["restored"], undone["request"]) == (3, 2, {"to": goal})
        assert places(served, queue) == [each["lookup_id"] for each in before if each["label"] != "1"]
        assert served.labels(goal) == []

    def test_several_requests_are_one_operation(self, served: Asked, queue: str, goal: str) -> None:
        filled(served, queue, 4)
        first = move(served, queue, goal, limit=2)
        second = move(served, queue, goal, limit=2, operation=first["operation"])
        assert second["operation"] == first["operation"]
        assert served.post(f"/operations/{first['operation']}/undo").json()["restored"] == 4
        assert served.labels(queue) == ["0", "1", "2", "3"]

    def test_of_another_move_cannot_be_gone_on_with(self, served: Asked, queue: str, goal: str) -> None:
        filled(served, queue, 2)
        first = move(served, queue, goal, limit=1)
        wanted = {"to": f"{queue};other", "undo": True, "operation": first["operation"]}
        refused = served.post(f"{at(queue)}/move", wanted)
        assert (refused.status_code, "another move" in refused.json()["detail"]) == (400, True)
        unknown = served.post(f"{at(queue)}/move", {"to": goal, "undo": True, "operation": "999999"})
        assert unknown.status_code == 404
        assert served.count(queue) == 1

    def test_into_a_subqueue_and_out_of_it(self, served: Asked, queue: str) -> None:
        before = filled(served, queue, 2)
        into = move(served, queue, f"{queue};later")
        out = move(served, f"{queue};later", queue)
        assert served.post(f"/operations/{out['operation']}/undo").json()["restored"] == 2
        assert served.labels(f"{queue};later") == ["0", "1"]
        assert served.post(f"/operations/{into['operation']}/undo").json()["restored"] == 2
        assert places(served, queue) == [each["lookup_id"] for each in before]

    def test_the_queue_that_they_went_to_was_deleted(self, served: Asked, queue: str, goal: str) -> None:
        filled(served, queue, 2)
        done = move(served, queue, goal)
        served.http.delete(f"/api/v1{at(goal)}")
        assert served.post(f"/operations/{done['operation']}/undo").json()["restored"] == 0

    def test_what_becomes_another_message_cannot_be_undone(self, served: Asked, queue: str) -> None:
        served.create(f"{queue}-transactional", transactional=True)
        filled(served, queue, 1)
        assert move(served, queue, f"{queue}-transactional")["operation"] is None

    def test_only_if_asked_for(self, served: Asked, queue: str, goal: str) -> None:
        filled(served, queue, 1)
        assert move(served, queue, goal, undo=False)["operation"] is None


class TestUndoOfReplays:
    """What was a dead letter is one again, with its reason, and nothing is told of it a second time."""

    def dead(self, served: Asked, queue: str) -> list[dict[str, Any]]:
        """Three messages for another computer that were purged."""
        far = rf"DIRECT=TCP:{own_address(6)}\private$\{queue}"
        sent = {"negative_journaling": True, "time_to_be_received": 900, "priority": 5}
        served.send(far, *({"label": f"{queue} {number}", **sent} for number in range(3)))
        served.post(f"{at(far)}/purge")
        return self.letters(served, queue)

    def letters(self, served: Asked, queue: str) -> list[dict[str, Any]]:
        found = messages(served, ";deadletter")
        return [each for each in found if each["label"].startswith(f"{queue} ")]

    @pytest.fixture
    def goal(self, served: Asked, queue: str) -> str:
        served.create(f"{queue}-goal")
        return f"{queue}-goal"

    def test_the_dead_letters_are_back(self, served: Asked, queue: str, goal: str) -> None:
        before = self.dead(served, queue)
        ids = [each["lookup_id"] for each in before]
        replayed = {"lookup_ids": ids, "to": goal, "undo": True}
        done = served.post(f"{at(';deadletter')}/replay", replayed).json()
        assert (self.letters(served, queue), served.count(goal)) == ([], 3)
        served.receive(goal, acknowledge="now", limit=1)
        undone = served.post(f"/operations/{done['operation']}/undo").json()
        assert (undone["kind"], undone["state"], undone["restored"]) == ("replay", "undone", 2)
        after, apart = self.letters(served, queue), {"move_count", "last_move_time"}
        shown = [{name: value for name, value in each.items() if name not in apart} for each in after]
        wanted = [{name: value for name, value in each.items() if name not in apart} for each in before[1:]]
        assert (shown, served.count(goal)) == (wanted, 0)
        assert all(each["reason"] for each in after)

    def test_in_the_background_to_several_queues(self, served: Asked, queue: str) -> None:
        failed, other = f"{queue}-failed", f"{queue}-other"
        for name in (failed, other):
            served.create(name)
        for name in (queue, other, queue):
            served.send(name, {"label": name})
            served.post(f"{at(name)}/move", {"to": failed})
        before = places(served, failed)
        begun = served.post(f"{at(failed)}/operations", {"action": "replay"}).json()
        until(lambda: state(served, begun["id"]) == "done")
        assert (served.labels(queue), served.labels(other), served.count(failed)) == ([queue] * 2, [other], 0)
        assert served.post(f"/operations/{begun['id']}/undo").json()["restored"] == 3
        assert (served.count(queue), served.count(other), places(served, failed)) == (0, 0, before)

    def test_only_if_asked_for_and_if_the_originals_have_gone(
        self, served: Asked, queue: str, goal: str
    ) -> None:
        ids = [each["lookup_id"] for each in self.dead(served, queue)]
        replayed = {"lookup_ids": ids[:1], "to": goal}
        path = f"{at(';deadletter')}/replay"
        assert served.post(path, {**replayed, "keep": True, "undo": True}).json()["operation"] is None
        assert served.post(path, replayed).json()["operation"] is None
        first = served.post(path, {**replayed, "lookup_ids": ids[1:2], "undo": True}).json()["operation"]
        more = {"lookup_ids": ids[2:], "to": goal, "undo": True, "operation": first}
        assert served.post(path, more).json()["operation"] == first
        moved = {"lookup_ids": ids[:1], "to": goal, "undo": True, "operation": first}
        refused = served.post(f"{at(';deadletter')}/move", moved)
        assert (refused.status_code, "another move" in refused.json()["detail"]) == (400, True)
        assert served.post(f"/operations/{first}/undo").json()["restored"] == 2


class TestEdit:
    def test_one_commit_sends_the_edit_and_deletes_the_original(self, served: Asked, queue: str) -> None:
        (first, *_) = filled(served, queue, 2)
        answer = served.post(
            f"{at(queue)}/messages/{first['lookup_id']}/edit", {"changes": {"label": "new", "text": "body"}}
        )
        done = answer.json()
        assert answer.status_code == 200, answer.text
        assert (done["edited_from"], done["changed"]["label"]) == (first["id"], ["0", "new"])
        assert served.labels(queue) == ["1", "new"]
        assert messages(served, queue)[1]["id"] == done["id"]
        second = served.post(f"{at(queue)}/messages/{first['lookup_id']}/edit", {"changes": {"label": "x"}})
        assert (second.status_code, served.labels(queue)) == (409, ["1", "new"])
        never = served.post(f"{at(queue)}/messages/{2**56 - 1}/edit", {"changes": {"label": "x"}})
        assert never.status_code == 404
        served.post(f"/operations/{done['operation']}/undo")
        assert served.labels(queue) == ["0", "1", "new"]

    def test_a_dead_letter_goes_to_its_destination(self, served: Asked, queue: str) -> None:
        dead = {"negative_journaling": True, "time_to_be_received": 0, "label": f"{queue} late"}
        served.send(queue, dead)
        (found,) = [each for each in messages(served, ";deadletter") if each["label"] == dead["label"]]
        changes = {"time_to_be_received": "infinite"}
        path = f"{at(';deadletter')}/messages/{found['lookup_id']}/edit"
        assert served.post(path, {"changes": changes}).status_code == 200
        assert served.labels(queue) == [dead["label"]]
        assert dead["label"] not in served.labels(";deadletter")

    def test_to_another_queue_and_kept(self, served: Asked, queue: str) -> None:
        served.create(f"{queue}-tx", transactional=True)
        (first,) = filled(served, queue, 1)
        wanted = {"changes": {"label": "copy"}, "to": f"{queue}-tx", "keep": True}
        done = served.post(f"{at(queue)}/messages/{first['lookup_id']}/edit", wanted).json()
        assert (done["operation"], served.labels(queue), served.labels(f"{queue}-tx")) == (
            None,
            ["0"],
            ["copy"],
        )

    @pytest.mark.parametrize(
        "changes",
        [{}, {"id": "x"}, {"lookup_id": "7"}, {"priority": 9}, {"nothing": 1}, {"arrival_time": "x"}],
    )
    def test_refused_changes_change_nothing(self, served: Asked, queue: str, changes: dict[str, Any]) -> None:
        (first,) = filled(served, queue, 1)
        answer = served.post(f"{at(queue)}/messages/{first['lookup_id']}/edit", {"changes": changes})
        assert (answer.status_code, served.labels(queue)) == (400, ["0"])

    def test_a_held_message_is_a_conflict(self, served: Asked, queue: str) -> None:
        (first,) = filled(served, queue, 1)
        served.receive(queue)
        answer = served.post(f"{at(queue)}/messages/{first['lookup_id']}/edit", {"changes": {"label": "x"}})
        assert answer.status_code == 409

    def test_a_goal_that_is_not_there_keeps_the_original(self, served: Asked, queue: str) -> None:
        (first,) = filled(served, queue, 1)
        wanted = {"changes": {"label": "x"}, "to": "nowhere"}
        answer = served.post(f"{at(queue)}/messages/{first['lookup_id']}/edit", wanted)
        assert (answer.status_code, served.labels(queue)) == (404, ["0"])
        far = {"changes": {"label": "far"}, "to": rf"DIRECT=TCP:{own_address()}\private$\far"}
        assert served.post(f"{at(queue)}/messages/{first['lookup_id']}/edit", far).status_code == 200


class TestAudit:
    def test_a_line_for_each_change(self, served: Asked, queue: str) -> None:
        filled(served, queue, 1)
        delete(served, queue, dry_run=True)
        served.post(f"{at(queue)}/purge", dry_run=True)
        served.ask("DELETE", at(queue), params={"dry_run": True})
        done = delete(served, queue)
        served.post(f"/operations/{done['id']}/undo")
        served.ask("DELETE", f"{at('nowhere')}")
        lines = served.get("/audit", limit=3).json()["lines"]
        assert [(each["what"], each["subject"]) for each in lines] == [
            ("undo", done["id"]),
            ("delete messages", queue),
            ("create queue", queue),
        ]
        assert lines[0]["line"] == lines[1]["line"] + 1


def test_after_a_restart(tmp_path: Path) -> None:
    """Operations and audit lines are in the store, and the chain is whole."""
    with asked(tmp_path) as served:
        served.create("orders")
        filled(served, "orders", 3)
        done = delete(served, "orders", limit=2)
    with asked(tmp_path) as served:
        (row,) = served.get("/operations").json()["operations"]
        assert (row["id"], row["state"]) == (done["id"], "done")
        assert served.post(f"/operations/{done['id']}/undo").json()["restored"] == 2
        assert served.labels("orders") == ["0", "1", "2"]
        assert len(served.get("/audit").json()["lines"]) == 3


def test_moves_can_be_undone_after_a_restart_and_not_for_ever(tmp_path: Path) -> None:
    """When the time is over the trash is emptied, and what was moved stays where it is."""
    with asked(tmp_path) as served:
        served.create("orders")
        served.create("archive")
        filled(served, "orders", 4)
        first, second = (move(served, "orders", "archive", limit=1)["operation"] for _ in range(2))
        deleted = delete(served, "orders", limit=1)["id"]
        third = move(served, "orders", "orders;trash")["operation"]
    with asked(tmp_path) as served:
        assert served.post(f"/operations/{first}/undo").json()["restored"] == 1
        assert (served.labels("orders"), served.labels("archive")) == (["0"], ["1"])
    with asked(tmp_path, "[api]\ntrash_s = 0\n") as served:
        states = {second: "finished", deleted: "over", third: "finished"}
        until(lambda: {each: state(served, each) for each in states} == states)
        assert (served.labels("archive"), served.labels("orders;trash")) == (["1"], ["3"])
        assert served.post(f"/operations/{second}/undo").status_code == 400


def state(served: Asked, operation: str) -> str:
    found: str = served.get(f"/operations/{operation}").json()["state"]
    return found
