"""The file of accounts: who may read it, when it is read again, and what a change leaves."""

import stat
import threading
from pathlib import Path

import pytest

from tiercel.security.accounts import Account, AccountError
from tiercel.server.account_file import AccountFile, change, read

HASH = bytes(16)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    change(tmp_path / "accounts", lambda old: old.with_account(Account("a", "D", None, HASH)), create=True)
    return tmp_path / "accounts"


def test_it_is_its_owners_alone(path: Path) -> None:
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    change(path, lambda old: old.with_account(Account("b")))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [str(each) for each in read(path)] == ["D\\a", "b"]
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("mode", [0o604, 0o640, 0o620, 0o601, 0o644])
def test_others_may_not_read_it(path: Path, mode: int) -> None:
    path.chmod(mode)
    with pytest.raises(AccountError, match="chmod 600"):
        read(path)
    with pytest.raises(AccountError, match="chmod 600"):
        change(path, lambda old: old)


def test_what_is_no_file(path: Path) -> None:
    with pytest.raises(AccountError, match="No such file"):
        read(path.parent / "none")
    with pytest.raises(AccountError, match="cannot be read"):
        read(path.parent)
    path.write_bytes(b"\xff")
    with pytest.raises(AccountError, match="not UTF-8"):
        read(path)


def test_a_change_is_seen_and_a_fault_shuts_the_door(path: Path) -> None:
    heard: list[str] = []
    accounts = AccountFile(path, heard.append)
    assert accounts.find("A", "d") is not None
    change(path, lambda old: old.with_account(Account("b", "", None, HASH)).without(Account("a", "D")))
    assert accounts.find("a", "d") is None
    assert accounts.find("b", "x") is not None
    path.chmod(0o644)
    assert accounts.find("b", "x") is None
    assert accounts.find("b", "x") is None
    assert len(heard) == 1
    assert "chmod 600" in heard[0]
    path.chmod(0o600)
    assert accounts.find("b", "x") is not None
    path.unlink()
    assert accounts.find("b", "x") is None
    assert len(heard) == 2


def test_a_failed_edit_changes_nothing(path: Path) -> None:
    before = path.read_bytes()

    def fail(_old: object) -> None:
        raise AccountError("no")

    with pytest.raises(AccountError, match="no"):
        change(path, fail)  # type: ignore[arg-type]
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_changes_at_the_same_time_are_all_kept(path: Path) -> None:
    def add(number: int) -> None:
        change(path, lambda old: old.with_account(Account(f"u{number}")))

    threads = [threading.Thread(target=add, args=[number]) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(list(read(path))) == 21
