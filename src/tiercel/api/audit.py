"""The audit log: who changed what, one line per change, in the log or in a separate file."""

import logging
from collections.abc import Mapping
from logging.handlers import WatchedFileHandler
from typing import Final

from tiercel.server import log

_LOGGER: Final = logging.getLogger("tiercel.audit")


class Audit:
    """Writes JSON lines to `file`; without one, `audit` events to the log."""

    def __init__(self, file: str, *, messages: bool) -> None:
        """Raises `OSError` when the file cannot be written."""
        self.covers_messages = messages  # sends and receives too
        self._handler = None if not file else WatchedFileHandler(file, encoding="utf-8")
        if self._handler is not None:  # not via the logger: other daemons of this process share it
            self._handler.setFormatter(log.JsonLines())

    def write(self, values: Mapping[str, object]) -> None:
        """Who, what, subject, result and more."""
        if self._handler is None:
            log.info("audit", **values)
            return
        record = _LOGGER.makeRecord(
            _LOGGER.name, logging.INFO, "", 0, "audit", (), None, extra=log.fields(**values)
        )
        self._handler.handle(record)

    def close(self) -> None:
        if self._handler is not None:
            self._handler.close()
