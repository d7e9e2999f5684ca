"""Stored messages that the next hop has, and that are still to be removed here: [MS-MQQB] 3.1.5.5.3.

A commit costs about as much for one message as for hundreds, and nothing that leaves depends on this one. So
acknowledgements that come close together share it, or that of the next messages that arrive. Until then the
messages stay locked. After a crash they are sent again, as if their acknowledgement had been lost on its way,
and the next hop, which remembers them, drops them.
"""

from tiercel.binary.context import Context
from tiercel.binary.flight import Entry
from tiercel.engine.outgoing import Outgoing

_LONGEST_MS = 5
_MESSAGES_MAX = 512
_BYTES_MAX = 2 << 20  # of messages kept in memory


class Deliveries:
    def __init__(self, context: Context, outgoing: Outgoing) -> None:
        self._context = context
        self._outgoing = outgoing
        self._masks: dict[Entry, int] = {}
        self._count = self._bytes = 0

    def add(self, entry: Entry, mask: int) -> None:
        """The next hop has these messages of an entry."""
        if not self._masks:
            self._context.timers.set(self.end, self._context.after_ms(_LONGEST_MS))
        before = self._masks.get(entry, 0)
        self._masks[entry] = before | mask
        self._count += mask.bit_count()
        self._bytes += 0 if before else entry.size

    def flush(self, *, is_written: bool) -> None:
        """Before the commit, which is made durable in any case if `is_written`."""
        if is_written or self._count >= _MESSAGES_MAX or self._bytes >= _BYTES_MAX:
            self.end()

    def end(self) -> None:
        """Remove the messages in this batch."""
        masks, self._masks = self._masks, {}
        self._count = self._bytes = 0
        self._context.timers.cancel(self.end)
        self._outgoing.delivered(
            entry.taken.part(mask) for entry, mask in masks.items() if entry.taken is not None
        )
