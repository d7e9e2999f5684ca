"""What a job hands to a picture and a page."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """`data` is what the report's own picture needs; everything else is for people."""

    headline: str
    facts: Sequence[tuple[str, str]] = ()
    header: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    data: Any = field(default=None)
    is_empty: bool = False


def empty(why: str) -> Findings:
    return Findings(headline=why, is_empty=True)
