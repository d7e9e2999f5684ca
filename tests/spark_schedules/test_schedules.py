"""Some schedules; `make proof-spark` runs ten thousand. Planted bugs show what they find."""

import random
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest

from pyspark_msmq import managers, reading, writers
from pyspark_msmq.consumer import Consumer
from pyspark_msmq.offsets import Offset, Offsets
from spark_schedules.schedule import Schedule

SEEDS = range(1, 41)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_message_is_in_the_sink_once(seed: int) -> None:
    schedule = Schedule(seed)
    schedule.run()
    assert schedule.sent


def is_found() -> bool:
    """Whether one of the schedules fails."""
    for seed in range(1, 61):
        try:
            Schedule(seed).run()
        except (AssertionError, RuntimeError):
            return True
    return False


class TestPlantedBugs:
    def test_acknowledged_when_claimed(self) -> None:
        honest = Consumer.claim

        def claim(self: Consumer, *arguments: Any) -> Offset:
            end = honest(self, *arguments)
            self.acknowledge(end)
            return end

        with mock.patch.object(Consumer, "claim", claim):
            assert is_found()

    def test_stages_published_under_a_new_name_each_time(self) -> None:
        honest = writers._publish

        def publish(options: Any, app: str, batch: str, messages: Any) -> None:
            honest(options, f"{app}{random.random()}", batch, messages)

        with mock.patch.object(writers, "_publish", publish):
            assert is_found()

    def test_every_attempt_is_published(self) -> None:
        """Of two attempts of a task, Spark counts one."""
        kept: list[Any] = []
        honest = writers._stage, writers._publish

        def stage(*arguments: Any) -> Any:
            kept.append(honest[0](*arguments))
            return kept[-1]

        def publish(options: Any, app: str, batch: str, _messages: Any) -> None:
            honest[1](options, app, batch, kept)
            kept.clear()

        with mock.patch.object(writers, "_stage", stage), mock.patch.object(writers, "_publish", publish):
            assert is_found()

    def test_a_queue_manager_that_went_away_is_forgotten(self) -> None:
        honest = managers.Managers.latest

        def latest(self: managers.Managers, start: Offsets, *budgets: Any) -> Offsets:
            end = honest(self, start, *budgets)
            for lane in self.lanes:
                if lane.down_since is not None:
                    end = end.without(lane.consumer.queue_manager)
            return end

        with mock.patch.object(managers.Managers, "latest", latest):
            assert is_found()

    def test_a_task_that_leaves_out_the_last_message(self) -> None:
        honest = reading._batches

        def batches(options: Any, names: Any, piece: Any, consumer: Any) -> Iterator[Any]:
            for batch in honest(options, names, piece, consumer):
                yield batch.slice(0, max(batch.num_rows - 1, 1))

        with mock.patch.object(reading, "_batches", batches):
            assert is_found()
