"""One budget for all packets that have not arrived completely.

Any peer may begin a packet of 4 MiB and never end it. When such packets take too much memory, the session
whose packet has been incomplete for the longest time is closed; its peer sends the packet again.
"""

from collections.abc import Callable

SMALL = 65536  # bytes: less is not counted, because the number of connections limits it


class PartialPackets:
    """Each session is identified by a function that closes it with a reason."""

    def __init__(self) -> None:
        self._sizes: dict[Callable[[str], None], int] = {}  # the oldest packet first
        self._total = 0

    def hold(self, close: Callable[[str], None], size: int, limit: int) -> None:
        """`size` bytes of an incomplete packet are in memory; `limit` is the budget for all of them."""
        self._total += size - self._sizes.get(close, 0)
        self._sizes[close] = size
        while self._total > limit:
            close_oldest = next(iter(self._sizes))
            self.release(close_oldest)
            close_oldest(f"its packet is incomplete, and all incomplete packets have more than {limit} bytes")

    def release(self, close: Callable[[str], None]) -> None:
        """The packet is complete, or its session is closed."""
        self._total -= self._sizes.pop(close, 0)
