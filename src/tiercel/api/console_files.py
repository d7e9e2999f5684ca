"""The files of the console, read once from the package and kept in memory."""

import hashlib
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final, NamedTuple

_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_START: Final = "index.html"


class File(NamedTuple):
    content: bytes
    media_type: str
    etag: str


def find(path: str) -> File | None:
    """A file by its path below the console; paths are only looked up, never opened."""
    return _files().get(path or _START)


@cache
def _files() -> dict[str, File]:
    found = {}
    for path, entry in _walk(files("tiercel.console"), ""):
        kind = _TYPES.get(path[path.rfind(".") :])
        if kind is not None:
            content = entry.read_bytes()
            found[path] = File(content, kind, f'"{hashlib.sha256(content).hexdigest()[:32]}"')
    return found


def _walk(folder: Traversable, prefix: str) -> Iterator[tuple[str, Traversable]]:
    for entry in folder.iterdir():
        path = prefix + entry.name
        if entry.is_dir():
            yield from _walk(entry, f"{path}/")
        else:
            yield path, entry
