"""Takes the messages of a stream from all its queue managers.

A batch has what could be claimed within the limits when the first messages were there: it waits for a moment
for the others, and not for those that have no messages or cannot be reached.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from pyspark_msmq.admission import Budget
from pyspark_msmq.consumer import Consumer, Waiting
from pyspark_msmq.data_client import PATIENCE_S, EndpointError, EndpointLostError
from pyspark_msmq.lanes import Claimed, Lane
from pyspark_msmq.offsets import Offset, OffsetError, Offsets
from pyspark_msmq.options import StreamOptions
from pyspark_msmq.reading import lose

log = logging.getLogger(__name__)

_POLL_S: Final = 0.1  # between polls of several queues
_GRACE_S: Final = 0.02  # for the others, when the first messages are there
_ANSWER_S: Final = 1.0  # for answers without a poll; a lane that takes longer is heard next time
_FIRST_S: Final = 15.0  # for the first answer of every queue manager, before any driver is fenced
_SAY_S: Final = 30.0


class Managers:
    def __init__(self, options: StreamOptions, *, available_now: bool = False) -> None:
        self._options = options
        self._available_now = available_now
        self._changed = threading.Condition()
        waits = options.waits_for_managers
        patience_s = 0.0 if waits and not available_now else PATIENCE_S
        self.lanes = [
            Lane(Consumer(options.of(endpoint), endpoint, patience_s=patience_s), self._changed, waits=waits)
            for endpoint in options.endpoints
        ]
        self._ends: dict[str, dict[str, int]] = {}  # with availableNow: the numbers to come to
        self._left_out: set[Lane] = set()  # of a run with availableNow
        self._has_met = False
        self._first = 0  # the lane that is asked first, by turns
        self._last_batch = time.monotonic()

    # Attaching.

    def prepare(self) -> None:
        """With availableNow: what is there now is what the run reads."""
        for lane in self.lanes:
            lane.start(self._look_at_ends(lane))
        self._await(self.lanes, PATIENCE_S)
        self._left_out = {lane for lane in self.lanes if lane.down_since is not None}
        for lane in self._left_out:
            log.warning("%s: this run ends without its messages", lane.consumer.endpoint)

    def _look_at_ends(self, lane: Lane) -> Callable[[], None]:
        def work() -> None:
            ends = lane.consumer.ends()
            self._ends[lane.consumer.queue_manager] = ends

        return work

    def _meet(self, checkpoint: Offsets) -> None:
        """Check the checkpoint with every queue manager that answers, before a running driver is fenced."""
        if self._has_met:
            return
        checkpoint.check_belongs(self._options.consumer or "")
        self._side_by_side(lambda consumer: consumer.check(checkpoint))
        self._known(checkpoint)
        self._side_by_side(lambda consumer: consumer.attach(checkpoint))
        self._has_met = True

    def _side_by_side(self, call: Callable[[Consumer], None]) -> None:
        lanes = [lane for lane in self._usable() if lane.is_free]
        for lane in lanes:
            lane.start(partial(call, lane.consumer))
        self._await(lanes, _FIRST_S)

    @property
    def _is_patient(self) -> bool:
        return self._available_now or len(self.lanes) == 1

    def _usable(self) -> list[Lane]:
        """The lanes of this run, by turns."""
        lanes = [lane for lane in self.lanes if lane not in self._left_out]
        turn = self._first % len(lanes) if lanes else 0
        return lanes[turn:] + lanes[:turn]

    def _known(self, checkpoint: Offsets) -> Offsets:
        """The checkpoint without queue managers that are no longer part of the stream."""
        known: dict[str, Lane] = {}
        for lane in self.lanes:
            guid = lane.consumer.queue_manager
            if guid and guid in known:
                first, second = known[guid].consumer.endpoint, lane.consumer.endpoint
                raise OffsetError(f"url: {first} and {second} lead to the same queue manager, {guid}")
            known[guid] = lane
        unknown = sum(not _is_known(lane) for lane in self.lanes)
        missing = sorted(checkpoint.parts.keys() - known.keys())
        if len(missing) > unknown:
            self._refuse(missing, checkpoint, known)
            for guid in missing if not unknown else ():
                checkpoint = checkpoint.without(guid)
        return checkpoint

    def _refuse(self, missing: Sequence[str], checkpoint: Offsets, known: Mapping[str, Lane]) -> None:
        which = ", ".join(missing)
        if len(self.lanes) == 1 or not checkpoint.parts.keys() & known.keys():
            raise OffsetError(
                f"the checkpoint is for queue manager {which}, but url leads to "
                f"{', '.join(sorted(filter(None, known)))}: "
                "use a new checkpointLocation, or the original url"
            )
        lose(
            f"the checkpoint has messages of queue manager {which}, which url no longer names: add it again. "
            "To remove it, give it drain = true in the file of queue managers, until it has left the "
            "checkpoint; if it no longer exists, its messages are lost to this stream",
            fail=self._options.fail_on_data_loss,
        )

    def find(self, queue_managers: set[str], checkpoint: Offsets) -> dict[str, Consumer]:
        """The attached consumers of these queue managers. A batch that Spark has logged cannot do without."""
        self._settle()
        self._meet(checkpoint)
        said = time.monotonic()
        while True:
            found = {lane.consumer.queue_manager: lane.consumer for lane in self.lanes if _is_attached(lane)}
            missing = queue_managers - found.keys()
            if not missing & self._known(checkpoint).parts.keys():
                return found
            for lane in self.lanes:
                if lane.is_free and not _is_attached(lane):
                    lane.start(partial(lane.consumer.attach, checkpoint))
            if time.monotonic() - said > _SAY_S:
                said = time.monotonic()
                log.warning("waiting for queue manager %s, to read a batch again", ", ".join(sorted(missing)))
            self._pause()
            self._settle()

    # Taking messages.

    def latest(self, start: Offsets, budget: Budget, limit: Budget) -> Offsets:
        """The end of the next batch; `limit` is that of the one after it."""
        self._settle()
        self._meet(start)
        at = self._known(start)
        if self._available_now:  # a batch without messages is the end of the run
            self._await(self._usable(), PATIENCE_S)
        self._left_out |= {lane for lane in self.lanes if _is_known(lane) and lane.consumer.is_leaving(at)}
        self._rewind(at)
        self._confirm()
        self._first += 1
        end = self._collect(at, at, budget)
        if not self._must_wait(at, budget.least):
            end = self._take(at, end, budget)
        end = self._without_drained(at, end)
        if end != start:
            self._last_batch = time.monotonic()
        self._prefetch(at, end, limit)
        return end

    def _rewind(self, at: Offsets) -> None:
        """Drop what is held and does not follow the offset; it is claimed, and will be offered again."""
        for lane in self.lanes:
            if lane.held is not None:
                part = at.part(lane.consumer.queue_manager)
                if lane.held.begin != lane.consumer.begin(part):
                    lane.held = None

    def _confirm(self) -> None:
        """What is held was claimed a while ago: check that no other driver has taken over since."""
        held = [(lane, lane.hand_out()) for lane in self._usable() if lane.held is not None]
        for lane, _ in held:
            lane.start(lane.consumer.confirm)
        self._await([lane for lane, _ in held], _ANSWER_S)
        for lane, claimed in held:
            if not lane.is_busy and lane.down_since is None:
                lane.held = claimed

    def _collect(self, at: Offsets, end: Offsets, budget: Budget) -> Offsets:
        """Hand out what is held, within the limits of the batch; at least something."""
        for lane in self._usable():
            if lane.held is None or budget.is_spent:
                continue
            if end != at and not budget.has(lane.held.rows, lane.held.size_bytes):
                continue
            claimed = lane.hand_out()
            budget.take(claimed.rows, claimed.size_bytes)
            end = end.with_part(claimed.end)
        return end

    def _take(self, at: Offsets, end: Offsets, budget: Budget) -> Offsets:
        """Claim until the limits are reached or no queue manager has more."""
        is_poll = end == at and not self._available_now
        # Each for one message, at least; but what was claimed ahead up to the limits needs no rest, for which
        # the batch would wait.
        asked = [lane for lane in self._usable() if lane.is_free and not _is_served(lane, at, end)]
        share = budget.shared(max(len(asked), 1))
        while not budget.is_spent:
            for lane in asked:
                wait_ms = self._options.poll_timeout_ms if is_poll else 0
                lane.start(self._claim(lane, at, end, share.shared(1), wait_ms))
            if is_poll:
                self._await_first()
            else:
                self._await(asked, _ANSWER_S)
            end, is_poll = self._collect(at, end, budget), False
            asked = [lane for lane in asked if lane.is_free and lane.is_full]
            before, share = share, budget.shared(max(len(asked), 1))
            # Less than half: the next messages are too large for what is left.
            if not asked or len(self.lanes) == 1 or share.is_less_than_half(before):
                break
        return end

    def _claim(
        self, lane: Lane, at: Offsets, end: Offsets, share: Budget, wait_ms: int
    ) -> Callable[[], Claimed]:
        """Acknowledge what Spark has finished, and claim what follows the end."""
        consumer, is_eager = lane.consumer, self._options.ack_timing == "eager"

        def work() -> Claimed:
            consumer.attach(at, look_again=not self._available_now)
            done = at.part(consumer.queue_manager)
            begin = consumer.begin(done)
            if is_eager:
                consumer.acknowledge(done)
            reached = end.part(consumer.queue_manager)
            begin = begin if reached == done else reached
            ends = dict(self._ends.get(consumer.queue_manager, {})) if self._available_now else {}
            claimed = _claim_or_wait(consumer, begin, share, ends, wait_ms)
            return Claimed(begin, claimed, share.is_spent)

        return work

    def _prefetch(self, at: Offsets, end: Offsets, limit: Budget) -> None:
        """Acknowledge finished messages; claim the next batch where this one had its limit."""
        full = [lane for lane in self._usable() if lane.is_free and lane.is_full and not limit.least]
        for lane in self._usable():
            if not lane.is_free or not _is_attached(lane):
                continue
            guid = lane.consumer.queue_manager
            if lane in full and _is_served(lane, at, end):
                lane.start(self._claim(lane, at, end, limit.shared(len(full)), 0))
            elif self._options.ack_timing == "eager" and not lane.consumer.is_acknowledged(at.part(guid)):
                lane.start(partial(lane.consumer.acknowledge, at.part(guid)))

    def _must_wait(self, at: Offsets, least: int) -> bool:
        """Whether there are too few messages (minMessagesPerTrigger) and none has waited too long."""
        deadline = time.monotonic() + self._options.poll_timeout_ms / 1000
        while least and not self._available_now:
            if time.monotonic() - self._last_batch >= self._options.max_trigger_delay:
                return False
            ready = [(guid, each) for guid, found in self.waiting().items() for each in found]
            claimed = any(each.hi > _hi(at.part(guid), each.guid) for guid, each in ready)
            if claimed or sum(each.count for _, each in ready) >= least:
                return False
            if time.monotonic() >= deadline:
                return True
            time.sleep(_POLL_S)
        return False

    # Leaving.

    def _without_drained(self, at: Offsets, end: Offsets) -> Offsets:
        for lane in self.lanes:
            guid = lane.consumer.queue_manager
            if not lane.consumer.endpoint.drain or guid not in at.parts or lane.is_busy:
                continue
            if end.part(guid) == at.part(guid) and lane.consumer.is_drained(at.part(guid)):
                log.warning("%s: nothing is claimed any more; remove it from url", lane.consumer.endpoint)
                end = end.without(guid)
        return end

    # Acknowledging.

    def commit(self, done: Offsets) -> None:
        attached = self.find(set(), done)
        for lane in self.lanes:
            guid = lane.consumer.queue_manager
            is_under_way = self._options.ack_timing == "eager" and lane.is_busy
            if guid not in attached or is_under_way or lane.down_since is not None:
                continue
            try:
                lane.consumer.commit(done.part(guid))
            except EndpointLostError:  # acknowledged later, with a greater offset
                if not self._options.waits_for_managers:
                    raise

    # Lag.

    def waiting(self) -> dict[str, list[Waiting]]:
        """What is left to claim, by queue manager; without those that do not answer."""
        found: dict[str, list[Waiting]] = {}

        def ask(lane: Lane) -> None:
            try:
                found[lane.consumer.queue_manager] = waiting = lane.consumer.waiting()
            except EndpointError as problem:
                log.info("%s: the lag is unknown (%s)", lane.consumer.endpoint, problem)
            else:
                lane.last_waiting = {each.path: each.count for each in waiting}

        lanes = [lane for lane in self.lanes if _is_attached(lane) and lane.down_since is None]
        if len(lanes) == 1:
            ask(lanes[0])
            return found
        threads = [threading.Thread(target=ask, args=(lane,), daemon=True) for lane in lanes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return found

    def report(self) -> dict[str, Any] | None:
        """The offset after everything was read, and the lag by queue, for the progress of the query."""
        waiting = self.waiting()
        queues = {
            guid: {each.guid: {"e": each.epoch, "hi": each.hi + each.count} for each in found}
            for guid, found in sorted(waiting.items())
        }
        down = [lane for lane in self.lanes if lane.down_since is not None]
        if not queues and not down:
            return None
        name = self._options.consumer
        said: dict[str, Any] = {"c": name, "m": queues, "v": 2}
        if len(self.lanes) == 1:
            ((guid, only),) = queues.items() or [("", {})]
            said = {"c": name, "q": only, "qm": guid, "v": 1}
        said["lag"] = self._lag()
        if down:
            now = time.monotonic()
            said["unreachable"] = {
                str(lane.consumer.endpoint): round(now - (lane.down_since or now)) for lane in down
            }
        return said

    def _lag(self) -> dict[str, int]:
        """By the name of the queue; for an unreachable queue manager, what was known last."""
        lag: Counter[str] = Counter()
        for lane in self.lanes:
            lag.update(lane.last_waiting)
        return dict(sorted(lag.items()))

    # Waiting for lanes.

    def _await(self, lanes: Sequence[Lane], seconds: float) -> None:
        """Until these have done their work; with several, those that take too long are heard next time."""
        deadline = time.monotonic() + seconds
        while any(lane.is_busy for lane in lanes) and (self._is_patient or time.monotonic() < deadline):
            self._pause()
            self._settle()

    def _await_first(self) -> None:
        """Until one has messages, and a moment more for the others; or all have answered, or time is up.

        When all are unreachable, this is the pause until the next attempt.
        """
        deadline = time.monotonic() + self._options.poll_timeout_ms / 1000 + _GRACE_S
        was_busy, is_late = any(lane.is_busy for lane in self.lanes), False
        while True:
            self._settle()
            if was_busy and not any(lane.is_busy for lane in self.lanes):
                return
            if not is_late and any(lane.held is not None for lane in self.lanes):
                deadline, is_late = min(deadline, time.monotonic() + _GRACE_S), True
            if time.monotonic() >= deadline and not (self._is_patient and self.lanes[0].is_busy):
                return
            self._pause(deadline - time.monotonic())

    def _pause(self, longest_s: float = _POLL_S) -> None:
        with self._changed:
            if not any(lane.is_done for lane in self.lanes):
                self._changed.wait(max(min(longest_s, _POLL_S), 0))

    def _settle(self) -> None:
        for lane in self.lanes:
            if lane.is_done:
                lane.settle()

    def join(self) -> None:
        for lane in self.lanes:
            lane.join()

    def close(self) -> None:
        self.join()
        for lane in self.lanes:
            lane.consumer.close()


def _claim_or_wait(
    consumer: Consumer, begin: Offset, share: Budget, ends: dict[str, int], wait_ms: int
) -> Offset:
    if consumer.endpoint.drain:
        ends, wait_ms = {guid: queue.hi for guid, queue in consumer.queues.items()}, 0
    if len(consumer.queues) == 1:
        return consumer.claim(begin, share, ends, wait_ms)
    deadline = time.monotonic() + wait_ms / 1000
    while (found := consumer.claim(begin, share, dict(ends))) == begin and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    return found


def _is_served(lane: Lane, at: Offsets, end: Offsets) -> bool:
    """Whether the batch has all that the lane was asked for."""
    guid = lane.consumer.queue_manager
    return lane.is_full and end.part(guid) != at.part(guid)


def _is_known(lane: Lane) -> bool:
    return bool(lane.consumer.queue_manager)


def _is_attached(lane: Lane) -> bool:
    return lane.consumer.is_attached


def _hi(part: Offset, guid: str) -> int:
    reached = part.queues.get(guid)
    return reached.hi if reached else 0
