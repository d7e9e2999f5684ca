"""Who may come in by TCP, what the audit log says of it, and what the API tells of itself."""

import json
import re
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from api.asked import V1, Api, Asked, asked, at
from data.served import until
from data.test_authorization import add_token, certificate
from tiercel.api.app import description
from tiercel.api.metrics import METRICS
from tiercel.security.tokens import Role

# What each role may do at the least; an admin may do it all.
_ROUTES: list[tuple[str, str, Any]] = [
    ("GET", "/queues", None),
    ("GET", "/queue-manager", None),
    ("GET", "/leases", None),
    ("POST", f"{at('guarded')}/messages", {"text": "x"}),
    ("POST", f"{at('guarded')}/receive", {}),
    ("POST", f"{at('guarded')}/move", {"to": "guarded;sub"}),
    ("POST", f"{at('guarded')}/copy", {"to": "other"}),
    ("POST", "/queues", {"path_name": "other", "exist_ok": True}),
    ("POST", f"{at('guarded')}/purge", None),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("entrance")


@pytest.fixture(scope="module")
def guarded(folder: Path) -> Iterator[Asked]:
    """A daemon with tokens, TLS and an audit log of its own."""
    cert, key = certificate(folder)
    options = f"""\
[api]
enabled = true
port = 0
tls_certificate = "{cert}"
tls_key = "{key}"
tokens = "{folder / "tokens"}"
audit = "{folder / "audit"}"
audit_messages = true
"""
    (folder / "tokens").touch(0o600)
    with asked(folder, options) as served:
        served.create("guarded")
        served.create("other")
        yield served


def client(guarded: Asked, folder: Path, token: str | None) -> Api:
    return guarded.by_tcp(token, verify=ssl.create_default_context(cafile=str(folder / "certificate.pem")))


@pytest.fixture
def tokens(folder: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    (folder / "tokens").write_text("")
    found = {str(role): add_token(folder / "tokens", f"by-{role}", role, capsys) for role in Role}
    found["both"] = add_token(folder / "tokens", "by-both", "receive,send", capsys)
    return found


class TestTokens:
    def test_roles(self, guarded: Asked, folder: Path, tokens: dict[str, str]) -> None:
        allowed: dict[str, list[int]] = {}
        for name, token in tokens.items():
            with client(guarded, folder, token).http as http:
                answers = [http.request(method, V1 + path, json=body) for method, path, body in _ROUTES]
            allowed[name] = [number for number, each in enumerate(answers) if each.status_code != 403]
            assert all(each.is_success or each.status_code == 403 for each in answers)
        everything = list(range(len(_ROUTES)))
        assert allowed == {
            "read": [0, 1, 2],
            "send": [3],
            "receive": [0, 1, 2, 4],
            "both": [0, 1, 2, 3, 4, 5, 6],
            "admin": everything,
        }

    def test_nobody_without_one(self, guarded: Asked, folder: Path) -> None:
        for token in (None, "tiercel_wrong"):
            with client(guarded, folder, token).http as http:
                answer = http.get(f"{V1}/queues")
                assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
                assert http.get("/metrics").status_code == 401
                assert [http.get(path).status_code for path in ("/health", "/ready")] == [200, 200]
                assert http.get(f"{V1}/docs").status_code == 200

    def test_what_the_data_process_asks_is_not_for_strangers(
        self, guarded: Asked, folder: Path, tokens: dict[str, str]
    ) -> None:
        with client(guarded, folder, tokens["admin"]).http as http:
            assert http.get("/internal/place").status_code == 404
            assert http.get("/data/v1/claims").status_code == 404
        assert guarded.http.get("/data/v1/claims").status_code == 200

    def test_a_lease_belongs_to_the_token_that_took_it(
        self, guarded: Asked, folder: Path, tokens: dict[str, str]
    ) -> None:
        guarded.create("leased")
        guarded.send("leased", {"label": "a"}, {"label": "b"})
        names = ("receive", "both", "read", "admin")
        taker, other, reader, boss = (client(guarded, folder, tokens[name]) for name in names)
        with taker.http, other.http, reader.http, boss.http:
            ids = {each["lease"] for each in taker.receive("leased", limit=2)}
            for lease in ids:
                for how in ("acknowledge", "return", "extend"):
                    assert other.post(f"/leases/{lease}/{how}").status_code == 403
            assert guarded.count("leased") == 2

            def shown(who: Api) -> set[str | None]:
                rows = who.get("/leases").json()["leases"]
                return {each["lease"] for each in rows if each["queue"].endswith("leased")}

            assert [shown(each) for each in (taker, other, reader, boss)] == [ids, {None}, {None}, ids]
            first, second = ids
            assert taker.post(f"/leases/{first}/acknowledge").status_code == 200
            assert other.post(f"/leases/{first}/acknowledge").status_code == 403
            assert boss.post(f"/leases/{second}/return").status_code == 200
        assert guarded.count("leased") == 1

    def test_the_audit_log(self, guarded: Asked, folder: Path, tokens: dict[str, str]) -> None:
        before = len((folder / "audit").read_text().splitlines())
        with client(guarded, folder, tokens["admin"]).http as http:
            http.patch(f"{V1}{at('guarded')}", json={"label": "new"})
            http.patch(f"{V1}{at('guarded')}", json={"quota_kib": -1})
            http.get(f"{V1}/queues")
        with client(guarded, folder, tokens["read"]).http as http:
            http.post(f"{V1}{at('guarded')}/purge")
        with client(guarded, folder, None).http as http:
            http.delete(f"{V1}{at('guarded')}")
        guarded.send("guarded", {})
        lines = [json.loads(line) for line in (folder / "audit").read_text().splitlines()[before:]]
        assert [(each["who"], each["what"], each["subject"], each["result"]) for each in lines] == [
            ("by-admin", "change queue", "guarded", "200"),
            ("by-admin", "change queue", "guarded", "400 MQ_ERROR_ILLEGAL_PROPERTY_VALUE"),
            ("by-read", "purge queue", "guarded", "403 MQ_ERROR_ACCESS_DENIED"),
            ("unknown", "delete queue", "guarded", "401 MQ_ERROR_ACCESS_DENIED"),
            (lines[4]["who"], "send", "guarded", "201"),
        ]
        assert lines[0]["changes"] == "label=new"
        assert re.fullmatch(r"uid \d+", lines[4]["who"])
        assert {each["event"] for each in lines} == {"audit"}
        assert not [each for each in guarded.events if each["event"] == "audit"]

    def test_a_backup_only_through_the_unix_socket(
        self, guarded: Asked, folder: Path, tokens: dict[str, str]
    ) -> None:
        with client(guarded, folder, tokens["admin"]).http as http:
            answer = http.post(f"{V1}/backup", json={"directory": str(folder / "backup")})
        assert answer.status_code == 403
        assert not (folder / "backup").exists()
        made = guarded.post("/backup", {"directory": str(folder / "backup")}).json()
        assert (made["directory"], made["problems"]) == (str(folder / "backup"), [])
        assert (folder / "backup" / "data.mdb").exists()
        again = guarded.post("/backup", {"directory": str(folder / "backup")})
        assert again.status_code >= 400


class TestWithoutTokens:
    def test_names_of_this_computer_only(self, served: Asked, queue: str) -> None:
        with served.by_tcp().http as http:
            path = f"{V1}{at(queue)}/purge"
            assert http.post(path).status_code == 200
            for headers in (
                {"host": "evil.example"},
                {"origin": "https://evil.example"},
                {"origin": "null"},
            ):
                answer = http.post(path, headers=headers)
                assert (answer.status_code, "set tokens in [api]" in answer.json()["fix"]) == (403, True)
            assert http.post(path, headers={"origin": str(http.base_url).rstrip("/")}).status_code == 200

    def test_changes_are_told_in_the_log(self, served: Asked) -> None:
        with served.by_tcp().http as http:
            http.post(f"{V1}/queues", json={"path_name": "logged"})

        def lines() -> list[dict[str, Any]]:
            return [each for each in served.events if each.get("subject") == "logged"]

        until(lambda: bool(lines()))
        assert [(each["what"], each["who"], each["address"]) for each in lines()] == [
            ("create queue", "anybody on this computer", "127.0.0.1")
        ]


class TestTold:
    def test_who_it_is(self, served: Asked) -> None:
        manager = served.get("/queue-manager").json()
        assert (manager["name"], manager["guid"]) == ("HOST", served.start["guid"])
        assert manager["addresses"] == [served.start["address"]]
        assert manager["is_running"]
        before = manager["properties"]["queue_manager_quota_kib"]
        changed = served.ask("PATCH", "/queue-manager", json={"queue_manager_quota_kib": before + 1}).json()
        assert changed["properties"]["queue_manager_quota_kib"] == before + 1
        assert served.ask("PATCH", "/queue-manager", json={"quota": 1}).status_code == 400
        assert changed["totals"]["queues"] > 0

    def test_lists_that_are_empty(self, served: Asked) -> None:
        assert served.get("/connections").json() == {"connections": []}
        assert served.get("/transactions").json() == {"transactions": []}
        assert served.get("/claims").json() == {"claims": []}
        assert served.get("/stages").json() == {"stages": []}
        nobody = "00000000-0000-0000-0000-000000000001"
        for how in ("commit", "abort"):
            assert served.post(f"/transactions/{nobody}/{how}").status_code == 409
        assert served.post("/claims/release", {"consumer": "nobody"}).status_code == 404
        assert served.ask("DELETE", "/consumers/nobody").status_code == 404

    def test_health(self, served: Asked) -> None:
        assert served.http.get("/health").json() == {"status": "ok"}
        assert served.http.get("/ready").json() == {"status": "ready"}

    def test_there_is_nothing_else(self, served: Asked) -> None:
        assert served.get("/nothing").status_code == 404
        answer = served.ask("PUT", "/queues")
        assert (answer.status_code, answer.headers["content-type"]) == (405, "application/problem+json")

    def test_the_page_needs_nothing_from_elsewhere(self, served: Asked) -> None:
        answer = served.get("/docs")
        assert answer.headers["content-type"].startswith("text/html")
        assert "connect-src 'self'" in answer.headers["content-security-policy"]
        assert not re.search(r"(src|href)=[\"']?(https?:)?//", answer.text)

    def test_the_description(self, served: Asked) -> None:
        found = served.get("/openapi.json").json()
        assert found == json.loads(json.dumps(description()))
        operations = [each for path in found["paths"].values() for each in path.values()]
        names = [each["operationId"] for each in operations]
        assert len(set(names)) == len(names)
        without = {each["operationId"] for each in operations if not each.get("x-roles")}
        assert without == {"get_health", "get_ready", "get_me"}


class TestMetrics:
    def samples(self, served: Asked) -> dict[str, float]:
        answer = served.http.get("/metrics")
        assert answer.headers["content-type"].startswith("text/plain")
        lines = [line for line in answer.text.splitlines() if not line.startswith("#")]
        return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}

    def test_a_queue(self, served: Asked, queue: str) -> None:
        labels = rf'{{kind="private",queue="HOST\\private$\\{queue}"}}'

        def numbers() -> list[float]:
            samples = self.samples(served)
            names = ("messages", "bytes", "locked_messages", "messages_in_total", "messages_out_total")
            return [samples[f"tiercel_queue_{name}{labels}"] for name in names]

        assert numbers() == [0, 0, 0, 0, 0]
        served.send(queue, {}, {}, {})
        size = served.get(at(queue)).json()["bytes"]
        served.receive(queue)
        assert numbers() == [3, size, 1, 3, 0]
        served.receive(queue, acknowledge="now")
        assert numbers()[3:] == [3, 1]
        assert self.samples(served)[f"tiercel_queue_oldest_message_age_seconds{labels}"] >= 0
        assert self.samples(served)["tiercel_leases"] >= 1

    def test_the_lag_of_a_consumer(self, served: Asked, queue: str) -> None:
        labels = rf'{{consumer="metered",queue="HOST\\private$\\{queue}"}}'
        served.send(queue, {}, {}, {})
        consumer = "/data/v1/consumers/metered"
        epoch = served.http.post(f"{consumer}/attach", json={"queues": [queue]}).json()["epoch"]
        claim = {"epoch": epoch, "queue": queue, "start": 0, "limit": 1}
        assert served.http.post(f"{consumer}/claim", json=claim).json()["hi"] == 1
        samples = self.samples(served)
        assert samples[f"tiercel_consumer_lag_messages{labels}"] == 2
        assert samples[f"tiercel_claimed_messages{labels}"] == 1
        served.post("/claims/release", {"consumer": "metered"})
        assert served.ask("DELETE", "/consumers/metered").status_code == 200

    def test_what_was_discarded(self, served: Asked, queue: str) -> None:
        name = 'tiercel_discards_total{reason="nack_q_purged"}'
        before = self.samples(served).get(name, 0)
        served.send(queue, {}, {})
        served.post(f"{at(queue)}/purge")
        assert self.samples(served)[name] == before + 2

    def test_commits(self, served: Asked, queue: str) -> None:
        before = self.samples(served)["tiercel_commit_seconds_count"]
        served.send(queue, {})
        after = self.samples(served)
        assert after["tiercel_commit_seconds_count"] >= before + 1
        assert after['tiercel_commit_seconds_bucket{le="+Inf"}'] == after["tiercel_commit_seconds_count"]

    def test_all_that_are_in_the_reference(self, served: Asked) -> None:
        text = served.http.get("/metrics").text
        for metric in METRICS:
            name = metric.name.removesuffix("_total") if metric.kind == "counter" else metric.name
            assert re.search(rf"^# TYPE {name}(_total|_info)? ", text, re.MULTILINE), name
