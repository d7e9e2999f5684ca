"""Bearer tokens of the data endpoint: name, roles and digest.

The text has one token per line, `name roles sha256`: the roles with commas between them, and of the token
itself only the digest, so that the file opens no door. Lines that are empty or begin with # stay as they are.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self

from tiercel.model.errors import TiercelError

PREFIX: Final = "tiercel_"  # by which a scanner of leaked secrets knows one
_RANDOM_BYTES: Final = 32
_NAME: Final = re.compile(r"[A-Za-z0-9._@-]{1,64}")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


class TokenError(TiercelError):
    """A token that cannot be: the text is one line for the administrator."""


class Role(StrEnum):
    READ = "read"  # look at queues, and at messages without taking them
    SEND = "send"  # stage and publish
    RECEIVE = "receive"  # claim, acknowledge and release; and read
    ADMIN = "admin"  # everything

    @property
    def grants(self) -> "frozenset[Role]":
        if self is Role.ADMIN:
            return frozenset(Role)
        return frozenset({self, Role.READ} if self is Role.RECEIVE else {self})


@dataclass(frozen=True, slots=True)
class Bearer:
    name: str
    roles: frozenset[Role]
    digest: str

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise TokenError(
                f"{self.name[:70]!a} is not a valid token name: use 1 to 64 of A-Z a-z 0-9 . _ @ -"
            )
        if not self.roles:
            raise TokenError(f"{self.name}: at least one role is required: {', '.join(Role)}")
        if not _DIGEST.fullmatch(self.digest):
            raise TokenError(f"{self.name}: the digest of a token has 64 hexadecimal digits")

    @property
    def grants(self) -> frozenset[Role]:
        return frozenset().union(*(role.grants for role in self.roles))

    def line(self) -> str:
        return f"{self.name} {','.join(sorted(self.roles))} {self.digest}"


class Tokens:
    """The bearers of a text, with its other lines; changed copies are made, never changed."""

    def __init__(self, lines: "tuple[str | Bearer, ...]" = ()) -> None:
        self._lines = lines

    def __iter__(self) -> Iterator[Bearer]:
        return (line for line in self._lines if isinstance(line, Bearer))

    @classmethod
    def parse(cls, text: str) -> Self:
        lines: list[str | Bearer] = []
        for number, line in enumerate(text.splitlines(), 1):
            try:
                lines.append(line if not line.strip() or line.startswith("#") else _bearer(line))
            except TokenError as problem:
                raise TokenError(f"line {number}: {problem}") from problem
        found = cls(tuple(lines))
        names = [each.name for each in found]
        if len(set(names)) != len(names):
            doubled = next(name for name in names if names.count(name) > 1)
            raise TokenError(f"{doubled}: there are two tokens of that name")
        return found

    def text(self) -> str:
        return "".join(f"{line.line() if isinstance(line, Bearer) else line}\n" for line in self._lines)

    def get(self, name: str) -> Bearer | None:
        return next((each for each in self if each.name == name), None)

    def with_bearer(self, bearer: Bearer) -> "Tokens":
        return Tokens((*self._lines, bearer))

    def without(self, bearer: Bearer) -> "Tokens":
        return Tokens(tuple(line for line in self._lines if line != bearer))

    def find(self, token: str) -> Bearer | None:
        """Whom a token names; takes as long whether it is nearly right or not."""
        digest = digest_of(token)
        found = None
        for each in self:
            if hmac.compare_digest(each.digest, digest):
                found = each
        return found


def new_token() -> str:
    return PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)


def digest_of(token: str) -> str:
    # A plain digest is enough: a token is 256 random bits and cannot be guessed.
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def roles_of(text: str) -> frozenset[Role]:
    try:
        return frozenset(Role(word) for word in text.split(",") if word)
    except ValueError as problem:
        raise TokenError(f"{text[:60]!a}: the roles are {', '.join(Role)}") from problem


def _bearer(line: str) -> Bearer:
    words = line.split()
    if len(words) != 3:
        raise TokenError("expected a name, roles and a digest, separated by blanks")
    return Bearer(words[0], roles_of(words[1]), words[2])
