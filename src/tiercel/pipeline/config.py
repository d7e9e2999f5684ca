"""pipeline.toml, read and checked: docs/pipeline.md explains every option.

The sections are data classes; their fields are the options, with types and defaults. Errors are a
`ConfigError` with one line. Relative paths are relative to the file.
"""

import difflib
import json
import os
import re
import tomllib
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from itertools import combinations
from pathlib import Path
from typing import Any, Final, TypeVar, get_args, get_origin, get_type_hints

from pyspark_msmq.endpoints import read_endpoints
from tiercel import columns
from tiercel.pipeline.tables.file_systems import SCHEMES, scheme_of
from tiercel.pipeline.tables.table import FORMATS, NAMED, ON_STORES, TableOptions
from tiercel.server.config import ConfigError

# One pass until the queues are empty, or one batch per interval until stopped.
ONCE: Final = "once"

_PIPELINE_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_INTERVAL: Final = re.compile(r"(\d{1,6})\s*(s|m|h)")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600}
_ADDRESS: Final = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9.-]+)):(\d{1,5})")
_TABLE_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineOptions:
    name: str
    master: str = "local[*]"
    state: str = ""  # Spark's checkpoint (default: .NAME beside the file)
    trigger: str = ONCE

    @property
    def interval_s(self) -> int | None:
        match = _INTERVAL.fullmatch(self.trigger)
        return int(match[1]) * _SECONDS[match[2]] if match else None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """Options of `format("msmq")`, in TOML spelling; of several, only the first six may differ."""

    url: str = "http://127.0.0.1:8802"
    token_file: str = ""
    tls_ca: str = ""
    queues: tuple[str, ...] = ()
    queue_pattern: str = ""
    drain: bool = False  # of several queue managers: about to be removed
    from_: str = "queue"
    mode: str = "consume"
    consumer: str = ""  # default: the pipeline's name
    columns: tuple[str, ...] = ()
    raw: bool = False  # adds the column raw, for archives
    max_messages_per_trigger: int = 100_000
    max_bytes_per_trigger: str = "256m"
    max_messages_per_partition: int = 50_000
    fail_on_data_loss: bool = True
    resume_consumer: bool = False
    on_unreachable: str = ""  # of several queue managers


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeOptions:
    bodies: bool = True
    expect: str = ""
    schema: str = ""  # columns as in CREATE TABLE, or JSON Schema; @FILE


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSection:
    """One `[[table]]`: which rows, and where they go."""

    format: str
    path: str = ""
    url: str = ""
    name: str = ""
    catalog: str = ""
    partition_by: tuple[str, ...] = ()
    sql: str = ""
    function: str = ""
    dedup: str = ""  # a column: rows whose value the table has are skipped
    target_file_mib: int = 128
    compact_every: int = 0  # batches; 0: only `tiercel pipeline compact`

    @property
    def options(self) -> TableOptions:
        return TableOptions(
            format=self.format,
            place=self.path or self.url,
            name=self.name,
            catalog=self.catalog,
            partition_by=self.partition_by,
            target_file_mib=self.target_file_mib,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineSection(TableSection):
    """Where undecodable messages go, and those that match `when`."""

    when: str = ""
    queue: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitoringOptions:
    """Where a run tells what it does."""

    log: str = ""  # a file for one JSON line per batch; "-" is stdout
    metrics: str = ""  # HOST:PORT to serve, or a file for node_exporter, ending in .prom
    openlineage: bool = False

    @property
    def address(self) -> tuple[str, int] | None:
        match = _ADDRESS.fullmatch(self.metrics)
        return (match[1] or match[2], int(match[3])) if match else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    pipeline: PipelineOptions
    sources: tuple[SourceOptions, ...]
    tables: tuple[TableSection, ...]
    decode: DecodeOptions = field(default_factory=DecodeOptions)
    quarantine: QuarantineSection | None = None
    monitoring: MonitoringOptions = field(default_factory=MonitoringOptions)
    spark: Mapping[str, str] = field(default_factory=dict)
    folder: Path = Path()

    @property
    def state(self) -> Path:
        return self.folder / (self.pipeline.state or f".{self.pipeline.name}")

    @property
    def consumer(self) -> str:
        return self.source.consumer or self.pipeline.name

    @property
    def source(self) -> SourceOptions:
        """What all sources have in common."""
        return self.sources[0]

    @property
    def url(self) -> str:
        """The queue managers, as the file names them."""
        return ",".join(each.url for each in self.sources)

    @property
    def queues(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for each in self.sources for name in each.queues))

    @property
    def connection_options(self) -> dict[str, str]:
        """How to reach the queue managers."""
        if len(self.sources) > 1 or self.source.drain:
            return {"url": json.dumps(list(_entries(self.sources, self.folder)))}
        found = {"url": _at(self.source.url, self.folder)}
        for name, file in ("tokenFile", self.source.token_file), ("tlsCa", self.source.tls_ca):
            if file:
                found[name] = str(self.folder / file)
        return found

    def connection_to(self, url: str) -> dict[str, str]:
        """How to reach one of the queue managers, by its URL; without one, the only one."""
        if not url:
            return self.connection_options
        entries = {entry["url"]: entry for entry in _entries(self.sources, self.folder)}
        if url not in entries:
            raise ConfigError(
                f"--via {url}: not a queue manager of the pipeline; known: {', '.join(entries)}"
            )
        names = {"url": "url", "token_file": "tokenFile", "tls_ca": "tlsCa"}
        return {names[name]: value for name, value in entries[url].items() if name in names}

    @property
    def reader_options(self) -> dict[str, str]:
        """The options of the stream, as the source spells them."""
        source = self.source
        consuming, is_one = source.mode == "consume", len(self.sources) == 1
        found = self.connection_options | {
            "queue": ",".join(source.queues) if is_one else "",
            "queuePattern": source.queue_pattern if is_one else "",
            "from": source.from_,
            "mode": source.mode,
            "consumer": self.consumer if consuming else "",
            "maxMessagesPerTrigger": str(source.max_messages_per_trigger),
            "maxBytesPerTrigger": source.max_bytes_per_trigger,
            "maxMessagesPerPartition": str(source.max_messages_per_partition),
            "failOnDataLoss": str(source.fail_on_data_loss).lower(),
            "resumeConsumer": "true" if source.resume_consumer else "",
            "onUnreachable": source.on_unreachable,
            "badMessageMode": "column",
        }
        return {name: value for name, value in found.items() if value}

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns to read, always including the error, to recognize bad messages."""
        wanted = self.source.columns or columns.names()
        needed = ("body", "body_type") if self.decode.bodies else ()
        return tuple(dict.fromkeys((*wanted, *needed, *["raw"] * self.source.raw, "decode_error")))


def _at(url: str, folder: Path) -> str:
    return f"@{folder / url[1:]}" if url.startswith("@") else url


def _entries(sources: Iterable[SourceOptions], folder: Path) -> Iterator[dict[str, Any]]:
    """The queue managers of several sources, as entries of a file of queue managers."""
    for number, source in enumerate(sources, 1):
        try:
            managers = read_endpoints(_at(source.url, folder), is_part=True)
        except ValueError as problem:
            raise ConfigError(f"[[source]] {number}: url = {source.url[:60]!r}: {problem}") from problem
        for manager in managers:
            own = manager.queues or manager.queue_pattern
            entry = {
                "url": str(manager.url),
                "token_file": manager.token_file or (source.token_file and str(folder / source.token_file)),
                "tls_ca": manager.tls_ca or (source.tls_ca and str(folder / source.tls_ca)),
                "queues": list(manager.queues if own else source.queues),
                "queue_pattern": manager.queue_pattern if own else source.queue_pattern,
                "drain": manager.drain or source.drain,
            }
            yield {name: value for name, value in entry.items() if value}


# What each [[source]] has for itself; the rest is that of the whole run.
_OF_EACH: Final = frozenset({"url", "token_file", "tls_ca", "queues", "queue_pattern", "drain"})


_RANGES: Final[Mapping[str, tuple[int, int]]] = {
    "max_messages_per_trigger": (1, 10_000_000),
    "max_messages_per_partition": (1, 10_000_000),
    "target_file_mib": (1, 4096),
    "compact_every": (0, 1_000_000),
}
_CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "format": tuple(FORMATS),
    "expect": ("text", "xml", "json", "dotnet", "wcf"),
    "from": ("queue", "journal", "deadletter", "xactdeadletter"),
    "mode": ("consume", "browse"),
    "on_unreachable": ("wait", "fail"),
}
_WANTED: Final = {int: "a whole number", bool: "true or false", str: "a text in quotes"}
_SECTIONS: Final = ("pipeline", "spark", "source", "decode", "table", "quarantine", "monitoring")

S = TypeVar("S")


def load(path: Path) -> Pipeline:
    """The pipeline in a file; every error is a `ConfigError`."""
    try:
        text = path.read_text("utf-8")
    except OSError as problem:
        raise ConfigError(f"{path}: cannot read the file ({problem.strerror})") from problem
    except UnicodeDecodeError as problem:
        raise ConfigError(f"{path}: not valid UTF-8 ({problem.reason})") from problem
    try:
        return parse(text, path.absolute().parent)
    except ConfigError as problem:
        raise ConfigError(f"{path}: {problem}") from problem


def parse(text: str, folder: Path) -> Pipeline:
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise ConfigError(f"not valid TOML: {problem}") from problem
    for name in document:
        if name not in _SECTIONS:
            raise ConfigError(f"[{name}]: unknown section; {_nearest(name, _SECTIONS)}")
    quarantine = document.get("quarantine")
    pipeline = Pipeline(
        pipeline=_read(PipelineOptions, "pipeline", document.get("pipeline", {})),
        spark=_spark(document.get("spark", {})),
        sources=_sources(document.get("source", {})),
        decode=_with_schema(_read(DecodeOptions, "decode", document.get("decode", {})), folder),
        tables=tuple(_read(TableSection, "table", each) for each in _tables(document.get("table", []))),
        quarantine=None if quarantine is None else _read(QuarantineSection, "quarantine", quarantine),
        monitoring=_read(MonitoringOptions, "monitoring", document.get("monitoring", {})),
        folder=folder,
    )
    _check_together(pipeline)
    return _placed(pipeline)


def _sources(found: Any) -> tuple[SourceOptions, ...]:
    """One `[source]`, or several `[[source]]`, in any of which the options of the whole run may stand."""
    if not isinstance(found, list):
        return (_read(SourceOptions, "source", found),)
    of_run: dict[str, Any] = {}
    for each in found:
        for name, value in each.items() if isinstance(each, dict) else ():
            if name not in _OF_EACH and of_run.setdefault(name, value) != value:
                raise _wrong(
                    "[source]", name, value, f"must be the same for all sources, not {of_run[name]!r}"
                )
    return tuple(
        _read(SourceOptions, "[source]", of_run | each if isinstance(each, dict) else each) for each in found
    )


def _with_schema(decode: DecodeOptions, folder: Path) -> DecodeOptions:
    """The options with the text of the schema's file."""
    if decode.schema and not decode.bodies:
        raise _wrong("decode", "schema", decode.schema, "requires bodies = true")
    if not decode.schema.startswith("@"):
        return decode
    path = folder / decode.schema[1:]
    try:
        return replace(decode, schema=path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as problem:
        raise _wrong("decode", "schema", decode.schema, f"cannot read {path} ({problem})") from problem


def _tables(found: Any) -> list[Any]:
    if isinstance(found, dict) or not found:
        raise ConfigError("missing table: add a section [[table]], with two brackets")
    return list(found)


def _spark(table: Any) -> dict[str, str]:
    if not isinstance(table, dict):
        raise ConfigError("spark: must be a section, [spark]")
    for name, value in table.items():
        if not name.startswith("spark.") or not isinstance(value, str | int | bool):
            shown = f"[spark] {name} = {value!r}"[:80]
            raise ConfigError(f'{shown}: must be a Spark option, such as "spark.driver.memory" = "2g"')
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in table.items()
    }


def _read(kind: type[S], section: str, table: Any) -> S:
    """A section as its data class; unknown options, wrong types and values are refused."""
    if not isinstance(table, dict):
        raise ConfigError(f"{section}: must be a section, [{section}]")
    known = {each.name.rstrip("_"): each for each in fields(kind)}  # type: ignore[arg-type]
    hints = get_type_hints(kind)
    values = {}
    for name, value in table.items():
        if name not in known:
            raise ConfigError(f"[{section}] {name}: unknown option; {_nearest(name, known)}")
        values[known[name].name] = _checked(section, name, value, hints[known[name].name])
    for name, each in known.items():
        if each.default is MISSING and each.default_factory is MISSING and name not in table:
            raise ConfigError(f"[{section}] {name}: required")
    return kind(**values)


def _checked(section: str, name: str, value: Any, hint: Any) -> Any:
    if isinstance(hint, types.UnionType):
        hint = next(each for each in get_args(hint) if each is not type(None))
    if get_origin(hint) is tuple:
        if not isinstance(value, list):
            raise _wrong(section, name, value, "must be a list")
        return tuple(_checked(section, name, each, get_args(hint)[0]) for each in value)
    if type(value) is not hint:
        raise _wrong(section, name, value, f"must be {_WANTED[hint]}")
    if name in _RANGES:
        lowest, highest = _RANGES[name]
        if not lowest <= value <= highest:
            raise _wrong(section, name, value, f"must be {lowest} to {highest}")
    if name in _CHOICES and value not in _CHOICES[name]:
        raise _wrong(section, name, value, f"must be {' or '.join(_CHOICES[name])}")
    return value


def _check_together(pipeline: Pipeline) -> None:
    own = pipeline.pipeline
    if not _PIPELINE_NAME.fullmatch(own.name):
        raise _wrong(
            "pipeline", "name", own.name, "must be 1 to 64 letters, digits, dots, hyphens and underscores"
        )
    if own.trigger != ONCE and not own.interval_s:
        raise _wrong("pipeline", "trigger", own.trigger, 'must be once, or an interval such as "30s" or "5m"')
    if scheme_of(own.state):
        wanted = (
            "must be a folder, on a volume that outlives the driver's machine: "
            "Spark writes its checkpoint to object stores only with jars that PySpark does not have"
        )
        raise _wrong("pipeline", "state", own.state, wanted)
    try:
        columns.check_names(pipeline.columns)
    except columns.UnknownColumnError as problem:
        raise ConfigError(f"[source] columns: {problem}") from problem
    _check_metrics(pipeline.monitoring)
    _check_sources(pipeline)
    for table in pipeline.tables:
        _check_table("table", table)
    if pipeline.quarantine is not None:
        _check_quarantine(pipeline.quarantine, pipeline.url)
    every = [*pipeline.tables, *([pipeline.quarantine] if pipeline.quarantine else [])]
    for one, other in combinations(every, 2):
        if _place(one, pipeline.folder) == _place(other, pipeline.folder):
            raise ConfigError(f"{other.options}: two sections have the same table")


def _check_sources(pipeline: Pipeline) -> None:
    """Files of queue managers are read later: they may be on another machine, or not be there yet."""
    if len(pipeline.sources) < 2:
        return
    seen: set[str] = set()
    for source in pipeline.sources:
        for url in source.url.split(","):
            if url.strip() in seen:
                raise _wrong("[source]", "url", url, "is in two sources; name all its queues in one of them")
            seen.add(url.strip())


def _check_quarantine(quarantine: QuarantineSection, url: str) -> None:
    _check_table("quarantine", quarantine)
    if quarantine.sql or quarantine.function:
        raise ConfigError("[quarantine] sql: bad messages are stored unchanged; remove sql and function")
    if quarantine.queue and re.search(r"^@|,", url):
        raise ConfigError(
            "[quarantine] queue: only with one queue manager in [source] url; use a table instead"
        )


def _check_metrics(monitoring: MonitoringOptions) -> None:
    place, address = monitoring.metrics, monitoring.address
    if place and not place.endswith(".prom") and (address is None or address[1] > 65535):
        wanted = "must be HOST:PORT, or a file whose name ends in .prom"
        raise _wrong("monitoring", "metrics", place, wanted)


def _place(table: TableSection, folder: Path) -> tuple[str, str]:
    """The normalized place of a table, to detect two sections with the same table."""
    url = table.url or (table.path.rstrip("/") if scheme_of(table.path) else "")
    place = url or os.path.realpath(folder / table.path)
    is_short = table.format == "iceberg" and "." not in table.name
    return place, f"default.{table.name}" if is_short else table.name


def _check_table(section: str, table: TableSection) -> None:
    """A table's place is a path, or a URL with PostgreSQL; those that share a place have names."""
    place, other = ("url", "path") if table.format == "postgresql" else ("path", "url")
    if not getattr(table, place):
        raise ConfigError(f"[{section}] {place}: required for {table.format}")
    if getattr(table, other):
        raise _wrong(section, other, getattr(table, other), f"use {place} for {table.format}")
    if scheme_of(table.path):
        _check_store(section, table)
    if table.format in NAMED and not _TABLE_NAME.fullmatch(table.name):
        raise _wrong(
            section, "name", table.name, f"{table.format} requires a name such as orders or shop.orders"
        )
    if table.catalog and table.format != "iceberg":
        raise _wrong(section, "catalog", table.catalog, "only for iceberg")
    if table.partition_by and table.format in {"postgresql", "duckdb"}:
        raise _wrong(section, "partition_by", table.partition_by, "only for parquet, delta and iceberg")
    if table.sql and table.function:
        raise ConfigError(f"[{section}] sql, function: use only one of these")
    if table.function and not re.fullmatch(r"[\w.]+:\w+", table.function):
        raise _wrong(section, "function", table.function, 'must have the form "module:name"')


def _check_store(section: str, table: TableSection) -> None:
    """An object store has no renames and no locks: only formats that commit without them."""
    if scheme_of(table.path) not in SCHEMES:
        wanted = f"must be a folder that all machines see, or a URL of {', '.join(SCHEMES)}"
        raise _wrong(section, "path", table.path, wanted)
    if table.format not in ON_STORES:
        wanted = f"{table.format} cannot commit on an object store; use {' or '.join(sorted(ON_STORES))}"
        raise _wrong(section, "path", table.path, wanted)
    if table.format == "iceberg" and not table.catalog:
        raise _wrong(section, "path", table.path, "an object store cannot hold the catalog; set catalog")


def _placed(pipeline: Pipeline) -> Pipeline:
    def placed(table: Any) -> Any:
        is_path = table and table.path and not scheme_of(table.path)
        return replace(table, path=str(pipeline.folder / table.path)) if is_path else table

    return replace(
        pipeline, tables=tuple(map(placed, pipeline.tables)), quarantine=placed(pipeline.quarantine)
    )


def _wrong(section: str, name: str, value: object, problem: str) -> ConfigError:
    return ConfigError(f"[{section}] {name} = {repr(value)[:60]}: {problem}")


def _nearest(name: str, known: Any) -> str:
    near = difflib.get_close_matches(name, list(known), n=1)
    listed = f"known: {', '.join(sorted(known))}"
    return f"did you mean {near[0]}? {listed[0].upper()}{listed[1:]}" if near else listed
