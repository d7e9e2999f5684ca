"""The file with the key that this queue manager signs with: made at first need, and private."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Final

from tiercel.message_security.signer import Signer
from tiercel.model.errors import CannotSignDataExError
from tiercel.server import private_file
from tiercel.server.private_file import Watched

FILE_NAME: Final = "signing.pem"  # in the data directory


class SigningKey:
    """The current key. Making one takes some tenths of a second, so call this outside the event loop."""

    def __init__(self, directory: Callable[[], Path], name: str) -> None:
        self._directory = directory
        self._name = name
        self._file: Watched[Signer | None] | None = None

    def signer(self) -> Signer:
        path = self._directory() / FILE_NAME
        if not path.exists():
            create(path, self._name)
        if self._file is None:
            self._file = Watched(path, read, None, lambda _problem: None)
        return self._file.value or read(path)  # raises what is wrong

    def certificate(self) -> bytes:
        """The certificate of the key, if this program has used it; otherwise empty."""
        signer = None if self._file is None else self._file.value
        return b"" if signer is None else signer.certificate.der


def read(path: Path) -> Signer:
    return _parse(private_file.read(path, CannotSignDataExError))


@lru_cache(8)  # a program may name its file with every message, and checking a key takes milliseconds
def _parse(pem: str) -> Signer:
    return Signer.parse(pem)


def create(path: Path, name: str, *, replace: bool = False) -> Signer:
    """A new key in the file; without `replace`, the key that is already there."""
    with private_file.changing(path, CannotSignDataExError) as write:
        if path.exists() and not replace:
            return read(path)
        signer = Signer.new(name, datetime.now(UTC))
        write(signer.pem())
        return signer
