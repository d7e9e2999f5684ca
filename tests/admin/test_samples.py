"""Depth and throughput of queues over time."""

from itertools import pairwise
from uuid import uuid4

import pytest

from tiercel.admin.samples import KEPT, LONG_STEP_S, STEP_S, Samples
from tiercel.engine.queue_state import QueueState
from tiercel.model.queue import Queue


def new_queue(slot: int = 1) -> QueueState:
    return QueueState(slot, Queue(identifier=uuid4()))


def test_rates_are_those_of_the_last_seconds() -> None:
    samples, queue = Samples(), new_queue()
    queue.entered = 10
    samples.take(100, [queue])
    assert samples.rates(queue) == (0.0, 0.0)
    queue.entered, queue.left = 60, 20
    samples.take(105, [queue])
    assert samples.rates(queue) == (10.0, 4.0)
    samples.take(110, [queue])
    samples.take(115, [queue])
    assert samples.rates(queue) == (0.0, 0.0)


def test_a_queue_that_had_no_message_is_not_sampled() -> None:
    samples, queue = Samples(), new_queue()
    samples.take(100, [queue])
    assert (samples.of(queue, STEP_S), samples.depths(queue, 30)) == ([], [])
    assert samples.rates(queue) == (0.0, 0.0)


def test_ten_minutes_and_two_hours_are_kept() -> None:
    samples, queue = Samples(), new_queue()
    for number in range(KEPT * 12 + 24):
        queue.entered = queue.stored_count = number + 1
        samples.take(1000 + number * STEP_S, [queue])
    short, long = samples.of(queue, STEP_S), samples.of(queue, LONG_STEP_S)
    assert len(short) == len(long) == KEPT
    assert short[-1] == {"time": 1000 + number * STEP_S, "count": number + 1, "in": number + 1, "out": 0}
    assert short[0]["time"] == short[-1]["time"] - (KEPT - 1) * STEP_S
    assert {b["time"] - a["time"] for a, b in pairwise(long)} == {LONG_STEP_S}
    assert samples.depths(queue, 30) == [each["count"] for each in short[::4]]


def test_the_least_recently_changed_queue_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tiercel.admin.samples._MAX_QUEUES", 2)
    samples, queues = Samples(), [new_queue(slot) for slot in range(3)]
    for each in queues[:2]:
        each.entered = 1
    samples.take(0, queues)
    queues[0].entered = 2
    samples.take(5, queues)
    queues[2].entered = 1
    samples.take(10, queues)
    assert [bool(samples.of(each, STEP_S)) for each in queues] == [True, False, True]


def test_a_deleted_queue_is_forgotten() -> None:
    samples, queue = Samples(), new_queue()
    queue.entered = 1
    samples.take(0, [queue])
    queue.is_deleted = True
    samples.take(5, [])
    assert samples.of(queue, STEP_S) == []
