r"""Accounts for remote readers: name, SID and password hash.

The text has one account per line, `DOMAIN\user:SID:NT-hash`. Without a domain the account answers to every
domain that a client may name; without a SID it has one that is made from its name; without a hash it has no
password, and only Kerberos can prove it.
"""

import hashlib
import struct
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, Protocol, Self

from tiercel.model.errors import DecodeError, TiercelError
from tiercel.model.sid import SecurityIdentifier
from tiercel.security.entry_lines import read_lines, write_lines
from tiercel.security.nt_hash import NT_HASH_SIZE

MAX_NAME: Final = 256


class AccountError(TiercelError):
    """An entry that is not valid: the text is one line for the administrator."""


@dataclass(frozen=True, slots=True)
class Account:
    user: str
    domain: str = ""
    given_sid: SecurityIdentifier | None = None
    nt_hash: bytes | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for name in (self.user, self.domain):
            if len(name) > MAX_NAME or name != name.strip() or any(map(_is_forbidden, name)):
                problem = f"at most {MAX_NAME} characters, no : and \\, no blanks around it"
                raise AccountError(f"{name[:60]!a} is not a valid account or domain name: {problem}")
        if not self.user or str(self).startswith("#"):
            raise AccountError(f"{str(self)[:60]!a}: a name is required, and it must not begin with #")
        if self.nt_hash is not None and len(self.nt_hash) != NT_HASH_SIZE:
            raise AccountError(f"{self}: an NT hash has {NT_HASH_SIZE} bytes")

    @classmethod
    def named(cls, text: str) -> Self:
        r"""An account without a password, from `DOMAIN\user`, `user` or `user@domain`."""
        return cls(*split_name(text))

    @property
    def sid(self) -> SecurityIdentifier:
        return self.given_sid or stable_sid(self.user, self.domain)

    @property
    def key(self) -> tuple[str, str]:
        """The key of an account; case is ignored."""
        return self.domain.casefold(), self.user.casefold()

    def __str__(self) -> str:
        return f"{self.domain}\\{self.user}" if self.domain else self.user

    def line(self) -> str:
        return f"{self}:{self.given_sid or ''}:{(self.nt_hash or b'').hex()}"


def split_name(text: str) -> tuple[str, str]:
    r"""User and domain of `DOMAIN\user`, `user@domain` or `user`."""
    if "\\" in text:
        domain, _, user = text.partition("\\")
    else:
        user, _, domain = text.rpartition("@") if "@" in text else (text, "", "")
    return user, domain


def _is_forbidden(character: str) -> bool:
    return character in ":\\" or unicodedata.category(character) in {"Cc", "Cs", "Zl", "Zp"}


def stable_sid(user: str, domain: str = "") -> SecurityIdentifier:
    """A SID for a name that has none: stable, and unique by 127 bits of a digest."""
    name = f"tiercel account {domain.casefold()}\\{user.casefold()}"
    parts = struct.unpack("<4I", hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()[:16])
    return SecurityIdentifier(5, (21, *parts[:3], parts[3] | 1 << 31))  # above all well-known RIDs


class Directory(Protocol):
    """The accounts that a logon is checked against."""

    def find(self, user: str, domain: str) -> Account | None: ...


class Accounts:
    """The accounts of a text, with its other lines. Changes make a copy."""

    def __init__(self, lines: Iterable[Account | str] = ()) -> None:
        self._lines = tuple(lines)
        self._by_key: dict[tuple[str, str], Account] = {}
        for account in self:
            if account.key in self._by_key:
                raise AccountError(f"{account}: the account is there twice")
            self._by_key[account.key] = account

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises an `AccountError` that names the line, and never shows a hash."""
        return cls(read_lines(text, _read_line, AccountError))

    def text(self) -> str:
        return write_lines(self._lines)

    def __iter__(self) -> Iterator[Account]:
        return (line for line in self._lines if isinstance(line, Account))

    def get(self, account: Account) -> Account | None:
        """The account of the same name and domain."""
        return self._by_key.get(account.key)

    def find(self, user: str, domain: str) -> Account | None:
        """The account that a client names: the domain's, or else the one that answers to every domain."""
        user, domain = user.casefold(), domain.casefold()
        found = self._by_key.get((domain, user)) or self._by_key.get(("", user))
        if found is None and not domain and "@" in user:
            name, _, realm = user.rpartition("@")
            found = self._by_key.get((realm, name)) or self._by_key.get(("", name))
        return found

    def with_account(self, account: Account) -> "Accounts":
        """These, with `account` in its place, or at the end when it is new."""
        if account.key not in self._by_key:
            return Accounts((*self._lines, account))
        return Accounts(account if _has_key(line, account.key) else line for line in self._lines)

    def without(self, account: Account) -> "Accounts":
        return Accounts(line for line in self._lines if not _has_key(line, account.key))


def _has_key(line: Account | str, key: tuple[str, str]) -> bool:
    return isinstance(line, Account) and line.key == key


def _read_line(line: str) -> Account:
    parts = line.split(":")
    if len(parts) != 3:
        raise AccountError(r"expected DOMAIN\user:SID:NT-hash")
    name, sid_text, hash_text = parts
    domain, _, user = name.rpartition("\\")
    try:
        sid = SecurityIdentifier.parse(sid_text) if sid_text else None
    except DecodeError as problem:
        raise AccountError(f"{name[:60]!a}: {problem.problem}") from problem
    try:
        nt_hash = bytes.fromhex(hash_text) if hash_text else None
    except ValueError:
        raise AccountError(f"{name[:60]!a}: the NT hash is not hexadecimal") from None
    return Account(user, domain, sid, nt_hash)
