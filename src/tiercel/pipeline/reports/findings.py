"""The result of a job, for the chart and the page."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """`data` is for the report's own chart; everything else is for people."""

    headline: str
    facts: Sequence[tuple[str, str]] = ()
    header: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    data: Any = field(default=None)
    is_empty: bool = False


def empty(why: str) -> Findings:
    return Findings(headline=why, is_empty=True)
