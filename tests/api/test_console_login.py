"""Logins of browsers: which requests a cookie is good for, and when it ends."""

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from api.asked import Api, Asked, asked
from tiercel.api import sessions
from tiercel.api.sessions import IDLE_S, LONGEST_S, FailedLogins, Sessions, TooManyAttemptsError
from tiercel.security.tokens import Bearer, Role, Tokens, digest_of, new_token

PROXY = "https://queues.example"
OWN_GET = {"Sec-Fetch-Site": "same-origin"}


def bearer(name: str, token: str, *roles: Role) -> Bearer:
    return Bearer(name, frozenset(roles), digest_of(token))


class Browser(Api):
    """A client that sends what a browser sends for a page of the console."""

    def __init__(self, address: str) -> None:
        super().__init__(httpx.Client(base_url=address, timeout=60))
        self.own = {**OWN_GET, "X-Tiercel": "1", "Origin": address}

    def log_in(self, token: str, **headers: str) -> httpx.Response:
        return self.http.post("/console/login", json={"token": token}, headers=self.own | headers)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("login")


@pytest.fixture(scope="module")
def tokens() -> dict[str, str]:
    return {name: new_token() for name in ("admin", "read", "brief")}


@pytest.fixture(scope="module")
def served(folder: Path, tokens: dict[str, str]) -> Iterator[Asked]:
    write_tokens(folder, tokens)
    options = f'[api]\nenabled = true\nport = 0\ntokens = "{folder}/tokens"\ntrusted_origins = ["{PROXY}"]\n'
    with asked(folder, options) as served:
        served.create("q")
        yield served


def write_tokens(folder: Path, tokens: dict[str, str]) -> None:
    roles = {"admin": Role.ADMIN, "read": Role.READ, "brief": Role.READ}
    bearers = tuple(bearer(name, token, roles[name]) for name, token in tokens.items())
    file = folder / "tokens"
    file.touch(0o600)
    file.write_text(Tokens(bearers).text())


@pytest.fixture
def browser(served: Asked) -> Iterator[Browser]:
    browser = Browser(served.start["api"])
    with browser.http:
        yield browser


@pytest.fixture
def admin(browser: Browser, tokens: dict[str, str]) -> Browser:
    assert browser.log_in(tokens["admin"]).status_code == 200
    return browser


class TestLogin:
    def test_gives_a_cookie_that_scripts_and_other_sites_cannot_use(
        self, browser: Browser, tokens: dict[str, str]
    ) -> None:
        answer = browser.log_in(tokens["read"])
        assert answer.json() == {"name": "read"}
        cookie = answer.headers["set-cookie"]
        assert re.fullmatch(
            r"tiercel_session=[\w-]{43}; HttpOnly; Max-Age=43200; Path=/; SameSite=strict", cookie
        )
        assert tokens["read"] not in cookie
        assert browser.ask("GET", "/me", headers=OWN_GET).json()["name"] == "read"

    def test_is_secure_behind_https(self, browser: Browser, tokens: dict[str, str]) -> None:
        assert "; Secure" in browser.log_in(tokens["read"], Origin=PROXY).headers["set-cookie"]

    @pytest.mark.parametrize(
        "forged",
        [
            {"Sec-Fetch-Site": "cross-site"},
            {"Sec-Fetch-Site": "same-site"},
            {"X-Tiercel": ""},
            {"Origin": "https://evil.example"},
            {"Origin": "null"},
        ],
        ids=str,
    )
    def test_comes_from_the_page_itself(
        self, browser: Browser, tokens: dict[str, str], forged: dict[str, str]
    ) -> None:
        answer = browser.log_in(tokens["admin"], **forged)
        assert answer.status_code == 403
        assert "set-cookie" not in answer.headers

    def test_with_a_wrong_token(self, browser: Browser) -> None:
        assert browser.log_in("tiercel_wrong").status_code == 401
        assert browser.http.post("/console/login", content=b"[1]", headers=browser.own).status_code == 400

    def test_ends_with_a_logout(self, admin: Browser) -> None:
        cookie = {"Cookie": f"tiercel_session={admin.http.cookies['tiercel_session']}"}
        assert admin.http.post("/console/logout", headers=admin.own).status_code == 200
        assert admin.ask("GET", "/me", headers={**OWN_GET, **cookie}).status_code == 401

    def test_ends_with_its_token(self, browser: Browser, folder: Path, tokens: dict[str, str]) -> None:
        assert browser.log_in(tokens["brief"]).status_code == 200
        assert browser.ask("GET", "/queues", headers=OWN_GET).status_code == 200
        write_tokens(folder, {name: token for name, token in tokens.items() if name != "brief"})
        try:
            assert browser.ask("GET", "/queues", headers=OWN_GET).status_code == 401
        finally:
            write_tokens(folder, tokens)


class TestCookie:
    @pytest.mark.parametrize(
        "headers",
        [{}, {"Sec-Fetch-Site": "none"}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}],
        ids=str,
    )
    def test_does_not_read_for_other_pages(self, admin: Browser, headers: dict[str, str]) -> None:
        assert admin.ask("GET", "/queues", headers=headers).status_code == 401

    @pytest.mark.parametrize(
        "forged",
        [
            {"Sec-Fetch-Site": "cross-site"},
            {"Sec-Fetch-Site": ""},
            {"X-Tiercel": ""},
            {"X-Tiercel": "0"},
            {"Origin": ""},
            {"Origin": "null"},
            {"Origin": "https://evil.example"},
            {"Host": "evil.example"},
        ],
        ids=str,
    )
    def test_does_not_change_anything_for_other_pages(
        self, served: Asked, admin: Browser, forged: dict[str, str]
    ) -> None:
        for method, path in [("POST", "/queues/q/purge"), ("DELETE", "/queues/q"), ("PATCH", "/queues/q")]:
            answer = admin.ask(method, path, headers=admin.own | forged)
            assert answer.status_code == 401
        assert served.get("/queues/q").status_code == 200

    def test_changes_things_for_the_page(self, admin: Browser) -> None:
        assert admin.ask("POST", "/queues/q/purge", headers=admin.own).status_code == 200
        behind_proxy = admin.own | {"Host": "10.0.0.7:8801", "Origin": PROXY}
        assert admin.ask("POST", "/queues/q/purge", headers=behind_proxy).status_code == 200

    def test_has_the_roles_of_its_token(self, browser: Browser, tokens: dict[str, str]) -> None:
        browser.log_in(tokens["read"])
        assert browser.ask("GET", "/queues", headers=OWN_GET).status_code == 200
        answer = browser.ask("POST", "/queues/q/purge", headers=browser.own)
        assert (answer.status_code, "lacks the role admin" in answer.text) == (403, True)

    def test_of_nobody(self, browser: Browser) -> None:
        browser.http.cookies.set("tiercel_session", "x" * 43)
        assert browser.ask("GET", "/queues", headers=OWN_GET).status_code == 401


class TestSessions:
    def test_end_after_an_hour_without_use(self) -> None:
        held = Sessions()
        cookie = held.begin("digest", 0)
        assert held.find(cookie, IDLE_S - 1) == "digest"
        assert held.find(cookie, 2 * IDLE_S - 2, is_use=False) == "digest"
        assert held.find(cookie, 2 * IDLE_S - 1) is None
        assert held.find(cookie, 0) is None

    def test_end_after_twelve_hours_of_use(self) -> None:
        held = Sessions()
        cookie = held.begin("digest", 0)
        for minute in range(0, 12 * 60, 30):
            assert held.find(cookie, minute * 60) == "digest"
        assert held.find(cookie, LONGEST_S) is None

    def test_are_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sessions, "_MAX_SESSIONS", 2)
        held = Sessions()
        first, second = held.begin("1", 0), held.begin("2", 0)
        held.find(first, 1)
        held.begin("3", 2)
        assert (held.find(first, 3), held.find(second, 3)) == ("1", None)

    def test_the_cookie_is_not_kept(self) -> None:
        held = Sessions()
        cookie = held.begin("digest", 0)
        assert cookie not in repr(vars(held))


class TestFailedLogins:
    def test_of_an_address_are_limited_for_a_minute(self) -> None:
        failed = FailedLogins()
        for _ in range(5):
            failed.check("192.0.2.1", 100)
            failed.add("192.0.2.1")
        with pytest.raises(TooManyAttemptsError):
            failed.check("192.0.2.1", 101)
        failed.check("192.0.2.2", 101)
        failed.check("192.0.2.1", 161)

    def test_of_all_addresses_are_limited(self) -> None:
        failed = FailedLogins()
        for number in range(100):
            failed.check(f"192.0.2.{number}", 100)
            failed.add(f"192.0.2.{number}")
        with pytest.raises(TooManyAttemptsError):
            failed.check("198.51.100.1", 101)


def test_a_sixth_wrong_token_is_not_even_looked_at(tmp_path: Path, tokens: dict[str, str]) -> None:
    write_tokens(tmp_path, tokens)
    with asked(tmp_path, f'[api]\nenabled = true\nport = 0\ntokens = "{tmp_path}/tokens"\n') as served:
        browser = Browser(served.start["api"])
        with browser.http:
            assert [browser.log_in("wrong").status_code for _ in range(5)] == [401] * 5
            answer = browser.log_in(tokens["admin"])
            assert (answer.status_code, answer.headers["retry-after"]) == (429, "60")


def test_without_tokens_there_is_no_login(tmp_path: Path) -> None:
    with asked(tmp_path, "[api]\nenabled = true\nport = 0\n") as served:
        browser = Browser(served.start["api"])
        with browser.http:
            assert browser.log_in("any").status_code == 400
            assert browser.get("/me").json()["roles"] == ["admin", "read", "receive", "send"]
            assert browser.ask("GET", "/me", headers={"Host": "evil.example"}).status_code == 403
