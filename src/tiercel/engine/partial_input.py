"""One budget for everything that has not arrived completely: packets of a transport, or requests.

Any peer may begin 4 MiB and never end them. When incomplete input takes too much memory, the connection whose
input has been incomplete for the longest time is closed; its peer sends it again.
"""

from collections.abc import Callable

SMALL = 65536  # bytes: less is not counted, because the number of connections limits it


class PartialInput:
    """Each connection is identified by a function that closes it with a reason."""

    def __init__(self, noun: str) -> None:
        self._noun = noun
        self._sizes: dict[Callable[[str], None], int] = {}  # the oldest first
        self._total = 0

    def hold(self, close: Callable[[str], None], size: int, limit: int) -> None:
        """`size` bytes of incomplete input are in memory; `limit` is the budget for all of it."""
        self._total += size - self._sizes.get(close, 0)
        self._sizes[close] = size
        while self._total > limit:
            close_oldest = next(iter(self._sizes))
            self.release(close_oldest)
            noun = self._noun
            close_oldest(f"its {noun} is incomplete, and all incomplete {noun}s have more than {limit} bytes")

    def release(self, close: Callable[[str], None]) -> None:
        """The input is complete, or the connection is closed."""
        self._total -= self._sizes.pop(close, 0)
