"""Prefixes of the URLs: of the API, of the data endpoint, and between the data process and the daemon."""

from typing import Final

API: Final = "/api/v1"
DATA: Final = "/data/v1"
INTERNAL: Final = "/internal"
