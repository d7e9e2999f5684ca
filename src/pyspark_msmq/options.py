"""The options of the data source: every option with its check and its default.

Spark passes on any option, so unknown ones are refused with a suggestion: otherwise a misspelt limit would be
ignored silently.
"""

import difflib
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from typing import Any, Final, Self, TypeVar

from pyspark_msmq.endpoints import Endpoint, Url, read_endpoints
from tiercel.columns import RowFilter
from tiercel.model.errors import MqError
from tiercel.model.queue_name import expand_queue_name, parse_queue_name

DEFAULT_URL: Final = "http://127.0.0.1:8802"
T = TypeVar("T")
C = TypeVar("C", bound="Connection")
R = TypeVar("R", bound="ReadOptions")


class OptionError(ValueError):
    """An unknown, invalid or misplaced option; the text says what to do."""


# Parsers of option values. Each returns the value or raises a ValueError with the allowed values.


def _text(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be empty")
    return text.strip()


def _flag(text: str) -> bool:
    value = {"true": True, "false": False}.get(text.strip().lower())
    if value is None:
        raise ValueError("must be true or false")
    return value


def _count(text: str) -> int:
    number = int(text) if re.fullmatch(r"\s*\d{1,18}\s*", text) else 0
    if number < 1:
        raise ValueError("must be a whole number, at least 1")
    return number


_BYTES: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def _size(text: str) -> int:
    """`1000000`, `64m`, `1g`, as in Spark."""
    match = re.fullmatch(r"(\d{1,12})\s*([kmg]?)b?", text.strip().lower())
    if match is None or int(match[1]) < 1:
        raise ValueError("must be a number of bytes, such as 1000000, 64m or 1g")
    return int(match[1]) * _BYTES[match[2]]


def _chunk_size(text: str) -> int:
    size = _size(text)
    if size > 15 << 20:
        raise ValueError("must be at most 15m, the limit of the queue manager")
    return size


_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def _duration(text: str) -> float:
    """`500ms`, `30s`, `15m`, `1h`, `1d`, as in Spark."""
    match = re.fullmatch(r"(\d{1,9})\s*(ms|s|m|min|h|d)", text.strip().lower())
    if match is None:
        raise ValueError("must be a duration, such as 500ms, 30s or 15m")
    return int(match[1]) * _SECONDS[match[2]]


def _milliseconds(text: str) -> int:
    if not re.fullmatch(r"\s*\d{1,6}\s*", text):
        raise ValueError("must be a number of milliseconds, 0 to 999999")
    return int(text)


def _one_of(*words: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if (word := text.strip().lower()) not in words:
            raise ValueError(f"must be one of {', '.join(words)}")
        return word

    return read


def _queue(text: str) -> str:
    r"""A queue by any of its names; a checkpoint holds it as the full name, as `.\private$\orders`."""
    try:
        parse_queue_name(text.strip())
        return expand_queue_name(text.strip())
    except MqError as problem:
        raise ValueError(str(problem)) from None


def _queues(text: str) -> tuple[str, ...]:
    return _different(text.split(","))


def _different(names: Iterable[str]) -> tuple[str, ...]:
    queues = tuple(map(_queue, names))
    if len(set(map(parse_queue_name, queues))) < len(queues):
        raise ValueError("has a queue twice")
    return queues


def _identifier(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", text):
        raise ValueError("must be 1 to 64 letters, digits, dots, underscores and hyphens")
    return text


@dataclass(frozen=True, slots=True)
class Position:
    """A position in a queue: its start, its end, a message, or a time."""

    kind: str  # earliest, latest, lookup_id, time
    value: float = 0


def _position(text: str) -> Position:
    word = text.strip()
    if word.lower() in {"earliest", "latest"}:
        return Position(word.lower())
    if re.fullmatch(r"\d{1,20}", word):
        return Position("lookup_id", int(word))
    return Position("time", _time(word).timestamp())


def _time(text: str) -> datetime:
    try:
        time = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError("must be a time such as 2026-11-16T08:00:00Z") from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _time_text(text: str) -> str:
    return _time(text).isoformat()


def _option(name: str, read: Callable[[str], T], default: str) -> T:
    """A field of an options class; the default is in the user's notation."""
    return field(default=read(default), metadata={"name": name, "read": read})


def _optional(name: str, read: Callable[[str], T]) -> T | None:
    return field(default=None, metadata={"name": name, "read": read})


@dataclass(frozen=True, kw_only=True)
class Connection:
    """How to reach the queue managers; tasks read the files, so each node needs them."""

    managers: tuple[Endpoint, ...] = field(
        default_factory=lambda: read_endpoints(os.environ.get("MSMQ_URL", DEFAULT_URL)),
        metadata={"name": "url", "read": read_endpoints},
    )
    token_file: str | None = _optional("tokenFile", _text)  # the bearer token of the data endpoint
    tls_ca: str | None = _optional("tlsCa", _text)  # certificates to trust instead of the system's
    password_file: str | None = _optional("passwordFile", _text)  # of the user of msmq-rpc
    keytab: str | None = _optional("keytab", _text)  # the same, with Kerberos

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        return tuple(manager.with_defaults(self.token_file, self.tls_ca) for manager in self.managers)

    @property
    def endpoint(self) -> Endpoint:
        """The only one, or the first."""
        return self.endpoints[0]

    @property
    def url(self) -> Url:
        return self.managers[0].url


@dataclass(frozen=True, kw_only=True)
class ReadOptions(Connection):
    """Options of batch and stream reads."""

    queue: tuple[str, ...] | None = _optional("queue", _queues)
    queue_pattern: str | None = _optional("queuePattern", _text)
    source: str = _option(
        "from",
        _one_of("queue", "journal", "deadletter", "xactdeadletter", "outgoing", "discards"),
        "queue",
    )
    mode: str | None = _optional("mode", _one_of("browse", "consume"))
    starting_position: Position = _option("startingPosition", _position, "earliest")
    min_partitions: int = _option("minPartitions", _count, "1")
    max_messages_per_partition: int = _option("maxMessagesPerPartition", _count, "250000")
    max_bytes_per_partition: int = _option("maxBytesPerPartition", _size, "64m")
    fail_on_data_loss: bool = _option("failOnDataLoss", _flag, "true")
    include_body: bool = _option("includeBody", _flag, "true")
    include_raw: bool = _option("includeRaw", _flag, "false")
    label_like: str | None = _optional("labelLike", _text)
    message_class: str | None = _optional("class", _text)
    sent_after: str | None = _optional("sentAfter", _time_text)
    sent_before: str | None = _optional("sentBefore", _time_text)
    bad_message_mode: str = _option("badMessageMode", _one_of("fail", "column", "skip"), "fail")

    @property
    def filters(self) -> dict[str, str]:
        """The filters, as parameters of the endpoint."""
        chosen = {
            "labelLike": self.label_like,
            "class": self.message_class,
            "sentAfter": self.sent_after,
            "sentBefore": self.sent_before,
        }
        return {name: value for name, value in chosen.items() if value is not None}

    def of(self, manager: Endpoint) -> Self:
        """The options for one queue manager, whose entry may name queues of its own."""
        if not (manager.queues or manager.queue_pattern):
            return self
        queue = _different(manager.queues) if manager.queues else None
        return replace(self, queue=queue, queue_pattern=manager.queue_pattern)

    @property
    def needs_queue(self) -> bool:
        """Dead letters and the ledger belong to the queue manager, not to a queue."""
        return self.source in {"queue", "journal", "outgoing"}


@dataclass(frozen=True, kw_only=True)
class BatchOptions(ReadOptions):
    ending_position: Position = _option("endingPosition", _position, "latest")


@dataclass(frozen=True, kw_only=True)
class StreamOptions(ReadOptions):
    consumer: str | None = _optional("consumer", _identifier)
    max_messages_per_trigger: int | None = _optional("maxMessagesPerTrigger", _count)
    max_bytes_per_trigger: int | None = _optional("maxBytesPerTrigger", _size)
    min_messages_per_trigger: int | None = _optional("minMessagesPerTrigger", _count)
    max_trigger_delay: float = _option("maxTriggerDelay", _duration, "15m")
    ack_timing: str = _option("ackTiming", _one_of("eager", "commit"), "eager")
    poll_timeout_ms: int = _option("pollTimeoutMs", _milliseconds, "1000")
    resume_consumer: bool = _option("resumeConsumer", _flag, "false")
    on_unreachable: str | None = _optional("onUnreachable", _one_of("wait", "fail"))

    @property
    def is_consuming(self) -> bool:
        return self.mode != "browse"

    @property
    def waits_for_managers(self) -> bool:
        """Whether an unreachable queue manager leaves the stream running; by default if it has several."""
        return (self.on_unreachable or ("wait" if len(self.managers) > 1 else "fail")) == "wait"


@dataclass(frozen=True, kw_only=True)
class AnyReadOptions(BatchOptions, StreamOptions):
    """For when Spark asks for the columns, before it says whether it is a batch or a stream."""


@dataclass(frozen=True, kw_only=True)
class WriteOptions(Connection):
    queue: str | None = _optional("queue", _queue)
    txn_app_id: str | None = _optional("txnAppId", _identifier)
    txn_version: int | None = _optional("txnVersion", lambda text: _count(text) if text.strip("0 ") else 0)
    transactional: str = _option("transactional", _one_of("auto", "true", "false"), "auto")
    sign: bool = _option("sign", _flag, "false")
    max_batch_bytes: int = _option("maxBatchBytes", _chunk_size, "4m")
    checkpoint_location: str | None = _optional("checkpointLocation", _text)  # Spark's own option, passed on


_SPARKS_OWN: Final = re.compile(r"provider|owner|option\..*")  # added by CREATE TABLE

_ROLES: Final[Mapping[type[Connection], str]] = {
    AnyReadOptions: "a read",
    BatchOptions: "a batch read",
    StreamOptions: "a stream read",
    WriteOptions: "a write",
}


def names(role: type[Connection]) -> tuple[str, ...]:
    return tuple(option.metadata["name"] for option in fields(role))


def read_any_options(options: Mapping[str, str]) -> AnyReadOptions:
    return _read(AnyReadOptions, options)


def read_batch_options(options: Mapping[str, str]) -> BatchOptions:
    read = _read(BatchOptions, options)
    if read.mode == "consume":
        raise OptionError(
            "mode=consume is for streams: a batch read never removes messages. "
            "Use spark.readStream, with .trigger(availableNow=True) to stop when the queue is empty"
        )
    if read.ending_position.kind == "earliest":
        raise OptionError("endingPosition=earliest would read nothing; use latest, a lookup id or a time")
    read = _with_queues(read)
    _check_filters(read)
    _check_rpc(read)
    return read


def read_stream_options(options: Mapping[str, str]) -> StreamOptions:
    read = _read(StreamOptions, options)
    if read.source == "discards":
        raise OptionError("from=discards is for batch reads only: the ledger of discards is not a queue")
    read = _with_queues(read)
    _check_filters(read)
    _check_rpc(read)
    if read.is_consuming:
        _check_consuming(read)
    elif len(read.managers) > 1:
        raise OptionError("url: a stream with mode=browse reads one queue manager; use a query for each")
    elif read.consumer:
        raise OptionError("consumer is for mode=consume: a stream with mode=browse removes nothing")
    return read


def _check_consuming(read: StreamOptions) -> None:
    if read.consumer is None:
        raise OptionError(
            "missing consumer, the name under which the stream removes messages: add "
            '.option("consumer", "a-name"), or mode=browse to leave the messages in the queue'
        )
    if read.filters:
        raise OptionError(
            f"{', '.join(read.filters)}: only with mode=browse, because messages that are filtered out "
            "would be removed unseen. Use .where(...) on the DataFrame"
        )
    if read.starting_position.kind != "earliest":
        raise OptionError(
            "startingPosition is for mode=browse: a consumer always starts with the first message"
        )
    if read.source == "outgoing":
        raise OptionError("from=outgoing is for mode=browse: these messages belong to another computer")


def read_write_options(options: Mapping[str, str]) -> WriteOptions:
    read = _read(WriteOptions, options)
    if len(read.managers) > 1:
        raise OptionError(
            "url has several queue managers: a query writes to one, which sends on to the others. "
            "Use a queue name with the computer, such as DIRECT=OS:host\\private$\\orders"
        )
    if read.url.is_rpc:
        raise OptionError(f"url={read.url}: msmq-rpc is read-only; send through a Tiercel queue manager")
    if read.txn_version is not None and read.txn_app_id is None:
        raise OptionError("txnVersion requires txnAppId, the application whose writes it numbers")
    return read


def _check_filters(read: ReadOptions) -> None:
    try:
        RowFilter.of_options(read.filters)
    except ValueError as problem:
        raise OptionError(f"option {problem}") from None
    if read.filters and read.source == "discards":
        raise OptionError(f"{', '.join(read.filters)}: not for from=discards; use .where(...)")


def _with_queues(read: R) -> R:
    """The options, checked; those of one queue manager with the queues of its entry."""
    for manager in read.managers:
        try:
            _check_queue(read.of(manager))
        except ValueError as problem:
            has_own = manager.queues or manager.queue_pattern
            raise OptionError(f"{manager}: {problem}" if has_own else str(problem)) from None
    return read.of(read.managers[0]) if len(read.managers) == 1 else read


def _check_queue(read: ReadOptions) -> None:
    if read.queue and read.queue_pattern:
        raise OptionError("queue and queuePattern: use only one of these")
    if read.needs_queue and not (read.queue or read.queue_pattern):
        raise OptionError(
            'missing queue: add .option("queue", "orders"), or queuePattern. (Spark does not pass on the '
            "options of CREATE TABLE ... USING msmq: use a temporary view, or "
            "SELECT ... FROM t WITH (queue = '...'))"
        )
    if not read.needs_queue and (read.queue or read.queue_pattern):
        raise OptionError(f"from={read.source} belongs to the whole queue manager: remove queue")


def _check_rpc(read: ReadOptions) -> None:
    """Refuse what MS-MQRR cannot do."""
    if not read.url.is_rpc:
        return
    if read.queue_pattern or len(read.queue or ()) > 1 or read.source in {"outgoing", "discards"}:
        raise OptionError(f"url={read.url}: msmq-rpc reads one queue, one journal or the dead letters")
    if read.starting_position.kind != "earliest":
        raise OptionError(f"url={read.url}: msmq-rpc always reads from the first message")
    if read.include_raw:
        raise OptionError(f"url={read.url}: msmq-rpc does not return raw packets")
    if isinstance(read, BatchOptions) and read.ending_position.kind != "latest":
        raise OptionError(f"url={read.url}: msmq-rpc always reads to the last message")
    if isinstance(read, StreamOptions):
        _check_rpc_stream(read)


def _check_rpc_stream(read: StreamOptions) -> None:
    if not read.is_consuming:
        raise OptionError(
            f"url={read.url}: msmq-rpc has no browse streams; use mode=consume, or a batch read"
        )
    if read.ack_timing != "eager":
        raise OptionError(
            f"url={read.url}: msmq-rpc supports only ackTiming=eager, because its claims have no numbers"
        )
    if read.source != "queue":
        raise OptionError(
            f"url={read.url}: msmq-rpc streams support only from=queue: nothing else has subqueues"
        )
    if read.min_messages_per_trigger:
        raise OptionError(
            f"url={read.url}: msmq-rpc does not support minMessagesPerTrigger: it has no message counts"
        )


def _read(role: type[C], options: Mapping[str, str]) -> C:
    known = {option.metadata["name"].lower(): option for option in fields(role)}
    found: dict[str, Any] = {}
    for name, text in options.items():
        if _SPARKS_OWN.fullmatch(name.lower()):
            continue
        option = known.get(name.lower())
        if option is None:
            raise OptionError(_unknown(role, name))
        spelt = option.metadata["name"]
        try:
            found[option.name] = option.metadata["read"](text)
        except ValueError as problem:
            raise OptionError(f"option {spelt}={text}: {problem}") from None
    try:
        return role(**found)
    except ValueError as problem:  # a default from the environment
        raise OptionError(f"MSMQ_URL {problem}") from None


def _unknown(role: type[Connection], name: str) -> str:
    if name.lower() == "path":
        return "format msmq has no path: use load() without one, and the option queue"
    for other, use in reversed(list(_ROLES.items())):
        spelt = {word.lower(): word for word in names(other)}.get(name.lower())
        if spelt:
            return f"option {spelt} is for {use}, but this is {_ROLES[role]}"
    spellings = {word.lower(): word for word in names(role)}
    near = difflib.get_close_matches(name.lower(), spellings, n=1, cutoff=0)
    return f"unknown option {name}; did you mean {spellings[near[0]]}? Options: {', '.join(names(role))}"
