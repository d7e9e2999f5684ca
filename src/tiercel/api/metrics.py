"""Prometheus metrics of a queue manager."""

from collections import Counter
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from prometheus_client import CollectorRegistry, ProcessCollector, exposition
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)

from tiercel.admin.queues import QueueKind, kind_of
from tiercel.admin.sources import name_of
from tiercel.engine.engine import Engine
from tiercel.engine.queue_state import QueueState
from tiercel.model.codes import MessageClass, message_class
from tiercel.model.queue import OutgoingQueue
from tiercel.model.queue_name import parse_queue_name
from tiercel.store import Store

if TYPE_CHECKING:
    from tiercel.api.context import Api

_SLICE: Final = 100  # queues per turn
_UNSEEN: Final = frozenset({QueueKind.SUBQUEUE})  # they come and go with their messages


class Described(NamedTuple):
    """A metric, as the reference lists it."""

    name: str
    kind: str
    labels: tuple[str, ...]
    meaning: str


_QUEUE: Final = ("queue", "kind")

METRICS: Final = (
    Described("tiercel_queue_messages", "gauge", _QUEUE, "messages in the queue"),
    Described("tiercel_queue_bytes", "gauge", _QUEUE, "bytes of the messages in the queue"),
    Described(
        "tiercel_queue_oldest_message_age_seconds",
        "gauge",
        _QUEUE,
        "age of the oldest message in the queue; 0 when it is empty",
    ),
    Described("tiercel_queue_locked_messages", "gauge", _QUEUE, "messages held by a reader"),
    Described("tiercel_queue_messages_in_total", "counter", _QUEUE, "messages that arrived since the start"),
    Described("tiercel_queue_messages_out_total", "counter", _QUEUE, "messages that left since the start"),
    Described("tiercel_outgoing_state", "gauge", ("queue", "state"), "1 for the state of an outgoing queue"),
    Described("tiercel_connections", "gauge", ("direction",), "sessions with other queue managers"),
    Described(
        "tiercel_connection_failures_total", "counter", ("reason",), "connections that failed since the start"
    ),
    Described(
        "tiercel_not_believed_total",
        "counter",
        ("reason",),
        "acknowledgements and transactional messages of other queue managers without evidence",
    ),
    Described(
        "tiercel_http_connections", "gauge", ("direction",), "connections that carry messages over HTTP"
    ),
    Described(
        "tiercel_http_requests_total",
        "counter",
        ("direction", "status"),
        "messages over HTTP by the status of the answer: in, answered by us; out, answered by others",
    ),
    Described(
        "tiercel_http_dropped_total",
        "counter",
        ("reason",),
        "messages over HTTP that were answered with 200 and not kept",
    ),
    Described(
        "tiercel_multicast_packets_total",
        "counter",
        ("direction", "kind"),
        "multicast packets since the start: sent data, repairs and NAKs answered; received packets, "
        "duplicates, repaired, lost and NAKs sent",
    ),
    Described(
        "tiercel_multicast_dropped_total",
        "counter",
        ("reason",),
        "multicast packets and messages that were not kept",
    ),
    Described("tiercel_multicast_messages_total", "counter", (), "messages that arrived by multicast"),
    Described("tiercel_multicast_sources", "gauge", (), "sources that are heard"),
    Described(
        "tiercel_trusted_certificate_expiry_timestamp_seconds",
        "gauge",
        ("name",),
        "when a certificate in the trust store expires, in seconds since 1970",
    ),
    Described("tiercel_discards_total", "counter", ("reason",), "messages that ended without being received"),
    Described("tiercel_dead_letters_total", "counter", ("reason",), "messages that became dead letters here"),
    Described("tiercel_commit_seconds", "histogram", (), "duration of commits that change a queue"),
    Described("tiercel_claimed_messages", "gauge", ("consumer", "queue"), "messages that a consumer holds"),
    Described(
        "tiercel_claim_age_seconds",
        "gauge",
        ("consumer", "queue"),
        "age of the oldest claim of a consumer; 0 when it holds none",
    ),
    Described(
        "tiercel_consumer_lag_messages",
        "gauge",
        ("consumer", "queue"),
        "messages in a queue that its consumer has not claimed yet",
    ),
    Described("tiercel_leases", "gauge", (), "messages leased and not yet acknowledged"),
    Described("tiercel_messages_bytes", "gauge", (), "bytes of all messages, limited by the quota"),
    Described(
        "tiercel_store_bytes",
        "gauge",
        (),
        "bytes used in the store, with freed pages that it will reuse",
    ),
    Described("tiercel_store_limit_bytes", "gauge", (), "the most that the store may use; 0 for no limit"),
    Described("tiercel_store_disk_free_bytes", "gauge", (), "free space of the store's file system"),
    Described(
        "tiercel_store_refusals_total",
        "counter",
        (),
        "writes refused because the store or the disk is full, since the start",
    ),
    Described(
        "tiercel_connections_turned_away_total",
        "counter",
        ("interface",),
        "connections to the API, the data endpoint, remote reading and SRMP, refused or evicted",
    ),
    Described("tiercel_build", "info", ("version", "guid", "computer"), "version and identity"),
)
_BY_NAME: Final = {each.name: each for each in METRICS}


class _Snapshot:
    """Values collected over several turns, for a registry that wants them at once."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = list(metrics)

    def collect(self) -> Iterator[Metric]:
        return iter(self._metrics)


async def rendered(api: "Api") -> tuple[bytes, str]:
    """The text, and its media type."""
    runner = api.runner
    states: list[QueueState] = await runner.call(lambda engine: list(_queues(engine)))
    rows: list[dict[str, Any]] = []
    for start in range(0, len(states), _SLICE):
        part = states[start : start + _SLICE]
        rows += await runner.call(lambda engine: [_row(engine, each) for each in part])  # noqa: B023  # run at once
    others = await runner.call(lambda engine: list(_others(api, engine)))
    registry = CollectorRegistry()
    registry.register(_Snapshot([*_of_queues(rows), *others]))
    ProcessCollector(registry=registry)
    return exposition.generate_latest(registry), exposition.CONTENT_TYPE_LATEST


def _queues(engine: Engine) -> Iterator[QueueState]:
    for state in engine.queues.all():
        if not engine.queues.is_internal(state) and kind_of(state) not in _UNSEEN:
            yield state
            if state.journal is not None:
                yield state.journal


def _row(engine: Engine, state: QueueState) -> dict[str, Any]:
    oldest = engine.browsing.oldest_arrival(state)
    queue = state.queue
    return {
        "labels": [name_of(engine, state), str(kind_of(state))],
        "tiercel_queue_messages": state.count,
        "tiercel_queue_bytes": state.size_bytes,
        "tiercel_queue_oldest_message_age_seconds": 0 if oldest is None else max(engine.seconds - oldest, 0),
        "tiercel_queue_locked_messages": len(state.locks),
        "tiercel_queue_messages_in_total": state.entered,
        "tiercel_queue_messages_out_total": state.left,
        "state": queue.state.name.lower() if isinstance(queue, OutgoingQueue) else None,
    }


def _of_queues(rows: list[dict[str, Any]]) -> Iterator[Metric]:
    for described in METRICS:
        if described.labels == _QUEUE:
            family = _family(described.name)
            for row in rows:
                family.add_metric(row["labels"], row[described.name])
            yield family
    family = _family("tiercel_outgoing_state")
    for row in rows:
        if row["state"] is not None:
            family.add_metric([row["labels"][0], row["state"]], 1)
    yield family


def _others(api: "Api", engine: Engine) -> Iterator[Metric]:
    yield _counts("tiercel_discards_total", engine.ledger.counts)
    yield _counts("tiercel_dead_letters_total", engine.ledger.dead_letter_counts)
    yield _claims(engine, "tiercel_claimed_messages", "count")
    yield _claims(engine, "tiercel_claim_age_seconds", "oldest_s")
    yield _lags(engine)
    yield _number("tiercel_leases", api.receiver.leases.count)
    yield _number("tiercel_messages_bytes", engine.total_bytes)
    yield from _store(api.runner.driver.store)
    yield _turned_away(api)
    yield _commits(api)
    yield from _connections(api)
    yield from _http(api)
    yield from _multicast(api)
    yield _trust(engine)
    manager = engine.queue_manager
    names = {"guid": str(manager.identifier), "computer": manager.computer_name}
    yield InfoMetricFamily(
        "tiercel_build", _BY_NAME["tiercel_build"].meaning, {"version": version("tiercel"), **names}
    )


def _family(name: str) -> Any:
    described = _BY_NAME[name]
    kind = CounterMetricFamily if described.kind == "counter" else GaugeMetricFamily
    return kind(name, described.meaning, labels=described.labels)


def _number(name: str, value: float) -> Metric:
    family = _family(name)
    family.add_metric([], value)
    return family  # type: ignore[no-any-return]


def _counts(name: str, counts: Any) -> Metric:
    family = _family(name)
    for code, count in sorted(counts.items()):
        found = message_class(code)
        reason = found.name.lower() if isinstance(found, MessageClass) else f"class_{code:#06x}"
        family.add_metric([reason if code else "damaged"], count)
    return family  # type: ignore[no-any-return]


def _claims(engine: Engine, name: str, field: str) -> Metric:
    family = _family(name)
    for each in engine.claims.all():
        family.add_metric([each.consumer, each.queue], getattr(each, field) or 0)
    return family  # type: ignore[no-any-return]


def _lags(engine: Engine) -> Metric:
    family = _family("tiercel_consumer_lag_messages")
    for each in engine.claims.all():
        queue = engine.queues.find(parse_queue_name(each.queue))
        family.add_metric([each.consumer, each.queue], 0 if queue is None else queue.count)
    return family  # type: ignore[no-any-return]


def _commits(api: "Api") -> Metric:
    commits = api.runner.driver.node.commits
    family = HistogramMetricFamily("tiercel_commit_seconds", _BY_NAME["tiercel_commit_seconds"].meaning)
    family.add_metric([], commits.buckets(), commits.total_s)
    return family


def _store(store: Store) -> Iterator[Metric]:
    space = store.space()
    yield _number("tiercel_store_bytes", space.used)
    yield _number("tiercel_store_limit_bytes", space.limit or 0)
    if space.disk_free is not None:
        yield _number("tiercel_store_disk_free_bytes", space.disk_free)
    yield _number("tiercel_store_refusals_total", store.refusals)


def _turned_away(api: "Api") -> Metric:
    family = _family("tiercel_connections_turned_away_total")
    family.add_metric(["api"], api.limits.turned_away)
    reading = None if api.daemon is None else api.daemon.remote_reading
    if reading is not None:
        family.add_metric(["remote_read"], reading.limits.turned_away)
        family.add_metric(["endpoint_mapper"], reading.mapper_limits.turned_away)
    if api.daemon is not None and api.daemon.http is not None:
        family.add_metric(["srmp"], api.daemon.http.guests.turned_away)
    for interface, count in {} if api.daemon is None else api.daemon.turned_away.items():
        family.add_metric([interface], count())
    return family  # type: ignore[no-any-return]


def _connections(api: "Api") -> Iterator[Metric]:
    failures, open_ones = _family("tiercel_connection_failures_total"), _family("tiercel_connections")
    doubts = _family("tiercel_not_believed_total")
    if api.daemon is not None:
        http = api.daemon.http
        of_http = (Counter[str](), Counter[str]()) if http is None else (http.failures, http.protocol.doubts)
        for reason, count in sorted((api.daemon.network.failures + of_http[0]).items()):
            failures.add_metric([reason], count)
        for doubt, count in sorted((Counter(api.daemon.protocol.doubts) + of_http[1]).items()):
            doubts.add_metric([doubt], count)
        sessions = api.daemon.protocol.sessions
        out = sum(each.is_initiator for each in sessions)
        open_ones.add_metric(["out"], out)
        open_ones.add_metric(["in"], len(sessions) - out)
    yield failures
    yield doubts
    yield open_ones


def _trust(engine: Engine) -> Metric:
    family = _family("tiercel_trusted_certificate_expiry_timestamp_seconds")
    for entry in engine.verifier.trust:
        family.add_metric([entry.name], entry.certificate.not_after.timestamp())
    return family  # type: ignore[no-any-return]


def _http(api: "Api") -> Iterator[Metric]:
    open_ones, requests = _family("tiercel_http_connections"), _family("tiercel_http_requests_total")
    dropped = _family("tiercel_http_dropped_total")
    if api.daemon is not None and api.daemon.http is not None:
        srmp = api.daemon.http.protocol
        ours = [each.is_ours for each in srmp.connections]
        for direction, is_ours in (("in", False), ("out", True)):
            open_ones.add_metric([direction], ours.count(is_ours))
        for direction, statuses in (("in", srmp.statuses), ("out", srmp.answers)):
            for status, count in sorted(statuses.items()):
                requests.add_metric([direction, str(status)], count)
        for reason, count in sorted(srmp.dropped.items()):
            dropped.add_metric([reason], count)
    yield open_ones
    yield requests
    yield dropped


def _multicast(api: "Api") -> Iterator[Metric]:
    packets, dropped = _family("tiercel_multicast_packets_total"), _family("tiercel_multicast_dropped_total")
    network = None if api.daemon is None else api.daemon.multicast
    messages = sources = 0
    if network is not None:
        protocol = network.protocol
        for direction, counts in (("in", protocol.incoming.totals), ("out", protocol.totals)):
            for kind, count in sorted(counts.items()):
                packets.add_metric([direction, kind], count)
        reasons = Counter({"malformed packet": protocol.malformed, "not sent": network.failures.total()})
        for reason, count in sorted((reasons + protocol.incoming.dropped).items()):
            dropped.add_metric([reason], count)
        messages = protocol.incoming.messages
        sources = sum(len(each.sessions) for each in protocol.incoming.receivers.values())
    yield packets
    yield dropped
    yield _number("tiercel_multicast_messages_total", messages)
    yield _number("tiercel_multicast_sources", sources)
