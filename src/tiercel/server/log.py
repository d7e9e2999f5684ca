"""The log: one line per event, as text or as JSON, and never the body of a message.

Events use the standard logger `tiercel`, so a program that embeds a queue manager decides where they go.
"""

import asyncio
import errno
import json
import logging
import logging.handlers
import sys
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from time import monotonic
from typing import Any, Final

LOGGER: Final = logging.getLogger("tiercel")

_NO_FILES: Final = frozenset({errno.EMFILE, errno.ENFILE})
_FIELDS: Final = "tiercel_fields"
_PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:/+,@%{}[]$\\")


def event(level: int, name: str, **values: object) -> None:
    """Log an event; None and empty values are omitted."""
    if LOGGER.isEnabledFor(level):
        LOGGER.log(level, name, extra=fields(**values))


def fields(**values: object) -> dict[str, object]:
    """The values of an event, as the `extra` argument of a standard logger."""
    return {_FIELDS: {key: value for key, value in values.items() if value is not None and value != ""}}


def debug(name: str, **values: object) -> None:
    event(logging.DEBUG, name, **values)


def info(name: str, **values: object) -> None:
    event(logging.INFO, name, **values)


def warning(name: str, **values: object) -> None:
    event(logging.WARNING, name, **values)


def error(name: str, **values: object) -> None:
    event(logging.ERROR, name, **values)


_OTHERS: Final = "others"


class Repeated:
    """Rate limit for an event that any peer can trigger: a line at once, then counts once a second.

    Call it with the reason, or the value of another field; further values are only in the lines at once, of
    which there are at most `burst` a second. Counts are logged with the next event, so no timer is needed.
    """

    _EVERY_S: Final = 1.0
    _REASONS: Final = 8  # counted separately: peers can invent them

    def __init__(
        self,
        name: str,
        clock: Callable[[], float] = monotonic,
        *,
        field: str = "reason",
        level: int = logging.INFO,
        burst: int = 1,
    ) -> None:
        self._name = name
        self._field = field
        self._level = level
        self._clock = clock
        self._burst = self._left = burst
        self._until = 0.0
        self._counts: Counter[str] = Counter()

    def __call__(self, reason: str, **values: object) -> None:
        now = self._clock()
        if now >= self._until:
            self._until, self._left = now + self._EVERY_S, self._burst
            for earlier, count in self._counts.items():
                event(self._level, self._name, **{self._field: earlier, "count": count})
            self._counts.clear()
        if self._left:
            self._left -= 1
            event(self._level, self._name, **{self._field: reason}, **values)
        else:
            is_counted = reason in self._counts or len(self._counts) < self._REASONS
            self._counts[reason if is_counted else _OTHERS] += 1


def _entry(record: logging.LogRecord) -> dict[str, object]:
    time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
    entry: dict[str, object] = {"time": time.replace("+00:00", "Z"), "level": record.levelname.lower()}
    values = getattr(record, _FIELDS, None)
    if values is None:  # from asyncio and other libraries
        entry |= {"event": "message", "logger": record.name, "text": record.getMessage()}
    else:
        entry |= {"event": record.getMessage(), **values}
    if record.exc_info and record.exc_info[1] is not None:
        entry["trace"] = logging.Formatter().formatException(record.exc_info)
    return entry


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return json.dumps(_entry(record), default=str)


class TextLines(logging.Formatter):
    """logfmt: key=value, quoted where necessary, so that text from peers cannot break a line."""

    def format(self, record: logging.LogRecord) -> str:
        return " ".join(f"{key}={_quoted(str(value))}" for key, value in _entry(record).items())


def _quoted(text: str) -> str:
    return text if text and _PLAIN.issuperset(text) else json.dumps(text)


_FORMATS: Final = {"text": TextLines, "json": JsonLines}


def configure(*, level: str, format_name: str, file: str) -> logging.Handler:
    """Send the log of the whole process to a file or to stderr. Raises `OSError`."""
    handler: logging.Handler
    if file == "stderr":
        handler = logging.StreamHandler(sys.stderr)
    else:
        handler = logging.handlers.WatchedFileHandler(file, encoding="utf-8")  # logrotate may move it
    handler.setFormatter(_FORMATS[format_name]())
    root = logging.getLogger()
    root.addHandler(handler)
    set_level(level)
    return handler


def limit_accept_errors(loop: asyncio.AbstractEventLoop) -> None:
    """When file descriptors run out, log one line a second: asyncio logs a traceback for every attempt."""
    out_of_files = Repeated("out_of_file_descriptors", level=logging.ERROR)

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        problem = context.get("exception")
        if isinstance(problem, OSError) and problem.errno in _NO_FILES:
            out_of_files(f"{problem.strerror}; connections wait. Raise the limit of open files")
        else:
            loop.default_exception_handler(context)

    loop.set_exception_handler(handle)


def end(handler: logging.Handler) -> None:
    """Undo `configure`: the process may continue with another stderr."""
    logging.getLogger().removeHandler(handler)
    handler.close()


def set_level(level: str) -> None:
    logging.getLogger().setLevel(level.upper())
