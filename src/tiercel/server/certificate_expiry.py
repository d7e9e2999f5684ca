"""Warns of certificates in the trust store that expire soon, at start and then once a day.

The specification checks no dates, so signatures count after that, too: it is for the administrator to act.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final

from tiercel.message_security.trust import Trust
from tiercel.server import log

_DAY_S: Final = 86_400
_WARN_BEFORE_S: Final = 30 * _DAY_S


def warn(trust: Trust, now: float) -> None:
    for entry in trust:
        expires = entry.certificate.not_after
        left_s = expires.timestamp() - now
        if left_s < _WARN_BEFORE_S:
            log.warning(
                "certificate_expires",
                certificate=entry.name,
                expires=expires.date().isoformat(),
                days=int(left_s // _DAY_S),
                fingerprint=entry.certificate.fingerprint,
            )


class ExpiryWatch:
    def __init__(self, trust: Callable[[], Trust], clock: Callable[[], float] = time.time) -> None:
        self._trust = trust
        self._clock = clock
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        warn(self._trust(), self._clock())
        self._timer = asyncio.get_running_loop().call_later(_DAY_S, self.start)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
