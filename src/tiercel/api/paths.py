"""Where things are: public paths, and those between the data process and the daemon."""

from typing import Final

V1: Final = "/data/v1"
INTERNAL: Final = "/internal"
API: Final = "/api/v1"
