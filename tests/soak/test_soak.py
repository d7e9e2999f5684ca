"""A short soak over loopback and over two network namespaces; `make soak` runs the long one."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from .links import Link, LoopbackLink, NamespaceLink
from .soak import Plan, Soak

PLAN = Plan(messages=2000, kills=3, cuts=3, seed=2)


@pytest.mark.parametrize("kind", ["loopback", "namespaces"])
def test_nothing_is_lost_doubled_or_out_of_order(
    kind: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    if kind == "namespaces" and (reason := NamespaceLink.missing()):
        pytest.skip(reason)
    link: Link = NamespaceLink() if kind == "namespaces" else LoopbackLink()
    result = asyncio.run(Soak(PLAN, link, tmp_path).run())
    assert result.messages == PLAN.messages
    assert result.kills.total() == PLAN.kills
    assert result.cuts.total() == PLAN.cuts
    record_property("kills", result.kills.total())
    record_property("cuts", result.cuts.total())
