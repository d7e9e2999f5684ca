"""Multicast groups: the sources that are heard, what was lost and repaired, and what is sent."""

from typing import Any

from tiercel.admin.sources import name_of
from tiercel.engine.engine import Engine
from tiercel.pgm.incoming import counts
from tiercel.pgm.protocol import MulticastProtocol
from tiercel.pgm.receiver import Receiver
from tiercel.pgm.source import Source

Json = dict[str, Any]


def describe(engine: Engine, protocol: MulticastProtocol | None) -> Json:
    return {
        "enabled": protocol is not None,
        "interface": None if protocol is None else protocol.address,
        "groups": [_group(engine, address, protocol) for address in sorted(engine.subscriptions.addresses)],
        "sending": [] if protocol is None else [_sent(source) for source in protocol.sources.values()],
    }


def _group(engine: Engine, address: str, protocol: MulticastProtocol | None) -> Json:
    group, _, port = address.rpartition(":")
    receiver = None if protocol is None else protocol.incoming.receivers.get((group, int(port)))
    return {
        "address": address,
        "queues": [name_of(engine, queue) for queue in engine.subscriptions.queues(address)],
        "sources": [] if receiver is None else _sources(receiver),
    }


def _sources(receiver: Receiver) -> list[Json]:
    return [
        {"address": each.address, "session": str(each.tsi), "missing": each.missing, **counts(each)}
        for each in receiver.sessions.values()
    ]


def _sent(source: Source) -> Json:
    return {
        "address": f"{source.group}:{source.port}",
        "session": str(source.tsi),
        "state": source.state.name.lower(),
        "packets": source.originals,
        "repairs": source.repairs,
        "naks": source.naks,
        "waiting_bytes": source.waiting_bytes,
        "window_bytes": source.window_bytes,
    }
