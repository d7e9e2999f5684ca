"""The discard ledger: nothing is dropped silently.

Whenever a message ends without being received, a line stays here: when, where, which message, and why in a
plain sentence. The ledger is bounded: the newest lines push out the oldest.
"""

import json
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from tiercel.engine.numbered_lines import FIRST, LAST, newest
from tiercel.model.codes import class_meaning
from tiercel.model.errors import StoreDamagedError, StoreFullError
from tiercel.model.identifiers import MessageId
from tiercel.store.interface import Keyspace
from tiercel.wire.user_message import UserMessage

if TYPE_CHECKING:
    from tiercel.engine.core import Core
    from tiercel.engine.queue_state import QueueState

LEDGER_LINES = 10_000  # a few megabytes: days of ordinary trouble, and no trouble of its own
_RECENT = 1000
_SUMMARY_LINES = 8  # in a store that is full
_LINES_WHEN_FULL = 32  # which there may be in any case: ten kilobytes


@dataclass(frozen=True, slots=True)
class Discard:
    time: int
    queue: str
    message_id: str
    label: str
    size: int
    message_class: int
    reason: str


class Ledger:
    """Lines are written with the batch that discards the message, so the one is never without the other."""

    def __init__(self, core: "Core") -> None:
        self._core = core
        self._new: deque[Discard] = deque(maxlen=LEDGER_LINES)
        self._last: int | None = None
        self._recent: dict[str, None] = {}  # ids of the newest lines
        self.counts: Counter[int] = Counter()  # by class, since the start; 0 is a damaged record
        self.dead_letter_counts: Counter[int] = Counter()  # the same of those that became dead letters here

    def add(self, queue: str, packet: UserMessage, reason: int, detail: str = "") -> None:
        self.counts[int(reason)] += 1
        identifier = str(packet.id)
        self._remember(identifier)
        self._new.append(
            Discard(
                time=self._core.seconds,
                queue=queue,
                message_id=identifier,
                label=packet.label,
                size=packet.packet_size,
                message_class=reason,
                reason=detail or class_meaning(reason),
            )
        )

    def add_learned(self, queue: str, message: MessageId, reason: int, note: str = "") -> None:
        """A message of ours ended on another computer, and we hear of it when nothing of it is left here."""
        identifier = str(message)
        if identifier in self._recent:  # two acknowledgements for one message
            return
        self._remember(identifier)
        self.counts[int(reason)] += 1
        sentence = f"another queue manager reports: {class_meaning(reason)}{note}"
        self._new.append(Discard(self._core.seconds, queue, identifier, "", 0, reason, sentence))

    def _remember(self, identifier: str) -> None:
        self._recent[identifier] = None
        if len(self._recent) > _RECENT:
            del self._recent[next(iter(self._recent))]

    def add_damaged(self, queue: "QueueState", lookup_id: int, size: int, problem: StoreDamagedError) -> None:
        sentence = f"the record of the message with lookup id {lookup_id} is damaged: {problem.problem}"
        self.add_sentence(str(queue), size, sentence)

    def add_sentence(self, what: str, size: int, sentence: str) -> None:
        self.counts[0] += 1
        self._new.append(Discard(self._core.seconds, what, "", "", size, 0, sentence))

    def flush(self) -> None:
        """Writes the new lines into the batch and takes the oldest out."""
        if not self._new:
            return
        batch = self._core.batch
        last = self._last_number()
        for line in self._lines_that_fit():
            last += 1
            batch.put(Keyspace.DISCARDS, last.to_bytes(8, "big"), line)
        self._new.clear()
        self._last = last
        while batch.count(Keyspace.DISCARDS) > LEDGER_LINES:
            self._drop_oldest()

    def _lines_that_fit(self) -> list[bytes]:
        """The new lines; in a full store one for all of a kind, so that a full queue can still be purged.

        Those replace old lines: otherwise strangers could use up the room that the store keeps for the
        commits that empty it, just by being refused.
        """
        lines = [_encode_line(line) for line in self._new]
        try:
            self._core.batch.reserve(sum(map(len, lines)))
        except StoreFullError:
            lines = [_encode_line(line) for line in self._summary()]
            size = sum(map(len, lines))
            while size > 0 and self._core.batch.count(Keyspace.DISCARDS) > _LINES_WHEN_FULL:
                size -= self._drop_oldest()
        return lines

    def _drop_oldest(self) -> int:
        """Takes the oldest line out; how many bytes it had."""
        oldest = self._core.batch.first(Keyspace.DISCARDS, FIRST, LAST)
        assert oldest is not None
        self._core.batch.delete(Keyspace.DISCARDS, oldest[0])
        return len(oldest[1])

    def _summary(self) -> Iterator[Discard]:
        """A few lines for all, however many queues a stranger may have invented."""
        kinds = Counter((line.queue, line.message_class, line.reason) for line in self._new)
        now, rest = self._core.seconds, len(self._new)
        for (queue, kind, reason), count in kinds.most_common(_SUMMARY_LINES):
            yield Discard(now, queue, "", "", 0, kind, f"{count} messages: {reason}")
            rest -= count
        if rest:
            yield Discard(now, "", "", "", 0, 0, f"{rest} messages of other queues, or for other reasons")

    def lines(self) -> Iterator[Discard]:
        """The ledger, oldest line first; those of the running batch are in it too."""
        for key, data in self._core.batch.range(Keyspace.DISCARDS, FIRST, LAST):
            yield _decode_line(int.from_bytes(key, "big"), data)
        yield from self._new

    def about(self, identifier: str) -> Iterator[Discard]:
        """The lines that name a message, oldest first; those of the running batch are in it too."""
        needle = json.dumps(identifier).encode()
        for key, data in self._core.batch.range(Keyspace.DISCARDS, FIRST, LAST):
            if needle in data:
                yield _decode_line(int.from_bytes(key, "big"), data)
        yield from self._new

    @property
    def oldest(self) -> int | None:
        """The time of the first line that is kept."""
        found = self._core.batch.first(Keyspace.DISCARDS, FIRST, LAST)
        return None if found is None else _decode_line(0, found[1]).time

    def newest(self, before: int | None, limit: int) -> Iterator[tuple[int, Discard]]:
        """Lines that are written already, the newest first, from below a number."""
        for number, data in newest(self._core.batch, Keyspace.DISCARDS, before, limit):
            yield number, _decode_line(number, data)

    def _last_number(self) -> int:
        if self._last is None:
            newest = self._core.batch.last(Keyspace.DISCARDS, FIRST, LAST)
            self._last = 0 if newest is None else int.from_bytes(newest[0], "big")
        return self._last


_FIELDS = tuple(field.name for field in fields(Discard))


def _encode_line(line: Discard) -> bytes:
    # `asdict` takes five times as long, and all messages of a queue may end at once.
    return json.dumps({name: getattr(line, name) for name in _FIELDS}).encode()


def _decode_line(number: int, data: bytes) -> Discard:
    try:
        return Discard(**json.loads(data))
    except (ValueError, TypeError) as problem:
        return Discard(0, "", "", "", 0, 0, f"line {number} of the ledger is damaged ({problem})")
