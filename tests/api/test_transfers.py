"""Messages that move from one queue to another over HTTP, or are copied."""

from typing import Any

import pytest

from addresses import own_address
from api.asked import Asked, at


def messages(served: Asked, queue: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = served.get(f"{at(queue)}/messages").json()["messages"]
    return found


def carry(served: Asked, how: str, queue: str, to: str, **more: Any) -> Any:
    return served.post(f"{at(queue)}/{how}", {"to": to, **more})


@pytest.fixture
def goal(served: Asked, queue: str) -> str:
    served.create(f"{queue}-goal")
    return f"{queue}-goal"


class TestMove:
    def test_keeps_everything(self, served: Asked, queue: str, goal: str) -> None:
        ids = served.send(queue, *({"label": f"{number}", "priority": number} for number in range(3)))
        before = messages(served, queue)
        assert carry(served, "move", queue, goal).json()["count"] == 3
        assert served.count(queue) == 0
        own = {"lookup_id", "move_count", "last_move_time"}
        after = messages(served, goal)
        assert sorted(each["id"] for each in after) == sorted(ids)
        for old, new in zip(before, after, strict=True):
            assert {**old, **{name: new[name] for name in own}} == new
        assert [each["move_count"] for each in after] == [1, 1, 1]

    def test_in_parts(self, served: Asked, queue: str, goal: str) -> None:
        lines = b"".join(b'{"label":"%d"}\n' % number for number in range(250))
        kind = {"content-type": "application/x-ndjson"}
        served.ask("POST", f"{at(queue)}/messages", content=lines, headers=kind)
        assert carry(served, "move", queue, goal, limit=120).json()["count"] == 120
        assert (served.count(queue), served.count(goal)) == (130, 120)
        answer = carry(served, "move", queue, goal).json()
        assert (answer["count"], answer["next"]) == (130, None)
        assert [
            each["label"] for each in served.get(f"{at(goal)}/messages", limit=1000).json()["messages"]
        ] == [str(number) for number in range(250)]

    def test_those_that_are_named(self, served: Asked, queue: str, goal: str) -> None:
        served.send(queue, *({"label": f"{number}"} for number in range(4)))
        chosen = [each["lookup_id"] for each in messages(served, queue)][1::2]
        assert carry(served, "move", queue, goal, lookup_ids=chosen[::-1]).json()["count"] == 2
        assert (served.labels(queue), served.labels(goal)) == (["0", "2"], ["3", "1"])
        gone = carry(
            served, "move", queue, goal, lookup_ids=[messages(served, queue)[0]["lookup_id"], chosen[0]]
        )
        assert (gone.status_code, "1 messages were moved before" in gone.json()["detail"]) == (404, True)
        assert served.labels(queue) == ["2"]

    def test_into_a_subqueue_and_back(self, served: Asked, queue: str) -> None:
        served.send(queue, {"label": "a"}, {"label": "b"})
        assert carry(served, "move", queue, f"{queue};poison", limit=1).json()["count"] == 1
        assert served.labels(f"{queue};poison") == ["a"]
        assert served.get(at(f"{queue};poison")).json()["kind"] == "subqueue"
        assert carry(served, "move", f"{queue};poison", queue).json()["count"] == 1
        assert served.labels(queue) == ["b", "a"]
        assert served.get(at(f"{queue};poison")).status_code == 404

    @pytest.mark.parametrize("transactional", [True, False])
    def test_between_transactional_queues_and_others(self, served: Asked, transactional: bool) -> None:
        names = [f"move-{transactional}-{end}" for end in ("from", "to")]
        served.create(names[0], transactional=transactional)
        served.create(names[1], transactional=not transactional)
        (identifier,) = served.send(names[0], {"label": "a", "text": "body"})
        assert carry(served, "move", *names).json()["count"] == 1
        assert served.count(names[0]) == 0
        (found,) = messages(served, names[1])
        assert (found["label"], found["body"]) == ("a", "Ym9keQ==")
        assert found["id"] != identifier
        assert ("transaction_id" in found) is not transactional

    def test_dead_letters_to_where_they_belong(self, served: Asked, queue: str) -> None:
        far = rf"DIRECT=TCP:{own_address(8)}\private$\far"
        served.send(far, {"label": "dead", "negative_journaling": True})
        served.post(f"{at(far)}/purge")
        assert served.labels(";deadletter") == ["dead"]
        assert carry(served, "move", ";deadletter", queue).json()["count"] == 1
        assert served.labels(queue) == ["dead"]
        assert served.labels(";deadletter") == []

    def test_to_another_computer_and_off_the_way(self, served: Asked, queue: str) -> None:
        far, farther = (rf"DIRECT=TCP:{own_address(9)}\private$\{name}" for name in ("a", "b"))
        served.send(queue, {"label": "x", "negative_journaling": True})
        assert carry(served, "move", queue, far).json()["count"] == 1
        assert carry(served, "move", far, farther).json()["count"] == 1
        assert (served.labels(far), served.labels(farther)) == ([], ["x"])
        assert carry(served, "move", farther, queue).json()["count"] == 1
        assert served.labels(queue) == ["x"]
        assert served.labels(";deadletter") == []  # it lives

    @pytest.mark.parametrize("how", ["move", "copy"])
    @pytest.mark.parametrize("transactional", [True, False])
    def test_another_computer_gets_what_the_message_is(
        self, served: Asked, how: str, transactional: bool
    ) -> None:
        source, far = (
            f"{how}-{transactional}-near",
            rf"DIRECT=TCP:{own_address(7)}\private$\{how}-{transactional}",
        )
        served.create(source, transactional=transactional)
        served.send(source, {"label": "a"}, {"label": "b"})
        assert carry(served, how, source, far).json()["count"] == 2
        assert ["transaction_id" in each for each in messages(served, far)] == [transactional] * 2

    @pytest.mark.parametrize("transactional", [True, False])
    def test_what_cannot_be_delivered_elsewhere_is_not_gone(self, served: Asked, transactional: bool) -> None:
        source, far = f"lost-{transactional}", rf"DIRECT=TCP:{own_address(7)}\private$\lost-{transactional}"
        served.create(source, transactional=transactional)
        served.send(source, {"label": "a"})
        assert carry(served, "move", source, far).json()["count"] == 1
        served.post(f"{at(far)}/purge")
        dead = ";deadxact" if transactional else ";deadletter"
        assert "a" in served.labels(dead)
        served.post(f"{at(dead)}/purge")

    def test_a_copy_asks_for_no_dead_letter(self, served: Asked, queue: str) -> None:
        far = rf"DIRECT=TCP:{own_address(7)}\private$\copied"
        served.send(queue, {"label": "a"})
        assert carry(served, "copy", queue, far).json()["count"] == 1
        assert "negative_journaling" not in messages(served, far)[0]

    def test_another_computer_gets_what_is_asked_for(self, served: Asked, queue: str) -> None:
        far = rf"DIRECT=TCP:{own_address(7)}\private$\asked"
        served.send(queue, {"label": "a"})
        assert carry(served, "move", queue, far, transactional=True).json()["count"] == 1
        (found,) = messages(served, far)
        assert "transaction_id" in found

    def test_leaves_what_others_hold(self, served: Asked, queue: str, goal: str) -> None:
        served.send(queue, {"label": "held"}, {"label": "free"})
        (held,) = served.receive(queue)
        assert carry(served, "move", queue, goal).json()["count"] == 1
        assert served.labels(goal) == ["free"]
        assert carry(served, "move", queue, goal, lookup_ids=[held["lookup_id"]]).status_code == 404
        assert served.post(f"/leases/{held['lease']}/acknowledge").status_code == 200

    def test_stops_where_there_is_no_room(self, served: Asked, queue: str) -> None:
        served.create("move-small", quota_kib=1)
        served.send(queue, *({"label": f"{number}", "text": "x" * 300} for number in range(4)))
        answer = carry(served, "move", queue, "move-small")
        assert (answer.status_code, "2 messages were moved before" in answer.json()["detail"]) == (507, True)
        assert (served.labels("move-small"), served.labels(queue)) == (["0", "1"], ["2", "3"])

    @pytest.mark.parametrize("how", ["move", "copy"])
    def test_refuses_what_makes_no_sense(self, served: Asked, queue: str, how: str) -> None:
        served.send(queue, {})
        for to, status in ((queue, 400), ("nowhere", 404), (";journal", 400), ("a+b", 400)):
            assert carry(served, how, queue, to).status_code == status
        assert served.post(f"{at(queue)}/{how}", {}).status_code == 400
        assert carry(served, how, "nowhere", queue).status_code == 404
        assert carry(served, how, queue, "other;sub").status_code in {400, 404}
        assert served.count(queue) == 1


class TestReplay:
    def replay(self, served: Asked, queue: str, **more: Any) -> Any:
        return served.post(f"{at(queue)}/replay", more)

    def test_each_goes_to_its_own_destination(self, served: Asked) -> None:
        far = [rf"DIRECT=TCP:{own_address(6)}\private$\{name}" for name in ("a", "b")]
        for name in far:
            served.send(name, {"label": name, "negative_journaling": True, "application_tag": 7})
            served.post(f"{at(name)}/purge")
        assert served.labels(";deadletter") == far
        assert self.replay(served, ";deadletter", dry_run=True).json()["count"] == 2
        assert self.replay(served, ";deadletter").json()["count"] == 2
        for name in far:
            (found,) = messages(served, name)
            assert (found["label"], found["application_tag"]) == (name, 7)
        assert served.labels(";deadletter") == []

    def test_nothing_is_changed_in_transactional_ones(self, served: Asked) -> None:
        far = rf"DIRECT=TCP:{own_address(6)}\private$\transactional"
        sent = {"label": "t", "negative_journaling": True, "priority": 0}
        assert served.post(f"{at(far)}/messages", sent, transactional=True).status_code == 201
        served.post(f"{at(far)}/purge")
        assert served.labels(";deadxact") == ["t"]
        assert self.replay(served, ";deadxact").json()["count"] == 1
        (found,) = messages(served, far)
        assert (found["label"], "transaction_id" in found) == ("t", True)
        assert served.labels(";deadxact") == []

    def test_the_originals_may_stay(self, served: Asked) -> None:
        served.create("replay-journal", journaling=True)
        (identifier,) = served.send("replay-journal", {"label": "again"})
        (held,) = served.receive("replay-journal")
        served.post(f"/leases/{held['lease']}/acknowledge")
        assert served.labels("replay-journal;journal") == ["again"]
        assert self.replay(served, "replay-journal;journal", keep=True).json()["count"] == 1
        (found,) = messages(served, "replay-journal")
        assert (found["label"], found["id"] != identifier) == ("again", True)
        assert served.labels("replay-journal;journal") == ["again"]

    @pytest.mark.parametrize("dry_run", [True, False])
    def test_only_with_the_same_id(self, served: Asked, queue: str, *, dry_run: bool) -> None:
        """What would become a new message is refused, in a dry run too; the message stays."""
        served.create(f"{queue}-transactional", transactional=True)
        far = rf"DIRECT=TCP:{own_address(6)}\private$\{queue}"
        (identifier,) = served.send(queue, {"label": "a"})
        served.post(f"{at(queue)}/move", {"to": f"{queue};failed"})
        wish = {"same_id": True, "dry_run": dry_run}
        for more in ({"to": far}, {"to": f"{queue}-transactional"}, {"keep": True}):
            answer = self.replay(served, f"{queue};failed", **wish, **more)
            assert (answer.status_code, "a new id" in answer.json()["detail"]) == (400, True)
        assert served.labels(f"{queue};failed") == ["a"]
        assert self.replay(served, f"{queue};failed", **wish).json()["count"] == 1
        if not dry_run:
            assert [each["id"] for each in messages(served, queue)] == [identifier]

    def test_out_of_a_subqueue(self, served: Asked, queue: str) -> None:
        ids = served.send(queue, {"label": "a"}, {"label": "b"})
        carry(served, "move", queue, f"{queue};poison")
        assert self.replay(served, f"{queue};poison").json()["count"] == 2
        assert [each["id"] for each in messages(served, queue)] == ids

    def test_what_has_no_place_to_go_stays(self, served: Asked, queue: str) -> None:
        served.send(queue, {"label": "a"})
        answer = self.replay(served, queue)
        assert (answer.status_code, "source queue itself" in answer.json()["detail"]) == (400, True)
        served.create("replay-other")
        carry(served, "move", queue, "replay-other")
        served.ask("DELETE", at(queue))
        answer = self.replay(served, "replay-other")
        assert (answer.status_code, "was sent to it" in answer.json()["detail"]) == (404, True)
        assert served.labels("replay-other") == ["a"]
        served.create("replay-goal")
        assert self.replay(served, "replay-other", to="replay-goal").json()["count"] == 1


class TestCopy:
    def test_leaves_the_originals(self, served: Asked, queue: str, goal: str) -> None:
        served.send(queue, {"label": "a", "text": "1", "priority": 6}, {"label": "b"})
        assert carry(served, "copy", queue, goal).json()["count"] == 2
        old, new = messages(served, queue), messages(served, goal)
        assert [each["label"] for each in old] == [each["label"] for each in new] == ["a", "b"]
        assert {each["id"] for each in old}.isdisjoint(each["id"] for each in new)
        assert new[0]["priority"] == 6

    def test_goes_on_where_it_was(self, served: Asked, queue: str, goal: str) -> None:
        served.send(queue, *({"label": f"{number}"} for number in range(5)))
        after, counts = "start", []
        while after is not None:
            answer = carry(served, "copy", queue, goal, limit=2, after=after).json()
            counts.append(answer["count"])
            after = answer["next"]
        assert counts == [2, 2, 1]
        assert served.labels(goal) == ["0", "1", "2", "3", "4"]

    def test_a_dry_run_only_counts(self, served: Asked, queue: str, goal: str) -> None:
        served.send(queue, {}, {})
        for how in ("copy", "move"):
            answer = carry(served, how, queue, goal, dry_run=True).json()
            assert (answer["count"], answer["dry_run"]) == (2, True)
        assert (served.count(queue), served.count(goal)) == (2, 0)
