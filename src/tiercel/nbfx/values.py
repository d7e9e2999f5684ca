"""The values that text records carry, and the characters that they stand for.

Python's own types stand for most records: str, bool, int, float, Decimal, UUID, bytes, and a tuple for a
list. The classes here keep what those would lose: 100 ns of a date, single precision, a prefix.
"""

import base64
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal
from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple, Union
from uuid import UUID

TICKS_PER_SECOND: Final = 10_000_000
TICKS_PER_DAY: Final = 86_400 * TICKS_PER_SECOND
TICKS_MAX: Final = 3_155_378_975_999_999_999  # the end of the year 9999
_EPOCH: Final = datetime(1, 1, 1)  # noqa: DTZ001 - ticks have no zone
_MICROSECOND: Final = timedelta(microseconds=1)
_SINGLE: Final = Struct("<f")


class Single(float):
    """A number of single precision, as FloatText has it: 0.1 is "0.1", not "0.10000000149011612"."""

    __slots__ = ()


class Zone(IntEnum):
    """The kind of a date: [MC-NBFX] 2.2.3.12."""

    UNSPECIFIED = 0
    UTC = 1
    LOCAL = 2  # the ticks are UTC; the sender's offset is not carried


class DateTime(NamedTuple):
    """A moment in ticks of 100 ns since the year 1."""

    ticks: int
    zone: Zone = Zone.UNSPECIFIED

    @classmethod
    def of(cls, moment: datetime) -> "DateTime":
        """An aware datetime is written in UTC, a naive one without a zone."""
        zone = Zone.UNSPECIFIED
        if moment.tzinfo is not None:
            moment, zone = moment.astimezone(UTC).replace(tzinfo=None), Zone.UTC
        return cls((moment - _EPOCH) // _MICROSECOND * 10, zone)

    def datetime(self) -> datetime:
        """The moment in microseconds; aware unless the zone is unspecified."""
        moment = _EPOCH + timedelta(microseconds=self.ticks // 10)
        return moment if self.zone is Zone.UNSPECIFIED else moment.replace(tzinfo=UTC)

    def __str__(self) -> str:
        seconds, rest = divmod(self.ticks, TICKS_PER_SECOND)
        moment = (_EPOCH + timedelta(seconds=seconds)).isoformat()
        return moment + _fraction(rest) + ("", "Z", "+00:00")[self.zone]


class TimeSpan(NamedTuple):
    """A duration in ticks of 100 ns."""

    ticks: int

    @classmethod
    def of(cls, duration: timedelta) -> "TimeSpan":
        return cls(duration // _MICROSECOND * 10)

    def timedelta(self) -> timedelta:
        return timedelta(microseconds=self.ticks // 10)

    def __str__(self) -> str:
        days, rest = divmod(abs(self.ticks), TICKS_PER_DAY)
        seconds, fraction = divmod(rest, TICKS_PER_SECOND)
        hours, minutes, seconds = seconds // 3600, seconds // 60 % 60, seconds % 60
        date = f"{days}D" if days else ""
        clock = (f"{hours}H" if hours else "") + (f"{minutes}M" if minutes else "")
        if seconds or fraction:
            clock += f"{seconds}{_fraction(fraction)}S"
        if not date and not clock:
            return "PT0S"
        return f"{'-' * (self.ticks < 0)}P{date}{'T' if clock else ''}{clock}"


class UniqueId(NamedTuple):
    """A GUID as `urn:uuid:`, which WS-Addressing uses as the id of a message."""

    uuid: UUID

    def __str__(self) -> str:
        return f"urn:uuid:{self.uuid}"


class QName(NamedTuple):
    """A name with a prefix of one letter, as QNameDictionaryText has it."""

    prefix: str
    name: str

    def __str__(self) -> str:
        return f"{self.prefix}:{self.name}"


Value = Union[  # noqa: UP007 - a list contains values
    str, bool, int, float, Decimal, DateTime, TimeSpan, UUID, UniqueId, QName, bytes, tuple["Value", ...]
]


def text_of(value: Value) -> str:
    """The characters that a value stands for in XML."""
    kind = type(value)
    if kind is str:
        return value  # type: ignore[return-value]  # its type was compared
    if kind is int:
        return str(value)
    write = _TEXTS.get(kind)
    return str(value) if write is None else write(value)


def _fraction(ticks: int) -> str:
    return f".{ticks:07}".rstrip("0") if ticks else ""


def _bool_text(value: object) -> str:
    return "true" if value else "false"


def _decimal_text(value: Decimal) -> str:
    return f"{value:f}" if value else f"{abs(value):f}"  # .NET has no negative zero here


def _bytes_text(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _list_text(values: "tuple[Value, ...]") -> str:
    return " ".join(map(text_of, values))


def _double_text(value: float) -> str:
    """.NET's format "R": 15 digits when they give the number back, else 17."""
    return (
        _short(value, 15)
        or _named(value)
        or _shortest(value, 15, 17, exact=lambda text: float(text) == value)
    )


def _single_text(value: float) -> str:
    """The same with 7 digits or 9."""
    return (
        _short(value, 7)
        or _named(value)
        or _shortest(value, 7, 9, exact=lambda text: _as_single(float(text)) == value)
    )


_TOO_LONG: Final = {digits: 10.0**digits for digits in (7, 15)}


def _short(value: float, digits: int) -> str:
    """The text of a number that Python writes with few digits and without an exponent, which most are; else
    "".
    """
    if 1e-4 <= value < _TOO_LONG[digits] and len(text := float.__repr__(value)) <= digits + 1:
        return text.removesuffix(".0")
    return ""


def _as_single(value: float) -> float:
    try:
        return float(_SINGLE.unpack(_SINGLE.pack(value))[0])
    except OverflowError:
        return value


def _named(value: float) -> str:
    if value != value:  # noqa: PLR0124 - NaN is the number that is not itself
        return "NaN"
    if value in {float("inf"), float("-inf")}:
        return "INF" if value > 0 else "-INF"
    if value == 0:
        return "-0" if str(value)[0] == "-" else "0"
    return ""


_SCIENTIFIC: Final = re.compile(r"(-?)(\d)(?:\.(\d+))?e([+-]\d+)")


def _shortest(value: float, few: int, many: int, *, exact: Callable[[str], bool]) -> str:
    text, digits = _rounded(value, few), few
    if not exact(text):
        text, digits = _rounded(value, many), many
    found = _SCIENTIFIC.fullmatch(text)
    assert found is not None
    sign, first, rest, exponent = found[1], found[2], (found[3] or "").rstrip("0"), int(found[4])
    if -5 < exponent < digits:
        return sign + _fixed(first + rest, exponent)
    return f"{sign}{first}{'.' + rest if rest else ''}E{exponent:+03}"


def _rounded(value: float, digits: int) -> str:
    """.NET rounds a half away from zero, Python to the even digit."""
    context = Context(prec=digits, rounding=ROUND_HALF_UP)
    return f"{context.create_decimal_from_float(value):.{digits - 1}e}"


def _fixed(digits: str, exponent: int) -> str:
    if exponent < 0:
        return "0." + "0" * (-exponent - 1) + digits
    whole = digits[: exponent + 1].ljust(exponent + 1, "0")
    return f"{whole}.{digits[exponent + 1 :]}" if len(digits) > exponent + 1 else whole


_TEXTS: Final[dict[type, Callable[..., str]]] = {
    bool: _bool_text,
    float: _double_text,
    Single: _single_text,
    Decimal: _decimal_text,
    bytes: _bytes_text,
    tuple: _list_text,
}
