"""A short soak over loopback and over two network namespaces; `make soak` runs the long one."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from .links import Link, LoopbackLink, NamespaceLink
from .soak import Plan, Soak
from .transports import Transport

PLANS = {  # HTTP without TLS only in `make soak`: the machines are the same
    Transport.BINARY: Plan(messages=2000, kills=3, cuts=3, seed=2),
    Transport.TLS: Plan(messages=300, kills=2, cuts=1, seed=3),
    Transport.HTTPS: Plan(messages=600, kills=3, cuts=3, seed=2),
}


@pytest.mark.parametrize(
    ("kind", "transport"),
    [
        pytest.param(kind, transport, id=f"{kind}-{transport.value}")
        for kind in ("loopback", "namespaces")
        for transport in PLANS
        if (kind, transport) != ("namespaces", Transport.TLS)  # only in `make soak`
    ],
)
def test_nothing_is_lost_doubled_or_out_of_order(
    kind: str, transport: Transport, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    plan = PLANS[transport]
    if kind == "namespaces" and (reason := NamespaceLink.missing()):
        pytest.skip(reason)
    link: Link = NamespaceLink() if kind == "namespaces" else LoopbackLink(transport.port)
    result = asyncio.run(Soak(plan, transport, link, tmp_path).run())
    assert result.messages == plan.messages
    assert result.kills.total() == plan.kills
    assert result.cuts.total() == plan.cuts
    record_property("kills", result.kills.total())
    record_property("cuts", result.cuts.total())
