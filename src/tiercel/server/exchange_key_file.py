"""The file with the keys that others encrypt with for this queue manager: made at first need, and private."""

import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from tiercel.message_security.exchange_keys import ExchangeKeyError, KeyRing
from tiercel.message_security.providers import Provider
from tiercel.model.errors import StoreFailedError
from tiercel.server import log
from tiercel.server.private_file import Keeps, TableFile, Watched

FILE_NAME: Final = "exchange.pem"  # in the data directory
_FILE: Final = TableFile(KeyRing(), ExchangeKeyError)
read, change = _FILE.read, _FILE.change


class ExchangeKeyFile:
    """The current keys. While the file cannot be read, they stay as they were."""

    def __init__(self, directory: Callable[[], Path], *, legacy: bool) -> None:
        self._directory = directory
        self._legacy = legacy
        self._lock = threading.Lock()  # a thread unwraps session keys
        self._file: Watched[KeyRing] | None = None

    def check(self) -> None:
        """Raises `ExchangeKeyError` if there are keys that cannot be read: messages would be refused."""
        path = self._path()
        if path is not None and path.exists():
            read(path)

    def exchange_keys(self, provider: Provider) -> Sequence[RSAPrivateKey]:
        """None before the first need: without a published key, nobody can encrypt for us."""
        path = self._path()
        if path is None:
            return ()
        with self._lock:
            if self._file is None:
                if not path.exists():
                    return ()
                self._file = Watched(path, read, KeyRing(), _report, keeps=Keeps.ALWAYS)
            return self._file.value.exchange_keys(provider)

    def ring(self) -> KeyRing:
        """All keys; missing ones are made, which takes some tenths of a second."""
        return with_missing(self._directory() / FILE_NAME, legacy=self._legacy)

    def _path(self) -> Path | None:
        """None for a store in memory."""
        try:
            return self._directory() / FILE_NAME
        except StoreFailedError:
            return None


def with_missing(path: Path, *, legacy: bool) -> KeyRing:
    """The keys of a file, which is created or completed if necessary."""
    if path.exists() and not (ring := read(path)).missing(legacy=legacy):
        return ring
    now = datetime.now(UTC)
    return change(path, lambda ring: ring.with_missing(now, legacy=legacy), create=True)


def _report(problem: str) -> None:
    log.error("exchange_keys_unusable", reason=problem)
