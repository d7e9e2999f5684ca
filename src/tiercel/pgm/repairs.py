"""The repair of missing packets: one small machine for each number. RFC 3208 6.3.

    BACK_OFF    wait a moment: another receiver may ask first
    WAIT_NCF    asked; wait for the source to confirm
    WAIT_DATA   confirmed; wait for the packet

A matching NAK of another receiver leads from BACK_OFF to WAIT_NCF, as in the RFC's figure (the text differs).
Numbers beyond `TRACKED_MAX` have no timers yet and wait in ranges, so that a large gap costs no memory.
"""

import heapq
from bisect import bisect_right
from collections.abc import Callable, Iterable
from enum import Enum, auto

from tiercel.pgm.limits import REPAIR_MAX_S, TRACKED_MAX
from tiercel.pgm.settings import Settings


class State(Enum):
    BACK_OFF = auto()
    WAIT_NCF = auto()
    WAIT_DATA = auto()


class Repair:
    __slots__ = ("data_tries", "deadline", "ncf_tries", "since", "state")

    def __init__(self, now: float) -> None:
        self.state = State.BACK_OFF
        self.deadline = self.since = now
        self.ncf_tries = self.data_tries = 0


class Repairs:
    def __init__(self, settings: Settings, draw: Callable[[], float]) -> None:
        """`draw` gives random numbers from 0 to 1."""
        self._settings = settings
        self._draw = draw
        self._tracked: dict[int, Repair] = {}
        self._heap: list[tuple[float, int]] = []  # entries that are no longer true are skipped
        self._ranges: list[tuple[int, int]] = []  # first and last, in order, all after the tracked ones

    def __contains__(self, number: int) -> bool:
        return number in self._tracked or self._range_of(number) is not None

    def _range_of(self, number: int) -> int | None:
        """The index of the range that has the number."""
        index = bisect_right(self._ranges, number, key=lambda each: each[0]) - 1
        return index if index >= 0 and number <= self._ranges[index][1] else None

    def __len__(self) -> int:
        return len(self._tracked) + sum(last - first + 1 for first, last in self._ranges)

    @property
    def first(self) -> int | None:
        """The smallest number that is being repaired."""
        in_ranges = self._ranges[0][0] if self._ranges else None
        return next(iter(self._tracked), in_ranges)  # tracked in ascending order

    # Inputs.

    def lack(self, first: int, last: int, now: float) -> None:
        """These numbers, all larger than any before, are missing."""
        self._ranges.append((first, last))
        self._track(now)

    def _track(self, now: float) -> None:
        """One back-off for all numbers that are found together, so that they fit into one NAK."""
        back_off = self._back_off(now)
        while self._ranges and len(self._tracked) < TRACKED_MAX:
            first, last = self._ranges[0]
            end = min(last, first + TRACKED_MAX - len(self._tracked) - 1)
            self._ranges[:1] = [(end + 1, last)] if end < last else []
            for number in range(first, end + 1):
                self._tracked[number] = repair = Repair(now)
                self._set(number, repair, State.BACK_OFF, back_off)

    def got(self, number: int) -> None:
        """The packet has arrived, or is given up."""
        if self._tracked.pop(number, None) is not None:
            return
        index = self._range_of(number)
        if index is not None:
            first, last = self._ranges[index]
            halves = (first, number - 1), (number + 1, last)
            self._ranges[index : index + 1] = [(start, end) for start, end in halves if start <= end]

    def forget_before(self, trail: int) -> None:
        """The source can repair nothing before `trail`."""
        for number in [number for number in self._tracked if number < trail]:
            del self._tracked[number]
        while self._ranges and self._ranges[0][0] < trail:
            last = self._ranges[0][1]
            self._ranges[:1] = [(trail, last)] if last >= trail else []

    def clear(self) -> None:
        self._tracked.clear()
        self._heap.clear()
        self._ranges.clear()

    def nak_heard(self, numbers: Iterable[int], now: float) -> None:
        for number in numbers:
            repair = self._tracked.get(number)
            if repair is None:
                continue
            if repair.state is State.WAIT_DATA:
                self._set(number, repair, State.WAIT_DATA, now + self._settings.nak_data_s)
            else:
                self._set(number, repair, State.WAIT_NCF, now + self._settings.nak_repeat_s)

    def ncf_heard(self, numbers: Iterable[int], now: float) -> None:
        for number in numbers:
            if (repair := self._tracked.get(number)) is not None:
                self._set(number, repair, State.WAIT_DATA, now + self._settings.nak_data_s)

    # Time.

    @property
    def next_deadline(self) -> float | None:
        while self._heap:
            deadline, number = self._heap[0]
            repair = self._tracked.get(number)
            if repair is not None and repair.deadline == deadline:
                return deadline
            heapq.heappop(self._heap)
        return None

    def run(self, now: float) -> tuple[list[int], list[int]]:
        """The numbers to ask for now, in order, and those to give up. Call `asked` for those that were."""
        self._track(now)
        due, lost = [], []
        back_off = self._back_off(now)
        while (deadline := self.next_deadline) is not None and deadline <= now:
            number = heapq.heappop(self._heap)[1]
            repair = self._tracked[number]
            if repair.deadline >= repair.since + REPAIR_MAX_S or self._has_failed(repair):
                del self._tracked[number]
                lost.append(number)
            elif repair.state is State.BACK_OFF:
                due.append(number)
            else:
                self._set(number, repair, State.BACK_OFF, back_off)
        return sorted(due), lost

    def asked(self, numbers: Iterable[int], now: float) -> None:
        """A NAK for the numbers is on its way."""
        for number in numbers:
            self._set(number, self._tracked[number], State.WAIT_NCF, now + self._settings.nak_repeat_s)

    def postponed(self, numbers: Iterable[int], until: float) -> None:
        """No NAK may be sent for the numbers before `until`."""
        for number in numbers:
            self._set(number, self._tracked[number], State.BACK_OFF, until)

    def _has_failed(self, repair: Repair) -> bool:
        """A wait has ended without success: NAK_NCF_RETRIES and NAK_DATA_RETRIES."""
        if repair.state is State.WAIT_NCF:
            repair.ncf_tries += 1
            return repair.ncf_tries >= self._settings.ncf_retries
        if repair.state is State.WAIT_DATA:
            repair.data_tries += 1
            return repair.data_tries >= self._settings.data_retries
        return False

    def _set(self, number: int, repair: Repair, state: State, deadline: float) -> None:
        deadline = min(deadline, repair.since + REPAIR_MAX_S)  # a flood of NCFs must not postpone it for ever
        repair.state, repair.deadline = state, deadline
        heapq.heappush(self._heap, (deadline, number))
        if len(self._heap) > 4 * TRACKED_MAX + 2 * len(self._tracked):
            self._heap = [(each.deadline, number) for number, each in self._tracked.items()]
            heapq.heapify(self._heap)

    def _back_off(self, now: float) -> float:
        low, high = self._settings.nak_back_off_min_s, self._settings.nak_back_off_max_s
        return now + low + (high - low) * self._draw()
