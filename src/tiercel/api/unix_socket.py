"""The Unix socket of a daemon, beside its store."""

import os
import socket
from pathlib import Path

from tiercel.store import SOCKET_NAME


class UnixSocket:
    """Accessible only to the owner of the store.

    Addressed through an open directory: socket names are limited to 107 bytes, paths are not.
    """

    def __init__(self, directory: Path) -> None:
        self._descriptor = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self.name = f"/proc/self/fd/{self._descriptor}/{SOCKET_NAME}"

    def listen(self) -> socket.socket:
        self.remove()  # left by a killed daemon; this one holds the lock of the store
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        before = os.umask(0o177)
        try:
            listener.bind(self.name)
        except BaseException:
            listener.close()
            raise
        finally:
            os.umask(before)
        listener.listen(128)
        return listener

    def remove(self) -> None:
        Path(self.name).unlink(missing_ok=True)

    def close(self) -> None:
        os.close(self._descriptor)
