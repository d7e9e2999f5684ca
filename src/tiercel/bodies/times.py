"""Windows timestamps as ISO 8601 text, with all 100 ns digits; a datetime has only microseconds."""

from datetime import UTC, datetime, timedelta

TICKS_PER_SECOND = 10_000_000
_TICKS_PER_DAY = 86_400 * TICKS_PER_SECOND
TICKS_MAX = 3_155_378_975_999_999_999  # the end of the year 9999, as in DateTime.MaxValue
FILETIME_EPOCH_TICKS = 504_911_232_000_000_000  # 1601-01-01
_OLE_EPOCH = datetime(1899, 12, 30)  # noqa: DTZ001 - an OLE date has no zone
_OLE_MIN, _OLE_MAX = -657_435, 2_958_466  # days of the years 100 and 9999, exclusive


def ticks_text(ticks: int, suffix: str = "") -> str:
    """The time of a number of 100 ns ticks since the year 1; ValueError after the year 9999."""
    if not 0 <= ticks <= TICKS_MAX:
        raise ValueError(f"{ticks} ticks are no moment from the year 1 to 9999")
    seconds, rest = divmod(ticks, TICKS_PER_SECOND)
    moment = datetime(1, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    return moment.replace(tzinfo=None).isoformat() + _fraction(rest) + suffix


def _fraction(ticks: int) -> str:
    return f".{ticks:07}".rstrip("0") if ticks else ""


def span_text(ticks: int) -> str:
    """A TimeSpan in .NET notation: `-1.02:03:04.5`."""
    days, rest = divmod(abs(ticks), _TICKS_PER_DAY)
    seconds, fraction = divmod(rest, TICKS_PER_SECOND)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{'-' * (ticks < 0)}{f'{days}.' if days else ''}{clock}{f'.{fraction:07}' if fraction else ''}"


def filetime_text(filetime: int) -> str:
    return ticks_text(FILETIME_EPOCH_TICKS + filetime, "Z")


def ole_date_text(days: float) -> str:
    """Days since 1899-12-30; the fraction always counts forward: -1.25 is 06:00 on the day before."""
    if not _OLE_MIN < days < _OLE_MAX:  # also rejects NaN
        raise ValueError(f"{days} days are no date from the year 100 to 9999")
    whole = int(days)
    milliseconds = round(abs(days - whole) * 86_400_000)
    return (_OLE_EPOCH + timedelta(days=whole, milliseconds=milliseconds)).isoformat()


def ole_date(moment: datetime) -> float:
    """The OLE date of a naive datetime."""
    distance = moment - _OLE_EPOCH
    fraction = timedelta(seconds=distance.seconds, microseconds=distance.microseconds) / timedelta(days=1)
    return distance.days + fraction if distance.days >= 0 else distance.days - fraction
