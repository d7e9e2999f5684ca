"""The queue managers of a query: `http://a:8802,http://b:8802`, or `@managers.toml` with an entry for each.

[[manager]]
url = "https://a.example:8802"
token_file = "a.token"   # relative to the file; tasks read it, so each node needs it
tls_ca = "ca.pem"
queues = ["orders"]      # or queue_pattern; default: those of the query
drain = true             # claims nothing more, and leaves the checkpoint when all is acknowledged

The same entries as a list in JSON need no file.
"""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import SplitResult, unquote, urlsplit

MOST_MANAGERS: Final = 1000  # each has a thread of the driver, which waits for messages


@dataclass(frozen=True, slots=True)
class Url:
    """The address and protocol of a queue manager."""

    scheme: str
    host: str
    port: int | None
    user: str | None

    @property
    def is_rpc(self) -> bool:
        return self.scheme == "msmq-rpc"

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}{f':{self.port}' if self.port else ''}"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """How to reach one queue manager."""

    url: Url
    token_file: str | None = None
    tls_ca: str | None = None
    drain: bool = False
    queues: tuple[str, ...] = ()  # instead of those of the query
    queue_pattern: str | None = None

    def __str__(self) -> str:
        return str(self.url)

    def with_defaults(self, token_file: str | None, tls_ca: str | None) -> "Endpoint":
        return replace(self, token_file=self.token_file or token_file, tls_ca=self.tls_ca or tls_ca)


def read_url(text: str) -> Url:
    wanted = "must be http://host:port, https://host:port or msmq-rpc://user@host"
    try:
        parts: SplitResult = urlsplit(text.strip())
        port = parts.port
    except ValueError:
        raise ValueError(wanted) from None
    is_known = parts.scheme in {"http", "https", "msmq-rpc"} and parts.hostname
    if not is_known or parts.path.strip("/") or parts.query or parts.fragment:
        raise ValueError(wanted)
    if parts.password is not None:
        raise ValueError("must not contain a password, which plans and logs would show: use passwordFile")
    if parts.username and parts.scheme != "msmq-rpc":
        raise ValueError("must not have a user, except with msmq-rpc; the data endpoint uses a tokenFile")
    user = unquote(parts.username) if parts.username else None
    return Url(parts.scheme, parts.hostname or "", port, user)


def read_endpoints(text: str, *, is_part: bool = False) -> tuple[Endpoint, ...]:
    """One URL, several separated by commas, `@FILE`, or the entries of such a file as JSON.

    A part of a longer list is checked with that list.
    """
    if text.strip().startswith("@"):
        endpoints = _of_file(Path(text.strip()[1:]))
    elif text.strip().startswith("["):
        endpoints = _of_json(text)
    else:
        endpoints = tuple(Endpoint(read_url(part)) for part in text.split(","))
    if not is_part:
        _check(endpoints)
    return endpoints


def _check(endpoints: tuple[Endpoint, ...]) -> None:
    if len(endpoints) > MOST_MANAGERS:
        raise ValueError(
            f"has {len(endpoints)} queue managers, but a query reads at most {MOST_MANAGERS}: "
            "use several queries"
        )
    seen: set[str] = set()
    for endpoint in endpoints:
        if str(endpoint) in seen:
            raise ValueError(f"has {endpoint} twice")
        seen.add(str(endpoint))
    if len(endpoints) > 1 and any(endpoint.url.is_rpc for endpoint in endpoints):
        raise ValueError("must not have msmq-rpc in a list: use a query for each of these queue managers")
    if all(endpoint.drain for endpoint in endpoints):
        raise ValueError("must have a queue manager without drain = true")


def _of_file(path: Path) -> tuple[Endpoint, ...]:
    try:
        document = tomllib.loads(path.read_text("utf-8"))
    except OSError as problem:
        raise ValueError(f"cannot read {path} ({problem.strerror})") from None
    except ValueError as problem:  # of TOML, or of UTF-8
        raise ValueError(f"{path} is not valid TOML ({problem})") from None
    entries = document.pop("manager", None)
    if document or not isinstance(entries, list) or not entries:
        raise ValueError(f"{path} must have entries [[manager]], and nothing else")
    return _of_entries(str(path), path.parent, entries)


def _of_json(text: str) -> tuple[Endpoint, ...]:
    try:
        entries = json.loads(text)
    except ValueError as problem:
        raise ValueError(f"is not valid JSON ({problem})") from None
    return _of_entries("the list", Path(), entries)


def _of_entries(name: str, folder: Path, entries: list[Any]) -> tuple[Endpoint, ...]:
    return tuple(
        _of_entry(f"{name}, entry {number}", folder, entry) for number, entry in enumerate(entries, 1)
    )


_KEYS: Final = {
    "url": (str, "a string"),
    "token_file": (str, "a string"),
    "tls_ca": (str, "a string"),
    "drain": (bool, "true or false"),
    "queues": (list, "a list of queue names"),
    "queue_pattern": (str, "a string"),
}


def _of_entry(where: str, folder: Path, entry: Any) -> Endpoint:
    if not isinstance(entry, Mapping):
        raise ValueError(f"{where}: must be a table")  # noqa: TRY004  # an invalid option like the others
    for key, value in entry.items():
        if key not in _KEYS:
            raise ValueError(f"{where}: unknown key {key}; keys: {', '.join(_KEYS)}")
        kind, wanted = _KEYS[key]
        texts = value if isinstance(value, list) else []
        if not isinstance(value, kind) or not all(isinstance(each, str) for each in texts):
            raise ValueError(f"{where}: {key} must be {wanted}")
    if entry.get("queues") and entry.get("queue_pattern"):
        raise ValueError(f"{where}: queues, queue_pattern: use only one of these")
    try:
        url = read_url(entry.get("url", ""))
    except ValueError as problem:
        raise ValueError(f"{where}: url {problem}") from None
    files = {key: str(folder / entry[key]) for key in ("token_file", "tls_ca") if key in entry}
    queues = tuple(entry.get("queues", ()))
    return Endpoint(
        url, drain=entry.get("drain", False), queues=queues, queue_pattern=entry.get("queue_pattern"), **files
    )
