"""Who has access: the tokens of the API, their last use, and revoking one."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from api.asked import Api, Asked, asked
from api.test_console_login import OWN_GET, Browser, bearer
from tiercel.security.tokens import Role, Tokens, new_token

Client = Callable[[str], Api]
ROLES = {"boss": Role.ADMIN, "shop": Role.SEND, "spark": Role.RECEIVE}


@pytest.fixture
def tokens(tmp_path: Path) -> dict[str, str]:
    tokens = {name: new_token() for name in ROLES}
    file = tmp_path / "tokens"
    file.touch(0o600)
    file.write_text(Tokens(tuple(bearer(name, tokens[name], role) for name, role in ROLES.items())).text())
    return tokens


@pytest.fixture
def client(served: Asked, tokens: dict[str, str]) -> Iterator[Client]:
    """Clients by the names of their tokens."""
    with ExitStack() as stack:

        def make(name: str) -> Api:
            made = served.by_tcp(tokens[name])
            stack.enter_context(made.http)
            return made

        yield make


@pytest.fixture
def browser(served: Asked) -> Iterator[Browser]:
    browser = Browser(served.start["api"])
    with browser.http:
        yield browser


@pytest.fixture
def served(tmp_path: Path, tokens: dict[str, str]) -> Iterator[Asked]:
    del tokens
    with asked(tmp_path, f'[api]\nenabled = true\nport = 0\ntokens = "{tmp_path}/tokens"\n') as served:
        yield served


def test_are_listed_with_their_last_use_and_never_themselves(
    tmp_path: Path, served: Asked, tokens: dict[str, str], browser: Browser, client: Client
) -> None:
    client("spark").get("/queues")
    browser.log_in(tokens["boss"])
    answer = browser.ask("GET", "/tokens", headers=OWN_GET)
    assert answer.json()["file"] == str(tmp_path / "tokens")
    boss, shop, spark = answer.json()["tokens"]
    assert (boss["name"], boss["roles"], boss["logins"], boss["is_own"]) == ("boss", ["admin"], 1, True)
    assert (shop["last_used"], shop["logins"], shop["is_own"]) == (None, 0, False)
    assert spark["last_used"] is not None
    file = (tmp_path / "tokens").read_text()
    assert not any(word in answer.text for line in file.splitlines() for word in line.split()[2:])
    assert not any(each["is_own"] for each in served.get("/tokens").json()["tokens"])


def test_a_revoked_one_ends_at_once_with_its_logins(
    tokens: dict[str, str], browser: Browser, client: Client
) -> None:
    spark, boss = client("spark"), client("boss")
    browser.log_in(tokens["spark"])
    assert browser.ask("GET", "/queues", headers=OWN_GET).status_code == 200
    assert boss.ask("DELETE", "/tokens/spark").json() == {"revoked": "spark"}
    assert browser.ask("GET", "/queues", headers=OWN_GET).status_code == 401
    assert spark.get("/queues").status_code == 401
    assert [each["name"] for each in boss.get("/tokens").json()["tokens"]] == ["boss", "shop"]
    (line,) = [each for each in boss.get("/audit").json()["lines"] if each["what"] == "revoke token"]
    assert (line["who"], line["subject"]) == ("boss", "spark")


def test_revoking_is_refused(tmp_path: Path, served: Asked, client: Client) -> None:
    boss = client("boss")
    assert boss.ask("DELETE", "/tokens/nobody").status_code == 404
    own = boss.ask("DELETE", "/tokens/boss")
    assert (own.status_code, "the request itself uses it" in own.text) == (400, True)
    for name in ("shop", "spark"):
        assert client(name).ask("DELETE", "/tokens/boss").status_code == 403
        assert client(name).get("/tokens").status_code == 403
    (tmp_path / "tokens").chmod(0o644)
    assert served.ask("DELETE", "/tokens/boss").status_code == 404, (
        "a file that others can read has no tokens"
    )
    (tmp_path / "tokens").chmod(0o600)
    assert served.ask("DELETE", "/tokens/boss").status_code == 200, "the owner of the store needs no token"


def test_there_may_be_none(tmp_path: Path) -> None:
    with asked(tmp_path, "[api]\nenabled = true\nport = 0\n") as served:
        assert served.get("/tokens").json() == {"file": None, "tokens": []}
        assert served.ask("DELETE", "/tokens/boss").status_code == 404
