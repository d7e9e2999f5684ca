"""Durations as people write them: 30, 90s, 10m, 2h, 7d, infinite."""

from typing import Final

import typer

_UNITS: Final = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}


def seconds_of(text: str | float) -> float:
    if isinstance(text, float):  # the default of an option
        return text
    digits = text.rstrip("smindh")
    unit = text[len(digits) :]
    try:
        value = float(digits) * _UNITS[unit]
    except (ValueError, KeyError):
        value = -1.0
    if not 0 <= value < 2**32 - 2:
        raise typer.BadParameter(f"{text!a} is not a valid duration; use 30, 90s, 10m, 2h or 7d")
    return value


def lifetime_of(text: str) -> str:
    """Whole seconds as a string for the API, or infinite."""
    return "infinite" if text.lower() == "infinite" else str(int(seconds_of(text)))
