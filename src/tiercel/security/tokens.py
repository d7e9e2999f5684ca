"""Bearer tokens of the data endpoint: name, roles and digest.

The text has one token per line, `name roles sha256`: the roles with commas between them, and of the token
itself only the digest: the file gives access to nothing.
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
from tiercel.security.entry_lines import check_name, doubled, read_lines, write_lines

PREFIX: Final = "tiercel_"  # by which a scanner of leaked secrets knows one
_RANDOM_BYTES: Final = 32
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


class TokenError(TiercelError):
    """An entry that is not valid: the text is one line for the administrator."""


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
        check_name(self.name, TokenError)
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
    """The bearers of a text, with its other lines. Changes make a copy."""

    def __init__(self, lines: "tuple[str | Bearer, ...]" = ()) -> None:
        self._lines = lines

    def __iter__(self) -> Iterator[Bearer]:
        return (line for line in self._lines if isinstance(line, Bearer))

    @classmethod
    def parse(cls, text: str) -> Self:
        found = cls(read_lines(text, _bearer, TokenError))
        if (name := doubled(each.name for each in found)) is not None:
            raise TokenError(f"{name}: there are two tokens of that name")
        return found

    def text(self) -> str:
        return write_lines(self._lines)

    def get(self, name: str) -> Bearer | None:
        return next((each for each in self if each.name == name), None)

    def with_bearer(self, bearer: Bearer) -> "Tokens":
        return Tokens((*self._lines, bearer))

    def without(self, bearer: Bearer) -> "Tokens":
        return Tokens(tuple(line for line in self._lines if line != bearer))

    def find(self, token: str) -> Bearer | None:
        """The bearer of a token, in constant time."""
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
