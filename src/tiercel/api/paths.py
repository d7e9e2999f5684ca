"""Prefixes of the URLs: API, console, data endpoint, and between the data process and the daemon."""

from typing import Final

API: Final = "/api/v1"
CONSOLE: Final = "/console"
DATA: Final = "/data/v1"
INTERNAL: Final = "/internal"
