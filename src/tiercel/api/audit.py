"""The audit log: who changed what, one line for each change, in the log or in a file of its own."""

import logging
from logging.handlers import WatchedFileHandler
from typing import Final

from tiercel.server import log

_LOGGER: Final = logging.getLogger("tiercel.audit")


class Audit:
    """`file` is where the lines go, as JSON; without one they go to the log as events `audit`."""

    def __init__(self, file: str, *, messages: bool) -> None:
        """Raises `OSError` when the file cannot be written."""
        self.covers_messages = messages  # sends and receives too
        self._handler = None if not file else WatchedFileHandler(file, encoding="utf-8")
        if self._handler is not None:  # else another daemon of the same process would write there too
            self._handler.setFormatter(log.JsonLines())

    def write(self, *, who: str, what: str, subject: str, result: str, **more: object) -> None:
        values = {"who": who, "what": what, "subject": subject, "result": result, **more}
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
