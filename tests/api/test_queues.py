"""Queues over HTTP: made, listed, looked at, changed, purged, deleted."""

import pytest

from api.asked import Asked, at


class TestCreate:
    def test_tells_all_of_it(self, served: Asked) -> None:
        answer = served.post("/queues", {"path_name": "made", "label": "Made", "quota_kib": 10})
        assert answer.status_code == 201
        queue = answer.json()
        assert queue["path_name"] == r"HOST\private$\made"
        assert queue["format_name"] == r"DIRECT=OS:HOST\private$\made"
        shown = {
            name: queue[name] for name in ("name", "kind", "label", "quota_kib", "count", "transactional")
        }
        assert shown == {
            "name": "made",
            "kind": "private",
            "label": "Made",
            "quota_kib": 10,
            "count": 0,
            "transactional": False,
        }
        assert served.get(at(r".\private$\made")).json() == queue
        assert served.get(at(r"private$\made")).json() == queue
        assert served.get(at("DIRECT=OS:localhost\\private$\\made")).json() == queue

    def test_once_only_unless_told_otherwise(self, served: Asked, queue: str) -> None:
        again = served.post("/queues", {"path_name": queue})
        assert (again.status_code, again.json()["code"]) == (409, "MQ_ERROR_QUEUE_EXISTS")
        taken = served.post("/queues", {"path_name": queue, "exist_ok": True, "label": "another"})
        assert (taken.status_code, taken.json()["label"]) == (200, "")

    def test_a_public_queue_has_its_whole_name(self, served: Asked) -> None:
        assert served.post("/queues", {"path_name": r".\public"}).json()["kind"] == "public"
        assert served.get(at(r".\public")).json()["name"] == r".\public"

    @pytest.mark.parametrize(
        ("body", "words"),
        [
            (
                {"path_name": "a", "lable": "x"},
                "lable: there is no such property (present: 'x'). Perhaps label",
            ),
            ({"path_name": "a", "journaling": "yes"}, "journaling"),
            ({"path_name": "a", "privacy_level": "secret"}, "privacy_level"),
            ({"path_name": "a", "type": "7"}, "(present: '7', limit: a GUID). Give a GUID."),
            ({"path_name": "a", "quota_kib": -1}, "the quota of"),
            ({"path_name": "a+b"}, "the queue name holds the character '+'"),
            ({"path_name": r"other\private$\q"}, "queues are created on this computer only"),
            ({"path_name": "q;journal"}, "only private and public queues are created"),
            ({"path_name": "PUBLIC=x"}, ""),
            ({}, "path_name: it is missing. Give path_name."),
            ([], ""),
        ],
        ids=lambda value: value if isinstance(value, str) else None,
    )
    def test_refuses_what_cannot_be(self, served: Asked, body: object, words: str) -> None:
        answer = served.post("/queues", body)
        assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json")
        assert words in answer.json()["detail"]
        assert served.get(at("a")).status_code == 404


class TestList:
    def test_by_pattern_and_kind(self, served: Asked) -> None:
        for name in ("list-a", "list-b"):
            served.create(name, journaling=True)
        served.send("list-a", {})
        served.receive("list-a", acknowledge="now")

        def listed(**query: str) -> list[str]:
            return [each["name"] for each in served.get("/queues", **query).json()["queues"]]

        assert listed(pattern="list-?") == ["list-a", "list-b"]
        assert listed(pattern=r"*\LIST-A") == ["list-a"]
        assert listed(pattern="list-*", kind="journal") == ["list-a;JOURNAL", "list-b;JOURNAL"]
        assert listed(kind="system") == [r".\system$;JOURNAL", r".\system$;DEADLETTER", r".\system$;DEADXACT"]
        assert "list-a;JOURNAL" in listed(kind="all")
        assert served.get(at("list-a")).json()["journal_count"] == 1
        assert served.get("/queues", kind="privat").status_code == 400

    def test_nothing_of_the_protocols_own(self, served: Asked) -> None:
        rows = served.get("/queues", kind="all").json()["queues"]
        assert not [each for each in rows if "order_queue$" in each["path_name"]]
        assert served.get(at("order_queue$")).status_code == 404


class TestNames:
    def test_every_spelling(self, served: Asked) -> None:
        served.create("spelt")
        for name in ("spelt", r"private$\spelt", r"FormatName:DIRECT=OS:.\private$\spelt"):
            assert served.get(at(name)).json()["name"] == "spelt"
            sent = {"response_queue": name}
            assert served.post(f"{at(name)}/messages", sent).status_code == 201

    def test_the_nearest_is_named(self, served: Asked) -> None:
        served.create("invoices")
        answer = served.get(at("invoces"))
        assert (answer.status_code, answer.json()["fix"]) == (404, "perhaps invoices is meant")

    def test_one_of_another_computer_is_not_here(self, served: Asked) -> None:
        answer = served.get(at(r"DIRECT=HTTP://far/msmq/private$/q"))
        assert (answer.status_code, answer.json()["fix"]) == (404, "ask the computer that has the queue")


class TestChange:
    def test_lasts(self, served: Asked, queue: str) -> None:
        changes = {"label": "new \u00e4", "journaling": True, "privacy_level": "none", "quota_kib": None}
        answer = served.ask("PATCH", at(queue), json=changes)
        assert answer.status_code == 200
        found = served.get(at(queue)).json()
        assert {name: found[name] for name in changes} == changes

    def test_all_or_nothing(self, served: Asked, queue: str) -> None:
        answer = served.ask("PATCH", at(queue), json={"label": "x", "base_priority": 99999})
        assert answer.status_code == 400
        assert served.get(at(queue)).json()["label"] == ""

    def test_security_is_sddl(self, served: Asked, queue: str) -> None:
        before = served.get(at(queue)).json()["security"]
        assert served.ask("PATCH", at(queue), json={"security": before}).json()["security"] == before
        answer = served.ask("PATCH", at(queue), json={"security": "nix"})
        assert answer.json()["code"] == "MQ_ERROR_ILLEGAL_SECURITY_DESCRIPTOR"

    def test_not_of_a_journal(self, served: Asked, queue: str) -> None:
        assert served.ask("PATCH", at(f"{queue};journal"), json={"label": "x"}).status_code == 400


class TestPurgeAndDelete:
    def test_a_dry_run_only_counts(self, served: Asked, queue: str) -> None:
        served.send(queue, {"text": "a"}, {"text": "b"})
        for method, path in (("POST", f"{at(queue)}/purge"), ("DELETE", at(queue))):
            answer = served.ask(method, path, params={"dry_run": "true"}).json()
            assert (answer["count"], answer["dry_run"]) == (2, True)
        assert served.count(queue) == 2

    def test_purge_leaves_lines_in_the_ledger(self, served: Asked, queue: str) -> None:
        served.send(queue, {"label": "gone 1"}, {"label": "gone 2"})
        answer = served.post(f"{at(queue)}/purge").json()
        assert (answer["count"], answer["locked"]) == (2, 0)
        assert served.count(queue) == 0
        lines = served.get("/discards", limit=2).json()
        assert [each["label"] for each in lines["discards"]] == ["gone 2", "gone 1"]
        more = served.get("/discards", limit=1, before=lines["discards"][0]["line"]).json()["discards"]
        assert [each["label"] for each in more] == ["gone 1"]

    def test_a_long_queue_is_purged_in_parts(self, served: Asked, queue: str) -> None:
        lines = b'{"delivery":"recoverable"}\n' * 1200
        served.ask(
            "POST", f"{at(queue)}/messages", content=lines, headers={"content-type": "application/x-ndjson"}
        )
        assert served.post(f"{at(queue)}/purge").json()["count"] == 1200
        assert served.count(queue) == 0

    def test_delete(self, served: Asked, queue: str) -> None:
        served.send(queue, {})
        assert served.ask("DELETE", at(queue)).json()["count"] == 1
        assert served.get(at(queue)).status_code == 404

    @pytest.mark.parametrize("name", [";journal", ";deadletter", ";deadxact"])
    def test_not_what_every_computer_has(self, served: Asked, name: str) -> None:
        answer = served.ask("DELETE", at(name))
        assert (answer.status_code, answer.json()["fix"]) == (400, "purge it")

    def test_a_long_journal_goes_with_its_queue(self, served: Asked) -> None:
        served.create("long", journaling=True)
        lines = b'{"delivery":"recoverable"}\n' * 600
        headers = {"content-type": "application/x-ndjson"}
        served.ask("POST", f"{at('long')}/messages", content=lines, headers=headers)
        served.receive("long", limit=600, acknowledge="now")
        assert served.ask("DELETE", at("long")).json()["count"] == 600
        assert served.get(at("long;journal")).status_code == 404


class TestBodies:
    def test_that_are_no_json(self, served: Asked) -> None:
        for content in (b'{"path_name": ', b'{"path_name": "\xff"}', b"[" * 100_000):
            answer = served.ask(
                "POST", "/queues", content=content, headers={"content-type": "application/json"}
            )
            assert (answer.status_code, "body: it is not valid JSON" in answer.json()["detail"]) == (
                400,
                True,
            )

    def test_of_another_kind(self, served: Asked) -> None:
        answer = served.ask("POST", "/queues", content=b'{"path_name": "x"}')
        assert answer.status_code == 400

    def test_that_are_too_large(self, served: Asked) -> None:
        answer = served.post("/queues", {"path_name": "x" * (1 << 20)})
        assert (answer.status_code, "limit: 1048576 bytes" in answer.json()["detail"]) == (413, True)
