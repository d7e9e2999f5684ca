r"""Accounts by name in access lists: `(A;;RECEIVE_MESSAGE;;;EXAMPLE\reader)`."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tiercel.security.accounts import Account, Accounts, stable_sid
from tiercel.security.nt_hash import nt_hash

from .asked import Asked, asked, at

READER, HELPER = stable_sid("reader", "EXAMPLE"), stable_sid("helper")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    folder = tmp_path_factory.mktemp("daemon")
    write(folder, "EXAMPLE\\reader", "helper")
    with asked(folder, f'[accounts]\nfile = "{folder / "accounts"}"\n') as served:
        yield served


def write(folder: Path, *names: str) -> None:
    named = [Account.named(name) for name in names]
    accounts = [replace(each, nt_hash=nt_hash("secret")) for each in named]
    file = folder / "accounts"
    file.touch(0o600)
    file.write_text(Accounts(accounts).text())


def test_entries_name_accounts(served: Asked) -> None:
    rights = (
        r"D:(A;;RECEIVE_MESSAGE;;;EXAMPLE\Reader)(D;;0x4;;;helper)(A;;0x4;;;WD)(A;;0x2;;;S-1-5-21-1-2-3-9)"
    )
    served.create("made", security=rights)
    security = served.get(at("made")).json()["security"]
    assert f"(A;;RECEIVE_MESSAGE;;;{READER})(D;;WRITE_MESSAGE;;;{HELPER})" in security
    assert security.endswith("(A;;WRITE_MESSAGE;;;WD)(A;;PEEK_MESSAGE;;;S-1-5-21-1-2-3-9)")
    changed = served.ask("PATCH", at("made"), json={"security": "D:(A;;0x4;;;helper@ANY)"})
    assert (changed.status_code, changed.json()["security"][-len(f"{HELPER})") :]) == (200, f"{HELPER})")


@pytest.mark.parametrize("name", ["nobody", r"EXAMPLE\nobody", "aa", "S-1-x"])
def test_unknown_accounts_change_nothing(served: Asked, name: str) -> None:
    served.create(f"kept-{name.replace(chr(92), '-')}")
    queue = at(f"kept-{name.replace(chr(92), '-')}")
    before = served.get(queue).json()["security"]
    refused = served.ask("PATCH", queue, json={"security": f"D:(A;;0x4;;;{name})"})
    assert (refused.status_code, served.get(queue).json()["security"]) == (400, before)


def test_a_fix_is_told(served: Asked) -> None:
    refused = served.post("/queues", {"path_name": "no", "security": "D:(A;;0x4;;;nobody)"})
    assert (refused.status_code, "tiercel user add" in refused.json()["fix"]) == (400, True)
    assert "'nobody' is not an account of [accounts]" in refused.json()["detail"]


def test_they_are_listed_without_secrets(served: Asked) -> None:
    assert served.get("/accounts").json() == {
        "accounts": [{"name": r"EXAMPLE\reader", "sid": str(READER)}, {"name": "helper", "sid": str(HELPER)}]
    }


def test_without_a_file_there_are_none(tmp_path: Path) -> None:
    with asked(tmp_path) as served:
        assert served.get("/accounts").json() == {"accounts": []}
        refused = served.post("/queues", {"path_name": "q", "security": "D:(A;;GA;;;me)"})
        assert refused.status_code == 400
