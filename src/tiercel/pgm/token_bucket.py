"""A token bucket: a rate that holds over any interval, with a burst on top."""

_ROUNDING_S = 1e-6  # without it a deadline could come a hair too early, for ever


class TokenBucket:
    def __init__(self, rate: float, size: float, now: float) -> None:
        """`size` tokens at most, `rate` more every second; full at first."""
        self.rate = rate
        self._size = size
        self._tokens = size
        self._at = now

    def _fill(self, now: float) -> None:
        if now > self._at:
            self._tokens = min(self._size, self._tokens + (now - self._at) * self.rate)
            self._at = now

    def take(self, tokens: float, now: float) -> bool:
        """Whether there were so many."""
        self._fill(now)
        if self._tokens < tokens:
            return False
        self._tokens -= tokens
        return True

    def ready_at(self, tokens: float) -> float:
        """When there will be so many."""
        missing = tokens - self._tokens
        return self._at + (missing / self.rate + _ROUNDING_S if missing > 0 else 0.0)
