"""Every call of the API is refused to a token that lacks one of its roles, whatever it asks for."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from api.asked import Api, asked
from api.test_console_login import bearer
from tiercel.api.app import description
from tiercel.security.tokens import Role, Tokens, new_token


class Call(NamedTuple):
    method: str
    path: str
    roles: frozenset[Role]


def calls() -> list[Call]:
    """Of the description, with made-up names in the paths."""
    return [
        Call(method.upper(), path, frozenset(map(Role, operation["x-roles"])))
        for path, operations in description()["paths"].items()
        for method, operation in operations.items()
        if operation.get("x-roles")
    ]


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[Role, Api]]:
    folder: Path = tmp_path_factory.mktemp("roles")
    tokens = {role: new_token() for role in Role}
    file = folder / "tokens"
    file.touch(0o600)
    file.write_text(Tokens(tuple(bearer(role, token, role) for role, token in tokens.items())).text())
    with asked(folder, f'[api]\nenabled = true\nport = 0\ntokens = "{file}"\n') as served:
        clients = {role: served.by_tcp(token) for role, token in tokens.items()}
        yield clients
        for client in clients.values():
            client.http.close()


def test_without_its_roles_nothing_is_done(clients: dict[Role, Api]) -> None:
    known = calls()
    assert len(known) > 50
    for (method, path, roles), (role, client) in product(known, clients.items()):
        lacks = roles - role.grants
        with client.http.stream(method, path) as answer:  # not read to the end: events have none
            assert (answer.status_code == 403) == bool(lacks), (method, path, role)
            if lacks:
                assert b"lacks the role" in answer.read()


def test_without_a_token_nothing_is_done(clients: dict[Role, Api]) -> None:
    with httpx.Client(base_url=clients[Role.READ].http.base_url, timeout=60) as stranger:
        for method, path, _ in calls():
            assert stranger.request(method, path).status_code == 401, (method, path)
